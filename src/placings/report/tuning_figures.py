"""A search for parameters as a picture: the value of each trial, the best so far, what mattered."""

from __future__ import annotations

from typing import Any

import numpy as np

from placings.core import AnyArray
from placings.evaluation import Tuning
from placings.report.figures import BAR, INK, PALE, finish_figure, put_legend, start_figure

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
