"""What nobody waits for is done after the reply: the impression, and the line in the log."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from small_service import serve_here, talk

from placings.rerank import Request
from placings.serve import live as live_module
from placings.serve import logs
from placings.serve.event_store import EventStore
from placings.serve.live import Caller

REQUEST = Request({"query": "x"}, [{"item_id": "a"}, {"item_id": "b"}])


def test_a_list_is_answered_before_its_impression_is_made(tmp_path: Path) -> None:
    with serve_here(tmp_path) as live:

        async def go() -> tuple[int, int]:
            served = await live.rerank(REQUEST, Caller())
            at_once = live.store.waiting
            await asyncio.sleep(0)
            assert served.search_id
            return at_once, live.store.waiting

        assert asyncio.run(go()) == (0, 1)
        assert live.store.sync()
        assert live.store.count()["shown"] == 1


def test_a_service_that_leaves_writes_the_impressions_of_its_last_replies(tmp_path: Path) -> None:
    with serve_here(tmp_path) as live:

        async def go() -> None:
            await live.rerank(REQUEST, Caller())
            await live.close(1.0)

        asyncio.run(go())
    with EventStore(tmp_path / "data") as store:
        assert store.count()["shown"] == 1


def test_an_impression_that_cannot_be_made_is_counted_and_the_list_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("what somebody typed")

    monkeypatch.setattr(live_module, "describe", fail)
    with serve_here(tmp_path) as live:

        async def say(client: Any) -> int:
            reply = await client.post("/v1/rerank", json={"items": [{"item_id": "a"}, {"item_id": "b"}]})
            await asyncio.sleep(0)
            return int(reply.status_code)

        assert talk(live, say) == 200
        assert b"placings_impressions_dropped_total 1.0" in live.monitor.write()
        assert live.store.count()["shown"] == 0
    assert "an impression is dropped: ValueError" in caplog.text
    assert "typed" not in caplog.text


def test_the_line_of_a_request_has_the_time_of_its_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placings.access")
    with serve_here(tmp_path, access_log=True) as live:

        async def say(client: Any) -> tuple[int, float, str]:
            reply = await client.post("/v1/rerank", json={"items": [{"item_id": "a"}, {"item_id": "b"}]})
            at_once, now = len(caplog.records), live_module.time()
            return at_once, now, json.loads(reply.content)["search_id"]

        at_once, now, search_id = talk(live, say)
    (record,) = (each for each in caplog.records if each.name == "placings.access")
    assert at_once == 0
    assert record.created <= now
    assert record.told["search_id"] == search_id  # type: ignore[attr-defined]


def test_lines_that_nobody_can_write_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placings.access")
    monkeypatch.setattr(logs, "MOST_LINES", 3)
    monkeypatch.setattr(logs, "EVERY", 0.01)
    stuck, free = threading.Event(), threading.Event()

    class Slow(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            stuck.set()
            assert free.wait(30)

    slow = Slow()
    logs.ACCESS.addHandler(slow)

    async def go() -> None:
        lines = logs.RequestLines()
        lines.note("/first", 200, 0.1, None)
        while not stuck.is_set():
            await asyncio.sleep(0.01)
        for number in range(5):
            lines.note(f"/{number}", 200, 0.1, None)
            await asyncio.sleep(0.02)  # the loop turns although the log is stuck
        free.set()
        await lines.close()

    try:
        asyncio.run(go())
    finally:
        logs.ACCESS.removeHandler(slow)
    told = [getattr(each, "told", {}).get("path") for each in caplog.records]
    assert told == ["/first", "/0", "/1", "/2", None]
    assert caplog.records[-1].getMessage() == "2 lines of requests were dropped"


def test_an_items_own_past_clicks_go_before_those_that_are_counted(tmp_path: Path) -> None:
    class Counts:
        is_of_items = True

        def look_up(self, item: str, session: str | None = None) -> int:
            return {"a": 3}.get(item, 0)

        def look_up_own(self, *_: Any, **__: Any) -> None:
            return None

        def follow(self) -> int:
            return 0

    with serve_here(tmp_path) as live:
        live.models.clicks = {"model": Counts()}  # type: ignore[dict-item]
        told = Request({"query": "x"}, [{"item_id": "a"}, {"item_id": "b", "past_clicks": 9.0}])
        served = asyncio.run(live.rerank(told, Caller()))
    assert [item["past_clicks"] for item in served.request.items] == [3.0, 9.0]
