"""`placings coverage`: in which share of the searches each feature has a value, and what its loss costs."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.checks import check_average, check_inputs, check_metrics, check_page
from placings.cli.coverage_checks import check_events, init_limits
from placings.cli.coverage_costs import degrade_model, estimate_cost
from placings.cli.coverage_history import find_incidents, update_trend
from placings.cli.coverage_options import (
    BackendName,
    Counting,
    Events,
    Features,
    Ignore,
    Position,
    Rule,
    Within,
    Zone,
    bound_watermark,
    name_table,
    parse_features,
    parse_within_text,
    read_importances,
    takes_counting,
)
from placings.cli.flags import PlainFlags
from placings.cli.options import AsJson, Html, Reference, RiskMetric, Seed
from placings.cli.printing import print_json, print_text

if TYPE_CHECKING:
    from placings.feco import Coverage


class LineOrder(StrEnum):
    """Which line comes first."""

    dark = "dark"
    order = "order"


app = typer.Typer(
    cls=PlainFlags,
    help="Feature coverage: which features have values, since when not, and what it costs.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


@app.command("show")
@takes_counting()
def show_coverage(
    *,
    events: Events,
    features: Features = None,
    counting: Counting,
    reference: Reference = None,
    labelled: Annotated[
        Path | None,
        typer.Option(
            help="Labelled data for coverage at risk on the page, with --reference.", metavar="DATA"
        ),
    ] = None,
    metric: RiskMetric = "ndcg@10",
    first_seen: Annotated[
        str | None,
        typer.Option(help="Column of an item's first day: cold start on the page.", metavar="COLUMN"),
    ] = None,
    launch_of: Annotated[
        str | None,
        typer.Option(help="Column whose new values are launches, such as region.", metavar="COLUMN"),
    ] = None,
    average: Annotated[
        str | None, typer.Option(help="Length of the page's moving average: 7d, or seven windows.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, help="Show at most this many lines.", metavar="N")] = 40,
    sort: Annotated[
        LineOrder, typer.Option(help="The dark features first, or the order of the columns.")
    ] = LineOrder.dark,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Show the coverage of each feature, with bars, and sparklines over windows of time.

    The dark ones come first: what fell lately, lies below its other segments, or has no value at all.
    With --html the same becomes a page: trends, incidents, biggest movers, a heat map of segments and, where
    the columns are named, cold start and coverage at risk.

    \b
    Examples:
      placings coverage show events.parquet --event search_id --time ts
      placings coverage show 'logs/*.parquet' --event search_id --time ts --by region --html coverage.html
      placings coverage show events.parquet --features top:20 --reference runs/first/model --rule positive
      placings coverage show s3://logs/05-01/ --backend spark --sample 8x10x200000 --event search_id --time ts
    """
    from placings.feco import coverage

    given = counting.gather()
    if labelled is not None and reference is None:
        raise typer.BadParameter("--labelled needs --reference with the model whose ranking is at risk.")
    if html is not None and (first_seen or launch_of) and counting.time is None:
        raise typer.BadParameter("--first-seen and --launch-of need --time with the column that says when.")
    check_page(html)
    check_metrics([metric], "--metric")
    check_average(average)
    check_inputs(labelled)
    table = name_table(events)
    found = coverage(table, parse_features(features), bundle=reference, **given)
    if html is not None:
        cold = {"first_seen": first_seen, "launch_of": launch_of}
        risk = {"labelled": labelled, "metric": metric, "seed": counting.seed}
        mark = bound_watermark(found, counting.watermark)
        write_page_of(html, found, table, given, mark, reference, average, cold, risk)
    if as_json:
        print_json(found.to_json())
        return
    print_text(found.table(top=top, sort=sort.value))
    if html is not None:
        print_text(f"open {html}")


def write_page_of(
    html: Path,
    found: Coverage,
    table: Any,
    counting: dict[str, Any],
    watermark: Any,
    reference: Path | None,
    average: str | None,
    cold: dict[str, str | None],
    risk: dict[str, Any],
) -> None:
    """The page of a log that was just counted, with all parts for which columns and models were named."""
    from placings.cli.coverage_costs import estimate_today
    from placings.feco import compare_ages, find_alerts, trace_launch
    from placings.report import write_coverage_page

    importances = read_importances(reference)
    names = list(found.features)
    parts: dict[str, Any] = {"importances": importances, "average": average}
    if found.window is not None and len(found.frame):
        named = importances if importances and set(names) & set(importances) else None
        parts["alerts"] = find_alerts(found, importances=named, watermark=watermark)
    over = {"event", "within", "rule", "position", "zone", "since", "until", "sample"}
    shared = {name: value for name, value in counting.items() if name in over}
    plain = {
        name: value for name, value in shared.items() if name not in ("zone", "since", "until", "sample")
    }
    if cold["first_seen"]:
        seen = cold["first_seen"]
        parts["ages"] = compare_ages(table, names, time=counting["time"], first_seen=seen, **shared)
        parts["launches"] = trace_launch(table, names, time=counting["time"], launched=seen, **plain)
    if cold["launch_of"]:
        parts["places"] = trace_launch(table, names, time=counting["time"], of=cold["launch_of"], **plain)
        parts["places_of"] = cold["launch_of"]
    if risk["labelled"] is not None:
        alerts = parts.get("alerts")
        parts["risk"] = estimate_today(
            reference, risk["labelled"], found, watermark=watermark, alerts=alerts, metric=risk["metric"],
            seed=risk["seed"],
        )  # fmt: skip
    write_coverage_page(html, found, watermark=watermark, **parts)


