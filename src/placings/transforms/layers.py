"""The transforms as torch layers: rows `[rows, features]` in, the same out; statistics are buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from placings.core import AnyArray, Floats, Floats32, Ints

LARGEST = float(np.finfo(np.float32).max)


class Layer(nn.Module):
    """A function of filled rows; `offsets` `[queries + 1]` matters only where queries do.

    Its statistics keep their type when a model is cast to bfloat16 or half: they follow the model to its
    device, not to its precision. They are no part of `state_dict`, which holds what was learned.
    """

    def keep(self, name: str, values: AnyArray | Tensor) -> None:
        """Register statistics."""
        self.register_buffer(name, torch.as_tensor(values).clone(), persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Self:
        before = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in before.items():
            moved = self._buffers[name]
            if buffer is not None and moved is not None and moved.dtype != buffer.dtype:
                self._buffers[name] = buffer.to(moved.device)
        return self

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        raise NotImplementedError

    def expand(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """What of filled rows can be computed once, whatever is learned later; `mix` does the rest."""
        return x if any(True for _ in self.parameters()) else self(x, offsets)

    def mix(self, expanded: Tensor) -> Tensor:
        """The layer's output from `expand`ed rows; the two together are `forward`."""
        return self(expanded) if any(True for _ in self.parameters()) else expanded


