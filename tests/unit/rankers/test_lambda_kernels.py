"""LambdaRank's gradients against a slow, obvious sum over pairs; XE-NDCG's against its formulas."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log2
from typing import Any

import numpy as np
import pytest

from placings.core import Floats, Ints
from placings.data import RankingData
from placings.rankers.lambda_kernels import CrossEntropyGradients, LambdaGradients, LambdaRules
from placings.rankers.xgb import make_gradients

SINGLE = {"rtol": 1e-5, "atol": 1e-7}  # float32 of sums of a few dozen float64


def make_lists(seed: int = 0) -> tuple[Floats, Floats, Floats, Ints]:
    """Scores, grades, weights and offsets of lists of 0, 1 and more rows; ties among scores and grades."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, 7, 0, 1, 12, 2, 9])
    rows = int(offsets[-1])
    scores = np.round(rng.normal(size=rows) * 2.0, 1)
    return scores, rng.integers(0, 4, rows).astype(float), rng.uniform(0.2, 5.0, rows), offsets


def sum_pairs(
    scores: Floats, labels: Floats, gains: Floats, weight: Floats, offsets: Ints, rules: LambdaRules
) -> tuple[Floats, Floats]:
    gradient, bend = np.zeros((2, len(scores)))
    for start, stop in pairwise(offsets.tolist()):
        rows = range(start, stop)
        ranked = sorted(rows, key=lambda row: -scores[row])
        rank = {row: place for place, row in enumerate(ranked)}
        ideal = sum(g / log2(2 + r) for r, g in enumerate(sorted(gains[start:stop])[::-1][: rules.depth]))
        if rules.swap and ideal == 0:
            continue
        total = 0.0
        for i in rows:
            for j in rows:
                if labels[i] <= labels[j] or min(rank[i], rank[j]) >= rules.depth:
                    continue
                worth = 1.0
                if rules.swap:
                    worth = (gains[i] - gains[j]) * abs(1 / log2(2 + rank[i]) - 1 / log2(2 + rank[j])) / ideal
                if rules.by_distance and len({scores[row] for row in rows}) > 1:
                    worth /= 0.01 + abs(scores[i] - scores[j])
                share = 1 / (1 + exp(rules.sigmoid * (scores[i] - scores[j])))
                push = rules.sigmoid * worth * share
                bent = rules.curvature * rules.sigmoid**2 * worth * share * (1 - share)
                total += 2 * push
                gradient[i] -= weight[i] * push
                gradient[j] += weight[i] * push
                bend[i] += weight[i] * bent
                bend[j] += weight[i] * bent
        if rules.by_total and total > 0:
            gradient[start:stop] *= log2(1 + total) / total
            bend[start:stop] *= log2(1 + total) / total
    return gradient, bend


RULES = {
    "LightGBM": LambdaRules(),
    "a depth": LambdaRules(depth=3, sigmoid=2.0),
    "plain": LambdaRules(by_distance=False, by_total=False),
    "XGBoost": LambdaRules(depth=32, curvature=2.0, least=1e-16),
    "pairwise": LambdaRules(swap=False, by_distance=False, curvature=2.0),
}


@pytest.mark.parametrize("name", RULES)
def test_gradients_are_sums_over_pairs_weighed_by_the_better_row(name: str) -> None:
    scores, labels, weight, offsets = make_lists()
    gains = 2.0**labels - 1.0
    expected = sum_pairs(scores, labels, gains, weight, offsets, RULES[name])
    found = LambdaGradients(labels, gains, weight, offsets, RULES[name]).at(scores)
    np.testing.assert_allclose(found[0], expected[0], **SINGLE)
    np.testing.assert_allclose(found[1], expected[1], **SINGLE)
    assert found[0].dtype == np.float32
    assert np.abs(found[0]).max() > 0.1


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels, weight, offsets = make_lists()
    one = LambdaGradients(labels, 2.0**labels - 1.0, weight, offsets).at(scores)
    monkeypatch.setattr("placings.rankers.lambda_kernels.ROWS_A_CHUNK", 5)
    two = LambdaGradients(labels, 2.0**labels - 1.0, weight, offsets, threads=2).at(scores)
    np.testing.assert_array_equal(one, two)


def test_the_weight_of_a_whole_query_multiplies_its_gradients() -> None:
    scores, labels, _, offsets = make_lists()
    of_query = np.array([2.0, 1.0, 1.0, 0.0, 3.0, 0.5])
    per_row = np.repeat(of_query, np.diff(offsets))
    for make in (
        lambda weight: LambdaGradients(labels, 2.0**labels - 1.0, weight, offsets),
        lambda weight: CrossEntropyGradients(labels, weight, offsets, np.random.default_rng(0)),
    ):
        plain, weighed = make(np.ones(len(labels))).at(scores), make(per_row).at(scores)
        np.testing.assert_allclose(weighed[0], per_row * plain[0], **SINGLE)
        np.testing.assert_allclose(weighed[1], per_row * plain[1], **SINGLE)


def test_scores_far_apart_overflow_nothing() -> None:
    labels, offsets = np.array([1.0, 0.0, 1.0]), np.array([0, 3])
    for make in (
        LambdaGradients(labels, labels, np.ones(3), offsets),
        CrossEntropyGradients(labels, np.ones(3), offsets, np.random.default_rng(0)),
    ):
        gradient, bend = make.at(np.array([-1e4, 1e4, 0.0]))
        assert np.isfinite(gradient).all()
        assert np.isfinite(bend).all()


