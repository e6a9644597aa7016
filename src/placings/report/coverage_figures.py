"""Coverage as pictures: its days and ages, what a loss costs, importances before and after, the risk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput
from placings.feco import WHERE, Degradation
from placings.report.figures import (
    BAR,
    COLOURS,
    INK,
    PALE,
    STYLES,
    escape_label,
    finish_figure,
    put_legend,
    start_figure,
    start_panels,
)

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco import Alerts, Risk


def draw_degradation(found: Degradation, metric: str | None = None) -> str:
    """The loss in percent against the drop in coverage, one line a feature and place, with its interval; SVG.

    Lines of what was retrained are dashed. Needs matplotlib.
    """
    name = metric or found.metrics[0]
    losses = [each for each in found.losses if each.metric == name]
    if not losses:
        raise BadInput(f"no loss of {name!r} to draw; there are {', '.join(found.metrics)}.")
    figure, axes = start_figure(7.2, 3.6)
    features = list(dict.fromkeys(each.feature for each in losses))
    for where in found.baseline:
        for number, feature in enumerate(features):
            line = [each for each in losses if (each.feature, each.where) == (feature, where)]
            if not line:
                continue
            scale = 100.0 / abs(line[0].full) if line[0].full else np.nan
            middle = np.array([each.percent for each in line])
            ends = np.array([[each.low * scale, each.high * scale] for each in line]).T
            drops = np.array([100.0 * each.drop for each in line])
            shown = axes.errorbar(
                drops + 0.25 * (number - len(features) / 2), middle, yerr=np.abs(ends - middle), capsize=2,
                color=COLOURS[number % len(COLOURS)], linestyle=STYLES[where != "test"], marker=".",
                linewidth=1,
            )  # fmt: skip
            label = feature if where == next(iter(found.baseline)) else f"{feature}, retrained"
            shown.set_label(label.replace("$", r"\$"))
    axes.axhline(0.0, color=INK, linewidth=0.6)
    where_said = " and ".join(WHERE[where] for where in found.baseline)
    axes.set(xlabel=f"drop in coverage, % ({where_said})", ylabel=f"{name} lost, %")
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return finish_figure(figure)


def draw_importances(importances: pd.DataFrame, masked: str, drop: float, *, top: int = 15) -> str:
    """Importances before (pale) and after retraining on masked data, the most important first; SVG.

    `importances` is what `Degradation.importances()` gives: the paper's Figures 1 and 2 in one.
    """
    chosen = importances[(importances["masked"] == masked) & (importances["drop"] == drop)]
    if not len(chosen):
        raise BadInput(f"no importances after masking {masked!r} by {drop:g}.")
    chosen = chosen.sort_values("before", ascending=False)
    shown = chosen.head(top)
    if masked not in set(shown["feature"]):
        places_kept = [*range(top - 1), list(chosen["feature"]).index(masked)]
        shown = chosen.iloc[places_kept]
    figure, axes = start_figure(6.4, 0.9 + 0.3 * len(shown))
    places = np.arange(len(shown))[::-1]
    axes.barh(places + 0.2, shown["before"], height=0.38, color=PALE, label="full data")
    axes.barh(places - 0.2, shown["after"], height=0.38, color=BAR, label=f"{masked} dropped by {drop:.0%}")
    axes.set_yticks(places, [str(name).replace("$", r"\$") for name in shown["feature"]])
    axes.set(xlabel="importance")
    put_legend(axes, columns=2, size=8)
    return finish_figure(figure)


def draw_risk(risk: Risk, *, top: int = 15) -> str:
    """Coverage at risk: what each feature costs today, with its interval, and the total; SVG."""
    rows = [*risk.features[:top], risk.total]
    figure, axes = start_figure(6.4, 0.9 + 0.3 * len(rows))
    for place, row in enumerate(reversed(rows)):
        whole = row is risk.total
        axes.barh(place, row.lost, height=0.6, color=INK if whole else BAR)
        if not np.isnan(row.low):
            axes.plot([row.low, row.high], [place, place], color="#c8553d", linewidth=1.5)
    axes.set_yticks(range(len(rows)), [row.feature.replace("$", r"\$") for row in reversed(rows)])
    axes.axvline(0.0, color=INK, linewidth=0.6)
    axes.set(xlabel=f"{risk.metric} lost today (line: {risk.settings['level']:.0%} interval)")
    return finish_figure(figure)


HIT = "#c8553d"
WIDE = 3  # panels side by side
LONGEST = 40  # letters of a panel's title


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
        axes.set_title(escape_label(shorten_middle(name)), fontsize=8, loc="left", color=INK, pad=2)
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
        axes.set_title(escape_label(shorten_middle(name)), fontsize=8, loc="left", color=INK, pad=2)
        if across == "window":
            _mark_days(axes)
        else:
            axes.set_xlabel("days since launch", fontsize=7)
    if group is not None:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, fontsize=7, frameon=False, loc="outside lower left", ncols=6)
    for axes in panels[len(names) :]:
        axes.set_visible(False)
    return finish_figure(figure)


def shorten_middle(name: str, most: int = LONGEST) -> str:
    """A name that fits over its panel; begin and end tell names apart, so the middle goes.

    >>> shorten_middle("clicks_of_the_last_thirty_days_in_this_shop_v2", 21)
    'clicks_of_…is_shop_v2'
    """
    if len(name) <= most:
        return name
    half = (most - 1) // 2
    return f"{name[: most - 1 - half]}…{name[-half:]}"


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
