"""Metrics of clicks whose mean does not depend on where people happened to look: DCG, clicks and MRR by IPS.

People click what they look at, and they look at the top. A click at a position that is looked at with
probability p stands for 1/p clicks: a sum over items of clicks so weighed has, on average over clicks, the
value that the same sum has of what people want (inverse propensity scoring). That holds for sums over items
only. NDCG, MAP, recall and the others divide by what the best order would have, which no click shows.

Every metric here is the plain sum with `c / p` in place of the label, so ties and cutoffs are those of
`dcg`. A query without a click is 0 and counts: leaving it out would leave out the searches in which the
wanted item stood where nobody looked.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Bools, Floats, as_same_length, as_vector, option
from placings.metrics.gain import EXP2, LINEAR, find_gain, sum_discounted
from placings.metrics.order import Ranked, as_number, choose, is_relevant, rank_rows, sum_by_query

CLIP = 100.0  # a click weighs at most so much; 1/p of a position that is looked at once in a hundred times
CLICK = "click"
GAINS = (CLICK, LINEAR, EXP2)
STABLE_OR_WORST = ("stable", "worst")


def dcg_ips(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    propensity: ArrayLike | None = None,
    k: int | None = None,
    gain: str = CLICK,
    relevant_from: float | None = None,
    clip: float | None = CLIP,
    ties: str = "stable",
    min_items: int = 1,
) -> Floats:
    """Discounted cumulative gain of each query, each click divided by its propensity.

    `DCG:ips@k = Σ_{r ≤ k} c_r · min(1/p_r, clip) / log2(1 + r)`. c is 1 for a click (`gain="click"`), the
    label y (`"linear"`) or 2^y − 1 (`"exp2"`), and 0 for a label of 0; of labels 0 and 1 the three are equal.
    Where a click needs a look, and p is the probability of one, the mean over clicks is the DCG of what
    would be clicked if everything were looked at, but for what `clip` takes away.

    `scores`, `labels` and `propensity` (above 0, at most 1) are `[rows]`, `offsets` is `[queries + 1]` (None:
    one query); returns `[queries]`. A click is a label above 0, or of `relevant_from` and more. `clip=None`
    weighs without a limit. Ties: `"stable"` keeps row order, `"average"` is the mean over all orders of the
    tied rows, `"worst"` puts what is worth least first. A query without a click is 0; one with fewer than
    `min_items` rows is NaN. NaN scores are an error.

    >>> dcg_ips([0.9, 0.8, 0.7], [1, 0, 1], propensity=[1.0, 0.5, 0.25], k=3)  # 1/log2(2) + 4/log2(4)
    array([3.])

    Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017; Agarwal,
    Takatsu, Zaitsev and Joachims, A general framework for counterfactual learning-to-rank, SIGIR 2019.
    """
    choose("gain", gain, dict.fromkeys(GAINS))
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties)
    worth = _weigh(ranked, propensity, gain, relevant_from, clip)
    return _settle(worth, sum_discounted(worth, k, LINEAR), min_items)


def clicks_ips(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    propensity: ArrayLike | None = None,
    k: int | None = None,
    relevant_from: float | None = None,
    clip: float | None = CLIP,
    ties: str = "stable",
    min_items: int = 1,
) -> Floats:
    """How many wanted items stand in the first `k` ranks of each query, estimated from clicks.

    `clicks:ips@k = Σ_{r ≤ k} c_r · min(1/p_r, clip)`: each click stands for 1/p wanted items. Without `k` all
    ranks count, and the order of the rows does not matter.

    `scores`, `labels` and `propensity` (above 0, at most 1) are `[rows]`, `offsets` is `[queries + 1]` (None:
    one query); returns `[queries]`. A click is a label above 0, or of `relevant_from` and more. `clip=None`
    weighs without a limit. Ties: `"stable"` keeps row order, `"worst"` puts what is worth least first. A
    query without a click is 0; one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> clicks_ips([0.9, 0.8, 0.7], [1, 0, 1], propensity=[1.0, 0.5, 0.25], k=2)
    array([1.])
    >>> clicks_ips([0.9, 0.8, 0.7], [1, 0, 1], propensity=[1.0, 0.5, 0.25])  # 1 + 4
    array([5.])

    Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    worth = _weigh(ranked, propensity, CLICK, relevant_from, clip)
    top = worth.first(k)
    return _settle(worth, sum_by_query(top.labels, top.offsets), min_items)