class Prepared(Layer):
    """Missing values filled, then the function, then the indicator columns; what `module()` returns.

    Any float type goes in; bfloat16 and half are widened to float32 first. ±inf becomes the largest float32.
    `function` is the layer inside, of filled rows.
    """

    fill: Tensor
    places: Tensor

    def __init__(self, function: Layer, fill: Floats32, places: Ints) -> None:
        super().__init__()
        self.function = function
        self.keep("fill", fill)
        self.keep("places", places)
        self.flagged = len(places)

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        out: Tensor = self.function(self.fill_in(x), offsets)
        return out if not self.flagged else torch.cat([out, self.flag(x, out)], dim=1)

    def prepare(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """What does not depend on anything learned, flat: `[rows, …]`; `finish` makes `forward` of it."""
        out = self.function.expand(self.fill_in(x), offsets).flatten(1)
        return out if not self.flagged else torch.cat([out, self.flag(x, out)], dim=1)

    def finish(self, prepared: Tensor) -> Tensor:
        """`forward` of rows that were `prepare`d."""
        width = prepared.shape[1] - self.flagged
        rows, flags = prepared[:, :width], prepared[:, width:]
        features = self.fill.shape[0]
        if width != features and not isinstance(self.function, Called):
            rows = rows.reshape(-1, width // features, features)
        out = self.function.mix(rows)
        return out if not self.flagged else torch.cat([out, flags.to(out.dtype)], dim=1)

    def fill_in(self, x: Tensor) -> Tensor:
        """Rows without missing or infinite values, at least float32."""
        x = x if x.dtype == torch.float64 else x.float()
        return torch.where(x.isnan(), self.fill.to(x.dtype), x).clamp(-LARGEST, LARGEST)

    def flag(self, x: Tensor, like: Tensor) -> Tensor:
        """1 where a flagged feature is missing `[rows, indicators]`."""
        return x.index_select(1, self.places).isnan().to(like.dtype)


class Called(Layer):
    """A function in numpy, `[rows, features]` → `[rows, columns]`, called on the CPU; it has no gradient."""

    def __init__(self, function: Callable[[Floats32, Ints], Floats]) -> None:
        super().__init__()
        self.called = function

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        borders = np.array([0, len(x)]) if offsets is None else offsets.cpu().numpy()
        found = self.called(x.detach().float().cpu().numpy(), borders)
        return torch.from_numpy(np.clip(found, -LARGEST, LARGEST)).to(x.device, x.dtype)


class Identity(Layer):
    """`x`."""

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        return x


class Logarithm(Layer):
    """`sgn(x) · log(1 + |x|)`; `composed` makes it of what ONNX has, which has no log1p."""

    composed = False

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        return torch.sign(x) * log_from_one(torch.abs(x), composed=self.composed)


def log_from_one(x: Tensor, *, composed: bool) -> Tensor:
    """`log(1 + x)` for x ≥ 0; `composed` of a sum and a logarithm, yet as exact for small x.

    u = 1 + x is rounded, and log(u) is off by as much; x / (u − 1) makes up for it. Where u is 1, log(1 + x)
    is x. Without that, a feature whose values are about 1e-6 would come out wrong by up to 6 %.

    Goldberg: What every computer scientist should know about floating-point arithmetic, 1991, theorem 4.
    """
    if not composed:
        return torch.log1p(x)
    u = 1.0 + x
    over = u - 1.0
    return torch.where(over > 0.0, torch.log(u) * (x / torch.where(over > 0.0, over, 1.0)), x)


class Scale(Layer):
    """`(x − shift) / divisor`, 0 where the divisor is 0; float32 that agrees with float64.

    A float32 shift would be off by half of its last digit, which is much if the values lie close together
    and far from 0. So it is kept as the sum of two, after everything is scaled by a power of two (exact)
    that brings the divisor near 1 and keeps 1e30 and 1e-30 away from float32's ends.
    """

    power: Tensor
    shift: Tensor
    rest: Tensor
    divisor: Tensor

    def __init__(self, shift: Floats, divisor: Floats, *, ends: tuple[float, float] | None = None) -> None:
        super().__init__()
        used = divisor > 0.0
        size = np.where(used, divisor, 1.0)
        power = np.exp2(-np.clip(np.floor(np.log2(size)), -120, 120))
        scaled = np.where(used, shift * power, 0.0)
        near = scaled.astype(np.float32)
        self.keep("power", np.where(used, power, 0.0).astype(np.float32))
        self.keep("shift", near)
        self.keep("rest", (scaled - near).astype(np.float32))
        self.keep("divisor", (size * power).astype(np.float32))
        self.ends = ends or (-LARGEST, LARGEST)

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        return (((x * self.power - self.shift) - self.rest) / self.divisor).clamp(*self.ends)


class Pieces(Layer):
    """`min(max((x − low) / (high − low), 0), 1)` of some feature for each column `[rows, columns]`.

    There are several columns a feature, so it is computed anew from the features of a batch: all rows at once
    would take as many times their memory.
    """

    owner: Tensor

    def __init__(self, owner: Ints, low: Floats, high: Floats) -> None:
        super().__init__()
        self.keep("owner", owner)
        self.scale = Scale(low, high - low, ends=(0.0, 1.0))

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        out: Tensor = self.scale(x.index_select(1, self.owner))
        return out

    def expand(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """The features as they are."""
        return x

    def mix(self, expanded: Tensor) -> Tensor:
        """The pieces."""
        out: Tensor = self(expanded)
        return out


class Beside(nn.Module):
    """A prepared transform's columns, and beside them the pieces of the same filled features.

    It has the form of `Prepared`: `prepare` what nothing learned enters, `finish` in each step.
    """

    def __init__(self, inner: Prepared, pieces: Pieces) -> None:
        super().__init__()
        self.inner, self.pieces = inner, pieces

    @property
    def fill(self) -> Tensor:
        """What replaces a missing value `[features]`."""
        return self.inner.fill

    @property
    def function(self) -> Layer:
        """The layer of the transform, of filled rows."""
        return self.inner.function

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        return torch.cat([self.inner(x, offsets), self.pieces(self.inner.fill_in(x))], dim=1)

    def prepare(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """What the transform prepares, and the filled features behind it."""
        return torch.cat([self.inner.prepare(x, offsets), self.inner.fill_in(x)], dim=1)

    def finish(self, prepared: Tensor) -> Tensor:
        """`forward` of rows that were `prepare`d."""
        width = prepared.shape[1] - self.fill.shape[0]
        own = self.inner.finish(prepared[:, :width])
        return torch.cat([own, self.pieces(prepared[:, width:]).to(own.dtype)], dim=1)


class QueryScale(Layer):
    """`(x − min) / (max − min)` within each query, 0 where all are equal; halved, so nothing overflows."""

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        if x.shape[0] == 0:
            return x
        half = x * 0.5
        if offsets is None:
            low, high = half.amin(0, keepdim=True), half.amax(0, keepdim=True)
        else:
            sizes = offsets.diff()
            query = torch.repeat_interleave(
                torch.arange(len(sizes), device=x.device), sizes.to(x.device), output_size=len(x)
            )
            place = query[:, None].expand(-1, x.shape[1])
            start = half.new_zeros(len(sizes), x.shape[1])
            low = start.scatter_reduce(0, place, half, "amin", include_self=False)[query]
            high = start.scatter_reduce(0, place, half, "amax", include_self=False)[query]
        span = high - low
        used = span >= float(np.finfo(np.float32).tiny) / 2
        return torch.where(used, (half - low) / torch.where(used, span, 1.0), 0.0)


class Clamp(Layer):
    """`min(max(x, low), high)`."""

    low: Tensor
    high: Tensor

    def __init__(self, low: Floats32, high: Floats32) -> None:
        super().__init__()
        self.keep("low", low)
        self.keep("high", high)

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        return torch.minimum(torch.maximum(x, self.low), self.high)


class Steps(Layer):
    """A step function of each feature: how many knots lie below x says which number of the table it gets.

    The knots of all features stand in one table `[features, knots]`, padded with +inf, and are searched
    together. With `on_knots` the table has two numbers a knot: between it and the one before, and on it.
    `unrolled` searches by halving with nothing but comparisons and gathers, for ONNX, which knows no
    `searchsorted`; the values are equal. Its tables are turned round, `[1 + knots, features]`, after a first
    line of −inf: then one place is one line of all features, and ONNX Runtime gathers several times faster.
    """

    knots: Tensor
    table: Tensor

    def __init__(
        self, knots: Sequence[Floats32], table: Sequence[Floats], *, unrolled: bool, on_knots: bool = False
    ) -> None:
        super().__init__()
        longest = max((len(each) for each in knots), default=0)
        self.halvings = longest.bit_length()
        width = 2**self.halvings if unrolled else longest + 1  # one +inf at least
        padded = np.full((len(knots), width), np.inf, dtype=np.float32)
        for row, values in zip(padded, knots, strict=True):
            row[: len(values)] = values
        worth = np.zeros((len(knots), max((len(each) for each in table), default=1)), dtype=np.float32)
        for row, numbers in zip(worth, table, strict=True):
            row[: len(numbers)] = numbers
        if unrolled:
            padded = np.pad(padded.T, ((1, 0), (0, 0)), constant_values=-np.inf)
            worth = worth.T
        self.keep("knots", np.ascontiguousarray(padded))
        self.keep("table", np.ascontiguousarray(worth))
        self.unrolled, self.on_knots = unrolled, on_knots

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        x = x.float()
        return self._search(x) if self.unrolled else self._look_up(x)

    def _look_up(self, x: Tensor) -> Tensor:
        columns = x.t().contiguous()  # [features, rows]
        below = torch.searchsorted(self.knots, columns)
        if self.on_knots:
            below = 2 * below + (self.knots.gather(1, below) == columns)
        return self.table.gather(1, below).t().contiguous()

    def _search(self, x: Tensor) -> Tensor:
        below = torch.zeros_like(x, dtype=torch.int64)
        for step in (2**power for power in reversed(range(self.halvings))):
            further = below + step  # is the last of so many knots still below x?
            below = torch.where(self.knots.gather(0, further) < x, further, below)
        if self.on_knots:
            below = 2 * below + (self.knots.gather(0, below + 1) == x).to(torch.int64)
        return self.table.gather(0, below)


class Sorted(Layer):
    """Several layers, each for its own columns; the columns come back in their order."""

    order: Tensor

    def __init__(self, layers: Sequence[Layer], columns: Sequence[Ints]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        for number, places in enumerate(columns):
            self.keep(f"columns{number}", places)
        self.keep("order", np.argsort(np.concatenate(columns)))

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        parts = [
            layer(x.index_select(1, self.get_buffer(f"columns{number}")), offsets)
            for number, layer in enumerate(self.layers)
        ]
        return torch.cat(parts, dim=1).index_select(1, self.order)
