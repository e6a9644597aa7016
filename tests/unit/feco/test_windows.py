"""Windows: lengths, zones, days of 23 and 25 hours; the expression and the plain count agree."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.feco.windows import as_second, make_cut, parse_window

pd = pytest.importorskip("pandas")

SPRING = (int(pd.Timestamp("2024-03-29").timestamp()), int(pd.Timestamp("2024-04-03").timestamp()))
AUTUMN = (int(pd.Timestamp("2024-10-25").timestamp()), int(pd.Timestamp("2024-10-30").timestamp()))
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Africa/Cairo", "Australia/Lord_Howe"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("span", [SPRING, AUTUMN], ids=["spring", "autumn"])
def test_days_are_those_of_the_calendar(zone: str, span: tuple[int, int]) -> None:
    cut = make_cut("1d", zone, span)
    seconds = np.arange(*span, 997)
    ours = cut.starts(np.array([cut.key_of(int(second)) for second in seconds]))
    local = pd.to_datetime(seconds, unit="s", utc=True).tz_convert(zone)
    midnight = pd.to_datetime(local.date).tz_localize(zone, nonexistent="shift_forward", ambiguous=True)
    assert (ours == midnight.tz_convert("UTC").tz_localize(None).to_numpy()).all()


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("window", ["10m", "1h", "6h", "1d", "3d", "1w"])
def test_the_expression_says_what_the_plain_count_says(zone: str, window: str) -> None:
    ibis = pytest.importorskip("ibis")
    from placings.data.backends import open_source

    cut = make_cut(window, zone, AUTUMN)
    seconds = np.arange(*AUTUMN, 613)
    source = open_source({"second": seconds})
    table = source.table
    asked = source.ask(table.select(second=table.second, key=cut.key(table.second)))
    assert ibis is not None
    assert asked["key"].tolist() == [cut.key_of(int(second)) for second in asked["second"]]


def test_hours_are_as_many_as_the_day_has() -> None:
    cut = make_cut("1h", "Europe/Berlin", AUTUMN)
    first = cut.key_of(int(pd.Timestamp("2024-10-26 22:00").timestamp()))
    last = cut.key_of(int(pd.Timestamp("2024-10-27 22:59").timestamp()))
    keys = cut.keys_between(first, last)
    assert len(keys) == 25
    assert set(np.diff(keys)) == {3600}


def test_weeks_begin_on_monday() -> None:
    cut = make_cut("1w", None, None)
    keys = cut.keys_between(cut.key_of(0), cut.key_of(86_400 * 10))
    assert cut.starts(np.array(keys)).astype("datetime64[D]").tolist() == [
        dt.date(1969, 12, 29),
        dt.date(1970, 1, 5),
    ]


def test_before_1970_the_day_is_still_the_one_it_is_in() -> None:
    cut = make_cut("1d", None, None)
    assert str(cut.starts(np.array([cut.key_of(-1)]))[0])[:10] == "1969-12-31"


@pytest.mark.parametrize("window", ["", "1", "d", "0d", "7h", "36h", "1mo", "-1d", 5])
def test_a_window_that_cannot_be_is_refused(window: str) -> None:
    with pytest.raises(BadInput, match=f"window must .*Got {window!r}"):
        parse_window(window)


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(BadInput, match="IANA list such as 'Europe/Berlin'. Got 'Berlin'"):
        make_cut("1d", "Berlin", (0, 1))


def test_moments_are_read_in_every_form() -> None:
    noon = 43_200
    for moment in ("1970-01-01T12:00", "1970-01-01T14:00+02:00", dt.datetime(1970, 1, 1, 12),
                   pd.Timestamp("1970-01-01 12:00"), np.datetime64("1970-01-01T12:00")):  # fmt: skip
        assert as_second(moment, "since") == noon
    assert as_second(dt.date(1970, 1, 2), "since") == 86_400
    assert as_second("1970-01-01T12:00", "since", "Europe/Berlin") == noon - 3600
    for wrong in (5, None, "noon", pd.NaT):
        with pytest.raises(BadInput, match="since must be a date"):
            as_second(wrong, "since")


def test_a_length_that_is_none_is_told_by_the_name_it_was_given() -> None:
    for name in ("window", "late"):
        with pytest.raises(BadInput, match=f"{name} must be a length such as '10m'.*Got '90'"):
            parse_window("90", name)
