"""Parquet, CSV and Arrow tables as ranking data, and ranking data as tables."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from placings.core import (
    AnyArray,
    BadFile,
    BadInput,
    EmptyFile,
    Floats32,
    Guess,
    LeftOut,
    TruncatedFile,
    UnknownName,
    check_file,
    find_compression,
    iterate_blocks,
    option,
    parse_json,
    plain_name,
    read_settled,
    write_atomically,
)
from placings.data.checks import check_position
from placings.data.csv_text import CheckedText, check_csv, is_plain, read_header
from placings.data.ids import as_whole, settle_ids
from placings.data.ranking import PER_ROW, RankingData
from placings.data.seals import READ, WRITE, check_parquet, identify_file, seal_parquet
from placings.data.splits import UNITS

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"placings"
SINGLE_PARTS = ("qid", "label", "item", "position", "weight", "propensity", "time")
PEOPLE = ("user_id", "userid", "customer_id", "visitor_id", "account_id")
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
        *GUESSES["qid"], *GUESSES["item"], *PEOPLE,
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
    ignore: Sequence[str] = (),
) -> tuple[Roles, list[str]]:
    """The roles of a schema's columns, and a phrase for each guess that was needed.

    `keep` lists columns that stay features though their names say that a ranker must not learn from them,
    `ignore` those that play no part.
    """
    if ignore:
        schema = _leave_out(schema, ignore, source)
    known = list(schema.names)
    _refuse_repeats(known, source)
    wished = [column for column in named.values() if column] + [*(features or ()), *(segments or ())]
    for column in wished:
        if column not in known:
            raise UnknownName(f"column in {source} named", column, known)
    _refuse_double_parts(named, features, source)
    recorded = _read_recorded(schema)
    taken = set(wished)
    chosen, said = _choose_parts(schema, named, recorded, taken, source, keep)
    unrecorded = [name for name in known if name not in _recorded_columns(recorded)]
    if chosen["time"] is None and named.get("time") is not False:
        guess = _guess_time(schema, [name for name in unrecorded if name not in {*taken, *keep}])
        if guess is not None:
            chosen["time"] = guess
            said.append(f"time={guess!r}")
            taken.add(guess)
    guessed_position = chosen["position"] is None and named.get("position") is not False
    if guessed_position:
        free = [n for n in unrecorded if n not in {*taken, *keep} and _plain(n) == "position"]
        fits = [n for n in free if holds_numbers(schema.field(n).type)]
        guessed_position = bool(fits)
        if fits:
            chosen["position"] = fits[0]
            said += [f"position={fits[0]!r}"] if features is None else []  # else no feature is lost
            taken.add(fits[0])
    groups = _choose_segments(schema, segments, recorded, taken, keep)
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


def _leave_out(schema: pa.Schema, ignore: Sequence[str], source: str) -> pa.Schema:
    import pyarrow as pa

    for name in ignore:
        if name not in schema.names:
            raise UnknownName(f"column in {source} to ignore", name, schema.names)
    return pa.schema([each for each in schema if each.name not in ignore], metadata=schema.metadata)


def _choose_parts(
    schema: pa.Schema,
    named: Mapping[str, OneColumn],
    recorded: Mapping[str, Any],
    taken: set[str],
    source: str,
    keep: Sequence[str],
) -> tuple[dict[str, str | None], list[str]]:
    """The column of each single part, as named, as recorded or as guessed (said); `taken` grows by them."""
    known = list(schema.names)
    said: list[str] = []
    chosen: dict[str, str | None] = {}
    for part in SINGLE_PARTS:  # what the table says of itself comes before any guess
        wish, own = named.get(part), recorded.get(part)
        if wish is None and own in known and own not in taken:
            wish = str(own)
        chosen[part] = wish or None
        taken.update([wish] if wish else [])
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
    return chosen, said


def say_leak(name: str) -> str | None:
    """Why a column of this name is not read as a feature unless it is named; None if it may be one.

    >>> say_leak("Clicked"), say_leak("past_clicks")
    ('what people did', None)
    """
    return _REASONS.get(_plain(name))


def holds_numbers(kind: pa.DataType) -> bool:
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
    schema: pa.Schema,
    named: Sequence[str] | None,
    recorded: Mapping[str, Any],
    taken: set[str],
    keep: Sequence[str],
) -> dict[str, str]:
    if named is not None:
        return {column: column for column in named}
    groups = {n: c for n, c in recorded.get("segments", {}).items() if c in schema.names and c not in taken}
    used = taken | _recorded_columns(recorded)
    free = [n for n in schema.names if n not in used and n not in groups]
    whose = [n for n in free if n not in keep and _is_cluster(schema.field(n))]
    return groups | {n: n for n in free if n in whose or _is_segment(schema.field(n).type)}


def _is_cluster(field: pa.Field) -> bool:
    """Whether a column of whole numbers says whose search a row is, so which queries belong together."""
    import pyarrow.types as types

    return field.name in UNITS and types.is_integer(field.type)


def _choose_features(
    schema: pa.Schema, named: Sequence[str] | None, recorded: Mapping[str, Any], taken: set[str]
) -> tuple[str, ...]:
    if named is not None:
        return tuple(dict.fromkeys(named))
    first = [name for name in recorded.get("features", ()) if name in schema.names and name not in taken]
    used = taken | _recorded_columns(recorded) | SAVED_INDEX
    return (*first, *(n for n in schema.names if n not in used and holds_numbers(schema.field(n).type)))


def _guess_column(schema: pa.Schema, part: str, taken: set[str]) -> str | None:
    free = {_plain(name): name for name in reversed(schema.names) if name not in taken}
    fits = [free[guess] for guess in GUESSES[part] if guess in free]
    suited = [name for name in fits if _suits(schema.field(name).type, part)]
    if part == "label" and not suited:
        return fits[0] if fits else None  # a label of text is an error that names the column
    return suited[0] if suited else None


def _suits(kind: pa.DataType, part: str) -> bool:
    import pyarrow.types as types

    number = holds_numbers(kind) and not types.is_null(kind)
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
        recorded = parse_json(entry)
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


WIDEST_SPARSE = 5_000  # columns; beyond it a table of a sparse matrix is mostly zeros and does not fit
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
GROUPED = r"^\s*[-+]?\d{{1,3}}({0}\d{{3}})+(\.\d+)?\s*$"  # 1,234,567.8
DASHES = ("-", "--", "–", "—", "?", ".")  # alone in a column of numbers


def assemble_batches(
    batches: Iterable[pa.RecordBatch],
    rows: int,
    roles: Roles,
    said: list[str],
    source: str,
    find_line: Callable[[int], int] | None = None,
) -> RankingData:
    """Fill `X` batch by batch, column by column; everything else is kept until the end as Arrow pieces."""
    if rows == 0:
        raise BadInput(f"{source} has no rows. At least one is needed.")
    width = len(roles.features)
    X = np.empty((0 if roles.sparse else rows, width), dtype=np.float32)
    blocks: list[Any] = []
    labels = np.empty(rows, dtype=np.float64)
    pieces: dict[str, list[pa.Array]] = {name: [] for name in roles.others}
    start = 0
    for batch in batches:
        stop = start + batch.num_rows
        block = np.empty((batch.num_rows, width), dtype=np.float32) if roles.sparse else X[start:stop]
        for place, name in enumerate(roles.features):
            _fill_feature(block[:, place], batch.column(name), name, start, source)
        if roles.sparse:
            blocks.append(_as_sparse(block))
        labels[start:stop] = _as_labels(batch.column(roles.label), roles.label, start, source)
        for name, kept in pieces.items():
            kept.append(batch.column(name))
        start = stop
    columns = {name: _join(kept, name, source) for name, kept in pieces.items()}
    leaks = [*roles.leaks]
    if roles.guessed_position and not _counts_from_1(columns[str(roles.position)]):
        leaks = [str(roles.position), *leaks]
        said = [phrase for phrase in said if phrase != f"position={roles.position!r}"]
        roles = replace(roles, position=None)
    segments = {name: _as_plain(columns[column], column, source) for name, column in roles.segments.items()}
    unnamed = {name: columns[roles.segments[name]] for name in roles.unnamed}
    said = [*said, *_find_odd_text(unnamed, find_line)]
    data = RankingData.from_arrays(
        _stack(blocks) if roles.sparse else X,
        labels,
        as_id_array(columns[roles.qid], "qid", roles.qid, source),
        feature_names=roles.features,
        items=None if roles.item is None else as_id_array(columns[roles.item], "item", roles.item, source),
        segments=segments,
        **{part: _as_part(columns, getattr(roles, part), part, source) for part in PER_ROW},
    )
    if said:
        named = option("qid", "label", "item", "position", "time", "features", "segments")
        warnings.warn(
            f"{source}: guessed {', '.join(said)}. Name columns with {named} to silence this.",
            Guess,
            stacklevel=4,
        )
    if leaks:
        warnings.warn(_say_leaks(leaks, source), LeftOut, stacklevel=4)
    return data


def _say_leaks(leaks: Sequence[str], source: str) -> str:
    shown = ", ".join(f"{name!r} ({say_leak(name)})" for name in leaks[:10])
    more = f" and {len(leaks) - 10} more" if len(leaks) > 10 else ""
    verb = "is no feature" if len(leaks) == 1 else "are no features"
    return (
        f"{source}: {shown}{more} {verb}: a ranker must not learn from what is not known before a list is "
        f"shown, or from ids and times. To read one all the same, name it with {option('keep', 'features')}."
    )


def _counts_from_1(column: pa.ChunkedArray) -> bool:
    try:
        check_position(_as_numbers(column.combine_chunks()))
    except BadInput:
        return False
    return True


def _fill_feature(out: Floats32, column: pa.Array, name: str, start: int, source: str) -> None:
    import pyarrow as pa

    if not holds_numbers(column.type):
        raise BadInput(_describe_text_feature(column, name, start, source))
    values = _as_numbers(column)
    with np.errstate(over="ignore", invalid="ignore"):
        out[:] = values
    if pa.types.is_integer(column.type) or not np.isinf(out).any():
        return
    row = int(np.flatnonzero(np.isinf(out))[0])
    raise BadInput(
        f"{source}: feature {name!r} is {values[row]} at row {start + row}, which is not finite as float32. "
        "Clip the column, or set such values to null."
    )


def _describe_text_feature(column: pa.Array, name: str, start: int, source: str) -> str:
    import pyarrow.compute as pc

    texts = column.cast("string") if not str(column.type).startswith(("list", "struct", "map")) else None
    row, value = 0, str(column.type)
    if texts is not None:
        odd = pc.fill_null(pc.invert(pc.match_substring_regex(texts, NUMBER)), False).to_numpy(
            zero_copy_only=False
        )
        present = np.flatnonzero(odd if odd.any() else texts.is_valid().to_numpy(zero_copy_only=False))
        row = int(present[0]) if len(present) else 0
        value = repr(texts[row].as_py())
    return (
        f"{source}: feature {name!r} must be numbers. Got {value} at row {start + row} (the column is "
        f"{column.type}). Encode it as a number, or leave it out of {option('features')}."
    )


def _as_numbers(column: pa.Array) -> AnyArray:
    """Numbers with NaN for null, in the column's own width where it can."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    elif pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    elif pa.types.is_null(column.type):
        return np.full(len(column), np.nan, dtype=np.float32)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _as_labels(column: pa.Array, name: str, start: int, source: str) -> AnyArray:
    if not holds_numbers(column.type):
        first = next((value for value in column.to_pylist() if value is not None), None)
        raise BadInput(
            f"{source}: label {name!r} must be numbers. Got {first!r} (the column is {column.type}). Map its "
            f"values to grades of 0 or more first, or name another column with {option('label')}."
        )
    labels = _as_numbers(column).astype(np.float64)
    wrong = ~(np.isfinite(labels) & (labels >= 0.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        value, fix = f"{labels[row]:g}", "Set such labels to 0, or drop the rows."
        if np.isnan(labels[row]):
            value, fix = "a missing one", "Drop such rows, or give them a grade."
        raise BadInput(
            f"{source}: label {name!r} must be finite and 0 or more. Got {value} at row {start + row}. {fix}"
        )
    return labels


def as_id_array(column: pa.ChunkedArray, part: str, name: str, source: str) -> AnyArray:
    """Ids as numbers or strings, none of them missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = column.is_null(nan_is_null=True)
    if pc.any(missing).as_py():
        row = pc.index(missing, True).as_py()
        hint = f" Drop such rows, or name another column with {part}=."
        raise BadInput(f"{source}: {part} {name!r} is missing at row {row}.{hint}")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):  # how Spark and Snowflake write whole numbers
        try:
            return np.asarray(column.cast(pa.int64()).to_numpy())
        except pa.ArrowInvalid:  # a fraction, or beyond int64
            return _as_texts(column.cast(pa.string()), name, source)
    if holds_numbers(column.type):
        return np.asarray(column.to_numpy())
    return _as_texts(column, name, source)


def _as_part(
    columns: dict[str, pa.ChunkedArray], name: str | None, part: str, source: str
) -> AnyArray | None:
    import pyarrow as pa

    if name is None:
        return None
    column = columns[name]
    if part == "time":
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            try:
                column = column.cast(pa.timestamp("us"))
            except pa.ArrowInvalid as error:
                raise BadInput(f"{source}: time {name!r} is text but not an ISO time: {error}.") from error
        return np.asarray(column.to_numpy())
    if not holds_numbers(column.type):
        raise BadInput(f"{source}: {part} {name!r} must be numbers. Got a column of {column.type}.")
    return _as_numbers(column.combine_chunks())


def _as_plain(column: pa.ChunkedArray, name: str, source: str) -> AnyArray:
    """A segment's values: numbers and times as they are, text as strings with None for null."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if holds_numbers(column.type) or pa.types.is_temporal(column.type):
        return np.asarray(column.to_numpy())
    return _as_texts(column, name, source)


def _as_texts(column: pa.ChunkedArray, name: str, source: str) -> AnyArray:
    """Strings that rows share: a log repeats its few million ids many times."""
    import pyarrow as pa

    try:
        texts = column.cast(pa.large_string())
        texts.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        odd = "that is not UTF-8" if "UTF8" in str(error) else f"of {column.type}"
        raise BadInput(f"{source}: column {name!r} must be numbers or text. Got a column {odd}.") from error
    coded = pa.chunked_array([texts]) if isinstance(texts, pa.Array) else texts
    coded = pa.concat_arrays(coded.chunks).dictionary_encode()
    distinct = np.empty(len(coded.dictionary) + 1, dtype=object)
    distinct[:-1] = coded.dictionary.to_pylist()  # and None at the end, where code −1 points
    return np.asarray(distinct[coded.indices.fill_null(-1).to_numpy()])


def _find_odd_text(
    columns: dict[str, pa.ChunkedArray], find: Callable[[int], int] | None = None
) -> list[str]:
    """Text columns that are mostly numbers: one 'x' must not turn a feature into a segment unsaid.

    `find` tells the line of a row, where there are lines.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    phrases = []
    for name, column in columns.items():
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        values = column.drop_null()
        numbers = pc.match_substring_regex(values, NUMBER)
        share = pc.mean(numbers.cast(pa.int8())).as_py() if len(values) else 1.0
        if 0.5 <= share < 1.0:
            odd = values[pc.index(numbers, False).as_py()].as_py()
            row = pc.index(pc.fill_null(pc.match_substring_regex(column, NUMBER), True), False).as_py()
            where = "" if find is None else f" in line {find(row)}"
            phrases.append(f"segment {name!r}, mostly numbers but also {odd!r}{where} ({_say_odd(odd)})")
    return phrases


def _join(pieces: list[pa.Array], name: str, source: str) -> pa.ChunkedArray:
    import pyarrow as pa

    try:
        return pa.chunked_array([piece.cast(pieces[0].type) for piece in pieces])
    except pa.ArrowInvalid as error:
        raise BadInput(f"{source}: column {name!r} changes its type between files: {error}.") from error


def _as_sparse(block: Floats32) -> Any:
    from scipy.sparse import csr_array

    return csr_array(block)


def _stack(blocks: list[Any]) -> Any:
    from scipy.sparse import vstack

    return vstack(blocks, format="csr")


# -- into batches ---------------------------------------------------------------------------------


def check_width(columns: int) -> None:
    """Refuse a table of a sparse matrix so wide that it would be mostly zeros and not fit."""
    if columns > WIDEST_SPARSE:
        raise BadInput(
            f"a table of {columns:,} columns would hold every zero of this sparse X (the limit is "
            f"{WIDEST_SPARSE:,}). Write svmlight (.txt, .txt.gz) instead: it keeps what is not zero."
        )


def name_columns(data: RankingData) -> Roles:
    """A column for each part of the data; features keep their names, ours give way: `qid_`."""
    if data.is_sparse:
        check_width(data.n_features)
    taken = set(data.feature_names)
    chosen: dict[str, str] = {}
    for part in ("qid", "label", *(("item",) if data.items is not None else ()), *PER_ROW):
        if part in ("qid", "label", "item") or getattr(data, part) is not None:
            chosen[part] = _free_name(part, taken)
    segments = {name: _free_name(name, taken) for name in data.segments}
    return Roles(features=data.feature_names, segments=segments, sparse=data.is_sparse, **chosen)  # type: ignore[arg-type]


def make_batches(data: RankingData, roles: Roles) -> Iterator[pa.RecordBatch]:
    """The rows as record batches of a bounded size (at least one batch, though it be empty)."""
    import pyarrow as pa

    schema: pa.Schema | None = None
    step = int(np.clip(2**23 // max(1, data.n_features), 1024, 65_536))
    qid = data.qid
    for start in range(0, max(1, data.n_rows), step):
        rows = slice(start, min(start + step, data.n_rows))
        block: Any = data.X[rows]
        dense = block.toarray() if data.is_sparse else block
        columns = {roles.qid: _as_arrow(qid[rows], "qid"), roles.label: pa.array(data.y[rows], pa.float64())}
        if roles.item is not None and data.items is not None:
            columns[roles.item] = _as_arrow(data.items[rows], "items")
        for place, name in enumerate(roles.features):
            columns[name] = pa.array(np.ascontiguousarray(dense[:, place]), pa.float32())
        for part in PER_ROW:
            if getattr(roles, part) is not None:
                columns[getattr(roles, part)] = _as_arrow(getattr(data, part)[rows], part)
        for name, column in roles.segments.items():
            columns[column] = _as_arrow(data.segments[name][rows], f"segment {name!r}")
        if schema is None:
            fields = [pa.field(name, _whole_type(column)) for name, column in columns.items()]
            schema = pa.schema(fields, metadata=roles.to_metadata())
        arrays = [column.cast(schema.field(name).type) for name, column in columns.items()]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _whole_type(column: pa.Array) -> pa.DataType:
    """The type of a column's first piece, or text where that piece holds nothing but null."""
    import pyarrow as pa

    return pa.string() if pa.types.is_null(column.type) else column.type


def _as_arrow(values: AnyArray, name: str) -> pa.Array:
    import pyarrow as pa

    if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] in ("Y", "M", "W", "h", "m"):
        values = values.astype("datetime64[s]")  # Arrow knows days, and seconds and finer
    try:
        return pa.array(values.astype(object) if values.dtype.kind == "U" else values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise BadInput(
            f"{name} cannot become a column of a table: {error}. Make it numbers or text."
        ) from error


def _free_name(wish: str, taken: set[str]) -> str:
    name = wish
    while name in taken:
        name += "_"
    taken.add(name)
    return name


BATCH_ROWS = 16_384  # a batch of 136 float64 columns is 18 MB
MISSING = (
    "", "NULL", "NA", "NaN", "nan", "null", "N/A", "n/a", "#N/A", "<NA>", "None", "none",
)  # fmt: skip


def from_table(
    table: pa.Table,
    *,
    qid: str | None = None,
    label: str | None = None,
    item: OneColumn = None,
    features: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    position: OneColumn = None,
    weight: str | None = None,
    propensity: str | None = None,
    time: OneColumn = None,
    segments: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    source: str = "the table",
) -> RankingData:
    """Ranking data from an Arrow table whose columns are named here, or guessed and said.

    `qid`, `label` and `item` are looked for under their usual names (`query_id`, `rel`, `doc_id`, …) and
    a single timestamp column is taken as `time`; one `Guess` warning says all that was guessed.
    A column `position` that counts from 1 is one; `weight` and `propensity` are taken only when named.
    Without `features`, every numeric or boolean column that plays no other part is one, in order, and text
    columns that play no part become `segments`, as do whole numbers named `user_id` or `session_id`. But
    columns whose names say that a ranker must not learn from them (`clicked`, `rank`, `visitor_id`, …;
    `placings.data.tables.LEAKS`) are left out with a `LeftOut`
    warning, except those in `keep`. Columns in `ignore` play no part. `item=False`, `position=False`,
    `time=False` and `segments=()` mean none.

    Null and NaN features are missing (NaN); ±inf, a null qid and a null, negative or textual label are
    errors with the column and the row, counted from 0. Rows may come in any order.

    >>> import pyarrow as pa
    >>> table = pa.table({"query": ["a", "a", "b"], "bm25": [1.5, None, 2], "clicked": [True, False, False]})
    >>> data = from_table(table, qid="query", label="clicked")
    >>> data.feature_names, data.X[:, 0], data.y
    (('bm25',), array([1.5, nan, 2. ], dtype=float32), array([1., 0., 0.]))
    """
    roles, said = _find_roles(
        table.schema, qid, label, item, features, keep, position, weight, propensity, time, segments, source,
        ignore,
    )  # fmt: skip
    batches = table.select(roles.columns).to_batches(max_chunksize=BATCH_ROWS)
    return assemble_batches(batches, table.num_rows, roles, said, source)


def to_table(data: RankingData) -> pa.Table:
    """Columns qid, label, item, the features, and what else is known, as an Arrow table.

    The schema's metadata say which column plays which part, so that `from_table` (and a parquet file of it)
    gives back equal data without guessing: float32 features, float64 labels, ids as int64 or strings. A
    feature called `qid` keeps its name and ours becomes `qid_`. A sparse X is refused above 5,000 columns.
    """
    import pyarrow as pa

    roles = name_columns(data)
    batches = list(make_batches(data, roles))
    return pa.Table.from_batches(batches, schema=batches[0].schema)


def read_parquet(path: str | PathLike[str], **columns: Any) -> RankingData:
    """Ranking data from a parquet file, or a folder of them; `columns` as in `from_table`.

    It is read batch by batch into the final array, so that the peak is about the result plus one batch
    (twice the result if the rows of a query do not stand together and must be reordered). The names of
    Hive folders (`day=2026-01-01/`) do not become columns. A file that is replaced meanwhile is read anew.
    """
    path = Path(path)
    return read_settled(path, lambda place: _read_parquet_once(place, {"source": str(path)} | columns))


def _read_parquet_once(path: Path, arguments: dict[str, Any]) -> RankingData:
    import pyarrow.parquet as pq

    files = _list_parquet(path)
    with _told_as_bad_file(path):
        known = [identify_file(file) for file in files]
        for file in files:
            check_parquet(file)
        facts = [pq.read_metadata(file) for file in files]
        rows = sum(fact.num_rows for fact in facts)
        if rows == 0:
            raise EmptyFile(path, "has no rows. Check the job that wrote it.")
        roles, said = _find_roles(facts[0].schema.to_arrow_schema(), **arguments)
        for file, fact in zip(files, facts, strict=True):
            lacking = set(roles.columns) - set(fact.schema.to_arrow_schema().names)
            if lacking:
                raise BadFile(
                    file, f"has no column {min(lacking)!r}, but {files[0].name} has. Write it anew."
                )
        batches = _read_batches(files, known, roles)
        return assemble_batches(batches, rows, roles, said, arguments["source"])


def read_csv(
    path: str | PathLike[str],
    *,
    delimiter: str | None = None,
    missing: str | Sequence[str] = MISSING,
    thousands: str | None = None,
    **columns: Any,
) -> RankingData:
    """Ranking data from CSV or TSV with a header, plain, .gz or .zst; `columns` as in `from_table`.

    The delimiter is a tab for .tsv, else the one of `, tab ; |` that the header holds most often. Fields
    equal to one of `missing` are missing values, also in text columns. In a column that otherwise holds
    numbers, a lone `-`, `--`, `–`, `?` or `.` is missing too, which is said. `thousands` is what separates
    thousands, such as "," in 1,234: without it such a column is text, which is said with its line.
    """
    if thousands is not None and (len(thousands) != 1 or thousands.isalnum() or thousands in '+-\n\r"'):
        raise BadInput(f"thousands must be one sign, such as ','. Got {thousands!r}.")

    path = Path(path)
    check_file(path)
    if path.stat().st_size == 0:
        raise EmptyFile(path, "is empty. A header line and at least one row are needed.")
    with _told_as_bad_file(path):
        nulls = [missing] if isinstance(missing, str) else list(missing)
        ids = [str(columns[part]) for part in ("qid", "item") if columns.get(part)]
        between = delimiter or find_delimiter(path)
        read = read_csv_table(path, between, nulls, ids)
    if read.table.num_rows == 0:
        raise EmptyFile(path, "has a header but no rows.")
    arguments = {"source": str(path)} | columns
    mended, phrases = mend_numbers(read, path, between, thousands, columns.get("features"))
    read = CsvTable(mended, read.written)
    roles, said = _find_roles(read.table.schema, **arguments)
    said += [phrase for name, phrase in phrases.items() if name in roles.columns]
    ids = [roles.qid, *([roles.item] if roles.item else []), *roles.segments.values()]
    table = read.with_ids(ids).select(roles.columns)
    batches = table.to_batches(max_chunksize=BATCH_ROWS)
    return assemble_batches(
        batches,
        table.num_rows,
        roles,
        said,
        arguments["source"],
        lambda row: find_line(path, between, row),
    )


@dataclass(frozen=True)
class CsvTable:
    """A CSV file with the types that its values suggest; what may be ids is kept as written too."""

    table: pa.Table
    written: Mapping[str, pa.ChunkedArray]

    def with_ids(self, names: Iterable[str]) -> pa.Table:
        """The table with these columns as ids: Arrow reads 007 and 0x10 as numbers, and rounds long ones."""
        table = self.table
        for name in names:
            if name in self.written:
                place = table.schema.get_field_index(name)
                table = table.set_column(place, name, settle_ids(self.written[name]))
        return table


def mend_numbers(
    read: CsvTable, path: Path, delimiter: str, thousands: str | None, features: Sequence[str] | None
) -> tuple[pa.Table, dict[str, str]]:
    """The table with text columns that are numbers but for dashes, or with thousands, as numbers.

    Also a phrase for each column in which a dash was taken for a missing value. A column that is named as a
    feature and still holds text is an error that says which line, and what to pass.
    """
    import pyarrow as pa

    table, said = read.table, {}
    for place, name in enumerate(table.column_names):
        if name in read.written or not _is_text(table.schema.field(place).type):
            continue
        numbers, dash, odd = _as_mended(table.column(place), thousands)
        if numbers is not None:
            table = table.set_column(place, pa.field(name, numbers.type), numbers)
            if dash is not None:
                said[name] = f"{dash!r} in {name!r} as missing"
        elif odd is not None and features is not None and name in features:
            row, value = odd
            raise BadFile(
                path, f"column {name!r} is {value!r}, which is no number: {_say_odd(value)}.",
                line=find_line(path, delimiter, row),
            )  # fmt: skip
    return table, said


def _as_mended(
    column: pa.ChunkedArray, thousands: str | None
) -> tuple[pa.ChunkedArray | None, str | None, tuple[int, str] | None]:
    """A text column as numbers, the dash that was taken for missing, and else the first value that is odd."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    if thousands is not None:
        grouped = pc.match_substring_regex(texts, GROUPED.format(re.escape(thousands)))
        texts = pc.if_else(grouped, pc.replace_substring(texts, thousands, ""), texts)
    number = pc.fill_null(pc.match_substring_regex(texts, NUMBER), True)
    dash = pc.fill_null(pc.is_in(texts, value_set=pa.array(DASHES, pa.large_string())), False)
    known = pc.and_(number, pc.is_valid(texts))
    fits = pc.all(pc.or_(number, dash)).as_py()
    if fits and pc.any(known).as_py():
        found = texts.filter(dash)
        kept = pc.if_else(dash, pa.scalar(None, pa.large_string()), texts)
        return kept.cast(pa.float64()), found[0].as_py() if len(found) else None, None
    row = pc.index(pc.or_(number, dash), False).as_py()
    return None, None, (row, column[row].as_py()) if row >= 0 else None


def _say_odd(value: str) -> str:
    """What to do about a value that is no number."""
    group = next((sign for sign in ",.' " if re.match(GROUPED.format(re.escape(sign)), value)), None)
    if group is not None:
        return f"pass {option('thousands', value=group)} if it separates thousands"
    given = option("missing", value=value)
    return f"pass {given} if it means a missing value, or leave it out of {option('features')}"


def find_line(path: Path, delimiter: str, row: int) -> int:
    """The line of a CSV file that a row stands in, counted from 1; rows count from 0, after the header."""
    import csv
    import io

    def list_lines() -> Iterator[str]:
        for block in iterate_blocks(path, 1 << 20):
            yield from io.StringIO(block.decode("utf-8-sig", "replace"), newline="")

    rows = csv.reader(list_lines(), delimiter=delimiter)
    seen = -2
    for fields in rows:
        seen += bool(fields)
        if seen == row:
            return rows.line_num
    return row + 2


def read_csv_table(
    path: Path, delimiter: str, nulls: Sequence[str] | None = None, ids: Sequence[str] = ()
) -> CsvTable:
    """Read CSV whole; columns called `ids`, or as ids usually are, are read as text and typed afterwards."""
    import pyarrow as pa
    import pyarrow.csv as csv

    usual = {*GUESSES["qid"], *GUESSES["item"], *PEOPLE}
    names = [name for name in read_header(path, delimiter) if name in ids or _plain(name) in usual]
    given: dict[str, Any] = {} if nulls is None else {"null_values": nulls}
    given["strings_can_be_null"] = nulls is not None
    convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), **given)
    table = read_checked_csv(path, delimiter, convert)
    written = {name: table.column(name) for name in names if table.column_names.count(name) == 1}
    for name, texts in written.items():
        table = table.set_column(table.schema.get_field_index(name), name, _infer_type(texts, given))
    return CsvTable(table, written)


def _infer_type(texts: pa.ChunkedArray, given: Mapping[str, Any]) -> pa.ChunkedArray:
    """A column of text with the type that Arrow gives it where nobody asks for text."""
    import pyarrow as pa

    if pa.types.is_string(_read_again(texts.slice(0, 100), given).type):
        return texts
    whole = as_whole(texts)
    return _read_again(texts, given) if whole is None else whole


def _read_again(texts: pa.ChunkedArray, given: Mapping[str, Any]) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.csv as csv

    missing = next(iter(given.get("null_values", ())), "")
    table = pa.table({"text": texts.fill_null(missing), "row": pa.nulls(len(texts), pa.int8())})
    out = pa.BufferOutputStream()
    csv.write_csv(table, out)
    convert = csv.ConvertOptions(include_columns=["text"], **given)
    options = csv.ParseOptions(newlines_in_values=True)
    return csv.read_csv(pa.py_buffer(out.getvalue()), None, options, convert).column("text")


def read_checked_csv(path: Path, delimiter: str, convert: Any = None) -> pa.Table:
    """A CSV file as Arrow reads it; refused are open quotes, what is not UTF-8, and what unpacks too far."""
    import pyarrow as pa
    import pyarrow.csv as csv

    plain = is_plain(path)
    if find_compression(path) is not None:
        check_csv(path, delimiter)  # what unpacks too far is refused before its table fills the memory

    def read_once(threads: bool, breaks: bool) -> tuple[pa.Table, CheckedText]:
        text = CheckedText(path, delimiter)
        parse = csv.ParseOptions(delimiter=delimiter, newlines_in_values=breaks)
        try:
            with open_stream(path) if plain else pa.PythonFile(text, "r") as stream:
                return csv.read_csv(stream, csv.ReadOptions(use_threads=threads), parse, convert), text
        except (pa.ArrowException, BadFile, ValueError, OSError):
            if text.problem is not None:
                raise text.problem from None
            if text.breaks and not breaks:
                return None, text
            raise

    with _told_as_bad_file(path):
        try:
            table, text = read_once(threads=True, breaks=False)
            if text.breaks:  # it cut the blocks without a look at quotes
                table, _ = read_once(threads=True, breaks=True)
        except BadFile:
            raise
        except ValueError:
            check_csv(path, delimiter)  # Arrow stops reading at its first error
            read_once(threads=False, breaks=True)  # one thread counts rows, so its message says which one
            raise
    return table


def write_parquet(data: RankingData, path: str | PathLike[str]) -> None:
    """Write parquet that `read_parquet` reads back equal; nothing is left behind on failure."""
    import pyarrow.parquet as pq

    path = Path(path)
    batches = make_batches(data, name_columns(data))
    first = next(batches)
    with write_atomically(path) as temporary:
        with pq.ParquetWriter(temporary, first.schema, **WRITE) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
        seal_parquet(temporary)


def _find_roles(
    schema: pa.Schema,
    qid: str | None = None,
    label: str | None = None,
    item: OneColumn = None,
    features: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    position: OneColumn = None,
    weight: str | None = None,
    propensity: str | None = None,
    time: OneColumn = None,
    segments: Sequence[str] | None = None,
    source: str = "the table",
    ignore: Sequence[str] = (),
) -> tuple[Roles, list[str]]:
    named = {"qid": qid, "label": label, "item": item, "position": position}
    named |= {"weight": weight, "propensity": propensity, "time": time}
    return find_roles(schema, named, features, segments, source, keep, ignore)


@contextmanager
def _told_as_bad_file(path: Path) -> Iterator[None]:
    """Arrow's errors as ours, with the path and what to do."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError) as error:
        problem = " ".join(str(error).split())
        if "Empty CSV" in problem or "size is 0 bytes" in problem:
            raise EmptyFile(path, "is empty. At least one row is needed.") from error
        if "Truncated compressed stream" in problem:
            raise TruncatedFile(path, "the compressed data end early. Fetch the file again.") from error
        row = re.search(r"Row #(\d+): (.*)", problem)
        if row:
            problem = f"record {row[1]} (the header is 1, blank lines do not count): {row[2]}"
        raise BadFile(path, f"cannot be read: {problem.rstrip('.')}. {_suggest_fix(problem)}") from error


def _suggest_fix(problem: str) -> str:
    if "columns, got" in problem:
        return f"Mend the row, quote fields that hold the delimiter, or pass {option('delimiter')}."
    if "magic bytes" in problem or "footer" in problem:
        return "Is it a parquet file, and written to its end?"
    return "Fetch or write the file again."


def _list_parquet(path: Path) -> list[Path]:
    if not path.is_dir():
        check_file(path)
        return [path]
    files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith((".", "_")))
    if not files:
        raise BadFile(path, "is a folder without .parquet files. Name the file to read.")
    return files


def _read_batches(
    files: Sequence[Path], known: Sequence[tuple[Any, ...]], roles: Roles
) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    for file, before in zip(files, known, strict=True):
        with pq.ParquetFile(file, pre_buffer=False, **READ) as opened:  # buffering holds whole row groups
            if identify_file(file) != before:
                raise BadFile(file, "was replaced while it was read. Read it again.")
            yield from opened.iter_batches(BATCH_ROWS, columns=roles.columns)


def find_delimiter(path: Path) -> str:
    if plain_name(path).lower().endswith((".tsv", ".tab")):
        return "\t"
    with _told_as_bad_file(path), open_stream(path) as stream:
        head = stream.read(1 << 16).split(b"\n", 1)[0]
    header = re.sub(r'"[^"]*"', "", head.decode("utf-8", "replace"))
    return max(",\t;|", key=header.count)  # a header of one column has none of them: the comma wins


def open_stream(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression=find_compression(path))
