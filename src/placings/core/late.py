"""Names of higher rooms that a lower one is asked for: strings here, imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from placings.core.errors import UnknownName

# what → its name → the room, and what it is called in the room's door
LATE: dict[str, dict[str, str]] = {
    "features": {
        "places": "placings.places:place_features",
        "shop": "placings.features:shop_features",
        "thesis": "placings.places:thesis_features",
    },
    "page": {"log": "placings.report:write_log_page"},
    "bundle": {"ranker": "placings.rankers:load_ranker", "re-ranker": "placings.rerank:load_reranker"},
    "source of fields": {"place": "placings.places:Place"},
    # what comes before the colon of an engine's address, with a + where http or https must follow
    "kind of engine": {
        "sqlite": "placings.places:open_sqlite",
        "postgresql": "placings.places:open_postgres",
        "pelias+": "placings.places:open_pelias",
        "opensearch+": "placings.places:open_opensearch",
        "elasticsearch+": "placings.places:open_opensearch",
        "hits": "placings.rerank:HitsFile",
    },
}
OF_ROWS = ("shop",)  # features that are chosen by what the rows hold


def find_late(what: str, name: str) -> Any:
    """What a room above this one offers under a name.

    >>> find_late("features", "shop").__name__
    'shop_features'
    """
    if name not in LATE[what]:
        raise UnknownName(what, name, LATE[what])
    room, _, own = LATE[what][name].partition(":")
    return getattr(import_module(room), own)


def make_features(name: str, rows: Any) -> Any:
    """The set of features of a name, declared for these rows and not fitted yet."""
    make = find_late("features", name)
    return make(rows) if name in OF_ROWS else make()
