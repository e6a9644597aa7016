"""One-hot columns and the engine's signals."""

from __future__ import annotations

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.features.category import OneHot
from placings.features.engine_signals import SIGNALS, EngineSignals
from placings.features.number import Number
from placings.features.spec import FeatureSet


def test_each_row_has_exactly_one_category() -> None:
    rows = {"type": ["stop", None, "poi", "unknown", "stop"]}
    features = FeatureSet([OneHot("type")]).fit(rows)
    assert features.names == ["type=poi", "type=stop", "type=unknown"]
    found = features.transform({"type": ["volcano", "stop", None, ""]})
    assert found.tolist() == [[0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 0, 1]]


def test_only_the_most_frequent_categories_have_a_column() -> None:
    features = FeatureSet([OneHot("type", limit=2)]).fit({"type": ["c", "b", "a", "c", "b", "d"]})
    assert features.names == ["type=b", "type=c", "type=unknown"]


def test_numbers_can_be_categories() -> None:
    features = FeatureSet([OneHot("floor")]).fit({"floor": [1, 2, 1]})
    assert features.transform({"floor": [2.0]}).tolist() == [[0, 1, 0]]


def test_category_limits_and_kinds_are_checked() -> None:
    with pytest.raises(BadInput, match="limit must be at least 1"):
        OneHot("type", limit=0)
    with pytest.raises(UnknownName, match="no kind 'items'"):
        OneHot("type", kind="items")
    with pytest.raises(BadInput, match="differ"):
        OneHot("type", categories=("a", "a"))
    with pytest.raises(BadInput, match="Call fit"):
        OneHot("type").names()


def signals(*measures: str, **columns: list[float | None]) -> np.ndarray:
    return np.asarray(FeatureSet([EngineSignals(measures)]).fit_transform(columns))


def test_the_engines_signals_of_a_list() -> None:
    found = signals(*SIGNALS, position=[1, 2, 4], score=[6.0, 3.0, 1.0])
    expected = [[1, 1, 6, 0, 0.6, 3], [2, 0.5, 3, 3, 0.3, 3], [4, 0.25, 1, 5, 0.1, 3]]
    np.testing.assert_array_equal(found, np.float32(expected))


def test_shares_of_negative_or_equal_scores_are_still_shares() -> None:
    np.testing.assert_array_equal(
        signals("score_share", score=[-1.0, -3.0, -4.0])[:, 0], np.float32([0.75, 0.25, 0])
    )
    np.testing.assert_array_equal(signals("score_share", score=[0.0, 0.0])[:, 0], [0.5, 0.5])
    np.testing.assert_array_equal(signals("score_share", score=[None, 0.0])[:, 0], [np.nan, 1])


def test_missing_ranks_and_scores_are_missing() -> None:
    found = signals("rank", "reciprocal_rank", "score", "score_gap", position=[None, 0], score=[None, 2.0])
    np.testing.assert_array_equal(found, [[np.nan] * 4, [0, np.nan, 2, 0]])


def test_numbers_raw_logged_and_against_their_list() -> None:
    rows = {"search_id": ["a", "a", "a", "b"], "weight": [0.0, 9.0, None, -1.0]}
    features = FeatureSet([Number("weight", ("raw", "log", "share", "rank"))]).fit(rows)
    assert features.names == ["weight", "log_weight", "weight_share", "weight_rank"]
    assert features.kinds == ["item", "item", "query-item", "query-item"]
    nan = np.nan
    expected = [[0, 0, 0, 2], [9, np.log(10), 1, 1], [nan] * 4, [-1, nan, nan, 1]]
    rounding = np.finfo(np.float32).eps  # log 10 and log1p 9 may round apart
    np.testing.assert_allclose(features.transform(rows), np.float32(expected), rtol=rounding)
