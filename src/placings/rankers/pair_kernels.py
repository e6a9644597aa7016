"""Pairwise losses of scores without their pairs: compiled sweeps over sorted rows, and what they add up to.

A pair is a row i (the better) and a row j of the same query with `y_i > y_j`; it weighs what its better row
weighs. For the hinges one sweep costs O(n log n): rows sorted by score, a Fenwick tree over label levels.
The logistic loss has no such sum and visits every pair, keeping none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from placings.core import Floats, Ints, compiled, map_in_order
from placings.metrics import sum_by_query, top_rows

ROWS_A_CHUNK = 100_000  # queries are handed to threads in lots of about this many rows


@dataclass(frozen=True, eq=False)
class Pairs:
    """Which rows make pairs, as level numbers instead of a list of them.

    `levels` `[rows]` number the distinct labels of a query from 0, `depth` `[queries]` counts them, `lower`
    `[rows]` counts the rows of the query with a lower label, `ranked` `[rows]` lists rows by rising label,
    `weight` `[rows]` is the weight of each pair in which the row is the better one.
    """

    weight: Floats
    levels: Ints
    depth: Ints
    lower: Ints
    ranked: Ints
    offsets: Ints

    @property
    def by_query(self) -> Ints:
        """The number of pairs of each query `[queries]`."""
        return sum_by_query(self.lower.astype(np.float64), self.offsets).astype(np.int64)

    @property
    def total(self) -> float:
        """The weight of all pairs together."""
        return float(self.weight @ self.lower)


def find_pairs(labels: Floats, offsets: Ints, weight: Floats | None = None) -> Pairs:
    """The pairs of each query, by level: O(n log n) time, O(n) memory.

    `labels` `[rows]`, any finite numbers; equal labels make no pair. `offsets` `[queries + 1]`.

    >>> pairs = find_pairs(np.array([2.0, 0.0, 2.0, 0.5]), np.array([0, 4]))
    >>> pairs.levels.tolist(), pairs.lower.tolist(), pairs.by_query.tolist()
    ([2, 0, 2, 1], [2, 0, 2, 1], [5])
    """
    ranked, _ = top_rows(-labels, offsets)
    rows = len(ranked)
    sizes = np.diff(offsets)
    place = np.arange(rows)
    sorted_labels = labels[ranked]
    starts = np.repeat(offsets[:-1], sizes)  # [rows], of the sorted row's query, which is the row's own
    new = np.ones(rows, dtype=np.bool_)
    new[1:] = (sorted_labels[1:] != sorted_labels[:-1]) | (starts[1:] != starts[:-1])
    first = np.maximum.accumulate(np.where(new, place, 0))  # where the level begins
    step = np.cumsum(new)
    levels = np.empty(rows, dtype=np.int64)
    lower = np.empty(rows, dtype=np.int64)
    levels[ranked] = step - step[starts] if rows else step
    lower[ranked] = first - starts
    depth = np.zeros(len(sizes), dtype=np.int64)
    filled = sizes > 0
    depth[filled] = (step - step[starts])[offsets[1:][filled] - 1] + 1
    weights = np.ones(rows) if weight is None else np.array(weight, dtype=np.float64)
    return Pairs(weights, levels, depth, lower, ranked, np.array(offsets, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Point:
    """A loss at some scores: its value, its slope `[rows]`, its bend (the weighted sum of ℓ'' over pairs),
    and `multiply(v)`, its second derivative times a vector `[rows]`.

    `middle` `[rows]` is the slope with every pair that is on a parabola moved to its middle (`SmoothHinge`).
    `judge()` gives the loss that is meant, and how far it lies above a linear bound with these slopes: for a
    smooth loss its value and 0.
    """

    value: float
    slope: Floats
    bend: float
    multiply: Callable[[Floats], Floats]
    judge: Callable[[], tuple[float, float]]
    middle: Floats | float = 0.0


@dataclass(frozen=True, eq=False)
class Shortfall:
    """Σ over pairs with `d = s_i − s_j < margin` of powers of `margin − d`, all weighted.

    `count`, `linear` and `square` are the sums of powers 0, 1 and 2; `pull` `[rows]` is the derivative of
    −`linear` by the scores, `slope` `[rows]` that of `square`.
    """

    count: float
    linear: float
    square: float
    pull: Floats
    slope: Floats


def sort_scores(scores: Floats, pairs: Pairs) -> Ints:
    """Rows by falling score within each query: what the sweeps walk along."""
    return top_rows(scores, pairs.offsets)[0]


def sum_shortfall(pairs: Pairs, scores: Floats, order: Ints, margin: float) -> Shortfall:
    """Add up how far pairs fall short of `margin`, in one sweep; a pair just at it falls short by nothing.

    >>> pairs = find_pairs(np.array([1.0, 0.0, 0.0]), np.array([0, 3]))
    >>> scores = np.array([0.5, 0.0, -2.0])
    >>> short = sum_shortfall(pairs, scores, sort_scores(scores, pairs), 1.0)
    >>> short.linear, short.square, short.slope[:2].tolist()
    (0.5, 0.25, [-1.0, 1.0])
    """
    sizes = np.diff(pairs.offsets)
    middle = np.zeros(len(sizes))
    filled = sizes > 0
    middle[filled] = scores[order[(pairs.offsets[:-1] + sizes // 2)[filled]]]
    near = scores - np.repeat(middle, sizes)  # sums of small numbers cancel less than sums of large ones
    better, better_sum, worse, worse_sum = _sweep_all(pairs, scores, near, order, margin)
    above = pairs.weight * (better * (margin - near) + better_sum)  # [rows], as the better row
    below = worse * (margin + near) - worse_sum
    better *= pairs.weight
    linear = float(above.sum())
    return Shortfall(
        count=float(better.sum()),
        linear=linear,
        square=max(0.0, margin * linear + float(near @ (below - above))),
        pull=better - worse,
        slope=2.0 * (below - above),
    )


def multiply_within(pairs: Pairs, scores: Floats, order: Ints, margin: float, vector: Floats) -> Floats:
    """`Σ` over partners within `margin` of weight × `(v_i − v_j)`, for each row: half of the squared hinge's
    second derivative times `v`."""
    better, better_sum, worse, worse_sum = _sweep_all(pairs, scores, vector, order, margin)
    return pairs.weight * (better * vector - better_sum) + worse * vector - worse_sum


# -- the losses -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SquaredHinge:
    """Σ weight · max(0, 1 − d)² over pairs, `d = s_i − s_j`."""

    pairs: Pairs

    def at(self, scores: Floats) -> Point:
        """Value, slope and second derivative at `scores` `[rows]`."""
        order = sort_scores(scores, self.pairs)
        short = sum_shortfall(self.pairs, scores, order, 1.0)

        def multiply(vector: Floats) -> Floats:
            return 2.0 * multiply_within(self.pairs, scores, order, 1.0, vector)

        return Point(
            short.square, short.slope, 2.0 * short.count, multiply, judge=lambda: (short.square, 0.0)
        )


@dataclass(frozen=True, eq=False)
class SmoothHinge:
    """Σ weight · max(0, 1 − d) over pairs, with a parabola of `width` about d = 1 in place of the corner.

    With `hi, lo = 1 ± width/2` it is `(Σ (hi − d)₊² − Σ (lo − d)₊²) / (2·width)`: two sweeps. Its slope at a
    pair, α in [0, 1], is a feasible dual variable of the hinge h: `judge` gives Σ h(1 − d), and what
    smoothing adds to the duality gap, Σ h(1 − d) − α·(1 − d), never negative, falling to 0 with the width.
    """

    pairs: Pairs
    width: float = 4.0  # wide enough that all pairs lie on the parabola while all scores are 0

    def at(self, scores: Floats) -> Point:
        """Value, slope and second derivative at `scores` `[rows]`."""
        order = sort_scores(scores, self.pairs)
        far, near = 1.0 + self.width / 2.0, 1.0 - self.width / 2.0
        outer = sum_shortfall(self.pairs, scores, order, far)
        inner = sum_shortfall(self.pairs, scores, order, near)

        def multiply(vector: Floats) -> Floats:
            wide = multiply_within(self.pairs, scores, order, far, vector)
            return (wide - multiply_within(self.pairs, scores, order, near, vector)) / self.width

        slope = (outer.slope - inner.slope) / (2.0 * self.width)

        def judge() -> tuple[float, float]:
            exact = sum_shortfall(self.pairs, scores, order, 1.0).linear
            alpha = (outer.linear - inner.linear) / self.width
            return exact, max(0.0, exact - (alpha + float(slope @ scores)))

        return Point(
            value=(outer.square - inner.square) / (2.0 * self.width),
            slope=slope,
            bend=(outer.count - inner.count) / self.width,
            multiply=multiply,
            judge=judge,
            middle=-0.5 * (outer.pull + inner.pull),
        )

    def sharpen(self, factor: float) -> SmoothHinge:
        """The same with a narrower parabola."""
        return SmoothHinge(self.pairs, self.width * factor)


@dataclass(frozen=True, eq=False)
class Logistic:
    """Σ weight · log(1 + exp(−d)) over pairs: every pair is visited, O(n²) a query, and none is kept."""

    pairs: Pairs

    def at(self, scores: Floats) -> Point:
        """Value, slope and second derivative at `scores` `[rows]`."""
        slope = np.zeros(len(scores))
        near = np.ascontiguousarray(scores, dtype=np.float64)
        ways = (near, self.pairs.weight, self.pairs.ranked, self.pairs.lower, self.pairs.offsets)
        sums = np.array(list(_in_chunks(partial(_add_logistic, *ways, slope), self.pairs.offsets)))

        def multiply(vector: Floats) -> Floats:
            product = np.zeros(len(vector))
            for _ in _in_chunks(partial(_bend_logistic, *ways, vector, product), self.pairs.offsets):
                pass
            return product

        value, bend = sums.sum(axis=0)
        return Point(float(value), slope, float(bend), multiply, judge=lambda: (float(value), 0.0))


# -- the sweeps -----------------------------------------------------------------------------------


def _in_chunks(work: Callable[[int, int], Any], offsets: Ints) -> Iterator[Any]:
    """`work(first, last)` over lots of queries, on threads; the lots depend on the data alone."""
    lots = max(1, round(int(offsets[-1]) / ROWS_A_CHUNK))
    aims = np.linspace(0, offsets[-1], lots + 1)[1:-1]
    borders = np.unique(np.concatenate([[0], np.searchsorted(offsets, aims), [len(offsets) - 1]]))
    spans = list(zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True))
    return map_in_order(lambda span: work(*span), spans, threads=1 if len(spans) == 1 else None)


def _sweep_all(
    pairs: Pairs, scores: Floats, values: Floats, order: Ints, margin: float
) -> tuple[Floats, Floats, Floats, Floats]:
    better, better_sum, worse, worse_sum = np.zeros((4, len(scores)))
    scores, values = np.ascontiguousarray(scores), np.ascontiguousarray(values)
    work = partial(
        _sweep, scores, values, pairs.weight, pairs.levels, pairs.depth, pairs.offsets, order, margin,
        better, better_sum, worse, worse_sum,
    )  # fmt: skip
    for _ in _in_chunks(work, pairs.offsets):
        pass
    return better, better_sum, worse, worse_sum


@compiled
def _sweep(  # type: ignore[no-untyped-def]
    scores, values, weight, levels, depth, offsets, order, margin,
    better, better_sum, worse, worse_sum, first, last,
):  # fmt: skip
    """For each row its worse partners within the margin, counted and summed; its better ones, weighted."""
    deepest = 1
    for query in range(first, last):
        deepest = max(deepest, depth[query])
    count = np.zeros(deepest + 1)
    total = np.zeros(deepest + 1)
    for query in range(first, last):
        top = depth[query]
        if top < 2:
            continue
        start, stop = offsets[query], offsets[query + 1]
        count[: top + 1] = 0.0
        total[: top + 1] = 0.0
        reach = start
        for place in range(
            start, stop
        ):  # from the highest score down: the tree holds scores above s_i − margin
            i = order[place]
            while reach < stop and scores[i] - scores[order[reach]] < margin:
                j = order[reach]
                node = levels[j] + 1
                while node <= top:
                    count[node] += 1.0
                    total[node] += values[j]
                    node += node & -node
                reach += 1
            node = levels[i]  # levels below this one
            while node > 0:
                better[i] += count[node]
                better_sum[i] += total[node]
                node -= node & -node
        count[: top + 1] = 0.0
        total[: top + 1] = 0.0
        reach = stop - 1
        for place in range(stop - 1, start - 1, -1):  # from the lowest score up, the levels turned around
            j = order[place]
            while reach >= start and scores[order[reach]] - scores[j] < margin:
                i = order[reach]
                node = top - levels[i]
                while node <= top:
                    count[node] += weight[i]
                    total[node] += weight[i] * values[i]
                    node += node & -node
                reach -= 1
            node = top - 1 - levels[j]
            while node > 0:
                worse[j] += count[node]
                worse_sum[j] += total[node]
                node -= node & -node


@compiled
def _add_logistic(scores, weight, ranked, lower, offsets, slope, first, last):  # type: ignore[no-untyped-def]
    value = 0.0
    bend = 0.0
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        for place in range(start, stop):
            i = ranked[place]
            below = lower[i]
            heavy = weight[i]
            if below == 0 or heavy == 0.0:
                continue
            pull = 0.0
            loss = 0.0
            bent = 0.0
            for other in range(start, start + below):
                j = ranked[other]
                gap = scores[i] - scores[j]
                small = math.exp(-abs(gap))
                share = small / (1.0 + small) if gap > 0.0 else 1.0 / (1.0 + small)  # σ(−gap)
                loss += math.log1p(small) + max(0.0, -gap)
                pull += share
                bent += share * (1.0 - share)
                slope[j] += heavy * share
            slope[i] -= heavy * pull
            value += heavy * loss
            bend += heavy * bent
    return value, bend


@compiled
def _bend_logistic(  # type: ignore[no-untyped-def]
    scores, weight, ranked, lower, offsets, vector, product, first, last
):
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        for place in range(start, stop):
            i = ranked[place]
            heavy = weight[i]
            if heavy == 0.0:
                continue
            for other in range(start, start + lower[i]):
                j = ranked[other]
                small = math.exp(-abs(scores[i] - scores[j]))
                push = heavy * small / (1.0 + small) ** 2 * (vector[i] - vector[j])
                product[i] += push
                product[j] -= push
