"""Several processes on one batch: `torchrun` starts them, lists are shared out, sums are added up.

Each process draws the same batch and takes every n-th list of it. Batch norm adds its sums up over all rows,
gradients are added up, and noise and dropout follow from seed, step and query: so two processes take the
steps of one, up to rounding.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Processes:
    """Which of how many this is."""

    rank: int = 0
    count: int = 1

    def add_up(self, part: Tensor) -> Tensor:
        """The sum of a tensor over all processes; its gradient is summed the same way."""
        total: Tensor = _AddUp.apply(part)  # type: ignore[no-untyped-call]
        return total

    def add_values(self, value: float) -> float:
        """The sum of a number over all processes."""
        if self.count == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=_where())
        torch.distributed.all_reduce(total)
        return float(total)

    def add_gradients(self, model: nn.Module) -> None:
        """Gradients summed over all processes, in place."""
        if self.count == 1:
            return
        for parameter in model.parameters():
            if parameter.grad is not None and parameter.grad.is_sparse:  # gloo adds these up, NCCL does not
                total = parameter.grad.coalesce()
                torch.distributed.all_reduce(total)
                parameter.grad = total
        grads = [p.grad for p in model.parameters() if p.grad is not None and not p.grad.is_sparse]
        flat = torch.cat([grad.flatten() for grad in grads])
        torch.distributed.all_reduce(flat)
        place = 0
        for grad in grads:
            grad.copy_(flat[place : place + grad.numel()].view_as(grad))
            place += grad.numel()

    def agree(self, model: nn.Module) -> None:
        """Start from the weights of the first process."""
        if self.count > 1:
            for tensor in model.state_dict().values():
                torch.distributed.broadcast(tensor, 0)

    def follow(self, value: float) -> float:
        """The first process's value, so that all decide alike."""
        if self.count == 1:
            return value
        same = torch.tensor(value, dtype=torch.float64, device=_where())
        torch.distributed.broadcast(same, 0)
        return float(same)

    def share_bytes(self, content: bytes | None) -> bytes | None:
        """The first process's bytes, or None if it has none."""
        if self.count == 1:
            return content
        size = torch.tensor(-1 if content is None else len(content), device=_where())
        torch.distributed.broadcast(size, 0)
        if size < 0:
            return None
        if self.rank == 0 and content is not None:
            sent = torch.frombuffer(bytearray(content), dtype=torch.uint8).to(_where())
        else:
            sent = torch.empty(int(size), dtype=torch.uint8, device=_where())
        torch.distributed.broadcast(sent, 0)
        return sent.cpu().numpy().tobytes()

    def wait(self) -> None:
        """Until all are here."""
        if self.count > 1:
            torch.distributed.barrier()


ALONE = Processes()


class _AddUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        total = part.detach().clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        total = grad.contiguous().clone()
        torch.distributed.all_reduce(total)
        return total


def join_processes(device: torch.device) -> Processes:
    """The processes that `torchrun` started, or this one alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2 or not torch.distributed.is_available():
        return Processes()
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Processes(torch.distributed.get_rank(), torch.distributed.get_world_size())


def _where() -> str:
    return "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
