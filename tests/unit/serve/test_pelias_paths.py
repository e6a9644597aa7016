"""Pelias' other paths: handed on to a Pelias server, or answered in Pelias' shape."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from recording_server import Answer, serve_answers
from small_service import FakeEngine, ask, serve_here

from placings.serve import pelias_proxy

FOUND = {"type": "FeatureCollection", "features": [], "geocoding": {"version": "0.2"}}
REVERSE = "/v1/reverse?point.lat=49&point.lon=8.4&api_key=theirs"


def test_other_paths_are_handed_on_with_our_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACINGS_PELIAS_KEY", "ours")
    with serve_answers() as server:
        server.answer(FOUND)
        with serve_here(tmp_path, engine=FakeEngine()) as live:
            object.__setattr__(live.settings, "engine", f"pelias+{server.url}")
            found = ask(live, "GET", REVERSE)
    assert (found.status_code, found.json()) == (200, FOUND)
    assert server.asked[0].path == "/v1/reverse"
    assert server.asked[0].params == {"point.lat": "49", "point.lon": "8.4", "api_key": "ours"}


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answer({"geocoding": {"errors": ["bad point"]}}, 400), 400),
        (Answer(b"<html>", 200), 502),
        (Answer([1], 200), 502),
        (Answer({}, 500), 502),
        (Answer({}, 302, {"Location": "http://127.0.0.1:1/elsewhere"}), 502),
        (Answer(cut=True), 503),
        (Answer(b"[" + b" " * (5 << 20), 200), 502),
    ],
    ids=["their 400", "not JSON", "no object", "their fault", "a redirect", "cut", "huge"],
)
def test_what_cannot_be_handed_on_is_told_in_pelias_shape(tmp_path: Path, answer: Any, status: int) -> None:
    with serve_answers() as server:
        server.answer(answer)
        with serve_here(tmp_path, engine=FakeEngine()) as live:
            object.__setattr__(live.settings, "engine", f"pelias+{server.url}")
            found = ask(live, "GET", REVERSE)
        assert len(server.asked) == 1  # asked once, and no redirect followed
    assert found.status_code == status
    assert found.json()["geocoding"]["errors"]


def test_a_slow_server_is_503_by_the_deadline(tmp_path: Path) -> None:
    def wait(_: Any) -> Any:
        time.sleep(0.5)
        return FOUND

    with serve_answers() as server:
        server.answer(wait)
        with serve_here(tmp_path, engine=FakeEngine(), engine_timeout_ms=50.0) as live:
            object.__setattr__(live.settings, "engine", f"pelias+{server.url}")
            found = ask(live, "GET", REVERSE)
    assert found.status_code == 503
    assert found.json()["geocoding"]["errors"] == ["the engine took longer than 50 ms."]


def test_without_pelias_other_paths_say_so_in_its_shape(tmp_path: Path) -> None:
    with serve_here(tmp_path, engine=FakeEngine()) as live:
        for path in pelias_proxy.PATHS:
            found = ask(live, "GET", path)
            if path in pelias_proxy.PLAIN:
                assert (found.status_code, found.headers["content-type"][:10]) == (200, "text/plain")
            else:
                assert (found.status_code, found.json()["features"]) == (404, [])
                assert "Pelias" in found.json()["geocoding"]["errors"][0]


def test_size_is_at_most_40_as_in_pelias(tmp_path: Path) -> None:
    with serve_here(tmp_path, engine=FakeEngine()) as live:
        told = {size: ask(live, "GET", f"/v1/search?text=a&size={size}").json() for size in (1, 0, 99, "x")}
    assert [told[size]["geocoding"]["query"]["size"] for size in told] == [1, 1, 40, 10]
    assert len(told[1]["features"]) == 1


def test_a_place_is_written_as_pelias_writes_it(tmp_path: Path) -> None:
    with serve_here(tmp_path, engine=FakeEngine()) as live:
        told = ask(live, "GET", "/v1/autocomplete?text=a&focus.point.lat=49.123&focus.point.lon=8.4").json()
    feature = told["features"][0]
    assert feature["geometry"] == {"type": "Point", "coordinates": [8.4, 49.0]}
    assert {"gid", "layer", "source", "source_id", "name", "label"} <= set(feature["properties"])
    assert told["bbox"] == [8.4, 49.0, 8.4, 49.0]
