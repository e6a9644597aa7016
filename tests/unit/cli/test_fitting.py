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


# -- auto ----------------------------------------------------------------------------------------------


def fit_auto(log: Path, out: Path, *more: str) -> Result:
    return run("fit", log, "--ranker", "auto", "--set", "kinds=[linear]", "--out", out, *more)


def test_fit_auto_tells_who_was_tried_and_leaves_one_bundle(log: Path, tmp_path: Path) -> None:
    said = fit_auto(log, tmp_path / "run", "--steps", "4")
    assert said.exit_code == 0, said.output
    assert "ridge over quantile_normal" in said.stdout
    assert "4 steps were asked for." in said.stdout
    assert pg.load(tmp_path / "run" / "model").steps_ == 4
    assert not (tmp_path / "run" / "tried").exists()  # what it had kept in case it was stopped


def test_a_search_that_was_stopped_goes_on_with_the_same_command(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placings.evaluation import auto

    real, taken = auto.take_step, []

    def take(step: auto.Step, *args: object) -> auto.Tried:
        taken.append(step)
        if len(taken) == 4:
            raise KeyboardInterrupt
        return real(step, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(auto, "take_step", take)
    first = fit_auto(log, tmp_path / "run", "--steps", "6")
    assert "it was stopped by hand" in first.stdout
    assert pg.load(tmp_path / "run" / "model").steps_ == 3
    again = fit_auto(log, tmp_path / "run", "--steps", "6")
    assert "6 steps were asked for." in again.stdout
    assert len(taken) == 4 + 3  # three were kept, the fourth is begun anew


def test_what_auto_tried_is_in_the_json(log: Path, tmp_path: Path) -> None:
    said = fit_auto(log, tmp_path / "run", "--steps", "3", "--json")
    tried = json.loads(said.stdout)["search"]["tried"]
    assert [each["name"] for each in tried] == [
        "ridge over quantile_normal", "ridge over piecewise", "ridge over cdf",
    ]  # fmt: skip


def test_a_budget_is_refused_where_nothing_takes_one(log: Path, tmp_path: Path) -> None:
    said = run("fit", log, "--ranker", "ridge", "--budget", "10m", "--out", tmp_path / "run")
    assert said.exit_code != 0
    assert not (tmp_path / "run").exists()
    assert "budget" in str(said.exception)


def test_a_budget_that_is_no_length_of_time_is_refused_before_the_data_are_read(tmp_path: Path) -> None:
    said = fit_auto(tmp_path / "absent.parquet", tmp_path / "run", "--budget", "soon")
    assert "budget must be a length of time" in str(said.exception)


def test_auto_is_not_judged_on_validation_data_that_it_learned_from(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = fit_auto(log, tmp_path / "run", "--steps", "2", "--valid-share", "0.2", "--json")
    assert json.loads(said.stdout)["metrics"] == {}
    assert "auto learned from the validation data too" in said.stderr
