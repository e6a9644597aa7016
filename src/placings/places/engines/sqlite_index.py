"""The place index as one SQLite file: words in FTS5, positions in an R*Tree, rows in order of popularity."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import isfinite, log10
from operator import attrgetter
from os import PathLike
from pathlib import Path
from typing import Any

from placings.core import (
    BadInput,
    EmptyFile,
    drop_brackets,
    fold_text,
    give_spellings,
    need_library,
    spell_once,
)
from placings.places.place import Place

FORMAT = "placings places"
VERSION = 1
SEAL, HASH = b"placings index seal\n", 32  # what stands before the checksum at the file's end, and its bytes
JOINT = "·"  # ties the words of a whole name to one term of the index; a sign that folding never leaves
CHUNK = 20_000  # places folded at a time
LAYERS = ("locality", "station", "stop", "street", "address")  # who comes first at equal weight
TYPE_WORDS = {  # what people call a place of a type, though its name does not say so
    "station": ("bahnhof", "bf", "bhf", "station"),
    "stop": ("haltestelle", "stop"),
}
SHORT_TERM, LONG_TERM = 3, 6  # letters of a word that is looked for with one mistake, with two
ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдежзиклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρστυφχψω")
LETTERS = frozenset("".join(ALPHABETS))  # mistakes are looked for in words of these letters
ELSEWHERE = ("region", "postcode")  # fields that say where a place is, beside its own columns
COLUMNS = (
    "id", "name", "lat", "lon", "type", "locality", "street", "neighbourhood", "borough", "country", "zone",
    "weight",
)  # fmt: skip

# `found` holds no text. Its rows are numbered by popularity, and FTS5 answers in the order of rows: the first
# hundred answers of a search for "b*" are the hundred most popular ones, and nothing else is read.
SCHEMA = f"""
PRAGMA page_size = 8192;
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -131072;
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE layer (number INTEGER PRIMARY KEY, type TEXT NOT NULL);
CREATE TABLE place (number INTEGER PRIMARY KEY, {", ".join(COLUMNS)}, names TEXT, fields TEXT);
CREATE TABLE text (
    number INTEGER PRIMARY KEY, popularity REAL, lat REAL, lon REAL, main TEXT, other TEXT, context TEXT,
    layer INTEGER
);
CREATE TABLE term (number INTEGER PRIMARY KEY, term TEXT NOT NULL);
CREATE VIRTUAL TABLE spot USING rtree (number, south, north, west, east);
CREATE VIRTUAL TABLE found USING fts5 (
    name, word, names, words, context, layer,
    content = '', detail = column, tokenize = 'ascii', prefix = '1 2 3'
);
CREATE VIRTUAL TABLE gram USING fts5 (term, content = '', detail = none, tokenize = 'trigram');
INSERT INTO found (found, rank) VALUES ('automerge', 0);
INSERT INTO found (found, rank) VALUES ('hashsize', 67108864);
"""


def build_index(
    places: Iterable[Place],
    path: str | PathLike[str],
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Write an index of `places` that `SqliteEngine` opens; the file appears whole or not at all.

    Rows are ordered by weight, greatest first, then by type and by the order given. `progress(done, all)`
    is called from time to time. No places, an id given twice, a bad position or weight, and half of a
    surrogate pair are refused. The file ends in a seal, a SHA-256 of all before it, by which `SqliteEngine`
    sees a damaged file.
    """
    from placings.core import write_atomically

    path = Path(path)
    rows = sorted(places, key=_order)
    _check(rows, path)
    types = {kind: number for number, kind in enumerate(sorted({place.type for place in rows}))}
    with write_atomically(path) as temporary:
        connection = sqlite3.connect(temporary, isolation_level=None)
        try:
            connection.executescript(SCHEMA)
            connection.execute("BEGIN")
            about = {"format": FORMAT, "version": str(VERSION), "places": str(len(rows)), "seal": "sha256"}
            connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())
            connection.executemany(
                "INSERT INTO layer VALUES (?, ?)", ((n, kind) for kind, n in types.items())
            )
            terms: dict[str, None] = {}  # in the order of the most popular place that holds them
            contexts: dict[tuple[str, ...], str] = {}
            for start in range(0, len(rows), CHUNK):
                chunk = rows[start : start + CHUNK]
                _write_chunk(connection, start + 1, chunk, types, terms, contexts)
                if progress is not None:
                    progress(start + len(chunk), len(rows))
            _write_spots(connection, rows)
            _write_terms(connection, terms)
            connection.execute("COMMIT")
        finally:
            connection.close()
        with open(temporary, "ab") as file:  # SQLite reads no further than the pages that its head counts
            file.write(SEAL + hash_file(temporary, temporary.stat().st_size))
    return path


