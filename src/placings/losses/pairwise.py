"""Losses of pairs of items of which one is better."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from placings.core import UnknownName
from placings.losses.lists import REDUCTIONS, Lists, PackedItems, as_lists, check_positive, pick_rows


def logistic_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    reduce: str = "mean",
    rows: int | None = None,
) -> Tensor:
    """RankNet: how unlikely the scores make it that the better item of a pair wins.

    `mean over y_i > y_j of w_i · log(1 + exp(−(s_i − s_j)))`; `reduce="sum"` adds the pairs up.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item] (the weight of the better item); returns [query]. Items of equal labels
    make no pair; a query without a pair, so any with nothing relevant, is 0. A score that is not finite
    makes its query NaN. `rows`, the most relevant items of any query, saves a GPU the wait for counting them.

    >>> logistic_loss(torch.tensor([[1.0, 1.0, 3.0]]), torch.tensor([[1, 0, 1]]))  # log 2 and log(1 + e^−2)
    tensor([0.4100])

    Burges et al., Learning to rank using gradient descent, ICML 2005.
    """
    lists = as_lists(scores, labels, mask, weights)
    return _sum_pairs(lists, lambda margins: -logsigmoid(margins), reduce, rows)


def hinge_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    reduce: str = "mean",
    rows: int | None = None,
    margin: float = 1.0,
) -> Tensor:
    """Ranking SVM: by how much the better item of a pair fails to lead by a margin.

    `mean over y_i > y_j of w_i · max(0, margin − (s_i − s_j))`; `reduce="sum"` adds the pairs up.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item] (the weight of the better item); returns [query]. Items of equal labels
    make no pair; a query without a pair is 0. A score that is not finite makes its query NaN.

    >>> hinge_loss(torch.tensor([[1.0, 1.5, 3.0]]), torch.tensor([[1, 0, 1]]))  # (1.5 + 0) / 2
    tensor([0.7500])

    Joachims, Optimizing search engines using clickthrough data, KDD 2002.
    """
    check_positive("margin", margin)
    lists = as_lists(scores, labels, mask, weights)
    return _sum_pairs(lists, lambda margins: torch.relu(margin - margins), reduce, rows)


def soft_zero_one_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    reduce: str = "mean",
    rows: int | None = None,
) -> Tensor:
    """The share of pairs in the wrong order, made smooth.

    `mean over y_i > y_j of w_i · σ(−(s_i − s_j))`; `reduce="sum"` adds the pairs up.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item] (the weight of the better item); returns [query]. Items of equal labels
    make no pair; a query without a pair is 0. A score that is not finite makes its query NaN.

    >>> soft_zero_one_loss(torch.tensor([[1.0, 1.0, 3.0]]), torch.tensor([[1, 0, 1]]))  # (0.5 + σ(−2)) / 2
    tensor([0.3096])

    Nguyen and Sanner, Algorithms for direct 0–1 loss optimization in binary classification, ICML 2013.
    """
    lists = as_lists(scores, labels, mask, weights)
    return _sum_pairs(lists, lambda margins: torch.sigmoid(-margins), reduce, rows)


def fidelity_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    reduce: str = "mean",
    rows: int | None = None,
) -> Tensor:
    """FRank: RankNet's probabilities under a loss that no single pair can dominate.

    `mean over y_i > y_j of w_i · (1 − √σ(s_i − s_j))`, from 0 to 1; `reduce="sum"` adds the pairs up.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item] (the weight of the better item); returns [query]. Items of equal labels
    make no pair; a query without a pair is 0. A score that is not finite makes its query NaN.

    >>> fidelity_loss(torch.tensor([[1.0, 1.0]]), torch.tensor([[1, 0]]))  # 1 − √½
    tensor([0.2929])

    Tsai et al., FRank: a ranking method with fidelity loss, SIGIR 2007.
    """
    lists = as_lists(scores, labels, mask, weights)
    # √σ(x) as exp(½ log σ(x)): the root of an underflowed zero would have an infinite gradient.
    return _sum_pairs(lists, lambda margins: -torch.expm1(0.5 * logsigmoid(margins)), reduce, rows)


def face_pairs(lists: Lists, rows: PackedItems) -> tuple[Tensor, Tensor]:
    """How far each row leads each item, [..., query, row, item]; whether it should, [query, row, item]."""
    margins = rows.take(lists.scores).unsqueeze(-1) - lists.scores.unsqueeze(-2)
    better = rows.take(lists.labels).unsqueeze(-1) > lists.labels.unsqueeze(-2)
    return margins, better & lists.mask.unsqueeze(-2) & rows.real.unsqueeze(-1)


def _sum_pairs(lists: Lists, judge: Callable[[Tensor], Tensor], reduce: str, most: int | None) -> Tensor:
    """The loss of all pairs, [..., query]; only relevant items can be the better one."""
    if reduce not in REDUCTIONS:
        raise UnknownName("reduction", reduce, REDUCTIONS)
    lists, rows = pick_rows(lists, lists.labels > 0.0, most)
    margins, better = face_pairs(lists, rows)
    shares = better.to(margins.dtype)  # [query, row, item]
    if reduce == "mean":
        shares = shares / better.sum((-2, -1), keepdim=True).clamp(min=1)
    if lists.item_weights is not None:
        shares = shares * rows.take(lists.item_weights).unsqueeze(-1)
    return lists.settle((judge(margins) * shares).sum((-2, -1)))
