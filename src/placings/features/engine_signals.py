"""What the engine said of an item: its rank and its score, and both against the rest of the list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from placings.core import Floats
from placings.features.columns import Rows
from placings.features.spec import Feature, FeatureKind, check_measures

SIGNALS: dict[str, FeatureKind] = {
    "rank": "query-item",
    "reciprocal_rank": "query-item",
    "score": "query-item",
    "score_gap": "query-item",
    "score_share": "query-item",
    "list_size": "query",
}


@dataclass(frozen=True)
class EngineSignals(Feature):
    """What the engine said: rank, reciprocal_rank, score, score_gap, score_share, list_size.

    `score_gap` is the list's best score minus this one. `score_share` is score over the sum of the list; a
    list with scores below 0 is shifted to begin at 0 first, and where all are 0 each has the same share.
    Missing ranks and scores give NaN; `list_size` counts the rows.

    >>> from placings.features.spec import FeatureSet
    >>> rows = {"position": [1, 2], "score": [3.0, 1.0]}
    >>> FeatureSet([EngineSignals(("reciprocal_rank", "score_gap", "score_share"))]).fit_transform(rows)
    array([[1.  , 0.  , 0.75],
           [0.5 , 2.  , 0.25]], dtype=float32)
    """

    family: ClassVar[str] = "engine signals"

    measures: tuple[str, ...] = tuple(SIGNALS)
    position: str = "position"
    score: str = "score"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_measures(self.measures, SIGNALS)

    @property
    def columns(self) -> tuple[str, ...]:
        ranked = any("rank" in measure for measure in self.measures)
        scored = any("score" in measure for measure in self.measures)
        return (self.position,) * ranked + (self.score,) * scored

    def names(self) -> list[str]:
        return list(self.measures)

    def kinds(self) -> list[FeatureKind]:
        return [SIGNALS[measure] for measure in self.measures]

    def compute(self, rows: Rows) -> list[Floats]:
        return [self._measure(rows, measure) for measure in self.measures]

    def _measure(self, rows: Rows, measure: str) -> Floats:
        lists = rows.lists
        if measure == "list_size":
            return lists.count(np.ones(rows.count, dtype=np.bool_))
        if measure in ("rank", "reciprocal_rank"):
            rank = rows.floats(self.position)
            return rank if measure == "rank" else 1.0 / np.where(rank >= 1.0, rank, np.nan)
        score = rows.floats(self.score)
        if measure == "score":
            return score
        if measure == "score_gap":
            return lists.largest(score) - score
        shifted = score - np.minimum(lists.smallest(score), 0.0)
        total = lists.total(shifted)
        even = np.where(np.isnan(score), np.nan, 1.0) / np.maximum(lists.count(~np.isnan(score)), 1.0)
        return np.where(total > 0.0, shifted / np.where(total > 0.0, total, 1.0), even)