def hash_file(path: Path, size: int) -> bytes:
    """SHA-256 of a file's first `size` bytes: about 1 GB in a second."""
    import hashlib

    digest, buffer = hashlib.sha256(), bytearray(1 << 20)
    with open(path, "rb", buffering=0) as file:
        while size > 0 and (count := file.readinto(memoryview(buffer)[: min(size, len(buffer))])):
            digest.update(memoryview(buffer)[:count])
            size -= count
    return digest.digest()


def is_sealed(path: Path) -> bool:
    """Whether a file ends in a seal; one that does not fit what is before it is a ValueError."""
    size = path.stat().st_size - len(SEAL) - HASH
    if size < 0:
        return False
    with open(path, "rb") as file:
        file.seek(size)
        end = file.read()
    if not end.startswith(SEAL):
        return False
    if hash_file(path, size) != end[len(SEAL) :]:
        raise ValueError("its checksum does not fit: it was damaged or changed after it was built")
    return True


def _order(place: Place) -> tuple[float, int]:
    return -place.weight, LAYERS.index(place.type) if place.type in LAYERS else len(LAYERS)


def _check(rows: Sequence[Place], path: Path) -> None:
    if not rows:
        raise EmptyFile(path, "an index needs at least one place. Got none.")
    if len({place.id for place in rows}) < len(rows):
        seen: set[str] = set()
        twice = next(place.id for place in rows if place.id in seen or seen.add(place.id))  # type: ignore[func-returns-value]
        raise BadInput(f"ids of places must be unique. Got {twice!r} twice.")
    for place in rows:
        if not (abs(place.lat) <= 90 and abs(place.lon) <= 180):
            raise BadInput(
                f"lat must be within ±90 and lon within ±180. Got {place.lat}, {place.lon} for {place.id!r}."
            )
        if not (isfinite(place.weight) and place.weight >= 0):
            raise BadInput(f"weight must be finite and 0 or more. Got {place.weight} for {place.id!r}.")


def _write_chunk(
    connection: sqlite3.Connection,
    first: int,
    chunk: Sequence[Place],
    types: dict[str, int],
    terms: dict[str, None],
    contexts: dict[tuple[str, ...], str],
) -> None:
    texts, found = [], []
    for number, (place, main, other) in enumerate(_give_keys(chunk), first):
        layer = types[place.type]
        context = _give_context(place, contexts)
        mains = f"\n{chr(10).join(main)}\n"
        others = f"\n{chr(10).join(other)}\n" if other else ""
        terms.update(dict.fromkeys(f"{mains}{others}{context}".split()))
        popularity = log10(1 + place.weight)
        texts.append((number, popularity, place.lat, place.lon, mains, others, context, layer))
        words, mark = context + " ".join(TYPE_WORDS.get(place.type, ())), f"{JOINT}{layer}"
        found.append((number, _tie(mains), _split(main), _tie(others), _split(other), words, mark))
    connection.executemany(
        f"INSERT INTO place VALUES ({', '.join('?' * (len(COLUMNS) + 3))})", _give_rows(first, chunk)
    )
    connection.executemany("INSERT INTO text VALUES (?, ?, ?, ?, ?, ?, ?, ?)", texts)
    connection.executemany(
        "INSERT INTO found (rowid, name, word, names, words, context, layer) VALUES (?, ?, ?, ?, ?, ?, ?)",
        found,
    )


def _give_keys(chunk: Sequence[Place]) -> Iterator[tuple[Place, list[str], list[str]]]:
    """Each place with the folded spellings of its main name and of its other names."""
    texts: list[str] = []
    counts = []
    for place in chunk:
        own = [place.name]
        if (bare := drop_brackets(place.name)) != place.name:
            own.append(bare)
        if "'" in place.name or "’" in place.name:
            own.append(place.name.replace("'", " ").replace("’", " "))
        counts.append(len(own))
        texts += own
        texts += place.names
    spellings = [spell_once(text) for text in texts]
    at = 0
    for place, own_count in zip(chunk, counts, strict=True):
        middle, end = at + own_count, at + own_count + len(place.names)
        main = _collect(spellings[at:middle]) or [fold_text(place.id) or place.id]
        other = [key for key in _collect(spellings[middle:end]) if key not in main]
        yield place, main, other
        at = end


