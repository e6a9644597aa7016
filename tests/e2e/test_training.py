"""A user's whole way at the terminal: fit, predict, evaluate, compare, tune, import, on files they have.

The first fit is a process of its own; what follows calls the same program in this one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from terminal import call_placings

import placings as pg

PLACINGS = Path(sys.executable).parent / "placings"


def succeed(*arguments: object) -> str:
    result = call_placings(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    data = pg.make_ranking(60, n_features=8, mean_size=15, random_state=0, items=True).data
    for name, part in zip(("train", "vali", "test"), data.split(0.6, 0.2, 0.2, random_state=0), strict=True):
        pg.write(part, folder / f"{name}.txt")
    return folder


@pytest.fixture(scope="module")
def fitted(files: Path) -> Path:
    out = files / "runs" / "lgbm"
    words = (
        "fit", files / "train.txt", "--valid", files / "vali.txt", "--test", files / "test.txt",
        "--ranker", "lightgbm", "--set", "rounds=30", "--set", "min_data_in_leaf=5", "--out", out,
    )  # fmt: skip
    subprocess.run([PLACINGS, *words], check=True)
    return out


def test_a_fit_leaves_a_model_with_all_that_made_it(files: Path, fitted: Path) -> None:
    facts = json.loads((fitted / "run.json").read_text())
    assert facts["state"] == "finished"
    assert facts["config"]["set"] == {"rounds": 30, "min_data_in_leaf": 5, "random_state": 0}
    assert facts["data"]["train"]["rows"] == pg.read(files / "train.txt").n_rows
    assert {"valid ndcg@10", "test mrr"} <= set(facts["metrics"])
    manifest = json.loads((fitted / "model" / "manifest.json").read_text())
    assert manifest["metrics"]["test ndcg@10"] == pytest.approx(facts["metrics"]["test ndcg@10"])
    test = pg.read(files / "test.txt")
    ranker = pg.load(fitted / "model", digest=facts["digest"])
    assert pg.evaluate(ranker, test, ["ndcg@10"])["ndcg@10"] == pytest.approx(
        facts["metrics"]["test ndcg@10"]
    )


def test_the_same_fit_gives_the_same_model_and_another_is_not_written_over(files: Path, fitted: Path) -> None:
    again = files / "runs" / "again"
    common = ("fit", files / "train.txt", "--valid", files / "vali.txt", "--set", "rounds=5", "--out", again)
    first = json.loads(succeed(*common, "--json"))
    assert json.loads(succeed(*common, "--json"))["metrics"] == first["metrics"]
    other = call_placings(*common, "--seed", 7)
    assert other.returncode == 1
    assert "holds another run" in other.stderr
    succeed(*common, "--seed", 7, "--overwrite")


def test_predictions_keep_the_ids(files: Path, fitted: Path) -> None:
    out = files / "scores.parquet"
    succeed("predict", fitted / "model", files / "test.txt", "--out", out)
    table = pq.read_table(out)
    test = pg.read(files / "test.txt")
    assert table.column("qid").to_pylist() == test.qid.tolist()
    assert table.column("item").to_pylist() == list(test.items)
    here = pg.load(fitted / "model").predict(test)  # float64 sums of another process
    np.testing.assert_allclose(table.column("score").to_numpy(), here, rtol=1e-12)
    first = succeed("predict", fitted / "model", files / "test.txt", "--top", 1).splitlines()
    assert first[0].replace('"', "") == "qid,item,score,rank"
    assert len(first) == len(test) + 1
    assert all(line.endswith(",1") for line in first[1:])
    assert (
        call_placings("predict", fitted / "model", files / "test.txt", "--digest", "0" * 64).returncode == 1
    )
    assert (
        call_placings("predict", fitted / "model", files / "test.txt", "--out", "scores.txt").returncode == 1
    )


def test_evaluate_and_compare_judge_saved_models(files: Path, fitted: Path) -> None:
    ridge = files / "runs" / "ridge"
    succeed("fit", files / "train.txt", "--ranker", "ridge", "--set", "C=10", "--out", ridge)
    facts = json.loads(
        succeed(
            "evaluate", files / "test.txt", "--model", fitted / "model", "--metrics", "ndcg@10,mrr", "--json"
        )
    )
    test = pg.read(files / "test.txt")
    expected = pg.evaluate(pg.load(fitted / "model"), test, ["ndcg@10"])["ndcg@10"]
    assert facts["metrics"]["ndcg@10"]["mean"] == pytest.approx(expected)
    shown = succeed(
        "compare", files / "test.txt", "--model", f"LightGBM={fitted / 'model'}",
        "--model", f"Ridge={ridge / 'model'}", "--baseline", "Ridge",
    )  # fmt: skip
    assert "LightGBM" in shown
    assert "Ridge" in shown
    assert "Means over" in shown


def test_compare_trains_rankers_on_the_same_folds(files: Path) -> None:
    out = files / "contest"
    arguments = ("compare", files / "train.txt", "--rankers", "ridge,original", "--folds", 3, "--out", out)
    shown = succeed(*arguments)
    assert "ridge" in shown
    assert succeed(*arguments) == shown


def test_tune_writes_the_best_parameters(files: Path) -> None:
    out = files / "tuned"
    succeed("tune", files / "train.txt", "--ranker", "ridge", "--trials", 3, "--folds", 2, "--out", out)
    assert (out / "best.yaml").exists()
    assert "C" in (out / "best.yaml").read_text()


def test_an_existing_lightgbm_model_becomes_a_bundle(files: Path) -> None:
    import lightgbm

    train, test = pg.read(files / "train.txt"), pg.read(files / "test.txt")
    booster = lightgbm.train(
        {"objective": "lambdarank", "verbose": -1, "num_leaves": 7},
        lightgbm.Dataset(np.asarray(train.X), train.y, group=train.sizes),
        num_boost_round=10,
    )
    booster.save_model(files / "native.txt")
    succeed("import-model", files / "native.txt", files / "imported")
    scores = pg.load(files / "imported").predict(np.asarray(test.X))
    np.testing.assert_allclose(scores, booster.predict(np.asarray(test.X)), atol=1e-12)


@pytest.mark.slow
def test_an_existing_xgboost_model_becomes_a_bundle(files: Path) -> None:
    import xgboost

    train, test = pg.read(files / "train.txt"), pg.read(files / "test.txt")
    rows = xgboost.DMatrix(np.asarray(train.X), train.y, qid=train.query_index)
    booster = xgboost.train({"objective": "rank:ndcg", "max_depth": 3}, rows, num_boost_round=10)
    for ending in ("json", "ubj"):
        booster.save_model(files / f"native.{ending}")
        succeed("import-model", files / f"native.{ending}", files / f"imported_{ending}")
        scores = pg.load(files / f"imported_{ending}").predict(np.asarray(test.X))
        expected = booster.predict(xgboost.DMatrix(np.asarray(test.X)), output_margin=True)
        np.testing.assert_allclose(scores, expected, atol=1e-5)


def test_a_file_that_is_no_model_is_refused(files: Path) -> None:
    result = call_placings("import-model", files / "train.txt", files / "nothing")
    assert result.returncode == 1
    assert result.stderr.startswith("error: ")
    assert not (files / "nothing").exists()


def test_a_configuration_file_holds_the_options_and_flags_win(files: Path) -> None:
    config = files / "run.yaml"
    config.write_text(
        f"ranker: ridge\nset: {{C: 3.0}}\nmetrics: [ndcg@5]\nvalid: {files / 'vali.txt'}\n"
        f"out: {files / 'runs' / 'yaml'}\n"
    )
    facts = json.loads(succeed("fit", files / "train.txt", "--config", config, "--set", "C=5", "--json"))
    assert set(facts["metrics"]) == {"valid ndcg@5"}
    settings = json.loads((files / "runs" / "yaml" / "model" / "manifest.json").read_text())["settings"]
    assert (settings["loss"], settings["C"]) == ("ridge", 5)
    config.write_text("rankr: ridge\n")
    result = call_placings("fit", files / "train.txt", "--config", config)
    assert "no option in run.yaml 'rankr'; did you mean 'ranker'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--ranker", "lightgmb", "--out", "x"), "did you mean 'lightgbm'"),
        (("--set", "rounds", "--out", "x"), "a setting must be name=value"),
        (("--set", "depth=3", "--out", "x"), "no setting of lightgbm 'depth'"),
        ((), "a run needs a folder"),
    ],
)
def test_a_fit_that_cannot_be_says_why(
    files: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = call_placings("fit", files / "train.txt", *arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert message in result.stderr
