"""A guard: a model's order is used only for kinds of searches in which it was shown not to lose.

Searches are put into kinds that are known before anything is clicked (how long the text is, whether the user
shares a position, …); each search is of one kind. For each kind a test on searches that had no part in the
training asks whether the model loses less than a margin. Where that is not shown the engine's order stays.

The guard's margin, `tolerance`, is not that of `would_have`. That gate judges a whole model once, by all
searches, and 0.005 of all is much. A guard judges each kind alone, some with a twentieth of the searches, and
never lets a kind pass whose mean is negative; with 0.005 it would leave much of a true gain to the engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import (
    AnyArray,
    BadInput,
    Bools,
    Cell,
    Floats,
    Grid,
    Ints,
    Shown,
    as_labels,
    as_offsets,
    as_same_length,
    as_scores,
    check_share,
    format_difference,
    number_clusters,
    render_grid,
)
from placings.metrics import mrr
from placings.rerank.gain_bounds import GainBound, bound_gain
from placings.rerank.search_kinds import ABSENT, COLUMNS, describe_search, describe_searches

VERSION, OLD_VERSION = 2, 1
WEIGHTS = (1.0,)  # of the model in a blend; 0 is the engine alone
CROSS = " × "
ALL = "all"
TOLERANCE = (
    0.02  # the loss in MRR that a kind is kept from: docs/reranking.md tells what smaller margins cost
)
NAMED = 3  # undecided kinds of which the table says how many people they need
CLIP = 20.0  # what a click counts at most, of 1/propensity
SMALL = 0.05  # the share of a kind's searches that may be in kinds of fewer than `least` when it is divided
CLICKS, DEBIASED = "clicks", "propensity"
LEANS = (
    "Judged by raw clicks, which lean to the engine: people look at what it put on top. A better model may "
    "look worse here; propensities (estimate_propensity) take the lean away."
)
WEIGHED = (
    "Judged by clicks that count 1/propensity, as if each search wanted one item: the lean to the engine is "
    "taken away as far as the propensities are right."
)


@dataclass(frozen=True)
class KindVerdict:
    """What searches set apart said of one kind, and the model's share of the order that follows.

    `difference` is the mean reciprocal rank of the blend with this share minus the engine's, `low` its lower
    bound, `clusters` how many people or sessions the searches are of. Where the engine stays they are the
    model's own. `shrunk` is known of guards that version 0.1 fitted.
    """

    by: str
    value: str
    searches: int
    difference: float
    low: float
    weight: float
    clusters: int = 0
    shrunk: float | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Guard(Shown):
    """The share of the model in the order of each kind of search: 0 is the engine's order, 1 the model's.

    A search is of one kind. A kind that was not seen when the guard was fitted keeps the engine's order.
    `overall` is what all searches together said; nothing follows from it. `forgone` is what undecided kinds
    would have gained, by their means, for each of all searches.

    >>> context = {"length": np.array(["short", "long"] * 50)}
    >>> offsets, labels = np.arange(0, 201, 2), np.tile([0.0, 1.0, 1.0, 0.0], 50)
    >>> model = np.tile([0.0, 1.0, 0.0, 1.0], 50)  # right in short searches, wrong in long ones
    >>> guard = fit_guard(model, -np.tile([1.0, 2.0], 100), labels, offsets, context)
    >>> guard.find_weights({"length": np.array(["short", "long", "never seen"])}, 3)
    array([1., 0., 0.])

    A guard that version 0.1 fitted (`old`) works as it did: its kinds overlap, the smallest share of them
    counts, and a kind that was not seen has the share of all searches.
    """

    overall: KindVerdict
    verdicts: tuple[KindVerdict, ...]
    tolerance: float = TOLERANCE
    level: float = 0.95
    forgone: float = 0.0
    judged_by: str = CLICKS
    old: bool = False

    def find_weights(self, context: Mapping[str, ArrayLike], searches: int) -> Floats:
        """The model's share for each search, `[searches]`."""
        weights = np.full(searches, np.inf)
        for by, names, known in self._dimensions:
            values = self._read_kinds(context, names, searches)
            if values is None:
                continue
            if len(values) != searches:
                raise BadInput(f"context {by!r} must have a value for each of {searches} searches. "
                               f"Got {len(values)}.")  # fmt: skip
            found = np.array([known.get(value, np.inf) for value in values], dtype=np.float64)
            weights = np.minimum(weights, found)
        return np.where(np.isinf(weights), self._rest, weights)

    def apply(self, scores: ArrayLike, rows: Any, offsets: ArrayLike | None) -> Floats:
        """Guarded scores for rows with a `position` (or a `score`) and what describes the search.

        `rows` is a table or a dict of columns, the rows of a search together; see `describe_searches`.
        """
        given = as_scores(scores)
        borders = as_offsets(offsets, len(given))
        return self.blend(
            given, find_engine_scores(rows, len(given)), borders, describe_searches(rows, borders)
        )

    def apply_live(
        self, scores: Floats, context: Mapping[str, Any], items: Sequence[Mapping[str, Any]]
    ) -> Floats:
        """`apply` for one live list: a column that no item has is the context's."""
        rows: dict[str, list[Any]] = {}
        for name in COLUMNS:
            if any(name in item for item in items):
                rows[name] = [item.get(name, context.get(name)) for item in items]
            elif name in context:
                rows[name] = [context[name]] * len(items)
        weight = self._find_weight(describe_search(rows))
        if weight == 1.0:
            return scores
        engine = find_engine_scores(rows, len(scores))
        return blend_scores(scores, engine, np.array([0, len(scores)]), np.array([weight]))

    def _find_weight(self, kinds: Mapping[str, str]) -> float:
        """`find_weights` of one search."""
        told = kinds if self.old else {**ABSENT, **kinds}
        least = math.inf
        for _, names, known in self._dimensions:
            if all(name in told for name in names):
                least = min(least, known.get(CROSS.join([told[name] for name in names]), math.inf))
        return self._rest if math.isinf(least) else least

    def _read_kinds(
        self, context: Mapping[str, ArrayLike], names: Sequence[str], searches: int
    ) -> list[str] | None:
        """The kind of each search in these dimensions; None if one of them is not known.

        What a log does not tell of any search is what a search is that does not tell it. Guards of version
        0.1 left such a dimension out.
        """
        columns = []
        for name in names:
            if name in context:
                columns.append([str(value) for value in np.asarray(context[name], dtype=object).tolist()])
            elif not self.old and name in ABSENT:
                columns.append([ABSENT[name]] * searches)
            else:
                return None
        if not columns:
            return [""] * searches
        return [CROSS.join(values) for values in zip(*columns, strict=True)]

    @property
    def _rest(self) -> float:
        return self.overall.weight if self.old else 0.0

    @cached_property
    def _dimensions(self) -> list[tuple[str, list[str], dict[str, float]]]:
        table: dict[str, dict[str, float]] = {}
        for each in self.verdicts:
            table.setdefault(each.by, {})[each.value] = each.weight
        return [(by, [] if by == ALL else by.split(CROSS), known) for by, known in table.items()]

    def blend(
        self,
        scores: ArrayLike,
        engine_scores: ArrayLike,
        offsets: ArrayLike | None,
        context: Mapping[str, ArrayLike],
    ) -> Floats:
        """Scores whose order is the engine's, the model's or between them, as the search's kind says.

        Where a share is 0 or 1 the scores are those given, so ties stay what they were.
        """
        model, engine, borders = _check_pair(scores, engine_scores, offsets)
        weights = self.find_weights(context, len(borders) - 1)
        return blend_scores(model, engine, borders, weights)

    def left_to_engine(self, context: Mapping[str, ArrayLike], searches: int) -> float:
        """The share of these searches that keep the engine's order; NaN of none."""
        return float((self.find_weights(context, searches) == 0.0).mean()) if searches else float("nan")

    def people_needed(self, verdict: KindVerdict) -> int | None:
        """How many people or sessions of a kind would let it pass, if its gain stays what it was.

        `clusters · ((difference − low) / (difference + tolerance))²`, rounded up, since the distance from the
        mean to its bound shrinks with the root of the number of people or faster. None where the number is
        not to be had from `low`: the kind passed, its mean is negative, `low` is −1 (fewer than two people's
        worth), or a guard of version 0.1 did not count people.
        """
        room = verdict.difference + self.tolerance
        open_still = verdict.weight == 0.0 and verdict.difference >= 0.0 and room > 0.0
        if not open_still or verdict.low <= -1.0 or not verdict.clusters:
            return None
        return math.ceil(verdict.clusters * ((verdict.difference - verdict.low) / room) ** 2)

    def table(self, format: str = "text") -> str:
        """All kinds, the least gain first, what was forgone, and what the verdicts rest on."""
        kinds = sorted(self.verdicts, key=lambda each: each.low)
        rows = tuple(
            (
                Cell(_name_kind(each)), Cell(f"{each.searches:,}"),
                Cell(f"{each.clusters:,}" if each.clusters else "-"),
                Cell(format_difference(each.difference)), Cell(format_difference(each.low)),
                Cell(f"{each.weight:g}" if self.old or each is not self.overall else "-"),
            )
            for each in (self.overall, *kinds)
        )  # fmt: skip
        header = ("searches of", "searches", "people or sessions", "MRR gained", "at least", "model's share")
        return render_grid(Grid(header, rows, tuple(self._say_notes())), format)

    def _say_notes(self) -> Iterator[str]:
        if self.old:
            yield "A share of 0 leaves the engine's order. 'At least' is the lower bound of the shrunk gain."
            yield "Fitted by version 0.1, which let kinds pass that lose. Fit the re-ranker again."
            return
        margin = f"{self.tolerance:g}"
        yield (
            "A kind has the model's order where its mean is not negative and it was shown to lose less than "
            f"{margin} ('at least' is −{margin} or more). One that truly loses {margin} or more passes with "
            f"a probability of {1.0 - self.level:.0%} at most; a smaller loss may pass more often. A share "
            "of 0, and any kind not listed, keeps the engine's order."
        )
        left = [each for each in self.verdicts if each.weight == 0.0]
        if left:
            searches = sum(each.searches for each in left) / max(1, self.overall.searches)
            yield (
                f"Left to the engine: {len(left)} of {len(self.verdicts)} kinds, {searches:.0%} of the "
                f"searches. Gain forgone in those undecided: {format_difference(self.forgone)} MRR a search, "
                "over all searches, by their means."
            )
        needs = sorted((each for each in left if self.people_needed(each)), key=lambda each: -each.searches)
        if needs:
            told = "; ".join(
                f"{_name_kind(each)} {self.people_needed(each):,} (seen: {each.clusters:,})"
                for each in needs[:NAMED]
            )
            yield f"People or sessions that would decide, if the gain stays what it was: about {told}."
        yield LEANS if self.judged_by == CLICKS else WEIGHED

    def to_dict(self) -> dict[str, Any]:
        return self.to_state()

    def to_state(self) -> dict[str, Any]:
        """Plain values for JSON; a guard of version 0.1 in its own form."""
        if self.old:
            return {
                "guard": OLD_VERSION,
                "tolerance": self.tolerance,
                "overall": _write_verdict(self.overall, "shrunk"),
                "verdicts": [_write_verdict(each, "shrunk") for each in self.verdicts],
            }
        return {
            "guard": VERSION,
            "tolerance": self.tolerance,
            "level": self.level,
            "forgone": self.forgone,
            "judged_by": self.judged_by,
            "overall": _write_verdict(self.overall, "clusters"),
            "verdicts": [_write_verdict(each, "clusters") for each in self.verdicts],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Guard:
        """The reverse of `to_state`; anything that is not a guard of version 1 or 2 is refused."""
        version = state.get("guard") if isinstance(state, Mapping) else state
        if version not in (OLD_VERSION, VERSION) or isinstance(version, bool):
            raise BadInput(f"a guard's state must be of version {OLD_VERSION} or {VERSION}. Got {version!r}.")
        old = version == OLD_VERSION
        try:
            overall = _read_verdict(state["overall"], old)
            verdicts = tuple(_read_verdict(each, old) for each in state["verdicts"])
            tolerance = float(state["tolerance"])
            if old:
                return cls(overall, verdicts, tolerance, old=True)
            level, forgone, judged_by = float(state["level"]), float(state["forgone"]), state["judged_by"]
            if judged_by not in (CLICKS, DEBIASED) or not math.isfinite(forgone):
                raise ValueError(f"judged by {judged_by!r}, forgone {forgone!r}")
            return cls(overall, verdicts, tolerance, level, forgone, judged_by)
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"a guard's state is damaged: {error}. Fit the guard again.") from error


