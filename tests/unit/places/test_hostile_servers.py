"""A hostile or broken server: a search ends at its deadline, a body at its limit; no key is shown."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from recording_server import Answer, RecordingServer, serve_answers

from placings.core.errors import BadInput, PlacingsWarning
from placings.places.engines.deadlines import Deadline, run_within
from placings.places.engines.opensearch import OpenSearchEngine
from placings.places.engines.pelias import PeliasEngine
from placings.places.engines.requests import Patience, Server, ServerFailed
from placings.places.engines.secrets import Secrets

KEY = "s3cr3t/key+"
SHORTLY = Patience(timeout=0.4, retries=3, backoff=0.001, deadline=0.4)
FIRM = 4.0  # seconds: far below what each of these took before, far above what a busy machine adds


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("PLACINGS_PELIAS_KEY", "PLACINGS_OPENSEARCH_LOGIN", "PLACINGS_OPENSEARCH_KEY"):
        monkeypatch.delenv(name, raising=False)
    with serve_answers() as recording:
        yield recording


@contextmanager
def serve_bytes(speak: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that reads a request's head and then does what `speak` does with the connection."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)

        def talk(connection: socket.socket) -> None:
            with connection:
                try:
                    connection.recv(65536)
                    speak(connection)
                except OSError:
                    pass

        def accept() -> None:
            while not stop.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                connection.settimeout(10)
                talking.append(threading.Thread(target=talk, args=(connection,), daemon=True))
                talking[-1].start()

        talking: list[threading.Thread] = []
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            stop.set()
            thread.join()
            for each in talking:
                each.join(timeout=5)


def point(number: int, lat: Any = 49.0, lon: Any = 8.4, **told: Any) -> dict[str, Any]:
    known = {"gid": f"venue:{number}", "name": f"Place {number}", "layer": "venue", **told}
    return {"type": "Feature", "geometry": {"coordinates": [lon, lat]}, "properties": known}


def collect(*features: Any) -> dict[str, Any]:
    return {"type": "FeatureCollection", "features": list(features)}


# -- secrets ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"", 301, {"Location": f"https://elsewhere.example/v1?api_key={quote(KEY)}"}),
        Answer(b"", 302, {"Location": f"https://{KEY}@elsewhere.example/"}),
        Answer({"geocoding": {"errors": [f"the key {KEY} has no quota left"]}}, 429),
        Answer({"error": {"reason": f"GET /v1/search?api_key={quote(KEY, safe='')}"}}, 400),
        Answer({"error": {"echo": KEY.upper()}}, 403),
        Answer(b"x" * 293 + KEY.encode(), 500),  # cut at 300: seven letters of it would be left
        Answer(f"<html>{b64encode(KEY.encode()).decode()}".encode()),
        Answer(KEY.encode()),
        Answer(collect({"properties": {"gid": 1}, "geometry": {"coordinates": [KEY, 1]}})),
        collect({"properties": {"gid": KEY}, "geometry": {"coordinates": [8.4, 1e9]}}),
    ],
)
def test_no_answer_brings_the_key_into_a_message(server: RecordingServer, answer: Any) -> None:
    server.answer(answer)
    patience = Patience(retries=0, deadline=5)
    with (
        closing(PeliasEngine(server.url, key=KEY, patience=patience)) as engine,
        pytest.raises(ServerFailed) as caught,
    ):
        engine.search("haupt")
    said = f"{caught.value} {caught.value!r} {engine!r} {caught.value.__cause__} {caught.value.__context__}"
    assert server.asked[0].params["api_key"] == KEY
    for form in (
        KEY,
        KEY.upper(),
        quote(KEY),
        quote(KEY, safe=""),
        b64encode(KEY.encode()).decode(),
        KEY[:6],
    ):
        assert form not in said


def test_a_redirect_is_told_by_scheme_and_host_and_not_followed(server: RecordingServer) -> None:
    server.answer(Answer(b"", 307, {"Location": f"{server.url}/v1/other?api_key=k&x=1"}))
    with (
        closing(PeliasEngine(server.url, patience=SHORTLY)) as engine,
        pytest.raises(ServerFailed, match=r"answered 307 and points to http://127\.0\.0\.1\. It is not"),
    ):
        engine.search("haupt")
    assert len(server.asked) == 1


def test_a_login_is_in_no_message_and_in_no_log(
    server: RecordingServer, caplog: pytest.LogCaptureFixture
) -> None:
    password = "pass:word"
    basic = b64encode(f"me:{password}".encode()).decode()
    server.answer(Answer({"error": {"reason": f"{password} and {basic} and me:{password}"}}, 401))
    address = server.url.replace("http://", "http://me:pass%3Aword@")
    engines = [
        OpenSearchEngine(address, patience=SHORTLY),
        OpenSearchEngine(server.url, login=f"me:{password}", patience=SHORTLY),
        PeliasEngine(address, key=KEY, patience=SHORTLY),
    ]
    with caplog.at_level(logging.DEBUG):
        for engine in engines:
            with closing(engine), pytest.raises(ServerFailed) as caught:
                engine.search("haupt")
            assert str(caught.value).count("***") == 3
            for secret in (password, "pass%3Aword", basic):
                assert secret not in f"{caught.value} {engine!r}"
    assert [asked.headers["Authorization"] for asked in server.asked] == [f"Basic {basic}"] * 3
    for secret in (password, "pass%3Aword", basic, KEY, quote(KEY)):
        assert secret not in caplog.text


def test_words_that_hold_a_very_short_key_are_not_shown() -> None:
    assert Secrets(["pw"]).quote("no such PW") == "(its words are not shown: they hold the key or password)"
    assert Secrets(["pw"]).quote("no such user") == "no such user"
    assert Secrets([None, ""]).hide("as it is") == "as it is"


def test_a_key_that_no_header_can_hold_is_refused_unseen(server: RecordingServer) -> None:
    for key in ("schlüssel", "two\nlines", "half\udc80"):
        with pytest.raises(BadInput, match="must be of plain letters") as caught:
            OpenSearchEngine(server.url, key=key)
        assert key not in str(caught.value)


# -- time and size ----------------------------------------------------------------------------------------


def drip_head(connection: socket.socket) -> None:
    for letter in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 400:
        connection.sendall(bytes([letter]))
        time.sleep(0.05)


def drip_body(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n")
    for _ in range(400):
        connection.sendall(b" ")
        time.sleep(0.05)


def say_nothing(connection: socket.socket) -> None:
    connection.recv(1)


@pytest.mark.parametrize("speak", [drip_head, drip_body, say_nothing])
def test_a_slow_server_is_given_up_at_the_deadline(
    speak: Callable[[socket.socket], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with serve_bytes(speak) as url, closing(PeliasEngine(url, patience=SHORTLY)) as engine:
        began = time.monotonic()
        with pytest.raises(ServerFailed, match=r"no whole answer within 0\.4 seconds"):
            engine.search("haupt")
        assert time.monotonic() - began < FIRM  # 400 bytes at 20 a second are 20 s


def test_waits_and_retries_are_within_the_deadline(server: RecordingServer) -> None:
    server.answer(Answer({}, 503))
    waits: list[float] = []
    asking = Server(server.url, name="Pelias", patience=Patience(backoff=20.0), sleep=waits.append)
    with closing(asking), pytest.raises(ServerFailed, match="answered 503"):
        asking.get("v1/status")
    assert waits == []  # the first wait is 10 seconds at least, twice the default deadline
    server.answer(Answer({}, 429, {"Retry-After": "20"}))
    with (
        closing(Server(server.url, name="Pelias")) as asking,
        pytest.raises(ServerFailed, match="at most 5 are"),
    ):
        asking.get("v1/status")


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    while True:
        connection.sendall(chunk)


def packed(connection: socket.socket) -> None:
    content = gzip.compress(b" " * (8 << 20))
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(content)}\r\n\r\n"
    connection.sendall(head.encode() + content)


def announced(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
    connection.recv(1)


@pytest.mark.parametrize("speak", [endless, packed, announced])
def test_a_body_over_the_limit_is_refused_by_its_name(
    speak: Callable[[socket.socket], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PLACINGS_LIMIT_BODY", str(1 << 20))
    with (
        serve_bytes(speak) as url,
        closing(PeliasEngine(url, patience=Patience(retries=0))) as engine,
        pytest.raises(
            ServerFailed, match="over the limit of 1,048,576. If it is right, set PLACINGS_LIMIT_BODY"
        ),
    ):
        engine.search("haupt")


def test_a_packed_answer_is_unpacked_and_a_damaged_one_told(server: RecordingServer) -> None:
    content = gzip.compress(json.dumps(collect(point(1))).encode())
    how = {"Content-Encoding": "gzip"}
    with closing(PeliasEngine(server.url, patience=SHORTLY)) as engine:
        server.answer(Answer(content, 200, how))
        assert [hit.id for hit in engine.search("haupt")] == ["venue:1"]
        assert server.asked[0].headers["Accept-Encoding"] == "gzip"
        server.answer(
            Answer(
                zlib.compress(json.dumps(collect(point(2))).encode()), 200, {"Content-Encoding": "deflate"}
            )
        )
        assert [hit.id for hit in engine.search("haupt")] == ["venue:2"]
        for body, headers, problem in (
            (content[:-9], how, "ends early"),
            (b"no gzip", how, "is damaged"),
            (content, {"Content-Encoding": "gzip, gzip"}, "packed as 'gzip, gzip', which was not asked for"),
        ):
            server.answer(Answer(body, 200, headers))
            with pytest.raises(ServerFailed, match=problem):
                engine.search("haupt")


def test_json_that_is_deep_or_holds_a_huge_number_is_told_in_one_line(server: RecordingServer) -> None:
    with closing(PeliasEngine(server.url, patience=Patience(retries=0))) as engine:
        for body in (b"[" * 100_000, b'{"a":' * 70 + b"1" + b"}" * 70, b"[1" + b"0" * 5000 + b"]"):
            server.answer(Answer(body))
            with pytest.raises(ServerFailed, match="not JSON") as caught:
                engine.search("haupt")
            assert "\n" not in str(caught.value)


def test_a_call_that_hangs_is_left_and_its_late_result_undone() -> None:
    ready, undone = threading.Event(), threading.Event()
    with pytest.raises(TimeoutError):
        run_within(0.01, lambda: ready.wait(10), lambda _: undone.set())
    ready.set()
    assert undone.wait(10)
    with pytest.raises(ZeroDivisionError):
        run_within(10, lambda: 1 // 0)
    assert Deadline(60).left > 50


# -- hits -------------------------------------------------------------------------------------------------


def test_hits_off_the_globe_and_ids_given_twice_are_left_out_and_told_once(server: RecordingServer) -> None:
    bad = [
        point(2, lat=float("nan")),
        point(3, lat=91),
        point(4, lon=1e999),
        point(1),
        point(5, lat=10**400),
        7,
    ]
    bad += [point(6, population=float("inf")), {**point(7), "geometry": None}]
    server.answer(collect(point(1), *bad, point(8)))
    with closing(PeliasEngine(server.url, patience=SHORTLY)) as engine:
        with pytest.warns(
            PlacingsWarning, match=r"number 2\) with lat nan.*8 of 10 hits are left out"
        ) as told:
            hits = engine.search("haupt")
        assert [(hit.id, hit.rank, hit.score) for hit in hits] == [("venue:1", 1, 1.0), ("venue:8", 2, 0.5)]
        assert len(told) == 1
        engine.search("haupt")  # a second warning would be an error here


def test_scores_that_are_not_finite_are_left_out(server: RecordingServer) -> None:
    def document(number: int, score: Any) -> dict[str, Any]:
        source = {"name": "A", "location": {"lat": 1, "lon": 2}}
        return {"_id": str(number), "_score": score, "_source": source}

    scores = [1.0, float("inf"), float("nan"), None, "x", 10**400, 0.5]
    hits = [document(number, score) for number, score in enumerate(scores)]
    server.answer({"hits": {"hits": hits}})
    for fields in (None, ["name"]):
        with (
            closing(OpenSearchEngine(server.url, fields=fields, patience=SHORTLY)) as engine,
            pytest.warns(PlacingsWarning, match="5 of 7 hits are left out"),
        ):
            assert [(hit.id, hit.score, hit.rank) for hit in engine.search("a")] == [
                ("0", 1.0, 1),
                ("6", 0.5, 2),
            ]


@pytest.mark.parametrize("text", ["ul\0m", "ul\ud800m", "u" * 100_000, "\udfff"])
def test_every_text_can_be_sent(server: RecordingServer, text: str) -> None:
    server.answer(lambda asked: collect() if asked.path.startswith("/v1") else {"hits": {"hits": []}})
    with closing(PeliasEngine(server.url)) as pelias, closing(OpenSearchEngine(server.url)) as opensearch:
        assert pelias.search(text) == opensearch.search(text) == []
    sent = server.asked[0].params["text"]
    assert len(sent) <= 512
    assert sent in ("ulm", "ul\ufffdm", "u" * 512, "\ufffd")
    assert (
        json.loads(server.asked[1].body)["query"]["function_score"]["query"]["bool"]["should"][2][
            "multi_match"
        ]["query"]
        == sent
    )


def test_k_has_a_limit_and_layers_are_texts(server: RecordingServer) -> None:
    with closing(PeliasEngine(server.url)) as engine:
        for k in (10_001, 2**63, 10**30):
            with pytest.raises(
                BadInput, match="over the limit of 10,000. If it is right, set PLACINGS_LIMIT_K"
            ):
                engine.search("haupt", k=k)
        for k in (2.5, True, "3"):
            with pytest.raises(BadInput, match="k must be a whole number"):
                engine.search("haupt", k=k)  # type: ignore[arg-type]
        for layers in (["a\0"], [3], ["\ud800"]):
            with pytest.raises(BadInput, match="layers must be texts"):
                engine.search("haupt", layers=layers)  # type: ignore[list-item]
        with pytest.raises(BadInput, match="the address becomes too long"):
            engine.search("haupt", layers=["x" * 70_000])
    assert server.asked == []
