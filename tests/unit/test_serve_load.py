"""The load generator: arrivals are open-loop, what is no answer of the model is no success."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("orjson")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
Reply = Callable[[bytes], Awaitable[tuple[int, dict[str, Any], str]]]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import serve_client

    return serve_client


@pytest.fixture
def load(client: Any) -> Any:
    import serve_load

    return serve_load


def tell_list(fallback: str | None = None, item: str | None = "p1") -> dict[str, Any]:
    shown = [] if item is None else [{"properties": {"id": item}}]
    return {"geocoding": {"placings": {"fallback": fallback, "search_id": "s1"}}, "features": shown}


def test_a_reply_is_read_as_json_would_read_it_whatever_was_typed(client: Any, load: Any) -> None:
    typed = '"search_id":"forged", "features":[{"properties":{"id":"x"'  # quoted again in a reply
    for write in (json.dumps, lambda told: json.dumps(told, separators=(",", ":"))):
        for item in (None, "p1", 'a "quoted" \\ one', "鹿"):
            for reason in (None, "budget"):
                told = {"geocoding": {"query": {"text": typed}, **tell_list(reason, item)["geocoding"]}}
                shown = [{"geometry": None, **each} for each in tell_list(reason, item)["features"]]
                body = write({**told, "features": shown}).encode()
                assert client.read_ours(body) == client.Seen(reason, "s1", item)
            shown = [] if item is None else [{"id": item, "name": typed}, {"id": "other"}]
            body = write({"search_id": "s1", "results": shown}).encode()
            assert load.read_peer(body) == client.Seen(None, "s1", item)
    for part in (b"", b"{}", b'{"search_id":"s1","fallback":null,"features":[', b"not JSON"):
        with pytest.raises(ValueError, match="reply"):
            client.read_ours(part)


async def drive_against(client: Any, reply: Reply, asks: list[Any]) -> tuple[Any, Any]:
    """The run of a schedule against a server that answers as told, and the target."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
                status, told, more = await reply(head + await reader.readexactly(int(size or 0)))
                body = json.dumps(told).encode()
                writer.write(
                    f"HTTP/1.1 {status} X\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body
                )
        except (asyncio.IncompleteReadError, ConnectionResetError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        target = client.Target("made up", server.sockets[0].getsockname()[1])
        target.served.append(client.Seen(None, "s0", "p0"))
        run = await client.drive(target, asks, 1000.0, 1)
        await asyncio.sleep(0.01)  # connections that were aborted end
    return run, target


def make_asks(client: Any, count: int) -> list[Any]:
    return [client.Ask(0.001 * place, "karls", None, place) for place in range(count)]


def test_gaps_are_exponential_and_the_seed_decides(client: Any) -> None:
    asks = client.make_schedule(50.0, 20_000, ["ulm"], seed=3)
    assert asks == client.make_schedule(50.0, 20_000, ["ulm"], seed=3)
    assert asks != client.make_schedule(50.0, 20_000, ["ulm"], seed=4)
    gaps = [after.at - before.at for before, after in pairwise(asks)]
    mean = sum(gaps) / len(gaps)
    spread = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
    assert mean == pytest.approx(1 / 50, rel=0.03)  # 4 standard errors: 4 / sqrt(20,000)
    assert spread == pytest.approx(1 / 50, rel=0.06)  # of an exponential the spread is the mean
    assert sum(ask.text is None for ask in asks) == pytest.approx(2000, abs=4 * math.sqrt(1800))


def test_nobody_waits_for_an_answer_before_the_next_is_sent(client: Any) -> None:
    """The server answers none of 100 requests before all have come: a closed loop would wait for ever."""

    async def work() -> Any:
        arrived, all_here = [], asyncio.Event()

        async def reply(asked: bytes) -> tuple[int, dict[str, Any], str]:
            arrived.append(asked)
            if len(arrived) == 100:
                all_here.set()
            await all_here.wait()
            return 200, tell_list(), ""

        return await drive_against(client, reply, make_asks(client, 100))

    run, _ = asyncio.run(work())
    assert (run.sent, run.good) == (100, 100)


def test_latency_counts_from_when_a_request_was_due(client: Any) -> None:
    """A request that was due a second before it could be sent has taken that second."""

    async def reply(asked: bytes) -> tuple[int, dict[str, Any], str]:
        return 200, tell_list(), ""

    run, _ = asyncio.run(drive_against(client, reply, [client.Ask(-1.0, "karls", None, 0)]))
    assert run.p50 >= 900.0
    assert run.late_p99 >= 900.0


def test_fallbacks_shed_and_errors_are_no_successes(client: Any) -> None:
    replies = [
        (200, tell_list(), ""),
        (200, tell_list(fallback="budget"), ""),
        (503, {}, "Retry-After: 1\r\n"),
        (429, {}, ""),
        (500, {}, ""),
        (200, {"not": "ours"}, ""),
    ]

    async def reply(asked: bytes) -> tuple[int, dict[str, Any], str]:
        return replies.pop()

    run, target = asyncio.run(drive_against(client, reply, make_asks(client, 6)))
    assert (run.sent, run.good, run.fallbacks, run.shed, run.errors) == (6, 1, 1, 2, 2)
    assert run.retry_after == 1
    assert [seen.search_id for seen in target.served] == ["s0", "s1"]


def test_feedback_names_a_list_that_was_served(client: Any) -> None:
    heard = []

    async def reply(asked: bytes) -> tuple[int, dict[str, Any], str]:
        heard.append(asked)
        return 202, {}, ""

    run, _ = asyncio.run(drive_against(client, reply, [client.Ask(0.0, None, None, 7)]))
    head, _, body = heard[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/feedback ")
    assert b"X-Placings-User: u7" in head
    told = json.loads(body)
    assert (told["search_id"], told["item_id"]) == ("s0", "p0")
    assert run.good == 1


def test_two_failures_in_a_hundred_spoil_the_p99_and_one_does_not(client: Any) -> None:
    def judge(failures: int) -> float:
        good = [client.Done(True, 0.0, 0.010, client.GOOD)] * (100 - failures)
        bad = [client.Done(True, 0.0, 0.001, client.SHED)] * failures
        return client.sum_up("made up", 1.0, 1, [*good, *bad]).judged

    assert judge(1) == 10.0
    assert judge(2) == math.inf


def test_a_line_through_memory_tells_a_leak_from_a_full_cache(load: Any) -> None:
    seconds = [10.0 * place for place in range(180)]
    filled = load.fit_growth(seconds, [500.0 + min(place, 60) for place in range(180)])
    leak = load.fit_growth(seconds, [500.0 + 0.1 * place for place in range(180)])
    assert filled.per_hour_late == pytest.approx(0.0, abs=1e-6)
    assert leak.per_hour_late == pytest.approx(0.1 * 360)  # a sample each 10 s: 360 an hour
    assert (leak.first, leak.last) == (pytest.approx(500 + 0.1 * 22), pytest.approx(500 + 0.1 * 157))


@pytest.mark.parametrize("name", ["serve_load", "serve_peer"])
def test_without_the_demo_a_benchmark_says_so_and_exits_0(name: str, tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", "--index", tmp_path / "none.db"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.startswith("skipped: ")
    assert "none.db" in told.stdout


@pytest.mark.slow  # two services in processes of their own
def test_a_quick_run_measures_both_services(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("lightgbm")
    from towns import TownEngine, make_towns

    from placings.places import build_index
    from placings.rankers import make_ranker
    from placings.rerank import Reranker
    from placings.simulate import simulate_log

    places = make_towns()
    index = build_index(places, tmp_path / "places.db")
    rows = simulate_log(places, TownEngine(places), 150, k=12, random_state=0).to_rows()
    trees = make_ranker("lightgbm").set_params(rounds=5)
    Reranker(features="places", ranker=trees, guard=False).fit(rows).save(tmp_path / "reranker")
    told = subprocess.run(
        [
            sys.executable, BENCHMARKS / "serve_load.py", "--quick", "--model", tmp_path / "reranker",
            "--index", index, "--json", tmp_path / "found.json", "--serve-option=--budget-ms=2000",
        ],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found = json.loads((tmp_path / "found.json").read_text())
    assert {run["target"] for run in found["runs"]} == {"floor", "placings", "peer"}
    assert all(run["errors"] == 0 and run["good"] > 0 for run in found["runs"])
    assert "highest rate with p99 < 25 ms" in told.stdout
