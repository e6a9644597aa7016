"""The process that keeps workers alive, hands them one socket, and changes their models, all or none.

It answers no searches itself. On a port of its own, for operators, it shows the metrics of all workers and
takes reloads, with a token.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placings.core import BadInput, PlacingsError, escape_line
from placings.serve.arms import ENGINE, MODEL
from placings.serve.forgetting import prune_store
from placings.serve.settings import ServeSettings

LOG = logging.getLogger("placings.serve")
LOCK = "lock"
START = 120.0  # seconds that a worker may take to load its models
PATIENCE = 120.0  # seconds that a command may take
A_DAY = 86_400.0  # seconds
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds before a dead worker is started again


class ReloadFailed(PlacingsError, RuntimeError):
    """The new models were not taken; the old ones answer on."""


@dataclass
class Child:
    """A worker process and how to talk to it."""

    process: asyncio.subprocess.Process
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """Send a command and give the answer."""
        async with self.lock:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            await self.process.stdin.drain()
            return await self.hear()

    async def hear(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next line that the worker says."""
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), seconds)
        if not line:
            raise ReloadFailed("a worker died.")
        told: dict[str, Any] = json.loads(line)
        if "failed" in told:
            raise ReloadFailed(str(told.get("why")))
        return told


class Supervisor:
    """Starts workers, starts dead ones again, changes models in two steps, and ends tidily."""

    def __init__(self, settings: ServeSettings, token: str | None = None) -> None:
        self.settings, self.token = settings, token
        self.models: dict[str, tuple[str, str | None]] = {
            MODEL: (settings.model, settings.digest),
            **{name: (path, None) for name, path in settings.models.items()},
        }
        self.before: dict[str, tuple[str, str | None]] | None = None
        self.children: list[Child] = []
        self.port = settings.port
        self.admin_port = settings.admin_port
        self._leaving = asyncio.Event()
        self._changing = asyncio.Lock()
        _check_arms(settings, self.models)

    async def run(self, started: Any = None) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code."""
        home = Path(self.settings.data)
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with hold_lock(home), tempfile.TemporaryDirectory(prefix="placings-metrics-") as metrics:
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics
            self._listening = listen(self.settings.host, self.settings.port)
            self.port = self._listening.getsockname()[1]
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._leaving.set)
            try:
                self.children = [await self._start() for _ in range(self.settings.workers)]
                admin = asyncio.create_task(self._serve_admin())
                while not admin.done() and self.admin_port == 0:
                    await asyncio.sleep(0.01)
                if started is not None:
                    started(self)
                keepers = [asyncio.create_task(self._keep(place)) for place in range(len(self.children))]
                keepers.append(asyncio.create_task(self._prune()))
                await self._leaving.wait()
                for keeper in keepers:
                    keeper.cancel()
                await self._end()
                admin.cancel()
            finally:
                for child in self.children:
                    if child.process.returncode is None:
                        child.process.kill()
                self._listening.close()
        return 0

    # -- workers -----------------------------------------------------------------------------------

    async def _start(self) -> Child:
        number = self._listening.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "placings.serve.worker",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, pass_fds=[number],
            start_new_session=True,
        )  # fmt: skip
        child = Child(process)
        told = {"settings": self.settings.to_dict(), "models": self.models, "socket": number}
        assert process.stdin is not None
        process.stdin.write(json.dumps(told).encode() + b"\n")
        ready = await child.hear(START)
        self.models = {name: (self.models[name][0], digest) for name, digest in ready["models"].items()}
        return child

    async def _keep(self, place: int) -> None:
        """Start a worker again whenever it dies; the pause grows while it keeps dying."""
        pause = FIRST_PAUSE
        while not self._leaving.is_set():
            code = await self.children[place].process.wait()
            if self._leaving.is_set():
                return
            LOG.error("worker %d ended with %s; it is started again", place, code)
            _forget_worker(self.children[place].process.pid)
            await asyncio.sleep(pause)
            try:
                async with self._changing:
                    self.children[place] = await self._start()
                pause = FIRST_PAUSE
            except (PlacingsError, OSError, TimeoutError) as error:
                LOG.error("worker %d did not start: %s", place, escape_line(error))
                pause = min(2 * pause, LONGEST_PAUSE)

    async def _prune(self) -> None:
        """Once a day, take out what is older than the settings say."""
        while self.settings.keep_days is not None:
            try:
                gone = await asyncio.to_thread(prune_store, self.settings.data, self.settings.keep_days)
                LOG.info("pruned %d searches and %d events", gone.shown, gone.events)
            except (PlacingsError, OSError) as error:
                LOG.error("old events were not pruned: %s", escape_line(error)[:300])
            await asyncio.sleep(A_DAY)

    async def _end(self) -> None:
        for child in self.children:
            if child.process.returncode is None:
                child.process.send_signal(signal.SIGTERM)
        waits = [asyncio.create_task(child.process.wait()) for child in self.children]
        await asyncio.wait(waits, timeout=self.settings.grace + 5.0)

    # -- models ------------------------------------------------------------------------------------

    async def reload(self, models: Mapping[str, tuple[str, str | None]]) -> dict[str, str | None]:
        """Change models on all workers or on none; returns the digests that answer now."""
        async with self._changing:
            wanted = {
                **self.models,
                **{name: (self._check_path(path), digest) for name, (path, digest) in models.items()},
            }
            for name in models:
                if name not in self.models:
                    raise ReloadFailed(f"no model {name!r}; there are {', '.join(self.models)}.")
                wanted[name] = (wanted[name][0], await try_model(*wanted[name]))
            await self._ask_all({"do": "prepare", "models": wanted}, otherwise={"do": "abort"})
            await self._ask_all({"do": "commit"})
            self.before, self.models = self.models, wanted
            return {name: digest for name, (_, digest) in self.models.items()}

    async def go_back(self) -> dict[str, str | None]:
        """One step back: the models before the last change."""
        if self.before is None:
            raise ReloadFailed("there is no model before this one.")
        async with self._changing:
            await self._ask_all({"do": "back"})
            self.models, self.before = self.before, self.models
            return {name: digest for name, (_, digest) in self.models.items()}

    async def _ask_all(self, command: Mapping[str, Any], otherwise: Mapping[str, Any] | None = None) -> None:
        answers = await asyncio.gather(
            *(child.ask(command) for child in self.children), return_exceptions=True
        )
        problems = [answer for answer in answers if isinstance(answer, BaseException)]
        if not problems:
            return
        if otherwise is not None:
            await asyncio.gather(*(child.ask(otherwise) for child in self.children), return_exceptions=True)
        raise ReloadFailed(
            f"{len(problems)} of {len(answers)} workers could not: {escape_line(problems[0])[:300]}"
        )

    def _check_path(self, path: str) -> str:
        """Only models below --model-root may be loaded over the wire."""
        if self.settings.model_root is None:
            raise ReloadFailed("this service takes no new models. Start it with --model-root FOLDER.")
        root, wanted = Path(self.settings.model_root).resolve(), Path(path).resolve()
        if not wanted.is_relative_to(root):
            raise ReloadFailed(f"a model must lie below {root}.")
        return str(wanted)

    # -- operators ---------------------------------------------------------------------------------

    async def _serve_admin(self) -> None:
        import uvicorn

        from placings.serve.admin import make_admin

        socket_ = listen("127.0.0.1", self.settings.admin_port)
        self.admin_port = socket_.getsockname()[1]
        config = uvicorn.Config(
            make_admin(self), log_config=None, access_log=False, server_header=False, lifespan="off"
        )
        server = uvicorn.Server(config)
        server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
        await server.serve(sockets=[socket_])

    def allows(self, given: str | None) -> bool:
        """Whether a token is ours; compared in a time that tells nothing of it."""
        return self.token is not None and hmac.compare_digest((given or "").encode(), self.token.encode())


async def try_model(path: str, digest: str | None) -> str:
    """Load a model in a process of its own, which asks its sample request; returns its digest."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "placings.serve.try_model", path, digest or "",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, error = await asyncio.wait_for(process.communicate(), START)
    except TimeoutError:
        process.kill()
        raise ReloadFailed(f"{path} took longer than {START:g} seconds to load.") from None
    if process.returncode != 0:
        why = error.decode("utf-8", "replace").strip().splitlines()
        raise ReloadFailed(
            escape_line(why[-1] if why else f"{path}: loading it ended with {process.returncode}.")
        )
    return out.decode().strip()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; a port that is taken is an error in one line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise BadInput(
            f"{host}:{port} cannot be listened on ({error.strerror}). Name another port."
        ) from None
    found.listen(1024)
    found.set_inheritable(True)
    return found


def hold_lock(home: Path) -> Any:
    """One service for each folder of events."""
    import fcntl
    from contextlib import contextmanager

    @contextmanager
    def held() -> Any:
        with open(home / LOCK, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadInput(f"{home} is in use by another service. Name another --data folder.") from None
            yield

    return held()


def _check_arms(settings: ServeSettings, models: Mapping[str, Any]) -> None:
    for arm in settings.arms.arms:
        for name in arm.shows:
            if name != ENGINE and name not in models:
                raise BadInput(f"arm {arm.name!r} shows {name!r}; there are {', '.join([ENGINE, *models])}.")


def _forget_worker(number: int) -> None:
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(number)  # type: ignore[no-untyped-call]
