"""What a re-ranker is asked, and what it answers: hits, requests, and the order that it found."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

import numpy as np

from placings.core import BadInput, Floats, Ints, as_utc, check_limit, find_late, find_limit

Focus: TypeAlias = tuple[float, float]  # latitude, longitude in degrees
PLAIN = frozenset({str, int, bool, type(None)})  # what JSON has as it is; a float may be NaN
UNSENDABLE = re.compile("[\0\ud800-\udfff]")
OWN = ("item_id", "position", "score")  # what a hit itself says, whatever its fields are


@dataclass(frozen=True)
class Hit:
    """An item that an engine found: its id, its fields, the engine's score (higher is better), its rank.

    The score is NaN where the engine tells none.

    `fields` are whatever the engine's index holds of the item, under the names that the log has for them.
    Ranks count from 1.
    """

    id: str
    fields: Mapping[str, Any]
    score: float
    rank: int

    @property
    def item(self) -> dict[str, Any]:
        """The hit as a log writes it and as features read it; its id, rank and score go before its fields."""
        if math.isnan(self.score):
            return {**self.fields, "item_id": self.id, "position": self.rank}
        return {**self.fields, "item_id": self.id, "position": self.rank, "score": self.score}

    @property
    def name(self) -> str:
        """What people call the item: its name or title, or its id where it has neither."""
        return str(self.fields.get("name") or self.fields.get("title") or self.id)

    @property
    def place(self) -> Any:
        """The hit as a Place, as version 0.1 had it; goes in version 0.3."""
        warnings.warn(
            "hit.place goes in version 0.3. Use hit.id, hit.name and hit.fields, or Place.of_hit(hit).",
            DeprecationWarning,
            stacklevel=2,
        )
        return find_late("source of fields", "place").of_hit(self)


@dataclass(frozen=True)
class Request:
    """One search to be re-ranked: what is known of it, and its items with all their fields, as found.

    `context` holds what is true of the whole search (`query`, `time`, `focus_lat`, `platform`, …) and
    `items` the fields of each item in the engine's order, both under the names that the log has for them. An
    item needs `item_id` if past clicks are to count; one without `position` has its place in the list.

    >>> Request({"query": "lamp"}, [{"item_id": "a", "price": 9.5}]).items[0]["price"]
    9.5
    """

    context: Mapping[str, Any]
    items: Sequence[Mapping[str, Any]] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        if not isinstance(self.context, Mapping):
            raise BadInput(f"a request's context must be a dict. Got {_name_kind(self.context)}.")
        if isinstance(self.items, str | bytes | Mapping) or not isinstance(self.items, Sequence):
            raise BadInput(f"a request's items must be a list of dicts. Got {_name_kind(self.items)}.")
        for place, item in enumerate(self.items, 1):
            if type(item) is not dict and not isinstance(item, Mapping):  # the second takes ten times as long
                raise BadInput(f"item {place} of a request must be a dict. Got {_name_kind(item)}.")

    @classmethod
    def of_hits(
        cls,
        text: str,
        hits: Sequence[Hit],
        *,
        focus: Focus | None = None,
        time: datetime | None = None,
        **context: Any,
    ) -> Request:
        """The request of a text and what an engine found for it; `time` is now if none is given."""
        known: dict[str, Any] = {
            **context, "query": text, "time": read_time(time),
            "focus_lat": np.nan if focus is None else focus[0],
            "focus_lon": np.nan if focus is None else focus[1],
        }  # fmt: skip
        return cls(known, [hit.item for hit in hits])

    @classmethod
    def from_dict(cls, told: Any) -> Request:
        """The request of `{"context": {…}, "items": [{…}, …]}`, as JSON brings it; times are ISO 8601.

        More items than the limit `k` are refused.
        """
        if not isinstance(told, Mapping) or not {"context", "items"} >= set(told) or "items" not in told:
            found = ", ".join(map(str, told)) if isinstance(told, Mapping) else _name_kind(told)
            raise BadInput(f'a request must have "context" and "items" and nothing else. Got {found}.')
        items = told["items"]
        if isinstance(items, Sized):
            check_limit("k", len(items), "a request")
        return cls(told.get("context", {}), items)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: times as ISO 8601, missing numbers as null."""
        return {
            "context": {name: _as_plain(value) for name, value in self.context.items()},
            "items": [
                {name: value if type(value) in PLAIN else _as_plain(value) for name, value in item.items()}
                for item in self.items
            ],
        }


