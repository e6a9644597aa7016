"""The embedded engine: places from one SQLite file, by text, popularity and distance."""

from __future__ import annotations

import json
import math
import os
import sqlite3
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from math import asin, cos, log10, radians, sin, sqrt
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any

from placings.core import (
    EARTH_KM,
    BadFile,
    BadInput,
    UnknownName,
    check_limit,
    find_limit,
    give_spellings,
    read_settled,
)
from placings.places.engines.sqlite_held import MOST_HELD, HeldIndex
from placings.places.engines.sqlite_index import (
    FORMAT,
    JOINT,
    TYPE_WORDS,
    VERSION,
    build_index,
    guess_words,
    is_sealed,
)
from placings.places.engines.sqlite_kept import (
    KEPT_CANDIDATE,
    KEPT_READING,
    Candidates,
    Judged,
    KeptIndex,
    Row,
    make_places,
)
from placings.places.place import Place
from placings.rerank import Focus, Hit

EXACT_MAIN = 6.0  # the text is the main name
EXACT_OTHER = 4.0  # the text is another name
PREFIX_MAIN = 3.0  # the main name begins with the text
PREFIX_OTHER = 2.0  # another name does
WORDS_MAIN = 2.0  # every word is in the main name, or some there and the rest says where the place is
WORDS_OTHER = 1.0  # the same for other names
AROUND = 0.0  # the words only say where the place is, or of what kind
WHOLENESS = 1.0  # added to a prefix or to words: times the share of the name that was typed
SHUFFLED = 0.5  # taken off an exact name whose words stand in another order
ELSEWHERE = 0.25  # taken off for words that are not in the name but in its locality, street or kind
EXACT = EXACT_OTHER - SHUFFLED - ELSEWHERE  # from here on a name was typed in full
POPULARITY = 1.0
DISTANCE = 2.0  # gravity: ten times as far is a hundred times less
NEAR = 5.0  # km within which distance hardly matters
HALFWAY = 20015.0  # km to the other end of the Earth
TYPO = 4.0  # the cost of one mistake
SPLIT = 1.0  # the cost of reading two words as one, or an inner word as a beginning
DROPPED = 4.0  # the cost of a word that nothing matches

WORDS = 12  # words of a text that count
LETTERS = 64  # letters of a word that count


