"""What a process has read of an index before: rows to judge, places to show, who is near a point.

An index never changes while it is open, so nothing here grows stale. Each store is bounded by the letters
that it holds, whatever their number, and forgets what was not used for longest.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from placings.places.engines.sqlite_index import COLUMNS
from placings.places.place import Place
from placings.rerank import Focus

BOXES = tuple(0.005 * 3**step for step in range(7))  # half a box around a point: 0.5 to 400 km, as degrees
CROWD = 1500  # places in such a box that are looked at
KEPT_LETTERS = 1 << 24  # of all that one store holds; two bytes each at most, but for rare scripts
OVERHEAD = 400  # bytes that an entry takes beside its letters, about
KEPT_CANDIDATE = 400  # bytes of a judged row, which may be in no other store any more

CHOSEN = "number IN (SELECT value FROM json_each(?))"
ROWS = f"SELECT * FROM text WHERE {CHOSEN}"
PLACES = f"SELECT * FROM place WHERE {CHOSEN}"
WITHIN = "south >= ? AND north <= ? AND west >= ? AND east <= ?"
CROWDED = f"SELECT count(*) FROM (SELECT 1 FROM spot WHERE {WITHIN} LIMIT ?)"
NEARBY = f"""
SELECT text.number, text.layer, replace(text.main || text.other, char(10), ' ') || text.context
FROM spot CROSS JOIN text ON text.number = spot.number WHERE {WITHIN} LIMIT {CROWD}
"""

K = TypeVar("K")
V = TypeVar("V")


class Row(NamedTuple):
    """What the index keeps of a place to judge it by."""

    number: int
    popularity: float
    lat: float
    lon: float
    main: str  # "\nkarlsruhe hbf\nkarlsruhe hauptbahnhof\n"
    other: str
    context: str  # " karlsruhe 76137 "
    layer: int
    cos_lat: float


class Store(Generic[K, V]):
    """The values used last, as many as have `most` letters together; many threads may ask.

    >>> store: Store[int, str] = Store(most=2 * OVERHEAD)
    >>> for number in (1, 2, 3): store.put(number, "x", 0)
    >>> store.get(1), store.get(3)
    (None, 'x')
    """

    def __init__(self, most: int = KEPT_LETTERS) -> None:
        self.most = most
        self._known: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._letters = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: K) -> V | None:
        """The value, which is then the one used last; None if it is not kept."""
        with self._lock:
            found = self._known.get(key)
            if found is None:
                return None
            self._known.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, letters: int) -> None:
        """Keep a value of so many letters; one that alone is too much is not kept."""
        size = letters + OVERHEAD
        if size > self.most:
            return
        with self._lock:
            before = self._known.pop(key, None)
            self._letters += size - (before[1] if before is not None else 0)
            self._known[key] = value, size
            while self._letters > self.most:
                self._letters -= self._known.popitem(last=False)[1][1]

    def pick(self, keys: Iterable[K]) -> tuple[list[V], list[K]]:
        """The values that are kept, and the keys of those that are not."""
        found: list[V] = []
        missing: list[K] = []
        known = self._known
        with self._lock:
            for key in keys:
                kept = known.get(key)
                if kept is None:
                    missing.append(key)
                else:
                    known.move_to_end(key)
                    found.append(kept[0])
        return found, missing


class Judged(NamedTuple):
    """What a reading of a text finds, wherever people are: places, and what text and popularity are worth.

    `exact`: a name was typed in full; `crowded`: more fit than were looked at.
    """

    rows: list[tuple[float, Row]]
    exact: bool
    crowded: bool


class ShownPlace(NamedTuple):
    """A place as a hit shows it. Lists among its fields are made anew for each hit: a caller owns its hit."""

    id: str
    fields: dict[str, Any]
    nested: str = ""  # the fields that hold lists, as JSON

    def copy_fields(self) -> dict[str, Any]:
        """All fields, for one hit."""
        return {**self.fields} if not self.nested else {**json.loads(self.nested), **self.fields}


class Around:
    """The places near a point: their numbers, layers, and words as one text, a line for each."""

    def __init__(self, rows: Sequence[tuple[int, int, str]]) -> None:
        self.numbers = [number for number, _, _ in rows]
        self.layers = [layer for _, layer, _ in rows]
        self.words = "\n".join(words for _, _, words in rows)
        self._starts: list[int] = []
        at = 0
        for _, _, words in rows:
            self._starts.append(at)
            at += len(words) + 1

    def find(self, texts: Iterable[str]) -> set[int]:
        """The places in `numbers` of those whose words hold one of the texts."""
        found: set[int] = set()
        words, starts = self.words, self._starts
        for text in texts:
            at = words.find(text)
            while at >= 0:
                place = bisect_right(starts, at) - 1
                found.add(place)
                if place + 1 == len(starts):
                    break
                at = words.find(text, starts[place + 1])
        return found


class KeptIndex:
    """Reads an index through a connection, and remembers."""

    def __init__(self) -> None:
        self.rows: Store[int, Row] = Store()
        self.places: Store[int, ShownPlace] = Store()
        self.around: Store[Focus, list[Around]] = Store()
        self.readings: Store[Hashable, Judged] = Store()

    def read_rows(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> list[Row]:
        """The rows of these numbers, in any order."""
        found, missing = self.rows.pick(numbers)
        if missing:
            for values in connection.execute(ROWS, (json.dumps(missing),)).fetchall():
                row = Row._make((*values, math.cos(math.radians(values[2]))))
                self.rows.put(row.number, row, len(row.main) + len(row.other) + len(row.context))
                found.append(row)
        return found

    def read_places(self, connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, ShownPlace]:
        """The places of these numbers, as hits show them."""
        found: dict[int, ShownPlace] = {}
        missing = []
        for number in numbers:
            kept = self.places.get(number)
            if kept is None:
                missing.append(number)
            else:
                found[number] = kept
        if missing:
            rows = connection.execute(PLACES, (json.dumps(missing),)).fetchall()
            for number, place in make_places(rows).items():
                found[number] = shown = _show(place)
                letters = sum(len(value) for value in shown.fields.values() if isinstance(value, str))
                self.places.put(number, shown, letters + sum(map(len, place.names)) + len(shown.nested))
        return found

    def read_around(self, connection: sqlite3.Connection, focus: Focus) -> list[Around]:
        """The places in the largest box around a point that is no crowd (R*Tree); box by box at an edge."""
        found = self.around.get(focus)
        if found is None:
            chosen = make_boxes(focus, BOXES[0])
            for half in BOXES:
                boxes = make_boxes(focus, half)
                if max(connection.execute(CROWDED, (*box, CROWD)).fetchone()[0] for box in boxes) == CROWD:
                    break
                chosen = boxes
            found = [Around(connection.execute(NEARBY, box).fetchall()) for box in chosen]
            self.around.put(focus, found, sum(len(each.words) for each in found))
        return found


def make_places(rows: Iterable[Any]) -> dict[int, Place]:
    """Rows of the table `place` as places, by number."""
    places = {}
    for number, *values, names, fields in rows:
        places[number] = Place(
            **dict(zip(COLUMNS, values, strict=True)),
            names=tuple(names.split("\n")) if names else (),
            fields=json.loads(fields) if fields else {},
        )
    return places


def _show(place: Place) -> ShownPlace:
    hit = place.to_hit(0.0, 0)
    lists = {name: value for name, value in hit.fields.items() if isinstance(value, list | dict)}
    plain = {name: value for name, value in hit.fields.items() if name not in lists}
    return ShownPlace(hit.id, plain, json.dumps(lists) if lists else "")


def make_boxes(focus: Focus, half: float) -> list[tuple[float, float, float, float]]:
    """A box around the focus, in two parts where it crosses the date line."""
    lat, lon = focus
    wide = min(180.0, half / max(0.01, math.cos(math.radians(lat))))
    south, north, west, east = lat - half, lat + half, lon - wide, lon + wide
    boxes = [(south, north, west, east)]
    if west < -180.0:
        boxes.append((south, north, west + 360.0, 180.0))
    if east > 180.0:
        boxes.append((south, north, -180.0, east - 360.0))
    return boxes
