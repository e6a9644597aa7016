"""What a candidate's order would have earned on a log of another order, and whether it may go live.

A candidate is judged by lists that people saw in another order. Where the log drew its lists with known
probabilities, that is a matter of weights; where it did not, only a model of how people look can say
anything, and the result says so. The verdict is of non-inferiority: not "no difference was found", which a
short log always gives, but "a loss beyond the margin is excluded".
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import (
    BadInput,
    Bools,
    Cell,
    Floats,
    Grid,
    Ints,
    Shown,
    UnknownName,
    check_share,
    format_difference,
    format_interval,
    format_mean,
    render_grid,
)
from placings.evaluation import (
    MeanBounds,
    bound_mean,
    estimate_doubly_robust,
    estimate_ips,
    estimate_item_position,
    estimate_position_based,
    estimate_snips,
    measure_effective_size,
    sum_lists,
)
from placings.rerank.logged_lists import LoggedLists, Looks, read_lists, read_looks
from placings.rerank.reranker import Reranker

if TYPE_CHECKING:
    import pandas as pd

    from placings.logs import ClickLog

AUTO = "auto"
ITEM_POSITION, POSITION_BASED = "item-position", "position-based"
WHOLE_LISTS = ("ips", "snips", "clipped", "doubly-robust")
ESTIMATORS = (ITEM_POSITION, POSITION_BASED, *WHOLE_LISTS)
METRICS = ("clicks", "dcg", "mrr")
NON_INFERIOR, WORSE, UNDECIDED = "non-inferior", "worse", "undecided"
LEAST = 30  # people, sessions or searches: below, nothing is decided
CLIP = 10.0  # of estimator="clipped", where no other is given
DOUBTED = 1.96  # standard errors from a curve to its bounds
SOME = 0.05  # of the lists may lack support before estimates that fill them in are refused
LITTLE = 0.01  # of the items may lack support before a design stops being preferred to a position model
EFFECTS = (-0.01, 0.0, 0.01, 0.02, 0.05)  # true differences of the power curve
TIMES = (1, 2, 4, 8, 16)  # how many times this log
HALF = 0.5  # of the most that one click can change a list: the reach that benchmarks/gate_errors.py tried
GOAL, CHANCE = 0.02, 0.8  # "a candidate truly so much better passes with this probability"


@dataclass(frozen=True)
class LogSupport:
    """What the log can say at all: looked at before any estimate.

    `changed` is the share of lists in which the candidate moves something that counts, `without` the share
    of items that it puts where they could not have been shown (`guessed` if that follows from the weights
    alone; NaN if nothing hangs on it), `effective` how many of `of` equally weighted units (`unit`) would
    be as certain, `largest` the largest weight, `unknown` the lists whose probability was not written down.
    """

    lists: int
    clusters: int
    changed: float
    without: float
    guessed: bool
    effective: float
    of: int
    unit: str
    largest: float
    unknown: int
    left_out: int


@dataclass(frozen=True)
class KindOutcome:
    """One kind of search, or all: the metric as shown and as it would have been, and the verdict.

    `low` and `high` are the interval of the difference, `least` and `most` its one-sided bounds, `error` the
    standard error, `doubt` how much lower the estimate is at the worse bound of a propensity curve.
    `high` and `most` are infinite where the estimate is only a lower bound.
    `verdict` is "non-inferior" if `least` is −margin or more, "worse" if `most` is below it, else
    "undecided"; with fewer than 30 clusters always "undecided".
    """

    kind: str
    searches: int
    clusters: int
    shown: float
    candidate: float
    difference: float
    low: float
    high: float
    least: float
    most: float
    error: float
    doubt: float
    verdict: str


@dataclass(frozen=True, eq=False, repr=False)
class WouldHave(Shown):
    """What `would_have` found: support, estimates, verdicts and what this log could have told at all."""

    metric: str
    estimator: str
    rests_on: str
    margin: float
    level: float
    support: LogSupport
    overall: KindOutcome
    kinds: tuple[KindOutcome, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the candidate is shown non-inferior over all searches, and worse in no kind of them."""
        return self.overall.verdict == NON_INFERIOR and not self.worse

    @property
    def worse(self) -> tuple[str, ...]:
        """The kinds in which the candidate loses more than the margin."""
        return tuple(each.kind for each in self.kinds if each.verdict == WORSE)

    @property
    def left_to_engine(self) -> tuple[str, ...]:
        """The kinds in which nothing is decided: the guard, or the engine's order, must take them."""
        return tuple(each.kind for each in self.kinds if each.verdict == UNDECIDED)

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        found = self.overall
        told = (
            f"{self.metric} would have been {format_mean(found.candidate)} where {format_mean(found.shown)} "
            f"was seen ({format_difference(found.difference)} "
            f"{_format_ends(found)})"
        )
        bound = f"with {self.level:.0%} the difference is at least {format_difference(found.least)}"
        margin = f"−{self.margin:g}"
        if found.verdict == WORSE:
            return f"Shown worse: {told}; {_say_most(found, self.level)}, and {margin} is allowed."
        if found.clusters < LEAST:
            return (
                f"Not shown non-inferior: the log has {found.clusters} people or sessions, and {LEAST} are "
                "needed to say anything. Give a longer log."
            )
        if found.verdict != NON_INFERIOR:
            return f"Not shown non-inferior: {told}; {bound}, and {margin} is allowed. {self._say_need()}"
        if self.worse:
            return f"Shown worse in {_list(self.worse)}, although overall {told}."
        left = f" Undecided, leave to the guard: {_list(self.left_to_engine)}." if self.left_to_engine else ""
        return f"Shown non-inferior: {told}; {bound}, and {margin} is allowed.{left}"

    def _say_need(self) -> str:
        need = self.find_needed()
        if math.isinf(need):
            return "No length of log would do with this curve and this candidate."
        return f"A candidate truly {GOAL:+g} passes in {CHANCE:.0%} of logs of {_round(need)} searches."

    # -- what the log could have told --------------------------------------------------------------------

    def find_power(self, effect: float, times: float = 1.0) -> float:
        """The probability that a candidate of this true difference passes, on a log `times` as long.

        The estimate is taken to be normal about `effect`, with the standard error of this log over √times.
        The bound lies below it by what it did here, of which the part for rare large weights falls with the
        log's length and the rest with its root. A curve is taken to be estimated anew from as long a log.
        """
        from scipy.special import ndtr, stdtrit

        found = self.overall
        if found.clusters * times < LEAST or math.isnan(found.least):
            return 0.0
        root = math.sqrt(times)
        usual = float(stdtrit(found.clusters - 1.0, self.level)) * found.error
        rare = max(0.0, math.sqrt(max((found.difference - found.least) ** 2 - found.doubt**2, 0.0)) - usual)
        t = float(stdtrit(found.clusters * times - 1.0, self.level))
        below = math.hypot(t * found.error / root + rare / times, found.doubt / root)
        spread = math.hypot(found.error, found.doubt / DOUBTED) / root
        room = effect + self.margin - below
        if spread == 0.0:
            return 1.0 if room >= 0.0 else 0.0
        return float(ndtr(room / spread))

    def find_needed(self, effect: float = GOAL, chance: float = CHANCE) -> float:
        """How many searches a log needs for a candidate truly `effect` better to pass with this
        probability."""
        low, high = 1e-4, 1e8
        if self.find_power(effect, high) < chance:
            return math.inf
        for _ in range(80):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if self.find_power(effect, middle) >= chance else (middle, high)
        return math.ceil(high * self.overall.searches)

    # -- shown -------------------------------------------------------------------------------------------

    def say_support(self) -> list[str]:
        """What the log can say at all, in lines."""
        seen = self.support
        lines = [
            f"{seen.lists:,} searches of {seen.clusters:,} people or sessions; the candidate changes the "
            f"list in {seen.changed:.1%} of them.",
            f"Effective sample size: {seen.effective:,.0f} of {seen.of:,} {seen.unit} (largest weight "
            f"{seen.largest:.3g}).",
        ]
        if not math.isnan(seen.without):
            about = "about " if seen.guessed else ""
            what = "lists" if self.estimator in WHOLE_LISTS else "items"
            lines.append(f"Without support: {about}{seen.without:.1%} of the {what}. " + (
                "Each could have been shown as the candidate wants it." if seen.without == 0.0 else
                "They are taken to be like the others." if self.estimator in ("snips", "doubly-robust") else
                "They count as unclicked, so the estimate is too low."
            ))  # fmt: skip
        if seen.unknown:
            lines.append(f"Left out: {seen.unknown:,} lists whose probability was not written down.")
        if seen.left_out:
            lines.append(f"Left out: {seen.left_out:,} searches that the candidate had learned from.")
        lines.append(f"Estimator: {self.estimator}. It rests on {self.rests_on}.")
        return lines

    def table(self, format: str = "text") -> str:
        """Support, estimates and power, in this order."""
        header = ("searches of", "searches", "clusters", "shown", "candidate", "difference",
                  f"{self.level:.0%} interval", "at least", "verdict")  # fmt: skip
        rows = tuple(
            (
                Cell(each.kind), Cell(f"{each.searches:,}"), Cell(f"{each.clusters:,}"),
                Cell(format_mean(each.shown)), Cell(format_mean(each.candidate)),
                Cell(format_difference(each.difference)),
                Cell(_format_ends(each)),
                Cell(format_difference(each.least)), Cell(each.verdict),
            )
            for each in (self.overall, *self.kinds)
        )  # fmt: skip
        notes = (
            f"{self.metric} for each search. 'At least' is the one-sided bound of {self.level:.0%}; "
            f"non-inferior: it is −{self.margin:g} or more.",
            *self.notes,
        )
        grid = Grid(header, rows, (*self.say_support(), *notes) if format != "text" else notes)
        parts = [render_grid(grid, format), render_grid(self._lay_power(), format)]
        return "\n\n".join(["\n".join(self.say_support()), *parts] if format == "text" else parts)

    def _lay_power(self) -> Grid:
        header = ("probability to pass, by true difference", *(f"{effect:+g}" for effect in EFFECTS))
        rows = tuple(
            (
                Cell(f"{times * self.overall.searches:,} searches" + (" (this log)" if times == 1 else "")),
                *(Cell(f"{self.find_power(effect, times):.0%}") for effect in EFFECTS),
            )
            for times in TIMES
        )
        need = self.find_needed()
        told = "at no length of log" if math.isinf(need) else f"at about {_round(need)} searches"
        return Grid(header, rows, (f"{CHANCE:.0%} for a candidate truly {GOAL:+g}: {told}.",))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "passed": self.passed, "sentence": self.sentence, "metric": self.metric,
            "estimator": self.estimator, "rests_on": self.rests_on, "margin": self.margin,
            "level": self.level, "support": asdict(self.support), "overall": asdict(self.overall),
            "kinds": [asdict(each) for each in self.kinds], "worse": list(self.worse),
            "left_to_engine": list(self.left_to_engine),
            "power": [
                {"effect": effect, "searches": times * self.overall.searches,
                 "probability": self.find_power(effect, times)}
                for times in TIMES for effect in EFFECTS
            ],
            "notes": list(self.notes),
        }  # fmt: skip


