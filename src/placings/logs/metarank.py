"""Metarank's events as JSON lines become searches, actions, and what was known of items over time.

The format is that of Metarank's documentation: `item` and `user` events carry fields from a time on,
`ranking` events the list shown, `interaction` events what was done to an item of it. A field is
`{"name": …, "value": …}`; its value is text, a number, true or false, or a list of texts or numbers.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.core import BadFile, as_utc, iterate_blocks, parse_json
from placings.logs.epochs import EPOCH, as_moment, is_epoch, tell_unit
from placings.logs.json_lines import is_cut
from placings.logs.log_files import nest_results
from placings.logs.schema import ITEM, MADE, SEARCH, SERVED
from placings.logs.tally import Tally

if TYPE_CHECKING:
    import pyarrow as pa

EVENTS = ("item", "user", "ranking", "interaction")
READY = ("query", "target", "platform", "surface", "device")  # fields of a ranking that are columns of ours
NUMBERS = ("focus_lat", "focus_lon")
TAKEN = {*SEARCH, *ITEM, *SERVED, *MADE, "results", "kind"}
Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ShownRanking:
    """A ranking event."""

    time: int
    identity: str
    user: str | None
    session: str | None
    fields: Fields
    items: list[tuple[str, float | None, Fields]]


@dataclass(slots=True)
class Known:
    """What events said of items, or of users: for each a list of (time, fields), a time None for ever."""

    events: dict[str, list[tuple[int | None, Fields]]] = field(default_factory=dict)

    def add(self, identity: str, time: int | None, fields: Fields) -> None:
        """Take in one event."""
        self.events.setdefault(identity, []).append((time, fields))

    def states(self, identity: str) -> list[tuple[int | None, Fields]]:
        """All that was known from each time on: an event changes its own fields and leaves the others."""
        told: Fields = {}
        states: list[tuple[int | None, Fields]] = []
        ordered = sorted(self.events.get(identity, ()), key=lambda each: -1 if each[0] is None else each[0])
        for time, fields in ordered:
            told = told | fields
            if states and states[-1][0] == time:
                states.pop()
            states.append((time, told))
        return states


class MetarankReader:
    """Collects the events of any number of files, in any order, and makes the tables of them."""

    def __init__(self, actions: Mapping[str, str], strict: bool) -> None:
        self.tally = Tally()
        names = ("lines", *(f"{name} events" for name in EVENTS), "searches", "actions")
        for name in names:
            self.tally.count(name, 0)
        self._actions, self._strict = dict(actions), strict
        self._shown: dict[str, ShownRanking] = {}
        self._done: list[tuple[int, str, str, str]] = []  # time, search, item, action
        self._items, self._users = Known(), Known()
        self._units: set[str] = set()

    def read(self, path: Path) -> None:
        """Take in a file. An event that cannot be used is counted; a line that is not JSON is an error."""
        last: tuple[int, bytes] | None = None
        for number, raw in enumerate(_read_lines(path), 1):
            if not raw.strip():
                continue
            if last is not None:
                self._read_line(last[1], path, last[0])
            last = (number, raw)
        if last is None:
            raise BadFile(path, "has no lines. Export Metarank's events, one JSON object a line.")
        number, raw = last
        if is_cut(raw) and not self._strict:
            self.tally.count("lines")
            self.tally.refuse("the last line of the file ends early", f"{path}:{number}")
            return
        self._read_line(raw, path, number)

    def make_tables(self) -> tuple[pa.Table, pa.Table, pa.Table | None]:
        """The searches, the actions, and what was known of items over time, if anything was."""
        if len(self._units) > 1:
            self.tally.count(f"units of time: {', '.join(sorted(self._units))}, each told by its size")
        shown = sorted(self._shown.values(), key=lambda each: (each.time, each.identity))
        self.tally.count("searches", len(shown))
        self.tally.count("actions", len(self._done))
        searches, own = self._make_searches(shown)
        return searches, self._make_actions(), self._make_items({*searches.column_names, *own})

    # -- reading ------------------------------------------------------------------------------------------

    def _read_line(self, raw: bytes, path: Path, number: int) -> None:
        self.tally.count("lines")
        try:
            record = parse_json(raw)
        except ValueError as error:
            raise BadFile(
                path, f"is not JSON: {error}. Mend or delete the line; an event is one line.", line=number
            ) from None
        where = f"{path}:{number}"
        events = record if isinstance(record, list) else [record]
        self.tally.count("lines", len(events) - 1)  # a line may hold a batch, as the API takes one
        for event in events:
            reason = self._take(event, where)
            if reason:
                self.tally.refuse(reason, where)

    def _take(self, event: Any, where: str) -> str:
        """Take in an event; why it cannot be used, or ""."""
        kind = event.get("event") if isinstance(event, dict) else None
        if kind not in EVENTS:
            return "neither an item, a user, a ranking nor an interaction event"
        time = self._read_time(event.get("timestamp"))
        if time is None and (kind in ("ranking", "interaction") or event.get("timestamp") is not None):
            article = "an" if kind in ("item", "interaction") else "a"
            return f"{article} {kind} event whose timestamp cannot be read"
        fields = self._read_fields(event.get("fields"), where)
        reason: str = getattr(self, f"_take_{kind}")(event, time, fields)
        if not reason:
            self.tally.count(f"{kind} events")
        return reason

    def _take_item(self, event: Mapping[str, Any], time: int | None, fields: Fields) -> str:
        item = _as_id(event.get("item"))
        if item is None:
            return "an item event without item"
        if time is None:
            self.tally.count("item events without a timestamp, taken to hold for ever")
        self._items.add(item, time, fields)
        return ""

    def _take_user(self, event: Mapping[str, Any], time: int | None, fields: Fields) -> str:
        user = _as_id(event.get("user"))
        if user is None:
            return "a user event without user"
        self._users.add(user, time, fields)
        return ""

    def _take_ranking(self, event: Mapping[str, Any], time: int, fields: Fields) -> str:
        identity, listed = _as_id(event.get("id")), event.get("items")
        if identity is None:
            return "a ranking event without id"
        if not isinstance(listed, list):
            return "a ranking event without items"
        if identity in self._shown:
            return "a ranking event whose id was there before"
        items: list[tuple[str, float | None, Fields]] = []
        for each in listed:
            told = each if isinstance(each, dict) else {"id": each}
            item = _as_id(told.get("id"))
            if item is None:
                self.tally.count("items without id, left out of their ranking")
                continue
            score = told.get("relevancy")
            score = float(score) if isinstance(score, int | float) and not isinstance(score, bool) else None
            items.append((item, score, self._read_fields(told.get("fields"), "")))
        self._shown[identity] = ShownRanking(
            time, identity, _as_id(event.get("user")), _as_id(event.get("session")), fields, items
        )
        return ""

    def _take_interaction(self, event: Mapping[str, Any], time: int, fields: Fields) -> str:
        item, action = _as_id(event.get("item")), _as_id(event.get("type"))
        ranking = _as_id(event.get("ranking"))
        if item is None:
            return "an interaction event without item"
        if action is None:
            return "an interaction event without type"
        if ranking is None:
            return "an interaction event of no ranking"
        self._done.append((time, ranking, item, self._actions.get(action, action)))
        return ""

    def _read_time(self, value: Any) -> int | None:
        """Microseconds since 1970 of ISO text, or of a number, whose size tells its unit."""
        if isinstance(value, str):
            if not is_epoch(value):
                try:
                    return (as_utc(value) - EPOCH) // timedelta(microseconds=1)
                except ValueError:
                    return None
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        unit = tell_unit(float(value))
        moment = None if unit is None else as_moment(float(value), unit)
        if unit is None or moment is None:
            return None
        self._units.add(unit)
        return (moment - EPOCH) // timedelta(microseconds=1)

    def _read_fields(self, given: Any, where: str) -> Fields:
        fields: Fields = {}
        for each in given if isinstance(given, list) else ():
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or not name or isinstance(each.get("value"), dict):
                self.tally.count("fields without a name or with an object as value, left out")
                continue
            fields[name] = each.get("value")
        return fields

    # -- tables -------------------------------------------------------------------------------------------

    def _make_searches(self, shown: Sequence[ShownRanking]) -> tuple[pa.Table, set[str]]:
        """The searches, and the names of the items' own fields in their lists."""
        import pyarrow as pa

        text = pa.string()
        columns: dict[str, Any] = {
            "search_id": pa.array([each.identity for each in shown], text),
            "session_id": pa.array([each.session for each in shown], text),
            "user_id": pa.array([each.user for each in shown], text),
            "time": pa.array([each.time for each in shown], pa.timestamp("us")),
        }
        told = [each.fields for each in shown]
        for name in READY:
            values = [_as_text(fields.get(name)) for fields in told]
            if name == "query" or any(value is not None for value in values):
                columns[name] = pa.array(values, text)
        for name in NUMBERS:
            if any(name in fields for fields in told):
                columns[name] = pa.array([_as_number(fields.get(name)) for fields in told], pa.float64())
        free = [{n: v for n, v in each.items() if n not in (*READY, *NUMBERS)} for each in told]
        inner = [own for each in shown for _, _, own in each.items]
        own = self._name_columns(inner, TAKEN, "item")
        outer = self._name_columns(free, TAKEN | set(own.values()), "ranking")
        columns |= {name: self._make_column(name, free, theirs) for theirs, name in outer.items()}
        people = [self._find_user(each) for each in shown]
        named = self._name_columns(people, TAKEN | set(own.values()) | set(columns), "user", always=True)
        columns |= {name: self._make_column(name, people, theirs) for theirs, name in named.items()}
        listed = [(place, *item) for each in shown for place, item in enumerate(each.items, 1)]
        fields: dict[str, Any] = {
            "item_id": pa.array([item for _, item, _, _ in listed], text),
            "position": pa.array([place for place, _, _, _ in listed], pa.int64()),
            "score": pa.array([score for _, _, score, _ in listed], pa.float64()),
        }
        fields |= {name: self._make_column(name, inner, theirs) for theirs, name in own.items()}
        columns["results"] = nest_results([len(each.items) for each in shown], fields)
        return pa.table(columns), set(own.values())

    def _find_user(self, shown: ShownRanking) -> Fields:
        """What was known of the user when the list was shown."""
        states = [] if shown.user is None else self._users.states(shown.user)
        place = bisect_right([-1 if time is None else time for time, _ in states], shown.time)
        return states[place - 1][1] if place else {}

    def _make_actions(self) -> pa.Table:
        import pyarrow as pa

        time, search, item, action = zip(*sorted(self._done), strict=True) if self._done else ((), (), (), ())
        text = pa.string()
        return pa.table({
            "search_id": pa.array(search, text),
            "item_id": pa.array(item, text),
            "time": pa.array(time, pa.timestamp("us")),
            "action": pa.array(action, text),
        })  # fmt: skip

    def _make_items(self, taken: Iterable[str]) -> pa.Table | None:
        """All that was known of each item from each time on: snapshots for the join; None without fields."""
        import pyarrow as pa

        rows = [(item, *state) for item in sorted(self._items.events) for state in self._items.states(item)]
        told = [fields for _, _, fields in rows]
        named = self._name_columns(told, TAKEN | set(taken), "item")
        if not named:
            return None
        first = min((time for _, time, _ in rows if time is not None), default=0)
        first = min([first, *(each.time for each in self._shown.values())])
        times = [first if time is None else time for _, time, _ in rows]
        columns: dict[str, Any] = {
            "item_id": pa.array([item for item, _, _ in rows], pa.string()),
            "time": pa.array(times, pa.timestamp("us")),
        }
        columns |= {name: self._make_column(name, told, theirs) for theirs, name in named.items()}
        self.tally.count("states of items", len(rows))
        return pa.table(columns)

    def _name_columns(
        self, told: Iterable[Fields], taken: set[str], of: str, *, always: bool = False
    ) -> dict[str, str]:
        """A column for each field; where the name is taken, or `always`, with what it is a field of."""
        names = dict.fromkeys(name for fields in told for name in fields)
        named = {}
        for name in names:
            named[name] = f"{of}.{name}" if always or name in taken else name
        return named

    def _make_column(self, name: str, told: Sequence[Fields], theirs: str) -> pa.Array:
        """A field's values: numbers, true and false, texts or lists of these; of two kinds as text."""
        import pyarrow as pa

        values = [fields.get(theirs) for fields in told]
        kinds = {_name_kind(value) for value in values if value is not None}
        types = {
            "number": pa.float64(), "flag": pa.bool_(), "text": pa.string(), "texts": pa.list_(pa.string()),
            "numbers": pa.list_(pa.float64()),
        }  # fmt: skip
        kinds = kinds - {"nothing"} or {"text"}
        if len(kinds) == 1 and (kind := kinds.pop()) in types:
            return pa.array([None if value == [] else value for value in values], types[kind])
        self.tally.count(f"fields of two kinds, kept as text: {name}")
        return pa.array([_as_text(value) for value in values], pa.string())


def _read_lines(path: Path) -> Iterator[bytes]:
    for block in iterate_blocks(path, 1 << 22):
        yield from block.split(b"\n")[:-1]


def _name_kind(value: Any) -> str:
    if isinstance(value, list):
        kinds = {_name_kind(each) for each in value}
        return {frozenset(): "nothing", frozenset({"text"}): "texts", frozenset({"number"}): "numbers"}.get(
            frozenset(kinds), "mixed"
        )
    if isinstance(value, bool):
        return "flag"
    return "number" if isinstance(value, int | float) else "text"


def _as_id(value: Any) -> str | None:
    if isinstance(value, str):
        return value.strip() or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _as_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _as_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
