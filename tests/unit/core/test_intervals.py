"""Intervals: against scipy's, and how often they hold the truth when rows come in lists."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from placings.core.errors import BadInput
from placings.core.statistics import cluster_interval, find_quantile, wilson_interval


@pytest.mark.parametrize(("covered", "events"), [(0, 1), (1, 1), (3, 10), (0, 50), (50, 50), (123, 456)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_wilson_is_what_scipy_says(covered: int, events: int, level: float) -> None:
    low, high = wilson_interval(covered, events, level=level)
    theirs = binomtest(covered, events).proportion_ci(level, method="wilson")
    assert (float(low), float(high)) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_without_events_nothing_is_known() -> None:
    assert np.isnan(wilson_interval([0.0], [0])).all()
    assert np.isnan(cluster_interval([0.0], [0], [0], [0], [0], [0])).all()


def cluster(covered: np.ndarray, rows: np.ndarray, **options: float) -> tuple[float, float]:
    sums = covered.sum(), rows.sum(), (covered**2).sum(), (covered * rows).sum(), (rows**2).sum(), len(rows)
    low, high = cluster_interval(*sums, **options)
    return float(low), float(high)


def test_lists_of_one_row_are_worth_their_rows() -> None:
    covered = np.array([1.0] * 30 + [0.0] * 70)
    low, high = cluster(covered, np.ones(100))
    plain_low, plain_high = wilson_interval(30, 100)
    assert (low, high) == pytest.approx((float(plain_low), float(plain_high)), abs=2e-3)


def test_one_event_and_all_or_none_covered_still_have_a_width() -> None:
    assert cluster(np.array([3.0]), np.array([10.0]))[1] > 0.8
    low, high = cluster(np.full(20, 5.0), np.full(20, 5.0))
    assert (low, high) == (pytest.approx(float(wilson_interval(20, 20)[0])), 1.0)


def test_the_interval_of_lists_holds_the_truth_as_often_as_it_says() -> None:
    """Lists of 1 to 20 rows whose own share is drawn from a beta: rows of one list hang together."""
    rng = np.random.default_rng(0)
    held = naive = 0
    for _ in range(400):
        rows = rng.integers(1, 21, 150).astype(float)
        covered = rng.binomial(rows.astype(int), rng.beta(0.6, 1.4, 150)).astype(float)  # mean 0.3
        low, high = cluster(covered, rows)
        held += low <= 0.3 <= high
        flat_low, flat_high = wilson_interval(covered.sum(), rows.sum())
        naive += float(flat_low) <= 0.3 <= float(flat_high)
    assert 0.91 <= held / 400 <= 0.98
    assert naive / 400 < 0.75  # what treating rows as independent would claim to be 0.95


@pytest.mark.parametrize("level", [0, 1, -0.5, "0.95", True])
def test_a_level_lies_between_0_and_1(level: float) -> None:
    with pytest.raises(BadInput, match="level must be between 0 and 1"):
        find_quantile(level)