def would_have(
    candidate: Reranker | ArrayLike,
    log: ClickLog | pd.DataFrame,
    *,
    metric: str = "clicks@10",
    propensity: Any = None,
    estimator: str = AUTO,
    clip: float | None = None,
    margin: float = 0.005,
    level: float = 0.95,
    by: str | Sequence[str] | None = None,
) -> WouldHave:
    """What a candidate would have earned on a log, before anyone sees it, and whether it may go live.

    `candidate` is a Reranker, asked as a service would ask it, or scores, one for each row of the log.
    What was shown is the baseline. `metric` is what people's clicks would have been worth on the candidate's
    lists: `clicks@k`; `dcg@k`, each click worth 1/log2(1 + its place); `mrr@k`, 1/place, only where no list
    has two clicks. NDCG is refused: the ideal order is not observed.

    `estimator="auto"` takes the item-position estimate where the log has `shown_probability` from exploration
    and at most 1 % of the items lack support; else the position-based one where a `propensity` is known (a
    curve of `estimate_propensity`, its state, numbers from rank 1 on, or a column of the log); else the
    whole lists' probabilities (`list_probability`); else the item-position estimate, which counts what
    has no support as unclicked. A log with none of these is refused. `clip` bounds the weights.

    Intervals are over people (`user_id`, else `session_id`, else searches). Non-inferior: the one-sided lower
    bound of the difference, of `level`, is −`margin` or more. `by` names the kinds of searches, which are
    judged one by one; None takes length × location. With a curve that has bounds, what the estimate
    changes at them is added to the interval, as the root of the sum of squares.

    >>> rows = {"search_id": np.repeat(np.arange(60), 2), "item_id": ["a", "b"] * 60, "position": [1, 2] * 60,
    ...         "label": [0, 1, 0, 0] * 30}  # people click the second, where they look half as often
    >>> found = would_have([0.0, 1.0] * 60, rows, propensity=[1.0, 0.5])
    >>> found.passed, found.overall.shown, found.overall.candidate  # 30 clicks in 60 lists; twice as many
    (True, 0.5, 1.0)

    Gilotte and others, Offline A/B testing for recommender systems, WSDM 2018. Piaggio and others, Reporting
    of noninferiority and equivalence randomized trials, JAMA 2012.
    """
    measure = MetricAt.parse(metric)
    _check_settings(estimator, clip, margin, level)
    lists = read_lists(candidate, log, by)
    _check_one_wanted(measure, lists)
    looks = read_looks(propensity, lists.rows, lists.position)
    chosen = _choose_estimator(lists, looks, measure) if estimator == AUTO else estimator
    notes = [*lists.notes, *_list_notes(lists, measure)]
    shown = sum_lists(lists.clicks * measure.find_worth(lists.position), lists.offsets)
    if chosen == POSITION_BASED:
        if looks is None:
            raise BadInput(
                f"the {chosen} estimate needs to know how people look. Got no propensity, neither given nor "
                "as a column of the log. estimate_propensity makes a curve."
            )
        values, support, reach = _estimate_by_looks(lists, looks, measure, clip)
        notes += _list_look_notes(lists, looks)
        rests_on = f"the position-based model, with propensities from {looks.rests_on}"
    elif chosen == ITEM_POSITION:
        values, support, reach = _estimate_by_places(lists, measure, clip)
        rests_on = "randomisation, and that a click hangs on an item and its place alone"
    else:
        values, support, reach = _estimate_by_lists(lists, measure, chosen, clip, shown)
        model = " and, where support lacks, the mean of other lists" if chosen == "doubly-robust" else ""
        rests_on = f"randomisation of whole lists{model}"
    too_low = _is_too_low(chosen, support, clip)
    if too_low:
        notes.append(
            "What has no support, or is clipped, counts as unclicked: the estimate is a lower bound, and "
            "there is no upper one. The probabilities to pass are those of a candidate that has full support."
        )
    judged = _Judged(shown, values, lists.clusters, margin, level, reach, too_low)
    everything = np.ones(len(shown), dtype=np.bool_)
    kinds = [] if lists.kinds is None else sorted(set(lists.kinds.tolist()))
    outcomes = tuple(judged.judge(kind, lists.kinds == kind) for kind in kinds)
    return WouldHave(
        metric, chosen, rests_on, margin, level, support, judged.judge("all", everything), outcomes,
        tuple(notes),
    )  # fmt: skip