def fit_guard(
    scores: ArrayLike,
    engine_scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None,
    context: Mapping[str, ArrayLike],
    *,
    clusters: ArrayLike | None = None,
    propensity: ArrayLike | None = None,
    weights: Sequence[float] = WEIGHTS,
    tolerance: float = TOLERANCE,
    level: float = 0.95,
    least: int = 0,
) -> Guard:
    """Judge each kind of search on data that had no part in the training: neither learned nor stopped from.

    For every share w the blend `w · model + (1 − w) · engine` (standardised in its list) is compared with the
    engine, search by search, by the reciprocal rank of the first relevant row. A share passes in a kind if
    the lower bound of the mean difference (`bound_gain`, one-sided at `level`) is −`tolerance` or more and
    the mean is not negative. A kind has the largest share that passes, and 0, the engine's order, if none
    does. With several shares each is tested at (1 − `level`) divided by their number, so that a kind in which
    every share loses `tolerance` or more is re-ordered with a probability of 1 − `level` at most. A kind that
    loses less may pass more often, up to half the time as its loss goes to 0: a smaller `tolerance` keeps it
    out and leaves more of the true gains to the engine. No kind borrows from another.

    Kinds are the combinations of all dimensions of `context` (`{dimension: [searches]}`). With `least` the
    second and every later dimension divides a kind only where 95 % of its searches are then in kinds of
    `least` searches or more: how coarse kinds are hangs on counts alone, never on what was gained.

    `clusters` names the person or session of each search: what is of one cluster counts together (None: each
    search by itself). Searches without a relevant row, or with fewer than two rows, say nothing.

    `propensity` `[rows]` is the probability that a row's place was looked at. A clicked row then counts
    1/propensity (20 at most), and the difference is that of its own reciprocal rank: the mean, over weights,
    is MRR's difference without the lean of clicks to the engine if a search wants one item. Rows that are not
    clicked need none.

    Schuirmann: A comparison of the two one-sided tests procedure, 1987 (a margin).
    """
    model, engine, borders = _check_pair(scores, engine_scores, offsets)
    grades = as_labels(labels)
    as_same_length(model, grades, "scores and labels")
    shares = _check_weights(weights)
    check_share("level", level)
    check_tolerance("tolerance", tolerance)
    if not least >= 0:
        raise BadInput(f"least must be 0 or more. Got {least!r}.")
    if propensity is None:
        gains = measure_gains(model, engine, grades, borders, shares)
        counts = np.ones(len(gains))
    else:
        seen = _check_propensity(propensity, grades)
        gains, counts = weigh_gains(model, engine, grades, borders, shares, seen)
    return judge_gains(
        gains, context, clusters=clusters, counts=counts, shares=shares, tolerance=tolerance, level=level,
        least=least, judged_by=CLICKS if propensity is None else DEBIASED,
    )  # fmt: skip


