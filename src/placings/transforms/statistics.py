"""`Statistics`: what is known of each feature, from one look at the rows; chunks and machines add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints, map_in_order
from placings.data import Matrix
from placings.transforms.records import need_array
from placings.transforms.sketch import Sketch, count_sorted, join_sketches, split_sketches

CHUNK = 16_384  # rows whose float64 moments are taken together: they stay in the cache
BLOCK = 8  # columns copied together: half a cache line of a row
FEW = np.zeros(0, dtype=np.int64)
NOTHING = Sketch(np.zeros(0, dtype=np.float32), FEW, FEW)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Counts, moments, ends and (where asked for) the sketch of each feature; missing values left out.

    `present`, `mean`, `squares` (the sum of squared distances from the mean), `low` and `high` are
    `[features]`; `bounds` says how many knots a feature's sketch may have, 0 for none. Float64 throughout.
    `middle` is the exact median when all rows came at once, NaN where it must be read from the sketch.
    A feature without a present value has mean 0, squares 0, low +inf and high −inf.
    """

    rows: int
    present: Ints
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats
    middle: Floats
    bounds: Ints
    sketches: list[Sketch]
    sparse: bool = False

    @property
    def features(self) -> int:
        return len(self.present)

    @property
    def constant(self) -> AnyArray:
        """Features of one value, or of none `[features]`."""
        return ~(self.low < self.high)

    @property
    def std(self) -> Floats:
        """The population's standard deviation `[features]`, exactly 0 for a constant feature."""
        spread = np.sqrt(self.squares / np.maximum(self.present, 1))
        return np.where(self.constant, 0.0, spread)

    @property
    def average(self) -> Floats:
        """The mean `[features]`, exactly the value for a constant feature, 0 for an empty one."""
        only = np.where(self.present > 0, self.low, 0.0)
        return np.where(self.constant, only, self.mean)

    @property
    def median(self) -> Floats:
        """The median `[features]`; NaN where there are no values or no sketch."""
        read = [
            sketch.median() if np.isnan(m) else m
            for sketch, m in zip(self.sketches, self.middle, strict=True)
        ]
        return np.array(read, dtype=np.float64)

    def take(self, columns: Ints) -> Statistics:
        """The statistics of some features."""
        arrays = {name: getattr(self, name)[columns] for name in PER_FEATURE}
        return Statistics(
            rows=self.rows,
            sketches=[self.sketches[column] for column in columns],
            sparse=self.sparse,
            **arrays,
        )

    def merge(self, other: Statistics) -> Statistics:
        """Both sets of rows together, by Chan, Golub and LeVeque's formulas for the moments."""
        if self.rows == 0:
            return other
        if other.rows == 0:
            return self
        if self.features != other.features or (self.bounds != other.bounds).any():
            raise BadInput(
                "only statistics of the same features for the same transform add up. Got "
                f"{self.features} and {other.features} features."
            )
        if self.sparse != other.sparse:
            raise BadInput("some rows came dense and some CSR. Give all chunks in one form.")
        present = self.present + other.present
        away = other.mean - self.mean
        share = other.present / np.maximum(present, 1)
        pairs = zip(self.sketches, other.sketches, self.bounds, strict=True)
        return Statistics(
            rows=self.rows + other.rows,
            present=present,
            mean=self.mean + away * share,
            squares=self.squares + other.squares + away * away * self.present * share,
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            middle=np.full(self.features, np.nan),
            bounds=self.bounds,
            sketches=list(map_in_order(_merge_sketches, pairs)),
            sparse=self.sparse,
        )

    def to_arrays(self) -> dict[str, AnyArray]:
        """Everything as plain arrays, ready for npy or safetensors."""
        arrays: dict[str, AnyArray] = {name: getattr(self, name) for name in PER_FEATURE}
        arrays["rows"] = np.array([self.rows, self.sparse], dtype=np.int64)
        return {**arrays, **join_sketches(self.sketches)}


PER_FEATURE = ("present", "mean", "squares", "low", "high", "middle", "bounds")
COUNTS = ("present", "bounds")


def read_statistics(arrays: Mapping[str, AnyArray], features: int) -> Statistics:
    """The reverse of `to_arrays`; what could not have come from it is refused."""
    per_feature = {
        name: need_array(arrays, name, np.int64 if name in COUNTS else np.float64, (features,), finite=False)
        for name in PER_FEATURE
    }
    rows, sparse = need_array(arrays, "rows", np.int64, (2,)).tolist()
    knots = need_array(arrays, "knots", np.float32, (None,))
    up, down = (need_array(arrays, name, np.int64, (len(knots),)) for name in ("up", "down"))
    offsets = need_array(arrays, "knot_offsets", np.int64, (features + 1,))
    if offsets[0] != 0 or offsets[-1] != len(knots) or (np.diff(offsets) < 0).any():
        raise BadInput("the sketches of the statistics do not fit their knots.")
    present, squares = per_feature["present"], per_feature["squares"]
    if (present < 0).any() or (present > rows).any() or not (squares >= 0.0).all():
        raise BadInput("statistics must count between 0 and all rows, and their squares must be 0 or more.")
    sketches = split_sketches(knots, up, down, offsets)
    return Statistics(rows=rows, sparse=bool(sparse), sketches=sketches, **per_feature)


