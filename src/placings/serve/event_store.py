"""What was served and what people did with it: on the disk before it is acknowledged, each event once.

One SQLite file in write-ahead mode with full synchronisation, shared by all workers. Each worker has one
thread that writes: whatever came in while the last transaction was being synced goes into the next one, so
a thousand events may cost one sync. An event's id is its key: the same event sent twice, by whichever worker,
counts once.

Impressions (the lists that were shown) are not waited for: they go to the disk within `FLUSH` seconds, from a
bounded queue. Events are acknowledged only after the commit.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, time
from typing import Any

from placings.core import BadFile, PlacingsError, parse_json, sync_folder

FILE = "events.sqlite"
FORMAT = 1
FLUSH = 0.05  # seconds that an impression waits for company
MOST_WAITING = 20_000  # events and impressions in the queue; more are refused
BUSY = 5.0  # seconds to wait for another worker's transaction

TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shown (
    search_id TEXT PRIMARY KEY, time INTEGER NOT NULL, user_id TEXT, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL UNIQUE, search_id TEXT NOT NULL,
    time INTEGER NOT NULL, user_id TEXT, trusted INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS shown_time ON shown (time);
CREATE INDEX IF NOT EXISTS event_time ON event (time);
CREATE INDEX IF NOT EXISTS shown_user ON shown (user_id);
CREATE INDEX IF NOT EXISTS event_user ON event (user_id);
"""
INSERT_EVENT = """
INSERT OR IGNORE INTO event (event_id, search_id, time, user_id, trusted, body) VALUES (?, ?, ?, ?, ?, ?)
"""


class StoreFailed(PlacingsError, RuntimeError):
    """The events could not be written: nothing of them was acknowledged, and they must be sent again."""


class StoreBusy(StoreFailed):
    """More is waiting to be written than the queue holds; try again in a moment."""


class DiskFull(StoreFailed):
    """There is no space left; searches go on, events are refused until there is."""


@dataclass(frozen=True)
class Shown:
    """A list that was shown: its search's id, when, to whom, and what the log says of it."""

    search_id: str
    body: Mapping[str, Any]
    time: float = field(default_factory=time)
    user_id: str | None = None


@dataclass(frozen=True)
class Event:
    """Something that a person did with a list; not `trusted` where the search's signature is not ours."""

    event_id: str
    search_id: str
    body: Mapping[str, Any]
    time: float = field(default_factory=time)
    user_id: str | None = None
    trusted: bool = True


@dataclass(frozen=True)
class Receipt:
    """What became of events: how many are new, and how many were known already."""

    new: int
    known: int


@dataclass(frozen=True)
class _Waiting:
    events: Sequence[Event]
    done: Future[Receipt]


