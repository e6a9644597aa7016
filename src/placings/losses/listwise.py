"""Losses of a whole list at once."""

from __future__ import annotations

import torch
from torch import Tensor

from placings.core import BadInput, UnknownName
from placings.losses.lists import (
    Lists,
    as_lists,
    check_cutoff,
    check_positive,
    discount_ranks,
    normalize_gains,
    pick_rows,
)
from placings.losses.soft_ranks import Index, judge_ranks

RECIPROCALS = ("all", "first")
WEIGHINGS = ("terms", "list")


def softmax_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    normalize: bool = False,
) -> Tensor:
    """Cross-entropy between the labels and the softmax of the scores.

    `−Σ_i w_i · y_i · log(exp(s_i) / Σ_j exp(s_j))`; `normalize=True` divides by `Σ_i y_i`.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item]; returns [query]. A query with nothing relevant is 0. A score that is not
    finite makes its query NaN.

    >>> softmax_loss(torch.tensor([[2.0, 1.0, 3.0]]), torch.tensor([[1, 0, 0]]))  # log(1 + e^−1 + e)
    tensor([1.4076])

    Bruch et al., An analysis of the softmax cross entropy loss for learning-to-rank with binary
    relevance, ICTIR 2019.
    """
    lists = as_lists(scores, labels, mask, weights)
    targets = lists.labels
    if normalize:
        total = targets.sum(-1, keepdim=True)
        targets = targets / total.masked_fill(total == 0.0, 1.0)
    if lists.item_weights is not None:
        targets = targets * lists.item_weights
    return lists.settle(-(targets * _log_softmax(lists.scores, lists.mask)).sum(-1))


def listnet_loss(
    scores: Tensor, labels: Tensor, mask: Tensor | None = None, *, weights: Tensor | None = None
) -> Tensor:
    """ListNet: cross-entropy between two softmaxes, that of the labels and that of the scores.

    `−Σ_i w_i · P_i(y) · log P_i(s)` with `P_i(x) = exp(x_i) / Σ_j exp(x_j)`: who is first.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item]; returns [query]. A query with nothing relevant is 0. A score that is not
    finite makes its query NaN.

    >>> listnet_loss(torch.tensor([[0.0, 0.0]]), torch.tensor([[1, 0]]))  # log 2, whatever the labels
    tensor([0.6931])

    Cao et al., Learning to rank: from pairwise approach to listwise approach, ICML 2007.
    """
    lists = as_lists(scores, labels, mask, weights)
    targets = _log_softmax(lists.labels, lists.mask).exp() * (lists.labels > 0.0).any(-1, keepdim=True)
    if lists.item_weights is not None:
        targets = targets * lists.item_weights
    return lists.settle(-(targets * _log_softmax(lists.scores, lists.mask)).sum(-1))


def listmle_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """ListMLE: how unlikely the scores make the order of the labels, drawn one item after the other.

    `−Σ_r log(exp(s_(r)) / Σ_{q ≥ r} exp(s_(q)))` where (r) is the item with the r-th highest label.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item] (`Σ w·y / Σ y` weighs the query); returns [query]. Tied labels stand in item
    order, so the order of tied items changes the value; a `generator` shuffles them instead, anew at each
    call. A query with nothing relevant is 0. A score that is not finite makes its query NaN.

    >>> listmle_loss(torch.tensor([[0.0, 0.0, 0.0]]), torch.tensor([[2, 1, 0]]))  # log 3 + log 2
    tensor([1.7918])

    Xia et al., Listwise approach to learning to rank: theory and algorithm, ICML 2008.
    """
    lists = as_lists(scores, labels, mask, weights)
    order = _sort_labels(lists, generator)  # lowest label first, padding last
    ordered = lists.scores.gather(-1, order.expand_as(lists.scores))
    real = lists.mask.gather(-1, order) & (lists.labels > 0.0).any(-1, keepdim=True)
    # Padding comes after everything it could be added to.
    terms = (ordered.logcumsumexp(-1) - ordered).masked_fill(~real, 0.0)
    return lists.settle_list(terms.sum(-1))


