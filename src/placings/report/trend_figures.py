"""Coverage over time as pictures: raw days with their moving average, old against new items, cold starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.errors import BadInput
from placings.report.figure_files import escape_label, start_panels
from placings.report.figures import BAR, INK, PALE, finish_figure
from placings.report.rank_figures import COLOURS

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco.alerts import Alerts

HIT = "#c8553d"
WIDE = 3  # panels side by side


def draw_trends(
    whole: pd.DataFrame,
    segments: pd.DataFrame | None = None,
    *,
    by: Sequence[str] = (),
    alerts: Alerts | None = None,
    features: Sequence[str] | None = None,
) -> str:
    """One panel a feature: raw windows as dots, the moving average as a line, segments pale; SVG.

    `whole` is the frame of `measure_trend` over everything, `segments` that of each segment. Windows without
    events leave a gap. Segments that an incident names are red while it lasts, and its windows are shaded.
    """
    names = list(features if features is not None else dict.fromkeys(whole["feature"]))
    if not names:
        raise BadInput("there is no feature to draw. Got none.")
    rows = -(-len(names) // WIDE)
    figure, panels = start_panels(rows, min(WIDE, len(names)), 3.4, 1.55)
    for axes, name in zip(panels, names, strict=False):
        part = whole[whole["feature"] == name]
        if segments is not None and len(by):
            own = segments[segments["feature"] == name]
            for values, line in own.groupby(list(by), sort=False, dropna=False):
                colour = HIT if _is_hit(alerts, name, dict(zip(by, values, strict=True))) else PALE
                axes.plot(line["window"], 100 * line["coverage"], color=colour, linewidth=0.7, zorder=1)
        axes.plot(
            part["window"], 100 * part["coverage"], ".", color=BAR, markersize=2.5, alpha=0.55, zorder=2
        )
        axes.plot(part["window"], 100 * part["average"], color=BAR, linewidth=1.6, zorder=3)
        for first, last in _list_spans(alerts, name):
            axes.axvspan(first, last, color=HIT, alpha=0.12, linewidth=0, zorder=0)
        axes.set_ylim(0, 103)
        axes.set_title(escape_label(name), fontsize=8, loc="left", color=INK, pad=2)
        _mark_days(axes)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    return finish_figure(figure)


def draw_ages(frame: pd.DataFrame, *, features: Sequence[str] | None = None) -> str:
    """Coverage of old (line) against new items (dashes) over time, a panel a feature: Figure 3; SVG.

    `frame` is what `compare_ages` gives: feature, age, window, coverage, low, high. Bands are intervals.
    """
    return _draw_groups(frame, "age", "window", features, {"old": (BAR, "-"), "new": (HIT, "--")})


def draw_launches(
    frame: pd.DataFrame, *, features: Sequence[str] | None = None, of: str | None = None
) -> str:
    """Coverage against days since launch, a panel a feature, a line for each value of `of`; SVG.

    `frame` is what `trace_launch` gives.
    """
    styles = {}
    if of is not None:
        values = list(dict.fromkeys(frame[of]))
        styles = {value: (COLOURS[place % len(COLOURS)], "-") for place, value in enumerate(values)}
    return _draw_groups(frame, of, "days_since_launch", features, styles)


def _draw_groups(
    frame: pd.DataFrame,
    group: str | None,
    across: str,
    features: Sequence[str] | None,
    styles: dict[Any, Any],
) -> str:
    names = list(features if features is not None else dict.fromkeys(frame["feature"]))
    if not names:
        raise BadInput("there is no feature to draw. Got none.")
    rows = -(-len(names) // WIDE)
    figure, panels = start_panels(rows, min(WIDE, len(names)), 3.4, 1.7)
    for axes, name in zip(panels, names, strict=False):
        part = frame[frame["feature"] == name]
        lines = [("", part)] if group is None else list(part.groupby(group, sort=False))
        for value, line in lines:
            colour, style = styles.get(value, (BAR, "-"))
            label = escape_label(str(value)) if group is not None else None
            axes.fill_between(line[across], 100 * line["low"], 100 * line["high"], color=colour, alpha=0.15)
            axes.plot(line[across], 100 * line["coverage"], style, marker=".", color=colour, label=label)
        axes.set_ylim(0, 103)
        axes.set_title(escape_label(name), fontsize=8, loc="left", color=INK, pad=2)
        if across == "window":
            _mark_days(axes)
        else:
            axes.set_xlabel("days since launch", fontsize=7)
    if group is not None:
        marks, words = panels[0].get_legend_handles_labels()
        figure.legend(marks, words, fontsize=7, frameon=False, loc="outside upper right", ncols=6)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    return finish_figure(figure)


def _mark_days(axes: Any) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=2, maxticks=5)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    shown = ConciseDateFormatter(locator, show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(shown)


def _list_spans(alerts: Alerts | None, feature: str) -> list[tuple[Any, Any]]:
    """Begin and end of the incidents of a feature, for shading; half a window around each."""
    if alerts is None or len(alerts.windows) < 2:
        return []
    half = (np.datetime64(alerts.windows[1]) - np.datetime64(alerts.windows[0])) / 2
    return [
        (np.datetime64(incident.onset) - half, np.datetime64(incident.last) + half)
        for incident in alerts.incidents
        if feature in incident.features
    ]


def _is_hit(alerts: Alerts | None, feature: str, segment: dict[str, Any]) -> bool:
    if alerts is None:
        return False
    for incident in alerts.incidents:
        if feature in incident.features and any(
            all(str(segment.get(key)) == str(value) for key, value in each.items()) and each
            for each in incident.segments
        ):
            return True
    return False
