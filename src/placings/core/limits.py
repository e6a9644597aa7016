"""What is refused because of its size: every limit in one place, and one sentence for every refusal.

A file of a few bytes can ask for gigabytes: a feature id, a packed line, a nested list. Each limit is far
above what real data hold, and a refusal names the environment variable that raises it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from placings.core.errors import BadInput

VARIABLE = "PLACINGS_LIMIT_"


@dataclass(frozen=True)
class Cap:
    """The largest number that is let through, and how a refusal says what was larger."""

    most: int
    what: str


LIMITS = {
    "line": Cap(64 << 20, "a line of {got} bytes"),
    "unpacked": Cap(200, "a compressed file that becomes {got} times as large"),  # counts from 64 MiB
    "rows": Cap(8, "a compressed file with {got} rows for each of its bytes"),  # counts from 2 million rows
    "feature": Cap(1 << 23, "feature number {got}"),  # eight texts hashed to 2^20 columns each
    "cells": Cap(20_000_000_000, "a matrix of {got} cells"),
    "depth": Cap(64, "values nested {got} deep"),
    "fields": Cap(4_096, "a log with {got} different fields"),
    "sparse": Cap(16, "a table with {got} cells for each byte of its log"),  # counts from 4 million cells
    "config": Cap(4 << 20, "a file of {got} bytes"),
    "text": Cap(512, "a text of {got} letters"),  # what is longer is cut there, not refused
    "words": Cap(64, "a text of {got} words"),  # of a query that are looked for in an item's texts; the same
    "k": Cap(10_000, "a list of {got} results"),
    "body": Cap(32 << 20, "a body of {got} bytes"),
    "model": Cap(8 << 30, "a model of {got} bytes"),
    "jobs": Cap(512, "{got} workers"),
    "draws": Cap(1_000_000, "{got} draws"),
    "count": Cap(100_000_000, "a count of {got}"),
}


class OverLimit(BadInput):
    """Something is larger than its limit; the message names the limit and how to raise it."""

    def __init__(self, name: str, got: int | None = None, where: str = "") -> None:
        self.name = name
        super().__init__(f"{where}: {say_limit(name, got)}" if where else say_limit(name, got))


def find_limit(name: str) -> int:
    """A limit: its default, or what the environment says, as in `PLACINGS_LIMIT_FEATURE=5000000`.

    >>> find_limit("depth")
    64
    """
    variable = VARIABLE + name.upper()
    chosen = os.environ.get(variable, "").strip()
    if not chosen:
        return LIMITS[name].most
    try:
        most = int(chosen)
    except ValueError:
        most = 0
    if most < 1:
        raise BadInput(f"{variable} must be a whole number, 1 or more. Got {chosen!r}.")
    return most


def say_limit(name: str, got: int | None = None) -> str:
    """Why something was refused; without `got` it is only known to be more than the limit.

    >>> print(say_limit("feature", 1_000_000_000))
    feature number 1,000,000,000 is over the limit of 8,388,608. If it is right, set PLACINGS_LIMIT_FEATURE.
    """
    most = find_limit(name)
    what = LIMITS[name].what.format(got=f"more than {most:,}" if got is None else f"{got:,}")
    plural = LIMITS[name].what.split()[-1] in ("workers", "draws")
    verb = "are" if plural or what.startswith("values") else "is"
    return f"{what} {verb} over the limit of {most:,}. If it is right, set {VARIABLE}{name.upper()}."


def check_limit(name: str, got: int, where: str = "") -> None:
    """Refuse what is larger than the limit; `where` begins the message."""
    if got > find_limit(name):
        raise OverLimit(name, got, where)
