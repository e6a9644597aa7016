"""Text folded for comparing: one case, no accents, single blanks between words; and its other spellings.

`fold_text` is what features and engines compare by. `fold_letters` leaves signs where they are, for telling
whether a query is a name as it is written.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache, update_wrapper
from typing import Any, TypeVar

from placings.core.errors import BadInput

KEPT_TEXTS = "PLACINGS_KEPT_TEXTS"  # of the environment; a process that runs for weeks is told to keep fewer


def _find_kept() -> int:
    chosen = os.environ.get(KEPT_TEXTS, "").strip()
    if chosen and not (chosen.isdecimal() and int(chosen) >= 1):
        raise BadInput(f"{KEPT_TEXTS} must be a whole number, 1 or more. Got {chosen!r}.")
    return int(chosen) if chosen else 2**17


LETTERS = {
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ŧ": "t",
}  # fmt: skip  # letters of their own, which Unicode takes apart no further
APOSTROPHES = frozenset("'’‘ʼʻʹ′`´ʿʾ")  # these vanish; every other sign parts words
DIGRAPHS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
UMLAUTS = re.compile("[äöüøåÄÖÜØÅ\u0308\u030a]")  # the last two are dots and a ring on their own
ABBREVIATIONS = {
    "hbf": "hauptbahnhof", "bf": "bahnhof", "bhf": "bahnhof", "str": "strasse", "pl": "platz", "st": "saint",
    "sankt": "saint", "ste": "sainte", "ft": "fort", "mt": "mount",
}  # fmt: skip
WORDS = frozenset(ABBREVIATIONS)
STREET = re.compile(r"str\.", re.IGNORECASE)
SHORT = re.compile(rf"(?<!\S)(?:{'|'.join(ABBREVIATIONS)})(?!\S)|(?<=\S\S\S)str(?!\S)")
BRACKETS = re.compile(r"\([^()]*\)?")
KEPT = _find_kept()  # folded texts that are remembered, some 400 bytes each
SHORT_TEXT, LONG_TEXT = 128, 1024  # letters: texts up to the first are remembered as many as KEPT,
KEPT_LONG = 512  # of those up to the second only so many, and longer ones not at all: memory is bounded

F = TypeVar("F", bound=Callable[..., Any])


def remember_short(most: int) -> Callable[[F], F]:
    """An `lru_cache` for functions of a text: few long texts are remembered, and very long ones not at all.

    >>> count = remember_short(8)(len)
    >>> count("Ulm"), count("Ulm"), count("x" * 2000), count.cache_info().currsize
    (3, 3, 2000, 1)
    """

    def decorate(function: F) -> F:
        kept = lru_cache(maxsize=most)(function)
        kept_long = lru_cache(maxsize=min(most, KEPT_LONG))(function)

        def call(text: str, **how: Any) -> Any:
            if len(text) <= SHORT_TEXT:
                return kept(text, **how)
            return kept_long(text, **how) if len(text) <= LONG_TEXT else function(text, **how)

        wrapped: Any = update_wrapper(call, function)
        wrapped.cache_info, wrapped.cache_clear = kept.cache_info, kept.cache_clear
        found: F = wrapped
        return found

    return decorate


class _Folds(dict[int, str]):
    """What each character becomes, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        kept = ""
        for each in _take_apart(chr(code)):
            if each in APOSTROPHES or "\u0300" <= each <= "\u036f":
                continue  # an accent; marks of other scripts, such as voiced kana, make another letter
            part_of_word = each.isalnum() or unicodedata.category(each)[0] == "M"
            kept += LETTERS.get(each, each) if part_of_word else " "
        self[code] = unicodedata.normalize("NFC", kept)
        return self[code]


def _take_apart(letter: str) -> str:
    """Its plain lower-case parts; twice, for what is taken apart may have a case: 𝓐 becomes A, and then a."""
    if letter in APOSTROPHES:  # before ´ is taken apart into a blank and an accent
        return ""
    for _ in range(2):
        letter = unicodedata.normalize("NFKD", letter.casefold())
    return letter


_FOLDS = _Folds()


@remember_short(KEPT)
def fold_text(text: str) -> str:
    """The text in one case, without accents, ß as ss, "str." as "strasse", and other signs as one blank.

    Nothing but letters, digits and single blanks is left; a text without any gives "". Apostrophes vanish.
    Folding twice changes nothing.

    >>> fold_text("Bahnhof/Niederwaldstr.,  RASTATT"), fold_text("Łódź"), fold_text("Coeur d’Alene")
    ('bahnhof niederwaldstrasse rastatt', 'lodz', 'coeur dalene')
    >>> fold_text("?!")
    ''
    """
    return _fold(text)


def _fold(text: str) -> str:
    if "." in text:
        text = STREET.sub("strasse ", text)
    folded = " ".join(text.translate(_FOLDS).split())
    # marks of neighbours come into one order, and a half-width kana with its voiced mark becomes one letter
    return folded if folded.isascii() else unicodedata.normalize("NFC", folded)


@remember_short(KEPT)
def fold_letters(text: str) -> str:
    """Without case, accents and more than one blank in a row; signs stay.

    >>> fold_letters("  Straße  É-1")
    'strasse e-1'
    """
    parts = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(letter for letter in parts if not unicodedata.combining(letter)).split())


@remember_short(KEPT)
def give_spellings(text: str, *, bare: bool = False) -> tuple[str, ...]:
    """The folded spellings of a text, the plain one first, none twice; none at all if nothing is left of it.

    Beside the plain one: abbreviations written out, umlauts as two letters, and with `bare` the text without
    what stands in brackets. An engine reads a query word by word and so leaves `bare` out: the bare names
    are in its index.

    >>> give_spellings("Köln Hbf")
    ('koln hbf', 'koln hauptbahnhof', 'koeln hbf', 'koeln hauptbahnhof')
    >>> give_spellings("Frankfurt(Main)", bare=True), give_spellings("?")
    (('frankfurt main', 'frankfurt'), ())
    """
    return spell_once(text, bare=bare)


def spell_once(text: str, *, bare: bool = False) -> tuple[str, ...]:
    """`give_spellings`, remembering nothing: for the names of an index, of which each comes once."""
    plain = _fold(text)
    if not plain:
        return ()
    found = [plain, spell_out(plain)]
    if bare and "(" in text:
        short = _fold(BRACKETS.sub(" ", text))
        found += [short, spell_out(short)]
    if not text.isascii() and UMLAUTS.search(text):
        wide = _fold(unicodedata.normalize("NFC", text).lower().translate(DIGRAPHS))
        found += [wide, spell_out(wide)]
    return tuple(dict.fromkeys(each for each in found if each))


def spell_out(folded: str) -> str:
    """A folded text with its abbreviations written out, the same text if there are none.

    >>> spell_out("karlsruhe hbf"), spell_out("kaiserstr 12"), spell_out("sankt blasien")
    ('karlsruhe hauptbahnhof', 'kaiserstrasse 12', 'saint blasien')
    """
    if "str " not in folded and not folded.endswith("str") and WORDS.isdisjoint(folded.split()):
        return folded  # most texts; the pattern takes four times as long
    return SHORT.sub(lambda found: ABBREVIATIONS[found.group()], folded)


def drop_brackets(name: str) -> str:
    """A name without what stands in brackets; the same name if nothing else is left.

    >>> drop_brackets("Frankfurt(Main)Hbf"), drop_brackets("(U)")
    ('Frankfurt Hbf', '(U)')
    """
    if "(" not in name:
        return name
    bare = " ".join(BRACKETS.sub(" ", name).split())
    return bare or name
