"""The coverage page: trends, incidents, segments, cold start and risk of one log, in one HTML file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import format_number
from placings.feco import ENTRIES, NOTABLE, RUNBOOK, SHIFTED, SPAN, Coverage, name_segment, say_time
from placings.report.pages import write_page

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco import Alerts, Mover, Risk, Verdict

PANELS = 24  # features with a trend of their own
FEW = 6  # features of the cold start, whose groups differ most
MOVED = 12
WIDEST = 24  # segments of the heat map
SHOWN = 5  # reasons of a verdict at the top; the table has all
HEAT = (
    "Coverage of the last seven finished windows in each segment; below it the change "
    "against the seven before, from 3 points on."
)


def write_coverage_page(
    path: str | Path,
    found: Coverage,
    *,
    title: str = "Feature coverage",
    average: str | None = None,
    watermark: Any = None,
    alerts: Alerts | None = None,
    ages: pd.DataFrame | None = None,
    launches: pd.DataFrame | None = None,
    places: pd.DataFrame | None = None,
    places_of: str | None = None,
    risk: Risk | None = None,
    verdict: Verdict | None = None,
    importances: Mapping[str, float] | None = None,
) -> Path:
    """Write what is known of a log's coverage as one page; no script, nothing fetched from elsewhere.

    `found` is what `coverage` gave. With windows there are trends (raw windows, and the moving average over
    `average`, seven windows unless said), biggest movers and sparklines; with segments a heat map of the
    last seven finished windows. `alerts` come from `find_alerts`, `ages` from `compare_ages`, `launches` and
    `places` (of the column `places_of`) from `trace_launch`, `risk` from `estimate_risk`, `verdict` from
    `check_coverage`: a part that is not given is left out. With `importances` the most important features
    come first. Needs the extra `report`.
    """
    from placings.feco import find_finished, rank_movers

    frame = found.to_pandas()
    timed = "window" in frame
    done = frame[find_finished(frame, watermark, found, None)] if timed else frame
    order = _order_features(done, found, importances)
    moved = rank_movers(done, windows=SPAN) if timed and len(done) else ()
    heat = _draw_heat(done, found.by, order, moved, timed) if found.by else None
    trends = trends_note = ""
    if timed and len(done):
        trends, trends_note = _draw_trends(found, order, average, watermark, alerts)
    drawn: dict[str, Any] = {
        "title": title,
        "subtitle": _describe_log(found, frame),
        "gate": None if verdict is None else _tell_gate(verdict),
        "verdict": None if verdict is None else verdict.table("html", top=30),
        "incidents": None if alerts is None else [_tell(incident) for incident in alerts.incidents],
        "remarks": [] if alerts is None else _tell_remarks(alerts),
        "runbook": [] if alerts is None else _list_steps(alerts),
        "alert_note": "" if alerts is None else alerts.table().splitlines()[-1],
        "timed": timed,
        "weighed": importances is not None,
        "features": [_list_feature(done, name, timed, importances) for name in order],
        "movers": [_list_mover(mover) for mover in moved if mover.is_sure][:MOVED],
        "movers_note": _note_movers(done) if moved else "",
        "trends": trends,
        "trends_note": trends_note,
        "heat": heat,
        "heat_note": _note_heat(heat, timed),
        "places_of": places_of,
        "risk": None if risk is None else risk.table("html"),
        "notes": _list_notes(found),
        **_draw_cold_start(ages, launches, places, places_of, order),
        **_draw_exposure(risk),
    }  # fmt: skip
    drawn["contents"] = _list_contents(drawn)
    return write_page(path, "coverage.html", **drawn)


# -- parts --------------------------------------------------------------------------------------------------


def _draw_trends(
    found: Coverage, order: Sequence[str], average: str | None, watermark: Any, alerts: Alerts | None
) -> tuple[str, str]:
    from placings.feco import measure_trend, pool_segments
    from placings.report.coverage_figures import draw_trends

    frame = found.to_pandas()
    length = average or multiply_window(str(found.window), SPAN)
    pooled = _pool_features(frame, found.by, pool_segments)
    whole = measure_trend(pooled, average=length, watermark=watermark, step=found.window)
    parts = frame if found.by else None
    told = [
        name for incident in (alerts.incidents if alerts is not None else ()) for name in incident.features
    ]
    worst = {name: place for place, name in enumerate(dict.fromkeys(told))}
    shown = sorted(order, key=lambda name: worst.get(name, len(worst)))[:PANELS]  # incidents first
    figure = draw_trends(whole.frame, parts, by=found.by, alerts=alerts, features=shown)
    text = f"Percent of events. Dots: {found.window} windows; line: moving average over {length}"
    text += "; pale: each segment" if found.by else ""
    text += "; red: a segment of an incident" if alerts is not None and alerts.incidents and found.by else ""
    hidden = len(order) - len(shown)
    text += f". {hidden} more features are not drawn" if hidden else ""
    return figure, ". ".join([text, *whole.notes]) + "."


def _pool_features(frame: pd.DataFrame, by: Sequence[str], pool: Any) -> pd.DataFrame:
    import pandas as pd

    if not by:
        return frame
    parts = [
        pool(part, by).assign(feature=name)
        for name, part in frame.groupby("feature", sort=False)
        if len(part)
    ]
    whole: pd.DataFrame = pd.concat(parts, ignore_index=True)
    return whole[["feature", "window", "coverage", "low", "high", "events", "covered"]]


def _draw_heat(
    frame: pd.DataFrame, by: Sequence[str], order: Sequence[str], moved: Sequence[Mover], timed: bool
) -> dict[str, Any]:
    """Features × segments, the darkest of both first, so that what is wrong is in the corner one looks at."""
    from placings.feco import measure_darkness

    dark = measure_darkness(frame, by)
    lost = {(line[0], name_segment(dict(zip(by, line[1:], strict=True)))): dark[line] for line in dark}
    if timed:
        frame = frame[frame["window"].isin(np.sort(frame["window"].unique())[-SPAN:])]
    sums = frame.groupby(["feature", *by], sort=False, dropna=False)[["events", "covered"]].sum()
    shares: dict[tuple[str, str], float] = {}
    sizes: dict[str, float] = {}
    for key, row in sums.iterrows():
        values = key if isinstance(key, tuple) else (key,)
        name = name_segment(dict(zip(by, values[1:], strict=True)))
        sizes[name] = max(sizes.get(name, 0.0), float(row["events"]))
        if row["events"]:
            shares[str(values[0]), name] = float(row["covered"]) / float(row["events"])
    changes = {(mover.feature, name_segment(mover.segment)): mover.change for mover in moved if mover.is_sure}
    segments = sorted(
        sizes, key=lambda one: (-max(lost.get((name, one), 0.0) for name in order), -sizes[one])
    )
    features = sorted(
        order, key=lambda name: -max((lost.get((name, one), 0.0) for one in sizes), default=0.0)
    )
    rows = []
    for feature in features:
        cells = []
        for name in segments[:WIDEST]:
            share, change = shares.get((feature, name), math.nan), changes.get((feature, name), 0.0)
            told = f"{100 * change:+.0f} points".replace("-", "−") if abs(change) >= NOTABLE else ""
            cells.append({"text": _percent(share), "change": told, **_colour(share)})
        rows.append({"feature": feature, "cells": cells})
    return {"segments": segments[:WIDEST], "rows": rows, "hidden": len(segments[WIDEST:])}


def _note_heat(heat: dict[str, Any] | None, timed: bool) -> str:
    if heat is None:
        return ""
    text = HEAT if timed else "Coverage in each segment."
    text += " The darkest features and segments come first: those that fell, or lie below the others."
    return text + (f" {heat['hidden']} more segments are not drawn." if heat["hidden"] else "")


def _tell_gate(verdict: Verdict) -> dict[str, Any]:
    """The verdict for the top of the page."""
    hidden = len(verdict.reasons) - SHOWN
    return {
        "word": "PASS" if verdict.passed else "FAIL",
        "timed": any(finding.window is not None for finding in verdict.findings),
        "summary": verdict.summary.partition(": ")[2],
        "reasons": verdict.reasons[:SHOWN],
        "more": f"and {hidden:,} more" if hidden > 0 else "",
    }


def _colour(share: float) -> dict[str, str]:
    """From pale (dark feature) to deep blue (covered); the text stays readable on both."""
    if math.isnan(share):
        return {"colour": "", "ink": ""}
    low, high = np.array([253, 231, 224]), np.array([31, 90, 140])
    red, green, blue = (low + (high - low) * share).astype(int).tolist()
    return {"colour": f"rgb({red},{green},{blue})", "ink": "#fff" if share > 0.55 else "#1f2933"}


def _list_feature(
    frame: pd.DataFrame, name: str, timed: bool, importances: Mapping[str, float] | None
) -> dict[str, Any]:
    part = frame[frame["feature"] == name]
    events, covered = float(part["events"].sum()), float(part["covered"].sum())
    share = covered / events if events else math.nan
    row: dict[str, Any] = {
        "name": name, "coverage": _percent(share), "width": f"{100 * np.nan_to_num(share):.1f}",
        "events": f"{int(events):,}", "interval": "", "line": "", "last": "",
        "importance": "" if importances is None else format_number(importances.get(name, 0.0)),
    }  # fmt: skip
    if timed:
        sums = part.groupby("window", sort=True)[["events", "covered"]].sum()
        shares = (sums["covered"] / sums["events"].where(sums["events"] > 0)).to_numpy(dtype=np.float64)
        row |= {"line": draw_path(shares), "last": _percent(float(shares[-1]) if len(shares) else math.nan)}
    elif len(part) == 1:
        row["interval"] = f"{_percent(float(part['low'].iloc[0]))} – {_percent(float(part['high'].iloc[0]))}"
    return row


def draw_path(shares: Any, width: int = 150, height: int = 22) -> str:
    """A line from 0 to 1 for a table's cell; windows without events leave a gap.

    >>> draw_path(np.array([0.0, np.nan, 1.0]), width=20, height=10)[-34:]
    'path d="M0.0 9.0M20.0 1.0"/></svg>'
    """
    step = width / max(len(shares) - 1, 1)
    parts, drawing = [], False
    for place, share in enumerate(shares):
        if math.isnan(share):
            drawing = False
            continue
        mark = "L" if drawing else "M"
        parts.append(f"{mark}{place * step:.1f} {height - 1 - share * (height - 2):.1f}")
        drawing = True
    line = f'<path d="{"".join(parts)}"/>'
    return f'<svg class="line" width="{width}" height="{height}" aria-hidden="true">{line}</svg>'


def _list_mover(mover: Mover) -> dict[str, Any]:
    return {
        "feature": mover.feature,
        "where": name_segment(mover.segment),
        "before": _percent(mover.before),
        "after": _percent(mover.after),
        "change": _points(mover.change),
        "interval": f"{_points(mover.low)} to {_points(mover.high)}",
        "kind": "down" if mover.change < 0 else "up",
        "events": f"{mover.events:,}",
    }


def _note_movers(frame: pd.DataFrame) -> str:
    starts = np.sort(frame["window"].unique())
    span = min(SPAN, len(starts) // 2)
    days = [say_time(start.astype("datetime64[s]").item()) for start in (starts[-span], starts[-1])]
    text = f"The windows from {days[0]} to {days[1]} against the {span} before."
    return f"{text} Changes that may be chance are left out."


def _tell(incident: Any) -> dict[str, Any]:
    days = f"{say_time(incident.flagged)} to {say_time(incident.last)}"
    return {**incident.to_dict(), "days": days, "entry": RUNBOOK[incident.state]}


def _tell_remarks(alerts: Alerts) -> list[dict[str, Any]]:
    """The remarks, each heading with its lines and the runbook's entry."""
    found: list[dict[str, Any]] = []
    for line in alerts.remarks:
        if line.startswith(" "):
            found[-1]["lines"].append(line.strip())
        else:
            state = "mix shift" if line == SHIFTED else "overall drop"
            found.append({"text": line, "lines": [], "entry": RUNBOOK[state]})
    return found


