"""One worker: a process that answers requests, and does what its supervisor says on a line of JSON.

Started as `python -m placings.serve.worker`. The first line on standard input holds the settings and the
number of the socket; the others are commands. Answers go to standard output, logs to standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any

from placings.core import PlacingsError, escape_line
from placings.places import Patience
from placings.rerank import Engine, Reranker, load_reranker, open_engine
from placings.serve.click_counts import ClickCounts
from placings.serve.event_store import EventStore
from placings.serve.live import LiveModels, LiveService
from placings.serve.monitor import Monitor
from placings.serve.search_ids import Signer, read_key
from placings.serve.settings import NO_ENGINE, ServeSettings

LOG = logging.getLogger("placings.serve")
COLLECTED = (500, 2, 5_000)  # new objects; collections until those that stayed are looked at; and the oldest
GIVE_BACK = 60.0  # seconds between two times that free memory is returned
Pinned = Mapping[str, tuple[str, str | None]]  # name of a model: its folder and its digest


class Worker:
    """The service of one process, with models that can be replaced in two steps."""

    def __init__(self, settings: ServeSettings, models: Pinned) -> None:
        self.settings = settings
        self._next: LiveModels | None = None
        self._before: LiveModels | None = None
        self.store = EventStore(settings.data)
        self.monitor = Monitor(dark_share=settings.dark_share)
        self.live = LiveService(
            settings,
            self.load(models),
            open_served(settings.engine, settings.engine_timeout_ms / 1000),
            self.store,
            Signer(read_key(Path(settings.data))),
            self.monitor,
        )
        self._tell_models()

    def load(self, models: Pinned) -> LiveModels:
        """The models, each with the clicks that it learned from and those that came in since.

        One that is still in memory, by its digest, is not read again.
        """
        known = self._list_known()
        rerankers = {
            name: known.get(digest or "") or load_reranker(path, digest=digest)
            for name, (path, digest) in models.items()
        }
        counts = {
            name: self._count(each)
            for name, each in rerankers.items()
            if each.clicks_ or each.own_clicks_ is not None
        }
        return LiveModels(rerankers, counts)

    def _list_known(self) -> dict[str, Reranker]:
        held = [self.live.models, self._before] if hasattr(self, "live") else []
        return {str(each.digest_): each for models in held if models for each in models.rerankers.values()}

    def _count(self, reranker: Reranker) -> ClickCounts:
        counts = ClickCounts(
            self.store.path,
            reranker.clicks_,
            until=_find_until(reranker),
            delay=self.settings.clicks_delay,
            own=reranker.own_clicks_,
        )
        counts.follow(now=True)
        return counts

    def prepare(self, models: Pinned) -> dict[str, str | None]:
        """First step: load the new models beside the old ones; returns their digests."""
        self._next = self.load(models)
        return {name: each.digest_ for name, each in self._next.rerankers.items()}

    def commit(self) -> None:
        """Second step: answer with the new ones. Requests under way end with those they began with."""
        if self._next is None:
            raise ValueError("nothing was prepared")
        self._before, self._next = self.live.replace_models(self._next), None
        self._tell_models()

    def abort(self) -> None:
        """Forget what was prepared."""
        self._next = None

    def _tell_models(self) -> None:
        self.monitor.name_models(
            {name: str(each.digest_) for name, each in self.live.models.rerankers.items()}
        )


def _find_until(reranker: Reranker) -> int | None:
    """The time of the newest search that the re-ranker learned clicks from, of all or of people's own."""
    if reranker.clicks_until_ is not None or reranker.own_clicks_ is None:
        return reranker.clicks_until_
    return reranker.own_clicks_.until


def open_served(spec: str, seconds: float) -> Engine | None:
    """The engine with the time that a search may take as its own: a thread is not held for much longer."""
    if spec == NO_ENGINE:
        return None
    kind = spec.partition(":")[0].partition("+")[0].lower()
    if kind in ("pelias", "opensearch", "elasticsearch"):
        return open_engine(spec, patience=Patience(timeout=seconds, retries=0, deadline=seconds))
    if kind in ("postgres", "postgresql"):
        return open_engine(spec, timeout=seconds)
    return open_engine(spec, held=True) if kind == "sqlite" else open_engine(spec)


