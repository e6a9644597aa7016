"""Per-feature facts: range, moments, zeros, missing, shape, and the covered share with its rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    Bools,
    Floats,
    Floats32,
    Ints,
    UnknownName,
    count_threads,
    map_in_order,
)
from placings.data.checks import Matrix

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from placings.data.ranking import RankingData

BINS = 8
BLOCK = 8  # columns copied and sorted together: half a cache line of a row
CHUNK = 16_384  # rows whose float64 moments are taken together: they stay in the cache


@dataclass(frozen=True, slots=True)
class FeatureFacts:
    """What one feature looks like; see `describe_features` for the rules.

    `zeros`, `negatives`, `missing` and `covered` are shares of all rows. `shape` counts the present values
    in 8 equally wide bins from `minimum` to `maximum`. Without a present value all numbers are NaN but
    `rows`, the shares and the (empty) `shape`; without rows the shares are NaN too.
    """

    name: str
    rows: int
    minimum: float
    maximum: float
    mean: float
    std: float
    skew: float
    median: float
    zeros: float
    negatives: float
    missing: float
    covered: float
    constant: bool
    shape: tuple[int, ...]

    @property
    def all_missing(self) -> bool:
        """Rows there are, but no row has a value."""
        return self.missing == 1.0


def describe_features(data: RankingData, *, rule: str | float = "non_zero") -> tuple[FeatureFacts, ...]:
    """The facts of each feature, in the order of the columns.

    Moments are float64, taken about the mean in a second pass, over present values only (NaN is missing):
    `std = √m₂` and `skew = m₃ / m₂^1.5` with `m_k = mean((x − mean)^k)`, the population's. A constant
    feature has std 0 and skew 0. The median is exact; of an even count it is the mean of the middle two.
    In sparse data an absent value is 0, and the cost grows with the stored values and columns, not with
    rows × columns.

    `rule` says what *covered* means: one of `COVERAGE_RULES`, or a number t for `value > t` (t itself is
    not covered). "mean" and "median" compare each value with its feature's own, strictly above.

    >>> from placings.data.ranking import RankingData
    >>> data = RankingData.from_arrays([[0.0], [1.0], [5.0], [float("nan")]], [0, 0, 1, 0], [1] * 4)
    >>> facts = describe_features(data)[0]
    >>> facts.mean, facts.median, facts.zeros, facts.missing, facts.covered
    (2.0, 1.0, 0.25, 0.25, 0.5)
    >>> describe_features(data, rule="median")[0].covered
    0.25
    """
    cover = _find_rule(rule)
    if isinstance(data.X, np.ndarray):
        columns = _measure_dense(data.X, cover)
    else:
        columns = _measure_sparse(data.X, cover)
    rows = data.n_rows
    with np.errstate(invalid="ignore"):
        shares = [np.divide(count, rows) for count in (columns.zeros, columns.negatives, columns.missing)]
        covered = np.divide(columns.covered, rows)
    numbers = (columns.minimum, columns.maximum, columns.mean, columns.std, columns.skew, columns.median)
    listed = [values.tolist() for values in (*numbers, *shares, covered, columns.constant)]
    shapes = map(tuple, columns.shape.tolist())
    return tuple(map(FeatureFacts, data.feature_names, repeat(rows), *listed, shapes))


# -- coverage rules -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Statistics of several columns, one entry a column; counts, not shares."""

    present: Ints
    missing: Ints
    zeros: Ints
    negatives: Ints
    minimum: Floats
    maximum: Floats
    mean: Floats
    std: Floats
    skew: Floats
    median: Floats
    shape: Ints  # [columns, BINS]
    covered: Ints
    constant: Bools


Above = Callable[[Floats], Ints]  # thresholds [columns] → how many values lie strictly above [columns]
Rule = Callable[[Columns, Above], Ints]

COVERAGE_RULES: dict[str, Rule] = {
    "non_zero": lambda columns, above: columns.present - columns.zeros,
    "positive": lambda columns, above: above(np.zeros(len(columns.present))),
    "non_null": lambda columns, above: columns.present,
    "mean": lambda columns, above: above(columns.mean),
    "median": lambda columns, above: above(columns.median),
}


