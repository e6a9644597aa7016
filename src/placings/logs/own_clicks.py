"""What a person clicked before: counts of their own, which fade with time.

A click of t days ago counts 2^(−t / half-life). Clicks of one person on one item are one number and the time
of the last of them, however many: at each click the number has faded since the last one, and 1 is added.
`add_own_clicks` computes this for every row of a log, `OwnClicks` keeps it for the next request, both with
the same arithmetic in the same order, so that their numbers are equal to the bit.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from placings.core import AnyArray, BadInput, Bools, Floats, Ints, as_utc, need_library
from placings.logs.histories import name_ids, number_names, number_pairs, read_times
from placings.logs.schema import ITEM_ID, LABEL, SESSION_ID, TIME, USER_ID

if TYPE_CHECKING:
    import pandas as pd

OWN = "own_clicks"
OPT_OUT = "no_history"
HALF_LIFE = 30.0  # days
LEAST = 0.01  # what has faded below this is forgotten: a single click after 6.6 half-lives
DAY = 86_400_000_000  # microseconds
NEVER = np.iinfo(np.int64).min  # where no time is given
SEEN, UNSEEN, NOBODY = "seen before", "never seen", "unknown"
NO = ("", "0", "false", "no")  # texts that do not opt out
DIGEST = re.compile(r"[0-9a-f]{64}")
FORMAT = 1


def add_own_clicks(
    rows: pd.DataFrame, clicked: pd.DataFrame, *, half_life: float = HALF_LIFE, keep: bool = False
) -> pd.DataFrame:
    """The rows with a column `own_clicks`: its person's clicks on its item before its session began.

    Each counts 2^(−days / half_life), days from the search that was clicked to the row's search. `clicked`
    are rows of searches (`user_id`, `item_id`, `time`, `label`); those with a label above 0 count. Where rows
    have a `session_id`, only clicks before the session's first search (in `rows` or `clicked`) count, so a
    session never sees itself; without one, those before the row's own search. A row without a person or a
    time has 0, and so has every row of a person who opted out: whose `no_history` is true in any row of
    either table. What has faded below 0.01 is 0. With `keep=True` an `own_clicks` that a row has already
    stays, unless the person opted out.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"user_id": "ann", "item_id": ["a", "a", "b"], "label": [1.0, 1.0, 0.0],
    ...                     "time": pd.to_datetime(["2024-05-01", "2024-05-31", "2024-05-31"])})
    >>> add_own_clicks(log, log, half_life=30.0)["own_clicks"].tolist()
    [0.0, 0.5, 0.0]
    """
    check_half_life(half_life)
    out = find_opted_out(rows, clicked)
    people = name_ids(_take(rows, USER_ID))
    chains = _chain_clicks(_list_clicks(clicked, out), half_life)
    asked = read_times(rows)
    known = number_names(people, chains.people), number_names(name_ids(_take(rows, ITEM_ID)), chains.items)
    codes, ids = number_pairs(*known)
    counts, last = chains.find_before(codes, ids, _find_begins(rows, clicked, asked))
    found = fade(counts, asked - last, half_life)
    if keep and OWN in rows:
        served = rows[OWN].to_numpy(dtype=np.float64)
        found = np.where(np.isnan(served) | is_one_of(rows[USER_ID], out), found, served)
    return rows.assign(**{OWN: found})


def name_people(rows: pd.DataFrame, clicked: pd.DataFrame) -> AnyArray:
    """For each row whether its person had clicked anything in `clicked` before the row's session began.

    "seen before", "never seen" (also who opted out), or "unknown" where no person is named. It is known
    before the click, so lists may be judged by it.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"user_id": ["ann", "ann", None], "item_id": "a", "label": 1.0,
    ...                     "time": pd.to_datetime(["2024-05-01", "2024-05-02", "2024-05-03"])})
    >>> name_people(log, log).tolist()
    ['never seen', 'seen before', 'unknown']
    """
    people = name_ids(_take(rows, USER_ID))
    clicks = _list_clicks(clicked, find_opted_out(rows, clicked))
    first = clicks.groupby("person", sort=False)["when"].min()
    begins = _find_begins(rows, clicked, read_times(rows))
    earliest = _take_first(first, people)
    named = np.array([person is not None for person in people.tolist()], dtype=np.bool_)
    return np.where(named, np.where(earliest < begins, SEEN, UNSEEN), NOBODY).astype(object)


def hash_user(user: Any) -> str:
    """The SHA-256 of a person's id, 64 hexadecimal digits: all that a saved history says of who they are.

    Whoever can guess an id can compute this too: it hides ids that nobody can list, such as random ones.

    >>> hash_user("ann")[:8], hash_user(7) == hash_user("7")
    ('49915e0d', True)
    """
    return hashlib.sha256(str(user).encode("utf-8", "surrogatepass")).hexdigest()


def says_no(value: Any) -> bool:
    """Whether a `no_history` opts out: anything but false, 0, null, NaN and the texts "", "0", "false", "no".

    >>> [says_no(value) for value in (True, 1, "true", None, float("nan"), False, "no")]
    [True, True, True, False, False, False, False]
    """
    if isinstance(value, str):
        return value.strip().lower() not in NO
    return not is_missing(value) and bool(value)


def is_missing(value: Any) -> bool:
    """Whether a value is null, NaN, or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def find_opted_out(*tables: pd.DataFrame) -> set[str]:
    """The people who opted out in any row of any table, by their ids as texts."""
    found: set[str] = set()
    for table in tables:
        if OPT_OUT in table and USER_ID in table:
            chose = name_ids(table.loc[_read_flags(table[OPT_OUT]), USER_ID]).tolist()
            found |= {person for person in chose if person is not None}
    return found


