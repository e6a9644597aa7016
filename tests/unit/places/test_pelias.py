"""PeliasEngine against a small real HTTP server that answers in Pelias' documented shape."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from email.utils import formatdate
from typing import Any

import pytest
from recording_server import Answer, RecordingServer, serve_answers

from placings.core.errors import BadInput, UnknownName
from placings.places.engines.pelias import PeliasEngine
from placings.places.engines.requests import Patience, Server, ServerFailed
from placings.places.place import Place
from placings.rerank import Engine

QUICK = Patience(timeout=2.0, retries=3, backoff=0.001, longest_wait=1.0)


def feature(number: int, **told: Any) -> dict[str, Any]:
    properties = {
        "id": f"node/{number}",
        "gid": f"openstreetmap:venue:node/{number}",
        "layer": "venue",
        "source": "openstreetmap",
        "name": f"Hauptbahnhof {number}",
        "street": "Bahnhofplatz",
        "country": "Germany",
        "country_a": "DEU",
        "locality": "Karlsruhe",
        "neighbourhood": "Südstadt",
        "label": f"Hauptbahnhof {number}, Karlsruhe, Germany",
        "distance": 1.5,
        "confidence": 0.9,
        **told,
    }
    point = {"type": "Point", "coordinates": [8.4, 49.0 + number]}
    return {"type": "Feature", "geometry": point, "properties": properties}


def collection(*features: dict[str, Any]) -> dict[str, Any]:
    return {"geocoding": {"version": "0.2"}, "type": "FeatureCollection", "features": list(features)}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("PLACINGS_PELIAS_KEY", raising=False)
    with serve_answers() as recording:
        recording.answer(collection(feature(1), feature(2)))
        yield recording


@pytest.fixture
def engine(server: RecordingServer) -> Iterator[PeliasEngine]:
    made = PeliasEngine(server.url, patience=QUICK)
    yield made
    made.close()


def test_features_become_hits_in_the_servers_order(engine: PeliasEngine, server: RecordingServer) -> None:
    assert isinstance(engine, Engine)
    first, second = engine.search("Hauptbahnhof Karlsruhe", (49.0, 8.4), 5, ["venue", "street"])
    assert (first.rank, second.rank) == (1, 2)
    assert (first.score, second.score) == (1.0, 0.5)
    place = Place.of_hit(first)
    assert first.id == "openstreetmap:venue:node/1"
    assert (place.lat, place.lon) == (50.0, 8.4)  # GeoJSON has the longitude first
    assert (place.name, place.type, place.locality) == (
        "Hauptbahnhof 1",
        "venue",
        "Karlsruhe",
    )
    assert (place.street, place.neighbourhood) == ("Bahnhofplatz", "Südstadt")
    assert place.country == "DEU"
    assert place.fields["confidence"] == 0.9
    assert "name" not in place.fields
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("GET", "/v1/search")
    assert asked.params == {
        "text": "Hauptbahnhof Karlsruhe",
        "size": "5",
        "focus.point.lat": "49.0",
        "focus.point.lon": "8.4",
        "layers": "venue,street",
    }


def test_short_texts_ask_autocomplete_and_the_endpoint_can_be_named(
    engine: PeliasEngine, server: RecordingServer
) -> None:
    engine.search("haupt")
    engine.search("h" * 11)
    for endpoint in ("search", "autocomplete"):
        with closing(PeliasEngine(server.url, endpoint=endpoint, patience=QUICK)) as named:
            named.search("haupt")
    assert [asked.path for asked in server.asked] == [
        "/v1/autocomplete",
        "/v1/search",
        "/v1/search",
        "/v1/autocomplete",
    ]
    assert set(server.asked[0].params) == {"text", "size"}  # no focus, no layers, no key


def test_confidence_is_the_score_on_request_and_zero_where_there_is_none(server: RecordingServer) -> None:
    bare = feature(2)
    del bare["properties"]["confidence"]
    server.answer(collection(feature(1), bare))
    with closing(PeliasEngine(server.url, score="confidence", patience=QUICK)) as engine:
        hits = engine.search("haupt")
    assert [hit.score for hit in hits] == [0.9, 0.0]


def test_the_text_stays_one_parameter_whatever_it_holds(
    engine: PeliasEngine, server: RecordingServer
) -> None:
    text = "a&size=1&api_key=x#b ?ü"
    engine.search(text)
    assert server.asked[0].params == {"text": text, "size": "40"}


def test_the_key_comes_from_the_environment_and_is_in_no_message(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACINGS_PELIAS_KEY", "geheim")
    with closing(PeliasEngine(server.url, patience=QUICK)) as engine:
        engine.search("haupt")
        assert server.asked[0].params["api_key"] == "geheim"
        assert "geheim" not in repr(engine)
        server.answer(Answer({"geocoding": {"errors": ["no such key"]}}, 403))
        with pytest.raises(ServerFailed, match="answered 403: no such key. Is the key right") as caught:
            engine.search("haupt")
    assert "geheim" not in str(caught.value)


def test_nothing_is_asked_for_an_empty_text_or_no_layer(
    engine: PeliasEngine, server: RecordingServer
) -> None:
    assert engine.search("  ") == []
    assert engine.search("haupt", layers=[]) == []
    assert server.asked == []


def test_at_most_k_hits_come_back_even_if_the_server_gives_more(engine: PeliasEngine) -> None:
    assert len(engine.search("haupt", k=1)) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_passing_failure_is_asked_again(engine: PeliasEngine, server: RecordingServer, status: int) -> None:
    server.answer(Answer({}, status), Answer({}, status), collection(feature(1)))
    assert len(engine.search("haupt")) == 1
    assert len(server.asked) == 3


def test_a_cut_connection_is_asked_again(engine: PeliasEngine, server: RecordingServer) -> None:
    server.answer(Answer(cut=True), collection(feature(1)))
    assert len(engine.search("haupt")) == 1
    assert len(server.asked) == 2


def test_a_lasting_failure_is_told_after_the_last_try(engine: PeliasEngine, server: RecordingServer) -> None:
    server.answer(Answer(b"upstream gone", 503))
    with pytest.raises(ServerFailed, match="answered 503: upstream gone"):
        engine.search("haupt")
    assert len(server.asked) == 1 + QUICK.retries


def test_a_refusal_is_not_asked_again_and_brings_the_servers_words(
    engine: PeliasEngine, server: RecordingServer
) -> None:
    server.answer(Answer({"geocoding": {"errors": ["'stop' is an invalid layers parameter"]}}, 400))
    with pytest.raises(ServerFailed, match="answered 400: 'stop' is an invalid layers parameter."):
        engine.search("haupt", layers=["stop"])
    assert len(server.asked) == 1


def test_retry_after_is_honoured_as_seconds_and_as_a_date(server: RecordingServer) -> None:
    waits: list[float] = []
    asking = Server(
        server.url, name="Pelias", patience=Patience(backoff=0.001, deadline=60), sleep=waits.append
    )
    date = formatdate(time.time() + 20, usegmt=True)
    server.answer(
        Answer({}, 429, {"Retry-After": "7"}),
        Answer({}, 503, {"Retry-After": date}),
        Answer({}, 503),
        {"a": 1},
    )
    assert asking.get("v1/status") == {"a": 1}
    assert waits[0] == 7.0
    assert 17.0 < waits[1] <= 20.0
    assert 0.002 <= waits[2] <= 0.004  # backoff · 2², less up to a half
    asking.close()


def test_a_wait_beyond_the_longest_is_given_up_at_once(engine: PeliasEngine, server: RecordingServer) -> None:
    server.answer(Answer({}, 429, {"Retry-After": "3600"}))
    with pytest.raises(ServerFailed, match="asks to wait 3600 seconds; at most 1 are allowed"):
        engine.search("haupt")
    assert len(server.asked) == 1


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://user:pw@127.0.0.1:{taken.getsockname()[1]}"  # bound, but nobody listens
        with (
            closing(PeliasEngine(url, patience=Patience(retries=1, backoff=0.001))) as engine,
            pytest.raises(ServerFailed, match="could not be asked \\(2 tries\\)") as caught,
        ):
            engine.search("haupt")
    assert "pw" not in str(caught.value)
    assert "pw" not in repr(engine)


def test_a_server_that_is_too_slow_is_given_up(server: RecordingServer) -> None:
    server.answer(lambda request: time.sleep(0.3) or {})
    with (
        closing(PeliasEngine(server.url, patience=Patience(timeout=0.05, retries=0))) as engine,
        pytest.raises(ServerFailed, match="could not be asked \\(1 tries\\): timed out"),
    ):
        engine.search("haupt")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"<html>hello</html>", "not JSON, beginning '<html>hello"),
        ([1, 2], "a JSON list, where an object was due"),
        ({"hits": []}, "not a GeoJSON FeatureCollection"),
        ({"type": "FeatureCollection", "features": 3}, "not a GeoJSON FeatureCollection"),
        (collection({"type": "Feature"}), "number 1\\) without gid, name or point \\(KeyError 'properties'"),
        (collection({**feature(2), "geometry": None}), "number 1\\) without gid, name or point"),
        (collection({**feature(1), "geometry": {"coordinates": ["x", 1]}}), "without gid, name or point"),
        (
            Answer(b"", 301, {"Location": "https://elsewhere/"}),
            "answered 301 and points to https://elsewhere. It is not followed",
        ),
    ],
)
def test_a_malformed_answer_is_told_clearly(
    engine: PeliasEngine, server: RecordingServer, answer: Any, message: str
) -> None:
    server.answer(answer)
    with pytest.raises(ServerFailed, match=message):
        engine.search("haupt")


def test_what_cannot_be_asked_is_refused_before_asking(engine: PeliasEngine, server: RecordingServer) -> None:
    with pytest.raises(BadInput, match="k must be 1 or more. Got 0."):
        engine.search("haupt", k=0)
    with pytest.raises(BadInput, match="focus must be \\(latitude, longitude\\)"):
        engine.search("haupt", (91.0, 0.0))
    with pytest.raises(BadInput, match="layers must be a list of types, such as \\['stop'\\]"):
        engine.search("haupt", layers="stop")
    with pytest.raises(BadInput, match="the text to search must be a string. Got int."):
        engine.search(3)  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="no Pelias endpoint 'serach'; did you mean 'search'"):
        PeliasEngine(server.url, endpoint="serach")
    with pytest.raises(BadInput, match="must be http:// or https://.*Got 'ftp://host/x'"):
        PeliasEngine("ftp://user:secret@host/x?api_key=secret")
    with pytest.raises(BadInput, match="timeout must be above 0"):
        Patience(timeout=0)
    assert server.asked == []
