"""What a neural training leaves in its run's folder: a checkpoint while it runs, its history afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CHECKPOINT = "checkpoint.safetensors"


def set_checkpoint(model: Any, folder: Path) -> None:
    """Let a ranker that can go on from a checkpoint keep it in the run's folder."""
    if "checkpoint" in model.get_params() and model.get_params()["checkpoint"] is None:
        model.set_params(checkpoint=str(folder / CHECKPOINT))


def keep_history(model: Any, folder: Path, tensorboard: Path | None = None) -> None:
    """Write `history.json`, `history.csv` and, with the report extra, `history.svg`; drop the checkpoint.

    `tensorboard` names a folder for TensorBoard's events. Rankers without such a history are left alone.
    """
    history: Any = getattr(model, "history_", None)
    if not hasattr(history, "write"):
        return
    history.write(folder / "history.json")
    history.write(folder / "history.csv")
    if tensorboard is not None:
        history.write_tensorboard(tensorboard)
    if model.get_params().get("checkpoint") == str(folder / CHECKPOINT):
        model.set_params(checkpoint=None)
        (folder / CHECKPOINT).unlink(missing_ok=True)
    from placings.errors import MissingExtra

    try:
        from placings.report.history_figures import draw_history

        draw_history(history, folder / "history.svg")
    except MissingExtra:
        pass  # the numbers are there; the picture is a courtesy
