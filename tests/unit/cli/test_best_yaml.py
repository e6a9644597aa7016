"""`best.yaml` is a configuration: fit, tune and compare take it, also as version 1 wrote it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

import placings as pg
from placings.cli.loading import read_tuned
from placings.cli.main import app
from placings.core.errors import BadFile, BadInput, PlacingsWarning
from placings.evaluation.spaces import Choice, Float, Int
from placings.evaluation.tuning import tune

OLD = Path(__file__).parents[2] / "fixtures" / "v1"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rows") / "train.txt"
    pg.write(pg.make_ranking(15, n_features=4, random_state=0).data, file)
    return file


def call(*words: object) -> Result:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def load_settings(folder: Path) -> dict[str, object]:
    return dict(pg.load(folder / "model").get_params(deep=False))


@pytest.mark.parametrize(
    "ranker",
    ["ridge", "ranksvm", *(pytest.param(name, marks=pytest.mark.slow) for name in ("logistic", "linear"))],
)
def test_what_was_tuned_is_what_is_fitted(rows: Path, tmp_path: Path, ranker: str) -> None:
    words = [rows, "--ranker", ranker, "--set", "center=all", "--trials", 3, "--folds", 2, "--seed", 4]
    call("tune", *words, "--out", tmp_path / "tuned")
    best = json.loads((tmp_path / "tuned" / "best.json").read_text())["best_params"]
    call("fit", rows, "--config", tmp_path / "tuned" / "best.yaml", "--out", tmp_path / "fitted")
    found = load_settings(tmp_path / "fitted")
    assert best.items() <= found.items()
    assert found["center"] == "all"  # what was tuned from, not only what was tuned
    assert found["random_state"] == 4
    losses = {"ridge": "ridge", "ranksvm": "hinge", "logistic": "logistic", "linear": "squared_hinge"}
    assert found["loss"] == losses[ranker]


def test_parameters_of_the_library_and_weights_come_along(rows: Path, tmp_path: Path) -> None:
    data = pg.read(rows)
    space = {
        "rounds": Int(3, 3), "positive_weight": Choice((10.0,)), "params.max_depth": Int(4, 4),
        "learning_rate": Float(0.2, 0.2),
    }  # fmt: skip
    start = pg.LightGBMRanker(params={"max_bin": 15}, early_stopping=None)
    found = tune(start, data, trials=1, method="grid", space=space, folds=2, random_state=0)
    found.save(tmp_path)
    held = yaml.safe_load((tmp_path / "best.yaml").read_text())
    assert (held["ranker"], held["positive_weight"]) == ("lightgbm", 10.0)
    call("fit", rows, "--config", tmp_path / "best.yaml", "--out", tmp_path / "fitted")
    model = pg.load(tmp_path / "fitted" / "model")
    assert model.get_params()["params"] == {"max_bin": 15, "max_depth": 4}
    assert (model.get_params()["rounds"], model.get_params()["early_stopping"]) == (3, None)
    # one computation, done twice: by the file, and by the object that wrote it
    assert model.predict(data).tolist() == found.fit(data).predict(data).tolist()


def test_flags_win_over_the_file(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "best.yaml").write_text("ranker: ridge\nseed: 3\nset: {C: 2.0, loss: ridge, pairs: mean}\n")
    config = tmp_path / "best.yaml"
    call("fit", rows, "--config", config, "--ranker", "ranksvm", "--set", "C=5", "--out", tmp_path / "a")
    found = load_settings(tmp_path / "a")
    assert (found["loss"], found["C"], found["pairs"]) == ("hinge", 5, "mean")


def test_a_search_goes_on_from_the_best_of_another(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "best.yaml").write_text("ranker: ranksvm\nset: {C: 7.5, loss: hinge, pairs: mean}\n")
    words = [rows, "--config", tmp_path / "best.yaml", "--trials", 1, "--folds", 2, "--json"]
    found = json.loads(call("tune", *words).stdout)
    assert found["trials"][0]["params"] == {"C": 7.5, "pairs": "mean"}


def test_a_tuned_ranker_is_compared_with_others(rows: Path, tmp_path: Path) -> None:
    home = tmp_path / "tuned"
    home.mkdir()
    (home / "best.yaml").write_text("ranker: ridge\nset: {C: 7.5, loss: ridge}\n")
    words = [rows, "--rankers", "ridge", "--folds", 3, "--bootstrap", 0, "--json"]
    by_config = json.loads(call("compare", *words, "--config", home / "best.yaml").stdout)
    words[2] = f"ridge,{home / 'best.yaml'}"
    by_name = json.loads(call("compare", *words).stdout)
    assert by_config == by_name
    assert set(by_name["methods"]) == {"ridge", "ridge (tuned)"}
    (home / "best.yaml").write_text("ranker: lightgbm\npositive_weight: 10.0\nset: {rounds: 3}\n")
    with pytest.raises(BadInput, match="compare the model with --model"):
        call("compare", *words)


def test_evaluate_says_that_it_is_still_to_be_trained(rows: Path, tmp_path: Path) -> None:
    (tmp_path / "best.yaml").write_text("ranker: ridge\nset: {C: 7.5}\n")
    with pytest.raises(BadFile, match=r"placings fit DATA --config .*best\.yaml --out FOLDER"):
        call("evaluate", rows, "--scores", rows, "--config", tmp_path / "best.yaml")


# -- version 1 ---------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::placings.core.errors.PlacingsWarning")  # that the loss is not named
@pytest.mark.parametrize(("name", "class_name"), [("linear", "LinearRanker"), ("lightgbm", "LightGBMRanker")])
def test_a_best_yaml_of_version_1_is_fitted(rows: Path, tmp_path: Path, name: str, class_name: str) -> None:
    file = OLD / f"tuned-{name}" / "best.yaml"
    old = yaml.safe_load(file.read_text())
    assert old["ranker"] == class_name
    call("fit", rows, "--config", file, "--out", tmp_path)
    assert type(pg.load(tmp_path / "model")).__name__ == class_name
    assert old["params"].items() <= load_settings(tmp_path).items()


def test_version_1_does_not_name_the_loss_so_it_is_found_or_said(tmp_path: Path) -> None:
    shutil.copy(OLD / "tuned-linear" / "best.yaml", tmp_path)
    file = tmp_path / "best.yaml"
    with pytest.warns(PlacingsWarning, match=r"it searched only C.* so it is taken for one.*--set loss="):
        assert read_tuned(file)["set"] == {"C": 1.0, "loss": "ridge"}
    shutil.copy(OLD / "tuned-linear" / "best.json", tmp_path)
    with pytest.warns(PlacingsWarning, match="its best.json searched only C"):
        assert read_tuned(file)["ranker"] == "ridge"
    facts = json.loads((tmp_path / "best.json").read_text())
    facts["space"]["pairs"] = {"kind": "Choice", "options": ["sum", "mean"]}
    (tmp_path / "best.json").write_text(json.dumps(facts))
    with pytest.warns(PlacingsWarning, match=r"searched pairs too.*hinge \(ranksvm\) is assumed"):
        assert read_tuned(file)["ranker"] == "ranksvm"
    run = {"command": "tune", "config": {"ranker": "logistic", "set": {"scale": False}}}
    (tmp_path / "run.json").write_text(json.dumps(run))  # what was asked of tune: nothing is to be guessed
    found = read_tuned(file)
    assert (found["ranker"], found["set"]) == ("logistic", {"loss": "logistic", "scale": False, "C": 1.0})


def test_tuned_parameters_of_a_library_in_version_1_are_nested(tmp_path: Path) -> None:
    (tmp_path / "best.yaml").write_text(
        "ranker: LightGBMRanker\nparams: {rounds: 3, params.max_depth: 4, positive_weight: 10.0}\n"
    )
    assert read_tuned(tmp_path / "best.yaml") == {
        "ranker": "lightgbm", "positive_weight": 10.0, "set": {"rounds": 3, "params": {"max_depth": 4}},
    }  # fmt: skip
