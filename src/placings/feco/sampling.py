"""Sampling events from a day's log: a few windows over the day, at random, or by strata; always repeatable.

Whether an event is taken depends on its id and the seed alone (MD5 of both, the same on every engine), so a
sample does not change with the order of rows, the number of files or the engine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from placings.data.engines import Engine, Source, Table, open_source
from placings.errors import BadInput, UnknownName
from placings.feco.choices import check_column
from placings.feco.windows import DAY, Cut, make_cut, read_seconds

WAYS = ("systematic", "random", "stratified")


@dataclass(frozen=True)
class Plan:
    """How many events of a day are looked at, and which.

    - "systematic", as the paper does: `windows` windows of `window_minutes`, evenly spaced over the day
      from a start that the seed draws, and of each the `per_window` events with the smallest hash.
    - "random": `windows · per_window` events of the whole day.
    - "stratified": as many, from each stratum in proportion to its events; strata are the values of the
      columns `strata`, or the hours of the day. Each stratum gets at least one.

    The defaults are the paper's: 8 windows of 10 minutes, 200,000 events each. A day that has fewer events
    gives what it has. The windows are the same on every day.

    >>> Plan(windows=4, per_window=1000).size
    4000
    >>> Plan().starts()[:2]  # seconds after midnight
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
    plan: Plan | None = None,
    *,
    time: str,
    event: str,
    zone: str | None = None,
    engine: Engine = None,
) -> Any:
    """The rows of the sampled events, as an Ibis table with the columns of `table`.

    An event is taken or left whole; its time is that of its first row. Rows without an event id or without
    a time are left out. Days begin at midnight in `zone` (UTC).

    >>> log = {"search": ["a", "b"], "ts": ["2024-05-01", "2024-05-01"], "x": [1.0, 2.0]}
    >>> import pandas as pd
    >>> frame = pd.DataFrame(log).astype({"ts": "datetime64[ns]"})
    >>> plan = Plan(windows=1, per_window=1, how="random")
    >>> from placings.feco.score import coverage
    >>> coverage(sample_events(frame, plan, time="ts", event="search")).to_pandas()["events"].tolist()
    [1]
    """
    source = open_source(table, engine)
    for name, part in ((time, "time"), (event, "event")):
        check_column(source, name, part)
    return pick_events(source.table, plan or Plan(), time=time, event=event, zone=zone, source=source)


def pick_events(rows: Any, plan: Plan, *, time: str, event: str, zone: str | None, source: Source) -> Any:
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


def find_days(rows: Any, seconds: Any, zone: str | None, source: Source) -> Cut:
    """Days in a zone, for the time that the rows span."""
    if zone is None or zone == "UTC":
        return make_cut("1d", zone, None)
    ends = source.ask(rows.aggregate(first=seconds.min(), last=seconds.max())).iloc[0]
    return make_cut("1d", zone, None if ends.isna().any() else (int(ends["first"]), int(ends["last"])))


def take_events(events: Any, plan: Plan, days: Cut) -> Any:
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


def check_plans(plans: Sequence[Plan] | Plan) -> tuple[Plan, ...]:
    """One plan or several; anything else is refused."""
    given = (plans,) if isinstance(plans, Plan) else tuple(plans)
    if not given or not all(isinstance(plan, Plan) for plan in given):
        raise BadInput(f"plans must be Plan values, at least one. Got {plans!r}.")
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
