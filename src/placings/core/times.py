"""Times as everything below the surface has them, UTC without a zone; and zones by name."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from placings.core.errors import BadInput


def as_utc(value: Any) -> datetime:
    """A moment (ISO 8601 text, a datetime, a date) in UTC, without a zone; ValueError for anything else.

    What says no zone is UTC, what says one is converted. Each value is read by itself: `pandas.to_datetime`
    on texts of which some have an offset gives those without one the offset of a neighbour. Digits beyond
    microseconds are cut. Digits alone are no ISO text, for they may be seconds, but for 20240501, a day.

    >>> as_utc("2024-05-01T08:00:00").hour, as_utc("2024-05-01T08:00:00+02:00").hour
    (8, 6)
    """
    if isinstance(value, str):
        text = value.strip()
        if text.isdecimal() and len(text) != len("20240501"):
            raise ValueError(f"{value!r} is a number, not ISO text")
        value = datetime.fromisoformat(text)
    elif isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError(f"{value!r} is no time")
    if value.tzinfo is None:
        return value
    try:
        return value.astimezone(UTC).replace(tzinfo=None)
    except OverflowError as error:  # the first hours of year 1 or the last ones of 9999
        raise ValueError(f"{value!r} lies outside of the years 1 to 9999") from error


@lru_cache(maxsize=1024)
def find_zone(name: str) -> ZoneInfo | None:
    """The time zone of this name, or None if there is none.

    >>> find_zone("Europe/Berlin"), find_zone("Nowhere")
    (zoneinfo.ZoneInfo(key='Europe/Berlin'), None)
    """
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, ill-formed, the name of a folder
        return None


def need_zone(name: str) -> ZoneInfo:
    """The time zone of this name, or an error that shows what such names look like."""
    zone = find_zone(name) if isinstance(name, str) else None
    if zone is None:
        raise BadInput(f"zone must be a name of the IANA list such as 'Europe/Berlin'. Got {name!r}.")
    return zone


DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def parse_duration(text: str | float, name: str = "budget") -> float:
    """Seconds of a length of time: "90s", "10m", "1h30m", or a plain number of seconds.

    >>> parse_duration("10m"), parse_duration("1h30m"), parse_duration(45)
    (600.0, 5400.0, 45.0)
    """
    found = DURATION.fullmatch(str(text).strip().lower()) if not isinstance(text, bool) else None
    parts = found.groups() if found else (None, None, None)
    seconds = sum(float(part) * unit for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=True) if part)
    if not 0.0 < seconds < float("inf"):
        raise BadInput(f"{name} must be a length of time, such as 90s, 10m or 1h30m. Got {text!r}.")
    return seconds
