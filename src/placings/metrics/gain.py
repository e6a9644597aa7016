"""Metrics of graded relevance: DCG, NDCG and ERR."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Floats
from placings.metrics.order import Cut, Ranked, as_number, choose, rank_rows, sum_by_query

EXP2, LINEAR = "exp2", "linear"
EXP2_LIMIT = 1024.0  # 2^1024 is the first power of two that float64 cannot hold


def dcg(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    gain: str = "exp2",
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Discounted cumulative gain of each query.

    `DCG@k = Σ_{r ≤ k} gain(y_r) / log2(1 + r)`, with `gain(y) = 2^y − 1` (`"exp2"`) or `y` (`"linear"`).

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Ties: `"stable"` keeps row order, `"average"` is the mean over all orders of the tied rows,
    `"worst"` puts the lowest labels first. A query with no label above 0 is NaN (`empty="drop"`),
    0 (`"zero"`) or 1 (`"one"`); one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> dcg([0.9, 0.8, 0.7], [1, 0, 2], k=3)  # 1/log2(2) + 3/log2(4)
    array([2.5])

    Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties)
    return ranked.settle(sum_discounted(ranked, k, gain), ranked.count_relevant() == 0, empty, min_items)


def ndcg(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    gain: str = "exp2",
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Normalized discounted cumulative gain of each query, from 0 to 1.

    `NDCG@k = DCG@k / IDCG@k`, where IDCG@k is the DCG@k of the same rows, highest labels first.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Ties: `"stable"` keeps row order, `"average"` is the mean over all orders of the tied rows,
    `"worst"` puts the lowest labels first. A query with no gain is NaN (`empty="drop"`),
    0 (`"zero"`) or 1 (`"one"`); one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> ndcg([0.2, 0.9, 0.5, 0.4], [1, 0, 0, 0], [0, 2, 4])  # 1/log2(3) over 1/log2(2); nothing to find
    array([0.63092975,        nan])

    Burges et al., Learning to rank using gradient descent, ICML 2005.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties)
    got = sum_discounted(ranked, k, gain)
    best = ranked.ideal(k)
    ideal = _discounted(find_gain(gain)(best.labels), best)
    nothing = ideal == 0.0
    # An average of equal gains may round above the gain itself; no order is better than the best.
    return ranked.settle(np.minimum(got / np.where(nothing, 1.0, ideal), 1.0), nothing, empty, min_items)


def err(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    max_label: float = 4.0,
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Expected reciprocal rank of each query: where a reader who stops when satisfied stops.

    `ERR@k = Σ_{r ≤ k} 1/r · R_r · Π_{i<r} (1 − R_i)` with `R = (2^y − 1) / 2^max_label`.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Ties: `"stable"` keeps row order, `"worst"` puts the lowest labels first. A query with no label
    above 0 is NaN (`empty="drop"`), 0 (`"zero"`) or 1 (`"one"`); one with fewer than `min_items` rows
    is NaN. NaN scores and labels above `max_label` are errors.

    >>> err([0.9, 0.8], [1, 2], max_label=2)  # 1/4 + 1/2 · 3/4 · (1 − 1/4)
    array([0.53125])

    Chapelle, Metzler, Zhang and Grinspan, Expected reciprocal rank for graded relevance, CIKM 2009.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=("stable", "worst"))
    from placings.metrics import kernels  # loads numba, which takes half a second

    highest = as_number("max_label", max_label)
    largest = ranked.labels.max(initial=0.0)
    if largest > highest:
        raise BadInput(
            f"labels must not be above max_label. Got a label {largest:g} and max_label={highest:g}. "
            f"Pass max_label={largest:g} or, better, the highest grade your labels can take."
        )
    top = ranked.first(k)
    stops = exp2_gain(top.labels) / (exp2_gain(np.array([highest])) + 1.0)
    return ranked.settle(kernels.cascade(stops, top.offsets), ranked.count_relevant() == 0, empty, min_items)


def exp2_gain(labels: Floats) -> Floats:
    """`2^y − 1`."""
    if labels.size and labels.max() >= EXP2_LIMIT:
        raise BadInput(
            f"labels must be below 1024 for a gain of 2^y − 1, which overflows there. Got {labels.max():g}. "
            'Pass gain="linear" to DCG and NDCG, or put the labels on a scale of grades such as 0 to 4.'
        )
    return np.exp2(labels) - 1.0


def linear_gain(labels: Floats) -> Floats:
    """`y` itself."""
    return labels


GAINS: dict[str, Callable[[Floats], Floats]] = {EXP2: exp2_gain, LINEAR: linear_gain}


def find_gain(gain: str) -> Callable[[Floats], Floats]:
    """The function of a gain by its name."""
    return choose("gain", gain, GAINS)


def sum_discounted(ranked: Ranked, k: int | None, gain: str) -> Floats:
    """DCG in the order of the scores, [queries]."""
    gain_of = find_gain(gain)
    if ranked.ties != "average":
        top = ranked.first(k)
        return _discounted(gain_of(top.labels), top)
    every = ranked.top
    averaged = _averaged(gain_of(every.labels), ranked)
    top = ranked.first(k)
    return _discounted(averaged if top is every else averaged[every.ranks <= (k or 0)], top)


def _averaged(gains: Floats, ranked: Ranked) -> Floats:
    """Each gain replaced by the mean over the rows of its query with the same score."""
    every = ranked.top
    if not gains.size:
        return gains
    scores = ranked.scores[every.rows]
    starts = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1]]) | (every.ranks == 1))
    sizes = np.diff(np.append(starts, len(gains)))
    with np.errstate(over="ignore"):  # an infinite sum is reported where gains are summed
        return np.repeat(np.add.reduceat(gains, starts) / sizes, sizes)


def _discounted(gains: Floats, cut: Cut) -> Floats:
    """`Σ gain / log2(1 + rank)` of each query."""
    depth = int(cut.sizes.max(initial=0))
    discounts = 1.0 / np.log2(np.arange(2, depth + 2))
    with np.errstate(over="ignore"):
        sums = sum_by_query(gains * discounts[cut.ranks - 1], cut.offsets)
    if np.isinf(sums).any():
        raise BadInput(f"labels are too large to sum. Got {cut.labels.max():g}. Put them on a smaller scale.")
    return sums
