"""What logs hold: which columns, of which kind, and what is said when one is not as it must be.

`SEARCH` and `ITEM` are the columns of the searches, `ACTION` those of the actions, `ROWS` all that a click
log knows: what the join makes of the two, and what a service writes beside them. A name stands here once.

docs/log_schema.md is the same for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Literal, NoReturn, TypeAlias

from placings.core import BadFile, BadInput, option, take_renamed
from placings.data import Backend, OpenedTable, Table, as_paths, open_source
from placings.logs.column_names import Columns
from placings.logs.epochs import DAY, as_timestamps, choose_unit, describe_unit
from placings.logs.json_lines import JsonNames, is_json_lines, read_json_lines

ColumnKind: TypeAlias = Literal["id", "text", "number", "time", "flag"]

SEARCH_ID, ITEM_ID, POSITION, LABEL = "search_id", "item_id", "position", "label"
TIME, SESSION_ID, USER_ID, PROPENSITY = "time", "session_id", "user_id", "propensity"
NEEDED = (SEARCH_ID, ITEM_ID, POSITION, LABEL)  # of a click log
CLICKED = "clicked"  # what a flat table calls the label

SEARCH: dict[str, ColumnKind] = {
    "search_id": "id", "session_id": "id", "time": "time", "query": "text", "focus_lat": "number",
    "focus_lon": "number", "target": "text", "platform": "text", "surface": "text",
}  # fmt: skip
ITEM: dict[str, ColumnKind] = {"item_id": "id", "position": "number", "score": "number"}
FIELDS: dict[str, ColumnKind] = {  # of places; any other field travels along as it is
    "name": "text", "locality": "text", "street": "text", "neighbourhood": "text", "borough": "text",
    "country": "text", "type": "text", "zone": "text", "lat": "number", "lon": "number", "weight": "number",
}  # fmt: skip
ACTION: dict[str, ColumnKind] = {"search_id": "id", "item_id": "id", "time": "time", "action": "text"}
TRUTH: dict[str, ColumnKind] = {"search_id": "id", "target_id": "id", "kind": "text"}
MADE: dict[str, ColumnKind] = {  # by the join
    "label": "number", "chain_id": "id", "chain_step": "number", "chain_last": "flag", "successful": "flag",
    "outcome": "text", "impressions": "number", "clicks": "number", "is_target": "number",
}  # fmt: skip
SERVED: dict[str, ColumnKind] = {  # who asked, on what; which arm and model answered, and how likely it was
    "user_id": "id", "device": "text", "arm": "id", "model": "id", "propensity": "number",
    "no_history": "flag",
}  # fmt: skip
ROWS: dict[str, ColumnKind] = {**SEARCH, **ITEM, **SERVED, "kind": "text", **MADE}
RESULTS = "results"
KNOWN = {*SEARCH, *ITEM, *ACTION, *TRUTH, RESULTS}
# what `columns` may name: of the two files, and of a table with one row for each item shown
NAMED = tuple(dict.fromkeys((*SEARCH, RESULTS, *ITEM, *ACTION, *SERVED, *FIELDS)))
NAMED_IN_ROWS = tuple(dict.fromkeys((*SEARCH, *ITEM, *SERVED, *FIELDS, LABEL, CLICKED)))
UNITS = {"": 1, "s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
WANTED = {
    "id": "text or whole numbers",
    "text": "text",
    "number": "numbers",
    "time": "timestamps",
    "flag": "true or false",
}
FITS: dict[str, tuple[str, ...]] = {  # which types, as `name_type` says them, are of a kind
    "id": ("text", "whole numbers"), "text": ("text",), "time": ("times",),
    "number": ("whole numbers", "numbers", "decimals"), "flag": ("true or false", "whole numbers", "numbers"),
}  # fmt: skip


@dataclass(frozen=True)
class Layout:
    """How a log of searches is laid out.

    `nested` says whether the list is in one column `results`; `fields` are the item's columns beyond
    `item_id`, `position` and `score`, `extras` the search's beyond those that are known; `missing` are
    known columns that the log has not. An object in an item is taken apart: of `{"price": {"amount": 3}}`
    the field is "price.amount", and `paths` says where it lies. With `plain`, the list holds ids alone, and
    an item's position is its place in it.
    """

    nested: bool
    fields: tuple[str, ...]
    extras: tuple[str, ...]
    missing: tuple[str, ...]
    paths: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plain: bool = False


@dataclass(frozen=True)
class LogReading:
    """How a log is read: their names of our `columns`, the unit of times that are numbers, what is refused.

    `time_unit` None tells seconds from milliseconds by their size. With `strict`, a last line of JSONL that
    ends early is an error; without it, it is counted and passed over.
    """

    columns: Columns = field(default_factory=dict)
    time_unit: str | None = None
    strict: bool = False


@dataclass(frozen=True)
class OpenedLog(OpenedTable):
    """An opened log, and what was found on the way.

    `columns` are those of `LogReading`; `mapped` are the names of theirs that the log has, `there` all its
    names. `times` says what numbers in the column `time` were taken for, "" where they were times already.
    `cut` are the lines, as `path:line`, that ended early and were passed over.
    """

    columns: Columns = field(default_factory=dict)
    mapped: tuple[str, ...] = ()
    there: tuple[str, ...] = ()
    times: str = ""
    cut: tuple[str, ...] = ()


def check_searches(searches: Table, *, engine: Backend = None, backend: Backend = None) -> Layout:
    """Refuse a log of searches that cannot be joined, naming file, column, row or line and the remedy.

    `searches` is a path (JSONL, parquet), a table in memory or an Ibis table. Values that are missing are no
    error here: the join counts them.

    >>> check_searches({"search_id": ["a"]})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    placings.core.errors.BadFile: the searches: has no column 'time', when the search was made. ...
    """
    backend = take_renamed("check_searches", "backend", backend, "engine", engine)
    source = open_log(searches, "searches", backend)
    try:
        return find_layout(source)
    finally:
        if source.own:
            source.backend.disconnect()


def check_actions(actions: Table, *, engine: Backend = None, backend: Backend = None) -> tuple[str, ...]:
    """Refuse a log of actions that cannot be joined, as `check_searches` does; gives the other columns."""
    backend = take_renamed("check_actions", "backend", backend, "engine", engine)
    source = open_log(actions, "actions", backend)
    try:
        take_columns(source, ACTION, need=tuple(ACTION))
        return tuple(name for name in source.table.columns if name not in ACTION)
    finally:
        if source.own:
            source.backend.disconnect()


def open_log(
    log: Any,
    what: str,
    backend: Backend = None,
    *,
    kinds: Mapping[str, ColumnKind] | None = None,
    reading: LogReading | None = None,
) -> OpenedLog:
    """A log on a backend; JSONL is read into memory first, and every line of it checked.

    `kinds` are those of the columns in a text file; without them, those of the two logs. Columns of other
    names get ours, and times that are numbers become timestamps, as `reading` says.
    """
    reading = reading or LogReading()
    paths = as_paths(log)
    cut: list[str] = []
    if paths is not None and any(is_json_lines(path) for path in paths):
        known = kinds or {**SEARCH, **ITEM, **FIELDS, **ACTION, **TRUTH}
        names = JsonNames.of(reading.columns)
        table = read_json_lines(
            paths,
            {reading.columns.get(name, name): kind for name, kind in known.items()},
            {reading.columns.get(name, name): kind for name, kind in {**ITEM, **FIELDS}.items()},
            names=names,
            cut=None if reading.strict else cut,
        )
        opened = open_source(table, backend)
    elif isinstance(log, list) and log and all(isinstance(each, dict) for each in log):
        import pyarrow as pa

        try:
            opened = open_source(pa.Table.from_pylist(log), backend)
        except pa.ArrowException as error:
            raise BadInput(f"the {what} must hold one kind of value a column: {error}.") from error
    else:
        worded = [name for name, kind in (kinds or {}).items() if kind in ("id", "text")]
        worded = [reading.columns.get(name, name) for name in worded]
        opened = open_source(log, backend, texts=worded)
    name = opened.name if paths is None else _name_paths(paths)
    shown = f"the {what}" if name in ("the table", "the Ibis table") else name
    unpacked = unpack_objects(opened.table, shown)
    renamed, mapped, there = _rename_columns(unpacked, reading.columns)
    source = OpenedLog(
        renamed, opened.backend, shown, opened.recorded, opened.typeless, opened.own,
        columns=reading.columns, mapped=mapped, there=there, cut=tuple(cut),
    )  # fmt: skip
    return settle_times(source, reading.time_unit)


def _rename_columns(table: Any, columns: Columns) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """The table under our names, the names of theirs that it has, and all its names.

    Where the list is in one column, the item's names are looked for in there; `find_layout` takes them. A
    column that has one of our names already gives way to the one that was named.
    """
    there = list(table.columns)
    listed = columns.get(RESULTS, RESULTS)
    inner: list[str] = []
    if listed in there:
        found = table[listed].type()
        if found.is_array() and found.value_type.is_struct():
            inner = [".".join(path) for path in _list_paths(found.value_type)]
    outer = {
        ours: theirs
        for ours, theirs in columns.items()
        if theirs in there and not (listed in there and (ours in ITEM or ours in FIELDS))
    }
    mapped = {*outer.values(), *(theirs for theirs in columns.values() if theirs in inner)}
    gone = {*outer, *outer.values()}
    kept = {name: table[name] for name in there if name not in gone}
    renamed = table.select(**{ours: table[theirs] for ours, theirs in outer.items()}, **kept)
    return renamed if outer else table, tuple(sorted(mapped)), (*there, *inner)


def settle_times(source: OpenedLog, unit: str | None) -> OpenedLog:
    """The log with timestamps where its `time` holds numbers or ISO text; other text is left to be refused.

    Numbers are seconds, milliseconds and so on since 1970: `unit` says which, or else their size.
    """
    import ibis

    if TIME not in source.table.columns:
        return source
    table, column = source.table, source.table[TIME]
    found = column.type()
    numbers = column
    if found.is_string():
        numbers = column.try_cast("float64")
        days = (column.length() == DAY) & numbers.notnull()  # 20240501 is a day
        told = source.ask(
            table.aggregate(
                known=column.count(), numbers=numbers.count(), days=days.ifelse(1, ibis.null("int8")).count()
            )
        ).iloc[0]
        if not int(told["known"]):
            return source
        if int(told["numbers"]) < int(told["known"]) or int(told["days"]):
            return _settle_texts(source, column)
    elif not found.is_numeric() or found.is_boolean():
        return source
    numbers = numbers.cast("float64") if found.is_decimal() else numbers
    if numbers.type().is_floating():
        numbers = _drop_endless(numbers)
    ends = source.ask(table.aggregate(low=numbers.min(), high=numbers.max())).iloc[0]
    if ends["low"] is None or ends["low"] != ends["low"]:
        return source
    try:
        chosen = choose_unit(float(ends["low"]), float(ends["high"]), unit)
    except BadInput as error:
        raise BadFile(source.name, error.marked) from None
    timed = table.mutate(**{TIME: as_timestamps(numbers, chosen)}).select(*table.columns)
    return replace(source, table=timed, times=describe_unit(chosen, float(ends["low"])))


def _settle_texts(source: OpenedLog, column: Any) -> OpenedLog:
    """ISO text as timestamps, if every value can be read."""
    times = column.try_cast("timestamp('UTC', 6)").cast("timestamp(6)")  # offsets count
    told = source.ask(source.table.aggregate(known=column.count(), read=times.count())).iloc[0]
    if int(told["read"]) < int(told["known"]):
        return source
    return replace(source, table=source.table.mutate(**{TIME: times}).select(*source.table.columns))


def unpack_objects(table: Any, name: str) -> Any:
    """An Ibis table whose columns of objects are taken apart: `user` becomes "user.age", "user.home.city"."""
    kinds = table.schema()
    taken: dict[str, Any] = {}
    for path in _list_paths(kinds):
        dotted = ".".join(path)
        if dotted in taken:
            raise BadFile(name, f"column {dotted!r} is there twice: by itself and in an object. Rename one.")
        known = dotted in KNOWN  # nothing but nulls is fine there: the column's kind says what they are
        taken[dotted] = table[dotted] if known and len(path) == 1 else _follow(table, path)
    return table.select(**taken)


def _list_paths(kinds: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The way to each value that is not an object, by a schema or an object's type."""
    for name, kind in kinds.items():
        if kind.is_struct():
            yield from _list_paths(kind, (*before, name))
        else:
            yield (*before, name)


