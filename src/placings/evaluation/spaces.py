"""What may be tuned: a range or a list of options for each parameter of each ranker.

A space maps a name to a `Float`, an `Int` or a `Choice`. The name is a parameter of the ranker, or
`params.NAME` for one that passes through to its library, or `positive_weight` (see `tuning`), which
weighs the training rows instead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

from placings.core import BadInput, UnknownName
from placings.rankers import Ranker, explain_setting

Value: TypeAlias = bool | int | float | str | None
POSITIVE_WEIGHT = "positive_weight"
THROUGH = "params."


def _check_range(low: float, high: float, log: bool) -> None:
    numbers = all(isinstance(end, int | float) and math.isfinite(end) for end in (low, high))
    if not numbers or low > high:
        raise BadInput(f"a range must run from a low to a high number. Got {low!r} to {high!r}.")
    if log and low <= 0:
        raise BadInput(f"a logarithmic range must start above 0. Got {low!r}.")


@dataclass(frozen=True)
class Float:
    """A number from `low` to `high`; `log` draws its logarithm evenly. `grid` is what a grid visits.

    >>> Float(0.01, 1.0, log=True).steps
    (0.01, 0.1, 1.0)
    """

    low: float
    high: float
    log: bool = False
    grid: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)

    @property
    def steps(self) -> tuple[float, ...]:
        """The values of a grid: `grid`, or both ends and the middle."""
        return self.grid or tuple(dict.fromkeys((self.low, _middle(self), self.high)))


@dataclass(frozen=True)
class Int:
    """A whole number from `low` to `high`, both included; otherwise as `Float`.

    >>> Int(10, 1000, log=True).steps
    (10, 100, 1000)
    """

    low: int
    high: int
    log: bool = False
    grid: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _check_range(self.low, self.high, self.log)

    @property
    def steps(self) -> tuple[int, ...]:
        """The values of a grid: `grid`, or both ends and the middle."""
        return self.grid or tuple(dict.fromkeys((self.low, round(_middle(self)), self.high)))


@dataclass(frozen=True)
class Choice:
    """One of several plain values: text, numbers, True, False or None."""

    options: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.options:
            raise BadInput("Choice needs at least one option. Got none.")
        for option in self.options:
            if option is not None and not isinstance(option, bool | int | float | str):
                raise BadInput(f"Choice takes text, numbers, True, False or None. Got {option!r}.")

    @property
    def steps(self) -> tuple[Value, ...]:
        """The values of a grid: all options."""
        return self.options


Dimension: TypeAlias = Float | Int | Choice
Space: TypeAlias = Mapping[str, Dimension]

# ranker → preset → space. The ranges are wide enough for a hundred queries and for ten thousand.
SPACES: dict[str, dict[str, Space]] = {
    "LightGBMRanker": {
        "default": {
            "objective": Choice(("lambdarank", "rank_xendcg")),
            "rounds": Int(50, 1000, log=True, grid=(100, 300, 1000)),
            "learning_rate": Float(0.01, 0.3, log=True, grid=(0.03, 0.1)),
            "leaves": Int(4, 255, log=True, grid=(7, 31, 127)),
            "min_data_in_leaf": Int(1, 200, log=True, grid=(5, 20, 100)),
            "reg_lambda": Float(1e-3, 100.0, log=True, grid=(0.01, 10.0)),
            "reg_alpha": Float(1e-3, 10.0, log=True, grid=(0.01,)),
            "feature_fraction": Float(0.3, 1.0, grid=(0.5, 1.0)),
            "bagging_fraction": Float(0.4, 1.0, grid=(0.6, 1.0)),
            "lambdarank_truncation_level": Int(5, 100, log=True, grid=(10, 30, 100)),
        },
        "thesis": {
            "objective": Choice(("lambdarank", "rank_xendcg")),
            POSITIVE_WEIGHT: Choice((1.0, 10.0)),
            "rounds": Int(100, 500, grid=(100, 500)),
            "params.min_sum_hessian_in_leaf": Float(0.001, 0.1, log=True, grid=(0.001, 0.1)),
            "params.max_depth": Int(4, 8, grid=(4, 6, 8)),
        },
    },
    "XGBoostRanker": {
        "default": {
            "objective": Choice(("rank:ndcg", "rank:pairwise")),
            "rounds": Int(50, 1000, log=True, grid=(100, 300, 1000)),
            "learning_rate": Float(0.01, 0.3, log=True, grid=(0.03, 0.1)),
            "max_depth": Int(2, 10, grid=(3, 6, 9)),
            "min_child_weight": Float(0.01, 100.0, log=True, grid=(0.1, 1.0, 10.0)),
            "subsample": Float(0.4, 1.0, grid=(0.6, 1.0)),
            "colsample": Float(0.3, 1.0, grid=(0.5, 1.0)),
            "reg_lambda": Float(1e-3, 100.0, log=True, grid=(0.1, 1.0, 10.0)),
            "reg_alpha": Float(1e-3, 10.0, log=True, grid=(0.01,)),
        },
        "thesis": {
            "objective": Choice(("rank:ndcg", "rank:pairwise", "rank:map")),
            "rounds": Int(100, 500, grid=(100, 500)),
            "min_child_weight": Float(0.1, 1.0, log=True, grid=(0.1, 1.0)),
            "max_depth": Int(4, 8, grid=(4, 6, 8)),
        },
    },
    "CatBoostRanker": {
        "default": {
            "loss": Choice(("YetiRank", "PairLogit", "QueryRMSE")),
            "rounds": Int(50, 1000, log=True, grid=(100, 300, 1000)),
            "learning_rate": Float(0.01, 0.3, log=True, grid=(0.03, 0.1)),
            "depth": Int(2, 8, grid=(4, 6, 8)),
            "l2_leaf_reg": Float(0.1, 100.0, log=True, grid=(1.0, 3.0, 10.0)),
        },
    },
    "LinearRanker": {
        "default": {
            # the loss is the ranker's own: a ranker called RankSVM stays one
            "C": Float(1e-5, 1e3, log=True, grid=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)),
            "pairs": Choice(("sum", "mean")),
        },
        "losses": {
            "C": Float(1e-5, 1e3, log=True, grid=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)),
            "loss": Choice(("hinge", "squared_hinge", "logistic", "ridge")),
            "pairs": Choice(("sum", "mean")),
        },
        "ridge": {"C": Float(1e-5, 1e3, log=True, grid=(1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0))},
    },
    "NeuralRanker": {
        "default": {
            "lr": Float(3e-4, 5e-3, log=True, grid=(5e-4, 1e-3, 2e-3)),
            "dropout": Float(0.2, 0.8, grid=(0.3, 0.5, 0.7)),
            "weight_decay": Float(0.1, 20.0, log=True, grid=(1.0, 10.0)),
            "input_noise": Float(0.0, 0.5, grid=(0.0, 0.3)),
            "loss": Choice(("softmax", "ndcg_loss2pp", "mean_squared_error")),
        },
    },
    "MeanRanker": {"default": {}},  # its members are tuned by themselves
    "OriginalOrder": {"default": {}},
}


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
    presets = SPACES.get(kind)
    if presets is None:
        raise BadInput(
            f"{kind} has no space of its own; rankers that have one: {', '.join(sorted(SPACES))}. "
            "Give one: space={'name': Float(…)}."
        )
    name = space or "default"
    if name == "default":  # a linear ranker's loss says what else there is to tune
        loss = ranker.get_params().get("loss")
        name = loss if kind == "LinearRanker" and loss in presets else "default"
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
            meant = explain_setting(name, known)
            raise UnknownName(
                f"parameter of {type(ranker).__name__}", name, known | {POSITIVE_WEIGHT}, meaning=meant
            )


def _can_hold(dimension: Dimension, value: Any) -> bool:
    if isinstance(dimension, Choice):
        return isinstance(value, bool | int | float | str)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    return (value > 0 or not dimension.log) and (isinstance(value, int) or isinstance(dimension, Float))


def _middle(dimension: Float | Int) -> float:
    if dimension.log:
        exponent = (math.log10(dimension.low) + math.log10(dimension.high)) / 2
        return float(f"{10**exponent:.6g}")
    return (dimension.low + dimension.high) / 2
