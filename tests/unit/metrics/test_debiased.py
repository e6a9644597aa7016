"""Metrics of clicks over propensities: what they add up, what they estimate, and what they refuse."""

from __future__ import annotations

import itertools
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slow_metrics import slow_debiased

from placings.core.errors import BadInput, UnknownName
from placings.metrics import (
    DEBIASED,
    METRICS,
    Metric,
    clicks_ips,
    dcg,
    dcg_ips,
    find_clipped,
    kernels,
    measure,
    metric,
    mrr,
    mrr_ips,
)

SPECS = ["dcg@3:ips", "dcg:ips", "clicks@3:ips", "clicks:ips", "mrr@3:ips", "mrr:ips"]
ROWS = st.lists(
    st.tuples(
        st.integers(-3, 3).map(float), st.integers(0, 1).map(float), st.sampled_from([0.001, 0.25, 1.0])
    ),
    max_size=8,
)


def make_rows(seed=0, *, sizes=(4, 1, 0, 7, 60, 2)):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = int(offsets[-1])
    scores, clicks = rng.integers(0, 6, rows) * 1.0, (rng.random(rows) < 0.3) * 1.0
    return scores, clicks, offsets, rng.uniform(0.05, 1.0, rows)


# -- values ------------------------------------------------------------------------------------------------


def test_a_click_counts_one_over_its_propensity():
    scores, clicks, seen = [0.9, 0.8, 0.7, 0.6], [0, 1, 0, 1], [1.0, 0.5, 0.4, 0.25]
    gained = 2 / math.log2(3) + 4 / math.log2(5)
    np.testing.assert_allclose(dcg_ips(scores, clicks, propensity=seen), [gained])
    np.testing.assert_allclose(dcg_ips(scores, clicks, propensity=seen, k=2), [2 / math.log2(3)])
    np.testing.assert_allclose(clicks_ips(scores, clicks, propensity=seen), [2 + 4])
    np.testing.assert_allclose(clicks_ips(scores, clicks, propensity=seen, k=3), [2])
    np.testing.assert_allclose(mrr_ips(scores, clicks, propensity=seen), [2 / 2 + 4 / 4])


def test_with_every_look_taken_they_are_the_plain_metrics():
    scores, clicks, offsets, _ = make_rows()
    everywhere = np.ones(len(scores))
    for k in (None, 3):
        plain = dcg(scores, clicks, offsets, k=k, gain="linear", empty="zero")
        np.testing.assert_array_equal(dcg_ips(scores, clicks, offsets, propensity=everywhere, k=k), plain)
    one = np.zeros(len(clicks))
    one[[1, 6, 40]] = 1.0  # one wanted item in a list
    np.testing.assert_allclose(
        mrr_ips(scores, one, offsets, propensity=everywhere), mrr(scores, one, offsets, empty="zero")
    )


def test_a_click_weighs_no_more_than_the_limit():
    assert dcg_ips([1.0], [1], propensity=[0.001]) == [100.0]
    assert dcg_ips([1.0], [1], propensity=[0.001], clip=None) == [1000.0]
    assert clicks_ips([1.0, 0.5], [1, 1], propensity=[0.1, 0.5], clip=4) == [4 + 2]
    clicked, clipped = find_clipped(np.array([1.0, 1.0, 0.0]), np.array([0.1, 0.5, 0.1]), 4)
    assert (clicked.tolist(), clipped.tolist()) == ([True, True, False], [True, False, False])


def test_a_gain_may_be_the_label():
    scores, labels, seen = [0.9, 0.8], [3, 1], [0.5, 1.0]
    below = 1 / math.log2(3)
    np.testing.assert_allclose(dcg_ips(scores, labels, propensity=seen), [2 + below])
    np.testing.assert_allclose(dcg_ips(scores, labels, propensity=seen, gain="linear"), [2 * 3 + below])
    np.testing.assert_allclose(dcg_ips(scores, labels, propensity=seen, gain="exp2"), [2 * 7 + below])
    np.testing.assert_allclose(dcg_ips(scores, labels, propensity=seen, relevant_from=2), [2])
    assert clicks_ips(scores, labels, propensity=seen, relevant_from=2) == [2]


def test_a_query_without_a_click_counts_as_zero_and_a_short_one_is_left_out():
    given = [3.0, 2.0, 1.0], [0, 0, 1], [0, 2, 3, 3]
    for spec in SPECS:
        values = metric(spec)(*given, propensity=[1.0, 0.5, 0.5])
        np.testing.assert_array_equal(values, [0.0, 2.0, np.nan])  # no row is fewer than min_items=1
        longer = metric(spec, min_items=2)(*given, propensity=[1.0, 0.5, 0.5])
        np.testing.assert_array_equal(longer, [0.0, np.nan, np.nan])


