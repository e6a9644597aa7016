"""Kinds of searches that are known before anything is clicked: what a guard and the slices go by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import AnyArray, BadInput, Bools, Floats, Ints, as_offsets, find_limit, fold_letters

BANDS = ((3, 10), (11, 20), (21, 30), (31, 40))  # characters, as in Table 6.4 of the thesis
UNKNOWN = "unknown"
SHARED, HIDDEN = "shared", "hidden"
COLUMNS = (  # what `describe_searches` looks at, and how an engine's order is known
    "query", "focus_lat", "focus_lon", "name", "locality", "target", "platform", "position", "score",
)  # fmt: skip
FULL, PREFIX, WORDS, OTHER = "full name", "prefix", "words", "other"
# the kind of a search that does not tell what a dimension goes by
ABSENT = {
    "length": f"[0, {BANDS[0][0] - 1}]",
    "location": HIDDEN,
    "match": OTHER,
    "target": UNKNOWN,
    "platform": UNKNOWN,
}


def describe_searches(rows: Any, offsets: ArrayLike) -> dict[str, AnyArray]:
    """The kind of each search in each dimension whose columns are there, `{dimension: [searches]}`.

    `rows` is a table or a dict of columns, the rows of a search together; what describes a search is taken
    from its first row. Dimensions: `length` (band of the query's characters), `location` ("shared" or
    "hidden"), `match` (the query is a whole name in the list, the start of one, its words begin words of
    one, or none of these), `target`, `platform`. A missing text is "unknown".

    >>> rows = {"query": ["haupt", "haupt"], "name": ["Hauptbahnhof", "Zoo"], "focus_lat": [49.0, 49.0],
    ...         "focus_lon": [8.4, 8.4]}
    >>> {name: values.tolist() for name, values in describe_searches(rows, [0, 2]).items()}
    {'length': ['[3, 10]'], 'location': ['shared'], 'match': ['prefix']}
    """
    borders = np.asarray(offsets)
    count = int(borders[-1]) if len(borders) else 0
    borders = as_offsets(offsets, count)
    if (np.diff(borders) == 0).any():
        raise BadInput("a search without rows has nothing that describes it; leave it out.")
    first = borders[:-1]
    found: dict[str, AnyArray] = {}
    if "query" in rows:
        texts = [_as_text(value) for value in _take(rows, "query", first)]
        found["length"] = np.array([name_band(len(text)) for text in texts], dtype=object)
    if "focus_lat" in rows and "focus_lon" in rows:
        there = _is_number(_take(rows, "focus_lat", first)) & _is_number(_take(rows, "focus_lon", first))
        found["location"] = np.where(there, SHARED, HIDDEN).astype(object)
    if "query" in rows and "name" in rows:
        found["match"] = _describe_matches(rows, borders)
    for name in ("target", "platform"):
        if name in rows:
            values = [_as_text(value) or UNKNOWN for value in _take(rows, name, first)]
            found[name] = np.array(values, dtype=object)
    return found


def describe_search(rows: Mapping[str, list[Any]]) -> dict[str, str]:
    """`describe_searches` of one search, of which there are rows, as plain texts."""
    found: dict[str, str] = {}
    if "query" in rows:
        found["length"] = name_band(len(_as_text(rows["query"][0])))
    if "focus_lat" in rows and "focus_lon" in rows:
        there = _is_number([rows["focus_lat"][0], rows["focus_lon"][0]]).all()
        found["location"] = SHARED if there else HIDDEN
    if "query" in rows and "name" in rows:
        found["match"] = _describe_match(rows["query"][0], rows["name"], rows.get("locality"))
    for name in ("target", "platform"):
        if name in rows:
            found[name] = _as_text(rows[name][0]) or UNKNOWN
    return found


def name_band(length: int) -> str:
    """The band of a query's length in characters.

    >>> name_band(2), name_band(10), name_band(41)
    ('[0, 2]', '[3, 10]', '[41, …]')
    """
    if length < BANDS[0][0]:
        return f"[0, {BANDS[0][0] - 1}]"
    for low, high in BANDS:
        if length <= high:
            return f"[{low}, {high}]"
    return f"[{BANDS[-1][1] + 1}, …]"


def _describe_matches(rows: Any, offsets: Ints) -> AnyArray:
    names = _as_list(rows["name"])
    cities = _as_list(rows["locality"]) if "locality" in rows else None
    queries = _take(rows, "query", offsets[:-1])
    found = []
    for place, query in enumerate(queries):
        start, stop = int(offsets[place]), int(offsets[place + 1])
        around = None if cities is None else cities[start:stop]
        found.append(_describe_match(query, names[start:stop], around))
    return np.array(found, dtype=object)


def _describe_match(query: Any, names: list[Any], cities: list[Any] | None) -> str:
    most = find_limit("text")
    text = fold_letters(_as_text(query, most))
    if not text:
        return OTHER
    known = [fold_letters(_as_text(name, most)) for name in names]
    if text in known:
        return FULL
    if any(name.startswith(text) for name in known):
        return PREFIX
    words = text.split()
    for place, name in enumerate(known):
        city = "" if cities is None else fold_letters(_as_text(cities[place], most))
        tokens = f"{name} {city}".split()
        if all(any(token.startswith(word) for token in tokens) for word in words):
            return WORDS
    return OTHER


def _take(rows: Mapping[str, Any], name: str, places: Ints) -> list[Any]:
    values = rows[name]
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    return list(np.asarray(values, dtype=object)[places].tolist())


def _as_list(values: Any) -> list[Any]:
    return list(values.tolist()) if hasattr(values, "tolist") else list(values)


def _as_text(value: Any, most: int | None = None) -> str:
    return value[: most or find_limit("text")].strip() if isinstance(value, str) else ""


def _is_number(values: list[Any]) -> Bools:
    numbers: Floats = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.isfinite(numbers)
