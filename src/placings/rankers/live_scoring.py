"""Scores for one list as quickly as they can be had: no threads, no checks, nothing built anew.

A ranker's `predict` is made for many rows: it checks them, splits them, starts threads. One live list has
forty. `make_scorer` gives a function of a dense list `[rows, features]` that does only the arithmetic: a
network as plain matrices, trees in one thread. It is compared with the ranker's own scores when it is made,
and whatever it does not know is left to the ranker.
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
Function: TypeAlias = Callable[[Floats32], Floats32]
TOLERANCE = 1e-6  # of the largest score: float32 sums in another order


class _Unknown(Exception):
    """A part of a network that has no plain form here."""


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
    rows = np.ascontiguousarray(sample, dtype=np.float32)
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

    return score


# -- a network as plain matrices -----------------------------------------------------------------------


def _score_network(ranker: Any) -> Scorer:
    network = ranker.network_
    if ranker.bag_ or type(network).__name__ != "FeedForward":
        raise _Unknown
    steps = [_read_prepared(network.transform), *_read_stack(network.layers)]
    members = network.layers.members

    def score(rows: Floats32) -> Floats:
        x = rows
        with np.errstate(all="ignore"):  # what overflows is seen by its score
            for step in steps:
                x = step(x)
        return np.asarray(x.mean(axis=1) if members > 1 else x[:, 0], dtype=np.float64)

    return score


def _read_prepared(layer: Any) -> Function:
    """Missing values filled, the transform, the indicator columns."""
    if type(layer).__name__ != "Prepared":
        raise _Unknown
    function, fill = _read_layer(layer.function), _as_array(layer.fill)
    largest = np.float32(np.finfo(np.float32).max)
    places = layer.places.cpu().numpy().astype(np.int64) if layer.flagged else None

    def prepare(x: Floats32) -> Floats32:
        missing = np.isnan(x)
        filled = np.clip(np.where(missing, fill, x), -largest, largest)
        out = function(filled)
        return out if places is None else np.concatenate([out, missing[:, places].astype(np.float32)], axis=1)

    return prepare


def _read_layer(layer: Any) -> Function:
    readers: dict[str, Callable[[Any], Function]] = {
        "MixtureLayer": _read_mixture, "Standard": _read_standard, "Scale": _read_scale, "Steps": _read_steps,
        "Logarithm": lambda _: lambda x: np.copysign(np.log1p(np.abs(x)), x),
        "Identity": lambda _: lambda x: x,
        "Clamp": _read_clamp,
    }  # fmt: skip
    name = type(layer).__name__
    if name not in readers:
        raise _Unknown
    return readers[name](layer)


def _read_mixture(layer: Any) -> Function:
    bases = [_read_layer(basis) for basis in layer.bases]
    shares = np.ascontiguousarray(_as_array(layer.weights()).T)

    def mix(x: Floats32) -> Floats32:
        out: Floats32 = bases[0](x) * shares[0]
        for basis, share in zip(bases[1:], shares[1:], strict=True):
            out += basis(x) * share
        return out

    return mix


def _read_standard(layer: Any) -> Function:
    inner, center, inverse = _read_layer(layer.inner), _as_array(layer.center), _as_array(layer.inverse)
    return lambda x: (inner(x) - center) * inverse


def _read_scale(layer: Any) -> Function:
    power, shift, rest, divisor = (
        _as_array(getattr(layer, name)) for name in ("power", "shift", "rest", "divisor")
    )
    low, high = (np.float32(end) for end in layer.ends)

    def scale(x: Floats32) -> Floats32:
        out: Floats32 = np.clip(((x * power - shift) - rest) / divisor, low, high)
        return out

    return scale


def _read_clamp(layer: Any) -> Function:
    low, high = _as_array(layer.low), _as_array(layer.high)
    return lambda x: np.minimum(np.maximum(x, low), high)


def _read_steps(layer: Any) -> Function:
    if layer.unrolled or not HAVE_NUMBA:
        raise _Unknown
    from placings.rankers.live_kernels import look_up_steps

    knots, table = _as_array(layer.knots), _as_array(layer.table)
    counts = np.isfinite(knots).sum(axis=1).astype(np.int64)
    on_knots = bool(layer.on_knots)

    def look_up(x: Floats32) -> Floats32:
        out = np.empty_like(x)
        look_up_steps(x, knots, counts, table, on_knots, out)
        return out

    return look_up


def _read_stack(stack: Any) -> list[Function]:
    steps: list[Function] = []
    for layer in stack.layers:
        name = type(layer).__name__
        if name == "RowNorm":
            steps.append(_read_norm(layer))
        elif name == "Linear":
            steps.append(_read_linear(layer))
        elif name == "MemberLinear":
            steps.append(_read_members(layer))
        elif name != "RowDropout":
            steps.append(_find_activation(name))
    return steps


def _read_norm(layer: Any) -> Function:
    mean, variance = _as_array(layer.running_mean), _as_array(layer.running_var)
    scale = (_as_array(layer.weight) / np.sqrt(variance + np.float32(layer.eps))).astype(np.float32)
    bias = _as_array(layer.bias)
    return lambda x: (x - mean) * scale + bias


def _read_linear(layer: Any) -> Function:
    weight, bias = np.ascontiguousarray(_as_array(layer.weight).T), _as_array(layer.bias)
    return lambda x: x @ weight + bias


def _read_members(layer: Any) -> Function:
    weight, bias = _as_array(layer.weight), _as_array(layer.bias)
    members, inputs, outputs = weight.shape
    if layer.shared:
        joined = np.ascontiguousarray(weight.transpose(1, 0, 2).reshape(inputs, members * outputs))
        return lambda x: x @ joined + bias

    def apply(x: Floats32) -> Floats32:
        rows = x.reshape(len(x), members, inputs).transpose(1, 0, 2)
        out: Floats32 = np.matmul(rows, weight).transpose(1, 0, 2).reshape(len(x), members * outputs) + bias
        return out

    return apply


def _find_activation(name: str) -> Function:
    known: dict[str, Function] = {
        "ReLU": lambda x: np.maximum(x, np.float32(0.0)),
        "Tanh": np.tanh,
        "Sigmoid": lambda x: np.float32(1.0) / (np.float32(1.0) + np.exp(-x)),
    }
    if name not in known:
        raise _Unknown
    return known[name]


def _as_array(tensor: Any) -> Floats32:
    found: Floats32 = np.ascontiguousarray(tensor.detach().cpu().numpy())
    return found
