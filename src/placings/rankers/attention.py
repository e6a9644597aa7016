"""A network that looks at the whole list: attention over its items, crossed with each item's own layers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from placings.rankers.networks import Network, RowNoise, Stack
from placings.training import Packed, RowDropout, RowNorm

CELLS = 1 << 22  # pairs of items laid out at once when scoring
LARGEST = 1e15  # beyond it a square, and with it attention, would overflow
SLACK = 8  # how much shorter than the longest a short list may be and still be laid out with it


class ListLayout(NamedTuple):
    """Lists laid out in parts `[lists, width]`: which packed row stands where, which places are real."""

    rows: list[Tensor]  # [lists, width] int64 each
    masks: list[Tensor]  # [lists, width] bool each
    places: Tensor  # [rows] int64: where each packed row stands among all parts, flat


class Attention(Network):
    """`score = head(h ⊙ (1 + W a))`: h from the item's own layers, a from attention over its list.

    Both start from the transformed features (with Gaussian noise in training, and batch norm over real
    rows). a passes `blocks` of multi-head self-attention; W starts at 0, so the network starts as the plain
    one and learns how much the list matters. Rows are laid out by list inside attention alone, with a mask;
    the order of rows changes nothing but rounding.

    Qin, Yan, Zhuang, Tay, Pasumarthi, Wang, Bendersky and Najork: Are neural rankers still outperformed by
    gradient boosted decision trees?, ICLR 2021 (DASALC).
    """

    needs_lists = True

    def __init__(
        self,
        transform: nn.Module,
        noise: RowNoise,
        norm: RowNorm | None,
        item: Stack,
        blocks: list[AttentionBlock],
        dropout: RowDropout,
        head: Stack,
        *,
        inputs: int,
        width: int,
    ) -> None:
        super().__init__()
        self.transform, self.noise, self.norm, self.item, self.head = transform, noise, norm, item, head
        self.embed = nn.Linear(inputs, width)
        self.even = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(blocks)
        self.dropout = dropout
        self.cross = nn.Linear(width, item.width)
        nn.init.xavier_uniform_(self.embed.weight)
        for zero in (self.embed.bias, self.cross.weight, self.cross.bias):
            nn.init.zeros_(zero)

    def forward(self, prepared: Any, packed: Packed | None = None) -> Tensor:
        assert packed is not None
        x = self.noise(self.transform.finish(prepared), packed)  # [rows, inputs]
        if self.norm is not None:
            x = self.norm(x, packed)
        layout = follow_groups(packed) if self.training else sort_lists(packed)
        a = self.even(self.embed(x).clamp(-LARGEST, LARGEST))  # [rows, width]
        for block in self.blocks:
            a = block(a, layout, packed)
        h = self.item(x, packed) * (1.0 + self.cross(self.dropout(a, packed)))  # [rows, item width]
        scores: Tensor = self.head(h, packed)
        return scores.squeeze(-1)


class AttentionBlock(nn.Module):
    """`layer norm(a + dropout(attention(a)))`, over packed rows."""

    def __init__(self, width: int, heads: int, dropout: float, layer: int) -> None:
        super().__init__()
        self.heads = heads
        self.mixing = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = RowDropout(dropout, width, layer)
        self.norm = nn.LayerNorm(width)
        for linear in (self.mixing, self.out):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, a: Tensor, layout: ListLayout, packed: Packed | None = None) -> Tensor:
        mixed = self.mixing(a)  # [rows, 3 · width]
        parts = [
            self._attend(mixed[rows], mask).flatten(0, 1)
            for rows, mask in zip(layout.rows, layout.masks, strict=True)
        ]
        if not parts:
            return a
        seen = torch.cat(parts).index_select(0, layout.places)  # [rows, width]
        out: Tensor = self.norm(a + self.dropout(self.out(seen), packed))
        return out

    def _attend(self, laid: Tensor, mask: Tensor) -> Tensor:
        """`[lists, places, 3 · width]` → `[lists, places, width]`; only real places are looked at."""
        query, key, value = laid.reshape(*laid.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, mask[:, None, None, :])
        return seen.transpose(1, 2).flatten(2)


def follow_groups(packed: Packed) -> ListLayout:
    """The groups of the batch as they are: shapes that depend on no value."""
    device, last = packed.owner.device, len(packed.owner) - 1
    rows, masks, firsts, total = [], [], [], 0
    for group in packed.groups:
        lists = group.stop - group.start
        columns = torch.arange(group.width, device=device)
        rows.append((packed.starts[group.start : group.stop, None] + columns).clamp(max=last))
        masks.append(packed.mask(group))
        firsts.append(total + group.width * torch.arange(lists, device=device))
        total += lists * group.width
    ranks = torch.arange(last + 1, device=device) - packed.starts[packed.owner]
    places = (torch.cat(firsts)[packed.owner] + ranks).clamp(max=total - 1)  # fillers: any place will do
    return ListLayout(rows, masks, places)


def sort_lists(packed: Packed) -> ListLayout:
    """Lists of like length together, few at once where they are long, whatever order they came in."""
    device, last = packed.owner.device, len(packed.owner) - 1
    sizes = packed.sizes.cpu().numpy()
    order = np.argsort(-sizes, kind="stable")
    order = order[sizes[order] > 0]
    falling = -sizes[order]
    firsts = torch.zeros(len(sizes), dtype=torch.int64, device=device)
    rows, masks, total, start = [], [], 0, 0
    while start < len(order):
        width = int(sizes[order[start]])
        stop = int(np.searchsorted(falling, -min(0.75 * width, width - SLACK), side="right"))
        stop = min(stop, start + max(1, CELLS // width**2))
        lists = torch.from_numpy(order[start:stop]).to(device)
        columns = torch.arange(width, device=device)
        rows.append((packed.starts[lists, None] + columns).clamp(max=last))
        masks.append(columns < packed.sizes[lists, None])
        firsts[lists] = total + width * torch.arange(len(lists), device=device)
        total, start = total + len(lists) * width, stop
    ranks = torch.arange(last + 1, device=device) - packed.starts[packed.owner]
    return ListLayout(rows, masks, firsts[packed.owner] + ranks)