def mrr_ips(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    propensity: ArrayLike | None = None,
    k: int | None = None,
    relevant_from: float | None = None,
    clip: float | None = CLIP,
    ties: str = "stable",
    min_items: int = 1,
) -> Floats:
    """Reciprocal rank of the wanted item of each query, each click divided by its propensity.

    `RR:ips@k = Σ_{r ≤ k} c_r · min(1/p_r, clip) / r`. **It is a reciprocal rank only where each search wants
    one item**: then the sum over wanted items is the reciprocal rank of the only one. Where a search wants
    several, it is more than the reciprocal rank of the first; use `dcg_ips` there. A single query's value may
    be above 1.

    `scores`, `labels` and `propensity` (above 0, at most 1) are `[rows]`, `offsets` is `[queries + 1]` (None:
    one query); returns `[queries]`. A click is a label above 0, or of `relevant_from` and more. `clip=None`
    weighs without a limit. Ties: `"stable"` keeps row order, `"worst"` puts what is worth least first. A
    query without a click is 0; one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> mrr_ips([0.9, 0.8, 0.7], [0, 1, 0], propensity=[1.0, 0.5, 0.25])  # 2 · 1/2
    array([1.])

    Joachims, Swaminathan and Schnabel, Unbiased learning-to-rank with biased feedback, WSDM 2017.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    worth = _weigh(ranked, propensity, CLICK, relevant_from, clip)
    top = worth.first(k)
    return _settle(worth, sum_by_query(top.labels / top.ranks, top.offsets), min_items)


def find_clipped(
    labels: Floats, propensity: Floats, clip: float | None = CLIP, relevant_from: float | None = None
) -> tuple[Bools, Bools]:
    """Which rows are clicks, and which of them would weigh more than `clip`: `[rows]` twice.

    >>> clicked, clipped = find_clipped(np.array([1.0, 0.0, 1.0]), np.array([0.5, 0.1, 0.1]), clip=5)
    >>> int(clicked.sum()), int(clipped.sum())
    (2, 1)
    """
    clicked = is_relevant(labels, relevant_from)
    return clicked, clicked & (1.0 / propensity > _as_limit(clip))


def weigh_places(
    name: str,
    scores: ArrayLike,
    offsets: ArrayLike | None,
    propensity: ArrayLike,
    *,
    k: int | None = None,
    clip: float | None = CLIP,
) -> Floats:
    """What a click in each row would add to its query's value `[rows]`; 0 below rank `k`. Ties: row order.

    `name` is that of a debiased metric: "dcg:ips", "clicks:ips" or "mrr:ips".

    >>> weigh_places("dcg:ips", [0.9, 0.8], None, [1.0, 0.5], k=1)
    array([1., 0.])
    >>> weigh_places("mrr:ips", [0.9, 0.8], None, [1.0, 0.5])  # 1/1, and 2 · 1/2
    array([1., 1.])
    """
    p = as_vector(propensity, "propensity")
    top = rank_rows(scores, np.zeros(len(p)), offsets, k=None, ties="stable").top
    ranks = np.empty(len(p))
    ranks[top.rows] = top.ranks
    worth = choose("debiased metric", name, DISCOUNTS)(ranks) * np.minimum(1.0 / p, _as_limit(clip))
    return worth if k is None else np.where(ranks <= k, worth, 0.0)


DISCOUNTS: dict[str, Callable[[Floats], Floats]] = {
    "dcg:ips": lambda ranks: 1.0 / np.log2(1.0 + ranks),
    "clicks:ips": np.ones_like,
    "mrr:ips": lambda ranks: 1.0 / ranks,
}


def say_no_propensity(what: str) -> str:
    """The message where a metric needs a propensity and there is none."""
    return (
        f"{what} divides each click by its propensity, and the data has no propensity. Estimate it and add "
        "it to the log, log = estimate_propensity(log).add_to(log), or pass "
        f"{option('propensity')} (for each row a number above 0 and at most 1)."
    )


def _weigh(
    ranked: Ranked, propensity: ArrayLike | None, gain: str, relevant_from: float | None, clip: float | None
) -> Ranked:
    """The same ranking with what each row's click is worth in place of its label."""
    limit = _as_limit(clip)
    if propensity is None:
        raise BadInput(say_no_propensity("a metric that ends in :ips"))
    p = as_vector(propensity, "propensity")
    as_same_length(ranked.scores, p, "scores and propensity")
    wrong = ~((p > 0.0) & (p <= 1.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadInput(f"propensity must be above 0 and at most 1. Got {p[row]} at row {row}.")
    clicked = is_relevant(ranked.labels, relevant_from)
    gains = np.ones(len(p)) if gain == CLICK else find_gain(gain)(ranked.labels)
    return ranked.relabel(np.where(clicked, gains * np.minimum(1.0 / p, limit), 0.0))


def _as_limit(clip: float | None) -> float:
    if clip is None:
        return math.inf
    limit = as_number("clip", clip)
    if limit < 1.0:
        raise BadInput(f"clip must be 1 or more, since no click weighs less, or None. Got {clip!r}.")
    return limit


def _settle(worth: Ranked, values: Floats, min_items: int) -> Floats:
    return worth.settle(values, np.zeros(len(values), dtype=np.bool_), "zero", min_items)
