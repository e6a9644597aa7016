"""An index in memory, for a process that answers searches all day: who is near a point, with what words.

SQLite reads a thousand rows, one by one, to know the words around a point that nobody asked from before.
Here they stand in one text, in bands of one degree from west to east: a box is a few stretches of it.
"""

from __future__ import annotations

import math
import sqlite3
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

import numpy as np

MOST_HELD = 1_000_000  # places; an index of more is read from its file
FIELD, PLACE = "\0", "\1"  # between the texts of a place, and between places: signs that folding never leaves
AS_WORDS = bytes.maketrans(b"\n\0\1", b"  \n")  # names side by side, a line for each place

SIDES = ("south", "north", "west", "east")
SPOTS = f"SELECT number, {', '.join(SIDES)} FROM spot"
TEXTS = "SELECT number, popularity, lat, lon, main, other, context, layer FROM text ORDER BY number"
RECORD = Struct("=dddqd")  # popularity, latitude, longitude, layer, cosine of the latitude

Box = tuple[float, float, float, float]  # south, north, west, east, as make_boxes gives it
Values = tuple[int, float, float, float, str, str, str, int, float]  # of a Row


class HeldIndex:
    """The positions and texts of an index; positions are the R*Tree's own, so a box holds the same places."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        spots = np.fromiter(
            connection.execute(SPOTS),
            dtype=[("number", "i8"), *((side, "f8") for side in SIDES)],
        )
        bands = np.floor(spots["south"]).astype(np.int64)
        order = np.lexsort((spots["west"], bands))
        spots, bands = spots[order], bands[order]
        self.sides = np.stack([spots[side] for side in SIDES])
        self._south, self._north, self._west, self._east = (array("d", side.tobytes()) for side in self.sides)
        self._bands = {
            band: (int(np.searchsorted(bands, band)), int(np.searchsorted(bands, band, "right")))
            for band in set(bands.tolist())
        }
        self.numbers = array("q", spots["number"].tobytes())
        self._read_texts(connection)

    def _read_texts(self, connection: sqlite3.Connection) -> None:
        """The texts by number, so that popular places stand together, and their words from west to east."""
        written, records = [b""], [RECORD.pack(0.0, 0.0, 0.0, 0, 0.0)]  # numbers count from 1
        for number, popularity, lat, lon, main, other, context, layer in connection.execute(TEXTS):
            if number != len(written):
                raise KeyError(f"number {len(written)} of the table text")
            written.append(f"{main}{FIELD}{other}{FIELD}{context}".encode("utf-8", "surrogatepass"))
            records.append(RECORD.pack(popularity, lat, lon, layer, math.cos(math.radians(lat))))
        self._records, self._texts = b"".join(records), b"".join(written)
        self._text_starts = _add_up(map(len, written))
        self.layers = array("q", [RECORD.unpack(records[number])[3] for number in self.numbers])
        near = [written[number] for number in self.numbers]
        self._starts = _add_up(len(each) + 1 for each in near)
        self._words = PLACE.encode().join(near).translate(AS_WORDS)

    def read_rows(self, numbers: Iterable[int]) -> tuple[list[Values], list[int]]:
        """What the table `text` says of places, and the cosine of their latitudes; whose cannot be told."""
        found: list[Values] = []
        missing: list[int] = []
        texts, starts, records, unpack = self._texts, self._text_starts, self._records, RECORD.unpack_from
        for number in numbers:
            parts = texts[starts[number] : starts[number + 1]].decode("utf-8", "surrogatepass").split(FIELD)
            if len(parts) != 3:
                missing.append(number)
                continue
            popularity, lat, lon, layer, cosine = unpack(records, RECORD.size * number)
            found.append((number, popularity, lat, lon, parts[0], parts[1], parts[2], layer, cosine))
        return found, missing

    def look(self, box: Box) -> HeldAround:
        """The places within a box."""
        south, north, west, east = box
        runs = []
        for band in range(math.floor(south), math.floor(north) + 1):
            low, high = self._bands.get(band, (0, 0))
            first = bisect_left(self._west, west, low, high)
            last = bisect_right(self._west, east, first, high)
            if first < last:
                runs.append((first, last))
        return HeldAround(self, box, runs)


class HeldAround:
    """The places within a box, as stretches of the held ones; some at their ends may lie outside."""

    def __init__(self, held: HeldIndex, box: Box, runs: Sequence[tuple[int, int]]) -> None:
        self._held, self._box, self._runs = held, box, runs
        self.numbers: Sequence[int] = held.numbers
        self.layers: Sequence[int] = held.layers

    def is_crowd(self, most: int) -> bool:
        """Whether there are `most` places or more."""
        if sum(last - first for first, last in self._runs) < most:
            return False
        south, north, west, east = self._box
        sides, found = self._held.sides, 0
        for first, last in self._runs:
            own = sides[:, first:last]
            inside = (own[0] >= south) & (own[1] <= north) & (own[2] >= west) & (own[3] <= east)
            found += int(np.count_nonzero(inside))
        return found >= most

    def find(self, texts: Iterable[str]) -> set[int]:
        """The places whose words hold one of the texts."""
        found: set[int] = set()
        words, starts = self._held._words, self._held._starts
        for text in texts:
            sought = text.encode("utf-8", "surrogatepass")
            for first, last in self._runs:
                end = starts[last]
                at = words.find(sought, starts[first], end)
                while at >= 0:
                    place = bisect_right(starts, at, first, last) - 1
                    if self._holds(place):
                        found.add(place)
                    at = words.find(sought, starts[place + 1], end)
        return found

    def find_layers(self, layers: set[int]) -> set[int]:
        """The places of some layers."""
        known = self.layers
        return {
            place
            for first, last in self._runs
            for place in range(first, last)
            if known[place] in layers and self._holds(place)
        }

    def _holds(self, place: int) -> bool:
        south, north, west, east = self._box
        held: Any = self._held
        return bool(
            held._south[place] >= south
            and held._north[place] <= north
            and held._west[place] >= west
            and held._east[place] <= east
        )


def _add_up(sizes: Iterable[int]) -> array[int]:
    """Where each of some parts begins, and where the last one ends."""
    return array("q", np.concatenate([[0], np.cumsum(list(sizes))]).astype(np.int64).tobytes())
