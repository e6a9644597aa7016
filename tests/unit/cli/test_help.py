"""The help of every command."""

from __future__ import annotations

from typer.main import get_command
from typer.testing import CliRunner

from placings.cli.main import app


def test_no_help_shows_a_type_behind_a_flag() -> None:
    """`--json`, not `--json <bool>`: in every command, and in the line of --help itself."""

    def walk(command: object, path: tuple[str, ...]) -> int:
        text = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "120"}).output
        assert "--help" in text
        assert "bool" not in text.lower(), path
        inside = getattr(command, "commands", {})
        return 1 + sum(walk(each, (*path, name)) for name, each in inside.items())

    assert walk(get_command(app), ()) > 30
