"""Early stopping by clicks over propensities: one definition for every ranker that watches a metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.metrics import metric
from placings.rankers import make_ranker
from placings.rerank import Reranker

QUICK: dict[str, dict[str, Any]] = {
    "lightgbm": {"rounds": 8, "min_data_in_leaf": 2, "n_jobs": 1},
    "xgboost": {"rounds": 8, "n_jobs": 1},
    "catboost": {"rounds": 8, "n_jobs": 1},
    "neural": {"steps": 30, "check_every": 10, "hidden": [4], "device": "cpu"},
}


def make_clicks(queries: int, seed: int) -> RankingData:
    """Lists of five shown with the wanted last: what is clicked is what is looked at."""
    rng = np.random.default_rng(seed)
    rows = 5 * queries
    seen = np.tile(1.0 / np.arange(1.0, 6.0), queries)
    wanted = np.sort(rng.random((queries, 5)), axis=1).ravel()
    clicks = (rng.random(rows) < wanted * seen) * 1.0
    X = np.stack([wanted + 0.1 * rng.normal(size=rows), seen, rng.random(rows)], axis=1)
    return RankingData.from_arrays(X, clicks, np.repeat(np.arange(queries), 5), propensity=seen)


TRAIN, VALID = make_clicks(60, 0).replace(propensity=None), make_clicks(41, 1)  # watched, not weighed


def mean_of(scores: Any, data: RankingData, name: str) -> float:
    return float(metric(name)(scores, data.y, data.offsets, propensity=data.propensity).mean())


@pytest.mark.parametrize("name", QUICK)
def test_what_is_watched_is_the_mean_over_all_validation_lists(name: str) -> None:
    plain = {"ridge": False} if name == "neural" else {}  # ridges come when nothing is checked any more
    ranker = make_ranker(name, metric="dcg@3:ips", random_state=0, **QUICK[name], **plain)
    ranker.fit(TRAIN, valid=VALID)
    history = [value for _, value in ranker.history_.checks] if name == "neural" else ranker.history_
    assert len(history) > 1
    assert mean_of(ranker.predict(VALID), VALID, "dcg@3:ips") == pytest.approx(max(history), rel=1e-6)


@pytest.mark.parametrize("name", QUICK)
def test_validation_without_propensities_is_refused(name: str) -> None:
    ranker = make_ranker(name, metric="dcg@3:ips", random_state=0, **QUICK[name])
    with pytest.raises(BadInput, match="dcg@3:ips divides each click by its propensity, and the data has no"):
        ranker.fit(TRAIN, valid=VALID.replace(propensity=None))


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_validation_without_a_click_is_refused(name: str) -> None:
    silent = VALID.replace(y=np.zeros(VALID.n_rows))
    ranker = make_ranker(name, metric="clicks@3:ips", random_state=0, **QUICK[name])
    with pytest.raises(BadInput, match="valid has no query for which clicks@3:ips is defined"):
        ranker.fit(TRAIN, valid=silent)


def test_a_reranker_stops_early_and_is_judged_by_it() -> None:
    """A log with a column of propensities: its validation part has them too."""
    import pandas as pd

    rng = np.random.default_rng(0)
    lists, items = 80, 5
    rows = pd.DataFrame(
        {
            "search_id": np.repeat([f"s{n}" for n in range(lists)], items),
            "item_id": [f"i{n}" for n in rng.integers(0, 40, lists * items)],
            "position": np.tile(np.arange(1, items + 1), lists),
            "query": "a word", "session_id": np.repeat([f"p{n // 2}" for n in range(lists)], items),
        }
    )  # fmt: skip
    rows["price"] = rng.random(len(rows))
    rows["propensity"] = 1.0 / rows["position"]
    rows["label"] = (rng.random(len(rows)) < rows["price"] * rows["propensity"]).astype(float)
    ranker = make_ranker("lightgbm", metric="dcg@3:ips", random_state=0, **QUICK["lightgbm"])
    fitted = Reranker("shop", ranker, guard=False).fit(rows)
    assert len(fitted.ranker_.history_) > 0
    found = fitted.evaluate(rows, ["dcg@3:ips"], bootstrap=0)
    assert found.counts["scored"] == found.counts["queries"]
    assert "each click weighs 1 over its propensity" in found.rule
