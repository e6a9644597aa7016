"""Pairwise losses weighted by what a pair is worth to NDCG: LambdaRank and the LambdaLoss family."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor
from torch.nn.functional import logsigmoid

from placings.losses.lists import (
    as_lists,
    check_cutoff,
    check_positive,
    count_ranks,
    discount_ranks,
    normalize_gains,
    pick_rows,
)
from placings.losses.pairwise import face_pairs

Worth = Callable[[Tensor, Tensor], Tensor]  # ranks of the rows and of the items → [..., query, row, item]


def lambdarank_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    k: int | None = None,
    gain: str = "exp2",
    rows: int | None = None,
) -> Tensor:
    """LambdaRank: RankNet's loss of a pair times the NDCG@k that swapping the two would change.

    `Σ_{y_i > y_j} w_i · |G_i − G_j| · |d(r_i) − d(r_j)| · log(1 + exp(−(s_i − s_j)))`, where r is the rank
    by the scores now, `d(r) = 1/log2(1 + r)` up to k and 0 below, and G the gain (`2^y − 1`, or y with
    `gain="linear"`) over the ideal DCG@k. Ranks and gains carry no gradient.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item] (the weight of the better item); returns [query]. Tied scores are ranked by
    item order; a query with nothing relevant is 0. A score that is not finite makes its query NaN.

    >>> import torch
    >>> lambdarank_loss(torch.tensor([[1.0, 1.0]]), torch.tensor([[0, 1]]))  # (1 − 1/log2(3)) · log 2
    tensor([0.2558])

    Burges, Ragno and Le, Learning to rank with nonsmooth cost functions, NIPS 2006.
    """

    def worth(ours: Tensor, theirs: Tensor) -> Tensor:
        return (_cut(ours, k) - _cut(theirs, k)).abs()

    return _sum_worth(scores, labels, mask, weights, k, gain, rows, worth)


def ndcg_loss1(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    k: int | None = None,
    gain: str = "exp2",
    rows: int | None = None,
) -> Tensor:
    """NDCG-Loss1: every item is to lead every other, by what it brings to NDCG@k where it stands.

    `Σ_i Σ_{j ≠ i} w_i · G_i · d(r_i) · log(1 + exp(−(s_i − s_j)))`, with ranks, discounts and gains as in
    `lambdarank_loss`; j runs over all other items, also the better ones. With a cutoff, `1/(r_i − 1)`
    stands for d(r_i) below k: such an item brings nothing, which is its whole gain lost to the r_i − 1
    items above it. So the loss remains a bound on the NDCG@k that is missing, up to a factor of log 2.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item]; returns [query]. Tied scores are ranked by item order; a query with nothing
    relevant is 0. A score that is not finite makes its query NaN.

    >>> import torch
    >>> ndcg_loss1(torch.tensor([[1.0, 1.0]]), torch.tensor([[0, 1]]))  # 1/log2(3) · log 2
    tensor([0.4373])

    Wang et al., The LambdaLoss framework for ranking metric optimization, CIKM 2018.
    """
    lists = as_lists(scores, labels, mask, weights)
    check_cutoff(k)
    gains = normalize_gains(lists, k, gain)
    lists, chosen = pick_rows(lists, gains > 0.0, rows)
    margins, _ = face_pairs(lists, chosen)
    ranks = chosen.take(count_ranks(lists)).clamp(min=1.0)
    pulls = chosen.take(gains) * discount_ranks(ranks)
    if k is not None:
        pulls = pulls.where(ranks <= k, chosen.take(gains) / (ranks - 1.0).clamp(min=1.0))
    if lists.item_weights is not None:
        pulls = pulls * chosen.take(lists.item_weights)
    losses = -logsigmoid(margins).masked_fill(~lists.mask.unsqueeze(-2), 0.0).sum(-1)
    own = logsigmoid(margins.new_zeros(()))  # each row has met itself, with a margin of 0
    return lists.settle(((losses + own) * pulls).sum(-1))


def ndcg_loss2(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    k: int | None = None,
    gain: str = "exp2",
    rows: int | None = None,
) -> Tensor:
    """NDCG-Loss2: a tighter bound on NDCG, in which close neighbours count most.

    `Σ_{y_i > y_j} w_i · |G_i − G_j| · δ_ij · log(1 + exp(−(s_i − s_j)))` with
    `δ_ij = d(|r_i − r_j|) − d(|r_i − r_j| + 1)`; with a cutoff, δ is divided by `1 − d(max(r_i, r_j))`
    where one of the two stands below k, and the gains by the ideal DCG@k (LambdaLoss@k).

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item] (the weight of the better item); returns [query]. Tied scores are ranked by
    item order; a query with nothing relevant is 0. A score that is not finite makes its query NaN.

    >>> import torch
    >>> ndcg_loss2(torch.tensor([[1.0, 1.0]]), torch.tensor([[0, 1]]))  # (1 − 1/log2(3)) · log 2
    tensor([0.2558])

    Wang et al., The LambdaLoss framework for ranking metric optimization, CIKM 2018. Jagerman et al.,
    On optimizing top-K metrics for neural ranking models, SIGIR 2022.
    """

    def worth(ours: Tensor, theirs: Tensor) -> Tensor:
        return _weigh_distance(ours, theirs, k)

    return _sum_worth(scores, labels, mask, weights, k, gain, rows, worth)


def ndcg_loss2pp(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    k: int | None = None,
    gain: str = "exp2",
    mu: float = 10.0,
    rows: int | None = None,
) -> Tensor:
    """NDCG-Loss2++: LambdaRank plus `mu` times NDCG-Loss2.

    `Σ_{y_i > y_j} w_i · |G_i − G_j| · (|d(r_i) − d(r_j)| + mu · δ_ij) · log(1 + exp(−(s_i − s_j)))`

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item] (the weight of the better item); returns [query]. Tied scores are ranked by
    item order; a query with nothing relevant is 0. A score that is not finite makes its query NaN.

    >>> import torch
    >>> ndcg_loss2pp(torch.tensor([[1.0, 1.0]]), torch.tensor([[0, 1]]))  # 11 · (1 − 1/log2(3)) · log 2
    tensor([2.8140])

    Wang et al., The LambdaLoss framework for ranking metric optimization, CIKM 2018.
    """
    check_positive("mu", mu)

    def worth(ours: Tensor, theirs: Tensor) -> Tensor:
        return (_cut(ours, k) - _cut(theirs, k)).abs() + mu * _weigh_distance(ours, theirs, k)

    return _sum_worth(scores, labels, mask, weights, k, gain, rows, worth)


def _sum_worth(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None,
    weights: Tensor | None,
    k: int | None,
    gain: str,
    most: int | None,
    worth: Worth,
) -> Tensor:
    """`Σ_{y_i > y_j} w_i · |G_i − G_j| · worth · log(1 + exp(−(s_i − s_j)))`, [..., query]."""
    lists = as_lists(scores, labels, mask, weights)
    check_cutoff(k)
    gains = normalize_gains(lists, k, gain)
    lists, rows = pick_rows(lists, lists.labels > 0.0, most)
    margins, better = face_pairs(lists, rows)
    ranks = count_ranks(lists)
    shares = (rows.take(gains).unsqueeze(-1) - gains.unsqueeze(-2)).abs() * better
    if lists.item_weights is not None:
        shares = shares * rows.take(lists.item_weights).unsqueeze(-1)
    shares = shares * worth(rows.take(ranks).unsqueeze(-1), ranks.unsqueeze(-2))
    return lists.settle(-(logsigmoid(margins) * shares).sum((-2, -1)))


def _cut(ranks: Tensor, k: int | None) -> Tensor:
    """`1/log2(1 + rank)`, 0 below k; a rank of 0 stands where there is no row, and no pair is there."""
    discounts = discount_ranks(ranks.clamp(min=1.0))
    return discounts if k is None else discounts.masked_fill(ranks > k, 0.0)


def _weigh_distance(ours: Tensor, theirs: Tensor, k: int | None) -> Tensor:
    """δ_ij; what stands in the place of no row, or of a row against itself, is dropped by its gain."""
    distance = (ours - theirs).abs().clamp(min=1.0)
    delta = discount_ranks(distance) - discount_ranks(distance + 1.0)
    if k is None:
        return delta
    lower = ours.maximum(theirs).clamp(min=2.0)  # a pair never stands in one place
    return delta.where(lower <= k, delta / (1.0 - discount_ranks(lower)))
