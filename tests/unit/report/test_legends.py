"""Legends: none lies over what is drawn, bars, lines and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.legend import Legend

from placings.report import (
    coverage_figures,
    figures,
    places_figures,
)

AGES = pd.DataFrame(
    [
        ("clicks", age, day, 0.1, 0.05, 0.15)
        for age in ("old", "new")
        for day in pd.date_range("2024-01-01", periods=9)
    ],
    columns=["feature", "age", "window", "coverage", "low", "high"],
)
LAUNCHES = AGES.rename(columns={"age": "region", "window": "days_since_launch"}).assign(
    days_since_launch=np.tile(np.arange(9), 2)
)
IMPORTANCES = pd.DataFrame(
    {"masked": "f1", "drop": 0.5, "feature": ["f1", "f2"], "before": [9.0, 8.0], "after": [1.0, 9.0]}
)

DRAWN: dict[str, tuple[Any, Callable[[], str]]] = {
    "types": (
        places_figures,
        lambda: places_figures.draw_type_counts(
            {"stop": {"shown": 10.0, "clicked": 9.0}, "poi": {"shown": 9.0, "clicked": 10.0}}
        ),
    ),
    "depth": (
        places_figures,
        lambda: places_figures.draw_depth(
            [{"k": k, "oracle": 0.9, "model": 0.6, "engine": 0.5} for k in (1, 5, 10, 40)]
        ),
    ),
    "ranks": (
        figures,
        lambda: figures.draw_rank_distribution({f"method {n}": [20.0] * 9 for n in range(4)}),
    ),
    "ages": (coverage_figures, lambda: coverage_figures.draw_ages(AGES)),
    "launches": (coverage_figures, lambda: coverage_figures.draw_launches(LAUNCHES, of="region")),
    "importances": (coverage_figures, lambda: coverage_figures.draw_importances(IMPORTANCES, "f1", 0.5)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_legend_lies_outside_of_the_axes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, draw = DRAWN[name]
    kept: list[Any] = []
    monkeypatch.setattr(module, "finish_figure", lambda figure: kept.append(figure) or "")
    draw()
    (figure,) = kept
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    legends = figure.findobj(Legend)
    assert legends
    for legend in legends:
        box = legend.get_window_extent(renderer)
        assert figure.bbox.contains(box.x0 + 1, box.y0 + 1)
        assert figure.bbox.contains(box.x1 - 1, box.y1 - 1)
        for axes in figure.axes:
            if axes.get_visible():
                inside = axes.get_window_extent(renderer).padded(-1.0)  # the frame itself may touch
                assert not inside.overlaps(box), name
