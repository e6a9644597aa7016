"""Which column of a table plays which part: named, recorded in the table, or guessed and said."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from placings.errors import BadInput, UnknownName, option

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"placings"
SINGLE_PARTS = ("qid", "label", "item", "position", "weight", "propensity", "time")
GUESSES: dict[str, tuple[str, ...]] = {  # lower case, in order of preference; - and space count as _
    "qid": (
        "qid", "query_id", "queryid", "search_id", "searchid", "srch_id", "event", "event_id", "request_id",
        "impression_id", "group_id", "group", "query", "session_id", "sessionid",
    ),
    "label": (
        "label", "labels", "relevance", "rel", "rating", "grade", "judgment", "judgement", "y", "target",
        "clicked", "click", "is_clicked", "clicks",
    ),
    "item": (
        "item", "item_id", "itemid", "docid", "doc_id", "docno", "document_id", "product_id", "productid",
        "prop_id", "place_id", "table_id", "url_id", "asin", "sku", "id",
    ),
}  # fmt: skip
# Numeric columns of these names are not read as features unless they are named: why, and which (lower case).
# `rating`, `weight` and `y` are not among them: a product's, a parcel's or a map's are honest features; nor
# are names with a word before them, such as `past_clicks`. docs/reading_tables.md has the same list.
LEAKS: dict[str, tuple[str, ...]] = {
    "where it was shown": (
        "position", "pos", "rank", "display_position", "display_rank", "shown_position", "shown_rank",
        "original_position", "original_rank", "result_position", "result_rank", "list_position",
        "item_position", "click_position",
    ),
    "what people did": (
        "clicked", "click", "clicks", "is_clicked", "is_click", "click_bool", "clicked_at", "skipped",
        "examined", "dwell", "dwell_time", "dwell_seconds", "dwell_ms", "cart", "carts", "carted", "in_cart",
        "add_to_cart", "added_to_cart", "ordered", "bought", "purchase", "purchases", "purchased",
        "is_purchased", "booked", "booking", "booking_bool", "gross_bookings_usd", "converted", "conversion",
        "outcome",
    ),
    "a label": (
        "label", "labels", "relevance", "relevance_label", "rel", "grade", "judgment", "judgement", "target",
    ),
    "an id": (
        *GUESSES["qid"], *GUESSES["item"], "user_id", "userid", "customer_id", "visitor_id", "account_id",
        "device_id", "row_id",
    ),
    "a time": (
        "time", "timestamp", "ts", "date", "datetime", "date_time", "epoch", "unix_time", "event_time",
        "search_time", "created_at",
    ),
    "how a row was weighed": ("propensity", "propensities", "sample_weight"),
}  # fmt: skip
_REASONS = {name: reason for reason, names in LEAKS.items() for name in names}
SAVED_INDEX = {"", "Unnamed: 0", "__index_level_0__"}  # pandas' row numbers: no feature unless named
OneColumn: TypeAlias = str | Literal[False] | None


@dataclass(frozen=True)
class Roles:
    """The column of each part; `segments` maps a segment's name to its column."""

    qid: str
    label: str
    features: tuple[str, ...]
    item: str | None = None
    position: str | None = None
    weight: str | None = None
    propensity: str | None = None
    time: str | None = None
    segments: Mapping[str, str] = field(default_factory=dict)
    sparse: bool = False
    unnamed: tuple[str, ...] = ()  # segments that are so only because they are text
    leaks: tuple[str, ...] = ()  # columns of numbers that are no features because of their names
    guessed_position: bool = False  # so it is dropped, not refused, where it does not count from 1

    @property
    def others(self) -> list[str]:
        """The columns of every part but the label and the features."""
        single = [getattr(self, part) for part in SINGLE_PARTS if part != "label"]
        return list(dict.fromkeys([c for c in single if c] + [*self.segments.values()]))

    @property
    def columns(self) -> list[str]:
        """Every column that must be read."""
        return list(dict.fromkeys([self.label, *self.features, *self.others]))

    def to_metadata(self) -> dict[bytes, bytes]:
        """The entry of an Arrow schema that lets a table read back as it was."""
        parts: dict[str, Any] = {part: getattr(self, part) for part in SINGLE_PARTS}
        parts |= {"features": self.features, "segments": dict(self.segments), "sparse": self.sparse}
        return {METADATA_KEY: json.dumps({"version": 1, **parts}).encode()}