# -- metrics -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MetricAt:
    """An additive metric: what a click at each place is worth."""

    name: str
    k: float

    @classmethod
    def parse(cls, told: str) -> MetricAt:
        """`dcg@10` as a metric; what is not additive in clicks is refused with the reason."""
        found = re.fullmatch(r"([a-z_]+)(?:@([1-9][0-9]*))?(:ips)?", str(told))
        name = found[1] if found else str(told)
        if name == "ndcg":
            raise BadInput(
                "ndcg cannot be judged from a log of another order: the ideal list is not observed. Use "
                "dcg@10 or clicks@10."
            )
        if found is None or name not in METRICS:
            raise UnknownName("metric of would_have", str(told), [f"{each}@10" for each in METRICS])
        if found[3]:
            raise BadInput(
                f"metric must be {told.removesuffix(':ips')!r} here: what clicks would have been is asked "
                f"for, and weights are the estimator's. Got {told!r}."
            )
        return cls(name, math.inf if found[2] is None else float(found[2]))

    def find_worth(self, position: Floats) -> Floats:
        """What a click at each position counts `[rows]`; 0 below the cutoff.

        >>> MetricAt.parse("dcg@2").find_worth(np.array([1.0, 3.0])).tolist()
        [1.0, 0.0]
        """
        worth = {
            "clicks": np.ones_like(position), "dcg": 1.0 / np.log2(1.0 + position), "mrr": 1.0 / position,
        }[self.name]  # fmt: skip
        return np.where(position <= self.k, worth, 0.0)


