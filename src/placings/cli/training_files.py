"""What a training leaves in its run's folder: a checkpoint while it runs, then the model and its history."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placings.cli.printing import print_note

CHECKPOINT = "checkpoint.safetensors"
TRIED = "tried"  # the folder of the steps that an AutoRanker took


def set_checkpoint(model: Any, folder: Path) -> None:
    """Let a ranker that can go on from a checkpoint, or from kept steps, keep them in the run's folder."""
    for name, place in (("checkpoint", CHECKPOINT), ("keep", TRIED)):
        if name in model.get_params() and model.get_params()[name] is None:
            model.set_params(**{name: str(folder / place)})


def forget_checkpoint(model: Any, folder: Path) -> None:
    """The reverse of `set_checkpoint`, once trained: the path is not a setting that a bundle should keep.

    Steps of a search that was stopped by hand stay, so that the same command can go on.
    """
    import shutil

    for name, place in (("checkpoint", CHECKPOINT), ("keep", TRIED)):
        if model.get_params().get(name) == str(folder / place):
            model.set_params(**{name: None})
    if not getattr(model, "interrupted_", False):
        shutil.rmtree(folder / TRIED, ignore_errors=True)


def say_stopped(stop: KeyboardInterrupt, model: Any) -> str:
    """What is kept of a training that was interrupted, and what the same command will do."""
    from placings.training import Stopped

    if isinstance(stop, Stopped):
        return f"the state after step {stop.step:,} is in {stop.path}; the same command goes on from there."
    if "checkpoint" in model.get_params() or "keep" in model.get_params():
        return "not one step was kept; the same command starts anew."
    return (
        f"nothing is kept, because a {type(model).__name__} cannot go on from half a training; the same "
        "command starts anew."
    )


def save_model(model: Any, place: Path, metrics: Mapping[str, float]) -> str:
    """Save a trained model and return its digest; if that fails, keep it elsewhere and say where."""
    from placings.core import PlacingsError

    try:
        return str(model.save(place, metrics=metrics))
    except (OSError, PlacingsError) as error:
        spare = save_elsewhere(model, metrics)
        error.add_note(f"kept in {spare}")  # so that the run is not thrown away
        print_note(f"the model could not be written to {place}; it is kept in {spare}. Move it from there.")
        raise


def save_elsewhere(model: Any, metrics: Mapping[str, float]) -> Path:
    """Save a model where there is room: the folder for temporary files, the home, or the one we are in."""
    import tempfile

    for home in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
        try:
            spare = Path(tempfile.mkdtemp(prefix="placings-model-", dir=home)) / "model"
            model.save(spare, metrics=metrics)
        except OSError:
            continue
        return spare
    from placings.core import BadInput

    raise BadInput("the model could not be saved: there is no room for it anywhere.")


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
    (folder / CHECKPOINT).unlink(missing_ok=True)
    from placings.core import MissingExtra

    try:
        from placings.report import draw_history

        draw_history(history, folder / "history.svg")
    except MissingExtra:
        pass  # the numbers are there; the picture is a courtesy
