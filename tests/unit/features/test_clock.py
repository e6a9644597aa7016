"""Time features on the clocks of zones."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.features.spec import FeatureSet
from placings.features.time import MEASURES, Clock


def tell(
    times: list[Any], *measures: str, zone: str = "UTC", zones: list[str | None] | None = None
) -> np.ndarray:
    table: dict[str, Any] = {"time": times} | ({} if zones is None else {"zone": zones})
    clock = Clock(zone, measures or MEASURES, zone_column=None if zones is None else "zone")
    return np.asarray(FeatureSet([clock]).fit_transform(table))


def test_every_part_of_a_moment() -> None:
    found = tell(
        ["2024-02-29T18:59:59Z"], "part_of_day", "hour", "weekday", "day", "month", "year", "is_weekend"
    )
    assert found.tolist() == [[3, 18, 3, 29, 2, 2024, 0]]  # a Thursday


def test_the_clock_of_the_zone_is_told_with_summer_time() -> None:
    moments = ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    assert tell(moments, "hour", zone="Europe/Berlin")[:, 0].tolist() == [1, 3, 2, 2]


def test_a_place_has_its_own_hour() -> None:
    found = tell(
        ["2026-01-01T12:00:00Z"] * 4, "hour", zones=["Asia/Tokyo", None, "Mars/Olympus", "America/New_York"]
    )
    assert found[:, 0].tolist() == [21, 12, 12, 7]


def test_each_time_is_what_zoneinfo_says() -> None:
    rng = np.random.default_rng(0)
    zones = ["Australia/Lord_Howe", "Asia/Kathmandu", "Europe/Berlin"]
    times = [datetime(1969, 1, 1) + timedelta(seconds=int(s)) for s in rng.integers(0, 70 * 365 * 86400, 300)]
    names = [zones[i] for i in rng.integers(0, 3, 300)]
    found = tell(times, "hour", "weekday", "day", "month", "year", zones=names)
    for row, (time, name) in enumerate(zip(times, names, strict=True)):
        local = time.replace(tzinfo=ZoneInfo("UTC")).astimezone(ZoneInfo(name))
        assert found[row].tolist() == [local.hour, local.weekday(), local.day, local.month, local.year]


def test_circles_have_the_true_period() -> None:
    hours = tell([f"2026-01-01T{hour:02}:00:00Z" for hour in range(24)], "hour_sin", "hour_cos")
    np.testing.assert_allclose(hours[6], [1, 0], atol=1e-7)
    steps = np.linalg.norm(hours - np.roll(hours, 1, axis=0), axis=1)
    np.testing.assert_allclose(steps, 2 * math.sin(math.pi / 24), rtol=1e-5)  # 23 and 0 as far as 0 and 1
    year = tell([f"2026-{month:02}-01" for month in range(1, 13)], "month_sin", "month_cos")
    assert len(np.unique(year.round(4), axis=0)) == 12


@pytest.mark.parametrize(
    ("month", "days"), [("2026-02", 28), ("2024-02", 29), ("2026-04", 30), ("2026-12", 31)]
)
def test_the_day_turns_once_in_its_own_month(month: str, days: int) -> None:
    found = tell([f"{month}-{days:02}", f"{month}-01"], "day_sin", "day_cos")
    np.testing.assert_allclose(found[0], [0, 1], atol=1e-6)
    angle = 2 * math.pi / days
    np.testing.assert_allclose(found[1], [math.sin(angle), math.cos(angle)], rtol=1e-6)


def test_a_missing_time_is_missing_everywhere() -> None:
    assert np.isnan(tell([None, np.datetime64("NaT")])).all()


@pytest.mark.parametrize("zone", ["Europe/Karlsruhe", "", "../etc/passwd", "/etc/localtime"])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(BadInput, match="zone must be a time zone's name"):
        Clock(zone)


def test_a_live_list_has_the_minute_of_its_time_before_1970_too() -> None:
    features = FeatureSet([Clock("Europe/Berlin", ("hour", "day", "year"))])
    times = [datetime(1969, 12, 31, 22, 59, 59, 999_999), datetime(1969, 12, 31, 23, 0), datetime(2026, 5, 1)]
    features.fit({"time": times})
    for time in times:
        live = features.transform_request({"time": time}, [{}, {}])
        assert np.array_equal(live, features.transform({"time": [time, time]}))
    assert features.transform({"time": times[:2]})[:, 2].tolist() == [1969.0, 1970.0]
