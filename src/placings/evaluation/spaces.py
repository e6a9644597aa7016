"""What may be tuned: a range or a list of options for each parameter of each ranker.

Each ranker's class states its spaces in `facts`. A space maps a name to a `Float`, an `Int` or a `Choice`.
The name is a parameter of the ranker, or
`params.NAME` for one that passes through to its library, or `positive_weight` (see `tuning`), which
weighs the training rows instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from placings.core import BadInput, UnknownName
from placings.rankers import (
    CLASSES,
    POSITIVE_WEIGHT,
    Dimension,
    Ranker,
    Space,
    Value,
    explain_setting,
    find_class,
    find_facts,
)
from placings.rankers import Choice as Choice
from placings.rankers import Float as Float
from placings.rankers import Int as Int

THROUGH = "params."


def find_space(ranker: Ranker, space: str | Mapping[str, Any] | None = None) -> Space:
    """The space of this ranker: a preset by name, its default, or the one given, checked.

    In a given mapping a list means a `Choice`, and `{"low": 1, "high": 9}` a range (of whole numbers if
    both ends are, with `"log": true` if so wished), so that a space can stand in a YAML file.
    """
    kind = type(ranker).__name__
    if isinstance(space, Mapping):
        chosen = {name: as_dimension(name, given) for name, given in space.items()}
        _check_names(ranker, chosen)
        return MappingProxyType(chosen)
    presets = find_facts(ranker).spaces
    if not presets:
        known = sorted(name for name in CLASSES if find_class(name).facts.spaces)
        raise BadInput(
            f"{kind} has no space of its own; rankers that have one: {', '.join(known)}. "
            "Give one: space={'name': Float(…)}."
        )
    name = space or "default"
    if name == "default":  # a linear ranker's loss says what else there is to tune
        loss = ranker.get_params().get("loss")
        name = loss if isinstance(loss, str) and loss in presets else "default"
    if name not in presets:
        raise UnknownName(f"space of {kind}", name, presets)
    return MappingProxyType(dict(presets[name]))


def as_dimension(name: str, given: Any) -> Dimension:
    """A `Float`, `Int` or `Choice` from itself, a list of options, or a mapping with low and high."""
    if isinstance(given, Float | Int | Choice):
        return given
    if isinstance(given, Mapping):
        unknown = sorted(set(given) - {"low", "high", "log", "grid"})
        if unknown or not {"low", "high"} <= set(given):
            raise BadInput(f"space of {name}: a range takes low, high, log and grid. Got {dict(given)!r}.")
        low, high, log = given["low"], given["high"], bool(given.get("log", False))
        grid = tuple(given.get("grid", ()))
        if isinstance(low, int) and isinstance(high, int):
            return Int(low, high, log, grid)
        return Float(low, high, log, grid)
    if isinstance(given, Sequence) and not isinstance(given, str):
        return Choice(tuple(given))
    raise BadInput(f"space of {name}: give a Float, an Int, a Choice or a list of options. Got {given!r}.")


def widen_space(space: Space, own: Mapping[str, Value]) -> Space:
    """The same space, wide enough to hold the ranker's own values."""
    wider: dict[str, Dimension] = dict(space)
    for name, value in own.items():
        old = space[name]
        if isinstance(old, Choice):
            if value not in old.options:
                wider[name] = Choice((*old.options, value))
        elif isinstance(value, int | float):
            ends: dict[str, Any] = {"low": min(old.low, value), "high": max(old.high, value)}
            wider[name] = replace(old, **ends)
    return MappingProxyType(wider)


def own_values(ranker: Ranker, space: Space) -> dict[str, Value]:
    """What the ranker itself says for the names of a space.

    Left out is what it leaves to its library (None) and what the kind of range cannot hold, such as a
    regularisation of 0 on a logarithmic one: the first trial leaves these as the ranker has them.
    """
    settings = ranker.get_params(deep=True)
    found: dict[str, Value] = {}
    for name, dimension in space.items():
        if name == POSITIVE_WEIGHT:
            value: Any = 1.0
        elif name.startswith(THROUGH):
            value = (settings.get("params") or {}).get(name.removeprefix(THROUGH))
        else:
            value = settings[name]
        if _can_hold(dimension, value):
            found[name] = value
    return found


def apply_values(ranker: Ranker, values: Mapping[str, Value]) -> Ranker:
    """An unfitted clone of the ranker with these values of its parameters."""
    from sklearn.base import clone

    own = {name: value for name, value in values.items() if not name.startswith(THROUGH)}
    own.pop(POSITIVE_WEIGHT, None)
    through = {name.removeprefix(THROUGH): v for name, v in values.items() if name.startswith(THROUGH)}
    made: Ranker = clone(ranker)
    if through:
        made.set_params(params={**(made.get_params(deep=False).get("params") or {}), **through})
    made.set_params(**own)
    return made


def count_grid(space: Space) -> int:
    """How many combinations a full grid has."""
    return math.prod(len(dimension.steps) for dimension in space.values())


def describe_space(space: Space) -> dict[str, Any]:
    """The space as plain values, for keys and files."""
    return {name: {"kind": type(each).__name__, **vars(each)} for name, each in space.items()}


def _check_names(ranker: Ranker, space: Space) -> None:
    known = set(ranker.get_params(deep=True))
    for name in space:
        through = name.startswith(THROUGH) and "params" in known
        if name not in known and name != POSITIVE_WEIGHT and not through:
            meant = explain_setting(name, known, type(ranker))
            raise UnknownName(
                f"parameter of {type(ranker).__name__}", name, known | {POSITIVE_WEIGHT}, meaning=meant
            )


def _can_hold(dimension: Dimension, value: Any) -> bool:
    if isinstance(dimension, Choice):
        return isinstance(value, bool | int | float | str)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return (value > 0 or not dimension.log) and (isinstance(value, int) or isinstance(dimension, Float))
