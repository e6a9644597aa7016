"""What version 1 saved loads in every later version; tests/fixtures/make_v1.py says how it was made."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

import placings as pg

HOME = Path(__file__).parents[1] / "fixtures" / "v1"
MODELS = sorted(path.name for path in (HOME / "models").iterdir())


def test_every_kind_of_ranker_was_saved() -> None:
    assert len(MODELS) == 13
    assert {
        json.loads((HOME / "models" / name / "manifest.json").read_text())["version"] for name in MODELS
    } == {1}


@pytest.mark.parametrize("name", MODELS)
def test_a_ranker_saved_by_version_1_still_gives_its_scores(name: str) -> None:
    data = pg.read(HOME / "rows.txt", cache=False)
    expected = json.loads((HOME / "scores.json").read_text())[name]
    found = pg.load(HOME / "models" / name).predict(data)
    # float32 networks, other CPUs add in another order: 1e-5 of the largest score
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_a_reranker_saved_by_version_1_still_gives_its_orders() -> None:
    reranker, own = pg.load(HOME / "reranker"), {"item_id", "position", "score"}
    changed = 0
    for stored in json.loads((HOME / "requests.json").read_text()):
        hits = [
            pg.Hit(
                hit["item_id"],
                {key: hit[key] for key in hit if key not in own},
                hit["score"],
                hit["position"],
            )
            for hit in stored["hits"]
        ]
        given = stored["given"]
        request = pg.Request.of_hits(
            stored["text"], hits, focus=tuple(given["focus"]), time=datetime.fromisoformat(given["time"]),
            target=given["target"], platform=given["platform"],
        )  # fmt: skip
        found = [hits[row].id for row in reranker.rerank(request).order]
        assert found == stored["order"]
        changed += found != [hit.id for hit in hits]
    assert changed > 0
