"""When a search happened, by the clock of the place or of a given time zone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import ClassVar
from zoneinfo import ZoneInfo

import numpy as np

from placings.core import BadInput, Floats, Ints, find_zone
from placings.features.columns import Rows, Times, number_values
from placings.features.one_list import ListRows
from placings.features.spec import Feature, FeatureKind, check_measures

CYCLES = ("hour", "weekday", "day", "month")
MEASURES = (
    "part_of_day", "hour", "weekday", "day", "month", "year", "is_weekend",
    *(f"{each}_{wave}" for each in CYCLES for wave in ("sin", "cos")),
)  # fmt: skip
EPOCH, START = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1)  # the same without a zone
MINUTE = 60_000_000  # microseconds
DAY = 1440 * MINUTE
KEPT_MINUTES = 1024  # minutes of a zone that are remembered: there are 400 zones, and a minute is soon over


@dataclass(frozen=True)
class Clock(Feature):
    """Hour, weekday, day, month and year on the clock of a time zone, and as points on circles.

    `zone` is a time zone's name; with `zone_column` a row whose column names another zone is told by that
    one, so a place far away has its own hour. `part_of_day` is 0 before 6, 1 before 12, 2 before 18, then 3;
    `weekday` 0 is Monday; `day` and `month` count from 1. On a circle, x becomes `sin(2πx/p)` and
    `cos(2πx/p)` with the true period p: 24 hours, 7 weekdays, 12 months, and as many days as the month has,
    so hours 0 and 23 are neighbours, not one. A missing time gives NaN; a zone that nobody knows is told by
    `zone`.

    >>> from placings.features.spec import FeatureSet
    >>> clock = FeatureSet([Clock("Europe/Berlin", ("hour", "is_weekend", "hour_cos"))])
    >>> clock.fit_transform({"time": ["2026-05-01T22:00:00Z"]})  # midnight in Berlin, a Saturday
    array([[0., 1., 1.]], dtype=float32)
    """

    family: ClassVar[str] = "clock"

    zone: str = "UTC"
    measures: tuple[str, ...] = MEASURES
    zone_column: str | None = None
    time: str = "time"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_measures(self.measures, MEASURES)
        if find_zone(self.zone) is None:
            raise BadInput(
                f"zone must be a time zone's name such as Europe/Berlin. Got {self.zone!r}. If the name is "
                "right, this machine has no table of zones: pip install tzdata."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.time,) if self.zone_column is None else (self.time, self.zone_column)

    @property
    def needed(self) -> tuple[str, ...]:
        return (self.time,)

    def names(self) -> list[str]:
        return list(self.measures)

    def kinds(self) -> list[FeatureKind]:
        return ["context"] * len(self.measures)

    def compute(self, rows: Rows) -> list[Floats]:
        told = self._compute_list(rows) if isinstance(rows, ListRows) else None
        return self._compute_rows(rows) if told is None else told

    def _compute_list(self, rows: ListRows) -> list[Floats] | None:
        """A live list, all of one time: what a minute is in a zone is worked out once, and remembered.

        None where rows have times of their own, or a zone is not ahead by whole minutes.
        """
        minute = _find_minute(rows, self.time)
        if minute is None:
            return None
        if self.zone_column is None:
            codes, names = np.zeros(rows.count, dtype=np.int64), [self.zone]
        else:
            texts = rows.texts(self.zone_column)
            codes, names = texts.codes, texts.values
        told = [_tell_minute(name, self.zone, minute, self.measures) for name in names]
        if any(each is None for each in told):
            return None
        return list(np.array(told, dtype=np.float64).T[:, codes])

    def _compute_rows(self, rows: Rows) -> list[Floats]:
        times = rows.times(self.time)
        known = ~np.isnat(times)
        local = self._shift(rows, np.where(known, times, np.datetime64(0, "us")))
        parts = _take_apart(local, self.measures)
        return [np.where(known, _measure(parts, measure), np.nan) for measure in self.measures]

    def _shift(self, rows: Rows, times: Times) -> Times:
        """UTC times as local wall-clock times; each minute of a zone is looked up once."""
        if self.zone_column is None:
            codes, names = np.zeros(rows.count, dtype=np.int64), [self.zone]
        else:
            texts = rows.texts(self.zone_column)
            codes, names = texts.codes, texts.values
        zones = [find_zone(name) or find_zone(self.zone) for name in names]
        minutes = times.astype(np.int64) // MINUTE
        numbers, distinct = number_values(zip(codes.tolist(), minutes.tolist(), strict=True))
        shifts = [_find_offset(zones[code], minute) for code, minute in distinct]
        shift: Ints = np.array(shifts, dtype=np.int64)
        return times + shift[numbers].astype("timedelta64[us]") if len(times) else times


def _find_minute(rows: ListRows, column: str) -> int | None:
    """The minute since 1970 that all rows of a live list have; None if they have times of their own."""
    told = rows.shared(column)
    if type(told) is datetime and told.tzinfo is None:  # as `rerank` has made it
        return (told - START) // timedelta(minutes=1)
    time = rows.shared_time(column)
    return None if time is None or np.isnat(time) else int(time.astype(np.int64) // MINUTE)


@lru_cache(maxsize=KEPT_MINUTES)  # a live list's rows have one minute, and most lists the same few zones
def _find_offset(zone: ZoneInfo | None, minute: int) -> int:
    """Microseconds that the zone's clock is ahead of UTC."""
    moment = EPOCH + timedelta(minutes=minute)
    ahead = moment.astimezone(zone).utcoffset() or timedelta(0)
    return ahead // timedelta(microseconds=1)