def _collect(spellings: Sequence[tuple[str, ...]]) -> list[str]:
    """All spellings, none twice: the plain ones of all texts, then the others."""
    plain = [spelt for each in spellings for spelt in each[:1]]
    return list(dict.fromkeys([*plain, *(spelt for each in spellings for spelt in each[1:])]))


def _give_context(place: Place, known: dict[tuple[str, ...], str]) -> str:
    """The words that say where a place is, and those of its parts (a station's platforms), spaces around."""
    texts = (
        place.locality, place.street, place.neighbourhood, place.borough, place.country,
        *(str(place.fields.get(name) or "") for name in ELSEWHERE), *place.fields.get("parts", ()),
    )  # fmt: skip
    if texts not in known:
        words = " ".join(spelling for text in texts if text for spelling in give_spellings(text))
        known[texts] = f" {' '.join(dict.fromkeys(words.split()))} "
    return known[texts]


def _split(keys: Iterable[str]) -> str:
    """The words of those keys that have several; a single word is a term of its own already."""
    return "\n".join([key for key in keys if " " in key])


def _tie(keys: str) -> str:
    return keys.replace(" ", JOINT)


def _give_rows(first: int, chunk: Sequence[Place]) -> Iterator[tuple[Any, ...]]:
    columns = attrgetter(*COLUMNS)
    write = json.JSONEncoder(ensure_ascii=False).encode
    for number, place in enumerate(chunk, first):
        names = "\n".join(" ".join(name.split("\n")) for name in place.names)
        row = (number, *columns(place), names, write(place.fields) if place.fields else "")
        try:
            "".join(each for each in row if isinstance(each, str)).encode()
        except UnicodeEncodeError:
            raise BadInput(
                f"the place {place.id!r} holds half of a surrogate pair, which no file can."
            ) from None
        yield row


def _write_spots(connection: sqlite3.Connection, rows: Sequence[Place]) -> None:
    """Positions, neighbours after each other: the tree then splits its nodes less often."""
    spots = [(round(place.lat), place.lon, place.lat, number) for number, place in enumerate(rows, 1)]
    spots.sort()
    connection.executemany(
        "INSERT INTO spot VALUES (?, ?, ?, ?, ?)", ((number, y, y, x, x) for _, x, y, number in spots)
    )


def _write_terms(connection: sqlite3.Connection, terms: Iterable[str]) -> None:
    """The words that a misspelt one is compared with, no digits; trigrams of long ones, for two mistakes."""
    rows = [term for term in terms if len(term) >= SHORT_TERM and term[0] in LETTERS and term.isalpha()]
    connection.executemany("INSERT INTO term VALUES (?, ?)", enumerate(rows, 1))
    connection.execute("CREATE INDEX term_by_text ON term (term)")
    long = ((number, term) for number, term in enumerate(rows, 1) if len(term) >= LONG_TERM)
    connection.executemany("INSERT INTO gram (rowid, term) VALUES (?, ?)", long)


LONG_WORD = 8  # words this long may have two typos, from SHORT_TERM on one, shorter ones none
GUESSES = 8  # corrections of one word, and readings of a text
UNKNOWN = 3  # unknown words of a text that are corrected
LONGEST = 32  # letters of a word that is corrected
TERMS = 4000  # words compared with a long one

ONE_WORD = (
    "SELECT term, number FROM term WHERE term IN (SELECT value FROM json_each(?)) ORDER BY number LIMIT ?"
)
ONE_BEGINNING = """
SELECT value, (SELECT min(number) FROM term WHERE term >= value AND term < value || char(1114111)) AS first
FROM json_each(?) WHERE first IS NOT NULL ORDER BY first LIMIT ?
"""
TWO = "SELECT term.term FROM gram JOIN term ON term.number = gram.rowid WHERE gram MATCH ? LIMIT ?"


