"""A category as one column for each of its values, and one for all that is unknown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from placings.core import BadInput, Floats, check_name
from placings.features.columns import Rows
from placings.features.spec import KINDS, UNKNOWN, Feature, FeatureKind


@dataclass(frozen=True)
class OneHot(Feature):
    """1 in the column of the row's category and 0 in the others; missing and unseen ones are "unknown".

    `fit` learns the `limit` most frequent values (equal counts: by name) and keeps them in order of their
    names. A value spelled "unknown" is not known either.

    >>> from placings.features.spec import FeatureSet
    >>> features = FeatureSet([OneHot("type")]).fit({"type": ["stop", "address", "stop"]})
    >>> features.names
    ['type=address', 'type=stop', 'type=unknown']
    >>> features.transform({"type": ["stop", None, "peak"]})
    array([[0., 1., 0.],
           [0., 0., 1.],
           [0., 0., 1.]], dtype=float32)
    """

    family: ClassVar[str] = "one-hot"

    column: str
    kind: str = "item"
    limit: int = 50
    categories: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_name("kind", self.kind, KINDS)
        if self.limit < 1:
            raise BadInput(f"limit must be at least 1. Got {self.limit}.")
        if self.categories is not None and len(set(self.categories)) != len(self.categories):
            raise BadInput(f"categories must differ from each other. Got {', '.join(self.categories)}.")

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.column,)

    def fit(self, rows: Rows) -> Self:
        texts = rows.texts(self.column)
        counts = Counter(dict(zip(texts.values, np.bincount(texts.codes).tolist(), strict=True)))
        often = sorted((-count, value) for value, count in counts.items() if value not in ("", UNKNOWN))
        return replace(self, categories=tuple(sorted(value for _, value in often[: self.limit])))

    def names(self) -> list[str]:
        return [f"{self.column}={value}" for value in (*self._known, UNKNOWN)]

    def kinds(self) -> list[FeatureKind]:
        own: FeatureKind = self.kind  # type: ignore[assignment]  # checked when declared
        return [own] * (len(self._known) + 1)

    def compute(self, rows: Rows) -> list[Floats]:
        texts = rows.texts(self.column)
        place = {value: number for number, value in enumerate(self._known)}
        number = np.array([place.get(value, len(place)) for value in texts.values], dtype=np.int64)[
            texts.codes
        ]
        return [(number == each).astype(np.float64) for each in range(len(place) + 1)]

    @property
    def _known(self) -> tuple[str, ...]:
        if self.categories is None:
            raise BadInput(f"the categories of {self.column!r} are not known yet. Call fit(rows) first.")
        return self.categories
