"""The transforms that need little: raw, gauss, log1p, minmax, and minmax within each query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints
from placings.transforms.policy import Indicator, Missing
from placings.transforms.records import need_array
from placings.transforms.statistics import Statistics
from placings.transforms.transformer import TINY, Transform

if TYPE_CHECKING:
    from placings.transforms.layers import Layer


class Raw(Transform):
    """The features as they are: `σ(x) = x`, but for missing values.

    CSR stays CSR. See `Transform` for missing values, ±inf, chunks and state.

    >>> Raw(missing="mean").fit_transform([[1.0], [3.0], [float("nan")]]).tolist()
    [[1.0], [3.0], [2.0]]
    """

    def _compute(self, X: Floats32, offsets: Ints) -> Floats32:
        return X

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Identity

        return Identity()

    def _keeps_zero(self) -> bool:
        return True

    def _compute_stored(self, values: Floats, columns: Ints) -> Floats:
        return values


class Log1p(Transform):
    """The symmetric logarithm: `σ(x) = sgn(x) · log(1 + |x|)`, equation 3 of the paper.

    Needs no statistics, keeps order and sign, and turns a power law into something a network can read. 0
    stays 0, so CSR stays CSR.

    >>> import numpy as np
    >>> Log1p().fit_transform([[0.0], [np.expm1(2.0)], [-np.expm1(3.0)]])[:, 0]
    array([ 0.,  2., -3.], dtype=float32)

    Zhuang et al.: Feature Transformation for Neural Ranking Models, SIGIR 2020.
    """

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        return _log(X.astype(np.float64))

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Logarithm

        return Logarithm()

    def _keeps_zero(self) -> bool:
        return True

    def _compute_stored(self, values: Floats, columns: Ints) -> Floats:
        return _log(values)


def _log(values: Floats) -> Floats:
    return np.copysign(np.log1p(np.abs(values)), values)


class Scaling(Transform):
    """What gauss and minmax share: `σ(x) = (x − shift) / divisor`, 0 where the divisor is 0."""

    shift_: Floats
    divisor_: Floats

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        away = X.astype(np.float64) - self.shift_
        return np.divide(away, self.divisor_, out=np.zeros_like(away), where=self.divisor_ > 0.0)

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Scale

        return Scale(self.shift_, self.divisor_)

    def _give_arrays(self) -> dict[str, AnyArray]:
        return {"shift": self.shift_, "divisor": self.divisor_}

    def _take_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        count = (self.n_features_in_,)
        self.shift_ = need_array(arrays, "shift", np.float64, count)
        self.divisor_ = need_array(arrays, "divisor", np.float64, count)
        if (self.divisor_ < 0.0).any():
            raise BadInput("the divisors in a transform's state must be 0 or more.")


class Gauss(Scaling):
    """The z-score: `σ(x) = (x − mean) / std` with the population's standard deviation, equation 1.

    A constant feature becomes 0, for unseen values too. Mean and std are of the values present in training,
    float64, in two passes within a chunk, and chunks add up by Chan's formulas. After `fit`: `mean_`,
    `std_`.

    >>> Gauss().fit_transform([[1.0, 7.0], [3.0, 7.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]

    Zhuang et al.: Feature Transformation for Neural Ranking Models, SIGIR 2020.
    """

    @property
    def mean_(self) -> Floats:
        return self.shift_

    @property
    def std_(self) -> Floats:
        return self.divisor_

    def _learn(self, statistics: Statistics) -> None:
        std = statistics.std
        self.shift_ = statistics.average
        self.divisor_ = np.where(std >= TINY, std, 0.0)


class MinMax(Scaling):
    """The range as [0, 1]: `σ(x) = (x − min) / (max − min)`.

    A constant feature becomes 0. A value outside the training range leaves [0, 1] unless `clip=True`. CSR
    stays CSR if every minimum is 0. After `fit`: `minimum_`, `maximum_`.

    >>> MinMax().fit([[1.0], [5.0]]).transform([[1.0], [4.0], [7.0]]).tolist()
    [[0.0], [0.75], [1.5]]
    """

    def __init__(
        self, *, clip: bool = False, missing: Missing = "median", indicator: Indicator = False
    ) -> None:
        super().__init__(missing=missing, indicator=indicator)
        self.clip = clip

    @property
    def minimum_(self) -> Floats:
        return self.shift_

    @property
    def maximum_(self) -> Floats:
        return self.shift_ + self.divisor_

    def _learn(self, statistics: Statistics) -> None:
        there = statistics.present > 0
        low, high = np.where(there, statistics.low, 0.0), np.where(there, statistics.high, 0.0)
        self.shift_ = low + 0.0
        self.divisor_ = np.where(high - low >= TINY, high - low, 0.0)

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        scaled = super()._compute(X, offsets)
        return np.clip(scaled, 0.0, 1.0) if self.clip else scaled

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Scale

        return Scale(self.shift_, self.divisor_, ends=(0.0, 1.0) if self.clip else None)

    def _keeps_zero(self) -> bool:
        return bool(((self.shift_ == 0.0) | (self.divisor_ == 0.0)).all())

    def _compute_stored(self, values: Floats, columns: Ints) -> Floats:
        divisor = self.divisor_[columns]
        scaled = np.divide(values, divisor, out=np.zeros_like(values), where=divisor > 0.0)
        return np.clip(scaled, 0.0, 1.0) if self.clip else scaled


class QueryMinMax(Transform):
    """LETOR's scaling: within each query, `σ(x) = (x − min_q) / (max_q − min_q)`.

    A feature that is constant within a query becomes 0 there. Missing values are filled before, so they
    take part. The queries come from a RankingData, from `transform(X, qid=…)` with rows in any order, or in
    torch from `module()(x, offsets)`; without them all rows are one query. CSR is made dense.

    >>> QueryMinMax().fit_transform([[1.0], [3.0], [2.0], [9.0]], qid=[1, 1, 1, 2])[:, 0].tolist()
    [0.0, 1.0, 0.5, 0.0]

    Qin and Liu: Introducing LETOR 4.0 Datasets, 2013.
    """

    @property
    def _per_query(self) -> bool:
        return True

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        sizes = np.diff(offsets)
        if not len(X):
            return X.astype(np.float64)
        starts = offsets[:-1][sizes > 0]  # an empty query has no rows to scale
        low = np.minimum.reduceat(X, starts).astype(np.float64)  # [queries, features]
        span = np.maximum.reduceat(X, starts) - low
        query = np.repeat(np.arange(len(starts)), sizes[sizes > 0])
        away, span = X - low[query], span[query]
        return np.divide(away, span, out=np.zeros_like(away), where=span >= TINY)

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import QueryScale

        return QueryScale()