def approx_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    k: int | None = None,
    temperature: float = 0.1,
    cutoff_temperature: float = 1.0,
    gain: str = "exp2",
    rows: int | None = None,
    weigh: str = "terms",
) -> Tensor:
    """Minus NDCG with smooth ranks.

    `−Σ_i G_i / log2(1 + r_i)` with `r_i = 1 + Σ_{j ≠ i} σ((s_j − s_i) / temperature)` and G the gain
    (`2^y − 1`, or y with `gain="linear"`) over the ideal DCG. With a cutoff, G is over the ideal DCG@k and
    each term is multiplied by `σ((k + ½ − r_i) / cutoff_temperature)`: the colder, the closer to NDCG@k,
    and the fewer items below k feel a pull.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item]; returns [query], from −1 to 0 if nothing weighs more than 1. The weight of an
    item multiplies its term of the sum; with `weigh="list"` the query is weighed by `Σ w·y / Σ y` instead.
    Tied scores share their ranks. A query with nothing relevant is 0. A score that is not finite makes its
    query NaN. `rows`, the most items with gain of any query, saves a GPU the wait for counting them; a
    query that has more becomes NaN. The gradient is exact; a gradient of the gradient is not available.

    >>> approx_ndcg_loss(torch.tensor([[1.0, 1.0]]), torch.tensor([[1, 0]]))  # both at rank 1.5
    tensor([-0.7565])

    Qin, Liu and Li, A general approximation framework for direct optimization of information retrieval
    measures, Information Retrieval 2010. Bruch et al., Revisiting approximate metric optimization in the
    age of deep neural networks, SIGIR 2019.
    """
    lists = as_lists(scores, labels, mask, weights)
    check_cutoff(k)
    check_positive("temperature", temperature)
    check_positive("cutoff_temperature", cutoff_temperature)
    gains = normalize_gains(lists, k, gain)
    lists, chosen = pick_rows(lists, gains > 0.0, rows)
    brought = chosen.take(_weigh_terms(lists, gains, weigh))  # [query, row]

    def judge(ranks: Tensor, queries: Index) -> tuple[Tensor, Tensor]:
        discounts = discount_ranks(ranks)
        inside, leaving = _pass_cutoff(ranks, k, cutoff_temperature)
        falling = discounts / (torch.log1p(ranks) * (1.0 + ranks))  # −d(1/log2(1 + r))/dr
        here = brought[queries, : ranks.shape[-1]]
        losses = -(here * discounts * inside).sum(-1)
        return losses, here * (falling * inside + discounts * leaving)

    return _settle(lists, judge_ranks(lists, chosen, temperature, judge, counted=rows is None), weigh)


def approx_mrr_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    k: int | None = None,
    temperature: float = 0.1,
    cutoff_temperature: float = 1.0,
    reciprocal: str = "all",
    rows: int | None = None,
    weigh: str = "terms",
) -> Tensor:
    """Minus the reciprocal rank, with smooth ranks.

    `reciprocal="all"`: `−Σ_i y_i / r_i / Σ_i y_i`, every relevant item by its label (TF-Ranking's).
    `reciprocal="first"`: `−max_{y_i > 0} 1 / r_i`, the metric's own (Rax's).
    Ranks and the cutoff are those of `approx_ndcg_loss`.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item]; returns [query], from −1 to 0 if nothing weighs more than 1. The weight of an
    item multiplies its term of the sum; with `weigh="list"` the query is weighed by `Σ w·y / Σ y` instead.
    Tied scores share their ranks. A query with nothing relevant is 0. A score that is not finite makes its
    query NaN.

    >>> approx_mrr_loss(torch.tensor([[1.0, 1.0]]), torch.tensor([[1, 0]]))  # rank 1.5
    tensor([-0.6667])

    Qin, Liu and Li, A general approximation framework for direct optimization of information retrieval
    measures, Information Retrieval 2010.
    """
    lists = as_lists(scores, labels, mask, weights)
    check_cutoff(k)
    check_positive("temperature", temperature)
    check_positive("cutoff_temperature", cutoff_temperature)
    if reciprocal not in RECIPROCALS:
        raise UnknownName("reciprocal", reciprocal, RECIPROCALS)
    lists, chosen = pick_rows(lists, lists.labels > 0.0, rows)
    shares = chosen.take(lists.labels)  # [query, row]
    shares = shares / shares.amax(-1, keepdim=True).clamp(min=1.0) if shares.shape[-1] else shares
    shares = shares / shares.sum(-1, keepdim=True).masked_fill(~chosen.real.any(-1, keepdim=True), 1.0)
    heavy = chosen.take(_weigh_terms(lists, lists.mask.to(shares.dtype), weigh))  # [query, row]

    def judge(ranks: Tensor, queries: Index) -> tuple[Tensor, Tensor]:
        inside, leaving = _pass_cutoff(ranks, k, cutoff_temperature)
        values = inside / ranks
        slopes = (inside / ranks + leaving) / ranks
        here = shares[queries, : ranks.shape[-1]]
        if reciprocal == "first":
            best = values.masked_fill(here == 0.0, -1.0).argmax(-1, keepdim=True)
            here = torch.zeros_like(values).scatter_(-1, best, 1.0) * (here > 0.0)
        here = here * heavy[queries, : ranks.shape[-1]]
        return -(here * values).sum(-1), here * slopes

    return _settle(lists, judge_ranks(lists, chosen, temperature, judge, counted=rows is None), weigh)


