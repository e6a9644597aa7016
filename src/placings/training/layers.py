"""Layers that know packed rows: batch norm over real rows, dropout keyed by row."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from placings.training.packing import Packed
from placings.training.randomness import keep_units, name_units


class RowNorm(nn.BatchNorm1d):
    """Batch norm over the real rows of a batch, of all processes.

    `momentum` is PyTorch's: the share of the new statistics in the running ones. Statistics are float32
    whatever the rows are.
    """

    def forward(self, x: Tensor, packed: Packed | None = None) -> Tensor:
        plain = packed is None or (packed.live is None and packed.reduce is None)
        if not self.training or packed is None or plain:
            return super().forward(x)
        mean, variance, count = self._measure(x, packed)
        self._remember(mean.detach(), variance.detach(), count)
        scale = torch.rsqrt(variance + self.eps) * self.weight
        return ((x.float() - mean) * scale + self.bias).to(x.dtype)

    def _measure(self, x: Tensor, packed: Packed) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance over real rows, and how many those are."""
        if packed.reduce is not None:
            count = packed.reduce(torch.full((), float(len(x)), device=x.device))
            mean = packed.reduce(x.float().sum(0)) / count
            return mean, packed.reduce((x.float() - mean).square().sum(0)) / count, count
        assert packed.live is not None
        live, count = packed.live[:, None], packed.live.sum().float()
        some = x[0].detach().float()  # sums of differences from any row: one pass, and little is cancelled
        apart = torch.where(live, x.float() - some, 0.0)
        mean, square = apart.sum(0) / count, apart.square().sum(0) / count
        return mean + some, (square - mean.square()).clamp(min=0.0), count

    def _remember(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        share = 0.1 if self.momentum is None else self.momentum
        with torch.no_grad():
            self.running_mean.lerp_(mean, share)
            self.running_var.lerp_(variance * (count / (count - 1.0).clamp(min=1.0)), share)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)


class RowDropout(nn.Module):
    """Dropout whose mask follows from each row's key and each unit's name: no order, no stream.

    Without keys (a network used by itself) it is ordinary dropout. Kept units are scaled by 1 / (1 − p).
    """

    units: Tensor

    def __init__(self, dropout: float, width: int, layer: int) -> None:
        super().__init__()
        self.dropout = dropout
        self.register_buffer("units", name_units(layer, width), persistent=False)

    def forward(self, x: Tensor, packed: Packed | None = None) -> Tensor:
        if not self.training or self.dropout == 0.0:
            return x
        if packed is None:
            return functional.dropout(x, self.dropout)
        return x * self.draw(packed.row_keys, x)

    def draw(self, rows: Tensor, like: Tensor) -> Tensor:
        """The factors `[rows, units]`: 0, or 1 / (1 − p), in the type of `like`."""
        kept = 1.0 / (1.0 - self.dropout)
        plain = rows.device.type == "cpu" and not torch.compiler.is_compiling()
        if plain and like.dtype in (torch.float32, torch.bfloat16):
            from placings.training.drawing import CAN_FILL, fill_kept

            if CAN_FILL:
                wide = like.dtype == torch.float32
                bits = int(torch.tensor([kept], dtype=like.dtype).view(torch.int32 if wide else torch.int16))
                factors = np.empty((len(rows), len(self.units)), dtype=np.uint32 if wide else np.uint16)
                fill_kept(rows.numpy(), self.units.numpy(), self.dropout, bits, factors)
                signed = torch.from_numpy(factors.view(np.int32 if wide else np.int16))
                return signed.view(like.dtype)
        return keep_units(rows, self.units, self.dropout).to(like.dtype) * kept

    def extra_repr(self) -> str:
        return f"{self.dropout}"
