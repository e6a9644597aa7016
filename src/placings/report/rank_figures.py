"""Where the first relevant item stands, as a figure: one line a method."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from placings.errors import BadInput
from placings.report.figures import BAR, finish_figure, set_legend, start_figure

COLOURS = (BAR, "#c8553d", "#4f7942", "#8e5ea2", "#b8860b", "#5f6b73")
STYLES = ("-", "--", "-.", ":")


def draw_rank_distribution(ranks: Mapping[str, ArrayLike], *, deepest: int = 20) -> str:
    """The share of queries whose first relevant item stands at rank k or above, for k up to `deepest`.

    `ranks` maps a method to one rank a query, from 1, with NaN where nothing is relevant: the `ranks` of
    `placings.evaluation.scoring.rank_distribution`. Queries with NaN are left out. One method is drawn as
    bars (the share at each rank) with its curve above. Returns SVG text; needs matplotlib.
    """
    if not ranks:
        raise BadInput("there is no method to draw. Got an empty mapping.")
    figure, axes = start_figure(6.4, 3.2)
    places = np.arange(1, deepest + 1)
    for number, (name, given) in enumerate(ranks.items()):
        values = np.asarray(given, dtype=np.float64)
        known = values[~np.isnan(values)]
        total = max(len(known), 1)
        at_rank = np.array([(known == place).sum() for place in places]) / total
        colour = COLOURS[number % len(COLOURS)]
        if len(ranks) == 1:
            axes.bar(places, at_rank, color=colour, alpha=0.35)
        style = STYLES[number // len(COLOURS) % len(STYLES)]
        below = max(0.0, 1.0 - at_rank.sum()) if len(known) else 0.0
        label = f"{name} ({len(known):,} queries, {below:.1%} below {deepest})".replace("$", r"\$")
        axes.plot(places, np.cumsum(at_rank), style, marker=".", color=colour, label=label)
    axes.set(xlabel="rank of the first relevant item, at most", ylabel="share of queries", ylim=(0, 1.02))
    axes.set_xlim(0.5, deepest + 0.5)
    axes.xaxis.get_major_locator().set_params(integer=True)
    set_legend(axes, columns=1)
    return finish_figure(figure)
