"""How to train, and what happened: both are what a run's folder keeps."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from placings.core import BadInput, PlacingsError, UnknownName, keep_old_names, write_atomically

PRECISIONS = ("float32", "bfloat16")
SCHEDULES = ("constant", "cosine")


@dataclass(frozen=True)
class TrainingPlan:
    """How to train; with the data and the starting weights it settles every bit of a run on a CPU."""

    steps: int
    batch: int
    list_size: int | None
    optimizer: str
    lr: float
    mixture_lr: float | None
    weight_decay: float
    check_every: int
    patience: int
    seed: int
    optimizer_momentum: float = 0.0
    schedule: str = "constant"
    warmup: int = 0
    average: float = 0.0  # share of the old in the running mean of weights; 0: none
    clip: float = 0.0  # the largest gradient norm; 0: any
    precision: str = "float32"
    skip_decay: float | None = None  # the weight decay of skips; None: as of the other matrices
    budget: float = 0.0  # seconds, after which no further check is begun; 0: no bound

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UnknownName("precision", self.precision, PRECISIONS)
        if self.schedule not in SCHEDULES:
            raise UnknownName("schedule", self.schedule, SCHEDULES)

    def pace(self, step: int) -> float:
        """The learning rate of a step as a share of `lr`."""
        share = min(1.0, (step + 1) / (self.warmup + 1))
        if self.schedule == "cosine":
            share *= 0.5 * (1.0 + math.cos(math.pi * step / self.steps))
        return share


@dataclass
class History:
    """What happened: loss, gradient norm and learning rate of each step, the metric of each check.

    `checks` are (step, value); `best_step` is the one whose weights were kept. `ended` says what ended the
    run: "steps" (all were taken, or all `planned`), "patience" or "budget"; `seconds` is what it took, which
    is no part of what makes two runs equal. `planned` is how many steps a schedule was stretched over, where
    a budget decided that and not the plan; else 0.
    """

    loss: list[float] = field(default_factory=list)
    gradient: list[float] = field(default_factory=list)
    lr: list[float] = field(default_factory=list)
    checks: list[tuple[int, float]] = field(default_factory=list)
    best_step: int = 0
    metric: str = ""
    ended: str = ""
    planned: int = 0
    seconds: float = field(default=0.0, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """The reverse of `to_dict`."""
        checks = [(int(step), float(value)) for step, value in values["checks"]]
        return cls(**{**values, "checks": checks})

    def write(self, path: str | Path) -> None:
        """Keep it: `.json` whole, `.csv` a line a step (the metric where it was checked)."""
        path = Path(path)
        if path.suffix == ".json":
            text = json.dumps(self.to_dict())
        elif path.suffix == ".csv":
            text = self._as_csv()
        else:
            raise BadInput(f"a history is written as .json or .csv. Got {str(path)!r}.")
        with write_atomically(path) as temporary:
            temporary.write_text(text)

    def write_tensorboard(self, folder: str | Path) -> None:
        """The same as TensorBoard events; needs the `tensorboard` extra."""
        from placings.core import need_library

        board = need_library("torch.utils.tensorboard", "a TensorBoard log", "tensorboard", "tensorboard")
        writer: Any = board.SummaryWriter(str(folder))
        for name, values in (("loss", self.loss), ("gradient_norm", self.gradient), ("lr", self.lr)):
            for step, value in enumerate(values, start=1):
                writer.add_scalar(f"train/{name}", value, step)
        for step, value in self.checks:
            writer.add_scalar(f"valid/{self.metric or 'metric'}", value, step)
        writer.close()

    def _as_csv(self) -> str:
        checks = dict(self.checks)
        out = io.StringIO()
        table = csv.writer(out, lineterminator="\n")
        table.writerow(["step", "loss", "gradient_norm", "lr", self.metric or "metric"])
        for step, row in enumerate(zip(self.loss, self.gradient, self.lr, strict=True), start=1):
            table.writerow([step, *row, checks.get(step, "")])
        return out.getvalue()


class Diverged(PlacingsError):
    """The loss became NaN or infinite; the message says at which step, where, and what to do."""


__getattr__ = keep_old_names(__name__, {"Plan": "TrainingPlan"})
