"""What a ranker says of itself: its search spaces, its libraries, whether it is random.

A class states them once, as `facts`; tuning, comparing, bundles, the terminal and the tests read them there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from placings.core import BadInput

Value: TypeAlias = bool | int | float | str | None
POSITIVE_WEIGHT = "positive_weight"  # in a space: weighs the training rows, is no parameter of the ranker


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


@dataclass(frozen=True)
class RankerFacts:
    """What else there is to know of a ranker's class; the defaults suit a ranker of your own.

    - `spaces`: preset → space, of which "default" is what `tune` searches, or the one named like the
      ranker's loss;
    - `random`: whether another seed gives another ranker; `learns`: whether it looks at features at all;
      `learns_valid`: whether validation data are more data to learn from, which then cannot judge it;
    - `libraries`: packages whose versions a bundle notes;
    - `familiar`: what a setting is called elsewhere: name → by whom, and here (the first that a ranker has);
    - `passed`: settings of the library behind it that `params` hands on;
    - `notes`: settings of others that it does not have, each with a sentence that says what to do instead;
    - `quick`: settings with which it is fitted in a moment, for tests.
    """

    spaces: Mapping[str, Space] = field(default_factory=dict)
    random: bool = True
    learns: bool = True
    learns_valid: bool = False
    libraries: tuple[str, ...] = ()
    familiar: Mapping[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    quick: Mapping[str, Any] = field(default_factory=dict)


def find_facts(ranker: object) -> RankerFacts:
    """The facts of a ranker's class; the defaults for an object that states none."""
    found = getattr(type(ranker), "facts", None)
    return found if isinstance(found, RankerFacts) else RankerFacts()


def _middle(dimension: Float | Int) -> float:
    if dimension.log:
        exponent = (math.log10(dimension.low) + math.log10(dimension.high)) / 2
        return float(f"{10**exponent:.6g}")
    return (dimension.low + dimension.high) / 2
