"""What a command prints, and nothing else prints: no name of anyone's can steer the terminal.

Results are in plain letters where the terminal knows no others; notes and errors are one line each.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from placings.core import Voice, escape_json, escape_text, find_width, is_quiet, join_lines

PLAIN = str.maketrans(
    {"†": "+", "‡": "#", "▼": "v", "▽": "w", "─": "-", "−": "-", "×": "x", "α": "a", "…": "."}
)
GAPS = re.compile(r"(?<=\S) {2,}(?=\S)")  # between columns
BARS = str.maketrans("█▉▊▋▌▍▎▏▁▂▃▄▅▆▇·", "#######|_.:-=+*.")


def print_text(text: str, *, err: bool = False) -> None:
    """Print a table or lines; nothing is lost on a terminal without Unicode but its looks.

    A line of columns that is wider than the terminal goes on below its last column. Sentences, paths and
    commands are left to the terminal to wrap, so that they can be copied.
    """
    lines = [part for line in escape_text(text).split("\n") for part in _hang(line)]
    typer.echo(_encodable("\n".join(lines), err), err=err)


def _hang(line: str) -> list[str]:
    """The line, or lines that fit: what stands in its last column is wrapped, and hangs below it."""
    width = find_width()
    if width is None or len(line) <= width or line.startswith("|"):  # Markdown is for other programs
        return [line]
    gaps = [found.end() for found in GAPS.finditer(line) if found.end() <= width // 2]
    if not gaps:
        return [line]
    import textwrap

    indent, rest = max(gaps), line[max(gaps) :]
    parts = textwrap.wrap(rest, width - indent, break_long_words=False, break_on_hyphens=False)
    return [line[:indent] + parts[0], *(" " * indent + part for part in parts[1:])]


def print_note(text: object) -> None:
    """A remark on stderr, in one line; none with --quiet."""
    print_aside(f"note: {join_lines(text)}")


def print_aside(text: str) -> None:
    """What is worth knowing beside the result, on stderr; nothing with --quiet."""
    if not is_quiet():
        print_text(text, err=True)


def print_error(text: object) -> None:
    """Why a command ended, on stderr, in one line."""
    print_text(f"error: {join_lines(text)}", err=True)


def print_json(facts: Any, *, indent: int | None = None) -> None:
    """JSON for machines: facts, or text that is JSON already."""
    text = facts if isinstance(facts, str) else json.dumps(facts, indent=indent, ensure_ascii=False)
    typer.echo(_encodable(escape_json(text), err=False))


def print_rows(text: str) -> None:
    """Rows for another program: exact in a pipe or a file, with controls shown on a terminal."""
    if sys.stdout is not None:  # not `typer.echo`, which takes what looks like colours out of a pipe
        sys.stdout.write(_encodable(escape_text(text) if sys.stdout.isatty() else text, err=False))


def _encodable(text: str, err: bool) -> str:
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(PLAIN).translate(BARS).encode(encoding, "replace").decode(encoding)
    return text


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
    text = result.report(format) if hasattr(result, "report") else result.table(format)
    print_json(text) if format == "json" else print_text(text)


def choose_progress(verbose: bool = False) -> bool | Callable[[str], object]:
    """How a study tells each of its cells: every one on a terminal or if asked, else one now and then."""
    if is_quiet():
        return False
    return True if verbose or sys.stderr.isatty() else Voice()


def find_columns() -> int | None:
    """How wide a table may be: COLUMNS, else the terminal; None in a pipe or a file, which have no width."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    import shutil

    return shutil.get_terminal_size().columns


STOPPED = 130  # exit code, as the shell has it for Ctrl-C


@contextmanager
def say_when_stopped(kept: str) -> Iterator[None]:
    """Name what is kept in the line that a stopped command ends with."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(kept) from stop