@dataclass(frozen=True, eq=False)
class Reranked:
    """The new order of a request's items.

    `order` are rows of the request, best first, and `scores` one number an item in the order of the request,
    both `[items]`. `digest` pins the saved re-ranker that gave them (None if it was never saved). `missing`
    counts, for each field that a feature needs, the items for which neither item nor context had it.
    """

    order: Ints
    scores: Floats
    digest: str | None = None
    missing: Mapping[str, int] = field(default_factory=dict)

    def say_missing(self) -> str:
        """In words: which fields were missing for how many items; empty if none was.

        >>> Reranked(np.arange(2), np.zeros(2), None, {"price": 2, "brand": 1}).say_missing()
        'price is missing for all 2 items, brand for 1 of 2'
        """
        count = len(self.order)
        parts = [
            f"{name}{' is missing' if not place else ''} for {'all ' if n == count else f'{n} of '}{count}"
            f"{' items' if not place else ''}"
            for place, (name, n) in enumerate(self.missing.items())
        ]
        return ", ".join(parts)


def read_time(time: Any) -> datetime:
    """A request's time in UTC without a zone: a datetime or ISO 8601 text; now if there is none."""
    if time is None:
        return datetime.now(UTC).replace(tzinfo=None)
    if not isinstance(time, str | date | datetime):
        if hasattr(time, "item"):  # numpy's datetime64
            time = time.astype("datetime64[us]").item()
        else:
            raise BadInput(f"time must be a datetime or ISO 8601 text. Got {time!r}.")
    try:
        return as_utc(time)
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"time must be a datetime or ISO 8601 text, such as 2026-03-01T08:30+01:00. Got {time!r}."
        ) from error


def check_request(text: str, focus: Focus | None, k: int, layers: Sequence[str] | None) -> str:
    """The text that an engine reads: the first letters up to the limit, no NUL, no half of a pair.

    What no engine can be asked is refused: a text that is none, k below 1 or over its limit, a focus off the
    globe, layers that are no texts.

    >>> check_request("haupt", (49.0, 8.4), 40, ["stop"])
    'haupt'
    >>> check_request("haupt", (49.0, float("nan")), 40, None)
    Traceback (most recent call last):
    placings.core.errors.BadInput: focus must be (latitude, longitude) in degrees, or None. Got (49.0, nan).
    """
    if not isinstance(text, str):
        raise BadInput(f"the text to search must be a string. Got {type(text).__name__}.")
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if not whole:
        raise BadInput(f"k must be a whole number, 1 or more. Got {k!r}.")
    if k < 1:
        raise BadInput(f"k must be 1 or more. Got {k!r}.")
    check_limit("k", int(k))
    if isinstance(layers, str):
        raise BadInput(f"layers must be a list of types, such as [{layers!r}]. Got {layers!r}.")
    for layer in layers or ():
        if not isinstance(layer, str) or layer != clean_text(layer):
            raise BadInput(f"layers must be texts without control characters. Got {layer!r}.")
    if focus is not None:
        try:
            fits = len(focus) == 2 and all(math.isfinite(number) for number in focus)
        except (TypeError, OverflowError):
            fits = False
        if not fits or abs(focus[0]) > 90 or abs(focus[1]) > 360:
            raise BadInput(f"focus must be (latitude, longitude) in degrees, or None. Got {focus!r}.")
    return clean_text(text[: find_limit("text")])


def clean_text(text: str) -> str:
    r"""A text that every engine can take: without NUL, and with \ufffd for halves of surrogate pairs.

    >>> clean_text("Ulm\0"), clean_text("\ud83d")
    ('Ulm', '\ufffd')
    """
    return UNSENDABLE.sub(lambda found: "" if found[0] == "\0" else "\ufffd", text)


def _as_plain(value: Any) -> Any:
    kind = type(value)
    if kind is float:  # most values of a live list are numbers and texts: a quick way for them
        return value if math.isfinite(value) else None
    if kind in PLAIN:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, tuple | list):
        return [_as_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _as_plain(each) for name, each in value.items()}
    return value


def _name_kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
