"""Servers that answer with hostile bodies, statuses and headers: hits that a list can hold, or a refusal."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import socket
import threading
import time
import zlib
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

from placings.core import PlacingsError
from placings.places import OpenSearchEngine, PeliasEngine
from placings.places.engines.requests import Patience

KEY = "geheimer+key/7"
DEADLINE = 0.3
WORST = 5.0  # seconds that a case may take: the deadline, and what a busy machine adds
VALUES: list[Any] = [
    None, True, 0, -1, 3.5, 1e999, -1e999, math.nan, 10**400, 91, "", "Ulm", KEY, "a\0", "\ud800",
    "x" * 3000, [], {}, [[1]],
]  # fmt: skip
LINES = (
    "HTTP/1.1 200 OK", "HTTP/1.0 200 OK", "HTTP/1.1 301 Moved", "HTTP/1.1 400 Bad", "HTTP/1.1 403 No",
    "HTTP/1.1 429 Slow",
    "HTTP/1.1 503 Busy", "HTTP/1.1 204 None", "HTTP/1.1 999 What", "HTTP/1.1 -1 No", "HTTP/9.9 200 OK",
    "hello", "",
)  # fmt: skip
HEADERS = (
    "Content-Length: 5", "Content-Length: -1", "Content-Length: 99999999999999999999", "Content-Length: x",
    "Retry-After: 0",
    "Content-Encoding: gzip", "Content-Encoding: br", "Content-Encoding: gzip, gzip",
    "Content-Encoding: deflate",
    "Transfer-Encoding: chunked", f"Location: https://x.example/?api_key={KEY}",
    f"Location: http://{KEY}@h/", "Location: //",
    "Location: http://[", "Retry-After: 1e999", "Retry-After: -5",
    "Retry-After: Thu, 01 Jan 99999 00:00:00 GMT", "X: \0",
    "Set-Cookie: a=b", "Retry-After: 86400", "Connection: close", "Content-Type: text/html; charset=utf-7",
    ": x", "Retry-After: é",
)  # fmt: skip


def make_answer(source: random.Random) -> Any:
    features, hits = [], []
    for number in range(source.randrange(5)):
        told = {"gid": f"g{number}", "name": "Ulm", "layer": "stop", "population": 3, "id": f"g{number}"}
        place = {"lat": 48.4, "lon": 10.0}
        hit: dict[str, Any] = {
            "_id": f"{number}",
            "_score": 2.0,
            "_source": {"name": "Ulm", "location": place},
        }
        feature: dict[str, Any] = {"properties": told, "geometry": {"coordinates": [10.0, 48.4]}}
        for _ in range(source.choice([0, 0, 1, 2])):
            value = deepcopy(source.choice(VALUES))
            spoilt: tuple[Any, Any] = source.choice([
                (told, "gid"), (told, "name"), (told, "population"), (told, "layer"), (place, "lat"),
                (place, "lon"), (hit, "_id"),
                (hit, "_score"), (hit, "_source"), (hit["_source"], "location"), (hit["_source"], "names"),
                (feature, "properties"),
                (feature, "geometry"), (hit["_source"], "fields"), (hit["_source"], "weight"),
                (hit["_source"], "id"),
            ]) if isinstance(hit.get("_source"), dict) else (hit, "_score")  # fmt: skip
            spoilt[0][spoilt[1]] = value
            if source.random() < 0.3 and isinstance(feature.get("geometry"), dict):
                value = deepcopy(value)  # else a dict may come to stand in itself
                feature["geometry"]["coordinates"] = source.choice([[value, 1], [1, value], [1], value])
        features.append(source.choice(VALUES) if source.random() < 0.05 else feature)
        hits.append(source.choice(VALUES) if source.random() < 0.05 else hit)
    answer: dict[str, Any] = {"type": "FeatureCollection", "features": features, "hits": {"hits": hits}}
    for _ in range(source.choice([0, 0, 0, 1])):
        answer[source.choice(["type", "features", "hits", "error", "geocoding", "timed_out"])] = (
            source.choice([*VALUES, {"errors": [KEY]}, {"reason": f"key {KEY}"}, {"hits": None}])
        )
    return answer


def make(source: random.Random, folder: Path) -> Path:
    body = json.dumps(make_answer(source)).encode()
    if source.random() < 0.1:
        body = source.choice(
            [b"", b"null", b"[" * 5000, b"\xff\xfe", KEY.encode(), source.randbytes(60), b"<html>", body[:-7]]
        )
    usual = source.random() < 0.65
    line = LINES[0] if usual else source.choice(LINES)
    headers = [source.choice(HEADERS) for _ in range(0 if usual else source.randrange(4))]
    if any("gzip" in each for each in headers) and source.random() < 0.7:
        body = gzip.compress(body if source.random() < 0.5 else b" " * (3 << 20))
    if any("deflate" in each for each in headers) and source.random() < 0.7:
        body = zlib.compress(body)
    if source.random() < 0.8 and not any(each.startswith("Content-Length") for each in headers):
        headers.append(f"Content-Length: {len(body) + source.choice([0] * 15 + [-1, 7])}")
    content = "\r\n".join([line, *headers, "", ""]).encode("latin-1", "replace") + body
    path = folder / f"{source.choice(['pelias', 'opensearch', 'documents'])}.http"
    path.write_bytes(content)
    return path


@cache
def serve() -> tuple[int, list[bytes]]:
    """A server in this process that sends what it was given, then closes; its port and what it sends."""
    listening = socket.create_server(("127.0.0.1", 0))
    sent: list[bytes] = [b""]

    def talk(connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(5)
                connection.recv(1 << 16)
                connection.sendall(sent[0])
            except OSError:
                pass

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    os.environ |= {"NO_PROXY": "127.0.0.1", "PLACINGS_LIMIT_BODY": str(1 << 20)}
    return listening.getsockname()[1], sent


def check(path: Path) -> None:
    port, sent = serve()
    sent[0] = path.read_bytes()
    patience = Patience(timeout=DEADLINE, retries=1, backoff=0.001, deadline=DEADLINE)
    url = f"http://127.0.0.1:{port}"
    engine: Any = PeliasEngine(url, key=KEY, score="confidence", patience=patience)
    if not path.name.startswith("pelias"):
        fields = ["name"] if path.name.startswith("documents") else None
        engine = OpenSearchEngine(url, key=KEY, fields=fields, patience=patience)
    began = time.monotonic()
    failed: PlacingsError | None = None
    hits = []
    try:
        hits = engine.search("ulm", k=3)
    except PlacingsError as error:
        failed = error
    engine.close()
    assert time.monotonic() - began < WORST, "the deadline did not hold"
    if failed is not None:
        said = f"{failed!s} {failed!r} {failed.__context__}"
        assert KEY.lower() not in said.lower(), "the key is in a message"
        assert "\n" not in str(failed)
        raise failed
    assert len(hits) <= 3
    assert len({hit.id for hit in hits}) == len(hits)
    for rank, hit in enumerate(hits, 1):
        assert hit.id
        assert hit.rank == rank
        assert math.isfinite(hit.score)
        if path.name != "documents.http":
            assert abs(hit.fields["lat"]) <= 90
            assert abs(hit.fields["lon"]) <= 180
            assert math.isfinite(hit.fields["weight"])
