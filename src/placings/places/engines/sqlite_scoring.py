"""How the embedded engine orders what it finds: one formula, its numbers by name.

    score = text + POPULARITY · log10(1 + weight) + DISTANCE · log10((HALFWAY + NEAR) / (km + NEAR)) − cost

All in powers of ten of a place's weight: a name typed in full outweighs a beginning by 2 to 3, as if the
place were some hundred times as popular. Without a focus the third part is 0, as if all were at the Earth's
other end.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import asin, cos, log10, radians, sin, sqrt
from typing import NamedTuple

from placings.places.folding import give_spellings
from placings.places.place import Focus

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
EARTH = 6371.0  # km


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


def _make_reading(spellings: list[str]) -> Reading | None:
    if not spellings:
        return None
    split = [[word[:LETTERS] for word in spelling.split()[:WORDS]] for spelling in spellings]
    groups = tuple(tuple(dict.fromkeys(words)) for words in zip(*split, strict=True))
    return Reading(groups, tuple(dict.fromkeys(" ".join(words) for words in split)))


def judge(row: Row, text: float, reading: Reading, focus: Focus | None) -> float:
    """The score of a place whose names fit as well as `text` says."""
    score = text + POPULARITY * row.popularity - reading.cost
    if focus is not None:
        km = measure_km(focus[0], focus[1], row.lat, row.lon)
        score += DISTANCE * log10((HALFWAY + NEAR) / (km + NEAR))
    return score


def judge_text(row: Row, reading: Reading, kinds: tuple[str, ...] = ()) -> float:
    """How well the names fit, from `AROUND` to `EXACT_MAIN`; `kinds` are words for the place's type.

    Words that the name lacks must be in its context or kind, or it counts as a match of words only.
    """
    best = _match_names(reading.wholes, row.main, row.other)
    if best is not None:
        return best
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
        if all(_find_word(around, reading, at) for at in lacking):
            return _judge_words(names, inside, words, exact, prefix)
        mixed = True
    return WORDS_OTHER if mixed else AROUND


def _match_names(wholes: tuple[str, ...], main: str, other: str) -> float | None:
    """The text against whole names."""
    for whole in wholes:
        if f"\n{whole}\n" in main:
            return EXACT_MAIN
    for whole in wholes:
        if f"\n{whole}\n" in other:
            return EXACT_OTHER
    for names, worth in ((main, PREFIX_MAIN), (other, PREFIX_OTHER)):
        for whole in wholes:
            at = names.find(f"\n{whole}")
            if at >= 0:
                return worth + WHOLENESS * len(whole) / (names.index("\n", at + 1) - at - 1)
    return None


def _find_word(words: str, reading: Reading, at: int) -> str | None:
    """The spelling under which the word is among `words`, None if it is not."""
    end = "" if reading.is_beginning(at) else " "
    return next((word for word in reading.groups[at] if f" {word}{end}" in words), None)


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


def measure_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """Great-circle distance in km on a sphere (haversine), of one pair: it is asked for each candidate.

    >>> round(measure_km(49.01, 8.4, 52.52, 13.41))
    526
    """
    up = sin(radians(other_lat - lat) / 2) ** 2
    across = sin(radians(other_lon - lon) / 2) ** 2
    return 2 * EARTH * asin(sqrt(min(1.0, up + cos(radians(lat)) * cos(radians(other_lat)) * across)))
