"""Rankers that look at the whole list: what a lost value costs is what scoring the masked data anew gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from placings.core.arrays import Bools, Floats
from placings.core.errors import OneQuery
from placings.data.ranking import RankingData
from placings.feco.degradation import degrade
from placings.feco.masking import count_units, darken, draw_order, find_reach, score_each
from placings.feco.relations import correlate_coverage
from placings.feco.risk import TOTAL, estimate_risk
from placings.metrics import ndcg
from placings.rankers.estimator import Ranker
from placings.rankers.lgbm import LightGBMRanker
from placings.rankers.linear import LinearRanker
from placings.rankers.mean import MeanRanker
from placings.rankers.neural import NeuralRanker
from placings.rankers.original import OriginalOrder
from placings.rankers.xgb import XGBoostRanker
from placings.simulate.rankings import make_ranking
from placings.transforms import make_transform
from placings.transforms.per_feature import PerFeature

SMALL: dict[str, Any] = {"hidden": (8,), "steps": 40, "random_state": 0}
LISTS: dict[str, Any] = {"attention": {"network": "attention", "heads": 2, "blocks": 1, "width": 8},
                         "groupwise": {"network": "groupwise", "group_size": 2}}  # fmt: skip
KINDS: dict[str, tuple[Callable[[], Ranker], str]] = {
    "ridge": (lambda: LinearRanker("ridge"), "row"),
    "lightgbm": (lambda: LightGBMRanker(rounds=10, n_jobs=1), "row"),
    "xgboost": (lambda: XGBoostRanker(rounds=10, n_jobs=1), "row"),
    "original": (OriginalOrder, "row"),
    "feedforward": (lambda: NeuralRanker(transform="gauss", **SMALL), "row"),
    "query_minmax": (lambda: NeuralRanker(transform="query_minmax", **SMALL), "list"),
    "some query_minmax": (
        lambda: NeuralRanker(
            transform=PerFeature({"query_minmax": ["click_count_log_1"]}, default="gauss"), **SMALL
        ),
        "list",
    ),
    "attention": (lambda: NeuralRanker(**LISTS["attention"], **SMALL), "list"),
    "groupwise": (lambda: NeuralRanker(**LISTS["groupwise"], **SMALL), "list"),
    "mean of rows": (
        lambda: MeanRanker(members={"ridge": {}, "neural": SMALL}),
        "row",
    ),
    "mean with attention": (
        lambda: MeanRanker(members={"ridge": {}, "neural": {**LISTS["attention"], **SMALL}}),
        "list",
    ),
}
NAME = "click_count_log_1"


@pytest.fixture(scope="module")
def parts() -> tuple[RankingData, RankingData]:
    data = make_ranking(60, n_features=3, mean_size=12, missing=0.1, random_state=0).data
    train, test = data.split(0.5, 0.5, random_state=0)
    region = np.where(np.arange(test.n_rows) % 3 == 0, "north", "south")  # differs within a list
    half = np.repeat(np.where(np.arange(test.n_queries) % 2, "a", "b"), test.sizes)
    return train, test.replace(segments={"region": region, "half": half})


@pytest.fixture(scope="module")
def fitted(parts: tuple[RankingData, RankingData]) -> Callable[[str], Ranker]:
    kept: dict[str, Ranker] = {}

    def give(kind: str) -> Ranker:
        if kind not in kept:
            kept[kind] = KINDS[kind][0]().fit(parts[0])
        return kept[kind]

    return give


def mask_and_judge(ranker: Any, test: RankingData, mask: Bools, name: str = NAME) -> Floats:
    """The slow way: a copy of the data without the values, all of it scored, NDCG@8 of each query."""
    X = np.array(test.X)
    X[mask, test.feature_names.index(name)] = 0.0
    return ndcg(ranker.predict(test.replace(X=X)), test.y, test.offsets, k=8)


def draw_masks(test: RankingData, unit: str, drop: float, draws: int) -> Iterator[tuple[Bools, float]]:
    units = count_units(test, unit)
    covered = units.cover(np.asarray(test.X[:, test.feature_names.index(NAME)]))
    for draw in range(draws):
        gone = draw_order(covered, 0, NAME, draw).first(drop)
        left = covered.copy()
        left[gone] = False
        yield units.spread(gone), float(left.mean())


@pytest.mark.parametrize("kind", KINDS)
def test_a_ranker_knows_whether_it_looks_at_the_list(kind: str, fitted: Callable[[str], Ranker]) -> None:
    assert find_reach(fitted(kind)) == KINDS[kind][1]


@pytest.mark.parametrize("unit", ["row", "event"])
@pytest.mark.parametrize("kind", KINDS)
def test_degrade_is_what_scoring_the_masked_data_gives(
    kind: str, unit: str, fitted: Callable[[str], Ranker], parts: tuple[RankingData, RankingData]
) -> None:
    ranker, test = fitted(kind), parts[1]
    found = degrade(
        ranker, None, test, NAME, drops=(0.5,), draws=3, unit=unit, metrics="ndcg@8",
        importance={NAME: 1.0}, bootstrap=0, permutations=0,
    )  # fmt: skip
    expected = np.mean([mask_and_judge(ranker, test, mask) for mask, _ in draw_masks(test, unit, 0.5, 3)], 0)
    # a list scored alone and among others differs in the last bits of float32, which turns no order here
    np.testing.assert_allclose(found.effects[0].values["ndcg@8"], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("unit", ["row", "event"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_correlation_with_coverage_is_over_the_masked_data_as_scored(
    kind: str, unit: str, fitted: Callable[[str], Ranker], parts: tuple[RankingData, RankingData]
) -> None:
    ranker, test = fitted(kind), parts[1]
    grid = (0.0, 0.4, 1.0)
    found = correlate_coverage(
        ranker, test, NAME, grid=grid, draws=2, unit=unit, importance={NAME: 1.0}, bootstrap=0
    )
    points = found.points.set_index(["drop", "draw"])
    for drop in grid:
        for draw, (mask, left) in enumerate(draw_masks(test, unit, drop, 2)):
            mask = mask if drop else np.zeros_like(mask)
            assert points.loc[(drop, draw), "value"] == pytest.approx(
                np.nanmean(mask_and_judge(ranker, test, mask)), abs=1e-9
            )
            if drop:
                assert points.loc[(drop, draw), "coverage"] == pytest.approx(left)


@pytest.mark.parametrize("unit", ["row", "event"])
@pytest.mark.parametrize("kind", KINDS)
def test_risk_is_what_scoring_the_masked_data_gives(
    kind: str, unit: str, fitted: Callable[[str], Ranker], parts: tuple[RankingData, RankingData]
) -> None:
    """By region, which differs within a list where rows are counted; half of the "north" goes dark."""
    ranker, test = fitted(kind), parts[1]
    by, dark = ("region", "north") if unit == "row" else ("half", "a")
    units = count_units(test, unit)
    chosen = test.segments[by] == dark
    chosen = chosen if unit == "row" else chosen[test.offsets[:-1]]
    covered = units.cover(np.asarray(test.X[:, test.feature_names.index(NAME)])) & chosen
    own = covered.sum() / chosen.sum()
    today = pd.DataFrame({"feature": [NAME], by: [dark], "coverage": [own / 2], "events": [10**6]})
    risk = estimate_risk(
        ranker, test, today, by=by, unit=unit, metric="ndcg@8", draws=3, bootstrap=0, skip_noise=False
    )
    full = mask_and_judge(ranker, test, np.zeros(test.n_rows, dtype=bool))
    lost = []
    for draw in range(3):
        gone = draw_order(covered, 0, f"{NAME}/{dark}", draw).first(0.5)
        lost.append(full - mask_and_judge(ranker, test, units.spread(gone)))
    expected = float(np.nanmean(np.mean(lost, axis=0)))
    assert risk[NAME].lost == pytest.approx(expected, abs=1e-9)
    assert risk.total.feature == TOTAL
    assert risk.total.lost == pytest.approx(expected, abs=1e-9)
    assert sum(part["lost"] for part in risk.segments) == pytest.approx(expected, abs=1e-9)


def test_a_list_that_is_dark_as_a_whole_is_not_scored_again(
    fitted: Callable[[str], Ranker], parts: tuple[RankingData, RankingData]
) -> None:
    """Two passes, and one over the only list of which some rows are dark."""
    ranker, test = fitted("attention"), parts[1]
    asked: list[int] = []

    def predict(data: RankingData) -> Floats:
        asked.append(data.n_queries)
        return ranker.predict(data)

    test = test.replace(X=np.where(np.asarray(test.X) == 0, 1.0, test.X))
    mask = np.zeros(test.n_rows, dtype=np.bool_)
    mask[: test.offsets[3] + 1] = True  # three whole lists, and one row of the fourth
    (found,) = score_each(predict, test, NAME, [mask], 0.0, reach="list")
    assert asked == [test.n_queries, test.n_queries, 1]
    np.testing.assert_allclose(found, ranker.predict(darken(test, {NAME: mask})), rtol=0, atol=1e-5)


class Neighbours(BaseEstimator):  # type: ignore[misc]
    """An estimator of a user's own: a row's score hangs on the mean of all rows that it is asked with."""

    def fit(self, X: Any, y: Any) -> Neighbours:
        return self

    def predict(self, X: Any) -> Floats:
        values = np.nan_to_num(np.asarray(X, dtype=np.float64))
        return np.abs(values[:, 0] - values[:, 0].mean())


def test_an_estimator_of_unknown_kind_is_scored_anew_for_every_mask(
    parts: tuple[RankingData, RankingData],
) -> None:
    train, test = parts
    plain = train.replace(X=np.nan_to_num(train.X))
    scale = make_pipeline(StandardScaler(), LinearRegression()).fit(plain.X, plain.y)
    with pytest.warns(OneQuery):  # a pipeline cannot tell the transform which rows are a list
        by_list = make_pipeline(make_transform("query_minmax"), LinearRegression()).fit(plain.X, plain.y)
    free = make_pipeline(FunctionTransformer(lambda X: X - X.mean(axis=0)), LinearRegression())
    assert find_reach(LinearRegression()) == find_reach(scale) == "row"
    assert find_reach(Neighbours()) == find_reach(by_list) == find_reach(free) == "data"
    found = degrade(
        Neighbours(), None, test, NAME, drops=(0.5,), draws=2, unit="row", metrics="ndcg@8",
        importance={NAME: 1.0}, bootstrap=0, permutations=0,
    )  # fmt: skip

    class Slow:
        def predict(self, data: RankingData) -> Floats:
            return Neighbours().predict(data.X)

    expected = np.mean([mask_and_judge(Slow(), test, mask) for mask, _ in draw_masks(test, "row", 0.5, 2)], 0)
    np.testing.assert_allclose(found.effects[0].values["ndcg@8"], expected, rtol=0, atol=1e-9)


def test_a_ranker_of_your_own_that_scores_lists_is_taken_at_its_word() -> None:
    class ByList(LinearRanker):
        def _score_lists(self, X: Any, offsets: Any) -> Any:
            return self._score(X)

    class ByPrediction(LinearRanker):
        def predict(self, X: Any, qid: Any = None) -> Floats:
            return super().predict(X, qid)

    data = make_ranking(5, n_features=2, random_state=0).data
    assert find_reach(ByList("ridge").fit(data)) == find_reach(ByPrediction("ridge").fit(data)) == "list"
