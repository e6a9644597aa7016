"""Metrics of clicks over propensities in tables: which queries count, what a click weighs, and chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from placings.core import Floats
from placings.data import RankingData
from placings.metrics import (
    CLIP,
    AnyMetric,
    Metric,
    find_clipped,
    is_relevant,
    metric,
    sum_by_query,
    weigh_places,
)


def check_propensity(metrics: Iterable[AnyMetric], *parts: RankingData | None) -> None:
    """Refuse data without a propensity where a metric needs one, before anything is trained or scored."""
    for each in metrics:
        for data in parts:
            if data is not None:
                metric(each).check_propensity(data.propensity)


def all_debiased(metrics: Iterable[str | Metric]) -> bool:
    """Whether each of the metrics counts a query without a click as 0."""
    return all(metric(each).ips for each in metrics)


def say_debiased(
    metrics: Iterable[str | Metric], folds: Sequence[RankingData], options: Mapping[str, Any]
) -> str:
    """What debiased metrics rest on, as sentences behind the rule; "" without such a metric.

    A limit that holds clicks back biases the sum, so how many it held back is said.
    """
    chosen = [metric(each) for each in metrics]
    groups: dict[tuple[Any, Any], list[str]] = {}
    for each in chosen:
        if each.ips:
            own = {"clip": CLIP, "relevant_from": None} | dict(options) | dict(each.options)
            groups.setdefault((own["clip"], own["relevant_from"]), []).append(str(each))
    text = ""
    for (clip, relevant_from), names in groups.items():
        clicks = held = 0
        for data in folds:
            if data.propensity is not None:
                clicked, clipped = find_clipped(data.y, data.propensity, clip, relevant_from)
                clicks, held = clicks + int(clicked.sum()), held + int(clipped.sum())
        limit = "" if clip is None else f", at most {clip:g}, which holds back {held:,} of {clicks:,} clicks"
        text += f" {', '.join(names)}: each click weighs 1 over its propensity{limit}."
    single = [str(each) for each in chosen if each.name == "mrr:ips"]
    if single:
        text += f" {', '.join(single)}: a mean reciprocal rank only if each search wants one item."
    return text


def weigh_rows(
    metrics: Iterable[str | Metric], scores: Floats, data: RankingData, options: Mapping[str, Any]
) -> dict[str, Floats]:
    """What a click in each row would add, for each debiased metric: `{name: [rows]}`."""
    found = {}
    for each in metrics:
        chosen = metric(each)
        if chosen.ips and data.propensity is not None:
            clip = ({"clip": CLIP} | dict(options) | dict(chosen.options))["clip"]
            found[str(each).strip()] = weigh_places(
                chosen.name, scores, data.offsets, data.propensity, k=chosen.k, clip=clip
            )
    return found


def vary_by_chance(worth: Floats, data: RankingData, options: Mapping[str, Any]) -> Floats:
    """The variance of each query's value by the chance of its clicks alone `[queries]`.

    `Σ_rows p · r · worth²`, r being the clicks of the data over the looks that are expected: every row is
    taken to be wanted as often. A few heavy clicks at places that are seldom looked at make most of the
    variance, and a small log may hold none of them; this knows that they could have been.
    """
    if data.propensity is None:
        return np.full(len(data), np.nan)
    clicked = is_relevant(data.y, options.get("relevant_from"))
    gain = options.get("gain", "click")
    gains = data.y if gain == "linear" else np.exp2(data.y) - 1.0 if gain == "exp2" else np.ones(data.n_rows)
    rate = float((gains**2)[clicked].sum()) / max(float(data.propensity.sum()), 1e-12)
    return rate * sum_by_query(data.propensity * worth**2, data.offsets)


def find_bounds(names: Iterable[str], empty: str) -> list[tuple[float, float]]:
    """What no mean of these metrics can be below or above, queries with nothing relevant included."""
    filled = {"zero": [0.0], "one": [1.0]}.get(empty, [])
    found = []
    for name in names:
        least, most = metric(name).bounds
        found.append((min([least, *filled]), max([most, *filled])))
    return found
