"""The features for places: the default set of relations, and the thesis' own."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from placings.errors import UnknownName
from placings.features.category import OneHot
from placings.features.columns import Rows, Table
from placings.features.engine_signals import EngineSignals
from placings.features.fields import FieldMatch, QueryCover
from placings.features.files import read_features, write_features
from placings.features.geo import Coordinates, Distance
from placings.features.number import Number
from placings.features.presets import list_unused, numeric_features, shop_features
from placings.features.similarity import Similarity
from placings.features.spec import Feature, FeatureSet
from placings.features.standing import Standing
from placings.features.text import TextShape
from placings.features.time import Clock
from placings.places.thesis import name_left_out, thesis_features, thesis_pipeline

__all__ = [
    "choose_preset", "find_features", "list_unused", "name_left_out", "numeric_features", "place_features",
    "read_features", "shop_features", "thesis_features", "thesis_pipeline", "write_features",
]  # fmt: skip
PRESETS = ("places", "shop", "thesis")

CLOCK = ("hour_sin", "hour_cos", "weekday_sin", "weekday_cos", "is_weekend")


def place_features(
    *,
    zone: str = "UTC",
    engine: bool = True,
    clock: bool = True,
    coordinates: bool = False,
    history: bool = True,
) -> FeatureSet:
    """The default features of places: about 50 dense columns, most of them relations; not fitted yet.

    How the query and the name are alike, and where that stands in the list; what of the query the locality,
    street, neighbourhood and borough explain; the distance to the user; the weight; the engine's rank and
    score (`engine=False` leaves them out); the clock of the place's time zone where the rows have a `zone`,
    else of `zone` (`clock=False`); type, target and platform one-hot. No column stands for one place or one
    word, so what is learned in one town holds in the next; `coordinates=True` adds those of user and place,
    which do. `past_clicks`, how often a place was clicked before (see `clicks.histories`), is used where the
    rows have it, unless `history=False`. Missing is NaN. A field that some sources lack is left out if it has
    no data when fitted.

    >>> rows = {"query": ["karls"], "name": ["Karlsruhe"], "weight": [308436.0], "position": [1]}
    >>> features = place_features().fit(rows)
    >>> features.names[:4]
    ['query_length', 'query_words', 'query_digits', 'name_exact']
    >>> features.notes[0]
    "field match of query and name and locality left out: no data in 'locality'"
    """
    found: list[Feature] = [
        TextShape("query"),
        Similarity("name"),
        QueryCover(),
        FieldMatch("locality", missing="drop"),
        *(FieldMatch(field, ("left",), missing="drop") for field in ("street", "neighbourhood", "borough")),
        Standing(),
        Distance(),
        Number("weight", ("log", "share", "rank")),
    ]
    if history:
        found.append(Number("past_clicks", ("log", "share", "rank"), missing="drop"))
    if engine:
        found.append(EngineSignals())
    if clock:
        found.append(Clock(zone, CLOCK, zone_column="zone", missing="drop"))
    if coordinates:
        found += [Coordinates("focus_lat", "focus_lon"), Coordinates("lat", "lon")]
    found += [
        OneHot("type", missing="drop"),
        OneHot("target", kind="context", missing="drop"),
        OneHot("platform", kind="context", missing="drop"),
    ]
    return FeatureSet(found)


def choose_preset(rows: Table) -> str:
    """Which preset is for these rows: "places" if their items have coordinates and a name, else "shop".

    >>> choose_preset({"name": ["Hbf"], "lat": [49.0], "lon": [8.4]}), choose_preset({"price": [3.0]})
    ('places', 'shop')
    """
    table = Rows(rows)
    return "shop" if any(table.is_blank(column) for column in ("name", "lat", "lon")) else "places"


def find_features(preset: str | PathLike[str], rows: Table) -> FeatureSet:
    """Fitted features: "places", "shop" or "thesis", fitted on `rows`, or those of a file, fitted before.

    A file is what `write_features` wrote. A name that is neither lists the names that are.
    """
    name = str(preset)
    if name == "places":
        return place_features().fit(rows)
    if name == "shop":
        return shop_features(rows).fit(rows)
    if name == "thesis":
        return thesis_features().fit(rows)
    if Path(preset).suffix != ".json" and not Path(preset).is_file():
        raise UnknownName("features", name, (*PRESETS, "a file such as features.json"))
    features = read_features(preset)
    features.names  # noqa: B018  # refuses a set that was never fitted
    return features
