"""The power goes at any moment: every acknowledged event is there afterwards, once.

Processes write events to a store; a preloaded library (`tests/support/record_files.c`) records each of their
file operations, with the bytes, and where an acknowledgement was given. Some processes are killed in place of
a sync, and the next ones send again what was not acknowledged. Then the power is cut after any operation of
the record: of what was not synced by then any part may be on the disk, in any order, torn into sectors of 512
bytes; a file's name counts as written only once its folder was synced. The store is opened on what is left.

    python tests/fuzz/power_loss.py --replays 5000
    python tests/fuzz/power_loss.py --replays 500 --careless    # syncs too little: events are lost
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHIM = Path(__file__).parents[1] / "support" / "record_files.c"
SECTOR = 512
CHANCES = (0.0, 0.1, 0.5, 0.9, 1.0)  # that a sector which was not synced is on the disk


# -- the record -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """One line of the record: create, write, truncate, sync, unlink, or a mark of the test."""

    kind: str
    offset: int
    data: bytes
    name: str


def read_record(path: Path) -> list[Operation]:
    content, at, found = path.read_bytes(), 0, []
    while at < len(content):
        end = content.index(b"\n", at)
        kind, offset, length, name = content[at:end].decode().split(" ", 3)
        at = end + 1 + int(length)
        found.append(Operation(kind, int(offset), content[end + 1 : at], name))
    return found


def build_shim(folder: Path) -> Path | None:
    """The library that records, or None where there is no compiler for it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        return None
    made = folder / "record_files.so"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-o", made, SHIM, "-ldl", "-lpthread"], check=True, timeout=60
    )
    return made


def record_lives(home: Path, lives: int, seed: int, *, careless: bool = False) -> list[Operation]:
    """What several generations of writers do to one store, one or two of them at a time."""
    shim, source = build_shim(home), random.Random(seed)
    assert shim is not None
    (home / "data").mkdir(mode=0o700)
    log = home / "record"
    log.touch()
    for life in range(lives):
        marks = [operation.name for operation in read_record(log) if operation.kind == "mark"]
        done = {mark.removeprefix("ack ") for mark in marks}
        again = [name for mark in marks if mark.startswith("sent ") and (name := mark[5:]) not in done]
        writers = []
        for number in range(1 + life % 2):
            told = {
                "data": str((home / "data").resolve()), "again": again, "prefix": f"{life}.{number}",
                "seed": source.random(), "careless": careless,
            }  # fmt: skip
            surroundings = {
                **os.environ, "LD_PRELOAD": str(shim), "RECORD_LOG": str(log), "RECORD_FOLDER": told["data"],
            }  # fmt: skip
            if source.random() < 0.8:
                surroundings["RECORD_KILL_AT"] = str(source.randrange(2, 30))
            writers.append(
                subprocess.Popen([sys.executable, __file__, "--writer", json.dumps(told)], env=surroundings)
            )
        for writer in writers:
            if writer.wait(120) not in (0, -9):
                raise RuntimeError("a writer failed")
    return read_record(log)


def write_events(told: dict[str, Any]) -> None:
    """A writer: events of former ones again, then its own, with impressions; acknowledgements are marked."""
    from placings.serve import event_store
    from placings.serve.event_store import Event, EventStore, ShownList

    mark = ctypes.CDLL(os.environ["LD_PRELOAD"]).record_mark
    event_store.CHECKPOINT = 60_000  # so that the log is moved into the file often
    if told["careless"]:
        event_store.PRAGMAS = ("PRAGMA synchronous = NORMAL",)
    source = random.Random(told["seed"])
    with EventStore(told["data"], flush=0.001) as store:
        names = [f"{told['prefix']}.{number}" for number in range(60)]
        while told["again"] or names:
            batch = [(told["again"] or names).pop(0)]
            while names and not told["again"] and source.random() < 0.5:
                batch.append(names.pop(0))
            if source.random() < 0.5:
                store.note(ShownList(f"s{batch[0]}", {"text": "x" * source.randrange(6000)}))
            for name in batch:
                mark(f"sent {name}".encode())
            body = {"text": "y" * source.randrange(3000)}
            store.add([Event(name, f"s{batch[0]}", body) for name in batch]).result(60)
            for name in batch:
                mark(f"ack {name}".encode())


# -- the disk ---------------------------------------------------------------------------------------------


