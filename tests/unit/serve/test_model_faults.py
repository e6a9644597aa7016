"""A model that is late, hangs or fails: people get the engine's order, with the reason."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from small_service import ITEMS, FakeEngine, FakeModel, ask, count, serve_here, spin, talk

from placings.core import BadInput

BODY = {"context": {"query": "lamp"}, "items": ITEMS}


def fail() -> None:
    raise RuntimeError("secret words of somebody's search")


def test_a_model_in_time_orders_the_list(tmp_path: Path) -> None:
    with serve_here(tmp_path) as live:
        told = ask(live, "POST", "/v1/rerank", json=BODY).json()
    assert told["items"] == ["b", "c", "a"]
    assert told["order"] == [1, 2, 0]
    assert told["scores"] == [-3.0, -1.0, -2.0]
    assert told["fallback"] is None


@pytest.mark.parametrize("block", [spin, time.sleep], ids=["spins in Python", "blocks in C"])
def test_a_model_over_its_budget_leaves_the_engines_order(tmp_path: Path, block: object) -> None:
    with serve_here(tmp_path, FakeModel(lambda: block(0.5)), budget_ms=20.0) as live:  # type: ignore[operator]
        found = ask(live, "POST", "/v1/rerank", json=BODY)
        assert count(live, "fallbacks_total", reason="budget") == 1
    assert found.status_code == 200
    assert (found.json()["items"], found.json()["fallback"]) == (["a", "b", "c"], "budget")
    assert found.json()["scores"] is None


def test_while_a_model_hangs_others_do_not_wait_for_it(tmp_path: Path) -> None:
    with serve_here(tmp_path, FakeModel(lambda: time.sleep(1.0)), budget_ms=20.0) as live:

        async def say(client: object) -> list[str]:
            asked = [await client.post("/v1/rerank", json=BODY) for _ in range(2)]  # type: ignore[attr-defined]
            assert live.find_stuck() > 0
            return [each.json()["fallback"] for each in asked]

        assert talk(live, say) == ["budget", "busy"]


def test_a_request_whose_time_is_over_in_the_queue_is_not_worked_on(tmp_path: Path) -> None:
    import asyncio

    worked: list[int] = []

    def work() -> None:
        worked.append(1)
        time.sleep(0.3)

    with serve_here(tmp_path, FakeModel(work), budget_ms=100.0) as live:

        async def say(client: object) -> list[str]:
            asked = [client.post("/v1/rerank", json=BODY) for _ in range(5)]  # type: ignore[attr-defined]
            return [each.json()["fallback"] for each in await asyncio.gather(*asked)]

        assert talk(live, say) == ["budget"] * 5
        time.sleep(0.4)
    assert len(worked) == 1


@pytest.mark.parametrize(
    "model",
    [FakeModel(fail), FakeModel(score=float("nan")), FakeModel(lambda: np.zeros(2)[3])],
    ids=["raises", "scores NaN", "a bug"],
)
def test_a_model_in_error_leaves_the_engines_order(
    tmp_path: Path, model: FakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_here(tmp_path, model, FakeEngine()) as live:
        found = ask(live, "GET", "/v1/search?text=lamp")
        assert count(live, "fallbacks_total", reason="error") == 1
    assert found.status_code == 200
    assert found.json()["geocoding"]["placings"]["fallback"] == "error"
    assert [each["properties"]["id"] for each in found.json()["features"]] == ["a", "b", "c"]
    assert "model failed" in caplog.text
    assert "secret words" not in caplog.text


def test_a_field_that_the_model_cannot_read_is_the_callers_fault_in_rerank_alone(tmp_path: Path) -> None:
    def refuse() -> None:
        raise BadInput("column 'price' must be numbers. Got 'x' at row 0.")

    with serve_here(tmp_path, FakeModel(refuse), FakeEngine()) as live:
        brought, found = ask(live, "POST", "/v1/rerank", json=BODY), ask(live, "GET", "/v1/search?text=lamp")
    assert (brought.status_code, "column 'price'" in brought.json()["error"]) == (400, True)
    assert (found.status_code, found.json()["geocoding"]["placings"]["fallback"]) == (200, "error")


def test_a_fallback_is_noted_as_no_models_list(tmp_path: Path) -> None:
    with serve_here(tmp_path, FakeModel(fail)) as live:
        ask(live, "POST", "/v1/rerank", json=BODY)
        assert live.store.sync()
        (_, body), *_ = live.store.read_shown()
    assert (body["model"], body["fallback"]) == (None, "error")


def test_more_than_the_queue_holds_is_turned_away_with_a_time_to_come_back(tmp_path: Path) -> None:
    import asyncio

    with serve_here(tmp_path, FakeModel(lambda: time.sleep(0.2)), most_waiting=1) as live:

        async def say(client: object) -> list[object]:
            return await asyncio.gather(
                *(client.post("/v1/rerank", json=BODY) for _ in range(3))  # type: ignore[attr-defined]
            )

        found = talk(live, say)
        assert count(live, "shed_total") == 2
    assert sorted(each.status_code for each in found) == [200, 503, 503]
    assert all(each.headers["retry-after"] == "1" for each in found if each.status_code == 503)