def _check_one_wanted(measure: MetricAt, lists: LoggedLists) -> None:
    if measure.name != "mrr":
        return
    several = int((sum_lists(lists.clicks, lists.offsets) > 1.0).sum())
    if several:
        raise BadInput(
            f"mrr can be judged only where a search wants one item. Got {several:,} lists with two clicks or "
            "more. Use dcg@10 or clicks@10."
        )


# -- estimates ---------------------------------------------------------------------------------------------


def _choose_estimator(lists: LoggedLists, looks: Looks | None, measure: MetricAt) -> str:
    if lists.probability is not None:
        weights = _weigh_places(lists)
        if looks is None and lists.list_probability is None:
            return ITEM_POSITION
        if _find_unsupported(lists, measure, weights)[0] <= LITTLE:
            return ITEM_POSITION
    if looks is not None:
        return POSITION_BASED
    if lists.probability is not None:
        return ITEM_POSITION
    if lists.list_probability is not None:
        return "ips" if _lack_support(lists.same, lists.list_probability) else "snips"
    raise BadInput(
        "this log shows one order, and nothing says how people look at it, so it cannot tell what another "
        "order would have earned. Pass propensity= (estimate_propensity makes a curve), or log exploration: "
        "placings serve --explore 0.1 swaps neighbours and writes shown_probability."
    )


