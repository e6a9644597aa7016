"""The log explorer's figures: ranks by type, lengths, distances and decays, weeks, sections, hours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import AnyArray, Floats, Ints
from placings.logs import Fit, Observed, score_decay
from placings.report.figures import (
    BAR,
    COLOURS,
    INK,
    PALE,
    escape_label,
    finish_figure,
    start_figure,
    start_panels,
)
from placings.report.log_words import format_km

if TYPE_CHECKING:
    import pandas as pd

HIT = "#c8553d"
WIDE = 4  # panels side by side
FEW = 10  # searches from which on an interval is drawn
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
DECAYS = {"linear": "linear", "exp": "exponential", "gauss": "Gaussian"}


def draw_click_ranks(counts: pd.DataFrame) -> str:
    """One panel a group: the share of its clicks on each rank (Figure 2.3); SVG.

    `counts` is what `count_click_ranks` gives; the last bar holds all ranks below. The dashes are all clicks.
    """
    names = list(dict.fromkeys(counts["group"]))
    columns = min(WIDE, len(names))
    figure, panels = start_panels(
        -(-len(names) // columns), columns, max(2.4, 4.6 / columns), 1.8, sharey=True
    )
    whole = counts.groupby("rank")["clicks"].sum()
    whole = whole / whole.sum()
    for axes, name in zip(panels, names, strict=False):
        part = counts[counts["group"] == name]
        axes.bar(part["rank"], 100 * part["share"], color=BAR, width=0.8)
        if len(names) > 1:
            axes.step(whole.index, 100 * whole, where="mid", color=INK, linewidth=0.8, linestyle="--")
        title = f"{escape_label(name)}: {int(part['clicks'].sum()):,} clicks"
        axes.set_title(title, fontsize=8, loc="left", color=INK, pad=3)
        mark_ranks(axes, int(part["rank"].max()) - 1)
    for place, axes in enumerate(panels):
        if place % columns == 0:
            axes.set_ylabel("% of clicks", fontsize=7)
        axes.set_visible(place < len(names))
    return finish_figure(figure)


def draw_positions(positions: pd.DataFrame) -> str:
    """The click rate of each position, as shown; SVG."""
    figure, axes = start_figure(5.4, 2.5)
    axes.bar(positions["position"], 100 * positions["rate"], color=BAR)
    axes.set(xlabel="position", ylabel="% of impressions clicked")
    axes.xaxis.get_major_locator().set_params(integer=True)
    return finish_figure(figure)


def draw_lengths_by_rank(lengths: pd.DataFrame, deepest: int) -> str:
    """Mean query length at each clicked rank with its interval (Figure 2.4); SVG.

    Ranks with fewer than ten searches are pale and without an interval, which would dwarf all others.
    """
    figure, axes = start_figure(5.4, 2.6)
    many = lengths["searches"] >= FEW
    part = lengths[many]
    bars = np.array([part["mean"] - part["low"], part["high"] - part["mean"]])
    axes.errorbar(part["rank"], part["mean"], np.nan_to_num(bars), fmt="o", color=BAR, capsize=2)
    axes.plot(lengths["rank"][~many], lengths["mean"][~many], "o", color=PALE)
    mark_ranks(axes, deepest)
    axes.set(xlabel="rank of the first click", ylabel="query length, characters", xlim=(0.4, deepest + 1.6))
    return finish_figure(figure)


def draw_histograms(
    groups: Mapping[str, AnyArray],
    *,
    xlabel: str,
    ylabel: str = "% of searches",
    deepest: int | None = None,
) -> str:
    """Panels side by side with the same axes: how often each value occurs, its mean as a line; SVG.

    Heights are shares of a panel's own values, so that groups of any size can be compared. Whole numbers
    get a bar each; those beyond the 99th percentile, or below rank `deepest`, are in the last bar.
    """
    drawn = {name: np.asarray(values, dtype=np.float64) for name, values in groups.items() if len(values)}
    every = np.concatenate(list(drawn.values()))
    end = max(float(np.ceil(np.quantile(every, 0.99))), 1.0) if deepest is None else deepest + 1.0
    edges = np.arange(0.5, end + 1.0)
    figure, panels = start_panels(1, len(drawn), 8.4 / max(len(drawn), 2), 2.3, sharey=True, sharex=True)
    for number, (axes, (name, values)) in enumerate(zip(panels, drawn.items(), strict=True)):
        cut = np.clip(values, edges[0], edges[-1] - 1e-9)
        weights = np.full(len(cut), 100 / len(cut))
        axes.hist(cut, bins=edges, weights=weights, color=COLOURS[number % 2], alpha=0.85)
        axes.axvline(values.mean(), color=INK, linewidth=1, linestyle="--")
        title = f"{escape_label(name)}: {len(values):,}, mean {values.mean():.1f}"
        axes.set_title(title, fontsize=8, loc="left", color=INK, pad=3)
        axes.set_xlabel(xlabel, fontsize=8)
        if deepest is not None:
            mark_ranks(axes, deepest)
    panels[0].set_ylabel(ylabel, fontsize=8)
    return finish_figure(figure)


def draw_distances(observed: Observed) -> str:
    """How far from the user the clicked places lie (Figure 1.2); SVG."""
    figure, axes = start_figure(5.4, 2.5)
    axes.bar(observed.middles, observed.heights, width=0.95 * np.diff(observed.edges), color=BAR)
    axes.set(xlabel="distance from the user, km", ylabel="clicks, largest bin = 1")
    return finish_figure(figure)


def draw_decays(observed: Observed, fits: Sequence[Fit]) -> str:
    """Each decay function at its best, and what was observed, in four panels (Figure 1.3); SVG.

    The red area is where curve and clicks part; origin, scale, offset and decay are written out.
    """
    figure, panels = start_panels(2, 2, 4.2, 2.2, sharex=True, sharey=True)
    fine = np.linspace(0.0, float(observed.edges[-1]), 400)
    middles, heights = observed.middles, observed.heights
    for axes, fit in zip(panels, fits, strict=False):
        given = {"scale": fit.scale, "offset": fit.offset, "decay": fit.decay}
        curve = score_decay(middles, fit.kind, **given)
        axes.step(middles, heights, where="mid", color=PALE, linewidth=1)
        axes.fill_between(middles, heights, curve, color=HIT, alpha=0.18, linewidth=0)
        axes.plot(fine, score_decay(fine, fit.kind, **given), color=HIT, linewidth=1.6)
        axes.set_title(DECAYS[fit.kind], fontsize=9, loc="left", color=INK, pad=3)
        words = (
            f"origin the user\nscale {format_km(fit.scale)}\noffset {format_km(fit.offset)}\n"
            f"decay {fit.decay:g}\noff by {fit.error:.3f}"
        )
        axes.text(0.98, 0.95, words, transform=axes.transAxes, ha="right", va="top", fontsize=8, color=INK)
    panels[3].bar(middles, heights, width=0.95 * np.diff(observed.edges), color=BAR)
    panels[3].set_title("clicked places", fontsize=9, loc="left", color=INK, pad=3)
    for axes in panels[2:]:
        axes.set_xlabel("distance from the user, km", fontsize=8)
    for axes in panels[::2]:
        axes.set_ylabel("score, or clicks", fontsize=8)
    return finish_figure(figure)


def draw_weeks(weeks: pd.DataFrame) -> str:
    """The most clicked items, a panel each: their share of each week's clicks (Figure 1.4); SVG."""
    items = list(dict.fromkeys(weeks["item_id"]))
    columns = min(5, len(items))
    rows = -(-len(items) // columns)
    figure, panels = start_panels(rows, columns, 9.6 / columns, 1.5, sharex=True, sharey=True)
    mondays = list(dict.fromkeys(weeks["week"]))
    places = np.arange(len(mondays))
    step = -(-len(mondays) // 4)
    for axes, item in zip(panels, items, strict=False):
        part = weeks[weeks["item_id"] == item]
        axes.bar(places, 100 * part["share"].fillna(0.0), color=BAR, width=0.8)
        axes.set_title(
            escape_label(_shorten(str(part["name"].iloc[0]), 24)), fontsize=8, loc="left", color=INK, pad=2
        )
        axes.set_xticks(places[::step], [f"{day:%d %b}" for day in mondays[::step]], fontsize=6)
    for place, axes in enumerate(panels):
        axes.set_visible(place < len(items))
        if place % columns == 0:
            axes.set_ylabel("% of clicks", fontsize=7)
    return finish_figure(figure)


def draw_sections(sections: pd.DataFrame) -> str:
    """Types side by side: shares of impressions and clicks, and MRR over the list and within a type; SVG."""
    names = [escape_label(name) for name in sections["group"]][::-1]
    figure, panels = start_panels(1, 2, 4.3, 0.9 + 0.42 * len(names), sharey=True)
    turned = sections.iloc[::-1]
    places = np.arange(len(names))
    pairs = (
        (panels[0], 100.0, ("shown_share", "of impressions"), ("clicked_share", "of clicks"), "%"),
        (
            panels[1],
            1.0,
            ("mrr", "by position in the list"),
            ("mrr_within", "by place in its section"),
            "MRR",
        ),
    )
    for axes, times, first, second, label in pairs:
        for offset, (column, word), colour in ((0.2, first, PALE), (-0.2, second, BAR)):
            values = times * turned[column].to_numpy(dtype=np.float64)
            axes.barh(places + offset, np.nan_to_num(values), height=0.38, color=colour, label=word)
        axes.set_xlabel(label, fontsize=8)
        axes.legend(fontsize=7, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    panels[0].set_yticks(places, names, fontsize=8)
    panels[1].set_xlim(0, 1)
    return finish_figure(figure)


def draw_hours(counts: Ints) -> str:
    """Searches by weekday and hour as a map, darker is more; SVG."""
    figure, axes = start_figure(8.0, 2.3)
    shown = axes.pcolormesh(np.arange(25), np.arange(8), counts, cmap="Blues", vmin=0, edgecolors="white")
    axes.set_yticks(np.arange(7) + 0.5, DAYS)
    axes.set_xticks(np.arange(0, 25, 3))
    axes.invert_yaxis()
    axes.set_xlabel("hour of the day", fontsize=8)
    figure.colorbar(shown, ax=axes, label="searches", pad=0.01).ax.tick_params(labelsize=7)
    return finish_figure(figure)


def draw_intervals(
    names: Sequence[str],
    means: Floats,
    lows: Floats,
    highs: Floats,
    *,
    xlabel: str,
    marked: Sequence[bool] = (),
    line: float | None = None,
    words: Sequence[str] = (),
) -> str:
    """One dot with its interval a name, the first on top; marked ones are red, `words` stand beside; SVG."""
    figure, axes = start_figure(7.6, 0.7 + 0.3 * len(names))
    for number in range(len(names)):
        place = len(names) - 1 - number
        colour = HIT if marked and marked[number] else BAR
        ends = np.array([lows[number], highs[number]])
        if np.isfinite(ends).all():
            axes.plot(ends, [place, place], color=colour, linewidth=2.2, alpha=0.45, solid_capstyle="butt")
        if np.isfinite(means[number]):
            axes.plot([means[number]], [place], "o", color=colour, markersize=5)
        if words:
            axes.annotate(escape_label(words[number]), (1.01, place), xycoords=("axes fraction", "data"),
                          va="center", fontsize=8, color=INK, annotation_clip=False)  # fmt: skip
    if line is not None:
        axes.axvline(line, color=INK, linewidth=0.8, linestyle="--", zorder=0)
    axes.set_yticks(range(len(names)), [escape_label(name) for name in reversed(names)])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel(xlabel, fontsize=8)
    return finish_figure(figure)


def mark_ranks(axes: Any, deepest: int) -> None:
    """Ticks for ranks 1 to `deepest`, and one for all below."""
    step = max(1, deepest // 5)
    places = [*range(1, deepest + 1, step), deepest + 1]
    axes.set_xticks(places, [*map(str, places[:-1]), f"{deepest + 1}+"])


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
