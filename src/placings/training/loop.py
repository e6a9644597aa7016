"""The loop: draw lists, score packed rows, lay the scores out, take a step; check, keep the best, stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from placings.arrays import Floats
from placings.data.ranking import RankingData
from placings.errors import PlacingsError, PlacingsWarning, UnknownName
from placings.losses import Loss
from placings.metrics import Metric
from placings.training.batches import Lists, draw_batch
from placings.transforms.mixing import MixtureLayer

ROWS_AT_ONCE = 65_536


@dataclass(frozen=True)
class Plan:
    """How to train: what a run's folder would keep of it."""

    steps: int
    lists: int
    longest: int | None
    optimizer: str
    lr: float
    mixture_lr: float | None
    weight_decay: float
    check_every: int
    patience: int
    seed: int


@dataclass
class History:
    """What happened: loss and gradient norm of each step, the metric of each check, the best step."""

    loss: list[float] = field(default_factory=list)
    gradient: list[float] = field(default_factory=list)
    checks: list[tuple[int, float]] = field(default_factory=list)
    best_step: int = 0


class Diverged(PlacingsError):
    """The loss is no number any more; the message says at which step and what may be done."""


def train(
    model: nn.Module,
    loss: Loss,
    data: RankingData,
    plan: Plan,
    *,
    valid: RankingData | None = None,
    metric: Metric | None = None,
    on_step: Callable[[int], object] = lambda step: None,
) -> History:
    """Train `model` (packed rows `[rows, features]` → scores `[rows]`) in place; the best check is kept.

    Dropout and Gumbel noise are drawn from torch's generator, seeded by the seed and the step. Without
    `valid` all steps are taken and the last weights stay.
    """
    device = next(model.parameters()).device
    lists = Lists.of(data, device)
    if not (np.diff(data.offsets) >= 2).any():
        warnings.warn("no query has two rows, so there is nothing to learn.", PlacingsWarning, stacklevel=2)
        model.eval()
        return History()
    optimizer = make_optimizer(model, plan)
    history, best, kept = History(), -np.inf, None
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        for step in range(plan.steps):
            torch.manual_seed(plan.seed * 1_000_003 + step)
            model.train()
            batch = draw_batch(lists.offsets, step, lists=plan.lists, longest=plan.longest, seed=plan.seed)
            rows = torch.from_numpy(batch.rows).to(device)
            scores = batch.lay_out(model(lists.X[rows]))  # [lists, longest]
            labels = batch.lay_out(lists.y[rows])
            mask = batch.lay_out(torch.ones_like(lists.y[rows])) > 0
            queries = torch.from_numpy(batch.queries).to(device)
            weights = None if lists.weight is None else lists.weight[queries]
            value = loss(scores, labels, mask, weights=weights).mean() + find_penalty(model)
            optimizer.zero_grad(set_to_none=True)
            value.backward()  # type: ignore[no-untyped-call]
            norm = float(nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))
            history.loss.append(float(value.detach()))
            history.gradient.append(norm)
            if not np.isfinite(history.loss[-1]) or not np.isfinite(norm):
                raise Diverged(_say_diverged(step, batch.queries, data, history.loss[-1]))
            optimizer.step()
            on_step(step + 1)
            last = step + 1 == plan.steps
            if valid is None or metric is None or ((step + 1) % plan.check_every and not last):
                continue
            mean = check_model(model, valid, metric)
            history.checks.append((step + 1, mean))
            if mean > best or kept is None:
                best, history.best_step = mean, step + 1
                kept = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
            elif step + 1 - history.best_step >= plan.patience * plan.check_every:
                break
    if kept is not None:
        model.load_state_dict(kept)
    else:
        history.best_step = plan.steps
    model.eval()
    return history


def check_model(model: nn.Module, data: RankingData, metric: Metric) -> float:
    """The mean of a metric; larger is better (metrics of which less is better are turned round)."""
    values = metric(score_rows(model, data.X), data.y, data.offsets)
    mean = float(np.nanmean(values)) if not np.isnan(values).all() else 0.0
    return -mean if metric.lower_is_better else mean


def score_rows(model: nn.Module, X: Any) -> Floats:
    """Scores of rows, dense or CSR, in pieces and without gradients."""
    device = next(model.parameters()).device
    model.eval()
    out = np.empty(X.shape[0], dtype=np.float64)
    with torch.no_grad():
        for start in range(0, X.shape[0], ROWS_AT_ONCE):
            part = X[start : start + ROWS_AT_ONCE]
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            rows = torch.tensor(dense, dtype=torch.float32, device=device)
            out[start : start + len(dense)] = model(rows).double().cpu().numpy()
    return out


def make_optimizer(model: nn.Module, plan: Plan) -> torch.optim.Optimizer:
    """The optimizer; the parameters of a mixture may have a learning rate of their own."""
    mixtures = [layer for layer in model.modules() if isinstance(layer, MixtureLayer)]
    own = {id(parameter) for layer in mixtures for parameter in layer.parameters()}
    groups: list[dict[str, Any]] = [
        {"params": [p for p in model.parameters() if id(p) not in own], "lr": plan.lr},
        {
            "params": [p for p in model.parameters() if id(p) in own],
            "lr": plan.mixture_lr or plan.lr,
            "weight_decay": 0.0,
        },
    ]
    groups = [group for group in groups if group["params"]]
    if plan.optimizer == "adagrad":  # as Keras starts it
        return torch.optim.Adagrad(groups, lr=plan.lr, initial_accumulator_value=0.1, eps=1e-7)
    if plan.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=plan.lr, weight_decay=plan.weight_decay)
    if plan.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=plan.lr)
    raise UnknownName("optimizer", plan.optimizer, ("adagrad", "adamw", "sgd"))


def find_penalty(model: nn.Module) -> Tensor | float:
    """What layers ask to be added to the loss, such as a mixture's entropy."""
    penalty: Tensor | float = 0.0
    for layer in model.modules():
        if isinstance(layer, MixtureLayer) and layer.entropy:
            penalty = penalty + layer.regularisation()
    return penalty


def _say_diverged(step: int, queries: Any, data: RankingData, value: float) -> str:
    first = data.qids.tolist()[int(queries[0])]
    return (
        f"the loss is {value} at step {step + 1}, in a batch of {len(queries)} queries that begins with "
        f"{first!r}. Lower lr, or transform the features (transform='cdf' bounds them)."
    )