@app.command("plan")
def plan_sample(
    events: Events,
    time: Annotated[str, typer.Option(help="Column of the time.")],
    event: Annotated[str, typer.Option(help="Column of the search id.")],
    features: Features = None,
    windows: Annotated[str | None, typer.Option(help="Windows a day to try, with commas; 4,8,24.")] = None,
    minutes: Annotated[int, typer.Option(min=1, help="Length of a window in minutes.")] = 10,
    per_window: Annotated[
        str | None, typer.Option(help="Events a window to try, with commas; 100 to 200000.")
    ] = None,
    how: Annotated[str, typer.Option(help="systematic, random or stratified.")] = "systematic",
    strata: Annotated[list[str] | None, typer.Option(help="Columns of the strata; hours if none.")] = None,
    draws: Annotated[int, typer.Option(min=1, help="Draw each plan so often.")] = 5,
    day: Annotated[str | None, typer.Option(help="The day to try on; the one with the most events.")] = None,
    zone: Zone = None,
    within: Within = None,
    rule: Rule = None,
    position: Position = None,
    ignore: Ignore = None,
    backend: BackendName = None,
    reference: Reference = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """How large a sample must be: the error of sampling plans on one day of your own log.

    \b
    Examples:
      placings coverage plan events.parquet --time ts --event search_id
      placings coverage plan events.parquet --time ts --event search_id --windows 8,24 --per-window 1000,10000
      placings coverage plan events.parquet --time ts --event search_id --how stratified --strata region
    """
    from placings.cli.coverage_options import parse_rule, split_all
    from placings.feco import PER_WINDOW, WINDOWS, SamplingPlan, plan_errors

    plans = None
    if windows or per_window or minutes != 10 or how != "systematic" or strata or seed:
        counts = _list_numbers(windows, "--windows") or list(WINDOWS)
        sizes = _list_numbers(per_window, "--per-window") or list(PER_WINDOW)
        if how != "systematic":
            counts = counts[:1]
        layers = tuple(split_all(strata) or ())
        plans = [
            SamplingPlan(n, minutes, size, how=how, seed=seed, strata=layers)
            for n in counts
            for size in sizes
        ]
    given: dict[str, Any] = {"rule": None if rule is None else parse_rule(rule), "position": position}
    given |= {"within": None if within is None else parse_within_text(within), "ignore": split_all(ignore)}
    given |= {"backend": backend, "zone": zone, "day": day}
    found = plan_errors(
        name_table(events), parse_features(features), time=time, event=event, plans=plans, draws=draws,
        bundle=reference, **{name: value for name, value in given.items() if value is not None},
    )  # fmt: skip
    print_json(found.to_json()) if as_json else print_text(found.table())


@app.command("runbook")
def show_runbook(
    entry: Annotated[
        str | None,
        typer.Argument(help="severe-drop, mild-drop, no-data, mix-shift or overall-drop; all by default."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What an alert means and what to do about it, step by step.

    \b
    Examples:
      placings coverage runbook severe-drop
      placings coverage runbook
    """
    from placings.core import find_width
    from placings.feco import ENTRIES, find_entry

    chosen = dict(ENTRIES) if entry is None else {entry: find_entry(entry)}
    if as_json:
        from dataclasses import asdict

        print_json({"entries": {name: asdict(each) for name, each in chosen.items()}}, indent=1)
        return
    width = min(100, find_width() or 100)
    print_text("\n\n".join(each.to_text(width) for each in chosen.values()))


def _list_numbers(text: str | None, option: str) -> list[int]:
    parts = [] if text is None else [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(f"{option} takes whole numbers with commas, such as 8,24. Got {text!r}.")
    return [int(part) for part in parts]


app.command("init")(init_limits)
app.command("check")(check_events)
app.command("trend")(update_trend)
app.command("alerts")(find_incidents)
app.command("degrade")(degrade_model)
app.command("risk")(estimate_cost)
