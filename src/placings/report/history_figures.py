"""A training run as a picture: loss, gradient norm, learning rate and validation metric of each step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import BadInput, Floats
from placings.report.figures import BAR, INK, PALE, check_suffix, start_panels, write_figure

MOST_POINTS = 500  # of a line; of more steps, so many groups are drawn as mean and range


def draw_history(ranker_or_history: Any, path: str | Path) -> Path:
    """Four panels below each other: loss, gradient norm, learning rate, and the metric on validation data.

    Takes a fitted NeuralRanker (its `history_`) or a History. Above 500 steps a line is the mean of
    neighbouring steps, with their range as a pale band. The best check is marked; without validation data
    its panel is left out. Writes `.svg` or `.png` and returns the path; needs matplotlib.
    """
    check_suffix(path)
    history = getattr(ranker_or_history, "history_", ranker_or_history)
    if not hasattr(history, "loss") or not hasattr(history, "checks"):
        raise BadInput(
            f"a history comes from a fitted NeuralRanker. Got {type(ranker_or_history).__name__} without one."
        )
    if not history.loss:
        raise BadInput("the history is empty: no step was taken.")
    checked = bool(history.checks)
    figure, panels = start_panels(4 if checked else 3, 1, 6.4, 1.35, sharex=True)
    _draw_steps(panels[0], history.loss, "loss")
    _draw_steps(panels[1], history.gradient, "gradient norm", log=True)
    _draw_steps(panels[2], history.lr, "learning rate")
    panels[2].set_ylim(0.0, 1.1 * max(history.lr, default=1.0) or 1.0)
    if checked:
        steps, values = zip(*history.checks, strict=True)
        panels[3].plot(steps, values, color=BAR, linewidth=1.2, marker="." if len(steps) <= 60 else None)
        best = dict(history.checks).get(history.best_step)
        if best is not None:
            panels[3].plot([history.best_step], [best], "o", color=INK, markersize=4)
            panels[3].set_title(
                f"best: {best:.4f} at step {history.best_step:,}", loc="right", fontsize=7, color=INK
            )
        panels[3].set_ylabel(f"valid {history.metric or 'metric'}", fontsize=8)
    panels[-1].set_xlabel("step", fontsize=8)
    figure.align_ylabels(panels)
    return write_figure(figure, path)


def _draw_steps(axes: Any, values: Sequence[float], label: str, *, log: bool = False) -> None:
    steps, mean, low, high = thin_out(values)
    if len(values) > MOST_POINTS:
        axes.fill_between(steps, low, high, color=PALE, linewidth=0)
    axes.plot(steps, mean, color=BAR, linewidth=1.2)
    if log and (low > 0.0).all() and high.max() > 10.0 * low.min():
        from matplotlib.ticker import NullFormatter

        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(label, fontsize=8)


def thin_out(values: Sequence[float], most: int = MOST_POINTS) -> tuple[Floats, Floats, Floats, Floats]:
    """Steps (from 1), and the mean, least and largest value of groups of neighbours, at most `most` of them.

    >>> steps, mean, low, high = thin_out([1.0, 3.0, 5.0, 9.0], most=2)
    >>> steps.tolist(), mean.tolist(), low.tolist(), high.tolist()
    ([1.5, 3.5], [2.0, 7.0], [1.0, 5.0], [3.0, 9.0])
    """
    line = np.asarray(values, dtype=np.float64)
    places = np.arange(1, len(line) + 1, dtype=np.float64)
    groups = max(1, min(most, len(line)))
    starts = np.linspace(0, len(line), groups + 1).astype(np.int64)[:-1]
    counts = np.diff([*starts, len(line)])
    return (
        np.add.reduceat(places, starts) / counts,
        np.add.reduceat(line, starts) / counts,
        np.minimum.reduceat(line, starts),
        np.maximum.reduceat(line, starts),
    )
