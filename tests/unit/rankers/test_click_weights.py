"""Clicks weighed by one over their propensity: the arithmetic, what clipping costs, what is kept of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import placings as pg
from placings.core import BadInput
from placings.data import RankingData
from placings.rankers import LinearRanker, load_ranker, weigh_clicks


def make_clicks(**more: object) -> RankingData:
    return RankingData.from_arrays(
        [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.0]], [1, 0, 0, 1], [1, 1, 2, 2],
        propensity=[1.0, 0.5, 1.0, 0.25], **more,
    )  # fmt: skip


def test_a_click_weighs_one_over_its_propensity_and_clicks_weigh_1_on_average() -> None:
    found = weigh_clicks([2, 0, 1], [1.0, 0.1, 0.25])
    assert found.weights.tolist() == [1 / 2.5, 1.0, 4 / 2.5]  # 1 and 4 over their mean; no click weighs 1
    assert (found.clicks, found.share_clipped, found.bias_bound) == (2, 0.0, 0.0)
    assert found.effective_clicks == pytest.approx((1 + 4) ** 2 / (1 + 16))


def test_clipping_tells_what_it_cuts_away() -> None:
    found = weigh_clicks(
        [1, 1, 1, 0], [1.0, 0.1, 0.05, 0.01], clip=10.0
    )  # 1, 10 and 20; the last is no click
    np.testing.assert_allclose(found.weights, np.array([1, 10, 10, 7]) / 7)
    assert found.share_clipped == pytest.approx(1 / 3)
    assert found.bias_bound == pytest.approx(10 / 31)
    assert weigh_clicks([1], [0.01], clip=None).clip is None
    assert weigh_clicks([1, 1], [1.0, 0.01], clip=None).weights[1] == pytest.approx(100 / 50.5)


def test_weights_are_unbiased_where_nothing_is_clipped() -> None:
    rng = np.random.default_rng(0)
    relevance, propensity = np.array([0.9, 0.3]), np.array([0.2, 1.0])
    clicks = rng.random((20_000, 2)) < relevance * propensity
    found = weigh_clicks(clicks.ravel(), np.tile(propensity, 20_000), clip=None)
    sums = (found.weights.reshape(-1, 2) * clicks).sum(axis=0)
    # a sum of n clicks of rate c has a relative error of √((1 − c) / (n c)), here below 0.016; four of them
    assert sums[0] / sums[1] == pytest.approx(0.9 / 0.3, rel=0.07)


def test_without_a_click_or_a_row_all_weights_are_1() -> None:
    found = weigh_clicks([0, 0], [0.5, 0.1])
    assert (found.weights.tolist(), found.clicks, found.bias_bound) == ([1.0, 1.0], 0, 0.0)
    assert weigh_clicks([], []).weights.shape == (0,)


@pytest.mark.parametrize(
    ("labels", "propensity", "clip", "message"),
    [
        ([1], [0.0], 10.0, "propensity must be above 0 and at most 1. Got 0.0 at row 0"),
        ([1], [np.nan], 10.0, "propensity must be above 0 and at most 1. Got nan"),
        ([1, 0], [0.5], 10.0, "propensity must have one value for each of the 2 rows. Got 1"),
        ([1], None, 10.0, "propensity must have one value for each row. Got None"),
        ([[1]], [0.5], 10.0, "labels must be one-dimensional"),
        ([1], [0.5], 0.5, "clip must be a finite number of 1 or more, or None for no clip. Got 0.5"),
        ([1], [0.5], np.inf, "clip must be a finite number"),
        ([1], [0.5], True, "clip must be a finite number"),
        ([1], [0.5], "10", "clip must be a finite number"),
    ],
)
def test_what_cannot_be_weighed_is_refused(
    labels: object, propensity: object, clip: object, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        weigh_clicks(labels, propensity, clip=clip)  # type: ignore[arg-type]


def test_a_propensity_of_the_data_is_the_same_as_its_weights() -> None:
    data = make_clicks()
    weights = weigh_clicks(data.y, data.propensity).weights
    by_hand = LinearRanker().fit(data.replace(propensity=None, weight=weights))
    np.testing.assert_array_equal(LinearRanker().fit(data).coef_, by_hand.coef_)
    assert "propensity" not in by_hand.training_
    naive = LinearRanker().fit(data.replace(propensity=None))
    assert (naive.coef_ != by_hand.coef_).any()


def test_a_weight_and_a_propensity_are_multiplied() -> None:
    given = np.array([2.0, 2.0, 3.0, 3.0])
    data = make_clicks(weight=given)
    weights = weigh_clicks(data.y, data.propensity).weights * given
    by_hand = LinearRanker().fit(data.replace(propensity=None, weight=weights))
    np.testing.assert_array_equal(LinearRanker().fit(data).coef_, by_hand.coef_)
    np.testing.assert_array_equal(data.weight, given)  # what was given stays as it is


def test_what_was_done_is_kept_in_the_bundle(tmp_path: Path) -> None:
    data = make_clicks().replace(propensity=[1.0, 0.5, 1.0, 0.01])
    ranker = LinearRanker().fit(data)
    facts = ranker.training_["propensity"]
    assert (facts["clip"], facts["clicks"], facts["share_clipped"]) == (10.0, 2, 0.5)
    assert facts["bias_bound"] == pytest.approx(90 / 101)
    ranker.save(tmp_path / "model")
    assert load_ranker(tmp_path / "model").training_ == ranker.training_


def test_members_of_a_mean_weigh_clicks_once() -> None:
    data = make_clicks()
    ranker = pg.MeanRanker(members={"ranksvm": {}, "ridge": {}}).fit(data)
    for name, member in ranker.members_.items():
        alone = pg.make_ranker(name).fit(data)
        np.testing.assert_array_equal(member.coef_, alone.coef_)  # type: ignore[attr-defined]
    assert ranker.training_["propensity"] == {**alone.training_["propensity"], "weighs": "members"}
