"""The whole step as one CUDA graph: fixed shapes, no word with the host between steps.

Batches are drawn on the host, many at a time and ahead, and sent as tables; on the device a counter says
which line is next, so one graph serves every step. Rows fill a fixed shape up to the largest batch; those
that are not real take no part in batch norm or loss. Long runs are compiled before they are captured.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from placings.losses import Loss, list_keywords
from placings.training.interruption import Interruption
from placings.training.optimizers import find_penalty
from placings.training.packing import Packed, PackedGroup
from placings.training.steps import (
    Job,
    Trace,
    find_bad,
    find_losses,
    key_step,
    remember_state,
    restore_state,
    set_mixture_noise,
)

CHUNK = 128  # steps sent together
WARM_UP = 3  # steps run and undone before the capture
COMPILE_FROM = 5000  # steps; compiling takes about a minute
ROUND_ROWS = 128
WIDE = 256  # lists up to this length are laid out as one group: fewer kernels
COMPILE_OPTIONS: dict[str, Any] = {}


class GraphRunner:
    """Takes the steps of a job by replaying one captured graph."""

    def __init__(self, job: Job, *, compiled: bool | None = None) -> None:
        self.job = job
        plan, deck = job.plan, job.deck
        most, self.groups = deck.bound(plan.steps, 1 if (plan.list_size or 10**9) <= WIDE else 4)
        self.rows = -(-most // ROUND_ROWS) * ROUND_ROWS
        self.losses = [_fix_shape(job.loss, group) for group in self.groups]
        device = job.source.device
        widths = {
            "rows": self.rows, "owner": self.rows, "starts": deck.size, "sizes": deck.size,
            "keys": deck.size, "queries": deck.size, "total": 1, "step": 1,
        }  # fmt: skip
        ends = np.cumsum(list(widths.values()))
        self.columns = {
            name: slice(int(end) - width, int(end))
            for (name, width), end in zip(widths.items(), ends, strict=True)
        }
        self.table = torch.zeros((CHUNK, int(ends[-1])), dtype=torch.int32, device=device)
        self.results = torch.zeros((CHUNK, 3), device=device)  # loss, gradient norm, first bad list
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.compiled = plan.steps >= COMPILE_FROM if compiled is None else compiled
        self.find_losses: Callable[..., Tensor] = self._find_losses
        if self.compiled:
            self.find_losses = torch.compile(
                self._find_losses, dynamic=False, options=COMPILE_OPTIONS or None
            )
        self.descend: Callable[[], Any] = job.optimizer.step
        if self.compiled:
            self.descend = torch.compile(job.optimizer.step, dynamic=False)
        if not job.pacer.steady:
            for group in job.optimizer.param_groups:
                group["lr"] = torch.tensor(float(group["lr"]), device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.pool = ThreadPoolExecutor(1)

    def take_steps(
        self,
        start: int,
        stop: int,
        on_step: Callable[[int], object],
        interruption: Interruption | None = None,
    ) -> Trace:
        """Steps `start` to `stop`; what they left is read once a chunk, and whether to stop then too."""
        self.job.model.train()
        if self.graph is None:
            self._capture(start)
        trace = Trace()
        firsts = list(range(start, stop, CHUNK))
        ahead = self.pool.submit(self._draw, firsts[0], min(firsts[0] + CHUNK, stop))
        for first in firsts:
            last = min(first + CHUNK, stop)
            self._send(ahead)
            if last < stop:
                ahead = self.pool.submit(self._draw, last, min(last + CHUNK, stop))
            for step in range(first, last):
                trace.lr.append(self.job.pacer.set_pace(step))
                assert self.graph is not None
                self.graph.replay()
                if self.job.mean is not None:
                    self.job.mean.update()
            found = self.results[: last - first].cpu().numpy().astype(float)
            trace.loss += found[:, 0].tolist()
            trace.gradient += found[:, 1].tolist()
            trace.bad += found[:, 2].astype(int).tolist()
            if trace.find_trouble() is not None:
                break
            for step in range(first, last):
                on_step(step + 1)
            if interruption is not None and interruption.asked:
                break
        return trace

    # -- the step ----------------------------------------------------------------------------------

    def _find_losses(self, drawn: Tensor) -> Tensor:
        source = self.job.source
        line = {name: drawn[columns] for name, columns in self.columns.items()}
        assert source.prepared is not None
        live = torch.arange(self.rows, device=source.device) < line["total"]
        packed = Packed(
            line["owner"].long(), line["starts"].long(), line["sizes"].long(), line["keys"], self.groups, live
        )
        rows = line["rows"].long()
        weights = source.take_weights(rows, line["queries"].long())
        return find_losses(
            self.job, source.prepared[rows], packed, source.labels[rows], weights, losses=self.losses
        )

    def _step(self) -> None:
        job = self.job
        line = self.table.index_select(0, self.place).squeeze(0)
        set_mixture_noise(job.model, line[self.columns["step"]])
        losses = self.find_losses(line)
        value = losses.sum() / job.deck.size + find_penalty(job.model)
        job.optimizer.zero_grad(set_to_none=True)
        value.backward()  # type: ignore[no-untyped-call]
        grads = [p.grad for p in job.model.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads)
        if job.plan.clip:
            torch._foreach_mul_(grads, (job.plan.clip / norm.clamp(min=job.plan.clip)).to(norm.dtype))
        self.descend()
        bad = find_bad(losses.detach())
        found = torch.stack([value.detach().float(), norm.float(), bad.float()])
        self.results.index_copy_(0, self.place, found[None])
        self.place.add_(1)

    def _capture(self, start: int) -> None:
        """Run a few steps to settle allocations, undo them, and record one."""
        job = self.job
        before = remember_state(job)
        self._send(self.pool.submit(self._draw, start, start + 1))
        stream: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.place.zero_()
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        self.place.zero_()
        job.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with _hold_garbage(), torch.cuda.graph(self.graph):
            self._step()
        restore_state(job, before)

    # -- batches -----------------------------------------------------------------------------------

    def _draw(self, start: int, stop: int) -> Tensor:
        deck, columns = self.job.deck, self.columns
        table = np.zeros((stop - start, self.table.shape[1]), dtype=np.int32)
        for line, step in zip(table, range(start, stop), strict=True):
            batch = deck.draw(step)
            count = len(batch.rows)
            line[columns["rows"]][:count] = batch.rows
            line[columns["owner"]][:count] = batch.owner
            line[columns["starts"]] = batch.starts
            line[columns["sizes"]] = batch.sizes
            line[columns["keys"]] = batch.keys.astype(np.uint32).view(np.int32)
            line[columns["queries"]] = batch.queries
            line[columns["total"]] = count
            line[columns["step"]] = key_step(self.job.plan.seed, step)
        return torch.from_numpy(table).pin_memory()

    def _send(self, drawn: Future[Tensor]) -> None:
        table = drawn.result()
        self.table[: len(table)].copy_(table, non_blocking=True)
        self.place.zero_()


@contextmanager
def _hold_garbage() -> Iterator[None]:
    """No collection meanwhile: the graph of an earlier run, thrown away during a capture, would break it."""
    gc.collect()
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _fix_shape(loss: Loss, group: PackedGroup) -> Loss:
    """The loss with as many rows as a list can have, so that no shape depends on a value."""
    if "rows" not in list_keywords(loss.name):
        return loss
    return replace(loss, options=(*loss.options, ("rows", group.width)))
