"""The loop: steps until the next check; check, keep the best, write a checkpoint, stop when it is time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from placings.core import BadInput, Floats, Ints, PlacingsWarning, keep_old_names, setting
from placings.data import RankingData
from placings.losses import Loss
from placings.metrics import Metric
from placings.training.batches import BatchSampler
from placings.training.checkpoints import (
    Checkpoint,
    mark_run,
    pack_optimizer,
    read_checkpoint,
    sweep_leftovers,
    unpack_optimizer,
    write_checkpoint,
)
from placings.training.clocks import PROBE, Timekeeper, TrainingClock
from placings.training.interruption import Interruption, Stopped, hold_signals
from placings.training.optimizers import Pacer, RunningMean, make_optimizer
from placings.training.packing import pack_lists
from placings.training.plans import Diverged, History, TrainingPlan
from placings.training.processes import join_processes
from placings.training.sources import (
    ROWS_AT_ONCE,
    TrainingSource,
    cut_queries,
    fits_memory,
    prepare_all,
    sees_queries,
    send_rows,
)
from placings.training.steps import SEVERAL, Job, Trace, remember_state, restore_state, take_steps

Runner: TypeAlias = Callable[[int, int, Callable[[int], object], Interruption], Trace]


def train(
    model: nn.Module,
    loss: Loss,
    data: RankingData,
    plan: TrainingPlan,
    *,
    valid: RankingData | None = None,
    metric: Metric | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int = 1000,
    resident: bool | None = None,
    graph: bool | None = None,
    on_step: Callable[[int], object] = lambda step: None,
    clock: TrainingClock | None = None,
) -> History:
    """Train `model` (see `rankers.networks.Network`) in place; the weights of the best check are kept.

    Without `valid` all steps are taken and the last weights stay. With `checkpoint`, a file, the run's state
    is written there every so many steps, and a run that finds one of its own goes on from it: to the same
    bits on a CPU. Ctrl-C (or SIGTERM) then ends the step, writes the state and raises `Stopped`; a second one
    ends at once. On a GPU the whole step is captured as a CUDA graph unless `graph` is False.

    With a budget the run ends when the steps up to the next check would not fit into it, or, if there was
    none yet, when no step would; it is checked there. `clock` is one that has been running, if time from
    before this call counts. A schedule then goes by the number of steps that is expected to fit, from the
    speed of a few steps that are undone.
    """
    device = next(model.parameters()).device
    clock = clock or TrainingClock(plan.budget)
    if not (np.diff(data.offsets) >= 2).any():
        warnings.warn("no query has two rows, so there is nothing to learn.", PlacingsWarning, stacklevel=2)
        model.eval()
        return History()
    job = set_up_job(model, loss, data, plan, device, resident)
    name = "" if metric is None else str(metric)
    mark = {}
    if checkpoint is not None:
        mark = mark_run(plan, repr(loss), data, model, valid=valid, metric=name)
    now = _resume(job, checkpoint, mark)
    now.history.metric, written = name, now.step
    clock.go_on(now.history.seconds)
    take = _choose_runner(job, graph)
    keeper = Timekeeper(clock, now.history.seconds / now.step if now.step else None)
    plan = _stretch(job, take, keeper, now)
    watch = None if valid is None or metric is None else Watch(model, valid, metric)
    # several processes would stop at different steps and wait for each other: their signals are left alone
    with (
        _say_kept(checkpoint, lambda: written),
        hold_signals(checkpoint is not None and job.processes.count == 1) as interruption,
    ):
        while not now.find_end(plan, watch) and not interruption.asked:
            stop = _find_stop(plan, now, keeper, job, checkpoint_every if checkpoint else None)
            if stop > now.step:
                began = clock.spent
                trace = take(now.step, stop, on_step, interruption)
                keeper.note(len(trace.loss), clock.spent - began)
                _note(now.history, trace, job, data, now.step)
                now.step += len(trace.loss)
            else:
                now.history.ended = "budget"
            if watch is not None and now.is_due(plan):
                began = clock.spent
                now.check(job, watch)
                keeper.check = clock.spent - began
            if checkpoint is not None and now.step % checkpoint_every == 0:
                _save(checkpoint, job, now, clock, mark)
                written = now.step
        if interruption.asked and checkpoint is not None:
            if now.step != written:
                _save(checkpoint, job, now, clock, mark)
                written = now.step
            interruption.leave()
    now.history.ended = now.find_end(plan, watch)
    if checkpoint is not None and now.step != written:
        _save(checkpoint, job, now, clock, mark)
    now.history.seconds = clock.spent
    now.finish(job)
    return now.history


@dataclass
class TrainingState:
    """Where a run stands: steps taken, what happened, the best check and the weights it had."""

    step: int = 0
    history: History = field(default_factory=History)
    best: float = -np.inf
    kept: dict[str, Tensor] = field(default_factory=dict)

    def find_end(self, plan: TrainingPlan, watch: Watch | None) -> str:
        """What ends the run here: "steps", "patience" or "budget"; nothing if it goes on."""
        history = self.history
        if history.ended == "budget":
            return history.ended
        if self.step >= plan.steps:
            return "steps"
        waited = self.step - history.best_step
        over = watch is not None and history.checks and waited >= plan.patience * plan.check_every
        return "patience" if over else ""

    def is_due(self, plan: TrainingPlan) -> bool:
        """Whether it is time for a check: as often as the plan says, and at the end."""
        last = self.history.checks[-1][0] if self.history.checks else 0
        ends = self.step == plan.steps or self.history.ended == "budget"
        return self.step > last and (ends or self.step % plan.check_every == 0)

    def check(self, job: Job, watch: Watch) -> None:
        """Measure held-out data; the best weights so far are kept."""
        with job.mean.swapped_in() if job.mean is not None else nullcontext():
            value = job.processes.follow(watch.check())
            self.history.checks.append((self.step, value))
            if value > self.best or not self.kept:
                self.best, self.history.best_step, self.kept = value, self.step, _copy_state(job.model)

    def finish(self, job: Job) -> None:
        """Leave the model with the weights of the best check, or the last ones if there was none."""
        if self.kept:
            job.model.load_state_dict(self.kept)
        else:
            self.history.best_step = self.step
            if job.mean is not None:
                job.model.load_state_dict({**job.model.state_dict(), **job.mean.mean})
        job.model.eval()


class Watch:
    """Held-out data and a metric; rows are prepared once where they fit into memory."""

    def __init__(self, model: Any, data: RankingData, metric: Metric) -> None:
        metric.check_propensity(data.propensity)
        self.model, self.data, self.metric = model, data, metric
        device = next(model.parameters()).device
        self.prepared = prepare_all(model, data, device) if fits_memory(model, data, device) else None

    def check(self) -> float:
        """The mean of the metric; larger is better (metrics of which less is better are turned round)."""
        data = self.data
        scores = score_rows(self.model, data.X, data.offsets, prepared=self.prepared)
        values = self.metric(scores, data.y, data.offsets, propensity=data.propensity)
        mean = float(np.nanmean(values)) if not np.isnan(values).all() else 0.0
        return -mean if self.metric.lower_is_better else mean


def score_rows(model: Any, X: Any, offsets: Ints | None = None, *, prepared: Tensor | None = None) -> Floats:
    """Scores of rows, dense or CSR, whole queries at a time and without gradients; None: one query.

    `prepared` are the same rows as the model's `prepare` gives them, if they are at hand.
    """
    first = next(model.parameters())
    device, kind = first.device, torch.float64 if first.dtype == torch.float64 else torch.float32
    was = model.training
    model.eval()
    borders = np.array([0, X.shape[0]]) if offsets is None else offsets
    out = np.empty(X.shape[0], dtype=np.float64)
    blocks = cut_queries(borders, ROWS_AT_ONCE)
    if offsets is None and not (model.needs_lists or sees_queries(model)):
        ends = [*range(0, X.shape[0], ROWS_AT_ONCE), X.shape[0]]
        blocks = iter([(a, b, np.array([0, b - a])) for a, b in pairwise(ends)])
    with torch.no_grad():
        for start, stop, inside in blocks:
            if prepared is None:
                rows = send_rows(X[start:stop], device, kind)
                part = model.prepare(rows, torch.from_numpy(inside).to(device))
            else:
                part = prepared[start:stop]
            packed = pack_lists(inside, device) if model.needs_lists else None
            out[start:stop] = model(part, packed).double().cpu().numpy()
    model.train(was)
    return out


def set_up_job(
    model: nn.Module,
    loss: Loss,
    data: RankingData,
    plan: TrainingPlan,
    device: torch.device,
    resident: bool | None,
) -> Job:
    team = join_processes(device)
    team.agree(model)  # before anything is derived from the weights
    deck = BatchSampler(data.offsets, plan.batch, plan.list_size, plan.seed)
    if deck.size < team.count:
        raise BadInput(
            f"{deck.size} lists a step cannot be shared out over {team.count} processes. Raise batch, or "
            "start fewer processes."
        )
    optimizer = make_optimizer(model, plan)
    return Job(
        model,
        loss,
        plan,
        deck,
        TrainingSource(model, data, device, resident=resident),
        optimizer,
        Pacer(optimizer, plan),
        RunningMean(model, plan.average) if plan.average else None,
        team,
    )


def _choose_runner(job: Job, graph: bool | None) -> Runner:
    if graph is None:
        # a graph is recorded once; a loss of the user's own may ask for values, which a recording cannot
        graph = job.source.device.type == "cuda" and not job.loss.own
    if graph and job.source.prepared is not None and job.processes.count == 1:
        from placings.training.graphs import GraphRunner

        return GraphRunner(job).take_steps
    return partial(take_steps, job)


@contextmanager
def _say_kept(checkpoint: Path | None, find_written: Callable[[], int]) -> Iterator[None]:
    """Name the step to go on from when training is interrupted and there is one."""
    try:
        yield
    except KeyboardInterrupt:
        written = find_written()
        if checkpoint is None or not written:
            raise
        raise Stopped(written, checkpoint) from None


def _find_stop(
    plan: TrainingPlan, now: TrainingState, keeper: Timekeeper, job: Job, every: int | None
) -> int:
    """The step at which something is to be done next; the present one if there is no time for more."""
    step = now.step
    target = min(plan.steps, (step // plan.check_every + 1) * plan.check_every)
    stop = target if every is None else min(target, (step // every + 1) * every)
    found = keeper.find_stop(step, stop, target, checked=bool(now.history.checks))
    return int(job.processes.follow(found)) if keeper.clock.budget else found


def _stretch(job: Job, take: Runner, keeper: Timekeeper, now: TrainingState) -> TrainingPlan:
    """The plan, its schedule over as many steps as the budget is expected to have room for.

    The steps that tell the speed are undone, so that a run of that many steps without a budget has the same
    bits. A run that goes on keeps the number it had.
    """
    plan = job.plan
    if not keeper.clock.budget or plan.schedule == "constant":
        return plan
    if not now.history.planned:
        before = remember_state(job)
        for _ in range(2):
            began = keeper.clock.spent
            trace = take(now.step, min(now.step + PROBE, plan.steps), lambda step: None, Interruption())
            keeper.note(len(trace.loss), keeper.clock.spent - began)
        restore_state(job, before)
        now.history.planned = int(job.processes.follow(keeper.expect_steps(plan)))
    plan = replace(plan, steps=now.history.planned)
    job.pacer.plan = plan
    return plan


def _note(history: History, trace: Trace, job: Job, data: RankingData, step: int) -> None:
    history.loss += trace.loss
    history.gradient += trace.gradient
    history.lr += trace.lr
    trouble = trace.find_trouble()
    if trouble is not None:
        raise Diverged(_say_diverged(job, data, trace, step, trouble))


def _say_diverged(job: Job, data: RankingData, trace: Trace, start: int, trouble: int) -> str:
    step = start + trouble
    batch = job.deck.draw(step, part=job.processes.rank, parts=job.processes.count)
    what, value, place = "loss", trace.loss[trouble], trace.bad[trouble]
    qids = data.qids.tolist()
    rows = batch.rows
    if np.isfinite(value):
        what, value = "gradient", trace.gradient[trouble]
        names = [n for n, p in job.model.named_parameters() if p.grad is not None and not _is_finite(p.grad)]
        found = f"first in that of {names[0]}" if names else "though that of each weight is finite"
    elif place >= 0:
        rows = rows[batch.owner == place]
        found = f"in query {qids[int(batch.queries[place])]!r}"
    elif place == SEVERAL:
        found = "in several lists"
    else:
        found = (
            "in a list of another process" if job.processes.count > 1 else "though that of each list is not"
        )
    if isinstance(data.X, np.ndarray) and len(rows):
        size = np.nan_to_num(np.abs(np.asarray(data.X[rows], dtype=np.float64)), nan=0.0)
        row, where = np.unravel_index(int(size.argmax()), size.shape)
        query = qids[int(np.searchsorted(data.offsets, rows[row], side="right")) - 1]
        feature = data.feature_names[int(where)]
        found += f"; the largest value there is {size.max():.3g}, of feature {feature!r} in query {query!r}"
    wild = [name for name, tensor in job.model.state_dict().items() if not _is_finite(tensor)]
    if wild:
        found += f"; {wild[0]} is not finite any more"
    return (
        f"the {what} is {value} at step {step + 1}, {found}. Lower lr, clip gradients "
        f"({setting('clip', 1.0)}), or transform the features ({setting('transform', 'cdf')} bounds them)."
    )


def _is_finite(tensor: Tensor) -> bool:
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    return bool(values.isfinite().all())


def _copy_state(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _save(path: Path, job: Job, now: TrainingState, clock: TrainingClock, mark: dict[str, Any]) -> None:
    now.history.seconds = clock.spent
    if job.processes.rank == 0:
        tensors, plain = pack_optimizer(job.optimizer)
        tensors |= {f"model.{name}": tensor for name, tensor in job.model.state_dict().items()}
        tensors |= {f"kept.{name}": tensor for name, tensor in now.kept.items()}
        if job.mean is not None:
            tensors |= {f"mean.{name}": tensor for name, tensor in job.mean.mean.items()}
            plain["count"] = job.mean.count
        value = now.best if np.isfinite(now.best) else None
        write_checkpoint(path, Checkpoint(now.step, now.history, value, tensors, plain), mark)  # type: ignore[arg-type]
    job.processes.wait()


def _resume(job: Job, path: Path | None, mark: dict[str, Any]) -> TrainingState:
    if path is not None and job.processes.rank == 0:
        sweep_leftovers(path)
    found = None if path is None else read_checkpoint(path, mark, job.processes)
    if found is None:
        return TrainingState()
    device = job.source.device
    job.model.load_state_dict(found.part("model"))
    unpack_optimizer(job.optimizer, found)
    if job.mean is not None:
        for name, tensor in found.part("mean").items():
            job.mean.mean[name].copy_(tensor)
        job.mean.count = int(found.optimizer["count"])
    kept = {name: tensor.to(device) for name, tensor in found.part("kept").items()}
    found.history.ended = ""  # a larger budget may let it go on
    return TrainingState(found.step, found.history, -np.inf if found.best is None else found.best, kept)


__getattr__ = keep_old_names(__name__, {"_set_up": "set_up_job"})
