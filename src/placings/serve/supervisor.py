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
import shutil
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placings.core import KEPT_TEXTS, BadInput, PlacingsError, escape_line
from placings.serve.arms import ENGINE, MODEL
from placings.serve.forgetting import prune_store
from placings.serve.kept_models import drop_models, keep_model
from placings.serve.settings import ServeSettings

LOG = logging.getLogger("placings.serve")
ADMIN_HOST = "127.0.0.1"
LOCK, METRICS = "lock", "metrics"
START = 120.0  # seconds that a worker may take to load its models
PATIENCE = 120.0  # seconds that a command may take
GATE = 600.0  # seconds that a candidate may take to be judged by a log
A_DAY = 86_400.0  # seconds
# of a worker's libraries: a list is too short to be shared, and threads that wait by spinning cost more
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PLACINGS_THREADS"), "1"
)
# of a worker's texts: the names of the places in its other caches; the default is for tables of a whole log
FEWER_TEXTS = {KEPT_TEXTS: str(2**15)}
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0  # seconds before a dead worker is started again
CARE = 5.0  # seconds between two looks at a worker
STUCK = 30.0  # seconds without a sign of life, or in one call to an engine or a model
Models = dict[str, tuple[str, str | None]]  # name of a model: its folder and its digest


class ReloadFailed(PlacingsError, RuntimeError):
    """The new models were not taken; the old ones answer on."""


@dataclass
class Child:
    """A worker process and how to talk to it."""

    process: asyncio.subprocess.Process
    is_ready: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def ask(self, command: Mapping[str, Any], seconds: float = PATIENCE) -> dict[str, Any]:
        """Send a command and give the answer; an answer to an earlier one, given up, is passed over."""
        async with self.lock:
            assert self.process.stdin is not None
            self.process.stdin.write(json.dumps(command).encode() + b"\n")
            try:
                await self.process.stdin.drain()
            except ConnectionError:
                raise ReloadFailed("a worker died.") from None
            async with asyncio.timeout(seconds):
                while True:
                    told = await self._hear_any(seconds)
                    if command["do"] in (told.get("done"), told.get("failed")):
                        return _take(told)

    async def hear(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """The next line that the worker says."""
        return _take(await self._hear_any(seconds))

    async def _hear_any(self, seconds: float) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), seconds)
        if not line:
            raise ReloadFailed("a worker died.")
        told: dict[str, Any] = json.loads(line)
        return told


def _take(told: dict[str, Any]) -> dict[str, Any]:
    if "failed" in told:
        raise ReloadFailed(str(told.get("why")))
    return told


