"""Times that are numbers: seconds, milliseconds, microseconds or nanoseconds since 1970, told apart by size.

Of the years 1973 to 2286 seconds have 9 or 10 digits before the point, milliseconds 12 or 13, and so on:
between two units lies a factor of ten that no time of these years has. A number there is refused, and so is
a column that holds two units.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from placings.core import BadInput, UnknownName, option

EPOCH = datetime(1970, 1, 1)
MICROS = {"seconds": 1e6, "milliseconds": 1e3, "microseconds": 1.0, "nanoseconds": 1e-3}  # in one of each
UNITS = tuple(MICROS)
FIRST, LAST = 1e8, 1e10  # seconds: March 1973, November 2286
NUMBER = re.compile(r"\s*-?\d+(\.\d*)?\s*")
DAY = 8  # digits of 20240501, which is a day and no number


def check_unit(unit: str | None) -> None:
    """Refuse a unit that is none."""
    if unit is not None and unit not in MICROS:
        raise UnknownName("unit of time", str(unit), UNITS)


def is_epoch(text: str) -> bool:
    """Whether a text is a number of seconds or the like, and neither ISO text nor a day such as 20240501.

    >>> is_epoch("1714550400"), is_epoch("1714550400.25"), is_epoch("20240501"), is_epoch("2024-05-01")
    (True, True, False, False)
    """
    return NUMBER.fullmatch(text) is not None and len(text.strip()) != DAY


def tell_unit(number: float) -> str | None:
    """The unit in which a number is a time of 1973 to 2286; None if there is none.

    >>> tell_unit(1714550400), tell_unit(1714550400000), tell_unit(50_000_000_000), tell_unit(0)
    ('seconds', 'milliseconds', None, None)
    """
    for unit, micros in MICROS.items():
        if FIRST <= number * micros / 1e6 < LAST:
            return unit
    return None


def choose_unit(low: float, high: float, unit: str | None, name: str = "time") -> str:
    """The unit of a column between `low` and `high`: the one given, or the one that both numbers tell."""
    if unit is not None:
        return unit
    first, last = tell_unit(low), tell_unit(high)
    if first is not None and first == last:
        return first
    say = f"Say which they are with {option('time_unit', value='seconds')} or milliseconds"
    if first is not None and last is not None:
        raise BadInput(
            f"column {name!r} holds two units: {low:.0f} looks like {first}, {high:.0f} like {last}. "
            f"Write one of them. {say} if that is what they all are."
        )
    odd = low if first is None else high
    raise BadInput(
        f"column {name!r} must be times. Got {odd:g}, which is no time of 1973 to 2286, neither as seconds "
        f"nor as milliseconds since 1970. {say}, or write null where there is no time."
    )


def as_moment(number: float, unit: str) -> datetime | None:
    """A number as a moment in UTC; None where the calendar has no such day.

    >>> as_moment(1714550400250, "milliseconds")
    datetime.datetime(2024, 5, 1, 8, 0, 0, 250000)
    """
    try:
        return EPOCH + timedelta(microseconds=round(number * MICROS[unit]))
    except (OverflowError, ValueError):
        return None


def as_timestamps(column: Any, unit: str) -> Any:
    """An Ibis column of numbers as timestamps of microseconds in UTC."""
    import ibis

    if column.type().is_integer() and MICROS[unit] >= 1.0:
        micros = column.cast("int64") * int(MICROS[unit])
    else:
        number = column.cast("float64")
        number = (number.isnan() | number.isinf()).ifelse(ibis.null("float64"), number)
        micros = (number * MICROS[unit]).round().cast("int64")
    return ibis.literal("1970-01-01 00:00:00").cast("timestamp(6)") + micros.as_interval("us")


def describe_unit(unit: str, example: float) -> str:
    """What the numbers were taken for, with one of them as an example.

    >>> describe_unit("seconds", 1714550400)
    'seconds since 1970 (1714550400 is 2024-05-01 08:00:00 UTC)'
    """
    moment = as_moment(example, unit)
    shown = "outside of the calendar" if moment is None else f"{moment.replace(microsecond=0)} UTC"
    number = int(example) if float(example).is_integer() else example
    return f"{unit} since 1970 ({number} is {shown})"
