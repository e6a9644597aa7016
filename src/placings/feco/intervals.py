"""Intervals of a share, of independent events or of rows that come in lists."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Floats


def wilson_interval(covered: ArrayLike, events: ArrayLike, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Wilson's interval of a share: low and high, in the shape of the counts; NaN where there are no events.

    With `p = covered/n` and z the normal quantile of `level`:
    `(p + z²/2n ± z·√(p(1 − p)/n + z²/4n²)) / (1 + z²/n)`. It stays within 0 and 1, and has a width also
    when none or all are covered. `events` may be fractions (an effective number).

    >>> low, high = wilson_interval([0, 5], [10, 10])
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.237], [0.278, 0.763])

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
    """
    z = find_quantile(level)
    n = np.asarray(events, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = np.asarray(covered, dtype=np.float64) / n
        middle = p + z * z / (2 * n)
        half = z * np.sqrt(np.maximum(p * (1 - p), 0.0) / n + (z / (2 * n)) ** 2)
        low, high = (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
    empty = ~(n > 0)
    low = np.where(empty, np.nan, np.where(p <= 0.0, 0.0, np.clip(low, 0.0, 1.0)))
    high = np.where(empty, np.nan, np.where(p >= 1.0, 1.0, np.clip(high, 0.0, 1.0)))
    return low, high


def cluster_interval(
    covered: ArrayLike,
    rows: ArrayLike,
    covered_squares: ArrayLike,
    covered_by_rows: ArrayLike,
    rows_squares: ArrayLike,
    events: ArrayLike,
    *,
    level: float = 0.95,
) -> tuple[Floats, Floats]:
    """The interval of a share of rows that come in lists: Wilson's, with what the lists are worth.

    With c and n the covered and all rows of an event and `p = Σc/Σn`, the ratio's variance is
    `v = E/(E − 1) · Σ(c − p·n)² / (Σn)²` over E events, and `p(1 − p)/v` is the number of independent rows
    that would be as certain, at most `Σn`. It needs the sums `Σc, Σn, Σc², Σcn, Σn²` only. Where v is not
    known (one event) or 0 (none or all covered) the events themselves are the number.

    >>> low, high = cluster_interval(20, 40, 200, 200, 400, 4)  # lists of 10, two dark and two covered
    >>> round(float(low), 2), round(float(high), 2)  # as wide as 3 independent rows, not as 40
    (0.13, 0.87)

    W. G. Cochran, "Sampling Techniques", 3rd edition, 1977, chapter 6.
    """
    c, n, cc, cn, nn, e = (
        np.asarray(values, dtype=np.float64)
        for values in (covered, rows, covered_squares, covered_by_rows, rows_squares, events)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        p = c / n
        spread = np.maximum(cc - 2 * p * cn + p * p * nn, 0.0)
        variance = e / (e - 1) * spread / n**2
        worth = np.minimum(p * (1 - p) / variance, n)
    worth = np.where((e > 1) & (variance > 0) & (p > 0) & (p < 1), worth, e)
    return wilson_interval(p * worth, worth, level=level)


def find_quantile(level: float) -> float:
    """The normal quantile of a two-sided level: 1.96 for 0.95."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0.0 < level < 1.0:
        raise BadInput(f"level must be between 0 and 1, such as 0.95. Got {level!r}.")
    return NormalDist().inv_cdf((1.0 + level) / 2.0)
