"""One live list read without a table: the numbers of the table, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placings.core import BadInput
from placings.features import FeatureSet, Number
from placings.features.columns import RowLists, Rows
from placings.features.one_list import WIDE, ListRows, OneList

VALUES = st.lists(
    st.sampled_from([0.0, -0.0, 1.0, -1.5, np.nan, 1e300]) | st.floats(-1e6, 1e6), min_size=1, max_size=20
)
NAMES = [f"f{place}" for place in range(WIDE)]


@given(VALUES)
def test_one_list_has_the_bits_of_lists(values: list[float]) -> None:
    one, lists = OneList(len(values)), RowLists(np.zeros(len(values), dtype=np.int64))
    numbers = np.array(values)
    for name in ("largest", "smallest", "total", "rank"):
        assert getattr(one, name)(numbers).tobytes() == getattr(lists, name)(numbers).tobytes()
    mask = numbers > 0.5
    assert one.count(mask).tobytes() == lists.count(mask).tobytes()
    part = np.arange(len(values)) % 3
    assert one.within(part).rank(numbers).tobytes() == lists.within(part).rank(numbers).tobytes()


def as_table(context: dict[str, Any], items: list[dict[str, Any]], columns: list[str]) -> dict[str, Any]:
    return {column: [item.get(column, context.get(column)) for item in items] for column in columns}


TOLD = st.none() | st.floats() | st.integers(-(2**70), 2**70) | st.booleans() | st.just(1e39)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), TOLD), min_size=1, max_size=4), TOLD)
def test_a_block_of_numbers_has_the_bits_of_its_columns(items: list[dict[str, Any]], shared: Any) -> None:
    context = {NAMES[0]: shared}
    features = FeatureSet([Number(name) for name in NAMES]).fit({name: [1.0] for name in NAMES})
    expected = features.transform(as_table(context, items, NAMES))
    assert features.transform_request(context, items).tobytes() == expected.tobytes()
    whole = [{**dict.fromkeys(NAMES, 0.5), **item} for item in items]
    expected = features.transform(as_table(context, whole, NAMES))
    assert features.transform_request(context, whole).tobytes() == expected.tobytes()


@pytest.mark.parametrize("odd", ["3", [1.0], {"a": 1}])
def test_what_is_no_number_is_refused_by_its_column(odd: Any) -> None:
    features = FeatureSet([Number(name) for name in NAMES]).fit({name: [1.0] for name in NAMES})
    with pytest.raises(BadInput, match=r"column 'f3' must be numbers"):
        features.transform_request({}, [{**dict.fromkeys(NAMES, 1.0), "f3": odd}])


def test_other_columns_are_read_from_a_block_too() -> None:
    items = [{**dict.fromkeys(NAMES, 1.0), "f1": 3.0, "f2": 2}, {**dict.fromkeys(NAMES, 2.0), "f2": 2}]
    rows = ListRows({}, items, NAMES, NAMES)
    table = Rows(as_table({}, items, NAMES))
    assert rows.names == NAMES
    for name in NAMES:
        assert rows.values(name) == table.values(name)
        assert rows.floats(name).tolist() == table.floats(name).tolist()
        assert rows.texts(name).values == table.texts(name).values
        assert rows.is_blank(name) is False


def test_a_column_of_the_context_is_one_value_for_all() -> None:
    items = [{"name": "Ulm"}, {"name": "Köln"}, {"name": "Ulm"}]
    context = {"query": "u", "time": "2026-05-01T08:00:00Z", "focus_lat": 48.0, "stars": None}
    columns = ["query", "time", "focus_lat", "name", "gone", "position", "stars"]
    rows = ListRows(context, items, columns)
    table = Rows({**as_table(context, items, columns), "position": [1, 2, 3]})
    assert rows.floats("focus_lat").tolist() == [48.0] * 3
    assert rows.times("time").tolist() == table.times("time").tolist()
    assert rows.floats("position").tolist() == [1.0, 2.0, 3.0]
    assert [rows.is_blank(name) for name in ("gone", "stars", "query")] == [True, True, False]
    for column in ("query", "name", "gone"):
        one, other = rows.texts(column, fold=True), table.texts(column, fold=True)
        assert [one.values[code] for code in one.codes] == [other.values[code] for code in other.codes]
        assert rows.values(column) == table.values(column)
    for several in (
        ("query", "gone"),
        ("query", "name"),
        ("name", "position"),
        ("name", "query", "position"),
    ):
        found, expected = rows.combine(*several), table.combine(*several)
        for mine, theirs in zip(found.columns, expected.columns, strict=True):
            assert [mine[place] for place in found.inverse] == [theirs[place] for place in expected.inverse]


def test_what_neither_item_nor_context_has_is_counted() -> None:
    items: list[dict[str, Any]] = [{"name": None}, {"name": "a", "stars": 1.0}]
    rows = ListRows({"query": None}, items, ["query", "name", "stars", "gone", "search_id"])
    assert rows.count_missing() == {"stars": 1, "gone": 2}
