"""Confidence sequences: the formula against its martingale, and what holds at all looks together."""

from __future__ import annotations

import math

import numpy as np
import pytest

from placings.core import BadInput
from placings.evaluation.sequences import (
    LEAST,
    TIGHTEST,
    find_radius,
    follow_difference,
    follow_mean,
    weigh_counts,
)


@pytest.mark.parametrize("count", [1, 50, 5_000, 10**6])
@pytest.mark.parametrize("level", [0.9, 0.95, 0.999])
def test_the_radius_is_where_the_mixture_martingale_reaches_its_bound(count: int, level: float) -> None:
    alpha = 1 - level
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / TIGHTEST
    total = count * find_radius(count, 1.0, level=level)  # a sum of unit variance that just leaves
    # E exp(λS − nλ²/2) over λ ~ N(0, ρ²), which by Ville's inequality is ever above 1/α with probability α
    mixture = math.exp(rho2 * total**2 / (2 * (count * rho2 + 1))) / math.sqrt(count * rho2 + 1)
    assert mixture == pytest.approx(1 / alpha, rel=1e-9)


def test_the_radius_is_tightest_where_it_should_be() -> None:
    counts = np.array([500, 1_000, 2_500, TIGHTEST, 10_000, 25_000, 100_000])
    against_fixed = find_radius(counts, 0.25) / (1.96 * np.sqrt(0.25 / counts))
    assert counts[against_fixed.argmin()] == TIGHTEST
    assert against_fixed.min() == pytest.approx(1.54, abs=0.02)


def test_no_difference_is_rarely_seen_at_any_look_while_the_fixed_interval_sees_many() -> None:
    runs, people = 300, 4_000
    looks = np.arange(50, people + 1, 50)
    missed = fixed = 0
    for run in range(runs):
        rng = np.random.default_rng([run, 7])
        values = rng.binomial(3, rng.beta(1.2, 1.8, people)) / 3
        treated = rng.random(people) < 0.5
        found = follow_difference(values, treated, looks)
        known = np.isfinite(found.lows)
        missed += bool(((found.lows > 0) | (found.highs < 0))[known].any())
        error = 1.96 * np.sqrt(values.var() * looks / ((n1 := np.cumsum(treated)[looks - 1]) * (looks - n1)))
        fixed += bool((np.abs(found.estimates) > error)[known].any())
    assert missed <= 0.05 * runs
    assert fixed >= 0.2 * runs


def test_a_difference_that_is_there_is_seen() -> None:
    rng = np.random.default_rng(0)
    treated = rng.random(20_000) < 0.5
    values = (rng.random(20_000) < np.where(treated, 0.45, 0.40)).astype(float)
    found = follow_difference(values, treated)
    assert found.excludes_zero
    assert found.lows[-1] < 0.05 < found.highs[-1]
    assert found.estimates[-1] == pytest.approx(values[treated].mean() - values[~treated].mean())


def test_a_look_sees_only_who_came_before() -> None:
    rng = np.random.default_rng(1)
    values, treated = rng.random(900), rng.random(900) < 0.5
    whole = follow_difference(values, treated, [300, 900])
    start = follow_difference(values[:300], treated[:300])
    assert whole.lows[0] == pytest.approx(start.lows[0])
    assert whole.highs[0] == pytest.approx(start.highs[0])


def test_too_few_people_have_no_interval() -> None:
    few = follow_mean(np.zeros(LEAST - 1))
    assert np.isnan(few.lows[0])
    assert few.estimates[0] == 0.0
    assert not few.excludes_zero
    treated = np.arange(200) < LEAST - 1
    assert np.isnan(follow_difference(np.zeros(200), treated).lows[0])
    assert np.isnan(follow_mean([]).estimates[0])


def test_equal_values_are_no_certainty() -> None:
    found = follow_mean(np.zeros(LEAST))
    assert found.highs[0] > 0.1


def test_a_wider_range_has_a_wider_interval() -> None:
    values = np.tile([0.0, 1.0], 100)
    assert follow_mean(values, bounds=(-1.0, 1.0)).highs[0] > follow_mean(values).highs[0]


def test_an_interval_stays_within_what_can_be() -> None:
    found = follow_mean(np.ones(LEAST))
    assert (found.lows[0] > 0.0, found.highs[0]) == (True, 1.0)
    both = follow_difference(np.tile([0.0, 1.0], LEAST), np.tile([False, True], LEAST))
    assert both.highs[0] == 1.0


def test_values_and_looks_that_make_no_sense_are_refused() -> None:
    with pytest.raises(BadInput, match="finite numbers"):
        follow_mean([0.0, np.nan])
    with pytest.raises(BadInput, match="from 0 to 1. Got 0 to 2"):
        follow_mean([0.0, 2.0])
    with pytest.raises(BadInput, match="one value a person"):
        follow_difference([0.0, 1.0], [True])
    with pytest.raises(BadInput, match="from 0 to 2"):
        follow_mean([0.0, 1.0], [3])


# -- the sample-ratio test ---------------------------------------------------------------------------


def test_the_weight_is_the_product_of_what_each_person_adds() -> None:
    shares, prior = {"a": 0.5, "b": 0.3, "c": 0.2}, 10.0
    counts = dict.fromkeys(shares, 0)
    slow = 0.0
    for person in "abacbbbaacbb":
        seen = sum(counts.values())
        slow += math.log((prior * shares[person] + counts[person]) / (prior + seen) / shares[person])
        counts[person] += 1
    assert weigh_counts(counts, shares, prior=prior) == pytest.approx(slow)


@pytest.mark.parametrize("people", [1, 7, 40])
def test_the_weight_of_true_shares_is_1_on_average(people: int) -> None:
    shares = {"a": 0.7, "b": 0.3}
    mean = sum(
        math.comb(people, count) * 0.7**count * 0.3 ** (people - count)
        * math.exp(weigh_counts({"a": count, "b": people - count}, shares, prior=5.0))
        for count in range(people + 1)
    )  # fmt: skip
    assert mean == pytest.approx(1.0)


def test_an_arm_that_lost_people_is_seen_and_a_fair_one_is_not() -> None:
    shares = {"a": 0.5, "b": 0.5}
    assert weigh_counts({"a": 50_200, "b": 49_800}, shares) < 0
    assert weigh_counts({"a": 51_000, "b": 49_000}, shares) > math.log(1_000)
    assert weigh_counts({"a": 1_000}, shares) > math.log(1_000)  # nobody ever came to b


def test_people_in_an_arm_without_a_share_cannot_be() -> None:
    assert weigh_counts({"a": 10, "b": 1}, {"a": 1.0, "b": 0.0}) == math.inf
    assert weigh_counts({"a": 10}, {"a": 1.0, "b": 0.0}) == pytest.approx(0.0)
    with pytest.raises(BadInput, match="Got none for b"):
        weigh_counts({"a": 10, "b": 1}, {"a": 1.0})
