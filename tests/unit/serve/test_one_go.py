"""An engine that works in this process is searched and its hits are ordered in one go, in one thread."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_service import FakeEngine, FakeModel, ask, count, serve_here, spin, talk

SEARCH = "/v1/search?text=lamp"
ENGINE_ORDER, MODEL_ORDER = ["a", "b", "c"], ["b", "c", "a"]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeEngine, "in_process", True)


def list_ids(reply: Any) -> list[str]:
    return [each["properties"]["id"] for each in reply.json()["features"]]


def find_fallback(reply: Any) -> str | None:
    told: str | None = reply.json()["geocoding"]["placings"]["fallback"]
    return told


def test_engine_and_model_work_in_one_thread(tmp_path: Path) -> None:
    seen: list[str] = []

    def note() -> None:
        seen.append(threading.current_thread().name)

    with serve_here(tmp_path, FakeModel(note), FakeEngine(note)) as live:
        assert list_ids(ask(live, "GET", SEARCH)) == MODEL_ORDER
    assert len(seen) == 2
    assert len(set(seen)) == 1


def test_both_ways_show_and_note_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted, shown = [], []
    for in_process in (True, False):
        monkeypatch.setattr(FakeEngine, "in_process", in_process)
        with serve_here(tmp_path / str(in_process), engine=FakeEngine()) as live:
            reply = ask(live, "GET", f"{SEARCH}&focus.point.lat=49.013&focus.point.lon=8.404")
            assert live.store.sync()
            (_, body), *_ = live.store.read_shown()
            stages = [count(live, "stage_seconds_count", stage=stage) for stage in ("engine", "model")]
        assert stages == [1, 1]
        noted.append({name: body[name] for name in body if name not in ("search_id", "time")})
        shown.append((list_ids(reply), find_fallback(reply)))
    assert noted[0] == noted[1]
    assert shown[0] == shown[1] == (MODEL_ORDER, None)
    assert noted[0]["focus_lat"] == 49.01  # rounded before anything sees it


@pytest.mark.parametrize("block", [spin, time.sleep], ids=["spins in Python", "blocks in C"])
def test_a_model_over_its_budget_leaves_the_engines_order(tmp_path: Path, block: Any) -> None:
    with serve_here(tmp_path, FakeModel(lambda: block(0.5)), FakeEngine(), budget_ms=20.0) as live:
        start = time.perf_counter()
        reply = ask(live, "GET", SEARCH)
        took = time.perf_counter() - start
        assert count(live, "fallbacks_total", reason="budget") == 1
    assert (reply.status_code, list_ids(reply), find_fallback(reply)) == (200, ENGINE_ORDER, "budget")
    assert took < 0.45  # nobody waited for the model


def test_while_a_model_hangs_searches_are_answered_elsewhere(tmp_path: Path) -> None:
    hung = threading.Event()
    with serve_here(tmp_path, FakeModel(lambda: hung.wait(20)), FakeEngine(), budget_ms=30.0) as live:

        async def say(client: Any) -> list[tuple[list[str], str | None]]:
            first = await client.get(SEARCH)
            later = await asyncio.gather(*(client.get(SEARCH) for _ in range(3)))
            assert live.find_stuck() > 0
            return [(list_ids(each), find_fallback(each)) for each in (first, *later)]

        found = talk(live, say)
        hung.set()
    assert found == [(ENGINE_ORDER, "budget"), *[(ENGINE_ORDER, "busy")] * 3]


def test_who_waits_behind_a_model_that_hangs_is_answered_once_the_budget_is_over(tmp_path: Path) -> None:
    hung = threading.Event()
    with serve_here(tmp_path, FakeModel(lambda: hung.wait(20)), FakeEngine(), budget_ms=60.0) as live:

        async def say(client: Any) -> list[str | None]:
            return [
                find_fallback(each) for each in await asyncio.gather(*(client.get(SEARCH) for _ in range(3)))
            ]

        found = talk(live, say)
        hung.set()
    assert found[0] == "budget"
    assert set(found[1:]) == {"busy"}


def test_what_was_waited_for_the_thread_counts_against_the_models_budget(tmp_path: Path) -> None:
    asked: list[float] = []

    def work() -> None:
        asked.append(time.monotonic())
        time.sleep(0.08)

    with serve_here(tmp_path, FakeModel(work), FakeEngine(), budget_ms=120.0) as live:

        async def say(client: Any) -> list[str | None]:
            return [
                find_fallback(each) for each in await asyncio.gather(*(client.get(SEARCH) for _ in range(2)))
            ]

        assert talk(live, say) == [None, "budget"]  # 80 ms of waiting and 80 ms of work are more than 120


@pytest.mark.parametrize(
    "model",
    [FakeModel(score=float("nan")), FakeModel(lambda: np.zeros(2)[3])],
    ids=["scores NaN", "a bug"],
)
def test_a_model_in_error_leaves_the_engines_order(tmp_path: Path, model: FakeModel) -> None:
    with serve_here(tmp_path, model, FakeEngine()) as live:
        reply = ask(live, "GET", SEARCH)
        assert count(live, "fallbacks_total", reason="error") == 1
    assert (reply.status_code, list_ids(reply), find_fallback(reply)) == (200, ENGINE_ORDER, "error")


def test_an_engine_that_is_slow_once_makes_nobody_wait_longer_than_the_budget(tmp_path: Path) -> None:
    slow = threading.Event()

    def search() -> None:
        if not slow.is_set():
            slow.set()
            time.sleep(0.4)

    with serve_here(tmp_path, engine=FakeEngine(search), budget_ms=40.0) as live:

        async def say(client: Any) -> tuple[float, list[int]]:
            first = asyncio.create_task(client.get(SEARCH))
            await asyncio.sleep(0.05)
            start = time.perf_counter()
            second = await client.get(SEARCH)
            return time.perf_counter() - start, [(await first).status_code, second.status_code]

        took, statuses = talk(live, say)
    assert statuses == [200, 200]
    assert took < 0.3


def test_the_embedded_engine_is_asked_in_one_go() -> None:
    from placings.places import SqliteEngine

    assert SqliteEngine.in_process
