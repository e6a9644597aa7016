"""What a misspelt word may have meant: words of the index within one or two mistakes."""

from __future__ import annotations

import json
import sqlite3
from itertools import product

from placings.errors import MissingExtra
from placings.places.engines.sqlite_index import ALPHABETS, LETTERS, LONG_TERM, SHORT_TERM

LONG_WORD = 8  # from so many letters on two mistakes are forgiven, below one, none below SHORT_TERM
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
    """How many mistakes are forgiven in a word: none in numbers, or in scripts without an alphabet here.

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
    try:
        from rapidfuzz.distance import OSA
    except ImportError as error:
        raise MissingExtra("finding misspelt words", "rapidfuzz", "places") from error
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
