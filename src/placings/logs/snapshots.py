"""Features kept as snapshots: what was known of an item when the search was made, never later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any
from uuid import uuid4

from placings.core import BadFile
from placings.data import (
    PARQUET,
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
from placings.logs.join_expressions import count_where
from placings.logs.join_report import JoinReport
from placings.logs.json_lines import JsonNames, is_json_lines, read_json_lines
from placings.logs.schema import ACTION, FIELDS, TIME, LogReading, OpenedLog, open_log, take_columns

FILE, ROW = "placings_file", "placings_row"
NEVER = datetime(9999, 1, 1)  # the latest snapshot of an item has no end
EVER = datetime(1, 1, 2)  # and what has no time has no beginning


@dataclass(frozen=True)
class Snapshots:
    """Snapshots on the rows' engine: each with `since` and `until` it was the latest.

    `names` are the features. A catalogue has no times (`dated` is false): what it says of an item holds for
    ever. `source` is what was opened, and `counts` what became of its rows.
    """

    source: OpenedLog
    table: Any
    names: tuple[str, ...]
    dated: bool
    counts: Mapping[str, int]


def open_snapshots(snapshots: Table, backend: Any, reading: LogReading | None = None) -> Snapshots:
    """The snapshots, or a catalogue without times, ready to be joined.

    Of several with one item and time the last in the file counts (files in the order of their names); of an
    Ibis table, which has no order, the one with the largest values.
    """
    import ibis

    source = _open_in_order(snapshots, backend, reading or LogReading())
    dated = TIME in source.table.columns
    keys = take_columns(source, {"item_id": "id", "time": "time"}, need=("item_id",))
    if not dated:
        keys["time"] = ibis.literal(EVER).cast("timestamp(6)")
    order = [name for name in (FILE, ROW) if name in source.table.columns]
    names = [name for name in source.table.columns if name not in ("item_id", "time", FILE, ROW)]
    if not names:
        raise BadFile(source.name, "has no column beside item_id and time. Name the features to join.")
    table = source.table.select(**keys, **{name: source.table[name] for name in (*names, *order)})
    whole = table.filter(table.item_id.notnull() & table.time.notnull())
    last = [ibis.desc(name) for name in order or [n for n in names if not whole[n].type().is_nested()]]
    place = ibis.row_number().over(ibis.window(group_by=["item_id", "time"], order_by=last))
    whole = whole.mutate(placings_place=place)
    kept = whole.filter(whole.placings_place == 0)
    counts = _count(source, table, kept)
    until = kept.time.lead().over(ibis.window(group_by="item_id", order_by="time"))
    fields = {f"snapshot_{number}": kept[name] for number, name in enumerate(names)}
    ever = ibis.literal(NEVER).cast("timestamp(6)")
    ready = kept.select(
        placings_item=kept.item_id, since=kept.time, until=ibis.coalesce(until, ever), **fields
    )
    return Snapshots(source, ready, tuple(names), dated, counts)


def _count(source: OpenedLog, table: Any, kept: Any) -> dict[str, int]:
    """How many were read, and how many of them could be used."""
    no_id = table.item_id.isnull()
    told = source.ask(
        table.aggregate(
            read=table.count(),
            no_id=count_where(no_id),
            no_time=count_where(~no_id & table.time.isnull()),
        )
    ).iloc[0]
    used = int(source.ask(kept.aggregate(n=kept.count()))["n"].iloc[0])
    read, no_id, no_time = (int(told[name]) for name in ("read", "no_id", "no_time"))
    return {
        "read": read + len(source.cut), "used": used, "no_id": no_id, "no_time": no_time,
        "replaced": read - used - no_id - no_time, "cut": len(source.cut),
    }  # fmt: skip


def join_snapshots(rows: Any, snapshots: Snapshots) -> Any:
    """The rows with the features of the latest snapshot at or before their time; null where there is none."""
    twice = [name for name in snapshots.names if name in rows.columns]
    if twice:
        raise BadFile(
            snapshots.source.name,
            f"column {twice[0]!r} is in the rows already, so it would be there twice. Rename or drop it.",
        )
    table = snapshots.table
    at = (rows.item_id == table.placings_item) & (table.since <= rows.time) & (rows.time < table.until)
    joined = rows.left_join(table, at)
    fields = {name: joined[f"snapshot_{number}"] for number, name in enumerate(snapshots.names)}
    return joined.select(*rows.columns, **fields)


def note_snapshots(report: JoinReport, snapshots: Snapshots, rows: Any) -> JoinReport:
    """The report with what became of the snapshots, and how many rows none of them says anything about."""
    nothing = reduce(and_, (rows[name].isnull() for name in snapshots.names))
    unknown = int(snapshots.source.ask(rows.aggregate(n=count_where(nothing)))["n"].iloc[0])
    times = dict(report.times)
    if not snapshots.dated:
        times["snapshots"] = "none, so they hold for every search, also for earlier ones"
    elif snapshots.source.times:
        times["snapshots"] = snapshots.source.times
    return replace(
        report,
        read={**report.read, "snapshots": snapshots.counts["read"]},
        snapshots={name: count for name, count in snapshots.counts.items() if name != "read"},
        times=times,
        cut=(*report.cut, *snapshots.source.cut),
        notes={**report.notes, "without_snapshot": unknown},
    )


def _open_in_order(snapshots: Table, backend: Any, reading: LogReading) -> OpenedLog:
    """The table with the file's name and the row's number in it where there is an order."""
    import pyarrow as pa

    ibis = need_ibis("joining snapshots")
    paths = as_paths(snapshots)
    if paths is not None and all(_is_parquet(path) for path in paths):
        table = _number_parquet(paths, backend)
        opened = open_log(snapshots if table is None else table, "snapshots", backend, reading=reading)
        return replace(opened, name=paths[0])
    if isinstance(snapshots, ibis.expr.types.Table):
        return open_log(snapshots, "snapshots", backend, reading=reading)
    cut: list[str] = []
    if paths is not None and all(is_json_lines(path) for path in paths):
        kinds = {reading.columns.get(name, name): kind for name, kind in {**ACTION, **FIELDS}.items()}
        names = JsonNames(time=reading.columns.get(TIME, TIME))
        table = read_json_lines(paths, kinds, {}, names=names, cut=None if reading.strict else cut)
    elif paths is None:
        table = as_arrow(snapshots)
    else:
        return open_log(snapshots, "snapshots", backend, reading=reading)
    numbered = table.append_column(ROW, pa.array(range(table.num_rows), pa.int64()))
    opened = open_log(numbered, "snapshots", backend, reading=reading)
    return replace(opened, name=paths[0] if paths else "the snapshots", cut=tuple(cut))


def _number_parquet(paths: list[str], backend: Any) -> Any:
    """Parquet files with their names and the numbers of their rows; None on a backend that knows neither."""
    files, _, folder = find_files(paths)
    for file in files:
        if not is_url(file):
            check_parquet(file)
    with told_as_ours(paths[0]):
        if backend.name == "duckdb":
            table = backend.read_parquet(quote_globs(files), filename=FILE, file_row_number=True)
            return cut_nanoseconds(table.rename({ROW: "file_row_number"}))
        if backend.name != "pyspark":
            return None
        frame = backend._session.read.parquet(*as_urls(paths if folder else files)).selectExpr(
            "*", f"_metadata.file_path AS {FILE}", f"_metadata.row_index AS {ROW}"
        )
        name = f"placings_{uuid4().hex}"
        frame.createOrReplaceTempView(name)
        return backend.table(name)


def _is_parquet(path: str) -> bool:
    return path.lower().endswith(PARQUET) or Path(path).is_dir()