def is_one_of(column: pd.Series[Any], people: set[str]) -> Bools:
    """Which rows of a column of ids are of these people."""
    return np.array([person in people for person in name_ids(column).tolist()], dtype=np.bool_)


def fade(counts: Floats, ages: Ints, half_life: float) -> Floats:
    """Counts after so many microseconds; a time before the last click fades nothing.

    >>> fade(np.array([2.0, 0.02]), np.array([DAY, 2 * DAY]), 1.0).tolist()
    [1.0, 0.0]
    """
    days = np.maximum(ages, 0) / DAY
    found = counts * np.exp2(-days / half_life)
    return np.where(found < LEAST, 0.0, found)


def check_half_life(half_life: Any) -> None:
    """Refuse a half-life that is no number of days above 0."""
    number = isinstance(half_life, int | float) and not isinstance(half_life, bool)
    if not number or not (math.isfinite(half_life) and half_life > 0):
        raise BadInput(f"half_life must be a number of days above 0. Got {half_life!r}.")


@dataclass(frozen=True, eq=False)
class OwnClicks:
    """What people clicked up to the end of a log, by person and item: the next request's `own_clicks`.

    `people` maps the SHA-256 of a person's id to their items, each with its count and the time of its last
    click (microseconds since 1970). `until` is the time of the newest search that it is of.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"user_id": "ann", "item_id": ["a", "b"], "label": [1.0, 0.0],
    ...                     "time": pd.to_datetime(["2024-05-01", "2024-05-31"])})
    >>> kept = OwnClicks.learn(log, half_life=30.0)
    >>> kept.look_up("ann", ["a", "b"], datetime(2024, 5, 31)).tolist(), kept.knows("bob")
    ([0.5, 0.0], False)
    """

    half_life: float = HALF_LIFE
    people: Mapping[str, Mapping[str, tuple[float, int]]] = field(default_factory=dict)
    until: int | None = None

    def __post_init__(self) -> None:
        check_half_life(self.half_life)

    @classmethod
    def learn(cls, rows: pd.DataFrame, *, half_life: float = HALF_LIFE, keep: bool = False) -> Self:
        """The clicks of a log (`user_id`, `item_id`, `time`, `label`), without people who opted out in it.

        With `keep=True` the log is one that a service wrote, and its `own_clicks` say what came before it: a
        count begins with what the item's first showing to the person with such a value says.
        """
        check_half_life(half_life)
        clicks = _list_clicks(rows, out := find_opted_out(rows))
        if keep and OWN in rows:
            clicks = _continue_clicks(rows, clicks, out)
        chains = _chain_clicks(clicks, half_life)
        times = read_times(rows)
        until = int(times.max(initial=NEVER))
        ends = np.flatnonzero(chains.is_last)
        alive = fade(chains.counts[ends], until - chains.when[ends], half_life) > 0.0
        people: dict[str, dict[str, tuple[float, int]]] = {}
        digests: dict[str, str] = {}
        for at in ends[alive].tolist():
            person = chains.people[at]
            digest = digests.get(person) or digests.setdefault(person, hash_user(person))
            people.setdefault(digest, {})[chains.items[at]] = float(chains.counts[at]), int(chains.when[at])
        return cls(float(half_life), people, None if until == NEVER else until)

    def look_up(
        self,
        user: Any,
        items: Sequence[str],
        time: datetime | None,
        *,
        no_history: Any = False,
        since: Iterable[tuple[str, int]] = (),
    ) -> Floats:
        """The counts of one person's items at a time, `[items]`; 0 for what is not known.

        `since` are clicks that came after the log, each an item and its time in microseconds.
        """
        if is_missing(user) or time is None or says_no(no_history):
            return np.zeros(len(items))
        asked, states = set(items), dict(self.find(user))
        for item, when in sorted((each for each in since if each[0] in asked), key=lambda each: each[1]):
            count, last = states.get(item, (0.0, when))
            faded = fade(np.array([count]), np.array([when - last]), self.half_life)[0]
            states[item] = float(1.0 + faded), max(when, last)
        return self._fade([states.get(item, (0.0, 0)) for item in items], as_micros(time))

    def find(self, user: Any) -> Mapping[str, tuple[float, int]]:
        """A person's items, each with its count and the time of its last click; none for nobody."""
        if is_missing(user):
            return {}
        return self.people.get(hash_user(_plain_id(user)), {})

    def knows(self, user: Any) -> bool:
        """Whether a person has clicked anything that has not faded."""
        return bool(self.find(user))

    def add_to(self, rows: pd.DataFrame) -> pd.DataFrame:
        """A log's rows with `own_clicks`, as `look_up` gives it for each search; all 0 without `user_id`."""
        if USER_ID not in rows or TIME not in rows:
            return rows.assign(**{OWN: 0.0})
        times = _read_any_times(rows)
        theirs = self._find_rows(rows)
        items = name_ids(rows[ITEM_ID]).tolist()
        states = [
            (0.0, 0) if own is None or item is None else own.get(item, (0.0, 0))
            for own, item in zip(theirs, items, strict=True)
        ]
        found = self._fade(states, times)
        return rows.assign(**{OWN: np.where(times == NEVER, 0.0, found)})

    def name_people(self, rows: pd.DataFrame) -> AnyArray:
        """For each row "seen before", "never seen", or "unknown" where no person is named."""
        if USER_ID not in rows:
            return np.full(len(rows), NOBODY, dtype=object)
        named = rows[USER_ID].notna().tolist()
        return np.array(
            [
                NOBODY if not told else SEEN if own else UNSEEN
                for told, own in zip(named, self._find_rows(rows), strict=True)
            ],
            dtype=object,
        )

    def without(self, user: Any) -> Self:
        """The same without a person."""
        gone = hash_user(_plain_id(user))
        return type(self)(
            self.half_life, {who: own for who, own in self.people.items() if who != gone}, self.until
        )

    def _find_rows(self, rows: pd.DataFrame) -> list[Mapping[str, tuple[float, int]] | None]:
        """Each row's person's items, None for nobody. Opting out is of a search here, as in a request."""
        people = name_ids(rows[USER_ID]).tolist()
        flags = _read_flags(rows[OPT_OUT]).tolist() if OPT_OUT in rows else [False] * len(rows)
        known = {person: self.find(person) for person in set(people) if person is not None}
        return [None if no else known.get(person) for person, no in zip(people, flags, strict=True)]

    def _fade(self, states: Sequence[tuple[float, int]], times: int | Ints) -> Floats:
        counts = np.array([count for count, _ in states], dtype=np.float64)
        last = np.array([when for _, when in states], dtype=np.int64)
        return fade(counts, times - last, self.half_life)

    def to_state(self) -> dict[str, Any]:
        """Plain values for JSON."""
        people = {
            who: {item: [count, when] for item, (count, when) in own.items()}
            for who, own in self.people.items()
        }
        return {"format": FORMAT, "half_life": self.half_life, "until": self.until, "people": people}

    @classmethod
    def from_state(cls, state: Any) -> Self:
        """What `to_state` gave; anything else is refused."""
        if not isinstance(state, Mapping) or state.get("format") != FORMAT:
            raise BadInput(f"a state of own clicks must be a dict of format {FORMAT}.")
        people, until = state.get("people"), state.get("until")
        if not isinstance(people, Mapping) or not isinstance(until, int | None):
            raise BadInput("a state of own clicks must have people and until, a time in microseconds.")
        found: dict[str, dict[str, tuple[float, int]]] = {}
        for who, own in people.items():
            if not isinstance(who, str) or DIGEST.fullmatch(who) is None or not isinstance(own, Mapping):
                raise BadInput("people of a state must map SHA-256 digests to their items.")
            found[who] = {str(item): _read_state(value) for item, value in own.items()}
        half_life = state.get("half_life")
        check_half_life(half_life)
        return cls(half_life, found, until)  # type: ignore[arg-type]  # checked


