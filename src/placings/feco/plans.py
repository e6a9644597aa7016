"""How large a sample must be: the error of each plan on the user's own day, feature by feature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import Floats
from placings.data.engines import Engine, Source, Table, opened
from placings.errors import BadInput
from placings.evaluation.rendering import Cell, Grid, Shown, render_grid
from placings.feco.choices import check_column, choose_features
from placings.feco.events import gather_events, parse_within
from placings.feco.rules import covered_where, find_rules, learn_thresholds
from placings.feco.sampling import Plan, check_plans, find_days, take_events
from placings.feco.windows import Cut, as_second, read_seconds

if TYPE_CHECKING:
    import pandas as pd

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
    plans: tuple[Plan, ...]
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
    plans: Sequence[Plan] | Plan | None = None,
    draws: int = 5,
    day: Any = None,
    zone: str | None = None,
    rule: Any = "non_zero",
    within: str | int = "any",
    position: str | None = None,
    label: str | None = None,
    ignore: Iterable[str] = (),
    bundle: Any = None,
    engine: Engine = None,
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
    >>> found = plan_errors(log, time="ts", event="search", plans=Plan(8, 10, 5), draws=2)
    >>> found.events, found.frame["events"].tolist(), found.frame["full"].tolist()
    (1440, [40.0], [0.5])
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise BadInput(f"draws must be a whole number of at least 1. Got {draws!r}.")
    tried = default_plans() if plans is None else check_plans(plans)
    with opened(table, engine) as source:
        parts = {time: "time", event: "event"}
        parts |= {name: part for name, part in ((label, "label"), (position, "position")) if name is not None}
        for name, part in parts.items():
            check_column(source, name, part)
        unit = parse_within(within, event, position)
        if unit.within == "rows":
            raise BadInput("within must be 'any', 'all' or a number of rows here: a sample is of events.")
        chosen = choose_features(source, features, parts, bundle=bundle, ignore=ignore)
        names = [name for name in chosen.features if name not in chosen.hollow]
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


def default_plans() -> tuple[Plan, ...]:
    """The plans that are tried when none is named."""
    return tuple(Plan(windows, 10, events) for windows in WINDOWS for events in PER_WINDOW)


def _take_day(
    source: Source, events: Any, days: Cut, day: Any, zone: str | None
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
    source: Source,
    events: Any,
    days: Cut,
    plans: Sequence[Plan],
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


def _ask_shares(source: Source, events: Any, width: int) -> tuple[int, Floats]:
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
