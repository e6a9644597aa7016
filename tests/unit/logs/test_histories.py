"""Past clicks: counted before a search, never from the future."""

from __future__ import annotations

import doctest
from importlib import import_module

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.logs.histories import add_past_clicks, carry_clicks, count_clicks, look_up_clicks

pd = pytest.importorskip("pandas")


def make_log(seed: int = 0, rows: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "item_id": rng.choice(["a", "b", "c", "zz", "ü"], rows),
            "time": pd.Timestamp("2024-05-01") + pd.to_timedelta(rng.integers(0, 60, rows), unit="min"),
            "label": (rng.random(rows) < 0.2) * rng.integers(1, 4, rows).astype(float),
        }
    )


def test_past_clicks_equal_the_slow_count() -> None:
    log, asked = make_log(), make_log(1)
    wins = log[log["label"] > 0]
    slow = [
        ((wins["item_id"] == row.item_id) & (wins["time"] < row.time)).sum() for row in asked.itertuples()
    ]
    assert add_past_clicks(asked, log)["past_clicks"].tolist() == slow
    assert max(slow) > 5


def test_a_click_counts_for_no_search_of_its_own_time_or_before() -> None:
    log = pd.DataFrame(
        {"item_id": ["a"] * 3, "label": [0.0, 1.0, 0.0], "time": pd.to_datetime(["2024", "2025", "2025"])}
    )
    assert add_past_clicks(log, log)["past_clicks"].tolist() == [0.0, 0.0, 0.0]


def test_an_item_that_was_never_clicked_and_a_log_without_clicks_have_none() -> None:
    log = make_log()
    strange = log.assign(item_id="unknown")
    assert add_past_clicks(strange, log)["past_clicks"].eq(0).all()
    assert add_past_clicks(log, log.assign(label=0.0))["past_clicks"].eq(0).all()
    assert len(add_past_clicks(log.iloc[:0], log)) == 0


def test_the_given_table_stays_as_it_was() -> None:
    log = make_log()
    add_past_clicks(log, log)
    assert "past_clicks" not in log


def test_totals_are_looked_up_with_zero_for_the_unknown() -> None:
    log = pd.DataFrame({"item_id": ["a", "a", "b"], "label": [1.0, 3.0, 0.0]})
    assert count_clicks(log) == {"a": 2}
    assert look_up_clicks(["b", "a"], count_clicks(log)).tolist() == [0.0, 2.0]


@pytest.mark.parametrize("name", ["item_id", "time", "label"])
def test_a_log_without_a_column_is_refused_by_its_name(name: str) -> None:
    log = make_log()
    with pytest.raises(BadInput, match=f"need a column {name}. Got "):
        add_past_clicks(log, log.drop(columns=name))


def test_times_that_are_text_are_refused_and_zones_are_one_clock() -> None:
    log = make_log()
    with pytest.raises(BadInput, match="time must hold times"):
        add_past_clicks(log.assign(time="noon"), log)
    zoned = log.assign(time=log["time"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    pd.testing.assert_series_equal(
        add_past_clicks(zoned, log)["past_clicks"], add_past_clicks(log, zoned)["past_clicks"]
    )
    assert add_past_clicks(zoned, log)["past_clicks"].equals(add_past_clicks(log, log)["past_clicks"])


def test_a_click_without_item_or_time_counts_nowhere() -> None:
    log = pd.DataFrame(
        {
            "item_id": ["a", None, "a"],
            "label": 1.0,
            "time": pd.to_datetime([None, "2024-01-01", "2024-01-02"]),
        }
    )
    asked = pd.DataFrame({"item_id": ["a", None, "a"], "time": pd.to_datetime(["2025", "2025", None])})
    assert add_past_clicks(asked, log)["past_clicks"].tolist() == [1.0, 0.0, 0.0]


def test_the_examples_run() -> None:
    assert doctest.testmod(import_module("placings.logs.histories")).failed == 0


# -- the session itself ------------------------------------------------------------------------------------


def test_past_clicks_equal_the_slow_count_without_the_session_itself() -> None:
    rng = np.random.default_rng(5)
    log, asked = (
        each.assign(session_id=rng.choice(["s", "t", "u", None], len(each)))
        for each in (make_log(), make_log(1))
    )
    wins = log[log["label"] > 0]
    slow = [
        sum(
            win.item_id == row.item_id and win.time < row.time and (
                pd.isna(row.session_id) or win.session_id != row.session_id
            )
            for win in wins.itertuples()
        )
        for row in asked.itertuples()
    ]  # fmt: skip
    assert add_past_clicks(asked, log)["past_clicks"].tolist() == slow
    assert add_past_clicks(asked.drop(columns="session_id"), log)["past_clicks"].sum() > sum(slow)


def test_sessions_that_are_numbers_in_one_table_and_texts_in_the_other_are_the_same() -> None:
    log = pd.DataFrame(
        {"item_id": "a", "label": 1.0, "time": pd.to_datetime(["2024", "2025"]), "session_id": [7.0, None]}
    )
    asked = pd.DataFrame({"item_id": "a", "time": pd.to_datetime(["2026"] * 2), "session_id": ["7", "8"]})
    assert add_past_clicks(asked, log)["past_clicks"].tolist() == [1.0, 2.0]


def plant_leak(sessions: int = 60, items: int = 6) -> pd.DataFrame:
    """In each session one item is clicked in the first and the third search, and not in the second.

    Which item it is no other session tells: each has items of its own, in an order drawn at random.
    """
    rng = np.random.default_rng(3)
    parts = []
    for number in range(sessions):
        wanted = int(rng.integers(items))
        for search in range(3):
            order = rng.permutation(items)
            parts.append(
                pd.DataFrame(
                    {
                        "search_id": f"{number}-{search}", "session_id": f"s{number}",
                        "time": pd.Timestamp("2024-05-01") + pd.Timedelta(hours=number, minutes=search),
                        "item_id": [f"{number}.{item}" for item in order],
                        "position": np.arange(1, items + 1), "label": (order == wanted) * float(search != 1),
                    }
                )
            )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def find_mrr(rows: pd.DataFrame, column: str) -> float:
    """MRR of the labelled item by a column; among equals it stands in the middle."""
    found = []
    for _, each in rows.groupby("search_id"):
        wanted = each.loc[each["label"] > 0, column].iloc[0]
        above, equal = (each[column] > wanted).sum(), (each[column] == wanted).sum()
        found.append(np.mean(1.0 / (above + np.arange(1, equal + 1))))
    return float(np.mean(found))


def test_a_label_carried_back_into_a_session_is_not_told_by_its_past_clicks() -> None:
    log = plant_leak()
    unclicked = log[log.groupby("search_id")["label"].transform("max") == 0]
    carried = carry_clicks(log, unclicked)
    assert carried["search_id"].nunique() == 60  # every second search has the label of the third
    leaky = add_past_clicks(carried.drop(columns="session_id"), log)
    assert find_mrr(leaky, "past_clicks") == 1.0  # the click of the first search gives the label away
    clean = add_past_clicks(carried, log)
    assert clean["past_clicks"].eq(0).all()  # each item was clicked in its own session alone
    chance = np.mean(1.0 / np.arange(1, 7))
    assert find_mrr(clean, "past_clicks") == pytest.approx(chance)
