"""Grades, and click frequencies of one distinct query."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from placings.core.errors import BadInput, UnknownName
from placings.logs.joins import join_logs
from placings.logs.labels import check_grades

pytest.importorskip("pandas")
pytest.importorskip("ibis")

START = datetime(2024, 5, 1, 8)


def search(name: str, query: str, items: str, hour: int, **more: Any) -> dict[str, Any]:
    shown = [
        {"item_id": item, "position": place, "score": float(hour), "price": 10.0 * hour + place}
        for place, item in enumerate(items, 1)
    ]
    time = START + timedelta(hours=hour)
    return {"search_id": name, "time": time, "query": query, "results": shown, **more}


def click(name: str, item: str, hour: int, action: str = "click") -> dict[str, Any]:
    return {
        "search_id": name,
        "item_id": item,
        "time": START + timedelta(hours=hour, minutes=1),
        "action": action,
    }


SEARCHES = [
    search("1", "Bad Ems", "ab", 0, platform="ios"),
    search("2", "bad  ems", "bac", 1, platform="web"),
    search("3", " bad ems ", "ca", 2, platform="android"),
    search("4", "bad ems", "abd", 3),  # without a click
    search("5", "other", "a", 4),
]
ACTIONS = [
    click("1", "a", 0),
    click("2", "a", 1),
    click("2", "b", 1, "cart"),
    click("3", "c", 2),
    click("5", "a", 4),
]


def test_one_group_for_each_folded_query_with_clicks_over_impressions() -> None:
    rows = join_logs(SEARCHES, ACTIONS, group="query").rows
    assert rows["search_id"].tolist() == ["bad ems"] * 3 + ["other"]
    # mean positions of searches 1 to 3: a (1 + 2 + 2)/3, b (2 + 1)/2, c (3 + 1)/2
    assert rows["item_id"].tolist() == ["b", "a", "c", "a"]
    assert rows["position"].tolist() == [1, 2, 3, 1]
    assert rows["impressions"].tolist() == [2, 3, 2, 1]
    assert rows["clicks"].tolist() == [1, 2, 1, 1]
    assert rows["label"].tolist() == [(0 + 2) / 2, (1 + 1 + 0) / 3, (0 + 1) / 2, 1.0]
    assert "chain_id" not in rows


def test_fields_are_of_the_items_latest_showing_and_the_context_of_the_latest_search() -> None:
    rows = join_logs(SEARCHES, ACTIONS, group="query").rows.iloc[:3]
    assert rows["price"].tolist() == [11.0, 22.0, 21.0]  # b in search 2, a and c in search 3
    assert rows["platform"].tolist() == ["android"] * 3
    assert rows["query"].tolist() == [" bad ems "] * 3
    assert rows["time"].nunique() == 1


def test_shares_are_of_all_grades_of_the_query() -> None:
    rows = join_logs(SEARCHES, ACTIONS, group="query", frequency="share").rows
    assert rows["label"].tolist() == [2 / 5, 2 / 5, 1 / 5, 1.0]


def test_searches_without_a_click_count_as_showings_only_where_they_are_kept() -> None:
    joined = join_logs(SEARCHES, ACTIONS, group="query", unsuccessful="negatives")
    rows = joined.rows.set_index(["search_id", "item_id"])
    assert rows.loc[("bad ems", "a"), "impressions"] == 4
    assert rows.loc[("bad ems", "a"), "label"] == 2 / 4
    assert rows.loc[("bad ems", "d"), "label"] == 0.0
    assert rows["successful"].all()  # of the query, not of the one search
    assert joined.report.items["in_rows"] == 2 + 3 + 2 + 3 + 1
    assert joined.report.adds_up


def test_the_share_of_nothing_is_0() -> None:
    rows = join_logs(SEARCHES, ACTIONS[-1:], group="query", frequency="share", unsuccessful="negatives").rows
    assert rows.loc[rows["search_id"] == "bad ems", "label"].tolist() == [0.0] * 4
    assert rows["successful"].tolist() == [False] * 4 + [True]


def test_grades_must_be_numbers_of_0_or_more() -> None:
    assert check_grades(None) == {"click": 1.0, "cart": 2.0, "purchase": 3.0}
    for wrong in ({"click": -1}, {"click": float("nan")}, {"click": "1"}, {1: 1}, {"click": True}):
        with pytest.raises(BadInput, match="a grade must be finite and 0 or more. Got"):
            check_grades(wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="grades must map actions to numbers"):
        check_grades({})
    with pytest.raises(UnknownName, match="no frequency 'ctr'"):
        join_logs(SEARCHES, ACTIONS, group="query", frequency="ctr")
