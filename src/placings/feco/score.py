"""`coverage`: in which share of the events a feature has a value, the paper's FeCo."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    Cell,
    Floats,
    Grid,
    PlacingsWarning,
    Shown,
    UnknownName,
    check_name,
    cluster_interval,
    find_quantile,
    option,
    render_grid,
    take_renamed,
    wilson_interval,
)
from placings.data import Backend, OpenedTable, Table, opened
from placings.feco.choices import ChosenFeatures, check_column, choose_features
from placings.feco.rules import (
    LEARNED,
    Rule,
    as_numeric,
    covered_where,
    describe_rule,
    find_rules,
    learn_thresholds,
)
from placings.feco.windows import Windowing, as_second, make_cut, parse_window, read_seconds

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco.sampling import SamplingPlan

WITHIN = ("any", "all", "rows")


@dataclass(frozen=True)
class Unit:
    """What is counted: rows, or events of which any, all, or the first rows must have the feature.

    `top` keeps the rows at positions 1 to top; `within` "rows" counts rows but remembers their events.
    """

    event: str | None
    within: str = "any"
    top: int | None = None
    position: str | None = None

    def describe(self) -> str:
        """In words, for tables."""
        first = "" if self.top is None else f" of the first {self.top}"
        if self.event is None or self.within == "rows":
            return "row" + (f" at positions 1 to {self.top}" if self.top else "")
        return {
            "any": f"event, covered if any row{first} is",
            "all": f"event, covered if all rows{first} are",
        }[self.within]


def parse_within(within: Any, event: str | None, position: str | None) -> Unit:
    """`within` as "any", "all", "rows", a number k or "top:5" ("all top:5" asks all of them).

    >>> parse_within("top:5", "search", "rank")
    Unit(event='search', within='any', top=5, position='rank')
    """
    kind, top = within, None
    if isinstance(within, int) and not isinstance(within, bool):
        kind, top = "any", within
    elif isinstance(within, str) and "top:" in within:
        kind, _, number = within.partition("top:")
        kind = kind.strip() or "any"
        top = int(number) if number.strip().isdigit() else 0
    if kind not in WITHIN or (top is not None and top < 1):
        raise BadInput(
            f"within must be 'any', 'all', 'rows', a number of rows such as 5, 'top:5' or 'all top:5'. "
            f"Got {within!r}."
        )
    if top is not None and position is None:
        raise BadInput(
            f"{option('within', value=within)} needs {option('position')} with the column that says "
            "the order shown."
        )
    if kind == "rows" and event is None:
        kind = "any"  # each row is an event already
    return Unit(event, kind, top, position)


def count_covered(
    table: Any,
    conditions: Sequence[Any],
    unit: Unit,
    *,
    by: Sequence[str],
    seconds: Any = None,
    cut: Windowing | None = None,
    signed: Mapping[int, Any] | None = None,
) -> Any:
    """The counts as one Ibis aggregate.

    Columns: `by0, by1, …` the segments, `window` (with a cut), `lost` (rows whose event is not known),
    `events`, `rows`, `covered0, covered1, …`; with events and windows `strays` (events whose rows lie
    in several windows); with positions `first_position` and, with events, `repeats` (rows that share
    event and position); `lowest0, …` of `signed` columns; with "rows" the sums of squares and products
    that `cluster_interval` needs.
    """
    if unit.top is not None:
        at = table[unit.position]
        table = table.filter(at.isnull() | (at <= unit.top))
    keys = {f"by{place}": table[name] for place, name in enumerate(by)}
    lowest = {f"lowest{place}": column.min() for place, column in (signed or {}).items()}
    if unit.position is not None:
        lowest["first_position"] = table[unit.position].min()
    if unit.event is None:
        if cut is not None:
            keys["window"] = cut.key(seconds)
        sums = {"events": table.count(), "rows": table.count()}
        sums |= {f"covered{place}": _count(where) for place, where in enumerate(conditions)}
        return _group(table, keys).aggregate(**sums, **lowest)
    return _count_events(
        _gather(table, conditions, unit, keys, seconds, lowest), unit, keys, cut, len(conditions)
    )


def gather_events(
    table: Any, conditions: Sequence[Any], unit: Unit, seconds: Any, given: Sequence[str]
) -> Any:
    """One row an event: `event`, `first` (its time), `covered0, …`, and a value of each column `given`."""
    if unit.top is not None:
        at = table[unit.position]
        table = table.filter(at.isnull() | (at <= unit.top))
    facts = {f"given{place}": table[name].min() for place, name in enumerate(given)}
    gathered = _gather(table, conditions, Unit(unit.event, unit.within), {}, seconds, facts)
    return gathered.drop("rows", "last")


def _gather(
    table: Any,
    conditions: Sequence[Any],
    unit: Unit,
    keys: Mapping[str, Any],
    seconds: Any,
    lowest: Mapping[str, Any],
) -> Any:
    """One row an event (and segment): its rows, its time, and for each feature whether or how often."""
    facts: dict[str, Any] = {"rows": table.count(), **lowest}
    if seconds is not None:
        facts |= {"first": seconds.min(), "last": seconds.max()}
    if unit.position is not None:
        at = table[unit.position]
        facts["repeats"] = at.count() - at.nunique()
    for place, where in enumerate(conditions):
        if unit.within == "rows":
            facts[f"covered{place}"] = _count(where)
        elif unit.within == "all":
            facts[f"covered{place}"] = where.fill_null(False).all()
        else:
            facts[f"covered{place}"] = where.any()
    return table.group_by(event=table[unit.event], **keys).aggregate(**facts)


def _count_events(
    gathered: Any, unit: Unit, keys: Mapping[str, Any], cut: Windowing | None, width: int
) -> Any:
    event = gathered.event
    lost = event.isnull() | event.isnan() if event.type().is_floating() else event.isnull()
    groups = {name: gathered[name] for name in keys} | {"lost": lost}
    sums: dict[str, Any] = {"events": gathered.count(), "rows": gathered.rows.sum()}
    if cut is not None:
        groups["window"] = cut.key(gathered["first"])
        sums["strays"] = _count(cut.key(gathered["last"]) != groups["window"])
    if unit.position is not None:
        sums["first_position"] = gathered.first_position.min()
        sums["repeats"] = gathered.repeats.sum()
    for name in gathered.columns:
        if name.startswith("lowest"):
            sums[name] = gathered[name].min()
    if unit.within == "rows":
        sums["rows_squares"] = _square(gathered.rows, gathered.rows)
    for place in range(width):
        covered = gathered[f"covered{place}"]
        if unit.within == "rows":
            sums[f"covered{place}"] = covered.sum()
            sums[f"squares{place}"] = _square(covered, covered)
            sums[f"products{place}"] = _square(covered, gathered.rows)
        else:
            sums[f"covered{place}"] = _count(covered)
    return gathered.group_by(**groups).aggregate(**sums)


def _group(table: Any, keys: Mapping[str, Any]) -> Any:
    return table.group_by(**keys) if keys else table


def _count(where: Any) -> Any:
    """How often a condition is true; faster on DuckDB than a filtered count or a sum."""
    import ibis

    return where.ifelse(ibis.literal(1, "int8"), ibis.null("int8")).count()


def _square(left: Any, right: Any) -> Any:
    """Sums of products in float64, which whole numbers of this size fit exactly."""
    return (left.cast("float64") * right.cast("float64")).sum()


LARGEST_GRID = 2_000_000  # rows of a frame whose gaps are still filled
NO_SEGMENT = "(none)"


@dataclass(frozen=True)
class CoverageTally:
    """The coverage frame, and the notes and warnings on how it came to be."""

    frame: pd.DataFrame
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    totals: Floats  # [features] covered, over everything
    lowest: dict[int, float]
    first_position: float


def build_coverage(
    answer: pd.DataFrame,
    features: Sequence[str],
    by: Sequence[str],
    cut: Windowing | None,
    *,
    clustered: bool,
    ends: tuple[int | None, int | None] = (None, None),
    level: float = 0.95,
) -> CoverageTally:
    """The coverage frame of what `count_covered` answered.

    Columns: `feature`, the segments, `window` (start, UTC, without a zone; only with a cut), `coverage`,
    `low`, `high`, `events`, `covered`. Every segment has a row for every window from the first to the last
    (or `ends`, seconds, the second not included); without events its coverage is NaN.
    """
    import pandas as pd

    notes: list[str] = []
    warned: list[str] = []
    lowest = {
        int(name.removeprefix("lowest")): float(pd.to_numeric(answer[name]).min())
        for name in answer.columns
        if name.startswith("lowest")
    }
    first = float(pd.to_numeric(answer["first_position"]).min()) if "first_position" in answer else np.nan
    answer, dropped = _drop_lost(answer, cut)
    warned += dropped
    warned += _tell_doubles(answer)
    if not len(answer) and not by and cut is None:
        answer = pd.DataFrame({name: [0] for name in answer.columns})
    keys = [f"by{place}" for place in range(len(by))]
    answer = answer.assign(**{key: _name_missing(answer[key]) for key in keys})
    if cut is not None:
        answer = answer.assign(window=answer["window"].astype("int64"))
        answer, said = _fill(answer, keys, cut, ends, len(features))
        notes += said
        keys = [*keys, "window"]
    if keys:
        answer = answer.sort_values(keys, kind="stable")
    events = _numbers(answer["events"])
    columns: dict[str, Any] = {"feature": np.repeat(np.array(features, dtype=object), len(answer))}
    for place, name in enumerate(by):
        columns[name] = np.tile(answer[f"by{place}"].to_numpy(), len(features))
    if cut is not None:
        columns["window"] = np.tile(cut.starts(answer["window"].to_numpy(dtype=np.int64)), len(features))
    shares = [_share(answer, place, events, clustered, level) for place in range(len(features))]
    for number, name in enumerate(("coverage", "low", "high")):
        columns[name] = np.concatenate([share[number] for share in shares])
    columns["events"] = np.tile(events.astype(np.int64), len(features))
    covered = np.concatenate([share[3] for share in shares])
    columns["covered"] = covered if clustered else covered.astype(np.int64)
    totals = np.array([_numbers(answer[f"covered{place}"]).sum() for place in range(len(features))])
    if not events.sum():
        warned.append("There is no event to count: every coverage is unknown (NaN).")
    return CoverageTally(pd.DataFrame(columns), tuple(notes), tuple(warned), totals, lowest, first)


def _share(
    answer: pd.DataFrame, place: int, events: Floats, clustered: bool, level: float
) -> tuple[Floats, Floats, Floats, Floats]:
    """Coverage, its interval, and how many events are covered `[groups]`."""
    covered = _numbers(answer[f"covered{place}"])
    with np.errstate(invalid="ignore", divide="ignore"):
        if not clustered:
            return (covered / events, *wilson_interval(covered, events, level=level), covered)
        rows = _numbers(answer["rows"])
        squares, products = _numbers(answer[f"squares{place}"]), _numbers(answer[f"products{place}"])
        sizes = _numbers(answer["rows_squares"])
        low, high = cluster_interval(covered, rows, squares, products, sizes, events, level=level)
        share = covered / rows
        return share, low, high, np.nan_to_num(share * events)


def _numbers(column: Any) -> Floats:
    """Counts as float64, absent ones 0; engines give whole numbers, decimals or NaN."""
    import pandas as pd

    return np.nan_to_num(np.asarray(pd.to_numeric(column), dtype=np.float64))


def _drop_lost(answer: pd.DataFrame, cut: Windowing | None) -> tuple[pd.DataFrame, list[str]]:
    warned = []
    if "lost" in answer:
        lost = answer["lost"].astype(bool)
        if lost.any():
            warned.append(
                f"{int(_numbers(answer['rows'][lost]).sum()):,} rows have no event id and are left out."
            )
        answer = answer[~lost]
    if cut is not None:
        late = answer["window"].isna()
        if late.any():
            warned.append(
                f"{int(_numbers(answer['rows'][late]).sum()):,} rows have no time and are left out."
            )
        answer = answer[~late]
    return answer, warned


def _tell_doubles(answer: pd.DataFrame) -> list[str]:
    warned = []
    strays = int(_numbers(answer["strays"]).sum()) if "strays" in answer else 0
    if strays:
        warned.append(
            f"{strays:,} events have rows in several windows (an id used again, or a list logged twice); "
            "each counts once, in the window of its first row."
        )
    repeats = int(_numbers(answer["repeats"]).sum()) if "repeats" in answer else 0
    if repeats:
        warned.append(
            f"{repeats:,} rows share event and position with another (logged twice?); an event counts once "
            "all the same, but shares of rows count them twice."
        )
    return warned


def _name_missing(column: Any) -> Any:
    """A segment without a value as "(none)", so that no later grouping loses it."""
    if not column.isna().any():
        return column
    return column.astype(object).where(column.notna(), NO_SEGMENT).map(str)


def _fill(
    answer: pd.DataFrame, keys: Sequence[str], cut: Windowing, ends: tuple[int | None, int | None], width: int
) -> tuple[pd.DataFrame, list[str]]:
    """Rows without events for windows that a segment lacks, and which windows nobody has."""
    import pandas as pd

    present = answer["window"].to_numpy(dtype=np.int64)
    since, until = ends
    firsts = [*([cut.key_of(since)] if since is not None else []), *present[:0], *_ends(present)[:1]]
    lasts = [*([cut.key_of(until - 1)] if until is not None else []), *_ends(present)[1:]]
    if not firsts or not lasts:
        return answer, []
    windows = cut.keys_between(min(firsts), max(lasts))
    notes = []
    absent = sorted(set(windows) - set(present.tolist()))
    if absent:
        shown = ", ".join(str(start)[:16] for start in cut.starts(np.array(absent[:5])))
        more = f" and {len(absent) - 5} more" if len(absent) > 5 else ""
        notes.append(f"Windows without an event (start in UTC): {shown}{more}.")
    segments = answer[list(keys)].drop_duplicates() if keys else pd.DataFrame(index=[0])
    if len(segments) * len(windows) * width > LARGEST_GRID:
        return answer, [
            *notes,
            "Segments have rows only for windows with events: there are too many to fill.",
        ]
    grid = segments.merge(pd.DataFrame({"window": windows}), how="cross")
    return grid.merge(answer, on=[*keys, "window"], how="left"), notes


def _ends(values: AnyArray) -> list[int]:
    return [int(values.min()), int(values.max())] if len(values) else []


BAR = 20  # letters of a full bar
EIGHTHS = " ▏▎▍▌▋▊▉"
LEVELS = "▁▂▃▄▅▆▇█"
LONGEST_LINE = 30  # windows of a sparkline
SHOWN = 40
SORTS = ("dark", "order")
DARK = "The darkest first: what fell lately, lies below its other segments or has no value; then the rest."


@dataclass(frozen=True, eq=False, repr=False)
class Coverage(Shown):
    """The share of events in which each feature is covered, by segment and window.

    `to_pandas()` is the coverage frame. `features` were counted, by the `rules` and `thresholds` (what
    "mean" and "median" came to); `left_out` says why other columns were not, and `notes` what else there
    is to know. `coverage["price"]` is one feature's share over all segments and windows.
    """

    frame: pd.DataFrame
    features: tuple[str, ...]
    left_out: Mapping[str, str]
    rules: Mapping[str, Rule]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    unit: str = "row"
    window: str | None = None
    zone: str = "UTC"
    level: float = 0.95
    engine: str = "duckdb"
    notes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()  # features that are no column of the table

    def to_pandas(self) -> pd.DataFrame:
        """The coverage frame (a copy): feature, segments, window, coverage, low, high, events, covered."""
        return self.frame.copy()

    @property
    def percent(self) -> pd.DataFrame:
        """The frame with coverage, low and high in percent: FeCo as the paper prints it."""
        shares = ["coverage", "low", "high"]
        return self.frame.assign(**{name: 100.0 * self.frame[name] for name in shares})

    def __getitem__(self, feature: str) -> float:
        if feature not in self.features:
            raise UnknownName("feature", str(feature), self.features)
        return _pool(self.frame[self.frame["feature"] == feature])

    def __len__(self) -> int:
        return len(self.features)

    def table(self, format: str = "text", *, top: int | None = SHOWN, sort: str = "dark") -> str:
        """One line a feature and segment, with a bar, and a sparkline over windows ("·" without events).

        The dark ones come first: what fell lately, lies below the feature's other segments or has no value
        at all, then the least covered; `sort="order"` keeps the order of the columns. `top` keeps this many
        lines of the table (None: all); `format` is "text", "markdown", "latex" or "html".
        """
        check_name("order", sort, SORTS)
        keys = ["feature", *self.by]
        timed = "window" in self.frame
        rows = []
        groups = list(self.frame.groupby(keys, sort=False, dropna=False))
        count = len(groups)
        if sort == "dark":
            groups = self._sort_dark(groups)
        for names, part in groups[:top]:
            share = _pool(part)
            cells = [*map(str, names), draw_bar(share), _percent(share)]
            if timed:
                cells += [draw_line(part["coverage"].to_numpy(dtype=np.float64))]
                cells += [_percent(float(part["coverage"].iloc[-1]))]
            else:
                cells += [f"{_percent(float(part['low'].iloc[0]))} – {_percent(float(part['high'].iloc[0]))}"]
            cells += [f"{int(part['events'].sum()):,}"]
            rows.append(tuple(map(Cell, cells)))
        middle = (f"over {self.window} windows", "last") if timed else (f"{100 * self.level:g} % interval",)
        header = (*keys, "", "coverage", *middle, "events")
        more = (f"And {count - len(rows):,} lines more.",) if count > len(rows) else ()
        more = (DARK, *more) if sort == "dark" and len(rows) > 1 else more
        grid = Grid(header, tuple(rows), (*more, *self._describe(), *self.notes), left=len(keys) + 1)
        return render_grid(grid, format)

    def _sort_dark(self, groups: list[Any]) -> list[Any]:
        from placings.feco.darkness import measure_darkness

        dark = measure_darkness(self.frame, self.by)

        def place(group: Any) -> tuple[float, float]:
            names, part = group
            line = tuple(None if name is None or name != name else name for name in names)
            share = _pool(part)
            return -dark.get(line, 0.0), 1.0 if math.isnan(share) else share

        return sorted(groups, key=place)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; windows are ISO text in UTC."""
        frame = self.frame
        if "window" in frame:
            frame = frame.assign(window=frame["window"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return {
            "features": list(self.features), "left_out": dict(self.left_out), "rules": dict(self.rules),
            "thresholds": dict(self.thresholds), "by": list(self.by), "unit": self.unit,
            "window": self.window, "zone": self.zone, "level": self.level, "engine": self.engine,
            "absent": list(self.absent), "notes": list(self.notes),
            "rows": [{str(k): _plain(v) for k, v in row.items()} for row in frame.to_dict("records")],
        }  # fmt: skip

    def _describe(self) -> Sequence[str]:
        """The rules and the unit in words; the rule of most features is said once."""
        words = {name: describe_rule(self.rules[name], self.thresholds.get(name)) for name in self.features}
        counts: dict[str, int] = {}
        for word in words.values():
            counts[word] = counts.get(word, 0) + 1
        usual = max(counts, key=lambda word: counts[word]) if counts else ""
        others = [f"{name} {word}" for name, word in words.items() if word != usual]
        text = f"Covered: {usual}" + (f"; {_list(others)}" if others else "") + f". Unit: {self.unit}."
        left = [f"{name} ({why})" for name, why in self.left_out.items()]
        counted = f"{len(self.features)} features" if len(self.features) != 1 else "1 feature"
        return [
            text,
            f"{counted}: {_list(list(self.features))}." + (f" Left out: {_list(left)}." if left else ""),
        ]


def draw_bar(share: float, width: int = BAR) -> str:
    """A bar of eighths of a letter; a share that is not 0 is never drawn as nothing.

    >>> draw_bar(0.53, 10)
    '█████▎'
    """
    if math.isnan(share):
        return "?"
    eighths = round(share * width * 8)
    if share > 0 and not eighths:
        eighths = 1
    if share < 1 and eighths == width * 8:
        eighths -= 1
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def draw_line(shares: Floats, width: int = LONGEST_LINE) -> str:
    """A sparkline from 0 to 1 of the last `width` windows; "·" where there were no events.

    >>> draw_line(np.array([0.0, 0.5, np.nan, 1.0]))
    '▁▅·█'
    """
    return "".join("·" if np.isnan(share) else LEVELS[min(int(share * 8), 7)] for share in shares[-width:])


def _pool(part: pd.DataFrame) -> float:
    events = float(part["events"].sum())
    return float(part["covered"].sum()) / events if events else math.nan


def _percent(share: float) -> str:
    """One digit after the point; what is not all is never printed as 100, nor what is not none as 0."""
    if math.isnan(share):
        return "-"
    if 0.0 < share < 0.0005:
        return "<0.1 %"
    return f"{min(100 * share, 99.9) if share < 1.0 else 100.0:.1f} %"


def _list(names: Sequence[str], shown: int = 8) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


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
    sample: SamplingPlan | None = None,
    level: float = 0.95,
    absent: str = "error",
    engine: Backend = None,
    backend: Backend = None,
) -> Coverage:
    """FeCo of each feature: the share of events in which it is covered, with an interval.

    `FeCo_f = |events in which f is covered| / |events|`. NULL and NaN are never covered.

    - `table`, `backend`: see `open_table`. One aggregate over the table answers for all features.
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
    - `sample`: a `SamplingPlan`; only the events that it picks are counted.
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
    backend = take_renamed("coverage", "backend", backend, "engine", engine)
    find_quantile(level)
    parse_window(window)
    with opened(table, backend) as source:
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
        thresholds = _find_thresholds(source, rows, there, reference, backend)
        some = rows[rows.columns[0]]
        nowhere = some.isnull() & some.notnull()  # a column that is false in every row
        conditions = [
            nowhere
            if name in chosen.absent
            else rows[name].notnull()
            if name in chosen.valueless
            else covered_where(rows[name], one, thresholds.get(name))
            for name, one in rules.items()
        ]
        positive = [
            n
            for n, name in enumerate(rules)
            if name in there and rules[name] == "positive" and name not in chosen.valueless
        ]
        signed = {n: as_numeric(rows[chosen.features[n]]) for n in positive}
        asked = count_covered(
            rows, conditions, unit, by=segments, seconds=seconds, cut=cut,
            signed={n: column for n, column in signed.items() if column is not None},
        )  # fmt: skip
        ends = tuple(None if end is None else int(as_second(end, "until", zone)) for end in (since, until))
        tally = build_coverage(
            source.ask(asked), chosen.features, segments, cut,
            clustered=unit.within == "rows", ends=(ends[0], ends[1]), level=level,
        )  # fmt: skip
        _refuse_position(tally, unit)
        dark = _describe_dark(source, rows, chosen, rules, tally)
        return _finish(source, chosen, rules, thresholds, segments, unit, cut, window, level, tally, dark)


# -- the parts of columns -----------------------------------------------------------------------------


def _name_segments(source: OpenedTable, by: Any, position: str | None) -> tuple[str, ...]:
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
    source: OpenedTable,
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


def _refuse_position(tally: CoverageTally, unit: Unit) -> None:
    if unit.top is not None and tally.first_position < 1:
        raise BadInput(
            f"position must count from 1, the first row shown. Got {tally.first_position:g} in column "
            f"{unit.position!r}. Add 1 to it."
        )


# -- rows and time --------------------------------------------------------------------------------------


def _keep_rows(source: OpenedTable, time: str | None, since: Any, until: Any, zone: str | None) -> Any:
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
    source: OpenedTable, rows: Any, time: str | None, window: str, zone: str | None
) -> tuple[Windowing | None, Any]:
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
    rows: Any,
    sample: SamplingPlan,
    time: str | None,
    event: str | None,
    zone: str | None,
    source: OpenedTable,
) -> Any:
    from placings.feco.sampling import pick_events

    if time is None or event is None:
        raise BadInput(
            f"a sample is drawn from events over the day. Pass {option('time')} and {option('event')}."
        )
    return pick_events(rows, sample, time=time, event=event, zone=zone, source=source)


# -- rules ------------------------------------------------------------------------------------------------


def _find_thresholds(
    source: OpenedTable, rows: Any, rules: Mapping[str, Rule], reference: Table | None, backend: Backend
) -> dict[str, float]:
    learned = {name: rule for name, rule in rules.items() if rule in LEARNED}
    if not learned:
        return {}
    if reference is None:
        return learn_thresholds(source, rows, learned)
    with opened(reference, backend) as other:
        for name in learned:
            check_column(other, name, "reference")
        return learn_thresholds(other, other.table, learned)


def _describe_dark(
    source: OpenedTable, rows: Any, choice: ChosenFeatures, rules: Mapping[str, Rule], tally: CoverageTally
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
        if rules[name] != "non_null" and name not in choice.valueless
    }
    found: Any = source.ask(rows.aggregate(**asked)).iloc[0] if asked else {}
    valueless = [name for n, name in enumerate(dark) if f"v{n}" not in asked or not _is_true(found[f"v{n}"])]
    seen = [name for name in dark if name not in valueless]
    said = []
    if valueless:
        said.append(
            f"Without a single value (NULL or NaN everywhere): {', '.join(map(repr, valueless[:20]))}."
        )
    if seen:
        said.append(f"With values, but covered nowhere: {', '.join(map(repr, seen[:20]))}.")
    return said


def _is_true(value: Any) -> bool:
    return value is not None and not np.isnan(float(value)) and bool(value)


def _finish(
    source: OpenedTable,
    choice: ChosenFeatures,
    rules: Mapping[str, Rule],
    thresholds: Mapping[str, float],
    segments: tuple[str, ...],
    unit: Unit,
    cut: Windowing | None,
    window: str,
    level: float,
    tally: CoverageTally,
    dark: Sequence[str],
) -> Coverage:
    frame, features, left = tally.frame, choice.features, dict(choice.left_out)
    totals = dict(zip(features, tally.totals, strict=True))
    text = [name for name in choice.valueless if totals[name]]
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
        window if cut is not None else None, cut.zone if cut is not None else "UTC", level, source.kind,
        (*choice.notes, *warned, *tally.notes, *dark), choice.absent,
    )  # fmt: skip
