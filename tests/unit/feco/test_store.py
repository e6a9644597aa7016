"""The store: computing again replaces, late data and backfills are safe, a write is whole or not there."""

from __future__ import annotations

import doctest
import sqlite3
import threading
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadFile, BadInput, PlacingsWarning
from placings.feco.history import CoverageStore, Stored
from placings.feco.score import coverage

DAYS = pd.date_range("2024-01-01", periods=5)


def make_frame(
    days: pd.DatetimeIndex = DAYS, share: float = 0.5, regions: tuple[str, ...] = ("n", "s")
) -> pd.DataFrame:
    rows = [
        (feature, region, day, share, share - 0.1, share + 0.1, 100, 100 * share)
        for feature in ("rating", "clicks")
        for region in regions
        for day in days
    ]
    names = ["feature", "region", "window", "coverage", "low", "high", "events", "covered"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture
def store(tmp_path: Path) -> CoverageStore:
    return CoverageStore(tmp_path / "deep" / "coverage.sqlite")


def test_what_was_put_is_read_back_equal_and_in_its_order(store: CoverageStore) -> None:
    frame = make_frame()
    assert store.put(frame, rule="non_zero") == Stored(written=20, replaced=0, removed=0, kept=0)
    pd.testing.assert_frame_equal(store.read(by="region"), frame)
    assert len(CoverageStore(store.path).read(by=["region"])) == 20  # opened anew


def test_computing_again_replaces_and_never_doubles(store: CoverageStore) -> None:
    store.put(make_frame(), rule="non_zero")
    assert store.put(make_frame(DAYS[3:], 0.7), rule="non_zero") == Stored(8, 8, 0, 0)
    kept = store.read(by="region")
    assert len(kept) == 20
    assert kept.groupby("window")["coverage"].first().tolist() == [0.5, 0.5, 0.5, 0.7, 0.7]


def test_a_segment_that_no_longer_occurs_goes(store: CoverageStore) -> None:
    store.put(make_frame(), rule="non_zero")
    assert store.put(make_frame(regions=("n",)), rule="non_zero").removed == 10
    assert set(store.read(by="region")["region"]) == {"n"}


def test_a_day_that_turned_out_empty_goes_if_the_range_is_named(store: CoverageStore) -> None:
    store.put(make_frame(), rule="non_zero")
    store.put(make_frame(DAYS[:2]), rule="non_zero")
    assert store.read(by="region")["window"].nunique() == 5
    done = store.put(make_frame(DAYS[:2]), rule="non_zero", since="2024-01-01", until="2024-01-04")
    assert done.removed == 4  # one day, two features, two regions
    assert store.read(by="region")["window"].drop_duplicates().tolist() == DAYS[[0, 1, 3, 4]].tolist()


def test_a_backfill_of_an_old_state_never_undoes_a_newer_one(store: CoverageStore) -> None:
    store.put(make_frame(share=0.6), rule="non_zero", watermark="2024-01-10")
    assert store.put(make_frame(share=0.4), rule="non_zero", watermark="2024-01-08") == Stored(0, 0, 0, 20)
    assert set(store.read(by="region")["coverage"]) == {0.6}
    store.put(make_frame(share=0.7), rule="non_zero", watermark="2024-01-12")
    assert set(store.read(by="region")["coverage"]) == {0.7}


def test_a_window_that_had_not_ended_is_left_out_until_it_is_computed_again(store: CoverageStore) -> None:
    store.put(make_frame(), rule="non_zero", watermark="2024-01-05 12:00")
    assert store.read(by="region")["window"].max() == DAYS[3]
    assert store.read(by="region", unfinished=True)["window"].max() == DAYS[4]
    store.put(make_frame(DAYS[4:]), rule="non_zero", watermark="2024-01-06 06:00")
    assert store.read(by="region")["window"].max() == DAYS[4]


def test_rules_units_and_segments_do_not_overwrite_each_other(store: CoverageStore) -> None:
    whole = make_frame(regions=("n",)).drop(columns="region")
    store.put(make_frame(), rule="non_zero")
    store.put(make_frame(share=0.3), rule="positive")
    store.put(make_frame(share=0.2), rule="non_zero", unit="search_id")
    store.put(whole, rule="non_zero")
    assert len(store.read()) == 10
    with pytest.raises(BadInput, match="kept with several rules: non_zero, positive. Name one"):
        store.read(by="region")
    with pytest.raises(BadInput, match="several units"):
        store.read(by="region", rule="non_zero")
    assert set(store.read(by="region", rule="positive")["coverage"]) == {0.3}
    assert set(store.read(by="region", rule="non_zero", unit="row")["coverage"]) == {0.5}
    assert sorted(store.list_kept()[["rule", "unit", "segments", "rows"]].values.tolist()) == [
        ["non_zero", "row", "", 10],
        ["non_zero", "row", "region", 20],
        ["non_zero", "search_id", "region", 20],
        ["positive", "row", "region", 20],
    ]


def test_each_feature_may_have_its_own_rule(store: CoverageStore) -> None:
    store.put(make_frame(), rule={"rating": 3.5, "clicks": "positive"})
    assert len(store.read(by="region")) == 20
    assert set(store.read(by="region", rule=3.5)["feature"]) == {"rating"}
    with pytest.raises(BadInput, match="rule must name a rule for every feature. Got none for 'clicks'"):
        store.put(make_frame(), rule={"rating": 3.5})


def test_features_and_dates_can_be_asked_for(store: CoverageStore) -> None:
    store.put(make_frame(), rule="non_zero")
    part = store.read(by="region", features=["clicks"], since="2024-01-02", until="2024-01-04")
    assert set(part["feature"]) == {"clicks"}
    assert part["window"].drop_duplicates().tolist() == DAYS[1:3].tolist()
    assert store.read(by="platform").columns.tolist()[:3] == ["feature", "platform", "window"]
    assert len(store.read(by="platform")) == 0


def test_a_coverage_brings_its_own_rule_unit_and_window(store: CoverageStore) -> None:
    log = pd.DataFrame({"ts": np.repeat(DAYS, 20), "price": np.tile([0.0, 1.0], 50)})
    found = coverage(log, "price", time="ts", rule="positive")
    store.put(found)
    pd.testing.assert_frame_equal(store.read(rule="positive"), found.to_pandas(), check_dtype=False)
    with pytest.raises(BadInput, match="rule must say what covered means"):
        store.put(found.to_pandas())


def test_missing_values_and_missing_segments_survive(store: CoverageStore) -> None:
    frame = make_frame(DAYS[:1]).astype({"region": object})
    frame.loc[frame["region"] == "s", ["region", "coverage", "low", "high", "events", "covered"]] = [
        None, np.nan, np.nan, np.nan, 0, 0.0,
    ]  # fmt: skip
    store.put(frame, rule="non_zero")
    kept = store.read(by="region")
    gone = kept[kept["region"].isna()]
    assert gone["coverage"].isna().all()
    assert gone["events"].tolist() == [0, 0]


def test_a_put_that_fails_leaves_everything_as_it_was(store: CoverageStore) -> None:
    store.put(make_frame(), rule="non_zero")
    with pytest.raises(BadInput, match="has two rows"):
        store.put(pd.concat([make_frame(share=0.9), make_frame(share=0.9)]), rule="non_zero")
    base = sqlite3.connect(store.path)
    base.execute("CREATE TRIGGER broken BEFORE INSERT ON coverage WHEN NEW.feature = 'clicks' "
                 "BEGIN SELECT RAISE(ABORT, 'disk full'); END")  # fmt: skip
    base.commit()
    base.close()
    with pytest.raises(BadFile, match="disk full"):
        store.put(make_frame(share=0.9), rule="non_zero")  # rating is written first
    assert set(store.read(by="region")["coverage"]) == {0.5}


def test_two_writers_at_once_both_get_in(store: CoverageStore) -> None:
    def write(rule: str) -> None:
        for _ in range(5):
            CoverageStore(store.path).put(make_frame(), rule=rule)

    threads = [threading.Thread(target=write, args=(rule,)) for rule in ("non_zero", "positive")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.list_kept()["rows"].tolist() == [20, 20]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("not a database, but longer than the header that SQLite looks for in a file\n" * 20)
    with pytest.raises(BadFile, match="is not a coverage store"):
        CoverageStore(other)
    newer = tmp_path / "newer.sqlite"
    base = sqlite3.connect(newer)
    base.execute("PRAGMA user_version = 9")
    base.close()
    with pytest.raises(BadFile, match="has layout 9"):
        CoverageStore(newer)


def test_bad_questions_are_told(store: CoverageStore) -> None:
    with pytest.raises(BadInput, match="since must lie before until"):
        store.read(since="2024-02-01", until="2024-01-01")
    with pytest.raises(BadInput, match="has no windows"):
        store.put(make_frame().drop(columns="window"), rule="non_zero")


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(import_module("placings.feco.history")).failed == 0


def test_a_day_that_lost_all_its_rows_is_removed_when_it_is_computed_again(tmp_path: Path) -> None:
    log = pd.DataFrame(
        {
            "ts": pd.to_datetime(["2024-01-01 10:00", "2024-01-02 10:00"] * 3),
            "region": ["north", "north", "south", "south", "north", "south"],
            "rating": [1.0, 0.0, 2.0, 1.0, 0.0, 3.0],
        }
    )
    store = CoverageStore(tmp_path / "kept.db")
    days = {"since": "2024-01-01", "until": "2024-01-03"}
    counting = {"by": "region", "time": "ts", **days}
    store.put(coverage(log, "rating", **counting), **days)
    assert sorted(store.read(by="region")["window"].dt.day.unique()) == [1, 2]
    first = log[log["ts"] < "2024-01-02"]
    second = {"since": "2024-01-02", "until": "2024-01-03"}
    with pytest.warns(PlacingsWarning, match="no event to count"):
        found = coverage(first, "rating", by="region", time="ts", **second)
    assert store.put(found, **second).removed > 0
    assert sorted(store.read(by="region")["window"].dt.day.unique()) == [1]
