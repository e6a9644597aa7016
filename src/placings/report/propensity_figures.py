"""How often each rank is looked at, as a curve with its interval."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput
from placings.logs import PropensityCurve
from placings.report.figures import (
    COLOURS,
    INK,
    check_suffix,
    escape_label,
    put_legend,
    start_figure,
    write_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_propensity_figure(
    path: str | PathLike[str],
    curves: PropensityCurve | Mapping[str, PropensityCurve],
    *,
    truth: ArrayLike | None = None,
    title: str = "",
) -> Path:
    """Draw curves with their intervals into a `.svg` or `.png` file; `truth` `[ranks]` is drawn as a line.

    A single curve is named by its method and by what it rests on. Needs matplotlib.
    """
    check_suffix(Path(path))
    given = curves if isinstance(curves, Mapping) else {f"{curves.method}, by {curves.rests_on}": curves}
    return write_figure(draw_propensities(given, truth=truth, title=title), Path(path))


def draw_propensities(
    curves: Mapping[str, PropensityCurve], *, truth: ArrayLike | None = None, title: str = ""
) -> Figure:
    """A figure with one curve for each name, on a scale of ratios, since ratios are what is estimated."""
    if not curves:
        raise BadInput("there is no curve to draw. Got an empty mapping.")
    figure, axes = start_figure(6.4, 3.4)
    last = max(int(curve.ranks[-1]) for curve in curves.values())
    step = 0.5 / max(len(curves), 1)
    lowest = 1.0
    for number, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = curve.ranks + (number - (len(curves) - 1) / 2.0) * step
        # an interval that knows nothing would leave no room for the others
        low, high = np.maximum(curve.low, curve.values / 30.0), np.minimum(curve.high, curve.values * 30.0)
        ends = np.stack([curve.values - low, high - curve.values])
        axes.errorbar(
            places, curve.values, yerr=ends, fmt=".", color=colour, capsize=2, linewidth=1.0,
            label=escape_label(name),
        )  # fmt: skip
        lowest = min(lowest, float(low.min()))
    if truth is not None:
        known = np.asarray(truth, dtype=np.float64)
        axes.plot(np.arange(1, len(known) + 1), known, color=INK, linewidth=0.8, label="truth", zorder=0)
        lowest = min(lowest, float(known.min()))
    axes.set_yscale("log")
    ticks = [tick for tick in (0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if tick >= lowest / 2.0]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks], minor=False)
    axes.minorticks_off()
    axes.set_xticks(np.arange(1, last + 1) if last <= 20 else np.arange(5, last + 1, 5))
    axes.set(xlabel="rank", ylabel="looked at, relative to rank 1")
    if title:
        axes.set_title(escape_label(title), fontsize=9, loc="left", color=INK, pad=18)
    put_legend(axes, columns=2 if len(curves) > 1 or truth is not None else 1)
    return figure
