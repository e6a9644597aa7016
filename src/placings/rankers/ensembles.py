"""Several networks side by side on the same transformed features: trained apart, scored as their mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from placings.rankers.networks import find_activation
from placings.training.layers import RowDropout, RowNorm
from placings.training.packing import Packed


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


class Members(nn.Module):
    """Several `Stack`s as one: `[rows, members]` in training, else their mean `[rows, 1]`.

    Each member has its own weights and its own dropout, and its own loss: they meet only in the transform
    and in the mean. The norm of the input is shared.
    """

    def __init__(
        self,
        members: int,
        inputs: int,
        hidden: Sequence[int],
        *,
        activation: str,
        dropout: float,
        batch_norm: bool,
        momentum: float,
        eps: float,
        norm_input: bool = True,
    ) -> None:
        super().__init__()
        act = find_activation(activation)
        self.width = 1

        def norm(width: int, wanted: bool) -> list[nn.Module]:
            return [RowNorm(width, eps=eps, momentum=1.0 - momentum)] if batch_norm and wanted else []

        layers = norm(inputs, norm_input)
        for number, (width, out) in enumerate(pairwise([inputs, *hidden])):
            layers += norm(members * width, bool(number))
            layers += [MemberLinear(members, width, out, shared=not number), act()]
            layers.append(RowDropout(dropout, members * out, number))
        last = hidden[-1] if hidden else inputs
        layers += norm(members * last, bool(hidden))
        layers.append(MemberLinear(members, last, 1, shared=not hidden))
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, packed: Packed | None = None) -> Tensor:
        for layer in self.layers:
            x = layer(x, packed) if isinstance(layer, RowNorm | RowDropout) else layer(x)
        if self.training:
            return x
        members = x.shape[-1]  # the mean as a product: ONNX Runtime takes it of no rows too
        return x @ x.new_full((members, 1), 1.0 / members)
