"""Estimates of what another policy would have earned: arithmetic by hand, refusals, and what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from placings.core import BadInput, estimate_mean
from placings.evaluation import (
    bound_mean,
    estimate_doubly_robust,
    estimate_ips,
    estimate_item_position,
    estimate_position_based,
    estimate_snips,
    measure_effective_size,
    sum_lists,
)

LOGGED, TARGET, REWARDS = [0.5, 0.25, 0.8, 0.1], [1.0, 0.5, 0.0, 0.2], [1.0, 0.0, 1.0, 1.0]


def test_ips_weighs_each_reward_by_target_over_logged() -> None:
    assert estimate_ips(REWARDS, LOGGED, TARGET).tolist() == [1.0 / 0.5, 0.0, 0.0, 0.2 / 0.1]


def test_a_clip_bounds_the_weight_and_only_lowers_what_is_not_negative() -> None:
    clipped = estimate_ips(REWARDS, LOGGED, TARGET, clip=1.5)
    assert clipped.tolist() == [1.5, 0.0, 0.0, 1.5]
    assert (clipped <= estimate_ips(REWARDS, LOGGED, TARGET)).all()


def test_snips_is_the_ratio_of_sums_and_its_spread_is_that_of_the_ratio() -> None:
    values = estimate_snips(REWARDS, LOGGED, TARGET)
    weights = np.array([2.0, 2.0, 0.0, 2.0])
    ratio = (2.0 + 2.0) / (2.0 + 2.0 + 0.0 + 2.0)
    assert values.mean() == pytest.approx(ratio)
    assert values[0] == pytest.approx(ratio + 2.0 * (1.0 - ratio) / weights.mean())
    assert values[2] == pytest.approx(ratio)  # no weight, nothing to say


def test_snips_of_no_weight_is_unknown_and_of_constant_rewards_is_exact() -> None:
    assert np.isnan(estimate_snips([1.0, 0.0], [0.5, 0.5], [0.0, 0.0])).all()
    assert estimate_snips([3.0, 3.0], [0.5, 0.1], [1.0, 1.0]).tolist() == [3.0, 3.0]


def test_doubly_robust_is_ips_without_a_model_and_the_model_where_it_is_right() -> None:
    nothing = np.zeros(4)
    assert estimate_doubly_robust(REWARDS, LOGGED, TARGET, nothing, nothing).tolist() == (
        estimate_ips(REWARDS, LOGGED, TARGET).tolist()
    )
    right = estimate_doubly_robust(REWARDS, LOGGED, TARGET, REWARDS, [0.3, 0.4, 0.5, 0.6])
    assert right.tolist() == [0.3, 0.4, 0.5, 0.6]


def test_item_position_counts_clicks_that_stay_and_sums_lists() -> None:
    # the first list keeps its clicked item (1/0.8 · 0.5), the second moves it, the third is empty
    found = estimate_item_position(
        [1, 0, 0, 1], [True, True, True, False], [0.8, 0.8, 0.2, 0.2], [0.5, 1.0, 1.0, 1.0], [0, 2, 4, 4]
    )
    assert found.tolist() == [0.5 / 0.8, 0.0, 0.0]


def test_position_based_moves_a_click_by_the_ratio_of_looks() -> None:
    found = estimate_position_based([1, 1], [1.0, 0.5], [0.5, 1.0], [1.0, 0.25], [0, 2])
    assert found.tolist() == [1.0 / 1.0 * 0.5 * 1.0 + 1.0 / 0.5 * 1.0 * 0.25]


def test_an_affine_model_takes_mistakes_out_and_puts_the_new_ones_in() -> None:
    found = estimate_position_based(
        [1.0, 0.0],
        [0.5, 0.25],
        [0.25, 0.5],
        [1.0, 1.0],
        [0, 2],
        mistakes=[0.1, 0.02],
        new_mistakes=[0.02, 0.1],
    )
    assert found.tolist() == pytest.approx(
        [(1.0 - 0.1) / 0.5 * 0.25 + 0.02 + (0.0 - 0.02) / 0.25 * 0.5 + 0.1]
    )
    with pytest.raises(BadInput, match="given together"):
        estimate_position_based([1.0], [0.5], [0.5], [1.0], [0, 1], mistakes=[0.1])


def test_an_order_that_changes_nothing_has_the_clicks_that_were_seen() -> None:
    clicks, looks = np.array([1.0, 0.0, 1.0]), np.array([1.0, 0.5, 0.25])
    assert estimate_position_based(clicks, looks, looks, np.ones(3), [0, 3]).tolist() == [2.0]


@pytest.mark.parametrize(
    ("logged", "target", "said"),
    [
        ([0.5, 0.0], [1.0, 1.0], "logged must hold probabilities above 0 and at most 1. Got 0 in place 2"),
        ([0.5, 1.5], [1.0, 1.0], "Got 1.5 in place 2"),
        ([0.5, np.nan], [1.0, 1.0], "Got nan in place 2"),
        ([0.5, 0.5], [1.0, -0.1], "target must hold probabilities from 0 to 1. Got -0.1 in place 2"),
        ([0.5], [1.0, 1.0], "must be of one length. Got 1 and 2"),
    ],
)
def test_probabilities_that_are_none_are_refused(logged: list[float], target: list[float], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        estimate_ips([1.0, 0.0], logged, target)


@pytest.mark.parametrize("rewards", [[1.0], [1.0, np.nan], [1.0, np.inf]])
def test_rewards_must_be_finite_and_one_for_each_unit(rewards: list[float]) -> None:
    with pytest.raises(BadInput, match="rewards must"):
        estimate_ips(rewards, [0.5, 0.5], [1.0, 1.0])


@pytest.mark.parametrize("clip", [0.0, -1.0, "2"])
def test_a_clip_must_be_above_0(clip: object) -> None:
    with pytest.raises(BadInput, match="clip must be a number above 0"):
        estimate_ips([1.0], [0.5], [1.0], clip=clip)  # type: ignore[arg-type]


def test_nothing_gives_nothing() -> None:
    assert estimate_ips([], [], []).tolist() == []
    assert measure_effective_size([]) == measure_effective_size([0.0, 0.0]) == 0.0
    assert sum_lists(np.zeros(0), [0]).tolist() == []
    empty = bound_mean([])
    assert (empty.units, empty.clusters) == (0, 0)
    assert np.isnan([empty.mean, empty.low, empty.least]).all()


def test_the_mean_over_redrawn_logs_is_the_truth() -> None:
    """Two arms, logged with 0.8 and 0.2; the target always shows the second, which earns 0.5."""
    rng = np.random.default_rng(0)
    logged = np.array([0.8, 0.2])
    arm = rng.choice(2, size=200_000, p=logged)
    rewards = (rng.random(len(arm)) < np.where(arm == 1, 0.5, 0.1)).astype(float)
    target = (arm == 1).astype(float)
    for estimate in (estimate_ips, estimate_snips):
        found = bound_mean(estimate(rewards, logged[arm], target), level=0.999)
        assert found.low < 0.5 < found.high
        assert found.error < 0.01
    robust = estimate_doubly_robust(
        rewards, logged[arm], target, np.full(len(arm), 0.3), np.full(len(arm), 0.3)
    )
    assert abs(robust.mean() - 0.5) < 4 * bound_mean(robust).error


# -- how sure ----------------------------------------------------------------------------------------------


def test_without_skewness_the_bounds_are_those_of_t() -> None:
    values = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    usual, found = estimate_mean(values), bound_mean(values)
    assert (found.low, found.high) == pytest.approx((usual.low, usual.high))
    assert found.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(5))


def test_skewed_values_reach_farther_to_their_long_side_and_never_less_than_t() -> None:
    values = np.array([0.0] * 25 + [1.0] * 4 + [12.0])
    usual, found = estimate_mean(values), bound_mean(values)
    assert found.low == pytest.approx(usual.low)
    assert found.high > usual.high + 0.1
    mirrored = bound_mean(-values)
    assert (mirrored.low, mirrored.high) == pytest.approx((-found.high, -found.low))


def test_searches_of_one_person_count_as_one() -> None:
    values, people = np.array([1.0, 1.0, 0.0, 0.0]), ["a", "a", "b", "b"]
    alone, together = bound_mean(values), bound_mean(values, people)
    assert (alone.clusters, together.clusters) == (4, 2)
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_one_cluster_has_a_mean_and_no_bounds_and_equal_values_have_no_width() -> None:
    one = bound_mean([1.0, 3.0], ["a", "a"])
    assert one.mean == 2.0
    assert np.isnan([one.low, one.high, one.least, one.most, one.error]).all()
    equal = bound_mean([0.1, 0.1, 0.1])
    assert equal.low == equal.high == equal.least == equal.mean == pytest.approx(0.1)


def test_unknown_values_are_left_out_with_their_people() -> None:
    some = bound_mean([1.0, np.nan, 0.0, 2.0], ["a", "b", "c", "c"])
    assert (some.mean, some.units, some.clusters) == (1.0, 3, 2)


def test_effective_size_is_kishs() -> None:
    assert measure_effective_size([2.0, 2.0]) == 2.0
    assert measure_effective_size([3.0, 1.0]) == pytest.approx(16.0 / 10.0)


def test_ten_units_without_a_large_value_do_not_exclude_one() -> None:
    found = bound_mean(np.zeros(10), reach=2.0)
    shift = 1.5 * 2.0 / 11.5  # one and a half units at 2 among 11.5
    spread = np.sqrt((1.5 * 2.0**2 - 11.5 * shift**2) / 10.5 / 11.5)
    assert found.high == pytest.approx(shift + 2.2621571628 * spread)  # t of 0.975 with 9 degrees of freedom
    assert found.low == pytest.approx(-found.high)
    assert found.error == 0.0


def test_what_a_reach_costs_is_gone_in_a_long_log() -> None:
    values = np.tile([0.0, 0.0, 1.0, 0.0, -1.0], 4000)
    usual, wide = bound_mean(values), bound_mean(values, reach=2.0)
    assert usual.high < wide.high < 1.05 * usual.high
    few = bound_mean(values[:50]), bound_mean(values[:50], reach=2.0)
    assert few[1].high > 1.3 * few[0].high


@pytest.mark.parametrize("reach", [-1.0, np.nan, np.inf])
def test_a_reach_must_be_finite_and_not_negative(reach: float) -> None:
    with pytest.raises(BadInput, match="reach must be a finite number of 0 or more"):
        bound_mean([1.0, 2.0], reach=reach)