def neural_ndcg_loss(
    scores: Tensor,
    labels: Tensor,
    mask: Tensor | None = None,
    *,
    weights: Tensor | None = None,
    k: int | None = None,
    temperature: float = 1.0,
    gain: str = "exp2",
    weigh: str = "terms",
) -> Tensor:
    """Minus NDCG of a smoothly sorted list: NeuralSort's matrix in place of a permutation (PiRank).

    `−Σ_{r ≤ k} Σ_i P_ri · G_i / log2(1 + r)`, where row r of P is the softmax over items of
    `((n + 1 − 2r) · s_i − Σ_j |s_i − s_j|) / temperature` and G the gain over the ideal DCG@k.

    `scores` is [query, item] (or [draws, query, item]), `labels` and `mask` are [query, item]; `weights` is
    [query] or [query, item]; returns [query], from −1 to 0 if nothing weighs more than 1. The weight of an
    item multiplies its term of the sum; with `weigh="list"` the query is weighed by `Σ w·y / Σ y` instead.
    Tied scores share their places. A query with nothing relevant is 0. A score that is not finite makes its
    query NaN.

    >>> neural_ndcg_loss(torch.tensor([[1.0, 1.0]]), torch.tensor([[1, 0]]))  # ½ + ½/log2(3)
    tensor([-0.8155])

    Grover et al., Stochastic optimization of sorting networks via continuous relaxations, ICLR 2019.
    Swezey et al., PiRank, NeurIPS 2021. Pobrotyn and Białobrzeski, NeuralNDCG, 2021.
    """
    lists = as_lists(scores, labels, mask, weights)
    check_cutoff(k)
    check_positive("temperature", temperature)
    gains = _weigh_terms(lists, normalize_gains(lists, k, gain), weigh)
    sizes = lists.mask.sum(-1, keepdim=True)  # [query, 1]
    real = lists.mask.unsqueeze(-2)
    # Only differences matter, and small numbers keep more of them.
    middle = lists.scores.detach().sum(-1, keepdim=True) / sizes.clamp(min=1)
    values = ((lists.scores - middle) / temperature).masked_fill(~lists.mask, 0.0)
    spread = (values.unsqueeze(-1) - values.unsqueeze(-2)).abs().masked_fill(~real, 0.0).sum(-1)
    ranks = torch.arange(1, min(k or values.shape[-1], values.shape[-1]) + 1, device=values.device)
    heights = (sizes + 1 - 2 * ranks).unsqueeze(-1) * values.unsqueeze(-2) - spread.unsqueeze(-2)
    places = heights.masked_fill(~real, torch.finfo(values.dtype).min).softmax(-1)  # [..., query, rank, item]
    discounts = discount_ranks(ranks.to(values.dtype)) * (ranks <= sizes)  # [query, rank]
    return _settle(lists, -((places * gains.unsqueeze(-2)).sum(-1) * discounts).sum(-1), weigh)


def _weigh_terms(lists: Lists, terms: Tensor, weigh: str) -> Tensor:
    """Terms [query, item] times the weights of items, unless these weigh whole lists."""
    if weigh not in WEIGHINGS:
        raise UnknownName("weighing of items", weigh, WEIGHINGS)
    return terms if lists.item_weights is None or weigh == "list" else terms * lists.item_weights


def _settle(lists: Lists, losses: Tensor, weigh: str) -> Tensor:
    return lists.settle_list(losses) if weigh == "list" else lists.settle(losses)


def _log_softmax(values: Tensor, mask: Tensor) -> Tensor:
    """Log-softmax over real items, 0 elsewhere; no infinity is met on the way, so none is differentiated."""
    return values.masked_fill(~mask, torch.finfo(values.dtype).min).log_softmax(-1).masked_fill(~mask, 0.0)


def _sort_labels(lists: Lists, generator: torch.Generator | None) -> Tensor:
    """Items by rising label, [query, item]: tied ones in falling order or shuffled, padding last."""
    labels = lists.labels.masked_fill(~lists.mask, torch.inf).flip(-1)
    items = torch.arange(labels.shape[-1], device=labels.device).flip(-1).expand(labels.shape)
    if generator is not None:
        if generator.device.type != labels.device.type:
            raise BadInput(
                f"generator must live where the scores do, on {labels.device}. Got {generator.device}."
            )
        mixed = torch.rand(labels.shape, generator=generator, device=labels.device).argsort(-1)
        labels, items = labels.gather(-1, mixed), items.gather(-1, mixed)
    return items.gather(-1, labels.argsort(dim=-1, stable=True))


def _pass_cutoff(ranks: Tensor, k: int | None, temperature: float) -> tuple[Tensor | float, Tensor | float]:
    """How much a rank is within k, from 0 to 1, and minus its slope."""
    if k is None:
        return 1.0, 0.0
    inside = torch.sigmoid((k + 0.5 - ranks) / temperature)
    return inside, inside * (1.0 - inside) / temperature
