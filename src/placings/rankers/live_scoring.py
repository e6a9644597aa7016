"""Scores for one list as quickly as they can be had: no threads, no checks, nothing built anew.

A ranker's `predict` is made for many rows: it checks them, splits them, starts threads. One live list has
forty. `make_scorer` gives a function of a dense list `[rows, features]` that does only the arithmetic: a
network's operations one by one, trees as flat arrays, libraries in one thread. It is compared with the
ranker's own scores when it is made, and whatever it does not know is left to the ranker.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from placings.core import HAVE_NUMBA, Floats, Floats32
from placings.rankers.catalogue import CLASSES
from placings.rankers.estimator import Ranker
from placings.rankers.live_trees import read_forest

Scorer: TypeAlias = Callable[[Floats32], Floats]
TOLERANCE = 1e-6  # of the largest score: float32 sums in another order


class _Unknown(Exception):
    """A ranker that is left to its own way."""


def make_scorer(ranker: Ranker) -> Scorer:
    """A function that scores one dense float32 list as the ranker does, to float32's last digits.

    Its scores may be no finite numbers where sums of float32 overflow; `predict` then has the answer. It is
    of the ranker as it is now: one that is fitted again wants another.
    """
    scorer = _find_scorer(ranker)
    sample = getattr(ranker, "_sample", None)
    if isinstance(sample, np.ndarray) and not _agrees(scorer, ranker, sample):
        return _ask_ranker(ranker)
    return scorer


def _agrees(scorer: Scorer, ranker: Ranker, sample: Floats32) -> bool:
    rows = np.array(sample, dtype=np.float32, order="C")
    expected, given = _ask_ranker(ranker)(rows), scorer(rows)
    return bool((np.abs(given - expected) <= TOLERANCE * np.abs(expected).max(initial=0.0)).all())


def _ask_ranker(ranker: Ranker) -> Scorer:
    def score(rows: Floats32) -> Floats:
        return np.asarray(ranker._score_lists(rows, np.array([0, len(rows)])), dtype=np.float64)

    def predict(rows: Floats32) -> Floats:
        return np.asarray(ranker.predict(rows, np.zeros(len(rows), dtype=np.int64)), dtype=np.float64)

    return score if type(ranker).predict is Ranker.predict else predict


def _find_scorer(ranker: Ranker) -> Scorer:
    makers: dict[str, Callable[[Any], Scorer]] = {
        "MeanRanker": _score_mean,
        "AutoRanker": _score_auto,
        "LightGBMRanker": _score_lightgbm,
        "XGBoostRanker": _score_xgboost,
        "CatBoostRanker": _score_catboost,
        "LinearRanker": _score_linear,
        "NeuralRanker": _score_network,
    }
    kind = type(ranker)
    if kind.__name__ not in makers or CLASSES.get(kind.__name__) != kind.__module__:
        return _ask_ranker(ranker)
    try:
        return makers[kind.__name__](ranker)
    except _Unknown:
        return _ask_ranker(ranker)


def _score_mean(ranker: Any) -> Scorer:
    members = list(zip(map(make_scorer, ranker.members_.values()), ranker.scales_.tolist(), strict=True))

    def score(rows: Floats32) -> Floats:
        total = np.zeros(len(rows))
        for member, scale in members:
            total += member(rows) / scale
        return total / len(members)

    return score


def _score_auto(ranker: Any) -> Scorer:
    members = list(zip(map(make_scorer, ranker.models_), ranker.weights_.tolist(), strict=True))

    def score(rows: Floats32) -> Floats:
        total = np.zeros(len(rows))
        for member, weight in members:
            total += weight * member(rows)
        return total

    return score


def _score_lightgbm(ranker: Any) -> Scorer:
    booster = ranker.booster_
    forest = read_forest(booster.model_to_string()) if HAVE_NUMBA else None
    if forest is not None:
        return forest.score

    def score(rows: Floats32) -> Floats:
        found = booster.predict(rows, raw_score=True, num_threads=1, verbosity=-1)
        return np.asarray(found, dtype=np.float64)

    return score


def _score_xgboost(ranker: Any) -> Scorer:
    if ranker._linear:
        raise _Unknown
    booster = ranker.booster_.copy()
    booster.set_param({"nthread": 1})

    def score(rows: Floats32) -> Floats:
        found = booster.inplace_predict(rows, predict_type="margin", validate_features=False)
        return np.asarray(found, dtype=np.float64)

    return score


def _score_catboost(ranker: Any) -> Scorer:
    booster = ranker.booster_

    def score(rows: Floats32) -> Floats:
        found = booster.predict(rows, prediction_type="RawFormulaVal", thread_count=1)
        return np.asarray(found, dtype=np.float64)

    return score


def _score_linear(ranker: Any) -> Scorer:
    coef, fill, intercept = ranker.coef_, ranker.fill_, ranker.intercept_

    def score(rows: Floats32) -> Floats:
        return np.asarray(np.where(np.isnan(rows), fill, rows) @ coef + intercept, dtype=np.float64)

    if ranker.transform_ is None:
        return score
    apply = ranker.transform_.apply
    return lambda rows: score(apply(rows, np.array([0, len(rows)])))


def _score_network(ranker: Any) -> Scorer:
    from placings.rankers.live_network import UnknownPart, read_network

    if ranker.bag_:
        raise _Unknown
    try:
        return read_network(ranker.network_)
    except UnknownPart:
        raise _Unknown from None
