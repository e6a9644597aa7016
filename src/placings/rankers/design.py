"""`Design`: features filled in and scaled on the fly, float32 or CSR in place, float64 in the sums.

No copy of the features is made but blocks of some megabytes. What is dense is divided by its standard
deviation, what is sparse by its largest absolute value; both are folded into the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from placings.core import HAVE_NUMBA, AnyArray, BadInput, Floats, Ints, compiled, map_in_order
from placings.data import Matrix
from placings.metrics import sum_by_query

BLOCK = 131_072  # numbers converted to float64 at a time: 1 MB
BLOCKS_A_TASK = 64
SCATTER_ROWS = 1024  # in one product of matrices, at least
STORED_A_TASK = 2_000_000  # entries of a sparse matrix handed to one thread
MISSING = ("median", "mean", "zero")


@dataclass(frozen=True, eq=False)
class Design:
    """`X` `[rows, features]` as a model sees it: NaN is `fill`, then each column is times `inverse`."""

    X: Matrix
    fill: Floats  # [features]
    inverse: Floats  # [features], 1 / scale; 0 switches a column off
    has_nan: bool = True

    @property
    def rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def features(self) -> int:
        return int(self.X.shape[1])

    def scores(self, w: Floats) -> Floats:
        """`X w` `[rows]`."""
        weights = np.asarray(w * self.inverse, dtype=np.float64)
        out = np.empty(self.rows)
        if not isinstance(self.X, np.ndarray):
            for _ in map_in_order(lambda span: _score_sparse(self.X, weights, out, *span), self._spans()):
                pass
            return out
        dense = self.X

        def work(span: tuple[int, int]) -> None:
            if self._is_plain:
                _score_dense(dense, self.fill, weights, out, *span)
                return
            for start, stop in cut(*span, self._step):
                out[start:stop] = self.block(start, stop) @ weights

        for _ in self._map(work):
            pass
        return out

    def gather(self, slope: Floats) -> Floats:
        """`Xᵀ slope` `[features]`."""
        total = np.zeros(self.features)
        if not isinstance(self.X, np.ndarray):
            spans = self._spans()
            for part in map_in_order(lambda span: _gather_sparse(self.X, slope, *span), spans):
                total += part
            return total * self.inverse
        dense = self.X

        def work(span: tuple[int, int]) -> Floats:
            part = np.zeros(self.features)
            if self._is_plain:
                _gather_dense(dense, self.fill, slope, part, *span)
                return part
            for start, stop in cut(*span, self._step):
                part += slope[start:stop] @ self.block(start, stop)
            return part

        for part in self._map(work):
            total += part
        return total * self.inverse

    def squares(self, weight: Floats) -> Floats:
        """`Σ weight · x²` of each column `[features]`."""
        total = np.zeros(self.features)
        if not isinstance(self.X, np.ndarray):
            heavy = np.repeat(weight, np.diff(self.X.indptr))
            known = np.nan_to_num(self.X.data.astype(np.float64))
            total += np.bincount(self.X.indices, weights=heavy * known**2, minlength=self.features)
        else:
            for start, stop in cut(0, self.rows, self._step):
                total += weight[start:stop] @ np.square(self.block(start, stop))
        return np.asarray(total * self.inverse**2)

    def scatter(self, offsets: Ints, weight: Floats, target: Floats | None = None) -> tuple[Floats, Floats]:
        """`Σ weight (x − x̄)(x − x̄)ᵀ` `[features, features]`, x̄ the weighted mean of the query; dense only.

        With a `target` `[rows]` also `Σ weight (x − x̄) target` `[features]`.
        """
        from threadpoolctl import threadpool_limits

        def work(span: tuple[int, int]) -> tuple[Floats, Floats | float]:
            start, stop = span
            block = self.block(start, stop)
            first, last = np.searchsorted(offsets, span, side="right") - 1
            if (start, stop) in means:
                block -= means[start, stop]
            else:
                borders = offsets[first : last + 1] - start
                each = average_rows(block, borders, weight[start:stop])
                block -= np.repeat(each, np.diff(borders), axis=0)
            heavy = block * weight[start:stop, None]
            return heavy.T @ block, 0.0 if target is None else target[start:stop] @ heavy

        total = np.zeros((self.features, self.features))
        along = np.zeros(self.features)
        step = max(SCATTER_ROWS, self._step * BLOCKS_A_TASK // 8)
        spans: list[tuple[int, int]] = []
        means: dict[tuple[int, int], Floats] = {}
        for start, stop in _whole_queries(offsets, step):
            pieces = list(cut(start, stop, step))
            if len(pieces) > 1:  # one long query
                means.update(dict.fromkeys(pieces, self._average(start, stop, weight)))
            spans += pieces
        wide = self.features > 512  # then a sum is large, and BLAS's own threads pay
        with threadpool_limits(None if wide else 1, user_api="blas"):  # or they spin, waiting for each other
            for matrix, vector in map_in_order(work, spans, threads=1 if wide else None):
                total += matrix
                along += vector
        return total * np.outer(self.inverse, self.inverse), along * self.inverse

    def block(self, start: int, stop: int) -> Floats:
        """Rows in float64, missing values filled in, not scaled."""
        dense = np.asarray(self.X[start:stop], dtype=np.float64)
        if self.has_nan:
            absent = np.isnan(dense)
            if absent.any():
                np.copyto(dense, self.fill, where=absent)
        return dense

    @property
    def _is_plain(self) -> bool:
        """Whether a compiled loop walks along the rows: no block, and no BLAS threads beside ours."""
        return HAVE_NUMBA and isinstance(self.X, np.ndarray) and bool(self.X.flags.c_contiguous)

    @property
    def _step(self) -> int:
        return max(16, BLOCK // max(1, self.features))

    def _average(self, start: int, stop: int, weight: Floats) -> Floats:
        mass = float(weight[start:stop].sum())
        total = np.zeros(self.features)
        for begin, end in cut(start, stop, self._step):
            total += weight[begin:end] @ self.block(begin, end)
        return total / mass if mass > 0.0 else total

    def _map(self, work: Any) -> Iterator[Any]:
        spans = list(cut(0, self.rows, self._step * BLOCKS_A_TASK))
        return map_in_order(work, spans, threads=1 if len(spans) == 1 else None)

    def _spans(self) -> list[tuple[int, int]]:
        if not HAVE_NUMBA:
            return [(0, self.rows)]
        stored = int(self.X.indptr[-1])  # type: ignore[union-attr]
        return list(cut(0, self.rows, max(1, -(-self.rows // max(1, stored // STORED_A_TASK)))))


def measure_design(X: Matrix, *, scale: bool, missing: str, weight: Floats | None = None) -> Design:
    """Learn what fills a missing value and what divides a column from the rows of `X`.

    Dense: `fill` is the column's median, mean or 0, the scale its standard deviation over the values that
    are there, and a constant or wholly missing column is switched off. CSR: NaN counts as 0, the scale is
    the largest absolute value. With a `weight` `[rows]` all of these are weighted: 2 is a row given twice.
    """
    if missing not in MISSING:
        raise BadInput(f"missing must be one of {', '.join(map(repr, MISSING))}. Got {missing!r}.")
    features = X.shape[1]
    if not isinstance(X, np.ndarray):
        largest = np.zeros(features)
        sizes = np.abs(np.nan_to_num(X.data.astype(np.float64)))
        if weight is not None:
            sizes *= np.repeat(weight > 0.0, np.diff(X.indptr))
        np.maximum.at(largest, X.indices, sizes)
        return Design(X, np.zeros(features), _invert(largest) if scale else np.ones(features))
    mean, deviation, constant, has_nan = _measure_dense(X, weight)
    if missing == "median":
        fill = _find_medians(X, weight)
    else:
        fill = mean if missing == "mean" else np.zeros(features)
    inverse = np.where(constant, 0.0, _invert(deviation) if scale else 1.0)
    return Design(X, fill, inverse, has_nan)


def keep_used(X: Matrix) -> tuple[Matrix, AnyArray | slice]:
    """CSR without the columns that no row uses, where these are many, and the places of those kept."""
    if isinstance(X, np.ndarray):
        return X, slice(None)
    used = np.zeros(X.shape[1], dtype=np.bool_)
    used[X.indices] = True
    if used.sum() > X.shape[1] // 2:
        return X, slice(None)
    places = np.cumsum(used, dtype=X.indices.dtype) - X.indices.dtype.type(1)
    kept = type(X)((X.data, places[X.indices], X.indptr), shape=(X.shape[0], int(used.sum())))
    return kept, np.flatnonzero(used)


def average_rows(values: AnyArray, offsets: Ints, weight: Floats) -> Floats:
    """The weighted mean of each query's rows, `[queries, …]` of `[rows, …]`; 0 where nothing weighs."""
    mass = sum_by_query(weight, offsets)
    heavy = values * (weight if values.ndim == 1 else weight[:, None])
    sums = np.zeros((len(mass), *values.shape[1:]))
    filled = np.diff(offsets) > 0
    if filled.any():
        sums[filled] = np.add.reduceat(heavy, offsets[:-1][filled], axis=0)
    share = np.where(mass > 0.0, mass, 1.0)
    return np.asarray(sums / (share if values.ndim == 1 else share[:, None]))