def check_tolerance(name: str, value: object) -> None:
    """Refuse what is no loss in reciprocal rank: a number from 0 to below 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
        raise BadInput(f"{name} must be a number from 0 to below 1. Got {value!r}.")


def judge_gains(
    gains: Floats,
    context: Mapping[str, ArrayLike],
    *,
    clusters: ArrayLike | None = None,
    counts: Floats | None = None,
    shares: Sequence[float] = WEIGHTS,
    tolerance: float = TOLERANCE,
    level: float = 0.95,
    least: int = 0,
    judged_by: str = CLICKS,
) -> Guard:
    """The guard of gains that were measured, `[searches, shares]`; NaN where a search says nothing."""
    judged: Bools = ~np.asarray(np.isnan(gains).any(axis=1))
    if not judged.any():
        raise BadInput(
            "no search has two rows and something relevant, so a guard has nothing to go by. Give more data."
        )
    size = np.ones(len(gains)) if counts is None else counts
    people = np.arange(len(gains)) if clusters is None else number_clusters(clusters)
    for name, values in (*context.items(), ("clusters", people)):
        if len(np.asarray(values)) != len(gains):
            raise BadInput(f"context {name!r} must have a value for each of {len(gains)} searches. "
                           f"Got {len(np.asarray(values))}.")  # fmt: skip

    def judge(members: Ints) -> tuple[float, GainBound]:
        return _test_shares(gains[members], people[members], size[members], shares, tolerance, level)

    everything = np.flatnonzero(judged)
    weight, bound = judge(everything)
    overall = _tell(ALL, "", len(everything), weight, bound)
    verdicts, forgone = [], 0.0
    columns = {
        name: np.array([str(value) for value in np.asarray(values, dtype=object).tolist()], dtype=object)
        for name, values in context.items()
    }
    for told, members in _divide(columns, everything, list(columns), (), least):
        weight, bound = judge(members)
        by, value = CROSS.join(name for name, _ in told) or ALL, CROSS.join(value for _, value in told)
        verdicts.append(_tell(by, value, len(members), weight, bound))
        if weight == 0.0 and bound.high >= 0.0:  # undecided: not shown to lose
            forgone += bound.mean * float(size[members].sum() / size[everything].sum())
    return Guard(overall, tuple(verdicts), tolerance, level, forgone, judged_by)


def measure_gains(
    model: Floats, engine: Floats, labels: Floats, offsets: Ints, weights: Sequence[float]
) -> Floats:
    """Reciprocal rank of each blend minus the engine's, `[searches, weights]`; NaN where none is."""
    before = mrr(engine, labels, offsets, min_items=2)
    columns = []
    for weight in weights:
        blended = blend_scores(model, engine, offsets, np.full(len(offsets) - 1, weight))
        columns.append(mrr(blended, labels, offsets, min_items=2) - before)
    return np.stack(columns, axis=1)


