"""One step: rows in, scores laid out, losses, gradients, the optimizer; and many of them in a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from placings.losses import Loss
from placings.training.batches import BatchSampler
from placings.training.interruption import Interruption
from placings.training.optimizers import Pacer, RunningMean, find_mixtures, find_penalty, list_gradients
from placings.training.packing import Packed
from placings.training.plans import TrainingPlan
from placings.training.processes import Processes
from placings.training.randomness import draw_gumbel, draw_units
from placings.training.sources import TrainingSource

NO_LIST, SEVERAL = -1, -2


@dataclass
class Trace:
    """What some steps left behind; `bad` is the place in the batch of the one list whose loss is not finite.

    `NO_LIST` if there is none here (with several processes each knows of its own), `SEVERAL` if there are
    more: then batch norm has carried it from list to list.
    """

    loss: list[float] = field(default_factory=list)
    gradient: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    bad: list[int] = field(default_factory=list)

    def find_trouble(self) -> int | None:
        """The first step here whose loss or gradient is not finite."""
        fine = np.isfinite(self.loss) & np.isfinite(self.gradient)
        return None if fine.all() else int(np.flatnonzero(~fine)[0])


@dataclass(frozen=True)
class Job:
    """All that a step needs."""

    model: nn.Module
    loss: Loss
    plan: TrainingPlan
    deck: BatchSampler
    source: TrainingSource
    optimizer: torch.optim.Optimizer
    pacer: Pacer
    mean: RunningMean | None
    processes: Processes


def find_losses(
    job: Job,
    prepared: Any,
    packed: Packed,
    labels: Tensor,
    weights: Tensor | None,
    *,
    losses: Sequence[Loss] | None = None,
) -> Tensor:
    """The loss of each list `[lists]`; rows packed `[rows, …]`, labels `[rows]`, weights `[lists]`,
    or `[rows]` where the job's source weighs rows.

    `losses` are one for each group, if groups are to have their own.
    """
    with _choose_precision(job.plan, labels.device):
        scores = job.model(prepared, packed).float()  # [rows], or [rows, members]
    parts = []
    for group, loss in zip(packed.groups, losses or [job.loss] * len(packed.groups), strict=True):
        chosen = slice(group.start, group.stop)
        noise = draw_gumbel(packed.keys[chosen], loss.draws, group.width) if loss.draws else None
        laid = packed.lay_out(scores, group)  # [lists, width]
        if laid.ndim == 3:  # members, each with a loss of its own under the same noise
            laid = laid.permute(2, 0, 1)  # [members, lists, width]
            noise = None if noise is None else noise[:, None].expand(-1, *laid.shape)
        given = None
        if weights is not None:
            given = packed.lay_out(weights, group) if job.source.weighs_rows else weights[chosen]
        found = loss(
            laid,
            packed.lay_out(labels, group),
            packed.mask(group),
            weights=given,
            noise=noise,
        )
        parts.append(found if found.ndim == 1 else found.mean(0))
    return torch.cat(parts)


def take_steps(
    job: Job,
    start: int,
    stop: int,
    on_step: Callable[[int], object],
    interruption: Interruption | None = None,
) -> Trace:
    """Steps `start` to `stop`, one after the other; fewer if someone asks to stop."""
    trace = Trace()
    job.model.train()
    for step in range(start, stop):
        lr = job.pacer.set_pace(step)
        losses, value = _descend(job, step)
        grads = list_gradients(job.model)
        norm = float(nn.utils.get_total_norm(grads))
        if job.plan.clip and norm > job.plan.clip:
            torch._foreach_mul_(grads, job.plan.clip / norm)
        trace.loss.append(value)
        trace.gradient.append(norm)
        trace.lr.append(lr)
        trace.bad.append(int(find_bad(losses)))
        if trace.find_trouble() is not None:
            break
        job.optimizer.step()
        if job.mean is not None:
            job.mean.update()
        on_step(step + 1)
        if interruption is not None and interruption.asked:
            break
    return trace


def find_bad(losses: Tensor) -> Tensor:
    """The place of the list whose loss is not finite; `NO_LIST` or `SEVERAL` if it is not one."""
    wrong = ~losses.isfinite()
    count = wrong.sum()
    return torch.where(count == 1, wrong.int().argmax(), torch.where(count > 1, SEVERAL, NO_LIST))


def set_mixture_noise(model: nn.Module, key: Tensor) -> None:
    """Let mixtures that drop bases draw from this step's key `[1]`."""
    for layer in find_mixtures(model):
        if layer.dropout > 0.0:
            layer.noise = draw_units(key, tuple(layer.allowed.shape))  # type: ignore[arg-type]


