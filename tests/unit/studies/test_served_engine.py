"""A client of the service: a click is sent until it is acknowledged, always under the same id."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

pytest.importorskip("httpx")

from placings.studies.served_engine import ServedEngine, ServiceFailed

LIST = {
    "geocoding": {"placings": {"search_id": "s1", "model": "m1", "fallback": None}},
    "features": [
        {"geometry": {"coordinates": [8.4, 49.0]}, "properties": {"id": "a", "name": "Ahorn"}},
        {"geometry": None, "properties": {"id": "b", "name": "Birke"}},
    ],
}


class Service:
    """Answers searches with one list, and feedback with the statuses that are given, then with 202."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.statuses: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.paths.append(self.path)
                outer.headers.append(dict(self.headers))
                self.reply(200, LIST)

            def do_POST(self) -> None:
                told = json.loads(self.rfile.read(int(self.headers["content-length"])))
                known = {event["event_id"] for event in outer.events}
                outer.events += told["events"]
                status = outer.statuses.pop(0) if outer.statuses else 202
                seen = sum(event["event_id"] in known for event in told["events"])
                self.reply(status, {"new": len(told["events"]) - seen, "known": seen})

            def reply(self, status: int, body: Any) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.send_header("retry-after", "0.01")
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def service() -> Iterator[Service]:
    made = Service()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def engine(service: Service) -> Iterator[ServedEngine]:
    made = ServedEngine(service.url)
    yield made
    made.close()


def test_a_list_is_read_back_as_hits_with_their_places(service: Service, engine: ServedEngine) -> None:
    engine.begin("p1", "p1-3")
    hits = engine.search("ah", (49.5, 8.25), 40)
    assert [(hit.id, hit.name, hit.rank) for hit in hits] == [("a", "Ahorn", 1), ("b", "Birke", 2)]
    assert (hits[0].fields["lat"], hits[0].fields["lon"]) == (49.0, 8.4)
    assert "size=40" in service.paths[0]
    assert "focus.point.lat=49.5" in service.paths[0]
    told = {name.lower(): value for name, value in service.headers[0].items()}
    assert (told["x-placings-user"], told["x-placings-session"]) == ("p1", "p1-3")


def test_a_click_that_is_not_acknowledged_is_sent_again_under_its_id(
    service: Service, engine: ServedEngine
) -> None:
    engine.search("ah")
    service.statuses = [503, 429]
    engine.click("b")
    assert [event["event_id"] for event in service.events] == ["click-000001"] * 3
    assert service.events[0]["search_id"] == "s1"
    assert service.events[0]["position"] == 2
    assert engine.acknowledged == ["click-000001"]


def test_a_click_that_is_refused_is_an_error_and_not_acknowledged(
    service: Service, engine: ServedEngine
) -> None:
    engine.search("ah")
    service.statuses = [400]
    with pytest.raises(ServiceFailed, match="/v1/feedback was not answered: 400"):
        engine.click("a")
    assert engine.acknowledged == []


def test_a_share_of_the_clicks_is_sent_twice(service: Service) -> None:
    engine = ServedEngine(service.url, unheard=0.5)
    engine.search("ah")
    for item in "abab":
        engine.click(item)
    engine.close()
    sent = [event["event_id"][-1] for event in service.events]
    assert sent == ["1", "2", "2", "3", "4", "4"]
    assert (len(engine.acknowledged), engine.again) == (4, 2)
