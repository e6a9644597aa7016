"""Ranking data from Arrow batches, one batch in memory at a time, and into them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import AnyArray, Floats32
from placings.data.checks import check_position
from placings.data.columns import Roles, is_number, say_leak
from placings.data.ranking import PER_ROW, RankingData
from placings.errors import BadInput, Guess, LeftOut, option

if TYPE_CHECKING:
    import pyarrow as pa

WIDEST_SPARSE = 5_000  # columns; beyond it a table of a sparse matrix is mostly zeros and does not fit
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def assemble_batches(
    batches: Iterable[pa.RecordBatch], rows: int, roles: Roles, said: list[str], source: str
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
    said = [*said, *_find_odd_text({name: columns[roles.segments[name]] for name in roles.unnamed})]
    data = RankingData.from_arrays(
        _stack(blocks) if roles.sparse else X,
        labels,
        _as_id_array(columns[roles.qid], "qid", roles.qid, source),
        feature_names=roles.features,
        items=None if roles.item is None else _as_id_array(columns[roles.item], "item", roles.item, source),
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

    if not is_number(column.type):
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
    if not is_number(column.type):
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


def _as_id_array(column: pa.ChunkedArray, part: str, name: str, source: str) -> AnyArray:
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
        except pa.ArrowInvalid:
            return _as_texts(column.cast(pa.string()), name, source)
    if is_number(column.type):
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
                raise BadInput(f"{source}: time {name!r} is text that is no ISO time: {error}.") from error
        return np.asarray(column.to_numpy())
    if not is_number(column.type):
        raise BadInput(f"{source}: {part} {name!r} must be numbers. Got a column of {column.type}.")
    return _as_numbers(column.combine_chunks())


def _as_plain(column: pa.ChunkedArray, name: str, source: str) -> AnyArray:
    """A segment's values: numbers and times as they are, text as strings with None for null."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_number(column.type) or pa.types.is_temporal(column.type):
        return np.asarray(column.to_numpy())
    return _as_texts(column, name, source)


def _as_texts(column: pa.ChunkedArray, name: str, source: str) -> AnyArray:
    """Strings that rows share: a log repeats its few million ids many times."""
    import pyarrow as pa

    try:
        texts = column.cast(pa.large_string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadInput(
            f"{source}: column {name!r} must be numbers or text. Got a column of {column.type}."
        ) from error
    coded = pa.chunked_array([texts]) if isinstance(texts, pa.Array) else texts
    coded = pa.concat_arrays(coded.chunks).dictionary_encode()
    distinct = np.empty(len(coded.dictionary) + 1, dtype=object)
    distinct[:-1] = coded.dictionary.to_pylist()  # and None at the end, where code −1 points
    return np.asarray(distinct[coded.indices.fill_null(-1).to_numpy()])


def _find_odd_text(columns: dict[str, pa.ChunkedArray]) -> list[str]:
    """Text columns that are mostly numbers: one 'n/a' must not turn a feature into a segment unsaid."""
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
            phrases.append(
                f"segment {name!r}, mostly numbers but also {odd!r} (a missing value? Then say so)"
            )
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