class EventStore:
    """The events and impressions of a folder; many processes may have it open.

    `add` gives a future that is done once the events are on the disk. `note` takes an impression and returns
    at once. A full disk is an error that passes; a failed sync is one that stays: what the file holds is then
    unknown, so nothing more is acknowledged until the process starts anew.
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, flush: float = FLUSH, most_waiting: int = MOST_WAITING
    ) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.flush, self.most_waiting = flush, most_waiting
        self.dropped = 0  # impressions that found the queue full, or that the disk refused
        self.failure: str | None = None
        self._events: deque[_Waiting] = deque()
        self._shown: deque[Shown] = deque()
        self._count = 0
        self._oldest = 0.0
        self._closing = False
        self._wake = threading.Condition()
        _create(self.folder, self.path)
        self._connection = _connect(self.path)
        self._thread = threading.Thread(target=self._run, name="placings-events", daemon=True)
        self._thread.start()

    # -- writing -----------------------------------------------------------------------------------

    def add(self, events: Sequence[Event]) -> Future[Receipt]:
        """Write events; the future is done when they are on the disk, or holds why they are not."""
        done: Future[Receipt] = Future()
        with self._wake:
            problem = self._refuse(len(events))
            if problem is not None:
                raise problem
            self._events.append(_Waiting(tuple(events), done))
            self._count += len(events)
            self._wake.notify_all()
        return done

    def note(self, shown: Shown) -> bool:
        """Write an impression soon; False if the queue is full or the store has failed, and it is counted."""
        with self._wake:
            if self._refuse(1) is not None:
                self.dropped += 1
                return False
            if not self._shown:
                self._oldest = monotonic()
            self._shown.append(shown)
            self._count += 1
            self._wake.notify_all()
        return True

    def sync(self, timeout: float = 10.0) -> bool:
        """Wait until everything that was handed over is written; False if that takes too long."""
        until = monotonic() + timeout
        with self._wake:
            self._oldest = 0.0  # now, without waiting for company
            self._wake.notify_all()
            while self._count:
                left = until - monotonic()
                if left <= 0 or not self._thread.is_alive():
                    return False
                self._wake.wait(left)
        return True

    def close(self) -> None:
        """Write what is waiting and close the file."""
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()
        self._connection.close()

    def __enter__(self) -> EventStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """Events and impressions that are not on the disk yet."""
        return self._count

    def _refuse(self, count: int) -> StoreFailed | None:
        if self.failure is not None:
            return StoreFailed(self.failure)
        if self._closing:
            return StoreFailed("the store is closed.")
        if self._count + count > self.most_waiting:
            return StoreBusy(
                f"{self._count:,} events are waiting to be written; at most {self.most_waiting:,} may."
            )
        return None

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._is_due():
                    if self._closing and not self._count:
                        return
                    self._wake.wait(self._find_pause())
                batch, shown = list(self._events), list(self._shown)
                self._events.clear()
                self._shown.clear()
            self._write(batch, shown)
            with self._wake:
                self._count -= len(shown) + sum(len(each.events) for each in batch)
                self._wake.notify_all()

    def _is_due(self) -> bool:
        if self._events:
            return True
        return bool(self._shown) and (self._closing or monotonic() - self._oldest >= self.flush)

    def _find_pause(self) -> float | None:
        return max(0.0, self.flush - (monotonic() - self._oldest)) if self._shown else None

    def _write(self, batch: Sequence[_Waiting], shown: Sequence[Shown]) -> None:
        """One transaction; what it holds is acknowledged after it, or refused."""
        try:
            receipts = self._commit(batch, shown)
        except (sqlite3.Error, StoreFailed, ValueError, TypeError) as error:
            problem = self._explain(error)
            with self._wake:
                self.dropped += len(shown)
            for waiting in batch:
                waiting.done.set_exception(problem)
            return
        for waiting, receipt in zip(batch, receipts, strict=True):
            waiting.done.set_result(receipt)

    def _commit(self, batch: Sequence[_Waiting], shown: Sequence[Shown]) -> list[Receipt]:
        if self.failure is not None:
            raise StoreFailed(self.failure)
        connection, receipts = self._connection, []
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany(
                "INSERT OR IGNORE INTO shown VALUES (?, ?, ?, ?)",
                [
                    (each.search_id, _as_micros(each.time), each.user_id, _as_text(each.body))
                    for each in shown
                ],
            )
            for waiting in batch:
                before = connection.total_changes
                connection.executemany(INSERT_EVENT, _list_rows(waiting.events))
                new = connection.total_changes - before
                receipts.append(Receipt(new, len(waiting.events) - new))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return receipts

    def _explain(self, error: Exception) -> StoreFailed:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if isinstance(error, StoreFailed):
            return error
        if code == sqlite3.SQLITE_FULL:
            return DiskFull(f"{self.path}: there is no space left. Free some; nothing was acknowledged.")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreBusy(
                f"{self.path}: another process has been writing for {BUSY:g} seconds. Try again."
            )
        if code in (
            sqlite3.SQLITE_IOERR,
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
            sqlite3.SQLITE_READONLY,
        ):
            self.failure = (
                f"{self.path} cannot be written safely any more ({error}). Nothing more is acknowledged: "
                "check the disk, then start the service again."
            )
            return StoreFailed(self.failure)
        return StoreFailed(f"{self.path}: {error}. Nothing was acknowledged.")

    # -- reading -----------------------------------------------------------------------------------

    def read_shown(
        self, since: float = 0.0, until: float | None = None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Search ids and bodies of impressions, by time."""
        yield from _read(self.path, "SELECT search_id, body FROM shown", since, until)

    def read_events(
        self, since: float = 0.0, until: float | None = None, *, trusted: bool = True
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Event ids and bodies, by time; `trusted=False` gives those that were kept apart."""
        yield from _read(self.path, "SELECT event_id, body FROM event", since, until, int(trusted))

    def count(self) -> dict[str, int]:
        """How many impressions and events there are; `orphans` are events whose impression is not there."""
        connection = _connect(self.path)
        try:
            asked = {
                "shown": "SELECT count(*) FROM shown",
                "events": "SELECT count(*) FROM event",
                "untrusted": "SELECT count(*) FROM event WHERE trusted = 0",
                "orphans": "SELECT count(*) FROM event WHERE search_id NOT IN (SELECT search_id FROM shown)",
            }
            return {name: int(connection.execute(question).fetchone()[0]) for name, question in asked.items()}
        finally:
            connection.close()


def _create(folder: Path, path: Path) -> None:
    """The file, readable by its owner alone, with its name on the disk."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        with suppress(FileExistsError):  # another worker was quicker
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        sync_folder(folder)
    connection = _connect(path)
    try:
        connection.executescript(TABLES)
        connection.execute("INSERT OR IGNORE INTO about VALUES ('format', ?)", (str(FORMAT),))
        found = connection.execute("SELECT value FROM about WHERE name = 'format'").fetchone()[0]
    except sqlite3.DatabaseError as error:
        raise BadFile(path, f"is not a store of events: {error}. Name another folder.") from None
    finally:
        connection.close()
    if found != str(FORMAT):
        raise BadFile(path, f"has format {found}; this placings reads {FORMAT}. Upgrade placings.")


def _connect(path: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # in this mode: a commit is a sync
    except sqlite3.DatabaseError as error:
        raise BadFile(path, f"is not a store of events: {error}. Name another folder.") from None
    return connection


def _read(
    path: Path, question: str, since: float, until: float | None, trusted: int | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of one moment, by time; writers go on meanwhile."""
    last = _as_micros(until) if until is not None else 2**63 - 1
    only = "" if trusted is None else f" AND trusted = {trusted}"
    connection = _connect(path)
    try:
        asked = f"{question} WHERE time >= ? AND time < ?{only} ORDER BY time, 1"
        for key, body in connection.execute(asked, (_as_micros(since), last)):
            yield key, dict(parse_json(body))
    finally:
        connection.close()


def _list_rows(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    return [
        (
            each.event_id,
            each.search_id,
            _as_micros(each.time),
            each.user_id,
            int(each.trusted),
            _as_text(each.body),
        )
        for each in events
    ]


def _as_micros(seconds: float) -> int:
    return round(seconds * 1e6)


def _as_text(body: Mapping[str, Any]) -> str:
    return json.dumps(dict(body), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
