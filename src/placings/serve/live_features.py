"""A request's features as numbers, outside the hot path: to notice one that goes dark, and to explain."""

from __future__ import annotations

import numpy as np

from placings.core import Floats
from placings.logs import PAST
from placings.rerank import Request, Reranker, give_own_clicks, read_time


def compute_features(reranker: Reranker, request: Request) -> Floats:
    """The matrix that the model sees, `[item, feature]`; `reranker.features_.names` names its columns."""
    context = {**request.context}
    if context.get("time", 0) is not None:
        context["time"] = read_time(context.get("time"))
    items = []
    for place, item in enumerate(request.items, 1):
        known = {**item, "position": place if item.get("position") is None else item["position"]}
        if reranker.clicks_:
            known = {PAST: float(reranker.clicks_.get(str(item.get("item_id")), 0)), **known}
        items.append(known)
    told = give_own_clicks(reranker.own_clicks_, context, items)
    return np.asarray(reranker.features_.transform_request(context, told), dtype=np.float64)
