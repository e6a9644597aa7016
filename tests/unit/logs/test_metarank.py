"""Metarank's events: items and users as of the ranking's time, every event with one fate."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from placings.core import BadFile
from placings.logs import import_metarank, join_logs

START = 1_599_391_467_000


def item(at: Any, name: str, **fields: Any) -> dict[str, Any]:
    told = [{"name": each, "value": value} for each, value in fields.items()]
    return {"event": "item", "id": f"i{at}", "timestamp": at, "item": name, "fields": told}


def ranking(at: Any, name: str, items: list[Any], **fields: Any) -> dict[str, Any]:
    told = [{"name": each, "value": value} for each, value in fields.items()]
    return {"event": "ranking", "id": name, "timestamp": at, "user": "u1", "session": "x", "fields": told,
            "items": items}  # fmt: skip


def act(at: Any, name: str | None, item: str, kind: str = "click") -> dict[str, Any]:
    done = {"event": "interaction", "id": f"a{at}", "timestamp": at, "type": kind, "item": item}
    return done if name is None else {**done, "ranking": name}


EVENTS: list[dict[str, Any]] = [
    item(str(START), "p1", title="cat", price=10, is_cute=True),
    item(START, "p2", price=5, color=["white", "black"]),
    {"event": "user", "id": "e", "timestamp": "2020-09-06T11:24:00Z", "user": "u1",
     "fields": [{"name": "age", "value": 33}]},
    ranking(str(START + 30_000), "r1", [{"id": "p2", "relevancy": 2.0},
            {"id": "p1", "relevancy": 1, "fields": [{"name": "ctr", "value": 0.5}]}],
            query="cat", source="web"),
    act(START + 40_000, "r1", "p1"),
    item(START + 60_000, "p1", price=99),
    {"event": "user", "id": "e", "timestamp": START + 70_000, "user": "u1",
     "fields": [{"name": "age", "value": 34}]},
    ranking("2020-09-06T11:26:07Z", "r2", [{"id": "p1"}, {"id": "p2"}], query="cat"),
    act(START + 101_000, "r2", "p1", "buy"),
    act(START + 102_000, None, "p1", "like"),
]  # fmt: skip


def write(path: Path, events: list[Any], end: str = "") -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in events) + end)
    return path


def test_items_and_users_are_known_as_of_the_ranking(tmp_path: Path) -> None:
    path = write(tmp_path / "events.jsonl", EVENTS[::-1])  # in any order
    log = import_metarank(path)
    paths = log.write(tmp_path / "log")
    assert [each.name for each in paths] == ["searches.parquet", "actions.parquet", "items.parquet"]
    with join_logs(paths[0], paths[1], snapshots=paths[2]) as joined:
        rows = joined.rows
        assert joined.report is not None
        assert joined.report.adds_up
        assert joined.report.settings["grades"]["purchase"] == 3
    first, second = rows[rows["search_id"] == "r1"], rows[rows["search_id"] == "r2"]
    assert first["item_id"].tolist() == ["p2", "p1"]
    assert first["price"].tolist() == [5.0, 10.0]
    assert second.set_index("item_id")["price"].to_dict() == {"p1": 99.0, "p2": 5.0}
    assert second.set_index("item_id")["title"].to_dict() == {"p1": "cat", "p2": None}  # an update keeps it
    assert (first["user.age"].tolist(), second["user.age"].tolist()) == ([33.0, 33.0], [34.0, 34.0])
    assert first["score"].tolist() == [2.0, 1.0]
    assert first["ctr"].fillna(-1).tolist() == [-1, 0.5]
    assert (first["query"].iloc[0], first["source"].iloc[0], first["session_id"].iloc[0]) == (
        "cat",
        "web",
        "x",
    )
    assert first["time"].iloc[0] == pd.Timestamp("2020-09-06 11:24:57")
    assert (first["label"].tolist(), second["label"].tolist()) == ([0.0, 1.0], [3.0, 0.0])


def test_every_event_has_one_fate(tmp_path: Path) -> None:
    broken: list[Any] = [
        {"event": "feedback"}, 7, {"event": "item", "timestamp": START, "fields": []},
        {"event": "user", "timestamp": START}, ranking("soon", "r5", []), ranking(START, "r1", [{"id": "a"}]),
        {"event": "ranking", "timestamp": START, "items": []}, ranking(START, "r6", None),  # type: ignore[arg-type]
        act(START, "r1", ""), {**act(START, "r1", "p1"), "type": None}, act(12, "r1", "p1"),
        [item(START, "p3"), item(START, "p4")],
    ]  # fmt: skip
    path = write(tmp_path / "events.jsonl", [*EVENTS, *broken], end='{"event": "ran')
    told = import_metarank(path).report.to_dict()
    kinds = ("item events", "user events", "ranking events", "interaction events")
    lost = {reason: each["count"] for reason, each in told["not_used"].items()}
    assert told["lines"] == len(EVENTS) + len(broken) + 1 + 1  # a batch of two is one line, and one is cut
    assert told["lines"] == sum(told[kind] for kind in kinds) + sum(lost.values())
    assert lost == {
        "an interaction event of no ranking": 1,
        "neither an item, a user, a ranking nor an interaction event": 2,
        "an item event without item": 1,
        "a user event without user": 1,
        "a ranking event whose timestamp cannot be read": 1,
        "a ranking event whose id was there before": 1,
        "a ranking event without id": 1,
        "a ranking event without items": 1,
        "an interaction event without item": 1,
        "an interaction event without type": 1,
        "an interaction event whose timestamp cannot be read": 1,
        "the last line of the file ends early": 1,
    }
    assert told["not_used"]["the last line of the file ends early"]["first"] == f"{path}:{len(EVENTS) + 13}"


def test_a_cut_line_is_refused_where_it_is_not_the_last_or_strictly(tmp_path: Path) -> None:
    path = write(tmp_path / "events.jsonl", EVENTS, end='{"event": "ran')
    with pytest.raises(BadFile, match="events.jsonl:11: is not JSON"):
        import_metarank(path, strict=True)
    path.write_text('{"event": "ran\n' + path.read_text())
    with pytest.raises(BadFile, match="events.jsonl:1: is not JSON"):
        import_metarank(path)


def test_files_may_be_packed_and_several_and_fields_of_taken_names_say_whose_they_are(tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl.gz"
    items.write_bytes(gzip.compress("\n".join(json.dumps(each) for each in [
        {**item(None, "p1", position=4, source="farm"), "timestamp": None},
        item(START, "p2", position="top"),
    ]).encode()))  # fmt: skip
    log = import_metarank(items, write(tmp_path / "events.jsonl", EVENTS[3:5]))
    assert log.items is not None
    assert log.items.column_names == ["item_id", "time", "item.position", "item.source"]
    assert log.items["item.position"].to_pylist() == ["4", "top"]  # of two kinds: text, and said
    told = log.report.to_dict()
    assert told["fields of two kinds, kept as text: item.position"] == 1
    assert told["item events without a timestamp, taken to hold for ever"] == 1
    with join_logs(log.searches, log.actions, snapshots=log.items) as joined:
        assert joined.rows.set_index("item_id")["item.source"].to_dict() == {"p1": "farm", "p2": None}


def test_a_file_without_rankings_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no ranking can be used. Are these Metarank's events"):
        import_metarank(write(tmp_path / "events.jsonl", EVENTS[:3]))
