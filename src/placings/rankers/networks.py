"""Networks that score packed rows: transform, then layers, each with batch norm in front of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from placings.errors import UnknownName

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class FeedForward(nn.Module):
    """`transform → [batch norm → linear → activation → dropout] × hidden → [batch norm →] linear → score`.

    `momentum` is Keras's (the share of the old average that is kept), as the paper writes it. Weights start
    as Keras's do: Glorot uniform, biases 0. Statistics come from real rows only: nothing here is padded.
    """

    def __init__(
        self,
        transform: nn.Module,
        inputs: int,
        hidden: Sequence[int],
        *,
        activation: str,
        dropout: float,
        batch_norm: bool,
        momentum: float,
        eps: float,
    ) -> None:
        super().__init__()
        if activation not in ACTIVATIONS:
            raise UnknownName("activation", activation, ACTIVATIONS)
        self.transform = transform
        layers: list[nn.Module] = []
        widths = [inputs, *hidden]
        for width, out in pairwise(widths):
            if batch_norm:
                layers.append(nn.BatchNorm1d(width, eps=eps, momentum=1.0 - momentum))
            layers += [nn.Linear(width, out), ACTIVATIONS[activation](), nn.Dropout(dropout)]
        if batch_norm:
            layers.append(nn.BatchNorm1d(widths[-1], eps=eps, momentum=1.0 - momentum))
        layers.append(nn.Linear(widths[-1], 1))
        self.layers = nn.Sequential(*layers)
        for layer in layers:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, rows: Tensor) -> Tensor:
        scores: Tensor = self.layers(self.transform(rows)).squeeze(-1)
        return scores
