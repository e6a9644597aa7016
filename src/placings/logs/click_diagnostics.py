"""Does the position-based model fit? Ratios of ranks that should be the same for everyone, and are they?

Under the model the look at a rank depends on the rank alone. So the ratio of two ranks must be the same for
popular and unpopular items (with trust bias it is not), and for items beside popular and unpopular ones (for
people who read from the top and stop at what they like it is not).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    BadInput,
    Cell,
    Floats,
    Grid,
    Shown,
    adjust_holm,
    format_interval,
    format_mean,
    format_p,
    render_grid,
)
from placings.logs.harvesting import Comparisons, CurveFit, compare_rankers, compare_swaps, fit_curve
from placings.logs.showings import Showings, number_together, rate_items, read_showings, sum_by

if TYPE_CHECKING:
    from placings.data import Table
    from placings.logs.click_log import ClickLog
    from placings.logs.propensity_curves import PropensityCurve

ALARM = 0.01  # a model that fits is flagged in a hundredth of the logs
LEAST = 20  # clusters with a click on each side of a split
OWN, BESIDE, ABOVE = "the item itself", "the neighbour it was swapped with", "what stands above"
MEANINGS = {
    OWN: "popular and unpopular items lose a different share of their clicks by moving down: people trust "
    "what stands on top, or stop at what they like",
    BESIDE: "an item loses another share of its clicks when a popular neighbour passes it: people read from "
    "the top and stop at what they like",
    ABOVE: "the same item at the same rank has other clicks below popular items: people read from the top "
    "and stop at what they like",
}


@dataclass(frozen=True)
class PopularitySplit:
    """One way of splitting the showings in two: by the popularity of something.

    `ratio` is by what the popular half's loss from a rank to the next differs from the other half's (1: not
    at all); for "what stands above", by what the clicks differ. NaN where too few people clicked.
    """

    by: str
    ratio: float
    low: float
    high: float
    p: float  # two-sided, by itself
    p_adjusted: float = math.nan  # with Holm's correction over all splits


@dataclass(frozen=True, repr=False)
class Misfit(Shown):
    """Whether clicks contradict the position-based model: each split, and the smallest corrected p-value.

    Not flagged is no proof: a short log contradicts nothing.
    """

    splits: tuple[PopularitySplit, ...]

    @property
    def p(self) -> float:
        """The smallest corrected p-value; NaN where no split could be tried."""
        known = [each.p_adjusted for each in self.splits if not math.isnan(each.p_adjusted)]
        return min(known) if known else math.nan

    @property
    def flagged(self) -> bool:
        """Whether the smallest corrected p-value is below 0.01."""
        return self.p < ALARM

    @property
    def sentence(self) -> str:
        """What was found, for people."""
        if math.isnan(self.p):
            return "Whether a position model fits could not be tried: too few people clicked."
        if not self.flagged:
            return f"Nothing here contradicts a position model (p = {format_p(self.p)})."
        worst = min(self.splits, key=lambda each: _or_one(each.p_adjusted))
        return f"A position model does not fit (p {_say_p(self.p)}): {MEANINGS[worst.by]}."

    def table(self, format: str = "text") -> str:
        """One line for each split."""
        header = ["clicks split by the popularity of", "ratio", "95 % interval", "p", "p, corrected"]
        lines = [
            [each.by, format_mean(each.ratio), format_interval(each.low, each.high), format_p(each.p),
             format_p(each.p_adjusted)]
            for each in self.splits
        ]  # fmt: skip
        rows = tuple(tuple(Cell(text) for text in line) for line in lines)
        grid = Grid(tuple(header), rows, notes=(self.sentence,))
        return render_grid(grid, format)

    def to_dict(self) -> dict[str, Any]:
        """Splits, p, flag and sentence."""
        return {
            "p": self.p, "flagged": self.flagged, "sentence": self.sentence,
            "splits": [vars(each) for each in self.splits],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> Misfit:
        """What `to_dict` gave."""
        numbers = ("ratio", "low", "high", "p", "p_adjusted")
        return cls(
            tuple(
                PopularitySplit(
                    str(each["by"]), *(math.nan if each[name] is None else each[name] for name in numbers)
                )
                for each in told["splits"]
            )
        )


def check_clicks(log: ClickLog | Table, curve: PropensityCurve) -> Misfit:
    """Whether the clicks of a log contradict the position-based model behind a curve.

    The popularity of an item is its click rate with *other* people, given the curve, so that splitting by it
    does not look at the clicks that are compared. Each split compares what popular and unpopular halves
    lose from one rank to the next, over all ranks; p-values are of clusters (users, else sessions) and
    corrected for the number of splits by Holm. Flagged below 0.01.

    It needs the same search and item at two ranks, as `curve` had them: curves that rest on features only
    are refused. A log whose items are as popular as each other, or that is short, is never flagged.
    """
    from placings.logs.click_log import ClickLog

    if curve.method not in ("swaps", "randomised", "adjacent", "all-pairs", "trust"):
        raise BadInput(
            "clicks are checked with curves that rest on the same item at two ranks. Got a curve by method "
            f"{curve.method!r}."
        )
    given = log if isinstance(log, ClickLog) else ClickLog(log)
    return find_misfit(read_showings(given, curve.by, int(curve.ranks.max())), curve.method, curve)


def find_misfit(shown: Showings, method: str, curve: PropensityCurve) -> Misfit:
    """`check_clicks` of showings that were read."""
    looks = curve.at(shown.rank)
    rates = rate_items(shown, looks)
    swaps = method == "swaps" or (method == "trust" and shown.base is not None)
    if swaps:
        comparisons = compare_swaps(shown, only=shown.clicked)
        restrict = partial(_keep, comparisons)
        own, beside = rates[comparisons.row], _rate_neighbours(shown, comparisons, rates)
        splits = [
            _split_curve(OWN, shown, comparisons, own, restrict),
            _split_curve(BESIDE, shown, comparisons, beside, restrict),
        ]
    else:
        adjacent = method != "all-pairs"
        comparisons = compare_rankers(shown.same, shown.rank, adjacent=adjacent, only=shown.clicked)
        own, restrict = rates[comparisons.row], partial(_compare_some, shown, rates, adjacent=adjacent)
        splits = [_split_curve(OWN, shown, comparisons, own, restrict), _compare_above(shown, rates)]
    adjusted = adjust_holm([each.p for each in splits])
    return Misfit(
        tuple(
            PopularitySplit(each.by, each.ratio, each.low, each.high, each.p, float(p))
            for each, p in zip(splits, adjusted, strict=True)
        )
    )


def _split_curve(
    by: str,
    shown: Showings,
    comparisons: Comparisons,
    rates: Floats,
    restrict: Callable[[float, bool, Floats], Comparisons],
) -> PopularitySplit:
    """The curves of both halves, and by what their steps from rank to rank differ on average.

    `rates` is `[votes]`. The halves have the same number of clicks that tell.
    """
    telling = shown.clicked[comparisons.row] & comparisons.tells[comparisons.cell] & ~np.isnan(rates)
    if not telling.any():
        return _give_up(by)
    border = float(np.median(rates[telling]))
    fits = []
    for above in (True, False):
        half = telling & ((rates > border) == above)
        if len(np.unique(shown.cluster[comparisons.row[half]])) < LEAST:
            return _give_up(by)
        fits.append(fit_curve(restrict(border, above, rates), shown))
    return _judge(by, *_subtract_steps(fits[0], fits[1]))


def _keep(comparisons: Comparisons, border: float, above: bool, rates: Floats) -> Comparisons:
    """The votes of a half; of swaps the weights do not depend on the other votes."""
    kept = rates > border if above else rates <= border
    return replace(
        comparisons,
        row=comparisons.row[kept],
        cell=comparisons.cell[kept],
        weight=comparisons.weight[kept],
    )


def _compare_some(
    shown: Showings, rates: Floats, border: float, above: bool, _: Floats, *, adjacent: bool
) -> Comparisons:
    """Rankers compared anew on the rows of a half: both sides must hold the same items among these."""
    rows = np.flatnonzero((rates > border) == above)
    found = compare_rankers(shown.same[rows], shown.rank[rows], adjacent=adjacent, only=shown.clicked[rows])
    return replace(found, row=rows[found.row])


def _subtract_steps(one: CurveFit, other: CurveFit) -> tuple[float, Floats, float]:
    """The mean difference of steps, each cluster's influence on it, and the variance that was added."""
    common = np.intersect1d(one.ranks, other.ranks)
    if len(common) < 2:
        return math.nan, np.zeros(0), 0.0
    clusters = np.union1d(one.clusters, other.clusters)
    difference, extra = np.zeros(len(common)), np.zeros((len(common), len(common)))
    influence = np.zeros((len(clusters), len(common)))
    for sign, fit in ((1.0, one), (-1.0, other)):
        at = np.searchsorted(fit.ranks, common)
        difference += sign * fit.logs[at]
        influence[np.searchsorted(clusters, fit.clusters)] += sign * fit.influence[:, at]
        extra += fit.extra[np.ix_(at, at)]
    steps, pushes = np.diff(difference), np.diff(influence, axis=1)
    turn = np.diff(np.eye(len(common)), axis=0)
    added = turn @ extra @ turn.T
    spread = (pushes * pushes).sum(axis=0) + np.diag(added)
    share = 1.0 / spread / (1.0 / spread).sum()
    return float(steps @ share), pushes @ share, float(share @ added @ share)


