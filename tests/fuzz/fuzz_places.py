"""Places as JSON lines: hostile values and broken lines, against a plain reading of the same lines."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from placings.places import SqliteEngine, build_index, read_places
from placings.places.place import split_locality

TEXTS = [
    "Ulm", "Köln Hbf", "", " ", "a\0b", "\ud800", "\U0001f600", "x" * 600, "A\nB", "\u202e", "7",
    "Straße 12 a", "Bahnhof, Ulm",
    "1" * 3000, "(" * 300, "\u0301" * 50, '"', "\\ud800", "ß", "\ufeff", "ﬃ", "NULL",
    "'; DROP TABLE place; --",
]  # fmt: skip
NUMBERS: list[Any] = [
    0, -0.0, 1, 48.4, 90, 90.0000001, -180, 180, 181, 1e308, 1e999, -1e999, math.nan, 10**30, 10**400, True,
    None,
    "48.4", [1], {},
]  # fmt: skip
OTHERS: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    ["a"],
    [["a"]],
    {"a": {"b": 1}},
    [None, "x", 3],
    0,
    1.5,
    -7,
    10**25,
]
FIELDS = (
    "id",
    "name",
    "lat",
    "lon",
    "type",
    "locality",
    "weight",
    "alt",
    "parent",
    "street",
    "country",
    "zone",
    "x",
)
NUMERIC = ("lat", "lon", "weight")


def make(source: random.Random, folder: Path) -> Path:
    lines = []
    for number in range(source.randrange(1, 9)):
        row: dict[str, Any] = {
            "id": f"p{number}",
            "name": source.choice(["Ulm", "Köln"]),
            "lat": 48.4,
            "lon": 10.0,
        }
        if source.random() < 0.5:
            row |= {
                "type": source.choice(["stop", "address"]),
                "parent": f"p{source.randrange(9)}",
                "weight": 2,
            }
        for _ in range(source.choice([0, 0, 0, 0, 1, 1, 2])):
            field = source.choice(FIELDS)
            row[field] = source.choice(
                NUMBERS if field in NUMERIC else source.choice([TEXTS, TEXTS, NUMBERS, OTHERS])
            )
        text = json.dumps(row, ensure_ascii=source.random() < 0.7)
        if source.random() < 0.02:
            text = source.choice(
                [
                    text[: source.randrange(len(text))],
                    text + text,
                    "[" * 3000,
                    "[]",
                    "nul",
                    "  ",
                    '{"a":' * 80,
                ]
            )
        lines.append(text)
    content = "\n".join(lines).encode("utf-8", "surrogatepass" if source.random() < 0.5 else "replace")
    if source.random() < 0.1:
        at = source.randrange(len(content) + 1)
        content = content[:at] + source.randbytes(3) + content[at:]
    path = folder / "places.jsonl"
    path.write_bytes(content)
    return path


def read_plainly(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines() if line.strip()]


def find_top(name: str, parents: dict[str, str]) -> str:
    passed = [name]
    while parents[passed[-1]] in parents:
        if parents[passed[-1]] in passed:
            return name
        passed.append(parents[passed[-1]])
    return passed[-1]


def check(path: Path) -> None:
    places = read_places(path, fold=False)
    rows = read_plainly(path)
    assert [place.id for place in places] == [str(row["id"]) for row in rows]
    for place, row in zip(places, rows, strict=True):
        alt = row.get("alt")
        names = [alt] if not isinstance(alt, list) else alt
        assert place.names == tuple(str(each) for each in names if each), row
        assert place.name == split_locality(str(row["name"]), str(row.get("locality") or ""))
        assert (place.lat, place.lon) == (row["lat"], row["lon"])
        assert abs(place.lat) <= 90
        assert abs(place.lon) <= 180
        assert place.weight == float(row.get("weight") or 0.0)
        assert 0 <= place.weight < math.inf
    parents = {place.id: str(place.fields.get("parent") or "") for place in places}
    folded = read_places(path)
    assert [place.id for place in folded] == [each for each in parents if find_top(each, parents) == each]
    index = build_index(folded, path.with_name("places.db"))
    with SqliteEngine(index) as engine:
        kept = {place.id: place for place in engine.places()}
        assert sorted(kept) == sorted(place.id for place in folded)
        for place in folded:
            found = kept[place.id]
            assert (found.name, found.lat, found.lon, found.weight) == (
                place.name,
                place.lat,
                place.lon,
                place.weight,
            )
            assert found.names == tuple(" ".join(name.split("\n")) for name in place.names)
        for text in {place.name for place in folded}:
            for hit in engine.search(text):
                assert hit.id in kept
                assert math.isfinite(hit.score)