@lru_cache(maxsize=KEPT_MINUTES)
def _tell_minute(name: str, other: str, minute: int, measures: tuple[str, ...]) -> tuple[float, ...] | None:
    """The measures in a minute on the clock of a zone, or of another one if nobody knows it."""
    shift = _find_offset(find_zone(name) or find_zone(other), minute)
    if shift % MINUTE:  # then the hour may end within the minute
        return None
    parts = _take_apart(np.array([minute * MINUTE + shift], dtype="datetime64[us]"), measures)
    return tuple(float(_measure(parts, measure)[0]) for measure in measures)


def _take_apart(local: Times, measures: Iterable[str]) -> dict[str, Ints]:
    """What the measures ask of a time: its hour, and of the calendar no more than is asked."""
    found = {"hour": local.astype(np.int64) % DAY // (60 * MINUTE)}
    asked = {"hour" if each == "part_of_day" else each.rpartition("_")[0] or each for each in measures}
    if asked - {"hour"}:
        days = local.astype("datetime64[D]")
        found["weekday"] = (days.astype(np.int64) + 3) % 7  # 1 January 1970 was a Thursday
    if asked & {"day", "month", "year"}:
        months = local.astype("datetime64[M]")
        first = months.astype("datetime64[D]")
        found["day"] = (days - first).astype(np.int64) + 1
        found["days"] = ((months + 1).astype("datetime64[D]") - first).astype(np.int64)
        found["month"] = months.astype(np.int64) % 12 + 1
        found["year"] = local.astype("datetime64[Y]").astype(np.int64) + 1970
    return found


def _measure(parts: dict[str, Ints], measure: str) -> Floats:
    if measure == "part_of_day":
        return (parts["hour"] // 6).astype(np.float64)
    if measure == "is_weekend":
        return (parts["weekday"] >= 5).astype(np.float64)
    name, _, wave = measure.partition("_")
    if not wave:
        return parts[name].astype(np.float64)
    period = {"hour": 24, "weekday": 7, "month": 12}.get(name)
    points: Floats = _list_turns(wave)[parts["days"] if period is None else period, parts[name]]
    return points


@lru_cache(maxsize=2)
def _list_turns(wave: str) -> Floats:
    """`sin(2πx/p)`, or cos, for p and x below 32, `[p, x]`; 0 where p is."""
    turn = math.sin if wave == "sin" else math.cos
    return np.array([[turn(2.0 * math.pi * x / p) if p else 0.0 for x in range(32)] for p in range(32)])
