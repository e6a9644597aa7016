"""`placings coverage init` and `check`: limits made from reference data, and the gate that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from placings.cli.checks import check_output, check_page
from placings.cli.coverage_options import (
    Counting,
    Events,
    Features,
    NoData,
    find_watermark,
    name_table,
    parse_features,
    read_importances,
    takes_counting,
)
from placings.cli.options import AsJson, Html, Reference
from placings.cli.printing import print_json, print_text
from placings.core import escape_line

SAID_NO = 3  # exit code
SHOWN = 10  # reasons


@takes_counting()
def init_limits(
    *,
    events: Events,
    out: Annotated[Path, typer.Option("--out", "-o", help="The YAML file to write.")] = Path("limits.yaml"),
    margin: Annotated[
        float | None, typer.Option(min=0.0, max=0.99, help="So far below what is usual: 0.1 is 10 points.")
    ] = None,
    min_events: Annotated[
        int | None, typer.Option(min=1, help="Judge only with at least this many events; 50.")
    ] = None,
    features: Features = None,
    counting: Counting,
    reference: Reference = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a file of limits from a log of healthy days: how far each feature's coverage may fall.

    The file also keeps how coverage was counted, so that check needs no options. With --time (take four
    weeks) it knows how much days differ. With --reference importances are kept beside the limits.

    \b
    Examples:
      placings coverage init 'logs/*.parquet' --event search_id --time ts --by region -o limits.yaml
      placings coverage init events.parquet --event search_id --margin 0.05
      placings coverage init events.parquet --features top:20 --reference runs/first/model
    """
    from placings.core import BadFile
    from placings.feco import make_limits

    if out.exists() and not overwrite:
        raise BadFile(out, "is there already, perhaps edited. Name another with -o, or pass --overwrite.")
    check_output(out)
    given = counting.gather()
    chosen: dict[str, Any] = {"margin": margin, "min_events": min_events}
    made: dict[str, Any] = {"from": " ".join(events)}
    made |= {name: given[name] for name in ("since", "until") if name in given}
    limits = make_limits(
        name_table(events), parse_features(features), importances=read_importances(reference),
        watermark=find_watermark(counting.watermark) if counting.time is not None else None, made=made,
        bundle=reference,
        **{name: value for name, value in chosen.items() if value is not None}, **given,
    )  # fmt: skip
    limits.write(out)
    if as_json:
        from placings.core import write_json

        print_json(write_json(limits.to_dict()))
        return
    print_text(limits.table())
    print_text(f"written to {out}")


@takes_counting("ignore")
def check_events(
    *,
    events: Events,
    limits: Annotated[
        Path | None, typer.Option(help="Limits, as `placings coverage init` writes them.", metavar="FILE")
    ] = None,
    reference: Reference = None,
    margin: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.99, help="With --reference: so far below its coverage in training; 0.1."),
    ] = None,
    min_events: Annotated[
        int | None, typer.Option(min=1, help="Judge only with at least this many events.")
    ] = None,
    no_data: Annotated[
        NoData, typer.Option("--no-data", help="What a feature without data means.")
    ] = NoData.fail,
    counting: Counting,
    show_all: Annotated[
        bool, typer.Option("--all", help="Print every finding, not the reasons only.")
    ] = False,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Is any feature below its limit? Exit code 3 if so, 0 if not: for cron, CI, and before training.

    A feature fails when the whole interval of its coverage lies below its limit, with enough events, or when
    the log has no such column. Windows
    that end after the watermark are not judged. The limits are a file's, or a saved ranker's coverage in
    training (share of rows) less a margin.

    \b
    Examples:
      placings coverage check logs/2024-02-15.parquet --limits limits.yaml
      placings coverage check --reference runs/first/model events.parquet --event search_id
      placings coverage check 'logs/*.parquet' --limits limits.yaml --since 2024-02-01 --no-data warn --json
    """
    from placings.feco import check_coverage, take_limits

    if (limits is None) == (reference is None):
        raise typer.BadParameter("name one of --limits and --reference.")
    check_page(html)
    held = take_limits(limits if limits is not None else reference, margin=margin, min_events=min_events)
    timed = counting.time or held.counting.get("time")
    given: dict[str, Any] = counting.gather(time=timed)
    mark = find_watermark(counting.watermark) if timed else None
    verdict = check_coverage(name_table(events), held, no_data=no_data.value, watermark=mark, **given)
    if html is not None:
        _write_page(html, events, held, verdict, given, mark)
    if as_json:
        print_json(verdict.to_json())
    elif show_all:
        print_text(verdict.table(top=None))
    else:
        print_verdict(verdict)
    if not verdict.passed:
        raise typer.Exit(SAID_NO)


def print_verdict(verdict: Any, *, err: bool = False) -> None:
    """The summary, the reasons, what is low or silent though it passed, and the notes."""
    lines = [verdict.summary]
    lines += [f"  {reason}" for reason in verdict.reasons[:SHOWN]]
    more = len(verdict.reasons) - SHOWN
    lines += [f"  and {more} more; --all prints them"] if more > 0 else []
    told = {id(finding) for finding in verdict.failures}
    watched = [
        finding
        for finding in verdict.findings
        if finding.state in ("low", "no data") and id(finding) not in told and verdict.no_data != "ignore"
    ]
    lines += [f"  {finding.state}: {finding.reason}" for finding in watched[:5]]
    lines += verdict.notes
    print_text("\n".join(map(escape_line, lines)), err=err)


def _write_page(
    html: Path, events: list[str], held: Any, verdict: Any, given: dict[str, Any], mark: Any
) -> None:
    from placings.feco import coverage
    from placings.report import write_coverage_page

    counting = {"rule": held.rules, **held.counting, **given}
    if counting.get("time") is None:
        counting = {name: value for name, value in counting.items() if name not in ("window", "zone")}
    found = coverage(name_table(events), list(held.features), absent="dark", **counting)
    write_coverage_page(html, found, title="Coverage check", watermark=mark, verdict=verdict)
