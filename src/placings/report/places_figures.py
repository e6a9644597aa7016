"""The figures of the places study: chapter 6, slices, depth and ceiling, from the study's plain result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import BadInput, Floats
from placings.report.figures import (
    BAR,
    INK,
    PALE,
    escape_label,
    finish_figure,
    put_legend,
    start_figure,
    start_panels,
    write_figure,
)
from placings.report.log_figures import HIT, mark_ranks

WIDE = 4
DEEPEST = 10
MOST_POINTS = 300  # of a curve


def draw_ladder(
    rows: Sequence[Mapping[str, Any]],
    *,
    truth: bool,
    ceiling: float | None = None,
    engine: str = "engine",
) -> str:
    """Each model's MRR with its interval, best on top: the true target filled, clicks hollow; SVG.

    `rows` have name, mrr, low, high and, where the truth is known, mrr_true, low_true, high_true. The dashed
    line is the engine, the dotted one the ceiling: the best that any order of the same lists could reach.
    """
    if not rows:
        raise BadInput("there is no model to draw. Got none.")
    ends = ("mrr_true", "low_true", "high_true") if truth else ("mrr", "low", "high")
    ordered = sorted(rows, key=lambda row: take_number(row, ends[0]))
    figure, axes = start_figure(7.6, 0.9 + 0.34 * len(ordered))
    for place, row in enumerate(ordered):
        colour = INK if row.get("name") == engine else BAR
        if truth:
            _draw_mark(
                axes, place - 0.17, [take_number(row, name) for name in ("mrr", "low", "high")], colour, False
            )
        _draw_mark(axes, place + 0.17 * truth, [take_number(row, name) for name in ends], colour, True)
        if row.get("name") == engine:
            axes.axvline(take_number(row, ends[0]), color=INK, linewidth=0.8, linestyle="--", zorder=0)
    if ceiling is not None:
        axes.axvline(ceiling, color="#4f7942", linewidth=1.2, linestyle=":", zorder=0)
        axes.annotate("ceiling", (ceiling, 1.0), (-3, 2), xycoords=("data", "axes fraction"), fontsize=7,
                      textcoords="offset points", ha="right", color="#4f7942")  # fmt: skip
    axes.set_yticks(range(len(ordered)), [escape_label(str(row.get("name"))) for row in ordered])
    axes.set_ylim(-0.6, len(ordered) - 0.4)
    words = "MRR on the true target (filled) and on clicks (hollow)" if truth else "MRR on clicks"
    axes.set_xlabel(f"{words}; dashes: the engine", fontsize=8)
    return finish_figure(figure)


def draw_rank_panels(
    ranks: Mapping[str, Sequence[float]], *, engine: str = "engine", deepest: int = DEEPEST
) -> str:
    """One panel a model: the share of searches at each rank, the engine as a stepped line (Figure 6.1); "
    "SVG."""
    drawn = {name: _share_ranks(values, deepest) for name, values in ranks.items() if len(values)}
    if not drawn:
        raise BadInput("there is no rank to draw. Got none.")
    columns = min(WIDE, len(drawn))
    figure, panels = start_panels(
        -(-len(drawn) // columns), columns, max(2.3, 4.6 / columns), 1.75, sharey=True, sharex=True
    )
    places = np.arange(1, deepest + 2)
    for axes, (name, shares) in zip(panels, drawn.items(), strict=False):
        axes.bar(places, 100 * shares, color=INK if name == engine else BAR, width=0.8, alpha=0.85)
        if engine in drawn and name != engine:
            axes.step(places, 100 * drawn[engine], where="mid", color=HIT, linewidth=1)
        axes.set_title(escape_label(_shorten(name, 30)), fontsize=8, loc="left", color=INK, pad=3)
        mark_ranks(axes, deepest)
    for place, axes in enumerate(panels):
        axes.set_visible(place < len(drawn))
        if place % columns == 0:
            axes.set_ylabel("% of searches", fontsize=7)
    return finish_figure(figure)


def draw_tuned(rows: Sequence[Mapping[str, Any]]) -> str:
    """Default (hollow) and tuned (filled) of each model, joined by a line, with intervals (Table 6.2); "
    "SVG."""
    figure, axes = start_figure(7.2, 0.8 + 0.42 * len(rows))
    for place, row in enumerate(reversed(rows)):
        start, end = take_number(row, "default"), take_number(row, "tuned")
        axes.plot([start, end], [place, place], color=INK, linewidth=0.8, zorder=1)
        for name, height, filled in (("default", -0.13, False), ("tuned", 0.13, True)):
            ends = [take_number(row, name), take_number(row, f"{name}_low"), take_number(row, f"{name}_high")]
            _draw_mark(axes, place + height, ends, BAR, filled)
    axes.set_yticks(range(len(rows)), [escape_label(str(row.get("model"))) for row in reversed(rows)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("MRR: default settings (hollow), tuned on validation data (filled)", fontsize=8)
    return finish_figure(figure)


def draw_heaviest(importances: Mapping[str, Any], *, most: int = 20) -> str:
    """The heaviest features of all, and those that are not n-grams, side by side (Figures 6.2, 6.3); SVG.

    Of `importances` the lists `all` and `plain` are drawn, each of pairs of a feature and its weight.
    """
    titles = {"all": "all features", "plain": "features that are no n-grams"}
    parts = {title: list(importances[name])[:most] for name, title in titles.items() if importances.get(name)}
    if not parts:
        raise BadInput("there is no importance to draw. Got none.")
    deepest = max(len(rows) for rows in parts.values())
    figure, panels = start_panels(1, len(parts), 4.4, 0.7 + 0.19 * deepest)
    for axes, (title, rows) in zip(panels, parts.items(), strict=True):
        names = [escape_label(_shorten(str(name), 34)) for name, _ in rows]
        axes.barh(range(len(rows)), [float(weight) for _, weight in rows], color=BAR, height=0.72)
        axes.set_yticks(range(len(rows)), names, fontsize=7)
        axes.set_ylim(deepest - 0.4, -0.6)
        axes.set_title(title, fontsize=8, loc="left", color=INK, pad=3)
    return finish_figure(figure)


def draw_type_counts(types: Mapping[str, Mapping[str, float]]) -> str:
    """How often each type is shown and how often it is clicked, as shares (Figure 6.4); SVG."""
    ordered = sorted(types, key=lambda name: take_number(types[name], "shown"))
    figure, axes = start_figure(6.4, 0.8 + 0.42 * len(ordered))
    places = np.arange(len(ordered))
    for offset, key, word, colour in ((0.2, "shown", "shown", PALE), (-0.2, "clicked", "clicked", BAR)):
        counts = np.array([take_number(types[name], key) for name in ordered])
        shares = 100 * counts / max(np.nansum(counts), 1.0)
        bars = axes.barh(places + offset, np.nan_to_num(shares), height=0.38, color=colour, label=word)
        axes.bar_label(bars, [f"{count:,.0f}" for count in np.nan_to_num(counts)], fontsize=7, padding=2)
    axes.set_yticks(places, [escape_label(name) for name in ordered])
    axes.set_xlabel("% of all items shown, of all clicks; the number beside a bar is the count", fontsize=8)
    axes.margins(x=0.12)
    put_legend(axes)
    return finish_figure(figure)


def draw_training_curves(curves: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """A row a network: loss on the left, gradient norm on the right, the last value written out; SVG.

    These are Figures 6.5 to 6.14. Values that are not finite leave a gap; long curves are thinned to means of
    neighbouring steps.
    """
    if not curves:
        raise BadInput("there is no curve to draw. Got none.")
    figure, panels = start_panels(len(curves), 2, 4.3, 1.5)
    for number_of, (name, curve) in enumerate(curves.items()):
        for side, (key, word) in enumerate((("loss", "loss"), ("gradient", "gradient norm"))):
            axes = panels[2 * number_of + side]
            values = np.array(
                [np.nan if one is None else one for one in curve.get(key) or ()], dtype=np.float64
            )
            steps = np.asarray(curve.get("step") or np.arange(1, len(values) + 1), dtype=np.float64)
            count = min(len(steps), len(values))
            if not count:
                axes.text(0.5, 0.5, f"no {word} was kept", ha="center", va="center", transform=axes.transAxes,
                          fontsize=8)  # fmt: skip
                continue
            axes.plot(
                *average_points(steps[:count], values[:count]), color=BAR if side == 0 else HIT, linewidth=1.1
            )
            last = values[:count][np.isfinite(values[:count])]
            end = f"{last[-1]:.4g}" if len(last) else "not finite"
            axes.set_title(
                escape_label(_shorten(name, 34)) if side == 0 else "", fontsize=8, loc="left", pad=3
            )
            axes.set_title(f"{word} at the end: {end}", fontsize=7, loc="right", color=INK, pad=3)
    for axes in panels[-2:]:
        axes.set_xlabel("step", fontsize=8)
    return finish_figure(figure)


def draw_length_boxes(lengths: Mapping[str, Mapping[str, Sequence[float]]], *, deepest: int = DEEPEST) -> str:
    """Box plots of the query length at each rank of the clicked item, a panel a model (Figure 6.16); SVG.

    Boxes are quartiles with the median, whiskers reach to the farthest value within one and a half box
    heights, values beyond are not drawn; all ranks below `deepest` share the last box.
    """
    parts = {name: _pool_ranks(values, deepest) for name, values in lengths.items()}
    parts = {name: values for name, values in parts.items() if values}
    if not parts:
        raise BadInput("there is no length to draw. Got none.")
    figure, panels = start_panels(1, len(parts), max(3.2, 8.6 / len(parts)), 2.7, sharey=True)
    for axes, (name, values) in zip(panels, parts.items(), strict=True):
        axes.boxplot(
            list(values.values()), positions=list(values), widths=0.6, showfliers=False, patch_artist=True,
            boxprops={"facecolor": PALE, "edgecolor": BAR}, medianprops={"color": HIT, "linewidth": 1.5},
            whiskerprops={"color": BAR}, capprops={"color": BAR},
        )  # fmt: skip
        mark_ranks(axes, deepest)
        axes.set_xlim(0.3, deepest + 1.7)
        axes.set_title(escape_label(name), fontsize=8, loc="left", color=INK, pad=3)
        axes.set_xlabel("rank of the clicked item", fontsize=8)
    panels[0].set_ylabel("query length, characters", fontsize=8)
    return finish_figure(figure)


def draw_depth(rows: Sequence[Mapping[str, Any]]) -> str:
    """MRR against how many of the engine's results are re-ranked: engine, model, and the ceiling; SVG."""
    figure, axes = start_figure(6.0, 2.9)
    depths = [take_number(row, "k") for row in rows]
    places = np.arange(len(depths))
    lines = (("oracle", "ceiling: the best order there is", ":", "#4f7942"), ("model", "re-ranked", "-", BAR),
             ("engine", "engine", "--", INK))  # fmt: skip
    for key, word, style, colour in lines:
        values = np.array([take_number(row, key) for row in rows])
        if np.isfinite(values).any():
            axes.plot(places, values, style, marker="o", markersize=4, color=colour, label=word)
    axes.set_xticks(places, [f"{depth:g}" for depth in depths])
    axes.set(xlabel="engine's results that are re-ranked", ylabel="MRR")
    axes.margins(y=0.15)
    put_legend(axes, size=8)
    return finish_figure(figure)


def average_points(steps: Floats, values: Floats, most: int = MOST_POINTS) -> tuple[Floats, Floats]:
    """At most `most` points of a curve, each the mean of its neighbours; what is not finite is NaN.

    >>> steps, values = average_points(np.arange(4.0), np.array([1.0, 3.0, np.inf, 5.0]), most=2)
    >>> steps.tolist(), values.tolist()
    ([0.5, 2.5], [2.0, 5.0])
    """
    known = np.isfinite(values)
    groups = max(1, min(most, len(values)))
    starts = np.linspace(0, len(values), groups + 1).astype(np.int64)[:-1]
    counts = np.add.reduceat(known.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(known, values, 0.0), starts)
    sizes = np.diff([*starts, len(values)])
    means = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
    return np.add.reduceat(steps, starts) / sizes, means


def take_number(row: Mapping[str, Any], name: str) -> float:
    """A number of a row; NaN where it is missing or null."""
    value = row.get(name)
    return float("nan") if value is None or isinstance(value, str) else float(value)


def _draw_mark(axes: Any, place: float, ends: Sequence[float], colour: str, filled: bool) -> None:
    mean, low, high = ends
    if np.isfinite([low, high]).all():
        axes.plot([low, high], [place, place], color=colour, linewidth=2, alpha=0.35, solid_capstyle="butt")
    if np.isfinite(mean):
        inside = colour if filled else "white"
        axes.plot([mean], [place], "o", color=colour, markersize=5, markerfacecolor=inside)


def _share_ranks(values: Sequence[float], deepest: int) -> Floats:
    ranks = np.array([np.nan if one is None else one for one in values], dtype=np.float64)
    ranks = ranks[np.isfinite(ranks) & (ranks >= 1)]  # 0: nothing was clicked
    counts = np.bincount(np.minimum(ranks, deepest + 1).astype(np.int64), minlength=deepest + 2)[1:]
    return counts / max(len(ranks), 1)


def _pool_ranks(values: Mapping[str, Sequence[float]], deepest: int) -> dict[int, list[float]]:
    pooled: dict[int, list[float]] = {}
    for rank in sorted(values, key=float):
        pooled.setdefault(min(int(float(rank)), deepest + 1), []).extend(float(one) for one in values[rank])
    return {rank: lengths for rank, lengths in pooled.items() if lengths}


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


PLATFORM_COLOURS = (HIT, BAR, "#7d9a4f", "#8c6bb1", INK)


def draw_dark_days(part: Mapping[str, Any]) -> str:
    """The coverage of a feature that went dark, day by day, a line a platform; SVG."""
    figure, axes = start_figure(7.6, 2.2)
    _plot_days(axes, part)
    return finish_figure(figure)


def _plot_days(axes: Any, part: Mapping[str, Any]) -> None:
    from matplotlib import dates

    lines: dict[str, list[tuple[Any, float]]] = {}
    for row in part["daily"]:
        when = np.datetime64(str(row["window"])[:10]).astype("datetime64[ms]").astype(object)
        lines.setdefault(str(row["platform"]), []).append((when, 100.0 * take_number(row, "coverage")))
    for place, (name, points) in enumerate(lines.items()):
        days, shares = zip(*sorted(points), strict=True)
        colour = PLATFORM_COLOURS[place % len(PLATFORM_COLOURS)]
        # lines that stay lie on each other: dots let the one below be seen
        dots = "-" if place < 2 else (0, (1, 2))
        axes.plot(days, shares, color=colour, linewidth=2.4, linestyle=dots, label=escape_label(name))
    axes.set_ylim(-4, 104)
    axes.set_ylabel(escape_label(f"searches with {part['feature']}, %"), fontsize=8)
    untyped: Any = dates
    locator = untyped.AutoDateLocator(maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))
    put_legend(axes)


def write_demo_picture(path: str | Path, result: Mapping[str, Any], names: Sequence[str]) -> Path:
    """The demo in one picture: what each kind of searches gains, and the feature that went dark.

    `names` are those of the result's slices, in their order. `.png` or `.svg`. Needs the extra `report`.
    """
    rows = list(result["slices"])
    figure, (left, right) = start_panels(1, 2, 5.0, 3.7, width_ratios=(1.25, 1.0))
    for place, row in enumerate(rows):
        ends = [take_number(row, key) for key in ("difference", "low", "high")]
        colour = HIT if row.get("loses") else BAR if ends[1] > 0 else "#8795a1"
        left.plot(ends[1:], [place, place], color=colour, linewidth=2.2, alpha=0.45)
        left.plot(ends[:1], [place], "o", color=colour, markersize=5)
    left.axvline(0.0, color=INK, linewidth=0.8, linestyle="--", zorder=0)
    left.set_yticks(range(len(rows)), [escape_label(name) for name in names])
    left.set_title("Who wins, who loses", loc="left", fontsize=10, fontweight="bold")
    left.set_xlabel("MRR gained over the engine, 95 % intervals; grey: not shown, red: loses", fontsize=8)
    _plot_days(right, result["coverage"])
    right.legend(fontsize=8, frameon=False, loc="center left")
    right.set_title(f"{result['coverage']['feature']} goes dark", loc="left", fontsize=10, fontweight="bold")
    figure.suptitle("SIMULATED: placings demo", x=0.995, ha="right", fontsize=7, color="#8a4b08")
    return write_figure(figure, path)
