"""The loop closes over HTTP: clicks through a service are exported, joined, learned from, and go live."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from towns import make_towns

pytest.importorskip("pandas")
pytest.importorskip("lightgbm")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("httpx")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    from placings.studies import LiveLoopSettings, run_live_loop

    out = tmp_path_factory.mktemp("live")
    settings = LiveLoopSettings(
        people=60, before=1, weeks=2, sessions=4.0, rounds=10, unheard=0.2, budget_ms=20_000.0, bootstrap=100,
        guard=False,  # of so few searches a guard lets none pass, and what is served would be the engine's
    )  # fmt: skip
    return run_live_loop(out, seeds=[7], settings=settings, places=make_towns()), out


def test_every_acknowledged_click_is_stored_once_and_joined(loop: tuple[Any, Path]) -> None:
    (account,) = loop[0].accounts
    assert account["acknowledged"] > 30
    assert account["acknowledged"] == account["exported"] == account["joined"]
    assert account["sent_again"] == account["acknowledged"] // 5  # and counted once
    assert (account["orphans"], account["untrusted"]) == (0, 0)
    assert (
        account["lists"]
        == account["lists_exported"]
        == sum(week["searches"] for week in loop[0].weeks if week["is_served"])
    )
    assert loop[0].nothing_lost
    assert account["exit_code"] == 0


def test_each_week_is_answered_by_the_model_that_the_week_before_taught(loop: tuple[Any, Path]) -> None:
    weeks = loop[0].cells[0]["weeks"]
    assert [week["is_served"] for week in weeks] == [False, True, True]
    for before, week in pairwise(weeks):
        assert set(week["answered_by"]) == {before["digest"]}
    assert len({week["digest"] for week in weeks}) == 3
    assert loop[0].accounts[0]["fallbacks"] == {}


def test_both_worlds_are_the_same_until_the_service_begins(loop: tuple[Any, Path]) -> None:
    first, *others = loop[0].weeks
    assert first["served"] == first["bare"]
    assert first["gain"] == [0.0, 0.0, 0.0]
    assert all(week["gain"] != [0.0, 0.0, 0.0] for week in others)


def test_the_loop_leaves_a_page_a_picture_and_numbers(loop: tuple[Any, Path]) -> None:
    page = (loop[1] / "index.html").read_text(encoding="utf-8")
    assert "through the service" in page
    assert "SIMULATED" in page
    assert (loop[1] / "live.svg").read_text(encoding="utf-8").startswith("<svg")


def test_a_finished_seed_is_not_run_again(loop: tuple[Any, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from placings.studies import live_loop

    monkeypatch.setattr(live_loop, "run_seed", lambda *_: pytest.fail("the seed was run again"))
    again = live_loop.run_live_loop(
        loop[1], seeds=[7], settings=loop[0].settings, places=make_towns(), progress=False
    )
    assert again.to_dict() == loop[0].to_dict()
