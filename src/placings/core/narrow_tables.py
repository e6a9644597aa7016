"""Text tables in the columns of a terminal: names give way, numbers never do.

A table that is too wide has its headings broken at spaces first. Then names are shortened in the middle, or
broken into lines where two of them would look alike. If there is still no room, columns go below, with the
names repeated; and where one column alone is too wide, every row becomes a few lines.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

GAP = 2
NARROWEST = 14  # columns that a shortened name keeps at least
HEADING = 8  # columns that a broken heading keeps at least
DRAWN = set("█▉▊▋▌▍▎▏▁▂▃▄▅▆▇·")  # bars and sparklines are not shortened: each letter is a number

_width: ContextVar[int | None] = ContextVar("width", default=None)

Rows = Sequence[Sequence[str]]


@contextmanager
def fit_width(columns: int | None) -> Iterator[None]:
    """Text tables drawn within are at most so wide; None: as wide as they are."""
    before = _width.set(columns)
    try:
        yield
    finally:
        _width.reset(before)


def find_width() -> int | None:
    """How wide a text table may be now; None: as wide as it is."""
    return _width.get()


def shorten_middle(text: str, width: int) -> str:
    """The text without its middle, in at most `width` columns of a terminal.

    >>> shorten_middle("covered_query_term_number_title", 16)
    'covered_…r_title'
    """
    from rich.cells import cell_len

    if cell_len(text) <= width:
        return text
    room = max(width - 1, 1)
    head, tail = "", ""
    for letter in text:
        if cell_len(head + letter) > (room + 1) // 2:
            break
        head += letter
    for letter in reversed(text[len(head) :]):
        if cell_len(head) + cell_len(letter + tail) > room:
            break
        tail = letter + tail
    return f"{head}…{tail}"


def wrap_note(text: str, width: int | None) -> list[str]:
    """A note in lines of at most `width`; a word that is longer, such as a path, stays whole."""
    if width is None:
        return [text]
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def draw_narrow(header: Sequence[str], rows: Rows, left: int, width: int) -> list[str]:
    """Lines of at most `width` columns, rules included; the first `left` columns are names.

    >>> print(*draw_narrow(("feature", "share of all"), [("a_name_of_some_length", "0.5")], 1, 24), sep="\\n")
                    share of
    feature              all
    ────────────────────────
    a_name_…length       0.5
    ────────────────────────
    """
    natural = [max(_measure(row[place]) for row in (header, *rows)) for place in range(len(header))]
    body = [max((_measure(row[place]) for row in rows), default=0) for place in range(len(header))]
    least = [
        max(body[i], min(natural[i], HEADING), *map(_measure, header[i].split() or [""]))
        for i in range(len(header))
    ]
    for place in range(left):
        if not _is_drawn([row[place] for row in rows]):
            least[place] = min(least[place], NARROWEST)
    blocks = _part_columns(least, left, width)
    if blocks is None:
        return _list_records(header, rows, width)
    lines: list[str] = []
    for block in blocks:
        widths = _share_room([least[i] for i in block], [natural[i] for i in block], left, width)
        drawn = [
            *_draw_row([header[i] for i in block], widths, left, heading=True),
            None,
        ]
        names = [_fit_names([row[i] for row in rows], w) for i, w in zip(block[:left], widths, strict=False)]
        for number, row in enumerate(rows):
            cells = [names[k][number] if k < left else row[i] for k, i in enumerate(block)]
            drawn += _draw_row(cells, widths, left)
        rule = "─" * max(_measure(line) for line in drawn if line is not None)
        lines += [rule if line is None else line for line in drawn]
    return [*lines, rule] if rows else lines


def _part_columns(least: Sequence[int], left: int, width: int) -> list[list[int]] | None:
    """The columns of each table of those that stand below each other; None if one is too wide for any."""
    names = list(range(left))
    taken = sum(least[i] for i in names) + GAP * (left - 1)
    if taken > width:
        return None
    blocks: list[list[int]] = []
    room = -1
    for place in range(left, len(least)):
        needed = GAP + least[place]
        if needed > room:
            blocks.append([*names])
            room = width - taken
        if needed > room:
            return None
        blocks[-1].append(place)
        room -= needed
    return blocks or [names]


def _share_room(least: Sequence[int], natural: Sequence[int], left: int, width: int) -> list[int]:
    """The width of each column: names get what is over, then headings."""
    widths = list(least)
    room = width - sum(widths) - GAP * (len(widths) - 1)
    for place in range(len(widths)):
        more = min(room, natural[place] - widths[place])
        if more > 0:
            widths[place] += more
            room -= more
    return widths


def _fit_names(names: Sequence[str], width: int) -> list[str]:
    """Names in `width` columns each: without their middle, or in lines if two would look alike."""
    short = [shorten_middle(name, width) for name in names]
    if len(set(short)) == len(set(names)):
        return short
    return ["\n".join(_break(name, width)) for name in names]


def _break(text: str, width: int) -> list[str]:
    from rich.cells import chop_cells

    return chop_cells(text, width) or [""]


def _draw_row(cells: Sequence[str], widths: Sequence[int], left: int, heading: bool = False) -> list[str]:
    parts = [
        _break_heading(cell, width) if heading else cell.split("\n")
        for cell, width in zip(cells, widths, strict=True)
    ]
    height = max(map(len, parts))
    lines = []
    for number in range(height):
        line = []
        for place, part in enumerate(parts):
            # headings stand on the rule, the lines of a name hang from the first
            found = number - (height - len(part)) if heading else number
            text = part[found] if 0 <= found < len(part) else ""
            space = " " * (widths[place] - _measure(text))
            line.append(text + space if place < left else space + text)
        lines.append((" " * GAP).join(line).rstrip())
    return lines


def _break_heading(text: str, width: int) -> list[str]:
    return [
        shorten_middle(line, width)
        for line in textwrap.wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]
    ]


def _list_records(header: Sequence[str], rows: Rows, width: int) -> list[str]:
    """Each row as lines: its name, then what the columns hold, each under its heading."""
    rule = "─" * width
    lines = [rule]
    for row in rows:
        lines += _break(row[0], width)
        for name, cell in zip(header[1:], row[1:], strict=True):
            told = f"  {name}: {cell}"
            lines += textwrap.wrap(told, width, subsequent_indent="    ", break_on_hyphens=False)
    return [*lines, rule]


def _is_drawn(cells: Sequence[str]) -> bool:
    return any(set(cell) & DRAWN for cell in cells)


def _measure(text: str) -> int:
    from rich.cells import cell_len  # some letters are two columns wide

    return cell_len(text)
