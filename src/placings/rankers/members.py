"""Linear layers of members: networks side by side, with weights of their own or one matrix for all."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class SideBySide(nn.Module):
    """What linear layers of members share: `[rows, members · in]` → `[rows, members · out]`.

    `common`: all members have the same input, `[rows, in]`.
    """

    bias: nn.Parameter

    def __init__(self, members: int, outputs: int, *, common: bool) -> None:
        super().__init__()
        self.common = common
        self.bias = nn.Parameter(torch.zeros(members * outputs))

    def spread(self) -> Tensor:
        """The weights of each member, `[members, in, out]`."""
        raise NotImplementedError

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
        weight = self.spread()
        members, inputs, outputs = weight.shape
        if self.common:
            return weight.permute(1, 0, 2).reshape(1, inputs, members * outputs)
        if outputs == 1:
            apart = torch.eye(members, dtype=weight.dtype, device=weight.device)[:, None, :] * weight
            return apart.reshape(1, members * inputs, members)
        return weight


class MemberLinear(SideBySide):
    """A linear layer for each member, each with its own weights: Glorot uniform, biases 0."""

    def __init__(self, members: int, inputs: int, outputs: int, *, shared: bool) -> None:
        super().__init__(members, outputs, common=shared)
        bound = math.sqrt(6.0 / (inputs + outputs))  # Glorot's, for each member
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))

    def spread(self) -> Tensor:
        return self.weight


class SharedLinear(SideBySide):
    """One matrix for all members, scaled by each: `W_m = r_m ⊙ W ⊙ s_m`, W `[in, out]`, r `[in]`, s `[out]`.

    So members learn most of what they know together, and differ by vectors alone. r and s start at 1; r of
    the first layer (`first`), where all members see the same input, starts at ±1 at random, or they would
    all be one. r, s and biases are vectors, which no weight decay touches.

    Wen, Tran and Ba: BatchEnsemble, ICLR 2020. Gorishniy, Kotelnikov and Babenko: TabM, ICLR 2025.
    """

    def __init__(self, members: int, inputs: int, outputs: int, *, first: bool) -> None:
        super().__init__(members, outputs, common=first)
        bound = math.sqrt(6.0 / (inputs + outputs))
        self.weight = nn.Parameter(torch.empty(inputs, outputs).uniform_(-bound, bound))
        signs = 2.0 * torch.randint(0, 2, (members * inputs,)).float() - 1.0
        self.inward = nn.Parameter(signs if first else torch.ones(members * inputs))
        self.outward = nn.Parameter(torch.ones(members * outputs))

    def spread(self) -> Tensor:
        inputs, outputs = self.weight.shape
        return self.inward.view(-1, inputs, 1) * self.weight * self.outward.view(-1, 1, outputs)
