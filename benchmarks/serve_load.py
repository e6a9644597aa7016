"""How many requests a second `placings serve` answers with a p99 below 25 ms, beside LightGBM behind FastAPI.

    python benchmarks/serve_load.py                 # about 7 minutes, 30,000 requests and more
    python benchmarks/serve_load.py --soak 30       # memory of the workers over 30 minutes
    python benchmarks/serve_load.py --quick         # seconds; shows that it runs, its numbers mean little

Both services are processes of their own on this machine, with the same index and the same re-ranker. Requests
come as people do: gaps are exponential and drawn before a run, and nobody waits for anybody (open loop).
Latency counts from the moment at which a request was *due*, so a service that stalls pays for all that came
meanwhile. One request in ten is feedback on a list that was served. Each rate is run three times, the
services in turn; after the first rate that was not held, the one half-way below it is tried.

A search is good if it was answered with the model's order: the engine's order (a fallback), a 503 and an
error are not. A rate is held if in most of its runs the p99 over all requests, feedback too, is below 25 ms,
where a request that was not good took for ever. So no more than 1 in 100 may fail.

The generator runs on the same cores. `late` is how late it sent in that very run (p99); the rows `floor` are
the same schedule against a process that answers at once with a reply of the same size: what this machine
and this generator add at least.

Then a run at twice the highest rate that was held, doubled again until something is turned away: what was
answered, what was shed with Retry-After, and how long the rest took after the last arrival. Last, one long
run at the highest rate, up to 30,000 requests to placings in all: it has recovered if this holds too.

Needs what `make demo` leaves in out/demo, or --model and --index; the peer needs FastAPI.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from serve_client import (
    ERROR,
    GOOD,
    HEAD,
    ID,
    MOST_CONNECTIONS,
    TEXTS,
    Ask,
    NoAnswer,
    Pool,
    Run,
    Seen,
    Target,
    ask_once,
    drive,
    find_part,
    make_schedule,
    read_ours,
    read_texts,
    run_loop,
    warm_up,
    write_row,
)

HERE = Path(__file__).resolve()
SERVE = [sys.executable, "-c", "from placings.cli.main import run; run()", "serve"]
STARTED = re.compile(r"serving on http://127\.0\.0\.1:(\d+)")
RATES = (20, 40, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500, 700, 1000)  # requests a second
MOST_FLOOR = 5.0  # milliseconds, p99
LONGEST = 200.0  # seconds of the long run
FLOOR, OURS, PEER = "floor", "placings", "peer"
FIRST_OF_PEER = re.compile(rb'"results": ?\[(?:\]|\{"id": ?("(?:[^"\\]|\\.)*"))')


def read_peer(body: bytes) -> Seen:
    """A reply of `serve_peer.py`."""
    search_id, item = find_part(ID, body), find_part(FIRST_OF_PEER, body)
    assert search_id is not None
    return Seen(None, search_id.decode(), orjson.loads(item) if item else None)


# -- processes -------------------------------------------------------------------------------------


@dataclass
class Service(Target):
    """A target in a process that was started here."""

    process: subprocess.Popen[str] = field(kw_only=True)


@dataclass
class ColdStart:
    """Seconds from the start of a process to its first good answer, and what came before."""

    ready: float
    good: float
    first_ms: float
    first_fate: str
    asked: int


@contextmanager
def start(name: str, command: Sequence[str], folder: Path, told: bytes | None = None) -> Iterator[Service]:
    """A service in a process of its own, which says its port on its first line; ended at the end.

    What it logs goes to a file in the folder, as a service's does.
    """
    log = folder / f"{name}.log"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [*command], stdin=subprocess.PIPE if told is not None else None, stdout=subprocess.PIPE,
            stderr=file, text=True, start_new_session=True,
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
            said = line.strip() or log.read_text(errors="replace")[-1000:].strip()
            raise SystemExit(f"{name} did not start: {said}")
        peer = name == PEER
        yield Service(
            name, int(found[1]), read_peer if peer else read_ours,
            ("lat", "lon") if peer else ("focus.point.lat", "focus.point.lon"), process=process,
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


async def time_first(target: Service, started: float) -> ColdStart:
    """Ask until an answer is good."""
    ready, asked, first = time.perf_counter() - started, 0, None
    while time.perf_counter() - started < 120:
        if target.process.poll() is not None:
            raise SystemExit(f"{target.name} ended with {target.process.returncode} before it answered.")
        done = await ask_once(target)
        if done.fate == ERROR and first is None:  # it does not listen yet
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


# -- the measurement -------------------------------------------------------------------------------

Keep = Callable[[Run], None]


def list_processes(parent: int) -> list[int]:
    """The processes that a process started, by Linux's /proc."""
    told = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(number) for number in told.read_text().split()] if told.exists() else []


