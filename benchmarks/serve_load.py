"""How many requests a second `placings serve` answers with a p99 below 25 ms, beside LightGBM behind FastAPI.

    python benchmarks/serve_load.py                 # about 7 minutes, 30,000 requests and more
    python benchmarks/serve_load.py --soak 30       # memory of the workers over 30 minutes
    python benchmarks/serve_load.py --quick         # seconds; shows that it runs, its numbers mean little

Both services are processes of their own on this machine, with the same index and the same re-ranker. Requests
come as people do: gaps are exponential and drawn before a run, and nobody waits for anybody (open loop).
Latency counts from the moment at which a request was *due*, so a service that stalls pays for all that came
meanwhile. One request in ten is feedback on a list that was served. Each rate is run three times, the
services in turn.

A search is good if it was answered with the model's order: the engine's order (a fallback), a 503 and an
error are not. A rate is held if in most of its runs the p99 over all requests, feedback too, is below 25 ms,
where a request that was not good took for ever. So no more than 1 in 100 may fail.

The generator runs on the same cores. `late` is how late it sent in that very run (p99); the rows `floor` are
the same schedule against a process that answers at once with a reply of the same size: what this machine
and this generator add at least.

Then one long run at the highest rate that was held, up to 30,000 requests in all, and a run at twice that
rate, doubled again until something is turned away: what was answered, what was shed with Retry-After, and how
long the rest took after the last arrival.

Needs what `make demo` leaves in out/demo, or --model and --index; the peer needs FastAPI.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import math
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import orjson

HERE = Path(__file__).resolve()
SERVE = [sys.executable, "-c", "from placings.cli.main import run; run()", "serve"]
STARTED = re.compile(r"serving on http://127\.0\.0\.1:(\d+)")
# the ten of the issue that set the goals; the rest are beginnings of names in the index
TEXTS = ("karls", "ber", "new", "par", "lond", "san", "mun", "st", "frank", "wash")
SHORTEST, LONGEST = 2, 9  # letters of a beginning
RATES = (20, 40, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500, 700, 1000)  # requests a second
GOAL = 0.025  # seconds
SIZE = 40
FEEDBACK = 0.1  # share of requests
USERS = 2000
CONNECTIONS = 64  # kept open from the start
MOST_CONNECTIONS = 512  # then a request waits in the generator, and its clock runs
PATIENCE = 10.0  # seconds until a request is an error
REMEMBERED = 500  # served lists that feedback may be on
FLOOR, OURS, PEER = "floor", "placings", "peer"
GOOD, FALLBACK, SHED, ERROR = "good", "fallback", "shed", "error"
MOST_DOUBLINGS = 4


# -- what is asked ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """A request that is due `at` seconds after the start of its run; one without a text is feedback."""

    at: float
    text: str | None
    focus: tuple[float, float] | None
    user: int


def make_schedule(rate: float, count: int, texts: Sequence[str], seed: int) -> list[Ask]:
    """Poisson arrivals: exponential gaps with mean 1/rate; a third of the searches are for the ten texts."""
    source = random.Random(f"{seed} {rate}")
    at, asks = 0.0, []
    for _ in range(count):
        at += source.expovariate(rate)
        text = source.choice(TEXTS if source.random() < 1 / 3 else texts)
        focus = (round(source.uniform(35, 60), 2), round(source.uniform(-10, 30), 2))
        feedback, focused = source.random() < FEEDBACK, source.random() < 0.5
        asks.append(Ask(at, None if feedback else text, focus if focused else None, source.randrange(USERS)))
    return asks


def read_texts(index: Path, count: int = 5000, seed: int = 1) -> list[str]:
    """Beginnings of names in the index, each place as likely as another, so that no cache holds them all."""
    source = random.Random(seed)
    with closing(sqlite3.connect(f"file:{index}?mode=ro", uri=True)) as file:
        last = file.execute("SELECT max(number) FROM place").fetchone()[0]
        numbers = sorted({source.randint(1, last) for _ in range(count)})
        found = [
            file.execute("SELECT name FROM place WHERE number = ?", (each,)).fetchone() for each in numbers
        ]
    names = [row[0] for row in found if row is not None and row[0]]
    return [name[: source.randint(SHORTEST, LONGEST)].strip().lower() or name for name in names]


# -- who is asked ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What a reply to a search says: whether a model ordered it, its id, and an item of it."""

    fallback: str | None
    search_id: str
    item: str | None


