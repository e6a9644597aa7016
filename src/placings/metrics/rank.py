"""Metrics of where the relevant rows stand: MRR, AP, precision, recall, hit, ARP, Kendall's τ."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Floats, Ints
from placings.metrics.order import Cut, Ranked, choose, count_by_query, is_relevant, rank_rows, sum_by_query

STABLE_OR_WORST = ("stable", "worst")
DENOMINATORS = ("R", "min(k,R)", "retrieved")
VARIANTS = ("b", "joachims")


def mrr(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    relevant_from: float | None = None,
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Reciprocal rank of the first relevant row of each query; their mean is MRR.

    `RR@k = 1 / rank of the first relevant row`, 0 when it stands below rank `k`.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Relevant is a label above 0, or of `relevant_from` and more. Ties: `"stable"` keeps row order, `"worst"`
    puts the lowest labels first. A query with nothing relevant is NaN (`empty="drop"`), 0 (`"zero"`) or
    1 (`"one"`); one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> mrr([0.9, 0.8, 0.7], [0, 1, 1])  # 1/2
    array([0.5])

    Voorhees, The TREC-8 question answering track report, 1999.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    values = 1.0 / _first_relevant(ranked.first(k), relevant_from)
    return _settle_found(ranked, values, relevant_from, empty, min_items)


def rank_of_first_relevant(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    relevant_from: float | None = None,
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Rank of the first relevant row of each query, from 1.

    NaN when it stands below rank `k`.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Relevant is a label above 0, or of `relevant_from` and more. Ties: `"stable"` keeps row order, `"worst"`
    puts the lowest labels first. A query with nothing relevant is NaN (`empty="drop"`), 0 (`"zero"`) or
    1 (`"one"`); one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> rank_of_first_relevant([0.9, 0.8, 0.7, 0.6], [0, 1, 1, 0], [0, 3, 4])
    array([ 2., nan])

    Cooper, Expected search length, American Documentation 1968.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    first = _first_relevant(ranked.first(k), relevant_from)
    return _settle_found(ranked, np.where(np.isinf(first), np.nan, first), relevant_from, empty, min_items)


def average_precision(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    relevant_from: float | None = None,
    denominator: str = "R",
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Average precision of each query; their mean is MAP.

    `AP@k = Σ_{r ≤ k} rel_r · P@r / D`. `denominator` names D: `"R"`, all relevant rows of the query
    (trec_eval); `"min(k,R)"`, as many of them as fit above the cutoff; `"retrieved"`, those within it
    (AP is 0 when there are none).

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Relevant is a label above 0, or of `relevant_from` and more. Ties: `"stable"` keeps row order, `"worst"`
    puts the lowest labels first. A query with nothing relevant is NaN (`empty="drop"`), 0 (`"zero"`) or
    1 (`"one"`); one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> average_precision([0.9, 0.8, 0.7, 0.6], [0, 1, 0, 1])  # (1/2 + 2/4) / 2
    array([0.5])

    Buckley and Voorhees, Evaluating evaluation measure stability, SIGIR 2000.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    rule = denominator.replace(" ", "") if isinstance(denominator, str) else denominator
    choose("denominator", rule, dict.fromkeys(DENOMINATORS))
    top = ranked.first(k)
    relevant = is_relevant(top.labels, relevant_from)
    seen = np.concatenate([[0], np.cumsum(relevant)])  # relevant rows above each place, of all queries
    found = seen[1:] - np.repeat(seen[top.offsets[:-1]], top.sizes)
    sums = sum_by_query(np.where(relevant, found / top.ranks, 0.0), top.offsets)
    parts = _count_found(top, relevant_from) if rule == "retrieved" else ranked.count_relevant(relevant_from)
    if rule == "min(k,R)" and k is not None:
        parts = np.minimum(parts, k)
    return _settle_found(ranked, sums / np.maximum(parts, 1), relevant_from, empty, min_items)


def precision(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    relevant_from: float | None = None,
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Share of relevant rows among the first `k` ranks of each query.

    `P@k = (relevant rows with rank ≤ k) / k`, also where a list is shorter than `k`; without `k`,
    divided by the length of the list.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Relevant is a label above 0, or of `relevant_from` and more. Ties: `"stable"` keeps row order, `"worst"`
    puts the lowest labels first. A query with nothing relevant is NaN (`empty="drop"`), 0 (`"zero"`) or
    1 (`"one"`); one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> precision([0.9, 0.8, 0.7], [0, 1, 1], k=2)  # (0 + 1) / 2
    array([0.5])

    Manning, Raghavan and Schütze, Introduction to information retrieval, 2008, chapter 8.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    found = _count_found(ranked.first(k), relevant_from)
    values = found / (np.maximum(ranked.sizes, 1) if k is None else float(k))
    return _settle_found(ranked, values, relevant_from, empty, min_items)


def recall(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    relevant_from: float | None = None,
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Share of the relevant rows of each query that stand in the first `k` ranks.

    `R@k = (relevant rows with rank ≤ k) / (relevant rows)`.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Relevant is a label above 0, or of `relevant_from` and more. Ties: `"stable"` keeps row order, `"worst"`
    puts the lowest labels first. A query with nothing relevant is NaN (`empty="drop"`), 0 (`"zero"`) or
    1 (`"one"`); one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> recall([0.9, 0.8, 0.7], [0, 1, 1], k=2)  # 1 of 2
    array([0.5])

    Manning, Raghavan and Schütze, Introduction to information retrieval, 2008, chapter 8.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    found = _count_found(ranked.first(k), relevant_from)
    values = found / np.maximum(ranked.count_relevant(relevant_from), 1)
    return _settle_found(ranked, values, relevant_from, empty, min_items)


def hit(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    relevant_from: float | None = None,
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """1 for each query with a relevant row in the first `k` ranks, otherwise 0.

    `hit@k = [rank of the first relevant row ≤ k]`, also called success@k.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Relevant is a label above 0, or of `relevant_from` and more. Ties: `"stable"` keeps row order, `"worst"`
    puts the lowest labels first. A query with nothing relevant is NaN (`empty="drop"`), 0 (`"zero"`) or
    1 (`"one"`); one with fewer than `min_items` rows is NaN. NaN scores are an error.

    >>> hit([0.9, 0.8, 0.7], [0, 1, 1], k=1)
    array([0.])

    Craswell and Hawking, Overview of the TREC-2004 web track, 2004.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    values = (_count_found(ranked.first(k), relevant_from) > 0).astype(np.float64)
    return _settle_found(ranked, values, relevant_from, empty, min_items)


