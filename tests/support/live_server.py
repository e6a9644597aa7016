"""A service as a process: a small re-ranker, `placings serve` on free ports, and requests to it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

STARTED = re.compile(r"serving on http://127\.0\.0\.1:(\d+)")
SERVE = "from placings.cli.main import run; run()"


def save_shop_reranker(path: Path) -> Path:
    """A linear re-ranker of a made-up shop, in a second."""
    from placings.rerank import Reranker
    from placings.simulate import make_shop_actions, make_shop_log

    shop = make_shop_actions(make_shop_log(days=14, searches=40, random_state=0))
    Reranker(features="shop", ranker="ridge").fit(shop.to_rows()).save(path)
    return path


def make_items(count: int = 5, first: int = 0) -> list[dict[str, Any]]:
    """Items as a shop's engine gives them."""
    return [
        {"item_id": f"p{first + n}", "name": f"thing {n}", "price": 3.5 + n, "score": 9.0 - n}
        for n in range(count)
    ]


class Reply(NamedTuple):
    """An answer over HTTP."""

    status: int
    body: Any
    headers: dict[str, str]


class LiveServer:
    """`placings serve` in a process of its own, ended with all its workers."""

    def __init__(
        self,
        model: Path,
        data: Path,
        *words: str,
        workers: int = 1,
        environment: dict[str, str] | None = None,
    ) -> None:
        self.log = data.with_name(f"{data.name}.log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-c", SERVE, "serve", "--model", str(model), "--data", str(data),
                    "--port", "0", "--admin-port", "0", "--workers", str(workers), *words,
                ],
                stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, **(environment or {})},
            )  # fmt: skip
        assert self.process.stdout is not None
        found = STARTED.search(self.process.stdout.readline())
        if found is None:
            self.kill()
            raise RuntimeError(f"no server: {self.log.read_text()[-2000:]}")
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def list_workers(self) -> list[int]:
        """The processes that the supervisor started."""
        told = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        with suppress(OSError):
            return [int(number) for number in told.read_text().split()]
        return []

    def ask(self, path: str, told: Any = None, **headers: str) -> Reply:
        """The reply to a GET, or to a POST where something is told."""
        body = None if told is None else json.dumps(told).encode()
        asked = Request(self.url + path, body, {"content-type": "application/json", **headers})
        try:
            with urlopen(asked, timeout=30) as reply:
                return Reply(reply.status, json.loads(reply.read()), dict(reply.headers))
        except HTTPError as error:
            with error:
                return Reply(error.code, json.loads(error.read()), dict(error.headers))

    def end(self) -> int:
        """Ask it to leave, and wait."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self.process.stdout.close()
        return code

    def kill(self) -> None:
        """End it and its workers at once."""
        for number in [*self.list_workers(), self.process.pid]:
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        self.process.wait(60)
        self.process.stdout.close()

    def __enter__(self) -> LiveServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()
