"""OpenSearchEngine against a small real HTTP server that answers in OpenSearch's documented shape."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from recording_server import Answer, Asked, RecordingServer, serve_answers

from placings.core.errors import BadInput, PlacingsError
from placings.places.engines.opensearch import MAPPING, Boosts, OpenSearchEngine, build_document, build_query
from placings.places.engines.requests import Patience, ServerFailed
from placings.places.place import Place
from placings.rerank import Engine

QUICK = Patience(timeout=2.0, retries=2, backoff=0.001, longest_wait=1.0)
PLACES = [
    Place("1", "Karlsruhe Hbf", 48.99, 8.4, "station", "Karlsruhe", weight=30.0, names=("Karlsruhe HB",)),
    Place("2", "Marktplatz", 49.01, 8.41, "stop", "Karlsruhe", fields={"lines": 4}),
    Place("3", "Ulm", 48.4, 10.0, "city", country="DE", zone="Europe/Berlin", weight=120_000.0),
]


def found(*places: Place, **more: Any) -> dict[str, Any]:
    hits = [
        {"_index": "places", "_id": place.id, "_score": 9.0 - number, "_source": build_document(place)}
        for number, place in enumerate(places)
    ]
    total = {"value": len(hits), "relation": "eq"}
    return {"took": 3, "timed_out": False, "hits": {"total": total, "max_score": 9.0, "hits": hits}, **more}


def hold_bulk(request: Asked) -> Any:
    """What OpenSearch answers to the requests of a load."""
    if request.path == "/_bulk":
        ids = [line["index"]["_id"] for line in request.lines[::2]]
        items = [{"index": {"_index": "places", "_id": each, "status": 201}} for each in ids]
        return {"took": 1, "errors": False, "items": items}
    return {"acknowledged": True}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("PLACINGS_OPENSEARCH_LOGIN", "PLACINGS_OPENSEARCH_KEY"):
        monkeypatch.delenv(name, raising=False)
    with serve_answers() as recording:
        recording.answer(found(*PLACES))
        yield recording


@pytest.fixture
def engine(server: RecordingServer) -> Iterator[OpenSearchEngine]:
    made = OpenSearchEngine(server.url, "places", patience=QUICK)
    yield made
    made.close()


def test_a_place_comes_back_as_it_was_indexed(engine: OpenSearchEngine) -> None:
    assert isinstance(engine, Engine)
    hits = engine.search("karls")
    assert [Place.of_hit(hit) for hit in hits] == PLACES
    assert [hit.score for hit in hits] == [9.0, 8.0, 7.0]
    assert [hit.rank for hit in hits] == [1, 2, 3]
    assert Place.of_hit(hits[1]).fields == {"lines": 4}


def test_the_query_has_prefix_fuzziness_layers_popularity_and_distance(
    engine: OpenSearchEngine, server: RecordingServer
) -> None:
    engine.search("haupt karls", (49.0, 8.4), 7, ["station", "stop"])
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("POST", "/places/_search")
    assert asked.headers["Content-Type"] == "application/json"
    body = json.loads(asked.body)
    assert body["size"] == 7
    scored = body["query"]["function_score"]
    kinds = [clause["multi_match"] for clause in scored["query"]["bool"]["should"] if "multi_match" in clause]
    assert [kind["type"] for kind in kinds] == ["bool_prefix", "best_fields"]
    assert all(kind["query"] == "haupt karls" and kind["operator"] == "and" for kind in kinds)
    assert kinds[1]["fuzziness"] == "AUTO"
    assert scored["query"]["bool"]["minimum_should_match"] == 1
    assert scored["query"]["bool"]["filter"] == [{"terms": {"type": ["station", "stop"]}}]
    constant, popularity, distance = scored["functions"]
    assert constant == {"weight": 1.0}  # without it a place of weight 0 would score 0
    assert popularity["field_value_factor"] == {"field": "weight", "modifier": "ln1p", "missing": 0}
    origin = {"lat": 49.0, "lon": 8.4}
    assert distance["exp"]["location"] == {"origin": origin, "scale": "20km", "decay": 0.5}


def test_every_field_that_is_asked_is_in_the_mapping() -> None:
    known = MAPPING["mappings"]["properties"]
    should = build_query("x", (0.0, 0.0))["query"]["function_score"]["query"]["bool"]["should"]
    for clause in should:
        for name in clause.get("multi_match", {}).get("fields", ()):
            assert known[name.split("^")[0]]["type"] == "text"
        for name in clause.get("term", {}):
            field, sub = name.split(".")
            assert known[field]["fields"][sub]["type"] == "keyword"
    assert set(build_document(PLACES[0])) <= set(known)


def test_without_focus_or_layers_neither_is_asked_and_boosts_can_be_changed() -> None:
    scored = build_query("x", boosts=Boosts(popularity=3.0))["query"]["function_score"]
    assert "filter" not in scored["query"]["bool"]
    assert [function["weight"] for function in scored["functions"]] == [1.0, 3.0]


def test_a_text_is_a_value_and_never_syntax(engine: OpenSearchEngine, server: RecordingServer) -> None:
    text = 'a" OR *:* {"match_all": {}} \\ /re.*/ ~'
    engine.search(text)
    body = server.asked[0].body.decode()
    assert json.dumps(text) in body
    assert "query_string" not in body


def test_places_are_sent_in_bulk_and_the_index_is_made(
    engine: OpenSearchEngine, server: RecordingServer
) -> None:
    server.answer(hold_bulk)
    heard: list[int] = []
    assert engine.index_places(iter(PLACES), batch=2, progress=heard.append) == 3
    assert heard == [2, 3]
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("PUT", "/places"),
        ("POST", "/_bulk"),
        ("POST", "/_bulk"),
        ("POST", "/places/_refresh"),
    ]
    assert json.loads(server.asked[0].body) == json.loads(json.dumps(MAPPING))
    bulk = server.asked[1]
    assert bulk.headers["Content-Type"] == "application/x-ndjson"
    assert bulk.body.endswith(b"\n")
    assert bulk.lines[0] == {"index": {"_index": "places", "_id": "1"}}
    assert bulk.lines[1]["location"] == {"lat": 48.99, "lon": 8.4}
    assert bulk.lines[3]["fields"] == {"lines": 4}


def test_an_index_that_is_there_is_kept_or_replaced_as_asked(
    engine: OpenSearchEngine, server: RecordingServer
) -> None:
    there = Answer({"error": {"type": "resource_already_exists_exception"}, "status": 400}, 400)
    server.answer(lambda asked: there if asked.method == "PUT" else hold_bulk(asked))
    assert engine.index_places(PLACES) == 3
    server.asked.clear()
    server.answer(
        lambda asked: Answer({"status": 404}, 404) if asked.method == "DELETE" else hold_bulk(asked)
    )
    assert engine.index_places(PLACES, replace=True) == 3
    assert (server.asked[0].method, server.asked[0].path) == ("DELETE", "/places")
    server.answer(Answer({"error": {"type": "mapper_parsing_exception"}}, 400))
    with pytest.raises(ServerFailed, match="a refusal to make the index: .*mapper_parsing"):
        engine.index_places(PLACES)


def test_places_turned_away_for_want_of_room_are_sent_again(
    engine: OpenSearchEngine, server: RecordingServer
) -> None:
    seen: list[list[str]] = []

    def be_full_once(asked: Asked) -> Any:
        answer = hold_bulk(asked)
        if asked.path == "/_bulk":
            seen.append([line["index"]["_id"] for line in asked.lines[::2]])
            if len(seen) == 1:
                answer["items"][1]["index"]["status"] = 429
        return answer

    server.answer(be_full_once)
    assert engine.index_places(PLACES) == 3
    assert seen == [["1", "2", "3"], ["2"]]


def test_a_server_without_room_for_good_and_a_refused_place_are_errors(
    engine: OpenSearchEngine, server: RecordingServer
) -> None:
    def answer_with(status: int) -> Any:
        def answer(asked: Asked) -> Any:
            told = hold_bulk(asked)
            if asked.path == "/_bulk":
                told["items"][0]["index"] |= {"status": status, "error": {"reason": "no good"}}
            return told

        return answer

    server.answer(answer_with(429))
    with pytest.raises(ServerFailed, match="had no room for 1 places, tried 3 times"):
        engine.index_places(PLACES)
    server.answer(answer_with(400))
    with pytest.raises(ServerFailed, match="refused the place '1' with status 400: .*no good"):
        engine.index_places(PLACES)


def test_a_place_off_the_globe_is_refused_by_name(engine: OpenSearchEngine, server: RecordingServer) -> None:
    server.answer(hold_bulk)
    with pytest.raises(BadInput, match="Got 'x', 95.0, 0.0, 0.0"):
        engine.index_places([Place("x", "Nowhere", 95.0, 0.0)])
    with pytest.raises(BadInput, match="weight of 0 or more"):
        build_document(Place("x", "Nowhere", 5.0, 0.0, weight=float("nan")))


def test_login_and_key_are_sent_and_not_shown(
    server: RecordingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACINGS_OPENSEARCH_LOGIN", "admin:geheim")
    with closing(OpenSearchEngine(server.url, patience=QUICK)) as engine:
        engine.search("x")
        with closing(OpenSearchEngine(server.url, key="abc", patience=QUICK)) as other:
            other.search("x")
        told = [asked.headers["Authorization"] for asked in server.asked]
        assert told == [f"Basic {base64.b64encode(b'admin:geheim').decode()}", "ApiKey abc"]
        server.answer(Answer({"error": {"reason": "unauthorized"}}, 401))
        with pytest.raises(ServerFailed, match="answered 401: unauthorized. Is the key right") as caught:
            engine.search("x")
    assert "geheim" not in str(caught.value) + repr(engine)
    with pytest.raises(BadInput, match="must be user:password.*Got no colon") as refused:
        OpenSearchEngine(server.url, login="geheim")
    assert "geheim" not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"took": 1}, "JSON that has no hits.hits"),
        ({"hits": {"hits": {}}}, "JSON that has no hits.hits"),
        ({"hits": {"hits": [{"_id": "1"}]}}, "a hit \\(number 1\\) that is not a place"),
        (
            {"hits": {"hits": [{"_id": "1", "_score": None, "_source": build_document(PLACES[0])}]}},
            "TypeError",
        ),
        ({"hits": {"hits": ["x"]}}, "a hit \\(number 1\\) that is not a place"),
        (found(timed_out=True), "only a part, because it ran out of time"),
        (
            Answer({"error": {"reason": "no such index [places]"}}, 404),
            "404: no such index \\[places\\]. Is the",
        ),
    ],
)
def test_a_malformed_answer_is_told_clearly(
    engine: OpenSearchEngine, server: RecordingServer, answer: Any, message: str
) -> None:
    server.answer(answer)
    with pytest.raises(ServerFailed, match=message):
        engine.search("haupt")


def test_a_malformed_bulk_answer_is_told_clearly(engine: OpenSearchEngine, server: RecordingServer) -> None:
    server.answer({"items": []})
    with pytest.raises(ServerFailed, match="does not list what was sent"):
        engine.index_places(PLACES)
    server.answer({"items": [{}, {}, {}]})
    with pytest.raises(ServerFailed, match="without a status for each place"):
        engine.index_places(PLACES)


def test_nothing_is_asked_for_an_empty_text_or_no_layer(
    engine: OpenSearchEngine, server: RecordingServer
) -> None:
    assert engine.search(" ") == []
    assert engine.search("x", layers=()) == []
    assert server.asked == []


@pytest.mark.parametrize("name", ["", "Places", "_all", "a/b", "a b", "a*"])
def test_an_index_must_have_a_name_that_the_server_takes(name: str) -> None:
    with pytest.raises(BadInput, match="an index's name must be lower case"):
        OpenSearchEngine("http://127.0.0.1:1", name)


# -- an index of anything else than places ----------------------------------------------------------------


PRODUCTS = {
    "took": 1,
    "timed_out": False,
    "hits": {
        "hits": [
            {
                "_id": "b7",
                "_score": 5.5,
                "_source": {"title": "Red lamp", "price": {"amount": 9.5}, "stock": 3},
            },
            {"_id": "a1", "_score": 2.0, "_source": {"title": "Lamp", "tags": ["red", "small"]}},
        ]
    },
}


def test_an_index_of_any_mapping_gives_hits_with_the_fields_of_its_documents(server: RecordingServer) -> None:
    from placings.rerank import open_engine

    server.answer(PRODUCTS)
    address = server.url.replace("http://", "opensearch+http://") + "/products?fields=title^3,brand"
    engine = open_engine(address, patience=QUICK)
    assert isinstance(engine, Engine)
    with closing(engine):  # type: ignore[type-var]
        hits = engine.search("red la", k=5, layers=["lighting"])
    assert [(hit.id, hit.score, hit.rank, hit.name) for hit in hits] == [
        ("b7", 5.5, 1, "Red lamp"), ("a1", 2.0, 2, "Lamp"),
    ]  # fmt: skip
    assert hits[0].fields == {"title": "Red lamp", "price.amount": 9.5, "stock": 3}
    asked = server.asked[-1]
    assert asked.path == "/products/_search"
    body = json.loads(asked.body)
    (matching,) = body["query"]["bool"]["must"]
    assert matching["multi_match"]["fields"] == ["title^3", "brand"]
    assert matching["multi_match"]["query"] == "red la"
    assert body["query"]["bool"]["filter"] == [{"terms": {"type": ["lighting"]}}]
    assert body["size"] == 5


def test_a_document_without_what_a_hit_needs_is_told_by_number(server: RecordingServer) -> None:
    server.answer({"hits": {"hits": [{"_id": "b7", "_score": None, "_source": {}}]}})
    engine = OpenSearchEngine(server.url, "products", fields=["title"], patience=QUICK)
    with closing(engine), pytest.raises(PlacingsError, match="a hit .number 1. without _id, _score or"):
        engine.search("lamp")
    with pytest.raises(BadInput, match="fields must be names such as"):
        OpenSearchEngine(server.url, "products", fields="title")
