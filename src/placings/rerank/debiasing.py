"""How likely each label of a log was to come about, given where people saw the item.

A click needs a look, and a look depends on the position: `propensity` is the probability of a look, relative
to the first position. A label that was carried back from a later click of the session needs no look at its
own list, so it is counted otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from placings.core import BadInput, Bools, Floats, Ints

if TYPE_CHECKING:
    import pandas as pd

PROPENSITY, SHOWN_POSITION, CARRIED = "propensity", "shown_position", "carried"
GROUPS = (1, 2, 3, 5, 10, 20)  # the last position of each group but the last, which has no end
LEAST = 20  # clicks a group of positions has at least; groups with fewer are joined with the one above


@runtime_checkable
class Propensities(Protocol):
    """What knows the probability of a look at each position: a `PropensityCurve`, or anything like it."""

    def at(self, positions: ArrayLike) -> Floats:
        """The probability of a look at these positions (from 1) over that at the first, `[positions]`."""
        ...

    def to_state(self) -> Mapping[str, Any]:
        """Plain values for JSON."""
        ...


PropensitySource: TypeAlias = Propensities | Literal["log"]


def check_source(propensity: Any) -> None:
    """Refuse what is no source of propensities, before anything is read."""
    if propensity is None or isinstance(propensity, Propensities):
        return
    if not (isinstance(propensity, str) and propensity == "log"):
        raise BadInput(
            'propensity must be None, a curve from pg.estimate_propensity, or "log" for the column propensity '
            f"of the log. Got {propensity!r}."
        )


def find_looks(rows: pd.DataFrame, source: PropensitySource) -> Floats:
    """The probability of a look at each row `[rows]`, in (0, 1].

    A curve is asked where people saw the item: `shown_position` where a service showed its own order, else
    `position`. "log" takes the rows' column `propensity`.
    """
    if isinstance(source, str):
        if PROPENSITY not in rows:
            raise BadInput(
                'propensity="log" needs a column propensity. Got none. Add one with '
                "pg.estimate_propensity(log).add_to(log), or pass the curve itself."
            )
        looks = rows[PROPENSITY].to_numpy(dtype=np.float64)
    else:
        name = SHOWN_POSITION if SHOWN_POSITION in rows else "position"
        seen = rows[name].to_numpy(dtype=np.float64)
        if np.isnan(seen).any():
            raise BadInput(
                f"propensities need to know where people saw an item. Got {int(np.isnan(seen).sum()):,} of "
                f"{len(seen):,} rows without {name}."
            )
        looks = np.asarray(source.at(seen.astype(np.int64)), dtype=np.float64)
    wrong = ~((looks > 0.0) & (looks <= 1.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadInput(
            f"a propensity must be above 0 and at most 1. Got {looks[row]:g} in row {row}, "
            f"and {int(wrong.sum()):,} such rows."
        )
    return looks


def weigh_carried(looks: Floats, position: Ints, label: Floats, carried: Bools) -> Floats:
    """The propensity of each row's label `[rows]`: of a click, or of one that was carried back.

    Of the wanted items at position r a share `a·p_r` is clicked. Others are labelled all the same, because
    the session clicked them later in another list. With n_r clicks and m_r carried labels there, a wanted
    item is labelled with probability `a·p_r · (n_r + m_r)/n_r`, whatever a is and however people go on. So

        propensity_r = p_r · (n_r + m_r)/n_r,

    divided by the largest of all rows, counted in groups of positions (1, 2, 3, 4–5, 6–10, 11–20, further)
    that have 20 clicks or more. Carried labels make up for clicks that position cost, most of all far down;
    without this, both together would count twice there. Without carried labels it is `looks`.

    >>> looks, position = np.array([1.0, 0.5] * 40), np.array([1, 2] * 40)
    >>> carried = np.array([False] * 40 + [False, True] * 20)  # as many carried to position 2 as clicked there
    >>> weigh_carried(looks, position, np.ones(80), carried)[:2].tolist()
    [1.0, 1.0]
    """
    given = label > 0
    if not (carried & given).any():
        return looks
    group = np.searchsorted(GROUPS, position)
    clicks = np.bincount(group[given & ~carried], minlength=len(GROUPS) + 1).astype(np.float64)
    others = np.bincount(group[given & carried], minlength=len(GROUPS) + 1).astype(np.float64)
    for place in range(len(GROUPS), 0, -1):  # from the end, so that thin groups join the one above
        if clicks[place] < LEAST:
            clicks[place - 1] += clicks[place]
            others[place - 1] += others[place]
            clicks[place] = others[place] = np.nan
    share = (clicks + others) / np.maximum(clicks, 1.0)
    for place in range(1, len(share)):
        if np.isnan(share[place]):
            share[place] = share[place - 1]
    found = looks * share[group]
    return np.asarray(found / found.max())


def measure_effect(weight: Floats) -> float:
    """How many unweighted clicks say as much as these, by Kish: `(Σw)² / Σw²`; 0 of none."""
    square = float(np.square(weight).sum())
    return float(weight.sum()) ** 2 / square if square > 0.0 else 0.0


def find_propensities(
    rows: pd.DataFrame, source: PropensitySource | None, carried: Bools
) -> Floats | None:
    """The propensity of each row's label `[rows]`; None without a source."""
    if source is None:
        return None
    name = SHOWN_POSITION if SHOWN_POSITION in rows else "position"
    looks = find_looks(rows, source)
    return weigh_carried(
        looks, rows[name].to_numpy(dtype=np.float64), rows["label"].to_numpy(dtype=np.float64), carried
    )


def learn_debiased(*args: Any) -> Any:
    raise NotImplementedError
