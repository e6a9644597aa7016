"""`placings would-have`: may a candidate go live, judged by a log of another order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placings.cli.loading import split_names
from placings.cli.options import AsJson, Digest
from placings.cli.printing import print_json, print_text

REFUSED = 3  # exit code of a gate that said no


def judge_candidate(
    model: Annotated[Path, typer.Option(help="The candidate: a saved re-ranker's folder.", metavar="DIR")],
    log: Annotated[
        Path, typer.Option(help="A log that it has not learned from: last week's rows.", metavar="LOG")
    ],
    propensity: Annotated[
        Path | None,
        typer.Option(
            help="How people look at each rank: what placings log propensity wrote (.json), or a JSON list "
            "of numbers from rank 1 on. Else the log's column propensity, if it has one.",
            metavar="CURVE",
        ),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="clicks@10, dcg@10, or mrr@10 for one wanted item.")
    ] = "clicks@10",
    estimator: Annotated[
        str,
        typer.Option(
            help="auto, item-position, position-based, ips, snips, clipped or doubly-robust (of whole lists)."
        ),
    ] = "auto",
    clip: Annotated[float | None, typer.Option(help="The largest weight; makes the estimate lower.")] = None,
    margin: Annotated[float, typer.Option(min=0.0, help="How much a candidate may lose.")] = 0.005,
    level: Annotated[float, typer.Option(help="Of intervals, and of the one-sided bound.")] = 0.95,
    by: Annotated[
        str | None,
        typer.Option(
            help="Kinds of searches that are judged one by one: length, location, match, or columns of the "
            "log, with commas. none judges all together. Else length,location.",
            metavar="NAMES",
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the power curve here, .png or .svg.", metavar="FILE")
    ] = None,
    digest: Digest = None,
    as_json: AsJson = False,
) -> None:
    """Say what a candidate would have earned on a log of another order, and whether it may go live.

    Exits with 0 if it is shown non-inferior, with 3 and a sentence if it is not. How much the log can say at
    all comes first: effective sample size, and the share of items that could not have been shown as the
    candidate wants them. The power table says which candidates would have passed.

    \b
    Examples:
      placings would-have --model next --log week.parquet
      placings would-have --model next --log week.parquet --propensity curve.json --metric dcg@10
      placings would-have --model next --log week.parquet --margin 0.01 --by platform --plot power.png --json
    """
    from placings.cli.checks import check_figure, check_inputs
    from placings.core import read_json
    from placings.logs import ClickLog
    from placings.rerank import load_reranker, would_have

    check_inputs(log, propensity)
    check_figure(plot, "--plot", (".png", ".svg"))
    curve = None if propensity is None else read_json(propensity)
    kinds = None if by is None else [] if by == "none" else split_names(by)
    candidate = load_reranker(model, digest=digest)
    with ClickLog.read(log) as rows:
        found = would_have(
            candidate, rows, metric=metric, propensity=curve, estimator=estimator, clip=clip, margin=margin,
            level=level, by=kinds,
        )  # fmt: skip
    if plot is not None:
        from placings.report import write_power

        write_power(found, plot)
    if as_json:
        print_json(found.to_json())
    else:
        print_text(f"{found.table()}\n\n{found.sentence}")
    if not found.passed:
        if as_json:
            print_text(found.sentence, err=True)
        raise typer.Exit(REFUSED)
