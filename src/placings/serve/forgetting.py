"""Taking a person, or old days, out of what a service wrote.

`forget_user` works beside a running service: the store is one that many processes write, and this is one
more. While the file is written anew, feedback may be told to come again (503); searches go on. Nothing of the
person is left in the bytes: rows are deleted, the file is written anew and the log beside it is emptied.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic, sleep, time
from typing import Any

from placings.core import (
    BadFile,
    BadInput,
    PlacingsError,
    check_file,
    parse_json,
    read_bundle,
    write_atomically,
)
from placings.logs import OwnClicks
from placings.rerank import OWN_CLICKS, load_reranker
from placings.serve.event_store import REWRITTEN, StoreBusy, as_micros, open_store, transact
from placings.serve.kept_models import PARTS, list_models
from placings.serve.search_ids import LIFETIME

CHUNK = 5_000  # rows of one transaction: writers wait for no more
PATIENCE = 60.0  # seconds that readers may hold the old pages
SHORTEST = LIFETIME / 86_400 + 1  # days: events that may still come again must be known
COUNT_AS_REWRITTEN = "UPDATE about SET value = value + 1 WHERE name = ?"
PERSONAL = ("user_id", "session_id", "search_id", "chain_id")


@dataclass(frozen=True)
class Removed:
    """What was taken out: impressions and events of the store, rows of each parquet file.

    `models` are the saved re-rankers that the person was taken out of, `left_in` the copies in the service's
    own folder that still hold what the person clicked, under a hash of their id.
    """

    shown: int
    events: int
    rows: dict[str, int]
    models: tuple[str, ...] = ()
    left_in: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def forget_user(
    user: str,
    data: str | os.PathLike[str],
    parquet: Sequence[str | os.PathLike[str]] = (),
    *,
    models: Sequence[str | os.PathLike[str]] = (),
) -> Removed:
    """Take a person out of the store and of parquet files: their searches, lists and events.

    A search is theirs if it has their user id, or no user id and a session of theirs. An event is theirs if
    it has their id or belongs to such a search. `parquet` are files, or folders of an export, with columns
    `user_id`, `session_id`, `search_id` or `chain_id`: exports and what was joined of them. `models` are
    saved re-rankers: one that holds the person's history is saved anew without it, and has another digest
    then. The copies that a service answers with stay as they are until it is given another model; `left_in`
    names those that hold the person. The store is rewritten last: whoever is stopped on the way can begin
    again.
    """
    if not user:
        raise BadInput("the user must be named. Got an empty text.")
    files = list(_list_files(parquet))
    changed = [str(path) for path in models if _forget_in_model(Path(path), user)]
    with open_store(data) as connection:
        searches, sessions = _find_theirs(connection, user)
        for file in files:
            found = _find_in_parquet(file, user)
            searches |= found[0]
            sessions |= found[1]
        for file in files:
            searches |= _find_in_sessions(file, sessions)
        theirs = {"user_id": {user}, "session_id": sessions, "search_id": searches, "chain_id": searches}
        rows = {str(file): _rewrite(file, theirs) for file in files}
        shown, events = _delete_searches(connection, user, searches)
        compact(connection)
    left = [str(path) for path in list_models(Path(data)) if _is_in_model(path, user)]
    return Removed(shown, events, rows, tuple(changed), tuple(left))


def prune_store(data: str | os.PathLike[str], keep_days: float, *, now: float | None = None) -> Removed:
    """Take out searches that are older than so many days, with their events; events alone by their own time.

    A little at a time, so that a running service hardly notices. The space is used again by what comes next;
    once half of the file is free it is given back.
    """
    check_days(keep_days)
    before = as_micros((time() if now is None else now) - keep_days * 86_400)
    shown = events = 0
    with open_store(data) as connection:
        while True:
            asked = "SELECT search_id FROM shown WHERE time < ? ORDER BY time LIMIT ?"
            old = [(name,) for (name,) in connection.execute(asked, (before, CHUNK))]
            with transact(connection):
                events += _count(connection, "DELETE FROM event WHERE search_id = ?", old)
                shown += _count(connection, "DELETE FROM shown WHERE search_id = ?", old)
                asked = "DELETE FROM event WHERE number IN (SELECT number FROM event WHERE time < ? LIMIT ?)"
                alone = connection.execute(asked, (before, CHUNK)).rowcount if not old else 0
                events += alone
                if old or alone:
                    connection.execute(COUNT_AS_REWRITTEN, (REWRITTEN,))
            if not old and not alone:
                break
        pages, free = (
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count")
        )
        if free > pages / 2 and free > 1000:
            connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    return Removed(shown, events, {})


def check_days(keep_days: float) -> None:
    """Refuse to keep less than the time in which feedback is taken: an event sent again would count twice."""
    if not SHORTEST <= keep_days <= 36_500:
        raise BadInput(
            f"keep_days must be {SHORTEST:g} or more, a day longer than feedback is taken. Got {keep_days!r}."
        )


# -- the store ---------------------------------------------------------------------------------------


def _find_theirs(connection: sqlite3.Connection, user: str) -> tuple[set[str], set[str]]:
    """Search ids and session ids of a person."""
    theirs = connection.execute(
        "SELECT search_id, json_extract(body, '$.session_id') FROM shown WHERE user_id = ?", (user,)
    ).fetchall()
    searches = {search for search, _ in theirs}
    sessions = {str(session) for _, session in theirs if session is not None}
    asked = "SELECT search_id FROM shown WHERE user_id IS NULL AND json_extract(body, '$.session_id') = ?"
    for session in sessions:
        searches |= {search for (search,) in connection.execute(asked, (session,))}
    return searches, sessions


def _delete_searches(connection: sqlite3.Connection, user: str, searches: set[str]) -> tuple[int, int]:
    """All of them at once: whoever reads sees the person whole or not at all."""
    keys = [(search,) for search in sorted(searches)]
    with transact(connection):
        events = _count(connection, "DELETE FROM event WHERE search_id = ?", keys)
        events += connection.execute("DELETE FROM event WHERE user_id = ?", (user,)).rowcount
        shown = _count(connection, "DELETE FROM shown WHERE search_id = ?", keys)
        connection.execute(COUNT_AS_REWRITTEN, (REWRITTEN,))
    return shown, events


def _count(connection: sqlite3.Connection, statement: str, keys: Sequence[tuple[str]]) -> int:
    before = connection.total_changes
    connection.executemany(statement, keys)
    return connection.total_changes - before


def compact(connection: sqlite3.Connection, patience: float = PATIENCE) -> None:
    """Write the file anew and empty the log: what was deleted is then nowhere in their bytes."""
    connection.execute("VACUUM")
    until = monotonic() + patience
    while connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
        if monotonic() > until:
            raise StoreBusy(
                "the rows are deleted, but a reader still holds the old pages of the file. End the export "
                "that is under way, then say it again."
            )
        sleep(0.05)


# -- saved re-rankers --------------------------------------------------------------------------------


def _forget_in_model(path: Path, user: str) -> bool:
    """Save a re-ranker without a person's history; whether it held one."""
    reranker = load_reranker(path)
    if not reranker.forget(user):
        return False
    metrics = read_bundle(path / PARTS[0]).manifest.get("metrics")  # the model knows nothing of them
    reranker.save(path, metrics=metrics if isinstance(metrics, dict) else None)
    return True


