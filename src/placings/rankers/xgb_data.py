"""Ranking data as XGBoost takes them: labels, positions, and sparse values that are zeros, not missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from placings.arrays import Floats, Floats32
from placings.data.checks import Matrix
from placings.data.ranking import RankingData
from placings.errors import BadInput
from placings.rankers.boosting import are_whole, exponential_gain

LARGEST_LABEL = 31  # with XGBoost's own exponential gain
LARGEST_EXPONENT = 127  # labels are float32 there
CELLS = 32_000_000  # values that are made dense together: 128 MB


def prepare_labels(train: RankingData, params: dict[str, Any]) -> Floats:
    """Labels as XGBoost wants them; sets `ndcg_exp_gain` in `params` where gains are passed instead."""
    y, objective = train.y, params.get("objective")
    if objective == "rank:map" and not ((y == 0) | (y == 1)).all():
        raise BadInput(
            f"rank:map takes labels 0 and 1. Got {y[(y != 0) & (y != 1)][0]:g}. Use rank:ndcg, or "
            "data.replace(y=(data.y > 0).astype(float))."
        )
    if objective != "rank:ndcg" or "ndcg_exp_gain" in params or (are_whole(y) and y.max() <= LARGEST_LABEL):
        return y
    params["ndcg_exp_gain"] = False
    return exponential_gain(y, LARGEST_EXPONENT)


def order_by_position(train: RankingData) -> RankingData:
    """Rows of each query as they were shown: XGBoost takes a row's place for its position."""
    assert train.position is not None
    order = np.lexsort((train.position, train.query_index))
    return train.replace(**train._map_rows(order))


def make_matrix(
    xgboost: Any,
    data: RankingData,
    labels: Floats,
    weight: Floats | None,
    params: Mapping[str, Any],
    reference: Any = None,
) -> Any:
    """What XGBoost trains on or watches: quantised where the trees are grown from histograms."""
    threads = params.get("nthread", params.get("n_jobs"))
    if params.get("tree_method") in ("exact", "approx") or params.get("booster") == "gblinear":
        dense = data.X if isinstance(data.X, np.ndarray) else data.X.toarray()
        return xgboost.DMatrix(dense, labels, group=data.sizes, weight=weight, nthread=threads)
    more = {"max_bin": params["max_bin"]} if "max_bin" in params else {}
    more |= {"nthread": threads, "ref": reference}
    parts = list(_cut_at_queries(data))
    if len(parts) <= 1:
        dense = next(make_dense(data.X))
        return xgboost.QuantileDMatrix(dense, labels, group=data.sizes, weight=weight, **more)
    return xgboost.QuantileDMatrix(_make_iterator(xgboost, data, labels, weight, parts), **more)


def _cut_at_queries(data: RankingData) -> Iterator[tuple[int, int]]:
    """First and last query (exclusive) of each part that is made dense together; dense data are one part."""
    if isinstance(data.X, np.ndarray):
        yield 0, data.n_queries
        return
    rows = max(1, CELLS // max(1, data.n_features))
    start = 0
    while start < data.n_queries:
        fitting = int(np.searchsorted(data.offsets, data.offsets[start] + rows, side="right")) - 1
        stop = max(start + 1, fitting)
        yield start, stop
        start = stop


def _make_iterator(
    xgboost: Any, data: RankingData, labels: Floats, weight: Floats | None, parts: list[tuple[int, int]]
) -> Any:
    matrix: Any = data.X

    class Parts(xgboost.DataIter):  # type: ignore[misc]
        """Sparse data, a dense part at a time."""

        def __init__(self) -> None:
            self.place = 0
            super().__init__()

        def reset(self) -> None:
            self.place = 0

        def next(self, input_data: Any) -> bool:
            if self.place == len(parts):
                return False
            start, stop = parts[self.place]
            rows = slice(int(data.offsets[start]), int(data.offsets[stop]))
            input_data(
                data=matrix[rows].toarray(), label=labels[rows], qid=data.query_index[rows],
                weight=None if weight is None else weight[start:stop],
            )  # fmt: skip
            self.place += 1
            return True

    return Parts()


def make_dense(X: Matrix) -> Iterator[Floats32]:
    """Dense as it is; CSR in parts of rows, absent values as zeros."""
    if isinstance(X, np.ndarray):
        yield X
        return
    rows = max(1, CELLS // max(1, X.shape[1]))
    for start in range(0, X.shape[0], rows):
        yield X[start : start + rows].toarray()


def check_trees(content: bytes, width: int) -> None:
    """Refuse a model (XGBoost's JSON, as it writes it after loading) whose trees would lead it astray.

    XGBoost follows children and features without looking: a damaged file could end the process.
    """
    part = json.loads(content)["learner"]["gradient_booster"]
    trees = part.get("gbtree", part)["model"].get("trees", ())
    for number, tree in enumerate(trees):
        children = np.array([tree["left_children"], tree["right_children"]], dtype=np.int64)
        nodes = children.shape[1]
        inner = children[0] != -1
        led_to = children[:, inner].ravel()
        arrays = ("split_indices", "split_conditions", "default_left", "base_weights")
        whole = nodes > 0 and all(len(tree[name]) == nodes for name in arrays)
        grown = ((led_to > 0) & (led_to < nodes)).all() and len(set(led_to.tolist())) == len(led_to)
        if not whole or not grown or (children[1, ~inner] != -1).any():
            raise ValueError(f"the nodes of tree {number} form no tree")
        used = np.array(tree["split_indices"], dtype=np.int64)[inner]
        if ((used < 0) | (used >= width)).any():
            raise ValueError(f"tree {number} uses a feature that does not exist")
