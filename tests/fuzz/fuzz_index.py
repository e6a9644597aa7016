"""A place index with flipped bits, cut, or with pages written over: the original's answers, or a refusal."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from placings.places import Place, SqliteEngine, build_index

QUERIES = ("ulm", "ka", "kaiserstr 1", "münster", "hbf karlsrhue", "b")
PAGE = 8192


@cache
def make_original() -> tuple[bytes, tuple[Any, ...]]:
    names = ("Ulm", "Karlsruhe Hbf", "Kaiserstraße 12", "Münster", "Berlin", "Bad Urach")
    places = [
        Place(
            f"{i}", f"{names[i % 6]} {i // 6 or ''}".strip(), 48 + i / 50, 8 + i / 40, "stop", "Ulm", weight=i
        )
        for i in range(90)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = build_index(places, Path(folder) / "places.db")
        return path.read_bytes(), ask(path)


def ask(path: Path) -> tuple[Any, ...]:
    with SqliteEngine(path) as engine:
        found = [
            [(hit.id, hit.score, hit.name) for hit in engine.search(text, focus)]
            for text in QUERIES
            for focus in (None, (48.4, 10.0))
        ]
        return len(engine), engine.layers, found, engine.places()


def make(source: random.Random, folder: Path) -> Path:
    content = bytearray(make_original()[0])
    size = len(content)
    for _ in range(source.choice([0, 1, 1, 1, 2, 5])):
        how = source.randrange(5)
        at = source.randrange(len(content)) if content else 0
        if how <= 1 and content:
            content[at] ^= 1 << source.randrange(8)
        elif how == 2:
            content[at : at + source.choice([1, 16, 512])] = source.randbytes(source.choice([1, 16, 512]))
        elif how == 3:
            del content[source.choice([at, size - 1, size - 33, size - 52, size - 60, 100, 99]) :]
        else:
            one, other = (PAGE * source.randrange(size // PAGE) for _ in range(2))
            content[one : one + PAGE] = source.choice([bytes(PAGE), content[other : other + PAGE]])
    if source.random() < 0.1:
        content += source.randbytes(source.choice([1, 52, 9000]))
    path = folder / "places.db"
    path.write_bytes(content)
    return path


def check(path: Path) -> None:
    assert ask(path) == make_original()[1], "a damaged index gave other answers"
