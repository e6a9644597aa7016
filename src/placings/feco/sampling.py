"""Sampling events from a day's log: a few windows over the day, at random, or by strata; always repeatable.

Whether an event is taken depends on its id and the seed alone (MD5 of both, the same on every engine), so a
sample does not change with the order of rows, the number of files or the engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    BadInput,
    Cell,
    Floats,
    Grid,
    Shown,
    UnknownName,
    keep_old_names,
    render_grid,
    take_renamed,
)
from placings.data import Backend, OpenedTable, Table, open_source, opened
from placings.feco.choices import check_column, choose_features
from placings.feco.rules import covered_where, find_rules, learn_thresholds
from placings.feco.score import gather_events, parse_within
from placings.feco.windows import DAY, Windowing, as_second, make_cut, read_seconds

if TYPE_CHECKING:
    import pandas as pd

WAYS = ("systematic", "random", "stratified")


@dataclass(frozen=True)
class SamplingPlan:
    """How many events of a day are looked at, and which.

    - "systematic", as the paper does: `windows` windows of `window_minutes`, evenly spaced over the day
      from a start that the seed draws, and of each the `per_window` events with the smallest hash.
    - "random": `windows · per_window` events of the whole day.
    - "stratified": as many, from each stratum in proportion to its events; strata are the values of the
      columns `strata`, or the hours of the day. Each stratum gets at least one.

    The defaults are the paper's: 8 windows of 10 minutes, 200,000 events each. A day that has fewer events
    gives what it has. The windows are the same on every day.

    >>> SamplingPlan(windows=4, per_window=1000).size
    4000
    >>> SamplingPlan().starts()[:2]  # seconds after midnight
    (8846, 19646)
    """

    windows: int = 8
    window_minutes: int = 10
    per_window: int = 200_000
    how: str = "systematic"
    seed: int = 0
    strata: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.how not in WAYS:
            raise UnknownName("way of sampling", str(self.how), WAYS)
        for name in ("windows", "window_minutes", "per_window"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise BadInput(f"{name} must be a whole number of at least 1. Got {value!r}.")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise BadInput(f"seed must be a whole number. Got {self.seed!r}.")
        if DAY % self.windows or (
            self.how == "systematic" and self.window_minutes * 60 > DAY // self.windows
        ):
            raise BadInput(
                f"windows must divide a day and fit into it side by side. Got {self.windows} windows of "
                f"{self.window_minutes} minutes."
            )
        given: Any = self.strata
        object.__setattr__(self, "strata", (given,) if isinstance(given, str) else tuple(given))
        if self.strata and self.how != "stratified":
            raise BadInput(f"strata belong to how='stratified'. Got how={self.how!r}.")

    @property
    def size(self) -> int:
        """The most events that are taken of a day."""
        return self.windows * self.per_window

    def starts(self) -> tuple[int, ...]:
        """When the windows of a systematic sample start, in seconds after midnight."""
        stride = DAY // self.windows
        room = stride - 60 * self.window_minutes + 1
        start = int(hashlib.md5(f"{self.seed}:start".encode(), usedforsecurity=False).hexdigest(), 16) % room
        return tuple(start + number * stride for number in range(self.windows))

    def describe(self) -> str:
        """In words, for tables."""
        if self.how == "systematic":
            return f"{self.windows} × {self.window_minutes} min × {self.per_window:,}"
        return f"{self.how} {self.size:,}"


def sample_events(
    table: Table,
    plan: SamplingPlan | None = None,
    *,
    time: str,
    event: str,
    zone: str | None = None,
    engine: Backend = None,
    backend: Backend = None,
) -> Any:
    """The rows of the sampled events, as an Ibis table with the columns of `table`.

    An event is taken or left whole; its time is that of its first row. Rows without an event id or without
    a time are left out. Days begin at midnight in `zone` (UTC).

    >>> log = {"search": ["a", "b"], "ts": ["2024-05-01", "2024-05-01"], "x": [1.0, 2.0]}
    >>> import pandas as pd
    >>> frame = pd.DataFrame(log).astype({"ts": "datetime64[ns]"})
    >>> plan = SamplingPlan(windows=1, per_window=1, how="random")
    >>> from placings.feco.score import coverage
    >>> coverage(sample_events(frame, plan, time="ts", event="search")).to_pandas()["events"].tolist()
    [1]
    """
    backend = take_renamed("sample_events", "backend", backend, "engine", engine)
    source = open_source(table, backend)
    for name, part in ((time, "time"), (event, "event")):
        check_column(source, name, part)
    return pick_events(source.table, plan or SamplingPlan(), time=time, event=event, zone=zone, source=source)


def pick_events(
    rows: Any, plan: SamplingPlan, *, time: str, event: str, zone: str | None, source: OpenedTable
) -> Any:
    """`sample_events` of an Ibis table that is open already."""
    seconds = read_seconds(rows[time])
    _refuse_ids(rows[event])
    for name in plan.strata:
        check_column(source, name, "strata")
    strata = {f"stratum{place}": rows[name].min() for place, name in enumerate(plan.strata)}
    events = rows.group_by(event=rows[event]).aggregate(first=seconds.min(), **strata)
    events = events.filter(events.event.notnull() & events["first"].notnull())
    picked = take_events(events, plan, find_days(rows, seconds, zone, source))
    return rows.semi_join(picked.select(picked.event), rows[event] == picked.event)


def find_days(rows: Any, seconds: Any, zone: str | None, source: OpenedTable) -> Windowing:
    """Days in a zone, for the time that the rows span."""
    if zone is None or zone == "UTC":
        return make_cut("1d", zone, None)
    ends = source.ask(rows.aggregate(first=seconds.min(), last=seconds.max())).iloc[0]
    return make_cut("1d", zone, None if ends.isna().any() else (int(ends["first"]), int(ends["last"])))


def take_events(events: Any, plan: SamplingPlan, days: Windowing) -> Any:
    """The events that a plan takes, of a table with `event`, `first` (seconds) and `stratum0`, …"""
    import ibis

    day, midnight = days.split(events["first"])
    elapsed = events["first"] - midnight
    if plan.how == "systematic":
        stride, start = DAY // plan.windows, plan.starts()[0]
        part = (elapsed // stride).cast("int64")
        within = elapsed - part * stride - start
        events = events.mutate(_day=day, _part=part, _within=within)
        events = events.filter(
            (events._within >= 0)
            & (events._within < 60 * plan.window_minutes)
            & (events._part < plan.windows)
        )
        groups = [events._day, events._part]
    elif plan.how == "random":
        events = events.mutate(_day=day)
        groups = [events._day]
    else:
        events = events.mutate(_day=day, **({} if plan.strata else {"stratum0": elapsed // 3600}))
        groups = [events._day, *(events[f"stratum{n}"] for n in range(max(1, len(plan.strata))))]
    order = (ibis.literal(f"{plan.seed}:") + events.event.cast("string")).hexdigest("md5")
    rank = ibis.row_number().over(ibis.window(group_by=groups, order_by=order))
    if plan.how == "stratified":
        share = events.count().over(ibis.window(group_by=groups))
        whole = events.count().over(ibis.window(group_by=[events._day]))
        ranked = events.mutate(_rank=rank, _quota=share * plan.size, _whole=whole)
        return ranked.filter(ranked._rank * ranked._whole < ranked._quota)
    ranked = events.mutate(_rank=rank)
    limit = plan.per_window if plan.how == "systematic" else plan.size
    return ranked.filter(ranked._rank < limit)


def check_plans(plans: Sequence[SamplingPlan] | SamplingPlan) -> tuple[SamplingPlan, ...]:
    """One plan or several; anything else is refused."""
    given = (plans,) if isinstance(plans, SamplingPlan) else tuple(plans)
    if not given or not all(isinstance(plan, SamplingPlan) for plan in given):
        raise BadInput(f"plans must be SamplingPlan values, at least one. Got {plans!r}.")
    return given


def _refuse_ids(column: Any) -> None:
    kind = column.type()
    if (
        kind.is_floating()
        or kind.is_decimal()
        or not (kind.is_integer() or kind.is_string() or kind.is_uuid())
    ):
        raise BadInput(
            f"the event column {column.get_name()!r} must be whole numbers or text to be sampled: engines "
            f"write other types differently. Got {kind}. Cast it first."
        )


WINDOWS = (4, 8, 24)
PER_WINDOW = (100, 1_000, 10_000, 50_000, 200_000)


@dataclass(frozen=True, eq=False, repr=False)
class PlanErrors(Shown):
    """What each plan's sample says of each feature, against the whole day.

    `to_pandas()`: a row a plan and feature, with `how`, `windows`, `window_minutes`, `per_window`, `events`
    (taken, the mean over draws), `feature`, `full` (the day's coverage), `sampled` (the mean over draws),
    `error` (the mean of |sampled − full|) and `worst` (its maximum).
    """

    frame: pd.DataFrame
    plans: tuple[SamplingPlan, ...]
    day: str
    events: int
    draws: int
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> pd.DataFrame:
        """The frame (a copy)."""
        return self.frame.copy()

    def table(self, format: str = "text") -> str:
        """One line a plan: events taken, errors in percentage points, and the feature it gets most wrong."""
        rows = []
        for number, plan in enumerate(self.plans):
            part = self.frame[self.frame["plan"] == number]
            taken = float(part["events"].iloc[0])
            error, worst = part["error"].to_numpy(dtype=np.float64), part["worst"].to_numpy(dtype=np.float64)
            known = bool(np.isfinite(worst).any())
            place = int(np.nanargmax(worst)) if known else 0
            cells = [
                plan.describe(), f"{taken:,.0f}", f"{100 * taken / max(1, self.events):.2f} %",
                f"{100 * np.nanmean(error):.2f}" if known else "-",
                f"{100 * worst[place]:.2f}" if known else "-",
                str(part["feature"].iloc[place]) if known else "-",
            ]  # fmt: skip
            rows.append(tuple(map(Cell, cells)))
        header = ("plan", "events", "of the day", "mean error", "worst error", "worst feature")
        notes = (
            f"Errors in percentage points of coverage against all {self.events:,} events of {self.day}, over "
            f"{self.draws} draws and {self.frame['feature'].nunique()} features.",
            *self.notes,
        )
        return render_grid(Grid(header, tuple(rows), notes), format)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        rows = [{str(key): value for key, value in row.items()} for row in self.frame.to_dict("records")]
        return {
            "day": self.day,
            "events": self.events,
            "draws": self.draws,
            "notes": [*self.notes],
            "rows": rows,
        }


def plan_errors(
    table: Table,
    features: str | Sequence[str] | None = None,
    *,
    time: str,
    event: str,
    plans: Sequence[SamplingPlan] | SamplingPlan | None = None,
    draws: int = 5,
    day: Any = None,
    zone: str | None = None,
    rule: Any = "non_zero",
    within: str | int = "any",
    position: str | None = None,
    label: str | None = None,
    ignore: Iterable[str] = (),
    bundle: Any = None,
    engine: Backend = None,
    backend: Backend = None,
) -> PlanErrors:
    """The error of sampling plans on one day of a log, for each feature.

    The day's events are reduced once to what is covered in each (memory: a byte an event and feature); each
    plan is then drawn `draws` times, with seeds from its own on, and compared with the whole day. `plans`
    None tries 4, 8 and 24 windows of 10 minutes with 100 to 200,000 events each, as far as the day has
    so many. `day` is a date; None means the day with the most events. Features, rules and `within` are
    those of `coverage` ("rows" is not offered: a sample is of events).

    >>> import pandas as pd
    >>> day = pd.date_range("2024-05-01", periods=1440, freq="min")
    >>> log = pd.DataFrame({"search": range(1440), "ts": day, "x": [0.0, 1.0] * 720})
    >>> found = plan_errors(log, time="ts", event="search", plans=SamplingPlan(8, 10, 5), draws=2)
    >>> found.events, found.frame["events"].tolist(), found.frame["full"].tolist()
    (1440, [40.0], [0.5])
    """
    backend = take_renamed("plan_errors", "backend", backend, "engine", engine)
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise BadInput(f"draws must be a whole number of at least 1. Got {draws!r}.")
    tried = default_plans() if plans is None else check_plans(plans)
    with opened(table, backend) as source:
        parts = {time: "time", event: "event"}
        parts |= {name: part for name, part in ((label, "label"), (position, "position")) if name is not None}
        for name, part in parts.items():
            check_column(source, name, part)
        unit = parse_within(within, event, position)
        if unit.within == "rows":
            raise BadInput("within must be 'any', 'all' or a number of rows here: a sample is of events.")
        chosen = choose_features(source, features, parts, bundle=bundle, ignore=ignore)
        names = [name for name in chosen.features if name not in chosen.valueless]
        rows, seconds = source.table, read_seconds(source.table[time])
        rules = find_rules(rule, rows.columns)
        limits = learn_thresholds(source, rows, {name: rules[name] for name in names})
        conditions = [covered_where(rows[name], rules[name], limits.get(name)) for name in names]
        strata = tuple(dict.fromkeys(column for plan in tried for column in plan.strata))
        for column in strata:
            check_column(source, column, "strata")
        days = find_days(rows, seconds, zone, source)
        gathered = gather_events(rows, conditions, unit, seconds, strata)
        known = gathered.filter(gathered.event.notnull() & gathered["first"].notnull())
        with source.holding(known) as events:
            held, on, count, notes = _take_day(source, events, days, day, zone)
            return _measure(source, held, days, tried, names, strata, draws, on, count, notes, plans is None)


def default_plans() -> tuple[SamplingPlan, ...]:
    """The plans that are tried when none is named."""
    return tuple(SamplingPlan(windows, 10, events) for windows in WINDOWS for events in PER_WINDOW)


def _take_day(
    source: OpenedTable, events: Any, days: Windowing, day: Any, zone: str | None
) -> tuple[Any, str, int, tuple[str, ...]]:
    number, _ = days.split(events["first"])
    held = events.mutate(_on=number)
    counts = source.ask(held.group_by(on=held._on).aggregate(events=held.count())).sort_values("on")
    if not len(counts):
        raise BadInput(f"{source.name} has no event with an id and a time to sample from.")
    notes: tuple[str, ...] = ()
    if day is not None:
        chosen = days.key_of(int(as_second(day, "day", zone)))
        if chosen not in set(counts["on"]):
            raise BadInput(
                f"day must be one that has events. Got {day!r}; there are {_list_days(counts['on'])}."
            )
    else:
        chosen = int(counts.sort_values("events", kind="stable")["on"].iloc[-1])
        if len(counts) > 1:
            notes = (f"Of {len(counts)} days the one with the most events was taken.",)
    count = int(counts.set_index("on")["events"][chosen])
    return held.filter(held._on == chosen).drop("_on"), _name_day(chosen), count, notes


def _measure(
    source: OpenedTable,
    events: Any,
    days: Windowing,
    plans: Sequence[SamplingPlan],
    names: Sequence[str],
    strata: Sequence[str],
    draws: int,
    on: str,
    count: int,
    notes: tuple[str, ...],
    prune: bool,
) -> PlanErrors:
    import pandas as pd

    full = _ask_shares(source, events, len(names))[1]
    parts, kept = [], []
    before: tuple[int, float] | None = None
    for plan in plans:
        own = [strata.index(column) for column in plan.strata]
        renamed = events.rename({f"stratum{n}": f"given{place}" for n, place in enumerate(own)})
        found = [
            _ask_shares(source, take_events(renamed, replace(plan, seed=plan.seed + draw), days), len(names))
            for draw in range(draws)
        ]
        taken = float(np.mean([events_taken for events_taken, _ in found]))
        if prune and before == (plan.windows, taken):
            continue  # the windows hold no more events than the smaller plan took already
        before = (plan.windows, taken)
        shares = np.stack([share for _, share in found])  # [draws, features]
        away = np.abs(shares - full)
        kept.append(plan)
        parts.append(
            pd.DataFrame(
                {
                    "plan": len(kept) - 1, "how": plan.how, "windows": plan.windows,
                    "window_minutes": plan.window_minutes, "per_window": plan.per_window, "events": taken,
                    "feature": list(names), "full": full, "sampled": shares.mean(axis=0),
                    "error": away.mean(axis=0), "worst": away.max(axis=0),
                }
            )
        )  # fmt: skip
    return PlanErrors(pd.concat(parts, ignore_index=True), tuple(kept), on, count, draws, notes)


def _ask_shares(source: OpenedTable, events: Any, width: int) -> tuple[int, Floats]:
    """How many events, and the share of them in which each feature is covered (NaN without events)."""
    sums = {f"c{n}": events[f"covered{n}"].cast("int64").sum() for n in range(width)}
    row = source.ask(events.aggregate(events=events.count(), **sums)).iloc[0]
    taken = int(row["events"])
    if not taken:
        return 0, np.full(width, np.nan)
    counts = np.array([row[f"c{n}"] for n in range(width)], dtype=np.float64)
    return taken, np.nan_to_num(counts) / taken


def _name_day(number: int) -> str:
    return str(np.datetime64(number, "D"))


def _list_days(numbers: Any) -> str:
    shown = [_name_day(int(number)) for number in numbers]
    return f"{shown[0]} to {shown[-1]}" if len(shown) > 1 else shown[0]


__getattr__ = keep_old_names(__name__, {"Plan": "SamplingPlan"})