def _list_steps(alerts: Alerts) -> list[dict[str, Any]]:
    """The runbook's entries that the alerts name, as HTML."""
    states = {incident.state for incident in alerts.incidents}
    states |= {alert.state for alert in (*alerts.mix_shifts, *alerts.overall_drops)}
    used = {RUNBOOK[state] for state in states}
    return [
        {
            "name": name,
            "title": entry.title,
            "meaning": entry.meaning,
            "steps": [_mark_up(s) for s in entry.steps],
        }
        for name, entry in ENTRIES.items()
        if name in used
    ]


def _mark_up(text: str) -> str:
    """Bold and code of a line of Markdown as HTML, all else escaped."""
    from html import escape

    bold = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", escape(text))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", bold)


def _draw_cold_start(
    ages: pd.DataFrame | None,
    launches: pd.DataFrame | None,
    places: pd.DataFrame | None,
    of: str | None,
    order: Sequence[str],
) -> dict[str, Any]:
    from placings.report.coverage_figures import draw_ages, draw_launches

    drawn: dict[str, Any] = {"ages": "", "launches": "", "places": "", "ages_note": ""}
    if ages is not None and len(ages):
        chosen = _pick_features(ages, "age", order)
        drawn["ages"] = draw_ages(ages, features=chosen)
        drawn["ages_note"] = "Old (blue) against new items (red, dashed) over time, where they differ most."
    if launches is not None and len(launches):
        drawn["launches"] = draw_launches(
            launches, features=_pick_features(launches, "days_since_launch", order)
        )
    if places is not None and len(places):
        chosen = _pick_features(places, "days_since_launch", order)
        drawn["places"] = draw_launches(places, features=chosen, of=of)
    return drawn


