"""Smooth ranks of the few rows that need one, judged and differentiated while still in cache.

`rank_i = 1 + Σ_{j ≠ i} σ(x_j − x_i)` asks for a matrix of rows against items. Only rows with gain enter
ApproxNDCG, so only theirs are built, a few queries at a time; the gradient is taken at once, so that
one piece is all that is ever held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from placings.losses.lists import Lists, PackedItems

Index = Tensor | slice
# ranks [..., some queries, row] and which queries → their losses [..., queries], and d loss / d rank
JudgeRanks = Callable[[Tensor, Index], tuple[Tensor, Tensor]]
Piece = tuple[Index, int, int]  # queries, how many of their rows, how many of their items

CACHE = 1 << 20  # numbers in a piece on a CPU: 4 MB of float32; smaller ones make threads wait for each other
MEMORY = 1 << 27  # numbers in a piece on a GPU: half a gigabyte


def judge_ranks(
    lists: Lists, rows: PackedItems, temperature: float, judge: JudgeRanks, *, counted: bool
) -> Tensor:
    """The losses [..., query] that `judge` gives to the smooth ranks of `rows`.

    `counted` says that looking at values is fine: queries are then packed by their number of rows.
    """
    x = (lists.scores / temperature).masked_fill(~lists.mask, -torch.inf)
    if torch.compiler.is_compiling():  # the compiler fuses the pairs away, forth and back
        own = rows.take(x)
        above = torch.sigmoid(x.unsqueeze(-2) - own.unsqueeze(-1))  # [..., query, row, item]
        return judge(above.sum(-1) + 0.5, slice(None))[0]
    draws = x[..., 0, 0].numel() if x.numel() else 1
    size = CACHE if x.device.type == "cpu" else MEMORY
    pieces = _pack(lists, rows, size // draws) if counted else _slice(lists, rows, size // draws)
    losses: Tensor = _JudgedRanks.apply(x, rows, judge, pieces)  # type: ignore[no-untyped-call]
    return losses


class _JudgedRanks(torch.autograd.Function):
    """Keeps d loss / d x of every query instead of the pairs it came from."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: PackedItems, judge: JudgeRanks, pieces: Iterator[Piece]) -> Tensor:
        losses = x.new_zeros(x.shape[:-1])
        slopes = torch.zeros_like(x) if ctx.needs_input_grad[0] else None
        with torch.autocast(x.device.type, enabled=False):  # ranks of 200 items do not fit 8 bits
            for queries, width, length in pieces:
                items = x[..., queries, :length]
                real = rows.real[queries, :width]
                index = rows.index[queries, :width].expand(*items.shape[:-1], width)
                own = items.gather(-1, index).masked_fill(~real, 0.0)
                above = (items.unsqueeze(-2) - own.unsqueeze(-1)).sigmoid_()  # [..., query, row, item]
                ranks = above.sum(-1) + 0.5  # a row is above itself by ½
                losses[..., queries], slope = judge(ranks, queries)
                if slopes is not None:
                    above.addcmul_(above, above, value=-1)  # σ' = σ − σ²
                    pull = (slope.unsqueeze(-2) @ above).squeeze(-2)  # [..., query, item]
                    slopes[..., queries, :length] = pull.scatter_add_(-1, index, -slope * above.sum(-1))
        ctx.save_for_backward(slopes)
        return losses

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None, None]:
        (slopes,) = ctx.saved_tensors
        return None if slopes is None else grad.unsqueeze(-1) * slopes, None, None, None


def _pack(lists: Lists, rows: PackedItems, size: int) -> Iterator[Piece]:
    """Queries with about as many rows together; none without rows, no further than the last item."""
    counts = rows.real.sum(-1)
    places = torch.arange(1, lists.mask.shape[-1] + 1, device=lists.mask.device)
    lengths = (lists.mask * places).amax(-1).tolist() if len(places) else []
    order = [query for query in counts.argsort(stable=True).tolist() if lengths and rows.real.shape[-1]]
    widths = counts.tolist()
    piece: list[int] = []
    width = length = 0
    for query in (query for query in order if widths[query]):
        wider, longer = widths[query], max(length, lengths[query])
        if piece and (len(piece) + 1) * wider * longer > size:
            yield torch.tensor(piece, device=counts.device), width, length
            piece, longer = [], lengths[query]
        piece.append(query)
        width, length = wider, longer
    if piece:
        yield torch.tensor(piece, device=counts.device), width, length


def _slice(lists: Lists, rows: PackedItems, size: int) -> Iterator[Piece]:
    """Queries as they come, shapes that depend on no value."""
    (queries, length), width = lists.mask.shape, rows.real.shape[-1]
    step = max(1, size // max(1, width * length))
    for start in range(0, queries, step) if width and length else ():
        yield slice(start, start + step), width, length
