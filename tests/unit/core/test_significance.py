"""Intervals and tests against arithmetic by hand, scipy, and all sign assignments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from placings.core import statistics as significance
from placings.core.errors import BadInput
from placings.core.statistics import (
    adjust_holm,
    bootstrap_means,
    compare_pairs,
    estimate_mean,
    flip_signs,
    interval_means,
    judge_replicates,
    mean_known,
    measure_effect,
    percentile_interval,
    resample_means,
    t_interval,
)


def test_holm_by_hand() -> None:
    # sorted 0.01, 0.02, 0.03, 0.20: 4·0.01, 3·0.02, max(0.06, 2·0.03), max(0.06, 1·0.20)
    assert adjust_holm([0.03, 0.01, 0.20, 0.02]) == pytest.approx([0.06, 0.04, 0.20, 0.06])
    assert adjust_holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])  # 2·0.5, then not below it


def test_holm_leaves_nan_out_of_the_family_and_keeps_the_shape() -> None:
    adjusted = adjust_holm([[0.01, np.nan], [0.04, 0.03]])
    assert adjusted.shape == (2, 2)
    assert np.isnan(adjusted[0, 1])
    assert adjusted[~np.isnan(adjusted)] == pytest.approx([0.03, 0.06, 0.06])


@pytest.mark.parametrize("seed", range(3))
def test_few_queries_are_tested_over_all_sign_assignments(seed: int) -> None:
    differences = np.random.default_rng(seed).normal(0.2, 1.0, 9)
    seen = abs(differences.sum())
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product([1, -1], repeat=9)]
    exact = sum(total >= seen - 1e-9 for total in sums) / 2**9
    assert flip_signs(differences[:, None])[0] == exact
    drawn = flip_signs(differences[:, None], permutations=500)[0]  # 2^9 = 512 are too many: drawn
    assert drawn == pytest.approx(exact, abs=0.08)


def test_a_drawn_p_value_is_one_plus_count_over_one_plus_draws() -> None:
    differences = np.full((40, 1), 0.5)  # only +++… and −−−… are as far from 0: nothing of it is drawn
    assert flip_signs(differences, permutations=99)[0] == 1 / 100


def test_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).normal(0.1, 1.0, (50, 3))
    whole = flip_signs(values, permutations=400), *bootstrap_means(values, draws=300)
    monkeypatch.setattr(significance, "CHUNK", 56 * 10)  # 11 draws at a time
    parts = flip_signs(values, permutations=400), *bootstrap_means(values, draws=300)
    assert np.array_equal(whole[0], parts[0])
    assert np.allclose(whole[1:], parts[1:], rtol=1e-12)


def test_zero_and_missing_differences_have_no_say() -> None:
    plain = np.array([0.3, -0.1, 0.2])
    padded = np.array([0.3, 0.0, -0.1, np.nan, 0.2])
    assert flip_signs(padded[:, None])[0] == flip_signs(plain[:, None])[0] == 4 / 8  # ±0.6 and ±0.4 of 8
    nothing = np.array([[0.0, np.nan], [0.0, np.nan]])
    assert flip_signs(nothing)[0] == 1.0
    assert np.isnan(flip_signs(nothing)[1])


def test_the_randomisation_test_keeps_its_level_when_nothing_differs() -> None:
    noise = np.random.default_rng(1).normal(0.0, 1.0, (30, 400))
    rejected = (flip_signs(noise, permutations=999) <= 0.05).mean()
    assert 0.02 < rejected < 0.08


def test_the_t_test_is_scipys() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.random((25, 4)), rng.random((25, 4))
    assert compare_pairs(first - second) == pytest.approx(stats.ttest_rel(first, second).pvalue, rel=1e-12)
    gap = first - second
    gap[3, 0] = np.nan
    expected = stats.ttest_1samp(np.delete(gap[:, 0], 3), 0.0).pvalue
    assert compare_pairs(gap)[0] == pytest.approx(expected, rel=1e-12)


def test_constant_differences_are_answered_without_a_warning() -> None:
    columns = np.array([[0.0, 0.1, 0.1 + 1e-17, np.nan], [0.0, 0.1, 0.1, 0.2], [0.0, 0.1, 0.1, np.nan]])
    assert compare_pairs(columns)[:3].tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(compare_pairs(columns)[3])
    assert measure_effect(columns)[:2].tolist() == [0.0, np.inf]
    assert np.isnan(measure_effect(columns)[3])


def test_the_effect_is_mean_over_deviation() -> None:
    differences = np.array([0.1, 0.4, -0.2, 0.3])
    assert measure_effect(differences[:, None])[0] == pytest.approx(
        differences.mean() / differences.std(ddof=1)
    )


def test_the_bootstrap_covers_the_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = []
    for seed in range(200):
        sample = rng.beta(2.0, 1.0, (60, 1))
        low, high = bootstrap_means(sample, draws=200, level=0.9, random_state=seed)
        hits.append(low[0] <= 2 / 3 <= high[0])
    assert 0.82 < np.mean(hits) < 0.96


def test_the_bootstrap_is_about_the_normal_interval_and_repeats_by_seed() -> None:
    values = np.random.default_rng(0).normal(5.0, 2.0, (400, 1))
    low, high = bootstrap_means(values, draws=4000, random_state=3)
    width = 1.96 * values.std() / 20
    assert low[0] == pytest.approx(values.mean() - width, abs=0.03)
    assert high[0] == pytest.approx(values.mean() + width, abs=0.03)
    again = bootstrap_means(values, draws=4000, random_state=3)
    assert (low[0], high[0]) == (again[0][0], again[1][0])
    assert low[0] != bootstrap_means(values, draws=4000, random_state=4)[0][0]


def test_every_column_sees_the_same_draws_and_only_its_own_queries() -> None:
    values = np.random.default_rng(0).random((30, 1))
    twice = np.concatenate([values, values, np.full((30, 1), np.nan)], axis=1)
    low, high = bootstrap_means(twice, draws=100)
    assert low[0] == pytest.approx(low[1], rel=1e-12)  # another column of the product of matrices
    assert np.isnan([low[2], high[2]]).all()
    unscored = np.concatenate([values, np.full((5, 1), np.nan)])
    assert bootstrap_means(unscored, draws=100)[0][0] == pytest.approx(low[0], rel=1e-12)


def test_no_draws_no_interval() -> None:
    low, high = bootstrap_means(np.ones((3, 2)), draws=0)
    assert np.isnan([*low, *high]).all()
    assert np.isnan(bootstrap_means(np.full((3, 1), np.nan))[0]).all()


def test_means_leave_out_what_is_missing() -> None:
    assert mean_known(np.array([[1.0, np.nan], [3.0, np.nan]]))[0] == 2.0
    assert np.isnan(mean_known(np.full((2, 1), np.nan))).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_means(np.ones((2, 1)), draws=-1), "bootstrap must be a whole number of 0 or more"),
        (
            lambda: bootstrap_means(np.ones((2, 1)), level=1.0),
            "level must be a number between 0 and 1. Got 1.0",
        ),
        (
            lambda: flip_signs(np.ones((2, 1)), permutations=0),
            "permutations must be a whole number of 1 or more",
        ),
    ],
)
def test_bad_settings_are_named(call, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        call()


# -- clusters ----------------------------------------------------------------------------------------------

FIVE = np.repeat(np.arange(60), 5)  # 60 sessions of 5 searches


def draw_sessions(rng: np.random.Generator) -> np.ndarray:
    """Differences of 300 searches around 0, half of their variance that of their sessions."""
    return (rng.normal(0.0, 1.0, 60)[FIVE] + rng.normal(0.0, 1.0, 300))[:, None]


def test_intervals_by_search_are_too_narrow_where_sessions_move_together() -> None:
    """The variance of a mean of 5 a session is 1 + 4 · ½ = 3 times that of independent searches."""
    rng = np.random.default_rng(0)
    alone = together = 0
    for repeat in range(300):
        values = draw_sessions(rng)
        low, high = bootstrap_means(values, draws=200, random_state=repeat)
        alone += low[0] <= 0.0 <= high[0]
        low, high = bootstrap_means(values, draws=200, random_state=repeat, clusters=FIVE)
        together += low[0] <= 0.0 <= high[0]
    assert 0.91 <= together / 300 <= 0.98
    assert alone / 300 < 0.82  # P(|N(0, 3)| < 1.96) = 0.74, called 0.95


@pytest.mark.parametrize("test", [flip_signs, compare_pairs])
def test_tests_by_search_reject_far_too_often_where_sessions_move_together(test: object) -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([draw_sessions(rng) for _ in range(300)], axis=1)  # 300 columns: 300 repeats
    options = {"permutations": 500} if test is flip_signs else {}
    assert 0.02 <= np.mean(test(values, clusters=FIVE, **options) <= 0.05) <= 0.09  # type: ignore[operator]
    assert np.mean(test(values, **options) <= 0.05) > 0.18  # type: ignore[operator]


def test_clusters_of_one_query_each_change_no_bit() -> None:
    values = np.random.default_rng(2).normal(0.1, 1.0, (40, 3))
    values[[3, 7, 8], [0, 1, 2]] = np.nan
    values[5] = np.nan  # a query that nobody scored is not drawn
    for own in (np.arange(40)[::-1], [f"s{place}" for place in range(40)], [None] * 40, np.full(40, np.nan)):
        assert np.array_equal(bootstrap_means(values, clusters=own), bootstrap_means(values))
        assert np.array_equal(flip_signs(values, clusters=own), flip_signs(values))
        assert np.array_equal(compare_pairs(values, clusters=own), compare_pairs(values))


def test_a_cluster_that_is_drawn_brings_all_its_queries() -> None:
    values = np.array([[0.0], [0.0], [0.0], [4.0]])
    drawn = resample_means(values, 500, clusters=["a", "a", "a", "b"])
    assert set(np.unique(drawn)) == {0.0, 1.0, 4.0}  # a and a; a and b, (3 · 0 + 4) / 4; b and b


def test_cluster_sums_are_what_is_tested() -> None:
    values = np.array([0.5, 0.7, -0.2, 0.1, 0.4, 0.3])
    sums = np.array([0.5 + 0.7, -0.2 + 0.1, 0.4 + 0.3])
    clusters = [1, 1, 2, 2, 3, 3]
    assert flip_signs(values[:, None], clusters=clusters) == flip_signs(sums[:, None])
    # pairs in all clusters: the t-test of the clusters' means
    assert compare_pairs(values[:, None], clusters=clusters)[0] == pytest.approx(
        stats.ttest_1samp(sums / 2, 0.0).pvalue
    )


def test_differences_that_cancel_within_a_cluster_are_no_difference() -> None:
    values = np.array([[0.1], [0.2], [-0.3]])  # their sum is 2.8e-17
    assert flip_signs(values, clusters=["a", "a", "a"]) == 1.0


def test_one_cluster_says_nothing_of_others() -> None:
    values = np.array([[0.1], [0.2], [0.4]])
    same = ["a", "a", "a"]
    assert np.isnan(compare_pairs(values, clusters=same)[0])
    assert flip_signs(values, clusters=same) == 1.0
    low, high = bootstrap_means(values, clusters=same)
    assert (low[0], high[0]) == (pytest.approx(0.7 / 3), pytest.approx(0.7 / 3))


def test_clusters_must_be_as_many_as_queries() -> None:
    with pytest.raises(BadInput, match="one id for each of the 3 queries"):
        bootstrap_means(np.ones((3, 1)), clusters=["a", "b"])


def test_the_t_interval_of_a_mean_is_that_of_scipy_without_clusters() -> None:
    values = np.array([0.3, 0.1, 0.9, 0.4])
    found = estimate_mean(values, level=0.9)
    theirs = stats.t.interval(0.9, 3, values.mean(), stats.sem(values))
    assert (found.low, found.high) == pytest.approx(theirs)


def test_replicates_are_judged_by_the_smaller_tail() -> None:
    drawn = np.array([[-1.0, 1.0], [1.0, 1.0], [2.0, 3.0]])
    assert judge_replicates(drawn).tolist() == [1.0, 0.5]  # min(1, 2 · 2/4), 2 · 1/4
    assert np.isnan(judge_replicates(np.empty((0, 2)))).all()
    assert np.isnan(percentile_interval(np.empty((0, 2)))).all()


def test_a_t_interval_of_what_is_not_skewed_is_that_of_scipy() -> None:
    values = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    low, high = t_interval(np.stack([values, values + 7.0], axis=1), level=0.9)
    ends = stats.t.interval(0.9, 4, 0.0, stats.sem(values))
    assert (low[0], high[0]) == pytest.approx(ends)
    assert (low[1], high[1]) == pytest.approx((7.0 + ends[0], 7.0 + ends[1]))


def test_a_t_interval_is_longer_on_the_side_of_the_skew() -> None:
    values = np.array([0.0] * 9 + [10.0])[:, None]
    low, high = t_interval(values)
    error, t = stats.sem(values[:, 0]), stats.t.ppf(0.975, 9)
    skew = stats.skew(values[:, 0], bias=False)
    assert low[0] == pytest.approx(1.0 - t * error)
    assert high[0] == pytest.approx(1.0 + t * error + error * skew / np.sqrt(10) * (2 * t**2 + 1) / 6)
    mirrored = t_interval(-values)
    assert (mirrored[0][0], mirrored[1][0]) == pytest.approx((-high[0], -low[0]))


def test_a_t_interval_leaves_out_one_cluster_at_a_time() -> None:
    """Means without each of three clusters: of 3 and 5, of 1 and 5, of 1, 1 and 3; one has two queries."""
    values, clusters = np.array([1.0, 1.0, 3.0, 5.0, np.nan]), ["a", "a", "b", "c", "d"]
    without = np.array([(3 + 5) / 2, (1 + 1 + 5) / 3, (1 + 1 + 3) / 3])
    error = np.sqrt(2 / 3 * ((without - without.mean()) ** 2).sum())
    low, high = t_interval(values[:, None], clusters=clusters)
    parts = np.array([2 - 2 * 2.5, 3 - 2.5, 5 - 2.5])
    skew = stats.skew(parts, bias=False)
    t = stats.t.ppf(0.975, 2)
    shift = error * skew / np.sqrt(3) * (2 * t**2 + 1) / 6
    assert (low[0], high[0]) == pytest.approx(
        (2.5 - t * error + min(shift, 0.0), 2.5 + t * error + max(shift, 0.0))
    )


def test_equal_values_have_an_interval_of_no_width_and_one_cluster_has_none() -> None:
    low, high = t_interval(np.full((4, 1), 0.1))
    assert (low[0], high[0]) == (pytest.approx(0.1), pytest.approx(0.1))
    assert np.isnan(t_interval(np.ones((3, 1)), clusters=["a", "a", "a"])).all()
    assert np.isnan(t_interval(np.full((3, 1), np.nan))).all()


def test_intervals_of_few_cover_the_mean_where_the_percentile_bootstrap_does_not() -> None:
    """Thirty sessions of one to many skewed values; the mean of all is 1."""
    rng = np.random.default_rng(0)
    held = {"t": 0, "percentile": 0}
    runs = 400
    for _ in range(runs):
        sizes = rng.geometric(0.5, 30)
        values = (np.repeat(rng.exponential(1.0, 30), sizes) * rng.exponential(1.0, sizes.sum()))[:, None]
        clusters = np.repeat(np.arange(30), sizes)
        for name, (low, high) in {
            "t": interval_means(values, clusters=clusters),
            "percentile": bootstrap_means(values, clusters=clusters, draws=200),
        }.items():
            held[name] += low[0] <= 1.0 <= high[0]
    assert held["percentile"] < held["t"]
    assert held["t"] / runs > 0.9


def test_intervals_are_cut_at_bounds_and_many_units_are_drawn() -> None:
    few, many = np.array([[0.9], [1.0], [1.0]]), np.random.default_rng(0).random((101, 1))
    assert interval_means(few)[1][0] > 1.0
    assert interval_means(few, bounds=[(0.0, 1.0)])[1][0] == 1.0
    assert interval_means(many) == bootstrap_means(many)
    assert np.isnan(interval_means(few, draws=0)).all()
    both = interval_means(
        np.tile(many, 2), chance=np.stack([np.full(101, np.nan), np.full(101, 100.0)], axis=1)
    )
    assert both[0][0] == bootstrap_means(many)[0][0]
    assert both[1][1] - both[0][1] > both[1][0] - both[0][0]  # 100 a query is far more than the sample shows
