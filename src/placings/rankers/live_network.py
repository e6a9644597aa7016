"""A feed-forward network for one list: torch's own operations, one after the other, and nothing around them.

Modules look up attributes, hooks and gradients; for forty rows that takes longer than the arithmetic. What a
weight alone decides (a mixture's shares, members' weights side by side) is worked out once. The operations
are those of the modules, or a compiled loop that does the same in the same order, so the scores are theirs to
the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from placings.core import HAVE_NUMBA, Floats, Floats32, Ints

Function: TypeAlias = Callable[[Tensor], Tensor]


class UnknownPart(Exception):
    """A part of a network that has no plain form here."""


def read_network(network: Any) -> Callable[[Floats32], Floats]:
    """A function that scores the rows of one list `[rows, features]` as a `FeedForward` does."""
    if type(network).__name__ != "FeedForward":
        raise UnknownPart
    with torch.no_grad():
        prepare = _read_entrance(network.transform)
        steps = [prepare, *_read_stack(network.layers)]

    def score(rows: Floats32) -> Floats:
        with torch.inference_mode():
            x = torch.from_numpy(rows)
            for step in steps:
                x = step(x)
            found: Floats = x[:, 0].double().numpy()
        return found

    return score


def _read_entrance(layer: Any) -> Function:
    """A transform's columns, and beside them pieces, if there are any."""
    if type(layer).__name__ != "Beside":
        return _fuse_prepared(layer) or _read_prepared(layer)
    inner, owner, scale = layer.inner, _copy(layer.pieces.owner), _read_scale(layer.pieces.scale)
    prepare, fill = _fuse_prepared(inner) or _read_prepared(inner), _copy(inner.fill)
    largest = float(torch.finfo(torch.float32).max)

    def read(x: Tensor) -> Tensor:
        filled = torch.where(x.isnan(), fill, x).clamp_(-largest, largest)
        return torch.cat([prepare(x), scale(filled.index_select(1, owner))], dim=1)

    return read


def _fuse_prepared(layer: Any) -> Function | None:
    """A mixture of scales, logarithms and steps as one compiled loop; None if it is something else."""
    mixture: Any = getattr(layer, "function", None)
    if type(layer).__name__ != "Prepared" or type(mixture).__name__ != "MixtureLayer":
        return None
    if not HAVE_NUMBA or layer.flagged:
        return None
    from placings.rankers.live_kernels import LOGARITHM, SCALE, STEPS, mix_bases

    bases = []
    for basis in mixture.bases:
        standard = basis if type(basis).__name__ == "Standard" else None
        inner = basis.inner if standard is not None else basis
        kind = {"Scale": SCALE, "Steps": STEPS, "Logarithm": LOGARITHM}.get(type(inner).__name__)
        if kind is None or (kind == STEPS and inner.unrolled):
            return None
        bases.append((kind, inner, standard))
    missing = _copy(layer.fill)
    count, width = len(bases), len(missing)
    scales = np.zeros((count, 4, width), dtype=np.float32)
    ends = np.zeros((count, 2), dtype=np.float32)
    centers, inverses = np.zeros((count, width), dtype=np.float32), np.ones((count, width), dtype=np.float32)
    again, on_knots = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    starts, places = (np.zeros((count, width + 1), dtype=np.int64) for _ in range(2))
    knots, tables = _Joined(), _Joined()
    last: Any = None
    for at, (kind, inner, standard) in enumerate(bases):
        if standard is not None:
            centers[at], inverses[at] = _copy(standard.center).numpy(), _copy(standard.inverse).numpy()
        if kind == SCALE:
            scales[at] = [
                _copy(each).numpy() for each in (inner.power, inner.shift, inner.rest, inner.divisor)
            ]
            ends[at] = inner.ends
        elif kind == STEPS:
            own, table = _copy(inner.knots).numpy(), _copy(inner.table).numpy()
            counts = np.isfinite(own).sum(axis=1)
            on_knots[at] = inner.on_knots
            again[at] = last is not None and np.array_equal(own, last[0])
            starts[at] = starts[last[1]] if again[at] else knots.add(own, counts)
            places[at] = tables.add(table, 2 * counts + 1 if inner.on_knots else counts + 1)
            last = own, at
    shares = np.ascontiguousarray(_copy(mixture.weights().t()).numpy())
    largest = float(torch.finfo(torch.float32).max)
    marks = np.stack([np.array([kind for kind, _, _ in bases]), again, on_knots])
    weights = np.stack([centers, inverses, shares])
    told = (marks, scales, ends, weights, knots.join(), starts, tables.join(), places)

    logged = any(kind == LOGARITHM for kind, _, _ in bases)

    def prepare(x: Tensor) -> Tensor:
        filled = torch.where(x.isnan(), missing, x).clamp_(-largest, largest)
        # torch's logarithm: the last digit of another's may differ
        logs = filled.abs().log1p_().mul_(torch.sign(filled)) if logged else filled
        out = torch.empty_like(x)
        mix_bases(filled.numpy(), logs.numpy(), *told, out.numpy())
        return out

    return prepare


class _Joined:
    """The first numbers of each row of tables, one after the other: what is used of them, side by side."""

    def __init__(self) -> None:
        self._parts: list[Floats32] = []
        self._size = 0

    def add(self, table: Floats32, counts: Any) -> Ints:
        """Where each row's numbers begin, and the last end."""
        self._parts += [row[:count] for row, count in zip(table, counts.tolist(), strict=True)]
        found = self._size + np.concatenate([[0], np.cumsum(counts)])
        self._size = int(found[-1])
        return found.astype(np.int64)

    def join(self) -> Floats32:
        """All numbers."""
        return np.concatenate([*self._parts, np.zeros(1, dtype=np.float32)]).astype(np.float32)


