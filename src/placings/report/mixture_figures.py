"""Figure 2: which transforms a mixture chose for which feature; and the curve that each feature learned."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placings.arrays import AnyArray, Floats
from placings.data.ranking import RankingData
from placings.errors import BadInput, UnknownName
from placings.report.claims import FIGURE_2, find_named
from placings.report.figure_files import check_suffix, escape_label, start_panels, write_figure
from placings.report.figures import BAR, INK, start_figure
from placings.report.mixture_shares import MixtureShares, gather_shares, name_columns
from placings.report.rank_figures import COLOURS

MOST_ROWS = 25  # features drawn when none are named
MOST_CURVES = 12
LEAST_SHARE = 0.01  # of a part that is drawn
MIXED = "#a9c4d8"
PART_COLOURS = COLOURS[1:]
LEAST_DECADES = 2.0  # orders of magnitude in a feature's range from which on its axis is a logarithm


def draw_mixture(
    ranker_or_weights: Any,
    path: str | Path,
    features: Sequence[str] | None = None,
    *,
    basis: Sequence[str] | None = None,
    title: str | None = None,
) -> Path:
    """The mixture's shares as a heat map, one row a feature and one column a transform: the paper's Figure 2.

    `ranker_or_weights` is a ranker fitted with `transform="mixture"`, a fitted Mixture, a DataFrame
    (features × transforms) or a mapping with `basis`. Without `features`, data with WEB30K's names show the
    seven features that the paper's text names of its figure, in its order; other data all features if they
    are few, else the 25 that are furthest from using every transform alike. Writes `.svg` or `.png` and
    returns the path; needs matplotlib.
    """
    check_suffix(path)
    found = gather_shares(ranker_or_weights, basis)
    shown = found.select(choose_features(found) if features is None else features)
    longest = max(len(name) for name in shown.features)
    width = 1.2 + 0.065 * longest + 0.75 * len(shown.basis)
    figure, axes = start_figure(width, 0.9 + 0.28 * len(shown.features))
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("placings", ["#ffffff", BAR])
    axes.imshow(shown.shares, cmap=colours, vmin=0.0, vmax=1.0, aspect="auto")
    for row, values in enumerate(shown.shares):
        for column, share in enumerate(values):
            colour = "#ffffff" if share > 0.6 else INK
            axes.text(column, row, f"{share:.2f}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(shown.basis)), [escape_label(name) for name in shown.basis])
    axes.set_yticks(range(len(shown.features)), [escape_label(name) for name in shown.features])
    axes.tick_params(length=0, top=True, labeltop=True, bottom=False, labelbottom=False)
    axes.spines[:].set_visible(False)
    if title:
        axes.set_title(escape_label(title), fontsize=9, color=INK)
    return write_figure(figure, path)


def choose_features(found: MixtureShares) -> list[str]:
    """The features a figure shows when none are named; see `draw_mixture`."""
    named = find_named(found.features)
    if len(named) == len(FIGURE_2):
        return named
    names = np.array(found.features, dtype=object)
    distance = np.abs(found.shares - 1.0 / len(found.basis)).sum(axis=1)
    chosen = np.arange(len(names))
    if len(names) > MOST_ROWS:
        chosen = np.sort(np.argsort(-distance, kind="stable")[:MOST_ROWS])
    largest = found.shares.argmax(axis=1)
    order = np.lexsort((-found.shares.max(axis=1)[chosen], largest[chosen]))
    return [str(name) for name in names[chosen[order]]]


def draw_curves(
    ranker: Any,
    path: str | Path,
    features: Sequence[str] | None = None,
    *,
    data: RankingData | None = None,
    points: int = 200,
) -> Path:
    """What each feature's learned transform gives for each raw value, from its smallest to its largest.

    `ranker` is a fitted NeuralRanker or a fitted Transform. A mixture is the thick pale line, and the thin
    ones are its parts, each times its share; parts below 1 % are left out. Features whose values spread over
    two orders of magnitude have a symmetric logarithm as their axis. Without `features`, WEB30K's are those
    of Figure 2, other data's the first twelve of what `draw_mixture` shows. A ranker that was loaded from a
    bundle does not know the range of its features: give it `data`. A column of a vector group has no curve
    and is refused.
    """
    from placings.transforms.curves import trace_curves

    check_suffix(path)
    transform = getattr(ranker, "transform_", ranker)
    known = name_columns(ranker)
    grid = None if data is None else _space_grid(data, known, points)
    curves = trace_curves(transform, points=points, grid=grid)
    shares = gather_shares(ranker) if curves.basis else None
    if features is None:
        names = list(known[:MOST_CURVES]) if shares is None else choose_features(shares)[:MOST_CURVES]
    else:
        names = [str(name) for name in features]
    places = {name: place for place, name in enumerate(known)}
    for name in names:
        if name not in places:
            raise UnknownName("feature", name, known)
        if np.isnan(curves.y[places[name]]).all():
            raise BadInput(
                f"{name!r} is a coordinate of a vector, which is transformed as a whole: no curve."
            )
    columns = min(4, len(names))
    figure, panels = start_panels(-(-len(names) // columns), columns, 2.4, 1.9)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, names, strict=False):
        place = places[name]
        x, y = curves.x[place], curves.y[place]
        axes.plot(x, y, color=BAR if shares is None else MIXED, linewidth=1.5 if shares is None else 4.0)
        if shares is not None:
            for number, part in enumerate(curves.parts[place]):
                share = float(shares.shares[place, number])
                if share >= LEAST_SHARE:
                    axes.plot(x, share * part, color=PART_COLOURS[number % len(PART_COLOURS)], linewidth=1.0)
        _choose_axis(axes, x)
        axes.set_title(escape_label(_shorten(name)), fontsize=7.5, color=INK)
    if shares is not None:
        _add_legend(figure, shares.basis)
    return write_figure(figure, path)


def _space_grid(data: RankingData, names: Sequence[str], points: int) -> Floats:
    from placings.data.alignment import align_features

    X: Any = align_features(data, tuple(names)).X
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    there = ~np.isnan(rows).all(axis=0)
    low, high = np.zeros(rows.shape[1]), np.zeros(rows.shape[1])
    low[there], high[there] = np.nanmin(rows[:, there], axis=0), np.nanmax(rows[:, there], axis=0)
    first, last = (np.sign(end) * np.log1p(np.abs(end)) for end in (low, high))
    spaced = np.linspace(first, last, points, axis=1)
    return np.asarray(np.sign(spaced) * np.expm1(np.abs(spaced)))


def _choose_axis(axes: Any, x: AnyArray) -> None:
    """A symmetric logarithm, straight within ±1, where the values spread over orders of magnitude."""
    low, high = (float(np.sign(end) * np.log10(1.0 + abs(end))) for end in (x.min(), x.max()))
    if high - low < LEAST_DECADES:
        return
    powers = [10.0**power for power in range(39)]
    ticks = [tick for tick in (*(-p for p in reversed(powers)), 0.0, *powers) if x.min() <= tick <= x.max()]
    from matplotlib.ticker import NullLocator

    axes.set_xscale("symlog", linthresh=1.0, linscale=0.5)
    apart = -(-len(ticks) // 5)
    first = ticks.index(0.0) % apart if 0.0 in ticks else 0
    axes.set_xticks(ticks[first::apart])
    axes.xaxis.set_minor_locator(NullLocator())


def _add_legend(figure: Any, basis: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=MIXED, linewidth=4.0, label="mixture")]
    for number, name in enumerate(basis):
        colour = PART_COLOURS[number % len(PART_COLOURS)]
        lines.append(Line2D([], [], color=colour, linewidth=1.0, label=f"{escape_label(name)} × its share"))
    figure.legend(
        handles=lines, loc="outside lower center", ncols=min(5, len(lines)), fontsize=7, frameon=False
    )


def _shorten(name: str, most: int = 34) -> str:
    """A name on two lines if it is long, and cut if it is longer than that."""
    if len(name) <= most:
        return name
    cut = name.rfind(" ", 0, most)
    cut = most if cut < most // 2 else cut
    rest = name[cut:].strip()
    return f"{name[:cut]}\n{rest if len(rest) <= most else rest[: most - 1] + '…'}"
