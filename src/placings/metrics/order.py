"""`Ranked`: scores turned into an order once, for every metric that is asked of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from placings.core import (
    BadInput,
    Bools,
    Floats,
    Ints,
    UnknownName,
    as_labels,
    as_offsets,
    as_same_length,
    as_scores,
)

TIES = ("stable", "average", "worst")
EMPTY: dict[str, float] = {"drop": math.nan, "zero": 0.0, "one": 1.0}

Chosen = TypeVar("Chosen")


@dataclass(frozen=True, eq=False)
class Cut:
    """The first ranks of every query, one after the other, in rank order."""

    rows: Ints  # [ranked rows], where each came from
    labels: Floats  # [ranked rows]
    offsets: Ints  # [queries + 1]

    @cached_property
    def sizes(self) -> Ints:
        """Ranks of each query."""
        return np.diff(self.offsets)

    @cached_property
    def ranks(self) -> Ints:
        """1, 2, … in each query."""
        return np.arange(1, len(self.rows) + 1) - np.repeat(self.offsets[:-1], self.sizes)

    def first(self, k: int | None) -> Cut:
        """The same, no deeper than `k`."""
        if k is None or k >= self.sizes.max(initial=0):
            return self
        inside = self.ranks <= k
        offsets = np.concatenate([[0], np.cumsum(np.minimum(self.sizes, k))])
        return Cut(self.rows[inside], self.labels[inside], offsets)


@dataclass(frozen=True, eq=False)
class Ranked:
    """Rows of each query in the order of their scores; `top` is complete down to rank `depth`."""

    scores: Floats  # [rows]
    labels: Floats  # [rows]
    offsets: Ints  # [queries + 1]
    ties: str
    depth: int | None
    top: Cut
    _cuts: dict[tuple[str, int | None], Cut] = field(default_factory=dict, repr=False)
    _counts: dict[float | None, Ints] = field(default_factory=dict, repr=False)

    @cached_property
    def sizes(self) -> Ints:
        """Rows of each query, ranked or not."""
        return np.diff(self.offsets)

    @cached_property
    def _best(self) -> Cut:
        return _cut(self.labels, self.labels, self.offsets, self.depth)

    def first(self, k: int | None) -> Cut:
        """The first `k` ranks by score."""
        if ("first", k) not in self._cuts:
            self._cuts["first", k] = self.top.first(k)
        return self._cuts["first", k]

    def ideal(self, k: int | None) -> Cut:
        """The first `k` ranks of the best order there is: highest labels first."""
        if ("ideal", k) not in self._cuts:
            self._cuts["ideal", k] = self._best.first(k)
        return self._cuts["ideal", k]

    def relabel(self, labels: Floats) -> Ranked:
        """The same rows with other labels; ordered anew only where the rule for ties looks at labels."""
        if self.ties == "worst":
            top = _cut(self.scores, labels, self.offsets, self.depth, worst=True)
        else:
            top = Cut(self.top.rows, labels[self.top.rows], self.top.offsets)
        return Ranked(self.scores, labels, self.offsets, self.ties, self.depth, top)

    def count_relevant(self, relevant_from: float | None = None) -> Ints:
        """Relevant rows of each query, ranked or not."""
        if relevant_from not in self._counts:
            relevant = is_relevant(self.labels, relevant_from)
            self._counts[relevant_from] = count_by_query(relevant, self.offsets)
        return self._counts[relevant_from]

    def settle(self, values: Floats, nothing: Bools, empty: str, min_items: int) -> Floats:
        """Put `empty`'s value where there is `nothing` to find, and NaN where rows are too few."""
        fill = choose("empty rule", empty, EMPTY)
        if not _is_whole(min_items) or min_items < 0:
            raise BadInput(f"min_items must be a whole number of 0 or more. Got {min_items!r}.")
        settled = np.where(nothing, fill, values)
        settled[self.sizes < min_items] = np.nan
        return settled


def rank_rows(
    scores: ArrayLike | Ranked,
    labels: ArrayLike,
    offsets: ArrayLike | None,
    *,
    k: int | None,
    ties: str,
    allowed: tuple[str, ...] = TIES,
) -> Ranked:
    """Check the input and rank it: the one pass over the scores that all metrics share.

    A `Ranked` in place of scores is given back as it is: so `measure` asks several metrics of one ranking.
    """
    if isinstance(scores, Ranked):
        return scores
    checked_scores, checked_labels = as_scores(scores), as_labels(labels)
    as_same_length(checked_scores, checked_labels, "scores and labels")
    borders = as_offsets(offsets, len(checked_scores))
    if k is not None and (not _is_whole(k) or k < 1):
        raise BadInput(f"k must be a whole number of 1 or more, or None for all ranks. Got {k!r}.")
    choose("rule for ties", ties, dict.fromkeys(allowed))
    depth = None if ties == "average" else k  # a tie that the cutoff divides is averaged as a whole
    top = _cut(checked_scores, checked_labels, borders, depth, worst=ties == "worst")
    return Ranked(checked_scores, checked_labels, borders, ties, depth, top)


def is_relevant(labels: Floats, relevant_from: float | None) -> Bools:
    """Labels above 0, or of `relevant_from` and more."""
    if relevant_from is None:
        return labels > 0.0
    return labels >= as_number("relevant_from", relevant_from)


def as_number(name: str, value: object) -> float:
    """A finite number above 0."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        number = float(value)
        if 0.0 < number < math.inf:
            return number
    raise BadInput(f"{name} must be a number above 0. Got {value!r}.")


def choose(kind: str, name: str, registry: Mapping[str, Chosen]) -> Chosen:
    """What `registry` holds under `name`, or an error that lists the names."""
    if not isinstance(name, str) or name not in registry:
        raise UnknownName(kind, str(name), registry)
    return registry[name]


def sum_by_query(values: Floats, offsets: Ints) -> Floats:
    """Sums between borders; a query without rows sums to 0.

    >>> sum_by_query(np.array([1.0, 2.0, 3.0]), np.array([0, 2, 2, 3]))
    array([3., 0., 3.])
    """
    sums = np.zeros(len(offsets) - 1, dtype=np.float64)
    filled = offsets[1:] > offsets[:-1]  # reduceat would give an empty query its neighbour's value
    if filled.any():
        sums[filled] = np.add.reduceat(values, offsets[:-1][filled])
    return sums


def count_by_query(marked: Bools, offsets: Ints) -> Ints:
    """How many rows are marked between borders.

    >>> count_by_query(np.array([True, False, True]), np.array([0, 2, 2, 3])).tolist()
    [1, 0, 1]
    """
    return np.diff(np.searchsorted(np.flatnonzero(marked), offsets))


def _cut(keys: Floats, labels: Floats, offsets: Ints, k: int | None, *, worst: bool = False) -> Cut:
    from placings.metrics import kernels  # loads numba, which takes half a second

    if not worst:
        rows, borders = kernels.top_rows(keys, offsets, k)
    else:  # lowest labels first, then by key: the second pass keeps the order of the first among equals
        lowest, _ = kernels.top_rows(-labels, offsets)
        rows, borders = kernels.top_rows(keys[lowest], offsets, k)
        rows = lowest[rows]
    return Cut(rows, labels[rows], borders)


def _is_whole(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
