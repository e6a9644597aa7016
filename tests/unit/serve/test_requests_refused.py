"""Bad requests: 4xx, one sentence that names the field, never 500."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_service import ITEMS, FakeEngine, ask, count, serve_here, talk

from placings.serve.app import MOST_BODY

EVENT = {"event_id": "e", "search_id": "s", "item_id": "a", "action": "click"}
BAD_LISTS: list[tuple[Any, str]] = [
    ([], "the body"),
    (3, "the body"),
    ({}, "items"),
    ({"items": {}}, "items"),
    ({"items": [1]}, "item 1"),
    ({"items": ITEMS, "extra": 1}, "extra"),
    ({"context": [], "items": ITEMS}, "context"),
    ({"items": [{}]}, "items[0].item_id"),
    ({"items": [{"item_id": None}]}, "items[0].item_id"),
    ({"items": [{"item_id": 1.5}]}, "items[0].item_id"),
    ({"items": [{"item_id": "a"}, {"item_id": "a"}]}, "items[1].item_id is there twice"),
    ({"items": [{"item_id": str(n)} for n in range(10_000)]}, "items must be 200 or fewer. Got 10,000."),
    ({"items": [{"item_id": "a", "price": {"deep": 1}}]}, "items[0].price"),
    ({"items": [{"item_id": "a", "tags": [["x"]]}]}, "items[0].tags"),
    ({"items": [{"item_id": "a", "name": "x" * 5000}]}, "items[0].name"),
    ({"items": [{"item_id": "a", **{f"f{n}": n for n in range(1001)}}]}, "items[0] must have 1000 fields"),
    ({"context": {"query": 3}, "items": ITEMS}, "context.query"),
    ({"context": {"query": "x" * 257}, "items": ITEMS}, "context.query must have 256 letters or fewer"),
    ({"context": {"focus_lat": 91}, "items": ITEMS}, "context.focus_lat"),
    ({"context": {"focus_lon": "8"}, "items": ITEMS}, "context.focus_lon"),
    ({"context": {"time": "yesterday"}, "items": ITEMS}, "time"),
    ({"context": {"time": 5}, "items": ITEMS}, "time"),
    ({"context": {"platform": {}}, "items": ITEMS}, "context.platform"),
    ({"context": {"user_id": "u" * 201}, "items": ITEMS}, "user"),
]
BAD_EVENTS: list[tuple[Any, str]] = [
    ([], "events must hold one event or more"),
    ({"events": []}, "events must hold one event or more"),
    ({"events": {"a": 1}}, "events[0].event_id"),
    ([1], "events[0] must be an object"),
    ([EVENT] * 501, "events must be 500 or fewer"),
    *(({**EVENT, name: None}, f"events[0].{name}") for name in EVENT),
    ({**EVENT, "event_id": "x" * 201}, "events[0].event_id"),
    ([EVENT, {**EVENT, "position": 0}], "events[1].position"),
    ({**EVENT, "position": True}, "events[0].position"),
    ({**EVENT, "visible": "all"}, "events[0].visible"),
    ({**EVENT, "visible": [{}]}, "events[0].visible[0]"),
    ({**EVENT, "items": "abc"}, "events[0].items"),
    ({**EVENT, "items": ["a"] * 201}, "events[0].items must be 200 or fewer"),
    ({"action_name": "click", "timestamp": "2026-03-01T08:30:00Z"}, "events[0] cannot be used"),
]
BAD_SEARCHES = [
    ("", "'text'"),
    ("text=%20", "'text'"),
    (f"text={'x' * 257}", "'text'"),
    ("text=a&focus.point.lat=49", "'focus.point.lon'"),
    ("text=a&focus.point.lat=nan&focus.point.lon=8", "'focus.point.lat'"),
    ("text=a&focus.point.lat=49&focus.point.lon=east", "'focus.point.lon'"),
    ("text=a&layers=,", "'layers'"),
    ("text=a&placings.user=" + "u" * 201, "user"),
]
BROKEN = [b"", b"{", b"NaN", b'{"items": [{"item_id": "a", "price": NaN}]}', b'{"items": 1e999}',
          b"[" * 5000, b'{"a":' * 100 + b"1" + b"}" * 100, b"\xff\xfe", b'"\\ud800"']  # fmt: skip


@pytest.mark.parametrize(("body", "field"), BAD_LISTS, ids=range(len(BAD_LISTS)))
def test_a_list_that_cannot_be_used_is_400_and_names_the_field(tmp_path: Path, body: Any, field: str) -> None:
    with serve_here(tmp_path) as live:
        found = ask(live, "POST", "/v1/rerank", json=body)
    assert found.status_code == 400
    assert field in found.json()["error"]
    assert "\n" not in found.json()["error"]


def test_events_that_cannot_be_used_are_400_name_the_field_and_none_is_written(tmp_path: Path) -> None:
    with serve_here(tmp_path, feedback_rate=1e6) as live:

        async def say(client: Any) -> None:
            for body, field in BAD_EVENTS:
                found = await client.post("/v1/feedback", json=body)
                assert found.status_code == 400, (body, found.text)
                assert field in found.json()["error"]

        talk(live, say)
        assert live.store.count()["events"] == 0


def test_a_search_that_cannot_be_used_is_400_in_pelias_shape(tmp_path: Path) -> None:
    with serve_here(tmp_path, engine=FakeEngine()) as live:

        async def say(client: Any) -> None:
            for query, field in BAD_SEARCHES:
                found = await client.get(f"/v1/search?{query}")
                assert found.status_code == 400, (query, found.text)
                told = found.json()
                assert (told["type"], told["features"]) == ("FeatureCollection", [])
                assert field in told["geocoding"]["errors"][0]

        talk(live, say)


def test_a_body_that_is_not_json_or_too_deep_is_400(tmp_path: Path) -> None:
    with serve_here(tmp_path) as live:

        async def say(client: Any) -> None:
            for path in ("/v1/rerank", "/v1/feedback", "/v1/explain"):
                for content in BROKEN:
                    found = await client.post(path, content=content)
                    assert (found.status_code, "the body" in found.json()["error"]) == (400, True), content[
                        :20
                    ]

        talk(live, say)


def test_a_body_that_is_too_large_is_413_whether_it_says_so_or_not(tmp_path: Path) -> None:
    async def endless() -> Any:
        while True:
            yield b" " * 65_536

    with serve_here(tmp_path) as live:

        async def say(client: Any) -> None:
            for content in (b" " * (MOST_BODY + 1), endless()):
                found = await client.post("/v1/rerank", content=content)
                assert (found.status_code, found.headers["connection"]) == (413, "close")

        talk(live, say)


def test_other_hosts_paths_and_methods_are_refused(tmp_path: Path) -> None:
    with serve_here(tmp_path, engine=FakeEngine()) as live:

        async def say(client: Any) -> None:
            other = await client.get("/v1/search?text=a", headers={"host": "evil.example"})
            assert other.status_code == 421
            assert (await client.get("/healthz", headers={"host": "10.0.0.7:8080"})).status_code == 200
            unknown = await client.get("/v1/nothing%1b")
            assert unknown.status_code == 404
            assert "\x1b" not in unknown.json()["geocoding"]["errors"][0]
            wrong = await client.delete("/v1/feedback")
            assert (wrong.status_code, "POST" in wrong.headers["allow"]) == (405, True)

        talk(live, say)


def test_a_fault_of_ours_is_told_without_its_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve_here(tmp_path) as live:

        async def fail(*_: Any) -> None:
            raise ZeroDivisionError("somebody's words")

        live.rerank = fail  # type: ignore[method-assign, assignment]
        found = ask(live, "POST", "/v1/rerank", json={"items": ITEMS})
        assert count(live, "requests_total", path="/v1/rerank", status="500") == 1
    assert found.json() == {"error": "the service has a fault; its log says which."}


def test_no_answer_may_be_kept_by_anyone(tmp_path: Path) -> None:
    with serve_here(tmp_path) as live:
        assert ask(live, "POST", "/v1/rerank", json={"items": ITEMS}).headers["cache-control"] == "no-store"
