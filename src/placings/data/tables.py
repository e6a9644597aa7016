"""Parquet, CSV and Arrow tables as ranking data, and ranking data as tables."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.data.batches import assemble_batches, make_batches, name_columns
from placings.data.columns import OneColumn, Roles, find_roles
from placings.data.ranking import RankingData
from placings.data.streams import check_file, find_compression, plain_name, write_atomically
from placings.errors import BadFile, EmptyFile, MissingExtra, TruncatedFile, option

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 16_384  # a batch of 136 float64 columns is 18 MB
MISSING = ("", "NULL", "NA", "NaN", "nan", "null")


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
    source: str = "the table",
) -> RankingData:
    """Ranking data from an Arrow table whose columns are named here, or guessed and said.

    `qid`, `label` and `item` are looked for under their usual names (`query_id`, `rel`, `doc_id`, …) and
    a single timestamp column is taken as `time`; one `Guess` warning says all that was guessed.
    A column `position` that counts from 1 is one; `weight` and `propensity` are taken only when named.
    Without `features`, every numeric or boolean column that plays no other part is one, in order, and text
    columns that play no part become `segments`. But columns whose names say that a ranker must not learn
    from them (`clicked`, `rank`, `user_id`, …; `placings.data.columns.LEAKS`) are left out with a `LeftOut`
    warning, except those in `keep`. `item=False`, `position=False`, `time=False` and `segments=()` mean none.

    Null and NaN features are missing (NaN); ±inf, a null qid and a null, negative or textual label are
    errors with the column and the row, counted from 0. Rows may come in any order.

    >>> import pyarrow as pa
    >>> table = pa.table({"query": ["a", "a", "b"], "bm25": [1.5, None, 2], "clicked": [True, False, False]})
    >>> data = from_table(table, qid="query", label="clicked")
    >>> data.feature_names, data.X[:, 0], data.y
    (('bm25',), array([1.5, nan, 2. ], dtype=float32), array([1., 0., 0.]))
    """
    roles, said = _find_roles(
        table.schema, qid, label, item, features, keep, position, weight, propensity, time, segments, source
    )
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
    Hive folders (`day=2026-01-01/`) do not become columns.
    """
    import pyarrow.parquet as pq

    path = Path(path)
    files = _list_parquet(path)
    arguments = {"source": str(path)} | columns
    with _told_as_bad_file(path):
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
        return assemble_batches(_read_batches(files, roles), rows, roles, said, arguments["source"])


def read_csv(
    path: str | PathLike[str],
    *,
    delimiter: str | None = None,
    missing: str | Sequence[str] = MISSING,
    **columns: Any,
) -> RankingData:
    """Ranking data from CSV or TSV with a header, plain, .gz or .zst; `columns` as in `from_table`.

    The delimiter is a tab for .tsv, else the one of `, tab ; |` that the header holds most often. Fields
    equal to one of `missing` are missing values, also in text columns.
    """
    import pyarrow.csv as csv

    path = Path(path)
    check_file(path)
    if path.stat().st_size == 0:
        raise EmptyFile(path, "is empty. A header line and at least one row are needed.")
    with _told_as_bad_file(path):
        delimiter = delimiter or _find_delimiter(path)
        nulls = [missing] if isinstance(missing, str) else list(missing)
        convert = csv.ConvertOptions(null_values=nulls, strings_can_be_null=True)
        parse = csv.ParseOptions(delimiter=delimiter)
        try:
            with _open_stream(path) as stream:
                table = csv.read_csv(stream, parse_options=parse, convert_options=convert)
        except ValueError as error:
            with _open_stream(path) as stream:  # one thread counts rows, so its message says which one
                csv.read_csv(stream, csv.ReadOptions(use_threads=False), parse, convert)
            raise error
    if table.num_rows == 0:
        raise EmptyFile(path, "has a header but no rows.")
    return from_table(table, source=str(path), **columns)


def write_parquet(data: RankingData, path: str | PathLike[str]) -> None:
    """Write parquet that `read_parquet` reads back equal; nothing is left behind on failure."""
    import pyarrow.parquet as pq

    path = Path(path)
    batches = make_batches(data, name_columns(data))
    first = next(batches)
    with write_atomically(path) as temporary, pq.ParquetWriter(temporary, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)


def need_library(name: str, what: str) -> Any:
    """The module, or an error that says what needs it and how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingExtra(what, name, "frames") from error


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
) -> tuple[Roles, list[str]]:
    named = {"qid": qid, "label": label, "item": item, "position": position}
    named |= {"weight": weight, "propensity": propensity, "time": time}
    return find_roles(schema, named, features, segments, source, keep)


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


def _read_batches(files: Sequence[Path], roles: Roles) -> Iterator[pa.RecordBatch]:
    import pyarrow.parquet as pq

    for file in files:
        with pq.ParquetFile(file, pre_buffer=False) as opened:  # buffering ahead holds whole row groups
            yield from opened.iter_batches(BATCH_ROWS, columns=roles.columns)


def _find_delimiter(path: Path) -> str:
    if plain_name(path).lower().endswith((".tsv", ".tab")):
        return "\t"
    with _open_stream(path) as stream:
        head = stream.read(1 << 16).split(b"\n", 1)[0]
    header = re.sub(r'"[^"]*"', "", head.decode("utf-8", "replace"))
    return max(",\t;|", key=header.count)  # a header of one column has none of them: the comma wins


def _open_stream(path: Path) -> Any:
    import pyarrow as pa

    return pa.input_stream(str(path), compression=find_compression(path))
