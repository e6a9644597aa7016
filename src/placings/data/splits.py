"""Parts of the data by query, at random, by time or whole groups together; and which queries are alike."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import (
    AnyArray,
    BadInput,
    Ints,
    PlacingsWarning,
    UnknownName,
    find_missing,
    number_clusters,
    option,
)
from placings.data.ids import as_ids, number_ids

if TYPE_CHECKING:
    from placings.data.ranking import RankingData

AUTO, QUERY = "auto", "query"
USER, SESSION = "user_id", "session_id"
UNITS = {USER: "users", SESSION: "sessions"}  # segments that say which queries are alike, the widest first
HINT = f"Pass {option('group', value='query')} to deal out queries."
NOBODY = ("", "unknown")  # what stands in these segments where nothing is known


@dataclass(frozen=True, eq=False)
class Clusters:
    """Which queries belong together: `codes` `[queries]`, from 0 by first appearance, by the segment `by`."""

    by: str
    codes: Ints

    @property
    def count(self) -> int:
        """How many clusters there are."""
        return int(self.codes.max()) + 1 if len(self.codes) else 0

    def __str__(self) -> str:
        return f"{self.count:,} {name_units(self.by)}"


def name_units(by: str | None) -> str:
    """What the clusters of a segment are, in the plural; None is single queries.

    >>> name_units("session_id"), name_units("shop"), name_units(None)
    ('sessions', "values of 'shop'", 'queries')
    """
    return "queries" if by is None else UNITS.get(by, f"values of {by!r}")


def find_clusters(data: RankingData | Sequence[RankingData], by: str | None = AUTO) -> Clusters | None:
    """Which queries are alike, by a segment: those of one user or one session. None: each stands alone.

    `by` is "auto" (the segment `user_id`, or else `session_id`, or else none), the name of a segment, or
    "query" or None for none. Of several data (folds) all must have the segment; the same id in two of them is
    one cluster. A query without an id is a cluster by itself; without a user, but in a session that one user
    alone has, it is this user's, and otherwise its session's. Under "auto" a segment that differs within a
    query cannot be used, which a warning says; a segment that was named must be the same in all rows.

    >>> from placings.data.ranking import RankingData
    >>> sessions = {"session_id": ["a", "b", "a"]}
    >>> data = RankingData.from_arrays([[0], [0], [0]], [0, 1, 0], [1, 2, 3], segments=sessions)
    >>> found = find_clusters(data)
    >>> print(found, found.codes)
    2 sessions [0 1 0]
    """
    from placings.data.ranking import RankingData

    parts = [data] if isinstance(data, RankingData) else list(data)
    if by is None or by == QUERY:
        return None
    if by != AUTO:
        lacking = [part for part in parts if by not in part.segments]
        if lacking:
            raise UnknownName("segment to take queries together by", by, [*lacking[0].segments, AUTO, QUERY])
        return Clusters(by, number_clusters(_name_clusters(parts, by)))
    for name in UNITS:
        if parts and all(name in part.segments for part in parts):
            try:
                return Clusters(name, number_clusters(_name_clusters(parts, name)))
            except MixedSegment as error:
                warnings.warn(
                    f"{name} cannot tell which queries are alike: {error}", PlacingsWarning, stacklevel=3
                )
    return None


def _name_clusters(parts: Sequence[RankingData], by: str) -> AnyArray:
    """The id of each query's cluster, None where there is none."""
    own = _read_ids(parts, by)
    if by != USER or not all(SESSION in part.segments for part in parts):
        return own
    try:
        sessions = _read_ids(parts, SESSION)
    except MixedSegment:
        return own
    owners: dict[Any, set[Any]] = {}
    for user, session in zip(own.tolist(), sessions.tolist(), strict=True):
        if user is not None and session is not None:
            owners.setdefault(session, set()).add(user)
    for place in np.flatnonzero(find_missing(own)):
        session = sessions[place]
        found = owners.get(session, set())
        own[place] = next(iter(found)) if len(found) == 1 else None if session is None else (SESSION, session)
    return own


def _read_ids(parts: Sequence[RankingData], name: str) -> AnyArray:
    """A segment's value of each query of all parts, as objects; None where nothing is known."""
    ids = [each for part in parts for each in spread_segment(name, part).tolist()]
    found = np.empty(len(ids), dtype=object)
    found[:] = ids
    gone = find_missing(found)
    if name in UNITS:
        gone |= np.array([each in NOBODY for each in ids], dtype=np.bool_)
    found[gone] = None
    return found


class MixedSegment(BadInput):
    """A segment whose value differs within a query."""


def spread_segment(name: str, data: RankingData) -> AnyArray:
    """A segment's value of each query; a query whose rows differ is an error, one without rows is None."""
    column = data.segments[name]
    filled = data.sizes > 0
    first: AnyArray = column[data.offsets[:-1][filled]]
    expected = np.repeat(first, data.sizes[filled])
    differ = (column != expected) & ~(find_missing(column) & find_missing(expected))
    if differ.any():
        row = int(np.flatnonzero(differ)[0])
        raise MixedSegment(
            "a segment to slice or group by must be the same in all rows of a query. "
            f"Query {data.qid.tolist()[row]!r} has {name!r} {expected.tolist()[row]!r} and "
            f"{column.tolist()[row]!r}. Choose one value for each query, or slice by a function that does."
        )
    if filled.all():
        return first
    values = np.full(len(data), None, dtype=object)
    values[filled] = first
    return values


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
        raise BadInput(
            f"{len(units)} {dealt} are too few for shares {tuple(shares)}: a part would be empty."
            + ("" if group is None else f" {HINT}")
        )
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
        raise BadInput(
            f"{len(units)} queries or groups are too few for {pieces} parts."
            + ("" if group is None else f" {HINT}")
        )
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
