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


def _show(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")
