"""Parquet that placings wrote, with a bit flipped, bytes changed or its end cut: equal values, or refused."""

from __future__ import annotations

import random
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from placings.core import BadFile
from placings.data import RankingData, read, write
from placings.logs import ClickLog, join_logs, write_log_tables

SHOWN = 6


def make(source: random.Random, folder: Path) -> Path:
    kind = source.choice(["data", "rows", "joined", *(["searches"] if source.random() < 0.2 else [])])
    content = bytearray(write_whole(kind))
    way = source.random()
    if way < 0.7:
        for _ in range(source.choice([1, 1, 1, 2])):
            content[_choose_place(source, content)] ^= 1 << source.randrange(8)
    elif way < 0.8:
        del content[source.randrange(len(content)) :]
    elif way < 0.9:
        start = _choose_place(source, content)
        content[start : start + 8] = source.randbytes(8)
    else:
        start = source.randrange(len(content))
        del content[start : start + source.randrange(1, 64)]
    path = folder / f"{kind}.parquet"
    path.write_bytes(content)
    return path


def _choose_place(source: random.Random, content: bytearray) -> int:
    """Many of them in the seal and at the end, which are a small part of a file."""
    way, size = source.random(), len(content)
    if way < 0.2:
        return min(size - 1, max(content.find(b"seal"), 12) - 12 + source.randrange(40))
    return source.randrange(size) if way < 0.6 else size - 1 - source.randrange(min(size, 400))


def check(path: Path) -> None:
    kind = path.stem
    with tempfile.TemporaryDirectory() as home:
        whole = Path(home) / path.name
        whole.write_bytes(write_whole(kind))
        if kind == "data":
            wanted, got = read(whole), read(path)
            assert np.array_equal(wanted.X, got.X)
            assert np.array_equal(wanted.y, got.y)
            assert wanted.feature_names == got.feature_names
            assert wanted.qid.tolist() == got.qid.tolist()
            assert wanted.items.tolist() == got.items.tolist()
        elif kind == "searches":
            with join_logs(path, make_actions()) as got, join_logs(whole, make_actions()) as wanted:
                assert got.rows.equals(wanted.rows)
        else:
            with ClickLog.read(path) as got, ClickLog.read(whole) as wanted:
                assert got.rows.equals(wanted.rows)


def make_searches() -> list[dict[str, object]]:
    return [
        {
            "search_id": f"s{number}", "session_id": f"u{number // 2}", "query": f"haupt {number}",
            "time": np.datetime64("2024-05-01T08:00:00", "us").item(),
            "results": [
                {"item_id": f"p{place}", "position": place + 1, "score": 9.5 - place}
                for place in range(SHOWN)
            ],
        }
        for number in range(8)
    ]  # fmt: skip


def make_actions() -> list[dict[str, object]]:
    time = np.datetime64("2024-05-01T08:01:00", "us").item()
    return [
        {"search_id": f"s{number}", "item_id": f"p{number % SHOWN}", "time": time, "action": "click"}
        for number in range(8)
    ]


@lru_cache
def write_whole(kind: str) -> bytes:
    import pyarrow as pa

    with tempfile.TemporaryDirectory() as home:
        path = Path(home) / "whole.parquet"
        if kind == "data":
            draw = np.random.default_rng(0)
            X = draw.normal(size=(120, 4)).astype(np.float32)
            items = np.array([f"d{row}" for row in range(120)], dtype=object)
            data = RankingData.from_arrays(X, draw.integers(0, 3, 120), np.arange(120) // 6, items=items)
            write(data, path)
        elif kind == "searches":
            [path] = write_log_tables({"searches": pa.Table.from_pylist(make_searches())}, home)
        else:
            with join_logs(make_searches(), make_actions()) as log:
                (ClickLog(log.rows) if kind == "rows" else log).write(path)
        content = path.read_bytes()
    if b"placings seal" not in content:
        raise BadFile(path, "was written without a seal.")
    return content