def read_cpu(process: int) -> float:
    """Seconds of CPU of a process and those that it started so far, by Linux's /proc; NaN elsewhere."""
    with suppress(OSError):
        told = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        own = (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")  # in the program, and for it
        return own + sum(map(read_cpu, list_processes(process)))
    return math.nan


def drive_measured(target: Target, asks: Sequence[Ask], rate: float, number: int) -> Run:
    """A run, with what the service's processes spent on it."""
    process = target.process.pid if isinstance(target, Service) else -1
    before = read_cpu(process)
    run: Run = run_loop(drive(target, asks, rate, number))
    run.cpu_ms = 1000 * (read_cpu(process) - before) / run.sent
    return run


def try_rate(
    rate: float, targets: Sequence[Target], texts: Sequence[str], chosen: argparse.Namespace, keep: Keep
) -> set[str]:
    """Run a rate a few times, the services in turn, the floor once; the names of those that held it."""
    least = chosen.least if rate >= chosen.rates[0] else chosen.least // 2  # low rates take long
    count = max(round(rate * chosen.seconds), least)
    held: Counter[str] = Counter()
    for number in range(1, chosen.runs + 1):
        asks = make_schedule(rate, count, texts, seed=chosen.seed + number)
        for target in targets:
            floor = target.name == FLOOR
            if floor and number > 1:
                continue
            run = drive_measured(target, asks[: count // 2] if floor else asks, rate, number)
            keep(run)
            held[target.name] += run.judged < chosen.goal_ms
    return {name for name, times in held.items() if 2 * times > chosen.runs}


def climb(
    floor: Target, targets: Sequence[Target], texts: Sequence[str], chosen: argparse.Namespace, keep: Keep
) -> dict[str, float]:
    """The highest rate that each service holds.

    Upwards until each has failed; then once half-way between what it held and what it did not. A service that
    failed the first rate is asked for a half and a quarter of it.
    """
    highest: dict[str, float] = {}
    failed: dict[str, float] = {}
    for rate in chosen.rates:
        climbing = [target for target in targets if target.name not in failed]
        if not climbing:
            break
        held = try_rate(rate, [floor, *climbing], texts, chosen, keep)
        for target in climbing:
            (highest if target.name in held else failed)[target.name] = rate
    for target in [] if chosen.quick else targets:
        name = target.name
        if name in highest and name in failed:
            between = [(highest[name] + failed[name]) / 2]
        else:
            between = [chosen.rates[0] / 2, chosen.rates[0] / 4] if name in failed else []
        for rate in between:
            if name in try_rate(rate, [floor, target], texts, chosen, keep):
                highest[name] = rate
                break
    return highest


def overload(
    target: Target, rate: float, texts: Sequence[str], chosen: argparse.Namespace, keep: Keep
) -> None:
    """Twice the highest rate, and twice that, until something is turned away; what became of the rest."""
    for _ in range(chosen.doublings):
        rate *= 2
        count = max(round(rate * chosen.seconds), chosen.least)
        run = drive_measured(target, make_schedule(rate, count, texts, seed=chosen.seed), rate, 1)
        keep(run)
        after = run_loop(ask_once(target))
        print(
            f"          turned away: {run.shed:,}, with Retry-After: {run.retry_after:,}; p99 of the lists "
            f"answered: {run.answered_p99:,.0f} ms\n"
            f"          under way when the last came: {run.in_flight:,}; all answered {run.drained:,.0f} ms "
            f"later; a search after that took {1000 * after.took:,.0f} ms ({after.fate})",
            flush=True,
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
            target = stack.enter_context(start(name, command, folder))
            cold = colds[name] = run_loop(time_first(target, started))
            print(
                f"{name}: first good answer {cold.good:.1f} s after its start; the first request took "
                f"{cold.first_ms:.0f} ms ({cold.first_fate}), {cold.asked} were asked",
                flush=True,
            )
            run_loop(warm_up(target, texts, chosen.warm))
            targets.append(target)
        reply = run_loop(fetch(targets[0], [TEXTS[0], *texts]))
        floor = stack.enter_context(start(FLOOR, [sys.executable, str(HERE), "--respond"], folder, reply))
        run_loop(warm_up(floor, texts, 10))
        print(f"\n{HEAD}")
        highest = climb(floor, targets, texts, chosen, keep)
        print(f"\nbeyond the highest rate\n{HEAD}")
        for target in targets:
            overload(target, highest.get(target.name, chosen.rates[0]), texts, chosen, keep)
        rate = highest.get(OURS, 0.0)
        missing = chosen.requests - sum(run.sent for run in runs if run.target == OURS)
        missing = min(missing, round(rate * LONGEST))
        if missing > 0:
            print(f"\nafter that, at the highest rate\n{HEAD}")
            asks = make_schedule(rate, missing, texts, chosen.seed)
            keep(drive_measured(targets[0], asks, rate, 0))
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


async def fetch(target: Target, texts: Sequence[str]) -> bytes:
    """A reply with hits as it is, for the floor."""
    pool = Pool(target.port)
    connection = await pool.take()
    for text in texts:
        _, _, body = await connection.ask(target.write(Ask(0.0, text, None, 0)))
        if target.read(body).item is not None:
            break
    pool.give(connection)
    pool.close()
    return body


def print_summary(found: dict[str, Any], chosen: argparse.Namespace) -> None:
    """The highest rates, their ratio, and how many requests were sent."""
    highest, runs = found["highest"], found["runs"]
    print(f"\nhighest rate with p99 < {chosen.goal_ms:g} ms")
    for name in (OURS, PEER):
        own = [run for run in runs if run["target"] == name]
        if not own:
            continue
        said = f"{highest[name]:g}/s" if name in highest else f"below {min(run['rate'] for run in own):g}/s"
        more = " or more" if highest.get(name) == chosen.rates[-1] else ""
        print(f"{name}: {said}{more}; {sum(run['sent'] for run in own):,} requests in all")
    if OURS in highest and PEER in highest:
        print(f"ratio: {highest[OURS] / highest[PEER]:.1f}")
    floors = [run["p99"] for run in runs if run["target"] == FLOOR]
    print(f"floor: p99 from {min(floors):.1f} to {max(floors):.1f} ms over the rates")
    if max(floors) > MOST_FLOOR:
        print(f"the machine is not quiet: with a floor above {MOST_FLOOR:g} ms these rates mean little")


# -- memory over time ------------------------------------------------------------------------------


def read_memory(process: int, kind: str = "RssAnon") -> float:
    """Resident megabytes of a process; NaN if it is gone.

    `RssAnon` is memory of its own. `RssFile` are pages of files that it has mapped, libraries and the index:
    they grow until a file was read once, are shared by all workers, and the system takes them back at will.
    """
    with suppress(OSError):
        found = re.search(rf"{kind}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
        if found is not None:
            return int(found[1]) / 1000
    return math.nan


@dataclass(frozen=True)
class Growth:
    """Resident memory over time, in MB: the slopes of a line through all samples and through the second half,
    when caches are full, and the means of the first and the last quarter."""

    per_hour: float
    per_hour_late: float
    first: float
    last: float


def fit_growth(seconds: Sequence[float], megabytes: Sequence[float]) -> Growth:
    """Lines through the samples by least squares.

    >>> fit_growth([0.0, 1800.0, 3600.0, 5400.0], [90.0, 101.0, 102.0, 103.0])
    Growth(per_hour=8.0, per_hour_late=2.0, first=90.0, last=103.0)
    """
    half, quarter = len(megabytes) // 2, max(1, len(megabytes) // 4)

    def fit(first: int) -> float:
        if len(seconds) - first < 2:
            return math.nan
        return round(3600 * float(np.polyfit(seconds[first:], megabytes[first:], 1)[0]), 6)

    means = (float(np.mean(part)) for part in (megabytes[:quarter], megabytes[-quarter:]))
    return Growth(fit(0), fit(half), *means)


async def watch(target: Service, every: float, samples: list[tuple[float, dict[int, float]]]) -> None:
    """Memory of the supervisor and its workers, again and again; that of mapped files apart."""
    began = time.perf_counter()
    while True:
        known = [target.process.pid, *list_processes(target.process.pid)]
        samples.append((time.perf_counter() - began, {number: read_memory(number) for number in known}))
        await asyncio.sleep(every)


async def drive_and_watch(
    target: Service, asks: Sequence[Ask], chosen: argparse.Namespace
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
        with start(name, command, Path(folder)) as target:
            workers = list_processes(target.process.pid)
            run_loop(warm_up(target, texts, chosen.warm))
            count = round(chosen.rate * 60 * chosen.soak)
            print(f"{count:,} requests, {chosen.rate:g}/s for {chosen.soak:g} minutes", flush=True)
            asks = make_schedule(chosen.rate, count, texts, chosen.seed)
            before = read_cpu(target.process.pid)
            run, samples = run_loop(drive_and_watch(target, asks, chosen))
            run.cpu_ms = 1000 * (read_cpu(target.process.pid) - before) / run.sent
            same = list_processes(target.process.pid) == workers
            mapped = {number: read_memory(number, "RssFile") for number in samples[-1][1]}
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
            f"through {len(known)} samples rises by {growth.per_hour:.1f} MB an hour, through the second "
            f"half by {growth.per_hour_late:.1f}; mapped files: {mapped.get(number, math.nan):.0f} MB"
        )
        found["memory"][what] = {**asdict(growth), "mapped": mapped.get(number), "samples": known}
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
    parser.add_argument(
        "--goal-ms", type=float, default=25.0, help="p99 of a rate that is held is below this"
    )
    parser.add_argument("--runs", type=int, default=3, help="of each rate")
    parser.add_argument("--seconds", type=float, default=7.0, help="of a run")
    parser.add_argument("--least", type=int, default=300, help="requests in a run, if that is more")
    parser.add_argument("--requests", type=int, default=30_000, help="to placings at least, in all runs")
    parser.add_argument("--doublings", type=int, default=4, help="of the highest rate, at most")
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
        vars(chosen).update(
            rates=[10.0, 20.0], runs=1, seconds=1.0, least=20, requests=60, warm=5, every=0.5, doublings=1
        )
    return chosen


def main() -> None:
    """Measure and print."""
    chosen = read_arguments()
    if chosen.respond:
        answer_at_once(sys.stdin.buffer.read())
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the services are ended too
    missing = [str(path) for path in (chosen.model, chosen.index) if not path.exists()]
    if missing:
        print(
            f"skipped: no {' and no '.join(missing)} here. Run make demo first, or name --model and --index."
        )
        return
    try:
        found = measure(chosen) if chosen.soak is None else soak(chosen)
    except NoAnswer as error:
        raise SystemExit(str(error)) from None
    if chosen.soak is None:
        print_summary(found, chosen)
    if chosen.json is not None:
        chosen.json.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))  # infinity is null


if __name__ == "__main__":
    main()
