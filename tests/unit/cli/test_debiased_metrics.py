"""`dcg@10:ips` at the terminal: a column of propensities is named, and its lack is said before the work."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import placings as pg
from placings.cli.evaluation import compare_files, evaluate_files
from placings.cli.fitting import fit_files
from placings.cli.main import app as main
from placings.cli.tuning import tune_files
from placings.metrics import metric

app = typer.Typer()
for name, command in (
    ("evaluate", evaluate_files), ("compare", compare_files), ("fit", fit_files), ("tune", tune_files),
):  # fmt: skip
    app.command(name)(command)

COLUMNS = ("--qid", "search", "--label", "click", "--features", "size,price", "--propensity", "look")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """clicks.csv with a column of propensities, and scores for it."""
    path = tmp_path_factory.mktemp("clicks")
    rng = np.random.default_rng(0)
    rows = 160
    look = np.tile(1.0 / np.arange(1.0, 5.0), rows // 4)
    size = rng.random(rows)
    click = (rng.random(rows) < look * size).astype(int)
    frame = pd.DataFrame(
        {
            "search": np.repeat(np.arange(rows // 4), 4),
            "click": click,
            "size": size,
            "price": rng.random(rows),
        }
    ).assign(look=look)
    frame.to_csv(path / "clicks.csv", index=False)
    np.savetxt(path / "scores.txt", size)
    np.savetxt(path / "other.txt", rng.random(rows))
    return path


def test_evaluate_reads_a_column_of_propensities(folder: Path) -> None:
    words = ("evaluate", folder / "clicks.csv", "--scores", folder / "scores.txt", *COLUMNS)
    result = run(*words, "--metrics", "dcg@10:ips,mrr:ips", "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    frame = pd.read_csv(folder / "clicks.csv")
    expected = metric("dcg@10:ips")(
        frame["size"], frame["click"], np.arange(0, 161, 4), propensity=frame["look"]
    )
    assert facts["metrics"]["dcg@10:ips"]["mean"] == pytest.approx(expected.mean())
    assert facts["metrics"]["dcg@10:ips"]["scored"] == 40
    assert "wants one item" in facts["rule"]


def test_compare_judges_scores_and_trains_rankers(folder: Path) -> None:
    words = ("compare", folder / "clicks.csv", *COLUMNS, "--metrics", "clicks@2:ips", "--baseline")
    files = ("--scores", f"ours={folder / 'scores.txt'}", "--scores", f"other={folder / 'other.txt'}")
    given = run(*words, "other", *files)
    assert given.exit_code == 0, given.output
    assert "without a click count as 0" in given.stdout
    trained = run(*words, "ridge", "--rankers", "ridge,ranksvm", "--folds", 3)
    assert trained.exit_code == 0, trained.output
    assert "clicks@2:ips" in trained.stdout


def test_fit_stops_early_and_judges_by_it(folder: Path, tmp_path: Path) -> None:
    result = run(
        "fit", folder / "clicks.csv", *COLUMNS, "--set", "metric=dcg@10:ips", "--set", "rounds=5",
        "--valid-share", 0.3, "--metrics", "dcg@10:ips", "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["metrics"]["valid dcg@10:ips"] > 0
    assert pg.load(tmp_path / "run/model").get_params()["metric"] == "dcg@10:ips"


def test_tune_judges_by_it(folder: Path) -> None:
    result = run(
        "tune", folder / "clicks.csv", *COLUMNS, "--ranker", "ridge", "--trials", 2, "--metric", "dcg@3:ips"
    )
    assert result.exit_code == 0, result.output
    assert "best dcg@3:ips" in result.stdout
    assert "queries without a click count as 0" in result.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "--metrics", "dcg@10:ips", "--scores", "scores.txt"),
        ("compare", "--metrics", "dcg@10:ips", "--scores", "a=scores.txt"),
        ("fit", "--metrics", "dcg@10:ips", "--valid-share", "0.3", "--out", "run"),
        ("fit", "--set", "metric=dcg@10:ips", "--valid-share", "0.3", "--out", "run"),
        ("tune", "--metric", "dcg@10:ips", "--ranker", "ridge", "--trials", "1"),
    ],
)
def test_without_the_column_the_flag_is_named(
    words: tuple[str, ...], folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scores.txt").write_bytes((folder / "scores.txt").read_bytes())
    result = CliRunner().invoke(main, [words[0], str(folder / "clicks.csv"), *COLUMNS[:6], *words[1:]])
    assert result.exit_code != 0
    said = str(result.exception) + result.output
    assert "dcg@10:ips divides each click by its propensity, and the data has no propensity" in said
    assert not (tmp_path / "run").exists()


def test_ndcg_is_refused_before_anything_is_read() -> None:
    result = run("evaluate", "nowhere.csv", "--scores", "nowhere.txt", "--metrics", "ndcg@10:ips")
    assert result.exit_code != 0
    assert "the ideal order, which is unobserved" in str(result.exception) + result.output
