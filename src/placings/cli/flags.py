"""Commands whose help shows a flag as it is typed: `--json`, not `--json <bool>`."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


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
        return found


def hide_types(parameters: Any) -> Any:
    """The same parameters; a flag has no type to show."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters
