"""The page of the places study: the verdict first, then every table and figure of it, in one HTML file."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from placings.core import BadInput, format_difference, format_interval, format_mean, format_p
from placings.report import places_figures as figures
from placings.report.log_figures import draw_intervals
from placings.report.pages import Panel, lay_table, write_page
from placings.report.places_figures import take_number


def lay_dark_feature(part: Mapping[str, Any], result: Mapping[str, Any], simulated: bool) -> dict[str, Any]:
    """What a panel holds: the alert and the loss in sentences, coverage day by day, and the cost in tables.

    `part`, one of `result`, has `feature`, `told` (what it is), `where`, `alert` (an incident, or None),
    `daily` (platform, window, coverage), `tried` (source, told, lost, low, high on validation searches) and
    `cost` (drop, mrr, lost, low, high, p on test searches).
    """
    costs = [
        [
            f"{row['drop']:.0%}", format_mean(row["mrr"]), format_difference(-row["lost"]),
            format_interval(-row["high"], -row["low"], signed=True), format_p(row["p"]),
        ]
        for row in part["cost"]
    ]  # fmt: skip
    tried = [
        [
            f"{row['source']}: {row['told']}", format_difference(-row["lost"]),
            format_interval(-row["high"], -row["low"], signed=True),
        ]
        for row in part.get("tried") or ()
    ]  # fmt: skip
    text = (
        f"{part['feature']} was taken away on {part['where']}, as when a source stops sending. "
        f"{' '.join(line if line.endswith('.') else f'{line}.' for line in say_dark(part))}"
    )
    tables = [
        lay_table(
            ("searches without it", "MRR with it", "change", "95 % interval", "p"), costs,
            notes=("MRR on the place that was meant, over test searches.",), simulated=simulated,
        )
    ]  # fmt: skip
    if tried:
        note = "How the number was chosen: what each loss costs on validation searches."
        header = ("lost in all searches", "change of MRR", "95 % interval")
        tables.append(lay_table(header, tried, notes=(note,), simulated=simulated))
    drawn = (
        ((figures.draw_dark_days(part), "The share of the searches that have it, day by day."),)
        if part.get("daily")
        else ()
    )
    return {"text": text, "figures": drawn, "tables": tuple(tables)}


def say_dark(part: Mapping[str, Any]) -> list[str]:
    """The alert that a lost feature raised, what to do about it, and what the loss costs.

    >>> row = {"drop": 1.0, "mrr": 0.7, "lost": 0.02, "low": 0.01, "high": 0.03, "p": 0.001}
    >>> for sentence in say_dark({"feature": "weight", "told": "how popular a place is", "cost": [row]}):
    ...     print(sentence)
    No alert: too few searches a day to judge by.
    Cost: without weight (how popular a place is) MRR 0.7000 falls by 0.0200 [0.0100, 0.0300].
    """
    alert = part.get("alert")
    lines = ["No alert: too few searches a day to judge by."]
    if alert:
        lines = [f"ALERT, {alert['severity']}: {alert['headline']}.", f"What to do: {alert['runbook']}"]
    whole = max(part["cost"], key=lambda row: float(row["drop"]))
    told = f" ({part['told']})" if part.get("told") else ""
    ends = format_interval(whole["low"], whole["high"])
    if whole["low"] > 0:
        lines.append(
            f"Cost: without {part['feature']}{told} MRR {format_mean(whole['mrr'])} falls by "
            f"{format_mean(whole['lost'])} {ends}."
        )
    else:
        lines.append(
            f"Cost: none is shown. Without {part['feature']}{told} MRR {format_mean(whole['mrr'])} changes "
            f"by {format_difference(-whole['lost'])} "
            f"{format_interval(-whole['high'], -whole['low'], signed=True)}."
        )
    return lines


KIND_WORDS = {
    "kind prefix": "typed: the beginning of a name", "kind full": "typed: a whole name",
    "kind typo": "typed: a name with a typo", "kind detail": "typed: a name and its town",
    "match prefix": "text begins a name in the list", "match full name": "text is a name in the list",
    "match words": "text is words of a name in the list", "match other": "text is no name in the list",
    "location hidden": "no location shared", "location shared": "location shared",
    "target origin": "start of a trip", "target destination": "end of a trip",
    "target unknown": "start or end unknown",
}  # fmt: skip


def say_kind(row: Mapping[str, Any]) -> str:
    """A slice in words that need no explanation.

    >>> say_kind({"slice": "length", "value": "[3, 10]"}), say_kind({"slice": "platform", "value": "web"})
    ('3 to 10 letters', 'platform web')
    """
    name = say_slice(row)
    if row.get("slice") == "length":
        ends = str(row.get("value", "")).strip("[]").split(", ")
        return f"{' to '.join(ends)} letters"
    return KIND_WORDS.get(name, name)


def say_winners(result: Mapping[str, Any], most: int = 3) -> list[str]:
    """Which kinds of searches gain most, and which lose, one line each.

    >>> row = {"slice": "platform", "difference": 0.02, "low": 0.01, "high": 0.03, "loses": False}
    >>> for line in say_winners({"slices": [{**row, "value": "web"}]}):
    ...     print(line)
    Who wins most: platform web +0.0200.
    Who loses: none of 1 kind of searches. The least: platform web +0.0200 [+0.0100, +0.0300].
    """
    slices = list(result.get("slices") or ())
    if not slices:
        return []
    winners = [row for row in reversed(slices) if take_number(row, "low") > 0][:most]
    losers = [row for row in slices if row.get("loses")]

    def name(row: Mapping[str, Any]) -> str:
        return f"{say_kind(row)} {format_difference(take_number(row, 'difference'))}"

    lines = [f"Who wins most: {', '.join(map(name, winners)) or 'no kind of searches, for certain'}."]
    if losers:
        more = f" and {len(losers) - MOST_NAMED} more" if len(losers) > MOST_NAMED else ""
        told = ", ".join(map(name, losers[:MOST_NAMED]))
        lines.append(f"Who loses: {told}{more}, of {len(slices)} kinds of searches.")
    else:
        least = slices[0]
        ends = format_interval(take_number(least, "low"), take_number(least, "high"), signed=True)
        many = f"{len(slices)} kind{'' if len(slices) == 1 else 's'}"
        lines.append(f"Who loses: none of {many} of searches. The least: {name(least)} {ends}.")
    clicks = [say_kind(row) for row in slices if row.get("loses_clicks")]
    if clicks and knows_truth(result):
        lines.append(
            f"By clicks, which favour the engine, {len(clicks)} would seem to lose: {', '.join(clicks)}."
        )
    return lines


DEFAULT = "default re-ranker"
PRESET_STEPS = 15_000  # of the thesis' networks
MOST_NAMED = 6  # slices that lose, by name in a sentence
NOTABLE = 0.001  # MRR by which another model must be ahead to be told


def list_verdict(result: Mapping[str, Any], engine: str = "engine") -> list[str]:
    """What the study found, in sentences, the most important first; what was not measured is left out."""
    models = {str(row.get("name")): row for row in result.get("models") or ()}
    if not models:
        return ["The study holds no models yet, so there is no verdict."]
    truth = knows_truth(result)
    end, where = ("_true", "on the true target") if truth else ("", "on clicks")
    lines = []
    chosen = find_default(result, engine)
    if chosen in models and engine in models:
        lines.append(_say_gain(chosen, models[chosen], models[engine], end, where))
    best = max(models, key=lambda name: _or_least(take_number(models[name], f"mrr{end}")))
    ahead = take_number(models[best], f"mrr{end}") - take_number(models.get(chosen, {}), f"mrr{end}")
    if best not in (chosen, engine) and ahead >= NOTABLE:
        lines.append(
            f"The best single number is {best}'s: MRR {format_mean(take_number(models[best], f'mrr{end}'))}."
        )
    lines += say_slices(result)
    top, base = result.get("oracle"), take_number(models.get(engine, {}), f"mrr{end}")
    reached = take_number(models.get(chosen, {}), f"mrr{end}")
    if truth and top is not None and float(top) > base and reached == reached:
        way = (reached - base) / (float(top) - base)
        gone = f"{way:.0%}".replace("-", "−")
        lines.append(
            f"The best order of the same lists would reach {format_mean(float(top))}: {chosen} goes {gone} "
            "of that way."
        )
    return [*lines, *say_served(result)]


def say_served(result: Mapping[str, Any]) -> list[str]:
    """How much is left to the engine, and that the re-ranker was judged as it is served."""
    lines = []
    if result.get("left_to_engine") is not None:
        lines.append(f"{float(result['left_to_engine']):.1%} of the searches are left in the engine's order.")
    served = result.get("served")
    if served:
        unlike = int(served["unlike_batch"])
        same = "the same" if not unlike else f"another in {unlike:,} of them"
        lines.append(
            f"The re-ranker was judged as it is served: loaded from its folder and asked live, search by "
            f"search, {int(served['searches']):,} times. The order of the batch is {same}."
        )
    return lines


def say_history(result: Mapping[str, Any]) -> str:
    """As of when past clicks were counted in the test, which depends on how sessions were split."""
    if (result.get("settings") or {}).get("split") == "session":
        return (
            "Sessions were drawn at random (--split session): past clicks are counted as of each search, "
            "which a server does only if it counts clicks live."
        )
    return "The last sessions were held out; past clicks stand as they did when training ended."


def say_steps(result: Mapping[str, Any]) -> str:
    """How long the thesis' networks were trained here, beside their presets; nothing where there are none."""
    settings = result.get("settings") or {}
    steps, group = settings.get("steps"), settings.get("group_steps")
    if not result.get("variants") or not steps or min(steps, group or steps) >= PRESET_STEPS:
        return ""
    return (
        f"The thesis' networks were trained for {steps:,} steps (groupwise: {group:,}), where the presets "
        f"have {PRESET_STEPS:,}: these rows tell of short training. --full trains as long as the presets say."
    )