@dataclass(frozen=True)
class Reading:
    """One way to read a text: for each word its spellings; the last word, or each, may be a beginning."""

    groups: tuple[tuple[str, ...], ...]
    wholes: tuple[str, ...]
    cost: float = 0.0
    open: bool = False  # every word may be a beginning

    @property
    def words(self) -> tuple[str, ...]:
        """The plain spelling of each word."""
        return tuple(group[0] for group in self.groups)

    @cached_property
    def keys(self) -> tuple[tuple[str, str, int], ...]:
        """Each whole text as it stands at the start of a name, as a name of its own, and its letters."""
        return tuple((f"\n{whole}", f"\n{whole}\n", len(whole)) for whole in self.wholes)

    @cached_property
    def patterns(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """For each word its spellings, each as it stands among words with a blank before them."""
        return tuple(
            tuple((word, f" {word}{'' if self.is_beginning(at) else ' '}") for word in group)
            for at, group in enumerate(self.groups)
        )

    def is_beginning(self, at: int) -> bool:
        """Whether the word may go on: the last one, or each."""
        return self.open or at == len(self.groups) - 1


def read_text(text: str) -> Reading | None:
    """A text as its words and their spellings, None if no word is left of it.

    >>> read_text("Köln Hbf").groups
    (('koln', 'koeln'), ('hbf', 'hauptbahnhof'))
    """
    return _make_reading(give_spellings(text[: WORDS * LETTERS]))


def read_words(words: list[str], cost: float = 0.0, *, open: bool = False) -> Reading:
    """Folded words as a reading that costs something."""
    reading = _make_reading(give_spellings(" ".join(words)))
    if reading is None:
        raise ValueError("no words")
    return Reading(reading.groups, reading.wholes, cost, open)


def _make_reading(spellings: tuple[str, ...]) -> Reading | None:
    if not spellings:
        return None
    split = [[word[:LETTERS] for word in spelling.split()[:WORDS]] for spelling in spellings]
    groups = tuple(tuple(dict.fromkeys(words)) for words in zip(*split, strict=True))
    return Reading(groups, tuple(dict.fromkeys(" ".join(words) for words in split)))


def weigh_distances(focus: Focus | None) -> Callable[[float, float, float], float]:
    """What a place is worth for being near the focus: `DISTANCE · log₁₀` of how far it could be over how far
    it is, along the great circle (`measure_km`); 0 without a focus. A place is its latitude, its longitude
    and the cosine of its latitude.
    """
    if focus is None:
        return lambda north, east, cosine: 0.0
    lat, lon = focus
    here, across, most = cos(radians(lat)), 2 * EARTH_KM, HALFWAY + NEAR

    def weigh(north: float, east: float, cosine: float) -> float:
        up = sin(radians(north - lat) / 2)
        along = sin(radians(east - lon) / 2)
        half_chord = sqrt(min(1.0, up**2 + here * cosine * along**2))
        return DISTANCE * log10(most / (across * asin(half_chord) + NEAR))

    return weigh


def _judge_inside(row: Row, reading: Reading, kinds: tuple[str, ...]) -> float:
    """How well a text fits that no name equals or begins with; `kinds` are words for the place's type.

    Words that the name lacks must be in its context or kind, or it counts as a match of words only.
    """
    if len(reading.groups) == 1:
        return _judge_inner_word(row, reading)
    mixed = False
    for names, words, exact, prefix in (
        (row.main, WORDS_MAIN, EXACT_MAIN, PREFIX_MAIN),
        (row.other, WORDS_OTHER, EXACT_OTHER, PREFIX_OTHER),
    ):
        spaced = names.replace("\n", " ")
        inside = [_find_word(spaced, reading, at) for at in range(len(reading.groups))]
        lacking = [at for at, word in enumerate(inside) if word is None]
        if len(lacking) == len(inside):
            continue
        around = f"{row.context}{' '.join(kinds)} " if lacking else ""
        if all(_find_word(around, reading, at) is not None for at in lacking):
            return _judge_words(names, inside, words, exact, prefix)
        mixed = True
    return WORDS_OTHER if mixed else AROUND


def _match_names(keys: tuple[tuple[str, str, int], ...], main: str, other: str) -> float | None:
    """How well a text fits that a name equals or begins with, up to `EXACT_MAIN`; None where none does."""
    if len(keys) == 1:  # most texts have one spelling, and where no name starts with it none equals it
        start, whole, letters = keys[0]
        at, beside = main.find(start), other.find(start)
        if at >= 0 and main.find(whole, at) >= 0:
            return EXACT_MAIN
        if beside >= 0 and other.find(whole, beside) >= 0:
            return EXACT_OTHER
        if at >= 0:
            return PREFIX_MAIN + WHOLENESS * letters / (main.index("\n", at + 1) - at - 1)
        if beside >= 0:
            return PREFIX_OTHER + WHOLENESS * letters / (other.index("\n", beside + 1) - beside - 1)
        return None
    for names, worth in ((main, EXACT_MAIN), (other, EXACT_OTHER)):
        for _, whole, _ in keys:
            if whole in names:
                return worth
    for names, worth in ((main, PREFIX_MAIN), (other, PREFIX_OTHER)):
        for start, _, letters in keys:
            at = names.find(start)
            if at >= 0:
                return worth + WHOLENESS * letters / (names.index("\n", at + 1) - at - 1)
    return None


def _judge_inner_word(row: Row, reading: Reading) -> float:
    """A text of one word with which no name begins: the beginning of a later word, or not in the names."""
    for names, worth in ((row.main, WORDS_MAIN), (row.other, WORDS_OTHER)):
        for word, pattern in reading.patterns[0]:
            if pattern in names:
                return worth + WHOLENESS * min(1.0, len(word) / (names.index("\n", 1) - 1))
    return AROUND


def _find_word(words: str, reading: Reading, at: int) -> str | None:
    """The spelling under which the word is among `words`, None if it is not."""
    for word, pattern in reading.patterns[at]:
        if pattern in words:
            return word
    return None


def _judge_words(names: str, inside: list[str | None], words: float, exact: float, prefix: float) -> float:
    """Words that are in a name, the others having matched elsewhere."""
    kept = [word for word in inside if word is not None]
    off = ELSEWHERE if len(kept) < len(inside) else 0.0
    text = " ".join(kept)
    if len(kept) < len(inside):
        if f"\n{text}\n" in names:
            return exact - off
        at = names.find(f"\n{text}")
        if at >= 0:
            return prefix + WHOLENESS * len(text) / (names.index("\n", at + 1) - at - 1) - off
    for name in names.split("\n")[1:-1]:
        if len(name) == len(text) and sorted(name.split()) == sorted(kept):
            return exact - SHUFFLED - off
    first = names[1 : names.index("\n", 1)]
    return words + WHOLENESS * min(1.0, len(text) / len(first)) - off


__all__ = ["SqliteEngine", "build_index"]

POOL = 150  # candidates of one kind, at least
FEW = 10  # fewer candidates than this, none of them exact, and other readings are tried
NAMES, ANY_NAME, WHOLE, MAIN = "{name word}", "{name word names words}", "{name names}", "name"

# all in one text: for each row of a result SQLite lets go of Python's lock, and takes it again
IDS = "SELECT group_concat(rowid) FROM (SELECT rowid FROM found WHERE found MATCH ? LIMIT ?)"


# SQLite lets go of Python's lock for each row, and another thread's search takes it for milliseconds: with
# eight at once they spend half of their time handing it over. One after the other they are as quick as one.
_TURNS = threading.Semaphore(1 if getattr(sys, "_is_gil_enabled", lambda: True)() else os.cpu_count() or 1)


class SqliteEngine:
    """Searches an index that `build_index` wrote; read-only, and many threads may search.

    Searches of one process take turns, which is quicker than all at once as long as Python has a global lock.
    The order is the formula of `sqlite_scoring`; at equal scores the more popular place comes first. A file
    whose checksum does not fit is refused when it is opened; a file from before there were any is read.

    With `held` the positions and texts of an index of a million places or fewer are read into memory when it
    is opened, some 200 bytes each: a process that answers all day then finds what is near in a tenth of the
    time. The hits are the same.
    """

    in_process = True  # a search is work of this process: no other thread gets anything done meanwhile

    def __init__(self, path: str | PathLike[str], *, held: bool = False) -> None:
        self.path = Path(path)
        self._hold = held
        self._free: deque[tuple[sqlite3.Connection, KeptIndex]] = deque()
        self._kept = KeptIndex()  # what was read of the newest index; a connection goes with its own
        self._known: tuple[int, ...] = ()
        self._free.append(read_settled(self.path, self._open))

    def _open(self, path: Path) -> tuple[sqlite3.Connection, KeptIndex]:
        """Check the index, connect to it and read what it holds; a BadFile if it is replaced meanwhile."""
        known, sealed = _identify(path), _check_index(path)
        try:
            connection = _connect(path)
            about = dict(connection.execute("SELECT name, value FROM about"))
            types = dict(connection.execute("SELECT number, type FROM layer"))
            count = int(about.get("places", 0))
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:
            raise _refuse(path, str(error)) from None
        if _identify(path) != known:
            raise BadFile(path, "was replaced while it was opened. Open it again.")
        if about.get("format") != FORMAT:
            raise _refuse(path, "it has another format")
        if about.get("version") != str(VERSION):
            problem = f"is an index of version {about.get('version')}; this placings reads version {VERSION}."
            raise BadFile(path, f"{problem} Build it again with: placings places index SOURCE {path}")
        if about.get("seal") and not sealed:
            raise _refuse(path, "its end is missing or damaged")
        with self._told_as_ours():
            kept = KeptIndex(HeldIndex(connection) if self._hold and count <= MOST_HELD else None)
        self._known, self._types, self._count, self._kept = known, types, count, kept
        return connection, self._kept

    def __len__(self) -> int:
        return self._count

    @property
    def layers(self) -> list[str]:
        """The types of places in the index."""
        return sorted(self._types.values())

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """At most `k` places that fit the text, best first; the last word may be a beginning.

        Every word must be in a name, or say where the place is or what it is (Bahnhof). If that finds little,
        inner words may be beginnings and two words one; then misspelt words are guessed; if there is nothing
        even so, one word is left out. `focus` is (latitude, longitude); `layers` are the types wanted. A text
        without a letter or digit finds nothing. Of a long text the first 12 words of the first 512 characters
        (the limit `text`) count, and of a word 64.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise BadInput(f"k must be a whole number, 1 or more. Got {k!r}.")
        check_limit("k", k)
        if not isinstance(text, str):
            raise BadInput(f"the text to search must be a string. Got {type(text).__name__}.")
        reading = read_text(text[: find_limit("text")])
        wanted = self._find_layers(layers)
        focus = _check_focus(focus)
        if reading is None or not wanted:
            return []
        kinds = {number: TYPE_WORDS.get(self._types[number], ()) for number in wanted}
        with _TURNS, self._told_as_ours(), self._borrow() as (connection, kept):
            limited = len(wanted) < len(self._types)
            search = _Search(connection, kept, kinds, focus, max(POOL, k), limited)
            search.run(reading)
            best = sorted([(-score, number) for number, score in search.scores.items()])[:k]
            shown = kept.read_places(connection, [number for _, number in best])
            found = [(shown[number], -negative) for negative, number in best]
            return [
                Hit(place.id, place.copy_fields(), score, rank)
                for rank, (place, score) in enumerate(found, 1)
            ]

    def places(self) -> list[Place]:
        """All places of the index, in its order."""
        with self._told_as_ours(), self._borrow() as (connection, _):
            found = make_places(connection.execute("SELECT * FROM place ORDER BY number"))
        return list(found.values())

    def close(self) -> None:
        """Close the connections that are not in use; a later search opens new ones."""
        while self._free:
            self._free.pop()[0].close()

    def __enter__(self) -> SqliteEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _borrow(self) -> Iterator[tuple[sqlite3.Connection, KeptIndex]]:
        try:
            lent = self._free.pop()
        except IndexError:
            lent = _connect(self.path), self._kept
            if _identify(self.path) != self._known:  # another index stands there since
                lent[0].close()
                lent = read_settled(self.path, self._open)
        try:
            yield lent
        except sqlite3.DatabaseError:
            lent[0].close()
            raise
        else:
            self._free.append(lent)

    @contextmanager
    def _told_as_ours(self) -> Iterator[None]:
        """What only a damaged index can bring about, as an error of ours."""
        try:
            yield
        except (sqlite3.DatabaseError, json.JSONDecodeError, LookupError, OverflowError) as error:
            raise _refuse(self.path, f"it is damaged ({type(error).__name__}: {error})") from None

    def _find_layers(self, layers: Sequence[str] | None) -> list[int]:
        """The numbers of the types wanted."""
        if isinstance(layers, str):
            raise BadInput(f"layers must be a list of types. Got the text {layers!r}; write [{layers!r}].")
        numbers = {kind: number for number, kind in self._types.items()}
        for layer in layers or ():
            if layer not in numbers:
                raise UnknownName("layer", str(layer), self.layers)
        return list(numbers.values()) if layers is None else sorted({numbers[layer] for layer in layers})


class _Search:
    """One search under way: the best score of each candidate so far."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        kept: KeptIndex,
        kinds: dict[int, tuple[str, ...]],
        focus: Focus | None,
        pool: int,
        limited: bool,
    ) -> None:
        self.connection = connection
        self.kept = kept
        self.kinds = kinds
        self.focus = focus
        self.weigh = weigh_distances(focus)
        self.pool = pool
        self.only = ""
        if limited:
            terms = " OR ".join(f'"{JOINT}{number}"' for number in kinds)
            self.only = f" AND layer : ({terms})"
        self.scores: dict[int, float] = {}
        self.exact = False

    def run(self, reading: Reading) -> None:
        self.gather(reading)
        if self.exact or len(self.scores) >= FEW:
            return
        words = list(reading.words)
        if len(words) > 1:
            self.gather(read_words(words, SPLIT, open=True))
            for at in range(len(words) - 1):
                joined = [*words[:at], words[at] + words[at + 1], *words[at + 2 :]]
                self.gather(read_words(joined, SPLIT))
        for doubt in (False, True):
            if len(self.scores) < (FEW if not doubt else 1):
                for guess, mistakes in guess_words(self.connection, words, doubt=doubt):
                    self.gather(read_words(guess, TYPO * mistakes))
        if not self.scores and len(words) > 1:
            for at in range(len(words)):
                self.gather(read_words([*words[:at], *words[at + 1 :]], DROPPED))

    def gather(self, reading: Reading) -> None:
        """Candidates of one reading: what fits it, and if that is too much, what fits near the focus."""
        key = reading.groups, reading.wholes, reading.open, self.only, self.pool
        found = self.kept.readings.get(key)
        if found is None:
            found = self.judge_reading(reading)
            self.kept.readings.put(key, found, KEPT_READING + KEPT_CANDIDATE * len(found.places))
        self.add(found.places, reading.cost)
        if found.exact and reading.cost == 0.0:
            self.exact = True
        if found.crowded and self.focus is not None:
            self.look_around(reading, self.focus)

    def judge_reading(self, reading: Reading) -> Judged:
        """Everything that fits or, of too many, the most popular of each kind; whatever the focus.

        What a wider question finds whole needs no narrower one: names that begin with the text hold its
        words, and names that equal it begin with it.
        """
        words = _match_words(reading)
        numbers: dict[int, None] = {}
        crowded = self.ask(words, numbers) == self.pool
        if crowded:
            exact = " OR ".join(f'"{whole.replace(" ", JOINT)}"' for whole in reading.wholes)
            beginning = " OR ".join(f'"{whole.replace(" ", JOINT)}" *' for whole in reading.wholes)
            if self.ask(f"{ANY_NAME} : ({words})", numbers) == self.pool:
                self.ask(f"{NAMES} : ({words})", numbers)
                if self.ask(f"{WHOLE} : ({beginning})", numbers) == self.pool:
                    self.ask(f"{MAIN} : ({beginning})", numbers)
                    if self.ask(f"{WHOLE} : ({exact})", numbers) == self.pool:
                        self.ask(f"{MAIN} : ({exact})", numbers)
        places, exact_text = self.judge_numbers(numbers, reading)
        return Judged(places, exact_text, crowded)

    def ask(self, match: str, numbers: dict[int, None]) -> int:
        """Add the rows that match to the others; how many there are."""
        told = self.connection.execute(IDS, (f"({match}){self.only}", self.pool)).fetchone()[0]
        found = [] if told is None else list(map(int, told.split(",")))
        numbers.update(dict.fromkeys(found))
        return len(found)

    def look_around(self, reading: Reading, focus: Focus) -> None:
        """Candidates near the focus, however unpopular, whose words or kind hold every word of the text."""
        kinds = self.kinds
        for around in self.kept.read_around(self.connection, focus):
            layers = around.layers
            near: set[int] | None = None
            for patterns in reading.patterns:
                texts = [pattern for _, pattern in patterns]
                fitting = {
                    n for n, words in kinds.items() if any(text in f" {' '.join(words)} " for text in texts)
                }
                found = around.find(texts)
                if fitting:
                    found |= around.find_layers(fitting)
                near = found if near is None else near & found
            numbers = [around.numbers[place] for place in near or () if layers[place] in kinds]
            if reading.cost == 0.0:  # such a one has its score already
                numbers = [number for number in numbers if number not in self.scores]
            places, exact = self.judge_numbers(numbers, reading)
            self.add(places, reading.cost)
            if exact and reading.cost == 0.0:
                self.exact = True

    def judge_numbers(self, numbers: Iterable[int], reading: Reading) -> tuple[Candidates, bool]:
        """Each place with what its names and its popularity are worth; whether one was typed in full."""
        kinds, keys, exact, judged = self.kinds, reading.keys, False, []
        for row in self.kept.read_rows(self.connection, numbers):
            number, popularity, lat, lon, main, other, _, layer, cosine = row
            text = _match_names(keys, main, other)
            if text is None:
                text = _judge_inside(row, reading, kinds[layer])
            if text >= EXACT:
                exact = True
            judged.append((number, text + POPULARITY * popularity, lat, lon, cosine))
        return Candidates(judged), exact

    def add(self, places: Candidates, cost: float) -> None:
        """The score of each place: what it is worth, less what the reading costs, and how near it is."""
        scores, weigh = self.scores, self.weigh
        if self.focus is None and not scores:  # each place comes once in a reading
            scores.update([(number, worth - cost) for number, worth, _, _, _ in places])
            return
        for number, worth, lat, lon, cosine in places:
            score = worth - cost + weigh(lat, lon, cosine)
            if score > scores.get(number, -math.inf):
                scores[number] = score


