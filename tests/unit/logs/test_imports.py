"""Imports of UBI logs and the command for all imports: what becomes of each record, what is counted."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from placings.cli.log_import import import_log
from placings.core.errors import BadFile, BadInput, UnknownName
from placings.logs.imports import import_ubi

Writer = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    """Write lines, dicts as JSON, into a file."""

    def write_lines(name: str, *lines: Any) -> Path:
        path = tmp_path / name
        texts = [line if isinstance(line, str) else json.dumps(line, ensure_ascii=False) for line in lines]
        path.write_text("\n".join(texts) + "\n")
        return path

    return write_lines


def query(identity: str, second: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "application": "shop",
        "query_id": identity,
        "client_id": "c1",
        "user_query": "red shoes",
        "query_response_id": "r",
        "query_response_hit_ids": ["a", "b", "c"],
        "query_attributes": {},
        "timestamp": f"2024-11-07T03:00:{second:02d}.000Z",
        **more,
    }


def event(identity: str | None, item: str | None, action: str = "click", second: int = 5, **more: Any) -> Any:
    attributes: dict[str, Any] = {"position": {"ordinal": 2}}
    if item is not None:
        attributes["object"] = {"object_id": item, "object_id_field": "sku"}
    made = {
        "action_name": action,
        "client_id": "c1",
        "session_id": "s1",
        "timestamp": f"2024-11-07T03:00:{second:02d}.000Z",
        "event_attributes": attributes,
        **more,
    }
    return made if identity is None else {**made, "query_id": identity}


def test_queries_and_events_become_searches_and_actions(write: Writer) -> None:
    events = write(
        "ubi_events.ndjson", event("q1", "b", "add_to_cart", 9), event("q1", "b"), event("q2", "a", "watch")
    )
    queries = write("ubi_queries.ndjson", query("q2", 2), query("q1", 1, user_query="blue"))
    log = import_ubi(events, queries)  # in either order
    first, second = log.searches.to_pylist()
    assert (first["search_id"], first["query"], first["session_id"]) == ("q1", "blue", "s1")
    assert first["time"].isoformat() == "2024-11-07T03:00:01"
    assert first["surface"] == "shop"
    assert first["results"] == [
        {"item_id": item, "position": place, "score": None} for place, item in enumerate("abc", 1)
    ]
    assert (first["focus_lat"], first["target"], first["platform"]) == (None, None, None)
    assert second["search_id"] == "q2"
    told = [(a["search_id"], a["item_id"], a["action"]) for a in log.actions.to_pylist()]
    assert told == [("q1", "b", "click"), ("q2", "a", "watch"), ("q1", "b", "cart")]  # by time
    report = log.report.to_dict()
    assert (report["queries"], report["events"], report["searches"], report["actions"]) == (2, 3, 2, 3)
    assert report["not_used"] == {}


def test_what_cannot_be_used_is_counted_by_reason_with_its_first_line(write: Writer) -> None:
    path = write(
        "ubi.ndjson",
        query("q1"),
        "{broken",
        "[1, 2]",
        {"hello": 1},
        query(""),
        query("q2", timestamp="yesterday"),
        query("q3", timestamp=1730948400),  # seconds: not a time of 1970
        event(None, "a"),
        event("q1", None, "on_search"),
        event("q1", "a", timestamp=None),
        event("q1", "a", action_name=None),
        "{broken too",
        query("q1"),
        query("q1", user_query="another text"),
        query("q4", query_response_hit_ids=["a", None, "a", 7]),
    )
    log = import_ubi(path)
    assert log.searches["search_id"].to_pylist() == ["q1", "q4"]
    assert [hit["item_id"] for hit in log.searches["results"].to_pylist()[1]] == ["a", "7"]
    told = log.report.to_dict()["not_used"]
    assert {reason: each["count"] for reason, each in told.items()} == {
        "not JSON": 2,
        "not an object": 1,
        "neither a query nor an event": 1,
        "a query without query_id": 1,
        "a query whose timestamp cannot be read": 2,
        "an event without query_id": 1,
        "an event without an object (a filter, a login, …)": 1,
        "an event whose timestamp cannot be read": 1,
        "an event without action_name": 1,
        "a query logged again": 1,
        "a query whose query_id was another text's before": 1,
        "a hit without an id": 1,
        "a hit listed twice": 1,
    }
    assert told["not JSON"]["first"] == f"{path}:2"
    assert log.report.to_dict()["lines"] == 15
    assert f"not JSON: 2 (first at {path}:2)" in str(log.report)


def test_a_list_that_the_server_did_not_log_comes_from_impressions(write: Writer) -> None:
    def shown(item: str, ordinal: Any, second: int = 1, **more: Any) -> Any:
        made = event("q1", item, "impression", second, **more)
        made["event_attributes"]["position"]["ordinal"] = ordinal
        return made

    bare = query("q1")
    del bare["query_response_hit_ids"]
    log = import_ubi(
        write("a.ndjson", bare, shown("y", 1), shown("x", 0), shown("y", 1, 2), event("q1", "x"))
    )
    results = log.searches["results"].to_pylist()[0]
    assert [(hit["item_id"], hit["position"]) for hit in results] == [("x", 1), ("y", 2)]  # they count from 0
    assert log.actions.num_rows == 1
    assert log.report.counts["impressions"] == 3
    assert log.report.counts["searches whose list comes from impressions"] == 1
    log = import_ubi(write("b.ndjson", bare, shown("y", 12), shown("x", 11)))  # a second page, from 1
    results = log.searches["results"].to_pylist()[0]
    assert [(hit["item_id"], hit["position"]) for hit in results] == [("x", 11), ("y", 12)]
    log = import_ubi(write("c.ndjson", bare, shown("y", None, 1), shown("x", "?", 2)))  # in the order of time
    assert [hit["item_id"] for hit in log.searches["results"].to_pylist()[0]] == ["y", "x"]


def test_pages_of_a_query_are_one_list_and_a_query_without_results_stays(write: Writer) -> None:
    path = write(
        "ubi.ndjson",
        query("q1", 9, query_response_hit_ids=["d", "a"]),
        query("q1", 3),
        query("q2", query_response_hit_ids=[]),
        query("q3", query_response_hit_ids=None),
    )
    log = import_ubi(path)
    lists = dict(zip(log.searches["search_id"].to_pylist(), log.searches["results"].to_pylist(), strict=True))
    assert [hit["item_id"] for hit in lists["q1"]] == ["a", "b", "c", "d"]
    assert (lists["q2"], lists["q3"]) == ([], [])
    assert log.searches["time"].to_pylist()[-1].second == 3  # the first page's
    assert log.report.counts["further pages joined to their query"] == 1
    assert log.report.counts["searches without a list"] == 1  # q3; of q2 it is known that there was nothing


def test_an_internal_id_counts_where_only_it_is_in_the_list(write: Writer) -> None:
    inner = event("q1", "sku-9")
    inner["event_attributes"]["object"]["internal_id"] = "c"
    log = import_ubi(write("ubi.ndjson", query("q1"), inner, event("q1", "sku-8"), event("q9", "a")))
    assert sorted(log.actions["item_id"].to_pylist()) == ["a", "c", "sku-8"]  # kept: the join counts orphans
    assert log.report.counts["actions on an item that was not in the list"] == 1
    assert log.report.counts["actions on a query that is not there"] == 1


def test_dumps_bulk_files_answers_dotted_keys_and_gzip_are_read(write: Writer, tmp_path: Path) -> None:
    flat = {"action_name": "click", "query_id": "q3", "timestamp": 1730948405000,
            "event_attributes.object.object_id": "b", "event_attributes.session_id": "s3"}  # fmt: skip
    path = write(
        "mixed.ndjson",
        {"index": {"_index": "ubi_queries", "_id": "1"}},
        query("q1"),
        {"_index": "ubi_queries", "_id": "2", "_source": query("q2")},
        {"took": 1, "hits": {"hits": [{"_source": query("q3")}, {"_source": event("q2", "a")}]}},
        "",
        flat,
    )
    packed = tmp_path / "mixed.ndjson.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for each in (path, packed):
        log = import_ubi(each)
        assert log.searches["search_id"].to_pylist() == ["q1", "q2", "q3"]
        assert log.searches["session_id"].to_pylist() == ["c1", "s1", "s3"]  # else the client's
        assert log.actions["item_id"].to_pylist() == ["a", "b"]
        assert log.report.refused == {}


def test_query_attributes_become_columns_when_they_are_named(write: Writer) -> None:
    path = write(
        "ubi.ndjson",
        query("q1", query_attributes={"lat": "49.0", "geo": {"lon": 8.4}, "os": "ios"}),
        query("q2", 1, query_attributes={"lat": 4900}),
    )
    named = {"lat": "focus_lat", "geo.lon": "focus_lon", "os": "platform"}
    log = import_ubi(path, attributes=named)
    first, second = log.searches.to_pylist()
    assert (first["focus_lat"], first["focus_lon"], first["platform"]) == (49.0, 8.4, "ios")
    assert second["focus_lat"] is None
    assert log.report.counts["positions that cannot be read, kept as none"] == 1
    with pytest.raises(
        UnknownName, match="no column for a query attribute 'focus_lng'; did you mean 'focus_lon'"
    ):
        import_ubi(path, attributes={"lng": "focus_lng"})


def test_files_that_are_no_ubi_are_refused(write: Writer, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no query can be used. Are these UBI's exports"):
        import_ubi(write("events.ndjson", event("q1", "a")))
    (tmp_path / "empty.ndjson").touch()
    with pytest.raises(BadFile, match="has no lines"):
        import_ubi(tmp_path / "empty.ndjson")
    with pytest.raises(BadFile, match="no such file"):
        import_ubi(tmp_path / "none.ndjson")
    with pytest.raises(BadInput, match="no file is named"):
        import_ubi()


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_an_imported_log_is_one_that_the_join_takes(write: Writer, tmp_path: Path, form: Any) -> None:
    pytest.importorskip("ibis")
    from placings.logs.joins import join_logs

    path = write(
        "ubi.ndjson",
        query("q1"),
        query("q2", 1),
        event("q1", "b"),
        event("q2", "c", "add_to_cart"),
        event("q8", "a"),
    )
    searches, actions = import_ubi(path).write(tmp_path / "log", form)
    joined = join_logs(searches, actions)
    rows = joined.rows
    assert rows["item_id"].tolist() == ["a", "b", "c"] * 2
    assert rows["label"].tolist() == [0.0, 1.0, 0.0, 0.0, 0.0, 2.0]
    assert rows["position"].tolist() == [1, 2, 3] * 2


@pytest.fixture
def command() -> Callable[..., Any]:
    app = typer.Typer()
    app.command()(import_log)
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_imports_each_form_and_prints_what_it_saw(
    write: Writer, tmp_path: Path, command: Callable[..., Any]
) -> None:
    ubi = write("ubi.ndjson", query("q1"), event("q1", "b", "view"), "{broken")
    result = command(ubi, "--out", tmp_path / "log", "--action", "view=click", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["not_used"]["not JSON"]["count"] == 1
    assert told["written"] == [str(tmp_path / "log" / f"{name}.parquet") for name in ("searches", "actions")]
    assert pq.read_table(tmp_path / "log" / "actions.parquet")["action"].to_pylist() == ["click"]
    judged = write("judged.csv", "query,docid,Urteil", "a,1,2")
    result = command(judged, "-o", tmp_path / "rows.parquet", "--column", "grade=Urteil")
    assert result.exit_code == 0, result.output
    assert "rows: 1\n" in result.stdout
    assert pq.read_table(tmp_path / "rows.parquet")["label"].to_pylist() == [2.0]
    result = command(write("qrels.txt", "1 0 a 2"), "-o", tmp_path / "qrels.parquet")
    assert result.exit_code == 0, result.output
    assert pq.read_table(tmp_path / "qrels.parquet")["item_id"].to_pylist() == ["a"]


def test_the_command_refuses_options_of_another_form(
    write: Writer, tmp_path: Path, command: Callable[..., Any]
) -> None:
    judged = write("judged.csv", "query,docid,rating", "a,1,2")
    for words, message in [
        (["--action", "view=click"], "--action has no meaning for judgements"),
        (["--column", "grade"], "--column must be NAME=VALUE. Got 'grade'"),
        ([judged], "judgements are imported one file at a time. Got 2 files"),
    ]:
        result = command(judged, *words, "-o", tmp_path / "rows.parquet")
        assert message in str(result.exception)
    assert not (tmp_path / "rows.parquet").exists()
