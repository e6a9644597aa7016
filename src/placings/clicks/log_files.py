"""Generated logs as files: searches, actions and truth as parquet or JSONL, and as the rows they join to."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from placings.data.streams import write_atomically
from placings.data.tables import need_library
from placings.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Form = Literal["parquet", "jsonl", "jsonl.gz"]
FORMS = ("parquet", "jsonl", "jsonl.gz")
GRADES = {"click": 1.0, "cart": 2.0, "purchase": 3.0}
FIRST = (
    "search_id",
    "session_id",
    "time",
    "query",
    "focus_lat",
    "focus_lon",
    "target",
    "platform",
    "surface",
)


def write_log_tables(
    tables: Mapping[str, pa.Table], folder: str | PathLike[str], form: Form = "parquet"
) -> list[Path]:
    """Write each table as `folder/name.form`, and say which files; the folder is made if it is not there.

    In JSONL, times are ISO text that ends in Z, and what is missing or NaN is null.
    """
    if form not in FORMS:
        raise BadInput(f"form must be one of {', '.join(FORMS)}. Got {form!r}.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, table in tables.items():
        path = folder / f"{name}.{form}"
        with write_atomically(path) as temporary:
            _write_table(table, temporary, form)
        written.append(path)
    return written


def _write_table(table: pa.Table, path: Path, form: str) -> None:
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
        return
    import gzip

    with open(path, "wb") as raw:
        if form == "jsonl":
            raw.writelines(_write_lines(table))
        else:  # without a name and a time in its head: the same log, the same bytes
            with gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
                packed.writelines(_write_lines(table))


def _write_lines(table: pa.Table) -> Iterator[bytes]:
    for batch in table.to_batches(max_chunksize=1000):
        for row in batch.to_pylist():
            yield json.dumps(_plain(row), ensure_ascii=False, allow_nan=False).encode() + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return f"{value.isoformat()}Z"
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def nest_results(sizes: Any, columns: Mapping[str, pa.Array]) -> pa.Array:
    """The column `results`: a list of objects for each search, of `sizes` `[searches]` items, in order."""
    import pyarrow as pa

    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))
    return pa.ListArray.from_arrays(
        offsets, pa.StructArray.from_arrays(list(columns.values()), list(columns))
    )


def flatten_log(
    searches: pa.Table,
    actions: pa.Table,
    *,
    unsuccessful: Literal["report", "negatives"] = "report",
    grades: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """The rows table of a clean log: one row for each item shown, with its grade in `label`.

    The highest grade of an item's actions counts. A log with late, doubled or orphaned events wants
    `placings.clicks.sessions.join_logs`, which counts them. `unsuccessful="report"` leaves out searches
    without an action, `"negatives"` keeps them and says so in the column `successful`.
    """
    need_library("pandas", "a log's rows as a pandas frame")
    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    if unsuccessful not in ("report", "negatives"):
        raise BadInput(f'unsuccessful must be "report" or "negatives". Got {unsuccessful!r}.')
    results = searches["results"].combine_chunks()
    parents = pc.list_parent_indices(results)
    of_search = searches.drop_columns(["results"]).take(parents)
    items = pa.Table.from_struct_array(pc.list_flatten(results))
    rows: pd.DataFrame = pd.concat([of_search.to_pandas(), items.to_pandas()], axis=1)
    worth = pd.Series(dict(GRADES if grades is None else grades), dtype="float64")
    acted = actions.select(["search_id", "item_id", "action"]).to_pandas()
    acted = acted.assign(label=acted["action"].map(worth)).dropna(subset=["label"])
    best = acted.groupby(["search_id", "item_id"], sort=False)["label"].max().reset_index()
    rows = rows.merge(best, on=["search_id", "item_id"], how="left")
    rows["label"] = rows["label"].fillna(0.0).astype("float64")
    rows["time"] = rows["time"].astype("datetime64[us]")
    found = rows.groupby("search_id")["label"].transform("max") > 0
    if unsuccessful == "report":
        rows = rows[found]
    else:
        rows["successful"] = found
    rows = rows.sort_values(["time", "search_id", "position"], kind="stable", ignore_index=True)
    last = [name for name in ("label", "successful") if name in rows]
    between = [name for name in rows if name not in (*FIRST, *last)]
    return rows[[*(name for name in FIRST if name in rows), *between, *last]]
