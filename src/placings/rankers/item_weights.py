"""Row weights as weights of items: when they are weights of whole queries, and when they are not."""

from __future__ import annotations

from typing import Any

import numpy as np

from placings.core import Bools, Floats
from placings.data import RankingData, find_uneven_rows


def differ_within(data: RankingData) -> bool:
    """Whether two rows of one query weigh differently.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 1], [1, 1, 2], weight=[3.0, 3.0, 5.0])
    >>> differ_within(data), differ_within(data.replace(weight=[3.0, 4.0, 5.0]))
    (False, True)
    """
    return bool(find_uneven_rows(data).any())


def weigh_queries(data: RankingData) -> Floats | None:
    """One weight for each query `[queries]` that gives every pair the weight of its better row, or None.

    A row is the better one of some pair if its label is above the lowest of its query. None if two such rows
    of one query weigh differently: then no weight of queries will do. A query without pairs gets the weight
    of its first row. Every query must have a row, and the data weights.

    >>> data = RankingData.from_arrays([[1.0], [2.0], [3.0]], [0, 1, 1], [1, 1, 1], weight=[1.0, 4.0, 4.0])
    >>> weigh_queries(data), weigh_queries(data.replace(weight=[1.0, 4.0, 2.0]))
    (array([4.]), None)
    """
    assert data.weight is not None
    starts, weight = data.offsets[:-1], np.asarray(data.weight, dtype=np.float64)
    better = find_better(data)
    highest = np.maximum.reduceat(np.where(better, weight, -np.inf), starts)
    lowest = np.minimum.reduceat(np.where(better, weight, np.inf), starts)
    if (highest > lowest).any():
        return None
    return np.where(np.isfinite(highest), highest, weight[starts])


def are_classes(data: RankingData) -> bool:
    """Whether weights only tell rows of a label above 0 from others, by the same factor in all queries.

    Such as `positive_weight` makes them. They say nothing of one item against another of its kind.

    >>> data = RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], weight=[1.0, 10.0])
    >>> are_classes(data)
    True
    """
    assert data.weight is not None
    starts, weight = data.offsets[:-1], np.asarray(data.weight, dtype=np.float64)
    ends = []
    for chosen in (data.y > 0, data.y == 0):
        highest = np.maximum.reduceat(np.where(chosen, weight, -np.inf), starts)
        lowest = np.minimum.reduceat(np.where(chosen, weight, np.inf), starts)
        if (highest > lowest).any():
            return False
        ends.append(highest)
    both = np.isfinite(ends[0]) & np.isfinite(ends[1])
    above, below = ends[0][both], ends[1][both]
    return bool(np.allclose(above * below[:1], below * above[:1], rtol=1e-12, atol=0.0))


def find_better(data: RankingData) -> Bools:
    """Which rows are the better one of a pair of their query `[rows]`; every query must have a row."""
    lowest = np.minimum.reduceat(data.y, data.offsets[:-1])
    return np.asarray(data.y > np.repeat(lowest, data.sizes))


def name_uneven(data: RankingData) -> Any:
    """The id of the first query in which two rows weigh differently."""
    return data.qid.tolist()[int(np.flatnonzero(find_uneven_rows(data))[0])]
