"""Generated logs as files: searches, actions and truth as parquet or JSONL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from placings.core import BadInput, write_atomically
from placings.data import write_sealed

if TYPE_CHECKING:
    import pyarrow as pa

Form = Literal["parquet", "jsonl", "jsonl.gz"]
FORMS = ("parquet", "jsonl", "jsonl.gz")


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
        write_sealed(table, path)
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