def measure_statistics(X: Matrix, bounds: Ints, *, shrink: bool = True) -> Statistics:
    """The statistics of float32 rows `[rows, features]`; `bounds` `[features]` asks for sketches.

    `shrink=False` leaves these exact, of any length: for a chunk that will be merged.

    In CSR an absent value is 0, NaN is missing, and there are no sketches: `bounds` must be 0.

    >>> X = np.array([[1.0], [3.0], [np.nan]], dtype=np.float32)
    >>> found = measure_statistics(X, np.array([10]))
    >>> found.present.tolist(), found.average.tolist(), found.std.tolist(), found.median.tolist()
    ([2], [2.0], [1.0], [2.0])
    """
    if not isinstance(X, np.ndarray):
        return _measure_sparse(X, bounds)
    width = X.shape[1]
    starts = range(0, width, BLOCK)
    columns = [
        one
        for block in map_in_order(lambda start: _measure_block(X, bounds, start, shrink), starts)
        for one in block
    ]
    moments = np.array([moment for moment, _ in columns]).reshape(width, 6)
    return Statistics(
        rows=len(X),
        present=moments[:, 0].astype(np.int64),
        mean=moments[:, 1],
        squares=moments[:, 2],
        low=moments[:, 3],
        high=moments[:, 4],
        middle=moments[:, 5],
        bounds=bounds,
        sketches=[sketch for _, sketch in columns],
    )


def _merge_sketches(pair: tuple[Sketch, Sketch, int]) -> Sketch:
    one, other, bound = pair
    return one.merge(other, int(bound)) if bound else NOTHING


Column = tuple[tuple[float, ...], Sketch]


def _measure_block(X: Floats32, bounds: Ints, start: int, shrink: bool) -> list[Column]:
    block = np.array(X[:, start : start + BLOCK].T, order="C")  # [columns, rows]
    return [
        _measure_column(column, int(bound), shrink)
        for column, bound in zip(block, bounds[start:], strict=False)
    ]


def _measure_column(column: Floats32, bound: int, shrink: bool) -> Column:
    gone = np.isnan(column)
    values = column[~gone] if gone.any() else column
    count = len(values)
    if not count:
        return (0, 0.0, 0.0, np.inf, -np.inf, np.nan), NOTHING
    mean = float(values.mean(dtype=np.float64))
    squares = 0.0
    for first in range(0, count, CHUNK):
        away = values[first : first + CHUNK].astype(np.float64) - mean
        away *= away
        squares += float(away.sum())
    if not bound:
        return (count, mean, squares, float(values.min()), float(values.max()), np.nan), NOTHING
    values.sort()  # the block is a copy
    middle = (float(values[(count - 1) // 2]) + float(values[count // 2])) / 2 + 0.0
    sketch = count_sorted(values)
    sketch = sketch.shrink(bound) if shrink else sketch
    return (count, mean, squares, float(values[0]), float(values[-1]), middle), sketch


def _measure_sparse(X: Matrix, bounds: Ints) -> Statistics:
    rows, width = X.shape
    assert not isinstance(X, np.ndarray)
    known = ~np.isnan(X.data)
    column, value = X.indices[known], X.data[known].astype(np.float64)
    stored = np.bincount(column, minlength=width)
    absent = rows - np.bincount(X.indices, minlength=width)
    present = stored + absent
    mean = np.bincount(column, weights=value, minlength=width) / np.maximum(present, 1)
    away = value - mean[column]
    squares = np.bincount(column, weights=away * away, minlength=width) + absent * mean**2
    low, high = np.where(absent > 0, 0.0, np.inf), np.where(absent > 0, 0.0, -np.inf)
    np.minimum.at(low, column, value)
    np.maximum.at(high, column, value)
    return Statistics(
        rows=rows,
        present=present.astype(np.int64),
        mean=mean,
        squares=squares,
        low=low,
        high=high,
        middle=np.where(present > 0, 0.0, np.nan),  # where most is absent, the middle is 0
        bounds=np.zeros_like(bounds),
        sketches=[NOTHING] * width,
        sparse=True,
    )
