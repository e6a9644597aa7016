"""Networks that score packed rows: transform, then layers, each with batch norm in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from placings.errors import UnknownName
from placings.training.layers import RowDropout, RowNorm
from placings.training.packing import Packed
from placings.transforms.layers import Prepared

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class Network(nn.Module):
    """What the loop trains: rows are `prepare`d once, then scored in every step.

    `prepare` does what nothing learned enters (missing values, a fixed transform, the bases of a mixture);
    `forward` takes prepared rows and the lists they belong to, and gives one score a row.
    """

    transform: Prepared
    needs_lists = False  # whether a row's score depends on the other rows of its list

    def prepare(self, rows: Tensor, offsets: Tensor | None = None) -> Tensor:
        """Rows `[rows, features]` as `forward` wants them, `[rows, prepared]`."""
        return self.transform.prepare(rows, offsets)

    def forward(self, prepared: Tensor, packed: Packed | None = None) -> Tensor:
        raise NotImplementedError


class Stack(nn.Module):
    """`[batch norm → linear → activation → dropout] × hidden → [batch norm →] linear`, over packed rows.

    `momentum` is Keras's (the share of the old average that is kept), as the paper writes it. Weights start
    as Keras's do: Glorot uniform, biases 0. Statistics come from real rows only: nothing here is padded.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int = 1,
        *,
        activation: str,
        dropout: float,
        batch_norm: bool,
        momentum: float,
        eps: float,
        norm_input: bool = True,
        first_layer: int = 0,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UnknownName("activation", activation, ACTIVATIONS)
        layers: list[nn.Module] = []
        widths = [inputs, *hidden]
        for number, (width, out) in enumerate(pairwise(widths)):
            if batch_norm and (number or norm_input):
                layers.append(RowNorm(width, eps=eps, momentum=1.0 - momentum))
            layers += [nn.Linear(width, out), ACTIVATIONS[activation]()]
            layers.append(RowDropout(dropout, out, first_layer + number))
        if batch_norm and (hidden or norm_input):
            layers.append(RowNorm(widths[-1], eps=eps, momentum=1.0 - momentum))
        layers.append(nn.Linear(widths[-1], outputs))
        self.layers = nn.ModuleList(layers)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor, packed: Packed | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, packed) if isinstance(layer, RowNorm | RowDropout) else layer(x)
        return x


class FeedForward(Network):
    """`transform → Stack → score`."""

    def __init__(self, transform: Prepared, layers: Stack) -> None:
        super().__init__()
        self.transform = transform
        self.layers = layers

    def forward(self, prepared: Tensor, packed: Packed | None = None) -> Tensor:
        scores: Tensor = self.layers(self.transform.finish(prepared), packed)
        return scores.squeeze(-1)
