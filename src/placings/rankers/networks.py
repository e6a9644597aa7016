"""Networks that score packed rows: transform, then layers, each with batch norm in front of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from placings.errors import UnknownName
from placings.rankers.bags import Bag
from placings.rankers.ensembles import MemberLinear
from placings.training.layers import Moments, RowDropout, RowNorm, can_fuse, relu_and_drop
from placings.training.packing import Packed
from placings.training.randomness import GOLDEN, make_uniform, name_units, scramble
from placings.training.sources import SparseRows

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}
LINEAR = "linear"  # an output without a function behind it
NOISE_LAYER = 1000  # the name of the input's noise, apart from those of layers that drop units


class Network(nn.Module):
    """What the loop trains: rows are `prepare`d once, then scored in every step.

    `prepare` does what nothing learned enters (missing values, a fixed transform, the bases of a mixture);
    `forward` takes prepared rows and the lists they belong to, and gives one score a row.
    """

    transform: Any  # a transform's module, or a Bag: `prepare`, then `finish` gives `[rows, inputs]`
    needs_lists = False  # whether a row's score depends on the other rows of its list

    def prepare(self, rows: Any, offsets: Tensor | None = None) -> Any:
        """Rows `[rows, features]` as `forward` wants them: `[rows, prepared]`, or sparse rows for a bag."""
        return self.transform.prepare(self.spread(rows), offsets)

    def spread(self, rows: Any) -> Any:
        """Sparse rows made dense, unless a bag takes them as they are."""
        if isinstance(rows, SparseRows) and not isinstance(self.transform, Bag):
            return rows.spread(self.transform.fill.shape[0])
        return rows

    def forward(self, prepared: Any, packed: Packed | None = None) -> Tensor:
        raise NotImplementedError


class Stack(nn.Module):
    """`[batch norm → linear → activation → dropout] × hidden → [batch norm →] linear`, over packed rows.

    With `norm_after`, as TF-Ranking's examples have it, `[batch norm →] [linear → batch norm → activation →
    dropout] × hidden → linear`. `norm_input` is about the first batch norm of either. `outputs` None leaves
    out the last linear layer and the norm in front of it.

    `momentum` is Keras's (the share of the old average that is kept), as the paper writes it. Weights start
    as Keras's do: Glorot uniform, biases 0. Statistics come from real rows only: nothing here is padded.
    Dropout draws by the layer's number, counted from `first_layer`.

    With several `members` it is as many networks side by side: each has its own weights, dropout and loss,
    and they meet only in what they see and in their mean. In training it gives `[rows, members]`, else
    the mean.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int | None = 1,
        *,
        activation: str,
        dropout: float,
        batch_norm: bool,
        momentum: float,
        eps: float,
        norm_input: bool = True,
        norm_after: bool = False,
        output_activation: str = LINEAR,
        first_layer: int = 0,
        members: int = 1,
    ) -> None:
        super().__init__()
        act = find_activation(activation)
        self.members = members

        def linear(width: int, out: int, first: bool) -> nn.Module:
            return nn.Linear(width, out) if members == 1 else MemberLinear(members, width, out, shared=first)

        def norm(width: int, wanted: bool) -> list[nn.Module]:
            return [RowNorm(width, eps=eps, momentum=1.0 - momentum)] if batch_norm and wanted else []

        layers = norm(inputs, norm_input and (bool(hidden) or outputs is not None))
        for number, (width, out) in enumerate(pairwise([inputs, *hidden])):
            layers += norm(members * width, bool(number) and not norm_after)
            layers += [linear(width, out, not number), *norm(members * out, norm_after), act()]
            layers.append(RowDropout(dropout, members * out, first_layer + number))
        self.width = hidden[-1] if hidden else inputs
        if outputs is not None:
            layers += norm(members * self.width, bool(hidden) and not norm_after)
            layers.append(linear(self.width, outputs, not hidden))
            if output_activation != LINEAR:
                layers.append(find_activation(output_activation, LINEAR)())
            self.width = outputs
        self.layers = nn.ModuleList(layers)
        plain = output_activation == LINEAR and not norm_after and members == 1
        self.fusible = activation == "relu" and plain and bool(hidden)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, packed: Packed | None = None) -> Tensor:
        if packed is not None and self.training and self.fusible and can_fuse(x, packed):
            dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else x.dtype
            with torch.autocast("cpu", enabled=False):
                return self._run_fused(x, packed, dtype)
        for layer in self.layers:
            x = layer(x, packed) if isinstance(layer, RowNorm | RowDropout) else layer(x)
        if self.members == 1 or self.training:
            return x
        # the mean as a product: ONNX Runtime takes it of no rows too
        return x @ x.new_full((self.members, 1), 1.0 / self.members)

    def _run_fused(self, x: Tensor, packed: Packed, dtype: torch.dtype) -> Tensor:
        """The same, with fewer passes over the rows; products are of `dtype`, weights of their own."""
        norm: RowNorm | None = None
        moments: Moments | None = None
        bias: Tensor | None = None
        for layer in self.layers:
            if isinstance(layer, RowNorm):
                norm = layer
            elif isinstance(layer, nn.Linear):
                if norm is not None:
                    x, weight, bias = norm.fold(x, layer, moments, dtype)
                else:
                    x, weight, bias = x.to(dtype), layer.weight.to(dtype), layer.bias
                x = x @ weight.t()
                norm = moments = None
            elif isinstance(layer, RowDropout):  # with the activation in front of it
                assert bias is not None
                x, moments = relu_and_drop(x, bias, layer, packed, shared=layer is self.layers[-1])
                bias = None
        return x if bias is None else x.float() + bias


class RowNoise(nn.Module):
    """Gaussian noise on a row's inputs in training, which follows from the row's key and the input's name.

    `x + std · √(−2 ln u) · cos(2πv)` with u and v hashed (Box and Muller). Without keys (a network used by
    itself) it is drawn from torch's stream.
    """

    units: Tensor

    def __init__(self, std: float, width: int) -> None:
        super().__init__()
        self.std = std
        self.register_buffer("units", name_units(NOISE_LAYER, width), persistent=False)

    def forward(self, x: Tensor, packed: Packed | None = None) -> Tensor:
        if not self.training or self.std == 0.0:
            return x
        if packed is None:
            return x + self.std * torch.randn_like(x)
        bits = scramble(packed.row_keys[:, None] ^ self.units)
        length = torch.sqrt(-2.0 * torch.log(make_uniform(bits)))
        turn = torch.cos(2.0 * math.pi * make_uniform(scramble(bits + GOLDEN)))
        return x + (self.std * length * turn).to(x.dtype)

    def extra_repr(self) -> str:
        return f"{self.std}"


class FeedForward(Network):
    """`transform → noise → Stack → score`."""

    def __init__(self, transform: nn.Module, noise: RowNoise, layers: Stack) -> None:
        super().__init__()
        self.transform = transform
        self.noise = noise
        self.layers = layers

    def forward(self, prepared: Any, packed: Packed | None = None) -> Tensor:
        inputs = self.noise(self.transform.finish(prepared), packed)  # [rows, inputs]
        scores: Tensor = self.layers(inputs, packed)
        return scores.squeeze(-1) if scores.shape[-1] == 1 else scores  # [rows], or [rows, members]


def find_activation(name: str, *also: str) -> type[nn.Module]:
    """The activation of this name; an unknown one is told what else there is."""
    if name not in ACTIVATIONS:
        raise UnknownName("activation", str(name), [*ACTIVATIONS, *also])
    return ACTIVATIONS[name]
