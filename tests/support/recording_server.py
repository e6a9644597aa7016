"""A small real HTTP server on loopback: it answers what it was told to, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass
class Asked:
    """One request as it came in."""

    method: str
    path: str
    params: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def lines(self) -> list[Any]:
        """The body as newline-delimited JSON."""
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass
class Answer:
    """What is sent back; `cut` closes the connection without a word."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


@dataclass
class RecordingServer:
    """Answers are given in turn, the last one again and again; a function is called with the request."""

    url: str
    answers: list[Any] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, *answers: Any) -> None:
        """What to answer from now on: an Answer, something to send as JSON, or a function of the request."""
        self.answers[:] = answers

    def next_answer(self, request: Asked) -> Answer:
        self.asked.append(request)
        chosen = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        chosen = chosen(request) if callable(chosen) else chosen
        return chosen if isinstance(chosen, Answer) else Answer(chosen)


@contextmanager
def serve_answers() -> Iterator[RecordingServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_request(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Asked(
                self.command, parts.path, dict(parse_qsl(parts.query)), dict(self.headers.items()), body
            )
            answer = recording.next_answer(request)
            if answer.cut:
                self.close_connection = True
                return
            content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(content)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = handle_request  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    recording = RecordingServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield recording
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
