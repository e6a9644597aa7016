"""Acknowledged events survive kills, power cuts and bad disks; what was served is learned from again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from live_server import LiveServer, make_items, save_shop_reranker
from terminal import call_placings

from fuzz.power_loss import build_shim, count_losses, record_lives
from fuzz.serve_kills import kill_service
from placings.logs import ClickLog
from placings.rerank import load_reranker

# longer by hand: python tests/fuzz/serve_kills.py --kills 100, python tests/fuzz/power_loss.py --replays 5000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_shop_reranker(tmp_path_factory.mktemp("model") / "reranker")


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = build_shim(tmp_path_factory.mktemp("shim"))
    if made is None:
        pytest.skip("recording file operations needs gcc on Linux")
    return made


def search(server: LiveServer, user: str = "ann", first: int = 0, count: int = 5) -> Any:
    request = {"context": {"query": "thing"}, "items": make_items(count, first)}
    reply = server.ask("/v1/rerank", request, **{"x-placings-user": user, "x-placings-session": f"s-{user}"})
    assert reply.status == 200
    return reply.body


def click(server: LiveServer, shown: Any, name: str, place: int = 0, user: str = "ann") -> Any:
    event = {"search_id": shown["search_id"], "item_id": shown["items"][place], "action": "click"}
    event["event_id"] = name
    return server.ask("/v1/feedback", event, **{"x-placings-user": user})


def test_kills_with_requests_in_flight_lose_no_acknowledged_event_and_count_none_twice():
    told = kill_service(5, seed=1)
    assert (told["lost"], told["twice"], told["unknown"], told["sound"]) == ([], [], [], "ok")
    assert told["adds_up"]
    assert told["acknowledged"] >= 5 * 8
    assert told["client"].get("broken off", 0) > 0  # requests were in flight


def test_a_worker_whose_supervisor_is_killed_while_it_starts_leaves_too(tmp_path, model):
    with LiveServer(model, tmp_path / "data", workers=1) as server:
        (first,) = server.list_workers()
        os.kill(first, signal.SIGKILL)
        while not (started := [number for number in server.list_workers() if number != first]):
            time.sleep(0.005)
        time.sleep(0.3)  # it has its settings, and is still loading its model
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        until = time.monotonic() + 60
        while Path(f"/proc/{started[0]}").exists():
            assert time.monotonic() < until, "the worker stays"
            time.sleep(0.05)


def test_a_power_cut_loses_no_acknowledged_event(tmp_path, shim):
    told = count_losses(record_lives(tmp_path, 4, seed=2), 400)
    assert (told["lost"], told["twice"], told["broken"]) == (0, 0, 0)
    assert told["acknowledged"] > 50


def test_the_same_power_cuts_find_what_a_store_that_syncs_too_little_loses(tmp_path, shim):
    told = count_losses(record_lives(tmp_path, 2, seed=2, careless=True), 200)
    assert told["lost"] > 0


def test_a_full_disk_refuses_feedback_while_searches_go_on_and_passes(tmp_path, shim, model):
    trouble = tmp_path / "trouble"
    told = {"LD_PRELOAD": str(shim), "RECORD_FOLDER": str(tmp_path / "data"), "RECORD_FAIL": str(trouble)}
    with LiveServer(model, tmp_path / "data", environment=told) as server:
        shown = search(server)
        assert click(server, shown, "e0").status == 202
        trouble.write_text("full")
        refused = click(server, shown, "e1")
        assert (refused.status, refused.headers["retry-after"]) == (503, "30")
        assert "no space" in refused.body["error"]
        search(server)
        assert server.ask("/readyz").status == 200
        trouble.unlink()
        assert click(server, shown, "e1").body == {"new": 1, "known": 0, "untrusted": 0, "doubts": {}}
        assert server.end() == 0


def test_after_a_failed_sync_nothing_is_acknowledged_until_the_service_starts_again(tmp_path, shim, model):
    trouble = tmp_path / "trouble"
    told = {"LD_PRELOAD": str(shim), "RECORD_FOLDER": str(tmp_path / "data"), "RECORD_FAIL": str(trouble)}
    with LiveServer(model, tmp_path / "data", environment=told) as server:
        shown = search(server)
        assert click(server, shown, "e0").status == 202
        trouble.write_text("fsync")
        assert click(server, shown, "e1").status == 503
        trouble.unlink()  # the disk says that all is well again
        assert click(server, shown, "e1").status == 503
        ready = server.ask("/readyz")
        assert (ready.status, ready.body["reason"]) == (503, "events cannot be written")
        search(server)
        server.end()
    with LiveServer(model, tmp_path / "data") as server:
        assert click(server, shown, "e0").body == {"new": 0, "known": 1, "untrusted": 0, "doubts": {}}
        assert click(server, shown, "e1").status == 202


def test_what_was_served_is_exported_joined_learned_from_and_served_again(tmp_path, model):
    data, out = tmp_path / "data", tmp_path / "out"
    clicks: Counter[str] = Counter()
    with LiveServer(model, data, workers=2) as server:
        for number in range(60):
            user = f"u{number % 12}"
            shown = search(server, user, first=number % 4)
            if number % 6:
                assert click(server, shown, f"e{number}", number % 3, user).status == 202
                clicks[shown["items"][number % 3]] += 1
        forged = {"event_id": "f", "search_id": "a.b.c.d", "item_id": "p1", "action": "click"}
        assert server.ask("/v1/feedback", forged).status == 202
        assert server.end() == 0
    told = call_placings("serve", "export", "--data", data, "--out", out, "--json")
    report = json.loads(told.stdout)
    assert (report["searches"], report["actions"], report["orphans"], report["untrusted"]) == (60, 50, 0, 1)
    rows = tmp_path / "rows.parquet"
    told = call_placings(
        "log", "join", out / "searches.parquet", out / "actions.parquet", "--out", rows, "--json"
    )
    joined = json.loads(told.stdout)
    assert joined["adds_up"]
    assert (joined["searches"]["used"], joined["actions"]["used"]) == (60, 50)
    with ClickLog.read(rows) as log:
        frame = log.rows
    served = {"arm", "model", "user_id", "session_id", "position", "engine_position", "shown_probability"}
    assert served | {"fallback", "past_clicks", "price"} <= set(frame.columns)
    told = call_placings(
        "rerank", "fit", rows, "--out", tmp_path / "next", "--features", "shop", "--ranker", "ridge"
    )
    assert told.returncode == 0, told.stderr
    learned = load_reranker(tmp_path / "next")
    before = load_reranker(model)
    # the first model's clicks go on where it left off
    assert learned.clicks_ == {
        item: count + clicks[item] for item in {*before.clicks_, *clicks} & set(frame["item_id"])
        if (count := before.clicks_.get(item, 0)) + clicks[item]
    }  # fmt: skip
    assert learned.clicks_until_ is not None
    never = {"engine_position", "shown_position", "shown_probability", "arm", "model", "team", "user_id"}
    assert never.isdisjoint(learned.features_.columns)
    with LiveServer(tmp_path / "next", data) as server:
        search(server, "late", first=0)
        assert server.end() == 0
    call_placings("serve", "export", "--data", data, "--out", out)
    import pyarrow.parquet as pq

    # and the service that follows counts none of them twice
    last = pq.read_table(out / "searches.parquet").to_pylist()[-1]
    assert {item["item_id"]: item["past_clicks"] for item in last["results"]} == {
        f"p{n}": float(learned.clicks_.get(f"p{n}", 0)) for n in range(5)
    }
