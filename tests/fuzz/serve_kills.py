"""A service killed at any moment with requests in flight: no acknowledged event is lost, none counted twice.

A server with two workers runs; a client in a process of its own keeps eight requests in flight, writes down
every acknowledgement, and sends what was not acknowledged again under the same ids. This process kills a
worker, the supervisor, or all of them with SIGKILL, and starts the server again where need be. At the end the
client's notes are compared with the store.

    python tests/fuzz/serve_kills.py --kills 100
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

from live_server import LiveServer, make_items, save_shop_reranker

KINDS = ("worker", "worker", "worker", "supervisor", "all")
AT_ONCE = 8


# -- the client -------------------------------------------------------------------------------------------


async def _ask(home: Path, client: Any, path: str, told: Any, counts: Counter[str]) -> Any:
    """Ask until there is an answer; the port is read anew each time, for the server may have moved."""
    while True:
        with suppress(OSError, ValueError):
            port = int((home / "port").read_text())
            try:
                reply = await client.post(f"http://127.0.0.1:{port}{path}", json=told)
                if reply.status_code in (200, 202):
                    return reply.json()
                counts[f"status {reply.status_code}"] += 1
            except Exception as error:
                counts["broken off"] += 1
                counts[type(error).__name__] += 1
        await asyncio.sleep(0.01)


async def _work(home: Path, number: int, notes: Any, counts: Counter[str]) -> None:
    import httpx

    source = random.Random(number)
    turn = 0
    async with httpx.AsyncClient(timeout=10.0, headers={"x-placings-user": f"user{number}"}) as client:
        while not (home / "stop").exists():
            turn += 1
            request = {"context": {"query": "thing"}, "items": make_items(first=source.randrange(100))}
            shown = await _ask(home, client, "/v1/rerank", request, counts)
            events = [
                {
                    "event_id": f"{number}.{turn}.{each}", "search_id": shown["search_id"],
                    "item_id": shown["items"][each], "action": "click",
                }
                for each in range(source.choice((1, 1, 3)))
            ]  # fmt: skip
            told = await _ask(home, client, "/v1/feedback", {"events": events}, counts)
            for event in events:
                notes.write(f"{event['event_id']} {told['new']} {len(events)}\n")
            notes.flush()


async def run_client(home: Path) -> None:
    """Keep requests in flight until told to stop; acknowledgements go to `acknowledged`."""
    counts: Counter[str] = Counter()
    with open(home / "acknowledged", "a") as notes:
        await asyncio.gather(*(_work(home, number, notes, counts) for number in range(AT_ONCE)))
    (home / "client.json").write_text(json.dumps(counts))


# -- the killer -------------------------------------------------------------------------------------------


def count_notes(home: Path) -> int:
    with suppress(OSError):
        return (home / "acknowledged").read_bytes().count(b"\n")
    return 0


def wait_for_notes(home: Path, more: int, seconds: float = 120.0) -> None:
    """Wait until so many more events are acknowledged: requests are in flight again."""
    goal, until = count_notes(home) + more, time.monotonic() + seconds
    while count_notes(home) < goal:
        if time.monotonic() > until:
            raise TimeoutError("nothing is acknowledged any more")
        time.sleep(0.01)


def kill_service(kills: int, seed: int = 0, say: Any = None) -> dict[str, Any]:
    """Kill so often; says what was lost, what was counted twice, and what happened on the way."""
    source = random.Random(seed)
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="placings-kills-") as folder:
        home = Path(folder)
        model, data = save_shop_reranker(home / "reranker"), home / "data"
        server = LiveServer(model, data, workers=2)
        (home / "port").write_text(str(server.port))
        client = subprocess.Popen([sys.executable, __file__, "--client", str(home)])
        try:
            for kill in range(kills):
                wait_for_notes(home, AT_ONCE)
                time.sleep(source.uniform(0.0, 0.3))
                kind = source.choice(KINDS)
                kinds[kind] += 1
                workers = server.list_workers()
                if kind == "worker" and workers:
                    os.kill(source.choice(workers), signal.SIGKILL)
                elif kind == "supervisor":
                    os.kill(server.process.pid, signal.SIGKILL)
                else:
                    server.kill()
                if kind != "worker":
                    server.process.wait()
                    server.process.stdout.close()
                    server = LiveServer(model, data, workers=2)
                    (home / "port").write_text(str(server.port))
                if say is not None and (kill + 1) % 10 == 0:
                    say(f"{kill + 1} kills, {count_notes(home):,} events acknowledged")
            wait_for_notes(home, AT_ONCE)
            (home / "stop").touch()
            client.wait(120)
            server.end()
        finally:
            client.kill()
            server.kill()
        return {"kills": kills, "kinds": dict(kinds), **compare_notes(home, data)}


def compare_notes(home: Path, data: Path) -> dict[str, Any]:
    """What the client wrote down beside what the store and its export hold."""
    from placings.serve import export_log
    from placings.serve.event_store import FILE, connect, count_rows

    notes = [line.split() for line in (home / "acknowledged").read_text().splitlines()]
    acknowledged = Counter(event for event, _, _ in notes)
    with closing(connect(data / FILE)) as connection:
        there = Counter(event for (event,) in connection.execute("SELECT event_id FROM event"))
        totals = count_rows(connection)
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0]
    report = export_log(data, home / "export")
    return {
        "acknowledged": len(acknowledged),
        "lost": sorted(set(acknowledged) - set(there)),
        "twice": sorted(event for event, count in there.items() if count > 1),
        "unknown": sorted(set(there) - set(acknowledged)),
        "adds_up": report.actions + report.orphans == totals["events"] and not totals["untrusted"],
        "sound": sound,
        **totals,
        "client": json.loads((home / "client.json").read_text()),
    }


def main() -> int:
    """Kill, compare, say; 1 if an acknowledged event was lost or one was counted twice."""
    parser = argparse.ArgumentParser(description="Kill a service with requests in flight.")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--client", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.client:
        asyncio.run(run_client(Path(chosen.client)))
        return 0
    told = kill_service(chosen.kills, chosen.seed, lambda text: print(text, flush=True))
    print(json.dumps(told))
    return int(bool(told["lost"] or told["twice"] or not told["adds_up"] or told["sound"] != "ok"))


if __name__ == "__main__":
    sys.exit(main())
