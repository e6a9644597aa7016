"""What a command prints: results, in plain letters where the terminal knows no others, and what it kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

PLAIN = str.maketrans(
    {"†": "+", "‡": "#", "▼": "v", "▽": "w", "─": "-", "−": "-", "×": "x", "α": "a", "…": "."}
)
BARS = str.maketrans("█▉▊▋▌▍▎▏▁▂▃▄▅▆▇·", "#######|_.:-=+*.")


def print_text(text: str) -> None:
    """Print a table or a line; nothing is lost on a terminal without Unicode but its looks."""
    import sys

    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(PLAIN).translate(BARS).encode(encoding, "replace").decode(encoding)
    typer.echo(text)


def check_format(format: str) -> None:
    """Refuse a page where the library that makes pages is missing, before there is anything to print."""
    if format == "html":
        from placings.cli.checks import check_library

        check_library("jinja2", "writing a page", "Jinja2", "report")


def print_result(result: Any, format: str, title: str | None = None) -> None:
    """Print a result's tables; as HTML they are a whole page, to be sent into a file."""
    if format == "html":
        from placings.report import render_result_page

        print_text(render_result_page(result, title=title))
        return
    print_text(result.report(format) if hasattr(result, "report") else result.table(format))


STOPPED = 130  # exit code, as the shell has it for Ctrl-C


@contextmanager
def say_when_stopped(kept: str) -> Iterator[None]:
    """Name what is kept in the line that a stopped command ends with."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(kept) from stop