def say_sessions(result: Mapping[str, Any]) -> str:
    """What intervals and p-values stand on, where the log knows sessions; "" where it does not."""
    counts = result.get("counts", {})
    if not counts.get("test_sessions"):
        return ""
    return f"Intervals and p resample {counts['test_sessions']:,} sessions, {counts['test']:,} searches."


def say_same(rows: Sequence[Mapping[str, Any]], engine: str = "engine") -> str:
    """Which models gave the engine's own order: a difference of 0 everywhere is no result of theirs."""
    names = [
        str(row["name"])
        for row in rows
        if row["name"] != engine
        and all(take_number(row, key) == 0.0 for key in ("difference", "difference_low", "difference_high"))
    ]
    if not names:
        return ""
    verb = "puts" if len(names) == 1 else "put"
    return f"{', '.join(names)} {verb} every clicked item where the engine does: its order, not a gain."


def say_equal(result: Mapping[str, Any]) -> str:
    """What lines, trees and network have in common, and what chose C and the best line."""
    rows = (result.get("lines") or {}).get("models") or ()
    lists = next((int(row["lists"]) for row in rows if row.get("lists")), 0)
    return (
        f"All learned from the same {lists:,} lists, clicks carried back, with the same features; only the "
        "default re-ranker has the guard. Each line's C and the best line were chosen by MRR on validation "
        "lists, which stopped the training of trees and network too. A ridge scales its columns itself, so "
        "raw and gauss are one line."
    )


