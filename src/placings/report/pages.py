"""Pages: one self-contained HTML file made of panels, no scripts and nothing fetched from anywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from placings.core import BadInput, Cell, Grid, MissingExtra, render_grid, write_atomically


def render_page(template: str, **parts: Any) -> str:
    """Fill a template of this package; everything but figures marked safe is escaped."""
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtra("writing a page", "Jinja2", "report") from error
    folder = files("placings.report") / "templates"
    environment = Environment(
        loader=FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(**parts)


def write_page(path: str | Path, template: str, **parts: Any) -> Path:
    """Render a page and write it whole or not at all."""
    path = Path(path)
    text = render_page(template, **parts)
    with write_atomically(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


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


SECTIONS = {"table": "", "difference_table": "Differences", "slice_table": "Slices, the worst first"}


def write_result_page(path: str | Path, *results: Any, title: str | None = None, figure: str = "") -> Path:
    """Write results as one self-contained HTML page, whole or not at all; see `render_result_page`."""
    path = Path(path)
    text = render_result_page(*results, title=title, figure=figure)
    with write_atomically(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    return path


def render_result_page(*results: Any, title: str | None = None, figure: str = "") -> str:
    """The page as text: the tables of each result one below the other, with their notes.

    A result is what `compare`, `evaluate`, `explain`, `rank_importance`, … give: anything with a `table`
    (or a `report`) in HTML. `figure` is SVG text that goes below them. No scripts, nothing from elsewhere.
    """
    if not results:
        raise BadInput("a page needs at least one result. Got none.")
    sections = [section for result in results for section in _list_sections(result)]
    if figure:
        sections.append(("", f"<figure>{figure}</figure>"))
    return render_page("results.html", title=title or type(results[0]).__name__, sections=sections)


def _list_sections(result: Any) -> list[tuple[str, str]]:
    """Headings and HTML of one result."""
    if not hasattr(result, "table") and not hasattr(result, "report"):
        raise BadInput(f"a page shows results that have a table. Got {type(result).__name__}.")
    if hasattr(result, "report") and not hasattr(result, "difference_table"):
        return [("", result.report("html"))]  # it has headings of its own
    parts = [(heading, getattr(result, name, None)) for name, heading in SECTIONS.items()]
    made = [(heading, make("html")) for heading, make in parts if make is not None]
    return [(heading, text) for heading, text in made if text]