def test_averaged_ties_are_the_mean_over_both_orders():
    value = dcg_ips([1.0, 1.0], [1, 0], propensity=[0.5, 1.0], ties="average")
    np.testing.assert_allclose(value, [(2 + 2 / math.log2(3)) / 2])
    with pytest.raises(UnknownName, match="rule for ties"):
        metric("clicks@1:ips", ties="average")


def test_the_worst_of_ties_puts_the_click_that_is_worth_least_first():
    assert clicks_ips([1.0, 1.0], [1, 1], propensity=[0.2, 0.5], k=1, ties="stable") == [5]
    assert clicks_ips([1.0, 1.0], [1, 1], propensity=[0.2, 0.5], k=1, ties="worst") == [2]


@pytest.mark.parametrize("name", DEBIASED)
@given(
    queries=st.lists(ROWS, max_size=4),
    k=st.none() | st.integers(1, 9),
    ties=st.sampled_from(["stable", "worst"]),
)
@settings(max_examples=60, deadline=None)
def test_a_debiased_metric_is_what_plain_python_says(name, queries, k, ties):
    flat = [row for rows in queries for row in rows]
    offsets = np.concatenate([[0], np.cumsum([len(rows) for rows in queries], dtype=int)])
    scores, clicks, seen = (np.array([row[place] for row in flat]) for place in range(3))
    for clip in (100.0, None):
        values = Metric(name, k, (("clip", clip), ("min_items", 0), ("ties", ties)))(
            scores, clicks, offsets, propensity=seen
        )
        slow = [slow_debiased(name, rows, k, ties, clip) for rows in queries]
        np.testing.assert_allclose(values, slow, rtol=1e-12, atol=1e-12)


# -- what they estimate ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS)
def test_the_mean_over_all_clicks_that_can_happen_is_the_value_of_what_is_wanted(spec):
    """Exactly: all 2^5 outcomes of five looks, each with its probability."""
    rng = np.random.default_rng(3)
    scores, seen = rng.random(5), np.array([1.0, 0.6, 0.4, 0.3, 0.2])
    wanted = rng.random(5)  # the probability of a click, once it is looked at
    expected = 0.0
    for clicks in itertools.product((0.0, 1.0), repeat=5):
        chance = np.prod(np.where(clicks, wanted * seen, 1.0 - wanted * seen))
        expected += chance * metric(spec)(scores, clicks, propensity=seen)[0]
    asked = metric(spec)
    discount = {
        "dcg:ips": lambda r: 1 / math.log2(1 + r),
        "clicks:ips": lambda r: 1.0,
        "mrr:ips": lambda r: 1 / r,
    }
    ranked = np.argsort(-scores)[: asked.k]
    truth = sum(wanted[row] * discount[asked.name](rank) for rank, row in enumerate(ranked, 1))
    assert expected == pytest.approx(truth, rel=1e-12)


def test_the_plain_metric_leans_to_the_order_that_was_shown_and_the_debiased_does_not():
    rng = np.random.default_rng(0)
    lists, items = 20_000, 5
    offsets = np.arange(0, lists * items + 1, items)
    seen = np.tile(1.0 / np.arange(1, items + 1), lists)
    wanted = np.tile([0.2, 0.2, 0.2, 0.2, 0.6], lists)  # the best item is shown last
    clicks = (rng.random(len(seen)) < wanted * seen) * 1.0
    shown, best = -np.tile(np.arange(items), lists), wanted
    plain = {
        name: dcg(each, clicks, offsets, empty="zero").mean() for name, each in (("s", shown), ("b", best))
    }
    assert plain["s"] > plain["b"]
    values = dcg_ips(best, clicks, offsets, propensity=seen)
    truth = sum(p / math.log2(1 + r) for r, p in enumerate([0.6, 0.2, 0.2, 0.2, 0.2], 1))
    assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(lists)
    assert values.mean() > dcg_ips(shown, clicks, offsets, propensity=seen).mean()


# -- the demands that every metric meets -------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS)
def test_each_query_stands_alone_and_nothing_given_is_changed(spec):
    scores, clicks, offsets, seen = make_rows()
    for array in (scores, clicks, offsets, seen):
        array.flags.writeable = False
    together = metric(spec)(scores, clicks, offsets, propensity=seen)
    for query, (a, b) in enumerate(pairwise(offsets)):
        alone = metric(spec)(scores[a:b], clicks[a:b], propensity=seen[a:b])
        np.testing.assert_allclose(alone, together[[query]], rtol=1e-12)
    assert metric(spec)([], [], [0], propensity=[]).shape == (0,)
    lists = scores.tolist(), clicks.astype("i1"), offsets.tolist()
    np.testing.assert_array_equal(metric(spec)(*lists, propensity=seen.tolist()), together)