def read_ours(body: bytes) -> Seen:
    """A reply in Pelias' shape."""
    told = orjson.loads(body)
    about, shown = told["geocoding"]["placings"], told["features"]
    return Seen(about["fallback"], about["search_id"], shown[0]["properties"]["id"] if shown else None)


def read_peer(body: bytes) -> Seen:
    """A reply of `serve_peer.py`."""
    told = orjson.loads(body)
    return Seen(None, told["search_id"], told["results"][0]["id"] if told["results"] else None)


@dataclass
class Target:
    """A service under load: where it listens, how it is asked, what was served lately."""

    name: str
    port: int
    process: subprocess.Popen[str]
    read: Callable[[bytes], Seen]
    focus: tuple[str, str]
    served: deque[Seen] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    events: int = 0

    def write(self, ask: Ask) -> bytes:
        """The bytes of a request; feedback is on the newest list but a few, as people need a moment."""
        who = f"Host: 127.0.0.1:{self.port}\r\nX-Placings-User: u{ask.user}\r\n"
        if ask.text is None:
            seen = self.served[len(self.served) // 2]
            self.events += 1
            event = {
                "event_id": f"{os.getpid()}.{self.events}", "search_id": seen.search_id,
                "item_id": seen.item, "action": "click", "position": 1,
            }  # fmt: skip
            body = orjson.dumps(event)
            head = f"POST /v1/feedback HTTP/1.1\r\n{who}Content-Type: application/json\r\n"
            return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        where = f"/v1/autocomplete?text={quote(ask.text)}&size={SIZE}"
        if ask.focus is not None:
            where += f"&{self.focus[0]}={ask.focus[0]}&{self.focus[1]}={ask.focus[1]}"
        return f"GET {where} HTTP/1.1\r\n{who}\r\n".encode()

    def judge(self, ask: Ask, status: int, body: bytes) -> str:
        """The fate of a request; a good search may get feedback later."""
        if status in (429, 503):
            return SHED
        if ask.text is None:
            return GOOD if status == 202 else ERROR
        if status != 200:
            return ERROR
        seen = self.read(body)
        if seen.fallback:
            return FALLBACK
        if seen.item is not None:
            self.served.append(seen)
        return GOOD


# -- a light client: HTTP/1.1 with keep-alive, as much of it as these services speak ------------------


class Connection(asyncio.Protocol):
    """One connection with one request under way at most."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.closed = False
        self._got = bytearray()
        self._end = -1  # where the body under way ends
        self._reply: asyncio.Future[tuple[int, bytes, bytes]] | None = None

    def connection_made(self, transport: Any) -> None:
        """Keep the way to write."""
        self.transport = transport

    def ask(self, written: bytes) -> asyncio.Future[tuple[int, bytes, bytes]]:
        """Send a request; the future holds status, head and body."""
        self._reply = asyncio.get_running_loop().create_future()
        self._got.clear()
        self._end = -1
        self.transport.write(written)
        return self._reply

    def data_received(self, data: bytes) -> None:
        """Collect until the body is whole."""
        self._got += data
        if self._end < 0:
            start = self._got.find(b"\r\n\r\n")
            if start < 0:
                return
            found = re.search(rb"content-length: *(\d+)", self._got[:start], re.I)
            self._start, self._end = start, start + 4 + (int(found[1]) if found else 0)
        if len(self._got) >= self._end and self._reply is not None and not self._reply.done():
            head = bytes(self._got[: self._start])
            self._reply.set_result((int(head[9:12]), head, bytes(self._got[self._start + 4 : self._end])))

    def connection_lost(self, error: Exception | None) -> None:
        """A request under way has failed."""
        self.closed = True
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error or ConnectionResetError("the service closed the connection"))


class Pool:
    """Connections to one service, taken in turn; each comes from a loopback address of its own.

    People have addresses of their own, and a service may limit what comes from one.
    """

    def __init__(self, port: int) -> None:
        self.port, self.opened, self.alive = port, 0, 0
        self._idle: deque[Connection] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def take(self) -> Connection:
        """An idle connection, a new one, or the next that comes back."""
        while True:
            while self._idle:
                found = self._idle.popleft()
                if not found.closed:
                    return found
                self.alive -= 1
            if self.alive < MOST_CONNECTIONS:
                self.alive += 1
                try:
                    return await self._open()
                except OSError:
                    self.alive -= 1
                    raise
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            await turn

    async def _open(self) -> Connection:
        self.opened += 1
        own = (f"127.0.0.{1 + self.opened % 250}", 0) if sys.platform == "linux" else None
        loop = asyncio.get_running_loop()
        made = await loop.create_connection(Connection, "127.0.0.1", self.port, local_addr=own)
        return made[1]

    def give(self, connection: Connection, *, broken: bool = False) -> None:
        """Back into the pool, or away."""
        if broken or connection.closed:
            self.alive -= 1
            connection.transport.abort()
        else:
            self._idle.append(connection)
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break

    async def fill(self, count: int = CONNECTIONS) -> None:
        """Open connections before the clock starts."""
        for connection in [await self.take() for _ in range(count)]:
            self.give(connection)

    def close(self) -> None:
        """Close what is idle."""
        for connection in self._idle:
            connection.transport.abort()


# -- one run ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    """One request: how late it was sent, when it was answered after it was due, and its fate."""

    search: bool
    late: float
    took: float
    fate: str
    told_wait: bool = False


@dataclass
class Run:
    """The numbers of one run; times in milliseconds."""

    target: str
    rate: float
    run: int
    sent: int
    good: int
    fallbacks: int
    shed: int
    errors: int
    p50: float
    p95: float
    p99: float
    max: float
    judged: float
    feedback_p99: float
    late_p99: float
    retry_after: int = 0
    in_flight: int = 0
    drained: float = 0.0

    @property
    def held(self) -> bool:
        """Whether 99 of 100 requests, of those sent, were good and quick."""
        return self.judged < 1000 * GOAL


def find_rank(values: Sequence[float], share: float) -> float:
    """The value that `share` of all are not above, by nearest rank; NaN of nothing.

    >>> find_rank([4.0, 1.0, 2.0, 3.0], 0.5)
    2.0
    """
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def sum_up(target: str, rate: float, run: int, done: Sequence[Done]) -> Run:
    """The row of a run. `judged` is the p99 over all requests, those that were not good as never."""
    took = [1000 * each.took for each in done if each.search and each.fate == GOOD]
    clicks = [1000 * each.took for each in done if not each.search and each.fate == GOOD]
    fates = Counter(each.fate for each in done)
    ranks = [find_rank(took, share) for share in (0.5, 0.95, 0.99, 1.0)]
    judged = find_rank([1000 * each.took if each.fate == GOOD else math.inf for each in done], 0.99)
    return Run(
        target, rate, run, len(done), fates[GOOD], fates[FALLBACK], fates[SHED], fates[ERROR], *ranks, judged,
        find_rank(clicks, 0.99), find_rank([1000 * each.late for each in done], 0.99),
        sum(each.told_wait for each in done),
    )  # fmt: skip


async def fire(target: Target, pool: Pool, ask: Ask, due: float) -> Done:
    """Send one request and wait for its answer; the clock started when it was due."""
    late = time.perf_counter() - due
    connection, told_wait, broken = None, False, True
    try:
        async with asyncio.timeout(PATIENCE):
            connection = await pool.take()
            status, head, body = await connection.ask(target.write(ask))
        took = time.perf_counter() - due
        broken = b"connection: close" in head.lower()
        told_wait = b"retry-after:" in head.lower()
        fate = target.judge(ask, status, body)
    except (OSError, TimeoutError, ValueError, KeyError):
        took, fate = time.perf_counter() - due, ERROR
    finally:
        if connection is not None:
            pool.give(connection, broken=broken)
    return Done(ask.text is not None, late, took, fate, told_wait)


async def drive(target: Target, asks: Sequence[Ask], rate: float, run: int) -> Run:
    """Send a schedule, whatever comes back, and wait for the rest."""
    pool = Pool(target.port)
    await pool.fill()
    gc.collect()
    gc.disable()
    tasks = []
    start = time.perf_counter() + 0.05
    for ask in asks:
        wait = start + ask.at - time.perf_counter()
        # without a pause a burst would go out before any answer is read
        await asyncio.sleep(max(wait, 0.0))
        tasks.append(asyncio.create_task(fire(target, pool, ask, start + ask.at)))
    in_flight, last = sum(not task.done() for task in tasks), time.perf_counter()
    done = await asyncio.gather(*tasks)
    drained = time.perf_counter() - last
    gc.enable()
    pool.close()
    found = sum_up(target.name, rate, run, done)
    found.in_flight, found.drained = in_flight, 1000 * drained
    return found


async def warm_up(target: Target, texts: Sequence[str], count: int) -> None:
    """Searches one after the other: caches of code and files are warm, and feedback has lists to be on."""
    pool = Pool(target.port)
    for ask in make_schedule(1.0, count, texts, seed=0):
        await fire(target, pool, Ask(0.0, ask.text or TEXTS[0], ask.focus, ask.user), time.perf_counter())
    pool.close()
    if not target.served:
        raise SystemExit(f"{target.name} gave no good answer in {count} searches. See what it printed above.")


# -- processes -------------------------------------------------------------------------------------


@dataclass
class ColdStart:
    """Seconds from the start of a process to its first good answer, and what came before."""

    ready: float
    good: float
    first_ms: float
    first_fate: str
    asked: int


@contextmanager
def start(name: str, command: Sequence[str], told: bytes | None = None) -> Iterator[Target]:
    """A service in a process of its own, which says its port on its first line; ended at the end."""
    process = subprocess.Popen(
        [*command], stdin=subprocess.PIPE if told is not None else None, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        if told is not None:
            assert process.stdin is not None
            process.stdin.buffer.write(told)
            process.stdin.close()
        line = process.stdout.readline()
        found = STARTED.search(line)
        if found is None:
            raise SystemExit(line.strip() or f"{name} did not start: {' '.join(command[:4])} …")
        peer = name == PEER
        yield Target(
            name, int(found[1]), process, read_peer if peer else read_ours,
            ("lat", "lon") if peer else ("focus.point.lat", "focus.point.lon"),
        )  # fmt: skip
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


async def time_first(target: Target, started: float) -> ColdStart:
    """Ask until an answer is good."""
    ready, asked, first = time.perf_counter() - started, 0, None
    while time.perf_counter() - started < 120:
        pool, due = Pool(target.port), time.perf_counter()
        done = await fire(target, pool, Ask(0.0, TEXTS[0], None, 0), due)
        pool.close()
        refused = done.fate == ERROR and target.process.poll() is None
        if refused and first is None:  # it does not listen yet
            await asyncio.sleep(0.01)
            continue
        asked += 1
        first = first or done
        if done.fate == GOOD:
            return ColdStart(ready, time.perf_counter() - started, 1000 * first.took, first.fate, asked)
    raise SystemExit(f"{target.name} gave no good answer within two minutes.")


def answer_at_once(body: bytes) -> None:
    """The floor: a server that gives every search the same reply and takes all feedback."""
    search = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    taken = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}"

    class Responder(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            self.transport.write(search if data.startswith(b"GET") else taken)

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(Responder, "127.0.0.1", 0, backlog=1024)
        print(f"serving on http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()

    run_loop(serve())


def run_loop(work: Any) -> Any:
    """In uvloop where it is, else in asyncio's own."""
    if find_spec("uvloop") is None:
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


# -- the measurement -------------------------------------------------------------------------------

HEAD = (
    f"{'':9}{'rate':>5}{'run':>5}{'sent':>7}{'good':>7}{'fallb.':>7}{'shed':>6}{'error':>6}"
    f"{'p50':>8}{'p95':>8}{'p99':>8}{'max':>8}{'all p99':>9}{'clicks':>8}{'late':>7}"
)


def write_row(run: Run) -> str:
    """A run as a line of the table."""
    times = "".join(f"{value:8.1f}" for value in (run.p50, run.p95, run.p99, run.max))
    return (
        f"{run.target:9}{run.rate:5.0f}{run.run or 'long':>5}{run.sent:7,}{run.good:7,}{run.fallbacks:7,}"
        f"{run.shed:6,}{run.errors:6,}{times}{run.judged:9.1f}{run.feedback_p99:8.1f}{run.late_p99:7.1f}"
    )


def climb(
    targets: Sequence[Target], texts: Sequence[str], chosen: argparse.Namespace, keep: Callable[[Run], None]
) -> dict[str, float]:
    """Rates upwards, all services in turn, until each has failed to hold one; gives the highest held."""
    highest: dict[str, float] = {}
    climbing = [target for target in targets if target.name != FLOOR]
    floor = [target for target in targets if target.name == FLOOR]
    for rate in chosen.rates:
        if not climbing:
            break
        count = max(round(rate * chosen.seconds), chosen.least)
        found: dict[str, list[Run]] = {target.name: [] for target in climbing}
        for number in range(1, chosen.runs + 1):
            asks = make_schedule(rate, count, texts, seed=chosen.seed + number)
            for target in [*(floor if number == 1 else []), *climbing]:
                run = run_loop(drive(target, asks, rate, number))
                keep(run)
                found.setdefault(target.name, []).append(run)
        for target in [*climbing]:
            if 2 * sum(run.held for run in found[target.name]) > chosen.runs:
                highest[target.name] = rate
            else:
                climbing.remove(target)
    return highest


def overload(
    target: Target, rate: float, texts: Sequence[str], chosen: argparse.Namespace, keep: Callable[[Run], None]
) -> None:
    """Twice the highest rate, and twice that, until something is turned away; what became of the rest."""
    for _ in range(MOST_DOUBLINGS):
        rate *= 2
        count = max(round(rate * chosen.seconds), chosen.least)
        run = run_loop(drive(target, make_schedule(rate, count, texts, seed=chosen.seed), rate, 1))
        keep(run)
        print(
            f"          {run.shed:,} turned away, {run.retry_after:,} of them with Retry-After; "
            f"{run.in_flight:,} under way when the last came, the last answered {run.drained:,.0f} ms later"
        )
        if run.shed or run.errors or run.in_flight > MOST_CONNECTIONS:
            return


def measure(chosen: argparse.Namespace) -> dict[str, Any]:
    """Cold starts, the climb, the long run, the overload."""
    texts = read_texts(chosen.index)
    runs: list[Run] = []

    def keep(run: Run) -> None:
        runs.append(run)
        print(write_row(run), flush=True)

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        targets, colds = [], {}
        for name, command in list_services(chosen, folder):
            started = time.perf_counter()
            target = stack.enter_context(start(name, command))
            cold = colds[name] = run_loop(time_first(target, started))
            print(
                f"{name}: first good answer {cold.good:.1f} s after its start; the first request took "
                f"{cold.first_ms:.0f} ms ({cold.first_fate}), {cold.asked} were asked",
                flush=True,
            )
            run_loop(warm_up(target, texts, chosen.warm))
            targets.append(target)
        reply = run_loop(fetch(targets[0]))
        floor = stack.enter_context(start(FLOOR, [sys.executable, str(HERE), "--respond"], reply))
        run_loop(warm_up(floor, texts, 10))
        print(f"\n{HEAD}")
        highest = climb([floor, *targets], texts, chosen, keep)
        ours = targets[0]
        missing = chosen.requests - sum(run.sent for run in runs if run.target == OURS)
        if OURS in highest and missing > 0:
            rate = highest[OURS]
            keep(run_loop(drive(ours, make_schedule(rate, missing, texts, chosen.seed), rate, 0)))
        print(f"\nbeyond the highest rate\n{HEAD}")
        for target in targets:
            overload(target, highest.get(target.name, chosen.rates[0]), texts, chosen, keep)
    return {
        "workers": chosen.workers, "peer_features": chosen.peer_features, "highest": highest,
        "cold": {name: asdict(cold) for name, cold in colds.items()}, "runs": [asdict(run) for run in runs],
    }  # fmt: skip


def list_services(chosen: argparse.Namespace, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The command of each service; ours first."""
    shared = ["--model", str(chosen.model), "--workers", str(chosen.workers)]
    engine = ["--engine", f"sqlite:{chosen.index}", "--data", str(folder / "data")]
    yield OURS, [*SERVE, *shared, *engine, "--port", "0", "--admin-port", "0", *chosen.serve_option]
    if chosen.no_peer:
        return
    if find_spec("fastapi") is None:
        print("skipped: the peer. FastAPI is not installed.")
        return
    peer = ["--index", str(chosen.index), "--features", chosen.peer_features]
    yield PEER, [sys.executable, str(HERE.with_name("serve_peer.py")), *shared, *peer]


async def fetch(target: Target) -> bytes:
    """One reply as it is, for the floor."""
    pool = Pool(target.port)
    connection = await pool.take()
    _, _, body = await connection.ask(target.write(Ask(0.0, TEXTS[0], None, 0)))
    pool.give(connection)
    pool.close()
    return body


def print_summary(found: dict[str, Any], chosen: argparse.Namespace) -> None:
    """The highest rates, their ratio, and how many requests were sent."""
    highest, sent = found["highest"], Counter()
    for run in found["runs"]:
        sent[run["target"]] += run["sent"]
    print()
    for name in (OURS, PEER):
        if name in sent:
            said = (
                f"{highest[name]:g}/s" if name in highest else f"none of those tried ({chosen.rates[0]:g}/s)"
            )
            print(
                f"{name}: highest rate with p99 < {1000 * GOAL:g} ms: {said}; {sent[name]:,} requests in all"
            )
    if OURS in highest and PEER in highest:
        print(f"ratio: {highest[OURS] / highest[PEER]:.1f}")
    floors = [run["p99"] for run in found["runs"] if run["target"] == FLOOR]
    print(f"floor: p99 from {min(floors):.1f} to {max(floors):.1f} ms over the rates")


# -- memory over time ------------------------------------------------------------------------------


def list_processes(parent: int) -> list[int]:
    """The processes that a supervisor started, by Linux's /proc."""
    told = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(number) for number in told.read_text().split()] if told.exists() else []


def read_memory(process: int) -> float:
    """Resident megabytes of a process; NaN if it is gone."""
    with suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        if found is not None:
            return int(found[1]) / 1000
    return math.nan


@dataclass(frozen=True)
class Growth:
    """Resident memory over time: a line's slope, and the means of the first and the last quarter, in MB."""

    per_hour: float
    first: float
    last: float


def fit_growth(seconds: Sequence[float], megabytes: Sequence[float]) -> Growth:
    """A line through the samples by least squares.

    >>> fit_growth([0.0, 1800.0, 3600.0, 5400.0], [100.0, 101.0, 102.0, 103.0])
    Growth(per_hour=2.0, first=100.0, last=103.0)
    """
    quarter = max(1, len(megabytes) // 4)
    slope = float(np.polyfit(seconds, megabytes, 1)[0]) * 3600 if len(seconds) > 1 else math.nan
    first, last = float(np.mean(megabytes[:quarter])), float(np.mean(megabytes[-quarter:]))
    return Growth(round(slope, 6), first, last)


async def watch(target: Target, every: float, samples: list[tuple[float, dict[int, float]]]) -> None:
    """Memory of the supervisor and its workers, again and again."""
    began = time.perf_counter()
    while True:
        known = [target.process.pid, *list_processes(target.process.pid)]
        samples.append((time.perf_counter() - began, {number: read_memory(number) for number in known}))
        await asyncio.sleep(every)


async def drive_and_watch(
    target: Target, asks: Sequence[Ask], chosen: argparse.Namespace
) -> tuple[Run, list[tuple[float, dict[int, float]]]]:
    """A run with memory read beside it."""
    samples: list[tuple[float, dict[int, float]]] = []
    watching = asyncio.create_task(watch(target, chosen.every, samples))
    run = await drive(target, asks, chosen.rate, 1)
    watching.cancel()
    return run, samples


def soak(chosen: argparse.Namespace) -> dict[str, Any]:
    """A constant rate for many minutes; the memory of each process as a line."""
    texts = read_texts(chosen.index)
    with tempfile.TemporaryDirectory() as folder:
        name, command = next(list_services(chosen, Path(folder)))
        with start(name, command) as target:
            workers = list_processes(target.process.pid)
            run_loop(warm_up(target, texts, chosen.warm))
            count = round(chosen.rate * 60 * chosen.soak)
            print(f"{count:,} requests, {chosen.rate:g}/s for {chosen.soak:g} minutes", flush=True)
            asks = make_schedule(chosen.rate, count, texts, chosen.seed)
            run, samples = run_loop(drive_and_watch(target, asks, chosen))
            same = list_processes(target.process.pid) == workers
        stored = sum(path.stat().st_size for path in (Path(folder) / "data").rglob("*") if path.is_file())
    print(f"{HEAD}\n{write_row(run)}")
    print("the same workers from start to end" if same else "a worker died and was started again")
    found: dict[str, Any] = {"run": asdict(run), "same_workers": same, "stored_bytes": stored, "memory": {}}
    for number in samples[0][1]:
        known = [(at, each[number]) for at, each in samples if not math.isnan(each.get(number, math.nan))]
        growth = fit_growth([at for at, _ in known], [megabytes for _, megabytes in known])
        what = "supervisor" if number == target.process.pid else f"worker {number}"
        print(
            f"{what}: {growth.first:.1f} MB in the first quarter, {growth.last:.1f} MB in the last; a line "
            f"through {len(known)} samples rises by {growth.per_hour:.1f} MB an hour"
        )
        found["memory"][what] = {**asdict(growth), "samples": known}
    print(f"the folder of events holds {stored / 1e6:.0f} MB")
    return found


def read_arguments() -> argparse.Namespace:
    """The settings of a run; `--quick` is few, short ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=Path("out/demo/reranker"))
    parser.add_argument("--index", type=Path, default=Path("out/demo/places.db"))
    parser.add_argument("--workers", type=int, default=1, help="of either service")
    parser.add_argument("--rates", type=float, nargs="+", default=list(map(float, RATES)))
    parser.add_argument("--runs", type=int, default=3, help="of each rate")
    parser.add_argument("--seconds", type=float, default=8.0, help="of a run")
    parser.add_argument("--least", type=int, default=300, help="requests in a run, if that is more")
    parser.add_argument("--requests", type=int, default=30_000, help="to placings at least, in all runs")
    parser.add_argument("--warm", type=int, default=100, help="searches before the clock starts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--peer-features", choices=("frame", "request"), default="frame")
    parser.add_argument(
        "--serve-option",
        action="append",
        default=[],
        help="for placings serve: --serve-option=--budget-ms=20",
    )
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="watch memory instead")
    parser.add_argument("--rate", type=float, default=50.0, help="of the soak")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between samples of the soak")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    parser.add_argument("--respond", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.quick:
        vars(chosen).update(rates=[10.0, 20.0], runs=1, seconds=1.0, least=20, requests=60, warm=5, every=0.5)
    return chosen


def main() -> None:
    """Measure and print."""
    chosen = read_arguments()
    if chosen.respond:
        answer_at_once(sys.stdin.buffer.read())
        return
    missing = [str(path) for path in (chosen.model, chosen.index) if not path.exists()]
    if missing:
        print(
            f"skipped: no {' and no '.join(missing)} here. Run make demo first, or name --model and --index."
        )
        return
    if chosen.soak is not None:
        found = soak(chosen)
    else:
        found = measure(chosen)
        print_summary(found, chosen)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
