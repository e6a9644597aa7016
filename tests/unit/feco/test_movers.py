"""Movers: the last windows against those before, by segment, the largest change first."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadInput
from placings.feco.trend import rank_movers


def make_frame(shares: list[float], events: int = 1000, **columns: str) -> pd.DataFrame:
    days = pd.date_range("2024-01-01", periods=len(shares))
    facts = {"coverage": shares, "events": events, "covered": np.array(shares) * events}
    return pd.DataFrame({"feature": "rating", **columns, "window": days, **facts})


def test_seven_windows_are_held_against_the_seven_before() -> None:
    found = rank_movers(make_frame([0.1] * 6 + [0.9] * 7 + [0.5] * 7))
    assert len(found) == 1
    assert (found[0].before, found[0].after) == (pytest.approx(0.9), pytest.approx(0.5))
    assert found[0].low < found[0].change < found[0].high < 0.0
    assert found[0].is_sure


def test_a_segments_move_stands_above_the_whole() -> None:
    north = make_frame([0.9] * 7 + [0.3] * 7, region="north")
    south = make_frame([0.9] * 14, region="south")
    found = rank_movers(pd.concat([north, south]))
    assert [dict(mover.segment) for mover in found] == [{"region": "north"}, {}, {"region": "south"}]
    assert found[1].change == pytest.approx(-0.3)
    assert not found[2].is_sure


def test_few_windows_are_halved_and_one_moves_nowhere() -> None:
    assert rank_movers(make_frame([0.9, 0.9, 0.1]))[0].change == pytest.approx(-0.8)
    assert rank_movers(make_frame([0.9])) == ()


def test_small_segments_are_left_out() -> None:
    assert rank_movers(make_frame([0.9, 0.1], events=49)) == ()
    assert len(rank_movers(make_frame([0.9, 0.1], events=50))) == 1


def test_a_frame_without_windows_is_refused() -> None:
    with pytest.raises(BadInput, match="has no windows"):
        rank_movers(make_frame([0.9]).drop(columns="window"))
