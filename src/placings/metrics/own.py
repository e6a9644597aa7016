"""Metrics of the user's own: a function under a name, tried before anything is measured by it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import (
    BadInput,
    Floats,
    as_offsets,
    as_scores,
    as_vector,
    check_own_name,
    find_own_name,
    name_function,
)
from placings.metrics.registered import RegisteredMetric

FILLED = {"zero": 0.0, "one": 1.0}  # what a query without a value counts, by the rule for empty ones
RULES = {"empty": "drop", "min_items": 1}  # every table's rules; they are followed around the function


@dataclass(frozen=True, eq=False)
class OwnFunction:
    """A user's function as the functions of placings are called: scores, labels and offsets in, values out.

    A function of two arguments is called with each query by itself and gives a number; one with a third,
    `offsets`, is called once and gives an array `[queries]`. NaN leaves a query out, or counts as `empty`
    says; one with fewer than `min_items` rows is left out.
    """

    name: str
    function: Callable[..., Any]
    alone: bool  # one query a call

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike | None = None,
        *,
        empty: str = "drop",
        min_items: int = 1,
        **options: Any,
    ) -> Floats:
        """The value of each query `[queries]`, NaN where it has none."""
        given, wanted = as_scores(scores), as_vector(labels, "labels")
        borders = as_offsets(offsets, len(given))
        sizes = np.diff(borders)
        if self.alone:
            spans = zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True)
            found: Any = [self.function(given[a:b], wanted[a:b], **options) if b > a else math.nan
                          for a, b in spans]  # fmt: skip
        else:
            found = self.function(given, wanted, borders, **options)
        values = self._check(found, len(sizes))
        if empty in FILLED:
            values = np.where(np.isnan(values), FILLED[empty], values)
        return np.where(sizes >= min_items, values, np.nan)

    def _check(self, found: Any, queries: int) -> Floats:
        try:
            values = np.array(found, dtype=np.float64)
        except (TypeError, ValueError):
            values = np.empty(())
        if values.shape != (queries,):
            each = "one number for a query" if self.alone else f"an array of {queries} numbers, one a query"
            got = type(found).__name__ if values.shape == () else f"shape {values.shape}"
            raise BadInput(f"the metric {self.name!r} must give {each}. Got {got}.")
        if np.isinf(values).any():
            raise BadInput(
                f"the metric {self.name!r} must give finite numbers, or NaN for no value. Got inf."
            )
        return values


class OwnMetric(RegisteredMetric):
    """A user's function in the registry: its keywords, and the rules that are followed around it."""

    @property
    def defaults(self) -> dict[str, Any]:
        """The keywords that can be set."""
        own: Any = self.function
        parameters = _list_parameters(own.function)
        named = {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}
        return {**named, **RULES}


OWN_METRICS: dict[str, OwnMetric] = {}  # registered by name
HELD_METRICS: dict[str, OwnMetric] = {}  # passed as functions: known in this process, and in no file


def register_metric(
    name: str,
    function: Callable[..., Any],
    *,
    lower_is_better: bool = False,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> None:
    """Let `name` stand for a metric of your own wherever a metric is named; files hold the name, no code.

    `function(scores, labels)` gives the value of one query; `function(scores, labels, offsets)` gives one
    for each query `[queries]`. NaN leaves a query out. A keyword `k` is the cutoff: `"name@10"`; other
    keywords are options. `bounds` are what no value is below or above. It is tried on two small queries now.
    The same name may be registered again.

    >>> register_metric("best_label", lambda scores, labels: labels[scores.argmax()])
    >>> from placings.metrics import measure
    >>> measure("best_label", [0.9, 0.8, 0.7], [0, 1, 2], [0, 2, 3])
    {'best_label': array([0., 2.])}
    """
    from placings.metrics.names import DEBIASED, METRICS

    taken = [alias for key, kind in {**METRICS, **DEBIASED}.items() for alias in (key, *kind.aliases)]
    check_own_name("metric", name, taken)
    least, most = bounds
    if not least < most:
        raise BadInput(f"bounds must be the lowest and the highest value. Got {bounds!r}.")
    OWN_METRICS[name] = _make(name, function, bool(lower_is_better), (float(least), float(most)))
    HELD_METRICS.pop(name, None)


def hold_metric(function: Callable[..., Any], ours: Mapping[str, Callable[..., Any]]) -> str:
    """The name of a metric that was passed as a function: ours, a registered one's, or its own for now."""
    own = {name: _unwrap(each) for name, each in OWN_METRICS.items()}
    known = find_own_name(function, ours) or find_own_name(function, own)
    if known is not None:
        return known
    name = name_function(function)
    check_own_name("metric", name, [*ours, *OWN_METRICS])
    if name not in HELD_METRICS or _unwrap(HELD_METRICS[name]) is not function:
        HELD_METRICS[name] = _make(name, function, False, (-math.inf, math.inf))
    return name


def find_own_metric(name: str) -> OwnMetric | None:
    """The registered or held metric of this name."""
    return OWN_METRICS.get(name) or HELD_METRICS.get(name)


def _make(name: str, function: Callable[..., Any], lower: bool, bounds: tuple[float, float]) -> OwnMetric:
    if not callable(function):
        raise BadInput(f"the metric {name!r} must be a function of scores and labels. Got {function!r}.")
    places = [each for each in _list_parameters(function) if each.kind is not each.KEYWORD_ONLY]
    several = any(each.kind is each.VAR_POSITIONAL for each in places)
    own = OwnFunction(name, function, alone=bool(places) and len(places) < 3 and not several)
    try:
        own([0.3, 0.1, 0.2], [1.0, 0.0, 2.0], [0, 2, 3])
    except BadInput:
        raise
    except Exception as error:  # whatever a user's function raises
        said = " ".join(f"{type(error).__name__}: {error}".split())
        how = "scores, labels" if own.alone else "scores, labels, offsets"
        raise BadInput(
            f"the metric {name!r} failed on two small queries ({said}). It is called as function({how})."
        ) from error
    return OwnMetric(own, (), lower, bounds)


def _list_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some callables tell nothing of themselves
        return []


def _unwrap(metric: OwnMetric) -> Callable[..., Any]:
    own: Any = metric.function
    found: Callable[..., Any] = own.function
    return found
