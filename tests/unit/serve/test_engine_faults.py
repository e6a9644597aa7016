"""An engine that is down, slow, or talks nonsense: 503 or 502, soon, and a circuit breaker."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recording_server import Answer, serve_answers
from small_service import FakeEngine, ask, count, make_hits, serve_here

from placings.places import GarbledAnswer
from placings.rerank import Hit
from placings.serve.circuit import Circuit
from placings.serve.worker import open_served

SEARCH = "/v1/search?text=geheim"


@pytest.fixture(autouse=True, params=[False, True], ids=["elsewhere", "in this process"])
def engine_works_where(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine may be a server, or work in this process, where it is asked in one go with the model."""
    monkeypatch.setattr(FakeEngine, "in_process", request.param)


def drop() -> None:
    raise ConnectionRefusedError(111, "connection refused")


def garble() -> None:
    raise GarbledAnswer(
        "Pelias answered 200 with something that is not JSON, beginning '<html>\x1b[2J geheim'."
    )


def test_a_slow_engine_is_503_with_a_time_to_come_back(tmp_path: Path) -> None:
    with serve_here(tmp_path, engine=FakeEngine(lambda: time.sleep(0.5)), engine_timeout_ms=20.0) as live:
        found = ask(live, "GET", SEARCH)
        assert count(live, "engine_failures_total", reason="late") == 1
    assert (found.status_code, int(found.headers["retry-after"]) >= 1) == (503, True)
    assert found.json()["geocoding"]["errors"] == ["the engine took longer than 20 ms."]


def test_an_engine_that_is_down_is_left_alone_then_tried_once(tmp_path: Path) -> None:
    engine, now = FakeEngine(drop), [0.0]
    with serve_here(tmp_path, engine=engine) as live:
        live.circuit = Circuit(failures=3, pause=5.0, clock=lambda: now[0])
        assert [ask(live, "GET", SEARCH).status_code for _ in range(5)] == [503] * 5
        assert len(engine.asked) == 3  # then nobody asked it
        assert count(live, "engine_failures_total", reason="left alone") == 2
        assert count(live, "engine_circuit") == 2
        now[0] = 6.0
        assert ask(live, "GET", SEARCH).status_code == 503
        assert len(engine.asked) == 4  # the probe, which failed
        assert ask(live, "GET", SEARCH).status_code == 503
        assert len(engine.asked) == 4
        now[0], engine.before = 12.0, lambda: None
        assert [ask(live, "GET", SEARCH).status_code for _ in range(3)] == [200] * 3
        assert count(live, "engine_circuit") == 0


@pytest.mark.parametrize(
    "engine",
    [
        FakeEngine(garble), FakeEngine(found={"hits": 3}), FakeEngine(found=[None]),
        FakeEngine(lambda: {}["hits"]), FakeEngine(lambda: float("<html>")),
    ],
    ids=["not JSON", "an object", "a list of nothing", "a missing key", "not a number"],
)  # fmt: skip
def test_nonsense_is_502_and_only_the_log_has_its_first_bytes(
    tmp_path: Path, engine: FakeEngine, caplog: pytest.LogCaptureFixture
) -> None:
    engine = replace(engine)  # it is mended below, and this test runs twice
    with serve_here(tmp_path, engine=engine) as live:
        found = ask(live, "GET", SEARCH)
        assert live.store.sync()
        assert live.store.count()["shown"] == 0
        engine.before, engine.found = (lambda: None), make_hits()
        assert ask(live, "GET", SEARCH).status_code == 200  # nothing of it was kept
    assert found.status_code == 502
    assert found.json()["features"] == []
    assert "answered with nonsense" in caplog.text
    assert "\x1b" not in caplog.text
    assert "geheim" not in caplog.text


def test_the_log_has_the_beginning_of_what_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serve_answers() as server:
        server.answer(Answer(b"<html>\x1b[31mBad gateway of somebody else"))
        spec = f"pelias+{server.url}"
        with serve_here(tmp_path, engine=open_served(spec, 5.0)) as live:
            assert ask(live, "GET", SEARCH).status_code == 502
    assert "<html>" in caplog.text
    assert "\x1b" not in caplog.text


def test_a_server_that_refuses_is_503_and_asked_once(tmp_path: Path) -> None:
    with serve_answers() as server:
        server.answer(Answer({"error": "no"}, 500))
        with serve_here(tmp_path, engine=open_served(f"pelias+{server.url}", 5.0)) as live:
            assert ask(live, "GET", SEARCH).status_code == 503
        assert len(server.asked) == 1  # a search has no time for second tries


def test_an_id_that_stands_twice_is_shown_once(tmp_path: Path) -> None:
    twice = [*make_hits(), Hit("a", {"name": "again"}, 0.0, 4)]
    with serve_here(tmp_path, engine=FakeEngine(found=twice)) as live:
        found = ask(live, "GET", SEARCH).json()
    assert sorted(each["properties"]["id"] for each in found["features"]) == ["a", "b", "c"]


def test_a_busy_pool_is_503_and_the_queue_is_bounded(tmp_path: Path) -> None:
    import asyncio

    from small_service import talk

    engine = FakeEngine(lambda: time.sleep(0.2))
    with serve_here(tmp_path, engine=engine, engine_threads=1, most_waiting=3) as live:

        async def say(client: Any) -> list[int]:
            asked = await asyncio.gather(*(client.get(SEARCH) for _ in range(10)))
            return sorted(each.status_code for each in asked)

        assert talk(live, say) == [200] * 3 + [503] * 7
    assert len(engine.asked) == 3
