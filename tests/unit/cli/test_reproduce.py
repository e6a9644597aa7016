"""`placings reproduce table1`: what it prints, keeps and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

import placings as pg
from placings.cli.reproduce import app, parse_folds
from placings.core.errors import BadInput


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.txt"
    pg.write(pg.make_ranking(15, n_features=5, mean_size=8, random_state=0).data, path)
    return path


SMALL = (
    "--methods",
    "raw,cdf",
    "--seeds",
    1,
    "--steps",
    3,
    "--lr",
    0.1,
    "--set",
    "hidden=[4]",
    "--folds",
    "1,2",
    "--no-linear",
)


def test_it_prints_the_table_and_keeps_it(rows: Path, tmp_path: Path) -> None:
    result = run("table1", rows, *SMALL, "--out", tmp_path / "study")
    assert result.exit_code == 0, result.output
    assert "CDF" in result.stdout
    assert "significantly better than Raw" in result.stdout
    assert "The paper's Table 1" in result.stdout
    assert {"table1.json", "table1.md", "table1.tex"} <= {p.name for p in (tmp_path / "study").iterdir()}


def test_json_is_for_machines_and_a_second_run_trains_nothing(rows: Path, tmp_path: Path) -> None:
    first = run("table1", rows, *SMALL, "--out", tmp_path, "--json", "--verbose")
    second = run("table1", rows, *SMALL, "--out", tmp_path, "--json", "--verbose")
    assert json.loads(first.stdout)["settings"]["folds"] == [1, 2]
    assert first.stdout == second.stdout
    assert first.stderr.count("kept\n") == 0
    assert second.stderr.count("kept\n") == 4


def test_help_shows_examples() -> None:
    shown = run("table1", "--help").output
    assert "placings reproduce table1 MSLR-WEB30K --device cuda" in shown
    for option in (
        "--linear",
        "--trees",
        "--attention",
        "--groupwise",
        "--seeds",
        "--steps",
        "--device",
        "--folds",
        "--lr",
    ):
        assert option in shown
    assert "table1" in run("--help").output


def test_folds_are_a_number_or_a_list() -> None:
    assert parse_folds(None) is None
    assert parse_folds("3") == 3
    assert parse_folds("1,3") == [1, 3]
    with pytest.raises(BadInput, match="Got 'all'"):
        parse_folds("all")
