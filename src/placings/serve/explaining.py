"""Why A stands above B in one list: each feature's part in the difference, or the features that differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from placings.core import BadInput
from placings.data import RankingData
from placings.evaluation import explain
from placings.rerank import Request, Reranker
from placings.serve.live_features import compute_features

MOST_TERMS = 20
OURS = frozenset(
    {
        "search_id", "user_id", "arm", "arms", "experiment", "model", "fallback", "swapped",
        "swapped_with", "swap_probability", "swap_reach", "results",
    }
)  # what an impression says beside the search  # fmt: skip


def restore_request(shown: Mapping[str, Any]) -> Request:
    """The request behind an impression, as far as it was shown: its items in the engine's order.

    Where the list was cut at `size`, features that look at the whole list may differ from those of then.
    """
    context = {name: value for name, value in shown.items() if name not in OURS}
    items = [{**item, "position": item["engine_position"]} for item in shown["results"]]
    return Request(context, sorted(items, key=lambda item: item["position"]))


def explain_pair(reranker: Reranker, request: Request, above: str, below: str) -> dict[str, Any]:
    """Which features put one item above another.

    `terms` add up to `difference` where the model, or a member of a mean of models, splits its scores
    (`split_by` names it); else `split_by` is None and the terms are the features that differ, without parts.
    `whole` is false where the list was cut when it was shown.
    """
    head = Request(request.context, list(request.items[: reranker.pool]))
    ids = [str(item.get("item_id")) for item in head.items]
    for name, item in (("a", above), ("b", below)):
        if item not in ids:
            raise BadInput(
                f"{name} must be one of the first {len(ids)} items of the list. Got {item[:40]!r}."
            )
    if above == below:
        raise BadInput(f"a and b must be two items. Got {above[:40]!r} twice.")
    found = reranker.rerank(head)
    ranks = {ids[row]: place for place, row in enumerate(found.order.tolist(), 1)}
    rows = ids.index(above), ids.index(below)
    matrix = compute_features(reranker, head)
    split_by, terms = _split(reranker, matrix, rows)
    scores = [float(found.scores[row]) for row in rows]
    return {
        "a": {
            "item_id": above,
            "rank": ranks[above],
            "engine_rank": _place(head, rows[0]),
            "score": _plain(scores[0]),
        },
        "b": {
            "item_id": below,
            "rank": ranks[below],
            "engine_rank": _place(head, rows[1]),
            "score": _plain(scores[1]),
        },
        "holds": ranks[above] < ranks[below],
        "items": len(ids),
        "whole": all(item.get("position", place) == place for place, item in enumerate(head.items, 1)),
        "model": reranker.digest_,
        "split_by": split_by,
        "terms": terms[:MOST_TERMS],
    }


def _split(reranker: Reranker, matrix: Any, rows: tuple[int, int]) -> tuple[str | None, list[dict[str, Any]]]:
    names = list(reranker.features_.names)
    data = RankingData.from_arrays(
        matrix, np.zeros(len(matrix)), np.zeros(len(matrix), dtype=np.int64), feature_names=names
    )
    members = getattr(reranker.ranker_, "members_", {})
    for each in (reranker.ranker_, *members.values()):
        try:
            told = explain(each, data, 0, *rows)
        except BadInput:  # it does not split its scores
            continue
        return type(each).__name__, [
            {
                "feature": term.feature,
                "part": _plain(term.contribution),
                "a": _plain(term.value_above),
                "b": _plain(term.value_below),
            }
            for term in told.terms
            if term.contribution != 0.0
        ]
    one, other = (matrix[row] for row in rows)
    return None, [
        {"feature": name, "part": None, "a": _plain(float(a)), "b": _plain(float(b))}
        for name, a, b in zip(names, one, other, strict=True)
        if a != b and not (math.isnan(a) and math.isnan(b))
    ]


def _place(request: Request, row: int) -> int:
    told = request.items[row].get("position")
    return told if isinstance(told, int) else row + 1


def _plain(number: float) -> float | None:
    return number if math.isfinite(number) else None
