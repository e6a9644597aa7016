"""CSV as checked bytes, before Arrow or DuckDB parse it: UTF-8, bounded, and every quote closed.

Both parsers take what follows an opening quote as one value until the next quote, be it thousands of rows
later. Here such a file is refused with the line where the quote opens.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import AnyArray, BadFile, check_file, find_compression, iterate_blocks

BLOCK = 1 << 20
SMALL = 1 << 15  # bytes; below, the plain loop is done before numba is loaded
FREE, PLAIN, QUOTED, CLOSED = range(4)  # at a field's start, in a plain or a quoted one, after its last quote

_LOOPS: dict[str, Callable[..., Any]] = {}


def is_plain(path: Path) -> bool:
    """Whether a file is ASCII without quotes and not packed, so that there is nothing to check."""
    if find_compression(path) is not None:
        return False
    with open(path, "rb", buffering=0) as file:
        while block := file.read(BLOCK):
            if b'"' in block or not block.isascii():
                return False
    return True


def check_csv(path: Path, delimiter: str) -> None:
    """Refuse a CSV file whose quotes do not close, or that is not UTF-8, or over a limit when unpacked."""
    check_file(path)
    if is_plain(path):
        return
    for _ in CheckedText(path, delimiter).iterate():
        pass


def read_header(path: Path, delimiter: str) -> list[str]:
    """The names of a CSV file's columns; none if it is empty."""
    block = next(CheckedText(path, delimiter).iterate(), b"")
    rows = csv.reader(io.StringIO(block.decode("utf-8-sig"), newline=""), delimiter=delimiter)
    try:
        return next((row for row in rows if row), [])
    except csv.Error as error:
        raise BadFile(path, f"its header cannot be read: {error}.", line=1) from None


class CheckedText(io.RawIOBase):
    """The unpacked bytes of a CSV file as a stream; what is wrong with them is raised while it is read.

    `breaks` tells afterwards whether a quoted value holds a line break.
    """

    def __init__(self, path: Path, delimiter: str) -> None:
        self.path, self.delimiter = path, delimiter
        self.breaks = False
        self.problem: BadFile | None = None
        self._blocks, self._rest = self.iterate(), memoryview(b"")

    def iterate(self) -> Iterator[bytes]:
        """The blocks, each of whole lines."""
        line, opened, state = 1, 0, FREE
        for block in iterate_blocks(self.path, BLOCK):
            _check_utf8(self.path, block, line)
            if state == QUOTED or (b'"' in block and not _is_tidy(block, ord(self.delimiter))):
                state, opened, breaks, wrong = _scan(block, ord(self.delimiter), state, line, opened)
                self.breaks = self.breaks or breaks
                if wrong:
                    self._refuse(opened)
            line += block.count(b"\n")
            yield block
        if state == QUOTED:
            self._refuse(opened)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; 0 at the end."""
        if not self._rest:
            try:
                self._rest = memoryview(next(self._blocks, b""))
            except BadFile as problem:  # Arrow makes its own error of it
                self.problem = problem
                raise
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size

    def _refuse(self, line: int) -> None:
        raise BadFile(
            self.path,
            "a quote opens here that does not close before the next one opens, so that rows would be lost. "
            "Close it, or double a quote inside quotes.",
            line=line,
        )


def _check_utf8(path: Path, block: bytes, first: int) -> None:
    if block.isascii():
        return
    try:
        block.decode("utf-8")
    except UnicodeDecodeError as error:
        line, byte = first + block.count(b"\n", 0, error.start), block[error.start]
        raise BadFile(
            path, f"is not UTF-8 text (byte 0x{byte:02x}). Save it again as UTF-8.", line=line
        ) from None


def _is_tidy(block: bytes, delimiter: int) -> bool:
    """Whether each quote stands at an end of a value, and no value holds a line break; the block's last
    byte is a line's end, and stands for the one before the first."""
    text = np.frombuffer(block, dtype=np.uint8)
    quotes = np.flatnonzero(text == 34)
    if len(quotes) % 2:
        return False
    first, last = quotes[::2], quotes[1::2]
    ends = np.zeros(256, dtype=np.bool_)
    ends[[delimiter, 10, 13, 34]] = True
    if not (ends[text[first - 1]].all() and ends[text[last + 1]].all()):
        return False
    breaks = np.flatnonzero((text == 10) | (text == 13))
    return bool((np.searchsorted(breaks, first) == np.searchsorted(breaks, last)).all())


def _scan(block: bytes, delimiter: int, state: int, line: int, opened: int) -> tuple[int, int, bool, bool]:
    if len(block) < SMALL:
        return follow_quotes(block, delimiter, state, line, opened)  # type: ignore[arg-type]
    if not _LOOPS:
        from placings.core import compiled  # numba takes half a second to load

        _LOOPS["quotes"] = compiled(follow_quotes)
    found = _LOOPS["quotes"](np.frombuffer(block, dtype=np.uint8), delimiter, state, line, opened)
    return int(found[0]), int(found[1]), bool(found[2]), bool(found[3])


def follow_quotes(
    text: AnyArray, delimiter: int, state: int, line: int, opened: int
) -> tuple[int, int, bool, bool]:
    """The state after a block, the line where the last quoted value opened, whether one holds a line break,
    and whether it is wrong: one that spans lines must be followed by a delimiter or the line's end.
    """
    breaks = False
    for byte in text:
        if state == QUOTED:
            if byte == 34:
                state = CLOSED
            elif byte == 10 or byte == 13:
                line += byte == 10
                breaks = True
        elif byte == delimiter:
            state = FREE
        elif byte == 10 or byte == 13:
            state = FREE
            line += byte == 10
        elif byte == 34:
            if state == FREE:
                opened = line
            state = PLAIN if state == PLAIN else QUOTED  # two quotes are one inside the value
        elif state == CLOSED:
            if line > opened:
                return state, opened, breaks, True
            state = PLAIN
        else:
            state = PLAIN
    return state, opened, breaks, False
