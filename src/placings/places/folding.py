"""Names and queries brought to one spelling: case, accents, ß, apostrophes, Str., Hbf and their like."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from placings.features import ABBREVIATIONS, APOSTROPHES, BRACKETS, DIGRAPHS, SHORT
from placings.features import LETTERS as WHOLE_LETTERS

LETTERS = str.maketrans({**WHOLE_LETTERS, **dict.fromkeys(APOSTROPHES), "_": " "})

UMLAUTS = re.compile("[äöüøåÄÖÜØÅ\u0308\u030a]")  # the last two are dots and a ring on their own


def fold_text(text: str) -> str:
    """`text` as words of plain letters with one space between: no case, accents, signs or emoji.

    ß is ss, "str." is "strasse"; apostrophes vanish, every other sign parts words. Empty if nothing is left.

    >>> fold_text("  Große Str. 12 (Süd), Lee's ★ NEAR/2")
    'grosse strasse 12 sud lees near 2'
    """
    return fold_all([text])[0]


def fold_all(texts: Sequence[str]) -> list[str]:
    """`fold_text` of each, in a few passes over all of them at once (a million names in some seconds)."""
    others = [row for row, text in enumerate(texts) if not text.isascii()]
    if len(others) == len(texts):
        return _fold_lines(texts, _fold_letters)
    folded = _fold_lines(texts if not others else [t if t.isascii() else "" for t in texts], _fold_ascii)
    for row, text in zip(others, _fold_lines([texts[row] for row in others], _fold_letters), strict=True):
        folded[row] = text
    return folded


def _fold_lines(texts: Sequence[str], fold: Callable[[str], str]) -> list[str]:
    if not texts:
        return []
    joined = "\n".join(texts)
    if joined.count("\n") != len(texts) - 1:
        joined = "\n".join(" ".join(text.splitlines()) for text in texts)
    folded = _signs().sub(" ", fold(joined).replace("str.", "strasse "))
    return [line.strip() for line in folded.split("\n")]


def _fold_ascii(text: str) -> str:
    return text.lower().replace("'", "").replace("`", "").replace("_", " ")


def _fold_letters(text: str) -> str:
    apart = unicodedata.normalize("NFKD", text.replace("´", "'")).casefold().translate(LETTERS)
    return unicodedata.normalize("NFC", re.sub("[\u0300-\u036f]+", "", apart))


@cache
def _signs() -> re.Pattern[str]:
    """Everything that is neither a letter, a digit, a line's end nor a mark that belongs to a letter."""
    marks = [chr(code) for code in range(0x370, 0x10000) if unicodedata.category(chr(code)).startswith("M")]
    return re.compile(f"[^\\w\n{''.join(marks)}]+")


def spell_out(folded: str) -> str:
    """A folded text with its abbreviations written out, the same text if there are none.

    >>> spell_out("karlsruhe hbf"), spell_out("kaiserstr 12"), spell_out("sankt blasien")
    ('karlsruhe hauptbahnhof', 'kaiserstrasse 12', 'saint blasien')
    """
    return SHORT.sub(lambda found: ABBREVIATIONS[found.group()], folded)


def give_spellings(text: str) -> list[str]:
    """All folded spellings of a text, the plain one first, none twice; empty if nothing is left of it.

    >>> give_spellings("Köln Hbf")
    ['koln hbf', 'koln hauptbahnhof', 'koeln hbf', 'koeln hauptbahnhof']
    """
    plain = fold_text(text)
    return [plain, *find_variants([text], [plain]).get(0, ())] if plain else []


def find_variants(texts: Sequence[str], folded: Sequence[str]) -> dict[int, list[str]]:
    """Row → its spellings beside `folded`, for those of `texts` that have any."""
    found: dict[int, list[str]] = {}

    def add(rows: Iterable[int], spelt: Iterable[str]) -> None:
        for row, text in zip(rows, spelt, strict=True):
            if text != folded[row] and text and text not in found.get(row, ()):
                found.setdefault(row, []).append(text)

    add(range(len(folded)), spell_out("\n".join(folded)).split("\n"))
    marked = [row for row, text in enumerate(texts) if not text.isascii() and UMLAUTS.search(text)]
    if marked:
        lower = (unicodedata.normalize("NFC", texts[row]).lower() for row in marked)
        wide = fold_all([text.translate(DIGRAPHS) for text in lower])
        add(marked, wide)
        add(marked, spell_out("\n".join(wide)).split("\n"))
    return found


def split_locality(name: str, locality: str) -> str:
    """A name without the locality behind its last comma.

    >>> split_locality("Schanzstraße, Wiernsheim", "Wiernsheim"), split_locality("Bad, Rot", "Ulm")
    ('Schanzstraße', 'Bad, Rot')
    """
    head, comma, tail = name.rpartition(",")
    return head.strip() if comma and head.strip() and tail.strip() == locality.strip() else name


def drop_brackets(name: str) -> str:
    """A name without what stands in brackets; the same name if nothing else is left.

    >>> drop_brackets("Frankfurt(Main)Hbf"), drop_brackets("(U)")
    ('Frankfurt Hbf', '(U)')
    """
    if "(" not in name:
        return name
    bare = " ".join(BRACKETS.sub(" ", name).split())
    return bare or name
