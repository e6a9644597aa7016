"""LambdaRank's gradients, and XE-NDCG's, with a weight for each item: what libraries of trees cannot be told.

Written after the formulas of LightGBM and XGBoost, so that with weights of 1 the trees come out as theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from placings.core import Floats, Floats32, Ints, compiled, map_in_order
from placings.metrics import sum_by_query, top_rows

ROWS_A_CHUNK = 20_000  # queries are handed to threads in lots of about this many rows


@dataclass(frozen=True)
class LambdaRules:
    """How a library turns a pair into a gradient; the defaults are LightGBM's.

    - `depth`: a pair has a row among so many of highest score; gains are over the ideal DCG there;
    - `sigmoid`: the slope of `σ(sigmoid · (s_i − s_j))`;
    - `swap`: a pair counts by the NDCG that swapping it would change, or all pairs alike;
    - `by_distance`: that is divided by `0.01 + |s_i − s_j|`, unless all scores of the query are equal;
    - `by_total`: gradients of a query with sum S are multiplied by `log2(1 + S) / S`;
    - `curvature`, `least`: the second derivative is `curvature · max(σ(1 − σ), least)`, times the rest.
    """

    depth: int = 30
    sigmoid: float = 1.0
    swap: bool = True
    by_distance: bool = True
    by_total: bool = True
    curvature: float = 1.0
    least: float = 0.0


@dataclass(frozen=True, eq=False)
class LambdaGradients:
    """LambdaRank's gradient and second derivative by the scores, every pair weighed by its better row.

    For each pair of a query with `y_i > y_j`, one of the two among the `depth` best by score:

        λ_ij = w_i · Δ_ij · σ(−(s_i − s_j)),  Δ_ij = |G_i − G_j| · |d(r_i) − d(r_j)| / ideal DCG

    is taken from the gradient of i and added to that of j; `rules` say what else a library does. What a
    library derives from the sum of a query's gradients is derived from the sum without weights: so a weight
    that is the same for all items of a query multiplies its gradients, as the libraries' weights of queries
    do.

    `labels`, `gains` and `weight` are `[rows]`, `offsets` `[queries + 1]`. Tied scores are ranked by the
    order of rows. A query without a pair has zeros.

    >>> one = LambdaGradients(
    ...     np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([1.0, 3.0]), np.array([0, 2]),
    ...     LambdaRules(by_total=False),
    ... )
    >>> one.at(np.zeros(2))[0]  # 3 · (1 − 1/log2(3)) · ½, to the better row's favour
    array([ 0.5536054, -0.5536054], dtype=float32)

    Burges, From RankNet to LambdaRank to LambdaMART, 2010.
    """

    labels: Floats
    gains: Floats
    weight: Floats
    offsets: Ints
    rules: LambdaRules = LambdaRules()
    threads: int = 1

    @cached_property
    def _discounts(self) -> Floats:
        longest = int(np.diff(self.offsets).max(initial=0))
        return np.asarray(1.0 / np.log2(np.arange(2.0, longest + 2.0)))

    @cached_property
    def _inverse(self) -> Floats:
        """One over the ideal DCG at `depth` of each query `[queries]`, 0 where there is no gain."""
        order, _ = top_rows(self.gains, self.offsets)
        ranks = np.arange(len(order)) - np.repeat(self.offsets[:-1], np.diff(self.offsets))
        terms = np.where(ranks < self.rules.depth, self.gains[order] * self._discounts[ranks], 0.0)
        ideal = sum_by_query(terms, self.offsets)
        return np.divide(1.0, ideal, out=np.zeros(len(ideal)), where=ideal > 0.0)

    def at(self, scores: Floats) -> tuple[Floats32, Floats32]:
        """Gradient and second derivative of the loss by each score, float32 `[rows]`."""
        values = np.ascontiguousarray(scores, dtype=np.float64)
        order, _ = top_rows(values, self.offsets)
        gradient, bend = np.zeros((2, len(values)))
        rules = self.rules
        work = partial(
            _add_lambdas, values, self.labels, self.gains, self.weight, self._inverse, self._discounts,
            order, self.offsets, rules.depth, rules.sigmoid, rules.swap, rules.by_distance, rules.by_total,
            rules.curvature, rules.least, gradient, bend,
        )  # fmt: skip
        run_in_lots(work, self.offsets, self.threads)
        return gradient.astype(np.float32), bend.astype(np.float32)


@dataclass(frozen=True, eq=False)
class CrossEntropyGradients:
    """XE-NDCG's gradients, in which an item's weight multiplies its gain.

    The target of item i is `t_i / Σ_j (2^y_j − γ_j)` with `t_i = m · (1 − γ_i) + w_i · (2^y_i − 1)`, γ drawn
    anew for each call from [0, 1), and m the mean weight of the query's items with gain: a row without gain
    keeps its small, random share, whatever it weighs. With T the sum of the targets, gradients are T times
    LightGBM's for the targets over T. So one weight for all of a query's items multiplies its gradients.

    Bruch, An alternative cross entropy loss for learning-to-rank, WWW 2021.
    """

    labels: Floats
    weight: Floats
    offsets: Ints
    random: np.random.Generator
    threads: int = 1

    @cached_property
    def _gains(self) -> Floats:
        return np.asarray(np.exp2(self.labels) - 1.0)

    @cached_property
    def _means(self) -> Floats:
        """The mean weight of each query's rows with gain, of all its rows where none has any `[queries]`."""
        found = np.zeros(len(self.offsets) - 1)
        for chosen in (np.ones(len(self.labels)), (self.labels > 0.0).astype(np.float64)):
            counts = sum_by_query(chosen, self.offsets)
            totals = sum_by_query(self.weight * chosen, self.offsets)
            np.divide(totals, counts, out=found, where=counts > 0.0)
        return found

    def at(self, scores: Floats) -> tuple[Floats32, Floats32]:
        """Gradient and second derivative of the loss by each score, float32 `[rows]`; one row alone has 0."""
        values = np.ascontiguousarray(scores, dtype=np.float64)
        noise = 1.0 - self.random.random(len(values))
        plain = noise + self._gains
        heavy = np.repeat(self._means, np.diff(self.offsets)) * noise + self.weight * self._gains
        gradient, bend = np.zeros((2, len(values)))
        work = partial(_add_entropy, values, plain, heavy, self.offsets, gradient, bend)
        run_in_lots(work, self.offsets, self.threads)
        return gradient.astype(np.float32), bend.astype(np.float32)


