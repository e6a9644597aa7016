"""What a process has read of an index before: rows to judge, places to show, who is near a point.

An index never changes while it is open, so nothing here grows stale. Each store is bounded by the letters
that it holds, whatever their number, and forgets what was not used for longest.
"""

from __future__ import annotations

import json
import math
import sqlite3
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from placings.places.engines.sqlite_held import HeldAround, HeldIndex
from placings.places.engines.sqlite_index import COLUMNS
from placings.places.place import Place
from placings.rerank import Focus

BOXES = tuple(0.005 * 3**step for step in range(7))  # half a box around a point: 0.5 to 400 km, as degrees
CROWD = 1500  # places in such a box that are looked at
KEPT_LETTERS = 1 << 24  # of all that one store holds; two bytes each at most, but for rare scripts
OVERHEAD = 400  # bytes that an entry takes beside its letters, about
KEPT_READINGS = 1 << 22  # bytes of readings of texts; most texts find few places
KEPT_CANDIDATE, KEPT_READING = 40, 600  # bytes of a judged place, and of a reading beside its places

CHOSEN = "number IN (SELECT value FROM json_each(?))"
ROWS = f"SELECT * FROM text WHERE {CHOSEN}"
PLACES = f"SELECT * FROM place WHERE {CHOSEN}"
WITHIN = "south >= ? AND north <= ? AND west >= ? AND east <= ?"
CROWDED = f"SELECT count(*) FROM (SELECT 1 FROM spot WHERE {WITHIN} LIMIT ?)"
NEARBY = f"""
SELECT text.number, text.layer, replace(text.main || text.other, char(10), ' ') || text.context
FROM spot CROSS JOIN text ON text.number = spot.number WHERE {WITHIN} LIMIT {CROWD}
"""

SHOWN = COLUMNS[1:]  # all but the id

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

    def find(self, keys: Iterable[K]) -> dict[K, V]:
        """The values that are kept, by key."""
        found: dict[K, V] = {}
        known = self._known
        with self._lock:
            for key in keys:
                kept = known.get(key)
                if kept is not None:
                    known.move_to_end(key)
                    found[key] = kept[0]
        return found

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


class Candidates:
    """Places that fit a text: what text and popularity are worth, and where they are.

    Plain numbers side by side, a tenth of what rows would take: so many more texts can be kept.

    >>> found = Candidates([(7, 3.5, 49.0, 8.4, 0.656)])
    >>> len(found), list(found)
    (1, [(7, 3.5, 49.0, 8.4, 0.656)])
    """

    def __init__(self, rows: Sequence[tuple[int, float, float, float, float]]) -> None:
        self.numbers = array("q", [row[0] for row in rows])
        self._values = array("d", [value for row in rows for value in row[1:]])  # [places · 4]

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[tuple[int, float, float, float, float]]:
        """Number, worth, latitude, longitude and the cosine of the latitude of each place."""
        each = iter(self._values)
        return zip(self.numbers, each, each, each, each, strict=True)


class Judged(NamedTuple):
    """What a reading of a text finds, wherever people are.

    `exact`: a name was typed in full; `crowded`: more fit than were looked at.
    """

    places: Candidates
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

    def find_layers(self, layers: set[int]) -> set[int]:
        """The places of some layers."""
        return {place for place, layer in enumerate(self.layers) if layer in layers}


class KeptIndex:
    """Reads an index through a connection, and remembers; `held` is all of it, where it is in memory."""

    def __init__(self, held: HeldIndex | None = None) -> None:
        self._held = held
        self.rows: Store[int, Row] = Store()
        self.places: Store[int, ShownPlace] = Store()
        self.around: Store[Focus, list[Around]] = Store()
        self.readings: Store[Hashable, Judged] = Store(KEPT_READINGS)

    def read_rows(self, connection: sqlite3.Connection, numbers: Iterable[int]) -> list[Row]:
        """The rows of these numbers, in any order."""
        if self._held is None:
            found, missing = self.rows.pick(numbers)
        else:
            told, missing = self._held.read_rows(numbers)
            found = [tuple.__new__(Row, values) for values in told]  # `_make` takes twice as long
        if missing:
            for values in connection.execute(ROWS, (json.dumps(missing),)).fetchall():
                row = Row._make((*values, math.cos(math.radians(values[2]))))
                self.rows.put(row.number, row, len(row.main) + len(row.other) + len(row.context))
                found.append(row)
        return found

    def read_places(self, connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, ShownPlace]:
        """The places of these numbers, as hits show them."""
        found = self.places.find(numbers)
        missing = [number for number in numbers if number not in found]
        if missing:
            for row in connection.execute(PLACES, (json.dumps(missing),)).fetchall():
                shown, number = _show(row), row[0]
                found[number] = shown
                letters = sum([len(value) for value in shown.fields.values() if type(value) is str])
                self.places.put(number, shown, letters + len(row[-2] or "") + len(shown.nested))
        return found

    def read_around(
        self, connection: sqlite3.Connection, focus: Focus
    ) -> Sequence[Around] | Sequence[HeldAround]:
        """The places in the largest box around a point that is no crowd (R*Tree); box by box at an edge."""
        near = None if self._held is None else _look_around(self._held, focus)
        if near is not None:
            return near
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


def _look_around(held: HeldIndex, focus: Focus) -> list[HeldAround] | None:
    """`read_around` without a look at the file; None where even the smallest box is a crowd."""
    chosen = None
    for half in BOXES:
        found = [held.look(box) for box in make_boxes(focus, half)]
        if any(each.is_crowd(CROWD) for each in found):
            break
        chosen = found
    return chosen


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


def _show(row: Sequence[Any]) -> ShownPlace:
    """A row of the table `place` as `Place.to_hit` shows the place, without the place between them."""
    names, other = row[-2], json.loads(row[-1]) if row[-1] else {}
    fields = {**other, **dict(zip(SHOWN, row[2:-2], strict=True))}
    if names:
        fields["names"] = tuple(names.split("\n"))
    lists = {name: value for name, value in fields.items() if type(value) in (list, dict)}
    if not lists:
        return ShownPlace(row[1], fields)
    return ShownPlace(row[1], {name: fields[name] for name in fields if name not in lists}, json.dumps(lists))


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
