"""The same item at two ranks: clicks there and here, and the curve that fits all such comparisons best.

Under the position-based model a showing of item i at rank k is clicked with probability p_k · g_i. Wherever
the same items stood at k and at k′ for reasons that have nothing to do with g, weighted clicks A at k and B
at k′ have `E[A] / E[B] = p_k / p_k′`. Where the weights come from is the design of the log:

- a swap of two items with a known probability: each click counts 1/probability;
- different rankers: of an item shown n times at k and n′ times at k′, a click at k counts n′/(n + n′) and one
  at k′ counts n/(n + n′), the weights of Mantel and Haenszel, so that both sides curvature the same items.

A curve is the maximum of `Σ A·log(p_k/(p_k + p_k′)) + B·log(p_k′/(p_k + p_k′))` over all pairs that were
compared: with neighbours only, the product of their ratios. Clicks are few, so each side has half a click
more than was seen, shared out over the pairs that say the same (the logarithm of a count is then nearly
unbiased), and their chance is in the interval.

Agarwal, Zaitsev, Wang, Li, Najork, Joachims: Estimating position bias without intrusive interventions, WSDM
2019. Bradley and Terry, 1952 (the likelihood). Firth, Bias reduction of maximum likelihood estimates, 1993.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from placings.core import Bools, Floats, Ints
from placings.logs.showings import Showings, find_explored, number_together, sum_by

STEPS = 200  # of Newton's method; it takes about ten
STILL = 1e-10


@dataclass(frozen=True, eq=False)
class Comparisons:
    """Weighted showings, each at one rank and compared with another.

    A cell is one direction of one comparison: shown at `here` and compared with `there`; swaps have two of
    each, of items that stood at their own rank and of those that were moved. `row`, `cell` and `weight`
    are `[votes]`, one for each showing that takes part in a comparison; `here` and `there` are `[cells]`.
    `plain` `[cells]` is what a showing weighs there, and `tells` whether clicks there tie two ranks together:
    of swaps, those on items that were moved.
    """

    row: Ints
    cell: Ints
    weight: Floats
    here: Ints
    there: Ints
    plain: Floats
    tells: Bools


@dataclass(frozen=True, eq=False)
class CurveFit:
    """log(p_k/p_1) of the ranks that comparisons tie to rank 1, and how uncertain each is.

    `influence` is `[clusters, ranks]`: what each cluster with a click moves; `extra` `[ranks, ranks]` is the
    variance of the half clicks that were added. `refused` are ranks that were shown and that no comparison
    with a click ties to rank 1.
    """

    ranks: Ints
    logs: Floats
    influence: Floats
    extra: Floats
    clusters: Ints  # which cluster a line of `influence` is of
    refused: tuple[int, ...]

    @property
    def covariance(self) -> Floats:
        """Of `logs` `[ranks, ranks]`, with clusters that moved together."""
        count = len(self.influence)
        found: Floats = count / max(count - 1, 1) * (self.influence.T @ self.influence) + self.extra
        return found


def compare_swaps(shown: Showings, *, only: Bools | None = None, farthest: int | None = None) -> Comparisons:
    """Showings of lists in which two items might have been swapped, weighted by 1/probability.

    A list takes part with the first ranks whose `shown_probability` is below 1: those that could be moved.
    An item whose own rank is b was shown at b, or at another rank within its list's reach. Each such pair of
    ranks is a comparison of its own; `farthest` leaves out those further apart. `only` are the rows that get
    a vote, such as those with a click; all are counted.
    """
    if shown.chance is None or shown.base is None or shown.reach is None:
        raise AssertionError("the log has no swaps")
    explored, last = find_explored(shown)
    usable = np.flatnonzero(explored)
    rank, base, chance = shown.rank[usable], shown.base[usable], shown.chance[usable]
    reach, end = shown.reach[usable], last[shown.search[usable]]
    width = int(max(rank.max(initial=0), end.max(initial=0))) + 1
    voting = np.ones(len(usable), dtype=np.bool_) if only is None else only[usable]
    most = min(int(reach.max(initial=0)), width, farthest or width)
    weighed, squares, parts = np.zeros(2 * width**2), np.zeros(2 * width**2), []
    for step in (*range(-most, 0), *range(1, most + 1)):  # the pair of ranks b and b + step
        other = base + step
        fits = (other >= 1) & (other <= end) & (base <= end) & (abs(step) <= reach)
        row = np.flatnonzero(fits & ((rank == base) | (rank == other)))
        moved = (rank != base)[row]
        there = np.where(moved, base[row], other[row])
        key = (moved * width + rank[row]) * width + there
        weighed += sum_by(key, 1.0 / chance[row], len(weighed))
        squares += sum_by(key, chance[row] ** -2.0, len(weighed))
        parts.append((usable[row][voting[row]], key[voting[row]]))
    row, key = (np.concatenate(each) for each in zip(*parts, strict=True))
    cells = np.flatnonzero(weighed)
    return Comparisons(
        row, np.searchsorted(cells, key), 1.0 / shown.chance[row], cells // width % width, cells % width,
        plain=squares[cells] / weighed[cells], tells=cells >= width**2,
    )  # fmt: skip


def compare_rankers(same: Ints, rank: Ints, *, adjacent: bool, only: Bools | None = None) -> Comparisons:
    """Showings of the same search and item at two ranks, with the weights of Mantel and Haenszel.

    See the module. `same` numbers search and item together. All arrays are `[rows]`. `only` are the rows that
    get a vote, such as those with a click; all are counted.
    """
    width = int(rank.max(initial=0)) + 1
    keys, found, times = np.unique(same * width + rank, return_inverse=True, return_counts=True)
    of_same, of_rank = keys // width, keys % width
    starts = np.flatnonzero(np.concatenate([[True], of_same[1:] != of_same[:-1]]))
    sizes = np.diff(np.concatenate([starts, [len(keys)]]))
    several = np.repeat(sizes, sizes) > 1
    one, other = _meet(np.flatnonzero(several), starts, sizes, of_rank, adjacent)
    weight = times[other] / (times[one] + times[other])
    pairs = _gather(one, of_rank[one], of_rank[other], np.zeros(len(one), dtype=np.int64), weight)
    shown, squares = (sum_by(pairs.cell, times[one] * weight**power, len(pairs.here)) for power in (1, 2))
    # a showing has as many votes as its item has other ranks
    votes = np.bincount(one, minlength=len(keys))
    begin = np.cumsum(votes) - votes
    row = np.flatnonzero(votes[found] > 0 if only is None else only & (votes[found] > 0))
    size = votes[found[row]]
    vote = np.repeat(begin[found[row]], size) + _count_up(size)
    return replace(
        pairs, row=np.repeat(row, size), cell=pairs.cell[vote], weight=weight[vote], plain=squares / shown
    )


def fit_curve(comparisons: Comparisons, shown: Showings) -> CurveFit:
    """The curve that fits the comparisons best; without one of rank 1, rank 1 alone is left."""
    here, there = comparisons.here, comparisons.there
    votes = np.flatnonzero(shown.clicked[comparisons.row])
    cell, weight = comparisons.cell[votes], comparisons.weight[votes]
    cluster = shown.cluster[comparisons.row[votes]]
    totals = sum_by(cell, weight, len(here))
    units = _size_units(comparisons, cell, weight, cluster, totals)
    width = int(max(here.max(initial=1), there.max(initial=1))) + 1
    pair = number_together([np.minimum(here, there) * width + np.maximum(here, there)])
    tied = sum_by(pair, totals * comparisons.tells)[pair] > 0.0
    kept_ranks = find_connected(here, there, tied)
    refused = tuple(int(rank) for rank in np.setdiff1d(np.unique(shown.rank), kept_ranks))
    place = np.full(width, -1)
    place[kept_ranks] = np.arange(len(kept_ranks))
    used = tied & (place[here] >= 0) & (place[there] >= 0)
    if len(kept_ranks) == 1:
        nothing = np.zeros((0, 1))
        return CurveFit(kept_ranks, np.zeros(1), nothing, np.zeros((1, 1)), np.zeros(0, np.int64), refused)
    signs = np.zeros((len(here), len(kept_ranks)))  # [cells, ranks]: +1 here, −1 there
    signs[np.flatnonzero(used), place[here[used]]] += 1.0
    signs[np.flatnonzero(used), place[there[used]]] -= 1.0
    added = 0.5 * units * _share_halves(signs, pair, totals + units, used)
    logs, curvature, slope = _climb(signs, pair, np.where(used, totals + added, 0.0))
    clusters, line = np.unique(cluster, return_inverse=True)
    scores = _sum_scores(line, len(clusters), cell, weight, slope[:, None] * signs)
    inverse = invert(curvature)
    pushed = slope[:, None] * signs @ inverse
    extra = (pushed * np.where(used, added * units, 0.0)[:, None]).T @ pushed
    return CurveFit(kept_ranks, logs, scores @ inverse, extra, clusters, refused)


# -- inside ------------------------------------------------------------------------------------------------


def _meet(chosen: Ints, starts: Ints, sizes: Ints, of_rank: Ints, adjacent: bool) -> tuple[Ints, Ints]:
    """Each chosen entry of (item, rank) with every other rank of its item, in order of the first."""
    begin, size = np.repeat(starts, sizes)[chosen], np.repeat(sizes, sizes)[chosen]
    one, other = np.repeat(chosen, size), np.repeat(begin, size) + _count_up(size)
    away = np.abs(of_rank[one] - of_rank[other])
    fits = away == 1 if adjacent else away > 0
    return one[fits], other[fits]


def _gather(row: Ints, here: Ints, there: Ints, kind: Ints, weight: Floats) -> Comparisons:
    width = int(max(here.max(initial=0), there.max(initial=0))) + 1
    keys, cell = np.unique((kind * width + here) * width + there, return_inverse=True)
    shown, squares = (sum_by(cell, weight**power, len(keys)) for power in (1, 2))
    every = np.ones(len(keys), dtype=np.bool_)
    return Comparisons(row, cell, weight, keys // width % width, keys % width, squares / shown, every)


def _count_up(sizes: Ints) -> Ints:
    """0 … size − 1 for each size, one after the other."""
    ends = np.cumsum(sizes)
    found: Ints = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    return found


def _size_units(
    comparisons: Comparisons, cell: Ints, weight: Floats, cluster: Ints, totals: Floats
) -> Floats:
    """What one click weighs in each cell: `Σ over clusters of (weighted clicks)² / weighted clicks`.

    Where nobody clicked, what a showing weighs.
    """
    count = len(comparisons.here)
    own = number_together([cell, cluster]) if len(cell) else cell
    sums = sum_by(own, weight)
    of_cell = np.zeros(len(sums), dtype=np.int64)
    of_cell[own] = cell
    squares = sum_by(of_cell, sums * sums, count)
    found: Floats = np.where(totals > 0.0, squares / np.maximum(totals, 1e-300), comparisons.plain)
    return found


def find_connected(here: Ints, there: Ints, edges: Bools) -> Ints:
    """The ranks that are tied to rank 1, itself included."""
    found = {1}
    pairs = {(int(a), int(b)) for a, b in zip(here[edges], there[edges], strict=True)}
    while True:
        more = {b for a, b in pairs if a in found} | {a for a, b in pairs if b in found}
        if more <= found:
            return np.array(sorted(found), dtype=np.int64)
        found |= more


def _share_halves(signs: Floats, pair: Ints, weights: Floats, used: Bools) -> Floats:
    """How much of half a click each cell gets: 1 where its pair alone ties two parts of the graph together.

    That is the leverage of the pair (weight times effective resistance), shared by its cells of a direction;
    over all pairs it adds up to the number of ratios.
    """
    weights = np.where(used, weights, 0.0)
    of_pair = sum_by(pair, weights)[pair]
    first = np.zeros(int(pair.max()) + 1, dtype=np.int64)
    first[pair] = np.arange(len(pair))
    laplacian = (signs[first] * sum_by(pair, weights)[:, None]).T @ signs[first]
    resistance = np.einsum("ij,jk,ik->i", signs, np.linalg.pinv(laplacian, hermitian=True), signs)
    kinds = np.maximum(sum_by(pair, used)[pair] / 2.0, 1.0)
    found: Floats = np.where(used, of_pair * resistance / kinds, 0.0)
    return found


def _climb(signs: Floats, pair: Ints, totals: Floats) -> tuple[Floats, Floats, Floats]:
    """The logs `[ranks]` (that of rank 1 is 0), the curvature `[ranks, ranks]` and each cell's slope."""
    logs = np.zeros(signs.shape[1])
    of_pair = sum_by(pair, totals)[pair]
    for _ in range(STEPS):
        slope = 1.0 / (1.0 + np.exp(np.clip(signs @ logs, -500.0, 500.0)))  # 1 − p_here/(p_here + p_there)
        score = (totals * slope) @ signs
        # each pair has cells in both directions: half of it in each
        bend = 0.5 * of_pair * slope * (1.0 - slope) / _count_directions(pair)
        curvature = (signs * bend[:, None]).T @ signs
        step = invert(curvature) @ score
        largest = float(np.abs(step).max())
        logs = logs + step * min(1.0, 2.0 / max(largest, 1e-300))  # far steps overshoot
        if largest < STILL:
            break
    return logs, curvature, slope


def _count_directions(pair: Ints) -> Floats:
    """How many cells of each direction a pair has."""
    return sum_by(pair, np.ones(len(pair)))[pair] / 2.0


def invert(curvature: Floats) -> Floats:
    """The inverse with rank 1 held still: its line and column are 0."""
    found = np.zeros_like(curvature)
    found[1:, 1:] = np.linalg.inv(curvature[1:, 1:] + 1e-12 * np.eye(len(curvature) - 1))
    return found


def _sum_scores(line: Ints, lines: int, cell: Ints, weight: Floats, pushes: Floats) -> Floats:
    """The score of each cluster `[clusters, ranks]`."""
    columns = [np.bincount(line, weights=weight * push[cell], minlength=lines) for push in pushes.T]
    return np.stack(columns, axis=1)