def test_the_cross_entropy_pulls_to_the_weighed_share() -> None:
    """First order: share − target / Σ targets; of two rows the third order undoes the second."""

    class Even(np.random.Generator):
        def random(self, size: Any = None, *_: Any) -> Any:  # type: ignore[override]
            return np.zeros(size)

    labels, weight = np.array([1.0, 2.0]), np.array([3.0, 1.0])
    gradients = CrossEntropyGradients(labels, weight, np.array([0, 2]), Even(np.random.PCG64(0)))
    gradient, bend = gradients.at(np.zeros(2))
    # gains 1 and 3, mean weight 2: targets 2 + 3 · 1 = 5 and 2 + 1 · 3 = 5 over 2 + 4, so T = 10/6; ½ − ½ = 0
    np.testing.assert_allclose(gradient, [0.0, 0.0], atol=1e-7)
    np.testing.assert_allclose(bend, [10 / 6 / 4, 10 / 6 / 4], rtol=1e-6)
    even = CrossEntropyGradients(labels, np.ones(2), np.array([0, 2]), Even(np.random.PCG64(0)))
    # targets 2 and 4 over 6. First: ½ − 1/3 = 1/6, over 1 − ½: ±1/3; second: −1/6, third: 1/6
    np.testing.assert_allclose(even.at(np.zeros(2))[0], [1 / 6, -1 / 6], rtol=1e-6)


def test_the_weight_of_a_row_without_gain_says_nothing() -> None:
    scores, labels, weight, offsets = make_lists()
    found = [
        CrossEntropyGradients(
            labels, np.where(labels > 0.0, weight, other), offsets, np.random.default_rng(0)
        ).at(scores)[0][: offsets[1]]
        for other in (1.0, 50.0)
    ]
    np.testing.assert_array_equal(*found)


# -- the libraries' own ------------------------------------------------------------------------------


def make_one_tree() -> tuple[Floats, Floats, Floats, Ints, Floats]:
    """Lists of 3 to 40 rows, each with its own value of one feature, grades and scores to start from."""
    rng = np.random.default_rng(0)
    sizes = np.array([40, 12, 3, 25])
    rows = int(sizes.sum())
    places = rng.permutation(rows).astype(float)[:, None]
    return places, rng.integers(0, 4, rows).astype(float), 2.0 * rng.normal(size=rows), sizes, np.ones(rows)


@pytest.mark.parametrize(
    "params", [{}, {"lambdarank_truncation_level": 5}, {"lambdarank_norm": False, "sigmoid": 2.0}]
)
def test_leaves_of_lightgbms_first_tree_are_ours(params: dict[str, Any]) -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, labels, scores, sizes, ones = make_one_tree()
    silent = {"verbosity": -1, "min_data_in_bin": 1, "max_bin": 1000}
    dataset = lightgbm.Dataset(X, labels, group=sizes, init_score=scores, params=silent)
    grow = {"objective": "lambdarank", "learning_rate": 1.0, "num_leaves": 200, "min_data_in_leaf": 3}
    booster = lightgbm.train({**silent, **grow, "min_sum_hessian_in_leaf": 1e-6, **params}, dataset, 1)
    norm = params.get("lambdarank_norm", True)
    depth, sigmoid = params.get("lambdarank_truncation_level", 30), params.get("sigmoid", 1.0)
    rules = LambdaRules(depth, sigmoid, by_distance=norm, by_total=norm)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    gradient, bend = LambdaGradients(labels, 2.0**labels - 1.0, ones, offsets, rules).at(scores)
    leaf = booster.predict(X, pred_leaf=True).ravel().astype(int)
    expected = -np.bincount(leaf, gradient) / np.bincount(leaf, bend)
    assert len(expected) >= 15
    # LightGBM looks its sigmoid up in a table
    np.testing.assert_allclose(booster.predict(X), expected[leaf], rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:pairwise"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"lambdarank_num_pair_per_sample": 4},
        {"lambdarank_normalization": False},
        {"lambdarank_score_normalization": False},
    ],
    ids=str,
)
def test_leaves_of_xgboosts_first_tree_are_ours(objective: str, params: dict[str, Any]) -> None:
    xgboost = pytest.importorskip("xgboost")
    X, labels, scores, sizes, _ = make_one_tree()
    matrix = xgboost.DMatrix(X, labels, group=sizes, base_margin=scores)
    grow = {"objective": objective, "eta": 1.0, "max_depth": 60, "lambda": 0.0, "min_child_weight": 0.0}
    booster = xgboost.train({**grow, "tree_method": "exact", "verbosity": 0, **params}, matrix, 1)
    data = RankingData.from_arrays(X, labels, np.repeat(np.arange(4), sizes), weight=np.ones(len(labels)))
    gradient, bend = make_gradients(data, labels, {"objective": objective, **params}, 1).at(scores)
    found = booster.predict(matrix, output_margin=True) - scores
    leaf = booster.predict(matrix, pred_leaf=True).astype(int).ravel()
    steep, bent = np.bincount(leaf, gradient)[leaf], np.bincount(leaf, bend)[leaf]
    moved = bent > 0.0  # rows of no pair at this depth have a leaf of no slope
    np.testing.assert_allclose(
        found[moved], -(steep / np.where(moved, bent, 1.0))[moved], rtol=2e-4, atol=1e-3
    )
