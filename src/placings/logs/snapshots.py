"""Features kept as snapshots: what was known of an item when the search was made, never later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from placings.core import BadFile
from placings.data import (
    PARQUET,
    OpenedTable,
    Table,
    as_arrow,
    as_paths,
    as_urls,
    check_parquet,
    cut_nanoseconds,
    find_files,
    is_url,
    need_ibis,
    quote_globs,
    told_as_ours,
)
from placings.logs.json_lines import is_json_lines, read_json_lines
from placings.logs.schema import ACTION, FIELDS, open_log, take_columns, unpack_objects

FILE, ROW = "placings_file", "placings_row"
NEVER = datetime(9999, 1, 1)  # the latest snapshot of an item has no end


def open_snapshots(snapshots: Table, backend: Any, taken: Sequence[str]) -> tuple[Any, list[str]]:
    """The snapshots on the rows' engine, each with `since` and `until` it was the latest; the features.

    Of several with one item and time the last in the file counts (files in the order of their names); of an
    Ibis table, which has no order, the one with the largest values. `taken` are the rows' columns.
    """
    import ibis

    opened = _open_in_order(snapshots, backend)
    source = OpenedTable(unpack_objects(opened.table, opened.name), opened.backend, opened.name)
    keys = take_columns(source, {"item_id": "id", "time": "time"}, need=("item_id", "time"))
    order = [name for name in (FILE, ROW) if name in source.table.columns]
    names = [name for name in source.table.columns if name not in ("item_id", "time", FILE, ROW)]
    twice = [name for name in names if name in taken]
    if twice:
        raise BadFile(
            source.name,
            f"column {twice[0]!r} is in the rows already, so it would be there twice. Rename or drop it.",
        )
    if not names:
        raise BadFile(source.name, "has no column beside item_id and time. Name the features to join.")
    table = source.table.select(**keys, **{name: source.table[name] for name in (*names, *order)})
    table = table.filter(table.item_id.notnull() & table.time.notnull())
    last = [ibis.desc(name) for name in order or [n for n in names if not table[n].type().is_nested()]]
    place = ibis.row_number().over(ibis.window(group_by=["item_id", "time"], order_by=last))
    table = table.mutate(placings_place=place)
    table = table.filter(table.placings_place == 0)
    until = table.time.lead().over(ibis.window(group_by="item_id", order_by="time"))
    fields = {f"snapshot_{number}": table[name] for number, name in enumerate(names)}
    ever = ibis.literal(NEVER).cast("timestamp(6)")
    ready = table.select(
        placings_item=table.item_id, since=table.time, until=ibis.coalesce(until, ever), **fields
    )
    return ready, names


def join_snapshots(rows: Any, snapshots: Any, names: Sequence[str]) -> Any:
    """The rows with the features of the latest snapshot at or before their time; null where there is none."""
    at = (
        (rows.item_id == snapshots.placings_item)
        & (snapshots.since <= rows.time)
        & (rows.time < snapshots.until)
    )
    joined = rows.left_join(snapshots, at)
    fields = {name: joined[f"snapshot_{number}"] for number, name in enumerate(names)}
    return joined.select(*rows.columns, **fields)


def _open_in_order(snapshots: Table, backend: Any) -> OpenedTable:
    """The table with the file's name and the row's number in it where there is an order."""
    import pyarrow as pa

    ibis = need_ibis("joining snapshots")
    paths = as_paths(snapshots)
    if paths is not None and all(_is_parquet(path) for path in paths):
        files, _, folder = find_files(paths)
        for file in files:
            if not is_url(file):
                check_parquet(file)
        with told_as_ours(paths[0]):
            if backend.name == "duckdb":
                table = backend.read_parquet(quote_globs(files), filename=FILE, file_row_number=True)
                table = cut_nanoseconds(table.rename({ROW: "file_row_number"}))
            elif backend.name == "pyspark":
                read = backend._session.read
                frame = read.parquet(*as_urls(paths if folder else files)).selectExpr(
                    "*", f"_metadata.file_path AS {FILE}", f"_metadata.row_index AS {ROW}"
                )
                name = f"placings_{uuid4().hex}"
                frame.createOrReplaceTempView(name)
                table = backend.table(name)
            else:
                return open_log(snapshots, "snapshots", backend)
        return OpenedTable(table, backend, paths[0])
    if isinstance(snapshots, ibis.expr.types.Table):
        return open_log(snapshots, "snapshots", backend)
    if paths is not None and all(is_json_lines(path) for path in paths):
        table = read_json_lines(paths, {**ACTION, **FIELDS}, {})
    elif paths is None:
        table = as_arrow(snapshots)
    else:
        return open_log(snapshots, "snapshots", backend)
    numbered = table.append_column(ROW, pa.array(range(table.num_rows), pa.int64()))
    opened = open_log(numbered, "snapshots", backend)
    return OpenedTable(opened.table, opened.backend, paths[0] if paths else "the snapshots")


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(PARQUET) or Path(path).is_dir()