def _pick_features(frame: pd.DataFrame, group: str, order: Sequence[str]) -> list[str]:
    """The features whose coverage differs most between groups, in the page's order."""
    sums = frame.groupby(["feature", group], sort=False)[["events", "covered"]].sum()
    shares = (sums["covered"] / sums["events"].where(sums["events"] > 0)).groupby("feature")
    width = (shares.max() - shares.min()).fillna(0.0)
    widest = set(width.sort_values(ascending=False, kind="stable").index[:FEW])
    return [name for name in order if name in widest]


def _draw_exposure(risk: Risk | None) -> dict[str, Any]:
    if risk is None:
        return {"risk_figure": ""}
    from placings.report.coverage_figures import draw_risk

    affected = tuple(row for row in risk.features if row.coverage_after < row.coverage_before)
    return {"risk_figure": draw_risk(replace(risk, features=affected))}


# -- words --------------------------------------------------------------------------------------------------


def _describe_log(found: Coverage, frame: pd.DataFrame) -> str:
    first = frame[frame["feature"] == found.features[0]]
    text = f"{len(found.features)} features, {int(first['events'].sum()):,} events"
    if "window" in frame and len(frame):
        ends = [say_time(stamp.to_pydatetime()) for stamp in (frame["window"].min(), frame["window"].max())]
        text += f", {found.window} windows from {ends[0]} to {ends[1]}"
    text += f", by {', '.join(found.by)}" if found.by else ""
    return f"{text}. Coverage is the share of events in which a feature has a value."