def cut(start: int, stop: int, step: int) -> Iterator[tuple[int, int]]:
    """Spans of at most `step` from `start` to `stop`.

    >>> list(cut(0, 5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    return ((begin, min(begin + step, stop)) for begin in range(start, stop, step))


# -- inside ---------------------------------------------------------------------------------------


def _invert(scale: Floats) -> Floats:
    return np.divide(1.0, scale, out=np.zeros(len(scale)), where=scale > 1e-300)


def _measure_dense(X: AnyArray, weight: Floats | None) -> tuple[Floats, Floats, AnyArray, bool]:
    rows, features = X.shape
    heavy = np.ones(rows) if weight is None else weight
    step = max(16, BLOCK // max(1, features))
    mass, total, squares = np.zeros((3, features))
    low, high = np.full(features, np.inf), np.full(features, -np.inf)
    has_nan = False
    for start, stop in cut(0, rows, step):
        block = np.asarray(X[start:stop], dtype=np.float64)
        known = ~np.isnan(block)
        has_nan = has_nan or not known.all()
        part = heavy[start:stop]
        mass += part @ known
        total += part @ np.where(known, block, 0.0)
        if weight is not None:
            block = block[part > 0.0]
        low = np.fmin(low, np.fmin.reduce(block, axis=0, initial=np.inf))
        high = np.fmax(high, np.fmax.reduce(block, axis=0, initial=-np.inf))
    mean = np.divide(total, mass, out=np.zeros(features), where=mass > 0.0)
    for start, stop in cut(0, rows, step):
        away = np.asarray(X[start:stop], dtype=np.float64) - mean
        squares += heavy[start:stop] @ np.nan_to_num(away * away)
    deviation = np.sqrt(np.divide(squares, mass, out=np.zeros(features), where=mass > 0.0))
    return mean, deviation, ~(high > low), has_nan


def _find_medians(X: AnyArray, weight: Floats | None) -> Floats:
    fill = np.zeros(X.shape[1])
    for first, last in cut(0, X.shape[1], 16):
        columns = np.ascontiguousarray(X[:, first:last].T)
        for place, column in enumerate(columns, start=first):
            known = ~np.isnan(column) & (True if weight is None else weight > 0.0)
            values = column[known].astype(np.float64)
            if len(values) and weight is None:
                fill[place] = np.median(values)
            elif len(values) and weight is not None:
                fill[place] = _halve(values, weight[known])
    return fill


def _halve(values: Floats, weight: Floats) -> float:
    """The weighted median: between the last value below half of the weight and the first above."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    half = below[-1] / 2.0
    first, last = np.searchsorted(below, half, side="left"), np.searchsorted(below, half, side="right")
    ends = values[order[[first, min(int(last), len(order) - 1)]]]
    return float(ends.mean())