@pytest.mark.parametrize("ties", ["stable", "worst"])
@pytest.mark.parametrize("spec", SPECS)
def test_measure_and_numpy_give_the_same_bits(spec, ties, monkeypatch):
    scores, clicks, offsets, seen = make_rows()
    alone = metric(spec, ties=ties)(scores, clicks, offsets, propensity=seen)
    others = ["ndcg@5", spec, "mrr"]
    among = measure(others, scores, clicks, offsets, propensity=seen, ties=ties, empty="drop")
    np.testing.assert_array_equal(among[spec], alone)
    monkeypatch.setattr(kernels, "HAVE_NUMBA", False)
    np.testing.assert_array_equal(metric(spec, ties=ties)(scores, clicks, offsets, propensity=seen), alone)


# -- names and refusals ------------------------------------------------------------------------------------


def test_a_name_with_a_mark_is_a_metric_and_prints_as_written():
    assert metric("DCG@10:IPS ") == Metric("dcg:ips", 10)
    assert metric("rr:ips") == metric("mrr:ips")
    for text in ("dcg@10:ips", "clicks@3:ips", "mrr:ips"):
        assert str(metric(text)) == text
        assert metric(text).ips
        assert not metric(text).lower_is_better
    assert not metric("dcg@10").ips
    assert list(measure(["dcg@2:ips", "mrr"], [1.0], [1], propensity=[0.5])) == ["dcg@2:ips", "mrr"]


@pytest.mark.parametrize("name", [name for name in METRICS if f"{name}:ips" not in DEBIASED])
def test_what_clicks_do_not_show_is_refused_with_the_reason(name):
    with pytest.raises(BadInput, match=rf"{name} cannot be estimated from clicks: .*Use\s*'dcg@10:ips'"):
        metric(f"{name}@10:ips")


def test_ndcg_is_refused_because_the_ideal_is_unobserved():
    with pytest.raises(BadInput, match="the ideal order, which is unobserved"):
        metric("ndcg@10:ips")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dcg@10:snips", "may end in ':ips'"),
        ("dcg:ips@10", "as in 'dcg@10:ips'"),
        ("dcg@0:ips", "whole number of 1 or more, as in 'dcg@10:ips'"),
        ("clicks@3", "as in 'clicks@10:ips'"),
        ("click@3:ips", "no metric 'click:ips'; did you mean 'clicks:ips'"),
    ],
)
def test_a_name_that_is_none_says_what_one_is(text, message):
    with pytest.raises(BadInput, match=message):
        metric(text)


@pytest.mark.parametrize("spec", SPECS)
def test_without_propensities_there_is_no_value(spec):
    asked = metric(spec)
    for call in (lambda: asked([1.0], [1]), lambda: measure(["mrr", spec], [1.0], [1])):
        with pytest.raises(
            BadInput, match=rf"{spec} divides each click by its propensity, and the data has no"
        ):
            call()
    with pytest.raises(BadInput, match=r"estimate_propensity\(log\)\.add_to\(log\)"):
        DEBIASED[asked.name].function([1.0], [1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.5, 0.0], "propensity must be above 0 and at most 1. Got 0.0 at row 1"),
        ([0.5, 1.5], "Got 1.5 at row 1"),
        ([np.nan, 0.5], "Got nan at row 0"),
        ([0.5], "scores and propensity must have one value for each row. Got 2 and 1"),
        (["a", "b"], "propensity must be numbers"),
    ],
)
def test_propensities_are_probabilities_one_a_row(given, message):
    for spec in SPECS:
        with pytest.raises(BadInput, match=message):
            metric(spec)([1.0, 2.0], [1, 0], propensity=given)


def test_bad_options_are_found_when_the_metric_is_made():
    for clip in (0.5, -1, "2", True, math.nan):
        with pytest.raises(BadInput, match="clip must be"):
            metric("dcg@10:ips", clip=clip)
    with pytest.raises(UnknownName, match="gain"):
        metric("dcg@10:ips", gain="square")
    with pytest.raises(UnknownName, match="option of dcg:ips"):
        metric("dcg@10:ips", empty="one")  # a query without a click is 0
    with pytest.raises(UnknownName, match="option of dcg:ips"):
        metric("dcg@10:ips", propensity=[1.0])
    with pytest.raises(UnknownName, match="option of these metrics"):
        measure("dcg@10:ips", [1.0], [1], propensity=[1.0], max_label=3)


def test_a_plain_metric_does_not_look_at_propensities():
    np.testing.assert_array_equal(
        metric("ndcg@2")([2.0, 1.0], [0, 1], propensity=[0.5, 0.1]), metric("ndcg@2")([2.0, 1.0], [0, 1])
    )
