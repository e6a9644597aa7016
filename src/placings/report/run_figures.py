"""Runs as pictures: a training's losses and rates by step, and a search for parameters by trial."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import AnyArray, BadInput, Floats
from placings.evaluation import Tuning
from placings.report.figures import (
    BAR,
    INK,
    PALE,
    check_suffix,
    finish_figure,
    put_legend,
    start_figure,
    start_panels,
    write_figure,
)

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


BINS = 4
FEWEST = 20  # complete trials from which on it is said what mattered
SHUFFLES = 200


def draw_tuning(tuning: Tuning) -> str:
    """SVG text: one dot a trial, the best so far as a line, and from 20 complete trials on what mattered.

    Pruned trials are crosses at the mean they had when they were pruned; failed ones are marks at the
    bottom, for they have no value. What mattered is `weigh_parameters`; bars that do not pass the dashed
    line, `find_chance`, are pale: parameters without any effect reach that far.
    """
    shares = weigh_parameters(tuning)
    figure, axes = start_figure(8.6 if shares else 5.6, 3.0)
    if shares:
        figure.clear()
        axes, side = figure.subplots(1, 2, width_ratios=[3, 2])
        for each in (axes, side):
            each.spines[["top", "right"]].set_visible(False)
            each.tick_params(labelsize=8)
        _draw_shares(side, shares, find_chance(tuning))
    rows = {state: [row for row in tuning.trials if row.state == state] for state in ("complete", "pruned")}
    for state, marker, colour in (("pruned", "x", PALE), ("complete", "o", BAR)):
        places = [row.number for row in rows[state]]
        axes.plot(places, [row.value for row in rows[state]], marker, color=colour, markersize=4, label=state)
    places, best = _best_so_far(tuning)
    axes.step(places, best, where="post", color=INK, linewidth=1, label="best so far")
    failed = [row.number for row in tuning.trials if row.state == "failed"]
    if failed:
        bottom = axes.get_xaxis_transform()  # heights as shares of the axes
        axes.plot(
            failed, [0.0] * len(failed), "|", color=INK, transform=bottom, clip_on=False, label="failed"
        )
    axes.set(xlabel="trial", ylabel=tuning.metric)
    put_legend(axes, columns=4)
    return finish_figure(figure)


def weigh_parameters(tuning: Tuning) -> dict[str, float]:
    """How much of the values' variance lies between four bins of each parameter, largest first.

    This is η², adjusted for the number of bins and cut at 0: a first look, one parameter at a time, to be
    read beside `find_chance`. With few complete trials, or all of one value, the answer is empty.
    """
    shares = {name: _explain(bins, values) for name, (bins, values) in _list_bins(tuning).items()}
    return dict(sorted(shares.items(), key=lambda entry: -entry[1]))


def find_chance(tuning: Tuning) -> float:
    """The share that the largest of parameters without effect passes in one search of twenty.

    The values are dealt out anew to the trials, 200 times, and the largest share of any parameter is noted:
    this is the 95th percentile. With ten parameters and 20 trials it is near 0.46, with 100 near 0.10. It
    holds for random and grid search; TPE tries good values more often, so there it is a guide only.
    """
    binned = _list_bins(tuning)
    if not binned:
        return float("nan")
    rng = np.random.default_rng(0)
    largest = [
        max(_explain(bins, rng.permutation(values)) for bins, values in binned.values())
        for _ in range(SHUFFLES)
    ]
    return float(np.quantile(largest, 0.95))


def _list_bins(tuning: Tuning) -> dict[str, tuple[AnyArray, AnyArray]]:
    """Each parameter's bins and the values beside them, of the complete trials that have it."""
    done = [row for row in tuning.trials if row.state == "complete"]
    values = np.array([row.value for row in done], dtype=np.float64)
    if len(done) < FEWEST or float(np.ptp(values)) == 0.0:
        return {}
    found = {}
    for name in tuning.space:
        known = np.array([name in row.params for row in done])
        tried = [row.params[name] for row in done if name in row.params]
        if int(known.sum()) >= FEWEST - 1 and len(set(tried)) > 1:  # the first trial may lack it
            found[name] = (_bin_values(tried), values[known])
    return found


def _explain(bins: AnyArray, values: AnyArray) -> float:
    total = float(((values - values.mean()) ** 2).sum())
    if total == 0.0:
        return 0.0
    groups = [values[bins == each] for each in np.unique(bins)]
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return max(0.0, 1.0 - (within / (len(values) - len(groups))) / (total / (len(values) - 1)))


def _bin_values(tried: list[Any]) -> AnyArray:
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in tried)
    if not numbers or len(set(tried)) <= BINS:
        return np.unique(np.array([repr(value) for value in tried]), return_inverse=True)[1]
    line = np.array(tried, dtype=np.float64)
    return np.searchsorted(np.quantile(line, np.arange(1, BINS) / BINS), line)


def _best_so_far(tuning: Tuning) -> tuple[list[int], AnyArray]:
    done = [row for row in tuning.trials if row.state == "complete"]
    values = np.array([row.value for row in done], dtype=np.float64)
    best = np.maximum.accumulate(values) if tuning.maximize else np.minimum.accumulate(values)
    last = max(row.number for row in tuning.trials)
    return [*(row.number for row in done), last], np.append(best, best[-1])


def _draw_shares(axes: Any, shares: dict[str, float], chance: float) -> None:
    names = list(shares)[::-1]
    axes.barh(
        names, [shares[name] for name in names], color=[BAR if shares[n] > chance else PALE for n in names]
    )
    axes.axvline(chance, color=INK, linewidth=1, linestyle="--")
    axes.set(xlabel="share of variance (dashed: chance)", xlim=(0, 1))
