"""The transforms that need ranks: cdf, quantile_normal, and clip at quantiles."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints, check_limit
from placings.transforms.policy import Indicator, Missing
from placings.transforms.records import need_array
from placings.transforms.sketch import Sketch
from placings.transforms.statistics import Statistics
from placings.transforms.transformer import Transform

if TYPE_CHECKING:
    from placings.transforms.layers import Layer

BOUNDS = ("quantile", "value")


class KnotTransform(Transform):
    """What cdf and quantile_normal share: a table of knots for each feature, and what each place is worth."""

    knots_: list[Floats32]
    table_: list[Floats]
    error_: Floats

    def __init__(
        self, *, max_knots: int = 10_000, missing: Missing = "median", indicator: Indicator = False
    ) -> None:
        super().__init__(missing=missing, indicator=indicator)
        self.max_knots = max_knots

    def _check_settings(self) -> None:
        _check_knots(self.max_knots)

    def _count_knots(self, features: int) -> Ints:
        return np.full(features, self.max_knots, dtype=np.int64)

    def _learn(self, statistics: Statistics) -> None:
        sketches = [sketch.finish(self.max_knots) for sketch in statistics.sketches]
        self.knots_ = [sketch.values for sketch in sketches]
        self.table_ = [self._tabulate(sketch) for sketch in sketches]
        self.error_ = np.array([sketch.error for sketch in sketches], dtype=np.float64)

    def _tabulate(self, sketch: Sketch) -> Floats:
        raise NotImplementedError

    def _table_length(self, knots: int) -> int:
        raise NotImplementedError

    def _give_arrays(self) -> dict[str, AnyArray]:
        return {
            "knots": np.concatenate(self.knots_),
            "knot_offsets": np.cumsum([0, *map(len, self.knots_)], dtype=np.int64),
            "table": np.concatenate(self.table_),
            "error": self.error_,
        }

    def _take_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        count = self.n_features_in_
        offsets = need_array(arrays, "knot_offsets", np.int64, (count + 1,))
        knots = need_array(arrays, "knots", np.float32, (None,))
        sizes = np.diff(offsets)
        if offsets[0] != 0 or offsets[-1] != len(knots) or (sizes < 0).any():
            raise BadInput("the knots in a transform's state do not fit their offsets.")
        # one table for all features, as wide as the longest, is what torch is given
        check_limit("model", 12 * count * int(sizes.max(initial=0)), "the knots in a transform's state")
        places = np.cumsum([0, *(self._table_length(int(size)) for size in sizes)])
        table = need_array(arrays, "table", np.float64, (int(places[-1]),))
        self.error_ = need_array(arrays, "error", np.float64, (count,))
        self.knots_ = [knots[start:stop] for start, stop in pairwise(offsets)]
        self.table_ = [table[start:stop] for start, stop in pairwise(places)]
        if any((np.diff(values) <= 0).any() for values in self.knots_):
            raise BadInput("the knots of each feature in a transform's state must rise.")


class Cdf(KnotTransform):
    """The empirical distribution: `σ(x) = #{i : x_i < x} / #{i}` over training values, equation 2.

    Strictly below: the smallest training value becomes 0, ties count nothing, and anything above the
    largest becomes 1. Exact for a feature with at most `max_knots` distinct values. Above that, the function
    keeps at most `max_knots` + 1 steps and is within `error_` `[features]` of the exact share: at most
    1/`max_knots` for rows given at once or in chunks, and for some thirty machines merged (beyond that it
    may grow slowly; `error_` is certified, not estimated). A feature without values becomes 0.
    After `fit`: `knots_`, `table_` (the share at each place), `error_`.

    >>> Cdf().fit([[1.0], [2.0], [2.0], [5.0]]).transform([[1.0], [2.0], [3.0], [9.0]])[:, 0].tolist()
    [0.0, 0.25, 0.75, 1.0]

    Zhuang et al.: Feature Transformation for Neural Ranking Models, SIGIR 2020. Greenwald and Khanna:
    Space-efficient online computation of quantile summaries, SIGMOD 2001.
    """

    def _tabulate(self, sketch: Sketch) -> Floats:
        return sketch.shares()

    def _table_length(self, knots: int) -> int:
        return knots + 1

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        out = np.empty(X.shape)
        for place, (knots, table) in enumerate(zip(self.knots_, self.table_, strict=True)):
            out[:, place] = table[np.searchsorted(knots, X[:, place], side="left")]
        return out

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Steps

        return Steps(self.knots_, self.table_, unrolled=export)


class QuantileNormal(KnotTransform):
    """Ranks as normal scores: `σ(x) = Φ⁻¹(p)`, with `p = (#{x_i < x} + ½ #{x_i = x}) / n`.

    p is kept within [½/n, 1 − ½/n], n being the values present in training, so that what lies outside the
    training range is as extreme as the ends and no more. Ties share their middle rank. A constant feature
    becomes 0 at its value. Exact and within `error_` (of p) as `Cdf` is.

    >>> QuantileNormal().fit_transform([[10.0], [20.0], [30.0]]).round(4)[:, 0]
    array([-0.9674,  0.    ,  0.9674], dtype=float32)
    """

    def _tabulate(self, sketch: Sketch) -> Floats:
        from scipy.special import ndtri

        between = sketch.shares()  # x strictly between two knots
        at = (between[:-1] + between[1:]) / 2  # x on a knot
        shares = np.empty(2 * len(sketch) + 1)
        shares[0::2], shares[1::2] = between, at
        half = 0.5 / max(1, sketch.count)
        return np.asarray(ndtri(np.clip(shares, half, 1.0 - half)) + 0.0, dtype=np.float64)

    def _table_length(self, knots: int) -> int:
        return 2 * knots + 1

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        out = np.empty(X.shape)
        for place, (knots, table) in enumerate(zip(self.knots_, self.table_, strict=True)):
            column = X[:, place]
            below = np.searchsorted(knots, column, side="left")
            out[:, place] = table[below + np.searchsorted(knots, column, side="right")]
        return out

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Steps

        return Steps(self.knots_, self.table_, unrolled=export, on_knots=True)


class Clip(Transform):
    """Outliers cut off: `σ(x) = min(max(x, low), high)`.

    With `bounds="quantile"` low and high are each feature's own: the smallest training value with at least a
    share `lower` (`upper`) of all at or below it, exact up to `max_knots` distinct values, then within
    1/`max_knots` of that share. With `bounds="value"` they are the numbers given, for all features. CSR
    stays CSR if 0 lies within all bounds. A feature without values is cut to 0. After `fit`: `low_`,
    `high_`.

    >>> Clip(0.0, 2.0, bounds="value").fit_transform([[-1.0], [1.0], [5.0]])[:, 0].tolist()
    [0.0, 1.0, 2.0]
    >>> import numpy as np
    >>> Clip(0.1, 0.9).fit_transform(np.arange(1.0, 11.0)[:, None])[:, 0].tolist()[-3:]
    [8.0, 9.0, 9.0]
    """

    low_: Floats32
    high_: Floats32

    def __init__(
        self,
        lower: float = 0.01,
        upper: float = 0.99,
        *,
        bounds: str = "quantile",
        max_knots: int = 10_000,
        missing: Missing = "median",
        indicator: Indicator = False,
    ) -> None:
        super().__init__(missing=missing, indicator=indicator)
        self.lower = lower
        self.upper = upper
        self.bounds = bounds
        self.max_knots = max_knots

    def _check_settings(self) -> None:
        _check_knots(self.max_knots)
        if self.bounds not in BOUNDS:
            raise BadInput(f"bounds must be one of {', '.join(BOUNDS)}. Got {self.bounds!r}.")
        if not self.lower <= self.upper:
            raise BadInput(f"lower must not be above upper. Got {self.lower!r} and {self.upper!r}.")
        if self.bounds == "quantile" and not (self.lower >= 0.0 and self.upper <= 1.0):
            raise BadInput(
                f"lower and upper must be shares from 0 to 1. Got {self.lower!r} and {self.upper!r}. "
                "Pass bounds='value' to cut at numbers."
            )

    def _count_knots(self, features: int) -> Ints:
        return np.full(features, self.max_knots if self.bounds == "quantile" else 0, dtype=np.int64)

    def _learn(self, statistics: Statistics) -> None:
        if self.bounds == "value":
            ends = [np.full(statistics.features, end) for end in (self.lower, self.upper)]
        else:
            ends = [
                np.nan_to_num([sketch.value_at(share) for sketch in statistics.sketches], nan=0.0)
                for share in (self.lower, self.upper)
            ]
        largest = np.finfo(np.float32).max
        self.low_, self.high_ = (np.clip(end, -largest, largest).astype(np.float32) for end in ends)

    def _compute(self, X: Floats32, offsets: Ints) -> Floats32:
        return np.clip(X, self.low_, self.high_)

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Clamp

        return Clamp(self.low_, self.high_)

    def _keeps_zero(self) -> bool:
        return bool(((self.low_ <= 0.0) & (self.high_ >= 0.0)).all())

    def _compute_stored(self, values: Floats, columns: Ints) -> Floats:
        return np.clip(values, self.low_[columns], self.high_[columns])

    def _give_arrays(self) -> dict[str, AnyArray]:
        return {"low": self.low_, "high": self.high_}

    def _take_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        count = (self.n_features_in_,)
        self.low_, self.high_ = (need_array(arrays, name, np.float32, count) for name in ("low", "high"))
        if (self.low_ > self.high_).any():
            raise BadInput("the bounds of clip in a transform's state must not cross.")


def _check_knots(max_knots: int) -> None:
    if not isinstance(max_knots, int | np.integer) or max_knots < 2:
        raise BadInput(f"max_knots must be a whole number of 2 or more. Got {max_knots!r}.")