def count_mistakes(word: str) -> int:
    """How many typos a word may have: none in numbers, or in scripts without an alphabet here.

    >>> [count_mistakes(word) for word in ("of", "ulm", "berlin", "karlsruhe", "76131")]
    [0, 1, 1, 2, 0]
    """
    if not SHORT_TERM <= len(word) <= LONGEST or word[0] not in LETTERS or not word.isalpha():
        return 0
    return 2 if len(word) >= LONG_WORD else 1


def guess_words(
    connection: sqlite3.Connection, words: list[str], *, doubt: bool = False
) -> list[tuple[list[str], int]]:
    """Readings of misspelt words with their number of mistakes, fewest first.

    Words that the index does not know are corrected, if they are no more than three. If it knows them all, or
    with `doubt`, those that it knows are corrected as well, one at a time.
    """
    last = len(words) - 1
    known = [at for at, word in enumerate(words) if is_known(connection, word, at == last)]
    unknown = [at for at in range(len(words)) if at not in known]
    if len(unknown) > UNKNOWN:
        return []
    turns = [[*unknown, at] for at in known] if doubt or not unknown else [unknown]
    corrections = {at: correct_word(connection, words[at], at == last) for turn in turns for at in turn}
    readings: dict[tuple[str, ...], int] = {}
    for turn in turns:
        for chosen in product(*(corrections[at] for at in turn)):
            tried = list(words)
            for at, (word, _) in zip(turn, chosen, strict=True):
                tried[at] = word
            mistakes = sum(count for _, count in chosen)
            readings[tuple(tried)] = min(mistakes, readings.get(tuple(tried), mistakes))
    found = sorted(readings.items(), key=lambda item: item[1])[: GUESSES * len(turns)]
    return [(list(tried), mistakes) for tried, mistakes in found]


def is_known(connection: sqlite3.Connection, word: str, beginning: bool) -> bool:
    """Whether a word, or one that begins so, is in the index; numbers and short words count as known."""
    if count_mistakes(word) == 0:
        return True
    high = word + chr(0x10FFFF) if beginning else word
    sql = "SELECT 1 FROM term WHERE term >= ? AND term <= ? LIMIT 1"
    return connection.execute(sql, (word, high)).fetchone() is not None


def correct_word(connection: sqlite3.Connection, word: str, beginning: bool) -> list[tuple[str, int]]:
    """Words of the index near `word` (beginnings of words, if it is one), with their number of mistakes."""
    allowed = count_mistakes(word)
    if allowed == 0:
        return []
    edits = json.dumps(sorted(_make_edits(word)), ensure_ascii=False)
    rows = connection.execute(ONE_BEGINNING if beginning else ONE_WORD, (edits, GUESSES)).fetchall()
    found = [(str(row[0]), 1) for row in rows]
    if allowed > 1 and not found:
        found = [(term, 2) for term in _find_far(connection, word, beginning)]
    return found


def _make_edits(word: str) -> set[str]:
    """Every text one mistake away: a letter left out, added, changed, or two neighbours swapped."""
    letters = next(alphabet for alphabet in ALPHABETS if word[0] in alphabet)
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    edits = {head + tail[1:] for head, tail in cuts if tail}
    edits |= {head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1}
    edits |= {head + letter + tail[1:] for head, tail in cuts if tail for letter in letters}
    edits |= {head + letter + tail for head, tail in cuts for letter in letters}
    return edits - {word}


def _find_far(connection: sqlite3.Connection, word: str, beginning: bool) -> list[str]:
    """Two mistakes leave one of three parts whole: words that hold one are compared, popular ones first."""
    OSA = need_library("rapidfuzz.distance", "finding misspelt words", "places", "rapidfuzz").OSA
    size = len(word)
    middle = (size - 3) // 2
    parts = {word[:3], word[middle : middle + 3], word[size - 3 :]}
    match = " OR ".join(f'"{part}"' for part in sorted(parts))
    found: dict[str, None] = {}
    for (term,) in connection.execute(TWO, (match, TERMS)):
        if len(term) < max(size - 2, LONG_TERM) or (not beginning and len(term) > size + 2):
            continue
        if beginning:
            heads = {term[:cut] for cut in range(size - 2, size + 3)}
            near = min(
                heads, key=lambda head: (OSA.distance(word, head, score_cutoff=2), abs(len(head) - size))
            )
        else:
            near = term
        if OSA.distance(word, near, score_cutoff=2) <= 2:
            found[near] = None
            if len(found) == GUESSES:
                break
    return list(found)
