"""The order that the engine gave, where the data know it: the method that every other has to beat."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from placings.core import BadInput, Floats, option
from placings.data import RankingData

ENGINE = "engine"  # its name in a table
SCORES = ("engine_score", "engine score", "engine.score")  # features that hold the engine's own score


def find_engine(data: RankingData) -> Floats | None:
    """Scores in the engine's order: minus the position, or else its own score; None where neither is known.

    A row without a position or score comes last.

    >>> data = RankingData.from_arrays([[5.0], [7.0], [6.0]], [0, 1, 0], [1, 1, 1], position=[2, 1, 3])
    >>> find_engine(data)
    array([-2., -1., -3.])
    """
    if data.position is not None:
        scores = -np.asarray(data.position, dtype=np.float64)
    else:
        place = next((data.feature_names.index(name) for name in SCORES if name in data.feature_names), None)
        if place is None:
            return None
        column: Any = data.X[:, [place]]
        column = column.toarray() if hasattr(column, "toarray") else column
        scores = np.asarray(column, dtype=np.float64).ravel()
    known = scores[~np.isnan(scores)]
    return np.where(np.isnan(scores), known.min(initial=0.0) - 1.0, scores)


def add_engine(
    methods: Iterable[str], data: Sequence[RankingData], wanted: bool = True, baseline: str | None = None
) -> bool:
    """Whether the engine is one more method: all data know its order, and no method has its name.

    An error if it is the `baseline` and the data do not know it.
    """
    if not wanted or ENGINE in methods:
        return False
    known = bool(data) and all(find_engine(each) is not None for each in data)
    if baseline == ENGINE and not known:
        raise BadInput(
            f"{option('baseline', value=ENGINE)} needs the engine's order. Got data without a column "
            "position. Name another baseline, or give the engine's scores."
        )
    return known
