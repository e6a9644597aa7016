"""Is a difference more than luck: intervals, paired tests, effect size, corrections for many tests.

Most functions take a matrix `[queries, columns]` with NaN where a query was not scored, and answer for all
columns at once from one resampling, so that intervals and tests of a table belong together.

**Clusters.** Searches of one session, and sessions of one user, are alike; a test that takes them as
independent is too sure. `clusters` holds one id for each query; queries of one id are drawn, and change their
sign, as one. None, NaN and NaT are no id: such a query is a cluster by itself. Clusters of one query each
give the numbers of no clusters, to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from placings.core.arrays import AnyArray, Bools, Floats, Ints
from placings.core.errors import BadInput

CHUNK = 4_000_000  # numbers held at once by a resampling: 32 MB
FEW = 100  # units up to which a percentile bootstrap is too narrow, and t is taken
PRIOR = 100.0  # so many units' worth of the variance by chance steadies that of the sample


# -- clusters ----------------------------------------------------------------------------------------------


def number_clusters(clusters: ArrayLike) -> Ints:
    """The number of each query's cluster `[queries]`, by first appearance; what has no id stands alone.

    >>> number_clusters(["b", "a", None, "b", None])
    array([0, 1, 2, 0, 3])
    """
    given = np.asarray(clusters)
    if given.ndim != 1:
        raise BadInput(f"clusters must be one id for each query. Got shape {given.shape}.")
    if given.dtype.kind in "iu":
        _, first, codes = np.unique(given, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[codes].astype(np.int64)
    numbers: dict[object, int] = {}
    missing = find_missing(given).tolist()
    keys = (
        (place,) if gone else each
        for place, (each, gone) in enumerate(zip(given.tolist(), missing, strict=True))
    )
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def find_missing(values: AnyArray) -> Bools:
    """Where an array holds None, NaN or NaT."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    if values.dtype.kind == "O":
        return np.array([value is None or value != value for value in values.tolist()], dtype=np.bool_)
    return np.zeros(len(values), dtype=np.bool_)


def _as_codes(clusters: ArrayLike | None, chosen: Bools) -> Ints | None:
    """The clusters of the chosen queries, numbered anew; None where each query is one of its own."""
    if clusters is None:
        return None
    given = np.asarray(clusters)
    if given.shape != chosen.shape:
        raise BadInput(
            f"clusters must be one id for each of the {len(chosen)} queries. Got shape {given.shape}."
        )
    codes = number_clusters(given[chosen])
    return None if not len(codes) or codes.max() == len(codes) - 1 else codes


def _sum_clusters(values: Floats, codes: Ints | None) -> Floats:
    """The sums over each cluster `[clusters, columns]`."""
    if codes is None:
        return values
    count = int(codes.max()) + 1
    return np.stack([np.bincount(codes, weights=column, minlength=count) for column in values.T], axis=1)


# -- the bootstrap -----------------------------------------------------------------------------------------


