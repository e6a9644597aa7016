"""Layers that know packed rows: batch norm over real rows, dropout keyed by row; on a CPU both at once.

A large batch on a CPU loses much of its time between the products of matrices, in all that passes over its
numbers once more. So there `relu_and_drop` makes one pass of bias, activation, dropout and the moments that
the next batch norm asks for, `RowNorm.fold` puts that norm into the weights of the layer behind it, and
`multiply_parts` takes the products of members without copies of their rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from placings.training.packing import Packed
from placings.training.randomness import keep_units, number_units


class Moments(NamedTuple):
    """Of each unit over the rows of a batch, float32 `[units]`; the variance is the population's."""

    mean: Tensor
    variance: Tensor


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

    def standardise(self, x: Tensor) -> Tensor:
        """Rows centred and scaled by their own moments, which are remembered; what is learned is left out.

        `fold_learned` puts that into the weights of the layer behind: rows that nothing learned has touched
        then need no gradient. For training alone.
        """
        mean = x.mean(0)
        apart = x - mean
        variance = apart.square().mean(0)
        self._remember(mean.detach(), variance.detach(), torch.tensor(float(len(x))))
        return apart * torch.rsqrt(variance + self.eps)

    def fold_learned(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Weight and bias of a layer behind `standardise`d rows, as of one behind the norm.

        `weight` is `[parts, inputs, outputs]`: the units of the norm are `parts` of `inputs` each, and each
        part meets its own weights. The bias, `[parts · outputs]`, is to be added to the layer's own.
        """
        return weight * self._spread(self.weight, weight), self._pass(self.bias, weight)

    def fold(
        self, weight: Tensor, moments: Moments, rows: int, dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, Tensor]:
        """The same behind rows left as they are: the whole norm is in the weights.

        There are `rows` of them, with these moments. The weight is of `dtype`, the bias float32.
        """
        self._remember(moments.mean.detach(), moments.variance.detach(), torch.tensor(float(rows)))
        scale = torch.rsqrt(moments.variance + self.eps) * self.weight
        folded = (weight * self._spread(scale, weight)).to(dtype)
        # by the weight as it was rounded: so its error meets x − mean, not a large mean
        return folded, self._pass(self.bias, weight) - self._pass(moments.mean, folded.float())

    @staticmethod
    def _spread(units: Tensor, weight: Tensor) -> Tensor:
        """A number of each unit beside its weights, `[parts, inputs, 1]`."""
        return units.view(weight.shape[0], weight.shape[1], 1)

    @staticmethod
    def _pass(units: Tensor, weight: Tensor) -> Tensor:
        """What a constant row of these units gives behind the weights, `[parts · outputs]`."""
        return (units.view(weight.shape[0], 1, weight.shape[1]) @ weight).flatten()

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
        self.register_buffer("units", number_units(layer, width), persistent=False)

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


class Skip(nn.Module):
    """A linear function of the inputs for each member, past all hidden layers: `[rows, members]`.

    `skip(x) = W x` with W `[members, inputs]`, from zeros: the last layer has the only bias. Scores are often
    nearly linear in well transformed features, and W has that part whatever becomes of the hidden layers. It
    is float32 under autocast too. The optimizer knows it by its class: it may have a weight decay of its own.
    """

    def __init__(self, inputs: int, members: int = 1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(members, inputs))

    def forward(self, x: Tensor) -> Tensor:
        if not torch.is_autocast_enabled(x.device.type):
            return functional.linear(x, self.weight)
        with torch.autocast(x.device.type, enabled=False):
            return functional.linear(x.to(self.weight.dtype), self.weight)

    def extra_repr(self) -> str:
        return f"{self.weight.shape[1]}, {self.weight.shape[0]}"


def can_fuse(x: Tensor, packed: Packed | None) -> bool:
    """Whether `relu_and_drop` is for these rows: on a CPU, all of them real, all in this process."""
    if (
        packed is None
        or packed.live is not None
        or packed.reduce is not None
        or torch.compiler.is_compiling()
    ):
        return False
    if x.device.type != "cpu" or x.dtype != torch.float32 or not len(x):
        return False
    from placings.training.drawing import CAN_FILL

    return CAN_FILL


def relu_and_drop(
    x: Tensor, bias: Tensor, dropout: RowDropout, packed: Packed, *, shared: bool = False
) -> tuple[Tensor, Moments]:
    """`dropout(relu(x + bias))` and its moments, in one pass and in place of `x`.

    `x` is float32 or bfloat16 `[rows, units]` and must be what nothing else has kept or will use, such as a
    product of matrices; `bias` is float32. `shared` says that more than one function may use the result, so
    that its gradient may belong to another one too.
    """
    out, mean, variance = _ReluAndDrop.apply(x, bias, packed.row_keys, dropout, shared)  # type: ignore[no-untyped-call]
    return out, Moments(mean, variance)


class _ReluAndDrop(torch.autograd.Function):
    """Where the result is above 0 a unit was kept and positive: it is its own mask."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, bias: Tensor, rows: Tensor, layer: RowDropout, shared: bool
    ) -> tuple[Tensor, ...]:
        from placings.training.drawing import drop_rows

        keys, units = rows.numpy(), layer.units.numpy()
        found = drop_rows(_see_bits(x), bias.detach().numpy(), keys, units, layer.dropout)
        with np.errstate(over="ignore"):  # infinite then, as torch makes it
            mean, variance = (torch.from_numpy(values.astype(np.float32)) for values in found)
        ctx.mark_dirty(x)
        ctx.save_for_backward(x, mean)
        ctx.dropout, ctx.shared = layer.dropout, shared
        return x, mean, variance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, by_mean: Tensor, by_variance: Tensor) -> tuple[Tensor | None, ...]:
        from placings.training.drawing import pull_rows

        x, mean = ctx.saved_tensors
        slope = by_variance * (2.0 / len(x))
        level = by_mean / len(x) - slope * mean
        grad = grad.clone(memory_format=torch.contiguous_format) if ctx.shared else grad.contiguous()
        total = pull_rows(_see_bits(grad), _see_bits(x), ctx.dropout, level.numpy(), slope.numpy())
        with np.errstate(over="ignore"):
            return grad, torch.from_numpy(total.astype(np.float32)), None, None, None


