"""Doubly robust labels: equal to c/p where nothing is clipped, filled in by the model where something is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LinearRegression

from placings.core import BadInput
from placings.data import RankingData
from placings.rankers import LinearRanker, doubly_robust_labels, estimate_relevance


def test_without_a_clip_the_label_is_the_click_over_its_propensity() -> None:
    found = doubly_robust_labels([1, 0, 1], [0.3, 0.3, 0.01], [0.9, 0.2, 0.5], clip=None)
    np.testing.assert_allclose(found, [1 / 0.3, 0.0, 100.0], rtol=1e-12)
    assert found[1] == 0.0


def test_the_guess_fills_in_what_clipping_cuts_away() -> None:
    found = doubly_robust_labels([1, 0], [0.02, 0.02], [0.4, 0.4], clip=10.0)
    # 10 · c + (1 − 10 · 0.02) · 0.4
    np.testing.assert_allclose(found, [10 + 0.8 * 0.4, 0.8 * 0.4])


def test_a_right_guess_leaves_no_bias_where_a_clip_alone_has_much() -> None:
    relevance, propensity, clip = 0.6, 0.02, 10.0
    chance = relevance * propensity  # of a click
    clicked, not_clicked = doubly_robust_labels([1, 0], [propensity] * 2, [relevance] * 2, clip=clip)
    assert chance * clicked + (1 - chance) * not_clicked == pytest.approx(relevance)
    clicked, not_clicked = doubly_robust_labels([1, 0], [propensity] * 2, [0.0, 0.0], clip=clip)
    assert chance * clicked + (1 - chance) * not_clicked == pytest.approx(
        clip * propensity * relevance
    )  # 0.12


def test_an_exposure_of_its_own_corrects_by_the_positions_an_item_could_have_had() -> None:
    # shown at 1 (p = 1) or 2 (p = 0.5) with equal chance: e = 0.75; relevance 0.8, guessed 0.5
    labels = doubly_robust_labels([1, 0, 1, 0], [1, 1, 0.5, 0.5], [0.5] * 4, exposure=[0.75] * 4)
    np.testing.assert_allclose(labels, 0.5 + (np.array([1, 0, 1, 0]) - [0.5, 0.5, 0.25, 0.25]) / 0.75)
    chances = np.array([0.8, 0.2, 0.4, 0.6]) / 2
    assert chances @ labels == pytest.approx(0.8)
    assert labels[1] < 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"relevance": [0.5, 1.5]}, "relevance must be a probability.* 2 rows. Got 1.5 at row 1"),
        ({"relevance": [0.5, np.nan]}, "Got nan at row 1"),
        ({"relevance": [0.5]}, r"Got shape \(1,\)"),
        ({"propensity": [0.5, 0.0]}, "must be above 0 and at most 1. Got 0.0 at row 1"),
        ({"exposure": [0.5]}, "exposure must have one value for each of the 2 rows. Got 1"),
        ({"clicks": [[1], [0]]}, "clicks must be one-dimensional"),
        ({"clip": 0}, "clip must be a finite number of 1 or more"),
    ],
)
def test_what_makes_no_label_is_refused(change: dict[str, Any], message: str) -> None:
    given = {"clicks": [1, 0], "propensity": [1.0, 0.5], "relevance": [0.5, 0.5]} | change
    with pytest.raises(BadInput, match=message):
        doubly_robust_labels(**given)


def test_no_rows_have_no_labels() -> None:
    assert doubly_robust_labels([], [], []).shape == (0,)


# -- the guess ---------------------------------------------------------------------------------------


def make_clicks(queries: int = 400, seed: int = 0) -> tuple[RankingData, Any]:
    """Two items a list; the second is 0.8 relevant but looked at by 3 of 10, the first is 0.4 relevant."""
    rng = np.random.default_rng(seed)
    relevance = np.tile([0.4, 0.8], queries)
    propensity = np.tile([1.0, 0.3], queries)
    clicks = rng.random(2 * queries) < relevance * propensity
    X = np.column_stack([np.tile([0.0, 1.0], queries), rng.normal(size=2 * queries)])
    return RankingData.from_arrays(
        X, clicks, np.repeat(np.arange(queries), 2), propensity=propensity
    ), relevance


def test_relevance_is_estimated_without_the_bias_of_positions() -> None:
    data, _ = make_clicks()
    for regressor in (None, LinearRegression()):
        found = estimate_relevance(data, regressor)
        # the second item's mean has an error of √(0.8 · 0.3 · 0.76 / 320) / 0.3, 0.08 a fold, 0.036 over five
        assert found[1::2].mean() == pytest.approx(0.8, abs=0.15)
        assert found[0::2].mean() == pytest.approx(0.4, abs=0.15)


def test_a_querys_own_clicks_do_not_reach_its_estimate() -> None:
    data, _ = make_clicks(40)
    before = estimate_relevance(data, LinearRegression())
    other = data.y.copy()
    other[:2] = 1.0 - other[:2]
    after = estimate_relevance(data.replace(y=other), LinearRegression())
    np.testing.assert_allclose(after[:2], before[:2], rtol=1e-9)
    assert np.abs(after[2:] - before[2:]).max() > 1e-4


def test_sparse_rows_are_estimated_as_dense_ones() -> None:
    data, _ = make_clicks(40)
    sparse = data.replace(X=csr_array(data.X))
    np.testing.assert_allclose(estimate_relevance(sparse), estimate_relevance(data))


def test_estimates_need_a_propensity_and_two_folds() -> None:
    data, _ = make_clicks(3)
    with pytest.raises(BadInput, match="data must have a propensity for each row. Got none"):
        estimate_relevance(data.replace(propensity=None))
    for folds in (1, 4, 2.0, True):
        with pytest.raises(BadInput, match="folds must be a whole number from 2 to the number of queries, 3"):
            estimate_relevance(data, folds=folds)  # type: ignore[arg-type]


def test_ridge_on_these_labels_orders_by_relevance_where_clicks_do_not() -> None:
    data, _ = make_clicks()
    naive = LinearRanker("ridge").fit(data.replace(propensity=None))
    assert naive.coef_[0] < 0.0  # 0.4 clicks at the top, 0.24 below
    assert data.propensity is not None
    labels = doubly_robust_labels(data.y, data.propensity, estimate_relevance(data))
    honest = LinearRanker("ridge").fit(data.replace(y=labels, propensity=None))
    assert honest.coef_[0] > 0.0