def arp(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Average relevance position of each query: the mean rank, weighted by label; lower is better.

    `ARP@k = Σ_{r ≤ k} y_r · r / Σ_{r ≤ k} y_r`, NaN when no label above 0 stands in the first `k` ranks.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Ties: `"stable"` keeps row order, `"worst"` puts the lowest labels first. A query with no label above 0
    is NaN (`empty="drop"`), 0 (`"zero"`) or 1 (`"one"`); one with fewer than `min_items` rows is NaN.
    NaN scores are an error.

    >>> arp([0.9, 0.8, 0.7], [0, 1, 2])  # (1·2 + 2·3) / (1 + 2)
    array([2.66666667])

    Zhu and Klabjan, Listwise learning to rank by exploring unique ratings, WSDM 2020.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    top = ranked.first(k)
    with np.errstate(over="ignore"):
        gained = sum_by_query(top.labels, top.offsets)
        placed = sum_by_query(top.labels * top.ranks, top.offsets)
    if np.isinf(placed).any():
        raise BadInput(f"labels are too large to sum. Got {top.labels.max():g}. Put them on a smaller scale.")
    values = np.where(gained > 0.0, placed / np.where(gained > 0.0, gained, 1.0), np.nan)
    return _settle_found(ranked, values, None, empty, min_items)


def kendall_tau(
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    k: int | None = None,
    variant: str = "b",
    ties: str = "stable",
    empty: str = "drop",
    min_items: int = 1,
) -> Floats:
    """Kendall's rank correlation between scores and labels in each query, from −1 to 1.

    With P pairs in the same order by score and by label and Q in opposite order: `variant="b"` is
    `τ_b = (P − Q) / sqrt((pairs − tied in score) · (pairs − tied in label))`; `variant="joachims"` is
    `(P − Q) / (P + Q)`, over the pairs that differ in both. `k` takes only the first `k` ranks by score.

    `scores` and `labels` are `[rows]`, `offsets` is `[queries + 1]` (None: one query); returns `[queries]`.
    Ties: `"stable"` or `"worst"` says which of the rows with equal scores are within `k`. A query without
    a pair that differs in both is NaN (`empty="drop"`), 0 (`"zero"`) or 1 (`"one"`); one with fewer than
    `min_items` rows is NaN. NaN scores are an error.

    >>> kendall_tau([0.9, 0.8, 0.7], [2, 0, 1])  # 2 pairs agree, 1 does not
    array([0.33333333])

    Knight, A computer method for calculating Kendall's tau with ungrouped data, JASA 1966;
    Joachims, Optimizing search engines using clickthrough data, KDD 2002.
    """
    ranked = rank_rows(scores, labels, offsets, k=k, ties=ties, allowed=STABLE_OR_WORST)
    from placings.metrics import kernels  # loads numba, which takes half a second

    choose("variant of Kendall's tau", variant, dict.fromkeys(VARIANTS))
    top = ranked.first(k)
    by_label, _ = kernels.top_rows(top.labels, top.offsets)
    by_both = by_label[kernels.top_rows(ranked.scores[top.rows[by_label]], top.offsets)[0]]
    scores, labels = ranked.scores[top.rows[by_both]], top.labels[by_both]
    # Equal scores now stand with their labels falling, so that only pairs in opposite order are inversions.
    opposite = kernels.count_inversions(labels, top.offsets)
    pairs = top.sizes * (top.sizes - 1) // 2
    tied_score = _count_tied(top, scores)
    tied_label = _count_tied(top, top.labels[by_label])
    tied_both = _count_tied(top, scores, labels)
    comparable = pairs - tied_score - tied_label + tied_both
    nothing = comparable == 0
    if variant == "joachims":
        scale = comparable.astype(np.float64)
    else:
        scale = np.sqrt(pairs - tied_score) * np.sqrt(pairs - tied_label)
    values = np.clip((comparable - 2 * opposite) / np.where(nothing, 1.0, scale), -1.0, 1.0)
    return ranked.settle(values, nothing, empty, min_items)


def _settle_found(
    ranked: Ranked, values: Floats, relevant_from: float | None, empty: str, min_items: int
) -> Floats:
    return ranked.settle(values, ranked.count_relevant(relevant_from) == 0, empty, min_items)


def _first_relevant(top: Cut, relevant_from: float | None) -> Floats:
    """Rank of the first relevant row of each query, inf where there is none, [queries]."""
    found = np.flatnonzero(is_relevant(top.labels, relevant_from))
    nearest = np.searchsorted(found, top.offsets[:-1])  # the first found at or after each query's start
    rows = np.append(found, len(top.labels))[nearest]
    return np.where(rows < top.offsets[1:], rows - top.offsets[:-1] + 1.0, np.inf)


def _count_found(top: Cut, relevant_from: float | None) -> Ints:
    """Relevant rows of each query among its first ranks, [queries]."""
    return count_by_query(is_relevant(top.labels, relevant_from), top.offsets)


def _count_tied(top: Cut, *columns: Floats) -> Ints:
    """Pairs of each query that are equal in all `columns`, each sorted so that equals are neighbours."""
    starts = top.ranks == 1
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    first = np.flatnonzero(starts)
    sizes = np.diff(np.append(first, len(starts)))
    before = np.concatenate([[0], np.cumsum(sizes * (sizes - 1) // 2)])
    return np.diff(before[np.searchsorted(first, top.offsets)])