def _weigh_places(lists: LoggedLists) -> Floats:
    """1/q of items that stay where they were shown, 0 of others, NaN in lists without probabilities."""
    assert lists.probability is not None
    known = _know_lists(lists)[lists.owner]
    weights: Floats = np.where(known, lists.stays / np.where(known, lists.probability, 1.0), np.nan)
    return weights


def _know_lists(lists: LoggedLists) -> Bools:
    """The lists all of whose rows have a probability."""
    assert lists.probability is not None
    gone = np.bincount(lists.owner, weights=np.isnan(lists.probability), minlength=len(lists.offsets) - 1)
    return np.asarray(gone == 0.0)


def _find_unsupported(lists: LoggedLists, measure: MetricAt, weights: Floats) -> tuple[float, bool]:
    """The share of items that could not have been shown at their new place, and whether it is a guess.

    The weights of items with support are 1 in the mean, those of others 0.
    """
    counts = (measure.find_worth(lists.new_position) > 0.0) & ~np.isnan(weights)
    if not counts.any():
        return math.nan, False
    if lists.new_probability is not None:
        return float((lists.new_probability[counts] <= 0.0).mean()), False
    return float(np.clip(1.0 - weights[counts].mean(), 0.0, 1.0)), True


def _estimate_by_places(
    lists: LoggedLists, measure: MetricAt, clip: float | None
) -> tuple[list[Floats], LogSupport, float]:
    if lists.probability is None:
        raise BadInput(
            f"the {ITEM_POSITION} estimate needs a column shown_probability, below 1 where something was "
            "drawn. Got a log without. placings serve --explore 0.1 writes it."
        )
    weights = _weigh_places(lists)
    known = _know_lists(lists)
    values = estimate_item_position(
        lists.clicks, lists.stays, np.where(known[lists.owner], lists.probability, 1.0),
        measure.find_worth(lists.position), lists.offsets, clip=clip,
    )  # fmt: skip
    counted = weights[(measure.find_worth(lists.position) > 0.0) & ~np.isnan(weights)]
    without, guessed = _find_unsupported(lists, measure, weights)
    support = _describe_support(
        lists, measure, counted if clip is None else np.minimum(counted, clip), "items", without, guessed,
        int((~known).sum()),
    )  # fmt: skip
    worth, chance = measure.find_worth(lists.new_position), lists.new_probability
    if chance is None:
        chance = np.full(len(worth), float(np.nanmin(lists.probability)))
    most = np.where(chance > 0.0, 1.0 / np.where(chance > 0.0, chance, 1.0), 0.0)
    reach = HALF * float((np.minimum(most, clip or math.inf) * worth).max(initial=0.0))
    return [np.where(known, values, np.nan)], support, reach


