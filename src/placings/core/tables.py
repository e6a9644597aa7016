"""Tables as text for the terminal, Markdown, LaTeX, HTML; numbers and JSON in one form everywhere."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

import numpy as np

from placings.core.errors import UnknownName
from placings.core.escaping import escape_line, escape_text
from placings.core.narrow_tables import GAP, draw_narrow, find_width, wrap_note

LATEX_MARKS = {
    "†": r"\dagger", "‡": r"\ddagger", "▼": r"\blacktriangledown", "▽": r"\triangledown", "!": "!",
}  # fmt: skip
LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#",
    "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", "−": "$-$", "×": r"$\times$", "α": r"$\alpha$",
    "≤": r"$\leq$", "†": r"$^{\dagger}$", "‡": r"$^{\ddagger}$", "▼": r"$^{\blacktriangledown}$",
    "▽": r"$^{\triangledown}$", "–": "--", "…": r"\dots{}",
}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """What stands in one place of a table; `marks` are raised, `best` is bold (* where nothing is)."""

    text: str
    marks: str = ""
    best: bool = False


@dataclass(frozen=True)
class Grid:
    """A table before it is drawn: the first column is text, the others are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    left: int = 1  # how many columns are left-aligned

    @property
    def has_best(self) -> bool:
        return any(cell.best for row in self.rows for cell in row)


def render_grid(grid: Grid, format: str = "text") -> str:
    """A grid in one of `FORMATS`; what users named is escaped, the notes always stand below.

    >>> print(render_grid(Grid(("method", "mrr"), ((Cell("A&B"), Cell("0.5000", "†")),)), "markdown"))
    | method | mrr |
    | --- | ---: |
    | A&amp;B | 0.5000† |
    """
    if format not in FORMATS:
        raise UnknownName("format", str(format), FORMATS)
    return FORMATS[format](grid)


def draw_text(grid: Grid) -> str:
    """Aligned columns; the best of a column carries a *. Within `fit_width` they are at most so wide."""
    from rich.cells import cell_len  # some letters are two columns wide

    lines = [[_one_line(name) for name in grid.header]]
    lines += [
        [_one_line(cell.text) + cell.marks + ("*" if cell.best else "") for cell in row] for row in grid.rows
    ]
    # numbers end at the same column, with the marks hanging out to the right
    hang = [
        max((len(row[i].marks) + row[i].best for row in grid.rows), default=0) for i in range(len(lines[0]))
    ]
    for line, cells in zip(lines[1:], grid.rows, strict=True):
        for place, cell in enumerate(cells):
            line[place] += " " * (hang[place] - len(cell.marks) - cell.best) if place >= grid.left else ""
    widths = [max(cell_len(line[place]) for line in lines) for place in range(len(grid.header))]
    legend = ["* best of its column."] if grid.has_best else []
    width = find_width()
    notes = [part for note in (*map(escape_text, grid.notes), *legend) for part in _wrap_lines(note, width)]
    if width is not None and sum(widths) + GAP * (len(widths) - 1) > width:
        return "\n".join([*draw_narrow(lines[0], lines[1:], grid.left, width), *notes])
    drawn = []
    for line in lines:
        parts = []
        for place, text in enumerate(line):
            space = " " * (widths[place] - cell_len(text))
            parts.append(text + space if place < grid.left else space + text)
        drawn.append("  ".join(parts).rstrip())
    rule = "─" * max(cell_len(line) for line in drawn)
    return "\n".join([drawn[0], rule, *drawn[1:], *([rule] if grid.rows else []), *notes])


def draw_markdown(grid: Grid) -> str:
    """A pipe table; HTML in names is escaped too, since Markdown lets it through."""

    def safe(text: str) -> str:
        escaped = html.escape(_one_line(text), quote=False)
        return re.sub(r"([\\`*_|~])", r"\\\1", escaped).replace("](", r"]\(")

    def show(cell: Cell) -> str:
        text = safe(cell.text)
        return (f"**{text}**" if cell.best else text) + cell.marks

    marks = ["---"] * grid.left + ["---:"] * (len(grid.header) - grid.left)
    lines = [
        [safe(name) for name in grid.header],
        marks,
        *([show(cell) for cell in row] for row in grid.rows),
    ]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    legend = ["**Bold**: best of its column."] if grid.has_best else []
    notes = "\n\n".join([*(safe(note) for note in grid.notes), *legend])
    return f"{table}\n\n{notes}" if notes else table


