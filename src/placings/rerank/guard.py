"""A guard: a model's order is used only where it has shown itself no worse than the engine's.

Searches are put into kinds that are known before anything is clicked (how long the text is, whether the user
shares a position, …). On held-out searches each kind says how much the model gains over the engine; a kind
with little evidence leans on all searches together. Where the gain is in doubt the engine's order stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
    format_difference,
    render_grid,
)
from placings.metrics import mrr
from placings.rerank.search_kinds import COLUMNS, describe_search, describe_searches

VERSION = 1
WEIGHTS = (0.25, 0.5, 0.75, 1.0)  # of the model in a blend; 0 is the engine alone
CROSS = " × "
PRIOR_SEARCHES = 20.0  # so many searches' worth of the overall variance steadies a small kind's own
ALL = "all"


@dataclass(frozen=True)
class KindVerdict:
    """What held-out searches said of one kind, and the model's share of the blend that follows.

    `difference` is the mean reciprocal rank of the chosen blend minus the engine's as it was seen, `shrunk`
    the same leaned towards all searches, `low` its lower bound. Where the engine stays, they are the model's.
    """

    by: str
    value: str
    searches: int
    difference: float
    shrunk: float
    low: float
    weight: float


@dataclass(frozen=True, eq=False, repr=False)
class Guard(Shown):
    """The share of the model in the order of each kind of search: 0 is the engine's order, 1 the model's.

    A search belongs to one kind of each dimension; the smallest share of them counts, and a kind that was not
    seen, or too seldom, has the share of all searches.

    >>> context = {"length": np.array(["short", "long"] * 50)}
    >>> offsets, labels = np.arange(0, 201, 2), np.tile([0.0, 1.0, 1.0, 0.0], 50)
    >>> model = np.tile([0.0, 1.0, 0.0, 1.0], 50)  # right in short searches, wrong in long ones
    >>> guard = fit_guard(model, -np.tile([1.0, 2.0], 100), labels, offsets, context)
    >>> guard.find_weights({"length": np.array(["short", "long"])}, 2)
    array([1., 0.])
    """

    overall: KindVerdict
    verdicts: tuple[KindVerdict, ...]
    tolerance: float = 0.005

    def find_weights(self, context: Mapping[str, ArrayLike], searches: int) -> Floats:
        """The model's share for each search, `[searches]`."""
        weights = np.full(searches, np.inf)
        for by, known in self._table().items():
            values = _cross_values(context, by.split(CROSS))
            if values is None:
                continue
            if len(values) != searches:
                raise BadInput(f"context {by!r} must have a value for each of {searches} searches. "
                               f"Got {len(values)}.")  # fmt: skip
            found = np.array([known.get(str(value), np.inf) for value in values.tolist()], dtype=np.float64)
            weights = np.minimum(weights, found)
        return np.where(np.isinf(weights), self.overall.weight, weights)

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
        least = math.inf
        for by, names, known in self._dimensions:
            if all(name in kinds for name in names):
                value = kinds[by] if len(names) == 1 else CROSS.join([kinds[name] for name in names])
                least = min(least, known.get(value, math.inf))
        return self.overall.weight if math.isinf(least) else least

    @cached_property
    def _dimensions(self) -> list[tuple[str, list[str], dict[str, float]]]:
        return [(by, by.split(CROSS), known) for by, known in self._table().items()]

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

    def table(self, format: str = "text") -> str:
        """All kinds, the least gain first."""
        shown = [self.overall, *sorted(self.verdicts, key=lambda each: each.low)]
        rows = tuple(
            (
                Cell(f"{each.by} {each.value}".strip()), Cell(f"{each.searches:,}"),
                Cell(format_difference(each.difference)), Cell(format_difference(each.shrunk)),
                Cell(format_difference(each.low)), Cell(f"{each.weight:g}"),
            )
            for each in shown
        )  # fmt: skip
        header = ("searches of", "searches", "MRR gained", "shrunk", "at least", "model's share")
        note = "A share of 0 leaves the engine's order. 'At least' is the lower bound of the shrunk gain."
        return render_grid(Grid(header, rows, (note,)), format)

    def to_dict(self) -> dict[str, Any]:
        return self.to_state()

    def to_state(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "guard": VERSION,
            "tolerance": self.tolerance,
            "overall": vars(self.overall),
            "verdicts": [dict(vars(each)) for each in self.verdicts],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Guard:
        """The reverse of `to_state`; anything that is not a guard of this version is refused."""
        if not isinstance(state, Mapping) or state.get("guard") != VERSION:
            found = state.get("guard") if isinstance(state, Mapping) else state
            raise BadInput(f"a guard's state must be of version {VERSION}. Got {found!r}.")
        try:
            overall = _read_verdict(state["overall"])
            verdicts = tuple(_read_verdict(each) for each in state["verdicts"])
            return cls(overall, verdicts, float(state["tolerance"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(f"a guard's state is damaged: {error}. Fit the guard again.") from error

    def _table(self) -> dict[str, dict[str, float]]:
        table: dict[str, dict[str, float]] = {}
        for each in self.verdicts:
            table.setdefault(each.by, {})[each.value] = each.weight
        return table


def fit_guard(
    scores: ArrayLike,
    engine_scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None,
    context: Mapping[str, ArrayLike],
    *,
    crosses: Sequence[Sequence[str]] = (),
    weights: Sequence[float] = WEIGHTS,
    tolerance: float = 0.005,
    level: float = 0.9,
    spread: float = 0.01,
    least: int = 30,
) -> Guard:
    """Judge each kind of search on data that the model was not trained on.

    For every blend `w · model + (1 − w) · engine` (standardised in its list) the difference of reciprocal
    ranks to the engine is taken search by search. The mean of a kind, with its standard error, leans towards
    the mean of all: `(x/se² + m/τ²) / (1/se² + 1/τ²)` with τ, how far kinds of a dimension lie apart, by the
    method of moments and at least `spread`. Shares whose lower bound (one-sided, `level`) is −`tolerance` or
    more, and from which a gain is expected, are safe. Of all searches the safe share that gains most is
    chosen; a kind has the largest safe share up to that one (up to 1 where there is none), and 0, the
    engine's order, where none is safe: kinds are there to object, not to be tuned to their noise. A kind of
    fewer than `least` searches gets no verdict of its own: it has that of its other dimensions, or of all.
    `crosses` names dimensions whose combinations are kinds too. Searches without a relevant row, or with
    fewer than two rows, say nothing.

    DerSimonian and Laird: Meta-analysis in clinical trials, 1986.
    """
    model, engine, borders = _check_pair(scores, engine_scores, offsets)
    grades = as_labels(labels)
    as_same_length(model, grades, "scores and labels")
    shares = _check_weights(weights)
    if not (0.5 <= level < 1.0 and tolerance >= 0.0 and spread > 0.0):
        raise BadInput(
            "level must be from 0.5 to below 1, tolerance 0 or more, spread above 0. "
            f"Got {level!r}, {tolerance!r} and {spread!r}."
        )
    gains = measure_gains(model, engine, grades, borders, shares)
    judged: Bools = ~np.asarray(np.isnan(gains).any(axis=1))
    z = _find_z(level)
    if not judged.any():
        raise BadInput(
            "no search has two rows and something relevant, so a guard has nothing to go by. Give more data."
        )
    known = gains[judged]
    means = known.mean(axis=0)
    variance = known.var(axis=0) + 1e-12
    errors = np.sqrt(variance / len(known))
    overall = _choose(ALL, "", len(known), means, means, means - z * errors, shares, tolerance)
    verdicts: list[KindVerdict] = []
    for names in [[name] for name in context] + [list(each) for each in crosses]:
        values = _cross_values(context, names)
        if values is None:
            raise BadInput(f"crosses must name dimensions of the context. Got {names!r}.")
        if len(values) != len(judged):
            raise BadInput(f"context {names!r} must have a value for each of {len(judged)} searches. "
                           f"Got {len(values)}.")  # fmt: skip
        own = np.array([str(value) for value in values[judged].tolist()], dtype=object)
        verdicts += _judge_dimension(
            CROSS.join(names), own, known, means, variance, shares, z=z, tolerance=tolerance, spread=spread,
            least=least, most=overall.weight or 1.0,
        )  # fmt: skip
    return Guard(overall, tuple(verdicts), tolerance)


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


def _judge_dimension(
    by: str,
    values: AnyArray,
    gains: Floats,
    means: Floats,
    variance: Floats,
    shares: Sequence[float],
    *,
    z: float,
    tolerance: float,
    spread: float,
    least: int,
    most: float,
) -> list[KindVerdict]:
    """A verdict for each kind of one dimension that has searches enough."""
    names, codes = np.unique(values, return_inverse=True)
    counts = np.bincount(codes)
    kinds = [place for place in range(len(names)) if counts[place] >= least]
    if not kinds:
        return []
    seen = np.stack([gains[codes == place].mean(axis=0) for place in kinds])  # [kinds, weights]
    own = np.stack([gains[codes == place].var(axis=0) for place in kinds])
    n = counts[kinds][:, None].astype(np.float64)
    square = (n * own + PRIOR_SEARCHES * variance) / (n + PRIOR_SEARCHES) / n  # squared standard errors
    apart = np.maximum(_measure_spread(seen, square, means), spread**2)
    trust = (1.0 / square) / (1.0 / square + 1.0 / apart)  # how much a kind's own searches count
    shrunk = trust * seen + (1.0 - trust) * means
    doubt = np.sqrt(trust * square + (1.0 - trust) ** 2 * variance / len(gains))
    low = shrunk - z * doubt
    return [
        _choose(
            by, str(names[place]), int(counts[place]), seen[i], shrunk[i], low[i], shares, tolerance, most
        )
        for i, place in enumerate(kinds)
    ]


def _measure_spread(seen: Floats, square: Floats, means: Floats) -> Floats:
    """The variance of true means between kinds, `[weights]`, by the method of moments; 0 of one kind."""
    precision = 1.0 / square
    total = precision.sum(axis=0)
    heterogeneity = (precision * (seen - means) ** 2).sum(axis=0)
    room = total - (precision**2).sum(axis=0) / total
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (heterogeneity - (len(seen) - 1)) / room
    return np.where(room > 1e-9 * total, np.maximum(found, 0.0), 0.0)


def _choose(
    by: str,
    value: str,
    searches: int,
    seen: Floats,
    shrunk: Floats,
    low: Floats,
    shares: Sequence[float],
    tolerance: float,
    most: float | None = None,
) -> KindVerdict:
    """The safe share that gains most; the largest safe one up to `most`, if that is given."""
    safe = (low >= -tolerance) & (shrunk > 0.0)
    if most is not None:
        safe &= np.array(shares) <= most
    aim = shrunk if most is None else np.array(shares)
    worth = np.where(safe, aim, -np.inf) if safe.any() else low
    best = len(shares) - 1 - int(np.argmax(worth[::-1]))  # of equal ones the model's larger share
    weight = shares[best] if safe.any() else 0.0
    return KindVerdict(by, value, searches, float(seen[best]), float(shrunk[best]), float(low[best]), weight)


def _cross_values(context: Mapping[str, ArrayLike], names: Sequence[str]) -> AnyArray | None:
    """The kinds of one dimension, or of several taken together; None if one of them is not known."""
    if any(name not in context for name in names):
        return None
    columns = [np.asarray(context[name], dtype=object) for name in names]
    if len(columns) == 1:
        return columns[0]
    joined = [
        CROSS.join(map(str, each)) for each in zip(*(column.tolist() for column in columns), strict=True)
    ]
    return np.array(joined, dtype=object)


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


def _find_z(level: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(level))


def _read_verdict(facts: Mapping[str, Any]) -> KindVerdict:
    numbers = {name: float(facts[name]) for name in ("difference", "shrunk", "low", "weight")}
    if not all(map(math.isfinite, numbers.values())) or not 0.0 <= numbers["weight"] <= 1.0:
        raise ValueError(f"a verdict must hold finite numbers and a share from 0 to 1, not {numbers}")
    return KindVerdict(str(facts["by"]), str(facts["value"]), int(facts["searches"]), **numbers)
