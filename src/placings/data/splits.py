"""Parts of the data by query: at random, by time, or whole groups (sessions, users) together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from placings.core import AnyArray, BadInput, Ints
from placings.data.ids import as_ids, number_ids

if TYPE_CHECKING:
    from placings.data.ranking import RankingData


def split_queries(
    data: RankingData,
    shares: Sequence[float],
    random_state: int | None,
    by: str | None,
    group: str | ArrayLike | None,
) -> list[Ints]:
    """The queries of each part, in data order; the shares are of queries (of groups with `group`)."""
    if not shares or any(not 0.0 < share <= 1.0 for share in shares) or abs(sum(shares) - 1.0) > 1e-9:
        raise BadInput(f"shares must be above 0 and add up to 1. Got {tuple(shares)}.")
    units, codes = _order_units(data, random_state, by, group)
    borders = np.rint(np.cumsum([0.0, *shares]) * len(units)).astype(np.int64)
    if (np.diff(borders) == 0).any():
        dealt = "queries" if group is None else "groups"
        raise BadInput(f"{len(units)} {dealt} are too few for shares {tuple(shares)}: a part would be empty.")
    return [_queries_of(units[a:b], codes) for a, b in pairwise(borders)]


def fold_queries(
    data: RankingData,
    n: int,
    random_state: int | None,
    by: str | None,
    group: str | ArrayLike | None,
    valid: bool,
) -> Iterator[tuple[Ints, ...]]:
    """`n` parts in turn as test; with `valid`, the part before the test one validates (LETOR's rotation).

    By time there is no rotation: fold i trains on all parts up to i (and validates on the next), then
    tests on the one after, so that nothing is judged on its own past.
    """
    least = 3 if valid else 2
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise BadInput(f"folds needs a whole number of at least {least} parts. Got {n!r}.")
    units, codes = _order_units(data, random_state, by, group)
    pieces = n if by is None else n + least - 1
    if len(units) < pieces:
        raise BadInput(f"{len(units)} queries or groups are too few for {pieces} parts.")
    parts = [_queries_of(piece, codes) for piece in np.array_split(units, pieces)]
    for turn in range(n):
        if by is None:
            test, check = (turn + n - 1) % n, (turn + n - 2) % n
            held = {test, check} if valid else {test}
            train = [part for place, part in enumerate(parts) if place not in held]
        else:
            train, check, test = parts[: turn + 1], turn + 1, turn + least - 1
        learned = np.sort(np.concatenate(train))
        yield (learned, parts[check], parts[test]) if valid else (learned, parts[test])


def _order_units(
    data: RankingData, random_state: int | None, by: str | None, group: str | ArrayLike | None
) -> tuple[Ints, Ints]:
    """What is dealt out (queries or groups), in dealing order, and the unit of each query."""
    codes = np.arange(data.n_queries) if group is None else _group_of_queries(data, group)
    count = int(codes.max()) + 1 if len(codes) else 0
    if by is None:
        return np.random.default_rng(random_state).permutation(count), codes
    if by != "time":
        raise BadInput(f"by must be None (at random) or 'time'. Got {by!r}.")
    if random_state is not None:
        raise BadInput("by='time' leaves nothing to chance; leave random_state out.")
    if data.time is None:
        raise BadInput("by='time' needs the time of each row. Give it with time= when building the data.")
    started = _first_in_query(data.time, data.offsets)
    order = np.argsort(started, kind="stable")
    _, first = np.unique(codes[order], return_index=True)  # a group begins with its first query
    return np.argsort(first, kind="stable"), codes


def _group_of_queries(data: RankingData, group: str | ArrayLike) -> Ints:
    if isinstance(group, str):
        if group not in data.segments:
            known = ", ".join(repr(name) for name in data.segments) or "none"
            raise BadInput(f"no segment {group!r} to group by. Known segments: {known}.")
        values = data.segments[group]
    else:
        values = np.asarray(group)
    if len(values) == data.n_queries and len(values) != data.n_rows:
        return number_ids(as_ids(values, "group"))[0]
    if len(values) != data.n_rows:
        raise BadInput(
            f"group must have a value for each of the {data.n_rows} rows or {data.n_queries} queries. "
            f"Got {len(values)}."
        )
    codes = number_ids(as_ids(values, "group"))[0]
    starts = data.offsets[:-1][data.sizes > 0]
    mixed = codes != np.repeat(codes[starts], data.sizes[data.sizes > 0])
    if mixed.any():
        row = int(np.flatnonzero(mixed)[0])
        raise BadInput(
            f"a query must belong to one group. Query {data.qid.tolist()[row]!r} has rows of several "
            f"({values.tolist()[row]!r} among them)."
        )
    return codes[data.offsets[:-1]]


def _first_in_query(time: AnyArray, offsets: Ints) -> AnyArray:
    if (np.diff(offsets) == 0).any():
        raise BadInput("a query without rows has no time to split by.")
    unknown = np.isnat(time) if time.dtype.kind in "mM" else np.not_equal(time, time)
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise BadInput(
            f"by='time' needs the time of each row. It is missing at row {row}; leave such queries out."
        )
    first: AnyArray = np.minimum.reduceat(time, offsets[:-1])
    return first


def _queries_of(units: Ints, codes: Ints) -> Ints:
    chosen = np.zeros(int(codes.max()) + 1, dtype=np.bool_)
    chosen[units] = True
    return np.flatnonzero(chosen[codes])
