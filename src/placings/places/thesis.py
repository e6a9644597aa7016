"""The features of the thesis *Learning to Rank Places* (3.5, 3.6), as a FeatureSet and as scikit-learn's.

Two things differ from its listing. Its circles divide by the largest value seen, which puts hours 0 and 23
on one point; here they divide by the period. And a text column without data is left out; the width that it
reports, five blocks of 2^20 for six columns, suggests the same.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.errors import BadInput
from placings.features.category import OneHot
from placings.features.columns import Rows
from placings.features.engine_signals import EngineSignals
from placings.features.geo import Coordinates
from placings.features.ngrams import CountedNgrams, HashedNgrams
from placings.features.spec import Feature, FeatureSet
from placings.features.time import Clock

if TYPE_CHECKING:
    import pandas as pd
    from sklearn.compose import ColumnTransformer

TEXTS = ("query", "name", "street", "locality", "neighbourhood", "borough")
CATEGORIES = ("type", "target")
POINTS = ("focus_lat", "focus_lon", "lat", "lon")
CLOCK = ("hour_sin", "hour_cos", "day_sin", "day_cos", "month_sin", "month_cos", "is_weekend")


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
            Clock(zone, CLOCK),
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
    return np.stack(Clock(zone, CLOCK).compute(Rows(rows)), axis=1)
