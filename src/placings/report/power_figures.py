"""The power of a gate: which candidates a log of this kind lets pass, by its length."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from placings.report.figures import COLOURS, INK, put_legend, start_figure, write_figure

if TYPE_CHECKING:
    from placings.rerank import WouldHave


def write_power(result: WouldHave, path: str | Path) -> Path:
    """The probability to pass over the number of searches, a line for each true difference; `.png` or `.svg`.

    A dotted line stands at this log's length, a dashed one at the error that the level allows.
    """
    figure, axes = start_figure(6.4, 3.4)
    times = np.geomspace(1 / 16, 64, 60)
    searches = times * result.overall.searches
    effects = sorted({each["effect"] for each in result.to_dict()["power"]})
    for number, effect in enumerate(effects):
        chances = [result.find_power(effect, each) for each in times]
        axes.plot(searches, chances, color=COLOURS[number % len(COLOURS)], label=f"truly {effect:+g}")
    axes.axhline(1.0 - result.level, color=INK, linewidth=0.8, linestyle="--")
    axes.axvline(result.overall.searches, color=INK, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set(
        xlabel="searches in the log (dotted: this one)", ylabel="probability to pass", ylim=(-0.02, 1.02)
    )
    put_legend(axes, columns=len(effects))
    return write_figure(figure, path)
