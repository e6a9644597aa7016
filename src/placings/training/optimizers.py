"""Optimizers: which parameters learn how fast, and a running mean of the weights."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from placings.core import UnknownName
from placings.training.layers import Skip
from placings.training.plans import TrainingPlan
from placings.transforms import MixtureLayer

OPTIMIZERS = ("adagrad", "adamw", "sgd")


def make_optimizer(model: nn.Module, plan: TrainingPlan) -> torch.optim.Optimizer:
    """The optimizer; the parameters of a mixture may have a learning rate of their own.

    Weight decay is for matrices alone: biases, norms and mixtures are left as they are, and so are the
    vectors of a bag, of which a step moves only those that the batch holds. A skip may have its own.
    """
    if plan.optimizer not in OPTIMIZERS:
        raise UnknownName("optimizer", plan.optimizer, OPTIMIZERS)
    own = {id(p) for layer in find_mixtures(model) for p in layer.parameters()}
    bags: list[Any] = [m.weight for m in model.modules() if isinstance(m, nn.EmbeddingBag) and m.sparse]
    skips = [m.weight for m in model.modules() if isinstance(m, Skip)]
    apart = own | {id(p) for p in (*bags, *skips)}
    rest = [p for p in model.parameters() if id(p) not in apart]
    parts: list[tuple[list[nn.Parameter], float, float]] = [
        ([p for p in rest if p.ndim >= 2], plan.lr, plan.weight_decay),
        ([p for p in rest if p.ndim < 2], plan.lr, 0.0),
        ([p for p in model.parameters() if id(p) in own], plan.mixture_lr or plan.lr, 0.0),
        (skips, plan.lr, plan.weight_decay if plan.skip_decay is None else plan.skip_decay),
        (bags, plan.lr, 0.0),
    ]
    groups: list[dict[str, Any]] = [
        {"params": params, "lr": lr, "weight_decay": decay} for params, lr, decay in parts if params
    ]
    on_gpu = next(model.parameters()).device.type == "cuda"
    if plan.optimizer == "adagrad":  # as Keras starts it
        slow = LazyAdagrad if bags else torch.optim.Adagrad
        return slow(groups, lr=plan.lr, initial_accumulator_value=0.1, eps=1e-7)
    if plan.optimizer == "adamw":
        kind = LazyAdamW if bags else torch.optim.AdamW
        return kind(groups, lr=plan.lr, capturable=on_gpu and not bags)
    if bags:
        groups[-1]["momentum"], groups[-1]["nesterov"] = 0.0, False  # a sparse gradient has none
    return torch.optim.SGD(
        groups, lr=plan.lr, momentum=plan.optimizer_momentum, nesterov=plan.optimizer_momentum > 0.0
    )


class Lazy(torch.optim.Optimizer):
    """An optimizer that takes sparse gradients too: of a bag, only the rows that the batch holds move."""

    def step(self, closure: Any = None) -> Any:
        """One step; dense parameters as ever."""
        sparse = [
            (group, parameter, parameter.grad.coalesce())
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None and parameter.grad.is_sparse
        ]
        for _, parameter, _ in sparse:
            parameter.grad = None
        loss = super().step(closure)
        with torch.no_grad():
            for group, parameter, grad in sparse:
                parameter.grad = grad
                self.move_rows(group, parameter, grad.indices()[0], grad.values())
        return loss

    def move_rows(self, group: dict[str, Any], parameter: Tensor, rows: Tensor, grad: Tensor) -> None:
        """A step of these rows of a parameter `[rows, width]`, each once."""
        raise NotImplementedError


class LazyAdamW(Lazy, torch.optim.AdamW):
    """AdamW; the moments of a row change only when it moves, as in torch's SparseAdam."""

    def move_rows(self, group: dict[str, Any], parameter: Tensor, rows: Tensor, grad: Tensor) -> None:
        """See `Lazy`."""
        state, (first, second) = self.state[parameter], group["betas"]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        state["step"] += 1
        count = float(state["step"])
        mean = state["exp_avg"][rows].lerp(grad, 1.0 - first)
        square = state["exp_avg_sq"][rows].lerp(grad.square(), 1.0 - second)
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = mean, square
        size = (square / (1.0 - second**count)).sqrt() + group["eps"]
        parameter[rows] -= float(group["lr"]) / (1.0 - first**count) * mean / size


class LazyAdagrad(Lazy, torch.optim.Adagrad):
    """AdaGrad; torch's own does the same for sparse gradients, but with a warning."""

    def move_rows(self, group: dict[str, Any], parameter: Tensor, rows: Tensor, grad: Tensor) -> None:
        """See `Lazy`."""
        total = self.state[parameter]["sum"]
        total[rows] += grad.square()
        parameter[rows] -= float(group["lr"]) * grad / (total[rows].sqrt() + group["eps"])


def list_gradients(model: nn.Module) -> list[Tensor]:
    """All gradients; of sparse ones the values, each row once. They may be changed in place."""
    found = []
    for parameter in model.parameters():
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            found.append(parameter.grad.values())
        elif parameter.grad is not None:
            found.append(parameter.grad)
    return found


class Pacer:
    """Sets the learning rates of a step; the rates that `make_optimizer` gave are those at full pace."""

    def __init__(self, optimizer: torch.optim.Optimizer, plan: TrainingPlan) -> None:
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