def _list_notes(found: Coverage) -> list[str]:
    return [*found._describe(), *found.notes]


def _list_contents(drawn: Mapping[str, Any]) -> list[tuple[str, str]]:
    parts = [
        ("gate", "The gate", drawn["verdict"]),
        ("incidents", "Incidents", drawn["incidents"] is not None),
        ("features", "Features", True),
        ("movers", "Biggest movers", drawn["movers"]),
        ("trends", "Trends", drawn["trends"]),
        ("segments", "Segments", drawn["heat"]),
        ("cold-start", "Cold start", drawn["ages"] or drawn["launches"] or drawn["places"]),
        ("risk", "Coverage at risk", drawn["risk"]),
        ("runbook", "What to do", drawn["runbook"]),
        ("how", "How this was counted", True),
    ]
    return [(place, text) for place, text, there in parts if there]


def _order_features(
    frame: pd.DataFrame, found: Coverage, importances: Mapping[str, float] | None
) -> list[str]:
    """The dark features first; the others by importance, where it is known, or the least covered first."""
    from placings.feco import order_features

    ordered, dark = order_features(frame, found.by, found.features)
    if importances is None:
        return ordered
    return sorted(ordered, key=lambda name: (-dark.get(name, 0.0), -importances.get(name, 0.0)))


def multiply_window(window: str, times: int) -> str:
    """A length of this many windows.

    >>> multiply_window("1d", 7), multiply_window("6h", 7)
    ('7d', '42h')
    """
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]+)\s*", window.lower())
    return f"{int(found[1]) * times}{found[2]}" if found else window


def _percent(share: float) -> str:
    return "no data" if math.isnan(share) else f"{100 * share:.1f} %"


def _points(change: float) -> str:
    return f"{100 * change:+.1f}".replace("-", "−")
