"""What of a click log tells how people look: where each item was seen, whether it was clicked, by whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import AnyArray, BadInput, Bools, Floats, Ints, need_library
from placings.logs.click_log import ClickLog
from placings.logs.schema import ITEM_ID, LABEL, POSITION, SEARCH_ID, SESSION_ID, USER_ID

if TYPE_CHECKING:
    import pandas as pd

SHOWN_POSITION, SHOWN_PROBABILITY, SWAPPED = "shown_position", "shown_probability", "swapped"
SWAPPED_WITH, SWAP_REACH = "swapped_with", "swap_reach"  # without them swaps are of neighbours
RANKERS = ("arm", "model")  # columns that say which ranker answered
DEEPEST = 50  # ranks that are looked at unless `depth` says otherwise


@dataclass(frozen=True, eq=False)
class Showings:
    """The rows of a log, list after list and each from its top, as numbers; all arrays are `[rows]`.

    `rank` is where people saw the item, from 1; `same` numbers what was searched together with the item (the
    same search and item have the same number); `cluster` who searched, whose rows are no independent draws.
    `chance` is `shown_probability` and `base` the rank before a swap, where the log has them, and `reach` how
    many ranks apart two swapped items could be at most. `rankers` are the values of `arm` or `model`.
    `source` are the rows of the log that these are.
    """

    rank: Ints
    clicked: Bools
    search: Ints
    cluster: Ints
    same: Ints
    source: Ints
    chance: Floats | None
    base: Ints | None
    reach: Ints | None
    rankers: tuple[str, ...]  # names, empty if no column says which ranker answered
    ranker_column: str
    unit: str  # what a cluster is
    by: tuple[str, ...]  # the columns that say what was searched
    dropped: int  # rows without a search, a rank, or beyond the depth

    @property
    def n_searches(self) -> int:
        """How many lists there are."""
        return int(self.search.max(initial=-1)) + 1

    @property
    def only_clicked(self) -> bool:
        """Whether every list has a click: those without one were left out, as a join does by default."""
        return bool(self.n_searches) and len(np.unique(self.search[self.clicked])) == self.n_searches


def read_showings(log: ClickLog, by: Sequence[str], depth: int | None) -> Showings:
    """The showings of a log; rows without a search or a rank are left out, and so are deeper ones."""
    wanted = [SEARCH_ID, ITEM_ID, POSITION, SHOWN_POSITION, LABEL, USER_ID, SESSION_ID, SHOWN_PROBABILITY]
    rows = log.take([*wanted, SWAPPED, SWAPPED_WITH, SWAP_REACH, *RANKERS, *by])
    place = SHOWN_POSITION if SHOWN_POSITION in rows else POSITION
    if place not in rows:
        raise BadInput(f"the log must say where each item was shown, in a column {POSITION}. Got none.")
    rank = rows[place].to_numpy(dtype=np.float64, na_value=np.nan)
    fits = rows[SEARCH_ID].notna().to_numpy() & rows[ITEM_ID].notna().to_numpy()
    fits &= (rank >= 1) & (rank == np.floor(rank)) & (rank <= (depth or DEEPEST))
    source = np.flatnonzero(fits)
    search = _number(rows[SEARCH_ID].to_numpy()[source])
    order = np.lexsort((rank[source], search))
    source, search = source[order], search[order]
    kept = rows.iloc[source]
    known = tuple(name for name in by if name in rows)
    unit, cluster = _name_clusters(kept, search)
    ranker_column, rankers = _find_rankers(kept)
    chance, base, reach = _find_bases(kept, rank[source].astype(np.int64))
    return Showings(
        rank=rank[source].astype(np.int64),
        clicked=kept[LABEL].to_numpy(dtype=np.float64, na_value=np.nan) > 0.0,
        search=search,
        cluster=cluster,
        same=number_together([kept[name].to_numpy() for name in (*known, ITEM_ID)]),
        source=source,
        chance=chance,
        base=base,
        reach=reach,
        rankers=rankers,
        ranker_column=ranker_column,
        unit=unit,
        by=known,
        dropped=len(rows) - len(source),
    )


def number_together(columns: Sequence[AnyArray]) -> Ints:
    """One number for each different row of these columns `[rows]`; missing values are equal to each other.

    >>> number_together([np.array(["a", "a", "b"]), np.array([1, 2, 1])]).tolist()
    [0, 1, 2]
    """
    found = _number(columns[0])
    for column in columns[1:]:
        codes = _number(column)
        found = _number(found * (int(codes.max(initial=0)) + 1) + codes)
    return found


def _number(values: AnyArray) -> Ints:
    codes, _ = need_library("pandas", "a click log").factorize(values, use_na_sentinel=False)
    return np.asarray(codes, dtype=np.int64)


def _name_clusters(rows: pd.DataFrame, search: Ints) -> tuple[str, Ints]:
    """What is drawn independently: the user, else the session, else the search."""
    units = [name for name in (USER_ID, SESSION_ID) if name in rows and rows[name].notna().any()]
    codes = search
    for name in reversed(units):
        known = rows[name].notna().to_numpy()
        own = _number(rows[name].to_numpy())
        # what has no id keeps its search (or session), moved beyond all ids
        codes = _number(np.where(known, own, own.max(initial=0) + 1 + codes))
    return (units[0] if units else SEARCH_ID), codes


def _find_rankers(rows: pd.DataFrame) -> tuple[str, tuple[str, ...]]:
    for name in RANKERS:
        if name in rows and rows[name].nunique() > 1:
            return name, tuple(sorted(map(str, rows[name].dropna().unique())))
    return "", ()


def _find_bases(rows: pd.DataFrame, rank: Ints) -> tuple[Floats | None, Ints | None, Ints | None]:
    """`shown_probability`, NaN where it says nothing, each item's rank before the swap, and the reach."""
    if SHOWN_PROBABILITY not in rows or not rows[SHOWN_PROBABILITY].notna().any():
        return None, None, None
    chance = rows[SHOWN_PROBABILITY].to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = np.flatnonzero(~np.isnan(chance) & ~((chance > 0.0) & (chance <= 1.0)))
    if len(wrong):
        raise BadInput(f"{SHOWN_PROBABILITY} must be above 0 and at most 1. Got {float(chance[wrong[0]])!r}.")
    if SWAPPED not in rows:
        return chance, None, None
    upper, lower, reach = read_swaps(rows)
    base: Ints = np.where(rank == upper, lower, np.where((rank == lower) & (upper > 0), upper, rank))
    far = np.flatnonzero((upper > 0) & ((lower <= upper) | (lower - upper > reach)))
    if len(far):
        raise BadInput(
            f"{SWAPPED_WITH} must be from 1 to {SWAP_REACH} places below {SWAPPED}. Got "
            f"{int(lower[far[0]])} with {int(upper[far[0]])} and a reach of {int(reach[far[0]])}."
        )
    return chance, base, reach


