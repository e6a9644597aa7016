"""Per-feature facts: hand-counted columns, numpy and scipy as references, dense against sparse."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.sparse import coo_array, csr_array
from scipy.stats import skew

from placings.core.errors import BadInput, UnknownName
from placings.data.quality import COVERAGE_RULES, FeatureFacts, describe_features
from placings.data.ranking import RankingData

NAN = float("nan")


def wrap(X: Any) -> RankingData:
    """One query of these rows."""
    matrix = X if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float32)
    return RankingData.from_arrays(matrix, np.zeros(matrix.shape[0]), np.zeros(matrix.shape[0]))


def column(*values: float, **options: Any) -> FeatureFacts:
    return describe_features(wrap([[value] for value in values]), **options)[0]


def test_a_hand_counted_column_has_the_facts_of_its_arithmetic() -> None:
    facts = column(1.0, NAN, 4.0, 1.0)  # present 1, 4, 1: mean 2, away −1, 2, −1
    assert facts.name == "f1"
    assert facts.rows == 4
    assert (facts.minimum, facts.median, facts.mean, facts.maximum) == (1.0, 1.0, (1 + 4 + 1) / 3, 4.0)
    assert facts.std == pytest.approx(((1 + 4 + 1) / 3) ** 0.5)
    assert facts.skew == pytest.approx(((-1 + 8 - 1) / 3) / ((1 + 4 + 1) / 3) ** 1.5)
    assert (facts.zeros, facts.negatives, facts.missing, facts.covered) == (0.0, 0.0, 1 / 4, 3 / 4)
    assert facts.constant is False
    assert facts.shape == (2, 0, 0, 0, 0, 0, 0, 1)


def test_shares_are_of_all_rows() -> None:
    facts = column(0.0, -0.0, -3.0, NAN, 5.0)
    assert (facts.zeros, facts.negatives, facts.missing) == (2 / 5, 1 / 5, 1 / 5)


def test_the_median_of_an_even_count_is_the_mean_of_the_middle_two() -> None:
    assert column(8.0, 1.0, 2.0, 4.0).median == (2 + 4) / 2
    assert column(8.0, 1.0, NAN, 4.0).median == 4.0


def test_a_value_on_a_border_belongs_to_the_right_bin_and_the_maximum_to_the_last() -> None:
    assert column(*range(9)).shape == (1, 1, 1, 1, 1, 1, 1, 2)


def test_an_all_missing_feature_has_nan_facts_and_no_warning() -> None:
    facts = column(NAN, NAN)
    assert np.isnan([facts.minimum, facts.maximum, facts.mean, facts.std, facts.skew, facts.median]).all()
    assert facts.missing == 1.0
    assert facts.all_missing
    assert (facts.zeros, facts.negatives, facts.covered) == (0.0, 0.0, 0.0)
    assert not facts.constant
    assert facts.shape == (0,) * 8


@pytest.mark.parametrize("sparse", [False, True])
def test_without_rows_or_columns_there_is_no_error(sparse: bool) -> None:
    for rows, width in [(0, 2), (2, 0), (0, 0)]:
        X = np.zeros((rows, width), dtype=np.float32)
        data = RankingData(
            csr_array(X) if sparse else X,
            np.zeros(rows),
            np.array([0, rows]),
            np.array([1]),
            tuple(f"f{place}" for place in range(width)),
        )
        facts = describe_features(data)
        assert len(facts) == width
        assert all(np.isnan(fact.missing) and np.isnan(fact.mean) for fact in facts if not rows)


def test_a_constant_feature_has_no_spread_even_where_its_mean_would_round() -> None:
    facts = describe_features(wrap(np.full((100_003, 1), 0.1, dtype=np.float32)))[0]
    assert facts.constant
    assert (facts.std, facts.skew, facts.mean) == (0.0, 0.0, float(np.float32(0.1)))


def test_the_large_and_the_small_survive_in_one_column() -> None:
    values = np.array([1e8, 1e-8, 1e8, 3e-8, 1e8 + 8], dtype=np.float32)
    exact = [Fraction(float(value)) for value in values]
    mean = sum(exact) / 5
    second = float(sum((value - mean) ** 2 for value in exact) / 5)
    third = float(sum((value - mean) ** 3 for value in exact) / 5)
    facts = describe_features(wrap(values[:, None]))[0]
    assert facts.mean == pytest.approx(float(mean), rel=1e-14)
    assert facts.std == pytest.approx(second**0.5, rel=1e-12)
    assert facts.skew == pytest.approx(third / second**1.5, rel=1e-12)
    near = np.array([16_777_215.0, 16_777_214.0, 16_777_215.0], dtype=np.float32)  # mean² dwarfs m₂ = 2/9
    assert describe_features(wrap(near[:, None]))[0].std == pytest.approx((2 / 9) ** 0.5, rel=1e-8)


numbers = st.floats(-(2.0**90), 2.0**90, width=32) | st.just(0.0) | st.just(NAN)
matrices = arrays(np.float32, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=numbers)


@given(matrices)
@settings(max_examples=150, deadline=None)
def test_the_statistics_are_those_of_numpy_and_scipy(X: Any) -> None:
    for place, facts in enumerate(describe_features(wrap(X))):
        values = X[:, place].astype(np.float64)
        present = values[~np.isnan(values)]
        assert facts.missing == (len(values) - len(present)) / len(values)
        if not len(present):
            continue
        assert (facts.minimum, facts.maximum) == (present.min(), present.max())
        assert facts.median == np.median(present)
        size = np.abs(present).max()
        assert facts.mean == pytest.approx(present.mean(), rel=1e-9, abs=1e-15 * size)
        assert facts.std == pytest.approx(present.std(), rel=1e-6, abs=1e-15 * size)
        assert facts.zeros == (present == 0).sum() / len(values)
        assert facts.negatives == (present < 0).sum() / len(values)
        assert facts.constant == (len(np.unique(present)) == 1)
        if not facts.constant:
            assert facts.skew == pytest.approx(float(skew(present)), rel=1e-6, abs=1e-6)
        edges = present.min() + (present.max() - present.min()) * np.arange(1, 8) / 8
        bins = np.searchsorted(edges, present, side="right")
        assert facts.shape == tuple(np.bincount(bins, minlength=8))


@given(matrices, st.sampled_from([*COVERAGE_RULES, -1.5, 0.0, 2.0]))
@settings(max_examples=150, deadline=None)
def test_sparse_data_have_the_facts_of_their_dense_twin(X: Any, rule: Any) -> None:
    dense = describe_features(wrap(X), rule=rule)
    sparse = describe_features(wrap(csr_array(X)), rule=rule)
    for one, other in zip(dense, sparse, strict=True):
        size = np.nan_to_num(max(abs(one.minimum), abs(one.maximum)))
        close = {"rel": 1e-9, "abs": 1e-14 * size, "nan_ok": True}
        assert (one.mean, one.std) == (pytest.approx(other.mean, **close), pytest.approx(other.std, **close))
        assert one.skew == pytest.approx(other.skew, rel=1e-6, abs=1e-6, nan_ok=True)
        for name in ("minimum", "maximum", "median", "zeros", "negatives", "missing", "constant", "shape"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=0, abs=0, nan_ok=True)
        if rule != "mean":  # the two means may differ in the last bit, and a value may lie on it
            assert one.covered == other.covered


def test_entries_stored_twice_are_added_up_and_stored_zeros_are_zeros() -> None:
    entries = coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [0, 0, 0])), shape=(3, 1), dtype=np.float32)
    doubled = csr_array(
        (np.array([1.0, 2.0, 0.0], dtype=np.float32), np.array([0, 0, 0]), np.array([0, 2, 3, 3])),
        shape=(3, 1),
    )
    for X in (entries, doubled):
        facts = describe_features(wrap(X))[0]
        assert (facts.maximum, facts.mean, facts.zeros) == (3.0, 1.0, 2 / 3)


def test_a_wide_sparse_matrix_costs_its_columns_not_their_rows() -> None:
    rows, width = 1_000_000, 2**16  # dense it would be 262 GB
    X = csr_array(
        coo_array(
            (np.float32([2, -1, NAN]), ([5, 9, 7], [3, 3, width - 1])), shape=(rows, width), dtype=np.float32
        )
    )
    facts = describe_features(wrap(X))
    assert (facts[3].minimum, facts[3].median, facts[3].maximum) == (-1.0, 0.0, 2.0)
    assert facts[3].negatives == 1 / rows
    assert facts[0].constant
    assert facts[-1].missing == 1 / rows


@pytest.mark.parametrize(
    ("rule", "covered"),
    [
        ("non_zero", 4),
        ("positive", 3),
        ("non_null", 5),
        ("mean", 1),
        ("median", 2),
        (1.0, 2),
        (-2, 4),
        (1e300, 0),
    ],
)
def test_each_coverage_rule_counts_what_it_says(rule: Any, covered: int) -> None:
    values = (-2.0, 0.0, 1.0, 2.0, 9.0, NAN)  # mean 2, median 1: above is strictly above
    assert column(*values, rule=rule).covered == covered / 6
    sparse = describe_features(wrap(csr_array(np.array(values, dtype=np.float32)[:, None])), rule=rule)[0]
    assert sparse.covered == covered / 6


def test_a_threshold_is_compared_as_it_is_not_as_its_nearest_float32() -> None:
    assert column(0.1, rule=0.1).covered == 1.0  # float32 0.1 is 0.100000001…
    assert column(0.3, rule=float(np.float32(0.3))).covered == 0.0


def test_an_unknown_rule_is_named_with_those_that_exist() -> None:
    with pytest.raises(UnknownName, match=r"no coverage rule 'nonzero'; did you mean 'non_zero'\?"):
        column(1.0, rule="nonzero")
    for rule in (NAN, True, None):
        with pytest.raises(BadInput, match="rule must be a number or one of"):
            column(1.0, rule=rule)


def test_neither_threads_nor_blocks_change_a_fact_and_the_data_stay_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = np.random.default_rng(0).lognormal(size=(70_000, 18)).astype(np.float32)
    before = X.copy()
    monkeypatch.setenv("PLACINGS_THREADS", "1")
    alone = describe_features(wrap(X))
    monkeypatch.setenv("PLACINGS_THREADS", "3")
    assert describe_features(wrap(X)) == alone
    assert [fact.name for fact in alone] == [f"f{place}" for place in range(1, 19)]
    assert alone[17].maximum == X[:, 17].max()
    np.testing.assert_array_equal(X, before)
