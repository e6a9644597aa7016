"""Names become metrics, and several metrics share one ranking pass."""

from __future__ import annotations

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.metrics import METRICS, Metric, average_precision, kernels, measure, metric, ndcg, precision

SCORES, LABELS, OFFSETS = [0.9, 0.8, 0.7, 0.6, 0.5], [0, 2, 1, 1, 0], [0, 3, 5]


@pytest.mark.parametrize(
    ("text", "name", "k"),
    [
        ("ndcg@10", "ndcg", 10),
        ("NDCG@10", "ndcg", 10),
        (" mrr ", "mrr", None),
        ("rr", "mrr", None),
        ("map@5", "map", 5),
        ("ap", "map", None),
        ("p@3", "p", 3),
        ("precision@3", "p", 3),
        ("r@20", "recall", 20),
        ("success@1", "hit", 1),
        ("kendall_tau", "tau", None),
        ("first@7", "rank", 7),
    ],
)
def test_a_name_is_a_metric(text, name, k):
    assert metric(text) == Metric(name, k)


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_prints_as_the_name_that_makes_it(name):
    assert str(metric(f"{name}@10")) == f"{name}@10"
    assert metric(str(metric(name))) == metric(name)


def test_no_name_means_two_metrics():
    names = [alias for name, kind in METRICS.items() for alias in (name, *kind.aliases)]
    assert len(names) == len(set(names))


def test_a_metric_is_a_key():
    made = {metric("ndcg@10", gain="linear", ties="worst"), metric("ndcg@10", ties="worst", gain="linear")}
    assert len(made) == 1


def test_calling_a_metric_is_calling_its_function():
    np.testing.assert_equal(
        metric("map@2", denominator="min(k,R)")(SCORES, LABELS, OFFSETS),
        average_precision(SCORES, LABELS, OFFSETS, k=2, denominator="min(k,R)"),
    )
    np.testing.assert_equal(metric("p")(SCORES, LABELS, OFFSETS), precision(SCORES, LABELS, OFFSETS))


@pytest.mark.parametrize(
    "text", ["ndcg@0", "ndcg@x", "ndcg@", "ndcg@-1", "ndcg@1.5", "ndcg@5@6", "ndcg@" + "9" * 30]
)
def test_a_bad_cutoff_says_what_a_good_one_is(text):
    with pytest.raises(BadInput, match=r"whole number of 1 or more, as in 'ndcg@10'\. Got"):
        metric(text)


def test_a_misspelt_name_meets_a_guess():
    with pytest.raises(UnknownName, match="no metric 'ndgc'; did you mean 'ndcg'"):
        metric("ndgc@10")
    with pytest.raises(UnknownName, match="no metric ''"):
        metric("")
    with pytest.raises(UnknownName, match="no metric 'ap'"):
        Metric("ap")
    with pytest.raises(BadInput, match="a metric must be a name such as 'ndcg@10'"):
        metric(10)


def test_bad_options_are_found_when_the_metric_is_made():
    with pytest.raises(UnknownName, match="no option of ndcg 'gains'; did you mean 'gain'"):
        metric("ndcg@10", gains="linear")
    with pytest.raises(UnknownName, match="no gain 'log'"):
        metric("ndcg@10", gain="log")
    with pytest.raises(BadInput, match="k must be a whole number"):
        Metric("ndcg", 0)
    with pytest.raises(BadInput, match="k must be a whole number"):
        Metric("ndcg", True)
    with pytest.raises(BadInput, match="part of the name, as in 'ndcg@10'"):
        metric("ndcg", k=10)


def test_measure_keeps_order_names_and_bits():
    names = ["map", "ndcg@1", "precision@2", "ndcg@3", "tau", "err@2", "mrr@1"]
    values = measure(names, SCORES, LABELS, OFFSETS)
    assert list(values) == names
    for name in names:
        np.testing.assert_array_equal(values[name], metric(name)(SCORES, LABELS, OFFSETS))


def test_measure_takes_one_name_or_metrics():
    assert list(measure("ndcg@2", SCORES, LABELS)) == ["ndcg@2"]
    assert list(measure(metric("ap@2"), SCORES, LABELS)) == ["map@2"]
    assert measure([], SCORES, LABELS) == {}


def test_measure_ranks_scores_once_and_labels_once(monkeypatch):
    depths = []

    def counting(keys, offsets, k=None, *, original=kernels.top_rows):
        depths.append(k)
        return original(keys, offsets, k)

    monkeypatch.setattr(kernels, "top_rows", counting)
    measure(["ndcg@1", "ndcg@4", "mrr@3", "map@2", "p@1", "err@4", "arp@4"], SCORES, LABELS, OFFSETS)
    assert depths == [4, 4]
    depths.clear()
    measure(["ndcg@1", "mrr"], SCORES, LABELS, OFFSETS)
    assert depths == [None, None]


def test_options_go_to_the_metrics_that_know_them():
    values = measure(["ndcg@2", "p@2"], SCORES, LABELS, OFFSETS, gain="linear", relevant_from=2, empty="zero")
    np.testing.assert_array_equal(
        values["ndcg@2"], ndcg(SCORES, LABELS, OFFSETS, k=2, gain="linear", empty="zero")
    )
    np.testing.assert_array_equal(values["p@2"], [1 / 2, 0.0])


def test_what_a_metric_carries_comes_before_the_options():
    both = measure(["mrr", metric("ndcg@2", gain="linear")], SCORES, LABELS, gain="exp2")
    np.testing.assert_array_equal(both["ndcg@2"], ndcg(SCORES, LABELS, k=2, gain="linear"))


def test_rules_for_ties_can_differ_within_one_measure():
    tied = [1.0] * 5
    values = measure(["mrr@2", metric("ndcg@2", ties="average"), metric("p@1", ties="worst")], tied, LABELS)
    np.testing.assert_array_equal(values["mrr@2"], [1 / 2])
    np.testing.assert_array_equal(values["ndcg@2"], ndcg(tied, LABELS, k=2, ties="average"))
    np.testing.assert_array_equal(values["p@1"], [0.0])


def test_measure_refuses_what_no_metric_knows():
    with pytest.raises(UnknownName, match="'gian'; did you mean 'gain'"):
        measure(["ndcg"], SCORES, LABELS, gian="linear")
    with pytest.raises(UnknownName, match="a cutoff is part of a name"):
        measure(["ndcg"], SCORES, LABELS, k=3)
    with pytest.raises(BadInput, match="both called 'ndcg@2'"):
        measure([metric("ndcg@2"), metric("ndcg@2", gain="linear")], SCORES, LABELS)