def _find_rule(rule: str | float) -> Rule:
    if isinstance(rule, str):
        if rule not in COVERAGE_RULES:
            raise UnknownName("coverage rule", rule, COVERAGE_RULES)
        return COVERAGE_RULES[rule]
    if isinstance(rule, bool) or not isinstance(rule, int | float | np.number) or np.isnan(rule):
        raise BadInput(f"rule must be a number or one of {', '.join(COVERAGE_RULES)}. Got {rule!r}.")
    return lambda columns, above: above(np.full(len(columns.present), float(rule)))


# -- dense ----------------------------------------------------------------------------------------


def _measure_dense(X: Floats32, cover: Rule) -> Columns:
    starts = range(0, X.shape[1], BLOCK)
    threads = min(count_threads(), 8) if X.size > 1_000_000 else 1  # each holds a copy of BLOCK columns
    measured = map_in_order(partial(_measure_block, X, cover), starts, threads=threads)
    return _join([_measure_block(X[:, :0], cover, 0), *measured])


def _measure_block(X: Floats32, cover: Rule, start: int) -> Columns:
    block = np.array(X[:, start : start + BLOCK].T, order="C")  # [columns, rows]
    width, rows = block.shape
    values = [_drop_missing(column) for column in block]
    present = np.array([len(column) for column in values], dtype=np.int64)
    ends = np.full((2, width), np.nan)
    moments = np.full((3, width), np.nan)
    for place, column in enumerate(values):
        if len(column):
            ends[:, place] = column.min(), column.max()
            moments[:, place] = _sum_moments(column)

    def count_below(thresholds: Floats) -> Ints:
        pairs = zip(values, _round_up(thresholds), strict=True)
        return np.array([np.count_nonzero(column < border) for column, border in pairs], dtype=np.int64)

    def count_above(thresholds: Floats) -> Ints:
        pairs = zip(values, _round_down(thresholds), strict=True)
        return np.array([np.count_nonzero(column > border) for column, border in pairs], dtype=np.int64)

    below = [count_below(border) for border in _edges(ends[0], ends[1]).T]
    shape = np.diff(np.stack([np.zeros_like(present), *below, present], axis=1), axis=1)
    negatives = count_below(np.zeros(width))
    zeros = present - negatives - count_above(np.zeros(width))
    idle = (negatives <= (present - 1) // 2) & (present // 2 < negatives + zeros)  # zeros hold the middle
    median = np.array([0.0 if zero else _find_median(c) for c, zero in zip(values, idle, strict=True)])
    return _finish(rows, present, zeros, negatives, ends, median, moments, shape, cover, count_above)


def _drop_missing(column: Floats32) -> Floats32:
    gone = np.isnan(column)
    return column[~gone] if gone.any() else column


def _find_median(column: Floats32) -> float:
    """The exact median, found by reordering the column in place (slow where zeros are most of it)."""
    if not len(column):
        return np.nan
    half = len(column) // 2
    column.partition(half)
    high = float(column[half])
    return high if len(column) % 2 else (float(column[:half].max()) + high) / 2.0


def _sum_moments(column: Floats32) -> tuple[float, float, float]:
    """The mean, and the sums of squares and cubes about it, without a float64 copy of the column."""
    mean = float(column.mean(dtype=np.float64))
    squares = cubes = 0.0
    for start in range(0, len(column), CHUNK):
        away = column[start : start + CHUNK].astype(np.float64) - mean
        powers = away * away
        squares += float(powers.sum())
        powers *= away
        cubes += float(powers.sum())
    return mean, squares, cubes


# -- sparse ---------------------------------------------------------------------------------------


def _measure_sparse(X: csr_array[np.float32, tuple[int, int]], cover: Rule) -> Columns:
    rows, width = X.shape
    stored = X.tocsc()  # a copy
    stored.sum_duplicates()
    starts = stored.indptr[:-1].astype(np.int64)
    count = np.diff(stored.indptr).astype(np.int64)
    column = np.repeat(np.arange(width), count)  # [stored]
    value = stored.data[np.lexsort((stored.data, column))]  # sorted inside its column, NaN last
    known = ~np.isnan(value)
    column_known, number = column[known], value[known].astype(np.float64)

    def tally(chosen: Bools | None = None, weights: Floats | None = None) -> AnyArray:
        where = column_known if chosen is None else column_known[chosen]
        return np.bincount(where, weights=weights, minlength=width)

    absent = rows - count  # zeros that are not stored
    present = tally() + absent
    zeros = tally(number == 0.0) + absent
    negatives = tally(number < 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = tally(weights=number) / present
    away = number - mean[column_known]
    squares = tally(weights=away * away) + absent * mean**2
    cubes = tally(weights=away * away * away) - absent * mean**3

    def at(
        rank: Ints,
    ) -> Floats:  # the rank-th smallest present value of each column, absent zeros among them
        place = np.where(rank < negatives, rank, rank - absent)
        found = np.full(width, np.nan)
        found[(rank >= negatives) & (rank < negatives + zeros)] = 0.0
        chosen = (present > 0) & np.isnan(found)
        found[chosen] = value[(starts + place)[chosen]]
        return found

    ends = np.stack([at(np.zeros(width, dtype=np.int64)), at(present - 1)])
    middle = (at((present - 1) // 2) + at(present // 2)) / 2.0
    edges = _edges(ends[0], ends[1])
    cell = np.zeros(len(number), dtype=np.int64)
    cell_absent = np.zeros(width, dtype=np.int64)
    for border in edges.T:
        cell += number >= border[column_known]
        cell_absent += border <= 0.0
    shape = np.bincount(column_known * BINS + cell, minlength=width * BINS).reshape(width, BINS)
    shape[np.arange(width), cell_absent] += absent

    def above(thresholds: Floats) -> Ints:
        return tally(number > thresholds[column_known]) + absent * (thresholds < 0.0)

    moments = np.stack([mean, squares, cubes])
    return _finish(rows, present, zeros, negatives, ends, middle, moments, shape, cover, above)


# -- both -----------------------------------------------------------------------------------------


def _finish(
    rows: int,
    present: Ints,
    zeros: Ints,
    negatives: Ints,
    ends: Floats,
    median: Floats,
    moments: Floats,
    shape: Ints,
    cover: Rule,
    above: Above,
) -> Columns:
    minimum, maximum = ends + 0.0  # −0 becomes 0
    mean, squares, cubes = moments
    constant = minimum == maximum
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = np.where(constant, 0.0, squares / present)
        skew = np.where(constant, 0.0, cubes / present / variance**1.5)
    empty = present == 0
    columns = Columns(
        present=present,
        missing=rows - present,
        zeros=zeros,
        negatives=negatives,
        minimum=minimum,
        maximum=maximum,
        mean=np.where(constant, minimum, np.where(empty, np.nan, mean)),
        std=np.where(empty, np.nan, np.sqrt(variance)),
        skew=np.where(empty, np.nan, skew),
        median=median + 0.0,
        shape=shape,
        covered=present,
        constant=constant,
    )
    covered = cover(columns, above)
    return Columns(**{**_fields(columns), "covered": covered})


def _join(parts: list[Columns]) -> Columns:
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _fields(parts[0])}
    return Columns(**joined)


def _fields(columns: Columns) -> dict[str, AnyArray]:
    return {name: getattr(columns, name) for name in Columns.__dataclass_fields__}


def _edges(minimum: Floats, maximum: Floats) -> Floats:
    """The inner borders of the bins `[columns, BINS − 1]`; a value on a border belongs to the right bin."""
    steps = np.arange(1, BINS) / BINS
    return minimum[:, None] + (maximum - minimum)[:, None] * steps


def _round_down(numbers: Floats) -> Floats32:
    """The largest float32 not above each number: `value > it` and `value > number` then agree."""
    with np.errstate(over="ignore"):
        near = numbers.astype(np.float32)
    return np.where(near > numbers, np.nextafter(near, np.float32(-np.inf)), near)


def _round_up(numbers: Floats) -> Floats32:
    """The smallest float32 not below each number."""
    return -_round_down(-numbers)


def measure_coverage(X: Matrix) -> Floats32:
    """The share of rows in which each feature is there and not zero (the rule "non_zero")."""
    rows = max(1, X.shape[0])
    if not isinstance(X, np.ndarray):
        there = (X.data != 0) & ~np.isnan(X.data)
        return np.asarray(np.bincount(X.indices[there], minlength=X.shape[1]) / rows, dtype=np.float32)
    counts = np.zeros(X.shape[1], dtype=np.int64)
    for start in range(0, X.shape[0], CHUNK):
        part = X[start : start + CHUNK]
        counts += np.count_nonzero((part != 0) & (part == part), axis=0)
    return np.asarray(counts / rows, dtype=np.float32)