def say_best_line(result: Mapping[str, Any]) -> str:
    """Which of the models is the best line; "" where none was fitted."""
    best = (result.get("lines") or {}).get("best")
    if not best:
        return ""
    return (
        f"{best}: the line that was best on validation, with the features and lists of the default re-ranker."
    )


def say_beyond(result: Mapping[str, Any]) -> str:
    """What trees, network and the default re-ranker have over the best line.

    >>> row = {"name": "A", "difference_clicks": 0.01, "low_clicks": 0.0, "high_clicks": 0.02}
    >>> say_beyond({"lines": {"best": "ridge over cdf", "beyond": [row]}})
    'Beyond ridge over cdf, the best line on validation, on clicks: A +0.0100 [+0.0000, +0.0200].'
    """
    told = result.get("lines") or {}
    rows = told.get("beyond") or ()
    if not rows:
        return ""
    truth = knows_truth(result)
    end, where = ("_true", "on the true target") if truth else ("_clicks", "on clicks")
    leads = [
        f"{row['name']} {format_difference(take_number(row, f'difference{end}'))} "
        f"{format_interval(take_number(row, f'low{end}'), take_number(row, f'high{end}'), signed=True)}"
        for row in rows
    ]
    return f"Beyond {told['best']}, the best line on validation, {where}: {', '.join(leads)}."


def _say_gain(name: str, row: Mapping[str, Any], base: Mapping[str, Any], end: str, where: str) -> str:
    low, high = take_number(row, f"difference_low{end}"), take_number(row, f"difference_high{end}")
    gap, mean, other = (
        take_number(row, f"difference{end}"), take_number(row, f"mrr{end}"), take_number(base, f"mrr{end}"),
    )  # fmt: skip
    if math.isnan(gap):
        gap = mean - other
    verb = (
        "orders better than" if low > 0 else "orders worse than" if high < 0 else "cannot be told apart from"
    )
    interval = "" if math.isnan(low) else f" {format_interval(low, high, signed=True)}"
    subject = f"The {name}" if name[:1].islower() else name
    return (
        f"{subject} {verb} the engine: MRR {format_mean(mean)} against {format_mean(other)} {where}, "
        f"{format_difference(gap)}{interval}."
    )


def say_slices(result: Mapping[str, Any]) -> list[str]:
    """Which slices lose, by every measure that they were judged by, and the worst of them.

    >>> row = {"slice": "kind", "value": "prefix", "measure": "true", "loses": False, "loses_clicks": True,
    ...        "difference": 0.01, "low": 0.0, "high": 0.02, "searches": 300}
    >>> for sentence in say_slices({"slices": [row]}):
    ...     print(sentence)
    None of 1 slice loses on the true target. On clicks, which favour the engine, 1 of 1 loses: kind prefix.
    The worst on the true target: kind prefix, +0.0100 [+0.0000, +0.0200] over 300 searches.
    """
    slices = result.get("slices") or ()
    if not slices:
        return []
    measure = name_measure(result, slices)
    told = _count_losing(slices, "loses", f"on {'the ' if measure == 'true target' else ''}{measure}")
    if any(row.get("loses_clicks") for row in slices):
        told += f" {_count_losing(slices, 'loses_clicks', '', 'On clicks, which favour the engine, ')}"
    elif any(row.get("loses_clicks") is not None for row in slices):
        told += " Nor does one lose on clicks." if not any(row.get("loses") for row in slices) else ""
    worst = slices[0]
    return [
        told,
        f"The worst on {'the ' if measure == 'true target' else ''}{measure}: {say_slice(worst)}, "
        f"{format_difference(take_number(worst, 'difference'))} "
        f"{format_interval(take_number(worst, 'low'), take_number(worst, 'high'), signed=True)} "
        f"over {int(worst['searches']):,} searches.",
    ]


def _count_losing(slices: Sequence[Mapping[str, Any]], key: str, where: str, before: str = "") -> str:
    losing = [say_slice(row) for row in slices if row.get(key)]
    judged = sum(row.get(key) is not None for row in slices)
    ending = f" {where}" if where else ""
    if not losing:
        return f"{before}None of {judged} slice{'' if judged == 1 else 's'} loses{ending}."
    more = f" and {len(losing) - MOST_NAMED} more" if len(losing) > MOST_NAMED else ""
    verb = "loses" if len(losing) == 1 else "lose"
    of = f"{judged} slices" if not before else str(judged)
    return f"{before}{len(losing)} of {of} {verb}{ending}: {', '.join(losing[:MOST_NAMED])}{more}."


