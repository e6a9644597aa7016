"""`placings log explore`: a look at a joined log, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from placings.cli.options import AsJson
from placings.cli.printing import print_json, print_text

if TYPE_CHECKING:
    import pandas as pd


def explore_log(
    rows: Annotated[
        Path, typer.Argument(help="Rows that `placings log join` wrote (parquet).", metavar="ROWS")
    ],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("log.html"),
    unsuccessful: Annotated[
        Path | None, typer.Option(help="Searches without a click, where the rows leave them out (parquet).")
    ] = None,
    zone: Annotated[str, typer.Option(help="Hours and weeks by the clocks of this time zone.")] = "UTC",
    types: Annotated[
        str, typer.Option("--type", help="Column with the items' types: a shop's category.", metavar="COLUMN")
    ] = "type",
    title: Annotated[str, typer.Option(help="The page's heading.")] = "What the log says",
    simulated: Annotated[
        bool | None,
        typer.Option(
            "--simulated/--real", help="Say SIMULATED over every table; unless said, is_target tells."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look at a log: where people click, by type, query length, distance, week, hour, and who fails.

    One HTML file without scripts, which loads nothing from elsewhere. A panel whose columns are missing
    says so.

    \b
    Examples:
      placings log explore rows.parquet --out log.html
      placings log explore shop.parquet --type category --out shop.html
      placings log explore rows.parquet --unsuccessful failed.parquet --zone Europe/Berlin --out log.html
    """
    from placings.cli.checks import check_inputs, check_page
    from placings.core import BadInput, find_zone
    from placings.logs import ClickLog

    check_page(out, "--out")
    if find_zone(zone) is None:
        raise BadInput(f"--zone must be a time zone's name such as Europe/Berlin. Got {zone!r}.")
    check_inputs(rows, unsuccessful)
    lost = None if unsuccessful is None else read_log_table(unsuccessful)
    with ClickLog.read(rows, count_positions=False) as log:
        written = log.explore(
            out, unsuccessful=lost, title=title, zone=zone, types=types, simulated=simulated
        )
        searches = log.n_searches
    if as_json:
        print_json({"page": str(written), "searches": searches}, indent=1)
        return
    print_text(f"open {written}")


def read_log_table(path: Path) -> pd.DataFrame:
    """The columns of a parquet file of searches that the explorer looks at."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from placings.core import BadFile, check_file
    from placings.data import check_parquet
    from placings.logs import USED

    check_file(path)
    try:
        check_parquet(path)
        there = pq.read_schema(path).names
        table = pq.read_table(path, columns=[name for name in USED if name in there])
    except (pa.ArrowException, OSError) as error:
        raise BadFile(path, f"is not a parquet file: {error}. `placings log join` writes one.") from error
    frame: pd.DataFrame = table.to_pandas()
    return frame
