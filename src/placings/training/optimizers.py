"""Optimizers: which parameters learn how fast, and a running mean of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from placings.errors import UnknownName
from placings.training.plans import Plan
from placings.transforms.mixing import MixtureLayer

OPTIMIZERS = ("adagrad", "adamw", "sgd")


def make_optimizer(model: nn.Module, plan: Plan) -> torch.optim.Optimizer:
    """The optimizer; the parameters of a mixture may have a learning rate of their own.

    Weight decay is for matrices alone: biases, norms and mixtures are left as they are.
    """
    if plan.optimizer not in OPTIMIZERS:
        raise UnknownName("optimizer", plan.optimizer, OPTIMIZERS)
    own = {id(p) for layer in find_mixtures(model) for p in layer.parameters()}
    rest = [p for p in model.parameters() if id(p) not in own]
    parts: list[tuple[list[nn.Parameter], float, float]] = [
        ([p for p in rest if p.ndim >= 2], plan.lr, plan.weight_decay),
        ([p for p in rest if p.ndim < 2], plan.lr, 0.0),
        ([p for p in model.parameters() if id(p) in own], plan.mixture_lr or plan.lr, 0.0),
    ]
    groups: list[dict[str, Any]] = [
        {"params": params, "lr": lr, "weight_decay": decay} for params, lr, decay in parts if params
    ]
    on_gpu = next(model.parameters()).device.type == "cuda"
    if plan.optimizer == "adagrad":  # as Keras starts it
        return torch.optim.Adagrad(groups, lr=plan.lr, initial_accumulator_value=0.1, eps=1e-7)
    if plan.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=plan.lr, capturable=on_gpu)
    return torch.optim.SGD(groups, lr=plan.lr, momentum=plan.momentum, nesterov=plan.momentum > 0.0)


class Pacer:
    """Sets the learning rates of a step; the rates that `make_optimizer` gave are those at full pace."""

    def __init__(self, optimizer: torch.optim.Optimizer, plan: Plan) -> None:
        self.optimizer, self.plan = optimizer, plan
        self.full = [float(group["lr"]) for group in optimizer.param_groups]
        self.steady = plan.schedule == "constant" and plan.warmup == 0

    def set_pace(self, step: int) -> float:
        """Set the rates; returns the network's."""
        share = self.plan.pace(step)
        if not self.steady:
            for group, full in zip(self.optimizer.param_groups, self.full, strict=True):
                if isinstance(group["lr"], Tensor):
                    group["lr"].fill_(full * share)
                else:
                    group["lr"] = full * share
        return self.plan.lr * share


class RunningMean:
    """An exponential mean of a model's floating-point state, which checks and the end of a run may use.

    Early on the share of the old is smaller, `(1 + n) / (10 + n)`, so that the start is soon forgotten.
    """

    def __init__(self, model: nn.Module, share: float) -> None:
        self.share, self.count = share, 0
        self.live = {n: t for n, t in model.state_dict().items() if t.is_floating_point()}
        self.mean = {name: tensor.detach().clone() for name, tensor in self.live.items()}

    def update(self) -> None:
        """Take the weights of now in."""
        self.count += 1
        share = min(self.share, (1 + self.count) / (10 + self.count))
        torch._foreach_lerp_(list(self.mean.values()), [t.detach() for t in self.live.values()], 1.0 - share)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """The model with the mean in place of its weights, for a while."""
        now = {name: tensor.detach().clone() for name, tensor in self.live.items()}
        self._set(self.mean)
        try:
            yield
        finally:
            self._set(now)

    def _set(self, values: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self.live.items():
                tensor.copy_(values[name])


def find_mixtures(model: nn.Module) -> list[MixtureLayer]:
    """The mixtures of a model."""
    return [layer for layer in model.modules() if isinstance(layer, MixtureLayer)]


def find_penalty(model: nn.Module) -> Tensor | float:
    """What layers ask to be added to the loss, such as a mixture's entropy."""
    penalty: Tensor | float = 0.0
    for layer in find_mixtures(model):
        if layer.entropy:
            penalty = penalty + layer.regularisation()
    return penalty


