"""What people did, as it comes in: checked field by field, and judged by the signed list that it names.

An event is ours (`event_id`, `search_id`, `item_id`, `action`) or OpenSearch's User Behavior Insights
(`query_id`, `action_name`, `event_attributes`). What cannot be read is refused; what can be read but looks
forged is kept, apart from what is learned from.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from placings.core import BadInput
from placings.logs import parse_event
from placings.serve.event_store import Event
from placings.serve.search_ids import Signer, digest_items
from placings.serve.settings import MOST_EVENTS, MOST_ITEMS

TEXTS = {"event_id": 200, "search_id": 200, "item_id": 500, "action": 60}  # and their longest
MOST_PLACES = 10_000
MOST_OF_A_SEARCH = 200  # events that one list may plausibly have
MOST_SEARCHES = 20_000  # lists whose events are counted, some 400 bytes each
DIGEST = 8  # bytes of an event that is remembered
OTHER_LIST, NOT_IN_LIST, TOO_MANY = "other list", "not in the list", "too many"


@dataclass(frozen=True)
class Deed:
    """One event, checked: its texts, where the item stood, what was visible, and the list it claims."""

    texts: Mapping[str, str]
    position: int | None = None
    visible: int | tuple[str, ...] | None = None
    items: tuple[str, ...] | None = None


def list_events(told: Any) -> list[Any]:
    """The events of a body: `{"events": […]}`, a list, or one alone."""
    events = told["events"] if isinstance(told, Mapping) and "events" in told else told
    listed = events if isinstance(events, list) else [events]
    if not listed:
        raise BadInput("events must hold one event or more. Got none.")
    if len(listed) > MOST_EVENTS:
        raise BadInput(f"events must be {MOST_EVENTS} or fewer in one request. Got {len(listed):,}.")
    return listed


def read_deed(place: int, told: Any) -> Deed:
    """One event; the message of what is wrong names the field.

    >>> read_deed(0, {"event_id": "e1", "search_id": "s1", "item_id": 7, "action": "click"}).texts["item_id"]
    '7'
    """
    where = f"events[{place}]"
    if not isinstance(told, Mapping):
        raise BadInput(f"{where} must be an object. Got {type(told).__name__}.")
    if "action_name" in told:
        told = _read_ubi(where, told)
    known = {**told, "item_id": _as_id(told.get("item_id"))}
    texts = {name: _read_text(f"{where}.{name}", known.get(name), most) for name, most in TEXTS.items()}
    position = told.get("position")
    if position is not None and not _is_count(position):
        raise BadInput(f"{where}.position must be a whole number from 1. Got {str(position)[:40]!r}.")
    visible: Any = told.get("visible")
    if isinstance(visible, list):
        visible = _read_items(f"{where}.visible", visible)
    elif visible is not None and not _is_count(visible):
        raise BadInput(
            f"{where}.visible must be how many items were seen, or their ids. Got {str(visible)[:40]!r}."
        )
    items = told.get("items")
    if items is not None:
        if not isinstance(items, list):
            raise BadInput(f"{where}.items must be a list of item ids. Got {type(items).__name__}.")
        items = _read_items(f"{where}.items", items)
    return Deed(texts, position, visible, items)


class Judge:
    """Says which events may be learned from; what it remembers is bounded."""

    def __init__(
        self, signer: Signer, *, most: int = MOST_OF_A_SEARCH, most_searches: int = MOST_SEARCHES
    ) -> None:
        self.signer, self.most, self.most_searches = signer, most, most_searches
        self._counts: OrderedDict[str, bytes | None] = OrderedDict()  # digests of events, side by side

    def find_doubt(self, deed: Deed, *, now: float) -> str:
        """Why an event is not trusted: forged, expired, future, other list, … or "" if it is.

        Where the event brings the list, the list must be the one that was signed, and the item must stand in
        it where the event says.
        """
        opened, problem = self.signer.check(deed.texts["search_id"], now=now)
        if problem or opened is None:
            return problem
        if deed.items is not None:
            if digest_items(deed.items) != opened.items:
                return OTHER_LIST
            item, place = deed.texts["item_id"], deed.position
            if item not in deed.items or (place is not None and deed.items[place - 1 : place] != (item,)):
                return NOT_IN_LIST
        return "" if self._count(deed) else TOO_MANY

    def _count(self, deed: Deed) -> bool:
        """Whether a list has no more events than people make; the same event again counts once."""
        name, event = deed.texts["search_id"], deed.texts["event_id"]
        known = self._counts.pop(name, b"")
        if known is not None:
            digest = hashlib.blake2b(event.encode("utf-8", "replace"), digest_size=DIGEST).digest()
            if digest not in (known[at : at + DIGEST] for at in range(0, len(known), DIGEST)):
                known += digest
            if len(known) > self.most * DIGEST:
                known = None  # from now on all of them
        self._counts[name] = known
        while len(self._counts) > self.most_searches:
            self._counts.popitem(last=False)
        return known is not None


def make_events(
    deeds: Sequence[Deed], judge: Judge, user: str | None, *, now: float
) -> tuple[list[Event], dict[str, int]]:
    """The events as they are stored, and how many are kept apart, by reason."""
    events, doubts = [], Counter[str]()
    for deed in deeds:
        doubt = judge.find_doubt(deed, now=now)
        body: dict[str, Any] = {**deed.texts, "time": as_iso(now)}
        if deed.position is not None:
            body["position"] = deed.position
        if deed.visible is not None:
            body["visible"] = deed.visible if isinstance(deed.visible, int) else list(deed.visible)
        if doubt:
            body["doubt"] = doubt
            doubts[doubt] += 1
        texts = deed.texts
        events.append(Event(texts["event_id"], texts["search_id"], body, now, user, not doubt))
    return events, dict(doubts)


def _read_ubi(where: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """A UBI event under our names. One without an id of its own has a digest of all it says as its id."""
    done = parse_event(told)
    if isinstance(done, str):
        raise BadInput(f"{where} cannot be used: {done}.")
    identity = told.get("event_id")
    if identity is None:
        written = json.dumps(dict(told), sort_keys=True, default=str).encode("utf-8", "replace")
        identity = "ubi-" + hashlib.sha256(written).hexdigest()[:32]
    found: dict[str, Any] = {
        "event_id": identity, "search_id": done.query, "item_id": done.item, "action": done.action,
    }  # fmt: skip
    if done.ordinal is not None and done.ordinal >= 1:
        found["position"] = done.ordinal
    return found


def _read_text(where: str, value: Any, most: int) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= most:
        raise BadInput(f"{where} must be a text of 1 to {most} letters. Got {str(value)[:40]!r}.")
    return value


def _read_items(where: str, listed: list[Any]) -> tuple[str, ...]:
    if len(listed) > MOST_ITEMS:
        raise BadInput(f"{where} must be {MOST_ITEMS} or fewer. Got {len(listed):,}.")
    return tuple(
        _read_text(f"{where}[{place}]", _as_id(each), TEXTS["item_id"]) for place, each in enumerate(listed)
    )


def _as_id(value: Any) -> Any:
    """Whole numbers as texts: an item's id may be either."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_PLACES


def as_iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
