"""Figures with several panels, and figures as files: SVG or PNG, by the name's end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.data.streams import write_atomically
from placings.errors import BadInput
from placings.report.figures import finish_figure, start_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DOTS = 150  # an inch, in a PNG


def start_panels(
    rows: int, columns: int, width: float, height: float, **options: Any
) -> tuple[Figure, list[Any]]:
    """An empty figure of `rows` × `columns` panels, each of this size in inches, row by row."""
    figure, _ = start_figure(width * columns, height * rows)
    figure.clear()
    panels = list(figure.subplots(rows, columns, squeeze=False, **options).ravel())
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=7)
    return figure, panels


def write_figure(figure: Figure, path: str | Path) -> Path:
    """Write a figure to a file, whole or not at all; `.svg` or `.png`."""
    path = Path(path)
    kind = check_suffix(path)
    if kind == ".svg":
        text = finish_figure(figure)
        with write_atomically(path) as temporary:
            temporary.write_text(text + "\n", encoding="utf-8")
    else:
        with write_atomically(path) as temporary:
            figure.savefig(temporary, format="png", dpi=DOTS, metadata={"Software": None})
    return path


def check_suffix(path: str | Path) -> str:
    """`.svg` or `.png`; anything else is refused, before anything is drawn."""
    kind = Path(path).suffix.lower()
    if kind not in (".svg", ".png"):
        raise BadInput(f"a figure is written as .svg or .png. Got {str(path)!r}.")
    return kind


def escape_label(text: str) -> str:
    """Text that matplotlib prints as it is: a dollar sign begins no formula."""
    return text.replace("$", r"\$")
