"""One worker: a process that answers requests, and does what its supervisor says on a line of JSON.

Started as `python -m placings.serve.worker`. The first line on standard input holds the settings and the
number of the socket; the others are commands. Answers go to standard output, logs to standard error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from placings.core import PlacingsError, escape_line
from placings.rerank import Engine, Reranker, load_reranker, open_engine
from placings.serve.click_counts import ClickCounts
from placings.serve.event_store import EventStore
from placings.serve.live import LiveModels, LiveService
from placings.serve.monitor import Monitor
from placings.serve.search_ids import Signer, read_key
from placings.serve.settings import NO_ENGINE, ServeSettings

LOG = logging.getLogger("placings.serve")
Pinned = Mapping[str, tuple[str, str | None]]  # name of a model: its folder and its digest


class Worker:
    """The service of one process, with models that can be replaced in two steps."""

    def __init__(self, settings: ServeSettings, models: Pinned) -> None:
        self.settings = settings
        self.store = EventStore(settings.data)
        self.monitor = Monitor(dark_share=settings.dark_share)
        self.live = LiveService(
            settings,
            self.load(models),
            _open(settings.engine),
            self.store,
            Signer(read_key(Path(settings.data))),
            self.monitor,
        )
        self._next: LiveModels | None = None
        self._before: LiveModels | None = None
        self._tell_models()

    def load(self, models: Pinned) -> LiveModels:
        """The models, each with the clicks that it learned from and those that came in since."""
        rerankers = {name: load_reranker(path, digest=digest) for name, (path, digest) in models.items()}
        counts = {name: self._count(each) for name, each in rerankers.items() if each.clicks_}
        return LiveModels(rerankers, counts)

    def _count(self, reranker: Reranker) -> ClickCounts:
        counts = ClickCounts(
            self.store.path,
            reranker.clicks_,
            until=reranker.clicks_until_,
            delay=self.settings.clicks_delay,
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
        self._before, self.live.models, self._next = self.live.models, self._next, None
        self._tell_models()

    def abort(self) -> None:
        """Forget what was prepared."""
        self._next = None

    def go_back(self) -> None:
        """Answer with the models before the last change."""
        if self._before is None:
            raise ValueError("there is no model before this one")
        self.live.models, self._before = self._before, self.live.models
        self._tell_models()

    def _tell_models(self) -> None:
        self.monitor.name_models(
            {name: str(each.digest_) for name, each in self.live.models.rerankers.items()}
        )


def _open(spec: str) -> Engine | None:
    return None if spec == NO_ENGINE else open_engine(spec)


async def serve(worker: Worker, listening: socket.socket, grace: float) -> None:
    """Answer on the socket until the process is told to leave."""
    import uvicorn

    from placings.serve.app import make_app

    config = uvicorn.Config(
        make_app(worker.live),
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_keep_alive=15,
        timeout_graceful_shutdown=int(max(1, grace)),
        limit_concurrency=1000,
        h11_max_incomplete_event_size=32 << 10,
    )
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    loop = asyncio.get_running_loop()

    def leave() -> None:
        worker.live.ready = False
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    threading.Thread(target=_obey, args=(worker, loop, leave), name="placings-control", daemon=True).start()
    await server.serve(sockets=[listening])
    await worker.live.close(grace)


def _obey(worker: Worker, loop: asyncio.AbstractEventLoop, leave: Any) -> None:
    """Do what the supervisor says; if it is gone, also before it could be told anything, leave."""
    try:
        digests = {name: each.digest_ for name, each in worker.live.models.rerankers.items()}
        _tell({"ready": True, "models": digests})
        for line in sys.stdin:
            command = json.loads(line)
            try:
                _tell({"done": command["do"], **_do(worker, command)})
            except BrokenPipeError:
                raise
            except (PlacingsError, ValueError, OSError) as error:
                _tell({"failed": command.get("do"), "why": escape_line(error)[:500]})
    except BrokenPipeError:
        LOG.error("the supervisor is gone; this worker leaves")
    finally:
        loop.call_soon_threadsafe(leave)


def _do(worker: Worker, command: Mapping[str, Any]) -> dict[str, Any]:
    match command["do"]:
        case "prepare":
            pinned = {name: (path, digest) for name, (path, digest) in command["models"].items()}
            return {"models": worker.prepare(pinned)}
        case "commit":
            worker.commit()
        case "abort":
            worker.abort()
        case "back":
            worker.go_back()
        case other:
            raise ValueError(f"no command {other!r}")
    return {}


def _tell(told: Mapping[str, Any]) -> None:
    print(json.dumps(told), flush=True)


def main() -> int:
    """What `python -m placings.serve.worker` does."""
    from placings.serve.logs import write_logs

    write_logs()
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
    runner(serve(worker, listening, settings.grace))
    os._exit(0)  # threads of an engine that never answers must not hold us


if __name__ == "__main__":
    sys.exit(main())
