"""How a place's name becomes the texts that a search box sends: spellings, slips of the finger, pauses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from numpy.random import Generator

if TYPE_CHECKING:
    from placings.places.people import Person
    from placings.places.place import Place

SHORTEST = 3  # characters before a box sends anything; a shorter name is sent when it is complete
MOST_PAUSES = 8  # in one text
ABBREVIATED = 0.12  # of the names that have a word with a short form
STATION = 0.15  # of the stations that do not say so are called one: Bahnhof Weimar
ROWS = ("1234567890", "qwertzuiopü", "asdfghjklöä", "yxcvbnm")  # a German keyboard
AE = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue", "ß": "ss"})
PLAIN = str.maketrans({"ä": "a", "ö": "o", "ü": "u", "Ä": "A", "Ö": "O", "Ü": "U", "ß": "ss"})
SHORT_FORMS = (
    (re.compile(r"hauptbahnhof", re.I), "Hbf"),
    (re.compile(r"\bhbf\b", re.I), "Hauptbahnhof"),
    (re.compile(r"\bbahnhof\b", re.I), "Bf"),
    (re.compile(r"\bbf\b", re.I), "Bahnhof"),
    (re.compile(r"straße\b"), "str"),
    (re.compile(r"\bStraße\b"), "Str"),
    (re.compile(r"\bSaint\b"), "St"),
)
STATION_WORDS = re.compile(r"bahnhof|bhf|\b[hs]?bf\b|station|halt", re.I)
LATIN = re.compile(r"[^\W\d_]")
_BRACKETS = re.compile(r"\s*\([^)]*\)\s*")
_QUALIFIER = re.compile(r"\s*[(,/]|\s+[abi]\.?(?=\s|[A-Z]|d\.)")  # Frankfurt a.M., Malsch b Wiesloch


@dataclass(frozen=True)
class Wish:
    """A text that somebody is about to type.

    The first `named` characters are the place's name alone (0 if the detail comes first); a text of more
    than `detailed` characters holds detail, the locality or the street, too (None: there is none).
    """

    text: str
    named: int
    detailed: int | None = None

    def name_kind(self, length: int, slipped: bool) -> str:
        """What the first `length` characters are: "typo", "detail", "full" or "prefix".

        >>> wish = Wish("hauptbahnhof karlsruhe", 12, 13)
        >>> [wish.name_kind(length, False) for length in (5, 12, 13, 16, 22)]
        ['prefix', 'full', 'full', 'detail', 'detail']
        >>> wish.name_kind(16, slipped=True)
        'typo'
        """
        if slipped:
            return "typo"
        if self.detailed is not None and length > self.detailed:
            return "detail"
        return "full" if self.named and length >= self.named else "prefix"


def shorten_name(place: Place) -> str:
    """The name as people say it: without its locality behind a comma, brackets and slashes.

    >>> from placings.places.place import Place
    >>> shorten_name(Place("1", "Bahnhof/Niederwaldstraße, Rastatt", 48.9, 8.2, locality="Rastatt"))
    'Bahnhof Niederwaldstraße'
    >>> shorten_name(Place("2", "Höfen(Enz) Bf", 48.8, 8.6))
    'Höfen Bf'
    """
    name = place.name
    head, comma, tail = name.rpartition(",")
    if comma and head.strip() and tail.strip().casefold() == place.locality.casefold():
        name = head
    said = " ".join(_BRACKETS.sub(" ", name).replace("/", " ").split())
    return said or place.name


def shorten_locality(locality: str) -> str:
    """A locality as people say it: Frankfurt for Frankfurt a.M., Malsch for Malsch b Wiesloch."""
    return _QUALIFIER.split(locality, maxsplit=1)[0].strip() or locality


def list_other_names(place: Place) -> list[str]:
    """Other names in Latin letters of at least three characters, each once."""
    said = shorten_name(place).casefold()
    return [
        name
        for name in dict.fromkeys(place.names)
        if len(name) >= SHORTEST
        and name.casefold() != said
        and all(letter < "ɐ" for letter in LATIN.findall(name))
    ]


def compose(
    place: Place, person: Person, rng: Generator, *, detail: bool = False, alternate: bool = False
) -> Wish:
    """What a person types for a place, in their spelling.

    `detail` adds the locality (behind, before, or behind a comma; an address with its postcode now and then;
    a city has its region or country instead) or, if the place has one and chance says so, the street. A place
    that has neither, or whose name says it already, stays as it is. `alternate` takes one of the other names,
    if there is one.
    """
    others = list_other_names(place) if alternate else []
    name = others[int(rng.integers(len(others)))] if others else shorten_name(place)
    if rng.random() < ABBREVIATED:
        name = next((form.sub(short, name) for form, short in SHORT_FORMS if form.search(name)), name)
    if place.type == "station" and rng.random() < STATION and not STATION_WORDS.search(name):
        name = f"Bahnhof {name}" if rng.random() < 0.7 else f"{name} Bahnhof"
    added = _choose_detail(place, name, rng) if detail else ""
    if not added:
        text = spell(name, person)
        return Wish(text, len(text))
    drawn = rng.random()
    if drawn < 0.3 and place.type != "address":
        before, behind = spell(added, person), spell(name, person)
        return Wish(f"{before} {behind}", 0, len(before) + 1)
    between = " " if drawn < 0.8 else ", "
    text = spell(f"{name}{between}{added}", person)
    named = len(spell(name, person))
    return Wish(text, named, named + len(between))


def _choose_detail(place: Place, name: str, rng: Generator) -> str:
    street = place.street if place.street and place.street.casefold() not in name.casefold() else ""
    if street and rng.random() < 0.4:
        return street
    locality = shorten_locality(place.locality) if place.locality else _name_region(place, rng)
    if not locality or locality.casefold() in name.casefold():
        return street
    postcode = place.fields.get("postcode")
    if postcode and rng.random() < 0.15:
        return f"{postcode} {locality}"
    return locality


def _name_region(place: Place, rng: Generator) -> str:
    """What is said behind a city: its region (Illinois or IL, where both are known), or its country."""
    region = str(place.fields.get("region") or "")
    if not region or rng.random() < 0.2:
        return place.country if len(place.country) > 3 else ""
    head, _, code = region.rpartition(" ")
    if head and len(code) == 2 and code.isupper():
        return code if rng.random() < 0.5 else head
    return region


def spell(text: str, person: Person) -> str:
    """The text in a person's habit: umlauts as ae or without dots, capitals or none."""
    if person.umlauts != "kept":
        text = text.translate(AE if person.umlauts == "ae" else PLAIN)
    if person.capitals == "kept":
        return text
    text = text.lower()
    return text[:1].upper() + text[1:] if person.capitals == "first" else text


