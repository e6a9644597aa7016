"""Simulated people: where they live, when they search, which places they mean, and how they type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator, SeedSequence

from placings.core import BadInput, Floats, Ints, arc_km, find_zone, measure_km
from placings.places import Place
from placings.rerank import Focus

if TYPE_CHECKING:
    from placings.places import Place

# A group is what a person has in mind before any one place; a type that is not named here is a poi.
GROUPS = ("stop", "address", "street", "locality", "poi")
GROUP_OF = {
    **dict.fromkeys(("stop", "station", "platform", "venue:station"), "stop"),
    **dict.fromkeys(("address", "house"), "address"),
    **dict.fromkeys(("street", "road"), "street"),
    **dict.fromkeys(
        ("locality", "city", "town", "village", "hamlet", "borough", "county", "region"), "locality"
    ),
}
# Most searches of a travel app are for stops; the group is drawn before the place, since most
# addresses of a map weigh 0 and would never be meant if weights were compared across groups.
SHARES = np.array([0.60, 0.15, 0.06, 0.09, 0.10])
HOMES = np.array([0.40, 0.20, 0.00, 0.40, 0.00])  # what people live near
# Within a group a place is meant in proportion to (1 + weight)^exponent. Who travels far goes where many go:
# there the exponent is twice as large, up to 1, as in models of gravity.
EXPONENTS = np.array([0.40, 0.40, 0.40, 0.70, 0.50])
FAR_EXPONENTS = np.minimum(2.0 * EXPONENTS, 1.0)

DECAY = 2.75  # people go far seldom: the density of trips of r km falls about as r^−1.75
WEEK = np.array([1.0, 1.0, 1.0, 1.05, 1.2, 1.15, 0.85])  # sessions from Monday to Sunday
HOURS = np.array([3, 2, 1, 1, 2, 5, 12, 20, 17, 13, 12, 13, 14, 13, 14, 17, 21, 23, 20, 15, 11, 9, 7, 5.0])
#                    stop  address street locality poi
PARTS_OF_DAY = {
    "night": np.array([0.9, 1.5, 1.0, 0.7, 1.1]),  # 20 to 6
    "morning": np.array([1.3, 0.8, 0.9, 0.8, 0.6]),  # 6 to 10
    "midday": np.array([0.9, 1.0, 1.2, 1.0, 1.4]),  # 10 to 16
    "evening": np.array([1.0, 1.3, 1.0, 1.0, 1.0]),  # 16 to 20
}
WEEKEND = np.array([0.8, 1.2, 1.0, 1.9, 1.6])
ORIGIN = np.array([1.2, 1.3, 0.8, 0.3, 0.4])  # one rarely sets out from a whole city
PLATFORMS = {"android": 0.50, "ios": 0.35, "web": 0.15}


@dataclass(frozen=True)
class Behaviour:
    """How the simulated people behave; shares lie between 0 and 1.

    `hidden` of the people share no position (twice as many on the web as on phones). A person has about
    `sessions` sessions within `weeks` weeks from `start` (a Monday). `repeats` of the sessions mean a place
    that the person meant before, `events` one of the week's three places that are on everyone's lips, `far`
    one wherever it lies, by its size. For the others distance counts as `(1 + km / reach_km)^−2.75`; if
    `reach_km` is None it follows from how far the places lie apart. `finishers` of the sessions type to the
    end before they look, `pasted` send a whole text with its locality, copied from elsewhere. `details` of
    the others add the locality or street without being asked, half as many again where a name is not unique.
    `alternates` type another name, five times as many from more than 1,000 km away. `slips` are wrong keys a
    character on a phone, half as many on the web.
    """

    hidden: float = 0.3
    sessions: float = 6.0
    weeks: int = 8
    start: str = "2024-05-06"
    repeats: float = 0.3
    events: float = 0.04
    far: float = 0.1
    reach_km: float | None = None
    finishers: float = 0.35
    pasted: float = 0.10
    details: float = 0.30
    alternates: float = 0.06
    slips: float = 0.02

    def __post_init__(self) -> None:
        numbers = {each.name: getattr(self, each.name) for each in fields(self)}
        for name in (
            "hidden",
            "repeats",
            "events",
            "far",
            "finishers",
            "pasted",
            "details",
            "alternates",
            "slips",
        ):
            if not 0.0 <= numbers[name] <= 1.0:
                raise BadInput(f"{name} must lie between 0 and 1. Got {numbers[name]!r}.")
        if self.sessions < 1 or self.weeks < 1:
            raise BadInput(f"sessions and weeks must be at least 1. Got {self.sessions} and {self.weeks}.")
        if self.reach_km is not None and not self.reach_km > 0:
            raise BadInput(f"reach_km must be above 0. Got {self.reach_km!r}.")
        try:
            datetime.fromisoformat(self.start)
        except (TypeError, ValueError) as error:
            raise BadInput(f'start must be a date such as "2024-05-06". Got {self.start!r}.') from error


@dataclass(frozen=True, eq=False)
class Person:
    """Somebody who searches: where, on what, and how they type."""

    id: str
    home: Focus
    work: Focus
    zone: str  # the name of a time zone; empty: the hour follows from the longitude
    platform: str
    hides: bool
    habit: Floats  # [groups], sums to 1
    burst: float  # characters typed between two pauses, in the mean
    slips: float  # wrong keys a character
    umlauts: str  # "kept", "ae" or "plain"
    capitals: str  # "kept", "first" or "none"


@dataclass(frozen=True)
class Moment:
    """When a session begins: by the person's clock, and in UTC without a zone."""

    local: datetime
    utc: datetime


