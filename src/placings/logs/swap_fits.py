"""The curve behind swaps: where an item stood, given that it was clicked, against where it might have stood.

In a list in which one pair of items might have been swapped, an item whose own rank is b had a known
probability q_k of standing at each rank k. Under the position-based model it was looked at there with p_k,
so that, given its click,

    P(it stood at k) = q_k · p_k / Σ_j q_j · p_j,

whatever the item is worth: its worth is in every term and cancels. The curve is the maximum of the product
over all clicks. Clicks on items that nobody moved say how often the rank is clicked, those on moved items
what the move changed; nothing else in such a log tells looks from worth.

Clicks are few, so each cell has up to half a click more than was seen, by its leverage (Firth's correction,
which takes the bias of first order away), and the chance of these is in the interval.

Joachims, Swaminathan, Schnabel: Unbiased learning-to-rank with biased feedback, WSDM 2017 (swaps). Cox:
Partial likelihood, 1975. Firth: Bias reduction of maximum likelihood estimates, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placings.core import Bools, Floats, Ints
from placings.logs.harvesting import CurveFit, find_connected, invert
from placings.logs.showings import Showings, find_explored, number_together, sum_by

STEPS = 200  # of Newton's method; it takes about ten
STILL = 1e-10


@dataclass(frozen=True, eq=False)
class MovableLists:
    """The rows of lists in which a pair might have been swapped; all arrays are `[rows]`.

    `end` is how many ranks of the list could be swapped, `each` the probability of one swap.
    """

    row: Ints
    rank: Ints
    base: Ints
    reach: Ints
    end: Ints
    each: Floats


@dataclass(frozen=True, eq=False)
class ClickGroups:
    """Clicks on items that might have stood at the same ranks with the same probabilities.

    `chance` is `[groups, ranks]`, 0 where the item could not stand; `counts` the clicks there. `click` are
    the clicked rows, `group` and `place` (the rank's column) of each.
    """

    chance: Floats
    counts: Floats
    click: Ints
    group: Ints
    place: Ints


def find_movable(shown: Showings) -> MovableLists:
    """The lists that could be swapped, with the first ranks whose `shown_probability` is below 1.

    A list with a rank missing among these takes no part.
    """
    if shown.chance is None or shown.base is None or shown.reach is None:
        raise AssertionError("the log has no swaps")
    explored, last = find_explored(shown)
    row = np.flatnonzero(explored & (shown.base <= last[shown.search]))
    rank, base, end = shown.rank[row], shown.base[row], last[shown.search[row]]
    reach = np.minimum(shown.reach[row], end - 1)
    holding = np.minimum(base - 1, reach) + np.minimum(end - base, reach)  # pairs that the item is in
    chance = shown.chance[row]
    each = np.where(rank == base, (1.0 - chance) / np.maximum(holding, 1), chance)
    return MovableLists(row, rank, base, reach, end, each)


def fit_swaps(shown: Showings) -> CurveFit:
    """The curve that makes the clicks of swapped and unswapped lists most likely, and its uncertainty.

    Ranks that no click on a moved item ties to rank 1 are refused; without any, rank 1 alone is left.
    """
    lists = find_movable(shown)
    clicked = shown.clicked[lists.row]
    moved = clicked & (lists.rank != lists.base)
    ranks = find_connected(lists.rank, lists.base, moved)
    refused = tuple(int(rank) for rank in np.setdiff1d(np.unique(shown.rank), ranks))
    if len(ranks) == 1:
        nothing = np.zeros((0, 1))
        return CurveFit(ranks, np.zeros(1), nothing, np.zeros((1, 1)), np.zeros(0, np.int64), refused)
    groups = _group_clicks(lists, clicked & np.isin(lists.rank, ranks) & np.isin(lists.base, ranks), ranks)
    logs, likely, inverse, added = _climb(groups)
    clusters, line = np.unique(shown.cluster[groups.click], return_inverse=True)
    scores = sum_by(line * len(ranks) + groups.place, np.ones(len(line)), len(clusters) * len(ranks))
    scores = scores.reshape(len(clusters), len(ranks))
    for column in range(len(ranks)):
        scores[:, column] -= sum_by(line, likely[groups.group, column], len(clusters))
    away = np.eye(len(ranks))[None] - likely[:, None]  # [groups, ranks, ranks]: what one click there says
    said = np.einsum("gk,gki,gkj->ij", added, away, away)
    fit = CurveFit(ranks, logs, scores @ inverse, np.zeros_like(inverse), clusters, refused)
    # few clusters spread too little by chance; none is surer than independent clicks would be
    lacking = np.maximum(np.diag(inverse) - np.diag(fit.covariance), 0.0)
    return replace(fit, extra=inverse @ said @ inverse + np.diag(lacking))


def _group_clicks(lists: MovableLists, used: Bools, ranks: Ints) -> ClickGroups:
    """The clicks of lists with the same swaps, by the rank that the item had of its own."""
    at = np.flatnonzero(used)
    group = number_together([lists.base[at], lists.end[at], lists.reach[at], lists.each[at]])
    first = np.unique(group, return_index=True)[1]
    base, end, reach, each = (
        values[at[first]][:, None] for values in (lists.base, lists.end, lists.reach, lists.each)
    )
    holding = np.minimum(base - 1, reach) + np.minimum(end - base, reach)
    away = np.abs(ranks - base)
    there = (ranks <= end) & (away <= reach)
    chance = np.where(away == 0, 1.0 - holding * each, np.where(there, each, 0.0))
    place = np.searchsorted(ranks, lists.rank[at])
    counts = sum_by(group * len(ranks) + place, np.ones(len(at)), chance.size).reshape(chance.shape)
    return ClickGroups(chance, counts, lists.row[at], group, place)


def _climb(groups: ClickGroups) -> tuple[Floats, Floats, Floats, Floats]:
    """The logs `[ranks]`, that of rank 1 being 0; each cell's probability given a click `[groups, ranks]`;
    the inverse of the curvature `[ranks, ranks]`; and the clicks that were added to each cell."""
    logs = np.zeros(groups.chance.shape[1])
    total = groups.counts.sum(axis=1, keepdims=True)
    for _ in range(STEPS):
        likely = groups.chance * np.exp(np.clip(logs, -300.0, 300.0))
        likely /= likely.sum(axis=1, keepdims=True)
        weighed = total * likely
        curvature = np.diag(weighed.sum(axis=0)) - weighed.T @ likely
        inverse = invert(curvature)
        # the leverage of one click: (e − π) · inverse · (e − π), with e the click's rank
        mixed = likely @ inverse
        leverage = np.diag(inverse)[None] - 2.0 * mixed + (mixed * likely).sum(axis=1, keepdims=True)
        added = 0.5 * weighed * leverage
        score = (groups.counts + added).sum(axis=0) - (total + added.sum(axis=1, keepdims=True)).T @ likely
        step = inverse @ score.ravel()
        largest = float(np.abs(step).max())
        logs = logs + step * min(1.0, 2.0 / max(largest, 1e-300))  # far steps overshoot
        if largest < STILL:
            break
    return logs, likely, inverse, added
