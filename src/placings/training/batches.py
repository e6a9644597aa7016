"""Batches of lists, drawn from nothing but the seed and the step's number.

So a run that was stopped goes on with the same batches, and so do several processes that share them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np

from placings.core import AnyArray, Ints
from placings.training.packing import PackedGroup, group_lists

if TYPE_CHECKING:
    from torch import Tensor, device

    from placings.training.packing import Packed


@dataclass(frozen=True)
class Batch:
    """Some lists of the data, shortest first: which rows, packed, and what their randomness follows from."""

    queries: Ints  # [lists]
    rows: Ints  # [rows]
    sizes: Ints  # [lists]
    keys: Ints  # [lists]

    @cached_property
    def starts(self) -> Ints:
        """The first packed row of each list."""
        return np.cumsum(self.sizes) - self.sizes

    @cached_property
    def owner(self) -> Ints:
        """The list of each packed row."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def groups(self) -> tuple[PackedGroup, ...]:
        """Lists of about equal length."""
        return group_lists(self.sizes)

    def pack(self, where: device) -> Packed:
        """The same as tensors."""
        import torch

        from placings.training.packing import Packed

        def send(values: AnyArray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(values)).to(where, non_blocking=True)

        keys = self.keys.astype(np.uint32).view(np.int32)
        return Packed(send(self.owner), send(self.starts), send(self.sizes), send(keys), self.groups)


@dataclass(frozen=True)
class BatchSampler:
    """The lists of a data set and how batches are drawn from them.

    Queries of fewer than two rows are passed over: there is nothing to order. Each epoch has an order of
    its own; a batch may reach from one into the next. A list longer than `longest` gives a random choice of
    its rows, in their order.
    """

    offsets: Ints
    lists: int
    longest: int | None
    seed: int

    @cached_property
    def usable(self) -> Ints:
        """The queries that have something to order."""
        return np.flatnonzero(np.diff(self.offsets) >= 2)

    @property
    def size(self) -> int:
        """How many lists a batch has."""
        return min(self.lists, len(self.usable))

    def find_queries(self, step: int) -> Ints:
        """The queries of a step, shortest list first."""
        count, size = len(self.usable), self.size
        places = np.arange(step * size, (step + 1) * size)
        epochs = places // count
        queries = np.concatenate(
            [
                self.usable[_shuffle(count, self.seed, int(epoch))[places[epochs == epoch] % count]]
                for epoch in range(int(epochs[0]), int(epochs[-1]) + 1)
            ]
        )
        return np.asarray(queries[np.argsort(self.find_sizes(queries), kind="stable")])

    def find_sizes(self, queries: Ints) -> Ints:
        """How many rows each query gives."""
        sizes = self.offsets[queries + 1] - self.offsets[queries]
        return sizes if self.longest is None else np.minimum(sizes, self.longest)

    def draw(self, step: int, *, part: int = 0, parts: int = 1) -> Batch:
        """The batch of a step, or one of several parts of it."""
        from placings.training.drawing import choose_rows, key_lists

        queries = self.find_queries(step)[part::parts]
        sizes = self.find_sizes(queries)
        keys = key_lists(queries, self.seed, step)
        rows = np.empty(int(sizes.sum()), dtype=np.int64)
        choose_rows(self.offsets, queries, sizes, keys, rows)
        return Batch(queries, rows, sizes, keys)

    def bound(self, steps: int, groups: int = 2) -> tuple[int, tuple[PackedGroup, ...]]:
        """The most rows of any batch, and groups wide enough for all: the fixed shape of a captured graph."""
        size, count = self.size, len(self.usable)
        borders = np.unique(np.linspace(0, size, groups + 1).astype(int))
        widest, most = np.zeros(len(borders) - 1, dtype=np.int64), 0
        lengths = self.find_sizes(self.usable)
        steps = 1 if size == count else steps  # then every batch holds all lists
        for first in range(0, steps, 4096):
            last = min(first + 4096, steps)
            epochs = range(first * size // count, -(-last * size // count))
            drawn = np.concatenate([lengths[_shuffle(count, self.seed, epoch)] for epoch in epochs])
            begin = first * size - epochs[0] * count
            sizes = np.sort(drawn[begin : begin + (last - first) * size].reshape(-1, size), axis=1)
            most = max(most, int(sizes.sum(axis=1).max()))
            np.maximum(widest, sizes[:, borders[1:] - 1].max(axis=0), out=widest)
        return most, tuple(
            PackedGroup(int(start), int(stop), int(width))
            for start, stop, width in zip(borders[:-1], borders[1:], widest, strict=True)
        )


@lru_cache(maxsize=4)
def _shuffle(count: int, seed: int, epoch: int) -> Ints:
    return np.random.default_rng([seed, epoch]).permutation(count)