def _whole_queries(offsets: Ints, step: int) -> Iterator[tuple[int, int]]:
    """Spans of rows of whole queries, at most `step` of them; a longer query is a span of its own."""
    first = 0
    while first < len(offsets) - 1:
        last = int(np.searchsorted(offsets, offsets[first] + step, side="right")) - 1
        last = max(last, first + 1)
        yield int(offsets[first]), int(offsets[last])
        first = last


def _score_sparse(X: Any, weights: Floats, out: Floats, start: int, stop: int) -> None:
    if HAVE_NUMBA:
        _score_rows(X.indptr, X.indices, X.data, weights, out, start, stop)
    else:
        out[start:stop] = _known(X[start:stop]) @ weights


def _gather_sparse(X: Any, slope: Floats, start: int, stop: int) -> Floats:
    if not HAVE_NUMBA:
        return np.asarray(_known(X[start:stop]).T @ slope[start:stop], dtype=np.float64)
    total = np.zeros(X.shape[1])
    _gather_rows(X.indptr, X.indices, X.data, slope, total, start, stop)
    return total


def _known(X: Any) -> Any:
    filled = X.astype(np.float64)
    filled.data = np.nan_to_num(filled.data)
    return filled


@compiled
def _score_rows(
    indptr: AnyArray, indices: AnyArray, data: AnyArray, weights: Floats, out: Floats, start: int, stop: int
) -> None:
    for row in range(start, stop):
        total = 0.0
        for place in range(indptr[row], indptr[row + 1]):
            value = data[place]
            if value == value:
                total += value * weights[indices[place]]
        out[row] = total


@compiled
def _gather_rows(
    indptr: AnyArray, indices: AnyArray, data: AnyArray, slope: Floats, total: Floats, start: int, stop: int
) -> None:
    for row in range(start, stop):
        pull = slope[row]
        if pull == 0.0:
            continue
        for place in range(indptr[row], indptr[row + 1]):
            value = data[place]
            if value == value:
                total[indices[place]] += value * pull


@compiled
def _score_dense(X: AnyArray, fill: Floats, weights: Floats, out: Floats, start: int, stop: int) -> None:
    width = X.shape[1]
    even = width - width % 4
    for row in range(start, stop):
        a = b = c = d = 0.0  # four sums, since one would wait for itself
        for k in range(0, even, 4):
            a += X[row, k] * weights[k]
            b += X[row, k + 1] * weights[k + 1]
            c += X[row, k + 2] * weights[k + 2]
            d += X[row, k + 3] * weights[k + 3]
        for k in range(even, width):
            a += X[row, k] * weights[k]
        total = (a + b) + (c + d)
        if total != total:  # something is missing
            total = 0.0
            for k in range(width):
                value = X[row, k]
                total += (value if value == value else fill[k]) * weights[k]
        out[row] = total


@compiled
def _gather_dense(X: AnyArray, fill: Floats, slope: Floats, total: Floats, start: int, stop: int) -> None:
    for row in range(start, stop):
        pull = slope[row]
        if pull == 0.0:
            continue
        for k in range(X.shape[1]):
            value = np.float64(X[row, k])
            total[k] += (value if value == value else fill[k]) * pull