def _rate_neighbours(shown: Showings, comparisons: Comparisons, rates: Floats) -> Floats:
    """The rate of the item that each vote's item changed places with, or might have `[votes]`."""
    if shown.base is None:
        raise AssertionError("the log has no swaps")
    width = int(max(shown.rank.max(), shown.base.max())) + 1
    table = np.full(shown.n_searches * width, np.nan)
    table[shown.search * width + shown.base] = rates
    here, there = comparisons.here[comparisons.cell], comparisons.there[comparisons.cell]
    moved = (shown.rank != shown.base)[comparisons.row]
    # the neighbour's own rank: where a moved item stands, and what an unmoved one is compared with
    return table[shown.search[comparisons.row] * width + np.where(moved, here, there)]


def _compare_above(shown: Showings, rates: Floats) -> PopularitySplit:
    """The same item at the same rank, below popular items and below others: are its clicks the same?"""
    starts = np.flatnonzero(np.concatenate([[True], shown.search[1:] != shown.search[:-1]]))
    sizes = np.diff(np.concatenate([starts, [len(shown.search)]]))
    before = np.concatenate([[0.0], np.cumsum(rates)])[:-1]
    place = np.arange(len(rates)) - np.repeat(starts, sizes)
    above = (before - np.repeat(before[starts], sizes)) / np.maximum(place, 1)
    usable = place > 0
    if not usable.any():
        return _give_up(ABOVE)
    key = number_together([shown.same, shown.rank])
    # popular is more than is usual above this very item at this very rank
    seen = np.maximum(sum_by(key, usable), 1.0)
    usual = (sum_by(key, np.where(usable, above, 0.0)) / seen)[key]
    side = np.where(above > usual, 2, 1)
    rows = np.flatnonzero(usable)
    comparisons = compare_rankers(key[rows], side[rows], adjacent=True, only=shown.clicked[rows])
    moved = replace(comparisons, row=rows[comparisons.row])
    if len(np.unique(shown.cluster[moved.row[shown.clicked[moved.row]]])) < 2 * LEAST:
        return _give_up(ABOVE)
    fit = fit_curve(moved, shown)
    if len(fit.ranks) < 2:
        return _give_up(ABOVE)
    return _judge(ABOVE, float(fit.logs[1]), fit.influence[:, 1], float(fit.extra[1, 1]))