def find_roles(
    schema: pa.Schema,
    named: Mapping[str, OneColumn],
    features: Sequence[str] | None,
    segments: Sequence[str] | None,
    source: str,
    keep: Sequence[str] = (),
) -> tuple[Roles, list[str]]:
    """The roles of a schema's columns, and a phrase for each guess that was needed.

    `keep` lists columns that stay features though their names say that a ranker must not learn from them.
    """
    known = list(schema.names)
    _refuse_repeats(known, source)
    wished = [column for column in named.values() if column] + [*(features or ()), *(segments or ())]
    for column in wished:
        if column not in known:
            raise UnknownName(f"column in {source} named", column, known)
    _refuse_double_parts(named, features, source)
    recorded = _read_recorded(schema)
    said: list[str] = []
    chosen: dict[str, str | None] = {}
    taken = set(wished)
    for part in SINGLE_PARTS:  # what the table says of itself comes before any guess
        wish, own = named.get(part), recorded.get(part)
        if wish is None and own in known and own not in taken:
            wish = str(own)
        chosen[part] = wish or None
        taken.update([wish] if wish else [])
    unrecorded = [name for name in known if name not in _recorded_columns(recorded)]
    for part in ("qid", "label", "item"):
        if chosen[part] is None and named.get(part) is not False and not (recorded and part == "item"):
            chosen[part] = _guess_column(schema, part, {*taken, *keep})
            if chosen[part] is not None:
                said.append(f"{part}={chosen[part]!r}")
                taken.add(str(chosen[part]))
    for part in ("qid", "label"):
        if chosen[part] is None:
            raise BadInput(
                f"{source} has no column that looks like the {part}. Pass {option(part)} with one of its "
                f"columns: {', '.join(repr(name) for name in known[:40])}{' …' if len(known) > 40 else ''}."
            )
    if chosen["time"] is None and named.get("time") is not False:
        guess = _guess_time(schema, [name for name in unrecorded if name not in {*taken, *keep}])
        if guess is not None:
            chosen["time"] = guess
            said.append(f"time={guess!r}")
            taken.add(guess)
    guessed_position = chosen["position"] is None and named.get("position") is not False
    if guessed_position:
        free = [n for n in unrecorded if n not in {*taken, *keep} and _plain(n) == "position"]
        fits = [n for n in free if is_number(schema.field(n).type)]
        guessed_position = bool(fits)
        if fits:
            chosen["position"] = fits[0]
            said += [f"position={fits[0]!r}"] if features is None else []  # else no feature is lost
            taken.add(fits[0])
    groups = _choose_segments(schema, segments, recorded, taken)
    taken.update(groups.values())
    columns = _choose_features(schema, features, recorded, taken)
    leaks: tuple[str, ...] = ()
    if features is None:
        own = recorded.get("features", ())
        leaks = tuple(n for n in columns if say_leak(n) and n not in own and n not in keep)
        columns = tuple(n for n in columns if n not in leaks)
        taken.update(leaks)
        parts = {*taken, *columns}
        left = [n for n in unrecorded if n not in parts and not _is_text(schema.field(n).type)]
        if left:
            said.append(f"left out ({', '.join(f'{n!r}: {schema.field(n).type}' for n in left[:5])})")
    sparse = bool(recorded.get("sparse")) and features is None
    own = recorded.get("segments", {})
    unnamed = tuple(name for name in groups if segments is None and name not in own)
    roles = Roles(
        features=columns,
        segments=groups,
        sparse=sparse,
        unnamed=unnamed,
        leaks=leaks,
        guessed_position=guessed_position,
        **chosen,  # type: ignore[arg-type]
    )
    return roles, said


