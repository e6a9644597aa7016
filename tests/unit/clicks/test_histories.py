"""Past clicks: counted before a search, never from the future."""

from __future__ import annotations

import doctest
from importlib import import_module

import numpy as np
import pytest

from placings.clicks.histories import add_past_clicks, count_clicks, look_up_clicks
from placings.errors import BadInput

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


def test_a_table_without_times_is_refused() -> None:
    log = make_log()
    with pytest.raises(BadInput, match="Got none called time"):
        add_past_clicks(log.drop(columns="time"), log)


def test_the_examples_run() -> None:
    assert doctest.testmod(import_module("placings.clicks.histories")).failed == 0
