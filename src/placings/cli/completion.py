"""What the shell completes behind an option: names of rankers, metrics and transforms, one or with commas."""

from __future__ import annotations

from collections.abc import Iterable

from placings.rankers import RANKERS

# written down, since their classes load scikit-learn; a test holds them against the registry
TRANSFORMS = (
    "raw", "gauss", "cdf", "log1p", "quantile_normal", "minmax", "query_minmax", "clip", "mixture",
    "per_feature", "piecewise",
)  # fmt: skip
CUTOFFS = (1, 3, 5, 10, 20)


def complete_ranker(incomplete: str) -> list[str]:
    """Names of rankers; behind a colon, transforms.

    >>> complete_ranker("ridge:q")
    ['ridge:quantile_normal', 'ridge:query_minmax']
    """
    return [name for name in _list_rankers(incomplete) if name.startswith(incomplete)]


def complete_rankers(incomplete: str) -> list[str]:
    """The same with commas; behind a colon, transforms.

    >>> complete_rankers("lightgbm,ridge:g")
    ['lightgbm,ridge:gauss']
    """
    return complete_last(incomplete, _list_rankers(incomplete.rpartition(",")[2]))


def complete_metric(incomplete: str) -> list[str]:
    """Names of metrics, and with @ the usual cutoffs."""
    return [name for name in _list_metrics(incomplete) if name.startswith(incomplete)]


def complete_metrics(incomplete: str) -> list[str]:
    """The same with commas."""
    return complete_last(incomplete, _list_metrics(incomplete.rpartition(",")[2]))


def complete_transforms(incomplete: str) -> list[str]:
    """Names of transforms, with commas."""
    return complete_last(incomplete, TRANSFORMS)


def complete_last(incomplete: str, names: Iterable[str]) -> list[str]:
    """Ways to go on with the last of several names; those before it are not offered again.

    >>> complete_last("ridge,l", ["ridge", "lightgbm", "linear"])
    ['ridge,lightgbm', 'ridge,linear']
    """
    before, comma, begun = incomplete.rpartition(",")
    named = before.split(",") if comma else []
    return [f"{before}{comma}{name}" for name in names if name.startswith(begun) and name not in named]


def _list_rankers(begun: str) -> list[str]:
    name, colon, _ = begun.partition(":")
    return [f"{name}:{each}" for each in TRANSFORMS] if colon else list(RANKERS)


def _list_metrics(begun: str) -> list[str]:
    from placings.metrics import METRICS

    name, at, _ = begun.partition("@")
    return [f"{name}@{cutoff}" for cutoff in CUTOFFS] if at and name in METRICS else list(METRICS)
