"""Ready sets of features for a log of numbers, such as a shop's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placings.core import BadInput
from placings.features.category import OneHot
from placings.features.columns import LIST, Rows, Table
from placings.features.engine_signals import EngineSignals
from placings.features.number import Number
from placings.features.similarity import PLAIN, Similarity
from placings.features.spec import Feature, FeatureKind, FeatureSet
from placings.features.text import TextShape
from placings.logs import OPT_OUT, OWN

CONTEXT = ("target", "platform", "surface", "region", "device")
# ids, the engine's own signals, times, and what is only known after the search: never a feature by itself
RESERVED = {
    LIST, "session_id", "user_id", "item_id", "item", "time", "query", "focus_lat", "focus_lon", "position",
    "score", "label", "is_target", "kind", "arrival", "first_seen", "propensity", "action", "click",
    "clicked", "clicks", "cart", "purchase", "purchased", "grade", "target_id",
    "arm", "model", "fallback", "swapped", "swapped_with", "swap_reach", "team", "engine_position",
    "shown_position", "shown_probability",
    "chain_id", "chain_step", "chain_last", "successful", "outcome", "impressions", OWN, OPT_OUT, *CONTEXT,
}  # fmt: skip
TEXTS = ("name", "title")
MOST_VALUES = 50


def numeric_features(columns: Sequence[str]) -> FeatureSet:
    """The numeric columns of these names as they are; missing stays missing.

    >>> numeric_features(["price"]).fit_transform({"price": [9.5, None]})
    array([[9.5],
           [nan]], dtype=float32)
    """
    if isinstance(columns, str) or not columns:
        raise BadInput(f"columns must be a list of column names, at least one. Got {columns!r}.")
    return FeatureSet(Number(column) for column in columns)


def shop_features(rows: Table, *, engine: bool = True) -> FeatureSet:
    """The features of a shop's log, chosen by what its columns hold; not fitted yet.

    Every numeric column is a feature as it is, of the query if it never differs within a list. Text columns
    of at most 50 values become categories; `platform`, `region`, `target` and `surface` are of the context.
    The query's length and words, its match with `name` or `title` where there is one, and the engine's rank
    and score (`engine=False` leaves them out) go with them. Ids, times, labels and actions are never
    features.
    """
    table = Rows(rows)
    found: list[Feature] = [TextShape("query", missing="drop")]
    found += [Similarity(text, tuple(PLAIN), missing="drop") for text in TEXTS if text in table.names]
    if engine:
        found.append(EngineSignals(_find_signals(table)))
    for column in table.names:
        if column in RESERVED or column in TEXTS or table.is_blank(column):
            continue
        if _is_numeric(table, column):
            found.append(Number(column, kind=_find_kind(table, column)))
        elif (values := _find_categories(table, column)) and 1 < len(values) <= MOST_VALUES:
            found.append(OneHot(column))
    found += [OneHot(column, kind="context", missing="drop") for column in CONTEXT if column in table.names]
    return FeatureSet(found)


def history_features() -> FeatureSet:
    """A person's own past clicks, `own_clicks`: the logarithm, and against the list's most; not fitted yet.

    `Reranker(history=True)` computes the column and adds these to any set of features. Where a person has
    clicked nothing of a list before, the logarithm is 0 and the share NaN.

    >>> rows = {"own_clicks": [0.0, 1.5, 3.0]}
    >>> history_features().fit_transform(rows).round(2)
    array([[0.  , 0.  ],
           [0.92, 0.5 ],
           [1.39, 1.  ]], dtype=float32)
    """
    return FeatureSet([Number(OWN, ("log", "share"), kind="query-item")])


def list_unused(features: FeatureSet, rows: Table) -> list[str]:
    """The columns of the rows that no feature reads, with the reason where there is one.

    Ids, times, labels and what is only known after a search are no features and are not told.

    >>> rows = {"name": ["Hbf"], "tags": [["a", "b"]], "price": [3.0], "position": [1]}
    >>> list_unused(numeric_features(["price"]), rows)
    ['name (one text everywhere)', 'tags (lists or objects)']
    """
    table = Rows(rows)
    read = set(features.columns)
    return [
        f"{column}{_say_reason(table, column)}"
        for column in table.names
        if column not in read and column not in RESERVED
    ]


def _say_reason(rows: Rows, column: str) -> str:
    if rows.is_blank(column):
        return " (no data)"
    if _is_numeric(rows, column):
        return ""
    try:
        texts = len(rows.texts(column).values)
    except BadInput:
        return " (lists or objects)"
    if texts == 1:
        return " (one text everywhere)"
    return f" ({texts:,} different texts)" if texts > MOST_VALUES else ""


def _find_signals(rows: Rows) -> tuple[str, ...]:
    ranks = ("rank", "reciprocal_rank") if "position" in rows.names else ()
    scores = ("score", "score_gap", "score_share") if "score" in rows.names else ()
    return (*ranks, *scores, "list_size")


def _is_numeric(rows: Rows, column: str) -> bool:
    try:
        rows.floats(column)
    except BadInput:
        return False
    return True


def _find_kind(rows: Rows, column: str) -> FeatureKind:
    values = rows.floats(column)
    same = np.array_equal(rows.lists.largest(values), rows.lists.smallest(values), equal_nan=True)
    return "query" if same and len(rows.lists.sizes) < rows.count else "item"


def _find_categories(rows: Rows, column: str) -> list[str]:
    try:
        return [value for value in rows.texts(column).values if value]
    except BadInput:  # lists and objects have no place in a table of features
        return []
