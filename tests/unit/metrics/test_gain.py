"""DCG, NDCG and ERR against arithmetic that stands beside them."""

from __future__ import annotations

from math import log2

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.metrics import dcg, err, ndcg

D1, D2, D3, D4 = (1 / log2(1 + rank) for rank in (1, 2, 3, 4))


def test_dcg_sums_gain_over_the_log_of_the_rank():
    value = dcg([0.1, 0.4, 0.3, 0.2], [3, 0, 2, 1])
    assert value == pytest.approx([0 * D1 + (2**2 - 1) * D2 + (2**1 - 1) * D3 + (2**3 - 1) * D4])


def test_linear_gain_is_the_label_itself():
    assert dcg([0.3, 0.2, 0.1], [0.5, 3, 2], gain="linear") == pytest.approx([0.5 * D1 + 3 * D2 + 2 * D3])


def test_ndcg_of_one_relevant_row_at_rank_two():
    assert ndcg([0.2, 0.9], [1, 0]) == pytest.approx([(1 / log2(3)) / (1 / log2(2))])


def test_the_ideal_is_cut_where_the_order_is():
    # rank 1 holds grade 1, the best single row is grade 2; not divided by an ideal of all three rows
    assert ndcg([0.9, 0.8, 0.7], [1, 2, 2], k=1) == pytest.approx([(2**1 - 1) / (2**2 - 1)])


def test_a_fraction_is_a_grade():
    assert ndcg([0.1, 0.2], [0.5, 0.25]) == pytest.approx(
        [((2**0.25 - 1) * D1 + (2**0.5 - 1) * D2) / ((2**0.5 - 1) * D1 + (2**0.25 - 1) * D2)]
    )


@pytest.mark.parametrize(
    ("ties", "expected"),
    [
        ("stable", 1 * D2),  # rows as they stand: 0, 1, 0
        ("average", (1 / 3) * (D1 + D2 + D3)),  # each of the three places with chance 1/3
        ("worst", 1 * D3),  # the relevant row last
    ],
)
def test_three_rows_with_one_score(ties, expected):
    assert dcg([5.0, 5.0, 5.0], [0, 1, 0], ties=ties) == pytest.approx([expected])


def test_an_average_counts_only_the_discounts_inside_the_cutoff_but_all_tied_rows():
    # score 9 first, then two of three rows tied at 5 are inside k=3; their mean gain is (1 + 3 + 0) / 3
    value = dcg([5.0, 9.0, 5.0, 5.0], [1, 1, 2, 0], k=3, ties="average")
    assert value == pytest.approx([1 * D1 + (1 + 3 + 0) / 3 * (D2 + D3)])


def test_averages_do_not_leak_into_the_next_query():
    both = dcg([5.0, 5.0, 5.0, 5.0], [1, 0, 0, 3], [0, 2, 4], ties="average")
    assert both == pytest.approx([0.5 * (D1 + D2), 3.5 * (D1 + D2)])


def test_the_worst_order_is_no_better_than_the_others():
    scores, labels = [1.0, 1.0, 1.0, 0.0], [2, 0, 1, 3]
    worst, average, stable = (ndcg(scores, labels, ties=ties)[0] for ties in ("worst", "average", "stable"))
    assert worst < average < stable


@pytest.mark.parametrize(("empty", "expected"), [("drop", np.nan), ("zero", 0.0), ("one", 1.0)])
def test_a_query_with_nothing_relevant_follows_the_rule(empty, expected):
    values = ndcg([1.0, 2.0, 3.0], [0, 0, 1], [0, 2, 3], empty=empty)
    np.testing.assert_equal(values, [expected, 1.0])


def test_a_short_list_is_nan_whatever_the_rule():
    values = ndcg([1.0, 3.0, 2.0, 4.0], [0, 1, 0, 0], [0, 1, 3, 4], empty="zero", min_items=2)
    np.testing.assert_equal(values, [np.nan, 1.0, np.nan])


def test_a_query_without_rows_is_nan_unless_no_items_are_asked_for():
    offsets = [0, 0, 1, 1]
    np.testing.assert_equal(ndcg([1.0], [1], offsets, empty="zero"), [np.nan, 1.0, np.nan])
    np.testing.assert_equal(ndcg([1.0], [1], offsets, empty="zero", min_items=0), [0.0, 1.0, 0.0])


def test_a_grade_too_small_to_gain_leaves_nothing_to_divide_by():
    assert np.isnan(ndcg([1.0, 2.0], [1e-20, 0.0])).all()  # 2^1e-20 − 1 is 0 in float64
    assert ndcg([2.0, 1.0], [1e-20, 0.0], gain="linear") == [1.0]


def test_err_by_hand():
    # R = (2^y − 1) / 2^2: grade 1 → 1/4, grade 2 → 3/4
    value = err([0.9, 0.8, 0.7], [1, 0, 2], max_label=2)
    assert value == pytest.approx([1 / 1 * 1 / 4 + 1 / 3 * (1 - 1 / 4) * (1 - 0) * 3 / 4])


def test_err_at_one_sees_only_the_first_row():
    assert err([0.9, 0.8], [3, 4], k=1) == pytest.approx([(2**3 - 1) / 2**4])


def test_err_names_the_way_out_of_a_high_label():
    with pytest.raises(BadInput, match=r"label 5 and max_label=4\. Pass max_label=5"):
        err([1.0], [5])


@pytest.mark.parametrize("wrong", [0, -1, np.inf, np.nan, True, "4", None])
def test_max_label_must_be_a_number_above_zero(wrong):
    with pytest.raises(BadInput, match="max_label must be a number above 0"):
        err([1.0], [1], max_label=wrong)


@pytest.mark.parametrize("function", [dcg, ndcg])
def test_a_gain_that_overflows_points_to_linear(function):
    with pytest.raises(BadInput, match='gain="linear"'):
        function([1.0, 2.0], [1024, 1])
    assert np.isfinite(function([1.0, 2.0], [1024, 1], gain="linear")).all()


@pytest.mark.parametrize("ties", ["stable", "average"])
def test_a_sum_that_overflows_is_an_error_and_not_a_nan(ties):
    with pytest.raises(BadInput, match="too large to sum"):
        ndcg([1.0, 1.0, 1.0], [1e308, 1e308, 1e308], gain="linear", ties=ties)
    with pytest.raises(BadInput, match="too large to sum"):
        ndcg([1.0, 1.0, 1.0], [1023.9, 1023.9, 1023.9], ties=ties)


def test_unknown_words_are_met_with_the_known_ones():
    with pytest.raises(UnknownName, match="no gain 'exp'; did you mean 'exp2'"):
        ndcg([1.0], [1], gain="exp")
    with pytest.raises(UnknownName, match=r"no rule for ties 'best'.*average, stable, worst"):
        ndcg([1.0], [1], ties="best")
    with pytest.raises(UnknownName, match=r"no empty rule 'none'.*drop, one, zero"):
        ndcg([1.0], [1], empty="none")
    with pytest.raises(UnknownName, match="Known: stable, worst"):
        err([1.0], [1], ties="average")