def weigh_gains(
    model: Floats,
    engine: Floats,
    labels: Floats,
    offsets: Ints,
    weights: Sequence[float],
    propensity: Floats,
) -> tuple[Floats, Floats]:
    """Gains `[searches, weights]` with each clicked row counting 1/propensity, and what each search counts.

    A search's gain is `Σ v·(1/r' − 1/r) / Σ v` over its clicked rows, with v = min(1/propensity, 20), r the
    engine's rank and r' that of the blend; it counts `Σ v`. NaN without a click or a second row.
    """
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    clicked = (labels > 0.0) & (sizes[owner] >= 2)
    value = np.zeros(len(labels))
    value[clicked] = np.minimum(1.0 / propensity[clicked], CLIP)
    counts: Floats = np.bincount(owner, value, minlength=len(sizes)).astype(np.float64)
    known = np.where(counts > 0.0, counts, np.nan)
    before = 1.0 / _rank_rows(engine, offsets)
    columns = []
    for weight in weights:
        blended = blend_scores(model, engine, offsets, np.full(len(sizes), weight))
        moved = value * (1.0 / _rank_rows(blended, offsets) - before)
        columns.append(np.bincount(owner, moved, minlength=len(sizes)) / known)
    return np.stack(columns, axis=1), counts


def blend_scores(model: Floats, engine: Floats, offsets: Ints, weights: Floats) -> Floats:
    """`w · model + (1 − w) · −log(engine's rank)`, both standardised in each list.

    `weights` has one w for each search; 0 and 1 leave the scores of the one or the other as they are.
    """
    sizes = np.diff(offsets)
    share = np.repeat(weights, sizes)
    mixed = share * _standardise(model, offsets)
    mixed += (1.0 - share) * _standardise(-np.log(_rank_rows(engine, offsets)), offsets)
    return np.where(share == 0.0, engine, np.where(share == 1.0, model, mixed))


