"""`placings predict`: scores and ranks for files, with the ids that came in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from placings.cli.options import AsJson, ColumnOptions, Digest, FoldNumber, Split, takes
from placings.cli.printing import print_json, print_rows, print_text


@takes(ColumnOptions, "columns")
def predict_files(
    model: Annotated[Path, typer.Argument(help="A bundle, or a run's folder, as `placings fit` saved it.")],
    data: Annotated[list[Path], typer.Argument(help="The rows to score: a file, several, or a glob.")],
    *,
    out: Annotated[
        Path | None, typer.Option(help="A .csv or .parquet file; stdout as CSV if not given.")
    ] = None,
    digest: Digest = None,
    fold: FoldNumber = None,
    split: Split = None,
    columns: ColumnOptions,
    top: Annotated[
        int | None, typer.Option(min=1, help="Only the first N of each query, best first.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score rows: one line a row with its query, item, score and rank in the query.

    \b
    Examples:
      placings predict runs/first test.txt --out scores.parquet
      placings predict runs/first/model test.txt --top 10 > first_page.csv
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv

    from placings.cli.checks import check_inputs, check_output
    from placings.cli.loading import gather_files, read_data
    from placings.core import write_atomically
    from placings.data import write_sealed
    from placings.metrics import top_rows
    from placings.rankers import load_ranker

    if out is not None:
        check_output(out, endings=(".csv", ".parquet"))
    ranker = load_ranker(model, digest=digest)
    files = gather_files(data)
    check_inputs(files)
    reading: dict[str, Any] = {"fold": fold, "split": split, **vars(columns)}
    rows = read_data(files, models=[ranker], **reading)
    scores = ranker.predict(rows)
    order, borders = top_rows(scores, rows.offsets)
    rank = np.empty(rows.n_rows, dtype=np.int64)
    rank[order] = np.arange(rows.n_rows) - np.repeat(borders[:-1], rows.sizes) + 1
    items = (
        np.arange(rows.n_rows) - np.repeat(rows.offsets[:-1], rows.sizes) + 1
        if rows.items is None
        else rows.items
    )
    table_columns = {
        "qid": rows.qid,
        "item" if rows.items is not None else "row": items,
        "score": scores,
        "rank": rank,
    }
    if top is not None:
        kept = order[rank[order] <= top]
        table_columns = {name: values[kept] for name, values in table_columns.items()}
    table = pa.table(table_columns)
    if out is None and as_json:
        from placings.core import write_json

        print_json(write_json({"scores": table.to_pylist()}))
        return
    if out is None:
        sink = pa.BufferOutputStream()
        pa.csv.write_csv(table, sink)
        print_rows(sink.getvalue().to_pybytes().decode())
        return
    with write_atomically(out) as temporary:
        if out.suffix.lower() == ".csv":
            pa.csv.write_csv(table, str(temporary))
        else:
            write_sealed(table, temporary)
    if as_json:
        print_json({"out": str(out), "rows": table.num_rows}, indent=1)
        return
    print_text(f"{table.num_rows:,} scores in {out}")
