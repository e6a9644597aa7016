"""An experiment's figure: differences to the control over time, with their confidence sequences."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import numpy as np

from placings.core import BadInput, Floats
from placings.evaluation import ConfidenceSequence
from placings.report.figures import COLOURS, INK, escape_label, finish_figure, put_legend, start_panels


def draw_sequences(metrics: Mapping[str, Mapping[str, tuple[Floats, ConfidenceSequence]]]) -> str:
    """One panel a metric, one line an arm: the estimate at each look within its interval; SVG.

    `metrics` holds for each metric and arm the times of the looks, in seconds since 1970, and the sequence.
    Looks without an interval are left out. The vertical axis shows what the later half of the looks need:
    the first intervals are so wide that nothing else would be seen.
    """
    if not metrics:
        raise BadInput("there is no difference to draw. Got an empty mapping.")
    figure, panels = start_panels(1, len(metrics), 3.4, 2.8)
    for axes, (metric, arms) in zip(panels, metrics.items(), strict=True):
        ends = []
        for number, (name, (times, found)) in enumerate(arms.items()):
            known = np.isfinite(found.lows)
            if not known.any():
                continue
            colour = COLOURS[number % len(COLOURS)]
            moments = [datetime.fromtimestamp(float(each), UTC) for each in times[known]]
            label = f"{escape_label(name)} ({int(found.counts[-1]):,} people)"
            axes.fill_between(
                moments, found.lows[known], found.highs[known], color=colour, alpha=0.2, linewidth=0
            )
            axes.plot(moments, found.estimates[known], color=colour, linewidth=1.2, label=label)
            late = slice(int(known.sum()) // 4, None)
            ends += [float(found.lows[known][late].min()), float(found.highs[known][late].max())]
        axes.axhline(0.0, color=INK, linewidth=0.8, linestyle="--")
        axes.set_title(metric, fontsize=9, loc="left", color=INK, pad=16)
        if ends:
            low, high = min([*ends, 0.0]), max([*ends, 0.0])
            axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
            axes.xaxis.set_major_locator(_make_locator())
            axes.tick_params(axis="x", labelrotation=30)
            put_legend(axes, columns=1)
        else:
            axes.text(0.5, 0.5, "too few people", ha="center", transform=axes.transAxes, fontsize=8)
    panels[0].set_ylabel("difference to the control", fontsize=8)
    return finish_figure(figure)


def _make_locator() -> object:
    from matplotlib.dates import AutoDateLocator

    return AutoDateLocator(maxticks=5)  # type: ignore[no-untyped-call]
