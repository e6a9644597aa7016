"""What both fuzzers of bundles share: the bundles of version 1, and what users do with one."""

from __future__ import annotations

import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import placings as pg

HOME = Path(__file__).parents[1] / "fixtures" / "v1"
BUNDLES = [*sorted((HOME / "models").iterdir()), *[HOME / "reranker"] * 3]
FRESH = (10, 3)  # rows of other numbers than any sample's


def find_original(path: Path) -> Path:
    """The bundle that a case was made of: a case has its name."""
    return HOME / path.name if path.name == "reranker" else HOME / "models" / path.name


@cache
def _request() -> pg.Request:
    stored = json.loads((HOME / "requests.json").read_text())[0]
    own = {"item_id", "position", "score"}
    hits = [
        pg.Hit(hit["item_id"], {k: hit[k] for k in hit if k not in own}, hit["score"], hit["position"])
        for hit in stored["hits"][:5]
    ]
    given = stored["given"]
    moment = datetime.fromisoformat(given["time"])
    return pg.Request.of_hits(stored["text"], hits, focus=tuple(given["focus"]), time=moment)


def score(path: Path) -> np.ndarray:
    """Load what is there and score a few rows with it."""
    loaded: Any = pg.load(path)
    if path.name == "reranker":
        return np.asarray(loaded.rerank(_request()).scores)
    rows = np.linspace(-3, 9, 12 * loaded.n_features_in_, dtype=np.float32).reshape(12, -1)
    rows[5, 0] = np.nan
    return np.asarray(loaded.predict(rows, qid=np.arange(12) // 4))


@cache
def score_original(path: Path) -> np.ndarray:
    return score(path)
