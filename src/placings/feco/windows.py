"""Windows of time: how long, in which zone days begin, and which window a second belongs to.

An engine sees whole numbers only, seconds since 1970 in UTC and the few moments at which the zone's clocks
change, so that every engine cuts at the same second.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from placings.core import AnyArray, BadInput, Ints, need_zone

DAY = 86_400
UNITS = {"m": 60, "min": 60, "h": 3600, "d": DAY, "w": 7 * DAY}
MONDAY = 4  # 1970-01-05 was the first Monday; windows of several days are counted from it
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Windowing:
    """Windows of `seconds`, days beginning at midnight in `zone`; built by `make_cut`.

    `shifts` are the seconds at which the zone's offset changes and `offsets` the offsets before, between
    and after them; `days` and `midnights` are the same for local days, whose midnight is at
    `day · 86400 − offset` in UTC.
    """

    seconds: int
    zone: str
    shifts: tuple[int, ...] = ()
    offsets: tuple[int, ...] = (0,)
    days: tuple[int, ...] = ()
    midnights: tuple[int, ...] = (0,)

    def split(self, second: Any) -> tuple[Any, Any]:
        """The local day's number and its midnight in UTC, as Ibis expressions of a second."""
        day = ((second + _step(second, self.shifts, self.offsets)) // DAY).cast("int64")
        return day, day * DAY - _step(day, self.days, self.midnights)

    def key(self, second: Any) -> Any:
        """The window of a second, as an Ibis expression: a local day's number, or the start in UTC."""
        day, midnight = self.split(second)
        if self.seconds >= DAY:
            many = self.seconds // DAY
            return day if many == 1 else (((day - MONDAY) // many) * many + MONDAY).cast("int64")
        return (midnight + ((second - midnight) // self.seconds) * self.seconds).cast("int64")

    def key_of(self, second: int) -> int:
        """`key` of one number."""
        day = self._day_of(second)
        if self.seconds >= DAY:
            many = self.seconds // DAY
            return day if many == 1 else (day - MONDAY) // many * many + MONDAY
        midnight = self._midnight(day)
        return midnight + (second - midnight) // self.seconds * self.seconds

    def starts(self, keys: Ints) -> AnyArray:
        """When windows start, in UTC `[windows]` datetime64[ns]."""
        if self.seconds >= DAY:
            keys = np.array([self._midnight(int(day)) for day in keys], dtype=np.int64)
        return keys.astype("datetime64[s]").astype("datetime64[ns]")

    def keys_between(self, first: int, last: int) -> list[int]:
        """Every window from key `first` to key `last`, both included."""
        if self.seconds >= DAY:
            return list(range(first, last + 1, self.seconds // DAY))
        keys: list[int] = []
        day, end = self._day_of(first), self._day_of(last)
        while day <= end:
            keys += range(self._midnight(day), self._midnight(day + 1), self.seconds)
            day += 1
        return [key for key in keys if first <= key <= last]

    def _day_of(self, second: int) -> int:
        return (second + self.offsets[bisect_right(self.shifts, second)]) // DAY

    def _midnight(self, day: int) -> int:
        return day * DAY - self.midnights[bisect_right(self.days, day)]


def make_cut(window: str, zone: str | None, span: tuple[int, int] | None) -> Windowing:
    """The cut of a window such as "1d" for data within `span` (seconds; only a zone needs it).

    >>> cut = make_cut("1d", "Europe/Berlin", (1711753200, 1712008800))
    >>> cut.starts(np.array([cut.key_of(1711918800)]))  # an hour before midnight of a day with 23 hours
    array(['2024-03-30T23:00:00.000000000'], dtype='datetime64[ns]')
    """
    seconds = parse_window(window)
    if zone is None or zone == "UTC" or span is None:
        need_zone(zone or "UTC")
        return Windowing(seconds, zone or "UTC")
    clock = need_zone(zone)
    first, last = span[0] // DAY - 2, span[1] // DAY + 3
    shifts, offsets = _find_shifts(clock, first * DAY, last * DAY)
    days: list[int] = []
    midnights = [first * DAY - _midnight_in(clock, first)]
    for day in range(first, last + 1):
        offset = day * DAY - _midnight_in(clock, day)
        if offset != midnights[-1]:
            days.append(day)
            midnights.append(offset)
    return Windowing(seconds, zone, tuple(shifts), tuple(offsets), tuple(days), tuple(midnights))


def parse_window(window: str, name: str = "window") -> int:
    """The seconds of "10m", "1h", "1d", "7d" or "1w": whole days, or what divides a day.

    >>> parse_window("6h")
    21600
    """
    found = re.fullmatch(r"\s*(\d+)\s*([a-z]+)\s*", window.lower()) if isinstance(window, str) else None
    if found is None or found[2] not in UNITS or int(found[1]) == 0:
        raise BadInput(f"{name} must be a length such as '10m', '1h', '1d' or '1w'. Got {window!r}.")
    seconds = int(found[1]) * UNITS[found[2]]
    if (DAY % seconds if seconds < DAY else seconds % DAY) != 0:
        raise BadInput(
            f"{name} must divide a day or be whole days, so that days begin with one. Got {window!r}."
        )
    return seconds


def as_second(moment: Any, name: str, zone: str | None = None) -> float:
    """A moment (ISO text, a date, a datetime) as seconds since 1970; one without a zone is in `zone`.

    >>> as_second("1970-01-02", "since")
    86400.0
    """
    value = moment
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            raise BadInput(
                f"{name} must be a date or a time such as '2024-05-01' or '2024-05-01T06:00+02:00'. "
                f"Got {moment!r}."
            ) from None
    if isinstance(value, np.datetime64):
        value = datetime.fromtimestamp(value.astype("datetime64[us]").astype(np.int64) / 1e6, UTC).replace(
            tzinfo=None
        )
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime) or value != value:
        raise BadInput(f"{name} must be a date, a datetime or ISO text. Got {moment!r}.")
    if value.tzinfo is None:
        value = value.replace(tzinfo=need_zone(zone or "UTC"))
    return (value - EPOCH).total_seconds()


def read_seconds(column: Any) -> Any:
    """A column of times as whole seconds since 1970 in UTC, rounded down; naive times are UTC.

    A date is its midnight. Text and plain numbers are refused: which zone, which unit?
    """
    kind = column.type()
    if kind.is_unknown():  # nanoseconds with a zone, which Ibis has no name for
        column, kind = column.cast("timestamp('UTC')"), None
    elif kind.is_date():
        column, kind = column.cast("timestamp"), None
    if kind is not None and not kind.is_timestamp():
        what = "text" if kind.is_string() else str(kind)
        raise BadInput(
            f"the time column {column.get_name()!r} must hold timestamps or dates. Got {what}. "
            "Convert it first: pandas.to_datetime(column, utc=True), or in Ibis "
            "table.mutate(time=table.time.as_timestamp('%Y-%m-%d %H:%M:%S')) for text and "
            "table.time.as_timestamp('s') for seconds since 1970."
        )
    return column.truncate("s").epoch_seconds().cast("int64")


def _step(value: Any, borders: Sequence[int], levels: Sequence[int]) -> Any:
    """The level between borders as an expression; a border belongs to what follows it."""
    import ibis

    if not borders:
        return ibis.literal(levels[0], "int64")
    branches = [
        (value < border, ibis.literal(level, "int64"))
        for border, level in zip(borders, levels[:-1], strict=True)
    ]
    return ibis.cases(*branches, else_=ibis.literal(levels[-1], "int64"))


def _offset_at(zone: ZoneInfo, second: int) -> int:
    offset = (EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _midnight_in(zone: ZoneInfo, day: int) -> int:
    """When a local day starts, in UTC; where clocks skip midnight, when they do."""
    there = datetime(1970, 1, 1) + timedelta(days=day)
    return int((there.replace(tzinfo=zone) - EPOCH).total_seconds())


def _find_shifts(zone: ZoneInfo, first: int, last: int) -> tuple[list[int], list[int]]:
    """The seconds from `first` to `last` at which the offset changes, and the offsets around them."""
    shifts: list[int] = []
    offsets = [_offset_at(zone, first)]
    for start in range(first, last, DAY):
        end = start + DAY
        if _offset_at(zone, end) == offsets[-1]:
            continue
        low, high = start, end  # the offset differs between the two; halve until they are neighbours
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _offset_at(zone, middle) == offsets[-1] else (low, middle)
        shifts.append(high)
        offsets.append(_offset_at(zone, end))
    return shifts, offsets
