"""The store of events: what is acknowledged is there, once; what cannot be written is said."""

from __future__ import annotations

import math
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import numpy as np
import pytest

from placings.core import BadFile, BadInput
from placings.serve.event_store import (
    FILE,
    TOGETHER,
    DiskFull,
    Event,
    EventStore,
    Receipt,
    ShownList,
    StoreBusy,
    StoreFailed,
    connect,
)


def make_event(name: str, search: str = "s1", **body: object) -> Event:
    return Event(name, search, {"item_id": "a", "action": "click", **body}, 1_800_000_000.0, "ann")


def make_shown(search: str = "s1") -> ShownList:
    return ShownList(search, {"query": "x", "results": [{"item_id": "a"}]}, 1_800_000_000.0, "ann")


def send(store: EventStore, *names: str, **told: object) -> Receipt:
    return store.add([make_event(name, **told) for name in names]).result(30)


class Faulty:
    """A connection that fails at statements that begin with a word."""

    def __init__(self, inner: sqlite3.Connection, word: str, code: int) -> None:
        self.inner, self.word, self.code = inner, word, code

    def execute(self, statement: str, *values: object):
        if self.word and statement.startswith(self.word):
            error = sqlite3.OperationalError("made up")
            error.sqlite_errorcode = self.code
            raise error
        return self.inner.execute(statement, *values)

    def __getattr__(self, name: str):
        return getattr(self.inner, name)


def break_store(store: EventStore, word: str, code: int) -> Faulty:
    store._connection = Faulty(store._connection, word, code)
    return store._connection


def test_an_event_that_comes_again_counts_once_in_every_process_and_after_a_restart(tmp_path):
    with EventStore(tmp_path) as one, EventStore(tmp_path) as other:
        assert send(one, "e1", "e2") == Receipt(2, 0)
        assert send(other, "e2", "e3") == Receipt(1, 1)
        assert send(one, "e4", "e4") == Receipt(1, 1)
    with EventStore(tmp_path) as store:
        assert send(store, "e1", "e3") == Receipt(0, 2)
        assert store.count() == {"shown": 0, "events": 4, "untrusted": 0, "orphans": 4}


def test_a_forged_event_does_not_take_the_place_of_the_true_one_with_its_id(tmp_path):
    with EventStore(tmp_path) as store:
        forged = Event("e1", "nobody's", {"item_id": "z", "action": "click"}, trusted=False)
        assert store.add([forged]).result(30) == Receipt(1, 0)
        assert send(store, "e1") == Receipt(1, 0)
        assert [body["item_id"] for _, body in store.read_events()] == ["a"]


def test_an_event_that_was_known_is_acknowledged_after_a_sync_of_its_own(tmp_path):
    # it may stand in a log that a killed process never synced: the commit must write something
    with EventStore(tmp_path) as store:
        send(store, "e1")
        before = store._connection.total_changes
        assert send(store, "e1") == Receipt(0, 1)
        assert store._connection.total_changes == before + 1


def test_impressions_are_written_soon_without_being_waited_for(tmp_path):
    with EventStore(tmp_path, flush=0.01) as store:
        assert store.note(make_shown())
        assert store.sync()
        assert store.waiting == 0
        assert [key for key, _ in store.read_shown()] == ["s1"]


def test_closing_writes_what_is_waiting(tmp_path):
    store = EventStore(tmp_path, flush=1000.0)
    store.note(make_shown())
    store.close()
    with EventStore(tmp_path) as again:
        assert again.count()["shown"] == 1


def test_a_closed_store_refuses_and_counts(tmp_path):
    store = EventStore(tmp_path)
    store.close()
    assert not store.note(make_shown())
    assert store.dropped == 1
    with pytest.raises(StoreFailed, match="closed"):
        store.add([make_event("e1")])


