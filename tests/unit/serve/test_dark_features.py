"""A feature that is there in training and not live: counted by lists against the bundle's coverage."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_service import ask, count, serve_here, talk

from placings.features import FeatureSet
from placings.features.number import Number
from placings.rankers.linear import LinearRanker
from placings.rerank import Reranker
from placings.serve.monitor import ENOUGH, SAMPLED, Monitor

pd = pytest.importorskip("pandas")
FULL, EMPTY = np.ones((4, 2)), np.array([[1.0, 0.0], [1.0, np.nan]])


def make_reranker() -> Reranker:
    """Two numbers of a shop: the price is always there, the rating for half of the items."""
    rows = pd.DataFrame({
        "search_id": [f"s{n // 4}" for n in range(80)], "item_id": [f"i{n}" for n in range(80)],
        "position": [n % 4 + 1 for n in range(80)], "price": [1.0 + n % 4 for n in range(80)],
        "rating": [4.0 if n % 2 else np.nan for n in range(80)],
        "label": [float(n % 4 == 1) for n in range(80)],
    })  # fmt: skip
    features = FeatureSet([Number("price"), Number("rating")]).fit(rows)
    return Reranker(features, LinearRanker().fit(features.to_ranking(rows)), None)


def test_a_feature_is_dark_once_enough_lists_lack_it_and_comes_back(caplog: pytest.LogCaptureFixture) -> None:
    monitor = Monitor()
    monitor.expect(["price", "rating"], [1.0, 1.0])
    for _ in range(ENOUGH - 1):
        monitor.take_sample(EMPTY)
    assert monitor.dark == ()
    monitor.take_sample(EMPTY)
    assert monitor.dark == ("rating",)
    assert "features went dark: rating" in caplog.text
    assert monitor.registry.get_sample_value("placings_dark_feature", {"feature": "rating"}) == 1
    for _ in range(ENOUGH):
        monitor.take_sample(FULL)
    assert monitor.dark == ()
    assert "features are back: rating" in caplog.text
    assert monitor.registry.get_sample_value("placings_dark_feature", {"feature": "rating"}) == 0


def test_a_feature_as_rare_as_in_training_is_not_dark() -> None:
    monitor, rng = Monitor(), np.random.default_rng(0)
    monitor.expect(["rare", "unknown"], [0.05, float("nan")])
    for _ in range(2 * SAMPLED):
        monitor.take_sample(np.stack([np.full(5, float(rng.random() < 0.05)), np.zeros(5)], axis=1))
        assert monitor.dark == ()
    assert len(monitor._seen) == SAMPLED


def test_the_window_forgets_what_is_long_ago() -> None:
    monitor = Monitor()
    monitor.expect(["price", "rating"], [1.0, 1.0])
    for matrix in [FULL] * SAMPLED + [EMPTY] * SAMPLED:
        monitor.take_sample(matrix)
    assert monitor._sum.tolist() == [SAMPLED, 0.0]


def test_lists_are_looked_at_once_a_second() -> None:
    now = [0.0]
    monitor = Monitor(clock=lambda: now[0])
    assert not monitor.wants_sample()  # nothing is expected yet
    monitor.expect(["price"], [1.0])
    assert [monitor.wants_sample() for _ in range(3)] == [True, False, False]
    now[0] = 1.0
    assert monitor.wants_sample()


@pytest.mark.parametrize("falls_back", [False, True])
def test_a_feature_that_goes_dark_live_alarms_and_may_bring_the_engines_order(
    tmp_path: Path, falls_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placings.serve.monitor.EVERY", 0.0)
    reranker = make_reranker()
    assert dict(zip(reranker.features_.names, reranker.ranker_.coverage_.tolist(), strict=True)) == {
        "price": 1.0,
        "rating": 0.5,
    }
    with serve_here(tmp_path, reranker, fall_back_when_dark=falls_back) as live:

        async def say(client: Any) -> list[str | None]:
            found = []
            for _ in range(3 * ENOUGH):
                items = [{"item_id": name, "rating": 4.0} for name in "abcd"]  # the price is gone
                found.append((await client.post("/v1/rerank", json={"items": items})).json()["fallback"])
            return found

        reasons = talk(live, say)
        assert live.monitor.dark == ("price",)
        assert count(live, "dark_features") == 1
        assert count(live, "missing_values_total", field="price") > 0
    assert reasons[:ENOUGH] == [None] * ENOUGH
    assert reasons[-1] == ("dark" if falls_back else None)


def test_another_model_starts_anew(tmp_path: Path) -> None:
    with serve_here(tmp_path, make_reranker()) as live:
        for _ in range(ENOUGH):
            live.monitor.take_sample(np.zeros((3, 2)))
        assert live.monitor.is_dark()
        live.replace_models(live.models)
        assert not live.monitor.is_dark()
        assert count(live, "dark_features") == 0
        assert count(live, "dark_feature", feature="price") == 0


def test_explanations_name_the_features_that_differ(tmp_path: Path) -> None:
    items = [{"item_id": "a", "price": 1.0, "rating": 4.0}, {"item_id": "b", "price": 3.0, "rating": 4.0}]
    with serve_here(tmp_path, make_reranker()) as live:
        found = ask(live, "POST", "/v1/explain", json={"a": "b", "b": "a", "items": items})
    told = found.json()
    assert [term["feature"] for term in told["terms"]] == ["price"]
    assert (told["terms"][0]["a"], told["terms"][0]["b"]) == (3.0, 1.0)
    assert told["split_by"] == "LinearRanker"
    difference = told["a"]["score"] - told["b"]["score"]
    assert sum(term["part"] for term in told["terms"]) == pytest.approx(difference, rel=1e-6)
    assert told["holds"] == (difference > 0)


def test_a_list_that_was_shown_is_explained_by_its_id(tmp_path: Path) -> None:
    items = [{"item_id": name, "price": price, "rating": 4.0} for name, price in (("a", 1.0), ("b", 3.0))]
    with serve_here(tmp_path, make_reranker()) as live:

        async def say(client: Any) -> None:
            shown = (await client.post("/v1/rerank", json={"items": items})).json()
            await asyncio.sleep(0)  # the impression is noted after the reply
            assert live.store.sync()
            path = f"/v1/explain?search_id={shown['search_id']}"
            told = (await client.get(f"{path}&a={shown['items'][0]}&b={shown['items'][1]}")).json()
            assert (told["holds"], told["whole"], told["fallback"]) == (True, True, None)
            assert (await client.get(f"{path}&a=a&b=z")).status_code == 400
            assert (await client.get(f"{path}&a=a&b=a")).status_code == 400
            assert (await client.get("/v1/explain?search_id=forged&a=a&b=b")).status_code == 404

        talk(live, say)


def test_explanations_are_for_operators(tmp_path: Path) -> None:
    path, token = "/v1/explain?search_id=s&a=a&b=b", "t" * 20
    with serve_here(tmp_path / "loopback", make_reranker()) as live:
        assert ask(live, "GET", path).status_code == 404
        assert ask(live, "GET", path, headers={"x-forwarded-for": "10.0.0.1"}).status_code == 403
        assert ask(live, "GET", path, token=token).status_code == 401
        wrong, right = ({"authorization": f"Bearer {each}"} for each in ("t" * 19 + "u", token))
        assert ask(live, "GET", path, token=token, headers=wrong).status_code == 401
        assert ask(live, "GET", path, token=token, headers=right).status_code == 404
    with serve_here(tmp_path / "open", make_reranker(), host="0.0.0.0") as live:
        assert ask(live, "GET", path).status_code == 403
