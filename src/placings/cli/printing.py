"""Printing results: as they are, or in plain letters where the terminal knows no others."""

from __future__ import annotations

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