def find_default(result: Mapping[str, Any], engine: str = "engine") -> str:
    """The re-ranker that the study recommends: by its name, else the one with the best MRR.

    >>> find_default({"models": [{"name": "engine", "mrr": 0.9}, {"name": "A", "mrr": 0.8}]})
    'A'
    """
    names = [str(row.get("name")) for row in result.get("models") or () if row.get("name") != engine]
    if DEFAULT in names or not names:
        return DEFAULT if names else "the model"
    end = "_true" if knows_truth(result) else ""
    rows = {str(row.get("name")): row for row in result["models"]}
    return max(names, key=lambda name: _or_least(take_number(rows[name], f"mrr{end}")))


def knows_truth(result: Mapping[str, Any]) -> bool:
    """Whether the models are judged on the item really meant, which only a simulated log knows."""
    rows = result.get("models") or ()
    return bool(result.get("simulated")) and any(row.get("mrr_true") is not None for row in rows)


def name_measure(result: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """What slices are judged on: what they say, else the true target of a simulated log, else clicks."""
    said = rows[0].get("measure") if rows else None
    truth = said == "true" if said else knows_truth(result)
    return "true target" if truth else "clicks"


def say_slice(row: Mapping[str, Any]) -> str:
    """`length [3, 10]`, from what a slice is of and its value."""
    return f"{row.get('slice', '')} {row.get('value', '')}".strip()


def lay_records(part: Any, simulated: bool) -> tuple[str, ...]:
    """Tables of whatever a study wrote: records are one table, a dict's plain values one, its lists more."""
    if isinstance(part, Mapping):
        plain = [(str(name), format_value(value)) for name, value in part.items() if not _is_nested(value)]
        tables = [lay_table(["", "value"], plain, simulated=simulated)] if plain else []
        nested = {str(name): value for name, value in part.items() if _is_nested(value)}
        if nested and all(isinstance(value, Mapping) for value in nested.values()):
            records: list[Any] = [{"": name, **value} for name, value in nested.items()]
            return (*tables, *lay_records(records, simulated))
        for value in nested.values():
            tables += lay_records(value, simulated)
        return tuple(tables)
    records = [row for row in part if isinstance(row, Mapping)]
    names = list(dict.fromkeys(str(name) for row in records for name in row))
    ends = {
        name: name.replace("low", "high")
        for name in names
        if "low" in name and name.replace("low", "high") in names
    }
    kept = [name for name in names if name not in ends.values()]
    header = ["95 % interval" if name in ends else name.replace("_", " ") for name in kept]
    signed = any("difference" in name for name in names)
    rows = [
        [
            _format_ends(row, name, ends[name], signed) if name in ends else format_value(row.get(name), name)
            for name in kept
        ]
        for row in records
    ]
    return (lay_table(header, rows, simulated=simulated),) if rows else ()


def lay_why(why: Any, simulated: bool) -> tuple[str, ...]:
    """The experiment on long queries: a row a model, a column a band; MRR, and the difference it makes."""
    if not isinstance(why, Mapping) or not isinstance(why.get("models"), Sequence):
        return lay_records(why, simulated)
    models = [row for row in why["models"] if isinstance(row, Mapping)]
    bands = list(dict.fromkeys(band for row in models for band in row.get("bands") or {}))
    more = [
        name for name in ("clicked_before", "never_clicked_before") if any(row.get(name) for row in models)
    ]
    rows = []
    for row in models:
        parts = [
            row.get("all"),
            *((row.get("bands") or {}).get(band) for band in bands),
            *(row.get(name) for name in more),
        ]
        rows.append([str(row.get("model")), *(_say_pair(part or {}) for part in parts)])
    header = ["model", "all", *map(str, bands), *(name.replace("_", " ") for name in more)]
    notes = ["MRR on clicks, and the difference to the engine; ▼ marks a whole 95 % interval below zero."]
    table = lay_table(header, rows, notes=notes, simulated=simulated)
    return (table, *lay_records(why.get("bands") or (), simulated))


def _say_pair(part: Mapping[str, Any]) -> str:
    gap = take_number(part, "difference")
    mark = " ▼" if take_number(part, "high") < 0 else ""
    told = f" ({format_difference(gap)}{mark})" if gap else ""
    return f"{format_mean(take_number(part, 'model'))}{told if gap == gap else ''}"


def _format_ends(row: Mapping[str, Any], low: str, high: str, signed: bool) -> str:
    return format_interval(take_number(row, low), take_number(row, high), signed=signed)


def list_settings(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a study was asked for and counted, name and value, for people."""
    parts = {"counted": result.get("counts"), "default re-ranker": result.get("default")}
    found = dict(result.get("settings") or {}) | {name: part for name, part in parts.items() if part}
    return [
        (name.replace("_", " "), format_value(value))
        for name, value in found.items()
        if value not in ({}, [], "")
    ]


def format_value(value: Any, name: str = "") -> str:
    """One value as a cell: four digits, a sign for differences, a dash for nothing.

    >>> format_value(0.12345), format_value(-0.01, "difference"), format_value(None), format_value(1200)
    ('0.1235', '−0.0100', '-', '1,200')
    """
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return format_difference(value) if "difference" in name else format_mean(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {format_value(part)}" for key, part in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(format_value(part) for part in value)
    return str(value)


def _is_nested(value: Any) -> bool:
    if isinstance(value, Mapping):
        return True
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _or_least(value: float) -> float:
    return -math.inf if math.isnan(value) else value


ENGINE = "engine"
SHOWN = 40  # slices that are drawn
DEMO = "coverage"  # a part of the demo, not of the study

# a part of the result, the whole of it, whether it is simulated → what its panel holds
Show: TypeAlias = Callable[[Any, Mapping[str, Any], bool], dict[str, Any]]


def write_places_page(
    path: str | Path,
    result: Mapping[str, Any],
    *,
    title: str = "Learning to rank places",
    brief: bool = False,
    glossary: str = "",
) -> Path:
    """Write the result of the places study as one page; no script, nothing fetched from elsewhere.

    `result` is the plain dictionary of the study, as its JSON has it: simulated, settings, models, lines,
    ranks, tuned, variants, importances, types, curves, no_location, bands, lengths_by_rank, slices, depth,
    oracle, left_to_engine, unsuccessful, why. A part that is missing or empty is a sentence on the page; with
    `brief`, the demo's page, it is left out, and words are explained; `glossary` is then the address of more.
    With `simulated` true every heading and table says so. Needs the extra `report`.
    """
    if not isinstance(result, Mapping):
        raise BadInput(f"result must be the study's dictionary. Got {type(result).__name__}.")
    made, dark = bool(result.get("simulated")), result.get(DEMO)
    panels = [
        _fill(result, made, *row[:2], "" if brief else row[2], *row[3:])
        for row in PANELS
        if result.get(row[0]) or not (brief or row[0] == DEMO)
    ]
    verdict = list_verdict(result, ENGINE)
    if brief:
        verdict = [*verdict[:1], *say_winners(result), *(say_dark(dark) if dark else ()), *say_served(result)]
        panels.append(_explain_words(glossary))
    return write_page(
        path, "places.html",
        title=title, subtitle=_describe_study(result), simulated=made, verdict=verdict,
        bad=any(row.get("loses") for row in result.get("slices") or ()), tiles=_count_tiles(result),
        panels=panels, settings=list_settings(result),
    )  # fmt: skip


def _fill(
    result: Mapping[str, Any],
    made: bool,
    key: str,
    title: str,
    places: str,
    lack: str,
    show: Show,
) -> Panel:
    """The panel of a key, or the sentence that it lacks."""
    part = result.get(key)
    if not part:
        return Panel(key.replace("_", "-"), title, lack=f"{lack} (The result has no {key}.)", places=places)
    return Panel(key.replace("_", "-"), title, places=places, **show(part, result, made))


WORDS = {
    "MRR": "mean reciprocal rank: 1 if what was meant stands first, 1/2 if second, 1/3 if third; the mean "
    "over all searches. Higher is better, 1 is the best.",
    "95 % interval": "where the true value lies for 95 of 100 such logs. A gain is shown if all of its "
    "interval lies above 0.",
    "true target": "the place that a simulated person was looking for. Only a simulation knows it.",
    "slice": "a kind of searches that is known before anybody clicks, such as one platform.",
    "guard": "keeps the engine's order for kinds of searches in which the re-ranker was not shown to be as "
    "good.",
    "coverage": "the share of searches in which a feature has a value. A feature at 0 is dark.",
    "SIMULATED": "made by simulated people: it shows how the tool works, not what you will gain.",
}


def _explain_words(glossary: str) -> Panel:
    """The words of the page, a row each, and where there are more."""
    rows = "".join(f"<dt>{escape(word)}</dt><dd>{escape(text)}</dd>" for word, text in WORDS.items())
    table = f'<dl class="facts">{rows}</dl>'
    more = f'<p><a href="{escape(glossary)}">All words</a></p>' if glossary else ""
    return Panel("words", "What the words mean", tables=(table + more,))


# -- panels -------------------------------------------------------------------------------------------


def _show_models(
    models: Sequence[Mapping[str, Any]], result: Mapping[str, Any], made: bool
) -> dict[str, Any]:
    truth = knows_truth(result)
    ladder = figures.draw_ladder(models, truth=truth, ceiling=result.get("oracle"), engine=ENGINE)
    caption = f"95 % intervals over {'sessions' if say_sessions(result) else 'searches'}."
    if result.get("oracle") is not None:
        caption += " Ceiling: the true target first wherever the engine found it at all."
    text = ""
    if truth:
        text = (
            "The log is simulated, so it is known which place each search meant. MRR on that true target is "
            "the fair "
            "judge. Clicks favour the engine: people click what they are shown first."
        )
    more = (
        say_sessions(result), say_history(result), say_steps(result), say_best_line(result),
        say_same(models, ENGINE),
    )  # fmt: skip
    return {"text": text, "figures": ((ladder, caption),), "tables": _lay_models(models, made, more)}


def _lay_models(models: Sequence[Mapping[str, Any]], made: bool, more: Sequence[str]) -> tuple[str, ...]:
    """One table a measure: the true target where it is known, and clicks; `more` notes stand below each."""
    truth = made and any(not math.isnan(take_number(row, "mrr_true")) for row in models)
    notes = [note for note in more if note]
    return tuple(_lay_measure(models, end, made, notes) for end in (("_true", "") if truth else ("",)))


def _lay_measure(models: Sequence[Mapping[str, Any]], end: str, made: bool, more: Sequence[str]) -> str:
    timed = any(take_number(row, "seconds") > 0 for row in models)
    header = ["model", "MRR", "95 % interval", "to the engine", "95 % interval", "p"]
    rows = []
    for row in models:
        other = row.get("name") != ENGINE
        gaps = [take_number(row, f"difference_{name}{end}") for name in ("low", "high")]
        cells = [
            str(row.get("name")), format_mean(take_number(row, f"mrr{end}")),
            format_interval(*(take_number(row, f"{name}{end}") for name in ("low", "high"))),
            format_difference(take_number(row, f"difference{end}")) if other else "",
            format_interval(*gaps, signed=True) if other else "",
            format_p(take_number(row, f"p{end}")) if other else "",
        ]  # fmt: skip
        rows.append([*cells, f"{take_number(row, 'seconds'):,.1f}"] if timed else cells)
    values = np.array([take_number(row, f"mrr{end}") for row in models])
    best = {1: int(np.nanargmax(values))} if np.isfinite(values).any() else None
    judged = "the true target" if end else "clicks"
    notes = [
        f"MRR on {judged}. p: paired sign-flip test against the engine, Holm's correction over the models.",
        *more,
    ]
    return lay_table([*header, "seconds"] if timed else header, rows, notes=notes, best=best, simulated=made)


def _show_slices(
    slices: Sequence[Mapping[str, Any]], result: Mapping[str, Any], made: bool
) -> dict[str, Any]:
    drawn = list(slices)[:SHOWN]
    names = [say_kind(row) for row in drawn]
    losing = [bool(row.get("loses")) for row in drawn]
    means, lows, highs = (
        np.array([take_number(row, name) for row in drawn]) for name in ("difference", "low", "high")
    )
    words = [f"{take_number(row, 'searches'):,.0f}" for row in drawn]
    judged = name_measure(result, slices)
    figure = draw_intervals(
        names, means, lows, highs, marked=losing, line=0.0, words=words,
        xlabel=f"MRR ({judged}) of {find_default(result)} minus the engine's; beside it: searches",
    )  # fmt: skip
    red = " Red: loses." if any(losing) else ""
    text = (
        f"{say_slices(result)[0]}{red} A slice is known before anything is clicked. It loses if its whole "
        "95 % interval lies below zero, or its mean below −0.01. The worst comes first."
    )
    others = result.get("ngram_slices") or ()
    if others:
        lost = sum(bool(row.get("loses")) for row in others)
        text += f" The thesis' way, trees on n-grams, loses on {lost} of {len(others)}."
    header = ["slice", "value", "searches", "engine", "model", "difference", "95 % interval", ""]
    clicks = any(row.get("loses_clicks") is not None for row in slices)
    header += ["on clicks", "95 % interval", ""] if clicks else []
    rows = [
        (row.get("slice", ""), row.get("value", ""), f"{take_number(row, 'searches'):,.0f}",
         format_mean(take_number(row, "engine")), format_mean(take_number(row, "model")),
         format_difference(take_number(row, "difference")),
         format_interval(take_number(row, "low"), take_number(row, "high"), signed=True),
         "loses" if row.get("loses") else "", *(_tell_clicks(row) if clicks else ()))
        for row in slices
    ]  # fmt: skip
    return {
        "text": text,
        "figures": ((figure, ""),),
        "tables": (lay_table(header, rows, left=2, simulated=made),),
    }


def _tell_clicks(row: Mapping[str, Any]) -> tuple[str, str, str]:
    low, high = take_number(row, "low_clicks"), take_number(row, "high_clicks")
    return (
        format_difference(take_number(row, "difference_clicks")),
        format_interval(low, high, signed=True),
        "loses on clicks" if row.get("loses_clicks") else "",
    )


def _show_bands(bands: Sequence[Mapping[str, Any]], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    truth = any(row.get("engine_true") is not None for row in bands)
    old = any(row.get("ngrams") is not None for row in bands)
    tables: list[str] = []
    drawn: list[tuple[str, str]] = []
    for end, word in ([("_true", "true target")] if truth else []) + [("", "clicks")]:
        header = ["characters", "searches", "engine", "model", "difference", "95 % interval"]
        rows = []
        for row in bands:
            cells = [
                str(row.get("band")), f"{take_number(row, f'searches{end}'):,.0f}",
                format_mean(take_number(row, f"engine{end}")), format_mean(take_number(row, f"model{end}")),
                format_difference(take_number(row, f"difference{end}")),
                format_interval(take_number(row, f"low{end}"), take_number(row, f"high{end}"), signed=True),
            ]  # fmt: skip
            rows.append([*cells, format_mean(take_number(row, f"ngrams{end}"))] if old else cells)
        note = f"MRR on {'the true target' if end else 'clicks'}."
        tables.append(
            lay_table([*header, "n-grams only"] if old else header, rows, notes=[note], simulated=made)
        )
        if not drawn:
            means, lows, highs = (
                np.array([take_number(row, name + end) for row in bands])
                for name in ("difference", "low", "high")
            )
            names = [str(row.get("band")) for row in bands]
            words = [f"{take_number(row, f'searches{end}'):,.0f}" for row in bands]
            figure = draw_intervals(
                names, means, lows, highs, line=0.0, words=words, marked=(highs < 0).tolist(),
                xlabel=f"MRR ({word}) of {find_default(result)} minus the engine's; beside it: searches",
            )  # fmt: skip
            drawn.append((figure, "By the number of characters typed."))
    text = "The thesis' model gained on short queries and lost on long ones. The same question here."
    return {"text": text, "figures": tuple(drawn), "tables": tuple(tables)}


def _show_why(why: Any, result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    text = (
        "The same trees, with more and more of what n-grams cannot say: how popular and how far a place is, "
        "how query and name relate, what the engine thought, and searches weighed so that long queries count "
        "as much as short ones."
    )
    return {"text": text, "tables": lay_why(why, made)}


def _show_lengths(lengths: Mapping[str, Any], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    caption = "Boxes: quartiles and median of the query length where the clicked item stands at this rank."
    return {"figures": ((figures.draw_length_boxes(lengths), caption),)}


def _show_ranks(
    ranks: Mapping[str, Sequence[float]], result: Mapping[str, Any], made: bool
) -> dict[str, Any]:
    caption = "Bars: the model; red line: the engine. The last bar is everything below."
    rows = []
    for name, values in ranks.items():
        known = np.array([one for one in values if one], dtype=np.float64)
        if len(known):
            shares = [f"{100 * float((known <= depth).mean()):.1f} %" for depth in (1, 3, 10)]
            rows.append((name, f"{len(known):,}", *shares, f"{known.mean():.2f}"))
    header = ["model", "searches", "rank 1", "rank 3 or above", "rank 10 or above", "mean rank"]
    table = lay_table(header, rows, simulated=made)
    return {"figures": ((figures.draw_rank_panels(ranks, engine=ENGINE), caption),), "tables": (table,)}


def _show_depth(depth: Sequence[Mapping[str, Any]], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    rows = []
    for row in depth:
        engine, model, top = (take_number(row, name) for name in ("engine", "model", "oracle"))
        way = (model - engine) / (top - engine) if top > engine else math.nan
        cells = [format_mean(value) for value in (engine, model, top)]
        gone = "-" if math.isnan(way) else f"{way:.0%}".replace("-", "−")
        ends = format_interval(take_number(row, "low"), take_number(row, "high"), signed=True)
        rows.append([f"{take_number(row, 'k'):g}", *cells, format_difference(model - engine), ends, gone])
    header = ["re-ranked", "engine", "model", "ceiling", "gain", "95 % interval", "of the way to the ceiling"]
    text = (
        "A re-ranker can only order what the engine found. The ceiling is the best order there is: the place "
        "that was meant "
        "on top wherever it is among the results."
    )
    drawn = ((figures.draw_depth(depth), ""),)
    return {"text": text, "figures": drawn, "tables": (lay_table(header, rows, simulated=made),)}


def _show_no_location(parts: Mapping[str, Any], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    before = {str(row.get("name")): row for row in result.get("models") or ()}
    truth = any(part.get("mrr_true") is not None for part in parts.values())
    rows = []
    for name, part in parts.items():
        now, usual = take_number(part, "mrr"), take_number(before.get(name, {}), "mrr")
        cells = [name, format_mean(usual), format_mean(now), format_difference(now - usual)]
        if truth:
            real, was = take_number(part, "mrr_true"), take_number(before.get(name, {}), "mrr_true")
            cells += [format_mean(was), format_mean(real), format_difference(real - was)]
        rows.append(cells)
    kept = {
        f"{name}: MRR {format_mean(take_number(part, 'mrr'))}": part["ranks"]
        for name, part in parts.items()
        if part.get("ranks")
    }
    engine = next((name for name in kept if name.startswith(f"{ENGINE}: ")), ENGINE)
    drawn = ((figures.draw_rank_panels(kept, engine=engine), "Red line: the engine."),) if kept else ()
    text = (
        "Models were trained with locations; only the test's were taken away. The lists are those given then."
    )
    header = ["model", "MRR on clicks, with", "without", "change"]
    header += ["MRR on the true target, with", "without", "change"] if truth else []
    return {"text": text, "figures": drawn, "tables": (lay_table(header, rows, simulated=made),)}


def _show_tuned(tuned: Sequence[Mapping[str, Any]], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    rows = []
    for row in tuned:
        cells = [str(row.get("model"))]
        for name in ("default", "tuned"):
            ends = [take_number(row, f"{name}_{end}") for end in ("low", "high")]
            cells += [format_mean(take_number(row, name)), format_interval(*ends)]
        rows.append([*cells, format_difference(take_number(row, "tuned") - take_number(row, "default"))])
    header = ["model", "default", "95 % interval", "tuned", "95 % interval", "difference"]
    drawn = (
        (figures.draw_tuned(tuned), "Parameters were chosen on validation data; these are test searches."),
    )
    return {"figures": drawn, "tables": (lay_table(header, rows, simulated=made),)}


def _show_variants(
    variants: Sequence[Mapping[str, Any]], result: Mapping[str, Any], made: bool
) -> dict[str, Any]:
    drawn = (
        (
            figures.draw_ladder(
                variants, truth=knows_truth({"simulated": made, "models": variants}), engine=ENGINE
            ),
            "95 % intervals over searches.",
        ),
    )
    more = (say_steps(result), say_same(variants, ENGINE))
    return {"figures": drawn, "tables": _lay_models(variants, made, more)}


def _show_lines(told: Mapping[str, Any], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    rows = told["models"]
    ladder = figures.draw_ladder(rows, truth=knows_truth(result), ceiling=result.get("oracle"), engine=ENGINE)
    caption = f"95 % intervals over {'sessions' if say_sessions(result) else 'searches'}."
    chosen = [
        (str(row["name"]), f"{row['C']:g}" if row.get("C") else "", format_mean(take_number(row, "valid")))
        for row in rows
        if row.get("valid") is not None
    ]
    tables = _lay_models(rows, made, (say_beyond(result), say_same(rows, ENGINE)))
    header = ("model", "C", "MRR on validation")
    return {
        "text": f"Is a line over transformed features as good as trees and a network? {say_equal(result)}",
        "figures": ((ladder, caption),),
        "tables": (*tables, lay_table(header, chosen, simulated=made)),
    }


def _show_curves(curves: Mapping[str, Any], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    return {
        "figures": ((figures.draw_training_curves(curves), "Loss (left) and norm of the gradient (right)."),)
    }


def _show_importances(parts: Mapping[str, Any], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    text = "Gain of a LightGBM model whose n-grams are counted, not hashed, so that they keep their names."
    return {"text": text, "figures": ((figures.draw_heaviest(parts), ""),)}


def _show_types(types: Mapping[str, Any], result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    tables = lay_records(result.get("types_clicked") or (), made)
    text = (
        "By the type that was clicked, which nobody knows beforehand: to report, not to judge by."
        if tables
        else ""
    )
    return {"text": text, "figures": ((figures.draw_type_counts(types), ""),), "tables": tables}


def _show_unsuccessful(part: Any, result: Mapping[str, Any], made: bool) -> dict[str, Any]:
    return {
        "text": "What using them for training is worth: the thesis' last question.",
        "tables": lay_records(part, made),
    }


# -- the head -----------------------------------------------------------------------------------------


def _describe_study(result: Mapping[str, Any]) -> str:
    source = "a simulated log" if result.get("simulated") else "a log"
    text = f"Learning to rank behind a place-search engine, on {source}"
    counts = result.get("counts") or {}
    if counts.get("searches"):
        text += f" of {counts['searches']:,} searches"
    return f"{text}: what re-ranking gains, and where."


def _count_tiles(result: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    tiles = []
    models = {str(row.get("name")): row for row in result.get("models") or ()}
    end = "_true" if knows_truth(result) else ""
    word = "MRR on the true target" if end else "MRR on clicks"
    for name in (ENGINE, find_default(result)):
        if name in models and not math.isnan(take_number(models[name], f"mrr{end}")):
            row = models[name]
            ends = format_interval(take_number(row, f"low{end}"), take_number(row, f"high{end}"))
            tiles.append((format_mean(take_number(row, f"mrr{end}")), name, f"{word} {ends}"))
    if result.get("oracle") is not None:
        tiles.append((format_mean(float(result["oracle"])), "ceiling", "the best order there is"))
    slices = result.get("slices") or ()
    if slices:
        losing = sum(bool(row.get("loses")) for row in slices)
        seen = sum(bool(row.get("loses_clicks")) for row in slices)
        more = f"; on clicks {seen}" if seen else ""
        where = f"slices lose on {name_measure(result, slices)}"
        tiles.append((f"{losing} of {len(slices)}", where, f"worst: {say_slice(slices[0])}{more}"))
    if result.get("left_to_engine") is not None:
        tiles.append((f"{float(result['left_to_engine']):.1%}", "left in engine order", "by the guard"))
    return tiles


PANELS: tuple[tuple[str, str, str, str, Show], ...] = (  # key, heading, place in the thesis, if missing, how
    ("models", "The models", "Table 6.1", "The study trained no model.", _show_models),
    ("lines", "Lines, trees and network on the same features", "", "No line was fitted.", _show_lines),
    ("slices", "Where it wins and where it loses", "", "No slice was large enough to judge.", _show_slices),
    ("bands", "Short and long queries", "Table 6.4", "Lengths were not judged.", _show_bands),
    ("why", "Why long queries fail with n-grams", "", "This experiment was not run.", _show_why),
    ("lengths_by_rank", "Query length by rank", "Figure 6.16", "No lengths were kept.", _show_lengths),
    ("ranks", "Where the clicked item stands", "Figure 6.1", "No ranks were kept.", _show_ranks),
    ("depth", "How deep to re-rank, and the ceiling", "", "Depths were not tried.", _show_depth),
    ("no_location", "Without the user's location", "Figure 6.15", "This was not run.", _show_no_location),
    ("tuned", "Default against tuned", "Table 6.2", "Nothing was tuned.", _show_tuned),
    ("variants", "Networks", "Table 6.3", "No variants were trained.", _show_variants),
    ("curves", "Training of the networks", "Figures 6.5 to 6.14", "No curve was kept.", _show_curves),
    ("importances", "What the trees look at", "Figures 6.2, 6.3", "None were kept.", _show_importances),
    ("types", "Types shown and clicked", "Figure 6.4", "The places have no types.", _show_types),
    ("coverage", "A feature goes dark", "", "No feature was darkened.", lay_dark_feature),
    ("unsuccessful", "Searches without a click", "", "This experiment was not run.", _show_unsuccessful),
)
