"""Tables of every make give the same numbers, texts and times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from placings.core.errors import BadInput
from placings.features.columns import Rows

MOMENT = datetime(2026, 3, 1, 12, 30, tzinfo=UTC)
TABLE: dict[str, list[Any]] = {
    "search_id": ["b", "a", "b"],
    "name": ["Markt", None, "Markt"],
    "weight": [1.5, None, 3.0],
    "floor": [1, 2, 3],
    "time": [MOMENT, None, MOMENT + timedelta(hours=1)],
}


@pytest.mark.parametrize(
    "make", [dict, pd.DataFrame, pl.DataFrame, pa.table, lambda t: pd.DataFrame(t).convert_dtypes()]
)
def test_tables_of_every_make_are_read_alike(make: Any) -> None:
    rows = Rows(make(TABLE))
    assert rows.count == 3
    np.testing.assert_array_equal(rows.floats("weight"), [1.5, np.nan, 3.0])
    np.testing.assert_array_equal(rows.floats("floor"), [1.0, 2.0, 3.0])
    texts = rows.texts("name")
    assert [texts.values[code] for code in texts.codes] == ["Markt", "", "Markt"]
    expected = np.array(["2026-03-01T12:30", "NaT", "2026-03-01T13:30"], dtype="datetime64[us]")
    np.testing.assert_array_equal(rows.times("time"), expected)
    np.testing.assert_array_equal(rows.lists.count(np.ones(3, dtype=bool)), [2, 1, 2])


def test_a_column_that_is_not_there_is_one_without_a_value() -> None:
    rows = Rows({"x": [1, 2]})
    assert np.isnan(rows.floats("y")).all()
    assert rows.texts("y").values == [""]
    assert np.isnat(rows.times("y")).all()
    assert rows.is_blank("y")
    assert not rows.is_blank("x")


def test_a_column_of_nothing_is_blank() -> None:
    rows = Rows(
        pd.DataFrame({"a": [None, None], "b": ["", np.nan], "c": [pd.NA, "x"], "d": [np.nan, np.nan]})
    )
    assert [rows.is_blank(name) for name in "abcd"] == [True, True, False, True]


def test_whole_numbers_with_gaps_read_as_the_same_texts() -> None:
    assert Rows({"c": [3, 4]}).texts("c").values == ["3", "4"]
    assert Rows(pd.DataFrame({"c": [3, np.nan]})).texts("c").values == ["3", ""]


def test_infinite_numbers_and_those_beyond_float32_are_missing() -> None:
    np.testing.assert_array_equal(Rows({"x": [np.inf, 1e300, -1.0]}).floats("x"), [np.nan, np.nan, -1.0])


def test_iso_texts_and_zones_become_utc() -> None:
    east = datetime(2026, 3, 1, 13, 30, tzinfo=timezone(timedelta(hours=1)))
    rows = Rows(
        {"time": ["2026-03-01T12:30:00Z", "2026-03-01T13:30+01:00", east, np.datetime64("2026-03-01T12:30")]}
    )
    assert len(set(rows.times("time").tolist())) == 1


@pytest.mark.parametrize("bad", ["soon", 1_700_000_000, "2026-13-01"])
def test_what_is_no_time_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(BadInput, match="column 'time' must be times"):
        Rows({"time": [bad]}).times("time")


def test_text_among_numbers_is_refused_with_its_row() -> None:
    with pytest.raises(BadInput, match="column 'price' must be numbers. Got 'cheap' at row 1"):
        Rows({"price": [1.0, "cheap"]}).floats("price")


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(BadInput, match="Got 1 in 'a' and 2 in 'b'"):
        Rows({"a": [1], "b": [1, 2]})
    with pytest.raises(BadInput, match="must be a list or an array"):
        Rows({"a": "text"})
    with pytest.raises(BadInput, match="Got int"):
        Rows(3)


def test_combinations_are_distinct_and_lead_back_to_the_rows() -> None:
    rows = Rows({"q": ["x", "x", "y", "x"], "n": ["1", "2", "1", "1"]})
    found = rows.combine("q", "n")
    assert len(found.columns[0]) == 3
    assert [(found.columns[0][i], found.columns[1][i]) for i in found.inverse] == [
        ("x", "1"), ("x", "2"), ("y", "1"), ("x", "1"),
    ]  # fmt: skip
