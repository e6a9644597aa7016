"""What a client may do to a connection, over a real port."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from small_service import serve_here

from placings.serve.app import make_app
from placings.serve.protocol import MOST_HEAD, guard_connections

GET = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"


@contextmanager
def listen(live: Any, seconds: float = 0.3, most: int = 100) -> Iterator[int]:
    config = uvicorn.Config(
        make_app(live), http=guard_connections(seconds, most), ws="none", log_config=None, access_log=False,
        lifespan="off", port=0,
    )  # fmt: skip
    server = uvicorn.Server(config)
    found = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, args=([found],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield found.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()
        found.close()


def read_all(client: socket.socket) -> bytes:
    parts = []
    try:
        while part := client.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def drip(client: socket.socket, content: bytes) -> bool:
    """Send a byte now and then; whether the server cut the connection before the end."""
    for byte in content:
        try:
            client.sendall(bytes([byte]))
        except (BrokenPipeError, ConnectionResetError):
            return True
        time.sleep(0.02)
    return read_all(client) == b""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Any]:
    with serve_here(tmp_path) as found:
        yield found


def test_a_whole_request_is_answered_again_and_again_on_one_connection(live: Any) -> None:
    with listen(live, seconds=5.0) as port, socket.create_connection(("127.0.0.1", port)) as client:
        for _ in range(3):
            client.sendall(GET + b"\r\n")
            found = b""
            while not found.endswith(b"}"):
                found += client.recv(65_536)
            assert found.startswith(b"HTTP/1.1 200")


def test_a_client_that_drips_its_head_is_cut(live: Any) -> None:
    with listen(live) as port, socket.create_connection(("127.0.0.1", port)) as client:
        assert drip(client, GET + b"X-Slow: " + b"a" * 200)


def test_a_client_that_drips_its_body_is_cut(live: Any) -> None:
    head = b"POST /v1/rerank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 500\r\n\r\n"
    with listen(live) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(head)
        assert drip(client, b" " * 200)


def test_a_client_that_says_nothing_is_cut(live: Any) -> None:
    with listen(live) as port, socket.create_connection(("127.0.0.1", port)) as client:
        assert read_all(client) == b""


@pytest.mark.parametrize(
    "head", [b"X: " + b"a" * 2 * MOST_HEAD + b"\r\n", b"X: a\r\n" * 200, b"X: " + b"a" * 300_000],
    ids=["a long header", "many headers", "a header without an end"],
)  # fmt: skip
def test_a_head_that_is_too_large_is_refused(live: Any, head: bytes) -> None:
    with listen(live, seconds=5.0) as port, socket.create_connection(("127.0.0.1", port)) as client:
        try:
            client.sendall(GET + head + (b"\r\n" if head.endswith(b"\n") else b""))
        except (BrokenPipeError, ConnectionResetError):
            return  # it was cut while we were sending
        found = read_all(client)
    assert found == b"" or found.startswith(b"HTTP/1.1 431")


def test_what_is_no_http_is_400(live: Any) -> None:
    with listen(live, seconds=5.0) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"\x16\x03\x01\x00\xff hello\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 400")


def test_more_connections_than_allowed_are_cut(live: Any) -> None:
    with listen(live, seconds=5.0, most=3) as port:
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        clients[0].sendall(GET + b"\r\n")
        assert clients[0].recv(65_536).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", port)) as fourth:
            assert read_all(fourth) == b""
        for client in clients:
            client.close()
