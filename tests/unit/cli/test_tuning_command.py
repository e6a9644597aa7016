"""`placings tune`: what it writes, prints, resumes and refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from unittest import mock

import pytest
import typer
import yaml
from typer.testing import CliRunner, Result

from placings.cli.main import app
from placings.cli.tuning import tune_files
from placings.core.errors import BadInput, MissingExtra, UnknownName
from placings.data.reading import write
from placings.simulate.rankings import make_ranking


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rows") / "train.txt"
    write(make_ranking(15, n_features=4, random_state=0).data, file)
    return file


def call(*words: object) -> Result:
    app = typer.Typer()
    app.command()(tune_files)
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_the_folder_holds_best_parameters_trials_and_curve(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = call(rows, "--ranker", "ridge", "--trials", 4, "--out", out, "--seed", 3)
    assert result.exit_code == 0
    best = yaml.safe_load((out / "best.yaml").read_text())
    assert (best["ranker"], best["seed"]) == ("ridge", 3)
    stored = json.loads((out / "best.json").read_text())
    assert stored["best_params"].items() <= best["set"].items()
    assert best["set"]["loss"] == "ridge"
    with open(out / "trials.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["number"] for row in table] == ["0", "1", "2", "3"]
    values = [float(row["value"]) for row in table if row["state"] == "complete"]
    assert max(values) == stored["best_value"]
    assert (out / "curve.svg").read_text().startswith("<svg")
    run = json.loads((out / "run.json").read_text())
    assert run["command"] == "tune"
    assert run["metrics"] == {"best ndcg@10": stored["best_value"], "trials": 4.0}
    assert "best ndcg@10" in result.stdout
    assert f"C: {best['set']['C']}" in result.stdout


def test_the_same_command_goes_on_with_more_trials(rows: Path, tmp_path: Path) -> None:
    words = [rows, "--ranker", "ridge", "--out", tmp_path / "out", "--json"]
    first = json.loads(call(*words, "--trials", 2).stdout)
    second = json.loads(call(*words, "--trials", 4).stdout)
    assert second["trials"][:2] == first["trials"]
    assert len(second["trials"]) == 4
    assert json.loads(call(*words, "--trials", 4).stdout) == second


def test_another_search_does_not_overwrite_a_folder(rows: Path, tmp_path: Path) -> None:
    call(rows, "--ranker", "ridge", "--trials", 1, "--out", tmp_path)
    before = (tmp_path / "best.json").read_text()
    with pytest.raises(BadInput, match="holds another run"):
        call(rows, "--ranker", "logistic", "--trials", 1, "--out", tmp_path)
    assert (tmp_path / "best.json").read_text() == before
    assert call(rows, "--ranker", "logistic", "--trials", 1, "--out", tmp_path, "--overwrite").exit_code == 0


def test_a_configuration_holds_options_and_flags_win(rows: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        "ranker: ridge\ntrials: 9\nmethod: grid\nmetric: mrr\nseed: 5\nset: {pairs: mean}\n"
        "space:\n  C: [0.1, 1.0, 10.0]\n"
    )
    found = json.loads(call(rows, "--config", config, "--trials", 2, "--json").stdout)
    assert len(found["trials"]) == 2
    assert (found["metric"], found["method"], found["seed"]) == ("mrr", "grid", 5)
    assert found["space"]["C"]["options"] == [0.1, 1.0, 10.0]
    config.write_text("trails: 3\n")
    with pytest.raises(UnknownName, match="did you mean 'trials'"):
        call(rows, "--config", config)


def test_validation_data_are_judged_on(rows: Path, tmp_path: Path) -> None:
    valid = tmp_path / "valid.txt"
    write(make_ranking(10, n_features=4, random_state=1).data, valid)
    words = [rows, "--ranker", "ridge", "--trials", 1, "--json"]
    held = json.loads(call(*words, "--valid", valid).stdout)
    folds = json.loads(call(*words, "--folds", 2).stdout)
    share = json.loads(call(*words, "--valid-share", 0.4).stdout)
    assert len({held["best_value"], folds["best_value"], share["best_value"]}) == 3


def test_without_a_drawing_library_all_but_the_curve_is_written(rows: Path, tmp_path: Path) -> None:
    missing = MissingExtra("drawing a figure", "matplotlib", "report")
    with mock.patch("placings.report.run_figures.draw_tuning", side_effect=missing):
        result = call(rows, "--ranker", "ridge", "--trials", 1, "--out", tmp_path)
    assert "no curve.svg: drawing a figure needs matplotlib" in result.stderr
    assert "curve.svg" not in result.stdout
    assert not (tmp_path / "curve.svg").exists()
    assert (tmp_path / "best.yaml").exists()


def test_stopping_says_how_to_go_on(rows: Path, tmp_path: Path) -> None:
    with mock.patch("placings.evaluation.tuning.tune", side_effect=KeyboardInterrupt):
        result = CliRunner().invoke(
            app, ["tune", str(rows), "--ranker", "ridge", "--out", str(tmp_path)], catch_exceptions=False
        )
    assert result.exit_code == 130
    kept = tmp_path / "study.db"
    assert f"stopped: the trials so far are in {kept}; the same command goes on." in result.stderr
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "stopped"
