"""Text folded for comparing: one case, no accents, single blanks between words; and its other spellings."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

LETTERS = {
    "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h", "ŧ": "t",
}  # fmt: skip  # letters of their own, which Unicode takes apart no further
APOSTROPHES = frozenset("'’‘ʼʻʹ′`´ʿʾ")  # these vanish; every other sign parts words
DIGRAPHS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})
ABBREVIATIONS = {
    "hbf": "hauptbahnhof", "bf": "bahnhof", "bhf": "bahnhof", "str": "strasse", "pl": "platz", "st": "saint",
    "sankt": "saint", "ste": "sainte", "ft": "fort", "mt": "mount",
}  # fmt: skip
STREET = re.compile(r"str\.", re.IGNORECASE)
SHORT = re.compile(rf"(?<!\S)(?:{'|'.join(ABBREVIATIONS)})(?!\S)|(?<=\S\S\S)str(?!\S)")
BRACKETS = re.compile(r"\([^()]*\)?")
KEPT = 2**17  # folded texts that are remembered


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


@lru_cache(maxsize=KEPT)
def fold_text(text: str) -> str:
    """The text in one case, without accents, ß as ss, "str." as "strasse", and other signs as one blank.

    As the engines fold it. Nothing but letters, digits and single blanks is left; a text without any gives
    "". Folding twice changes nothing.

    >>> fold_text("Bahnhof/Niederwaldstr.,  RASTATT"), fold_text("Łódź"), fold_text("Coeur d’Alene")
    ('bahnhof niederwaldstrasse rastatt', 'lodz', 'coeur dalene')
    >>> fold_text("?!")
    ''
    """
    if "." in text:
        text = STREET.sub("strasse ", text)
    return " ".join(text.translate(_FOLDS).split())


@lru_cache(maxsize=KEPT)
def give_spellings(text: str) -> tuple[str, ...]:
    """The folded spellings of a text, the plain one first, none twice; none at all if nothing is left of it.

    Beside the plain one: without what stands in brackets, umlauts as two letters, abbreviations written out.

    >>> give_spellings("Köln Hbf")
    ('koln hbf', 'koeln hbf', 'koln hauptbahnhof', 'koeln hauptbahnhof')
    >>> give_spellings("Frankfurt(Main)"), give_spellings("?")
    (('frankfurt main', 'frankfurt'), ())
    """
    plain = fold_text(text)
    if not plain:
        return ()
    found = [plain]
    if "(" in text:
        found.append(fold_text(BRACKETS.sub(" ", text)))
    if not text.isascii():
        found.append(fold_text(unicodedata.normalize("NFC", text).lower().translate(DIGRAPHS)))
    found += [SHORT.sub(lambda short: ABBREVIATIONS[short.group()], each) for each in found]
    return tuple(dict.fromkeys(each for each in found if each))
