"""Figures as SVG text, drawn without a screen and without fonts from elsewhere."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import AnyArray
from placings.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, BAR, PALE = "#1f2933", "#2f6f9f", "#c9d6df"


def draw_histogram(values: AnyArray, *, xlabel: str, ylabel: str = "queries", bins: int = 40) -> str:
    """How often each value occurs."""
    figure, axes = start_figure(4.6, 2.6)
    axes.hist(values, bins=bins, color=BAR)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    return finish_figure(figure)


def draw_shares(shares: Mapping[str, float], *, xlabel: str) -> str:
    """One bar a name, with its share written on it."""
    figure, axes = start_figure(4.6, 2.6)
    names = list(shares)
    bars = axes.bar(names, [shares[name] for name in names], color=BAR)
    axes.bar_label(bars, [f"{share:.1%}" for share in shares.values()], fontsize=8, padding=2)
    axes.set(xlabel=xlabel, ylabel="share of rows")
    axes.margins(y=0.15)
    return finish_figure(figure)


def draw_means(means: Mapping[str, float], per_query: Mapping[str, AnyArray], *, xlabel: str) -> str:
    """Each method's mean over queries, with the middle half of its queries as a pale band."""
    figure, axes = start_figure(7.2, 0.6 + 0.45 * len(means))
    names = list(means)[::-1]
    for place, name in enumerate(names):
        low, high = np.nanquantile(per_query[name], [0.25, 0.75])
        axes.barh(place, high - low, left=low, height=0.62, color=PALE)
        axes.plot([means[name]], [place], "o", color=BAR)
        axes.annotate(f"{means[name]:.4f}", (means[name], place), (0, 7), textcoords="offset points",
                      ha="center", fontsize=8, color=INK)  # fmt: skip
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(-0.6, len(names) - 0.2)
    axes.set(xlabel=f"{xlabel}: mean (dot), middle half of the queries (band)", xlim=(0, 1))
    return finish_figure(figure)


def draw_spark(counts: Sequence[int]) -> str:
    """A tiny histogram for a table's cell; the heights are square roots, so that small bars are seen."""
    top = max(counts, default=0) or 1
    bars = "".join(
        f'<rect x="{place * 7}" y="{18 - height:.1f}" width="6" height="{height:.1f}"/>'
        for place, count in enumerate(counts)
        if (height := 18 * (count / top) ** 0.5) > 0
    )
    return f'<svg class="spark" width="{7 * len(counts)}" height="18" aria-hidden="true">{bars}</svg>'


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
