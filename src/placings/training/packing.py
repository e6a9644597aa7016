"""Packed rows: which list each belongs to, and how scores alone are laid out per list.

Rows of a batch stand one after the other and travel so through a network: nothing is padded. Lists stand in
the order of their length, so that groups of about equal length are laid out together, each as wide as its
longest: a long list does not make the others wide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from placings.core import Ints
from placings.training.randomness import name_rows


class PackedGroup(NamedTuple):
    """Lists `start` to `stop` of a batch, laid out `width` wide."""

    start: int
    stop: int
    width: int


@dataclass(frozen=True)
class Packed:
    """The lists of packed rows; all tensors are where the network is.

    `live` is False for rows that only fill a fixed shape (after all others; they belong to no list). `reduce`
    adds a tensor up over processes, with its gradient.
    """

    owner: Tensor  # [rows] int64: which list
    starts: Tensor  # [lists] int64: its first row
    sizes: Tensor  # [lists] int64
    keys: Tensor  # [lists] int32: what its random numbers follow from
    groups: tuple[PackedGroup, ...]
    live: Tensor | None = None  # [rows] bool
    reduce: Callable[[Tensor], Tensor] | None = None

    @property
    def row_keys(self) -> Tensor:
        """What a row's random numbers follow from, int32 `[rows]`."""
        ranks = torch.arange(len(self.owner), device=self.owner.device) - self.starts[self.owner]
        return name_rows(self.keys[self.owner], ranks.int())

    def mask(self, group: PackedGroup) -> Tensor:
        """True where a list has an item, `[lists, width]`."""
        places = torch.arange(group.width, device=self.sizes.device)
        return places < self.sizes[group.start : group.stop, None]

    def lay_out(self, values: Tensor, group: PackedGroup) -> Tensor:
        """Packed values `[rows, ...]` as `[lists, width, ...]`; padding repeats some row of the batch."""
        places = torch.arange(group.width, device=self.sizes.device)
        index = self.starts[group.start : group.stop, None] + places
        return values[index.clamp(max=len(values) - 1)]

    def gather(self, laid: list[Tensor]) -> Tensor:
        """The reverse of `lay_out` for all groups: `[lists, width, ...]` each → packed `[rows, ...]`."""
        return torch.cat([part[self.mask(group)] for part, group in zip(laid, self.groups, strict=True)])


def pack_lists(offsets: Ints, device: torch.device | str = "cpu") -> Packed:
    """All lists of these offsets as they stand, as one group each of like length; for scoring."""
    sizes = np.diff(offsets)
    where = torch.device(device)
    widest = int(sizes.max()) if len(sizes) else 0
    return Packed(
        torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)).to(where),
        torch.from_numpy(np.ascontiguousarray(offsets[:-1])).to(where),
        torch.from_numpy(sizes).to(where),
        torch.zeros(len(sizes), dtype=torch.int32, device=where),
        (PackedGroup(0, len(sizes), widest),),
    )


def group_lists(sizes: Ints, most: int = 4) -> tuple[PackedGroup, ...]:
    """Groups of lists, which stand in the order of their length; one if padding is little either way."""
    count = len(sizes)
    if count == 0:
        return ()
    square = float((sizes.astype(np.float64) ** 2).sum())
    if most == 1 or count < 8 or count * float(sizes[-1]) ** 2 < 1.5 * square:
        return (PackedGroup(0, count, int(sizes[-1])),)
    borders = np.unique(np.linspace(0, count, most + 1).astype(int))
    return tuple(
        PackedGroup(int(start), int(stop), int(sizes[stop - 1])) for start, stop in pairwise(borders)
    )
