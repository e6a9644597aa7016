"""OpenSearch's User Behavior Insights: queries and events as NDJSON become our searches and actions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from placings.core import (
    BadFile,
    BadInput,
    UnknownName,
    as_utc,
    find_limit,
    iterate_blocks,
    parse_json,
    say_limit,
)
from placings.logs.tally import Tally

if TYPE_CHECKING:
    import pyarrow as pa

ACTIONS = {
    "click_through": "click", "clickthrough": "click", "item_click": "click", "product_click": "click",
    "result_click": "click", "add_to_cart": "cart", "product_purchase": "purchase", "buy": "purchase",
}  # fmt: skip
IMPRESSIONS = ("impression", "item_impression", "product_impression", "result_impression")
BULK = ("index", "create", "update", "delete")  # the lines between documents in a file for _bulk
COLUMNS = ("focus_lat", "focus_lon", "target", "platform", "surface")  # what query_attributes may tell
EARLIEST, LATEST = 10**11, 7 * 10**12  # milliseconds: 1973 and 2191; epoch seconds are below
HIGHEST = 10**9  # an ordinal; positions of the join are below it too
Results: TypeAlias = tuple[list[str], Sequence[int]]  # the items shown, and their positions
EPOCH = datetime(1970, 1, 1)


@dataclass(slots=True)
class Asked:
    """One query as it was logged, perhaps in several records."""

    time: int
    text: str
    session: str | None
    client: str | None
    told: dict[str, Any]
    pages: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Done:
    """One event on one object."""

    query: str
    time: int
    action: str
    item: str
    internal: str | None
    ordinal: int | None


class UbiReader:
    """Collects records of any number of files, in any order, and makes the two tables of them."""

    def __init__(
        self,
        actions: Mapping[str, str] | None,
        impressions: Sequence[str],
        attributes: Mapping[str, str] | None,
    ) -> None:
        for column in (attributes or {}).values():
            if column not in COLUMNS:
                raise UnknownName("column for a query attribute", column, COLUMNS)
        if isinstance(impressions, str):
            raise BadInput(f"impressions must be a list of action names. Got {impressions!r}.")
        self.tally = Tally()
        for name in ("lines", "queries", "events", "impressions", "searches", "actions"):
            self.tally.count(name, 0)
        self._renamed = ACTIONS if actions is None else dict(actions)
        self._shown, self._attributes = frozenset(impressions), dict(attributes or {})
        self._asked: dict[str, Asked] = {}
        self._done: list[Done] = []
        self._seen: dict[str, list[Done]] = {}  # impressions by query
        self._sessions: dict[str, str] = {}
        self._deepest = find_limit("depth")

    def read(self, path: Path) -> None:
        """Take in a file; a line that cannot be used is counted."""
        line = 0
        for block in iterate_blocks(path, 1 << 22):
            for raw in block.split(b"\n")[:-1]:
                line += 1
                if raw.strip():
                    self._read_line(raw, f"{path}:{line}")
        if line == 0:
            raise BadFile(path, "has no lines. Export the indexes ubi_queries and ubi_events as NDJSON.")

    def make_tables(self) -> tuple[pa.Table, pa.Table]:
        """The searches by time, and the actions by time."""
        told_places = (shown.ordinal for many in self._seen.values() for shown in many)
        base = min([1, *(place for place in told_places if place is not None)])  # 0 where one counts from 0
        lists = {
            identity: self._find_results(identity, asked, base) for identity, asked in self._asked.items()
        }
        self.tally.count("searches", len(lists))
        self.tally.count("actions", len(self._done))
        return self._make_searches(lists), self._make_actions(lists)

    def _make_searches(self, lists: dict[str, Results]) -> pa.Table:
        import pyarrow as pa

        asked = sorted(self._asked.items(), key=lambda each: (each[1].time, each[0]))
        text, number = pa.string(), pa.float64()
        names = [identity for identity, _ in asked]
        sessions = [one.session or self._sessions.get(name) or one.client or name for name, one in asked]
        columns = {
            "search_id": pa.array(names, text),
            "session_id": pa.array(sessions, text),
            "time": pa.array([one.time for _, one in asked], pa.timestamp("us")),
            "query": pa.array([one.text for _, one in asked], text),
        }
        for name in COLUMNS[:2]:
            columns[name] = pa.array([self._as_degrees(one.told.get(name), name) for _, one in asked], number)
        for name in COLUMNS[2:]:
            columns[name] = pa.array([_as_id(one.told.get(name)) for _, one in asked], text)
        shown = [lists[name] for name in names]
        items = pa.array([item for ids, _ in shown for item in ids], text)
        places = pa.array([place for _, many in shown for place in many], pa.int64())
        fields = {"item_id": items, "position": places, "score": pa.nulls(len(items), number)}
        ends = accumulate((len(ids) for ids, _ in shown), initial=0)
        results = pa.StructArray.from_arrays(list(fields.values()), list(fields))
        columns["results"] = pa.ListArray.from_arrays(pa.array(list(ends), pa.int32()), results)
        return pa.table(columns)

    def _make_actions(self, lists: dict[str, Results]) -> pa.Table:
        import pyarrow as pa

        found = ((done.time, done.query, self._find_item(done, lists), done.action) for done in self._done)
        time, query, item, action = zip(*sorted(found), strict=True) if self._done else ((), (), (), ())
        text = pa.string()
        return pa.table({
            "search_id": pa.array(query, text),
            "item_id": pa.array(item, text),
            "time": pa.array(time, pa.timestamp("us")),
            "action": pa.array(action, text),
        })  # fmt: skip

    def _read_line(self, raw: bytes, where: str) -> None:
        self.tally.count("lines")
        try:
            # few brackets cannot be nested too deep, and most lines have few
            shallow = raw.count(b"[") + raw.count(b"{") <= self._deepest
            record = json.loads(raw) if shallow else parse_json(raw)
        except ValueError as error:
            deep = say_limit("depth") in str(error)
            return self.tally.refuse("nested too deep" if deep else "not JSON", where)
        if b"\\ud" in raw.lower() and not _is_unicode(record):
            return self.tally.refuse("text with half a character", where)
        if not isinstance(record, dict):
            return self.tally.refuse("not an object", where)
        for each in _unpack(record):
            if "action_name" in each:
                self._take_event(each, where)
            elif "query_id" in each or "user_query" in each:
                self._take_query(each, where)
            else:
                self.tally.refuse("neither a query nor an event", where)
        return None

    def _take_query(self, record: dict[str, Any], where: str) -> None:
        self.tally.count("queries")
        identity, time = _as_id(record.get("query_id")), parse_micros(record.get("timestamp"))
        if identity is None:
            return self.tally.refuse("a query without query_id", where)
        if time is None:
            return self.tally.refuse("a query whose timestamp cannot be read", where)
        text = record.get("user_query")
        if not isinstance(text, str):
            self.tally.count("queries without user_query, kept with an empty text")
            text = ""
        told = {"surface": record.get("application")}
        for name, column in self._attributes.items():
            told[column] = _find(record, f"query_attributes.{name}")
        page = self._read_hits(record, where)
        asked = self._asked.get(identity)
        if asked is None:
            session, client = _as_id(record.get("session_id")), _as_id(record.get("client_id"))
            asked = self._asked[identity] = Asked(time, text, session, client, told)
        elif text != asked.text:
            return self.tally.refuse("a query whose query_id was another text's before", where)
        elif page is None or page in (known for _, known in asked.pages):
            return self.tally.refuse("a query logged again", where)
        else:
            self.tally.count("further pages joined to their query")
        if page is not None:
            asked.pages.append((time, page))
        asked.time = min(asked.time, time)
        return None

    def _take_event(self, record: dict[str, Any], where: str) -> None:
        self.tally.count("events")
        query, time = _as_id(record.get("query_id")), parse_micros(record.get("timestamp"))
        action = _as_id(record.get("action_name"))
        session = _as_id(_find(record, "session_id")) or _as_id(_find(record, "event_attributes.session_id"))
        if query is not None and session is not None:
            self._sessions.setdefault(query, session)
        item = _as_id(_find(record, "event_attributes.object.object_id"))
        internal = _as_id(_find(record, "event_attributes.object.internal_id"))
        if query is None:
            return self.tally.refuse("an event without query_id", where)
        if action is None:
            return self.tally.refuse("an event without action_name", where)
        if item is None and internal is None:
            return self.tally.refuse("an event without an object (a filter, a login, …)", where)
        if time is None:
            return self.tally.refuse("an event whose timestamp cannot be read", where)
        ordinal = _find(record, "event_attributes.position.ordinal")
        ordinal = _find(record, "event_attributes.rank") if ordinal is None else ordinal
        place = (
            ordinal
            if isinstance(ordinal, int) and not isinstance(ordinal, bool) and 0 <= ordinal < HIGHEST
            else None
        )
        done = Done(query, time, self._renamed.get(action, action), item or internal or "", internal, place)
        if action in self._shown:
            self.tally.count("impressions")
            self._seen.setdefault(query, []).append(done)
        else:
            self._done.append(done)
        return None

    def _read_hits(self, record: dict[str, Any], where: str) -> tuple[str, ...] | None:
        hits = record.get("query_response_hit_ids")
        hits = record.get("query_response_object_ids") if hits is None else hits  # an older name
        if isinstance(hits, str):
            hits = [hit for hit in hits.strip("[] ").split(",") if hit.strip()]
        if not isinstance(hits, list):
            return None
        ids = [_as_id(hit) for hit in hits]
        kept = tuple(dict.fromkeys(each for each in ids if each is not None))
        for reason, lost in (
            ("a hit without an id", ids.count(None)),
            ("a hit listed twice", len(ids) - ids.count(None) - len(kept)),
        ):
            for _ in range(lost):
                self.tally.refuse(reason, where)
        return kept

    def _find_results(self, identity: str, asked: Asked, base: int) -> Results:
        """The list shown: what the server logged, or what the client says it showed."""
        if asked.pages:
            pages = sorted(asked.pages, key=lambda page: page[0])
            ids = list(dict.fromkeys(hit for _, page in pages for hit in page))
            return ids, range(1, len(ids) + 1)
        shown: dict[str, int | None] = {}
        for event in sorted(self._seen.get(identity, ()), key=lambda event: event.time):
            shown.setdefault(event.item, event.ordinal)
        self.tally.count("searches whose list comes from impressions" if shown else "searches without a list")
        ids = sorted(shown, key=lambda item: (shown[item] is None, shown[item] or 0))
        known = {place for place in shown.values() if place is not None}
        if len(known) < len(shown):  # a place is not told, or told twice: only the order is known
            return ids, range(1, len(ids) + 1)
        return ids, [place - base + 1 for place in sorted(known)]

    def _find_item(self, done: Done, lists: dict[str, Results]) -> str:
        if done.query not in lists:
            self.tally.count("actions on a query that is not there")
            return done.item
        listed = lists[done.query][0]
        if done.item in listed:
            return done.item
        if done.internal is not None and done.internal in listed:
            return done.internal
        self.tally.count("actions on an item that was not in the list")
        return done.item

    def _as_degrees(self, value: Any, name: str) -> float | None:
        if value is None:
            return None
        try:
            degrees = float(value)
        except (TypeError, ValueError, OverflowError):
            degrees = float("nan")
        if not abs(degrees) <= (90 if name == "focus_lat" else 180):
            self.tally.count("positions that cannot be read, kept as none")
            return None
        return degrees


def parse_micros(value: object) -> int | None:
    """Microseconds since 1970 in UTC, from ISO text or epoch milliseconds; None if it is neither.

    Text without an offset is UTC. Seconds are refused, not taken for milliseconds of 1970.

    >>> parse_micros("2024-11-07T03:09:29.510Z"), parse_micros(1730948969510), parse_micros("1730948969510")
    (1730948969510000, 1730948969510000, 1730948969510000)
    >>> parse_micros(1730948969), parse_micros("yesterday"), parse_micros(None)
    (None, None, None)
    """
    if isinstance(value, str):
        text = value.strip()
        if not text.isdecimal():
            try:
                return (as_utc(text) - EPOCH) // timedelta(microseconds=1)
            except ValueError:
                return None
        value = int(text) if len(text) < 20 else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not EARLIEST <= value <= LATEST:
        return None
    return round(value * 1000)


def _unpack(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The documents of a line: itself, a dump's `_source`, the hits of an answer; none of a bulk's lines."""
    if len(record) == 1 and any(isinstance(record.get(name), dict) for name in BULK):
        return
    if isinstance(record.get("_source"), dict):
        yield record["_source"]
        return
    found = record.get("hits")
    if isinstance(found, dict) and isinstance(found.get("hits"), list):
        for hit in found["hits"]:
            yield hit["_source"] if isinstance(hit, dict) and isinstance(hit.get("_source"), dict) else {}
        return
    yield record


def _find(record: Mapping[str, Any], path: str) -> Any:
    """What stands at a dotted path, nested or with the dots in the key."""
    if path in record:
        return record[path]
    head, dot, rest = path.partition(".")
    inner = record.get(head)
    return _find(inner, rest) if dot and isinstance(inner, dict) else None


def _is_unicode(record: Any) -> bool:
    """Whether all text can be written: JSON may spell one half of a pair of surrogates."""
    try:
        json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _as_id(value: object) -> str | None:
    if isinstance(value, str):
        return value.strip() or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
