"""What a command checks before it reads or trains anything: a typo must not cost an hour."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.core import BadInput, MissingExtra

if TYPE_CHECKING:
    from placings.rankers import Ranker


def check_folder(path: str | Path, option: str = "--out") -> Path:
    """Refuse a folder that cannot be made, or that nothing can be written into; nothing is left behind."""
    path = Path(path)
    there = path
    while not os.path.lexists(there) and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise BadInput(f"{option} must be a folder, or a new name. Got {path}: {there} is a file.")
    _try_writing(there, path, option)
    return path


def check_output(path: str | Path, option: str = "--out", endings: Sequence[str] = ()) -> Path:
    """Refuse a file that cannot be written, or whose name ends in none of `endings`."""
    path = Path(path)
    if endings and not path.name.lower().endswith(tuple(endings)):
        raise BadInput(f"{option} must end in {_list_words(endings)}. Got {path.name!r}.")
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:  # a link to itself, a name that is too long
        raise BadInput(f"{option}: {path} cannot be used ({error.strerror}). Name another place.") from None
    if path.is_dir():
        raise BadInput(f"{option} must be a file. Got {path}, which is a folder.")
    if not path.parent.is_dir():
        what = "is a file" if path.parent.exists() else "does not exist. Make it first"
        raise BadInput(f"{option}: the folder {path.parent} of {path.name} {what}.")
    _try_writing(path.parent, path, option)
    return path


def check_inputs(*paths: str | Path | Sequence[Path] | None) -> None:
    """Refuse files that are not there or may not be read; folders are looked into when they are read."""
    from placings.core import check_file
    from placings.data import list_files

    for path in paths:
        for file in [] if path is None else list_files(path):
            if not file.is_dir():
                check_file(file)


def check_metrics(names: Iterable[str], option: str = "--metrics") -> list[str]:
    """The names, each that of a metric; at least one."""
    from placings.metrics import metric

    found = [str(name) for name in names]
    if not found:
        raise BadInput(f"{option} must name at least one metric, such as ndcg@10. Got none.")
    for name in found:
        metric(name)
    return found


def check_library(module: str, what: str, library: str, extra: str) -> None:
    """Refuse what needs a library that is not installed."""
    from importlib.util import find_spec

    try:
        there = find_spec(module) is not None
    except ModuleNotFoundError:
        there = False
    if not there:
        raise MissingExtra(what, library, extra)


def check_mlflow() -> None:
    """Refuse --mlflow where it is not installed."""
    check_library("mlflow", "logging to MLflow", "mlflow-skinny", "mlflow")


def check_page(path: Path | None, option: str = "--html") -> None:
    """Refuse a page that could not be written, or for which the libraries are missing."""
    if path is None:
        return
    check_output(path, option)
    check_library("jinja2", "writing a page", "Jinja2", "report")
    check_library("matplotlib", "drawing a figure", "matplotlib", "report")


def check_figure(path: Path | None, option: str = "--figure", endings: Sequence[str] = (".svg",)) -> None:
    """Refuse a figure that could not be drawn."""
    if path is None:
        return
    check_output(path, option, endings)
    check_library("matplotlib", "drawing a figure", "matplotlib", "report")


def check_average(average: str | None) -> None:
    """Refuse a moving average whose length is not a length of time."""
    if average is None:
        return
    import pandas as pd

    try:
        pd.Timedelta(average)
    except ValueError:
        raise BadInput(f"--average must be a length of time such as 7d. Got {average!r}.") from None


def check_ranker(name: str, settings: dict[str, Any]) -> Ranker:
    """The unfitted ranker; a name, setting or value that cannot be trained with is refused now."""
    from placings.core import PlacingsError
    from placings.rankers import make_ranker

    ranker = make_ranker(name, **settings)
    try:
        ranker._check_settings()
    except PlacingsError:
        raise
    except (TypeError, ValueError, ArithmeticError, AttributeError, LookupError) as error:
        shown = ", ".join(f"{key}={value!r}" for key, value in settings.items())
        raise BadInput(
            f"a setting of {name} has a value that cannot be used ({error}). Got {shown}."
        ) from None
    return ranker


def _try_writing(folder: Path, path: Path, option: str) -> None:
    """Write and remove a file: what a permission means depends on the user and the file system."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise BadInput(
            f"{option}: nothing can be written to {folder} ({reason}). Got {path}. Name another place."
        ) from None


def _list_words(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
