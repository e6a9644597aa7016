"""`placings log propensity`: how often each rank is looked at, and what carries the number."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from placings.cli.options import AsJson
from placings.cli.printing import print_json, print_note, print_text


class PropensityMethod(StrEnum):
    """What tells how often a rank is looked at."""

    auto = "auto"
    swaps = "swaps"
    randomised = "randomised"
    adjacent = "adjacent"
    all_pairs = "all-pairs"
    trust = "trust"
    em = "em"
    two_tower = "two-tower"


def estimate_looks(
    rows: Annotated[
        Path, typer.Argument(help="Rows that `placings log join` wrote (parquet).", metavar="ROWS")
    ],
    method: Annotated[
        PropensityMethod,
        typer.Option(help="What tells looks from relevance; auto takes what the log carries."),
    ] = PropensityMethod.auto,
    depth: Annotated[
        int | None,
        typer.Option(min=2, help="The deepest rank; of randomised, how many were shuffled.", metavar="N"),
    ] = None,
    by: Annotated[
        str, typer.Option(help="Columns that say what was searched, with commas.", metavar="COLUMNS")
    ] = "query",
    features: Annotated[
        str | None,
        typer.Option(help="em and two-tower: numeric columns, with commas; else all.", metavar="COLUMNS"),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the curve here (.json).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve here (.png or .svg).")] = None,
    add_to: Annotated[
        Path | None,
        typer.Option(help="Write the rows with a column propensity here (.parquet).", metavar="NEW_ROWS"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the draws behind trust's intervals.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Estimate how often each rank is looked at, relative to rank 1, from the clicks of a log.

    The first line says what carries the numbers: randomisation, a position model, or features only. A log
    of one fixed order is refused, with what to log instead. The last line says whether the clicks
    contradict a position model.

    \b
    Examples:
      placings log propensity rows.parquet
      placings log propensity rows.parquet --method randomised --depth 10 --plot curve.png
      placings log propensity rows.parquet --out curve.json --add-to rows_with.parquet
      placings log propensity rows.parquet --method em --features price,rating --json
    """
    from placings.cli.checks import check_figure, check_inputs, check_output
    from placings.cli.loading import split_names
    from placings.core import BadInput, write_text
    from placings.logs import ClickLog, estimate_propensity

    _check_options(method, depth, features)
    named = split_names(by)
    if not named:
        raise BadInput(f"--by must name at least one column. Got {by!r}.")
    if out is not None:
        check_output(out, "--out", (".json",))
    check_figure(plot, "--plot", (".png", ".svg"))
    if add_to is not None:
        check_output(add_to, "--add-to", (".parquet",))
    check_inputs(rows)
    with ClickLog.read(rows) as log:
        curve = estimate_propensity(
            log, method.value, depth=depth, by=named,
            features=None if features is None else split_names(features), random_state=seed,
        )  # fmt: skip
        if out is not None:
            write_text(out, curve.to_json() + "\n")
        if plot is not None:
            from placings.report import write_propensity_figure

            write_propensity_figure(plot, curve)
        if add_to is not None:
            curve.add_to(log).write(add_to)
    if as_json:
        print_json(curve.to_json())
    else:
        print_text(str(curve))
    for path in (out, plot, add_to):
        if path is not None:
            print_note(f"{path} is written")


def _check_options(method: PropensityMethod, depth: int | None, features: str | None) -> None:
    from placings.core import BadInput

    if method == PropensityMethod.randomised and depth is None:
        raise BadInput(
            "--method randomised needs --depth: how many items at the top were shuffled. Got none."
        )
    if features is not None and method not in (PropensityMethod.em, PropensityMethod.two_tower):
        raise BadInput(f"--features is for --method em and two-tower. Got --method {method.value}.")