def _read_prepared(layer: Any) -> Function:
    """Missing values filled, the transform, the indicator columns."""
    if type(layer).__name__ != "Prepared":
        raise UnknownPart
    function, fill = _read_layer(layer.function), _copy(layer.fill)
    largest = float(torch.finfo(torch.float32).max)
    places = _copy(layer.places) if layer.flagged else None

    def prepare(x: Tensor) -> Tensor:
        missing = x.isnan()
        out = function(torch.where(missing, fill, x).clamp_(-largest, largest))
        return out if places is None else torch.cat([out, missing.index_select(1, places).float()], dim=1)

    return prepare


def _read_layer(layer: Any) -> Function:
    """A transform's layer, of filled rows."""
    readers: dict[str, Callable[[Any], Function]] = {
        "MixtureLayer": _read_mixture,
        "Standard": _read_standard,
        "Scale": _read_scale,
        "Steps": _read_steps,
        "Clamp": _read_clamp,
        "Pieces": _read_pieces,
        "Logarithm": lambda _: lambda x: torch.sign(x).mul_(torch.abs(x).log1p_()),
        "Identity": lambda _: lambda x: x,
    }
    name = type(layer).__name__
    if name not in readers:
        raise UnknownPart
    return readers[name](layer)


def _read_mixture(layer: Any) -> Function:
    bases = [_read_layer(basis) for basis in layer.bases]
    shares = _copy(layer.weights().t())
    return lambda x: torch.stack([basis(x) for basis in bases], dim=1).mul_(shares).sum(dim=1)


def _read_standard(layer: Any) -> Function:
    inner, center, inverse = _read_layer(layer.inner), _copy(layer.center), _copy(layer.inverse)
    return lambda x: (inner(x) - center).mul_(inverse)


def _read_scale(layer: Any) -> Function:
    power, shift, rest, divisor = map(_copy, (layer.power, layer.shift, layer.rest, layer.divisor))
    low, high = layer.ends
    return lambda x: (x * power).sub_(shift).sub_(rest).div_(divisor).clamp_(low, high)


def _read_pieces(layer: Any) -> Function:
    owner, scale = _copy(layer.owner), _read_scale(layer.scale)
    return lambda x: scale(x.index_select(1, owner))


def _read_clamp(layer: Any) -> Function:
    low, high = _copy(layer.low), _copy(layer.high)
    return lambda x: torch.minimum(torch.maximum(x, low), high)


def _read_steps(layer: Any) -> Function:
    if layer.unrolled or not HAVE_NUMBA:
        raise UnknownPart
    from placings.rankers.live_kernels import look_up_steps

    knots, table = _copy(layer.knots).numpy(), _copy(layer.table).numpy()
    counts = torch.isfinite(_copy(layer.knots)).sum(dim=1).numpy()
    on_knots = bool(layer.on_knots)

    def look_up(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        look_up_steps(x.numpy(), knots, counts, table, on_knots, out.numpy())
        return out

    return look_up


def _read_stack(stack: Any) -> list[Function]:
    steps: list[Function] = []
    before: list[Function] = []
    line: Function | None = None
    for place, layer in enumerate(stack.layers):
        if place == stack.entry and stack.skip is not None:
            line, before, steps = _read_skip(stack.skip), steps, []
        name = type(layer).__name__
        if name == "RowNorm":
            steps.append(_read_norm(layer))
        elif name == "Linear":
            steps.append(_read_linear(layer))
        elif name in ("MemberLinear", "SharedLinear"):
            steps.append(_read_members(layer))
        elif name != "RowDropout":
            steps.append(_find_activation(name))
    if line is not None:
        steps = [*before, _add_line(steps, line)]
    if stack.members > 1:
        mean = torch.full((stack.members, 1), 1.0 / stack.members)
        steps.append(lambda x: x @ mean)
    return steps


def _read_skip(layer: Any) -> Function:
    weight = _copy(layer.weight)
    return lambda x: functional.linear(x, weight)


def _add_line(steps: list[Function], line: Function) -> Function:
    """The steps one after the other, and the line beside them."""

    def run(x: Tensor) -> Tensor:
        out = x
        for step in steps:
            out = step(out)
        return out.add_(line(x))

    return run


def _read_norm(layer: Any) -> Function:
    mean, variance = _copy(layer.running_mean), _copy(layer.running_var)
    weight, bias, eps = _copy(layer.weight), _copy(layer.bias), layer.eps
    return lambda x: functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, eps)


def _read_linear(layer: Any) -> Function:
    weight, bias = _copy(layer.weight), _copy(layer.bias)
    return lambda x: functional.linear(x, weight, bias)


def _read_members(layer: Any) -> Function:
    parts, bias = _copy(layer.join()), _copy(layer.bias)
    members, inputs, outputs = parts.shape
    if members == 1:
        joined = parts[0]
        return lambda x: (x @ joined).add_(bias)

    def apply(x: Tensor) -> Tensor:
        rows = x.view(x.shape[0], members, inputs).transpose(0, 1)
        return torch.bmm(rows, parts).transpose(0, 1).reshape(x.shape[0], members * outputs).add_(bias)

    return apply


def _find_activation(name: str) -> Function:
    known: dict[str, Function] = {"ReLU": torch.relu, "Tanh": torch.tanh, "Sigmoid": torch.sigmoid}
    if name not in known:
        raise UnknownPart
    return known[name]


def _copy(tensor: Any) -> Tensor:
    """A tensor of its own, on the CPU: training goes on without changing it."""
    found: Tensor = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    return found
