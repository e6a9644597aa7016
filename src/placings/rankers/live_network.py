"""A feed-forward network for one list: a few products of small matrices, and nothing around them.

Modules look up attributes, hooks and gradients, and each operation of torch lets go of Python's lock; for
forty rows that takes longer than the arithmetic. What a weight alone decides is worked out once: a mixture's
shares, members' weights side by side, a norm as part of the linear layer behind it, the mean of members as
part of their last one. The scores are the modules' but for the rounding of float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from placings.core import HAVE_NUMBA, Floats, Floats32, Ints

Function: TypeAlias = Callable[[Tensor], Tensor]
Step: TypeAlias = Callable[[Floats32], Floats32]  # may change what it is given: that is the network's own


LINEAR = ("Linear", "MemberLinear", "SharedLinear")


class UnknownPart(Exception):
    """A part of a network that has no plain form here."""


def read_network(network: Any) -> Callable[[Floats32], Floats]:
    """A function that scores the rows of one list `[rows, features]` as a `FeedForward` does."""
    if type(network).__name__ != "FeedForward":
        raise UnknownPart
    with torch.no_grad():
        prepare = _read_entrance(network.transform)
        steps = _read_stack(network.layers)
        curves = None if network.curves is None else _as_floats(network.curves.weight).astype(np.float32)

    def score(rows: Floats32) -> Floats:
        with np.errstate(all="ignore"):  # a sum that float32 has no room for is told by its result
            x = prepare(rows)
            bent: Floats32 | float = 0.0
            if curves is not None:
                bent, x = x[:, -len(curves) :] @ curves, x[:, : -len(curves)]
            for step in steps:
                x = step(x)
            total = x[:, 0] + bent
        return total.astype(np.float64)

    return score


def _read_entrance(layer: Any) -> Step:
    """A transform's columns, and beside them pieces, if there are any."""
    if type(layer).__name__ != "Beside":
        return _fuse_prepared(layer) or _through_torch(_read_prepared(layer))
    inner = _read_entrance(layer.inner)
    owner, scale, fill = _copy(layer.pieces.owner), _read_scale(layer.pieces.scale), _copy(layer.inner.fill)
    largest = float(torch.finfo(torch.float32).max)

    def cut(x: Tensor) -> Tensor:
        filled = torch.where(x.isnan(), fill, x).clamp_(-largest, largest)
        return scale(filled.index_select(1, owner))

    pieces = _through_torch(cut)
    return lambda rows: np.concatenate([inner(rows), pieces(rows)], axis=1)


def _through_torch(function: Function) -> Step:
    """What is only known as operations of torch, as a step between arrays."""

    def prepare(rows: Floats32) -> Floats32:
        with torch.inference_mode():
            found: Floats32 = function(torch.from_numpy(rows)).numpy()
        return found

    return prepare


def _fuse_prepared(layer: Any) -> Step | None:
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
    missing = _copy(layer.fill).numpy()
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
    marks = np.stack([np.array([kind for kind, _, _ in bases]), again, on_knots])
    weights = np.stack([centers, inverses, shares])
    told = (marks, scales, ends, weights, knots.join(), starts, tables.join(), places)

    def prepare(rows: Floats32) -> Floats32:
        out = np.empty_like(rows)
        mix_bases(rows, missing, *told, out)
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


def _read_stack(stack: Any) -> list[Step]:
    """The layers as products and functions of arrays; norms and the mean of members are in the products."""
    parts = [layer for layer in stack.layers if type(layer).__name__ != "RowDropout"]
    entry = stack.layers[stack.entry] if stack.skip is not None else None
    steps: list[Step] = []
    before: list[Step] = []  # the steps in front of a line beside the layers
    norm: Any = None
    for place, layer in enumerate(parts):
        if layer is entry:
            before, steps = steps, []
        name = type(layer).__name__
        if name == "RowNorm":
            follower = type(parts[place + 1]).__name__ if place + 1 < len(parts) else ""
            if place > 0 and follower in LINEAR:
                norm = layer
            else:  # of raw rows the mean must go first: a year times its weight leaves float32 few digits
                steps.append(_normalise(layer))
        elif name in LINEAR:
            mean = stack.members > 1 and place + 1 == len(parts)
            steps.append(_read_linear(layer, norm, mean=mean))
            norm = None
        else:
            steps.append(_find_activation(name))
    if stack.members > 1 and type(parts[-1]).__name__ not in LINEAR:
        steps.append(lambda x: x.mean(axis=1, keepdims=True))
    return steps if entry is None else [*before, _add_line(steps, stack.skip)]


