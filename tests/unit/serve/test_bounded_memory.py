"""What a worker remembers is bounded: it fills once and then stays, and what it forgets changes no answer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from placings.logs import OwnClicks
from placings.rerank import Hit
from placings.serve import click_counts, worker
from placings.serve.click_counts import ClickCounts
from placings.serve.event_store import Event, EventStore, ShownList
from placings.serve.feedback import DIGEST, Judge, read_deed
from placings.serve.pelias import KeptFeatures
from placings.serve.rates import Rates
from placings.serve.search_ids import Signer
from placings.serve.supervisor import FEWER_TEXTS

NOW = 1_800_000_000.0


# -- features as JSON ------------------------------------------------------------------------------------


def make_hit(number: int, name: str = "Ulm") -> Hit:
    return Hit(f"p{number}", {"name": name, "lat": 48.4, "lon": float(number % 90)}, 1.0, 1)


def test_no_more_features_are_kept_than_said() -> None:
    kept = KeptFeatures(most=10)
    sizes = []
    for number in range(100):
        kept.write(make_hit(number))
        sizes.append(len(kept))
    assert max(sizes) == 10
    assert min(sizes[10:]) >= 5  # it never starts from nothing again


def test_a_feature_that_is_shown_again_and_again_is_written_once() -> None:
    kept = KeptFeatures(most=10)
    first = kept.write(make_hit(0))[0]
    for number in range(1, 100):
        kept.write(make_hit(number))
        assert kept.write(make_hit(0))[0] is first


def test_a_feature_whose_fields_changed_is_written_anew() -> None:
    kept = KeptFeatures(most=10)
    kept.write(make_hit(0))
    for number in range(1, 6):  # by now the first is among the old
        kept.write(make_hit(number))
    assert b"Neu-Ulm" in bytes(_read(kept.write(make_hit(0, "Neu-Ulm"))[0]))
    assert b"Neu-Ulm" in bytes(_read(kept.write(make_hit(0, "Neu-Ulm"))[0]))


def _read(fragment: object) -> bytes:
    import orjson

    return orjson.dumps(fragment)


# -- who sends how often ---------------------------------------------------------------------------------


def test_a_name_whose_bucket_is_full_again_is_forgotten() -> None:
    now = [0.0]
    rates = Rates(rate=2.0, burst=20.0, clock=lambda: now[0])
    for number in range(1000):
        now[0] = float(number)
        assert rates.take(f"user {number}") == 0.0
        assert len(rates) <= 12  # those of the last burst / rate = 10 seconds


def test_a_name_that_still_waits_is_not_forgotten() -> None:
    now = [0.0]
    rates = Rates(rate=1.0, burst=3.0, clock=lambda: now[0])
    assert [rates.take("ann") for _ in range(4)] == [0.0, 0.0, 0.0, 1.0]
    now[0] = 0.5
    rates.take("bob")
    assert rates.take("ann") == 0.5


# -- events of a list ------------------------------------------------------------------------------------


def test_an_event_is_remembered_as_few_bytes() -> None:
    judge = Judge(Signer(b"0" * 32), most=3, most_searches=2)
    search = judge.signer.sign(["a"], now=NOW)

    def doubt(event: str, which: str = search) -> str:
        told = {"event_id": event, "search_id": which, "item_id": "a", "action": "click"}
        return judge.find_doubt(read_deed(0, told), now=NOW)

    assert [doubt(event) for event in ("e1", "e2", "e1", "e3", "e2")] == [""] * 5
    assert judge._counts[search] is not None
    assert len(judge._counts[search]) == 3 * DIGEST
    assert [doubt(event) for event in ("e4", "e1")] == ["too many", "too many"]
    assert judge._counts[search] is None
    for _ in range(3):
        doubt("e1", judge.signer.sign(["a"], now=NOW))
    assert len(judge._counts) == 2


# -- people's own clicks ---------------------------------------------------------------------------------


def test_clicks_of_few_people_and_of_each_the_newest_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setattr(click_counts, "MOST_PEOPLE", 2)
    monkeypatch.setattr(click_counts, "MOST_OF_A_PERSON", 3)
    own = OwnClicks(half_life=30.0)
    at = datetime(1970, 1, 1) + timedelta(seconds=NOW)
    with EventStore(tmp_path) as store:
        for number in range(12):
            user = ("ann", "bob", "cem")[number // 4]
            body = {"results": [{"item_id": "a"}]}
            store.note(ShownList(f"s{number}", body, NOW, user))
            told = {"item_id": "a", "action": "click"}
            store.add([Event(f"e{number}", f"s{number}", told, NOW, user)]).result(30)
        counts = ClickCounts(store.path, {}, own=own)
        assert counts.follow(now=True) == 12
    clicks = {user: counts.look_up_own(user, ["a"], at) for user in ("ann", "bob", "cem")}
    assert clicks["ann"] is not None
    assert clicks["ann"].tolist() == [0.0]  # who came first is forgotten first
    for user in ("bob", "cem"):
        assert clicks[user] == pytest.approx(np.array([3.0]))


# -- folded texts ----------------------------------------------------------------------------------------

SAY_KEPT = "from placings.core import KEPT; print(KEPT)"


def say_kept(**told: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SAY_KEPT]
    return subprocess.run(command, env={**os.environ, **told}, capture_output=True, text=True, timeout=60)


def test_a_worker_keeps_fewer_folded_texts() -> None:
    assert int(say_kept().stdout) == 2**17
    assert int(say_kept(**FEWER_TEXTS).stdout) == 2**15


def test_a_number_of_texts_that_is_none_is_refused() -> None:
    done = say_kept(PLACINGS_KEPT_TEXTS="many")
    assert done.returncode != 0
    assert "PLACINGS_KEPT_TEXTS must be a whole number, 1 or more. Got 'many'." in done.stderr


# -- free memory -------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's malloc_trim")
def test_free_memory_is_returned_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    library = SimpleNamespace(malloc_trim=calls.append)
    monkeypatch.setattr(worker.ctypes, "CDLL", lambda name: library)

    async def go() -> None:
        task = asyncio.create_task(worker._give_back_memory(0.01))
        while len(calls) < 3:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(asyncio.wait_for(go(), 30))
    assert set(calls) == {0}


def test_a_c_library_that_returns_nothing_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.ctypes, "CDLL", lambda name: SimpleNamespace())
    asyncio.run(asyncio.wait_for(worker._give_back_memory(3600.0), 30))  # it ends at once