def bootstrap_means(
    values: Floats,
    *,
    draws: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
    clusters: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Percentile bootstrap intervals of the mean of each column, by drawing queries with replacement.

    `values` is `[queries, columns]`; low and high are `[columns]`. Every column sees the same draws. A
    query that no column scored is never drawn; one that some columns scored counts in these only. A column
    without a value has the interval (NaN, NaN), and so has every column when `draws` is 0. One query
    alone gives an interval of width 0: it says nothing of other queries.

    With `clusters` (one id for each query) whole clusters are drawn, as many as there are; the mean is still
    over queries, `Σ sums / Σ counts` of the clusters drawn.

    >>> values = np.array([[0.0], [1.0], [1.0], [0.0]])
    >>> bootstrap_means(values, draws=2000)
    (array([0.]), array([1.]))
    >>> bootstrap_means(values, draws=2000, clusters=["a", "a", "b", "b"])  # the mean of both is 1/2
    (array([0.5]), array([0.5]))

    Efron and Tibshirani, An introduction to the bootstrap, 1993, chapter 13. Davison and Hinkley, Bootstrap
    methods and their application, 1997, section 3.8 (clusters).
    """
    check_count("bootstrap", draws)
    check_share("level", level)
    means = resample_means(values, draws, random_state, clusters=clusters)
    low, high = percentile_interval(means, level)
    return low, high


def resample_means(
    values: Floats,
    draws: int,
    random_state: int | Sequence[int] = 0,
    *,
    clusters: ArrayLike | None = None,
) -> Floats:
    """The mean of each column over queries (or clusters) drawn with replacement `[draws, columns]`.

    NaN where a draw holds no value of the column. Without draws, or without a value at all, there is no row.
    `random_state` may be a list, so that several resamplings of one seed do not see the same draws.

    >>> resample_means(np.array([[1.0], [3.0]]), 4, clusters=["a", "a"]).ravel()
    array([2., 2., 2., 2.])
    """
    known: Bools = ~np.isnan(values)
    drawn_from: Bools = np.asarray(known.any(axis=1))
    columns = values.shape[1]
    if draws == 0 or not drawn_from.any():
        return np.empty((0, columns))
    there = known[drawn_from].astype(np.float64)
    filled = np.where(known[drawn_from], values[drawn_from], 0.0)
    stacked = np.concatenate([filled, there], axis=1)  # [queries, 2 · columns]: sums and their counts
    stacked = _sum_clusters(stacked, _as_codes(clusters, drawn_from))
    sums = np.concatenate([counts @ stacked for counts in draw_counts(len(stacked), draws, random_state)])
    with np.errstate(invalid="ignore"):
        means: Floats = sums[:, :columns] / sums[:, columns:]
    return means


def draw_counts(units: int, draws: int, random_state: int | Sequence[int] = 0) -> Iterator[Floats]:
    """How often each unit is drawn, as many as there are, with replacement: `[some draws, units]` at a time.

    >>> [counts.sum(axis=1).tolist() for counts in draw_counts(3, 2)]
    [[3.0, 3.0]]
    """
    rng = np.random.default_rng(random_state)
    step = max(1, CHUNK // max(units, 1))
    for start in range(0, draws, step):
        rows = min(step, draws - start)
        picked = rng.integers(0, units, size=(rows, units)) + units * np.arange(rows)[:, None]
        counts = np.bincount(picked.ravel(), minlength=rows * units)
        yield counts.reshape(rows, units).astype(np.float64)


def percentile_interval(replicates: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """The middle `level` of what is known in each column of `[draws, columns]`: low and high `[columns]`.

    Of a vector `[draws]` they are single numbers. A column of nothing but NaN has (NaN, NaN).

    >>> low, high = percentile_interval(np.arange(101.0), 0.5)
    >>> float(low), float(high)
    (25.0, 75.0)
    """
    table = replicates[:, None] if replicates.ndim == 1 else replicates
    ends = np.full((2, table.shape[1]), np.nan)
    for place, column in enumerate(table.T):
        known = column[~np.isnan(column)]
        if len(known):
            ends[:, place] = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    shape = replicates.shape[1:]
    return ends[0].reshape(shape), ends[1].reshape(shape)


def judge_replicates(replicates: Floats) -> Floats:
    """Two-sided p-values of the columns of bootstrapped differences `[draws, columns]` being 0.

    With n draws, `p = min(1, 2 · min((1 + #{≤ 0}) / (1 + n), (1 + #{≥ 0}) / (1 + n)))`: never 0. NaN without
    a draw.

    >>> judge_replicates(np.full((99, 1), 0.5))  # 2 · 1/100
    array([0.02])
    """
    if not len(replicates):
        return np.full(replicates.shape[1], np.nan)
    size = 1 + len(replicates)
    below, above = (1 + (replicates <= 0.0).sum(axis=0)) / size, (1 + (replicates >= 0.0).sum(axis=0)) / size
    p: Floats = np.minimum(1.0, 2.0 * np.minimum(below, above))
    return p


# -- intervals of means ------------------------------------------------------------------------------------


def interval_means(
    values: Floats,
    *,
    draws: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
    clusters: ArrayLike | None = None,
    chance: Floats | None = None,
    bounds: Sequence[tuple[float, float]] | None = None,
) -> tuple[Floats, Floats]:
    """Intervals of the mean of each column: a percentile bootstrap, or Student's t where units are few.

    `values` is `[queries, columns]`, low and high are `[columns]`; NaN, `clusters` and `draws` (0: no
    interval) are as in `bootstrap_means`, whose intervals these are of more than `FEW` units. A percentile
    bootstrap of fewer is too narrow: of 30 sessions it held the mean in 92 to 94 % of logs, where it says 95.
    There the interval is `t_interval`'s.

    `chance` `[queries, columns]`, for values whose heavy parts are rare, is the variance that each query's
    value has by chance alone. A column that has one (not NaN) is `t_interval`'s whatever the number of
    units: a sample in which the rare parts happen to be missing has a low mean and a low variance at once,
    and its own interval misses the truth. Ends are cut at the `bounds` of each column, which no mean leaves.

    >>> low, high = interval_means(np.array([[0.0], [1.0], [1.0], [0.0]]))  # 0.5 ± 3.1824 · 0.57735/2
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([-0.4187], [1.4187])
    >>> interval_means(np.array([[0.0], [1.0], [1.0], [0.0]]), bounds=[(0.0, 1.0)])
    (array([0.]), array([1.]))
    """
    check_count("bootstrap", draws)
    check_share("level", level)
    known: Bools = ~np.isnan(values)
    scored: Bools = np.asarray(known.any(axis=1))
    codes = _as_codes(clusters, scored)
    units = int(scored.sum()) if codes is None else int(codes.max(initial=-1)) + 1
    rare: Bools = np.zeros(values.shape[1], dtype=np.bool_)
    if chance is not None:
        rare = ~np.asarray(np.isnan(chance).all(axis=0))
    if draws == 0 or (units > FEW and not rare.any()):
        return bootstrap_means(values, draws=draws, level=level, random_state=random_state, clusters=clusters)
    low, high = t_interval(values, level=level, clusters=clusters, chance=chance)
    if bounds is not None:
        least, most = np.array(bounds, dtype=np.float64).reshape(-1, 2).T
        low, high = np.maximum(low, least), np.minimum(high, most)
    if units > FEW and not rare.all():
        drawn = bootstrap_means(
            values, draws=draws, level=level, random_state=random_state, clusters=clusters
        )
        low, high = np.where(rare, low, drawn[0]), np.where(rare, high, drawn[1])
    return low, high


def t_interval(
    values: Floats,
    *,
    level: float = 0.95,
    clusters: ArrayLike | None = None,
    chance: Floats | None = None,
) -> tuple[Floats, Floats]:
    """Student's t interval of the mean of each column, longer on the side to which the values are skewed.

    `mean ± t · s`, t with C − 1 degrees of freedom over C clusters with a value (queries, without `clusters`)
    and s the jackknife's: `s² = (C − 1)/C · Σ_c (m_c − m̄)²` with m_c the mean without cluster c. The end on
    the side of the skewness γ of the clusters' sums moves out by Johnson's `s · γ/√C · (2t² + 1)/6`; the
    other stays. One cluster has no interval (NaN).

    With `chance` `[queries, columns]`, the variance of each query's value by chance alone, `V = Σ chance/n²`
    steadies s², which is no less than `(100 · V + (C − 1) · s²) / (100 + C − 1)`.

    >>> low, high = t_interval(np.array([[0.0], [0.0], [0.0], [4.0]]))  # skewed to the right
    >>> (low + high).round(2) > 2.0
    array([ True])

    Johnson, Modified t tests and confidence intervals for asymmetrical populations, JASA 1978. Bell and
    McCaffrey, Bias reduction in standard errors for linear regression with multi-stage samples, 2002.
    """
    from scipy.special import stdtrit

    known = ~np.isnan(values)
    codes = _as_codes(clusters, np.ones(len(values), dtype=np.bool_))
    sums = _sum_clusters(np.where(known, values, 0.0), codes)
    counts = _sum_clusters(known.astype(np.float64), codes)
    inside = counts > 0.0
    units, total = inside.sum(axis=0).astype(np.float64), counts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = sums.sum(axis=0) / total
        without = (sums.sum(axis=0) - sums) / (total - counts)  # the mean when one cluster is left out
        middle = np.where(inside, without, 0.0).sum(axis=0) / units
        away = np.where(inside, without - middle, 0.0)
        square = (units - 1.0) / units * (away * away).sum(axis=0)
        parts = np.where(inside, sums - mean * counts, 0.0)
        second, third = (parts**2).sum(axis=0) / units, (parts**3).sum(axis=0) / units
        skew = np.where(second > 0.0, third / second**1.5, 0.0)
        skew = np.where(units > 2, skew * np.sqrt(units * (units - 1.0)) / np.maximum(units - 2.0, 1.0), 0.0)
        flat = square <= (1e-13 * np.abs(mean)) ** 2  # nothing but rounding
        square = np.where(flat, 0.0, square)
        if chance is not None:
            by_chance = np.where(known, np.nan_to_num(chance), 0.0).sum(axis=0) / total**2
            steadied = (PRIOR * by_chance + (units - 1.0) * square) / (PRIOR + units - 1.0)
            square = np.maximum(square, steadied)
        error = np.sqrt(square)
        t = stdtrit(np.maximum(units - 1.0, 1.0), (1.0 + level) / 2.0)
        shift = error * np.where(flat, 0.0, skew) / np.sqrt(units) * (2.0 * t * t + 1.0) / 6.0
        low, high = mean - t * error + np.minimum(shift, 0.0), mean + t * error + np.maximum(shift, 0.0)
    few = units < 2
    return np.where(few, np.nan, low), np.where(few, np.nan, high)


# -- paired tests ------------------------------------------------------------------------------------------


def flip_signs(
    differences: Floats,
    *,
    permutations: int = 10_000,
    random_state: int = 0,
    clusters: ArrayLike | None = None,
) -> Floats:
    """Two-sided randomisation test of each column's mean difference being 0: p-values `[columns]`.

    If the two methods are alike, each query's difference could as well have had the other sign. p is the
    share of sign assignments whose mean is at least as far from 0 as the one seen. All `2^n` are looked at
    when there are no more than `permutations`; otherwise so many are drawn and `p = (1 + count) /
    (1 + permutations)`, which is never 0. Differences of 0 and NaN (not paired) have no say; a column of
    nothing else has p = 1, or NaN if nothing was paired.

    With `clusters` (one id for each query) all differences of a cluster change their sign together, so n is
    the number of clusters.

    >>> flip_signs(np.array([[0.1], [0.2], [0.3]]))  # +++ and −−− out of 2³
    array([0.25])
    >>> flip_signs(np.array([[0.1], [0.2], [0.3]]), clusters=["a", "a", "b"])  # out of 2²
    array([0.5])

    Smucker, Allan and Carterette, A comparison of statistical significance tests for IR, CIKM 2007.
    """
    check_count("permutations", permutations, least=1)
    paired = ~np.isnan(differences).all(axis=0)
    filled = np.nan_to_num(differences, nan=0.0)
    codes = _as_codes(clusters, np.ones(len(filled), dtype=np.bool_))
    if codes is not None:
        sums = _sum_clusters(filled, codes)
        only_rounding = np.abs(sums) <= 1e-13 * _sum_clusters(np.abs(filled), codes)
        filled = np.where(only_rounding, 0.0, sums)  # 0.1 + 0.2 − 0.3 is no difference
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


def compare_pairs(differences: Floats, *, clusters: ArrayLike | None = None) -> Floats:
    """Paired t-test of each column's mean difference being 0: two-sided p-values `[columns]`.

    `t = mean / (sd / √n)` with n − 1 degrees of freedom over the paired queries: what `scipy.stats.ttest_rel`
    gives, without its complaints about constant columns. Where all differences are equal, p is 1 if they
    are 0 and 0 otherwise; with fewer than two pairs it is NaN.

    With `clusters` (one id for each query) the standard error is clustered, `s` of `estimate_mean`, and there
    are C − 1 degrees of freedom, C being the clusters with a pair; with fewer than two it is NaN.

    >>> compare_pairs(np.array([[0.1], [0.3], [0.2]])).round(4)  # t = 0.2 / (0.1 / √3)
    array([0.0742])

    Cameron and Miller, A practitioner's guide to cluster-robust inference, 2015, section II.
    """
    from scipy.special import stdtr

    count, mean, sd = describe_pairs(differences)
    codes = _as_codes(clusters, np.ones(len(differences), dtype=np.bool_))
    if codes is None:
        units, error = count, sd / np.sqrt(np.maximum(count, 1.0))
    else:
        units, error = _cluster_error(differences, mean, codes)
        error = np.where(sd > 0.0, error, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(error > 0.0, mean / error, np.where(mean == 0.0, 0.0, np.inf))
    p = 2.0 * stdtr(np.maximum(units - 1, 1), -np.abs(t))
    return np.where(units < 2, np.nan, p)


def _cluster_error(values: Floats, mean: Floats, codes: Ints) -> tuple[Floats, Floats]:
    """How many clusters have a value in each column, and the clustered standard error of its mean."""
    known = ~np.isnan(values)
    inside = _sum_clusters(known.astype(np.float64), codes)
    units, count = (inside > 0.0).sum(axis=0).astype(np.float64), inside.sum(axis=0)
    away = _sum_clusters(np.where(known, values - mean, 0.0), codes)
    error = np.sqrt(units / np.maximum(units - 1.0, 1.0) * (away * away).sum(axis=0)) / np.maximum(count, 1.0)
    return units, error


@dataclass(frozen=True)
class Estimate:
    """A mean, its 95 % interval and how many values stand behind it."""

    mean: float
    low: float
    high: float
    count: int


def estimate_mean(values: ArrayLike, clusters: ArrayLike | None = None, *, level: float = 0.95) -> Estimate:
    """The mean and its interval, `mean ± t · s`, with what belongs to one cluster moving together.

    `s² = C/(C − 1) · Σ_c (Σ_{i in c} (x_i − mean))² / n²` over C clusters, t with C − 1 degrees of freedom;
    without clusters, or one value in each, s is the usual sd/√n. NaN values are left out. Without a value
    all is NaN; from one cluster the interval is NaN.

    >>> found = estimate_mean(np.array([1.0, 0.0, 1.0, 0.0]))
    >>> found.mean, round(found.high, 4)  # 0.5 + 3.1824 · 0.57735/2
    (0.5, 1.4187)
    """
    from scipy.special import stdtrit

    given = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(given)
    kept = given[known]
    if not len(kept):
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(kept.mean())
    codes = _as_codes(None if clusters is None else np.asarray(clusters, dtype=object), known)
    units, error = _cluster_error(
        kept[:, None], np.array([mean]), np.arange(len(kept)) if codes is None else codes
    )
    if units[0] < 2:
        return Estimate(mean, math.nan, math.nan, len(kept))
    reach = float(stdtrit(units[0] - 1, (1.0 + level) / 2.0) * error[0])
    return Estimate(mean, mean - reach, mean + reach, len(kept))


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


# -- many tests --------------------------------------------------------------------------------------------


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


def control_discoveries(p_values: ArrayLike) -> Floats:
    """Benjamini–Hochberg q-values: flag what is at most α, and about a share α of the flags are false.

    The i-th smallest of m becomes `min over j ≥ i of min(1, m · p_j / j)`. Any shape; NaN stays NaN and is
    not counted in m.

    >>> control_discoveries([0.01, 0.04, 0.03])  # 3 · 0.01 / 1; then 3 · 0.04 / 3 for both others
    array([0.03, 0.04, 0.04])

    Benjamini and Hochberg, Controlling the false discovery rate, 1995.
    """
    from scipy.stats import false_discovery_control

    given = np.asarray(p_values, dtype=np.float64)
    adjusted = np.full(given.shape, np.nan)
    known = ~np.isnan(given)
    if known.any():
        adjusted[known] = false_discovery_control(given[known])
    return adjusted


# -- shares ------------------------------------------------------------------------------------------------


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


# -- small things ------------------------------------------------------------------------------------------


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
