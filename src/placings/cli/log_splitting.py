"""`placings log split`: the rows of a log in two files, to learn from one and be judged by the other."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from placings.cli.options import AsJson
from placings.cli.printing import print_json, print_text


class Dealt(StrEnum):
    """What is dealt out."""

    time = "time"
    session = "session"
    user = "user"
    search = "search"


def split_log(
    rows: Annotated[Path, typer.Argument(help="Rows that `placings log join` wrote.", metavar="ROWS")],
    first: Annotated[Path, typer.Argument(help="The part to learn from, .parquet.", metavar="FIRST")],
    second: Annotated[Path, typer.Argument(help="The part to be judged by, .parquet.", metavar="SECOND")],
    share: Annotated[
        float, typer.Option(min=0.01, max=0.99, help="How much goes into the second part.")
    ] = 0.2,
    by: Annotated[
        Dealt,
        typer.Option(help="time: the last sessions go into the second part; the others at random."),
    ] = Dealt.time,
    seed: Annotated[int, typer.Option(min=0, help="Of a split at random.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Split the rows of a log: the past to learn from, the last part to be judged by.

    A session, a user or a search is never cut. Without session_id single searches are dealt out.

    \b
    Examples:
      placings log split rows.parquet past.parquet future.parquet
      placings log split rows.parquet train.parquet test.parquet --by user --share 0.3 --seed 1
    """
    from placings.cli.checks import check_inputs, check_output
    from placings.core import BadInput
    from placings.logs import ClickLog

    for path, name in ((first, "FIRST"), (second, "SECOND")):
        check_output(path, name, (".parquet",))
    if len({path.resolve() for path in (rows, first, second)}) < 3:
        raise BadInput(f"ROWS, FIRST and SECOND must be three files. Got {rows}, {first}, {second}.")
    check_inputs(rows)
    told: list[dict[str, Any]] = []
    with ClickLog.read(rows, count_positions=False) as log:
        for path, part in zip(
            (first, second), log.split(1 - share, share, by=by.value, random_state=seed), strict=True
        ):
            part.write(path)
            times = part.rows["time"] if "time" in part.columns else None
            span = [] if times is None else [str(times.min()), str(times.max())]
            told.append({"path": str(path), "searches": part.n_searches, "rows": len(part), "span": span})
    if as_json:
        print_json({"parts": told})
        return
    for each in told:
        span = [text[:16] for text in each["span"]]
        when = f", {span[0]} to {span[1]}" if span else ""
        print_text(f"{each['path']}: {each['searches']:,} searches, {each['rows']:,} rows{when}")
