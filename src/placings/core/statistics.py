"""Is a difference more than luck: bootstrap intervals, paired tests, effect size, Holm's correction.

Everything here takes a matrix `[queries, columns]` with NaN where a query was not scored, and answers for
all columns at once from one resampling, so that intervals and tests of a table belong together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from placings.core.arrays import Bools, Floats
from placings.core.errors import BadInput

CHUNK = 4_000_000  # numbers held at once by a resampling: 32 MB


def bootstrap_means(
    values: Floats, *, draws: int = 1000, level: float = 0.95, random_state: int = 0
) -> tuple[Floats, Floats]:
    """Percentile bootstrap intervals of the mean of each column, by drawing queries with replacement.

    `values` is `[queries, columns]`; low and high are `[columns]`. Every column sees the same draws. A
    query that no column scored is never drawn; one that some columns scored counts in these only. A column
    without a value has the interval (NaN, NaN), and so has every column when `draws` is 0. One query
    alone gives an interval of width 0: it says nothing of other queries.

    >>> low, high = bootstrap_means(np.array([[0.0], [1.0], [1.0], [0.0]]), draws=2000)
    >>> low, high
    (array([0.]), array([1.]))

    Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 13.
    """
    check_count("bootstrap", draws)
    check_share("level", level)
    known = ~np.isnan(values)
    drawn_from = known.any(axis=1)
    columns = values.shape[1]
    nothing = np.full(columns, np.nan)
    if draws == 0 or not drawn_from.any():
        return nothing, nothing.copy()
    there = known[drawn_from].astype(np.float64)
    filled = np.where(known[drawn_from], values[drawn_from], 0.0)
    stacked = np.concatenate([filled, there], axis=1)  # [queries, 2 · columns]: sums and their counts
    sums = np.concatenate([counts @ stacked for counts in _draw_counts(len(stacked), draws, random_state)])
    with np.errstate(invalid="ignore"):
        means = sums[:, :columns] / sums[:, columns:]  # [draws, columns]
    low, high = nothing.copy(), nothing.copy()
    for column in range(columns):
        kept = means[~np.isnan(means[:, column]), column]
        if len(kept):
            low[column], high[column] = np.quantile(kept, [(1 - level) / 2, (1 + level) / 2])
    return low, high


def _draw_counts(queries: int, draws: int, random_state: int) -> Iterator[Floats]:
    """How often each query was drawn, `[some draws, queries]` at a time."""
    rng = np.random.default_rng(random_state)
    step = max(1, CHUNK // queries)
    for start in range(0, draws, step):
        rows = min(step, draws - start)
        picked = rng.integers(0, queries, size=(rows, queries)) + queries * np.arange(rows)[:, None]
        counts = np.bincount(picked.ravel(), minlength=rows * queries)
        yield counts.reshape(rows, queries).astype(np.float64)


def flip_signs(differences: Floats, *, permutations: int = 10_000, random_state: int = 0) -> Floats:
    """Two-sided randomisation test of each column's mean difference being 0: p-values `[columns]`.

    If the two methods are alike, each query's difference could as well have had the other sign. p is the
    share of sign assignments whose mean is at least as far from 0 as the one seen. All `2^n` are looked at
    when there are no more than `permutations`; otherwise so many are drawn and `p = (1 + count) /
    (1 + permutations)`, which is never 0. Differences of 0 and NaN (not paired) have no say; a column of
    nothing else has p = 1, or NaN if nothing was paired.

    >>> flip_signs(np.array([[0.1], [0.2], [0.3]]))  # +++ and −−− out of 2³
    array([0.25])

    Smucker, Allan and Carterette, A comparison of statistical significance tests for IR, CIKM 2007.
    """
    check_count("permutations", permutations, least=1)
    paired = ~np.isnan(differences).all(axis=0)
    filled = np.nan_to_num(differences, nan=0.0)
    filled = filled[(filled != 0.0).any(axis=1)]
    seen = np.abs(filled.sum(axis=0))
    border = seen - 1e-10 * np.abs(filled).sum(axis=0)  # sums in another order differ in the last bits
    queries = len(filled)
    exact = queries < 62 and 2**queries <= permutations
    count = np.zeros(differences.shape[1], dtype=np.int64)
    for signs in _enumerate_signs(queries) if exact else _draw_signs(queries, permutations, random_state):
        count += (np.abs(signs @ filled) >= border).sum(axis=0)
    p = count / 2**queries if exact else (1 + count) / (1 + permutations)
    return np.where(paired, p, np.nan)


def _enumerate_signs(queries: int) -> Iterator[Floats]:
    step = max(1, CHUNK // max(queries, 1))
    for start in range(0, 2**queries, step):
        numbers = np.arange(start, min(start + step, 2**queries))
        bits = (numbers[:, None] >> np.arange(queries)) & 1
        yield 1.0 - 2.0 * bits.astype(np.float64)


def _draw_signs(queries: int, permutations: int, random_state: int) -> Iterator[Floats]:
    rng = np.random.default_rng(random_state)
    words = -(-queries // 64)
    step = max(1, CHUNK // queries)
    for start in range(0, permutations, step):
        rows = min(step, permutations - start)
        drawn = rng.integers(0, 2**64, size=(rows, words), dtype=np.uint64).view(np.uint8)
        bits = np.unpackbits(drawn, axis=1, count=queries)
        yield 1.0 - 2.0 * bits.astype(np.float64)


def compare_pairs(differences: Floats) -> Floats:
    """Paired t-test of each column's mean difference being 0: two-sided p-values `[columns]`.

    `t = mean / (sd / √n)` with n − 1 degrees of freedom over the paired queries: what `scipy.stats.ttest_rel`
    gives, without its complaints about constant columns. Where all differences are equal, p is 1 if they
    are 0 and 0 otherwise; with fewer than two pairs it is NaN.

    >>> compare_pairs(np.array([[0.1], [0.3], [0.2]])).round(4)  # t = 0.2 / (0.1 / √3)
    array([0.0742])
    """
    from scipy.special import stdtr

    count, mean, sd = describe_pairs(differences)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(sd > 0.0, mean / (sd / np.sqrt(count)), np.where(mean == 0.0, 0.0, np.inf))
    p = 2.0 * stdtr(np.maximum(count - 1, 1), -np.abs(t))
    return np.where(count < 2, np.nan, p)


def measure_effect(differences: Floats) -> Floats:
    """Cohen's d of paired differences, `mean / sd`, for each column.

    0 where all differences are 0, ±inf where they are all alike and not 0, NaN with fewer than two pairs.

    >>> measure_effect(np.array([[0.1], [0.3], [0.2]])).round(6)  # 0.2 / 0.1
    array([2.])
    """
    count, mean, sd = describe_pairs(differences)
    with np.errstate(divide="ignore", invalid="ignore"):
        effect = np.where(mean == 0.0, 0.0, mean / sd)
    return np.where(count < 2, np.nan, effect)


def describe_pairs(differences: Floats) -> tuple[Floats, Floats, Floats]:
    """Number, mean and standard deviation (n − 1) of each column's differences, NaN left out.

    A deviation that is nothing but rounding (below 1e-13 of the largest difference) is 0.
    """
    known = ~np.isnan(differences)
    count = known.sum(axis=0).astype(np.float64)
    mean = mean_known(differences)
    away = np.where(known, differences - mean, 0.0)
    sd = np.sqrt((away * away).sum(axis=0) / np.maximum(count - 1.0, 1.0))
    largest = np.where(known, np.abs(differences), 0.0).max(axis=0, initial=0.0)
    return count, mean, np.where(sd <= 1e-13 * largest, 0.0, sd)


def adjust_holm(p_values: ArrayLike) -> Floats:
    """Holm's step-down correction: p-values that may be compared with α although there are many.

    The i-th smallest of m becomes `max over j ≤ i of min(1, (m − j + 1) · p_j)`. Any shape; NaN stays NaN
    and is not counted in m.

    >>> adjust_holm([0.01, 0.04, 0.03])  # 3 · 0.01; then 2 · 0.03; then max(0.06, 1 · 0.04)
    array([0.03, 0.06, 0.06])

    Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    given = np.asarray(p_values, dtype=np.float64)
    flat = given.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    order = known[np.argsort(flat[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    adjusted = np.full(flat.shape, np.nan)
    adjusted[order] = np.maximum.accumulate(np.minimum(factors * flat[order], 1.0))
    return adjusted.reshape(given.shape)


def mean_known(values: Floats) -> Floats:
    """The mean of each column over what is known; NaN (and no warning) where nothing is."""
    known: Bools = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def check_count(name: str, value: object, *, least: int = 0) -> None:
    """Refuse what is not a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BadInput(f"{name} must be a whole number of {least} or more. Got {value!r}.")


def check_share(name: str, value: object) -> None:
    """Refuse what is not a number strictly between 0 and 1."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and 0.0 < float(value) < 1.0):  # type: ignore[arg-type]
        raise BadInput(f"{name} must be a number between 0 and 1. Got {value!r}.")
