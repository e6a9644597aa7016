"""Text from elsewhere, made safe to print: what would steer a terminal is shown instead of obeyed."""

from __future__ import annotations

import re

# controls but line feed and tab; marks that reverse or hide text; line separators; halves of surrogate pairs
STEERING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
STEERING_OR_BREAK = re.compile(f"{STEERING.pattern[:-1]}\\t\\n]")


def escape_text(text: str) -> str:
    r"""Text of several lines for a terminal: line feeds and tabs stay, other controls are shown.

    >>> print(escape_text("Ulm\x1b[2J"))
    Ulm\x1b[2J
    """
    return STEERING.sub(_show, text)


def escape_line(text: object) -> str:
    r"""A name or a message as one line: line feeds and tabs are shown too.

    >>> print(escape_line("Ulm\nerror: none"))
    Ulm\nerror: none
    """
    return STEERING_OR_BREAK.sub(_show, str(text))


def join_lines(text: object) -> str:
    r"""A message as one line: libraries put line breaks into theirs, and names may hold anything.

    >>> print(join_lines("Parser Error:\n  at \x1b[31m'x'\n"))
    Parser Error: at \x1b[31m'x'
    """
    parts = (part.strip() for part in str(text).splitlines())
    return escape_line(" ".join(part for part in parts if part))


def escape_json(text: str) -> str:
    r"""JSON text whose strings hold no control, as JSON itself escapes them; the values stay the same.

    >>> print(escape_json('{"name": "Ulm\x9b2J"}'))
    {"name": "Ulm\u009b2J"}
    """
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escape_cell(text: object) -> str:
    """Text for a cell of a CSV file that people open: a spreadsheet would compute what begins like a formula.

    Only for remarks and headings: what identifies something must stay as it is.

    >>> escape_cell("=1+2"), escape_cell("0.5"), escape_cell("lightgbm")
    ("'=1+2", '0.5', 'lightgbm')
    """
    text = str(text)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _show(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
