"""Options that commands share are declared once and handed over as one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from placings.cli.options import AsJson, Seed, takes


@dataclass(frozen=True)
class Shared:
    seed: Seed = 3
    as_json: AsJson = False
    name: Annotated[str | None, typer.Option(help="A name.")] = None


def make_app() -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @takes(Shared, "shared", "as_json")
    def show(shared: Shared, name: Annotated[str, typer.Option(help="Another name.")] = "own") -> None:
        typer.echo(f"{shared} {name}")

    return app


def test_a_command_gets_the_shared_options_as_one_object() -> None:
    result = CliRunner().invoke(make_app(), ["--seed", "5"])
    assert result.exit_code == 0
    assert "seed=5" in result.stdout


def test_an_option_that_the_command_names_is_its_own() -> None:
    result = CliRunner().invoke(make_app(), ["--name", "given"])
    assert result.stdout.strip() == "Shared(seed=3, as_json=False, name=None) given"


def test_an_option_that_is_left_out_is_refused() -> None:
    assert CliRunner().invoke(make_app(), ["--json"]).exit_code == 2
