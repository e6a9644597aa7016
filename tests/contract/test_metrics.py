"""Every metric of the registry meets the same demands; test_metric_refusals.py has what it refuses."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np
import pytest
from slow_metrics import OF_PAIRS, slow_value

from placings.metrics import METRICS, kernels, measure, metric

SPECS = [f"{name}{cutoff}" for name in METRICS for cutoff in ("", "@1", "@3")]
SIZES = np.array([4, 1, 0, 7, 60, 2])
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
BOTH_TIES = ("stable", "worst")
ROUNDING = 8 * np.finfo(np.float64).eps * np.sqrt(60)  # sums of at most 60 rows in another layout


def make_rows(seed=0, *, distinct=True):
    rng = np.random.default_rng(seed)
    rows = int(OFFSETS[-1])
    scores = rng.permutation(rows) / 7.0 if distinct else rng.integers(0, 4, rows) * 1.0
    return scores, rng.integers(0, 5, rows) * 1.0


pytestmark = pytest.mark.parametrize("spec", SPECS)


def test_no_queries_make_an_empty_array(spec):
    values = metric(spec)([], [], [0])
    assert values.shape == (0,)
    assert values.dtype == np.float64


def test_an_empty_list_is_dropped_or_follows_the_rule(spec):
    assert np.isnan(metric(spec)([], [])).all()
    assert metric(spec, empty="one", min_items=0)([], []) == [1.0]


def test_one_relevant_item_is_in_its_place(spec):
    perfect = slow_value(metric(spec).name, [(0.5, 1.0)], metric(spec).k)
    np.testing.assert_allclose(metric(spec)([0.5], [1]), [np.nan if perfect is None else perfect], rtol=1e-15)


def test_nothing_relevant_follows_the_rule(spec):
    for empty, value in {"drop": np.nan, "zero": 0.0, "one": 1.0}.items():
        np.testing.assert_equal(metric(spec, empty=empty)([3.0, 1.0, 2.0], [0, 0, 0]), [value])


def test_too_few_items_are_nan(spec):
    scores, labels = make_rows()
    values = metric(spec, min_items=4, empty="zero")(scores, labels, OFFSETS)
    assert np.isnan(values[SIZES < 4]).all()
    asked = metric(spec, min_items=1, empty="zero")(scores, labels, OFFSETS)
    np.testing.assert_array_equal(values[SIZES >= 4], asked[SIZES >= 4])


def test_all_equal_scores_keep_row_order(spec):
    _, labels = make_rows()
    if metric(spec).name in OF_PAIRS:  # no pair differs in score
        assert np.isnan(metric(spec)(np.zeros(len(labels)), labels, OFFSETS)).all()
    else:
        falling = -np.arange(len(labels), dtype=float)
        np.testing.assert_array_equal(
            metric(spec)(np.zeros(len(labels)), labels, OFFSETS), metric(spec)(falling, labels, OFFSETS)
        )


def test_infinite_and_huge_scores_have_an_order_like_any_other(spec):
    labels = [1, 0, 2, 3]
    expected = metric(spec)([4.0, 1.0, 3.0, 2.0], labels)
    for extreme in (
        [np.inf, -np.inf, 1e30, 0.0],
        [1e308, -1e308, 1e30, -1e30],
        [4e-310, 0.0, 3e-310, 1e-310],
    ):
        np.testing.assert_array_equal(metric(spec)(extreme, labels), expected)


@pytest.mark.parametrize("ties", BOTH_TIES)
def test_the_order_of_rows_changes_nothing_with_distinct_scores(spec, ties):
    scores, labels = make_rows()
    rng = np.random.default_rng(1)
    moved = np.concatenate([rng.permutation(np.arange(a, b)) for a, b in pairwise(OFFSETS)])
    asked = metric(spec, ties=ties)
    np.testing.assert_array_equal(
        asked(scores[moved], labels[moved], OFFSETS), asked(scores, labels, OFFSETS)
    )


def test_worst_ties_do_not_depend_on_the_order_of_rows(spec):
    scores, labels = make_rows(distinct=False)
    asked = metric(spec, ties="worst")
    backwards = np.concatenate([np.arange(a, b)[::-1] for a, b in pairwise(OFFSETS)])
    np.testing.assert_array_equal(
        asked(scores[backwards], labels[backwards], OFFSETS), asked(scores, labels, OFFSETS)
    )


def test_each_query_stands_alone(spec):
    scores, labels = make_rows(distinct=False)
    together = metric(spec)(scores, labels, OFFSETS)
    for query, (start, stop) in enumerate(pairwise(OFFSETS)):
        alone = metric(spec)(scores[start:stop], labels[start:stop])
        np.testing.assert_allclose(alone, together[[query]], rtol=ROUNDING)


def test_inputs_are_never_changed_and_may_be_read_only(spec):
    scores, labels = make_rows(distinct=False)
    offsets = OFFSETS.copy()
    before = scores.copy(), labels.copy(), offsets.copy()
    for array in (scores, labels, offsets):
        array.flags.writeable = False
    for ties in BOTH_TIES:
        metric(spec, ties=ties)(scores, labels, offsets)
    for array, copy in zip((scores, labels, offsets), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_lists_integers_and_float32_are_welcome(spec):
    scores, labels = make_rows(distinct=False)
    expected = metric(spec)(scores, labels, OFFSETS)
    for same in (
        (scores.tolist(), labels.tolist(), OFFSETS.tolist()),
        (scores.astype("f4"), labels.astype("i1"), OFFSETS.astype("u4")),
    ):
        np.testing.assert_array_equal(metric(spec)(*same), expected)


@pytest.mark.parametrize("ties", BOTH_TIES)
def test_numba_and_numpy_give_the_same_bits(spec, ties, monkeypatch):
    """numba orders and counts, the sums are numpy's in both; ERR's cascade has no a·b + c to be fused."""
    scores, labels = make_rows(distinct=False)
    compiled = metric(spec, ties=ties)(scores, labels, OFFSETS)
    monkeypatch.setattr(kernels, "HAVE_NUMBA", False)
    np.testing.assert_array_equal(metric(spec, ties=ties)(scores, labels, OFFSETS), compiled)


def test_measure_gives_the_same_bits_as_the_function(spec):
    scores, labels = make_rows(distinct=False)
    among_others = measure(["ndcg@5", spec, "mrr"], scores, labels, OFFSETS)[spec]
    np.testing.assert_array_equal(among_others, metric(spec)(scores, labels, OFFSETS))


def test_a_list_of_ten_thousand_rows_takes_no_time(spec):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 10_000)
    metric(spec)([1.0], [1])  # compiled here if it was not yet
    for scores in (rng.random(10_000), np.arange(1e4), -np.arange(1e4), np.zeros(10_000)):
        start = time.process_time()
        metric(spec)(scores, labels)
        assert time.process_time() - start < 0.25  # a quadratic way would take seconds