class Supervisor:
    """Starts workers, starts dead ones again, changes models in two steps, and ends tidily."""

    def __init__(self, settings: ServeSettings, token: str | None = None) -> None:
        self.settings, self.token = settings, token
        self.home = Path(settings.data)
        self.models: Models = {
            MODEL: (settings.model, settings.digest),
            **{name: (path, None) for name, path in settings.models.items()},
        }
        self.before: Models | None = None
        self.children: list[Child] = []
        self.port = settings.port
        self.admin_port = settings.admin_port
        self._leaving = asyncio.Event()
        self._changing = asyncio.Lock()
        _check_arms(settings, self.models)

    async def run(self, started: Any = None) -> int:
        """Serve until SIGTERM or SIGINT; returns the exit code."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with hold_lock(self.home):
            self._sweep()
            if not self.settings.is_loopback:
                LOG.warning(
                    "listening on %s: other machines can reach this service. It has no passwords and no TLS; "
                    "put a proxy in front of it.",
                    self.settings.host,
                )
            self._listening = listen(self.settings.host, self.settings.port)
            self.port = self._listening.getsockname()[1]
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._leaving.set)
            try:
                self.models = {
                    name: keep_model(path, self.home, digest) for name, (path, digest) in self.models.items()
                }
                await self._start_all()
                drop_models(self.home, [str(digest) for _, digest in self.models.values()])
                await self._serve(started)
            finally:
                for child in self.children:
                    if child.process.returncode is None:
                        child.process.kill()
                self._listening.close()
        return 0

    def _sweep(self) -> None:
        """Remove what a killed service left: only we have the lock."""
        metrics = self.home / METRICS
        shutil.rmtree(metrics, ignore_errors=True)
        metrics.mkdir(mode=0o700)
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics.absolute())

    async def _serve(self, started: Any) -> None:
        admin = asyncio.create_task(self._serve_admin())
        while not admin.done() and self.admin_port == 0:
            await asyncio.sleep(0.01)
        if admin.done():
            admin.result()  # it says why its port cannot be had
        if started is not None:
            started(self)
        keepers = [asyncio.create_task(self._keep_alive(place)) for place in range(len(self.children))]
        keepers += [asyncio.create_task(self._look_after(place)) for place in range(len(self.children))]
        keepers.append(asyncio.create_task(self._prune()))
        await self._leaving.wait()
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        await self._end()
        admin.cancel()

    # -- workers -----------------------------------------------------------------------------------

    async def _start_all(self) -> None:
        """The first worker alone, since it may make files; then the others at once."""
        self.children = [await self._start()]
        others = [asyncio.create_task(self._start()) for _ in range(self.settings.workers - 1)]
        for each in others:
            self.children.append(await each)

    async def _start(self) -> Child:
        number = self._listening.fileno()
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "placings.serve.worker",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, pass_fds=[number],
            start_new_session=True, env={**FEWER_TEXTS, **os.environ, **ONE_THREAD},
        )  # fmt: skip
        child = Child(process)
        told = {
            "settings": self.settings.to_dict(),
            "models": self.models,
            "socket": number,
            "token": self.token,
        }
        assert process.stdin is not None
        process.stdin.write(json.dumps(told).encode() + b"\n")
        try:
            await child.hear(START)
            child.is_ready = True
        except TimeoutError:
            raise ReloadFailed(f"a worker took longer than {START:g} seconds to start.") from None
        finally:
            if not child.is_ready and process.returncode is None:
                process.kill()
        return child

    async def _keep_alive(self, place: int) -> None:
        """Start a worker again whenever it dies; the pause grows while it keeps dying."""
        pause = FIRST_PAUSE
        while True:
            code = await self.children[place].process.wait()
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

    async def _look_after(self, place: int) -> None:
        """End a worker that does not answer any more, or that hangs in a call; it is then started again."""
        while True:
            await asyncio.sleep(CARE)
            child = self.children[place]
            if child.lock.locked() or child.process.returncode is not None:
                continue
            try:
                stuck = float((await child.ask({"do": "ping"}, STUCK))["stuck"])
            except TimeoutError:
                stuck = STUCK
            except (ReloadFailed, OSError, ValueError):
                continue  # it is dying; that is the other one's care
            if stuck >= max(STUCK, 10 * self.settings.engine_timeout_ms / 1000):
                LOG.error("worker %d has been stuck for %.0f seconds; it is ended", place, stuck)
                with suppress(ProcessLookupError):
                    child.process.kill()

    async def _end(self) -> None:
        for child in self.children:
            if child.process.returncode is None:
                child.process.send_signal(signal.SIGTERM)
        waits = [asyncio.create_task(child.process.wait()) for child in self.children]
        await asyncio.wait(waits, timeout=self.settings.grace + 5.0)

    # -- models ------------------------------------------------------------------------------------

    async def reload(
        self, models: Mapping[str, tuple[str, str | None]], *, force: bool = False
    ) -> dict[str, str | None]:
        """Change models on all workers or on none; returns the digests that answer now.

        With `gate_log` a model must be shown non-inferior on that log, unless it is forced.
        """
        for name in models:
            if name not in self.models:
                raise ReloadFailed(f"no model {name!r}; there are {', '.join(self.models)}.")
        judged = dict(models)
        if (
            self.settings.gate_log is not None and not force
        ):  # before the lock: dead workers must be started again
            for name, (path, digest) in models.items():
                pinned = await try_model(self._check_path(path), digest, log=self.settings.gate_log)
                judged[name] = (path, pinned)
        async with self._changing:
            wanted = dict(self.models)
            for name, (path, digest) in judged.items():
                wanted[name] = await asyncio.to_thread(keep_model, self._check_path(path), self.home, digest)
                await try_model(*wanted[name])
            return await self._change(wanted)

    async def go_back(self) -> dict[str, str | None]:
        """One step back: the models before the last change."""
        async with self._changing:
            if self.before is None:
                raise ReloadFailed("there is no model before this one.")
            return await self._change(self.before)

    async def _change(self, wanted: Models) -> dict[str, str | None]:
        """All workers load, and only if all could do they answer with it.

        Once all have loaded the change is decided: a worker that dies before it is told so starts with it.
        """
        problems = await self._ask_all({"do": "prepare", "models": wanted})
        if problems:
            await self._ask_all({"do": "abort"})
            said = escape_line(problems[0])[:300]
            raise ReloadFailed(f"{len(problems)} of {len(self.children)} workers could not: {said}")
        self.before, self.models = self.models, wanted
        for child, problem in zip(self.children, await self._tell_all({"do": "commit"}), strict=True):
            if problem is not None and child.process.returncode is None:
                LOG.error("a worker did not change its model: %s; it is ended", escape_line(problem)[:300])
                child.process.kill()
        kept = [*self.models.values(), *self.before.values()]
        await asyncio.to_thread(drop_models, self.home, [str(digest) for _, digest in kept])
        digests = {name: digest for name, (_, digest) in self.models.items()}
        LOG.info("the models are now %s", ", ".join(f"{name} {digest}" for name, digest in digests.items()))
        return digests

    async def _ask_all(self, command: Mapping[str, Any]) -> list[BaseException]:
        """What went wrong where; nothing if all did it."""
        return [problem for problem in await self._tell_all(command) if problem is not None]

    async def _tell_all(self, command: Mapping[str, Any]) -> list[BaseException | None]:
        answers = await asyncio.gather(
            *(child.ask(command) for child in self.children), return_exceptions=True
        )
        return [each if isinstance(each, BaseException) else None for each in answers]

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

        socket_ = listen(ADMIN_HOST, self.settings.admin_port)
        self.admin_port = socket_.getsockname()[1]
        config = uvicorn.Config(
            make_admin(self), log_config=None, access_log=False, server_header=False, lifespan="off"
        )
        server = uvicorn.Server(config)
        server.capture_signals = nullcontext  # type: ignore[assignment]
        try:
            await server.serve(sockets=[socket_])
        finally:
            socket_.close()

    def allows(self, given: str | None) -> bool:
        """Whether a token is ours; compared in a time that tells nothing of it."""
        return self.token is not None and hmac.compare_digest((given or "").encode(), self.token.encode())


async def try_model(path: str, digest: str | None, *, log: str | None = None) -> str:
    """Load a model in a process of its own, which asks its sample request; returns its digest.

    With a log the process also judges it: see `would_have`.
    """
    seconds = START if log is None else GATE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "placings.serve.try_model", path, digest or "", log or "",
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, error = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        process.kill()
        raise ReloadFailed(f"{path} took longer than {seconds:g} seconds to load.") from None
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


@contextmanager
def hold_lock(home: Path) -> Iterator[None]:
    """One service for each folder of events."""
    import fcntl

    handle = os.open(home / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"{home} is in use by another service. Name another --data folder.") from None
        yield
    finally:
        os.close(handle)


def _check_arms(settings: ServeSettings, models: Mapping[str, Any]) -> None:
    for arm in settings.arms.arms:
        for name in arm.shows:
            if name != ENGINE and name not in models:
                raise BadInput(f"arm {arm.name!r} shows {name!r}; there are {', '.join([ENGINE, *models])}.")


def _forget_worker(number: int) -> None:
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(number)  # type: ignore[no-untyped-call]
