"""Options of commands that read logs as they are: other names of columns, times as numbers, cut lines."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer


class TimeUnit(StrEnum):
    """What times that are numbers count, since 1970."""

    seconds = "seconds"
    milliseconds = "milliseconds"
    microseconds = "microseconds"
    nanoseconds = "nanoseconds"


READING = "Logs as they are"
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        help="What the file calls one of our columns: search_id=sid. Repeated; actions.time=at is of one "
        "file alone.",
        metavar="OURS=THEIRS",
        rich_help_panel=READING,
    ),
]
Unit = Annotated[
    TimeUnit | None,
    typer.Option(
        "--time-unit",
        help="What times that are numbers count since 1970; told by their size unless said.",
        rich_help_panel=READING,
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse a file whose last line ends early; else it is counted and passed over.",
        rich_help_panel=READING,
    ),
]


def parse_map(pairs: Sequence[str] | None, flag: str = "--map") -> dict[str, str]:
    """OURS=THEIRS, repeated, as a mapping.

    >>> parse_map(["search_id=sid", "time = ts"])
    {'search_id': 'sid', 'time': 'ts'}
    """
    from placings.core import BadInput

    read: dict[str, str] = {}
    for pair in pairs or ():
        ours, sign, theirs = (part.strip() for part in pair.partition("="))
        if not sign or not ours or not theirs:
            raise BadInput(f"{flag} must be NAME=VALUE. Got {pair!r}.")
        if read.get(ours, theirs) != theirs:
            raise BadInput(f"{flag} names {ours!r} twice: {read[ours]!r} and {theirs!r}. Leave one out.")
        read[ours] = theirs
    return read
