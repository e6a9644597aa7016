"""Groupwise scoring: a network sees a few items of a list at once and scores them together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from placings.core import Ints
from placings.rankers.networks import Network, RowNoise, Stack
from placings.training import GOLDEN, Packed, SparseRows, scramble

ORDERS = 4  # shuffled orders whose scores are averaged when nothing is being learned
_BYTES = 4  # a row's name travels as four numbers of 8 bits, which any float type holds exactly
_WORD = 0xFFFFFFFF


class Groupwise(Network):
    """`f(x_1 … x_m, context) → s_1 … s_m` over windows of a shuffled list; an item's scores are averaged.

    A list of n items in some order, taken as a ring, has n windows of m neighbours, one from each item on:
    each item is in m of them, once at each place, and its score is the mean of the m it gets. In a list
    shorter than m the ring goes round more than once. Context inputs come once a window, from the item it
    starts at; they are the same for all items of a list.

    The order follows from a hash of each row's own numbers and, in training, of the list's key: so neither
    the order in which rows come, nor their packing, changes a score, and each step shuffles anew. Scoring
    averages `ORDERS` fixed orders. Rows that are equal in every number are ordered as they come.

    Ai, Wang, Bruch, Golbandi, Bendersky and Najork: Learning groupwise multivariate scoring functions using
    deep neural networks, ICTIR 2019.
    """

    needs_lists = True
    item: Tensor
    shared: Tensor

    def __init__(
        self, transform: nn.Module, noise: RowNoise, layers: Stack, size: int, item: Ints, context: Ints
    ) -> None:
        super().__init__()
        self.transform, self.noise, self.layers, self.size = transform, noise, layers, size
        self.register_buffer("item", torch.as_tensor(item).clone(), persistent=False)
        self.register_buffer("shared", torch.as_tensor(context).clone(), persistent=False)

    def prepare(self, rows: Any, offsets: Tensor | None = None) -> Any:
        """Prepared rows with their names behind: `[rows, prepared + 4]`; sparse rows as they are."""
        rows = self.spread(rows)
        prepared = self.transform.prepare(rows, offsets)
        if isinstance(prepared, SparseRows):
            return prepared
        names = hash_dense(rows)
        parts = torch.stack([(names >> 8 * place) & 0xFF for place in range(_BYTES)], dim=1)
        return torch.cat([prepared, parts.to(prepared.dtype)], dim=1)

    def forward(self, prepared: Any, packed: Packed | None = None) -> Tensor:
        assert packed is not None
        names, prepared = self._split(prepared)
        inputs = self.noise(self.transform.finish(prepared), packed)  # [rows, inputs]
        if self.training:
            return self._score(inputs, names, packed.keys, packed)
        fixed = torch.arange(1, ORDERS + 1, device=names.device, dtype=torch.int32) * GOLDEN
        scores = [self._score(inputs, names, key.expand(len(packed.sizes)), packed) for key in fixed]
        return torch.stack(scores).mean(dim=0)

    def _split(self, prepared: Any) -> tuple[Tensor, Any]:
        """The rows' names, int32 `[rows]`, and what the transform prepared."""
        if isinstance(prepared, SparseRows):
            return hash_sparse(prepared), prepared
        parts = prepared[:, -_BYTES:].to(torch.int32)
        names = parts[:, 0]
        for place in range(1, _BYTES):
            names = names | (parts[:, place] << 8 * place)
        return names, prepared[:, :-_BYTES]

    def _score(self, inputs: Tensor, names: Tensor, keys: Tensor, packed: Packed) -> Tensor:
        """Scores `[rows]` with the lists shuffled by `keys`, int32 `[lists]`."""
        if not len(inputs):
            return inputs.new_zeros(0)
        row = shuffle_lists(names, keys, packed)  # [slots]: the row at each place of the shuffled lists
        slots = torch.arange(len(row), device=row.device)
        # rows that only fill a shape stand behind all others and count as more of the first list
        start, count = packed.starts[packed.owner], packed.sizes[packed.owner].clamp(min=1)
        place = slots - start
        steps = torch.arange(self.size, device=row.device)
        ahead = start[:, None] + (place[:, None] + steps) % count[:, None]  # [slots, m]: a window's slots
        items = inputs.index_select(1, self.item)[row[ahead]].flatten(1)  # [slots, m · item inputs]
        window = torch.cat([items, inputs.index_select(1, self.shared)[row]], dim=1)
        given = self.layers(window, packed)  # [slots, m]
        behind = start[:, None] + (place[:, None] - steps) % count[:, None]  # the windows an item is in
        scores: Tensor = given[behind, steps].float().mean(dim=1)  # [slots]
        slot = torch.empty_like(row).scatter_(0, row, slots)  # [rows]: where each row stands
        return scores.index_select(0, slot)


def shuffle_lists(names: Tensor, keys: Tensor, packed: Packed) -> Tensor:
    """Packed rows in a new order within each list, int64 `[rows]`: sorted by a hash of name and key."""
    bits = scramble(names ^ scramble(keys)[packed.owner]).long() & _WORD
    owner = packed.owner
    if packed.live is not None:
        owner = torch.where(packed.live, owner, len(packed.sizes))  # fillers stay last
    return torch.argsort((owner << 32) | bits, stable=True)


def hash_dense(rows: Tensor) -> Tensor:
    """A name for each row from its numbers, int32 `[rows]`; −0 is 0, and one NaN is like another."""
    plain = torch.where(rows.isnan(), torch.nan, rows.float() + 0.0)
    columns = torch.arange(rows.shape[1], device=rows.device, dtype=torch.int32) * GOLDEN
    bits = scramble(plain.contiguous().view(torch.int32) ^ scramble(columns))
    return _fold(bits.long().sum(dim=1))


def hash_sparse(rows: SparseRows) -> Tensor:
    """The same for sparse rows, from the columns and values that are stored and not 0."""
    columns = scramble(rows.columns.int() * GOLDEN)
    bits = scramble((rows.values + 0.0).contiguous().view(torch.int32) ^ columns).long()
    bits = torch.where(rows.values != 0.0, bits, 0)
    sums = torch.zeros(len(rows), dtype=torch.int64, device=bits.device)
    return _fold(sums.index_add_(0, rows.find_owners(), bits))


def _fold(bits: Tensor) -> Tensor:
    """int64 as int32, its lower half; arithmetic, since a cast of what does not fit is not defined."""
    low = bits & _WORD
    return torch.where(low >= 1 << 31, low - (1 << 32), low).int()
