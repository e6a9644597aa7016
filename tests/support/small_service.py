"""A service inside the tests' process: models that misbehave, an engine of a few hits, no port."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from placings.rerank import Hit, Request, Reranked
from placings.serve.app import make_app
from placings.serve.event_store import EventStore
from placings.serve.live import LiveModels, LiveService
from placings.serve.monitor import Monitor
from placings.serve.search_ids import Signer
from placings.serve.settings import ServeSettings

KEY = b"k" * 32
ITEMS = [{"item_id": name, "price": price} for name, price in (("a", 3.0), ("b", 1.0), ("c", 2.0))]


@dataclass
class FakeModel:
    """Cheapest first, after doing whatever a test wants it to do."""

    before: Callable[[], Any] = lambda: None
    score: float = 1.0
    pool: int = 40
    digest_: str = "d1"
    clicks_: dict[str, int] = field(default_factory=dict)

    def rerank(self, request: Request) -> Reranked:
        self.before()
        scores = np.array([-float(item.get("price", 0.0)) * self.score for item in request.items])
        return Reranked(np.argsort(-scores, kind="stable"), scores, self.digest_, {})


@dataclass
class FakeEngine:
    """The same hits for every text, after doing whatever a test wants it to do."""

    before: Callable[[], Any] = lambda: None
    found: Any = None
    asked: list[str] = field(default_factory=list)
    in_process = False  # of the class: tests of both ways set it for all engines

    def search(self, text: str, focus: Any = None, k: int = 40, layers: Sequence[str] | None = None) -> Any:
        self.asked.append(text)
        self.before()
        return make_hits()[:k] if self.found is None else self.found


def make_hits() -> list[Hit]:
    at = {"lat": 49.0, "lon": 8.4}
    return [
        Hit(
            each["item_id"],
            {"name": f"place {each['item_id']}", "price": each["price"], **at},
            math.nan,
            rank,
        )
        for rank, each in enumerate(ITEMS, 1)
    ]


def spin(seconds: float) -> None:
    """Busy in Python: the interpreter takes turns with other threads."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@contextmanager
def serve_here(folder: Path, model: Any = None, engine: Any = None, **settings: Any) -> Iterator[LiveService]:
    """A service of one model, ready to be asked."""
    told = {"budget_ms": 5000.0, "engine_timeout_ms": 5000.0, "access_log": False, **settings}
    store = EventStore(folder / "data")
    live = LiveService(
        ServeSettings(model="", data=str(folder / "data"), **told),
        LiveModels({"model": FakeModel() if model is None else model}),
        engine, store, Signer(KEY), Monitor(dark_share=told.get("dark_share", 0.5)),
    )  # fmt: skip
    live.ready = True
    try:
        yield live
    finally:
        store.close()
        for pool in (live._finders, live._orderers, live._explainers):
            pool.shutdown(wait=True, cancel_futures=True)
        if hasattr(engine, "close"):
            engine.close()


def talk(
    live: LiveService, say: Callable[[httpx.AsyncClient], Awaitable[Any]], token: str | None = None
) -> Any:
    """Let `say` ask the service's application, without a port, as a client on this machine."""

    async def go() -> Any:
        app = make_app(live, token)
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 5))
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                return await say(client)
        finally:
            await app.state.pages.close()

    return asyncio.run(go())


def ask(live: LiveService, method: str, path: str, token: str | None = None, **said: Any) -> httpx.Response:
    """One request."""
    found: httpx.Response = talk(live, lambda client: client.request(method, path, **said), token)
    return found


def count(live: LiveService, name: str, **labels: str) -> float:
    """A counter or gauge of the service."""
    return live.monitor.registry.get_sample_value(f"placings_{name}", labels) or 0.0
