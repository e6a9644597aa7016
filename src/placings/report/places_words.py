"""Sentences and cells of the places page: the verdict, names of slices, tables of whatever a study adds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from placings.evaluation.rendering import format_difference, format_interval, format_mean
from placings.report.panels import lay_table
from placings.report.places_figures import take_number

DEFAULT = "default re-ranker"
PRESET_STEPS = 15_000  # of the thesis' networks
MOST_NAMED = 6  # slices that lose, by name in a sentence
NOTABLE = 0.001  # MRR by which another model must be ahead to be told


def list_verdict(result: Mapping[str, Any], engine: str = "engine") -> list[str]:
    """What the study found, in sentences, the most important first; what was not measured is not told."""
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
    """As of when past clicks were counted in the test, which hangs on how sessions were dealt."""
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
