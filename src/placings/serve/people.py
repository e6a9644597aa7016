"""From lists and clicks to people: one pass over the store of events, and what each person did, once.

A person is a user, or a session where no user is named; lists without either are counted and left out, as
nobody can say whose they are. Keystrokes that grow from each other are one search. Memory grows with people
and their sessions, not with lists: clicks are joined to lists by SQLite, which spills to the disk.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

import numpy as np

from placings.core import AnyArray, BadFile, BadInput, Bools, Floats, Ints, parse_json
from placings.serve.arms import Arm
from placings.serve.click_counts import CLICKS
from placings.serve.event_store import FILE

SECOND = 1_000_000  # the store's times are whole microseconds
HOUR = 3_600 * SECOND
GRACE = HOUR  # after a person's window, for clicks on its last lists
TYPING = 30 * SECOND  # between two keystrokes of one search, as `placings log join` has it
PAUSE = 30 * 60 * SECOND  # ends a session that has no id

FIELDS = (
    "experiment", "arms", "arm", "fallback", "session_id", "query", "swapped", "swap_probability",
    "swap_reach",
)  # fmt: skip
LISTS = """
SELECT s.time, s.user_id, json_extract(s.body, {paths}), c.clicks,
       CASE WHEN c.clicks IS NULL THEN NULL ELSE s.body END
FROM shown s LEFT JOIN temp.click c ON c.search_id = s.search_id ORDER BY s.time
""".format(paths=", ".join(f"'$.{name}'" for name in (*FIELDS, "results[0].shown_probability")))
JOIN = f"""
INSERT INTO temp.click
SELECT search_id, json_group_array(json_array(json_extract(body, '$.item_id'), time)) FROM event
WHERE trusted = 1 AND json_extract(body, '$.action') IN ({", ".join(f"'{name}'" for name in sorted(CLICKS))})
GROUP BY search_id
"""
LAST = "SELECT json_extract(body, '$.experiment') FROM shown ORDER BY time DESC LIMIT 1"
COUNTED = {
    "untrusted events": "SELECT count(*) FROM event WHERE trusted = 0",
    "searches clicked whose list is not there": (
        "SELECT count(*) FROM temp.click WHERE search_id NOT IN (SELECT search_id FROM shown)"
    ),
}


@dataclass(frozen=True)
class CountingRules:
    """Who counts, and for how long.

    A person's value is what they did in the `hours` after their first list, and is counted once these and an
    hour more for clicks are over: it never changes afterwards, which is what makes looking at all times safe.
    With `hours` 0 everything so far counts at once. Whoever has more than `most_lists` lists in an hour, or
    clicks sooner than `quickest_ms` after a list was sent, is taken for a bot.
    """

    hours: float = 24.0
    most_lists: int = 1_000
    quickest_ms: float = 50.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.hours <= 10_000.0:
            raise BadInput(f"hours must be from 0 to 10000. Got {self.hours!r}.")
        if self.most_lists < 1:
            raise BadInput(f"most_lists must be 1 or more. Got {self.most_lists!r}.")
        if not self.quickest_ms >= 0.0:
            raise BadInput(f"quickest_ms must be 0 or more. Got {self.quickest_ms!r}.")


@dataclass
class Swaps:
    """What exploration did: lists that could be swapped, and sessions, whose swaps are independent draws."""

    lists: int = 0
    swapped: int = 0
    sessions: int = 0
    swapped_sessions: int = 0
    expected_sessions: float = 0.0
    weights: float = 0.0  # sums of 1/propensity at position 1 and of its square, once a session
    squares: float = 0.0
    expected_weights: float = 0.0  # how many items might have stood there, summed over sessions


@dataclass
class People:
    """What a pass over the store found, for one experiment.

    `arms` are all arms that were ever named, `dealt` people by the shares under which they came, `kept` the
    same without bots. The arrays have one value for each person who counts, in the order in which they came.
    """

    experiment: str
    arms: dict[str, Arm]
    dealt: dict[str, Counter[str]]
    kept: dict[str, Counter[str]]
    counts: Counter[str]  # what was left out, by its reason
    lists: Counter[str]  # by arm, of people who are kept
    fallbacks: Counter[str]  # by arm
    bots: Counter[str]  # by arm
    swaps: Swaps
    arm: AnyArray = field(default_factory=lambda: np.zeros(0, dtype=object))
    time: Floats = field(default_factory=lambda: np.zeros(0))  # seconds, when each began to count
    searches: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    sessions: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    values: dict[str, Floats] = field(default_factory=dict)  # by metric
    preference: Floats = field(default_factory=lambda: np.zeros(0))  # second order less first; NaN: no click

    def is_in(self, arm: str) -> Bools:
        """Which people have this arm."""
        return np.asarray(self.arm == arm, dtype=bool)


class _Person:
    """One person while the lists go by."""

    __slots__ = (
        "arm", "best", "bot", "clicked", "decided", "first", "hour", "in_hour", "last", "lists", "moved",
        "ranks", "searches", "session", "sessions", "shares", "text", "won",
    )  # fmt: skip

    def __init__(self, arm: str, shares: str, first: int) -> None:
        self.arm, self.shares, self.first = arm, shares, first
        self.lists = self.searches = self.clicked = self.in_hour = self.hour = self.decided = self.won = 0
        self.ranks = self.best = 0.0  # sum of reciprocal ranks; that of the search under way
        self.sessions: dict[str, bool] = {}  # whether anything was clicked
        self.session: str | None = None
        self.text: str | None = None
        self.last = 0
        self.moved = self.bot = False


def read_people(
    folder: str | Path,
    *,
    experiment: str | None = None,
    rules: CountingRules | None = None,
    now: float | None = None,
) -> People:
    """Read the people of an experiment, by default the last one, from the events of a folder.

    The store is read as it is at one moment, while the service writes on.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise BadInput(f"{folder} has no {FILE}. Name the folder that `placings serve --data` was given.")
    try:
        connection = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=5.0, isolation_level=None
        )
        try:
            return _read(connection, experiment, rules or CountingRules(), time() if now is None else now)
        finally:
            connection.close()
    except sqlite3.DatabaseError as error:
        raise BadFile(path, f"cannot be read: {error}.") from None


