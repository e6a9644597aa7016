"""`Piecewise`: each feature as the pieces of its range, so that a line over them bends at their edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints
from placings.transforms.policy import Indicator, Missing
from placings.transforms.records import need_array
from placings.transforms.statistics import Statistics
from placings.transforms.transformer import TINY, Transform

if TYPE_CHECKING:
    from placings.transforms.layers import Layer


class Piecewise(Transform):
    """Piecewise linear encoding: piece t of a feature is `min(max((x − b_{t−1}) / (b_t − b_{t−1}), 0), 1)`.

    The edges b_0 < … < b_T are each feature's smallest training value and its quantiles at t/`pieces`; equal
    ones are one edge, so a feature has as many pieces as it has different edges less one, and at most
    `pieces`. A linear function of the pieces is a continuous function of the feature that bends at its
    edges, and is flat outside of the training range. A feature of one value (or none) is one column of
    zeros. Quantiles are exact up to `max_knots` distinct values, then within 1/`max_knots`.

    `transform` gives `[rows, Σ pieces + indicators]`, columns `NAME__piece1`, … feature by feature. CSR is
    made dense. After `fit`: `owner_` (the feature of each column), `low_` and `high_` (its edges).

    >>> pieces = Piecewise(2).fit([[0.0], [10.0], [10.0], [30.0]])
    >>> pieces.low_.tolist(), pieces.high_.tolist()
    ([0.0, 10.0], [10.0, 30.0])
    >>> pieces.transform([[-5.0], [5.0], [20.0], [99.0]]).tolist()
    [[0.0, 0.0], [0.5, 0.0], [1.0, 0.5], [1.0, 1.0]]

    Gorishniy, Rubachev and Babenko: On embeddings for numerical features in tabular deep learning, NeurIPS
    2022.
    """

    owner_: Ints
    low_: Floats
    high_: Floats

    def __init__(
        self,
        pieces: int = 8,
        *,
        max_knots: int = 10_000,
        missing: Missing = "median",
        indicator: Indicator = False,
    ) -> None:
        super().__init__(missing=missing, indicator=indicator)
        self.pieces = pieces
        self.max_knots = max_knots

    def find_owners(self) -> Ints:
        """The feature of each column, int64 `[columns]`; an indicator's is the feature it tells of."""
        return np.concatenate([self.owner_, self.indicator_])

    def _check_settings(self) -> None:
        for name, least in (("pieces", 1), ("max_knots", 2)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise BadInput(f"{name} must be a whole number of {least} or more. Got {value!r}.")

    def _count_knots(self, features: int) -> Ints:
        return np.full(features, self.max_knots, dtype=np.int64)

    def _learn(self, statistics: Statistics) -> None:
        shares = np.arange(self.pieces + 1) / self.pieces
        owner, low, high = [], [], []
        for feature, sketch in enumerate(statistics.sketches):
            found = np.unique([sketch.value_at(share) for share in shares]) if len(sketch) else np.zeros(1)
            edges = found[np.concatenate([[True], np.diff(found) >= TINY])]
            starts, ends = (edges[:-1], edges[1:]) if len(edges) > 1 else (edges, edges)
            owner += [feature] * len(starts)
            low += starts.tolist()
            high += ends.tolist()
        self.owner_ = np.array(owner, dtype=np.int64)
        self.low_, self.high_ = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)

    def _count_columns(self) -> int:
        return len(self.owner_)

    def _name_columns(self, names: Sequence[str]) -> list[str]:
        first = np.searchsorted(self.owner_, self.owner_)  # the first column of the same feature
        return [
            f"{names[owner]}__piece{place - start + 1}"
            for place, (owner, start) in enumerate(zip(self.owner_, first, strict=True))
        ]

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        away = X.astype(np.float64)[:, self.owner_] - self.low_
        width = self.high_ - self.low_
        return np.clip(np.divide(away, width, out=np.zeros_like(away), where=width > 0.0), 0.0, 1.0)

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Pieces

        return Pieces(self.owner_, self.low_, self.high_)

    def _give_arrays(self) -> dict[str, AnyArray]:
        return {"owner": self.owner_, "low": self.low_, "high": self.high_}

    def _take_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        self.owner_ = need_array(arrays, "owner", np.int64, (None,))
        count, columns = self.n_features_in_, len(self.owner_)
        self.low_ = need_array(arrays, "low", np.float64, (columns,))
        self.high_ = need_array(arrays, "high", np.float64, (columns,))
        steps = np.diff(self.owner_, prepend=-1, append=count)
        if ((steps < 0) | (steps > 1)).any() or columns > count * self.pieces:
            raise BadInput(
                f"the pieces in a transform's state must be of all {count} features, one after the other, at "
                f"most {self.pieces} of each."
            )
        if (self.low_ > self.high_).any():
            raise BadInput("the edges of pieces in a transform's state must not cross.")
