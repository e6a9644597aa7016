"""Importance: shuffling by query, gain, splits and contributions behind one door."""

from __future__ import annotations

import doctest
import json
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from placings.core.errors import BadInput, UnknownName
from placings.core.statistics import bootstrap_means
from placings.data.ranking import RankingData
from placings.evaluation.importance import permute_importance, rank_importance
from placings.metrics import ndcg
from placings.rankers.lgbm import LightGBMRanker
from placings.rankers.linear import LinearRanker
from placings.rankers.original import OriginalOrder
from placings.simulate.rankings import make_ranking

DATA = make_ranking(30, n_features=5, mean_size=20, random_state=0).data


class Sum:
    """Scores are the sum of the columns, weighted; it needs no training."""

    def __init__(self, *weights: float) -> None:
        self.weights = np.array(weights)

    def predict(self, data: RankingData) -> Any:
        return np.asarray(data.X @ self.weights)


def two_columns() -> RankingData:
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(400, 2)), 3).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = 0
    return RankingData.from_arrays(X, (X[:, 0] > 0.5).astype(float), np.repeat(np.arange(40), 10))


def test_a_feature_that_decides_is_worth_what_chance_costs() -> None:
    data = two_columns()
    found = permute_importance(Sum(1.0, 0.0), data, repeats=20)
    perfect = np.nanmean(ndcg(data.X[:, 0], data.y, data.offsets, k=10))
    chance = np.nanmean(
        [
            ndcg(np.random.default_rng(seed).random(data.n_rows), data.y, data.offsets, k=10)
            for seed in range(40)
        ]
    )
    assert perfect == 1.0
    assert found.names == ("f1", "f2")
    assert found["f1"] == pytest.approx(perfect - chance, abs=0.03)
    assert found["f2"] == 0.0
    assert found.low[0] < found["f1"] < found.high[0]


def test_a_query_keeps_its_values_and_within_all_it_does_not() -> None:
    data = two_columns()
    turned = np.where(data.query_index < 20, 1.0, -1.0).astype(np.float32)  # half of the queries want less
    data = data.replace(X=np.column_stack([data.X[:, 0], turned]), y=(data.X[:, 0] * turned > 0.5) * 1.0)
    product = type("Product", (), {"predict": lambda self, given: given.X[:, 0] * given.X[:, 1]})()
    assert permute_importance(product, data)["f2"] == 0.0
    assert permute_importance(product, data, within="all")["f2"] > 0.2


def test_a_mean_is_that_of_its_queries_and_dropped_queries_are_nan() -> None:
    data = two_columns()
    data = data.replace(y=np.where(data.query_index == 3, 0, data.y))
    found = permute_importance(Sum(1.0, 0.2), data)
    assert found.per_query.shape == (2, 40)
    assert np.isnan(found.per_query[:, 3]).all()
    np.testing.assert_allclose(np.nanmean(found.per_query, axis=1), found.values)


def test_shuffling_does_not_depend_on_which_features_are_asked_for() -> None:
    data = two_columns()
    every = permute_importance(Sum(1.0, 0.5), data, random_state=3)
    some = permute_importance(Sum(1.0, 0.5), data, features=["f2"], random_state=3)
    assert some.names == ("f2",)
    assert some["f2"] == every["f2"]
    assert permute_importance(Sum(1.0, 0.5), data, random_state=4)["f2"] != every["f2"]


def test_the_data_are_left_as_they_were() -> None:
    data = two_columns()
    before = data.X.copy()
    permute_importance(Sum(1.0, 0.5), data)
    np.testing.assert_array_equal(data.X, before)


def test_sparse_data_give_the_same_numbers() -> None:
    dense = two_columns()
    sparse = dense.replace(X=csr_array(dense.X))
    first, second = (permute_importance(Sum(1.0, 0.5), data) for data in (dense, sparse))
    np.testing.assert_allclose(first.values, second.values, atol=1e-12)


def test_a_loss_is_positive_also_where_less_is_better() -> None:
    assert permute_importance(Sum(1.0, 0.0), two_columns(), "arp")["f1"] > 0


