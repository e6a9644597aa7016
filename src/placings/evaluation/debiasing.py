"""What tables say of metrics of clicks over propensities: which queries count, what a click weighs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from placings.data import RankingData
from placings.metrics import CLIP, Metric, find_clipped, metric


def check_propensity(metrics: Iterable[str | Metric], *parts: RankingData | None) -> None:
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
