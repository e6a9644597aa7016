"""A panel: one heading of a page with its text, figures and tables, or the sentence on what it lacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placings.evaluation.rendering import Cell, Grid, render_grid

SIMULATED = "SIMULATED data."


@dataclass(frozen=True)
class Panel:
    """What stands under one heading; `lack` takes the place of everything else."""

    id: str
    title: str
    text: str = ""
    figures: tuple[tuple[str, str], ...] = ()  # SVG and caption
    tables: tuple[str, ...] = ()  # HTML
    lack: str = ""
    places: str = field(default="", compare=False)  # where in the thesis


def lay_table(
    header: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    notes: Sequence[str] = (),
    best: Mapping[int, int] | None = None,
    left: int = 1,
    simulated: bool = False,
) -> str:
    """Rows of text as an HTML table; `best` names the row that is bold in each column.

    >>> "<b>1</b>" in lay_table(["a", "b"], [["x", "1"]], best={1: 0})
    True
    """
    bold = best or {}
    cells = tuple(
        tuple(Cell(str(text), best=bold.get(place) == number) for place, text in enumerate(row))
        for number, row in enumerate(rows)
    )
    marked = (SIMULATED, *notes) if simulated else tuple(notes)
    return render_grid(Grid(tuple(header), cells, marked, left=left), "html")