def _add_line(steps: list[Step], skip: Any) -> Step:
    """The steps one after the other, and the members' mean line beside them."""
    weight = _as_floats(skip.weight).mean(axis=0)[:, None].astype(np.float32)  # [in, 1]

    def apply(x: Floats32) -> Floats32:
        found: Floats32 = x @ weight  # first: a step may change what it is given
        for step in steps:
            x = step(x)
        found += x
        return found

    return apply


def _read_norm(layer: Any) -> tuple[Floats, Floats]:
    """A norm as what it multiplies by and what it adds, `[inputs]` each."""
    mean, variance = _as_floats(layer.running_mean), _as_floats(layer.running_var)
    factor: Floats = _as_floats(layer.weight) / np.sqrt(variance + layer.eps)
    return factor, _as_floats(layer.bias) - mean * factor


def _normalise(layer: Any) -> Step:
    mean, factor = _as_floats(layer.running_mean), _read_norm(layer)[0]
    less, times, more = (each.astype(np.float32) for each in (mean, factor, _as_floats(layer.bias)))

    def apply(x: Floats32) -> Floats32:
        found: Floats32 = x - less
        found *= times
        found += more
        return found

    return apply


def _read_linear(layer: Any, norm: Any, *, mean: bool) -> Step:
    """A linear layer, or one for each member, with the norm before it; `mean` takes that of the members.

    `[rows, in]` → `[rows, out]`, members side by side. Worked out in float64, so that a weight that was put
    together is rounded once.
    """
    bias = _as_floats(layer.bias)
    if type(layer).__name__ == "Linear":
        weight, shared = _as_floats(layer.weight).T[None], True  # [members, in, out], as members have it
    else:
        weight, shared = _as_floats(layer.spread()), bool(layer.common)
    members, inputs, outputs = weight.shape
    if norm is not None:
        factor, shift = (np.reshape(each, (1 if shared else members, inputs, 1)) for each in _read_norm(norm))
        bias = bias + (shift * weight).sum(axis=1).ravel()
        weight = factor * weight
    if mean:
        weight, bias = weight / members, bias.reshape(members, outputs).sum(axis=0) / members
    if shared and mean:
        joined = weight.sum(axis=0)
    elif shared:
        joined = weight.transpose(1, 0, 2).reshape(inputs, members * outputs)
    elif mean:
        joined = weight.reshape(members * inputs, outputs)
    else:
        return _multiply_apart(weight.astype(np.float32), bias.astype(np.float32))
    return _multiply(np.ascontiguousarray(joined, dtype=np.float32), bias.astype(np.float32))


def _multiply(weight: Floats32, bias: Floats32) -> Step:
    def apply(x: Floats32) -> Floats32:
        found: Floats32 = x @ weight
        found += bias
        return found

    return apply


def _multiply_apart(weight: Floats32, bias: Floats32) -> Step:
    """Each member's own inputs by its own weights `[members, in, out]`."""
    members, inputs, outputs = weight.shape

    def apply(x: Floats32) -> Floats32:
        found = np.empty((len(x), members * outputs), dtype=np.float32)
        for at in range(members):
            own = x[:, at * inputs : (at + 1) * inputs] @ weight[at]
            found[:, at * outputs : (at + 1) * outputs] = own
        found += bias
        return found

    return apply


def _find_activation(name: str) -> Step:
    known: dict[str, Step] = {
        "ReLU": lambda x: np.maximum(x, 0.0, out=x),
        "Tanh": lambda x: np.tanh(x, out=x),
        "Sigmoid": _squash,
    }
    if name not in known:
        raise UnknownPart
    return known[name]


def _squash(x: Floats32) -> Floats32:
    """`1 / (1 + exp(−x))`; where exp overflows it is 0, as it should be."""
    found: Floats32 = np.exp(-x)
    found += 1.0
    return np.reciprocal(found, out=found)


def _as_floats(tensor: Any) -> Floats:
    found: Floats = tensor.detach().cpu().double().numpy()
    return found


def _copy(tensor: Any) -> Tensor:
    """A tensor of its own, on the CPU: training goes on without changing it."""
    found: Tensor = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
    return found