@dataclass
class File:
    """What of a file is surely on the disk, and what was done to it since its last sync."""

    synced: bytes = b""
    pending: list[Operation] = field(default_factory=list)

    def sync(self) -> None:
        self.synced, self.pending = self.draw(1.0, random.Random(0)), []

    def draw(self, chance: float, source: random.Random) -> bytes:
        """The file after a power cut: any sectors of what was not synced, each or none of its truncations."""
        content = bytearray(self.synced)
        for operation in self.pending:
            if operation.kind == "truncate":
                if source.random() < chance or chance == 1.0:
                    content = content[: operation.offset].ljust(operation.offset, b"\0")
                continue
            at, stop = operation.offset, operation.offset + len(operation.data)
            while at < stop:
                end = min(stop, (at // SECTOR + 1) * SECTOR)
                if source.random() < chance or chance == 1.0:
                    content.extend(b"\0" * max(0, end - len(content)))
                    content[at:end] = operation.data[at - operation.offset : end - operation.offset]
                at = end
        return bytes(content)


class Disk:
    """A folder as the operations so far left it."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.named: dict[str, File] = {}  # as of the folder's last sync
        self.pending: list[tuple[str, File | None]] = []

    def take(self, operation: Operation) -> None:
        name = operation.name
        if operation.kind == "create":
            self.files[name] = File()
            self.pending.append((name, self.files[name]))
        elif operation.kind == "unlink":
            del self.files[name]
            self.pending.append((name, None))
        elif operation.kind == "sync" and name == ".":
            self.named, self.pending = dict(self.files), []
        elif operation.kind == "sync":
            self.files[name].sync()
        else:
            self.files[name].pending.append(operation)

    def cut(self, source: random.Random) -> dict[str, bytes]:
        """What is left when the power goes now."""
        names = dict(self.named)
        chance = source.choice(CHANCES)
        for name, file in self.pending:
            if source.random() < chance or chance == 1.0:
                if file is None:
                    names.pop(name, None)
                else:
                    names[name] = file
        return {name: file.draw(source.choice(CHANCES), source) for name, file in names.items()}


def replay(
    operations: list[Operation], replays: int, seed: int
) -> Iterator[tuple[set[str], dict[str, bytes]]]:
    """Events that were acknowledged before a cut, and the folder after it, for cuts all over the record."""
    source = random.Random(seed)
    cuts = sorted(source.randrange(1, len(operations) + 1) for _ in range(replays))
    disk, acknowledged, done = Disk(), set(), 0
    for cut in cuts:
        for operation in operations[done:cut]:
            if operation.kind != "mark":
                disk.take(operation)
            elif operation.name.startswith("ack "):
                acknowledged.add(operation.name[4:])
        done = cut
        yield set(acknowledged), disk.cut(source)


def count_losses(operations: list[Operation], replays: int, seed: int = 0) -> dict[str, Any]:
    """Open the store after each cut: which acknowledged events are lost, which would count again."""
    from placings.core import PlacingsError
    from placings.serve.event_store import Event, EventStore

    lost = twice = broken = 0
    most = 0
    room = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(prefix="placings-power-", dir=room) as folder:
        for number, (acknowledged, files) in enumerate(replay(operations, replays, seed)):
            home = Path(folder) / str(number)
            home.mkdir()
            for name, content in files.items():
                (home / name).write_bytes(content)
            most = max(most, len(acknowledged))
            try:
                with EventStore(home) as store:
                    there = {name for name, _ in store.read_events()}
                    again = store.add([Event(name, "s", {}) for name in sorted(acknowledged)]).result(60)
                    total = store.count()["events"]
                lost += bool(acknowledged - there)
                twice += again.new != len(acknowledged - there) or total != len(there) + again.new
            except PlacingsError:
                broken += 1
            shutil.rmtree(home)
    kinds = {kind: sum(each.kind == kind for each in operations) for kind in ("write", "sync", "unlink")}
    return {"replays": replays, "lost": lost, "twice": twice, "broken": broken, "acknowledged": most, **kinds}


def main() -> int:
    """Record, replay, say; 1 if any replay lost an acknowledged event or counted one twice."""
    parser = argparse.ArgumentParser(description="Cut the power at any moment.")
    parser.add_argument("--replays", type=int, default=5000)
    parser.add_argument("--lives", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--careless", action="store_true", help="a store that does not sync each commit")
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.writer:
        write_events(json.loads(chosen.writer))
        return 0
    with tempfile.TemporaryDirectory(prefix="placings-power-") as folder:
        operations = record_lives(Path(folder), chosen.lives, chosen.seed, careless=chosen.careless)
    told = count_losses(operations, chosen.replays, chosen.seed)
    print(json.dumps(told))
    return int(bool(told["lost"] or told["twice"] or told["broken"]))


if __name__ == "__main__":
    sys.exit(main())
