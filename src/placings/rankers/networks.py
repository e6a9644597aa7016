"""Networks that score packed rows: transform, then layers, each with batch norm in front of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from placings.core import BadInput, UnknownName, setting
from placings.data import Matrix
from placings.training import (
    GOLDEN,
    Moments,
    Packed,
    RowDropout,
    RowNorm,
    SparseRows,
    can_fuse,
    make_uniform,
    name_units,
    relu_and_drop,
    scramble,
)
from placings.transforms import Transform

START = 0.05  # vectors start uniform within ± this, as Keras's embeddings do


class Bag(nn.Module):
    """`Σ_c x_c · E_c` over the columns of a row that are not 0: `[rows, width]`, cheap if few are.

    It stands where a transform's module stands. The values come transformed already (`pass_sparse`), without
    batch norm, which would fill the zeros. Only the vectors of columns that a batch holds get a gradient.
    """

    def __init__(self, columns: int, width: int) -> None:
        super().__init__()
        self.vectors = nn.EmbeddingBag(columns, width, mode="sum", sparse=True)
        nn.init.uniform_(self.vectors.weight, -START, START)

    def prepare(self, x: SparseRows, offsets: Tensor | None = None) -> SparseRows:
        """Sparse rows as they are: there is nothing to do once."""
        return x

    def finish(self, prepared: SparseRows) -> Tensor:
        """The rows' sums `[rows, width]`; a row without columns is 0."""
        out: Tensor = self.vectors(prepared.columns, prepared.starts, prepared.values)
        return out

    def forget_unseen(self, X: Matrix) -> None:
        """Set the vectors of columns that these rows do not hold to 0: an unknown word then says nothing."""
        assert not isinstance(X, np.ndarray)
        unseen = np.ones(X.shape[1], dtype=bool)
        unseen[X.indices] = False
        with torch.no_grad():
            self.vectors.weight[torch.from_numpy(unseen).to(self.vectors.weight.device)] = 0.0


def pass_sparse(transform: Transform, X: Matrix) -> Any:
    """Rows through a fitted transform as CSR; one that makes something of 0 is refused.

    Missing values are filled by the transform's policy first, which for CSR is 0 unless a number is set.
    """
    from scipy.sparse import csr_array

    if transform._per_query or not transform._keeps_zero():
        raise BadInput(
            f"{transform} does not keep zeros at zero, so sparse rows of {X.shape[1]:,} columns cannot "
            "pass it; they are too wide to be made dense. Use "
            f"{setting('transform', 'log1p')} or 'raw', or fewer columns."
        )
    rows = csr_array(X) if isinstance(X, np.ndarray) else X
    return transform.transform(rows)


class MemberLinear(nn.Module):
    """A linear layer for each member, side by side: `[rows, members · in]` → `[rows, members · out]`.

    `shared`: all members have the same input, `[rows, in]`.
    """

    def __init__(self, members: int, inputs: int, outputs: int, *, shared: bool) -> None:
        super().__init__()
        bound = math.sqrt(6.0 / (inputs + outputs))  # Glorot's, for each member
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(members * outputs))
        self.shared = shared

    def forward(self, x: Tensor) -> Tensor:
        members, inputs, outputs = self.weight.shape
        if self.shared:
            joined = self.weight.permute(1, 0, 2).reshape(inputs, members * outputs)
            return x @ joined + self.bias
        if outputs == 1:  # one product with zeros between members is quicker than many thin ones
            apart = torch.eye(members, dtype=x.dtype, device=x.device)[:, None, :] * self.weight.to(x.dtype)
            return x @ apart.reshape(members * inputs, members) + self.bias
        rows = x.view(x.shape[0], members, inputs).transpose(0, 1)  # [members, rows, in]
        out = torch.bmm(rows, self.weight).transpose(0, 1)
        return out.reshape(x.shape[0], members * outputs) + self.bias


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
    """The activation of this name; the error for an unknown one lists the known."""
    if name not in ACTIVATIONS:
        raise UnknownName("activation", str(name), [*ACTIVATIONS, *also])
    return ACTIVATIONS[name]