def _give_up(by: str) -> PopularitySplit:
    return PopularitySplit(by, math.nan, math.nan, math.nan, math.nan)


def _judge(by: str, difference: float, influence: Floats, extra: float) -> PopularitySplit:
    from scipy.special import stdtr, stdtrit

    squares = influence * influence
    variance = float(squares.sum()) + extra
    if not variance > 0.0:
        return _give_up(by)
    freedom = count_freedom(influence[:, None], np.array([variance]))[0]
    error = math.sqrt(variance)
    p = 2.0 * float(stdtr(freedom, -abs(difference) / error))
    reach = float(stdtrit(freedom, 0.975)) * error
    ends = [math.exp(max(-700.0, min(700.0, each))) for each in (difference - reach, difference + reach)]
    return PopularitySplit(by, math.exp(difference), ends[0], ends[1], p)


def count_freedom(influence: Floats, variance: Floats) -> Floats:
    """How many equal clusters would be as uncertain about a variance `[columns]`: `variance² / Σ influence⁴`.

    At least 1, so that few clicks give a wide interval and not none.
    """
    fourth = (influence**4).sum(axis=0)
    found: Floats = np.maximum(variance**2 / np.maximum(fourth, 1e-300), 1.0)
    return np.minimum(found, 1e9)


def _or_one(p: float) -> float:
    return 1.0 if math.isnan(p) else p


def _say_p(p: float) -> str:
    shown = format_p(p)
    return shown if shown.startswith("<") else f"= {shown}"
