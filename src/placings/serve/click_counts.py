"""How often each item was clicked: what the model learned from, and what came in since, from all workers."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic

from placings.core import parse_json

CLICKS = frozenset({"click", "cart", "purchase"})


class ClickCounts:
    """Clicks by item, read from the store of events at most every `delay` seconds.

    Events are read in the order of their commits, each once, whichever worker took them. `look_up` is what
    a request's items are given as `past_clicks`.
    """

    def __init__(
        self,
        path: Path,
        learned: Mapping[str, int],
        *,
        delay: float = 2.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._path, self._delay, self._clock = path, delay, clock
        self._learned = learned
        self._since: Counter[str] = Counter()
        self._last = 0
        self._next = 0.0
        self._lock = threading.Lock()

    def look_up(self, item: str) -> int:
        """Clicks on an item so far."""
        return self._learned.get(item, 0) + self._since.get(item, 0)

    def follow(self, *, now: bool = False) -> int:
        """Read what came in since; returns how many clicks were new. Quick if the delay is not over."""
        if not self._lock.acquire(blocking=now):
            return 0
        try:
            if not now and self._clock() < self._next:
                return 0
            self._next = self._clock() + self._delay
            return self._read()
        finally:
            self._lock.release()

    def start_after(self, row: int) -> None:
        """Count only events after this row of the store: those before it are in what was learned."""
        with self._lock:
            self._last = row
            self._since.clear()

    def _read(self) -> int:
        connection = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro", uri=True, timeout=1.0)
        try:
            rows = connection.execute(
                "SELECT number, body FROM event WHERE number > ? AND trusted = 1 ORDER BY number",
                (self._last,),
            ).fetchall()
        finally:
            connection.close()
        new = 0
        for row, body in rows:
            event = parse_json(body)
            if event.get("action") in CLICKS and event.get("item_id") is not None:
                self._since[str(event["item_id"])] += 1
                new += 1
            self._last = row
        return new
