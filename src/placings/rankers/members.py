"""Linear layers of members: networks side by side, each with weights of its own."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


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
        parts = self.join()
        if len(parts) == 1:
            return x @ parts[0] + self.bias
        members, inputs, outputs = parts.shape
        rows = x.view(x.shape[0], members, inputs).transpose(0, 1)  # [members, rows, in]
        out = torch.bmm(rows, parts).transpose(0, 1)
        return out.reshape(x.shape[0], members * outputs) + self.bias

    def join(self) -> Tensor:
        """The weights as few products as are quick: `[parts, inputs, outputs]` with one part or `members`.

        Where members share their input, their weights stand side by side. Where each has one output, one
        product with zeros between members is quicker than many thin ones.
        """
        weight = self.weight
        members, inputs, outputs = weight.shape
        if self.shared:
            return weight.permute(1, 0, 2).reshape(1, inputs, members * outputs)
        if outputs == 1:
            apart = torch.eye(members, dtype=weight.dtype, device=weight.device)[:, None, :] * weight
            return apart.reshape(1, members * inputs, members)
        return weight
