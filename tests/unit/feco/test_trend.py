"""Trends: a moving average by events, with missing and unfinished windows said."""

from __future__ import annotations

import doctest
from datetime import datetime
from importlib import import_module

import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadInput
from placings.feco.score import coverage
from placings.feco.trend import measure_trend

DAYS = pd.date_range("2024-01-01", periods=10)


def make_frame(shares: list[float], events: list[int], feature: str = "rating") -> pd.DataFrame:
    columns = {"feature": feature, "window": DAYS[: len(shares)], "coverage": shares, "events": events}
    return pd.DataFrame(columns)


def test_days_weigh_by_their_events() -> None:
    trend = measure_trend(make_frame([0.2, 0.8], [300, 100]), average="2d")
    assert trend.frame["average"].tolist() == pytest.approx([0.2, (0.2 * 300 + 0.8 * 100) / 400])


def test_the_average_of_seven_days_forgets_the_eighth() -> None:
    shares = [0.0] + [0.7] * 8
    averages = measure_trend(make_frame(shares, [100] * 9)).frame["average"]
    assert averages[6] == pytest.approx(0.6)  # 6 · 0.7 / 7
    assert averages[7] == pytest.approx(0.7)


def test_a_missing_day_has_a_row_and_is_said() -> None:
    frame = make_frame([0.5, 0.5, 0.9], [100, 100, 100]).drop(index=1)
    trend = measure_trend(frame, average="2d", step="1d")
    assert trend.missing == (datetime(2024, 1, 2),)
    assert trend.frame["events"].tolist() == [100, 0, 100]
    assert np.isnan(trend.frame["coverage"][1])
    assert trend.frame["average"].tolist() == pytest.approx([0.5, 0.5, 0.9])
    assert trend.frame["averaged"].tolist() == [1, 1, 1]
    assert trend.notes == ("no events in 1 windows: 2024-01-02",)


def test_a_long_gap_has_no_average() -> None:
    frame = make_frame([0.5] * 5, [100] * 5).drop(index=[1, 2, 3])
    averages = measure_trend(frame, average="2d", step="1d").frame["average"]
    assert np.isnan(averages[2:4]).all()


def test_an_unfinished_window_is_in_no_average() -> None:
    trend = measure_trend(make_frame([0.5, 0.5, 0.1], [100, 100, 10]), watermark="2024-01-03 09:00")
    assert trend.frame["finished"].tolist() == [True, True, False]
    assert np.isnan(trend.frame["average"][2])
    assert trend.frame["coverage"][2] == 0.1  # still there to look at
    assert trend.unfinished == (datetime(2024, 1, 3),)
    assert trend.missing == ()


def test_since_and_until_cut_what_is_shown_and_not_what_is_averaged() -> None:
    whole = measure_trend(make_frame([0.1 * day for day in range(10)], [100] * 10)).frame
    part = measure_trend(
        make_frame([0.1 * day for day in range(10)], [100] * 10), since="2024-01-04", until="2024-01-06"
    ).frame
    assert part["window"].tolist() == DAYS[3:5].tolist()
    assert part["average"].tolist() == whole["average"][3:5].tolist()


def test_segments_and_features_have_their_own_averages() -> None:
    one = make_frame([0.2, 0.4], [100, 100]).assign(region="north")
    two = make_frame([0.6, 0.8], [100, 100]).assign(region="south")
    frame = pd.concat([one, two])[["feature", "region", "window", "coverage", "events"]]
    trend = measure_trend(frame)
    assert trend.by == ("region",)
    assert trend.frame.groupby("region")["average"].last().to_dict() == pytest.approx(
        {"north": 0.3, "south": 0.7}
    )


def test_a_coverage_goes_in_as_it_is_and_keeps_its_interval() -> None:
    log = pd.DataFrame({"ts": np.repeat(DAYS, 20), "price": np.tile([0.0, 1.0], 100)})
    found = coverage(log, "price", time="ts")
    trend = measure_trend(found)
    assert trend.frame["average"].tolist() == pytest.approx([0.5] * 10)
    assert trend.frame["low"].tolist() == found.to_pandas()["low"].tolist()


def test_hours_can_be_averaged_too() -> None:
    hours = pd.date_range("2024-01-01", periods=30, freq="1h")
    frame = pd.DataFrame({"feature": "f", "window": hours, "coverage": [0.0, 1.0] * 15, "events": 10})
    assert measure_trend(frame, average="1d").frame["average"].iloc[-1] == 0.5
    assert measure_trend(frame, average="1d").length == 24


@pytest.mark.parametrize("average", ["36h", "12h", "soon"])
def test_an_average_that_is_no_whole_number_of_windows_is_refused(average: str) -> None:
    with pytest.raises(BadInput, match="average must be"):
        measure_trend(make_frame([0.5, 0.5], [10, 10]), average=average)


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(import_module("placings.feco.trend")).failed == 0
