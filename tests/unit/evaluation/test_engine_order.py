"""The engine's own order as a method by itself, where the data know it."""

from __future__ import annotations

import numpy as np
import pytest

from placings import RankingData
from placings.core import BadInput
from placings.evaluation import add_engine, find_engine

X, Y, QID = [[5.0, 0.1], [7.0, 0.9], [6.0, np.nan]], [0, 1, 0], [1, 1, 1]


def test_the_position_orders_and_a_score_does_without_one() -> None:
    known = RankingData.from_arrays(X, Y, QID, position=[2, 1, 3])
    np.testing.assert_array_equal(find_engine(known), [-2.0, -1.0, -3.0])
    scored = RankingData.from_arrays(X, Y, QID, feature_names=["price", "engine_score"])
    found = find_engine(scored)
    assert found is not None
    assert np.argsort(-found).tolist() == [1, 0, 2]  # what has no score comes last
    assert find_engine(RankingData.from_arrays(X, Y, QID)) is None


def test_it_is_added_once_and_only_where_all_data_know_it() -> None:
    known = RankingData.from_arrays(X, Y, QID, position=[2, 1, 3])
    bare = RankingData.from_arrays(X, Y, QID)
    assert add_engine(["ours"], [known])
    assert not add_engine(["ours", "engine"], [known])
    assert not add_engine(["ours"], [known, bare])
    assert not add_engine(["ours"], [known], False)
    with pytest.raises(BadInput, match="baseline='engine' needs the engine's order"):
        add_engine(["ours"], [bare], baseline="engine")
