"""Search engines: what one promises, which kinds there are, and hits from a file as an engine of its own."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

from placings.core import (
    LATE,
    BadFile,
    BadInput,
    PlacingsWarning,
    UnknownName,
    find_late,
    find_limit,
    iterate_blocks,
    parse_json,
)
from placings.rerank.requests import Focus, Hit, check_request

ENGINES = LATE["kind of engine"]
SAME = {"postgres": "postgresql"}
EXAMPLES = (
    "sqlite:places.db, postgresql://host/database, pelias+http://host:4000, "
    "opensearch+http://host:9200/index or hits:hits.jsonl"
)
BLOCK = 1 << 20
LAST_RANK = 2**31


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


class BadHit(ValueError):
    """A hit that no list can hold; it says why, as in "with the score inf"."""


FAULTS = (AttributeError, KeyError, TypeError, ValueError, OverflowError)  # of a hit that has another shape
GLOBE = {"lat": 90.0, "lon": 180.0}


class HitReader:
    """Reads what a server found, hit by hit; a bad one is left out, and a warning says so, once an engine.

    Bad are: no id, an id for the second time, a score that is not finite, a place that is not on the globe, a
    weight that is not finite, and what cannot be read at all. If every hit is bad, BadHit says why the first
    one is. `quote` makes a problem fit to be shown. Ranks count the hits that are kept.
    """

    def __init__(self, name: str, *, quote: Callable[[object], str] = str, scored: bool = True) -> None:
        self.name, self.left_out = name, 0
        self._quote, self._scored = quote, scored

    def read(self, rows: Iterable[Any], read: Callable[[Any, int], Hit]) -> list[Hit]:
        """The good ones of these rows as `read(row, rank)` makes them hits."""
        kept: list[Hit] = []
        seen: set[str] = set()
        faults: list[str] = []
        for number, row in enumerate(rows, 1):
            try:
                hit = read(row, len(kept) + 1)
                check_hit(hit, scored=self._scored)
                if hit.id in seen:
                    raise BadHit(f"with the id {hit.id!r} for the second time")
            except BadHit as error:
                faults.append(f"a hit (number {number}) {error}")
            except FAULTS as error:
                faults.append(
                    f"a hit (number {number}) that cannot be read ({type(error).__name__} {str(error)[:200]})"
                )
            else:
                seen.add(hit.id)
                kept.append(hit)
        if faults and not kept:
            raise BadHit(self._quote(faults[0]))
        if faults and not self.left_out:
            warnings.warn(
                f"{self.name} gave {self._quote(faults[0])}: {len(faults)} of {len(faults) + len(kept)} hits "
                "are left out. This is said once.",
                PlacingsWarning,
                stacklevel=4,
            )
        self.left_out += len(faults)
        return kept


def check_hit(hit: Hit, *, scored: bool = True) -> None:
    """Refuse a hit that no list can hold; without `scored` a score may be unknown (NaN)."""
    if not hit.id:
        raise BadHit("without an id")
    if math.isinf(hit.score) or (scored and math.isnan(hit.score)):
        raise BadHit(f"with the score {hit.score}")
    for name, most in GLOBE.items():
        number = _as_number(hit.fields.get(name))
        if number is not None and not abs(number) <= most:
            raise BadHit(f"with {name} {number}, which is not on the globe")
    weight = _as_number(hit.fields.get("weight"))
    if weight is not None and not math.isfinite(weight):
        raise BadHit(f"with the weight {weight}")


def _as_number(value: Any) -> float | None:
    """A number as a float, one too large for it as infinite; what is no number is not judged."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


class HitsFile:
    """Answers of any engine, written down as JSON lines: an engine that needs no server.

    One object a line: `query`, and `hits`, a list of objects with `item_id` (or `id`) and whatever fields the
    engine gives, best first; `score` and `rank` (or `position`) where they are known. A query that the file
    does not hold finds nothing. The searches of a log are such a file: their lists are called `results`, and
    may hold plain ids. Texts are compared without case and outer blanks; the last line of a query
    counts. A line of another shape is refused. A hit with an infinite score, off the globe or with the id of
    another one of its line is left out, with a warning.
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
        hits = self._answers.get(_simplify(check_request(text, focus, k, layers)), [])
        if layers is not None:
            hits = [hit for hit in hits if hit.fields.get("type") in set(layers)]
        return hits[:k]

    def close(self) -> None:
        """Nothing is held open."""

    def _read(self) -> dict[str, list[Hit]]:
        answers, line = {}, 0
        reader = HitReader(str(self.path), scored=False)
        for block in iterate_blocks(self.path, BLOCK):
            for text in block.splitlines():
                line += 1
                if text.strip():
                    query, listed = self._read_line(line, text)
                    hits = [self._read_hit(line, place, hit) for place, hit in enumerate(listed, 1)]
                    try:
                        good = reader.read(hits, lambda hit, _: hit)
                    except BadHit as error:
                        self._refuse(line, f"has {error}, and no other one")
                    answers[_simplify(query[: find_limit("text")])] = good
        return answers

    def _read_line(self, line: int, text: bytes) -> tuple[str, list[Any]]:
        try:
            told = parse_json(text)
        except ValueError as error:
            self._refuse(line, f"is not JSON: {error}")
        query, hits = (None, None)
        if isinstance(told, Mapping):
            query, hits = told.get("query"), told.get("hits", told.get("results"))
        if not isinstance(query, str) or not isinstance(hits, list):
            self._refuse(line, 'must be an object with "query", a text, and "hits", a list')
        return query, hits

    def _read_hit(self, line: int, place: int, told: Any) -> Hit:
        if isinstance(told, str):
            told = {"item_id": told}
        if not isinstance(told, Mapping):
            self._refuse(line, f"hit {place} must be an object")
        fields = dict(told)
        identity = fields.pop("item_id", fields.pop("id", None))
        if identity is None:
            there = ", ".join(map(str, told)) or "nothing"
            self._refuse(line, f"hit {place} has no item_id. It has: {there}")
        rank = fields.pop("rank", fields.pop("position", place))
        score = fields.pop("score", None)
        number = math.nan if score is None else _as_number(score)
        whole = isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank <= LAST_RANK
        if not whole or number is None:
            self._refuse(line, f"hit {place} must have a whole rank and a number as its score")
        if not isinstance(identity, str | int | float) or isinstance(identity, bool):
            self._refuse(line, f"the id of hit {place} must be a text or a number")
        return Hit(str(identity), fields, number, rank)

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise BadFile(self.path, f"{problem}.", line=line)


def _simplify(text: str) -> str:
    return " ".join(text.casefold().split())
