"""Flags as they are typed, in help (`--json`, not `--json <bool>`) and in messages of the library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typer.core import TyperGroup

from placings.cli.values import check_flags


class PlainFlags(TyperGroup):
    """A group that tells no type for its flags, nor for those of its commands; newer Typers show `<bool>`."""

    def get_params(self, ctx: Any) -> Any:
        """The group's own parameters."""
        return hide_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, its flags included."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            hide_types(found.get_params(ctx))
            check_flags(found)
        return found


def hide_types(parameters: Any) -> Any:
    """The same parameters; a flag has no type to show."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


# what a flag is called in the library where it is not the flag's own name
KEYWORDS = {
    "seed": ("random_state",),
    "second": ("second_baseline",),
    "reference": ("bundle",),
    "split_by": ("group",),
    "names": ("feature_names",),
    "map": ("columns",),
}


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
