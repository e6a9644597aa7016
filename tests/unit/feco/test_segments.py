"""Segments that a log does not name: head and tail, old and new, days since launch."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.data.backends import open_table
from placings.feco.score import coverage
from placings.feco.segments import compare_ages, label_ages, label_days_since, label_head_tail, trace_launch
from placings.simulate.shop_log import ShopLog, make_shop_log, write_shop_log


@pytest.fixture(scope="module")
def log() -> ShopLog:
    return make_shop_log(42, searches=200, random_state=1)


def count(**queries: int) -> pd.DataFrame:
    return pd.DataFrame({"query": [name for name, times in queries.items() for _ in range(times)]})


def bands(table: Any, **settings: Any) -> dict[str, str]:
    labelled = label_head_tail(table, query="query", **settings)
    return dict(labelled.groupby("query")["band"].first())


# -- head and tail ------------------------------------------------------------------------------------


def test_head_is_what_the_first_half_of_the_traffic_asks_for() -> None:
    # of 100: a is 0 to 40, b 40 to 60 (it begins below 50), c 60 to 75, d 75 to 85, e 85 to 100
    table = count(a=40, b=20, c=15, d=10, e=9, f=6)
    assert bands(table) == {"a": "head", "b": "head", "c": "torso", "d": "torso", "e": "tail", "f": "tail"}
    assert bands(table, shares=(0.3, 0.5)) == {
        "a": "head", "b": "torso", "c": "tail", "d": "tail", "e": "tail", "f": "tail",
    }  # fmt: skip


def test_equally_frequent_queries_share_a_band_whatever_their_order() -> None:
    table = count(**{f"q{n}": 1 for n in range(10)}, top=10)
    first = bands(table)
    assert len({first[f"q{n}"] for n in range(10)}) == 1
    assert first == bands(table.sample(frac=1.0, random_state=3))


def test_events_are_counted_and_not_their_rows() -> None:
    table = pd.DataFrame({"query": ["wide"] * 8 + ["deep"] * 3, "search": [1] * 8 + [2, 3, 4]})
    assert bands(table) == {"wide": "head", "deep": "torso"}
    assert bands(table, event="search") == {"deep": "head", "wide": "torso"}


def test_rows_are_neither_lost_nor_doubled_and_a_missing_query_is_a_missing_band() -> None:
    table = pd.DataFrame({"query": ["a", None, "a", "b"], "row": [1, 2, 3, 4]})
    labelled = label_head_tail(table, query="query").sort_values("row")
    assert labelled["row"].tolist() == [1, 2, 3, 4]
    assert labelled["band"].isna().tolist() == [False, True, False, False]


def test_an_ibis_table_gives_an_expression_and_the_same_answer(log: ShopLog) -> None:
    table = open_table(log.table)
    expression = label_head_tail(table, query="query", event="search_id")
    assert isinstance(expression, ibis.expr.types.Table)
    other = label_head_tail(log.to_pandas(), query="query", event="search_id")
    assert dict(expression.execute()["band"].value_counts()) == dict(other["band"].value_counts())


def test_head_queries_have_more_of_their_own_clicks_than_tail_queries(log: ShopLog) -> None:
    labelled = label_head_tail(log.table, query="query", event="search_id")
    found = coverage(labelled, ["query_item_ctr"], by="band").to_pandas().set_index("band")["coverage"]
    assert found["head"] > found["torso"] > found["tail"]


# -- old and new --------------------------------------------------------------------------------------


def test_an_item_grows_old_but_a_fixed_group_does_not() -> None:
    times = pd.to_datetime(["2024-01-10", "2024-02-08 23:00", "2024-02-09", "2024-02-09"], format="ISO8601")
    seen = pd.to_datetime(["2024-01-10", "2024-01-10", "2024-01-10", None])
    table = pd.DataFrame({"time": times, "first_seen": seen})
    ages = label_ages(table, time="time", first_seen="first_seen")["age"]
    assert ages[:3].tolist() == ["new", "new", "old"]  # 30 days on it is old
    assert ages.isna().tolist() == [False, False, False, True]
    fixed = label_ages(table, time="time", first_seen="first_seen", new_since="2024-01-10")["age"]
    assert fixed[:3].tolist() == ["new"] * 3
    assert label_ages(table, time="time", first_seen="first_seen", new_since="2024-01-11")["age"][0] == "old"


def test_new_items_catch_up_with_old_ones_over_time(log: ShopLog) -> None:
    """The paper's Figure 3: behavioural features of a group of new products grow, those of old ones stay."""
    frame = compare_ages(
        log.table, ["clicks_30d", "price"], time="time", first_seen="first_seen", new_since=log.start
    )
    assert frame.columns[:3].tolist() == ["feature", "age", "window"]
    clicks = frame[frame["feature"] == "clicks_30d"].pivot(index="window", columns="age", values="coverage")
    assert (clicks["old"] > clicks["new"] + 0.1).all()
    assert clicks["new"].iloc[-1] > clicks["new"].iloc[0] + 0.1
    assert abs(clicks["old"].iloc[-1] - clicks["old"].iloc[0]) < 0.1
    price = frame[frame["feature"] == "price"]
    assert (price["coverage"] > 0.99).all()


