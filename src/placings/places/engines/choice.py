"""One word for an engine: which one a text such as "sqlite:places.db" or "pelias+http://…" means."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from placings.core import BadInput, UnknownName
from placings.places.place import Engine

KINDS = ("sqlite", "postgresql", "pelias", "opensearch", "elasticsearch")
EXAMPLES = "sqlite:places.db, postgresql://host/database, pelias+http://host:4000 or opensearch+http://host:9200/places"


def open_engine(spec: str, **settings: Any) -> Engine:
    """The engine that `spec` names; `settings` are its keywords (table=, mix=, endpoint=, patience=, …).

    - `sqlite:path`: an index made by `build_index`
    - `postgresql://user@host/database`, or `postgresql:` alone for the address in PLACINGS_POSTGRES
    - `pelias+http://host:4000`, `pelias+https://…`: the key is in PLACINGS_PELIAS_KEY
    - `opensearch+http://host:9200/index` (or `elasticsearch+…`): the login is in PLACINGS_OPENSEARCH_LOGIN

    What is wrong is told without passwords.

    >>> open_engine("pelias+http://127.0.0.1:4000")
    PeliasEngine('http://127.0.0.1:4000')
    >>> open_engine("sqlight:places.db")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    placings.core.errors.UnknownName: no kind of engine 'sqlight'; did you mean 'sqlite'? Known: ...
    """
    head, colon, rest = spec.partition(":")
    kind, plus, scheme = head.lower().partition("+")
    kind = "postgresql" if kind == "postgres" else kind
    if not colon:
        raise BadInput(f"an engine must be named like {EXAMPLES}. Got a text without a colon.")
    if kind not in KINDS:
        raise UnknownName("kind of engine", kind, KINDS)
    if kind == "sqlite":
        return _open_sqlite(rest, settings)
    if kind == "postgresql":
        from placings.places.engines.postgres import PostgresEngine

        return PostgresEngine(f"postgresql:{rest}" if rest.strip("/") else None, **settings)
    if not plus or scheme not in ("http", "https"):
        raise BadInput(f"{kind} must be followed by +http:// or +https://, as in {EXAMPLES}. Got {head!r}.")
    if kind == "pelias":
        from placings.places.engines.pelias import PeliasEngine

        return PeliasEngine(f"{scheme}:{rest}", **settings)
    return _open_opensearch(f"{scheme}:{rest}", settings)


def _open_sqlite(path: str, settings: dict[str, Any]) -> Engine:
    from placings.places.engines.sqlite import SqliteEngine

    if not path:
        raise BadInput(
            "sqlite: must be followed by the path of an index, as in sqlite:places.db. Got nothing."
        )
    return SqliteEngine(path, **settings)


def _open_opensearch(url: str, settings: dict[str, Any]) -> Engine:
    from placings.places.engines.opensearch import OpenSearchEngine

    parts = urlsplit(url)
    above, _, index = parts.path.rstrip("/").rpartition("/")
    if not index:
        raise BadInput(
            f"the address must end in the index's name, as in {EXAMPLES}. Got {parts.hostname!r} only."
        )
    return OpenSearchEngine(parts._replace(path=above).geturl(), index, **settings)
