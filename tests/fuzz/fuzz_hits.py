"""Hits files and requests of hostile JSON: a small re-ranker gives an order of all items, or refuses."""

from __future__ import annotations

import json
import math
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import BadInput, parse_json
from placings.places import place_features
from placings.rankers import make_ranker
from placings.rerank import HitsFile, Request, Reranker

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 3.5, 1e308, 1e999, -1e999, math.nan, 10**30, 10**400, "", "Ulm", "a\0",
    "\ud800", "x" * 5000,
    "48.4", "2026-03-01T08:30+01:00", "2026-13-45", "9999999-01-01", [], ["a"], [[1]], {}, {"a": [1]},
    -(2**63), 2**64, "nan",
]  # fmt: skip
NAMES = (
    "item_id", "id", "name", "lat", "lon", "score", "rank", "position", "weight", "type", "locality",
    "street", "query",
    "time", "focus_lat", "focus_lon", "zone", "target", "platform", "past_clicks", "search_id",
    "neighbourhood",
)  # fmt: skip


@cache
def make_reranker() -> Reranker:
    rows = {
        "search_id": ["a"] * 3 + ["b"] * 3, "query": ["ulm"] * 3 + ["karls"] * 3, "name": ["Ulm", "Neu-Ulm",
        "Ulmen"] * 2,
        "item_id": list("abcdef"), "lat": [48.4] * 6, "lon": [10.0] * 6, "focus_lat": [48.0] * 6,
        "focus_lon": [9.0] * 6,
        "weight": [1.0, 2.0, 3.0] * 2, "position": [1, 2, 3] * 2, "score": [3.0, 2.0, 1.0] * 2,
        "type": ["stop"] * 6,
        "label": [1.0, 0.0, 0.0] * 2, "locality": ["Ulm"] * 6, "time": ["2026-03-01T08:30"] * 6,
        "zone": ["UTC"] * 6,
        "target": ["start"] * 6, "platform": ["web"] * 6,
    }  # fmt: skip
    features = place_features().fit(rows)
    return Reranker(features, make_ranker("ridge").fit(features.to_ranking(rows)), None, {"a": 3})


def make_item(source: random.Random, number: int) -> Any:
    if source.random() < 0.02:
        return source.choice(VALUES)
    item: dict[str, Any] = {"item_id": f"i{number}", "name": "Ulm", "lat": 48.4, "lon": 10.0, "score": 1.0}
    for _ in range(source.choice([0, 0, 0, 1, 2])):
        item[source.choice(NAMES)] = source.choice(VALUES)
    return item


def make(source: random.Random, folder: Path) -> Path:
    items = [make_item(source, number) for number in range(source.randrange(6))]
    kind = source.choice(["hits", "request"])
    if kind == "hits":
        told: Any = {"query": source.choice(VALUES) if source.random() < 0.03 else "ulm", "hits": items}
    else:
        context = {"query": "ulm"} | {
            source.choice(NAMES): source.choice(VALUES) for _ in range(source.choice([0, 0, 1, 2]))
        }
        told = {"context": source.choice(VALUES) if source.random() < 0.02 else context, "items": items}
    if source.random() < 0.03:
        told = source.choice([*VALUES, {"items": items, "more": 1}, {"context": {}}])
    text = json.dumps(told)
    if source.random() < 0.05:
        text = source.choice(
            [text[: source.randrange(len(text) + 1)], text.replace("1", "[" * 500, 1), "[" * 9000]
        )
    path = folder / f"{kind}.jsonl"
    path.write_bytes(text.encode("utf-8", "replace"))
    return path


def check(path: Path) -> None:
    if path.name.startswith("hits"):
        engine = HitsFile(path)
        hits = engine.search("ulm")
        assert len({hit.id for hit in hits}) == len(hits)
        assert not any(math.isinf(hit.score) for hit in hits)
        request = Request.of_hits("ulm", hits)
    else:
        try:
            told = parse_json(path.read_bytes())
        except ValueError as error:
            raise BadInput(str(error)) from None
        request = Request.from_dict(told)
    json.dumps(request.to_dict(), allow_nan=False)
    found = make_reranker().rerank(request)
    assert sorted(found.order.tolist()) == list(range(len(request.items)))
    assert np.isfinite(found.scores).all()