def as_micros(time: datetime) -> int:
    """Microseconds since 1970 of a time in UTC without a zone."""
    return int((time - datetime(1970, 1, 1)) // timedelta(microseconds=1))


# -- chains of clicks -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Chains:
    """Clicks by person and item, the oldest of each first, with the count just after each, all `[clicks]`."""

    people: AnyArray
    items: AnyArray
    when: Ints
    counts: Floats
    is_last: Bools

    def find_before(self, codes: Ints, ids: Ints, begins: Ints) -> tuple[Floats, Ints]:
        """The count after the last click strictly before `begins`, and its time; `codes` number the rows'
        chains as `ids`, which rise, do those of the clicks. No such click: 0, at `begins`."""
        moments, ranks = np.unique(np.concatenate([self.when, begins]), return_inverse=True)
        span = len(moments) + 1  # a number for chain and moment together sorts by both
        keys = ids * span + ranks[: len(self.when)]
        at = np.searchsorted(keys, codes * span + ranks[len(self.when) :], side="left")
        there = (codes >= 0) & (at > np.searchsorted(keys, codes * span, side="left"))
        if not len(keys):
            return np.zeros(len(codes)), begins
        return np.where(there, self.counts[at - 1], 0.0), np.where(there, self.when[at - 1], begins)


def _chain_clicks(clicks: pd.DataFrame, half_life: float) -> _Chains:
    """Clicks (`person`, `item`, `when`, `weight`) put into chains and counted up."""
    people, items = (clicks[name].to_numpy(dtype=object) for name in ("person", "item"))
    codes, _ = number_pairs(number_names(people, people), number_names(items, items))
    when, weight = clicks["when"].to_numpy(dtype=np.int64), clicks["weight"].to_numpy(dtype=np.float64)
    order = np.lexsort((when, codes))
    codes, when, counts = codes[order], when[order], weight[order]
    is_first = np.append(True, codes[1:] != codes[:-1])[: len(codes)]
    starts = np.flatnonzero(is_first)
    place = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    by_place = np.argsort(place, kind="stable")
    borders = np.searchsorted(place[by_place], np.arange(1, int(place.max(initial=0)) + 2))
    for start, stop in pairwise(borders.tolist()):  # all second clicks, then all third ones, …
        here = by_place[start:stop]
        counts[here] += fade(counts[here - 1], when[here] - when[here - 1], half_life)
    return _Chains(people[order], items[order], when, counts, np.append(is_first[1:], True)[: len(codes)])


def _list_clicks(rows: pd.DataFrame, out: set[str]) -> pd.DataFrame:
    """The clicks of people who did not opt out: `person`, `item`, `when`, `weight` 1."""
    wins = rows[(_take(rows, LABEL) > 0) & _take(rows, USER_ID).notna()]
    wins = wins[_take(wins, ITEM_ID).notna() & _take(wins, TIME).notna()]
    found = _make_clicks(wins, np.ones(len(wins)))
    return found[~found["person"].isin(out)] if out else found


def _make_clicks(rows: pd.DataFrame, weight: Floats) -> pd.DataFrame:
    pandas = need_library("pandas", "own clicks")
    frame: pd.DataFrame = pandas.DataFrame(
        {
            "person": name_ids(rows[USER_ID]), "item": name_ids(rows[ITEM_ID]), "when": read_times(rows),
            "weight": weight,
        }
    )  # fmt: skip
    return frame


def _continue_clicks(rows: pd.DataFrame, clicks: pd.DataFrame, out: set[str]) -> pd.DataFrame:
    """The clicks, those before an item's first showing with a served value replaced by that value."""
    pandas = need_library("pandas", "own clicks")
    told = rows[rows[OWN].notna() & rows[USER_ID].notna() & rows[ITEM_ID].notna() & rows[TIME].notna()]
    shown = _make_clicks(told, told[OWN].to_numpy(dtype=np.float64))
    shown = shown[~shown["person"].isin(out)].sort_values("when", kind="stable")
    first = shown.drop_duplicates(["person", "item"])
    begun = clicks.merge(first[["person", "item", "when"]], on=["person", "item"], suffixes=("", "_first"),
                         how="left")  # fmt: skip
    later = begun[~(begun["when"] < begun["when_first"])][["person", "item", "when", "weight"]]
    joined: pd.DataFrame = pandas.concat([first[first["weight"] > 0], later], ignore_index=True)
    return joined


def _find_begins(rows: pd.DataFrame, clicked: pd.DataFrame, asked: Ints) -> Ints:
    """When each row's session began, as far as the tables know; the row's own time where it has none."""
    pandas = need_library("pandas", "own clicks")
    if SESSION_ID not in rows:
        return asked
    parts = [(rows, asked)]
    if SESSION_ID in clicked:
        parts.append((clicked, read_times(clicked)))
    sessions = [pandas.Series(name_ids(table[SESSION_ID]), dtype=object) for table, _ in parts]
    seen = pandas.DataFrame(
        {"session": pandas.concat(sessions, ignore_index=True), "time": np.concatenate([t for _, t in parts])}
    )
    begins = seen[seen["time"] != NEVER].groupby("session", sort=False)["time"].min()
    return np.minimum(_take_first(begins, sessions[0].to_numpy(dtype=object)), asked)


def _take_first(times: pd.Series[Any], names: AnyArray) -> Ints:
    """The time of each name, by the index; the latest there is for a name that is not in it."""
    codes, _ = number_names(names, times.index.to_numpy(dtype=object))
    found: Ints = np.append(times.to_numpy(dtype=np.int64), np.iinfo(np.int64).max)[codes]
    return found


def _read_flags(column: pd.Series[Any]) -> Bools:
    """Which values opt out; each different one is looked at once."""
    codes, values = need_library("pandas", "own clicks").factorize(column)
    found: Bools = np.array([*map(says_no, values), False], dtype=np.bool_)[codes]
    return found


def _take(table: pd.DataFrame, name: str) -> pd.Series[Any]:
    if name not in table:
        raise BadInput(
            f"own clicks need a column {name}. Got {', '.join(map(str, table.columns)) or 'none'}."
        )
    return table[name]


def _read_any_times(rows: pd.DataFrame) -> Ints:
    """`read_times`, also of a column of datetimes and ISO texts, each read by itself, as a request's is."""
    column = rows[TIME]
    if column.dtype.kind == "M":
        return read_times(rows)
    codes, values = need_library("pandas", "own clicks").factorize(column)
    try:
        micros = [as_micros(as_utc(value)) for value in values]
    except ValueError as error:
        raise BadInput(f"time must hold times (datetime64). Got {error}.") from error
    found: Ints = np.array([*micros, NEVER], dtype=np.int64)[codes]
    return found


def _plain_id(user: Any) -> Any:
    """Whole numbers that pandas made floats, as they were."""
    return int(user) if isinstance(user, float) and user.is_integer() else user


def _read_state(value: Any) -> tuple[float, int]:
    if isinstance(value, list | tuple) and len(value) == 2:
        count, when = value
        if isinstance(count, int | float) and type(when) is int and math.isfinite(count) and count >= 0:
            return float(count), when
    raise BadInput("an item of a state must have a count and a time in microseconds.")
