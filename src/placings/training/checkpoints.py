"""Checkpoints: all that a run needs to go on as if nothing had happened, in one file, whole or not at all.

Tensors and plain JSON in a safetensors file: nothing in it can be executed.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from placings.core import BadFile, parse_json, write_atomically
from placings.data import RankingData
from placings.training.plans import History, TrainingPlan
from placings.training.processes import ALONE, Processes

OLD_FIELDS = {"lists": "batch", "longest": "list_size", "momentum": "optimizer_momentum"}  # of version 0.1
LATER_FIELDS = {"skip_decay": None}  # of plans; a mark tells only what differs from what was done before them
FORMAT = 1


@dataclass
class Checkpoint:
    """Where a run stands after `step` steps."""

    step: int
    history: History
    best: float
    tensors: dict[str, Tensor]  # "model.…", "kept.…", "mean.…", "optimizer.…"
    optimizer: dict[str, Any]

    def part(self, name: str) -> dict[str, Tensor]:
        """The tensors of one part, without its name."""
        return {
            key.removeprefix(f"{name}."): tensor
            for key, tensor in self.tensors.items()
            if key.startswith(f"{name}.")
        }


def mark_run(
    plan: TrainingPlan,
    loss: str,
    data: RankingData,
    model: torch.nn.Module,
    *,
    valid: RankingData | None = None,
    metric: str = "",
) -> dict[str, Any]:
    """What must be equal for a checkpoint to be this run's; the model is as it starts."""
    state = {
        name: [*tensor.shape, _measure(tensor)]
        for name, tensor in (*model.named_parameters(), *model.named_buffers())
    }
    return {
        "plan": _tell_plan(plan),
        "loss": loss,
        "data": _seal_data(data),
        "check": None if valid is None else [metric, _seal_data(valid)],
        "network": [sha256(repr(model).encode()).hexdigest(), state],
    }


def _tell_plan(plan: TrainingPlan) -> dict[str, Any]:
    """A plan's fields; later ones only where they are used, so that older checkpoints stay good."""
    told = asdict(plan)
    del told["budget"]  # it decides where a run ends, and a run that goes on may have a larger one
    return {k: v for k, v in told.items() if k not in LATER_FIELDS or v != LATER_FIELDS[k]}


def _seal_data(data: RankingData) -> str:
    """A hash of labels, lists, weights and propensities, and of 64 rows."""
    seal = sha256()
    for array in (data.offsets, data.y, data.weight, data.propensity):
        seal.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    for block in range(0, data.n_rows, max(1, data.n_rows // 64)):
        row = data.X[block : block + 1]
        seal.update(np.ascontiguousarray(row if isinstance(row, np.ndarray) else row.toarray()).tobytes())
    return seal.hexdigest()


def _measure(tensor: Tensor) -> str:
    """The sum of sizes to four digits: another start shows, another machine's rounding does not."""
    size = tensor.detach().double().abs().nan_to_num(posinf=0.0)
    return f"{float(size.sum()):.3e}"


def write_checkpoint(path: Path, checkpoint: Checkpoint, mark: dict[str, Any]) -> None:
    """Write the file beside, then rename: a reader sees the old one or the new one."""
    from safetensors.torch import save

    facts = {
        "format": FORMAT,
        "step": checkpoint.step,
        "best": checkpoint.best,
        "history": checkpoint.history.to_dict(),
        "optimizer": checkpoint.optimizer,
        "mark": mark,
    }
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in checkpoint.tensors.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with write_atomically(path) as temporary:
        # not save_file: it writes beside its file, where a kill leaves a .tmp that nobody sweeps
        Path(temporary).write_bytes(save(plain, metadata={"placings": json.dumps(facts)}))


def sweep_leftovers(path: Path) -> None:
    """Remove what a run that was killed while it wrote left beside its checkpoint."""
    for part in path.parent.glob(f".{escape(path.name)}.*.part"):
        part.unlink(missing_ok=True)


def read_checkpoint(path: Path, mark: dict[str, Any], team: Processes = ALONE) -> Checkpoint | None:
    """The checkpoint of this run, None if there is none; one of another run is refused.

    Of several processes the first reads: the others may be on machines where the file is not.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    found = path.exists() if team.rank == 0 else False
    content = team.share_bytes(path.read_bytes() if found else None)
    if content is None:
        return None
    try:
        tensors = load(content)
        facts = parse_json(_find_header(content).get("__metadata__", {}).get("placings", "{}"))
    except (SafetensorError, ValueError) as error:
        raise BadFile(path, f"is not a checkpoint of placings: {error}. Delete it to start anew.") from error
    if (
        not isinstance(facts, dict)
        or facts.get("format") != FORMAT
        or not isinstance(facts.get("mark"), dict)
    ):
        raise BadFile(path, "is not a checkpoint of placings. Delete it to start anew.")
    facts["mark"] = _rename_fields(facts["mark"])
    other = [name for name in mark if json.loads(json.dumps(mark[name])) != facts["mark"].get(name)]
    if other:
        raise BadFile(
            path,
            f"belongs to another run: {_say_difference(mark, facts['mark'], other)}. Delete it to start "
            "anew, or name another checkpoint.",
        )
    history = History.from_dict(facts["history"])
    return Checkpoint(facts["step"], history, facts["best"], tensors, facts["optimizer"])


def _rename_fields(mark: dict[str, Any]) -> dict[str, Any]:
    """A run's mark with its plan's fields under today's names."""
    plan = mark.get("plan")
    if not isinstance(plan, dict):
        return mark
    return {**mark, "plan": {OLD_FIELDS.get(name, name): value for name, value in plan.items()}}


def _find_header(content: bytes) -> dict[str, Any]:
    """What a safetensors file says of itself: eight bytes of length, then JSON."""
    header: dict[str, Any] = parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return header


def _say_difference(ours: dict[str, Any], theirs: dict[str, Any], names: list[str]) -> str:
    if "plan" in names:
        plan, old = ours["plan"], theirs.get("plan", {})
        changed = [
            f"{key} was {old.get(key)!r}, is {plan[key]!r}" for key in plan if plan[key] != old.get(key)
        ]
        return "; ".join(changed[:3])
    said = {"data": "its data", "loss": "its loss", "check": "its validation", "network": "its network"}
    return " and ".join(said[name] for name in names) + " differ"


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimizer's state as tensors and plain facts."""
    state = optimizer.state_dict()
    tensors, plain = {}, {}
    for number, values in state["state"].items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{number}.{name}"] = value
            else:
                plain[f"{number}.{name}"] = value
    return tensors, {"values": plain}


def unpack_optimizer(optimizer: torch.optim.Optimizer, checkpoint: Checkpoint) -> None:
    """The reverse: the state of `pack_optimizer` put back; learning rates are the plan's."""
    state: dict[int, dict[str, Any]] = {}
    for key, value in {**checkpoint.part("optimizer"), **checkpoint.optimizer["values"]}.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
