"""The lower bound of a kind's gain: its arithmetic, and that it holds its level where Student's does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from placings.core.errors import BadInput
from placings.rerank.gain_bounds import LOSERS, bound_gain


def test_the_bound_is_students_with_one_more_search_that_lost_everything_and_a_term_for_skewness() -> None:
    bound = bound_gain([0.5, 0.0, 0.0, 0.0])
    theta = (0.5 - 1.0) / 5.0  # 4 searches and one that lost 1
    away = np.array([0.5, 0.0, 0.0, 0.0, -1.0]) - theta
    t = student.ppf(0.95, 3)
    skew = (away**3).sum() / (away**2).sum()
    assert LOSERS == 1.0
    assert skew < -0.1
    assert bound.mean == 0.125
    assert bound.clusters == 4
    low = theta - t * math.sqrt(4 / 3 * (away**2).sum()) / 5.0 + (t**2 - 1.0) / 3.0 * skew / 5.0
    assert bound.low == pytest.approx(low)


def test_a_skewness_towards_gains_never_raises_the_bound() -> None:
    gains = np.repeat([1.0, 0.0], [5, 95])  # five large gains against the one added loss
    away = np.append(gains, -1.0) - (5.0 - 1.0) / 101.0
    assert (away**3).sum() > 0.0
    error = math.sqrt(100 / 99 * (away**2).sum()) / 101.0
    assert bound_gain(gains).low == pytest.approx(4.0 / 101.0 - student.ppf(0.95, 99) * error)


def test_where_everything_was_lost_the_bound_says_so() -> None:
    assert bound_gain(np.full(10, -1.0)).low == -1.0


def test_in_a_large_kind_the_bound_is_students() -> None:
    gains = np.tile([0.5, 0.0, 0.0, -0.25], 25_000)
    mean, sd = 0.0625, np.std([0.5, 0.0, 0.0, -0.25])
    low = mean - 1.645 * sd / math.sqrt(100_000)
    assert bound_gain(gains).low == pytest.approx(low, abs=2e-5)  # 1 / 100,000 and its part of the error


def test_searches_of_one_person_count_together() -> None:
    gains = np.tile([0.5, 0.5, 0.0, 0.0], 50)
    alone, pairs = bound_gain(gains), bound_gain(gains, clusters=np.repeat(np.arange(100), 2))
    assert pairs.mean == alone.mean == 0.25
    assert pairs.clusters == 100
    assert pairs.low < alone.low
    halved = bound_gain(gains[::2])  # what a hundred people said, once each
    assert pairs.low == pytest.approx(halved.low)


def test_searches_that_count_twice_are_as_two_of_one_person() -> None:
    gains = np.array([0.5, 0.0, -0.5, 0.25])
    twice = bound_gain(np.repeat(gains, 2), clusters=np.repeat(np.arange(4), 2))
    weighed = bound_gain(gains, counts=np.full(4, 2.0))
    assert weighed.low == pytest.approx(twice.low)
    assert weighed.mean == pytest.approx(0.0625)


def test_the_upper_bound_is_the_lower_one_turned_round() -> None:
    gains = np.array([0.5, 0.0, -0.5, 0.25, 0.0])
    assert bound_gain(gains).high == pytest.approx(-bound_gain(-gains).low)


def test_one_person_and_nobody_say_nothing() -> None:
    for bound in (bound_gain([0.5, 0.5, 0.5], clusters=["a", "a", "a"]), bound_gain([1.0]), bound_gain([])):
        assert (bound.low, bound.high) == (-1.0, 1.0)
    assert math.isnan(bound_gain([]).mean)
    heavy = bound_gain(np.full(103, 0.5), clusters=[0] * 100 + [1, 2, 3])  # four people, one is nearly all
    assert heavy.low == -1.0


@pytest.mark.parametrize("margin", [0.005, 0.02])
@pytest.mark.parametrize("n", [2, 10, 30, 80, 200, 1000])
def test_where_each_search_gains_a_little_or_loses_everything_the_level_holds_exactly(
    n: int, margin: float
) -> None:
    """The worst there is, without chance: k losses in n are binomial, so the error is a sum over k.

    The mean is the margin itself; the small gain is anything from 0.1/n to 0.9. Numbers of losses
    that are rarer than 1 in 10⁹ are left out.
    """
    worst = student_worst = 0.0
    for small in np.geomspace(0.1 / n, 0.9, 25):
        lost = (small + margin) / (1.0 + small)
        most = int(binom.ppf(1.0 - 1e-9, n, lost))
        losses = np.arange(min(n, most) + 1)
        passes = [bound_gain(np.repeat([small, -1.0], [n - k, k])).low >= -margin for k in losses.tolist()]
        chance = binom.pmf(losses, n, lost)
        worst = max(worst, float(chance[passes].sum()))
        mean = small - (1.0 + small) * losses / n
        error = (1.0 + small) * np.sqrt(losses / n * (1.0 - losses / n) / (n - 1))
        student_worst = max(
            student_worst, float(chance[mean - student.ppf(0.95, n - 1) * error >= -margin].sum())
        )
    assert worst <= 0.05
    assert student_worst > (0.3 if n <= 30 else 0.065)


@pytest.mark.parametrize("people", [2, 5])
def test_the_level_holds_for_people_who_search_often_and_fare_alike(people: int) -> None:
    """People have 1 to 2·people − 1 searches; all of them gain a little, or all lose everything.

    500 trials at 5 % pass 36 times or more with a probability of 0.02; the seed is fixed.
    """
    rng = np.random.default_rng(people)
    lost = 0.105 / 1.1
    passed = 0
    for _ in range(500):
        sizes = rng.integers(1, 2 * people, size=60)
        who = np.repeat(np.arange(60), sizes)
        gains = np.where(rng.random(60) < lost, -1.0, 0.1)[who]  # −0.005 in the mean
        passed += bound_gain(gains, clusters=who).low >= -0.005
    assert passed <= 35


@pytest.mark.parametrize("n", [10, 30, 80, 200, 1000])
def test_a_kind_that_loses_two_hundredths_is_hardly_ever_passed(n: int) -> None:
    rng = np.random.default_rng(n)
    draws = rng.choice([0.0, 0.5, -0.5], p=[0.9, 0.03, 0.07], size=(1000, n))  # −0.02 in the mean
    assert sum(bound_gain(each).low >= -0.005 for each in draws) <= 10
    assert sum(bound_gain(each).low >= -0.02 for each in draws) <= 65  # of 1,000 at 5 %, 66 are one in 80


def test_bad_arguments_are_named() -> None:
    with pytest.raises(BadInput, match="from -1 to 1"):
        bound_gain([2.0])
    with pytest.raises(BadInput, match="from -1 to 1"):
        bound_gain([np.nan])
    with pytest.raises(BadInput, match="one entry for each of 2 searches"):
        bound_gain([0.0, 0.1], clusters=["a"])
    with pytest.raises(BadInput, match="counts must be finite and above 0"):
        bound_gain([0.0, 0.1], counts=[1.0, 0.0])
    with pytest.raises(BadInput, match="level must be"):
        bound_gain([0.0], level=1.0)
