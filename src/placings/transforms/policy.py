"""What stands in for a missing value, feature by feature, and which features get a column that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from placings.core import AnyArray, BadInput, Floats32, Ints, UnknownName
from placings.transforms.statistics import Statistics

POLICIES = ("median", "mean", "zero")
DEFAULT = "median"
LARGEST = float(np.finfo(np.float32).max)
Missing: TypeAlias = "str | float | Mapping[str, str | float] | Sequence[str | float] | AnyArray"
Indicator: TypeAlias = "bool | str | Sequence[str]"


def resolve_missing(missing: Missing, names: Sequence[str]) -> list[str | float]:
    """The policy of each feature: one for all, or by name (the others get the median), or one a feature.

    >>> resolve_missing({"age": -1.0}, ["age", "price"])
    [-1.0, 'median']
    """
    if isinstance(missing, Mapping):
        for name in missing:
            if name not in set(names):
                raise UnknownName("feature", str(name), names)
        return [_check_policy(missing.get(name, DEFAULT)) for name in names]
    if isinstance(missing, str | float | int | Real):
        return [_check_policy(missing)] * len(names)
    policies = missing.tolist() if isinstance(missing, np.ndarray) else list(missing)
    if len(policies) != len(names):
        raise BadInput(
            f"missing must have one policy for each of the {len(names)} features. Got {len(policies)}."
        )
    return [_check_policy(policy) for policy in policies]


def fill_values(policies: Sequence[str | float], statistics: Statistics) -> Floats32:
    """The number that replaces a missing value `[features]` float32; 0 where a feature has no value at all.

    "median" is of the values present in training: exact when all rows came at once, else within the
    sketch's error. Of CSR rows it is 0: where most values are absent, the middle one is.
    """
    wanted = {"median": statistics.median, "mean": statistics.average, "zero": np.zeros(statistics.features)}
    chosen = [wanted[p][place] if isinstance(p, str) else p for place, p in enumerate(policies)]
    return np.nan_to_num(np.array(chosen, dtype=np.float64), nan=0.0).astype(np.float32)


def find_indicators(indicator: Indicator, names: Sequence[str], statistics: Statistics) -> Ints:
    """The places of the features that get an indicator column.

    True: those with a missing value in training; "all": every one; names: these.
    """
    if isinstance(indicator, bool | np.bool_):
        return (
            np.flatnonzero(statistics.present < statistics.rows) if indicator else np.zeros(0, dtype=np.int64)
        )
    if isinstance(indicator, str):
        if indicator != "all":
            raise BadInput(f"indicator must be True, False, 'all', or a list of features. Got {indicator!r}.")
        return np.arange(len(names))
    return find_places(list(indicator), names)


def find_places(chosen: Sequence[str], names: Sequence[str]) -> Ints:
    """Where these features stand; a name that is not there is refused with the nearest one."""
    place = {name: number for number, name in enumerate(names)}
    for name in chosen:
        if name not in place:
            raise UnknownName("feature", str(name), names)
    return np.array([place[name] for name in chosen], dtype=np.int64)


def _check_policy(policy: Any) -> str | float:
    if isinstance(policy, str):
        if policy not in POLICIES:
            raise UnknownName("missing-value policy", policy, POLICIES)
        return policy
    if not isinstance(policy, Real) or not abs(float(policy)) <= LARGEST:
        raise BadInput(f"missing must be a finite number or one of {', '.join(POLICIES)}. Got {policy!r}.")
    return float(policy)
