"""Figures as SVG text, drawn without a screen and without fonts from elsewhere."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from placings.errors import MissingExtra

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


def set_legend(axes: Any, columns: int = 3) -> None:
    """A legend above what is drawn: it hides no line and no number, whatever the data are."""
    above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "borderaxespad": 0.2}
    axes.legend(fontsize=7, frameon=False, ncols=columns, **above)


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
