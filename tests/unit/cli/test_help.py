"""The `--help` of every command: what was written is what is shown."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from typer.testing import CliRunner

from placings.cli.main import app

TAG = re.compile(r"\[/?(bold|none)\]")  # the only markup that help texts use


def list_commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from list_commands(each, (*path, name))


COMMANDS = list(list_commands(typer.main.get_command(app)))


def split_words(text: str) -> list[str]:
    """The words of a help text; box signs, and what stands for a line that is kept as it is, are none."""
    return [word for word in re.split(r"[\s│╭╮╰╯─\x08]+", text) if word]


@cache
def show_help(path: tuple[str, ...]) -> str:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize(
    ("path", "command"), COMMANDS, ids=[" ".join(path) or "placings" for path, _ in COMMANDS]
)
def test_help_shows_every_word_that_was_written_and_no_picture(path: tuple[str, ...], command: Any) -> None:
    text = show_help(path)
    shown = " ".join(split_words(text))
    written = [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]
    if isinstance(command, click.Group):
        written = [command.help or ""]
    known = {*"".join(written), *map(chr, range(0x2500, 0x2580))}  # the last are the boxes
    pictures = [sign for sign in text if unicodedata.category(sign) == "So" and sign not in known]
    assert not pictures  # rich turns :top: into one
    for text in written:
        for word in split_words(TAG.sub("", text)):
            assert word in shown, f"{word!r} of {text!r}"  # rich swallows [word] as markup


def test_the_cache_shows_paths_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACINGS_CACHE", str(tmp_path / "a:top:[x]"))
    result = CliRunner().invoke(app, ["cache", "list"])
    assert result.exit_code == 0
    assert str(tmp_path / "a:top:[x]") in result.stdout.replace("\n", "")


def test_no_help_shows_a_type_behind_a_flag() -> None:
    """`--json`, not `--json <bool>`: in every command, and in the line of --help itself."""
    assert len(COMMANDS) > 30
    for path, _ in COMMANDS:
        text = show_help(path)
        assert "--help" in text
        assert "bool" not in text.lower(), path
