"""Search engines: what one promises, which kinds there are, and hits from a file as an engine of its own."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

from placings.core import LATE, BadFile, BadInput, UnknownName, find_late, iterate_blocks
from placings.rerank.requests import Focus, Hit

ENGINES = LATE["kind of engine"]
SAME = {"postgres": "postgresql"}
EXAMPLES = (
    "sqlite:places.db, postgresql://host/database, pelias+http://host:4000, "
    "opensearch+http://host:9200/index or hits:hits.jsonl"
)
BLOCK = 1 << 20


@runtime_checkable
class Engine(Protocol):
    """What answers a text with hits, best first."""

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """At most `k` hits, best first; `layers` are the types wanted, `focus` is where the user is."""
        ...


def open_engine(spec: str, **settings: Any) -> Engine:
    """The engine that `spec` names; `settings` are its keywords (table=, mix=, endpoint=, patience=, …).

    - `sqlite:path`: an index made by `placings places index`
    - `postgresql://user@host/database`, or `postgresql:` alone for the address in PLACINGS_POSTGRES
    - `pelias+http://host:4000`, `pelias+https://…`: the key is in PLACINGS_PELIAS_KEY
    - `opensearch+http://host:9200/index` (or `elasticsearch+…`): the login is in PLACINGS_OPENSEARCH_LOGIN.
      An index of anything else than places names the fields to search: `…/products?fields=title^3,brand`
    - `hits:hits.jsonl`: answers that were written down, see `HitsFile`

    What is wrong is told without passwords.

    >>> open_engine("pelias+http://127.0.0.1:4000")
    PeliasEngine('http://127.0.0.1:4000')
    >>> open_engine("sqlight:places.db")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    placings.core.errors.UnknownName: no kind of engine 'sqlight'; did you mean 'sqlite'? Known: ...
    """
    head, colon, rest = str(spec).partition(":")
    kind, plus, scheme = head.lower().partition("+")
    kind = SAME.get(kind, kind)
    if not colon:
        raise BadInput(f"an engine must be named like {EXAMPLES}. Got a text without a colon.")
    known = {each.removesuffix("+"): each for each in ENGINES}
    if kind not in known:
        raise UnknownName("kind of engine", kind, known)
    wants = known[kind].endswith("+")
    if wants and scheme not in ("http", "https"):
        raise BadInput(f"{kind} must be followed by +http:// or +https://, as in {EXAMPLES}. Got {head!r}.")
    if plus and not wants:
        raise BadInput(f"{kind} is followed by a colon alone, as in {EXAMPLES}. Got {head!r}.")
    found: Engine = find_late("kind of engine", known[kind])(
        f"{scheme}:{rest}" if wants else rest, **settings
    )
    return found


class HitsFile:
    """Answers of any engine, written down as JSON lines: an engine that needs no server.

    One object a line: `query`, and `hits`, a list of objects with `item_id` (or `id`) and whatever fields the
    engine gives, best first; `score` and `rank` (or `position`) where they are known. A query that the file
    does not hold finds nothing. Texts are compared without case and outer blanks; the last line of a query
    counts.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path, self._answers = Path(path), dict[str, list[Hit]]()
        if not str(path):
            raise BadInput("hits: must be followed by a file, as in hits:hits.jsonl. Got nothing.")
        self._answers = self._read()

    def __repr__(self) -> str:
        return f"HitsFile({str(self.path)!r}, {len(self._answers):,} queries)"

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """The first `k` hits of this query's line; `layers` keeps those whose `type` is one of them."""
        hits = self._answers.get(_simplify(text), [])
        if layers is not None:
            hits = [hit for hit in hits if hit.fields.get("type") in set(layers)]
        return hits[:k]

    def close(self) -> None:
        """Nothing is held open."""

    def _read(self) -> dict[str, list[Hit]]:
        answers, line = {}, 0
        for block in iterate_blocks(self.path, BLOCK):
            for text in block.splitlines():
                line += 1
                if text.strip():
                    query, hits = self._read_line(line, text)
                    answers[_simplify(query)] = hits
        return answers

    def _read_line(self, line: int, text: bytes) -> tuple[str, list[Hit]]:
        try:
            told = json.loads(text)
        except ValueError as error:
            self._refuse(line, f"is not JSON: {error}")
        query, hits = (told.get("query"), told.get("hits")) if isinstance(told, Mapping) else (None, None)
        if not isinstance(query, str) or not isinstance(hits, list):
            self._refuse(line, 'must be an object with "query", a text, and "hits", a list')
        return query, [self._read_hit(line, place, hit) for place, hit in enumerate(hits, 1)]

    def _read_hit(self, line: int, place: int, told: Any) -> Hit:
        if not isinstance(told, Mapping):
            self._refuse(line, f"hit {place} must be an object")
        fields = dict(told)
        identity = fields.pop("item_id", fields.pop("id", None))
        if identity is None:
            there = ", ".join(map(str, told)) or "nothing"
            self._refuse(line, f"hit {place} has no item_id. It has: {there}")
        rank = fields.pop("rank", fields.pop("position", place))
        score = fields.pop("score", None)
        known = score is None or (isinstance(score, int | float) and not isinstance(score, bool))
        if not isinstance(rank, int) or not known:
            self._refuse(line, f"hit {place} must have a whole rank and a number as its score")
        return Hit(str(identity), fields, math.nan if score is None else float(score), rank)

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise BadFile(self.path, f"{problem}.", line=line)


def _simplify(text: str) -> str:
    return " ".join(text.casefold().split())