@dataclass(eq=False)
class World:
    """The places as arrays, and what draws people and targets from them."""

    places: Sequence[Place]
    behaviour: Behaviour = field(default_factory=Behaviour)

    def __post_init__(self) -> None:
        if not self.places:
            raise BadInput("places must hold at least one place. Got none.")
        lat = np.radians([place.lat for place in self.places])
        lon = np.radians([place.lon for place in self.places])
        weight = np.array([place.weight for place in self.places], dtype=np.float64)
        if not (np.isfinite(lat) & np.isfinite(lon)).all():
            raise BadInput("every place must have a latitude and a longitude to be simulated with.")
        group = np.array([GROUPS.index(GROUP_OF.get(place.type, "poi")) for place in self.places])
        self.vectors = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
        self.members: list[Ints] = [np.flatnonzero(group == each) for each in range(len(GROUPS))]
        size = 1.0 + np.maximum(np.nan_to_num(weight), 0.0)
        self.appeal = [(size ** EXPONENTS[group])[members] for members in self.members]
        self._far = [np.cumsum((size ** FAR_EXPONENTS[group])[members]) for members in self.members]
        there = np.array([len(members) > 0 for members in self.members], dtype=np.float64)
        self.shares = share_groups(there)
        homes = HOMES * there if (HOMES * there).any() else self.shares
        self.homes = homes / homes.sum()
        self._ends: dict[int, Floats] = {}
        self.reach = self.behaviour.reach_km or self._measure_reach()
        self.common = _count_names(self.places)

    def _measure_reach(self) -> float:
        """A twentieth of the median distance between two places that people live near, from 3 to 100 km."""
        rng = np.random.default_rng(0)
        pairs = [(self._draw_home(rng), self._draw_home(rng)) for _ in range(200)]
        apart = [measure_apart(self.places[a], self.places[b]) for a, b in pairs]
        return float(np.clip(0.05 * np.median(apart), 3.0, 100.0))

    def _draw_home(self, rng: Generator) -> int:
        group = draw_one(rng, np.cumsum(self.homes))
        if group not in self._ends:
            self._ends[group] = np.cumsum(self.appeal[group])
        return int(self.members[group][draw_one(rng, self._ends[group])])

    def draw_far(self, rng: Generator, group: int) -> int:
        """A place of the group wherever it lies, in proportion to how many go there; the place's number."""
        return int(self.members[group][draw_one(rng, self._far[group])])

    def draw_person(self, number: int, seed: int) -> tuple[Person, Generator]:
        """Person `number` of the crowd of that seed, and the generator that all they do is drawn from.

        Six in seven live around a place drawn by its appeal (normally distributed, a third of the reach
        wide), the others around any place, three times as widely.
        """
        rng = np.random.default_rng(SeedSequence(seed, spawn_key=(number,)))
        if rng.random() < 6 / 7:
            near, width = self._draw_home(rng), self.reach / 3
        else:
            near, width = int(rng.integers(len(self.places))), self.reach
        home = shift(rng, self.places[near], width)
        platform = list(PLATFORMS)[draw_one(rng, np.cumsum(list(PLATFORMS.values())))]
        web = platform == "web"
        hidden = self.behaviour.hidden / (1.0 + PLATFORMS["web"])  # so that the mean is as asked for
        habit = rng.dirichlet(np.maximum(8.0 * self.shares, 1e-3))
        person = Person(
            id=f"p{number:06d}",
            home=home,
            work=home,
            zone=self.places[near].zone,
            platform=platform,
            hides=bool(rng.random() < (2.0 * hidden if web else hidden)),
            habit=habit * (self.shares > 0) / (habit * (self.shares > 0)).sum(),
            burst=float(rng.gamma(8.0, 0.5)),
            slips=self.behaviour.slips * float(rng.gamma(2.0, 0.5)) * (0.5 if web else 1.0),
            umlauts=("kept", "ae", "plain")[draw_one(rng, np.array([0.8, 0.92, 1.0]))],
            capitals=("kept", "first", "none")[draw_one(rng, np.array([0.25, 0.55, 1.0]))],
        )
        work = self.places[Chooser(self, person).draw(rng, home, draw_one(rng, np.cumsum(person.habit)))]
        return Person(**{**vars(person), "work": shift(rng, work, 0.3)}), rng

    def draw_moments(self, rng: Generator, person: Person) -> list[Moment]:
        """The beginnings of a person's sessions in the order of time, by a weekly and a daily profile."""
        first = datetime.fromisoformat(self.behaviour.start)
        number = int(rng.geometric(1.0 / self.behaviour.sessions))
        moments = []
        for _ in range(number):
            day = 7 * int(rng.integers(self.behaviour.weeks)) + draw_one(rng, np.cumsum(WEEK))
            hour = draw_one(rng, np.cumsum(HOURS)) + rng.random()
            local = first + timedelta(days=day, microseconds=int(hour * 3_600_000_000))
            moments.append(Moment(local, to_utc(local, person.zone, person.home[1])))
        return sorted(moments, key=lambda moment: moment.utc)

    def draw_events(self, seed: int) -> list[list[int]]:
        """For each week three places that many people want to go to just then."""
        rng = np.random.default_rng(SeedSequence(seed, spawn_key=(2**32 - 1,)))
        return [[self._draw_home(rng) for _ in range(3)] for _ in range(self.behaviour.weeks)]


