"""UBI exports with hostile values and mutated bytes: what is used is in the file, every line is counted."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from placings.logs import import_ubi

VALUES = [
    "null", "1", "-1", "1.5", "1e999", "NaN", "true", '"a"', '""', '"\\ud800"', '"\\u0000"', "[]", "{}",
    "[1, null]", "1" * 400, "1" * 5000, "[" * 70 + "]" * 70, "[" * 5000 + "]" * 5000, '"é"',
    '"0001-01-01T00:00:00+14:00"', "1730948969510", "9223372036854775808", "1000000000000000000000",
]  # fmt: skip
QUERY = {
    "query_id": "q1", "timestamp": "2024-11-07T03:09:29.510Z", "user_query": "haupt", "application": "web",
    "query_response_hit_ids": ["a", "b"], "client_id": "c", "query_attributes": {"lat": 1},
}  # fmt: skip
EVENT = {
    "action_name": "click_through", "query_id": "q1", "timestamp": 1730948969510,
    "event_attributes": {"object": {"object_id": "a"}, "position": {"ordinal": 1}, "session_id": "u"},
}  # fmt: skip
BYTES = [b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\n", b"\xff", b" "]


def make(source: random.Random, folder: Path) -> Path:
    lines = []
    for _ in range(source.randrange(1, 10)):
        record = json.dumps(source.choice([QUERY, EVENT, EVENT | {"action_name": "impression"}]))
        for _ in range(source.choice([0, 1, 1, 2])):
            old = source.choice(['"q1"', '"haupt"', '"web"', '["a", "b"]', '"a"', "1730948969510", ": 1"])
            new = source.choice(VALUES)
            record = record.replace(old, f": {new}" if old == ": 1" else new, 1)
        if source.random() < 0.2:
            record = source.choice(
                ['{{"_source": {}}}', '{{"hits": {{"hits": [{{"_source": {}}}]}}}}']
            ).format(record)
        lines.append(record)
    content = ("\n".join([json.dumps(QUERY), *lines]) + "\n").encode()
    for _ in range(source.choice([0, 0, 1, 3])):
        place = source.randrange(len(content) + 1)
        content = content[:place] + source.choice(BYTES) + content[place + source.randrange(2) :]
    path = folder / "ubi.ndjson"
    path.write_bytes(content)
    return path


def check(path: Path) -> None:
    log = import_ubi(path, attributes={"lat": "focus_lat"})
    lines = [line for line in path.read_bytes().split(b"\n") if line.strip()]
    told = log.report.to_dict()
    assert log.report.counts["lines"] == len(lines), told
    known = set()
    for line in lines:
        try:
            _gather(json.loads(line), known)
        except (ValueError, RecursionError):
            continue
    ids = set(log.searches["search_id"].to_pylist()) | set(log.actions["search_id"].to_pylist())
    items = {item["item_id"] for items in log.searches["results"].to_pylist() for item in items}
    assert ids <= known, f"{ids - known} are not in the file"
    assert {item.strip("[] ") for item in items} <= known, f"{items - known} are not in the file"
    with tempfile.TemporaryDirectory() as home:
        searches, actions = log.write(home)
        assert pq.read_table(searches).to_pylist() == log.searches.to_pylist()
        assert pq.read_table(actions).to_pylist() == log.actions.to_pylist()


def _gather(value: object, known: set[str]) -> None:
    """Every value in a record, as the text of an id."""
    if isinstance(value, dict):
        for each in value.values():
            _gather(each, known)
    elif isinstance(value, list):
        for each in value:
            _gather(each, known)
    elif isinstance(value, str):
        known.add(value.strip())
        known.update(part.strip() for part in value.strip("[] ").split(","))
    elif isinstance(value, int) and not isinstance(value, bool):
        known.add(str(value) if abs(value) < 10**4000 else "")
