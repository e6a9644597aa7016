"""One table with a row for each item shown and a column `clicked`: a click log without a join."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from placings.core import BadFile, UnknownName, check_file, need_library
from placings.data import check_parquet, find_delimiter, is_csv, read_csv_table
from placings.logs.click_log import ClickLog
from placings.logs.column_names import Columns, check_columns, refuse_unused
from placings.logs.epochs import check_unit
from placings.logs.json_lines import JsonNames, is_json_lines, read_json_lines
from placings.logs.schema import (
    CLICKED,
    FIELDS,
    ITEM_ID,
    LABEL,
    NAMED_IN_ROWS,
    POSITION,
    ROWS,
    SEARCH_ID,
)
from placings.logs.tally import Tally

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PLACE = "placings_place"  # the row's number in the file, from 1


def read_flat(
    path: str | PathLike[str],
    columns: Columns | None,
    time_unit: str | None,
    strict: bool,
    tally: Tally,
) -> pd.DataFrame:
    """The rows of a flat table under our names, each with a label; what cannot be used is counted.

    Without a position the rows of a search stand in the order of the file. Of an item that is there twice
    in a search the row that stands higher stays, with the higher label.
    """
    named = check_columns(columns, NAMED_IN_ROWS)
    check_unit(time_unit)
    cut: list[str] = []
    table = _read_table(Path(path), named, None if strict else cut)
    refuse_unused(named, table.column_names, str(path), table.column_names)
    frame: pd.DataFrame = table.to_pandas()
    there = {*frame.columns, *named} - set(named.values())
    for name in (SEARCH_ID, ITEM_ID):
        if name not in there:
            raise UnknownName(
                f"column of {path}", name, map(str, frame.columns), meaning=f"name yours: --map {name}=…"
            )
    if LABEL not in there and CLICKED not in there:
        raise BadFile(
            path,
            f"has neither a column {CLICKED!r} nor {LABEL!r}. It has: {', '.join(map(str, frame.columns))}. "
            "Name yours: --map clicked=…, or join searches and actions with placings log join.",
        )
    tally.count("rows", len(frame) + len(cut))
    for place in cut:
        tally.refuse("the last line of the file ends early", place)
    counted = POSITION not in there
    if counted:
        tally.count("rows without a position, placed by the order of the file", len(frame))
    marked = frame.assign(**{PLACE: np.arange(1, len(frame) + 1)})
    rows = ClickLog(marked, count_positions=False, columns=named, time_unit=time_unit).rows
    return _keep_whole(rows.sort_values(PLACE, kind="stable"), counted, str(path), tally)


def _keep_whole(rows: pd.DataFrame, counted: bool, path: str, tally: Tally) -> pd.DataFrame:
    """The rows with both ids, each item once in a search, in order."""
    for name in (SEARCH_ID, ITEM_ID):
        empty = rows[name].isna() | (rows[name].astype(str).str.strip() == "")
        for place in rows.loc[empty, PLACE].tolist():
            tally.refuse(f"a row without {name}", f"{path}, row {place}")
        rows = rows[~empty]
    if counted:
        rows = rows.assign(**{POSITION: rows.groupby(SEARCH_ID, sort=False).cumcount() + 1})
    best = rows.groupby([SEARCH_ID, ITEM_ID], sort=False)[LABEL].transform("max")
    rows = rows.assign(**{LABEL: best}).sort_values([SEARCH_ID, POSITION, PLACE], kind="stable")
    twice = rows.duplicated([SEARCH_ID, ITEM_ID])
    for place in sorted(rows.loc[twice, PLACE].tolist()):
        tally.refuse("an item that stands higher in the same search", f"{path}, row {place}")
    kept = rows[~twice]
    if kept.empty:
        raise BadFile(path, f"holds no row that can be used.\n{tally}")
    tally.count("used", len(kept))
    tally.count("searches", int(kept[SEARCH_ID].nunique()))
    tally.count("rows with a click", int((kept[LABEL] > 0).sum()))
    return ClickLog(kept.drop(columns=PLACE)).rows


def _read_table(path: Path, named: Columns, cut: list[str] | None) -> pa.Table:
    check_file(path)
    if is_json_lines(str(path)):
        kinds = {name: kind for name, kind in {**ROWS, **FIELDS}.items() if kind != "flag"}
        theirs = {named.get(name, name): kind for name, kind in kinds.items()}
        return read_json_lines([str(path)], theirs, {}, names=JsonNames.of(named), cut=cut)
    if is_csv(str(path)):
        ids = [named.get(name, name) for name, kind in ROWS.items() if kind in ("id", "text")]
        read = read_csv_table(path, find_delimiter(path), ids=ids)
        return read.with_ids([name for name in ids if name in read.written])
    import pyarrow as pa
    import pyarrow.parquet as pq

    need_library("pandas", "a flat table")
    try:
        check_parquet(path)
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise BadFile(
            path, f"is no parquet file: {error}. A flat table is .parquet, .csv or .jsonl."
        ) from error