def key_step(seed: int, step: int) -> int:
    """A key for what belongs to a step as a whole, as int32."""
    from placings.training.drawing import key_lists

    key = int(key_lists(np.array([-1]), seed, step)[0])
    return key - (1 << 32) if key >= 1 << 31 else key


@dataclass(frozen=True)
class JobState:
    """All that steps change, as it was."""

    model: dict[str, Tensor]
    optimizer: dict[Any, dict[str, Any]]
    mean: dict[str, Tensor]
    count: int


def remember_state(job: Job) -> JobState:
    """Copies of what the next steps will change, for `restore_state`."""
    state = {name: tensor.clone() for name, tensor in job.model.state_dict().items()}
    optimizer = {
        parameter: {n: v.clone() if isinstance(v, Tensor) else v for n, v in values.items()}
        for parameter, values in job.optimizer.state.items()
    }
    if job.mean is None:
        return JobState(state, optimizer, {}, 0)
    mean = {name: tensor.clone() for name, tensor in job.mean.mean.items()}
    return JobState(state, optimizer, mean, job.mean.count)


def restore_state(job: Job, before: JobState) -> None:
    """Undo the steps since `remember_state`, in place: a captured graph knows tensors by their address."""
    with torch.no_grad():
        for name, tensor in job.model.state_dict().items():
            tensor.copy_(before.model[name])
        for parameter, values in job.optimizer.state.items():
            old = before.optimizer.get(parameter)
            for name, value in values.items():
                if not isinstance(value, Tensor):
                    continue
                if old is None or not isinstance(old.get(name), Tensor):
                    value.zero_()  # made by the steps that are undone
                else:
                    value.copy_(old[name])
        if job.mean is not None:
            for name, tensor in job.mean.mean.items():
                tensor.copy_(before.mean[name])
            job.mean.count = before.count


def _descend(job: Job, step: int) -> tuple[Tensor, float]:
    """Draw, score, differentiate: the lists' losses and their mean over all processes."""
    device, team = job.source.device, job.processes
    batch = job.deck.draw(step, part=team.rank, parts=team.count)
    packed = batch.pack(device)
    if team.count > 1:
        packed = replace(packed, reduce=team.add_up)
    rows = torch.from_numpy(batch.rows).to(device)
    queries = torch.from_numpy(batch.queries).to(device)
    set_mixture_noise(
        job.model, torch.tensor([key_step(job.plan.seed, step)], dtype=torch.int32, device=device)
    )
    losses = find_losses(
        job,
        job.source.take(batch, rows),
        packed,
        job.source.labels[rows],
        job.source.take_weights(rows, queries),
    )
    total = losses.sum() / job.deck.size
    penalty = find_penalty(job.model)
    job.optimizer.zero_grad(set_to_none=True)
    (total + penalty / team.count).backward()  # type: ignore[no-untyped-call]
    value = team.add_values(float(total.detach())) + float(torch.as_tensor(penalty).detach())
    team.add_gradients(job.model)
    return losses.detach(), value


def _choose_precision(plan: TrainingPlan, device: torch.device) -> AbstractContextManager[Any]:
    if plan.precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, dtype=torch.bfloat16)
