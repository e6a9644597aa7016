"""Open-loop load on a running service: Poisson arrivals at one rate, latency from when a request was due.

    python benchmarks/serve_client.py --port 8080 --rate 50 --seconds 30 [--index out/demo/places.db]

Gaps between requests are exponential and drawn before the run, and nobody waits for anybody. Latency counts
from the moment at which a request was *due*, so a service that stalls pays for all that came meanwhile. One
request in ten is feedback on a list that was served. Prints the row of `serve_load.py`, which uses this to
compare services: requests that were sent, good ones, the engine's order instead of the model's, turned away,
errors; milliseconds of good searches (p50, p95, p99, max); p99 of all requests where one that was not good
took for ever; p99 of feedback; p99 of how late this generator sent; and, where `serve_load.py` started the
service, milliseconds of CPU for each request.

Without --index ten short texts are asked again and again, which a cache may answer.

Needs a service, as `placings serve` starts it, that may be given feedback: its log will hold the clicks.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import math
import os
import random
import re
import sqlite3
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson

# the ten of the issue that set the goals; the rest are beginnings of names in the index
TEXTS = ("karls", "ber", "new", "par", "lond", "san", "mun", "st", "frank", "wash")
SHORTEST, LONGEST = 2, 9  # letters of a beginning
SIZE = 40
FEEDBACK = 0.1  # share of requests
USERS = 2000
CONNECTIONS = 64  # kept open from the start
MOST_CONNECTIONS = 512  # then a request waits in the generator, and its clock runs
PATIENCE = 10.0  # seconds until a request is an error
REMEMBERED = 500  # served lists that feedback may be on
GOOD, FALLBACK, SHED, ERROR = "good", "fallback", "shed", "error"


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


# A reply has some 40 places; reading them all would take the cores from the service. In JSON a quote within a
# text stands behind a backslash, so no text that was typed, and no name, looks like one of these.
ID = re.compile(rb'"search_id": ?"([^"\\]+)"')
REASON = re.compile(rb'"fallback": ?(null|"[^"\\]*")')
FIRST = re.compile(rb'"features": ?\[(?:\]|\{.*?"properties": ?\{"id": ?("(?:[^"\\]|\\.)*"))', re.S)


def find_part(pattern: re.Pattern[bytes], body: bytes) -> bytes | None:
    """The part of a reply that a pattern means; a ValueError if the reply has no such part."""
    found = pattern.search(body)
    if found is None:
        raise ValueError(f"no {pattern.pattern!r} in the reply")
    return found[1]


def read_ours(body: bytes) -> Seen:
    """A reply in Pelias' shape."""
    if not body.endswith(b"}"):
        raise ValueError("the reply is not whole")
    search_id, reason, item = (find_part(each, body) for each in (ID, REASON, FIRST))
    return Seen(orjson.loads(reason or b""), (search_id or b"").decode(), item and orjson.loads(item))


@dataclass
class Target:
    """A service under load: where it listens, how it is asked, what was served lately."""

    name: str
    port: int
    read: Callable[[bytes], Seen] = read_ours
    focus: tuple[str, str] = ("focus.point.lat", "focus.point.lon")
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


class NoAnswer(Exception):
    """A service gave no good answer."""


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
    answered_p99: float
    retry_after: int = 0
    in_flight: int = 0
    drained: float = 0.0
    cpu_ms: float = math.nan  # of the service's processes for each request, where they are known


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
        find_rank([1000 * each.took for each in done if each.search and each.fate in (GOOD, FALLBACK)], 0.99),
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
        await asyncio.sleep(0)  # without a pause a burst would go out before any answer is read
        while (wait := start + ask.at - time.perf_counter()) > 0:  # uvloop wakes up to 1 ms early
            await asyncio.sleep(wait)
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
        raise NoAnswer(f"{target.name} on port {target.port} gave no good answer in {count} searches.")


async def ask_once(target: Target) -> Done:
    """One search of a service that has nothing else to do."""
    pool = Pool(target.port)
    done = await fire(target, pool, Ask(0.0, TEXTS[0], None, 0), time.perf_counter())
    pool.close()
    return done


def run_loop(work: Any) -> Any:
    """In uvloop where it is, else in asyncio's own."""
    if find_spec("uvloop") is None:
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


HEAD = (
    f"{'':9}{'rate':>5}{'run':>5}{'sent':>7}{'good':>7}{'fallb.':>7}{'shed':>6}{'error':>6}"
    f"{'p50':>8}{'p95':>8}{'p99':>8}{'max':>8}{'all p99':>9}{'clicks':>8}{'late':>7}{'cpu':>7}"
)


def write_row(run: Run) -> str:
    """A run as a line of the table."""
    times = "".join(f"{value:8.1f}" for value in (run.p50, run.p95, run.p99, run.max))
    return (
        f"{run.target:9}{run.rate:5.0f}{run.run or 'long':>5}{run.sent:7,}{run.good:7,}{run.fallbacks:7,}"
        f"{run.shed:6,}{run.errors:6,}{times}{run.judged:9.1f}{run.feedback_p99:8.1f}{run.late_p99:7.1f}"
        f"{'' if math.isnan(run.cpu_ms) else format(run.cpu_ms, '7.2f')}"
    )


def main() -> None:
    """Send, and print one row."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8080, help="of a service on this machine")
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--index", type=Path, help="take texts from the names in this index")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    texts = list(TEXTS) if chosen.index is None else read_texts(chosen.index)
    target = Target("placings", chosen.port)
    try:
        run_loop(warm_up(target, texts, 20))
    except NoAnswer as error:
        print(f"skipped: {error}")
        return
    asks = make_schedule(chosen.rate, round(chosen.rate * chosen.seconds), texts, chosen.seed)
    print(f"{HEAD}\n{write_row(run_loop(drive(target, asks, chosen.rate, 1)))}")


if __name__ == "__main__":
    main()
