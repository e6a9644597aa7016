"""`placings fit` and `placings tune` on a log: what is held out, and every option taken once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import placings as pg
from placings.cli.fitting import fit_files, read_parts
from placings.cli.tuning import tune_files

app = typer.Typer()
app.command("fit")(fit_files)
app.command("tune")(tune_files)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 queries; neighbours are of other sessions, of which there are ten."""
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    data = pg.make_ranking(40, n_features=3, mean_size=6, random_state=0).data
    ids = np.array([f"s{place % 10}" for place in range(len(data))], dtype=object)
    pg.write(data.replace(segments={"session_id": np.repeat(ids, data.sizes)}), path)
    return path


def test_no_session_is_in_training_and_validation(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = read_parts(log, {"valid_share": 0.2}, 0)
    held = set(parts["valid"].segments["session_id"])
    assert len(held) == 2  # a fifth of ten
    assert held.isdisjoint(parts["train"].segments["session_id"])
    assert "20% of 10 sessions are held out for validation, each whole" in capsys.readouterr().err


def test_split_by_query_holds_out_the_queries_that_it_did(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = read_parts(log, {"valid_share": 0.2, "split_by": "query"}, 0)
    _, valid = pg.read(log).split(0.8, 0.2, random_state=0)
    assert parts["valid"].qids.tolist() == valid.qids.tolist()
    assert capsys.readouterr().err == ""


def test_fit_takes_every_one_of_its_options(log: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("seed: 3\n")
    said = run(
        "fit", log, "--out", tmp_path / "run", "--ranker", "ridge", "--set", "C=10", "--valid-share", "0.2",
        "--split-by", "session_id", "--test", log, "--metrics", "ndcg@5,mrr", "--qid", "qid", "--label",
        "label", "--seed", "1", "--positive-weight", "2", "--config", tmp_path / "run.yaml",
        "--overwrite", "--json",
    )  # fmt: skip
    assert said.exit_code == 0, said.exception
    assert set(json.loads(said.stdout)["metrics"]) == {"valid ndcg@5", "valid mrr", "test ndcg@5", "test mrr"}


def test_tune_takes_every_one_of_its_options(log: Path, tmp_path: Path) -> None:
    said = run(
        "tune", log, "--ranker", "ridge", "--set", "C=10", "--trials", "2", "--method", "random", "--space",
        "default", "--folds", "2", "--split-by", "session_id", "--metric", "ndcg@5", "--empty", "zero",
        "--storage", tmp_path / "study.db", "--study", "s", "--workers", "1", "--timeout", "60", "--no-prune",
        "--qid", "qid", "--label", "label", "--seed", "1", "--out", tmp_path / "run", "--overwrite", "--json",
    )  # fmt: skip
    assert said.exit_code == 0, said.exception
    assert json.loads(said.stdout)["group"] == "session_id"
