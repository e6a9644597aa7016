"""`OriginalOrder`: the order the engine gave, as a baseline that every ranker has to beat."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags

from placings.core import AnyArray, BadInput, Floats
from placings.data import Matrix, RankingData, as_matrix
from placings.rankers.estimator import Ranker
from placings.rankers.facts import RankerFacts


class OriginalOrder(Ranker):
    """Scores that keep rows as they were: minus the position as shown, or minus the row's place as given.

    It learns nothing and needs no `fit` (which works, and is needed before `save`, because a bundle names
    its features). A RankingData with positions is scored by these, whichever its features; without them,
    and for arrays, by the place of the row. With arrays the places are those of the rows as they stand,
    so the order within every query is kept whichever rows are its own.

    >>> data = RankingData.from_arrays([[5.0], [7.0], [6.0]], [0, 1, 0], [1, 1, 1], position=[2, 1, 3])
    >>> OriginalOrder().predict(data), OriginalOrder().predict([[5.0], [7.0]])
    (array([-2., -1., -3.]), array([-1., -2.]))
    """

    facts: ClassVar[RankerFacts] = RankerFacts(
        spaces={"default": {}},
        random=False,
        learns=False,
    )

    def __init__(self) -> None:  # named, so that its signature says that it has no settings
        pass

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        pass

    def predict(self, X: Any, qid: Any = None) -> Floats:
        """Minus the position, or minus the place of the row; `[rows]`."""
        if not isinstance(X, RankingData):
            known = hasattr(self, "n_features_in_")
            return self._score(self._as_features(X) if known else as_matrix(X))
        if X.position is not None:
            return -np.asarray(X.position, dtype=np.float64)
        return np.repeat(X.offsets[:-1], X.sizes) - np.arange(1.0, X.n_rows + 1)

    def score(self, X: Any, y: ArrayLike | None = None, *, qid: Any = None) -> float:
        """The mean NDCG@10 over queries with something relevant; NaN if there is none."""
        from placings.metrics import ndcg

        if isinstance(X, RankingData):
            data = X
        elif hasattr(self, "n_features_in_"):
            data = self._as_data(X, y, qid, reset=False, what="score")
        else:
            data = RankingData.from_arrays(X, [] if y is None else y, qid)
        values = ndcg(self.predict(data), data.y, data.offsets, k=10)
        return float(np.nanmean(values)) if not np.isnan(values).all() else float("nan")

    def save(self, path: str | Path, *, metrics: Mapping[str, float] | None = None) -> str:
        """Write a bundle; see `Ranker.save`."""
        if not hasattr(self, "feature_names_"):
            raise BadInput("a bundle names its features, and OriginalOrder knows none. Call fit(data) first.")
        return super().save(path, metrics=metrics)

    def _score(self, X: Matrix) -> AnyArray:
        return -np.arange(1.0, X.shape[0] + 1)

    @property
    def looks_at_list(self) -> bool:
        """No: it looks at no feature at all."""
        return False

    def _give_weights(self) -> dict[str, bytes]:
        return {}

    def _take_weights(self, files: Mapping[str, bytes]) -> None:
        pass

    def _missing_policy(self) -> str:
        return "features are not looked at"

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True