def find_engine_scores(rows: Any, count: int) -> Floats:
    """Scores in the engine's order: minus `position`, or `score` where no position is given."""
    for name, sign in (("position", -1.0), ("score", 1.0)):
        if name in rows:
            values = sign * np.asarray(rows[name], dtype=np.float64)
            if len(values) != count:
                raise BadInput(f"{name} must have a value for each of the {count} rows. Got {len(values)}.")
            return as_scores(values)
    raise BadInput("a guard needs the engine's order: a column position, or score. Got neither.")


def _divide(
    columns: Mapping[str, AnyArray],
    members: Ints,
    names: Sequence[str],
    told: tuple[tuple[str, str], ...],
    least: int,
) -> Iterator[tuple[tuple[tuple[str, str], ...], Ints]]:
    """Kinds as their dimensions' values and the searches in them; each of `members` is in one."""
    for place, name in enumerate(names):
        values, codes = np.unique(columns[name][members], return_inverse=True)
        counts = np.bincount(codes)
        if not told or counts[counts >= least].sum() >= (1.0 - SMALL) * len(members):
            for code, value in enumerate(values.tolist()):
                inside = members[codes == code]
                yield from _divide(columns, inside, names[place + 1 :], (*told, (name, value)), least)
            return
    yield told, members


def _test_shares(
    gains: Floats,
    people: Ints,
    counts: Floats,
    shares: Sequence[float],
    tolerance: float,
    level: float,
) -> tuple[float, GainBound]:
    """The largest share that passes and its bound; 0, and the bound of the largest, if none does."""
    strict = 1.0 - (1.0 - level) / len(shares)
    bounds = [bound_gain(column, clusters=people, counts=counts, level=strict) for column in gains.T]
    for share, bound in zip(reversed(shares), reversed(bounds), strict=True):
        if bound.low >= -tolerance and bound.mean >= 0.0:
            return share, bound
    return 0.0, bounds[-1]


