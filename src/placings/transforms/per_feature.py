"""`PerFeature`: a transform of its own for each feature, chosen by a person (or an oracle)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints
from placings.transforms.parts import give_parts, make_part, take_parts
from placings.transforms.policy import Indicator, Missing, find_places
from placings.transforms.statistics import Statistics
from placings.transforms.transformer import Transform

if TYPE_CHECKING:
    from placings.transforms.layers import Layer

Choices: TypeAlias = "Mapping[str, Sequence[str]] | Sequence[tuple[str | Transform, Sequence[str]]]"


class PerFeature(Transform):
    """Each feature by its own transform: `σ_k(x) = σ_{choice(k)}(x)`.

    `choices` maps names of transforms to names of features; a list of pairs does too and also takes
    objects: `[(Cdf(max_knots=100), ["clicks"])]`. Features that are not named get `default`. A feature named
    twice or not there is refused. The columns keep their order; `missing` and `indicator` are for all.

    >>> import numpy as np
    >>> choose = PerFeature({"log1p": ["f2"]}, default="minmax")
    >>> choose.fit_transform(np.array([[1.0, 0.0], [3.0, np.e - 1.0]])).round(6).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """

    parts_: list[Transform]
    columns_: list[Ints]

    def __init__(
        self,
        choices: Choices = (),
        default: str | Transform = "gauss",
        *,
        missing: Missing = "median",
        indicator: Indicator = False,
    ) -> None:
        super().__init__(missing=missing, indicator=indicator)
        self.choices = choices
        self.default = default

    @property
    def _per_query(self) -> bool:
        return any(part._per_query for part in self.parts_)

    def _plan(self) -> tuple[list[Transform], list[Ints]]:
        """The transforms in use and the places of the features of each."""
        names = self.feature_names_
        given = list(self.choices.items()) if isinstance(self.choices, Mapping) else list(self.choices)
        left = np.ones(len(names), dtype=bool)
        parts, columns = [], []
        for choice, features in given:
            if isinstance(features, str):
                raise BadInput(f"choices must list features, as in {{'cdf': ['clicks']}}. Got {features!r}.")
            places = find_places(features, names)
            for place in places:
                if not left[place]:
                    raise BadInput(f"feature {names[place]!r} is given to two transforms. Name it once.")
                left[place] = False
            parts.append(make_part(choice, "PerFeature"))
            columns.append(places)
        parts.append(make_part(self.default, "PerFeature"))
        columns.append(np.flatnonzero(left))
        used = [number for number, places in enumerate(columns) if len(places)]
        return [parts[number] for number in used], [columns[number] for number in used]

    def _names(self, columns: Sequence[Ints]) -> list[list[str]]:
        return [[self.feature_names_[place] for place in places] for places in columns]

    def _count_knots(self, features: int) -> Ints:
        knots = np.zeros(features, dtype=np.int64)
        for part, places in zip(*self._plan(), strict=True):
            part._check_settings()
            knots[places] = part._count_knots(len(places))
        return knots

    def _learn(self, statistics: Statistics) -> None:
        parts, columns = self._plan()
        for part, places, names in zip(parts, columns, self._names(columns), strict=True):
            part._adopt(names, statistics.take(places))
        self.parts_, self.columns_ = parts, columns

    def _compute(self, X: Floats32, offsets: Ints) -> Floats:
        out = np.empty(X.shape)
        for part, places in zip(self.parts_, self.columns_, strict=True):
            out[:, places] = part._compute(X[:, places], offsets)
        return out

    def _layer(self, export: bool) -> Layer:
        from placings.transforms.layers import Sorted

        return Sorted([part._layer(export) for part in self.parts_], self.columns_)

    def _give_arrays(self) -> dict[str, AnyArray]:
        return give_parts(self.parts_)

    def _take_arrays(self, arrays: Mapping[str, AnyArray]) -> None:
        parts, columns = self._plan()
        take_parts(parts, self._names(columns), arrays)
        self.parts_, self.columns_ = parts, columns
