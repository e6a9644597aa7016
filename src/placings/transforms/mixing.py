"""The learned mixture as a torch layer: softmax weights over transforms, one set for each feature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from placings.core import Bools, Floats, Floats32, Ints
from placings.transforms.layers import LARGEST, Layer, Scale, Sorted, log_from_one
from placings.transforms.parts import name_part
from placings.transforms.vectors import FORMS, VectorGroup

if TYPE_CHECKING:
    from placings.transforms.mixture import Mixture


class MixtureLayer(Layer):
    """`Σ_m p_m ⊙ σ_m(x)` with `p = softmax(e Wᵀ / temperature)`; only `embedding` and `projection` learn.

    In training, `dropout` hides bases; the draws come from `noise` (uniform numbers `[units, bases]` that the
    loop fills in, as a CUDA graph wants) if it is set, else from `generator`, else from torch's own. A loop
    may set `temperature`, `dropout` and `entropy` between steps, and add `regularisation()` to its loss.

    `expand` and `mix` are `forward` in two steps: the bases do not depend on what is learned, so a loop may
    compute them once for all rows and only mix in each step.
    """

    bases: nn.ModuleList
    projection: Tensor
    unit: Tensor
    allowed: Tensor
    heat: Tensor

    def __init__(
        self,
        bases: Sequence[Layer],
        unit: Ints,
        allowed: Bools,
        embedding: Floats32,
        projection: Floats32,
        *,
        learn_projection: bool,
        temperature: float,
        dropout: float,
        entropy: float,
        lr: float | None,
    ) -> None:
        super().__init__()
        self.bases = nn.ModuleList(bases)
        self.keep("unit", unit)
        self.keep("allowed", allowed)
        self.embedding = nn.Parameter(torch.tensor(embedding))
        if learn_projection:
            self.projection = nn.Parameter(torch.tensor(projection))
        else:
            self.register_buffer("projection", torch.tensor(projection))
        self.register_buffer("heat", torch.tensor(temperature, dtype=torch.float32))
        self.dropout, self.entropy, self.lr = dropout, entropy, lr
        self.generator: torch.Generator | None = None
        self.noise: Tensor | None = None

    @property
    def temperature(self) -> float:
        """What the logits are divided by; may be set, also inside a captured graph's life."""
        return float(self.heat)

    @temperature.setter
    def temperature(self, value: float) -> None:
        self.heat.fill_(value)

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        shares = self.shares()
        out: Tensor = self.bases[0](x, offsets) * shares[:, 0]
        for number, basis in enumerate(self.bases[1:], start=1):
            out = out + basis(x, offsets) * shares[:, number]
        return out

    def expand(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """The bases of filled rows `[rows, bases, features]`."""
        return torch.stack([basis(x, offsets) for basis in self.bases], dim=1)

    def mix(self, bases: Tensor) -> Tensor:
        """The mixture of `expand`ed rows `[rows, features]`."""
        bases = bases if bases.ndim == 3 else bases.unsqueeze(1)
        return (bases * self.shares().t()).sum(dim=1)

    def logits(self) -> Tensor:
        """`e Wᵀ / temperature` `[units, bases]`; −inf where a group has no such form."""
        # products and a sum, not a matrix product, which autocast would round to bfloat16
        raw = (self.embedding[:, None, :] * self.projection).sum(dim=-1) / self.heat
        return raw.masked_fill(~self.allowed, -torch.inf)

    def shares(self) -> Tensor:
        """p `[features, bases]`, with bases dropped if training says so."""
        logits = self.logits()
        if self.training and self.dropout > 0.0:
            logits = logits.masked_fill(self._draw_dropped(), -torch.inf)
        return logits.softmax(dim=-1)[self.unit]

    def weights(self) -> Tensor:
        """p `[features, bases]` as it is when nothing is dropped, without a gradient."""
        return self.logits().softmax(dim=-1)[self.unit].detach()

    def regularisation(self) -> Tensor:
        """`entropy` × the mean over features and groups of −Σ_m p_m log p_m; a number to add to a loss."""
        logs = self.logits().log_softmax(dim=-1)
        terms = logs.exp() * logs.masked_fill(~self.allowed, 0.0)
        return -self.entropy * terms.sum(dim=-1).mean()

    def _draw_dropped(self) -> Tensor:
        noise = self.noise
        if noise is None:
            device = self.allowed.device
            noise = torch.rand(self.allowed.shape, generator=self.generator, device=device)
        dropped = (noise < self.dropout) & self.allowed
        return dropped & (self.allowed & ~dropped).any(dim=-1, keepdim=True)  # one at least stays


class Standard(Layer):
    """A layer's output less `center`, over `spread`; 0 where that is 0."""

    center: Tensor
    inverse: Tensor

    def __init__(self, inner: Layer, center: Floats, spread: Floats) -> None:
        super().__init__()
        self.inner = inner
        self.keep("center", center.astype(np.float32))
        inverse = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0.0)
        self.keep("inverse", inverse.astype(np.float32))

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        out: Tensor = (self.inner(x, offsets) - self.center) * self.inverse
        return out


class VectorForm(Layer):
    """A group's columns as one vector, in a form that keeps its direction; see `vectors`."""

    composed = False  # as in Logarithm

    def __init__(self, form: str, group: VectorGroup, *, normalise: bool) -> None:
        super().__init__()
        self.form = form
        self.times = group.factor(form) if normalise and form in FORMS else 1.0
        divisor = np.full(len(group.columns), group.scale)
        self.scale = Scale(group.center, divisor) if form == "gauss" else None

    def forward(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        if self.scale is not None:
            out: Tensor = self.scale(x)
            return out
        if self.form == "raw":
            return x * self.times
        if self.form not in FORMS:
            return torch.zeros_like(x)
        largest = x.abs().amax(dim=1, keepdim=True)
        small = x / torch.where(largest > 0.0, largest, 1.0)  # so that no square overflows
        length = small.norm(dim=1, keepdim=True)
        direction = small / torch.where(length > 0.0, length, 1.0)
        if self.form == "cdf":
            return direction * self.times
        size = (length * largest).clamp(max=LARGEST)
        return direction * (self.times * log_from_one(size, composed=self.composed))


def build_mixing(mixture: Mixture, export: bool) -> MixtureLayer:
    """The layer of a fitted mixture, its parameters where the mixture has them."""
    from placings.transforms.mixture import is_affine

    mean, std, center, spread = mixture._normal
    bases: list[Layer] = []
    for number, part in enumerate(mixture._parts):
        if mixture.normalise and is_affine(part):
            scalar: Layer = Scale(mean, std)
        else:
            scalar = part._layer(export)
            scalar = Standard(scalar, center[number], spread[number]) if mixture.normalise else scalar
        if not mixture._groups:
            bases.append(scalar)
            continue
        name = name_part(part)
        layers = [scalar, *(VectorForm(name, g, normalise=mixture.normalise) for g in mixture._groups)]
        columns = [mixture._scalars, *(group.columns for group in mixture._groups)]
        bases.append(Sorted(layers, columns))
    return MixtureLayer(
        bases,
        mixture._units(),
        mixture._allowed(),
        mixture.embedding_,
        mixture.projection_,
        learn_projection=mixture.embedding is not None,
        temperature=mixture.temperature_,
        dropout=mixture.dropout,
        entropy=mixture.entropy,
        lr=mixture.lr,
    )
