"""What all losses share: lists checked and cleaned, the rows that matter, gains and the ideal DCG."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from placings.core import BadInput, UnknownName

GAINS = ("exp2", "linear")
REDUCTIONS = ("mean", "sum")


@dataclass(frozen=True)
class Lists:
    """A batch of lists in which padding holds zeros and what is broken is known.

    `scores` may have leading axes (draws); what depends on labels alone is computed once for all of them.
    """

    scores: Tensor  # [..., query, item], float32 or float64
    labels: Tensor  # [query, item], of the same type
    mask: Tensor  # [query, item]
    item_weights: Tensor | None  # [query, item]
    query_weights: Tensor | None  # [query]
    broken: Tensor  # [..., query]: a score that is not finite, or a label that is no grade

    def settle(self, losses: Tensor) -> Tensor:
        """Losses [..., query] times the weight of their query; NaN where a list is broken."""
        ones = torch.ones_like(losses)
        factor = ones if self.query_weights is None else ones * self.query_weights
        return losses * factor.masked_fill(self.broken, torch.nan)

    def settle_list(self, losses: Tensor) -> Tensor:
        """`settle` for a loss of whole lists: item weights enter as `Σ w·y / Σ y`, one for each query."""
        if self.item_weights is not None:
            total = self.labels.sum(-1)
            losses = losses * (self.item_weights * self.labels).sum(-1) / total.masked_fill(total == 0, 1.0)
        return self.settle(losses)

    def refuse(self, wrong: Tensor) -> Lists:
        """The same lists with more queries [query] broken."""
        return Lists(
            self.scores, self.labels, self.mask, self.item_weights, self.query_weights, self.broken | wrong
        )


def as_lists(scores: Tensor, labels: Tensor, mask: Tensor | None, weights: Tensor | None) -> Lists:
    """Check shapes and types, and put zeros where there is padding.

    No value is looked at, so nothing waits for a GPU: what is wrong with a value shows as a NaN loss.
    """
    shape = _check_shapes(scores, labels, mask)
    real = torch.ones(shape, dtype=torch.bool, device=scores.device) if mask is None else mask
    dtype = scores.dtype if scores.dtype in (torch.float32, torch.float64) else torch.float32
    scores, labels = scores.to(dtype), labels.detach().to(dtype)
    fine = torch.isfinite(scores) & torch.isfinite(labels) & (labels >= 0.0)
    per_item, per_query = _split_weights(weights, shape, dtype)
    return Lists(
        scores.masked_fill(~(real & fine), 0.0),
        labels.masked_fill(~(real & torch.isfinite(labels)), 0.0),
        real,
        None if per_item is None else per_item.masked_fill(~real, 0.0),
        per_query,
        ~(fine | ~real).all(-1),
    )


def _check_shapes(scores: Tensor, labels: Tensor, mask: Tensor | None) -> torch.Size:
    given = {"scores": scores, "labels": labels} | ({} if mask is None else {"mask": mask})
    for name, value in given.items():
        if not isinstance(value, Tensor):
            raise BadInput(f"{name} must be a torch tensor. Got {type(value).__name__}.")
    if not scores.is_floating_point():
        raise BadInput(f"scores must be floating point. Got {scores.dtype}.")
    if labels.ndim != 2 or scores.ndim < 2 or scores.shape[-2:] != labels.shape:
        raise BadInput(
            "scores and labels must both be [query, item] (scores may have axes of draws before these). "
            f"Got {list(scores.shape)} and {list(labels.shape)}."
        )
    if mask is not None and (mask.dtype != torch.bool or mask.shape != labels.shape):
        raise BadInput(
            f"mask must be bool and [query, item], True where there is an item. Got {mask.dtype} and "
            f"{list(mask.shape)}. A padding value in the labels becomes a mask with labels != value."
        )
    return labels.shape


def _split_weights(
    weights: Tensor | None, shape: torch.Size, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None]:
    if weights is None:
        return None, None
    if not isinstance(weights, Tensor) or weights.shape not in (shape, shape[:1]):
        got = list(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise BadInput(f"weights must be a tensor, [query] or [query, item]: {list(shape)}. Got {got}.")
    values = weights.detach().to(dtype)
    return (values, None) if values.ndim == 2 else (None, values)


@dataclass(frozen=True)
class PackedItems:
    """The few items of each query that a loss looks at, packed to the left."""

    index: Tensor  # [query, row]: which item; 0 where there is none
    real: Tensor  # [query, row]

    def take(self, values: Tensor) -> Tensor:
        """[..., query, item] → [..., query, row], zero where there is no row."""
        index = self.index.expand(*values.shape[:-1], self.index.shape[-1])
        return values.gather(-1, index).masked_fill(~self.real, 0.0)


def pick_rows(lists: Lists, chosen: Tensor, most: int | None) -> tuple[Lists, PackedItems]:
    """The rows of `chosen` [query, item], packed to the width of the fullest query, or to `most`.

    Counting waits for a GPU once. With `most` nothing does, shapes never change, and a query with more
    rows than that is broken: its loss is NaN.
    """
    counts = chosen.sum(-1)
    if most is None:
        width = int(counts.max()) if counts.numel() else 0
    else:
        if most < 0:
            raise BadInput(f"rows must be 0 or more. Got {most}.")
        width, lists = min(most, chosen.shape[-1]), lists.refuse(counts > most)
        if width == chosen.shape[-1]:  # all of them, where they stand: nothing to sort
            return lists, PackedItems(torch.arange(width, device=chosen.device).expand_as(chosen), chosen)
    order = chosen.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[:, :width]
    real = torch.arange(width, device=chosen.device) < counts[:, None]
    return lists, PackedItems(order.masked_fill(~real, 0), real)


def normalize_gains(lists: Lists, k: int | None, gain: str) -> Tensor:
    """Gains [query, item] divided by the ideal DCG@k; zero in a query with nothing relevant.

    Each query's gains are scaled by its highest label first, so no label is too large: `2^y − 1` becomes
    `2^(y − max) · (1 − 2^−y)`.
    """
    if gain not in GAINS:
        raise UnknownName("gain", gain, GAINS)
    labels = lists.labels
    if labels.numel() == 0:
        return labels
    highest = labels.amax(-1, keepdim=True)
    if gain == "exp2":
        gains = torch.exp2(labels - highest) * -torch.expm1(labels * -0.6931471805599453)
    else:
        gains = labels / (highest + (highest == 0))
    best = gains.sort(-1, descending=True).values[..., :k]
    ranks = torch.arange(1, best.shape[-1] + 1, dtype=best.dtype, device=best.device)
    ideal = (best * discount_ranks(ranks)).sum(-1, keepdim=True)
    return gains / ideal.masked_fill(ideal == 0.0, 1.0)


def discount_ranks(ranks: Tensor) -> Tensor:
    """`1 / log2(1 + rank)`."""
    return 0.6931471805599453 / torch.log1p(ranks)


def count_ranks(lists: Lists) -> Tensor:
    """The rank [..., query, item] of each item by its score, from 1; ties by item order, padding last."""
    scores = lists.scores.detach().masked_fill(~lists.mask, -torch.inf)
    order = scores.argsort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
    return torch.empty_like(scores).scatter_(-1, order, ranks.expand_as(scores))


def check_cutoff(k: int | None) -> None:
    """Refuse a cutoff that is not a whole number of 1 or more."""
    if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
        raise BadInput(f"k must be a whole number of 1 or more, or None for the whole list. Got {k!r}.")


def check_positive(name: str, value: float) -> None:
    """Refuse a temperature or the like that is not a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < float("inf"):
        raise BadInput(f"{name} must be a finite number above 0. Got {value!r}.")
