"""OriginalOrder: the engine's order, from positions or from the rows as they stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.rankers.bundles import load
from placings.rankers.original import OriginalOrder

DATA = RankingData.from_arrays(
    np.arange(5.0)[:, None], [0, 1, 0, 1, 0], ["a", "b", "a", "b", "a"], position=[3, 1, 1, 2, 2]
)
ORDER = "its score is the place of the row: that is what it is for"


@pytest.mark.filterwarnings("ignore::placings.core.errors.OneQuery")  # the checks know no queries
@parametrize_with_checks(
    [OriginalOrder()],
    expected_failed_checks=lambda ranker: {
        "check_methods_sample_order_invariance": ORDER,
        "check_methods_subset_invariance": ORDER,
        "check_array_api_input": "scikit-learn skips it unless SCIPY_ARRAY_API is set",
    },
)
def test_what_scikit_learn_asks_of_an_estimator(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_positions_are_the_order_where_they_are_known() -> None:
    assert OriginalOrder().predict(DATA).tolist() == [-3, -1, -2, -1, -2]


def test_without_positions_rows_stay_as_they_came() -> None:
    assert OriginalOrder().predict(DATA.replace(position=None)).tolist() == [-1, -2, -3, -1, -2]
    assert OriginalOrder().predict([[7.0], [9.0], [8.0]]).tolist() == [-1, -2, -3]


def test_fit_is_not_needed_and_changes_nothing() -> None:
    fitted = OriginalOrder().fit(DATA)
    np.testing.assert_array_equal(fitted.predict(DATA), OriginalOrder().predict(DATA))
    assert fitted.training_ == {"rows": 5, "queries": 2}


def test_score_is_the_ndcg_of_the_shown_order() -> None:
    # a: shown 0, 0, 0 → nothing relevant; b: labels 1, 1 → every order is ideal
    assert OriginalOrder().score(DATA) == 1.0
    # one query of two rows, the relevant one second
    assert OriginalOrder().score([[1.0], [2.0]], [0, 1], qid=[1, 1]) == pytest.approx(1 / np.log2(3))


def test_it_is_saved_and_loaded(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"Call fit\(data\) first"):
        OriginalOrder().save(tmp_path / "early")
    OriginalOrder().fit(DATA).save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(DATA), -np.asarray(DATA.position))
