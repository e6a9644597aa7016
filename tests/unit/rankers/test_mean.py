"""The mean of several rankers: what it adds up, and what it refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placings.core.errors import BadBundle, BadInput, UnknownName
from placings.data.ranking import RankingData
from placings.rankers.bundles import load
from placings.rankers.catalogue import make_ranker
from placings.rankers.mean import MeanRanker, measure_spread

MEMBERS = {"lightgbm": {"rounds": 10, "min_data_in_leaf": 2, "random_state": 0}, "ridge": {}}


def make_data(queries: int, seed: int) -> RankingData:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * 8, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=len(X)) > 0.8).astype(float)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(queries), 8))


@pytest.fixture(scope="module")
def train() -> RankingData:
    return make_data(40, 0)


@pytest.fixture(scope="module")
def valid() -> RankingData:
    return make_data(20, 1)


def test_each_member_counts_by_how_far_its_scores_lie_apart(train: RankingData, valid: RankingData) -> None:
    mean = MeanRanker(members=MEMBERS).fit(train, valid=valid)
    expected = np.zeros(valid.n_rows)
    for name, settings in MEMBERS.items():
        scores = make_ranker(name, **settings).fit(train, valid=valid).predict(valid)
        expected += scores / measure_spread(scores, valid.offsets) / 2
    np.testing.assert_allclose(mean.predict(valid), expected, atol=1e-12)


def test_the_scale_of_a_member_does_not_matter(train: RankingData, valid: RankingData) -> None:
    mean = MeanRanker(members=MEMBERS).fit(train, valid=valid)
    before = mean.predict(valid)
    ridge = mean.members_["ridge"]
    ridge.coef_ = 1000.0 * ridge.coef_  # type: ignore[attr-defined]
    mean._measure_scales(valid)
    differences = mean.predict(valid) - before  # an intercept shifts every row alike
    np.testing.assert_allclose(differences, differences[0], atol=1e-9)


def test_a_mean_comes_back_from_its_bundle_with_its_members(train: RankingData, tmp_path: Path) -> None:
    mean = MeanRanker(members=MEMBERS).fit(train)
    mean.save(tmp_path / "mean")
    back = load(tmp_path / "mean")
    assert isinstance(back, MeanRanker)
    assert list(back.members_) == list(mean.seconds_) == ["lightgbm", "ridge"]
    for name, ranker in mean.members_.items():
        np.testing.assert_allclose(back.members_[name].predict(train), ranker.predict(train), atol=1e-12)


def test_a_changed_scale_is_noticed(train: RankingData, tmp_path: Path) -> None:
    MeanRanker(members=MEMBERS).fit(train).save(tmp_path / "mean")
    (tmp_path / "mean" / "scales.txt").write_text("1.0 1.0")
    with pytest.raises(BadBundle, match=r"scales\.txt"):
        load(tmp_path / "mean")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "members must name"),
        (["lightgbm"], "members must name"),
        ({"ridge": 5}, "members must name"),
        ({"mean": {}}, "a mean cannot be"),
    ],
)
def test_members_that_are_none_are_refused(train: RankingData, members: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        MeanRanker(members=members).fit(train)  # type: ignore[arg-type]


def test_a_name_that_no_ranker_has_lists_those_that_are(train: RankingData) -> None:
    with pytest.raises(UnknownName, match="lightgbm"):
        MeanRanker(members={"lightgmb": {}}).fit(train)


def test_a_member_that_tells_nothing_apart_changes_no_order(train: RankingData) -> None:
    mean = MeanRanker(members={**MEMBERS, "xgboost": {"rounds": 1, "learning_rate": 0.0}}).fit(train)
    without = MeanRanker(members=MEMBERS).fit(train)
    assert mean.scales_[2] == 1.0
    shown = [np.argsort(ranker.predict(train), kind="stable") for ranker in (mean, without)]
    np.testing.assert_array_equal(*shown)


def test_a_seed_reaches_members_that_name_none(train: RankingData) -> None:
    given = {"lightgbm": {"rounds": 2}, "xgboost": {"rounds": 2, "random_state": 3}}
    mean = MeanRanker(members=given, random_state=7).fit(train)
    seeds = [mean.members_[name].get_params().get("random_state") for name in given]
    assert seeds == [7, 3]
