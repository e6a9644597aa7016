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
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from errno import EINVAL, ENOSPC, ENOTSUP
from pathlib import Path
from time import monotonic, time
from typing import Any

from placings.core import BadFile, BadInput, PlacingsError, escape_line, parse_json
from placings.rerank import Request

LOG = logging.getLogger("placings.serve")
FILE = "events.sqlite"
FORMAT = 1
FLUSH = 0.05  # seconds that an impression waits for company
MOST_WAITING = 20_000  # events and impressions in the queue; more are refused
MOST_BYTES = 64 << 20  # of them, in the queue
LARGEST = 4 << 20  # bytes of one event or impression
BUSY = 5.0  # seconds to wait for another worker's transaction
CHECKPOINT = 4 << 20  # bytes after which what was written is moved from the log into the file
LONGEST_LOG = 64 << 20  # bytes that the write-ahead log keeps on the disk once it has been moved
PRAGMAS = (
    "PRAGMA synchronous = FULL",  # in this mode: a commit is a sync
    "PRAGMA secure_delete = ON",
    "PRAGMA wal_autocheckpoint = 0",  # SQLite's own ignores a sync that failed; see `EventStore._checkpoint`
    f"PRAGMA journal_size_limit = {LONGEST_LOG}",
)

TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS shown (
    search_id TEXT PRIMARY KEY, time INTEGER NOT NULL, user_id TEXT, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS event (
    number INTEGER PRIMARY KEY AUTOINCREMENT, event_id TEXT NOT NULL, search_id TEXT NOT NULL,
    item_id TEXT, action TEXT, time INTEGER NOT NULL, user_id TEXT, trusted INTEGER NOT NULL,
    body TEXT NOT NULL, UNIQUE (event_id, trusted)
);
CREATE INDEX IF NOT EXISTS shown_time ON shown (time);
CREATE INDEX IF NOT EXISTS event_time ON event (time);
CREATE INDEX IF NOT EXISTS event_search ON event (search_id);
CREATE INDEX IF NOT EXISTS shown_user ON shown (user_id);
CREATE INDEX IF NOT EXISTS event_user ON event (user_id);
"""
INSERT_SHOWN = "INSERT OR IGNORE INTO shown VALUES "
ROW_SHOWN = "(?, ?, ?, ?)"
TOGETHER = 64  # impressions in one statement
INSERT_EVENT = """
INSERT OR IGNORE INTO event (event_id, search_id, item_id, action, time, user_id, trusted, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
RESENT, REWRITTEN = "resent", "rewritten"  # events that came again; how often rows were taken out
TRANSIENT = (  # errors of the system that leave the file as it was
    sqlite3.SQLITE_IOERR_NOMEM,
    sqlite3.SQLITE_IOERR_LOCK,
    sqlite3.SQLITE_IOERR_BLOCKED,
)
BROKEN = (
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
)


class StoreFailed(PlacingsError, RuntimeError):
    """The events could not be written: nothing of them was acknowledged, and they must be sent again."""


class StoreBusy(StoreFailed):
    """More is waiting to be written than the queue holds; try again in a moment."""


class DiskFull(StoreFailed):
    """There is no space left; searches go on, events are refused until there is."""


@dataclass(frozen=True)
class ShownList:
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


Row = tuple[Any, ...]  # as it is inserted; the body, which is most of it, stands last


@dataclass(frozen=True)
class _Waiting:
    rows: Sequence[Row]
    done: Future[Receipt]


class EventStore:
    """The events and impressions of a folder; many processes may have it open, each its own object.

    `add` gives a future that is done once the events are on the disk. `note` takes an impression and returns
    at once. A full disk is an error that passes; a failed sync is one that stays: what the file holds is then
    unknown, so nothing more is acknowledged until the process starts anew.

    `on_drop` is called with the number of impressions that were not written, whenever there are some.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        flush: float = FLUSH,
        most_waiting: int = MOST_WAITING,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.flush, self.most_waiting, self.most_bytes = flush, most_waiting, most_bytes
        self.dropped = 0  # impressions that found the queue full, or that the disk refused
        self.failure: str | None = None
        self.on_drop: Callable[[int], object] | None = None
        self._events: deque[_Waiting] = deque()
        self._shown: deque[Row] = deque()
        self._in_hand: Sequence[_Waiting] = ()
        self._count = self._bytes = self._unmoved = 0
        self._oldest = 0.0
        self._closing = False
        self._owner = os.getpid()
        self._wake = threading.Condition()
        create_store(self.folder)
        self._connection = connect(self.path)
        self._file = _identify(self.path)
        self._checkpoint()  # what a killed process left in the log may never have been synced
        if self.failure is not None:
            raise StoreFailed(self.failure)
        self._thread = threading.Thread(target=self._run, name="placings-events", daemon=True)
        self._thread.start()

    # -- writing -----------------------------------------------------------------------------------

    def add(self, events: Sequence[Event]) -> Future[Receipt]:
        """Write events; the future is done when they are on the disk, or holds why they are not.

        An event that cannot be written at all is refused here, with those that came with it: later it would
        take the events of others down.
        """
        rows = [_as_row(f"events[{place}]", event) for place, event in enumerate(events)]
        done: Future[Receipt] = Future()
        done.set_running_or_notify_cancel()  # a caller that goes away must not stop the others
        with self._wake:
            problem = self._refuse(rows)
            if problem is not None:
                raise problem
            self._events.append(_Waiting(rows, done))
            self._queue(rows)
            self._wake.notify_all()
        return done

    def note(self, shown: ShownList) -> bool:
        """Write an impression soon; False if it cannot be written, which is counted."""
        try:
            row = _as_row("the impression", shown)
        except BadInput as error:
            LOG.warning("an impression is dropped: %s", escape_line(error)[:300])
            self._drop(1)
            return False
        with self._wake:
            refused = self._refuse([row]) is not None
            if not refused:
                first = not self._shown
                if first:
                    self._oldest = monotonic()
                self._shown.append(row)
                self._queue([row])
                if first:  # for those after it the thread waits already, and wakes by itself
                    self._wake.notify_all()
        if refused:
            self._drop(1)
        return not refused

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
        if os.getpid() != self._owner:
            return  # the file is the parent's: closing it here would drop the parent's locks
        with self._wake:
            self._closing = True
            self._wake.notify_all()
        self._thread.join()
        if self.failure is None:  # closing moves the log into the file: not after a failed sync
            self._connection.close()

    def __enter__(self) -> EventStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def waiting(self) -> int:
        """Events and impressions that are not on the disk yet."""
        return self._count

    def _refuse(self, rows: Sequence[Row]) -> StoreFailed | None:
        if os.getpid() != self._owner:
            return StoreFailed("the store was opened before a fork. Open one in each process.")
        if self.failure is not None:
            return StoreFailed(self.failure)
        if self._closing:
            return StoreFailed("the store is closed.")
        if self._count + len(rows) > self.most_waiting or self._bytes + _weigh(rows) > max(
            self.most_bytes, LARGEST
        ):
            return StoreBusy(
                f"{self._count:,} events of {self._bytes:,} bytes are waiting to be written; at most "
                f"{self.most_waiting:,} of {self.most_bytes:,} bytes may."
            )
        return None

    def _queue(self, rows: Sequence[Row]) -> None:
        self._count += len(rows)
        self._bytes += _weigh(rows)

    def _drop(self, count: int) -> None:
        with self._wake:
            self.dropped += count
        if self.on_drop is not None and count:
            self.on_drop(count)

    # -- the thread that writes --------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._write_next():
                pass
        except BaseException as error:  # nobody would hear of it otherwise, and callers would wait for ever
            self._fail(f"the thread that writes events ended ({type(error).__name__}: {error}).")
            with self._wake:
                left = [*self._in_hand, *self._events]
                lost = self._count - sum(len(each.rows) for each in left)
                self._events.clear()
                self._shown.clear()
                self._count = self._bytes = 0
                self._wake.notify_all()
            self._drop(lost)
            for each in left:
                if not each.done.done():
                    each.done.set_exception(StoreFailed(str(self.failure)))

    def _write_next(self) -> bool:
        """Wait for work and do it; False when there is none left and the store closes."""
        with self._wake:
            while not self._is_due():
                if self._closing and not self._count:
                    return False
                self._wake.wait(self._find_pause())
            batch, shown = list(self._events), list(self._shown)
            self._events.clear()
            self._shown.clear()
            self._in_hand = batch
        kept = self._write(batch, shown)
        with self._wake:
            written = [*shown[len(kept) :], *(row for each in batch for row in each.rows)]
            self._shown.extendleft(reversed(kept))
            self._count -= len(written)
            self._bytes -= _weigh(written)
            self._in_hand = ()
            self._wake.notify_all()
        if self._unmoved >= CHECKPOINT:
            self._checkpoint()
        return True

    def _is_due(self) -> bool:
        if self._events:
            return True
        return bool(self._shown) and (self._closing or monotonic() - self._oldest >= self.flush)

    def _find_pause(self) -> float | None:
        return max(0.0, self.flush - (monotonic() - self._oldest)) if self._shown else None

    def _write(self, batch: Sequence[_Waiting], shown: Sequence[Row]) -> Sequence[Row]:
        """One transaction; what it holds is acknowledged after it, or refused.

        Returns the impressions that may be tried again: those that found the file locked.
        """
        try:
            receipts = self._commit(batch, shown)
        except (sqlite3.Error, StoreFailed, OSError) as error:
            problem = self._explain(error)
            for waiting in batch:
                waiting.done.set_exception(problem)
            if isinstance(problem, StoreBusy) and not self._closing:
                return shown
            self._drop(len(shown))
            return ()
        for waiting, receipt in zip(batch, receipts, strict=True):
            waiting.done.set_result(receipt)
        return ()

    def _commit(self, batch: Sequence[_Waiting], shown: Sequence[Row]) -> list[Receipt]:
        if self.failure is not None:
            raise StoreFailed(self.failure)
        if _identify(self.path) != self._file:
            self._fail(f"{self.path} was removed or replaced while it was open.")
            raise StoreFailed(str(self.failure))
        connection, receipts = self._connection, []
        with transact(connection):
            _insert_shown(connection, shown)
            for waiting in batch:
                before = connection.total_changes
                connection.executemany(INSERT_EVENT, waiting.rows)
                new = connection.total_changes - before
                receipts.append(Receipt(new, len(waiting.rows) - new))
            known = sum(receipt.known for receipt in receipts)
            if known:
                # An event that is there may have been left by a process that was killed before its sync.
                # Writing something makes this commit a sync of the whole log, that event included.
                connection.execute("UPDATE about SET value = value + ? WHERE name = ?", (known, RESENT))
        self._unmoved += _weigh(shown) + sum(_weigh(each.rows) for each in batch) + 4 * 4096
        return receipts

    def _checkpoint(self) -> None:
        """Move the log into the file as far as readers allow; what it held stays safe if that fails.

        SQLite would do it by itself inside a commit, and say nothing of a sync that failed.
        """
        self._unmoved = 0
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            problem = self._explain(error)
            LOG.warning("events stay in the log: %s", escape_line(problem)[:300])

    def _explain(self, error: Exception) -> StoreFailed:
        """What an error means: try again, free some space, or never again in this process."""
        if isinstance(error, StoreFailed):
            return error
        extended = getattr(error, "sqlite_errorcode", 0)
        code = extended & 0xFF
        if (
            code == sqlite3.SQLITE_FULL
            or extended == sqlite3.SQLITE_IOERR_SHMSIZE
            or getattr(error, "errno", None) == ENOSPC
        ):
            return DiskFull(f"{self.path}: there is no space left. Free some; nothing was acknowledged.")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreBusy(
                f"{self.path}: another process has been writing for {BUSY:g} seconds. Try again."
            )
        if code in BROKEN and extended not in TRANSIENT:
            self._fail(f"{self.path} cannot be written safely any more ({error}).")
            return StoreFailed(str(self.failure))
        return StoreFailed(f"{self.path}: {error}. Nothing was acknowledged.")

    def _fail(self, why: str) -> None:
        """Acknowledge nothing more in this process; what is waiting is refused when its turn comes."""
        self.failure = f"{why} Nothing more is acknowledged: check the disk, then start the service again."
        LOG.error("%s", escape_line(self.failure)[:500])

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
        with closing(connect(self.path)) as connection:
            return count_rows(connection)


def count_rows(connection: sqlite3.Connection) -> dict[str, int]:
    """Impressions, events, those kept apart, and `orphans`: trusted events whose impression is not there."""
    asked = {
        "shown": "SELECT count(*) FROM shown",
        "events": "SELECT count(*) FROM event",
        "untrusted": "SELECT count(*) FROM event WHERE trusted = 0",
        "orphans": "SELECT count(*) FROM event WHERE trusted = 1 AND NOT EXISTS "
        "(SELECT 1 FROM shown WHERE shown.search_id = event.search_id)",
    }
    return {name: int(connection.execute(question).fetchone()[0]) for name, question in asked.items()}


def _insert_shown(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """Write impressions, many with one statement.

    After each statement Python's lock must be had again, while other threads are at work: row by row that
    takes longer than writing, and an event in the same transaction waits for it.
    """
    for start in range(0, len(rows), TOGETHER):
        part = rows[start : start + TOGETHER]
        statement = INSERT_SHOWN + ", ".join([ROW_SHOWN] * len(part))
        connection.execute(statement, [value for row in part for value in row])


@contextmanager
def transact(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction that writes: all of it, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def create_store(folder: Path) -> None:
    """The folder and the file, for their owner alone, with their names on the disk."""
    path = folder / FILE
    _make_folder(folder)
    with _hold_folder(
        folder
    ):  # two processes that turn a new file into a log at once would be told it is busy
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)  # the log beside it takes the file's permissions
        _sync(folder)
        with closing(connect(path)) as connection:
            try:
                found = _find_format(connection)
            except sqlite3.DatabaseError as error:
                raise _tell(path, error) from None
    if found != FORMAT:
        raise BadFile(path, f"has format {found}; this placings reads {FORMAT}. Upgrade placings.")


def _find_format(connection: sqlite3.Connection) -> int:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'event_user'").fetchone():
        with transact(connection):
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            about = {"format": FORMAT, RESENT: 0, REWRITTEN: 0}
            connection.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", about.items())
    return int(connection.execute("SELECT value FROM about WHERE name = 'format'").fetchone()[0])


def find_store(folder: str | os.PathLike[str]) -> Path:
    """The store of a folder that is there; a folder without one is refused, never filled."""
    path = Path(folder) / FILE
    if not path.is_file():
        raise BadFile(path, "there are no events. Name the --data folder of a service.")
    return path


@contextmanager
def open_store(folder: str | os.PathLike[str]) -> Iterator[sqlite3.Connection]:
    """A connection to the store of a folder for the time of a `with`; SQLite's errors become ours."""
    path = find_store(folder)
    with closing(connect(path)) as connection:
        try:
            yield connection
        except sqlite3.Error as error:
            raise _tell(path, error) from error


def connect(path: Path) -> sqlite3.Connection:
    """A connection to a store that is there, for any thread."""
    address = f"{path.absolute().as_uri()}?mode=rw"  # a file that was removed must not come back empty
    connection = sqlite3.connect(
        address, uri=True, timeout=BUSY, isolation_level=None, check_same_thread=False
    )
    try:
        for line in PRAGMAS:
            connection.execute(line)
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        connection.close()
        raise _tell(path, error) from None
    return connection


def _tell(path: Path, error: sqlite3.Error) -> PlacingsError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(f"{path}: there is no space left. Free some.")
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{path}: another process has been writing for {BUSY:g} seconds. Try again.")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR):
        return BadFile(path, f"is not a store of events: {error}. Name another folder.")
    return StoreFailed(f"{path}: {error}. Check the disk and the file's permissions.")


def _make_folder(folder: Path) -> None:
    """The folder and those above it that are missing, each with its name on the disk."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):  # another worker was quicker
            each.mkdir(mode=0o700)
        _sync(each.parent)


@contextmanager
def _hold_folder(folder: Path) -> Iterator[None]:
    """One process at a time, where the system has locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    """Bring a folder's names to the disk; an error is told, unless folders cannot be synced here at all."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (EINVAL, ENOTSUP):
            raise StoreFailed(f"{folder} cannot be synced ({error.strerror}). Check the disk.") from error
    finally:
        os.close(handle)


def _identify(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _read(
    path: Path, question: str, since: float, until: float | None, trusted: int | None = None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of one moment, by time; writers go on meanwhile."""
    last = as_micros(until) if until is not None else 2**63 - 1
    only = "" if trusted is None else f" AND trusted = {trusted}"
    with closing(connect(path)) as connection:
        asked = f"{question} WHERE time >= ? AND time < ?{only} ORDER BY time, 1"
        for key, body in connection.execute(asked, (as_micros(since), last)):
            yield key, dict(parse_json(body))


def _as_row(what: str, given: Event | ShownList) -> Row:
    """What is inserted; whatever SQLite could not hold is refused here, where only its sender hears of it."""
    try:
        body, size = _write_body(given)
        at, user = as_micros(given.time), _as_text(given.user_id)
        search = _as_text(given.search_id)
        if search is None:
            raise ValueError("it has no search_id")
        if isinstance(given, ShownList):
            row: Row = (search, at, user, body)
        else:
            event, item, action = map(
                _as_text, (given.event_id, given.body.get("item_id"), given.body.get("action"))
            )
            if event is None:
                raise ValueError("it has no event_id")
            row = (event, search, item, action, at, user, int(given.trusted), body)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BadInput(f"{what} cannot be written: {str(error)[:200]}.") from None
    if size > LARGEST:
        raise BadInput(f"{what} must have {LARGEST:,} bytes or fewer. Got {size:,}.")
    return row


def _write_body(given: Event | ShownList) -> tuple[str, int]:
    """The body as JSON, and its bytes; NaN in an event is refused.

    Lists that were shown are long: orjson writes them in a fraction of the time, NaN and infinite as null.
    What it does not know, as an engine of somebody's own may give it, is made plain first.
    """
    if isinstance(given, ShownList):
        import orjson

        try:
            written = orjson.dumps(dict(given.body))
        except TypeError:
            written = orjson.dumps(Request(given.body).to_dict()["context"])
        return written.decode(), len(written)
    body = json.dumps(dict(given.body), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return body, len(body.encode())


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"a text is needed where {type(value).__name__} stands")
    value.encode()  # a lone surrogate is no text
    return value


def as_micros(seconds: float) -> int:
    """Microseconds since 1970, as the store has times."""
    micros = round(seconds * 1e6)
    if not 0 <= micros < 2**62:
        raise ValueError(f"the time {seconds!r} is out of range")
    return micros


def _weigh(rows: Sequence[Row]) -> int:
    return sum(len(row[-1]) for row in rows)