def read_swaps(rows: pd.DataFrame) -> tuple[Ints, Ints, Ints]:
    """The ranks of the upper and the lower item of a swapped pair, 0 if none, and the reach, `[rows]` each.

    Logs without `swapped_with` and `swap_reach` are of swapped neighbours.
    """
    upper = rows[SWAPPED].to_numpy(dtype=np.float64, na_value=0.0)
    found = [upper, np.where(upper > 0, upper + 1, 0.0), np.ones(len(rows))]
    for place, name in ((1, SWAPPED_WITH), (2, SWAP_REACH)):
        if name in rows:
            told = rows[name].to_numpy(dtype=np.float64, na_value=0.0)
            found[place] = np.where(told > 0, told, found[place])
    upper_ranks, lower_ranks, reach = (each.astype(np.int64) for each in found)
    return upper_ranks, lower_ranks, reach


def sum_by(codes: Ints, values: Any, count: int | None = None) -> Floats:
    """Sums of `values` for each code; `count` of them."""
    weights = np.asarray(values, dtype=np.float64)
    return np.asarray(np.bincount(codes, weights=weights, minlength=count or 0), dtype=np.float64)


def rate_items(shown: Showings, looks: Floats) -> Floats:
    """How popular the same search and item is with other people `[rows]`: clicks for each look.

    Clusters are dealt into two halves, and the rate of a row comes from the half that it is not in: so it
    tells of relevance and knows nothing of the row's own click, nor of any click that it is compared with.
    `looks` `[rows]` is how often such a showing is looked at, relative to rank 1. With c and l the clicks and
    looks of the same search and item in the other half, and m the rate of all: `(c + 2m) / (l + 2)`.
    """
    half = shown.cluster % 2
    mine, others = 2 * shown.same + half, 2 * shown.same + (1 - half)
    count = 2 * (int(shown.same.max(initial=-1)) + 1)
    clicks, seen = sum_by(mine, shown.clicked, count), sum_by(mine, looks, count)
    mean = clicks.sum() / max(float(seen.sum()), 1e-12)
    rates: Floats = (clicks[others] + 2.0 * mean) / (seen[others] + 2.0)
    return rates


def find_explored(shown: Showings) -> tuple[Bools, Ints]:
    """Rows that could be moved, in lists that lack none of these ranks; and each list's last such rank."""
    if shown.chance is None:
        raise AssertionError("the log has no swaps")
    movable = shown.chance < 1.0  # NaN is not
    last = np.zeros(shown.n_searches, dtype=np.int64)
    np.maximum.at(last, shown.search[movable], shown.rank[movable])
    sized = sum_by(shown.search, movable, shown.n_searches).astype(np.int64)
    return movable & (sized == last)[shown.search], last
