"""Any result as a page: a comparison, an evaluation, an explanation, importances; one file to pass on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from placings.data.streams import write_atomically
from placings.errors import BadInput
from placings.report.pages import render_page

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