def _is_in_model(path: Path, user: str) -> bool:
    """Whether a copy holds a person's history; the model itself need not be loaded for that."""
    try:
        bundle = read_bundle(path / PARTS[1])
        told = bundle.files.get(OWN_CLICKS)
        return told is not None and OwnClicks.from_state(parse_json(told)).knows(user)
    except (PlacingsError, ValueError):
        return True  # nobody can say that it does not


# -- parquet -----------------------------------------------------------------------------------------


def _list_files(given: Iterable[str | os.PathLike[str]]) -> Iterable[Path]:
    for each in map(Path, given):
        if each.is_dir():
            found = sorted(each.rglob("*.parquet"))
            if not found:
                raise BadFile(each, "holds no parquet files.")
            yield from found
        else:
            check_file(each)
            yield each


def _open(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise BadFile(path, f"is not parquet that can be read: {error}.") from None


def _read_columns(path: Path) -> Iterable[dict[str, list[str | None]]]:
    """The personal columns, batch by batch, as texts."""
    with _open(path) as file:
        there = [name for name in PERSONAL if name in file.schema_arrow.names]
        if not there:
            raise BadFile(path, f"has none of the columns {', '.join(PERSONAL)}: nobody can be found in it.")
        for batch in file.iter_batches(columns=there):
            yield {name: _as_texts(batch.column(name)) for name in there}


def _as_texts(column: Any) -> list[str | None]:
    return [None if value is None else str(value) for value in column.to_pylist()]


def _find_in_parquet(path: Path, user: str) -> tuple[set[str], set[str]]:
    searches: set[str] = set()
    sessions: set[str] = set()
    for columns in _read_columns(path):
        hits = [row for row, name in enumerate(columns.get("user_id", ())) if name == user]
        for name, found in (("search_id", searches), ("session_id", sessions)):
            if name in columns:
                found.update(value for row in hits if (value := columns[name][row]) is not None)
    return searches, sessions


def _find_in_sessions(path: Path, sessions: set[str]) -> set[str]:
    """Searches of these sessions that say no user."""
    found: set[str] = set()
    for columns in _read_columns(path):
        if "session_id" in columns and "search_id" in columns:
            users = columns.get("user_id", [None] * len(columns["session_id"]))
            for search, session, user in zip(columns["search_id"], columns["session_id"], users, strict=True):
                if session in sessions and user is None and search is not None:
                    found.add(search)
    return found


def _rewrite(path: Path, theirs: dict[str, set[str]]) -> int:
    """Write a file without a person's rows; returns how many there were."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    removed = 0
    with _open(path) as file, write_atomically(path) as part:
        schema = file.schema_arrow
        told = {name: value for name, value in (schema.metadata or {}).items() if name != b"pandas"}
        plain = schema.with_metadata(told)  # pandas writes values of an index there
        there = [name for name in PERSONAL if name in schema.names]
        with pq.ParquetWriter(part, plain, compression="zstd", write_page_checksum=True) as writer:
            for batch in file.iter_batches():
                texts = {name: _as_texts(batch.column(name)) for name in there}
                keep = [not _is_theirs(texts, row, theirs) for row in range(batch.num_rows)]
                removed += keep.count(False)
                kept = batch.filter(pa.array(keep, pa.bool_()))
                writer.write_table(pa.Table.from_batches([kept]).cast(plain))
    return removed


def _is_theirs(texts: dict[str, list[str | None]], row: int, theirs: dict[str, set[str]]) -> bool:
    user = texts["user_id"][row] if "user_id" in texts else None
    for name, values in texts.items():
        other = name == "session_id" and user is not None  # a device that two people share
        if not other and values[row] in theirs[name]:
            return True
    return False
