"""How often each item was clicked, and by whom: what the model learned from, and what came in since."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import Any

from placings.core import Floats, escape_line
from placings.logs import OwnClicks, hash_user, says_no
from placings.serve.event_store import REWRITTEN
from placings.serve.export import FAR, choose_time

LOG = logging.getLogger("placings.serve")
CLICKS = ("click", "cart", "purchase")  # what `placings log join` gives a grade
MOST = 2_000  # events that a request reads; what is more waits for the next one
LATE = 3  # readings in which an event may still find its impression: another worker writes it a little later
MOST_SESSIONS = 100_000  # whose own clicks are known apart; beyond, the oldest session's count for it too
MOST_PEOPLE = 100_000  # whose clicks since the model was trained are known; who came first is forgotten first
MOST_OF_A_PERSON = 200  # clicks since then that count for them, the newest
ARE_CLICKS = f"IN ({', '.join(map(repr, CLICKS))})"
FIELDS = f"""
e.number, e.item_id, s.search_id IS NOT NULL, e.action {ARE_CLICKS}, s.time, s.user_id,
json_extract(s.body, '$.session_id'), json_extract(s.body, '$.no_history'), json_extract(s.body, '$.time')
"""
# an export's time of a search may be FAR from the store's; `_take` asks exactly
COUNTS = f"""
e.trusted = 1 AND (s.search_id IS NULL OR (s.time > :learned - {FAR}
    AND EXISTS (SELECT 1 FROM json_each(s.body, '$.results') shown
                WHERE CAST(json_extract(shown.value, '$.item_id') AS TEXT) = e.item_id)
    AND NOT EXISTS (SELECT 1 FROM event b WHERE b.search_id = e.search_id AND b.item_id = e.item_id
                    AND b.trusted = 1 AND b.number < e.number
                    AND b.action {ARE_CLICKS})))
"""
ASKED = f"""
SELECT {FIELDS}, {COUNTS} FROM event e LEFT JOIN shown s ON s.search_id = e.search_id
WHERE e.number > :last ORDER BY e.number LIMIT :most
"""
ASKED_AGAIN = f"""
SELECT {FIELDS}, {COUNTS} FROM event e LEFT JOIN shown s ON s.search_id = e.search_id
WHERE e.number = :number
"""


class ClickCounts:
    """Clicks by item, read from the store of events at most every `delay` seconds.

    Events are read in the order of their commits, each once, whichever worker took them. What counts is what
    the join will count: a trusted click, cart or purchase on an item of a list that is in the store, once for
    each item of a search.

    `learned` are the clicks of the model's own log, and `until` (microseconds) is the time of the newest
    search in it: clicks on searches up to then are in `learned` or left out, and never counted twice. The
    time of a search is the one that an export writes, which the caller may have told.
    `look_up` is what a request's items are given as `past_clicks`: like `add_past_clicks` in a log, all
    clicks but those of the request's own session.

    `own` is what the model learned of people's own clicks, if it did. `look_up_own`, for `own_clicks`, adds
    what the person has clicked since, again without the request's own session: the last `MOST_OF_A_PERSON`
    clicks of at most `MOST_PEOPLE` people. Clicks on lists whose `no_history` was true are not kept for it.
    """

    def __init__(
        self,
        path: Path,
        learned: Mapping[str, int],
        *,
        until: int | None = None,
        delay: float = 2.0,
        own: OwnClicks | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._path, self._delay, self._clock = path, delay, clock
        self._learned, self._until = learned, -1 if until is None else until
        self._own = own
        self.is_of_items = bool(learned) or own is None  # a model may look at people's own clicks alone
        self._since: Counter[str] = Counter()
        self._sessions: dict[str, Counter[str]] = {}
        self._people: dict[
            str, list[tuple[str | None, str, int]]
        ] = {}  # session, item and time of each click
        self._orphans: dict[int, int] = {}  # number of an event: readings that are left
        self._last = 0
        self._rewritten: int | None = None
        self._next = 0.0
        self._lock = threading.Lock()

    def look_up(self, item: str, session: str | None = None) -> int:
        """Clicks on an item so far, but for those of a session."""
        theirs = None if session is None else self._sessions.get(session)
        mine = 0 if theirs is None else theirs[item]
        return self._learned.get(item, 0) + self._since.get(item, 0) - mine

    def look_up_own(
        self,
        user: str | None,
        items: Sequence[str],
        time: datetime,
        *,
        session: str | None = None,
        no_history: Any = False,
    ) -> Floats | None:
        """A person's own clicks on items, but for those of a session, `[items]`; None without histories."""
        if self._own is None:
            return None
        clicks = [] if user is None else list(self._people.get(hash_user(user), ()))
        since = [(item, when) for other, item, when in clicks if session is None or other != session]
        return self._own.look_up(user, items, time, no_history=no_history, since=since)

    def follow(self, *, now: bool = False) -> int:
        """Read what came in since; returns how many clicks were new. Quick if the delay is not over.

        `now=True` reads all there is; otherwise at most `MOST` events, so that no request waits for long. A
        store that cannot be read leaves the counts as they are.
        """
        if not self._lock.acquire(blocking=now):
            return 0
        try:
            if not now and self._clock() < self._next:
                return 0
            self._next = self._clock() + self._delay
            return self._read(-1 if now else MOST)
        except sqlite3.Error as error:
            LOG.warning("past clicks stay as they are: %s", escape_line(error)[:200])
            return 0
        finally:
            self._lock.release()

    def _read(self, most: int) -> int:
        address = f"{self._path.resolve().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=1.0, isolation_level=None)) as connection:
            connection.execute("BEGIN")  # one moment
            asked = "SELECT value FROM about WHERE name = ?"
            rewritten = int(connection.execute(asked, (REWRITTEN,)).fetchone()[0])
            if rewritten != self._rewritten:  # rows were taken out: their clicks go too
                self._since, self._orphans, self._last, self._rewritten = Counter(), {}, 0, rewritten
                self._sessions, self._people = {}, {}
                most = -1
            new = 0
            for number in list(self._orphans):
                told = {"number": number, "learned": self._until}
                new += self._take(connection.execute(ASKED_AGAIN, told).fetchone())
            told = {"last": self._last, "most": most, "learned": self._until}
            for row in connection.execute(ASKED, told):
                self._last = row[0]
                new += self._take(row)
            return new

    def _take(self, row: tuple[Any, ...]) -> int:
        number, item, is_shown, is_click, at, user, session, no_history, told, counts = row
        left = self._orphans.pop(number, LATE)
        if not counts or not is_click or item is None:
            return 0
        if not is_shown:
            if left > 0:
                self._orphans[number] = left - 1
            return 0
        time = choose_time(told, at)
        if time <= self._until:
            return 0
        self._since[item] += 1
        where = None if session is None else str(session)
        if where is not None:
            self._sessions.setdefault(where, Counter())[item] += 1
            if len(self._sessions) > MOST_SESSIONS:
                del self._sessions[next(iter(self._sessions))]
        if self._own is not None and user is not None and not says_no(no_history):
            person = hash_user(user)  # another thread may look: a list is replaced, never changed
            self._people[person] = [*self._people.get(person, ()), (where, item, time)][-MOST_OF_A_PERSON:]
            if len(self._people) > MOST_PEOPLE:
                del self._people[next(iter(self._people))]
        return 1