# -- days since launch --------------------------------------------------------------------------------


def test_days_are_rounded_down_to_their_bin() -> None:
    table = pd.DataFrame(
        {"time": pd.date_range("2024-01-01", periods=16), "launch": pd.Timestamp("2024-01-03")}
    )
    days = label_days_since(table, time="time", launched="launch", most=10)["days_since_launch"]
    assert days[:2].isna().all()  # before the launch
    assert days[2:13].tolist() == [0.0] * 7 + [7.0] * 4
    assert days[13:].isna().all()  # beyond the most
    daily = label_days_since(table, time="time", launched="launch", bin_days=1)["days_since_launch"]
    assert daily[2:].tolist() == list(range(14))


def test_a_location_begins_with_its_first_row_unless_it_was_there_before_the_log() -> None:
    table = pd.DataFrame(
        {
            "time": pd.to_datetime(
                ["2024-01-01 05:00", "2024-01-20 00:00", "2024-01-05 22:00", "2024-01-20 01:00"]
            ),
            "region": ["old", "old", "new", "new"],
        }
    )
    labelled = label_days_since(table, time="time", of="region", bin_days=1).sort_values("time")
    assert labelled.columns.tolist() == ["time", "region", "days_since_launch"]
    found = labelled.groupby("region")["days_since_launch"].apply(list)
    assert found["new"] == [0.0, 15.0]
    assert np.isnan(found["old"]).all()


def test_the_cold_start_of_items_is_a_curve_that_grows(log: ShopLog) -> None:
    frame = trace_launch(
        log.table, ["clicks_30d", "image_quality"], time="time", launched="first_seen", bin_days=15
    )
    clicks = frame[frame["feature"] == "clicks_30d"]
    assert clicks["days_since_launch"].tolist() == [0, 15, 30, 45, 60, 75, 90]
    assert clicks["coverage"].iloc[0] + 0.2 < clicks["coverage"].iloc[2]
    assert (clicks["low"] <= clicks["coverage"]).all()
    still = frame.loc[frame["feature"] == "image_quality", "coverage"]
    assert still.max() - still.min() < 0.15


def test_the_cold_start_of_a_region_is_found_in_files_too(log: ShopLog, tmp_path: Path) -> None:
    write_shop_log(log, tmp_path)
    frame = trace_launch(tmp_path, ["cart_adds_30d"], time="time", of="region", bin_days=7)
    assert set(frame["region"]) == {"islands"}
    assert frame["days_since_launch"].tolist() == [0, 7, 14, 21, 28]
    assert frame["coverage"].iloc[-1] > frame["coverage"].iloc[0] + 0.2


def test_bad_questions_are_told(log: ShopLog) -> None:
    with pytest.raises(UnknownName, match="did you mean 'query'"):
        label_head_tail(log.table, query="qery")
    with pytest.raises(BadInput, match="shares must be two shares"):
        label_head_tail(log.table, query="query", shares=(0.8, 0.5))
    with pytest.raises(BadInput, match="must hold timestamps or dates. Got text"):
        label_ages(log.table, time="time", first_seen="query")
    with pytest.raises(BadInput, match="new_days must be"):
        label_ages(log.table, time="time", first_seen="first_seen", new_days=0)
    with pytest.raises(BadInput, match="name one of launched"):
        label_days_since(log.table, time="time")
    with pytest.raises(BadInput, match="bin_days must be"):
        label_days_since(log.table, time="time", of="region", bin_days=0)
    short = log.to_pandas().query("time < '2024-01-03'")
    with pytest.raises(BadInput, match="no row lies after a launch"):
        trace_launch(short, ["price"], time="time", of="region")


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(import_module("placings.feco.segments")).failed == 0