def mistype(text: str, slips: float, rng: Generator) -> tuple[str, list[int]]:
    """The text as the fingers type it, and how many characters of it are right before each slip.

    Each character but the first slips with probability `slips`: a neighbouring key (45 %), a character left
    out (25 %), two swapped (20 %), one doubled (10 %). A text of `n` characters holds a slip if `n` is above
    one of the numbers.

    >>> from numpy.random import default_rng
    >>> mistype("hauptbahnhof", 0.0, default_rng(0))
    ('hauptbahnhof', [])
    """
    drawn = rng.random(len(text)) < slips
    drawn[:1] = False
    if not drawn.any():
        return text, []
    typed: list[str] = []
    errors = []
    at = 0
    while at < len(text):
        letter = text[at]
        if not drawn[at]:
            typed.append(letter)
            at += 1
            continue
        way = rng.random()
        begins = len(typed)
        step = 1
        if way < 0.45:
            wrong = _press_beside(letter, rng)
            typed.append(wrong)
            changed = wrong != letter
        elif way < 0.70:
            changed = text[at + 1 : at + 2] != letter and at + 1 < len(text)
            if not changed:
                typed.append(letter)
        elif way < 0.90 and at + 1 < len(text) and text[at + 1] != letter:
            typed += [text[at + 1], letter]
            changed, step = True, 2
        else:
            typed += [letter, letter]
            begins, changed = begins + 1, True
        if changed:
            errors.append(begins)
        at += step
    return "".join(typed), errors


def _press_beside(letter: str, rng: Generator) -> str:
    """A key beside that one; a character that is on no key stays."""
    low = letter.lower()
    for number, row in enumerate(ROWS):
        at = row.find(low)
        if at < 0:
            continue
        beside = [row[near] for near in (at - 1, at + 1) if 0 <= near < len(row)]
        for other in (number - 1, number + 1):
            # digits are hit instead of digits, letters instead of letters
            if 1 <= other < len(ROWS) and number > 0 and at < len(ROWS[other]):
                beside.append(ROWS[other][at])
        key = beside[int(rng.integers(len(beside)))]
        return key.upper() if letter.isupper() else key
    return letter


def choose_pauses(length: int, burst: float, rng: Generator) -> list[int]:
    """After how many characters the person pauses, so that the text is sent; the last is the whole text.

    The first pause is at three characters or a few later; then come bursts of at least one character,
    `burst` in the mean. At most eight pauses.

    >>> from numpy.random import default_rng
    >>> choose_pauses(2, 4.0, default_rng(0))
    [2]
    """
    pauses: list[int] = []
    at = SHORTEST - 1 + int(rng.geometric(0.4))
    while at < length and len(pauses) < MOST_PAUSES - 1:
        pauses.append(at)
        at += 1 + int(rng.poisson(max(burst - 1.0, 0.0)))
    return [*pauses, length]
