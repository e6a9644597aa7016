"""Feature groups that are vectors (embeddings, hashed text): transforms that keep their direction.

The paper's closing question is how to transform embedding-type features. A coordinate of an embedding means
nothing by itself, so a transform of each coordinate on its own would bend the space; these scale the vector
as a whole. With v the group's columns of a row, μ their mean and S their number:

- raw: `v`
- gauss: `(v − μ) / c`, one scale for all: `c² = mean over rows and coordinates of (v − μ)²`
- cdf: `v / ‖v‖`, the direction alone (ranks of a length say little when all vectors are of one length)
- log1p: `v / ‖v‖ · log(1 + ‖v‖)`, the length alone is bent

The zero vector stays zero. Other transforms have no such form and get no weight in a group. When a mixture
normalises, each form is scaled, without a shift, so that a vector of the training rows' root mean square
length r has a mean square of 1 in its coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placings.core import BadInput, Floats, Floats32, Ints
from placings.transforms.policy import find_places
from placings.transforms.statistics import Statistics
from placings.transforms.transformer import TINY

FORMS = ("raw", "gauss", "cdf", "log1p")


@dataclass(frozen=True, eq=False)
class VectorGroup:
    """One vector: its columns, and from training its `center` `[columns]`, `scale` (c) and `length` (r)."""

    name: str
    columns: Ints
    center: Floats
    scale: float
    length: float

    def factor(self, form: str) -> float:
        """What a form is multiplied with when a mixture normalises; 0 for a group that is always 0."""
        root = float(np.sqrt(len(self.columns)))
        per_form = {"raw": self.length, "gauss": root, "cdf": 1.0, "log1p": float(np.log1p(self.length))}
        return root / per_form[form] if per_form[form] >= TINY else 0.0

    def compute(self, form: str, V: Floats32, *, normalise: bool) -> Floats:
        """The form of the vectors `[rows, columns]`."""
        values = V.astype(np.float64)
        times = self.factor(form) if normalise else 1.0
        if form == "raw":
            return values * times
        if form == "gauss":
            return (values - self.center) / self.scale if self.scale > 0.0 else np.zeros_like(values)
        length: Floats = np.sqrt((values * values).sum(axis=1, keepdims=True))
        direction = np.divide(values, length, out=np.zeros_like(values), where=length > 0.0)
        return np.asarray(direction * (times if form == "cdf" else times * np.log1p(length)))


def find_vectors(groups: Mapping[str, Sequence[str]], names: Sequence[str]) -> dict[str, Ints]:
    """The places of each group's columns; columns that are not there or stand in two groups are refused."""
    found = {}
    taken: set[str] = set()
    for group, columns in groups.items():
        if isinstance(columns, str) or not len(columns):
            raise BadInput(f"group {group!r} must list its columns. Got {columns!r}.")
        for name in columns:
            if name in taken:
                raise BadInput(f"column {name!r} stands in two groups, or twice in {group!r}. Name it once.")
            taken.add(name)
        found[str(group)] = find_places(columns, names)
    return found


def measure_group(name: str, columns: Ints, statistics: Statistics) -> VectorGroup:
    """A group's center, common scale and root mean square length, from its columns' moments."""
    center, std = statistics.average[columns], statistics.std[columns]
    scale = float(np.sqrt(np.mean(std**2)))
    length = float(np.sqrt(np.sum(std**2 + center**2)))
    return VectorGroup(name, columns, center, scale if scale >= TINY else 0.0, length)
