"""The statements that PostgresEngine sends, and their parameters: no user's text is ever part of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from placings.places.place import Focus

SHORT = 3  # texts up to here have indexes of their own, by weight: too many names begin with them
TEXTS = ("id", "name", "type", "locality", "street", "neighbourhood", "borough", "country", "zone")
COLUMNS = ("number", *TEXTS, "names", "lat", "lon", "weight", "fields", "words")

TABLES = """
CREATE TABLE {places} (
    number integer NOT NULL, id text NOT NULL, name text NOT NULL, type text NOT NULL, locality text NOT NULL,
    street text NOT NULL, neighbourhood text NOT NULL, borough text NOT NULL, country text NOT NULL,
    zone text NOT NULL, names text[] NOT NULL, lat double precision NOT NULL, lon double precision NOT NULL,
    weight double precision NOT NULL, fields jsonb NOT NULL, words text NOT NULL
);
CREATE TABLE {names} (
    place integer NOT NULL, name text NOT NULL, own boolean NOT NULL, weight double precision NOT NULL
)
"""
INDEXES = """
ALTER TABLE {places} ADD PRIMARY KEY (number);
ALTER TABLE {places} ADD UNIQUE (id);
CREATE INDEX ON {places} USING gin (words gin_trgm_ops);
CREATE INDEX ON {names} USING gin (name gin_trgm_ops);
CREATE INDEX ON {names} (name text_pattern_ops);
CREATE INDEX ON {names} (place);
CREATE INDEX ON {names} ("left"(name, 1), weight DESC);
CREATE INDEX ON {names} ("left"(name, 2), weight DESC);
CREATE INDEX ON {names} ("left"(name, 3), weight DESC);
"""
NEAR_INDEX = {
    True: "CREATE INDEX ON {places} USING gist (ll_to_earth(lat, lon))",
    False: "CREATE INDEX ON {places} (lat)",
}
DISTANCE = {  # kilometres; both on earthdistance's globe, of radius 6378.168
    True: "earth_distance(ll_to_earth(p.lat, p.lon), ll_to_earth(%(lat)s, %(lon)s)) / 1000",
    False: """12756.336 * asin(least(1, sqrt(power(sind((p.lat - %(lat)s) / 2), 2)
        + cosd(p.lat) * cosd(%(lat)s) * power(sind((p.lon - %(lon)s) / 2), 2))))""",
}
NEAR = {
    True: "earth_box(ll_to_earth(%(lat)s, %(lon)s), %(near)s * 1000) @> ll_to_earth(p.lat, p.lon)",
    False: """p.lat BETWEEN %(lat)s - %(near)s / 111.0 AND %(lat)s + %(near)s / 111.0
        AND {distance} <= %(near)s""",
}
LIKENESS = """CASE WHEN n.name = %(text)s THEN CASE WHEN n.own THEN %(exact)s ELSE %(exact_other)s END
    ELSE CASE WHEN n.own THEN %(begun)s ELSE %(begun_other)s END END"""
WANTED = "(%(layers)s::text[] IS NULL OR p.type = ANY(%(layers)s::text[]))"
SEARCH = """
WITH found AS (SELECT place, max(likeness) AS likeness FROM ({sources}) AS matches GROUP BY place)
SELECT {columns}, %(text_weight)s * found.likeness
    + %(popularity)s * ln(1 + p.weight) / greatest(%(largest)s, 1e-9)
    + {closeness} AS score
FROM found JOIN {places} AS p ON p.number = found.place
WHERE {wanted}
ORDER BY score DESC, p.weight DESC, p.id COLLATE "C"
LIMIT %(k)s
"""
BEGINS = "SELECT n.place, {likeness} AS likeness FROM {names} AS n WHERE n.name LIKE %(prefix)s"
BEGINS_SHORT = """(SELECT n.place, {likeness} AS likeness
    FROM {names} AS n JOIN {places} AS p ON p.number = n.place
    WHERE "left"(n.name, {length}) = %(text)s AND {wanted} ORDER BY n.weight DESC LIMIT %(pool)s)"""
BEGINS_NEAR = """(SELECT n.place, {likeness} AS likeness
    FROM {places} AS p JOIN {names} AS n ON n.place = p.number
    WHERE {near} AND "left"(n.name, {length}) = %(text)s AND {wanted} ORDER BY {distance} LIMIT %(pool)s)"""
WORDS = "SELECT p.number AS place, %(worded)s AS likeness FROM {places} AS p WHERE {patterns}"
FUZZY = """
SELECT p.number AS place, %(fuzzy)s - %(unlike)s * (1 - word_similarity(%(text)s, p.words)) AS likeness
    FROM {places} AS p WHERE %(text)s <%% p.words
