"""Snapshots join as of the search: the latest at or before it, never a later one."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadFile
from placings.logs.joins import join_logs

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
ibis = pytest.importorskip("ibis")

START = datetime(2024, 5, 1, 8)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


SHOWN = [{"item_id": item, "position": place} for place, item in enumerate("abc", 1)]
SEARCHES = [{"search_id": f"s{n}", "time": at(n), "query": "x", "results": SHOWN} for n in (0, 10, 20)]
ACTIONS = [{"search_id": f"s{n}", "item_id": "a", "time": at(n + 1), "action": "click"} for n in (0, 10, 20)]
SNAPSHOTS = {
    "item_id": ["a", "a", "a", "a", "b", None],
    "time": [at(10), at(-100), at(10), at(20.000001), at(15), at(0)],
    "stock": [2.0, 1.0, 3.0, 4.0, 5.0, 6.0],
    "state": ["old", "first", "new", "future", "b", "nobody"],
}


def take(rows: Any, item: str, column: str) -> list[Any]:
    return list(rows.loc[rows["item_id"] == item, column])


def test_the_latest_snapshot_at_or_before_the_search_counts_and_none_from_the_future() -> None:
    rows = join_logs(SEARCHES, ACTIONS, snapshots=pd.DataFrame(SNAPSHOTS)).rows
    assert take(rows, "a", "stock") == [1.0, 3.0, 3.0]  # of two at second 10 the last
    assert take(rows, "a", "state") == ["first", "new", "new"]
    assert np.isnan(take(rows, "b", "stock")[:2]).all()
    assert take(rows, "b", "stock")[2] == 5.0
    assert np.isnan(take(rows, "c", "stock")).all()
    assert len(rows) == 9


def test_no_row_ever_sees_a_later_snapshot() -> None:
    rng = np.random.default_rng(0)
    size = 300
    seconds = rng.integers(-50, 80, size)
    table = pd.DataFrame({"item_id": rng.choice(list("abcd"), size), "time": [at(int(s)) for s in seconds],
                          "seen": seconds})  # fmt: skip
    searches = [{"search_id": f"s{n}", "time": at(n), "query": "x", "results": SHOWN} for n in range(60)]
    actions = [{"search_id": f"s{n}", "item_id": "a", "time": at(n), "action": "click"} for n in range(60)]
    rows = join_logs(searches, actions, snapshots=table).rows
    for item, second, seen in zip(
        rows["item_id"], rows["search_id"].str[1:].astype(int), rows["seen"], strict=True
    ):
        past = seconds[(table["item_id"] == item) & (seconds <= second)]
        assert seen == past.max()


def test_files_of_snapshots_are_taken_in_their_order(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pa.table(SNAPSHOTS)
    pq.write_table(table.slice(0, 2), tmp_path / "1.parquet")
    pq.write_table(table.slice(2), tmp_path / "2.parquet")
    for source in (str(tmp_path / "*.parquet"), tmp_path, [tmp_path / "1.parquet", tmp_path / "2.parquet"]):
        rows = join_logs(SEARCHES, ACTIONS, snapshots=source).rows
        assert take(rows, "a", "stock") == [1.0, 3.0, 3.0]
        assert list(rows.columns)[-4:] == ["label", "chain_id", "chain_step", "chain_last"]
        assert "placings_row" not in rows


def test_jsonl_snapshots(tmp_path: Path) -> None:
    lines = ['{"item_id": "a", "time": "2024-05-01T08:00:05Z", "stock": 1}',
             '{"item_id": "a", "time": "2024-05-01T08:00:05+00:00", "stock": 2}']  # fmt: skip
    (tmp_path / "s.jsonl").write_text("\n".join(lines))
    rows = join_logs(SEARCHES, ACTIONS, snapshots=tmp_path / "s.jsonl").rows
    np.testing.assert_array_equal(take(rows, "a", "stock"), [np.nan, 2.0, 2.0])


def test_with_groups_by_query_an_item_has_the_snapshot_of_its_latest_showing() -> None:
    rows = join_logs(SEARCHES, ACTIONS, snapshots=pd.DataFrame(SNAPSHOTS), group="query").rows
    assert rows["stock"].tolist()[:2] == [3.0, 5.0]


def test_a_column_that_is_there_already_or_no_feature_is_refused() -> None:
    with pytest.raises(BadFile, match="column 'score' is in the rows already.* Rename or drop it"):
        join_logs(SEARCHES, ACTIONS, snapshots={"item_id": ["a"], "time": [at(0)], "score": [1.0]})
    with pytest.raises(BadFile, match="has no column beside item_id and time"):
        join_logs(SEARCHES, ACTIONS, snapshots={"item_id": ["a"], "time": [at(0)]})
    with pytest.raises(BadFile, match="the snapshots: has no column 'item_id'"):
        join_logs(SEARCHES, ACTIONS, snapshots={"sku": ["a"], "time": [at(0)], "stock": [1.0]})