class Chooser:
    """Draws what one person means; remembers distances from where the person has been."""

    def __init__(self, world: World, person: Person) -> None:
        self.world = world
        self.person = person
        self._ends: dict[tuple[Focus, int, float], Floats] = {}
        self._past: list[tuple[int, int]] = []  # (place, hour)

    def draw(self, rng: Generator, here: Focus, group: int, reach: float | None = None) -> int:
        """A place of the group, as likely as its appeal and its nearness say; the place's number."""
        reach = self.world.reach if reach is None else reach
        key = (here, group, reach)
        if key not in self._ends:
            members = self.world.members[group]
            x, y, z = self.world.vectors[:, members]
            a, b, c = _point(here)
            # summed by hand: a matrix product may add in another order on another machine
            chord = np.sqrt(np.maximum(2.0 - 2.0 * (x * a + y * b + z * c), 0.0))
            km = arc_km(np.minimum(chord / 2.0, 1.0))
            self._ends[key] = np.cumsum(self.world.appeal[group] / (1.0 + km / reach) ** DECAY)
        return int(self.world.members[group][draw_one(rng, self._ends[key])])

    def draw_target(
        self, rng: Generator, moment: Moment, here: Focus, target: str | None, events: Sequence[Sequence[int]]
    ) -> int:
        """What the person means now: a place meant before, one of the week, or one drawn anew.

        Anew: the group by habit, part of day, weekend and whether it is the origin; then the place by
        `appeal · (1 + km/reach)^−2.75`, or for a far trip by its size alone. An origin is sought near: a
        quarter of the reach.
        """
        behaviour = self.world.behaviour
        hour = moment.local.hour
        if self._past and rng.random() < behaviour.repeats:
            apart = np.array([abs(hour - then) for _, then in self._past])
            ends = np.cumsum(np.exp(-np.minimum(apart, 24 - apart) / 3.0))
            chosen = self._past[draw_one(rng, ends)][0]
        elif target != "origin" and rng.random() < behaviour.events:
            first = datetime.fromisoformat(behaviour.start)
            week = min((moment.local - first).days // 7, len(events) - 1)
            chosen = min(events[week], key=lambda place: measure_apart(here, self.world.places[place]))
        else:
            group = draw_one(rng, np.cumsum(self._weigh_groups(moment.local, target)))
            reach = self.world.reach / 4.0 if target == "origin" else self.world.reach
            if target != "origin" and rng.random() < behaviour.far:
                chosen = self.world.draw_far(rng, group)
            else:
                chosen = self.draw(rng, here, group, reach)
        self._past.append((chosen, hour))
        return chosen

    def _weigh_groups(self, local: datetime, target: str | None) -> Floats:
        weights: Floats = self.person.habit * PARTS_OF_DAY[name_part_of_day(local.hour)]
        if local.weekday() >= 5:
            weights = weights * WEEKEND
        return weights * ORIGIN if target == "origin" else weights

    def draw_here(self, rng: Generator, moment: Moment) -> Focus:
        """Where the person is: at work on weekdays from 8 to 17, more often than not, else at home or out."""
        busy = moment.local.weekday() < 5 and 8 <= moment.local.hour < 17
        drawn = rng.random()
        if drawn < 0.15:
            group = draw_one(rng, np.cumsum(self.person.habit))
            out = self.world.places[self.draw(rng, self.person.home, group)]
            return out.lat, out.lon
        return self.person.work if busy and drawn < 0.75 else self.person.home


# -- small parts --------------------------------------------------------------------------------------


def draw_one(rng: Generator, ends: Floats) -> int:
    """One place of a list, as likely as its step in the running sums says."""
    return min(int(np.searchsorted(ends, rng.random() * ends[-1], side="right")), len(ends) - 1)


def share_groups(there: Floats) -> Floats:
    """How often each group is meant where only some are `there` (1, else 0).

    Where a map lacks a group, the town is asked for instead, and where it has no towns, any other group.

    >>> share_groups(np.array([1.0, 0.0, 0.0, 1.0, 0.0])).round(2)
    array([0.6, 0. , 0. , 0.4, 0. ])
    """
    shares: Floats = SHARES * there
    town = GROUPS.index("locality")
    shares[town] += there[town] * (SHARES * (1.0 - there)).sum()
    shares /= shares.sum()
    return shares


def name_part_of_day(hour: int) -> str:
    """night (20 to 6), morning (to 10), midday (to 16) or evening (to 20).

    >>> [name_part_of_day(hour) for hour in (5, 6, 12, 19, 23)]
    ['night', 'morning', 'midday', 'evening', 'night']
    """
    if 6 <= hour < 10:
        return "morning"
    if 10 <= hour < 16:
        return "midday"
    return "evening" if 16 <= hour < 20 else "night"


def measure_apart(one: Place | Focus, other: Place | Focus) -> float:
    """The great-circle distance in km of two places or positions.

    >>> round(measure_apart((49.0, 8.4), (48.0, 8.4)), 1)  # a degree of latitude
    111.2
    """
    return measure_km(*_locate(one), *_locate(other))


def shift(rng: Generator, centre: Place | Focus, km: float) -> Focus:
    """A point around the centre, normal with that width, as degrees with five digits (about a metre)."""
    lat, lon = _locate(centre)
    north, east = rng.normal(0.0, km / 111.2, 2)
    lat = float(np.clip(lat + north, -89.9, 89.9))
    lon = (lon + east / np.cos(np.radians(lat)) + 180.0) % 360.0 - 180.0
    return round(lat, 5), round(float(lon), 5)


def to_utc(local: datetime, zone: str, longitude: float) -> datetime:
    """UTC without a zone; where the zone is not known, an hour for 15 degrees of longitude.

    >>> noon = datetime(2024, 5, 6, 12)
    >>> to_utc(noon, "Europe/Berlin", 8.4).hour, to_utc(noon, "", 8.4).hour
    (10, 11)
    """
    there = find_zone(zone)
    if there is not None:
        return local.replace(tzinfo=there).astimezone(UTC).replace(tzinfo=None)
    return local - timedelta(hours=round(longitude / 15.0))


def _locate(place: Place | Focus) -> Focus:
    return (place.lat, place.lon) if isinstance(place, Place) else place


def _point(place: Place | Focus) -> tuple[float, float, float]:
    lat, lon = np.radians(_locate(place))
    return float(np.cos(lat) * np.cos(lon)), float(np.cos(lat) * np.sin(lon)), float(np.sin(lat))


def _count_names(places: Sequence[Place]) -> dict[str, int]:
    """How many places bear a name, for the names that more than one bears."""
    counts: dict[str, int] = {}
    for place in places:
        key = shorten_name(place).casefold()
        counts[key] = counts.get(key, 0) + 1
    return {name: count for name, count in counts.items() if count > 1}


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

    >>> from placings.places import Place
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