UNION ALL SELECT n.place, %(fuzzy)s - %(unlike)s * (1 - similarity(n.name, %(text)s)) AS likeness
    FROM {names} AS n WHERE n.name %% %(text)s"""


@dataclass(frozen=True)
class Mix:
    """What counts how much in the score of PostgreSQL's places.

    score = text · likeness + popularity · ln(1 + w) / ln(1 + largest w) + distance / (1 + d/scale)

    `likeness` is 1 for the place's own name and `other` less for another of its names, `begun` for a name
    that begins with the text, `worded` where every word begins a word of name, locality, street,
    neighbourhood or borough, and `fuzzy` − `unlike` · (1 − trigram similarity) for what is only similar
    (from `similar` on). `d` is the distance to the focus in kilometres; closeness is a half at `scale`.
    """

    text: float = 1.0
    popularity: float = 1.0
    distance: float = 0.7
    scale: float = 10.0
    begun: float = 0.75
    worded: float = 0.65
    other: float = 0.1
    fuzzy: float = 0.1
    unlike: float = 1.0
    similar: float = 0.4


def choose_values(
    mix: Mix, folded: str, focus: Focus | None, k: int, layers: Sequence[str] | None, largest: float
) -> dict[str, Any]:
    """The parameters of a search for a folded text; `largest` is ln(1 + the largest weight)."""
    words = {f"word{i}": f"% {_escape(word)}%" for i, word in enumerate(folded.split())}
    likeness = {
        "exact": 1.0,
        "exact_other": 1.0 - mix.other,
        "begun": mix.begun,
        "begun_other": mix.begun - mix.other,
        "worded": mix.worded,
        "fuzzy": mix.fuzzy,
        "unlike": mix.unlike,
    }
    place = {"lat": focus[0], "lon": focus[1], "near": 3.0 * mix.scale} if focus is not None else {}
    return {
        **words,
        **likeness,
        **place,
        "text": folded,
        "prefix": _escape(folded) + "%",
        "pool": max(10 * k, 400),
        "k": k,
        "layers": None if layers is None else list(layers),
        "text_weight": mix.text,
        "popularity": mix.popularity,
        "distance": mix.distance,
        "scale": mix.scale,
        "largest": largest,
    }


def write_search(folded: str, *, near: bool, earth: bool, fuzzy: bool) -> str:
    """The statement for a folded text: only its length and its number of words shape it.

    `near` says that there is a focus, `earth` that earthdistance is there, `fuzzy` that similar names count.
    {places} and {names} are left for the tables' names.
    """
    closeness = f"%(distance)s / (1 + ({DISTANCE[earth]}) / %(scale)s)" if near else "0"
    pieces = {
        "sources": "\nUNION ALL ".join(_choose_sources(folded, near) + [FUZZY] * fuzzy),
        "patterns": " AND ".join(f"p.words LIKE %(word{i})s" for i in range(len(folded.split()))),
        "length": str(len(folded)),
        "closeness": closeness,
        "columns": ", ".join(f"p.{column}" for column in COLUMNS[1:-1]),
        "near": NEAR[earth],
        "likeness": LIKENESS,
        "wanted": WANTED,
        "distance": DISTANCE[earth],
    }
    statement = SEARCH
    for name, piece in pieces.items():
        statement = statement.replace("{" + name + "}", piece)
    return statement


def _choose_sources(folded: str, near: bool) -> list[str]:
    if len(folded) > SHORT:
        return [BEGINS, WORDS]
    return [BEGINS_SHORT] + [BEGINS_NEAR] * near + [WORDS] * (len(folded) == SHORT)


def _escape(text: str) -> str:
    """The text as a LIKE pattern that matches only itself. Folded text has no signs; this holds without."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
