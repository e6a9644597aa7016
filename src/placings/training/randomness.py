"""Random numbers that follow from what they are for: seed, step, query, row and unit, never from an order.

A number is a hash of its key, so a run that was stopped, a batch that was split over two machines and a
captured CUDA graph all draw the same. The hash works on 32 bits held in int32, where products wrap round.
"""

from __future__ import annotations

import torch
from torch import Tensor

GOLDEN = -1640531535  # 2654435769 as int32: the golden ratio's bits
_FIRST, _SECOND = 0x7FEB352D, -2073254261  # 0x846ca68b
_UNIT = 2.0**-23


def scramble(bits: Tensor) -> Tensor:
    """A hash of each int32 (Wellons' lowbias32): every bit of the input moves about half of the output's."""
    bits = (bits ^ ((bits >> 16) & 0xFFFF)) * _FIRST
    bits = (bits ^ ((bits >> 15) & 0x1FFFF)) * _SECOND
    return bits ^ ((bits >> 16) & 0xFFFF)


def make_uniform(bits: Tensor) -> Tensor:
    """Float32 in (0, 1) from hashed bits: the upper 23 of them, in the middle of their cell.

    With 24 the largest would round to 1, and Gumbel noise made of it would be infinite.
    """
    return ((bits >> 9) & 0x7FFFFF).float() * _UNIT + 0.5 * _UNIT


def draw_gumbel(keys: Tensor, draws: int, width: int) -> Tensor:
    """Standard Gumbel noise `[draws, lists, width]` for the lists of these keys; int32 `[lists]`."""
    places = torch.arange(width, device=keys.device, dtype=torch.int32)
    copies = torch.arange(draws, device=keys.device, dtype=torch.int32)
    cells = (copies[:, None] << 24) + places[None]  # the same whatever the width
    cells = cells[:, None, :]  # [draws, 1, width]
    bits = scramble(scramble(keys)[:, None] ^ scramble(cells * GOLDEN + 0x5BD1E995))
    return -torch.log(-torch.log(make_uniform(bits)))


def draw_units(key: Tensor, shape: tuple[int, int]) -> Tensor:
    """Uniform numbers of this shape for one key `[1]`; what a mixture drops its bases by."""
    cells = torch.arange(shape[0] * shape[1], device=key.device, dtype=torch.int32).view(shape)
    return make_uniform(scramble(scramble(key) ^ scramble(cells * GOLDEN + 0x2545F491)))


def number_units(layer: int, width: int) -> Tensor:
    """A hashed name for each unit of a layer, int32 `[width]`."""
    return scramble(torch.arange(width, dtype=torch.int32) * GOLDEN + layer * 0x27D4EB2F)


def name_rows(keys: Tensor, ranks: Tensor) -> Tensor:
    """A hashed name for each row from its list's key and its place in the list, both int32 `[rows]`."""
    return scramble(keys ^ scramble(ranks * GOLDEN + 0x165667B1))


def keep_units(rows: Tensor, units: Tensor, dropout: float) -> Tensor:
    """Which units survive in which rows, bool `[rows, units]`.

    Both names are hashed already, so one round is enough here, where most numbers are drawn.
    """
    bits = (rows[:, None] ^ units) * _FIRST
    bits = (bits ^ (bits >> 15)) * _SECOND
    return bits >= find_threshold(dropout)


def find_threshold(dropout: float) -> int:
    """The int32 below which a share of `dropout` of all int32 lie."""
    return round(dropout * 2**32) - 2**31