def _estimate_by_looks(
    lists: LoggedLists, looks: Looks, measure: MetricAt, clip: float | None
) -> tuple[list[Floats], LogSupport, float]:
    worth = measure.find_worth(lists.new_position)
    found: list[Floats] = []
    weights = moves = np.zeros(0)
    for curve in looks.list_curves():
        before, after = looks.read_at(curve, lists.position), looks.read_at(curve, lists.new_position)
        if not found:
            ratio = np.minimum(after / before, clip or math.inf)
            weights = ratio[lists.clicks > 0.0]
            moves = np.abs(ratio * worth - measure.find_worth(lists.position))
        found.append(
            estimate_position_based(
                lists.clicks,
                before,
                after,
                worth,
                lists.offsets,
                mistakes=looks.read_mistakes(lists.position),
                new_mistakes=looks.read_mistakes(lists.new_position),
                clip=clip,
            )
        )
    support = _describe_support(lists, measure, weights, "clicks", math.nan, False, 0)
    return found, support, HALF * float(moves.max(initial=0.0))


def _estimate_by_lists(
    lists: LoggedLists, measure: MetricAt, chosen: str, clip: float | None, shown: Floats
) -> tuple[list[Floats], LogSupport, float]:
    logged = lists.list_probability
    if logged is None:
        raise BadInput(
            f"the {chosen} estimate needs list_probability, that of each whole list, or swapped and "
            f"shown_probability, as placings serve writes them. Got a log without. Use {POSITION_BASED!r}."
        )
    if chosen in ("snips", "doubly-robust") and _lack_support(lists.same, logged):
        raise BadInput(
            f"{chosen} takes lists that could not have been shown as the candidate wants them to be like the "
            "others. Got a log in which more than 5 % are such. Use ips, which counts them as unclicked."
        )
    known = ~np.isnan(logged)
    given, target, reward = logged[known], lists.same[known].astype(np.float64), shown[known]
    most = CLIP if chosen == "clipped" and clip is None else clip
    if chosen == "snips":
        values = estimate_snips(reward, given, target, clip=most)
    elif chosen == "doubly-robust":
        expected = _expect_by_others(reward, lists.clusters[known])
        values = estimate_doubly_robust(reward, given, target, expected, expected, clip=most)
    else:
        values = estimate_ips(reward, given, target, clip=most)
    spread = np.full(len(shown), np.nan)
    spread[known] = values
    weights = target / given
    without = float(np.clip(1.0 - weights.mean(), 0.0, 1.0)) if len(weights) else math.nan
    support = _describe_support(
        lists, measure, weights if most is None else np.minimum(weights, most), "lists", without, True,
        int((~known).sum()),
    )  # fmt: skip
    largest = np.minimum(1.0 / given, most or math.inf).max(initial=0.0)
    reach = HALF * float(largest * measure.find_worth(np.ones(1))[0])
    return [spread], support, reach


def _lack_support(same: Bools, logged: Floats) -> bool:
    """Whether more than a twentieth of the lists could not have been shown: their mean weight is below 1."""
    known = ~np.isnan(logged)
    weights = same[known] / logged[known]
    if not len(weights):
        return True
    return bool(1.0 - weights.mean() - 2.0 * weights.std() / math.sqrt(len(weights)) > SOME)


def _expect_by_others(rewards: Floats, clusters: Ints) -> Floats:
    """The mean reward of the other half of the people: a model that has not seen the list."""
    half = clusters % 2 == 1
    expected = np.zeros(len(rewards))
    for side in (half, ~half):
        others = rewards[~side]
        expected[side] = float(others.mean()) if len(others) else 0.0
    return expected


def _describe_support(
    lists: LoggedLists,
    measure: MetricAt,
    weights: Floats,
    unit: str,
    without: float,
    guessed: bool,
    unknown: int,
) -> LogSupport:
    before, after = measure.find_worth(lists.position), measure.find_worth(lists.new_position)
    moved = np.bincount(lists.owner, weights=(before != after), minlength=len(lists.offsets) - 1) > 0
    if measure.name == "clicks":  # a move within the first k is one, though each place counts the same
        seen = np.maximum(before, after) > 0.0
        moved = np.bincount(lists.owner, weights=seen & ~lists.stays, minlength=len(lists.offsets) - 1) > 0
    return LogSupport(
        len(lists.offsets) - 1, int(lists.clusters.max()) + 1, float(moved.mean()), without, guessed,
        measure_effective_size(weights), len(weights), unit, float(weights.max(initial=0.0)), unknown,
        lists.left_out,
    )  # fmt: skip


def _is_too_low(chosen: str, support: LogSupport, clip: float | None) -> bool:
    """Whether an estimate leaves something out that could only have added to it."""
    if clip is not None or chosen == "clipped":
        return True
    if chosen not in (ITEM_POSITION, "ips") or math.isnan(support.without):
        return False
    return support.without > (LITTLE if support.guessed else 0.0)