def _follow(value: Any, path: tuple[str, ...]) -> Any:
    import ibis

    found = _walk(value, path)
    return found if _has_type(found.type()) else ibis.null("string")


def _walk(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


def _has_type(kind: Any) -> bool:
    """Whether any row had a value to tell the type from; engines cannot hold nulls and lists of no type."""
    if kind.is_struct():
        return any(_has_type(each) for each in kind.values())
    if kind.is_array():
        return _has_type(kind.value_type)
    return not kind.is_null() and '"NULL"' not in str(kind)  # as Ibis has DuckDB's list of nulls: unknown


def find_layout(source: OpenedTable) -> Layout:
    """The layout of an opened log of searches, its columns checked."""
    table = source.table
    nested = RESULTS in table.columns
    take_columns(source, SEARCH, need=("search_id", "time", "query"))
    paths: dict[str, tuple[str, ...]] = {}
    plain = nested and _is_plain(table[RESULTS].type())
    if nested:
        paths = {"item_id": ()} if plain else _find_paths(source)
        fields = list(paths)
        taken = [name for name in fields if name in SEARCH or name in MADE]
        if taken:
            _refuse(
                source,
                f"results have a field {taken[0]!r}, which the rows need for something else. Rename it",
            )
        if not fields:
            _refuse(source, "every list in 'results' is empty. Write an object for each item shown")
        if "item_id" not in fields:
            _refuse(
                source,
                f"results have no field 'item_id'. They have: {', '.join(fields)}. {_say_map('item_id')}",
            )
        outer = [name for name in table.columns if name not in SEARCH and name != "results"]
        twice = [name for name in outer if name in fields]
        if twice:
            _refuse(
                source,
                f"column {twice[0]!r} is there twice: of the search and in results. Rename one of them",
            )
        extras = tuple(outer)
    else:
        if "item_id" not in table.columns:
            _refuse(
                source,
                "has neither a column 'results' (the list shown) nor 'item_id' (one row for each item). "
                f"It has: {', '.join(table.columns)}. {_say_map('results')}",
            )
        take_columns(source, ITEM, need=("item_id",))
        fields, extras = [name for name in table.columns if name not in SEARCH], ()
    reserved = [name for name in (*extras, *fields) if name in MADE and name != "is_target"]
    if reserved:
        _refuse(source, f"column {reserved[0]!r} is one that the join makes. Rename or drop it")
    rest = tuple(name for name in fields if name not in ITEM)
    missing = tuple(name for name in SEARCH if name not in table.columns)
    lacking = tuple(name for name in ("position", "score") if name not in fields)
    places = {name: paths.get(name, (name,)) for name in fields}
    return Layout(nested, rest, extras, (*missing, *lacking), places, plain)


def _is_plain(found: Any) -> bool:
    """Whether a list holds ids instead of objects."""
    return bool(found.is_array() and (found.value_type.is_string() or found.value_type.is_integer()))


def take_columns(source: OpenedTable, kinds: dict[str, ColumnKind], need: tuple[str, ...]) -> dict[str, Any]:
    """The known columns as Ibis expressions of one type each: text, float64, or microseconds in UTC.

    A column that is not there becomes null, unless it is needed. Empty ids, NaN and ±inf become null.
    """
    import ibis

    table, taken = source.table, {}
    for name, kind in kinds.items():
        if name in table.columns:
            taken[name] = _as_kind(source, name, table[name], kind)
        elif name in need:
            _refuse(
                source,
                f"has no column {name!r}{_say_part(name)}. It has: {', '.join(table.columns)}. "
                f"{_say_map(name)}",
            )
        else:
            taken[name] = ibis.null(TYPES[kind])
    return taken


def take_item(source: OpenedTable, item: Any, layout: Layout) -> dict[str, Any]:
    """The item's columns of one entry of `results`, or of one row: ids, position and score, other fields."""
    import ibis

    taken = {}
    for name, kind in ITEM.items():
        if name in layout.missing:
            taken[name] = ibis.null(TYPES[kind])
        else:
            taken[name] = _as_kind(source, name, _walk(item, layout.paths.get(name, (name,))), kind)
    for name in layout.fields:
        taken[name] = _follow(item, layout.paths[name])
    return taken


def clean_position(position: Any) -> Any:
    """A position as a whole number of 1 or more; null where it is none (text is refused before)."""
    import ibis

    if position.type().is_null():
        return ibis.null("int64")
    good = (position >= 1) & (position < 1e9)
    if position.type().is_floating():
        good = good & (position == position.floor())  # NaN is below nothing: 1e9 leaves it out
    return good.ifelse(position, ibis.null(position.type())).cast("int64")


def _drop_endless(number: Any) -> Any:
    """A column of floats with null for NaN and ±inf: a score of infinity says nothing."""
    import ibis

    return (number.isnan() | number.isinf()).ifelse(ibis.null(number.type()), number)


def parse_seconds(length: Any, name: str) -> int:
    """The whole seconds of 90, "90", "90s", "30m", "1h" or "2d".

    >>> parse_seconds("1h", "window"), parse_seconds(30, "gap"), parse_seconds("90", "gap")
    (3600, 30, 90)
    """
    if (
        isinstance(length, int | float)
        and not isinstance(length, bool)
        and length >= 0
        and length == length // 1
    ):
        return int(length)
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", length.lower()) if isinstance(length, str) else None
    if found is None or found[2] not in UNITS:
        raise BadInput(
            f"{name} must be whole seconds, or a length such as '30s', '10m' or '1h'. Got {length!r}."
        )
    return int(found[1]) * UNITS[found[2] or "s"]


TYPES = {
    "id": "string", "text": "string", "number": "float64", "time": "timestamp(6)", "flag": "boolean",
}  # fmt: skip


def _as_kind(source: OpenedTable, name: str, column: Any, kind: ColumnKind) -> Any:
    import ibis

    found = column.type()
    if found.is_null():
        return ibis.null(TYPES[kind])
    if kind == "id" and (found.is_string() or found.is_integer()):
        return column.cast("string").nullif("")
    if kind == "text" and found.is_string():
        return column
    if kind == "number" and found.is_numeric() and not found.is_boolean():
        if name == "position":
            return clean_position(column)
        number = column.cast("float64")
        return _drop_endless(number) if found.is_floating() else number
    if kind == "time" and (found.is_timestamp() or found.is_date()):
        return column.cast("timestamp(6)")
    if name in source.table.columns and _is_empty(source, name):  # a type was guessed of no value at all
        return ibis.null(TYPES[kind])
    _refuse(source, f"column {name!r} must be {WANTED[kind]}. Got {found}{_show_value(source, name)}. "
            + suggest_fix(name, name_type(found), kind))  # fmt: skip


def _find_paths(source: OpenedTable) -> dict[str, tuple[str, ...]]:
    """The item's fields, and where in an entry of `results` each lies."""
    found = source.table["results"].type()
    if not (found.is_array() and found.value_type.is_struct()):
        _refuse(
            source,
            "column 'results' must be a list of objects such as {item_id, position, score}, or of ids. "
            f"Got {found}. Write one object, or one id, for each item shown",
        )
    paths: dict[str, tuple[str, ...]] = {}
    for path in _list_paths(found.value_type):
        name = ".".join(path)
        if name in paths:
            _refuse(source, f"results have a field {name!r} twice: by itself and in an object. Rename one")
        paths[name] = path
    columns = getattr(source, "columns", {})
    mapped = {ours: theirs for ours, theirs in columns.items() if theirs in paths and ours not in SEARCH}
    named = {ours: paths[theirs] for ours, theirs in mapped.items()}
    paths = {name: path for name, path in paths.items() if name not in {*named, *mapped.values()}} | named
    for name, kind in ITEM.items():
        if name in paths:
            _as_field(source, name, _walk(found.value_type, paths[name]), kind)
    return paths


def _as_field(source: OpenedTable, name: str, found: Any, kind: ColumnKind) -> None:
    whole = found.is_string() or found.is_integer() if kind == "id" else found.is_numeric()
    if not (whole or found.is_null()) or found.is_boolean():
        _refuse(source, f"field {name!r} of results must be {WANTED[kind]}. Got {found}. "
                + suggest_fix(name, name_type(found), kind))  # fmt: skip


def name_type(found: Any) -> str:
    """What an Ibis type holds, in the words of `FITS`; "nothing" for a column of nulls."""
    words = {
        "nothing": found.is_null(), "text": found.is_string(), "true or false": found.is_boolean(),
        "whole numbers": found.is_integer(), "numbers": found.is_floating(), "decimals": found.is_decimal(),
        "times": found.is_timestamp() or found.is_date(), "bytes": found.is_binary(),
    }  # fmt: skip
    return next((word for word, fits in words.items() if fits), str(found))


def suggest_fix(name: str, found: str, kind: ColumnKind) -> str:
    """What to do about a column that holds something else; pandas must be able to do what is suggested."""
    if kind == "text":
        return "Write it as text, with null where there is none."
    column = f"frame[{name!r}]"
    if kind == "number":
        return f"Write numbers, with null where there is none; pandas: pandas.to_numeric({column})."
    if kind == "id":
        how = f"{column}.astype(str)"
        if found == "numbers":
            how = f"{column}.astype('Int64').astype(str)"
        elif found == "bytes":
            how = f"{column}.str.decode('utf-8')"
        return f"Write ids as text; pandas: {how}."
    if kind == "flag":
        return "Write true or false, with null where neither is known."
    if found in FITS["number"] or found == "true or false":
        return (
            f"Write timestamps in UTC; pandas, of seconds: pandas.to_datetime({column}, unit='s', utc=True)."
        )
    return f"Write timestamps in UTC; pandas: pandas.to_datetime({column}, utc=True, format='mixed')."


def _is_empty(source: OpenedTable, name: str) -> bool:
    counted = source.table.aggregate(n=source.table[name].count())
    return int(source.ask(counted)["n"].iloc[0]) == 0


def _show_value(source: OpenedTable, name: str) -> str:
    """A value that is in the way, and where: the first row that has one."""
    frame = source.ask(source.table.select(name).limit(1000))
    for row, value in enumerate(frame[name].tolist(), 1):
        if value is not None and value == value:
            return f", such as {value!r} in row {row}"
    return ""


def _say_part(name: str) -> str:
    parts = {
        "search_id": ", which tells searches apart",
        "time": ", when the search was made",
        "query": ", what was typed",
        "item_id": ", which item it was",
        "action": ", such as click, cart or purchase",
        "target_id": ", the item that was looked for",
    }
    return parts.get(name, "")


class _Pair:
    """A name of ours and one of theirs, as Python writes it and as the terminal does."""

    def __init__(self, ours: str) -> None:
        self.ours = ours

    def __repr__(self) -> str:
        return f"{{{self.ours!r}: …}}"

    def __str__(self) -> str:
        return f"{self.ours}=…"


def _say_map(name: str) -> str:
    return f"If yours has another name, say so: {option('columns', value=_Pair(name))}"


def _name_paths(paths: list[str | PathLike[str]] | list[str]) -> str:
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"


def _refuse(source: OpenedTable, problem: str) -> NoReturn:
    raise BadFile(source.name, problem if problem.endswith(".") else problem + ".")