def draw_latex(grid: Grid) -> str:
    """A table with booktabs' rules; the triangles are amssymb's."""

    def show(cell: Cell) -> str:
        text = escape_latex(cell.text)
        raised = "".join(LATEX_MARKS.get(mark, mark) for mark in cell.marks)
        return (rf"\textbf{{{text}}}" if cell.best else text) + (f"$^{{{raised}}}$" if raised else "")

    columns = "l" * grid.left + "r" * (len(grid.header) - grid.left)
    legend = ["Bold: best of its column."] if grid.has_best else []
    notes = [*grid.notes, *legend]
    lines = [
        r"% \usepackage{booktabs,amssymb}",
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(escape_latex(name) for name in grid.header) + r" \\",
        r"\midrule",
        *(" & ".join(show(cell) for cell in row) + r" \\" for row in grid.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *([rf"\caption{{{' '.join(escape_latex(note) for note in notes)}}}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(lines)


def draw_html(grid: Grid) -> str:
    """A `<table>` and its notes in one `<div>`, to be put into a page; no style, no script.

    `placings.report.pages` makes a whole page of it.
    """

    def show(cell: Cell, place: int) -> str:
        text = html.escape(escape_text(cell.text))
        text = f"<b>{text}</b>" if cell.best else text
        raised = f"<sup>{html.escape(cell.marks)}</sup>" if cell.marks else ""
        if place == 0:
            return f"<th scope='row'>{text}</th>"
        return f"<td{as_text(place)}>{text}{raised}</td>"

    def as_text(place: int) -> str:
        return " class='text'" if 0 < place < grid.left else ""

    head = "".join(
        f"<th scope='col'{as_text(place)}>{html.escape(escape_text(name))}</th>"
        for place, name in enumerate(grid.header)
    )
    rows = "\n".join(
        "<tr>" + "".join(show(cell, place) for place, cell in enumerate(row)) + "</tr>" for row in grid.rows
    )
    legend = ["Bold: best of its column."] if grid.has_best else []
    notes = "\n".join(f"<p>{html.escape(escape_text(note))}</p>" for note in [*grid.notes, *legend])
    return (
        f"<div class='placings-table'>\n<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n"
        f"</table>\n{notes}\n</div>"
    )


FORMATS: dict[str, Callable[[Grid], str]] = {
    "text": draw_text, "markdown": draw_markdown, "latex": draw_latex, "html": draw_html,
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is.

    >>> print(escape_latex("f_1 & 50%"))
    f\\_1 \\& 50\\%
    """
    return "".join(LATEX_ESCAPES.get(letter, letter) for letter in _one_line(text))


def format_mean(value: float) -> str:
    """Four digits after the point, three significant ones of what is large; a dash when not known."""
    if math.isnan(value):
        return "-"
    return f"{value:.4f}" if abs(value) < 100 else f"{value:,.1f}"


def format_number(value: float, digits: int = 4) -> str:
    """A number of any size for people: significant digits, thousands separated; a dash when unknown.

    Only what is below 0.0001 has an exponent.

    >>> [format_number(value, 3) for value in (2250.4, 12.345, 0.5, 0.00012345, 0.0, 0.0000012)]
    ['2,250', '12.3', '0.5', '0.000123', '0', '1.2e-06']
    >>> format_number(-1234567.8)
    '−1,234,568'
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value) or value == 0.0:
        return "0" if value == 0.0 else f"{value}".replace("-", "−")
    size = abs(value)
    if size < 1e-4:
        text = f"{value:.{digits - 1}g}"
    else:
        places = max(0, digits - 1 - math.floor(math.log10(size)))
        text = f"{value:,.{places}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−", 1) if value < 0 else text


def format_difference(value: float) -> str:
    """With its sign, always."""
    return "-" if math.isnan(value) else f"{value:+.4f}".replace("-", "−")


def format_interval(low: float, high: float, *, signed: bool = False) -> str:
    """`[0.4100, 0.4300]`, or a dash when it was not asked for."""
    show = format_difference if signed else format_mean
    return "-" if math.isnan(low) else f"[{show(low)}, {show(high)}]"


def format_p(value: float) -> str:
    """A p-value in three digits; none is printed as 0."""
    if math.isnan(value):
        return "-"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def write_json(facts: Any) -> str:
    """JSON in full precision; NaN and ±inf, which JSON lacks, are null."""
    return json.dumps(plain_value(facts), indent=1, ensure_ascii=False, allow_nan=False)


class Shown:
    """What results share: printed they are their table, in a notebook too, and `to_json` is `to_dict`.

    A dataclass that is one says `repr=False`, or its own fields would be printed instead.
    """

    def table(self, format: str = "text") -> str:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        raise NotImplementedError

    def to_json(self) -> str:
        """`to_dict` in full precision; NaN is null."""
        return write_json(self.to_dict())

    def __repr__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return self.table("html")


def plain_value(value: Any) -> Any:
    """`value` as JSON holds it: arrays, tuples, sets as lists, other objects as text, NaN and inf as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain_value(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain_value(part) for key, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain_value(value.tolist())
    if isinstance(value, Set):
        return sorted((plain_value(part) for part in value), key=str)  # the same in every process
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain_value(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)


def _wrap_lines(note: str, width: int | None) -> list[str]:
    return [part for line in note.split("\n") for part in wrap_note(line, width)]


def _one_line(text: str) -> str:
    return escape_line(" ".join(str(text).split()))
