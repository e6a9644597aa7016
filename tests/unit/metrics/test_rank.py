"""Binary and positional metrics against arithmetic that stands beside them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau

from placings.core.errors import BadInput, UnknownName
from placings.metrics import (
    arp,
    average_precision,
    hit,
    kendall_tau,
    mrr,
    precision,
    rank_of_first_relevant,
    recall,
)

FALLING = [5.0, 4.0, 3.0, 2.0, 1.0]


class TestThesisLists:
    """The worked lists of the places thesis (section 2.2), with the values of its formulas."""

    def test_precision_of_one_relevant_row_at_rank_four(self):
        relevances = [0, 0, 0, 1, 0]
        assert precision(FALLING, relevances, k=3) == [(0 + 0 + 0) / 3]
        assert precision(FALLING, relevances, k=4) == [(0 + 0 + 0 + 1) / 4]
        assert precision(FALLING, relevances, k=5) == [(0 + 0 + 0 + 1 + 0) / 5]

    def test_average_precision_follows_the_formula_and_not_the_example(self):
        # The thesis prints AP@2 = 0.25 and AP@4 = 0.75: it squares P@j instead of weighing it by rel_j,
        # leaves out the division (and 0.25 + 0.25 is not 0.75). Its formula gives 0.5 both times.
        relevances = [0, 1, 0, 1, 1]
        at_2 = average_precision(FALLING, relevances, k=2, denominator="retrieved")
        at_4 = average_precision(FALLING, relevances, k=4, denominator="retrieved")
        assert at_2 == [(0 * 0 + 1 * 1 / 2) / 1]
        assert at_4 == [(0 * 0 + 1 * 1 / 2 + 0 * 1 / 3 + 1 * 2 / 4) / 2]

    def test_tau_is_the_difference_over_the_sum_and_not_a_quotient(self):
        # "concordant over the number of discordant pairs" would be 2/1; the formula is (P − Q) / (P + Q)
        value = kendall_tau([3.0, 2.0, 1.0], [2, 0, 1], variant="joachims")
        assert value == pytest.approx([(2 - 1) / (2 + 1)])

    def test_first_places_agree_for_one_clicked_row(self):
        for labels in ([1, 0, 0], [0, 1, 0]):
            assert mrr([3, 2, 1], labels, k=1) == average_precision([3, 2, 1], labels, k=1)


def test_mrr_is_zero_when_the_first_relevant_row_is_too_deep():
    assert mrr(FALLING, [0, 0, 1, 0, 0]) == [1 / 3]
    assert mrr(FALLING, [0, 0, 1, 0, 0], k=2) == [0.0]


def test_the_rank_of_the_first_relevant_row_is_nan_when_too_deep():
    assert rank_of_first_relevant(FALLING, [0, 0, 1, 1, 0]) == [3.0]
    assert np.isnan(rank_of_first_relevant(FALLING, [0, 0, 1, 1, 0], k=2, empty="zero")).all()


def test_first_rows_are_found_query_by_query():
    offsets = [0, 2, 2, 4, 5]
    np.testing.assert_equal(
        rank_of_first_relevant(FALLING, [0, 1, 0, 0, 1], offsets), [2.0, np.nan, np.nan, 1.0]
    )


@pytest.mark.parametrize(
    ("denominator", "k", "expected"),
    [
        ("R", 2, (1 / 2) / 3),  # 3 relevant rows in all
        ("min(k,R)", 2, (1 / 2) / 2),  # 2 of them could stand in the first 2 ranks
        ("min(k, R)", 2, (1 / 2) / 2),
        ("retrieved", 2, (1 / 2) / 1),  # 1 of them does
        ("R", None, (1 / 2 + 2 / 4 + 3 / 5) / 3),
        ("min(k,R)", None, (1 / 2 + 2 / 4 + 3 / 5) / 3),
        ("retrieved", None, (1 / 2 + 2 / 4 + 3 / 5) / 3),
        ("R", 1, 0 / 3),
        ("min(k,R)", 1, 0 / 1),
        ("retrieved", 1, 0.0),  # nothing to divide by: 0, since the query has relevant rows
    ],
)
def test_three_denominators_of_average_precision(denominator, k, expected):
    value = average_precision(FALLING, [0, 1, 0, 1, 1], k=k, denominator=denominator)
    assert value == pytest.approx([expected])


def test_precision_divides_by_k_even_where_the_list_is_shorter():
    assert precision([2.0, 1.0], [1, 1], k=5) == [2 / 5]
    assert precision([2.0, 1.0], [1, 0]) == [1 / 2]


def test_recall_divides_by_all_relevant_rows():
    assert recall(FALLING, [0, 1, 0, 1, 1], k=4) == [2 / 3]
    assert recall(FALLING, [0, 1, 0, 1, 1]) == [1.0]


def test_hit_is_one_or_zero():
    np.testing.assert_equal(hit(FALLING, [0, 1, 0, 0, 1], [0, 2, 5], k=2), [1.0, 0.0])


def test_relevance_can_start_higher():
    labels = [1, 2, 0, 3, 1]
    assert mrr(FALLING, labels) == [1.0]
    assert mrr(FALLING, labels, relevant_from=2) == [1 / 2]
    assert recall(FALLING, labels, k=2, relevant_from=2.0) == [1 / 2]
    assert np.isnan(hit(FALLING, labels, relevant_from=4)).all()
    assert hit(FALLING, labels, relevant_from=4, empty="zero") == [0.0]


@pytest.mark.parametrize("wrong", [0, -1.0, np.nan, np.inf, True, "2"])
def test_relevance_starts_at_a_number_above_zero(wrong):
    with pytest.raises(BadInput, match="relevant_from must be a number above 0"):
        mrr([1.0], [1], relevant_from=wrong)


def test_arp_weighs_ranks_by_label():
    assert arp(FALLING, [0, 3, 0, 1, 0]) == pytest.approx([(3 * 2 + 1 * 4) / (3 + 1)])
    assert arp(FALLING, [0, 3, 0, 1, 0], k=3) == pytest.approx([3 * 2 / 3])
    assert np.isnan(arp(FALLING, [0, 0, 0, 1, 0], k=3, empty="zero")).all()
    assert arp(FALLING, [0, 0, 0, 0, 0], empty="zero") == [0.0]


def test_arp_of_labels_beyond_all_bounds_is_an_error():
    with pytest.raises(BadInput, match="too large to sum"):
        arp([1.0, 2.0], [1e308, 1e308])


@pytest.mark.parametrize("metric", [mrr, average_precision, precision, hit, arp])
def test_worst_ties_put_the_relevant_row_last(metric):
    tied = metric([1.0, 1.0, 1.0], [1, 0, 0], k=2, ties="worst")
    last = metric([1.0, 3.0, 2.0], [1, 0, 0], k=2)
    np.testing.assert_equal(tied, last)


def test_tau_b_is_scipys():
    rng = np.random.default_rng(3)
    for size in (2, 3, 10, 200):
        scores, labels = rng.integers(0, 6, size).astype(float), rng.integers(0, 5, size)
        expected = kendalltau(scores, labels).statistic
        np.testing.assert_allclose(kendall_tau(scores, labels), [expected], rtol=0, atol=1e-12)


def test_joachims_leaves_ties_out_of_both_sides():
    # pairs: (0,1) tied in score; (0,2) in order; (1,2) in order → (2 − 0) / (2 + 0)
    assert kendall_tau([2.0, 2.0, 1.0], [2, 1, 0], variant="joachims") == [1.0]
    # τ_b still pays for the tie: (2 − 0) / sqrt((3 − 1) · (3 − 0))
    assert kendall_tau([2.0, 2.0, 1.0], [2, 1, 0]) == pytest.approx([2 / (2 * 3) ** 0.5])


@pytest.mark.parametrize("variant", ["b", "joachims"])
def test_tau_without_a_comparable_pair_is_empty(variant):
    for scores, labels in (([1.0, 1.0], [0, 1]), ([1.0, 2.0], [3, 3]), ([1.0], [1])):
        assert np.isnan(kendall_tau(scores, labels, variant=variant)).all()
        assert kendall_tau(scores, labels, variant=variant, empty="one") == [1.0]


def test_tau_at_k_takes_the_first_rows_by_score():
    labels = [3, 4, 1, 0, 5]
    np.testing.assert_equal(kendall_tau(FALLING, labels, k=3), kendall_tau(FALLING[:3], labels[:3]))


def test_unknown_words_are_met_with_the_known_ones():
    with pytest.raises(UnknownName, match=r"no denominator 'k'.*min\(k,R\)"):
        average_precision([1.0], [1], denominator="k")
    with pytest.raises(UnknownName, match="no denominator '3'"):
        average_precision([1.0], [1], denominator=3)
    with pytest.raises(UnknownName, match="no variant of Kendall's tau 'c'"):
        kendall_tau([1.0], [1], variant="c")