async def answer_requests(worker: Worker, listening: socket.socket, token: str | None = None) -> None:
    """Answer on the socket until the process is told to leave."""
    import uvicorn

    from placings.serve.app import make_app
    from placings.serve.protocol import guard_connections

    settings, live = worker.settings, worker.live
    app = make_app(live, token)
    config = uvicorn.Config(
        app,
        http=guard_connections(settings.read_seconds, settings.most_connections),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_keep_alive=15,
        timeout_graceful_shutdown=max(1, round(settings.grace - settings.linger)),
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]
    loop = asyncio.get_running_loop()
    left: list[float] = []

    def leave() -> None:
        """Say that we are not ready; go on for a moment, until nobody sends requests here; then end."""
        live.ready = False
        if not left:
            left.append(monotonic() + settings.grace)
            loop.call_later(settings.linger, setattr, server, "should_exit", True)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    await live.warm()
    _calm_pauses()
    threading.Thread(target=_obey, args=(worker, loop, leave), name="placings-control", daemon=True).start()
    giving_back = loop.create_task(_give_back_memory())
    await server.serve(sockets=[listening])
    giving_back.cancel()
    await app.state.pages.close()
    await live.close(max(0.5, left[0] - monotonic()) if left else settings.grace)


def _calm_pauses() -> None:
    """Keep the pauses of the interpreter short; called once everything is loaded.

    A full collection walks through all objects of the libraries, for a tenth of a second: what is there
    now stays anyway and is left out of it. The others are looked at often and few at a time, most in under a
    millisecond: with fewer, larger collections one of 250,000 objects, while caches filled, held everybody up
    for 70 ms. Requests leave no circles behind, so a full one is put off for as long as can be. And a thread
    that wants Python's lock gets it after 1 ms, not 5: a request passes it on four times.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED)
    sys.setswitchinterval(0.001)


async def _give_back_memory(every: float = GIVE_BACK) -> None:
    """Return free pages to the system now and then, where the C library can (glibc's `malloc_trim`).

    Entries of caches come and go in all sizes; what is free between them is otherwise never returned, and
    memory seems to grow for hours. It takes some milliseconds, in a thread that does not hold Python's lock.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    while trim is not None:
        await asyncio.sleep(every)
        await asyncio.get_running_loop().run_in_executor(None, trim, 0)


def _obey(worker: Worker, loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    """Do what the supervisor says; if it is gone, also before it could be told anything, leave."""
    try:
        digests = {name: each.digest_ for name, each in worker.live.models.rerankers.items()}
        _tell({"ready": True, "models": digests})
        for line in sys.stdin:
            command = json.loads(line)
            try:
                _tell({"done": command["do"], **_do(worker, command, loop)})
            except BrokenPipeError:
                raise
            except Exception as error:  # whatever it is, the supervisor must hear of it
                known = isinstance(error, PlacingsError | ValueError | OSError)
                said = str(error) if known else type(error).__name__
                _tell({"failed": command.get("do"), "why": escape_line(said)[:500]})
    except BrokenPipeError:
        LOG.error("the supervisor is gone; this worker leaves")
    finally:
        loop.call_soon_threadsafe(leave)


def _do(worker: Worker, command: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> dict[str, Any]:
    match command["do"]:
        case "prepare":
            pinned = {name: (path, digest) for name, (path, digest) in command["models"].items()}
            return {"models": worker.prepare(pinned)}
        case "commit":
            worker.commit()
        case "abort":
            worker.abort()
        case "ping":  # through the loop: it must turn
            asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result()
            return {"stuck": worker.live.find_stuck()}
        case other:
            raise ValueError(f"no command {other!r}")
    return {}


def _tell(told: Mapping[str, Any]) -> None:
    print(json.dumps(told), flush=True)


def run_worker() -> int:
    """What `python -m placings.serve.worker` does."""
    from placings.serve.logs import write_logs

    write_logs()
    os.umask(0o077)
    told = json.loads(sys.stdin.readline())
    settings = ServeSettings.from_dict(told["settings"])
    models = {name: (path, digest) for name, (path, digest) in told["models"].items()}
    listening = socket.socket(fileno=told["socket"])
    try:
        worker = Worker(settings, models)
    except (PlacingsError, OSError) as error:
        _tell({"failed": "start", "why": escape_line(error)[:500]})
        return 1
    try:
        import uvloop

        runner: Any = uvloop.run
    except ImportError:
        runner = asyncio.run
    runner(answer_requests(worker, listening, told.get("token")))
    os._exit(0)  # threads of an engine that never answers must not hold us


if __name__ == "__main__":
    sys.exit(run_worker())
