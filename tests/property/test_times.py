"""Times with and without a zone, in any mixture, against datetime.fromisoformat one at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placings.core.times import as_utc
from placings.features.columns import Rows
from placings.feco.baselines import as_stamps
from placings.logs.facts import clean_rows
from placings.logs.json_lines import read_json_lines

pd = pytest.importorskip("pandas")

ZONES = (
    st.none() | st.just(UTC) | st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
)
MOMENTS = st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1), timezones=ZONES)
TEXTS = st.builds(
    lambda moment, separator, z: (
        moment.isoformat(separator).replace("+00:00", "Z") if z else moment.isoformat(separator)
    ),
    MOMENTS,
    st.sampled_from("T "),
    st.booleans(),
)


def slowly(text: str) -> datetime:
    """One text by itself: without an offset it is UTC."""
    moment = datetime.fromisoformat(text)
    return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).astimezone(UTC)


@given(st.lists(TEXTS, min_size=1, max_size=12))
@settings(max_examples=60)
def test_every_line_of_a_mixed_log_has_its_own_zone(texts: list[str]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "actions.jsonl"
        path.write_text("".join(json.dumps({"search_id": "s", "time": text}) + "\n" for text in texts))
        read = read_json_lines([str(path)], {"search_id": "id", "time": "time"}, {})
    expected = [slowly(text).replace(tzinfo=None) for text in texts]
    assert read["time"].to_pylist() == expected


@given(st.lists(TEXTS, min_size=1, max_size=12))
@settings(max_examples=60)
def test_every_reader_of_times_takes_each_value_by_itself(texts: list[str]) -> None:
    expected = [slowly(text).replace(tzinfo=None) for text in texts]
    assert [as_utc(text) for text in texts] == expected
    assert Rows({"time": texts}).times("time").tolist() == expected
    rows = {"search_id": texts, "item_id": texts, "position": 1, "label": 0.0, "time": texts}
    assert clean_rows(pd.DataFrame(rows))[0]["time"].tolist() == expected
    assert as_stamps(texts).tolist() == expected


def test_epoch_seconds_are_no_iso_text_and_a_day_is_its_midnight() -> None:
    assert as_utc("20240501") == as_utc("2024-05-01") == datetime(2024, 5, 1)
    for number in ("1714550400", "1712010100000"):  # fromisoformat takes the second one for the year 1712
        with pytest.raises(ValueError, match="is a number"):
            as_utc(number)
    with pytest.raises(ValueError, match="outside of the years"):
        as_utc("9999-12-31T23:00:00-05:00")


def test_a_row_whose_time_cannot_be_read_is_counted() -> None:
    rows = {"search_id": [1, 2], "item_id": [1, 1], "position": [1, 1], "label": [0.0, 0.0]}
    frame, notes = clean_rows({**rows, "time": ["2024-05-01T08:00:00Z", "soon"]})
    assert frame["time"].isna().tolist() == [False, True]
    assert notes == ("1 rows have a time that cannot be read and are in no week and no hour.",)
