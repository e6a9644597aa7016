"""`coverage`: in which share of the events a feature has a value, the paper's FeCo."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.data.engines import Engine, Source, Table, opened
from placings.errors import BadInput, PlacingsWarning, option
from placings.feco.choices import Choice, check_column, choose_features
from placings.feco.counts import Tally, build_frame
from placings.feco.events import Unit, count_covered, parse_within
from placings.feco.intervals import find_quantile
from placings.feco.results import Coverage
from placings.feco.rules import LEARNED, Rule, as_number, covered_where, find_rules, learn_thresholds
from placings.feco.windows import Cut, as_second, make_cut, parse_window, read_seconds

if TYPE_CHECKING:
    from placings.feco.sampling import Plan

OWN_COLUMNS = ("feature", "window", "coverage", "low", "high", "events", "covered")


def coverage(
    table: Table,
    features: str | Sequence[str] | None = None,
    *,
    rule: Any = "non_zero",
    event: str | None = None,
    within: str | int = "any",
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    window: str = "1d",
    zone: str | None = None,
    since: Any = None,
    until: Any = None,
    position: str | None = None,
    label: str | None = None,
    ignore: Iterable[str] = (),
    bundle: Any = None,
    reference: Table | None = None,
    sample: Plan | None = None,
    level: float = 0.95,
    absent: str = "error",
    engine: Engine = None,
) -> Coverage:
    """FeCo of each feature: the share of events in which it is covered, with an interval.

    `FeCo_f = |events in which f is covered| / |events|`. NULL and NaN are never covered.

    - `table`, `engine`: see `open_table`. One aggregate over the table answers for all features.
    - `features`: a list, None for every numeric column that plays no other part (`ignore` names more that
      are none), or "top:20", the most important ones of `bundle` (a saved ranker's folder, a ranker, an
      Importance).
    - `rule`: "non_zero", "positive" (> 0, the paper's equation 2), "non_null", a number t (> t), "mean",
      "median" (above the feature's own, in `reference` or, without it, in the table), or per feature: a
      mapping, a YAML or JSON file, a saved ranker's folder.
    - `event`: the column that says which rows belong together, such as a search id. Without it each row is
      an event. `within`: an event is covered if "any" or "all" of its rows are; 5 or "top:5" looks at
      the rows at `position` 1 to 5 only ("all top:5" asks all of them; an event without such rows is not
      counted); "rows" gives the share of rows, with an interval that knows that lists hang together.
    - `by`: columns of segments. A segment of items splits an event's rows. The position's column gives
      coverage by position.
    - `time`, `window`, `zone`: windows of "10m", "1h", "1d", "1w" …; an event's time is that of its first
      row. Naive times are UTC. `zone` says where days begin. `since` and `until` (not included) keep
      rows of that time, and have windows without events said.
    - `sample`: a `Plan`; only the events that it picks are counted.
    - `absent`: a named feature that is no column of the table is an "error", or counts as "dark", covered
      in no event. If none is a column, nor any other column is named, it is an error in any case.

    Intervals are Wilson's at `level`, over events; for "rows" see `cluster_interval`. An empty table, or a
    window without events, has coverage NaN and 0 events. Columns left out of the features, thresholds and
    what else was noticed are in the result; what looks wrong is a PlacingsWarning too.

    >>> log = {"search": [1, 1, 2, 2], "clicks": [0.0, 3.0, 0.0, float("nan")]}
    >>> coverage(log, event="search").to_pandas()[["feature", "coverage", "events"]].values.tolist()
    [['clicks', 0.5, 2]]
    >>> coverage(log, "clicks")["clicks"]
    0.25

    Gope, Sugandharaju, Kotalwar and Salaka, "Measuring Feature Quality for Improved Ranking
    Performance", SIGIR eCom 2023.
    """
    find_quantile(level)
    parse_window(window)
    with opened(table, engine) as source:
        segments = _name_segments(source, by, position)
        parts = _name_parts(source, event, time, segments, label, position)
        unit = parse_within(within, event, position)
        chosen = choose_features(source, features, parts, bundle=bundle, ignore=ignore, absent=absent)
        known = find_rules(rule, [*source.table.columns, *chosen.absent])
        rules = {name: known[name] for name in chosen.features}
        rows = _keep_rows(source, time, since, until, zone)
        if sample is not None:
            rows = _take_sample(rows, sample, time, event, zone, source)
        cut, seconds = _cut_time(source, rows, time, window, zone)
        there = {name: one for name, one in rules.items() if name not in chosen.absent}
        thresholds = _find_thresholds(source, rows, there, reference, engine)
        some = rows[rows.columns[0]]
        nowhere = some.isnull() & some.notnull()  # a column that is false in every row
        conditions = [
            nowhere
            if name in chosen.absent
            else rows[name].notnull()
            if name in chosen.hollow
            else covered_where(rows[name], one, thresholds.get(name))
            for name, one in rules.items()
        ]
        positive = [
            n
            for n, name in enumerate(rules)
            if name in there and rules[name] == "positive" and name not in chosen.hollow
        ]
        signed = {n: as_number(rows[chosen.features[n]]) for n in positive}
        asked = count_covered(
            rows, conditions, unit, by=segments, seconds=seconds, cut=cut,
            signed={n: column for n, column in signed.items() if column is not None},
        )  # fmt: skip
        ends = tuple(None if end is None else int(as_second(end, "until", zone)) for end in (since, until))
        tally = build_frame(
            source.ask(asked), chosen.features, segments, cut,
            clustered=unit.within == "rows", ends=(ends[0], ends[1]), level=level,
        )  # fmt: skip
        _refuse_position(tally, unit)
        dark = _describe_dark(source, rows, chosen, rules, tally)
        return _finish(source, chosen, rules, thresholds, segments, unit, cut, window, level, tally, dark)


# -- the parts of columns -----------------------------------------------------------------------------


def _name_segments(source: Source, by: Any, position: str | None) -> tuple[str, ...]:
    names = () if by is None else (by,) if isinstance(by, str) else tuple(by)
    if position is not None:  # by="position" means the column that plays it
        names = tuple(position if n == "position" and n not in source.table.columns else n for n in names)
    for name in names:
        check_column(source, name, "by")
        if name in OWN_COLUMNS:
            raise BadInput(
                f"by must not name a column {name!r}: the result has one of that name. Rename the segment."
            )
    if len(set(names)) != len(names):
        raise BadInput(f"by must name each column once. Got {list(names)!r}.")
    return names


def _name_parts(
    source: Source,
    event: str | None,
    time: str | None,
    segments: Sequence[str],
    label: str | None,
    position: str | None,
) -> dict[str, str]:
    parts: dict[str, str] = {}
    for part, column in (("event", event), ("time", time), ("label", label), ("position", position)):
        if column is not None:
            name = check_column(source, column, part)
            if name in parts:
                raise BadInput(f"a column plays one part. {name!r} is named as {parts[name]} and as {part}.")
            parts[name] = part
    for name in segments:
        if name == event:
            raise BadInput(f"by and event must be different columns. Got {name!r} for both.")
        parts.setdefault(name, "by")
    if position is not None and not source.table[position].type().is_numeric():
        raise BadInput(
            f"the position column {position!r} must be numbers. Got {source.table[position].type()}."
        )
    return parts


def _refuse_position(tally: Tally, unit: Unit) -> None:
    if unit.top is not None and tally.first_position < 1:
        raise BadInput(
            f"position must count from 1, the first row shown. Got {tally.first_position:g} in column "
            f"{unit.position!r}. Add 1 to it."
        )


# -- rows and time --------------------------------------------------------------------------------------


def _keep_rows(source: Source, time: str | None, since: Any, until: Any, zone: str | None) -> Any:
    import ibis

    rows = source.table
    if since is None and until is None:
        return rows
    if time is None:
        raise BadInput(f"since and until need {option('time')} with the column that says when.")
    read_seconds(rows[time])  # refuses what is no time
    first = None if since is None else as_second(since, "since", zone)
    last = None if until is None else as_second(until, "until", zone)
    if first is not None and last is not None and first >= last:
        raise BadInput(f"since must lie before until. Got {since!r} and {until!r}.")

    def moment(second: float) -> Any:
        kind = "timestamp('UTC')" if rows[time].type().is_unknown() else rows[time].type()
        if not isinstance(kind, str) and kind.is_date():
            kind = "timestamp"
        return ibis.literal(datetime.fromtimestamp(second, UTC).replace(tzinfo=None)).cast(kind)

    when = rows[time]
    when = when.cast("timestamp('UTC')") if when.type().is_unknown() else when
    when = when.cast("timestamp") if when.type().is_date() else when
    if first is not None:
        rows = rows.filter(when >= moment(first))
    return rows if last is None else rows.filter(when < moment(last))


def _cut_time(
    source: Source, rows: Any, time: str | None, window: str, zone: str | None
) -> tuple[Cut | None, Any]:
    if time is None:
        if zone is not None:
            make_cut(window, zone, None)
        return None, None
    seconds = read_seconds(rows[time])
    span = None
    if zone is not None and zone != "UTC":  # when clocks change is looked up for the time of the data
        ends = source.ask(rows.aggregate(first=seconds.min(), last=seconds.max())).iloc[0]
        span = None if ends.isna().any() else (int(ends["first"]), int(ends["last"]))
    return make_cut(window, zone, span), seconds


def _take_sample(
    rows: Any, sample: Plan, time: str | None, event: str | None, zone: str | None, source: Source
) -> Any:
    from placings.feco.sampling import pick_events

    if time is None or event is None:
        raise BadInput(
            f"a sample is drawn from events over the day. Pass {option('time')} and {option('event')}."
        )
    return pick_events(rows, sample, time=time, event=event, zone=zone, source=source)


# -- rules ------------------------------------------------------------------------------------------------


def _find_thresholds(
    source: Source, rows: Any, rules: Mapping[str, Rule], reference: Table | None, engine: Engine
) -> dict[str, float]:
    learned = {name: rule for name, rule in rules.items() if rule in LEARNED}
    if not learned:
        return {}
    if reference is None:
        return learn_thresholds(source, rows, learned)
    with opened(reference, engine) as other:
        for name in learned:
            check_column(other, name, "reference")
        return learn_thresholds(other, other.table, learned)


def _describe_dark(
    source: Source, rows: Any, choice: Choice, rules: Mapping[str, Rule], tally: Tally
) -> list[str]:
    """Which features that are covered nowhere have no value at all; their columns alone are read again."""
    if not tally.frame["events"].any():
        return []
    dark = [
        name
        for name, total in zip(choice.features, tally.totals, strict=True)
        if total == 0 and name not in choice.absent
    ]
    asked = {
        f"v{n}": covered_where(rows[name], "non_null").cast("int8").max()
        for n, name in enumerate(dark)
        if rules[name] != "non_null" and name not in choice.hollow
    }
    found: Any = source.ask(rows.aggregate(**asked)).iloc[0] if asked else {}
    hollow = [name for n, name in enumerate(dark) if f"v{n}" not in asked or not _is_true(found[f"v{n}"])]
    seen = [name for name in dark if name not in hollow]
    said = []
    if hollow:
        said.append(f"Without a single value (NULL or NaN everywhere): {', '.join(map(repr, hollow[:20]))}.")
    if seen:
        said.append(f"With values, but covered nowhere: {', '.join(map(repr, seen[:20]))}.")
    return said


def _is_true(value: Any) -> bool:
    return value is not None and not np.isnan(float(value)) and bool(value)


def _finish(
    source: Source,
    choice: Choice,
    rules: Mapping[str, Rule],
    thresholds: Mapping[str, float],
    segments: tuple[str, ...],
    unit: Unit,
    cut: Cut | None,
    window: str,
    level: float,
    tally: Tally,
    dark: Sequence[str],
) -> Coverage:
    frame, features, left = tally.frame, choice.features, dict(choice.left_out)
    totals = dict(zip(features, tally.totals, strict=True))
    text = [name for name in choice.hollow if totals[name]]
    if text:  # CSV: it has values, so it is text and no feature
        features = tuple(name for name in features if name not in text)
        left |= dict.fromkeys(text, "text")
        frame = frame[~frame["feature"].isin(text)].reset_index(drop=True)
        if not features:
            raise BadInput(f"{source.name} has no numeric column that could be a feature, only text.")
    negative = [choice.features[n] for n, value in tally.lowest.items() if value < 0]
    warned = list(tally.warnings)
    if negative:
        shown = ", ".join(map(repr, negative[:8])) + (" …" if len(negative) > 8 else "")
        warned.append(
            f"{len(negative)} features have negative values, which the rule 'positive' never counts as "
            f"covered: {shown}. Use {option('rule', value='non_zero')} for signed features."
        )
    for message in warned:
        warnings.warn(message, PlacingsWarning, stacklevel=3)
    return Coverage(
        frame, features, left, {name: rules[name] for name in features},
        {name: value for name, value in thresholds.items() if name in features}, segments, unit.describe(),
        window if cut is not None else None, cut.zone if cut is not None else "UTC", level, source.engine,
        (*choice.notes, *warned, *tally.notes, *dark), choice.absent,
    )  # fmt: skip
