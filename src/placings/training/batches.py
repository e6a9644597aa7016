"""Batches of lists: rows travel packed, scores alone are laid out per list.

Everything about a step's batch follows from the seed and the step's number, so a run that was stopped goes
on with the same batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from placings.arrays import Ints
from placings.data.ranking import RankingData
from placings.metrics.order import sum_by_query


@dataclass(frozen=True)
class Lists:
    """Training data where the network is: `X` `[rows, features]`, `y` `[rows]`, `weight` `[queries]`."""

    X: Tensor
    y: Tensor
    weight: Tensor | None
    offsets: Ints

    @classmethod
    def of(cls, data: RankingData, device: torch.device) -> Lists:
        """The data on a device, a query's weight being the mean of its rows'."""
        dense = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
        weight = None
        if data.weight is not None:
            mean = sum_by_query(data.weight, data.offsets) / np.maximum(data.sizes, 1)
            weight = torch.tensor(mean, dtype=torch.float32, device=device)
        return cls(
            torch.tensor(dense, dtype=torch.float32, device=device),
            torch.tensor(data.y, dtype=torch.float32, device=device),
            weight,
            data.offsets,
        )


@dataclass(frozen=True)
class Batch:
    """Some lists: which rows, packed `[rows]`, and where each score belongs in `[lists, longest]`."""

    queries: Ints
    rows: Ints
    place: Ints
    shape: tuple[int, int]

    def lay_out(self, packed: Tensor, fill: float = 0.0) -> Tensor:
        """Packed values `[rows]` as `[lists, longest]`."""
        flat = packed.new_full((self.shape[0] * self.shape[1],), fill)
        place = torch.from_numpy(self.place).to(packed.device)
        return flat.index_copy(0, place, packed).view(self.shape)


def draw_batch(offsets: Ints, step: int, *, lists: int, longest: int | None, seed: int) -> Batch:
    """The batch of this step: `lists` queries in an order shuffled anew each epoch, `longest` rows of each.

    Queries of fewer than two rows are passed over: there is nothing to order. A longer list gives a random
    choice of its rows, in their order.
    """
    usable = np.flatnonzero(np.diff(offsets) >= 2)
    count = len(usable)
    size = min(lists, count)
    places = np.arange(step * size, (step + 1) * size)
    queries = np.concatenate(
        [
            usable[
                np.random.default_rng([seed, int(epoch)]).permutation(count)[
                    places[places // count == epoch] % count
                ]
            ]
            for epoch in np.unique(places // count)
        ]
    )
    rng = np.random.default_rng([seed, step, 1])
    chosen = [_choose_rows(offsets[q], offsets[q + 1], longest, rng) for q in queries]
    sizes = np.array([len(rows) for rows in chosen])
    width = int(sizes.max())
    starts = np.cumsum(sizes) - sizes
    rank = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
    return Batch(
        queries, np.concatenate(chosen), np.repeat(np.arange(size) * width, sizes) + rank, (size, width)
    )


def _choose_rows(start: int, stop: int, longest: int | None, rng: np.random.Generator) -> Ints:
    rows = np.arange(start, stop)
    if longest is None or len(rows) <= longest:
        return rows
    return np.sort(rng.choice(rows, size=longest, replace=False))
