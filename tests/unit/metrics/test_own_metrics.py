"""Metrics of the user's own: measured beside ours, with the same rules, in every table."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import placings as pg
from placings.core.errors import BadInput, UnknownName
from placings.metrics import HELD_METRICS, measure, metric, ndcg, register_metric
from placings.metrics.own import OWN_METRICS

SCORES, LABELS, OFFSETS = [0.9, 0.8, 0.7, 0.1], [0.0, 3.0, 1.0, 0.0], [0, 2, 3, 4]


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    # also before: examples of the docs that ran in this process may have registered some
    OWN_METRICS.clear()
    HELD_METRICS.clear()
    yield
    OWN_METRICS.clear()
    HELD_METRICS.clear()


def top_label(scores: Any, labels: Any) -> float:
    return float(labels[scores.argmax()])


def shun_label(scores: Any, labels: Any) -> float:
    return -top_label(scores, labels)


def gains(scores: Any, labels: Any, offsets: Any, *, k: int = 1) -> Any:
    spans = pairwise(offsets)
    return [labels[a:b][np.argsort(-scores[a:b], kind="stable")[:k]].sum() for a, b in spans]


def judged(scores: Any, labels: Any) -> float:
    return float("nan") if not labels.any() else 0.5


def test_a_function_of_one_query_and_one_of_all_are_measured_beside_ours() -> None:
    found = measure([top_label, gains, "gains@2", "mrr"], SCORES, LABELS, OFFSETS)
    assert list(found) == ["top_label", "gains", "gains@2", "mrr"]
    assert found["top_label"].tolist() == [0.0, 1.0, 0.0]
    assert found["gains@2"].tolist() == [3.0, 1.0, 0.0]
    assert found["mrr"].tolist()[:2] == [0.5, 1.0]


def test_nan_leaves_a_query_out_or_counts_as_the_rule_says() -> None:
    assert np.isnan(measure(judged, SCORES, LABELS, OFFSETS)["judged"]).tolist() == [False, False, True]
    assert measure(judged, SCORES, LABELS, OFFSETS, empty="zero")["judged"].tolist() == [0.5, 0.5, 0.0]
    short = measure(judged, SCORES, LABELS, OFFSETS, min_items=2, empty="one")["judged"]
    assert np.isnan(short).tolist() == [False, True, True]


def test_our_own_function_is_the_metric_of_its_name() -> None:
    assert metric(ndcg) == metric("ndcg")


def test_a_registered_metric_has_a_direction_and_bounds() -> None:
    register_metric("cost", lambda scores, labels: float(len(labels)), lower_is_better=True, bounds=(0, 9))
    assert (metric("cost").lower_is_better, metric("COST").bounds) == (True, (0.0, 9.0))
    data = pg.RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, 2])
    assert pg.evaluate(data.X[:, 0], data, "cost")["cost"] == 1.0


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda scores, labels: "much", "must give one number for a query"),
        (lambda scores, labels: [1, 2], "must give one number for a query"),
        (lambda scores, labels, offsets: 0.5, "must give an array of 2 numbers"),
        (lambda scores, labels: float("inf"), "must give finite numbers"),
        (lambda scores: 1.0, r"failed on two small queries \(TypeError"),
        (lambda scores, labels: labels["x"], "failed on two small queries"),
    ],
)
def test_what_is_wrong_with_a_function_is_said_before_anything_is_scored(function: Any, said: str) -> None:
    data = pg.RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, 1])
    with pytest.raises(BadInput, match=said):
        pg.evaluate(object(), data, function)


def test_two_functions_of_one_name_and_names_that_are_taken_are_refused() -> None:
    with pytest.raises(BadInput, match="two functions are both called 'own'"):
        measure([lambda s, y: 0.0, lambda s, y: 1.0], SCORES, LABELS)
    for name in ("ndcg", "ap", "No", "a:b"):
        with pytest.raises(BadInput, match="Give yours another name|must be small letters"):
            register_metric(name, top_label)
    with pytest.raises(BadInput, match="bounds must be"):
        register_metric("mine", top_label, bounds=(1, 0))
    register_metric("mine", top_label)
    with pytest.raises(BadInput, match="takes no cutoff"):
        metric("mine@3")


def test_an_unknown_name_is_answered_with_how_to_register_it_unless_it_is_a_slip() -> None:
    with pytest.raises(UnknownName, match=r"call pg.register_metric\('revenue', …\) first"):
        metric("revenue")
    with pytest.raises(UnknownName, match="did you mean 'ndcg'"):
        metric("ndgc")


DATA = pg.make_ranking(24, n_features=3, mean_size=8, random_state=0).data


def test_evaluate_compare_tune_and_the_scorer_take_a_function() -> None:
    x = DATA.X[:, 0]
    assert pg.evaluate(x, DATA, top_label)["top_label"] == np.mean(
        measure(top_label, x, DATA.y, DATA.offsets)["top_label"]
    )
    compared = pg.compare({"a": x, "b": -x}, DATA, [top_label, "mrr"], baseline="a", permutations=99)
    assert compared.difference("b", "top_label").baseline == "a"
    found = pg.tune("ridge", DATA, trials=2, metric=top_label, random_state=0)
    assert found.metric == "top_label"
    assert pg.scorer(top_label).metric == metric("top_label")


def test_workers_of_tune_do_not_have_the_function_which_is_said() -> None:
    with pytest.raises(BadInput, match=r"'top_label' is a function of this process.*workers=1"):
        pg.tune("ridge", DATA, trials=2, metric=top_label, workers=2)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_trees_stop_early_by_a_function(name: str) -> None:
    ranker: Any = pg.make_ranker(name, metric=top_label, rounds=8, random_state=0)
    ranker.fit(DATA, valid=DATA)
    best = max(ranker.history_)
    reached = measure(top_label, ranker.predict(DATA), DATA.y, DATA.offsets)["top_label"].mean()
    assert reached == pytest.approx(best, abs=1e-6)


def test_a_network_keeps_the_weights_that_a_function_likes_best() -> None:
    ranker = pg.NeuralRanker(  # ridges would join it after the last check, and move its scores
        metric=top_label, hidden=[4], members=1, ridge=False, steps=40, check_every=10, random_state=0
    ).fit(DATA, valid=DATA)
    best = max(value for _, value in ranker.history_.checks)
    assert pg.evaluate(ranker, DATA, top_label)["top_label"] == pytest.approx(best, abs=1e-6)


def test_ridges_join_a_network_by_what_a_function_likes() -> None:
    settings: Any = {"hidden": [4], "members": 1, "steps": 1, "random_state": 0}
    likes = pg.NeuralRanker(metric=top_label, **settings).fit(DATA, valid=DATA)
    shuns = pg.NeuralRanker(metric=shun_label, **settings).fit(DATA, valid=DATA)
    found = [pg.evaluate(each, DATA, top_label)["top_label"] for each in (likes, shuns)]
    assert found[0] > found[1], (likes.shares_, shuns.shares_)
