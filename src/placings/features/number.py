"""A numeric column: as it is, as a logarithm, or against the others of its list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from placings.core import Floats, check_name
from placings.features.columns import Rows
from placings.features.spec import KINDS, Feature, FeatureKind, check_measures

FORMS = {"raw": "{}", "log": "log_{}", "share": "{}_share", "rank": "{}_rank"}  # and what they are called


@dataclass(frozen=True)
class Number(Feature):
    """A numeric column in one or more forms; NaN stays NaN.

    "raw" is the number itself; "log" is log(1 + x), NaN below 0; "share" is x over the largest of the list,
    NaN where that is not above 0; "rank" is 1 for the largest of the list, equal numbers sharing the better.
    `kind` is that of the raw number and its logarithm; what compares with the list is "query-item".

    >>> from placings.features.spec import FeatureSet
    >>> rows = {"weight": [0.0, 10.0, None]}
    >>> FeatureSet([Number("weight", ("share", "rank"))]).fit_transform(rows)
    array([[ 0.,  2.],
           [ 1.,  1.],
           [nan, nan]], dtype=float32)
    """

    family: ClassVar[str] = "number"

    column: str
    measures: tuple[str, ...] = ("raw",)
    kind: str = "item"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_measures(self.measures, FORMS)
        check_name("kind", self.kind, KINDS)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def plain(self) -> bool:
        return self.measures == ("raw",) and self.kind in ("item", "query-item")

    def names(self) -> list[str]:
        return [FORMS[measure].format(self.column) for measure in self.measures]

    def kinds(self) -> list[FeatureKind]:
        own: FeatureKind = self.kind  # type: ignore[assignment]  # checked when declared
        return [own if measure in ("raw", "log") else "query-item" for measure in self.measures]

    def compute(self, rows: Rows) -> list[Floats]:
        return [self._measure(rows, rows.floats(self.column), measure) for measure in self.measures]

    def _measure(self, rows: Rows, values: Floats, measure: str) -> Floats:
        if measure == "raw":
            return values
        if measure == "log":
            return np.log1p(np.where(values >= 0.0, values, np.nan))
        if measure == "rank":
            return rows.lists.rank(values)
        largest = rows.lists.largest(values)
        return values / np.where(largest > 0.0, largest, np.nan)
