"""The join: what becomes of every broken event, that the counts add up, both groups, both rules."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadFile, BadInput, UnknownName
from placings.logs.click_log import ClickLog
from placings.logs.joins import join_logs

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("ibis")

START = datetime(2024, 5, 1, 8)
COLUMNS = [
    "search_id", "session_id", "time", "query", "focus_lat", "focus_lon", "target", "platform", "surface",
    "item_id", "position", "score", "label", "chain_id", "chain_step", "chain_last",
]  # fmt: skip


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def search(name: str | None, items: Any = "abc", seconds: float | None = 0, **more: Any) -> dict[str, Any]:
    """A search that showed `items` in this order; its own session."""
    shown = [
        {"item_id": item, "position": place, "score": 1.0 / place} for place, item in enumerate(items, 1)
    ]
    time = None if seconds is None else at(seconds)
    return {
        "search_id": name,
        "session_id": f"of {name}",
        "time": time,
        "query": "x",
        "results": shown,
    } | more


def act(
    name: str | None, item: str | None, seconds: float | None = 10, action: str = "click"
) -> dict[str, Any]:
    time = None if seconds is None else at(seconds)
    return {"search_id": name, "item_id": item, "time": time, "action": action}


def labels(joined: ClickLog) -> dict[tuple[str, str], float]:
    rows = joined.rows
    keys = zip(rows["search_id"], rows["item_id"], strict=True)
    return dict(zip(keys, rows["label"], strict=True))


def counted(counts: Any) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}


def test_the_list_is_rebuilt_around_a_click_with_the_columns_that_are_promised() -> None:
    joined = join_logs([search("s", "abc", focus_lat=48.5)], [act("s", "b")])
    rows = joined.rows
    assert list(rows.columns) == COLUMNS
    assert rows["item_id"].tolist() == ["a", "b", "c"]
    assert rows["position"].tolist() == [1, 2, 3]
    assert rows["label"].tolist() == [0.0, 1.0, 0.0]
    assert rows["time"].dtype == "datetime64[us]"
    assert rows["focus_lat"].tolist() == [48.5] * 3
    assert np.isnan(rows["focus_lon"]).all()
    assert joined.report.adds_up


FATES: list[tuple[str, dict[str, Any]]] = [
    ("used", {}),
    ("used", {"time": at(0)}),
    ("used", {"time": at(3600)}),
    ("late", {"time": at(3600.000001)}),
    ("out_of_order", {"time": at(-5)}),
    ("early", {"time": at(-5.000001)}),
    ("orphaned", {"search_id": "nobody's"}),
    ("not_in_list", {"item_id": "z"}),
    ("unknown_action", {"action": "hover"}),
    ("unknown_action", {"action": None}),
    ("no_id", {"search_id": None}),
    ("no_id", {"item_id": ""}),
    ("no_time", {"time": None}),
]


def test_every_action_has_one_fate() -> None:
    searches = [search(f"s{n:02}") for n in range(len(FATES))]
    actions = [act(f"s{n:02}", "b") | change for n, (_, change) in enumerate(FATES)]
    joined = join_logs(searches, actions, unsuccessful="negatives")
    names = [fate for fate, _ in FATES]
    assert counted(joined.report.actions) == {name: names.count(name) for name in set(names)}
    found = labels(joined)
    for number, fate in enumerate(names):
        assert found[f"s{number:02}", "b"] == float(fate in ("used", "out_of_order")), FATES[number]
    assert joined.report.adds_up


def test_a_duplicate_is_used_once_and_the_highest_of_several_actions_is_the_label() -> None:
    actions = [
        act("s", "b"), act("s", "b"), act("s", "b"), act("s", "b", 20), act("s", "b", 30, "purchase"),
        act("s", "c", 40, "cart"),
    ]  # fmt: skip
    joined = join_logs([search("s")], actions)
    assert labels(joined) == {("s", "a"): 0.0, ("s", "b"): 3.0, ("s", "c"): 2.0}
    assert counted(joined.report.actions) == {"used": 4, "duplicate": 2}
    assert joined.report.notes["labelled_rows"] == 2


def test_grades_of_the_user_replace_the_usual_ones_and_grade_0_is_no_success() -> None:
    searches = [search("s"), search("t")]
    joined = join_logs(
        searches, [act("s", "a", 1, "order"), act("t", "a", 1, "view")], grades={"order": 5, "view": 0}
    )
    assert labels(joined)["s", "a"] == 5.0
    assert joined.unsuccessful["outcome"].tolist() == ["unmatched"]
    assert counted(joined.report.actions) == {"used": 2}


def test_a_repeated_search_counts_once_at_its_earliest_time() -> None:
    searches = [search("s", "xyz", 50), search("s", "ab", 0), search("s", "ab", 0), search("s", "bc", 0)]
    joined = join_logs(searches, [act("s", "b"), act("s", "z", 60)])
    assert joined.rows["item_id"].tolist() == ["a", "b", "c"]  # lists of one id and time are united
    assert joined.rows["position"].tolist() == [1, 1, 2]  # b stood first in the last list
    assert counted(joined.report.searches) == {"used": 1, "same": 2, "repeated": 1}
    assert counted(joined.report.items) == {"in_rows": 3, "double": 3, "of_repeated": 3}
    assert counted(joined.report.actions) == {"used": 1, "not_in_list": 1}


def test_searches_without_id_or_time_and_empty_lists_are_counted() -> None:
    searches = [
        search(None),
        search("", "ab"),
        search("t", "a", None),
        search("s", ""),
        search("u") | {"results": None},
    ]
    joined = join_logs([*searches, search("v")], [act("s", "a"), act("v", "a")])
    assert counted(joined.report.searches) == {"used": 3, "no_id": 2, "no_time": 1}
    assert counted(joined.report.items) == {"in_rows": 3, "of_no_search": 6}
    assert joined.report.notes["empty_lists"] == 2
    assert joined.unsuccessful["search_id"].tolist() == ["s", "u"]
    assert joined.unsuccessful["outcome"].tolist() == ["unmatched", "failed"]


def test_doubles_missing_ids_and_missing_positions_in_a_list() -> None:
    shown = [
        {"item_id": "a", "position": 1, "score": 3.0},
        {"item_id": "b", "position": None, "score": 2.0},
        {"item_id": "a", "position": 3, "score": 9.0},
        {"item_id": None, "position": 4, "score": 1.0},
        {"item_id": "c", "position": 0, "score": 1.0},
    ]
    joined = join_logs([search("s") | {"results": shown}], [act("s", "b")])
    assert joined.rows["item_id"].tolist() == ["a", "b", "c"]
    assert joined.rows["position"].tolist() == [1, 2, 5]
    assert joined.rows["score"].tolist() == [3.0, 2.0, 1.0]
    assert counted(joined.report.items) == {"in_rows": 3, "no_id": 1, "double": 1}
    assert joined.report.notes["missing_positions"] == 2
    assert joined.report.adds_up


def test_no_position_at_all_means_the_order_of_the_list() -> None:
    bare = [{"item_id": item} for item in "cab"]
    rows = join_logs([search("s") | {"results": bare}], [act("s", "a")]).rows
    assert rows["item_id"].tolist() == ["c", "a", "b"]
    assert rows["position"].tolist() == [1, 2, 3]
    assert rows["score"].isna().all()


def test_a_flat_table_gives_the_rows_of_the_nested_one() -> None:
    searches = [search("s", "abc"), search("t", "ba", 5), search("s", "xy", 70)]
    flat = [
        {**{name: value for name, value in each.items() if name != "results"}, **item}
        for each in searches
        for item in each["results"]
    ]
    actions = [act("s", "b"), act("t", "a"), act("s", "x", 80)]
    nested, spread = join_logs(searches, actions), join_logs(flat[::-1], actions)
    pd.testing.assert_frame_equal(nested.rows, spread.rows)
    assert {**nested.report.to_dict(), "read": 0} == {**spread.report.to_dict(), "read": 0}


def test_flat_rows_without_a_position_come_after_the_others_by_score() -> None:
    flat = {
        "search_id": ["s"] * 4, "time": [at(0)] * 4, "query": ["x"] * 4, "item_id": list("abcd"),
        "position": [None, 2.0, 1.0, None], "score": [0.1, 0.5, 0.4, 0.7],
    }  # fmt: skip
    rows = join_logs(pd.DataFrame(flat), [act("s", "a")]).rows
    assert dict(zip(rows["item_id"], rows["position"], strict=True)) == {"c": 1, "b": 2, "d": 3, "a": 4}


def test_the_order_of_lines_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    searches = [
        search(f"s{n % 50}", list("abcdef"[: 1 + n % 6]), n % 7, session_id=f"u{n % 9}") for n in range(80)
    ]
    actions = [act(f"s{n % 60}", "abcdefg"[n % 7], n % 30, ["click", "cart"][n % 2]) for n in range(120)]
    first = join_logs(searches, actions)
    second = join_logs([searches[n] for n in rng.permutation(80)], [actions[n] for n in rng.permutation(120)])
    pd.testing.assert_frame_equal(first.rows, second.rows)
    pd.testing.assert_frame_equal(first.unsuccessful, second.unsuccessful)
    assert first.report == second.report
    assert first.report.adds_up
    assert first.rows[["time", "search_id", "position"]].apply(tuple, axis=1).is_monotonic_increasing


def test_searches_without_an_action_are_kept_apart_or_stay_as_negatives() -> None:
    searches = [search("s"), search("t", "ab", 5)]
    apart = join_logs(searches, [act("s", "a")])
    assert set(apart.rows["search_id"]) == {"s"}
    assert counted(apart.report.items) == {"in_rows": 3, "apart": 2}
    stay = join_logs(searches, [act("s", "a")], unsuccessful="negatives")
    assert stay.rows["successful"].tolist() == [True] * 3 + [False] * 2
    assert stay.rows["label"].tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert stay.rows["outcome"].tolist() == ["successful"] * 3 + ["failed"] * 2
    for joined in (apart, stay):
        assert joined.unsuccessful["search_id"].tolist() == ["t"]
        assert joined.unsuccessful["size"].tolist() == [2]


def test_extra_columns_of_searches_and_items_travel_along_and_those_of_actions_are_named() -> None:
    shown = [{"item_id": "a", "position": 1, "price": 9.5, "brand": "b", "tags": ["x", "y"]}]
    joined = join_logs([search("s", country="de") | {"results": shown}], [act("s", "a") | {"dwell": 3}])
    rows = joined.rows
    assert (rows["country"][0], rows["price"][0], rows["brand"][0]) == ("de", 9.5, "b")
    assert list(rows["tags"][0]) == ["x", "y"]
    assert joined.report.ignored == ("dwell",)
    assert "dwell" in joined.report.table()


def test_the_truth_of_a_simulated_log_gives_kind_and_target() -> None:
    truth = [{"search_id": "s", "target_id": "c", "kind": "typo"}]
    rows = join_logs([search("s"), search("t", "c", 3)], [act("s", "b"), act("t", "c")], truth=truth).rows
    assert rows["is_target"].tolist() == [0.0, 0.0, 1.0, 0.0]
    assert rows["kind"].tolist() == ["typo"] * 3 + [None]


@pytest.mark.parametrize("form", ["jsonl", "jsonl.gz", "parquet"])
def test_files_of_either_kind_give_the_same_rows_and_write_them_sorted(form: str, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    searches = [search(f"s{n:02}", "abcd", -n, focus_lat=None if n % 2 else 48.0) for n in range(30)]
    actions = [act(f"s{n:02}", "b", 5 - n) for n in range(0, 30, 2)]
    for name, log in (("searches", searches), ("actions", actions)):
        path = tmp_path / f"{name}.{form}"
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist(log), path)
        else:
            text = "\n".join(json.dumps({**each, "time": each["time"].isoformat() + "Z"}) for each in log)
            path.write_bytes(gzip.compress(text.encode()) if form.endswith("gz") else text.encode())
    out = tmp_path / "rows.parquet"
    with join_logs(tmp_path / f"searches.{form}", tmp_path / f"actions.{form}") as joined:
        joined.write(out, unsuccessful=tmp_path / "apart.parquet")
        rows = joined.rows
    pd.testing.assert_frame_equal(rows, join_logs(searches, actions).rows)
    written = pq.read_table(out)
    assert written.schema.field("time").type == pa.timestamp("us")
    assert written.column("search_id").to_pylist() == rows["search_id"].tolist()
    assert written.column("position").to_pylist() == rows["position"].tolist()
    assert pq.read_table(tmp_path / "apart.parquet").num_rows == 15
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f"actions.{form}", "apart.parquet", "rows.parquet", f"searches.{form}"]
    )


def test_a_log_without_a_single_action_or_search_is_no_error() -> None:
    nothing = pa.Table.from_pylist([act("s", "a")]).slice(0, 0)
    joined = join_logs([search("s")], nothing)
    assert (len(joined.rows), len(joined.unsuccessful)) == (0, 1)
    empty = pa.Table.from_pylist([search("s")]).slice(0, 0)
    joined = join_logs(empty, [act("s", "a")])
    assert list(joined.rows.columns) == COLUMNS
    assert counted(joined.report.actions) == {"orphaned": 1}
    assert joined.report.adds_up


def test_what_cannot_be_meant_is_refused() -> None:
    logs = ([search("s")], [act("s", "a")])
    with pytest.raises(UnknownName, match="did you mean 'query'"):
        join_logs(*logs, group="queries")
    with pytest.raises(UnknownName, match="no unsuccessful 'drop'"):
        join_logs(*logs, unsuccessful="drop")
    with pytest.raises(BadInput, match="window must be whole seconds, or a length such as"):
        join_logs(*logs, window="soon")
    with pytest.raises(BadInput, match="memory must be a size such as '6GB'"):
        join_logs(*logs, memory="much")
    with pytest.raises(BadInput, match="truth tells of single searches"):
        join_logs(*logs, group="query", truth=[{"search_id": "s", "target_id": "a"}])
    joined = join_logs(*logs)
    with pytest.raises(BadInput, match="the path must end in .parquet. Got 'rows.csv'"):
        joined.write("rows.csv")
    with pytest.raises(BadFile, match="does not exist. Make it first"):
        joined.write("no_such_folder/rows.parquet")


def test_the_command_writes_rows_and_prints_the_report(tmp_path: Path) -> None:
    import typer
    from typer.testing import CliRunner

    from placings.cli.log_join import join_files

    app = typer.Typer()
    app.command()(join_files)
    pd.DataFrame([search("s")]).to_parquet(tmp_path / "s.parquet")
    pd.DataFrame([act("s", "b", 5, "order"), act("q", "b")]).to_parquet(tmp_path / "a.parquet")
    out = str(tmp_path / "rows.parquet")
    common = [str(tmp_path / "s.parquet"), str(tmp_path / "a.parquet"), "--out", out]
    shown = CliRunner().invoke(app, [*common, "--grade", "order=4", "--grade", "click=1"])
    assert shown.exit_code == 0, shown.output
    assert "orphaned" in shown.output
    assert "the counts add up" in shown.output
    assert pd.read_parquet(out)["label"].tolist() == [0.0, 4.0, 0.0]
    machine = CliRunner().invoke(app, [*common, "--json", "--unsuccessful", "negatives", "--memory", "1GB"])
    assert json.loads(machine.stdout)["outcomes"]["unmatched"] == 1
    assert CliRunner().invoke(app, [*common, "--grade", "click"]).exit_code == 2
