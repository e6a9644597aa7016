"""Coverage's cost as pictures: loss against drop, importances before and after, coverage at risk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from placings.errors import BadInput
from placings.feco.effects import WHERE, Degradation
from placings.report.figures import BAR, INK, PALE, finish_figure, put_legend, start_figure
from placings.report.rank_figures import COLOURS, STYLES

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco.exposure import Risk


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
