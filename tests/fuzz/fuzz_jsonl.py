"""JSONL logs, flat and nested, against json.loads: hostile texts and keys, mutated bytes, deep lines."""

from __future__ import annotations

import json
import random
from datetime import datetime
from pathlib import Path
from typing import Any

from placings.core import as_utc
from placings.logs import ClickLog, join_logs
from placings.logs.json_lines import is_cut, read_json_lines
from placings.logs.schema import ACTION, FIELDS, ITEM, SEARCH, TRUTH

TEXTS = [
    "haupt", "results", '"results"', '"results":[{', "item_id", '"item_id": 7', "time", '"time":', "\\",
    '\\"', "é", "\U0001f600", "\u2028", "\n", "[[[[", "}]}", "null", "2024-01-01", "", "\x00", "search_id",
]  # fmt: skip
NUMBERS = [
    *["1", "2", "0.5", "-1", "1e3", "-0", "null", "9007199254740993"] * 4, "1e999", "1e-400", "NaN",
    "true", '"1"',
]  # fmt: skip
BYTES = [
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\n",
    b"\xff",
    b" ",
    b"0",
    b"\\u0000",
    b"\\ud800",
    b"{}",
]
ACTIONS = [{"search_id": "s0", "item_id": "p1", "time": datetime(2024, 5, 1, 8, 1), "action": "click"}]


def make(source: random.Random, folder: Path) -> Path:
    flat, escaped = source.random() < 0.5, source.random() < 0.2
    ids = source.choice(['"{}{}"', '"{}{}"', "{1}"])
    lines = []
    for number in range(source.randrange(1, 8)):
        query = json.dumps(source.choice(TEXTS), ensure_ascii=source.random() < 0.5)
        head = [
            f'"search_id": {ids.format("s", number)}',
            '"time": "2024-05-01T08:00:00Z"',
            f'"query": {query}',
        ]
        if source.random() < 0.3:
            name, value = source.choice(["extra", "name", "k\\n", "results2"]), source.choice(NUMBERS)
            head.append(f'"{name}": {value}')
        if source.random() < 0.1:
            depth = source.choice([3, 60, 70, 3000])
            head.append(f'"deep": {"[" * depth}{"]" * depth}')
        source.shuffle(head)
        items = [
            f'"item_id": {ids.format("p", place)}, "position": {place + 1}, "score": {source.choice(NUMBERS)}'
            for place in range(source.randrange(3))
        ]
        if flat:
            lines += [f'{{{", ".join(head)}, {item}, "label": 1}}' for item in items]
        else:
            listed = ", ".join(f"{{{item}}}" for item in items)
            lines.append(f'{{{", ".join(head)}, "results": [{listed}]}}')
    text = "\n".join(lines) + "\n"
    if escaped:
        text = text.replace('"results"', '"\\u0072esults"', 2)
    content = text.encode()
    for _ in range(source.choice([0, 0, 0, 1, 3])):
        place = source.randrange(len(content) + 1)
        content = content[:place] + source.choice(BYTES) + content[place + source.randrange(2) :]
    kind = "join" if source.random() < 0.05 else "rows" if flat and source.random() < 0.2 else "table"
    path = folder / f"{kind}.jsonl"
    path.write_bytes(content)
    return path


def check(path: Path) -> None:
    if path.stem == "join":
        with join_logs(path, ACTIONS, unsuccessful="negatives") as log:
            rows = log.rows
        told = {str(each["search_id"]) for each in _read_slowly(path) if each.get("search_id") is not None}
        assert set(rows["search_id"]) <= told, f"{set(rows['search_id'])} for {told}"
        return
    if path.stem == "rows":
        with ClickLog.read(path) as log:
            assert len(log.rows) == len(_read_slowly(path))
        return
    known = {**SEARCH, **ITEM, **FIELDS, **ACTION, **TRUTH}
    table = read_json_lines([str(path)], known, {**ITEM, **FIELDS}).to_pylist()
    wanted = _read_slowly(path)
    assert len(table) == len(wanted), f"{len(table)} rows for {len(wanted)}"
    for got, told in zip(table, wanted, strict=True):
        _compare(got, told, "")


def _compare(got: Any, told: Any, name: str) -> None:
    if isinstance(told, dict):
        assert isinstance(got, dict), f"{name}: {got!r} for {told!r}"
        for key in {*got, *told}:
            _compare(got.get(key), told.get(key), key)
    elif isinstance(told, list):
        assert isinstance(got, list), f"{name}: {got!r} for {told!r}"
        assert len(got) == len(told), f"{name}: {got!r} for {told!r}"
        for one, other in zip(got, told, strict=True):
            _compare(one, other, name)
    elif isinstance(told, float | int) and not isinstance(told, bool):
        same = got == told or (got != got and told != told) or float(got) == float(told)
        assert same, f"{name}: {got!r} for {told!r}"
    elif isinstance(got, datetime):
        wanted = as_utc(told)
        assert got == wanted, f"{name}: {got!r} for {told!r}"
    else:
        assert got == told, f"{name}: {got!r} for {told!r}"


def _read_slowly(path: Path) -> list[dict[str, Any]]:
    """The objects of the file, one after the other: a line may hold two, or a part of one."""
    text, decoder, found, at = path.read_bytes().decode("utf-8"), json.JSONDecoder(), [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        if is_cut(text[at:].encode()):  # a last line that ends early is passed over
            break
        value, at = decoder.raw_decode(text, at)
        found.append(value)
    return found
