"""Figures as SVG text or as files, drawn without a screen and without fonts from elsewhere."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, MissingExtra, write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, BAR, PALE = "#1f2933", "#2f6f9f", "#c9d6df"


def start_figure(width: float, height: float) -> tuple[Figure, Any]:
    """An empty figure of this size in inches, without a frame."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("drawing a figure", "matplotlib", "report") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return figure, axes


def put_legend(axes: Any, *, columns: int = 3, size: float = 7) -> None:
    """The legend above the axes, so that it lies over nothing that is drawn in them."""
    axes.legend(
        fontsize=size, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=columns,
        borderaxespad=0.2,
    )  # fmt: skip


def finish_figure(figure: Figure) -> str:
    """The figure as SVG text, the same bits from run to run."""
    import matplotlib

    out = io.StringIO()
    # text stays text (searchable, in the reader's own font); ids do not change from run to run
    with matplotlib.rc_context(
        {"svg.fonttype": "none", "svg.hashsalt": "placings", "font.family": "sans-serif"}
    ):
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


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


COLOURS = (BAR, "#c8553d", "#4f7942", "#8e5ea2", "#b8860b", "#5f6b73")
STYLES = ("-", "--", "-.", ":")


def draw_rank_distribution(ranks: Mapping[str, ArrayLike], *, deepest: int = 20) -> str:
    """The share of queries whose first relevant item stands at rank k or above, for k up to `deepest`.

    `ranks` maps a method to one rank a query, from 1, with NaN where nothing is relevant: the `ranks` of
    `placings.evaluation.scoring.rank_distribution`. Queries with NaN are left out. One method is drawn as
    bars (the share at each rank) with its curve above. Returns SVG text; needs matplotlib.
    """
    if not ranks:
        raise BadInput("there is no method to draw. Got an empty mapping.")
    figure, axes = start_figure(6.4, 3.2)
    places = np.arange(1, deepest + 1)
    for number, (name, given) in enumerate(ranks.items()):
        values = np.asarray(given, dtype=np.float64)
        known = values[~np.isnan(values)]
        total = max(len(known), 1)
        at_rank = np.array([(known == place).sum() for place in places]) / total
        colour = COLOURS[number % len(COLOURS)]
        if len(ranks) == 1:
            axes.bar(places, at_rank, color=colour, alpha=0.35)
        style = STYLES[number // len(COLOURS) % len(STYLES)]
        below = max(0.0, 1.0 - at_rank.sum()) if len(known) else 0.0
        label = f"{name} ({len(known):,} queries, {below:.1%} below {deepest})".replace("$", r"\$")
        axes.plot(places, np.cumsum(at_rank), style, marker=".", color=colour, label=label)
    axes.set(xlabel="rank of the first relevant item, at most", ylabel="share of queries", ylim=(0, 1.02))
    axes.set_xlim(0.5, deepest + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    put_legend(axes, columns=1 if len(ranks) > 2 else len(ranks), size=8)
    return finish_figure(figure)
