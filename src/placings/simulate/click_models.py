"""How people click on a list: by position, from the top down, until satisfied, or trusting; with noise.

Relevance is a number from 0 to 1 for each item. An item that was looked at is clicked with a probability
between `noise` (relevance 0) and `certainty` (relevance 1). What is known of a model by construction, the
probability of a look at each position and of a click on something relevant there, is what a method that
corrects clicks for position has to find.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from placings.core import BadInput, Bools, Floats, Ints, UnknownName, as_offsets, as_vector


@runtime_checkable
class ClickModel(Protocol):
    """What draws clicks on lists, and knows its own propensities."""

    def examination(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """The probability `[k]` that positions 1 to `k` are looked at."""
        ...

    def propensity(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """The probability `[k]` of a click on an item of relevance 1 at positions 1 to `k`."""
        ...

    def click(self, relevance: ArrayLike, rng: Generator) -> Ints:
        """The positions clicked, from 1, in rising order; `relevance` is that of one list from its top."""
        ...

    def click_lists(self, relevance: ArrayLike, offsets: ArrayLike, rng: Generator) -> Bools:
        """Which rows are clicked `[rows]`, for many lists at once."""
        ...


@dataclass(frozen=True)
class PositionBased:
    """A look depends on the position alone, a click on the look and on relevance.

    `P(click at r) = r^−eta · (noise + (certainty − noise) · relevance)`, each position by itself. A list may
    get several clicks, or none. Craswell and others, 2008.

    >>> PositionBased(eta=1.0).examination(4).round(4).tolist()
    [1.0, 0.5, 0.3333, 0.25]
    >>> PositionBased(noise=0.0, certainty=1.0).click([0.0, 0.0, 0.0], np.random.default_rng(0)).tolist()
    []
    """

    eta: float = 1.0
    certainty: float = 0.95
    noise: float = 0.005

    def __post_init__(self) -> None:
        _check_shares(self, "certainty", "noise")
        _check_eta(self.eta)

    def examination(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """`r^−eta` `[k]`, whatever is shown."""
        looks: Floats = _count_positions(k) ** -self.eta
        return looks

    def propensity(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """`certainty · r^−eta` `[k]`, whatever else is shown."""
        return self.certainty * self.examination(k)

    def click(self, relevance: ArrayLike, rng: Generator) -> Ints:
        """The positions clicked, from 1; none on an empty list."""
        return _click_one(self, relevance, rng)

    def click_lists(self, relevance: ArrayLike, offsets: ArrayLike, rng: Generator) -> Bools:
        """Which rows are clicked `[rows]`; list `i` is rows `offsets[i]` to `offsets[i + 1]`, top first."""
        grades, begins = _as_lists(relevance, offsets)
        return _click_looked_at(self, self.noise, grades, begins, rng)


@dataclass(frozen=True)
class TrustBias:
    """As `PositionBased`, but people believe the engine: what stands high is clicked though not relevant.

    `P(click at r) = r^−eta · (e⁻(r) + (certainty − e⁻(r)) · relevance)` with
    `e⁻(r) = min(noise + trust / r, certainty)`. Agarwal and others, 2019.

    >>> model = TrustBias(trust=0.1, noise=0.0)
    >>> model.mistake(3).round(3).tolist()
    [0.1, 0.05, 0.033]
    """

    eta: float = 1.0
    certainty: float = 0.95
    noise: float = 0.005
    trust: float = 0.05

    def __post_init__(self) -> None:
        _check_shares(self, "certainty", "noise", "trust")
        _check_eta(self.eta)

    def examination(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """`r^−eta` `[k]`, whatever is shown."""
        looks: Floats = _count_positions(k) ** -self.eta
        return looks

    def propensity(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """`certainty · r^−eta` `[k]`: for a relevant item trust changes nothing."""
        return self.certainty * self.examination(k)

    def mistake(self, k: int) -> Floats:
        """`e⁻(r)` `[k]`: the probability that an item of relevance 0 is clicked when looked at."""
        mistakes: Floats = np.minimum(self.noise + self.trust / _count_positions(k), self.certainty)
        return mistakes

    def click(self, relevance: ArrayLike, rng: Generator) -> Ints:
        """The positions clicked, from 1; none on an empty list."""
        return _click_one(self, relevance, rng)

    def click_lists(self, relevance: ArrayLike, offsets: ArrayLike, rng: Generator) -> Bools:
        """Which rows are clicked `[rows]`; list `i` is rows `offsets[i]` to `offsets[i + 1]`, top first."""
        grades, begins = _as_lists(relevance, offsets)
        position = _find_positions(begins)
        wrong = self.mistake(int(position.max(initial=0)))[position - 1]
        return _click_looked_at(self, wrong, grades, begins, rng)


@dataclass(frozen=True)
class Cascade:
    """People read from the top and go on until they are served or tired.

    An item looked at is clicked with `a = noise + (certainty − noise) · relevance`. After a click people go
    on with probability `again`, after none with `patience`. So the look at `r` depends on what stands above:
    `P(look at r) = Π_{i<r} ((1 − a_i) · patience + a_i · again)`. Craswell and others, 2008, with Guo and
    others, 2009, for what follows a click.

    >>> model = Cascade(patience=0.5, certainty=1.0, noise=0.0)
    >>> model.examination(3).tolist(), model.examination(3, [1.0, 0.0, 0.0]).tolist()
    ([1.0, 0.5, 0.25], [1.0, 0.0, 0.0])
    """

    patience: float = 0.85
    again: float = 0.0
    certainty: float = 0.95
    noise: float = 0.005

    def __post_init__(self) -> None:
        _check_shares(self, "certainty", "noise", "patience", "again")

    def examination(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """The probability `[k]` of a look; `relevance` `[k]` is what is shown, all 0 by default."""
        grades = _take_grades(k, relevance)
        clicked = self.noise + (self.certainty - self.noise) * grades
        stays = (1.0 - clicked) * self.patience + clicked * self.again
        looks: Floats = np.concatenate([[1.0], np.cumprod(stays)])[: len(grades)]
        return looks

    def propensity(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """`certainty` times `examination(k, relevance)` `[k]`."""
        return self.certainty * self.examination(k, relevance)

    def click(self, relevance: ArrayLike, rng: Generator) -> Ints:
        """The positions clicked, from 1; none on an empty list."""
        return _click_one(self, relevance, rng)

    def click_lists(self, relevance: ArrayLike, offsets: ArrayLike, rng: Generator) -> Bools:
        """Which rows are clicked `[rows]`; list `i` is rows `offsets[i]` to `offsets[i + 1]`, top first."""
        grades, begins = _as_lists(relevance, offsets)
        wants = rng.random(len(grades)) < self.noise + (self.certainty - self.noise) * grades
        leaves = rng.random(len(grades)) >= np.where(wants, self.again, self.patience)
        return wants & _find_reached(leaves, begins)


@dataclass(frozen=True)
class DynamicBayesian:
    """People read from the top, click what attracts them, and stop once a click has satisfied them.

    An item looked at is clicked with `a = noise + (certainty − noise) · relevance`, its attraction. A click
    satisfies with `s = satisfaction · relevance`, and whoever is satisfied stops; all others go on with
    probability `patience`. So `P(look at r) = Π_{i<r} patience · (1 − a_i · s_i)`. A list may get several
    clicks: those that did not satisfy come before the last. Chapelle and Zhang, 2009.

    >>> model = DynamicBayesian(patience=0.5, satisfaction=1.0, certainty=1.0, noise=0.0)
    >>> model.examination(3).tolist(), model.examination(3, [0.5, 0.0, 0.0]).tolist()  # 0.5 · (1 − 0.5 · 0.5)
    ([1.0, 0.5, 0.25], [1.0, 0.375, 0.1875])
    """

    patience: float = 0.9
    satisfaction: float = 0.7
    certainty: float = 0.95
    noise: float = 0.005

    def __post_init__(self) -> None:
        _check_shares(self, "certainty", "noise", "patience", "satisfaction")

    def examination(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """The probability `[k]` of a look; `relevance` `[k]` is what is shown, all 0 by default."""
        grades = _take_grades(k, relevance)
        clicked = self.noise + (self.certainty - self.noise) * grades
        stays = self.patience * (1.0 - clicked * self.satisfaction * grades)
        looks: Floats = np.concatenate([[1.0], np.cumprod(stays)])[: len(grades)]
        return looks

    def propensity(self, k: int, relevance: ArrayLike | None = None) -> Floats:
        """`certainty` times `examination(k, relevance)` `[k]`."""
        return self.certainty * self.examination(k, relevance)

    def click(self, relevance: ArrayLike, rng: Generator) -> Ints:
        """The positions clicked, from 1; none on an empty list."""
        return _click_one(self, relevance, rng)

    def click_lists(self, relevance: ArrayLike, offsets: ArrayLike, rng: Generator) -> Bools:
        """Which rows are clicked `[rows]`; list `i` is rows `offsets[i]` to `offsets[i + 1]`, top first."""
        grades, begins = _as_lists(relevance, offsets)
        wants = rng.random(len(grades)) < self.noise + (self.certainty - self.noise) * grades
        served = wants & (rng.random(len(grades)) < self.satisfaction * grades)
        leaves = served | (rng.random(len(grades)) >= self.patience)
        return wants & _find_reached(leaves, begins)


CLICK_MODELS: dict[str, Callable[[], ClickModel]] = {
    "position": PositionBased,
    "cascade": Cascade,
    "trust": TrustBias,
    "dbn": DynamicBayesian,
}


def find_click_model(model: str | ClickModel) -> ClickModel:
    """The model of that name with its default numbers, or the model given.

    >>> find_click_model("cascade")
    Cascade(patience=0.85, again=0.0, certainty=0.95, noise=0.005)
    """
    if isinstance(model, str):
        if model not in CLICK_MODELS:
            raise UnknownName("click model", model, CLICK_MODELS)
        return CLICK_MODELS[model]()
    given: object = model
    if not isinstance(given, ClickModel):
        known = ", ".join(sorted(CLICK_MODELS))
        raise BadInput(f"clicks must be a click model or one of {known}. Got {model!r}.")
    return model


def _click_looked_at(
    model: PositionBased | TrustBias, wrong: float | Floats, grades: Floats, begins: Ints, rng: Generator
) -> Bools:
    position = _find_positions(begins)
    looks = model.examination(int(position.max(initial=0)))[position - 1]
    clicked: Bools = rng.random(len(grades)) < looks * (wrong + (model.certainty - wrong) * grades)
    return clicked


def _click_one(model: ClickModel, relevance: ArrayLike, rng: Generator) -> Ints:
    grades = as_vector(relevance, "relevance")
    clicked: Ints = np.flatnonzero(model.click_lists(grades, [0, len(grades)], rng)) + 1
    return clicked


def _take_grades(k: int, relevance: ArrayLike | None) -> Floats:
    """The relevance of positions 1 to `k`, all 0 where nothing is said."""
    positions = _count_positions(k)
    grades = np.zeros(len(positions)) if relevance is None else _as_relevance(relevance)
    if len(grades) < k:
        raise BadInput(f"relevance must have a value for each of {k} positions. Got {len(grades)}.")
    return grades[:k]


def _find_reached(leaves: Bools, begins: Ints) -> Bools:
    """Which rows `[rows]` are looked at by readers who leave their list after those that `leaves` names."""
    left = np.concatenate([[0], np.cumsum(leaves)])  # [rows + 1]: how often a reader left before a row
    reached: Bools = left[:-1] == np.repeat(left[begins[:-1]], np.diff(begins))
    return reached


def _as_lists(relevance: ArrayLike, offsets: ArrayLike) -> tuple[Floats, Ints]:
    grades = _as_relevance(relevance)
    return grades, as_offsets(offsets, len(grades))


def _as_relevance(relevance: ArrayLike) -> Floats:
    grades = as_vector(relevance, "relevance")
    outside = ~((grades >= 0.0) & (grades <= 1.0))
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise BadInput(f"relevance must lie between 0 and 1. Got {grades[row]:g} at row {row}.")
    return grades


def _find_positions(begins: Ints) -> Ints:
    """Positions from 1 `[rows]` of lists that begin there."""
    positions: Ints = np.arange(begins[-1]) - np.repeat(begins[:-1], np.diff(begins)) + 1
    return positions


def _count_positions(k: int) -> Floats:
    if k < 0:
        raise BadInput(f"k must be 0 or more. Got {k!r}.")
    return np.arange(1, k + 1, dtype=np.float64)


def _check_eta(eta: float) -> None:
    if not 0.0 <= eta < np.inf:
        raise BadInput(f"eta must be 0 or more. Got {eta!r}.")


def _check_shares(model: PositionBased | TrustBias | Cascade | DynamicBayesian, *names: str) -> None:
    given = {field.name: getattr(model, field.name) for field in fields(model)}
    for name in names:
        if not 0.0 <= given[name] <= 1.0:
            raise BadInput(f"{name} must lie between 0 and 1. Got {given[name]!r}.")
    if given["noise"] > given["certainty"]:
        raise BadInput(
            f"noise must not be above certainty. Got {given['noise']!r} and {given['certainty']!r}."
        )
