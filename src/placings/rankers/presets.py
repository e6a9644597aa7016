"""What `NeuralRanker(preset=…)` stands for: networks and training recipes by name."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from placings.errors import BadInput, UnknownName

NETWORKS = ("feedforward", "groupwise", "attention")


@dataclass(frozen=True)
class Settings:
    """All that a preset settles; an argument of the ranker that is not None takes its place."""

    network: str = "feedforward"
    hidden: tuple[int, ...] = (128, 64)
    activation: str = "relu"
    dropout: float = 0.2
    batch_norm: bool = True
    norm_input: bool = True
    momentum: float = 0.9  # of batch norm, Keras's: the share of the old
    eps: float = 1e-5
    group_size: int = 1
    loss: str = "softmax"
    draws: int = 0
    optimizer: str = "adamw"
    lr: float = 1e-3
    mixture_lr: float | None = 1e-2
    optimizer_momentum: float = 0.0
    weight_decay: float = 1e-2
    schedule: str = "constant"
    warmup: int = 0
    average: float = 0.0
    clip: float = 0.0
    steps: int = 2000
    batch: int = 32
    list_size: int | None = 400
    check_every: int = 50
    patience: int = 8
    holdout: float = 0.0


PRESETS = {
    # A place to start; docs/mixture_study.md shows what its numbers rest on.
    "default": Settings(),
    # The paper as Keras ran it: SIGIR'20, section 5.2; lr is WEB30K's (0.1 for Istella).
    "zhuang2020": Settings(
        hidden=(1024, 512, 256), dropout=0.5, momentum=0.4, eps=1e-3, loss="approx_ndcg@5", draws=8,
        optimizer="adagrad", lr=0.5, mixture_lr=None, weight_decay=0.0, steps=100_000, batch=128,
        list_size=200, check_every=1000, patience=100_000,
    ),
}  # fmt: skip

LEAST = {"steps": 1, "batch": 1, "check_every": 1, "patience": 1, "draws": 0, "warmup": 0, "group_size": 1}


def settle(preset: str, given: dict[str, Any]) -> Settings:
    """The preset's settings with what is given in their place, checked."""
    if preset not in PRESETS:
        raise UnknownName("preset", str(preset), PRESETS)
    settings = PRESETS[preset]
    chosen = {name: given[name] for name in asdict(settings) if given.get(name) is not None}
    if "hidden" in chosen:
        chosen["hidden"] = tuple(int(width) for width in chosen["hidden"])
    settings = replace(settings, **chosen)
    for name, least in LEAST.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise BadInput(f"{name} must be a whole number of {least} or more. Got {value!r}.")
    for name in ("dropout", "average", "holdout", "optimizer_momentum"):
        if not 0.0 <= getattr(settings, name) < 1.0:
            raise BadInput(f"{name} must be from 0 up to, but not, 1. Got {getattr(settings, name)!r}.")
    if not settings.lr > 0.0:
        raise BadInput(f"lr must be above 0. Got {settings.lr!r}.")
    if settings.network not in NETWORKS:
        raise UnknownName("network", str(settings.network), NETWORKS)
    return settings