# -- verdicts ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Judged:
    """Values as shown `[lists]` and as they would have been, by one curve or several."""

    shown: Floats
    values: list[Floats]
    clusters: Ints
    margin: float
    level: float
    reach: float
    too_low: bool  # the estimate is a lower bound: nothing can be shown worse by it

    def judge(self, kind: str, chosen: Bools) -> KindOutcome:
        """The verdict on some of the lists."""
        people = self.clusters[chosen]
        found = [
            bound_mean((values - self.shown)[chosen], people, level=self.level, reach=self.reach)
            for values in self.values
        ]
        main = found[0]
        known = chosen & ~np.isnan(self.values[0])
        shown = float(self.shown[known].mean()) if known.any() else math.nan
        down = max(main.mean - each.mean for each in found)  # 0 or more: the main curve is one of them
        up = math.inf if self.too_low else max(each.mean - main.mean for each in found)
        least = main.mean - math.hypot(main.mean - main.least, down)
        most = main.mean + math.hypot(main.most - main.mean, up)
        return KindOutcome(
            kind, main.units, main.clusters, shown, shown + main.mean, main.mean,
            main.mean - math.hypot(main.mean - main.low, down),
            main.mean + math.hypot(main.high - main.mean, up), least, most, main.error, down,
            self._decide(main, least, most),
        )  # fmt: skip

    def _decide(self, main: MeanBounds, least: float, most: float) -> str:
        if main.clusters < LEAST:
            return UNDECIDED
        return NON_INFERIOR if least >= -self.margin else WORSE if most < -self.margin else UNDECIDED


# -- words -------------------------------------------------------------------------------------------------


def _list_notes(lists: LoggedLists, measure: MetricAt) -> list[str]:
    clicked = sum_lists(lists.clicks, lists.offsets) > 0.0
    notes = []
    if clicked.all():
        notes.append(
            "Every list of this log was clicked: numbers are for each clicked search, not for each one."
        )
    elif not clicked.any():
        notes.append("Nothing in this log was clicked: it can show nothing.")
    if measure.name == "mrr":
        notes.append("mrr takes it that each search wants one item.")
    if lists.new_probability is None and lists.probability is not None:
        notes.append(
            "How the lists were drawn is not known; the share without support follows from the weights."
        )
    return notes


def _list_look_notes(lists: LoggedLists, looks: Looks) -> list[str]:
    notes = []
    beyond = looks.count_beyond(lists.position[lists.clicks > 0.0])
    if beyond:
        notes.append(
            f"{beyond:,} clicks lie below rank {looks.ranks[-1]}, the curve's last; they have its value."
        )
    if looks.misfit is not None:
        notes.append(f"CLICKS CONTRADICT THE MODEL, so the estimate may be off by any amount: {looks.misfit}")
    if looks.low is None:
        notes.append("The curve is taken as exact; its own doubt is not in the intervals.")
    return notes


def _check_settings(estimator: str, clip: float | None, margin: float, level: float) -> None:
    if estimator != AUTO and estimator not in ESTIMATORS:
        raise UnknownName("estimator", str(estimator), (AUTO, *ESTIMATORS))
    if clip is not None and not (isinstance(clip, int | float) and clip > 0.0):
        raise BadInput(f"clip must be a number above 0, or None. Got {clip!r}.")
    if not isinstance(margin, int | float) or not 0.0 <= margin < math.inf:
        raise BadInput(f"margin must be 0 or more, in the metric's own units. Got {margin!r}.")
    check_share("level", level)
    if level < 0.5:
        raise BadInput(f"level must be 0.5 or more, such as 0.95. Got {level!r}.")


def _round(number: float) -> str:
    """Two digits: more would say more than is known."""
    digits = max(0, math.floor(math.log10(max(number, 1.0))) - 1)
    return f"{round(number, -digits):,.0f}"


def _format_ends(found: KindOutcome) -> str:
    """The interval; without an upper end where the estimate is a lower bound."""
    if math.isinf(found.high):
        return f"[{format_difference(found.low)}, …]"
    return format_interval(found.low, found.high, signed=True)


def _say_most(found: KindOutcome, level: float) -> str:
    return f"with {level:.0%} the difference is at most {format_difference(found.most)}"


def _list(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
