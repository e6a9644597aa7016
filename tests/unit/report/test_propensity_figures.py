"""The picture of a curve: what is drawn, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from placings.core import BadInput
from placings.logs import PropensityCurve
from placings.report import write_propensity_figure
from placings.report.propensity_figures import draw_propensities


def make_curve(high: float = 0.6) -> PropensityCurve:
    return PropensityCurve.from_state(
        {
            "ranks": [1, 2, 3], "values": [1.0, 0.5, 0.25], "low": [1.0, 0.4, 1e-9], "high": [1.0, high, 1e9],
            "method": "swaps", "rests_on": "randomisation", "says": "", "searches": 9, "clicks": 5,
        }
    )  # fmt: skip


def test_a_curve_is_drawn_with_its_interval_and_the_truth(tmp_path: Path) -> None:
    written = write_propensity_figure(
        tmp_path / "curve.svg", make_curve(), truth=[1.0, 0.5, 0.3], title="Looks"
    )
    text = written.read_text()
    for words in ("swaps, by randomisation", "truth", "Looks", "looked at, relative to rank 1"):
        assert words in text


def test_an_interval_that_knows_nothing_does_not_stretch_the_picture() -> None:
    figure = draw_propensities({"one": make_curve()})
    low, high = figure.axes[0].get_ylim()
    assert low > 0.25 / 100
    assert high < 0.25 * 100


def test_nothing_and_other_kinds_of_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no curve to draw"):
        draw_propensities({})
    with pytest.raises(BadInput, match="written as .svg or .png"):
        write_propensity_figure(tmp_path / "curve.pdf", make_curve())
