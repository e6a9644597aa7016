"""Which flags a command has, so that messages of the library name them and not Python's keywords."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# what a flag is called in the library where it is not the flag's own name
KEYWORDS = {"seed": ("random_state",), "second": ("second_baseline",), "reference": ("bundle",)}


def find_flags(command: Any, words: Sequence[str]) -> dict[str, str]:
    """The flags of the command that these words call, by the keyword that the library knows each by.

    >>> from placings.cli.main import app
    >>> import typer
    >>> find_flags(typer.main.get_command(app), ["fit", "train.txt", "--seed", "1"])["random_state"]
    '--seed'
    """
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    flags: dict[str, str] = {}
    for parameter in command.params:
        for flag in parameter.opts:
            if flag.startswith("--"):
                name = flag.removeprefix("--").replace("-", "_")
                flags |= dict.fromkeys((name, *KEYWORDS.get(name, ())), flag)
    return flags