def say_leak(name: str) -> str | None:
    """Why a column of this name is not read as a feature unless it is named; None if it may be one.

    >>> say_leak("Clicked"), say_leak("past_clicks")
    ('what people did', None)
    """
    return _REASONS.get(_plain(name))


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type can be a feature: numbers, booleans, decimals, or nothing at all."""
    import pyarrow.types as types

    value = kind.value_type if types.is_dictionary(kind) else kind
    return any(
        test(value)
        for test in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    )


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    value = kind.value_type if types.is_dictionary(kind) else kind
    views = getattr(types, "is_string_view", lambda _: False)
    return bool(types.is_string(value) or types.is_large_string(value) or views(value))


def _is_segment(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    return _is_text(kind) or types.is_dictionary(kind)


def _choose_segments(
    schema: pa.Schema, named: Sequence[str] | None, recorded: Mapping[str, Any], taken: set[str]
) -> dict[str, str]:
    if named is not None:
        return {column: column for column in named}
    groups = {n: c for n, c in recorded.get("segments", {}).items() if c in schema.names and c not in taken}
    used = taken | _recorded_columns(recorded)
    fresh = {
        n: n for n in schema.names if n not in used and n not in groups and _is_segment(schema.field(n).type)
    }
    return groups | fresh


def _choose_features(
    schema: pa.Schema, named: Sequence[str] | None, recorded: Mapping[str, Any], taken: set[str]
) -> tuple[str, ...]:
    if named is not None:
        return tuple(dict.fromkeys(named))
    first = [name for name in recorded.get("features", ()) if name in schema.names and name not in taken]
    used = taken | _recorded_columns(recorded) | SAVED_INDEX
    return (*first, *(n for n in schema.names if n not in used and is_number(schema.field(n).type)))


def _guess_column(schema: pa.Schema, part: str, taken: set[str]) -> str | None:
    free = {_plain(name): name for name in reversed(schema.names) if name not in taken}
    fits = [free[guess] for guess in GUESSES[part] if guess in free]
    suited = [name for name in fits if _suits(schema.field(name).type, part)]
    if part == "label" and not suited:
        return fits[0] if fits else None  # a label of text is an error that names the column
    return suited[0] if suited else None


def _suits(kind: pa.DataType, part: str) -> bool:
    import pyarrow.types as types

    number = is_number(kind) and not types.is_null(kind)
    return number if part == "label" else _is_text(kind) or (number and not types.is_boolean(kind))


def _guess_time(schema: pa.Schema, free: Sequence[str]) -> str | None:
    import pyarrow.types as types

    for test in (types.is_timestamp, types.is_date):
        fits = [name for name in free if test(schema.field(name).type)]
        if fits:
            return fits[0] if len(fits) == 1 else None
    return None


def _plain(name: str) -> str:
    return name.strip().lower().replace("-", "_").replace(" ", "_")


def _read_recorded(schema: pa.Schema) -> dict[str, Any]:
    entry = (schema.metadata or {}).get(METADATA_KEY)
    if entry is None:
        return {}
    try:
        recorded = json.loads(entry)
    except ValueError:
        return {}
    return recorded if isinstance(recorded, dict) and recorded.get("version") == 1 else {}


def _recorded_columns(recorded: Mapping[str, Any]) -> set[str]:
    single = {recorded[part] for part in SINGLE_PARTS if recorded.get(part)}
    return single | {*recorded.get("features", ()), *recorded.get("segments", {}).values()}


def _refuse_repeats(names: Sequence[str], source: str) -> None:
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadInput(f"{source} has two columns named {twice!r}. Rename or drop one of them.")


def _refuse_double_parts(named: Mapping[str, OneColumn], features: Sequence[str] | None, source: str) -> None:
    parts: dict[str, str] = {}
    for part, column in named.items():
        if not column:
            continue
        if column in parts or (part == "label" and column in (features or ())):
            raise BadInput(
                f"a column plays one part. Column {column!r} of {source} is named as {part} and as "
                f"{parts.get(column, 'a feature')}."
            )
        parts[column] = part
