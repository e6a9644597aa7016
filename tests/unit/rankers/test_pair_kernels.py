"""The sweeps against all pairs written out."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from placings.rankers import pair_kernels
from placings.rankers.pair_kernels import (
    Logistic,
    SmoothHinge,
    SquaredHinge,
    find_pairs,
    multiply_within,
    sort_scores,
    sum_shortfall,
)

CASES = ["grades", "fractions", "ties", "one level", "tiny", "weights"]


def make_case(name):
    rng = np.random.default_rng(CASES.index(name))
    sizes = [1, 2, 0, 17, 30, 1, 9]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = offsets[-1]
    labels = rng.integers(0, 4, rows).astype(float)
    scores = rng.normal(size=rows) * 1.5
    weight = None
    if name == "fractions":
        labels = rng.random(rows)
    if name == "ties":
        scores = rng.integers(-2, 3, rows).astype(float)  # many pairs at a distance of exactly 0 and 1
    if name == "one level":
        labels[:] = 2.0
    if name == "tiny":
        offsets = np.array([0, 1, 3])
        labels, scores = labels[:3], scores[:3]
        labels[1:] = [0.0, 1.0]
    if name == "weights":
        weight = rng.random(rows) * (rng.random(rows) > 0.3)
    return labels, offsets, weight, scores


def list_pairs(labels, offsets):
    found = []
    for start, stop in pairwise(offsets):
        found += [(i, j) for i in range(start, stop) for j in range(start, stop) if labels[i] > labels[j]]
    return np.array(found, dtype=int).reshape(-1, 2)


def sum_pairs(case, slope_of, bend_of, value_of):
    """Value, slope and second derivative of Σ weight · ℓ(s_i − s_j), pair by pair."""
    labels, offsets, weight, scores = case
    weights = np.ones(len(labels)) if weight is None else weight
    slope, bend, value = np.zeros(len(labels)), np.zeros((len(labels), len(labels))), 0.0
    for i, j in list_pairs(labels, offsets):
        d = scores[i] - scores[j]
        value += weights[i] * value_of(d)
        slope[i] += weights[i] * slope_of(d)
        slope[j] -= weights[i] * slope_of(d)
        curve = weights[i] * bend_of(d)
        bend[i, i] += curve
        bend[j, j] += curve
        bend[i, j] -= curve
        bend[j, i] -= curve
    return value, slope, bend


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def smooth(width):
    hi, lo = 1.0 + width / 2, 1.0 - width / 2
    return (
        lambda d: -1.0 if d < lo else (-(hi - d) / width if d < hi else 0.0),
        lambda d: 1.0 / width if lo <= d < hi else 0.0,
        lambda d: 1.0 - d if d < lo else ((hi - d) ** 2 / (2 * width) if d < hi else 0.0),
    )


WAYS = {
    "squared hinge": (
        SquaredHinge,
        (lambda d: -2 * max(0.0, 1 - d), lambda d: 2.0 * (d < 1), lambda d: max(0.0, 1 - d) ** 2),
    ),
    "smooth hinge": (lambda pairs: SmoothHinge(pairs, 0.5), smooth(0.5)),
    "wide smooth hinge": (SmoothHinge, smooth(4.0)),
    "logistic": (
        Logistic,
        (lambda d: -sigmoid(-d), lambda d: sigmoid(d) * sigmoid(-d), lambda d: np.log1p(np.exp(-d))),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", WAYS)
def test_a_loss_adds_up_to_its_pairs(way, name):
    make, functions = WAYS[way]
    case = make_case(name)
    labels, offsets, weight, scores = case
    value, slope, bend = sum_pairs(case, *functions)
    point = make(find_pairs(labels, offsets, weight)).at(scores)
    vector = np.random.default_rng(9).normal(size=len(labels))
    np.testing.assert_allclose(point.value, value, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(point.slope, slope, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(point.multiply(vector), bend @ vector, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(point.bend, np.trace(bend) / 2, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", CASES)
def test_the_hinge_and_its_subgradient_add_up_to_their_pairs(name):
    case = make_case(name)
    labels, offsets, weight, scores = case
    value, slope, _ = sum_pairs(case, lambda d: -1.0 * (d < 1), lambda d: 0.0, lambda d: max(0.0, 1 - d))
    pairs = find_pairs(labels, offsets, weight)
    short = sum_shortfall(pairs, scores, sort_scores(scores, pairs), 1.0)
    np.testing.assert_allclose(short.linear, value, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(-short.pull, slope, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [1.0, 0.1])
def test_the_smooth_hinge_knows_how_far_it_is_from_the_hinge(name, width):
    case = make_case(name)
    labels, offsets, weight, scores = case
    hinge, _, _ = sum_pairs(case, lambda d: 0.0, lambda d: 0.0, lambda d: max(0.0, 1 - d))
    slope_of = smooth(width)[0]
    linear, _, _ = sum_pairs(case, slope_of, lambda d: 0.0, lambda d: -slope_of(d) * (1 - d))
    exact, rough = SmoothHinge(find_pairs(labels, offsets, weight), width).at(scores).judge()
    np.testing.assert_allclose(exact, hinge, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(rough, hinge - linear, rtol=1e-8, atol=1e-9)
    assert rough >= 0.0


def test_large_equal_scores_cancel_nothing():
    labels, offsets, weight, scores = make_case("grades")
    pairs = find_pairs(labels, offsets, weight)
    scores = np.round(scores * 8) / 8  # moved by 2^30 they are still exact
    here, there = SquaredHinge(pairs).at(scores), SquaredHinge(pairs).at(scores + 2.0**30)
    assert there.value == pytest.approx(here.value, rel=1e-12)
    np.testing.assert_allclose(there.slope, here.slope, rtol=1e-12, atol=1e-12)


def test_far_apart_scores_do_not_overflow_the_logistic_loss():
    pairs = find_pairs(np.array([1.0, 0.0]), np.array([0, 2]))
    wrong = Logistic(pairs).at(np.array([-1e6, 1e6]))
    right = Logistic(pairs).at(np.array([1e6, -1e6]))
    assert (wrong.value, wrong.slope.tolist()) == (2e6, [-1.0, 1.0])
    assert (right.value, right.slope.tolist()) == (0.0, [0.0, 0.0])


@pytest.mark.parametrize("kind", [SquaredHinge, Logistic])
def test_many_chunks_on_threads_give_the_same_as_one(kind, monkeypatch):
    labels, offsets, weight, scores = make_case("grades")
    pairs = find_pairs(labels, offsets, weight)
    whole = kind(pairs).at(scores)
    monkeypatch.setattr(pair_kernels, "ROWS_A_CHUNK", 7)
    parts = kind(pairs).at(scores)
    assert parts.value == pytest.approx(whole.value, rel=1e-14)
    assert (parts.slope == whole.slope).all()
    assert (parts.multiply(scores) == whole.multiply(scores)).all()


def test_plain_python_gives_what_the_compiled_sweep_gives(monkeypatch):
    labels, offsets, weight, scores = make_case("weights")
    pairs = find_pairs(labels, offsets, weight)
    order = sort_scores(scores, pairs)
    compiled = sum_shortfall(pairs, scores, order, 1.0), Logistic(pairs).at(scores)
    product = multiply_within(pairs, scores, order, 1.0, scores)
    for name in ("_sweep", "_add_logistic", "_bend_logistic"):
        function = getattr(pair_kernels, name)
        monkeypatch.setattr(pair_kernels, name, getattr(function, "py_func", function))
    plain = sum_shortfall(pairs, scores, order, 1.0), Logistic(pairs).at(scores)
    again = multiply_within(pairs, scores, order, 1.0, scores)
    np.testing.assert_allclose(plain[0].slope, compiled[0].slope, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(again, product, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(plain[1].slope, compiled[1].slope, rtol=1e-12, atol=1e-14)
    assert plain[1].value == pytest.approx(compiled[1].value)


def test_pairs_are_counted_by_query():
    labels, offsets, _, _ = make_case("grades")
    expected = [len(list_pairs(labels[a:b], np.array([0, b - a]))) for a, b in pairwise(offsets)]
    assert find_pairs(labels, offsets).by_query.tolist() == expected


def test_no_rows_make_no_pairs():
    pairs = find_pairs(np.zeros(0), np.array([0]))
    assert pairs.total == 0.0
    assert SquaredHinge(pairs).at(np.zeros(0)).value == 0.0