def _see_bits(x: Tensor) -> Any:
    """The same memory as unsigned integers, which numpy has where it has no bfloat16."""
    if x.dtype == torch.float32:
        return x.detach().numpy().view(np.uint32)
    return x.detach().view(torch.int16).numpy().view(np.uint16)


def multiply_parts(x: Tensor, weight: Tensor) -> Tensor:
    """`[rows, parts · inputs]` times `[parts, inputs, outputs]`, each part by its own weights.

    The result is `[rows, parts · outputs]`. On a CPU each product reads and writes its columns where they
    stand; a batched product would be followed by a copy of everything into the order of rows, forwards and
    backwards.
    """
    if len(weight) == 1:
        return x @ weight[0]
    out: Tensor = _MultiplyParts.apply(x, weight)  # type: ignore[no-untyped-call]
    return out


class _MultiplyParts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        out = x.new_empty((len(x), weight.shape[0] * weight.shape[2]))
        for rows, made, own in zip(_see_parts(x, weight), _see_parts(out, weight), weight, strict=True):
            torch.mm(rows, own, out=made)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        by_x, by_weight = torch.empty_like(x), torch.empty_like(weight)
        parts = zip(
            _see_parts(x, weight), _see_parts(grad, weight), _see_parts(by_x, weight), weight, by_weight,
            strict=True,
        )  # fmt: skip
        for rows, pull, to_rows, own, to_own in parts:
            torch.mm(pull, own.t(), out=to_rows)
            torch.mm(rows.t(), pull, out=to_own)
        return by_x, by_weight


def _see_parts(x: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
    """The columns of each part, without a copy."""
    return x.tensor_split(len(weight), dim=1)
