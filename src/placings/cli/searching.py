"""What the commands that search share: where and when a person is, and hits as lines or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import typer

from placings.core import escape_line, find_width, shorten_middle

if TYPE_CHECKING:
    from placings.rerank import Focus, Hit


def parse_position(text: str) -> Focus:
    """Latitude and longitude in degrees."""
    try:
        lat, lon = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(
            f"--near must be LAT,LON in degrees, such as 49.01,8.40. Got {text!r}."
        ) from None
    return lat, lon


def parse_moment(text: str) -> datetime:
    """A moment as ISO 8601 writes it."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"--time must be such as 2026-03-01T08:30+01:00. Got {text!r}.") from None


def parse_context(pairs: Sequence[str]) -> dict[str, str | float]:
    """What else is known of a search, from texts such as `device=phone`; numbers become numbers."""
    found: dict[str, str | float] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.strip():
            raise typer.BadParameter(f"--context must be NAME=VALUE, such as device=phone. Got {pair!r}.")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            found[name.strip()] = value
    return found


def write_lines(hits: Sequence[Hit], focus: Focus | None) -> Iterator[str]:
    """Hits as lines under each other: the engine's rank where the order is another, name, type, score, km."""
    moved = any(hit.rank != place for place, hit in enumerate(hits, 1))
    what = "place" if any("lat" in hit.fields for hit in hits) else "item"
    rows = [("engine" if moved else "", what, "type", "score", "" if focus is None else "km")]
    for hit in hits:
        around = hit.fields.get("locality") or hit.fields.get("country") or hit.fields.get("brand")
        where = ", ".join(escape_line(part) for part in (hit.name, around) if part)
        rows.append(
            (
                str(hit.rank),
                where,
                escape_line(hit.fields.get("type") or ""),
                "" if hit.score != hit.score else f"{hit.score:.2f}",
                _measure(hit, focus),
            )
        )
    told = [column for column in range(5) if column < 2 or any(row[column] for row in rows[1:])]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    room = (find_width() or sum(widths) + 8) - 8 - sum(widths) + widths[1]
    widths[1] = min(widths[1], max(room, 20))
    for row in rows:
        row = (row[0], shorten_middle(row[1], widths[1]), *row[2:])
        cells = [
            row[column].ljust(widths[column]) if column in (1, 2) else row[column].rjust(widths[column])
            for column in told
        ]
        yield "  ".join(cells).rstrip()


def _measure(hit: Hit, focus: Focus | None) -> str:
    """How far a hit is from the person, in km; empty where one of the two is not known."""
    from placings.core import measure_km

    lat, lon = hit.fields.get("lat"), hit.fields.get("lon")
    if focus is None or lat is None or lon is None:
        return ""
    return f"{measure_km(*focus, lat, lon):,.1f}"
