"""Row weights: of whole queries, or of single rows."""

from __future__ import annotations

import numpy as np

from placings.core import Bools
from placings.data.ranking import RankingData


def find_uneven_rows(data: RankingData) -> Bools:
    """Which rows weigh otherwise than the first of their query `[rows]`; none do where there are no weights.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 1], [1, 1, 2], weight=[3.0, 4.0, 5.0])
    >>> find_uneven_rows(data)
    array([False,  True, False])
    """
    if data.weight is None:
        return np.zeros(data.n_rows, dtype=np.bool_)
    filled = data.sizes > 0
    first = data.weight[data.offsets[:-1][filled]]
    return np.asarray(data.weight != np.repeat(first, data.sizes[filled]))
