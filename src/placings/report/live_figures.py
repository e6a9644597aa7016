"""The figure of the loop over HTTP: week by week what people got through the service and without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from placings.core import BadInput
from placings.report.figures import COLOURS, INK, PALE, finish_figure, put_legend, start_panels

NAMES = {"served": "through the service", "bare": "the same people on the bare engine"}


def draw_weeks(weeks: Sequence[Mapping[str, Any]], *, goal: float | None = None) -> str:
    """MRR of both worlds week by week, and the gain, each within its interval; SVG.

    Each of `weeks` has `week`, `is_served`, and `served`, `bare` and `gain` as value, low and high. Weeks
    before the service are shaded; the dotted line is the goal.
    """
    if not weeks:
        raise BadInput("there is no week to draw. Got none.")
    figure, (left, right) = start_panels(1, 2, 3.9, 2.9)
    numbers = [int(week["week"]) for week in weeks]
    before = sum(not week["is_served"] for week in weeks)
    for number, (world, name) in enumerate(NAMES.items()):
        _draw_line(left, numbers, [week[world] for week in weeks], COLOURS[number], name)
    _draw_line(right, numbers, [week["gain"] for week in weeks], COLOURS[0], "gain")
    right.axhline(0.0, color=INK, linewidth=0.8, linestyle="--")
    if goal is not None:
        right.axhline(goal, color="#4f7942", linewidth=1.2, linestyle=":", label=f"goal, {goal:g}")
    for axes, words in ((left, "MRR on the place meant"), (right, "difference of the two")):
        if before:
            axes.axvspan(numbers[0] - 0.4, numbers[0] + before - 0.5, color=PALE, alpha=0.4, linewidth=0)
        axes.set_xticks(numbers)
        axes.set_xlabel("week (shaded: before the service)", fontsize=8)
        axes.set_ylabel(words, fontsize=8)
        put_legend(axes, columns=1 if axes is left else 2)
    return finish_figure(figure)


def _draw_line(
    axes: Any, numbers: Sequence[int], found: Sequence[Sequence[float]], colour: str, name: str
) -> None:
    value, low, high = np.asarray(found, dtype=np.float64).T
    axes.fill_between(numbers, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(numbers, value, marker="o", markersize=3.5, linewidth=1.3, color=colour, label=name)