def _tell(by: str, value: str, searches: int, weight: float, bound: GainBound) -> KindVerdict:
    return KindVerdict(by, value, searches, bound.mean, bound.low, weight, bound.clusters)


def _name_kind(verdict: KindVerdict) -> str:
    """How a table names a kind: length [3, 10], location shared."""
    pairs = zip(verdict.by.split(CROSS), verdict.value.split(CROSS), strict=False)
    return ", ".join(f"{by} {value}".strip() for by, value in pairs)


def _rank_rows(scores: Floats, offsets: Ints) -> Floats:
    """The rank of each row in its list, from 1; ties in row order."""
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-scores, owner))
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(len(scores)) - offsets[:-1][owner] + 1.0
    return ranks


def _standardise(values: Floats, offsets: Ints) -> Floats:
    """Mean 0 and deviation 1 in each list; 0 in a list of equal values. Infinite scores count as the ends."""
    finite = np.isfinite(values)
    if not finite.all():
        ends = values[finite] if finite.any() else np.zeros(1)
        values = np.clip(values, ends.min() - 1.0, ends.max() + 1.0)
    sizes = np.diff(offsets)
    owner = np.repeat(np.arange(len(sizes)), sizes)
    full = np.maximum(sizes, 1)
    away = values - (np.bincount(owner, values, minlength=len(sizes)) / full)[owner]
    deviation = np.sqrt(np.bincount(owner, away * away, minlength=len(sizes)) / full)
    flat: Bools = deviation <= 1e-12 * max(1.0, float(np.abs(values).max(initial=0.0)))
    return np.where(flat[owner], 0.0, away / np.where(flat, 1.0, deviation)[owner])


def _check_pair(
    scores: ArrayLike, engine_scores: ArrayLike, offsets: ArrayLike | None
) -> tuple[Floats, Floats, Ints]:
    model, engine = as_scores(scores), as_scores(engine_scores)
    as_same_length(model, engine, "scores and engine_scores")
    return model, engine, as_offsets(offsets, len(model))


def _check_weights(weights: Sequence[float]) -> tuple[float, ...]:
    shares = tuple(sorted(float(weight) for weight in weights))
    if not shares or not all(0.0 < share <= 1.0 for share in shares):
        raise BadInput(f"weights must be shares above 0 and up to 1. Got {tuple(weights)}.")
    return shares


def _check_propensity(propensity: ArrayLike, labels: Floats) -> Floats:
    given = np.asarray(propensity, dtype=np.float64)
    as_same_length(given, labels, "propensity and labels")
    needed = given[labels > 0.0]
    if not ((needed > 0.0) & (needed <= 1.0)).all():
        raise BadInput("propensity must be above 0 and at most 1 in every clicked row.")
    return given


def _write_verdict(verdict: KindVerdict, last: str) -> dict[str, Any]:
    names = ("by", "value", "searches", "difference", "low", "weight", last)
    return {name: getattr(verdict, name) for name in names}


def _read_verdict(facts: Mapping[str, Any], old: bool) -> KindVerdict:
    names = ("difference", "low", "weight", *(("shrunk",) if old else ()))
    numbers = {name: float(facts[name]) for name in names}
    if not all(map(math.isfinite, numbers.values())) or not 0.0 <= numbers["weight"] <= 1.0:
        raise ValueError(f"a verdict must hold finite numbers and a share from 0 to 1, not {numbers}")
    clusters = 0 if old else int(facts["clusters"])
    return KindVerdict(
        str(facts["by"]), str(facts["value"]), int(facts["searches"]), clusters=clusters, **numbers
    )
