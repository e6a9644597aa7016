"""Losses that look at one item at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from placings.losses.lists import Lists, as_lists


def mean_squared_error_loss(
    scores: Tensor, labels: Tensor, mask: Tensor | None = None, *, weights: Tensor | None = None
) -> Tensor:
    """Mean squared distance of the scores from the labels.

    `1/n · Σ_i w_i · (s_i − y_i)²`

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item]; returns [query]. Padding counts for nothing. A query with nothing relevant
    counts like any other, for its items have a target; an empty one is 0. A score that is not finite
    makes its query NaN.

    >>> mean_squared_error_loss(torch.tensor([[0.5, 2.0]]), torch.tensor([[1, 0]]))  # (0.25 + 4) / 2
    tensor([2.1250])

    Cossock and Zhang, Subset ranking using regression, COLT 2006.
    """
    lists = as_lists(scores, labels, mask, weights)
    return _average(lists, (lists.scores - lists.labels).square())


def sigmoid_loss(
    scores: Tensor, labels: Tensor, mask: Tensor | None = None, *, weights: Tensor | None = None
) -> Tensor:
    """Cross-entropy of each item's own probability to be relevant.

    `1/n · Σ_i w_i · [−y_i log σ(s_i) − (1 − y_i) log(1 − σ(s_i))]`, labels above 1 taken as 1.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item]; returns [query]. Padding counts for nothing. A query with nothing relevant
    counts like any other; an empty one is 0. A score that is not finite makes its query NaN.

    >>> sigmoid_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[1, 0]]))  # log 2
    tensor([0.6931])

    Gey, Inferring probability of relevance using the method of logistic regression, SIGIR 1994.
    """
    lists = as_lists(scores, labels, mask, weights)
    # torch's own asks for labels of the scores' shape, which draws do not have.
    losses = lists.scores * (1.0 - lists.labels.clamp(max=1.0)) - torch.nn.functional.logsigmoid(lists.scores)
    return _average(lists, losses)


def _average(lists: Lists, losses: Tensor) -> Tensor:
    """The mean over real items, [..., query]."""
    if lists.item_weights is not None:
        losses = losses * lists.item_weights
    count = lists.mask.sum(-1).clamp(min=1)
    return lists.settle(losses.masked_fill(~lists.mask, 0.0).sum(-1) / count)