def run_in_lots(work: Callable[[int, int], Any], offsets: Ints, threads: int) -> None:
    """`work(first, last)` over lots of queries, on threads; each writes to rows of its own."""
    lots = max(1, round(int(offsets[-1]) / ROWS_A_CHUNK))
    aims = np.linspace(0, offsets[-1], lots + 1)[1:-1]
    borders = np.unique(np.concatenate([[0], np.searchsorted(offsets, aims), [len(offsets) - 1]])).tolist()
    spans = list(pairwise(borders))
    for _ in map_in_order(lambda span: work(*span), spans, threads=1 if len(spans) == 1 else threads):
        pass


@compiled
def _add_lambdas(  # type: ignore[no-untyped-def]
    scores, labels, gains, weight, inverse, discounts, order, offsets, depth, sigmoid, swap, by_distance,
    by_total, curvature, least, gradient, bend, first, last,
):  # fmt: skip
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        if stop - start < 2 or (swap and inverse[query] == 0.0):
            continue
        apart = scores[order[start]] != scores[order[stop - 1]]
        total = 0.0
        for upper in range(start, min(stop - 1, start + depth)):
            for lower in range(upper + 1, stop):
                high, low = order[upper], order[lower]
                if labels[high] == labels[low]:
                    continue
                if labels[high] < labels[low]:
                    high, low = low, high
                gap = scores[high] - scores[low]
                worth = 1.0
                if swap:
                    lost = discounts[upper - start] - discounts[lower - start]
                    worth = (gains[high] - gains[low]) * lost * inverse[query]
                if by_distance and apart:
                    worth /= 0.01 + abs(gap)
                small = math.exp(-abs(sigmoid * gap))
                share = small / (1.0 + small) if gap > 0.0 else 1.0 / (1.0 + small)  # σ(−sigmoid · gap)
                push = sigmoid * worth * share
                bent = sigmoid * sigmoid * worth * curvature * max(share * (1.0 - share), least)
                total += 2.0 * push
                heavy = weight[high]
                gradient[high] -= heavy * push
                gradient[low] += heavy * push
                bend[high] += heavy * bent
                bend[low] += heavy * bent
        if by_total and total > 0.0:
            factor = math.log2(1.0 + total) / total
            for row in range(start, stop):
                gradient[row] *= factor
                bend[row] *= factor


@compiled
def _add_entropy(scores, plain, heavy, offsets, gradient, bend, first, last):  # type: ignore[no-untyped-def]
    tiny = 1e-15
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        if stop - start < 2:
            continue
        top = scores[start]
        for row in range(start, stop):
            top = max(top, scores[row])
        mass, light, total = 0.0, 0.0, 0.0
        for row in range(start, stop):
            mass += math.exp(scores[row] - top)
            light += plain[row]
            total += heavy[row]
        if total <= 0.0:
            continue
        factor = total / max(tiny, light)
        count = stop - start
        share = np.empty(count)
        rest = np.empty(count)
        one = 0.0
        for place in range(count):
            row = start + place
            share[place] = math.exp(scores[row] - top) / mass
            term = share[place] - heavy[row] / total
            gradient[row] = term
            rest[place] = term / max(tiny, 1.0 - share[place])
            one += rest[place]
        two = 0.0
        for place in range(count):
            term = share[place] * (one - rest[place])
            gradient[start + place] += term
            rest[place] = term / max(tiny, 1.0 - share[place])
            two += rest[place]
        for place in range(count):
            row = start + place
            gradient[row] = factor * (gradient[row] + share[place] * (two - rest[place]))
            bend[row] = factor * share[place] * (1.0 - share[place])
