"""`placings coverage trend` and `alerts`: coverage kept day by day, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placings.cli.checks import check_average, check_folder, check_page
from placings.cli.coverage_checks import SAID_NO
from placings.cli.coverage_options import (
    Counting,
    Features,
    bound_watermark,
    find_watermark,
    name_table,
    parse_features,
    read_importances,
    takes_counting,
)
from placings.cli.options import AsJson, Html, Reference
from placings.cli.printing import print_json, print_note, print_text, say_when_stopped

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from placings.feco import Alerts, Coverage, StoreHistory, Trend

Store = Annotated[Path, typer.Option(help="Folder of the store; made if it is not there.", metavar="FOLDER")]


@takes_counting()
def update_trend(
    *,
    events: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EVENTS]…", help="The log; without it the store is shown as it is."),
    ] = None,
    store: Store = Path("coverage"),
    late: Annotated[
        str, typer.Option(help="Events arrive up to so late: younger days are computed again.")
    ] = "7d",
    average: Annotated[
        str | None, typer.Option(help="Length of the moving average: 7d, or 7 windows.")
    ] = None,
    segments: Annotated[bool, typer.Option("--segments", help="Show each segment, not only all.")] = False,
    features: Features = None,
    counting: Counting,
    reference: Reference = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Keep coverage day by day in a folder, and show it with its moving average.

    Days that are new, or young enough for late events, are computed; the others stay. Running it twice
    changes nothing, a run that was stopped goes on, and --since computes days again for a backfill. The
    folder remembers how it counts: the same command every night is enough.

    \b
    Examples:
      placings coverage trend 'logs/*.parquet' --store coverage/ --event search_id --time ts --by region
      placings coverage trend 'logs/*.parquet' --event search_id --time ts --by region --since 2024-02-01
      placings coverage trend --store coverage/ --html coverage.html
    """
    from placings.feco import measure_trend, open_history, update_history
    from placings.report import multiply_window

    check_page(html)
    check_average(average)
    mark = find_watermark(counting.watermark)
    done = None
    if events:
        if counting.time is None:
            raise typer.BadParameter("--time must name the column that says when.")
        check_folder(store, "--store")
        given = counting.gather()
        chosen = parse_features(features)
        if reference is not None:
            given["bundle"] = reference
        with say_when_stopped(f"the finished days are in {store}; the same command goes on."):
            done = update_history(
                store, name_table(events), chosen, watermark=mark, late=late, on_day=_make_progress(), **given
            )
    history = open_history(store)
    found = read_coverage(history, unfinished=True)
    trend = measure_trend(
        found if segments else pool_coverage(found), average=average or multiply_window(str(found.window), 7),
        watermark=mark, step=found.window, since=None if events else counting.since,
        until=None if events else counting.until,
    )  # fmt: skip
    if html is not None:
        write_history_page(html, found, bound_watermark(found, counting.watermark), average, reference)
    if as_json:
        from placings.core import write_json

        frame = trend.frame.assign(window=trend.frame["window"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
        facts = {"update": None if done is None else done.to_dict(), "notes": list(trend.notes)}
        print_json(write_json({**facts, "rows": frame.to_dict("records")}))
        return
    print_text(draw_trend(trend, str(found.window)))
    if done is not None:
        print_text(
            f"{len(done.computed)} days computed, {done.skipped} left as they were; {done.written:,} rows "
            f"written, {done.replaced:,} of them replaced; {done.removed:,} removed, {done.kept:,} kept from "
            "a later run"
        )
        for note in done.notes:
            print_note(note)
    if html is not None:
        print_text(f"open {html}")


@takes_counting()
def find_incidents(
    *,
    source: Annotated[
        list[str],
        typer.Argument(metavar="STORE|EVENTS…", help="A store's folder, or the log itself with --time."),
    ],
    fail: Annotated[
        bool, typer.Option("--fail", help="Exit with 3 if a severe incident is still on.")
    ] = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the alerts, such as severe_drop=0.3.")
    ] = None,
    features: Features = None,
    counting: Counting,
    since: Annotated[
        str | None, typer.Option(help="Report windows from this time on; earlier ones make the baseline.")
    ] = None,
    reference: Reference = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Which features lost coverage, where, since when: incidents, each with what to do about it.

    Windows are judged against the same weekday of the weeks before, so give at least three weeks. With
    --reference a model's importances set the severity.

    \b
    Examples:
      placings coverage alerts coverage/ --reference runs/first/model --fail
      placings coverage alerts 'logs/*.parquet' --event search_id --time ts --by region --since 2024-02-01
      placings coverage alerts coverage/ --set min_drop=0.05 --set severe_drop=0.3 --json
    """
    from placings.cli.loading import parse_settings
    from placings.core import UnknownName
    from placings.feco import FILE, AlertSettings, coverage, find_alerts, open_history

    given = parse_settings(settings or [])
    for name in given:
        if name not in AlertSettings.__dataclass_fields__:
            raise UnknownName("setting of the alerts", name, AlertSettings.__dataclass_fields__)
    check_page(html)
    wanted = AlertSettings(**given)
    if len(source) == 1 and (Path(source[0]) / FILE).is_file():
        found = read_coverage(open_history(source[0]), until=counting.until)
    else:
        if counting.time is None:
            raise typer.BadParameter("--time must name the column that says when, or name a store's folder.")
        said = counting.gather()
        found = coverage(name_table(source), parse_features(features), bundle=reference, **said)
    mark = bound_watermark(found, counting.watermark)
    weights = read_importances(reference)
    alerts = find_alerts(
        found, importances=weights, settings=wanted, watermark=mark,
        since=since, step=found.window,
    )  # fmt: skip
    if html is not None:
        from placings.report import write_coverage_page

        write_coverage_page(
            html, found, title="Coverage alerts", watermark=mark, alerts=alerts, importances=weights
        )
    if as_json:
        from placings.core import write_json

        print_json(write_json(alerts.to_dict()))
    else:
        print_text(alerts.table())
    if fail and any(one.state == "severe" and one.ongoing for one in alerts.incidents):
        raise typer.Exit(SAID_NO)


# -- the store as coverage ----------------------------------------------------------------------------------


def read_coverage(history: StoreHistory, **chosen: Any) -> Coverage:
    """What a store holds, as `coverage` gives it."""
    from placings.core import BadInput
    from placings.feco import Coverage, find_rules

    frame = history.read(**{name: value for name, value in chosen.items() if value is not None})
    if not len(frame):
        raise BadInput(f"the store {history.path} has no finished window for this. Update it, or wait.")
    names = tuple(str(name) for name in dict.fromkeys(frame["feature"]))
    counted = history.counting
    kept = history.store.list_kept()
    return Coverage(
        frame, names, {}, find_rules(counted["rule"], names), by=tuple(counted["by"]),
        unit=str(kept["unit"].iloc[0]), window=counted["window"], zone=counted["zone"] or "UTC",
        engine="store",
    )  # fmt: skip


def pool_coverage(found: Coverage) -> pd.DataFrame:
    """The coverage frame of everything together."""
    import pandas as pd

    from placings.feco import pool_segments

    frame = found.to_pandas()
    if not found.by:
        return frame
    groups = frame.groupby("feature", sort=False)
    parts = [pool_segments(part, found.by).assign(feature=name) for name, part in groups]
    whole: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return whole[["feature", "window", "coverage", "low", "high", "events", "covered"]]


def draw_trend(trend: Trend, window: str) -> str:
    """A line a feature (and segment): raw windows as a sparkline, the last one, and the moving average."""
    import numpy as np

    from placings.core import Cell, Grid, render_grid
    from placings.feco import draw_line

    def percent(share: float) -> str:
        return "-" if share != share else f"{100 * share:.1f} %"

    rows = []
    keys = ["feature", *trend.by]
    for names, part in trend.frame.groupby(keys, sort=False, dropna=False):
        done = part[part["finished"]]
        raw, smooth = (done[name].to_numpy(dtype=np.float64) for name in ("coverage", "average"))
        before = smooth[-1 - trend.length] if len(smooth) > trend.length else np.nan
        last, now = (float(values[-1]) if len(values) else np.nan for values in (raw, smooth))
        change = "" if np.isnan(now - before) else f"{100 * (now - before):+.1f}".replace("-", "−")
        cells = [*map(str, names), draw_line(raw), percent(last), percent(now), change]
        rows.append(tuple(map(Cell, [*cells, f"{int(part['events'].sum()):,}"])))
    header = (*keys, f"{window} windows", "last", f"average of {trend.length}", "change, points", "events")
    notes = ("Change: the average against the one as many windows before.", *trend.notes)
    return render_grid(Grid(header, tuple(rows), notes, left=len(keys) + 1), "text")


def write_history_page(
    html: Path, found: Coverage, mark: Any, average: str | None, reference: Path | None
) -> Alerts:
    """The page of a store: trends, movers, heat map, incidents."""
    from placings.feco import find_alerts
    from placings.report import write_coverage_page

    weights = read_importances(reference)
    alerts = find_alerts(found, importances=weights, watermark=mark, step=found.window)
    write_coverage_page(
        html, found, average=average, watermark=mark, alerts=alerts, importances=weights
    )  # fmt: skip
    return alerts


def _make_progress() -> Callable[[Any, int], None]:
    from placings.core import Voice

    say = Voice()
    return lambda day, rows: say(f"{day:%Y-%m-%d}  {rows:,} rows")