def test_only_the_owner_may_read_the_file_and_what_stands_beside_it(tmp_path):
    before = os.umask(0o022)
    try:
        with EventStore(tmp_path / "a" / "b") as store:
            send(store, "e1")
            modes = {found.name: found.stat().st_mode & 0o777 for found in (tmp_path / "a" / "b").iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys((FILE, f"{FILE}-wal", f"{FILE}-shm"), 0o600)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


BAD = {
    "a surrogate": {"query": "\ud800"},
    "not a number": {"score": float("nan")},
    "an object": {"thing": object()},
    "a huge text": {"text": "x" * (5 << 20)},
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_written_is_refused_alone_and_named(tmp_path, name):
    with EventStore(tmp_path) as store:
        good = store.add([make_event("good")])
        with pytest.raises(BadInput, match=r"events\[1\]"):
            store.add([make_event("fine"), make_event("bad", **BAD[name])])
        in_a_list = name == "not a number"  # which is written as null there
        assert store.note(ShownList("s9", BAD[name])) == in_a_list
        assert good.result(30) == Receipt(1, 0)
        assert (store.dropped, store.failure) == (int(not in_a_list), None)
        assert store.count()["events"] == 1


def test_a_number_that_is_none_is_null_in_a_list_that_was_shown(tmp_path):
    with EventStore(tmp_path) as store:
        assert store.note(ShownList("s1", {"score": float("nan"), "name": "Köln"}, time=5.0))
        store.add([make_event("e")]).result(30)
        assert list(store.read_shown(0.0, 10.0)) == [("s1", {"score": None, "name": "Köln"})]


@pytest.mark.parametrize(
    "event",
    [
        Event("\udfff", "s", {}),
        Event("e", "\udfff", {}),
        Event("e", "s", {}, user_id="\udfff"),
        Event("e", "s", {}, time=float("inf")),
        Event("e", "s", {}, time=1e300),
        Event("e", "s", {}, time=-1.0),
        Event("e", "s", {"item_id": 10**30}),
    ],
)
def test_bad_ids_and_times_are_refused_before_they_reach_the_group(tmp_path, event):
    with EventStore(tmp_path) as store:
        with pytest.raises(BadInput, match=r"events\[0\] cannot be written"):
            store.add([event])
        assert send(store, "e1") == Receipt(1, 0)


def test_a_caller_that_goes_away_does_not_stop_the_writer(tmp_path):
    with EventStore(tmp_path) as store:
        assert store.add([make_event("e1")]).cancel() is False
        assert send(store, "e2") == Receipt(1, 0)
        assert store.count()["events"] == 2


def test_the_queue_is_bounded_in_number_and_in_bytes(tmp_path):
    with EventStore(tmp_path, flush=1000.0, most_waiting=2) as store:
        assert [store.note(make_shown(f"s{n}")) for n in range(3)] == [True, True, False]
        with pytest.raises(StoreBusy, match="at most 2"):
            store.add([make_event("e1")])
        assert store.dropped == 1
    with EventStore(tmp_path / "two", flush=1000.0, most_bytes=1) as store:
        large = {"text": "x" * (3 << 20)}
        assert [store.note(ShownList(f"s{n}", large)) for n in range(2)] == [True, False]


def test_a_full_disk_refuses_events_drops_impressions_and_passes(tmp_path):
    with EventStore(tmp_path) as store:
        heard = []
        store.on_drop = heard.append
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")  # SQLite's own "disk is full"
        store.note(make_shown())
        with pytest.raises(DiskFull, match="no space"):
            send(store, "e1", text="x" * 100_000)
        assert store.sync()
        assert (store.failure, store.dropped, heard) == (None, 1, [1])
        store._connection.execute("PRAGMA max_page_count = 1000000")
        assert send(store, "e1", text="x" * 100_000) == Receipt(1, 0)


@pytest.mark.parametrize("word", ["COMMIT", "BEGIN"])
def test_a_failed_sync_is_the_end_until_the_process_starts_again(tmp_path, word):
    with EventStore(tmp_path) as store:
        send(store, "e0")
        faulty = break_store(store, word, sqlite3.SQLITE_IOERR_FSYNC)
        with pytest.raises(StoreFailed, match="cannot be written safely"):
            send(store, "e1")
        faulty.word = ""  # the disk says that all is well again
        with pytest.raises(StoreFailed, match="start the service again"):
            send(store, "e1")
        assert not store.note(make_shown())
        assert "check the disk" in store.failure
    faulty.inner.close()  # the store itself does not: closing syncs
    with EventStore(tmp_path) as store:
        assert send(store, "e0", "e1") == Receipt(1, 1)


def test_a_sync_that_fails_while_the_log_is_moved_is_the_end_too(tmp_path):
    with EventStore(tmp_path) as store:
        send(store, "e0")
        break_store(store, "PRAGMA wal_checkpoint", sqlite3.SQLITE_IOERR_FSYNC)
        store._unmoved = 1 << 30
        assert send(store, "e1") == Receipt(1, 0)  # it is in the log, and synced
        with pytest.raises(StoreFailed, match="cannot be written safely"):
            send(store, "e2")  # its turn comes after the checkpoint
    store._connection.inner.close()


def test_a_disk_that_is_full_while_the_log_is_moved_stops_nothing(tmp_path):
    with EventStore(tmp_path) as store:
        break_store(store, "PRAGMA wal_checkpoint", sqlite3.SQLITE_FULL)
        store._unmoved = 1 << 30
        assert send(store, "e1") == Receipt(1, 0)
        assert send(store, "e2") == Receipt(1, 0)
        assert store.failure is None


def test_a_locked_file_is_busy_and_keeps_its_impressions(tmp_path, monkeypatch):
    monkeypatch.setattr("placings.serve.event_store.BUSY", 0.01)
    with EventStore(tmp_path) as store, closing(connect(store.path)) as other:
        other.execute("BEGIN IMMEDIATE")
        store.note(make_shown())
        with pytest.raises(StoreBusy, match="another process"):
            send(store, "e1")
        other.execute("ROLLBACK")
        assert send(store, "e1") == Receipt(1, 0)
        assert store.sync()
        assert store.count() == {"shown": 1, "events": 1, "untrusted": 0, "orphans": 0}
        assert store.dropped == 0


def test_a_writer_that_dies_is_noticed_and_nobody_waits_for_it(tmp_path):
    with EventStore(tmp_path) as store:
        store._connection = None
        with pytest.raises(StoreFailed, match="ended"):
            send(store, "e1")
        assert "ended" in store.failure
        assert not store.sync() or store.waiting == 0
        with pytest.raises(StoreFailed, match="ended"):
            store.add([make_event("e2")])


def test_a_file_that_is_removed_under_the_service_acknowledges_nothing_more(tmp_path):
    with EventStore(tmp_path) as store:
        send(store, "e1")
        store.path.unlink()
        with pytest.raises(StoreFailed, match="removed or replaced"):
            send(store, "e2")


def test_another_process_made_by_fork_must_open_its_own(tmp_path):
    told = """
import os, sys
from placings.serve.event_store import EventStore, Event, StoreFailed
store = EventStore(sys.argv[1])
if os.fork() == 0:
    try:
        store.add([Event("e1", "s", {})])
    except StoreFailed as error:
        store.close()
        os._exit(7 if "fork" in str(error) else 1)
    os._exit(2)
code = os.waitstatus_to_exitcode(os.wait()[1])
assert store.add([Event("e2", "s", {})]).result(30).new == 1
store.close()
sys.exit(code)
"""
    found = subprocess.run([sys.executable, "-c", told, str(tmp_path)], capture_output=True, text=True)
    assert found.returncode == 7, found.stderr


def test_many_threads_share_commits_and_each_event_is_written_once(tmp_path):
    with EventStore(tmp_path) as store:
        receipts = []

        def work(number: int) -> None:
            receipts.extend(send(store, f"{number}.{n}", f"both.{n}") for n in range(20))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert sum(each.new for each in receipts) == 4 * 20 + 20 == store.count()["events"]
        assert sum(each.known for each in receipts) == 3 * 20


def test_a_file_of_something_else_is_refused_by_name(tmp_path):
    (tmp_path / FILE).write_bytes(b"not a database" * 100)
    with pytest.raises(BadFile, match="is not a store of events"):
        EventStore(tmp_path)
    later = tmp_path / "later"
    EventStore(later).close()
    with closing(connect(later / FILE)) as connection:
        connection.execute("UPDATE about SET value = 99 WHERE name = 'format'")
    with pytest.raises(BadFile, match="has format 99"):
        EventStore(later)


def test_many_impressions_are_written_together_and_each_once(tmp_path) -> None:
    names = [f"s{number}" for number in range(2 * TOGETHER + 5)]
    with EventStore(tmp_path, flush=5.0) as store:
        for name in [*names, *names[:3]]:
            assert store.note(make_shown(name))
        assert store.sync()
        assert [name for name, _ in store.read_shown()] == sorted(names)


def test_an_impression_may_hold_what_json_does_not_know(tmp_path) -> None:
    odd = {"score": np.float32(0.5), "seen": np.datetime64("2026-05-01"), "by": {7: "x"}, "far": math.inf}
    with EventStore(tmp_path) as store:
        assert store.note(ShownList("s1", {"results": [odd]}, 1_800_000_000.0))
        assert store.sync()
        ((_, body),) = store.read_shown()
    assert body["results"] == [{"score": 0.5, "seen": "2026-05-01", "by": {"7": "x"}, "far": None}]
