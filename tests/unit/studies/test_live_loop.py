"""How the loop's weeks are judged: by the people's own sums, in both worlds, with people drawn as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from placings.core import BadInput
from placings.studies.live_loop import LiveLoopSettings, judge_cells

SETTINGS = LiveLoopSettings(people=2, before=1, weeks=1, bootstrap=200)
LOG = {"ann": [1.0, 2.0], "ben": [0.5, 1.0]}
ACCOUNT = {
    "seed": 0, "nothing_lost": True, "acknowledged": 3, "sent_again": 1, "exported": 3, "joined": 3,
    "lists": 4, "lists_exported": 4, "fallbacks": {"budget": 2},
}  # fmt: skip


def make_cell(seed: int = 0, **account: Any) -> dict[str, Any]:
    """A week before, and one in which the service is better for ann and as good for ben."""
    served = {"ann": [2.0, 2.0], "ben": [0.5, 1.0]}
    weeks = [
        {"is_served": False, "bare": LOG, "served": LOG, "same": LOG},
        {"is_served": True, "bare": LOG, "served": served, "same": {"ann": [1.5, 2.0], "ben": [0.5, 1.0]}},
    ]
    return {"seed": seed, "weeks": weeks, "account": {**ACCOUNT, "seed": seed, **account}}


def test_the_gain_is_the_difference_of_means_over_searches() -> None:
    found = judge_cells([make_cell()], SETTINGS)
    before, served = found.weeks
    assert before["gain"] == [0.0, 0.0, 0.0]
    assert served["served"][0] == pytest.approx((2.0 + 0.5) / (2 + 1))
    assert served["bare"][0] == pytest.approx((1.0 + 0.5) / (2 + 1))
    assert served["gain"][0] == pytest.approx(1 / 3)
    assert served["gain_same"][0] == pytest.approx(0.5 / 3)


def test_people_are_drawn_with_all_they_did_in_both_worlds() -> None:
    (_, served), gains = (found := judge_cells([make_cell()], SETTINGS)).weeks, found.gains
    assert served["gain"][1:] == pytest.approx([0.0, 0.5])  # ben twice, ann twice: 2/2 - 1/2
    assert [row["seed"] for row in gains] == [0, None]


def test_people_of_two_seeds_are_different_people() -> None:
    found = judge_cells([make_cell(0), make_cell(1)], SETTINGS)
    assert found.weeks[1]["people"] == 4
    assert found.gains[-1]["searches"] == 6


def test_a_lost_click_and_lists_left_to_the_engine_are_said() -> None:
    found = judge_cells([make_cell(0), make_cell(1, nothing_lost=False, exported=2)], SETTINGS)
    assert not found.nothing_lost
    assert "NOT ALL THERE" in found.table()
    assert "budget 2" in found.table()


def test_the_picture_has_both_worlds_and_the_goal() -> None:
    pytest.importorskip("matplotlib")
    from placings.report import draw_weeks

    drawn = draw_weeks(judge_cells([make_cell()], SETTINGS).weeks, goal=0.02)
    assert "through the service" in drawn
    assert "goal, 0.02" in drawn
    with pytest.raises(BadInput, match="no week to draw"):
        draw_weeks([])


def test_settings_that_make_no_loop_are_refused() -> None:
    with pytest.raises(BadInput, match="weeks must be 1 or more"):
        LiveLoopSettings(weeks=0)
