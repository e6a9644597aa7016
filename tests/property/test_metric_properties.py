"""Metrics against a slow, obvious reference, and laws that hold for any list."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_metrics import slow_dcg, slow_tau, slow_value, sort_rows

from placings.metrics import METRICS, kernels, measure, metric, ndcg

FEW_SCORES = st.integers(-3, 3).map(float)
GRADES = st.integers(0, 4).map(float)
ROWS = st.lists(st.tuples(FEW_SCORES, GRADES), max_size=12)
QUERIES = st.lists(ROWS, max_size=5)
CUTOFFS = st.none() | st.integers(1, 14)


def flatten(queries):
    scores = [score for query in queries for score, _ in query]
    labels = [label for query in queries for _, label in query]
    return scores, labels, np.concatenate([[0], np.cumsum([len(query) for query in queries], dtype=int)])


@pytest.mark.parametrize("name", METRICS)
@given(queries=QUERIES, k=CUTOFFS, ties=st.sampled_from(["stable", "worst"]))
@settings(max_examples=40, deadline=None)
def test_a_metric_is_what_plain_python_says(name, queries, k, ties):
    spec = name if k is None else f"{name}@{k}"
    values = metric(spec, ties=ties, empty="drop")(*flatten(queries))
    slow = [slow_value(name, rows, k, ties) for rows in queries]
    np.testing.assert_allclose(values, [math.nan if v is None else v for v in slow], rtol=1e-12, atol=1e-12)
    empty = metric(spec, ties=ties, empty="one", min_items=0)(*flatten(queries))
    np.testing.assert_array_equal(empty[[v is None for v in slow]], 1.0)


@given(rows=st.lists(st.tuples(st.integers(0, 1).map(float), GRADES), max_size=5), k=CUTOFFS)
@settings(max_examples=60, deadline=None)
def test_averaged_ties_are_the_mean_over_all_orders(rows, k):
    orders = [[label for _, label in sort_rows(order, "stable")] for order in permutations(rows)]
    best = slow_dcg(sorted((label for _, label in rows), reverse=True)[:k])
    expected = np.mean([slow_dcg(order[:k]) for order in orders]) / best if best else math.nan
    value = ndcg([s for s, _ in rows], [y for _, y in rows], k=k, ties="average")
    np.testing.assert_allclose(value, [expected], rtol=1e-12, atol=1e-12)


@given(queries=QUERIES)
@settings(max_examples=60, deadline=None)
def test_joachims_tau_is_what_plain_python_says(queries):
    values = metric("tau", variant="joachims")(*flatten(queries))
    slow = [slow_tau(rows, "joachims") for rows in queries]
    np.testing.assert_allclose(values, [math.nan if v is None else v for v in slow], rtol=1e-12)


@given(queries=QUERIES, k=CUTOFFS, ties=st.sampled_from(["stable", "average", "worst"]))
@settings(max_examples=60, deadline=None)
def test_shares_stay_between_zero_and_one(queries, k, ties):
    others = ["err", "mrr", "map", "p", "recall", "hit"]
    cutoff = "" if k is None else f"@{k}"
    values = measure(
        [f"{name}{cutoff}" for name in others],
        *flatten(queries),
        ties=ties if ties != "average" else "stable",
    )
    values |= measure(f"ndcg{cutoff}", *flatten(queries), ties=ties)
    for name, each in values.items():
        assert ((each >= 0.0) & (each <= 1.0) | np.isnan(each)).all(), name
    tau = metric(f"tau{cutoff}")(*flatten(queries))
    assert ((np.abs(tau) <= 1.0) | np.isnan(tau)).all()


@given(queries=QUERIES)
@settings(max_examples=60, deadline=None)
def test_scores_that_are_the_labels_are_perfect(queries):
    _, labels, offsets = flatten(queries)
    for name in ("ndcg", "ndcg@3", "mrr", "map", "recall", "hit@1", "rank"):
        values = metric(name)(labels, labels, offsets)
        assert ((values == 1.0) | np.isnan(values)).all(), name


@given(queries=QUERIES, k=CUTOFFS)
@settings(max_examples=60, deadline=None)
def test_a_rising_transformation_of_scores_changes_nothing(queries, k):
    scores, labels, offsets = flatten(queries)
    names = [name if k is None else f"{name}@{k}" for name in METRICS]
    before = measure(names, scores, labels, offsets)
    after = measure(names, np.exp(np.array(scores)) * 1e-5 - 7, labels, offsets)
    for name in names:
        np.testing.assert_array_equal(before[name], after[name], err_msg=name)


@given(
    rows=st.lists(st.tuples(st.floats(allow_nan=False), st.floats(0, 30)), max_size=70),
    k=CUTOFFS | st.integers(48, 60),
)
@settings(max_examples=60, deadline=None)
def test_any_floats_rank_the_same_with_and_without_numba(rows, k):
    keys = np.array([key for key, _ in rows])
    offsets = np.array([0, len(rows) // 2, len(rows)])
    for mine, theirs in zip(
        kernels.top_rows(keys, offsets, k), kernels.top_rows_numpy(keys, offsets, k), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)
    values = ndcg(keys, [label for _, label in rows], offsets, k=k)
    assert ((values >= 0.0) & (values <= 1.0) | np.isnan(values)).all()
