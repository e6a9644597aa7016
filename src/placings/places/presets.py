"""The features for places: the default set of relations, and the thesis' own."""

from __future__ import annotations

from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput, UnknownName
from placings.features import (
    Clock,
    Coordinates,
    CountedNgrams,
    Distance,
    EngineSignals,
    Feature,
    FeatureSet,
    FieldMatch,
    HashedNgrams,
    Number,
    OneHot,
    QueryCover,
    Rows,
    Similarity,
    Standing,
    Table,
    TextShape,
    list_unused,
    numeric_features,
    read_features,
    shop_features,
    write_features,
)

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.compose import ColumnTransformer

TEXTS = ("query", "name", "street", "locality", "neighbourhood", "borough")
CATEGORIES = ("type", "target")
POINTS = ("focus_lat", "focus_lon", "lat", "lon")
THESIS_CLOCK = ("hour_sin", "hour_cos", "day_sin", "day_cos", "month_sin", "month_cos", "is_weekend")


def thesis_features(hashed: int = 2**20, how: str = "hash", *, zone: str = "UTC") -> FeatureSet:
    """The thesis' columns as a FeatureSet: sparse, not fitted yet.

    Type and target one-hot, coordinates of user and place, hour, day and month on their circles, weekend,
    the engine's rank, and the character 2- to 5-grams of query, name, street, locality, neighbourhood and
    borough, a block each. `how="hash"` hashes each block into `hashed` columns; `how="count"` counts the
    `hashed` most frequent n-grams of each and keeps their names, `name:ruh`. What has no data is left out;
    `notes` says which. `zone` is the time zone of the clock.
    """
    if how not in ("hash", "count"):
        raise BadInput(f'how must be "hash" or "count". Got {how!r}.')
    texts: list[Feature] = [
        HashedNgrams(text, buckets=hashed, missing="drop")
        if how == "hash"
        else CountedNgrams(text, limit=hashed, missing="drop")
        for text in TEXTS
    ]
    return FeatureSet(
        [
            OneHot("type", missing="drop"),
            OneHot("target", kind="context", missing="drop"),
            Coordinates("focus_lat", "focus_lon"),
            Coordinates("lat", "lon"),
            Clock(zone, THESIS_CLOCK),
            EngineSignals(("rank",)),
            *texts,
        ]
    )


def thesis_pipeline(hashed: int = 2**20, *, zone: str = "UTC") -> ColumnTransformer:
    """The thesis' ColumnTransformer for a pandas table of rows; `fit_transform(rows)` gives CSR.

    The same numbers as `thesis_features(hashed)`, but for the one-hot columns, where scikit-learn gives an
    unknown value no column and a missing one a column of its own. A column that is not there or holds
    nothing is left out when fitted; `name_left_out` lists these.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    Clock(zone)  # a zone that is none is refused now, not when rows come
    one_hot = OneHotEncoder(handle_unknown="ignore", dtype=np.float32)
    numbers = FunctionTransformer(_as_floats)
    clock = FunctionTransformer(partial(_read_clock, zone=zone))
    ngrams = Pipeline(
        [
            ("text", FunctionTransformer(_as_texts)),
            ("ngrams", HashingVectorizer(n_features=hashed, analyzer="char_wb", ngram_range=(2, 5))),
        ]
    )
    return ColumnTransformer(
        [
            *((name, one_hot, partial(_find_column, column=name)) for name in CATEGORIES),
            *((name, numbers, partial(_find_column, column=name)) for name in POINTS),
            ("time", clock, partial(_find_column, column="time")),
            ("position", numbers, partial(_find_column, column="position")),
            *((f"{name}_ngrams", ngrams, partial(_find_column, column=name)) for name in TEXTS),
        ],
        sparse_threshold=1.0,
    )


def name_left_out(pipeline: ColumnTransformer) -> list[str]:
    """The columns that a fitted `thesis_pipeline` left out because they held nothing."""
    left = [name for name, _, columns in pipeline.transformers_ if name != "remainder" and not len(columns)]
    return [name.removesuffix("_ngrams") for name in left]


def _find_column(rows: pd.DataFrame, *, column: str) -> list[str]:
    return [] if Rows(rows).is_blank(column) else [column]


def _as_floats(rows: pd.DataFrame) -> Any:
    table = Rows(rows)
    return np.stack([table.floats(name) for name in table.names], axis=1)


def _as_texts(rows: pd.DataFrame) -> list[str]:
    texts = Rows(rows).texts(str(rows.columns[0]))
    return [texts.values[code] for code in texts.codes.tolist()]


def _read_clock(rows: pd.DataFrame, *, zone: str) -> Any:
    return np.stack(Clock(zone, THESIS_CLOCK).compute(Rows(rows)), axis=1)


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