def _match_words(reading: Reading) -> str:
    """The words as an FTS5 query: folded words hold no sign, and stand in quotes, so no syntax gets in."""
    parts = []
    for at, group in enumerate(reading.groups):
        star = " *" if reading.is_beginning(at) else ""
        parts.append("(" + " OR ".join(f'"{word}"{star}' for word in group) + ")")
    return " AND ".join(parts)


def _check_focus(focus: Focus | None) -> Focus | None:
    if focus is None:
        return None
    try:
        lat, lon = focus
        fine = abs(lat) <= 90 and abs(lon) <= 180
    except (TypeError, ValueError):
        fine = False
    if fine:
        return float(lat), float(lon)
    raise BadInput(f"focus must be (latitude, longitude) in degrees, within ±90 and ±180. Got {focus!r}.")


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=ro&immutable=1"
    connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA mmap_size = 1073741824")
    return connection


def _identify(path: Path) -> tuple[int, ...]:
    """What tells an index from the one that replaces it."""
    try:
        facts = path.stat()
    except OSError:
        return ()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _check_index(path: Path) -> bool:
    """Refuse what is no index or is damaged; whether it has a checksum, which fits."""
    from placings.core import check_file

    check_file(path)
    with open(path, "rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise _refuse(path, "it is no SQLite file")
    size = int.from_bytes(head[16:18], "big")
    size = 65536 if size == 1 else size
    if path.stat().st_size < size * int.from_bytes(head[28:32], "big"):
        raise _refuse(path, "it ends early")
    try:
        return is_sealed(path)
    except ValueError as error:
        raise _refuse(path, str(error)) from None


def _refuse(path: Path, why: str) -> BadFile:
    return BadFile(path, f"is no place index: {why}. Build one with: placings places index SOURCE {path}")


def weigh_exact(main: float, other: float) -> None:
    """Change what an exact main name, or another exact name, is worth to every engine that is opened after.

    For studies of the formula: how much of what a re-ranker learns could be had by changing two numbers.
    """
    numbers = globals()
    numbers["EXACT_MAIN"], numbers["EXACT_OTHER"] = main, other
    numbers["EXACT"] = other - SHUFFLED - ELSEWHERE


def open_sqlite(path: str, **settings: Any) -> SqliteEngine:
    """The engine behind `sqlite:places.db`."""
    if not path:
        raise BadInput("sqlite: must be followed by an index, as in sqlite:places.db. Got nothing.")
    return SqliteEngine(path, **settings)
