"""Several networks side by side as one: a linear layer for each member, in one product."""

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