def _read(connection: sqlite3.Connection, experiment: str | None, rules: CountingRules, now: float) -> People:
    connection.execute("PRAGMA temp_store = FILE")
    connection.execute("BEGIN")  # everything below is of one moment
    last = connection.execute(LAST).fetchone()
    if last is None:
        raise BadInput("no list has been shown yet. Search first, or name another folder with --data.")
    wanted = experiment if experiment is not None else last[0]
    if wanted is None:
        raise BadInput("the last list names no experiment. It is older than this placings; name one.")
    connection.execute(
        "CREATE TABLE temp.click (search_id TEXT PRIMARY KEY, clicks TEXT NOT NULL) WITHOUT ROWID"
    )
    connection.execute(JOIN)
    counts = Counter({name: int(connection.execute(asked).fetchone()[0]) for name, asked in COUNTED.items()})
    found = _Pass(str(wanted), rules, counts)
    for row in connection.execute(LISTS):
        found.take(*row)
    if not found.people:
        raise BadInput(f"no list of experiment {wanted!r} has a user or a session. Nothing can be counted.")
    return found.finish(now)


class _Pass:
    """The state of one pass over the lists, in the order of time."""

    def __init__(self, experiment: str, rules: CountingRules, counts: Counter[str]) -> None:
        self.rules, self.counts = rules, counts
        self.window = round(rules.hours * HOUR)
        self.found = People(experiment, {}, {}, {}, counts, Counter(), Counter(), Counter(), Swaps())
        self.people: dict[str, _Person] = {}

    def take(self, at: int, user: str | None, told: str, clicks: str | None, body: str | None) -> None:
        """Take one list."""
        experiment, arms, arm, fallback, session, text, swapped, chance, reach, top = json.loads(told)
        if experiment != self.found.experiment:
            self.counts["lists of other experiments"] += 1
            return
        if arms not in self.found.dealt:
            self._meet(arms)
        if user is None and session is None:
            self.counts["lists without a user or a session"] += 1
            return
        who = f"user {user}" if user is not None else f"session {session}"
        person = self.people.get(who)
        if person is None:
            person = self.people[who] = _Person(arm, arms, at)
        if self.window and at >= person.first + self.window:
            self.counts["lists after a person's window"] += 1
            return
        if arm != person.arm:
            person.moved = True
            self.counts["lists in another arm than the person's first"] += 1
            return
        best = self._click(person, at, clicks, body)
        begins = self._search(person, at, session, text, best)
        self._swap(begins, swapped, chance, reach, top)
        person.lists += 1
        self._count_hour(person, at)
        if fallback is not None:
            self.found.fallbacks[arm] += 1

    def _meet(self, arms: str) -> None:
        self.found.dealt[arms] = Counter()
        for each in map(Arm.parse, arms.split()):
            self.found.arms[each.name] = each

    def _click(self, person: _Person, at: int, clicks: str | None, body: str | None) -> float:
        """The reciprocal rank of a list's best click, 0 without one; which team won; bots."""
        if clicks is None or body is None:
            return 0.0
        places = {}
        for result in parse_json(body)["results"]:
            places[str(result.get("item_id"))] = (int(result["position"]), result.get("team"))
        until = person.first + self.window + GRACE if self.window else None
        best, teams = 0.0, Counter[str]()
        for item, moment in json.loads(clicks):
            if until is not None and moment >= until:
                self.counts["clicks after a person's window"] += 1
            elif str(item) not in places:
                self.counts["clicks on items that were not shown"] += 1
            else:
                position, team = places[str(item)]
                best = max(best, 1.0 / position)
                if team is not None:
                    teams[team] += 1
                if moment - at < self.rules.quickest_ms * 1_000:
                    person.bot = True
        if teams:
            one, other = self.found.arms[person.arm].shows
            person.decided += 1
            person.won += (teams[other] > teams[one]) - (teams[other] < teams[one])
        return best

    def _search(self, person: _Person, at: int, session: str | None, text: Any, best: float) -> bool:
        """Add a list to the person's search under way, or begin another; whether a session begins."""
        told = " ".join(str(text or "").lower().split())
        same = session if session is not None else self._find_unnamed(person, at)
        goes_on = (
            person.text is not None
            and same == person.session
            and at - person.last <= TYPING
            and bool(told and person.text)
            and (told.startswith(person.text) or person.text.startswith(told))
        )
        if not goes_on:
            person.searches += 1
            person.best = 0.0
        if best > person.best:  # in place of what the search had before
            person.clicked += person.best == 0.0
            person.ranks += best - person.best
            person.best = best
        begins = same not in person.sessions
        person.sessions[same] = best > 0.0 or person.sessions.get(same, False)
        person.session, person.text, person.last = same, told, at
        return begins

    @staticmethod
    def _find_unnamed(person: _Person, at: int) -> str:
        if person.session is not None and at - person.last <= PAUSE:
            return person.session
        return f"\x00{len(person.sessions)}"

    def _swap(
        self, begins: bool, swapped: int, chance: float | None, reach: int | None, top: float | None
    ) -> None:
        if not chance:
            return
        swaps = self.found.swaps
        swaps.lists += 1
        swaps.swapped += swapped > 0
        if begins:
            weight = 1.0 / top if top else 1.0
            swaps.sessions += 1
            swaps.swapped_sessions += swapped > 0
            swaps.expected_sessions += chance
            swaps.weights += weight
            swaps.squares += weight * weight
            swaps.expected_weights += 1 + (reach or 1)  # lists that do not say swapped neighbours

    def _count_hour(self, person: _Person, at: int) -> None:
        hour = (at - person.first) // HOUR
        person.in_hour = person.in_hour + 1 if hour == person.hour else 1
        person.hour = hour
        if person.in_hour > self.rules.most_lists:
            person.bot = True

    def finish(self, now: float) -> People:
        """The people who count, as arrays."""
        found = self.found
        found.kept = {arms: Counter() for arms in found.dealt}
        ready = round(now * SECOND) - self.window - GRACE if self.window else None
        rows: list[_Person] = []
        for person in self.people.values():
            found.dealt[person.shares][person.arm] += 1
            self.counts["people who saw more than one arm"] += person.moved
            if person.bot:
                found.bots[person.arm] += 1
                continue
            found.kept[person.shares][person.arm] += 1
            found.lists[person.arm] += person.lists
            if ready is not None and person.first > ready:
                self.counts["people whose window is not over"] += 1
            else:
                rows.append(person)
        found.arm = np.array([each.arm for each in rows], dtype=object)
        offset = self.window + GRACE if self.window else 0
        found.time = np.array([(each.first + offset) / SECOND for each in rows], dtype=np.float64)
        found.searches = np.array([each.searches for each in rows], dtype=np.int64)
        found.sessions = np.array([len(each.sessions) for each in rows], dtype=np.int64)
        total = np.maximum(found.searches, 1)
        failed = np.array([sum(not won for won in each.sessions.values()) for each in rows], dtype=np.float64)
        found.values = {
            "CTR": np.array([each.clicked for each in rows], dtype=np.float64) / total,
            "click MRR": np.array([each.ranks for each in rows], dtype=np.float64) / total,
            "failed sessions": failed / np.maximum(found.sessions, 1),
        }
        found.preference = np.array(
            [each.won / each.decided if each.decided else np.nan for each in rows], dtype=np.float64
        )
        return found