def test_the_planted_signal_is_found() -> None:
    made = make_ranking(60, n_features=5, mean_size=20, noise=0.1, random_state=1)
    ranker = LightGBMRanker(rounds=40, n_jobs=1).fit(made.data)
    found = permute_importance(ranker, made.data)
    planted = max((abs(each.weight), each.name) for each in made.truth if each.scale is not None)[1]
    assert planted in found.names[:2]


def test_one_door_gives_what_the_ranker_says() -> None:
    ranker = LightGBMRanker(rounds=5, n_jobs=1).fit(DATA)
    for kind in ("gain", "split"):
        found = rank_importance(ranker, kind)
        assert dict(zip(found.names, found.values, strict=True)) == ranker.feature_importances(kind)
        assert found.low is None
    shuffled = rank_importance(ranker, "permutation", DATA, repeats=2)
    assert shuffled.values.tolist() == permute_importance(ranker, DATA, repeats=2).values.tolist()


def test_contributions_are_averaged_by_query() -> None:
    ranker = LinearRanker(loss="ridge").fit(DATA)
    found = rank_importance(ranker, "contributions", DATA)
    parts = np.abs(ranker.contributions(DATA)[:, :-1])
    by_hand = np.mean(
        [parts[a:b].mean(0) for a, b in zip(DATA.offsets[:-1], DATA.offsets[1:], strict=True)], axis=0
    )
    expected = dict(zip(DATA.feature_names, by_hand, strict=True))
    assert {name: found[name] for name in found} == pytest.approx(expected)
    assert list(found.values) == sorted(found.values, reverse=True)
    sparse = DATA.replace(X=csr_array(DATA.X))
    assert len(rank_importance(LinearRanker(loss="ridge").fit(sparse), "contributions", sparse)) == 5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rank_importance(OriginalOrder(), "gain"), "for trees, and OriginalOrder has none"),
        (lambda: rank_importance(OriginalOrder(), "contributions", DATA), "has no contributions"),
        (lambda: rank_importance(Sum(1.0), "permutation"), "measured on data"),
        (lambda: rank_importance(Sum(1.0), "gain", DATA, repeats=3), "takes no options. Got repeats"),
        (lambda: permute_importance(Sum(1.0), DATA, repeats=0), "repeats must be"),
        (lambda: permute_importance(OriginalOrder(), DATA.replace(y=DATA.y * 0)), "nothing is relevant"),
    ],
)
def test_what_cannot_be_is_refused(call: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call()


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UnknownName, match="'gian'; did you mean 'gain'"):
        rank_importance(Sum(1.0), "gian")
    with pytest.raises(UnknownName, match="no way to permute 'queries'"):
        permute_importance(Sum(1.0), DATA, within="queries")
    with pytest.raises(UnknownName, match="no feature 'f9'"):
        permute_importance(Sum(1.0, 0.0), two_columns())["f9"]


def test_it_is_shown_and_written() -> None:
    found = permute_importance(Sum(1.0, 0.0), two_columns())
    text = found.table(top=1)
    assert "f1" in text
    assert "And 1 more, of less importance." in text
    assert "Loss of ndcg@10" in repr(found)
    assert [row["feature"] for row in json.loads(found.to_json())["features"]] == ["f1", "f2"]
    assert "<table>" in found._repr_html_()


def test_the_examples_in_the_docstrings_run() -> None:
    found = doctest.testmod(import_module("placings.evaluation.importance"))
    assert found.attempted > 0
    assert found.failed == 0


def test_intervals_of_a_log_resample_its_sessions() -> None:
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(30), 5)
    X = rng.random((150, 2))
    data = RankingData.from_arrays(X, (X[:, 0] + rng.normal(0, 0.3, 150) > 0.6).astype(float), qid)
    sessions = {"session_id": np.array([f"s{q // 3}" for q in qid], dtype=object)}

    class First:
        def predict(self, data: RankingData) -> np.ndarray:
            return np.asarray(data.X)[:, 0]

    plain, log = (permute_importance(First(), each) for each in (data, data.replace(segments=sessions)))
    assert np.array_equal(plain.values, log.values)
    low, high = bootstrap_means(log.per_query[:1].T, clusters=np.arange(30) // 3)
    assert (log.low[0], log.high[0]) == pytest.approx((low[0], high[0]), rel=1e-12)
    assert log.meaning.endswith("Intervals resample 10 sessions, 30 queries.")
