"""Every option is checked before work begins: beside it stands an input that does not exist."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from placings.cli.main import app
from placings.core.errors import PlacingsError
from placings.data.reading import write
from placings.rankers.linear import LinearRanker
from placings.simulate.rankings import make_ranking

NO = "/proc/no"  # nothing can be made there, not even by root
GONE = "gone.txt"  # no such file: whoever reads before checking stumbles over it


def refuse(*words: object) -> str:
    """What a command says when it refuses to start; boxes and line breaks of usage errors are taken out."""
    try:
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    except PlacingsError as error:
        return str(error)
    assert result.exit_code == 2, result.output
    return " ".join(result.output.replace("│", " ").split())


CASES = [
    # fit
    (["fit", GONE, "--out", "o", "--metrics", "ndgc@10"], "no metric 'ndgc'; did you mean 'ndcg'"),
    (["fit", GONE, "--out", "o", "--metrics", ","], "--metrics must name at least one"),
    (["fit", GONE, "--out", "o", "--ranker", "lightgmb"], "no ranker 'lightgmb'"),
    (["fit", GONE, "--out", "o", "--set", "round=3"], "no setting of lightgbm 'round'"),
    (["fit", GONE, "--out", "o", "--set", "rounds=many"], "rounds must be"),
    (["fit", GONE, "--out", "o", "--set", "objective=ndcg"], "no objective"),
    (["fit", GONE, "--out", "o", "--set", "metric=ndgc"], "no metric 'ndgc'"),
    (["fit", GONE, "--out", "o", "--ranker", "xgboost", "--set", "objective=ndcg"], "no objective"),
    (["fit", GONE, "--out", "o", "--ranker", "catboost", "--set", "metric=ndgc"], "no metric 'ndgc'"),
    (["fit", GONE, "--out", "o", "--ranker", "ridge", "--set", "C=-1"], "C must be a number above 0"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--set", "transform=lgo"], "no transform 'lgo'"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--set", "loss=sotfmax"], "no loss 'sotfmax'"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--set", "preset=x"], "no preset 'x'"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--set", "optimizer=x"], "no optimizer 'x'"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--set", "activation=x"], "no activation 'x'"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--set", "precision=x"], "no precision 'x'"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--set", "device=gpu"], "no device 'gpu'"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--set", "lr=quick"], "cannot be used"),
    (["fit", GONE, "--out", "o", "--ranker", "mean", "--set", "members={ridge: {C: 0}}"], "C must be"),
    (["fit", GONE, "--out", NO], "--out: nothing can be written to /proc"),
    (["fit", GONE, "--out", "file"], "file is a file"),
    (["fit", GONE, "--out", "file/below"], "file is a file"),
    (["fit", GONE, "--out", "other"], "exists and is not a bundle"),
    (["fit", GONE], "--out"),
    (["fit", GONE, "--out", "o", "--positive-weight", 0], "--positive-weight must be above 0"),
    (["fit", GONE, "--out", "o", "--tensorboard", "events"], "--tensorboard is about"),
    (["fit", GONE, "--out", "o", "--ranker", "neural", "--tensorboard", "file"], "--tensorboard must be"),
    (["fit", GONE, "--out", "o", "--coverage-limits", "no.yaml"], "no.yaml"),
    (["fit", GONE, "--out", "o", "--valid", GONE, "--valid-share", 0.2], "--valid-share takes"),
    (["fit", "rows.txt", "--out", "o", "--test", GONE], f"{GONE}: no such file"),
    # tune
    (["tune", GONE, "--ranker", "rigde"], "no ranker 'rigde'; did you mean 'ridge'"),
    (["tune", GONE, "--set", "round=3"], "no setting of lightgbm 'round'"),
    (["tune", GONE, "--metric", "ndgc"], "no metric 'ndgc'"),
    (["tune", GONE, "--method", "bayes"], "no method 'bayes'"),
    (["tune", GONE, "--space", "large"], "no space of LightGBMRanker 'large'"),
    (["tune", GONE, "--empty", "two"], "no empty rule 'two'"),
    (["tune", GONE, "--out", NO], "--out: nothing can be written"),
    (["tune", GONE, "--storage", f"{NO}/study.db"], "--storage: nothing can be written"),
    (["tune", GONE, "--storage", "."], "--storage must be a file"),
    # evaluate and compare
    (["evaluate", GONE, "--scores", "s.csv", "--metrics", "ndgc"], "no metric 'ndgc'"),
    (["evaluate", GONE, "--scores", "s.csv", "--out", NO], "--out: nothing can be written"),
    (["evaluate", "rows.txt", "--scores", GONE], f"{GONE}: no such file"),
    (["compare", GONE, "--rankers", "rigde"], "no ranker 'rigde'"),
    (["compare", GONE, "--rankers", "ridge", "--metrics", "ndgc"], "no metric 'ndgc'"),
    (["compare", GONE, "--rankers", "ridge", "--baseline", "lightgbm"], "no method to take as baseline"),
    (["compare", GONE, "--rankers", "ridge", "--test", "z"], "no test 'z'"),
    (["compare", GONE, "--rankers", "ridge", "--alpha", 2], "alpha must be"),
    (["compare", GONE, "--rankers", "ridge", "--out", NO], "--out: nothing can be written"),
    (["compare", "rows.txt", "--rankers", "ridge", "--folds", 2], "--folds must be 3 or more"),
    (["compare", GONE, "--scores", "a=s.csv", "--baseline", "b"], "no method to take as baseline"),
    # models
    (["predict", GONE, GONE, "--out", "scores.txt"], "--out must end in .csv or .parquet"),
    (["predict", GONE, GONE, "--out", f"{NO}.csv"], "--out: nothing can be written"),
    (["predict", GONE, GONE, "--out", "nowhere/s.csv"], "the folder nowhere of s.csv does not exist"),
    (["predict", "nomodel", "rows.txt"], "nomodel: is not a bundle"),
    (["explain", GONE, "--above", "a"], "Add --query"),
    (["explain", GONE, "--kind", "nonsense"], "no kind of importance 'nonsense'"),
    (["export", GONE, f"{NO}.onnx"], "OUT: nothing can be written"),
    (["import-model", GONE, "m", "--library", "sklearn"], "no library 'sklearn'"),
    (["import-model", GONE, NO], "OUT: nothing can be written"),
    (["import-model", GONE, "file"], "file is a file"),
    (["import-model", "rows.txt", "m", "--names", GONE], f"{GONE}: no such file"),
    (["cache", "clear", "--to", "much"], "much"),
    # coverage
    (["coverage", "show", GONE, "--html", f"{NO}.html"], "--html: nothing can be written"),
    (["coverage", "show", GONE, "--metric", "ndgc"], "no metric 'ndgc'"),
    (["coverage", "show", GONE, "--average", "a while"], "--average must be a length of time"),
    (["coverage", "show", GONE, "--sample", "some"], "--sample must be"),
    (["coverage", "show", GONE, "--window", "1d"], "--window needs --time"),
    (["coverage", "show", GONE, "--html", "p.html", "--first-seen", "a"], "--launch-of need --time"),
    (["coverage", "plan", GONE, "--time", "t", "--event", "e", "--how", "x"], "no way of sampling 'x'"),
    (["coverage", "plan", GONE, "--time", "t", "--event", "e", "--windows", "x"], "--windows takes whole"),
    (["coverage", "init", GONE, "--out", f"{NO}.yaml"], "--out: nothing can be written"),
    (["coverage", "check", GONE, "--limits", GONE, "--html", f"{NO}.html"], "--html: nothing can be"),
    (["coverage", "trend", GONE, "--time", "t", "--store", NO], "--store: nothing can be written"),
    (["coverage", "trend", GONE, "--time", "t", "--html", f"{NO}.html"], "--html: nothing can be written"),
    (["coverage", "trend", GONE, "--time", "t", "--average", "x"], "--average must be"),
    (["coverage", "alerts", GONE, "--time", "t", "--set", "sever=1"], "no setting of the alerts 'sever'"),
    (["coverage", "alerts", GONE, "--time", "t", "--html", f"{NO}.html"], "--html: nothing can be written"),
    (["coverage", "degrade", GONE, GONE, "--metrics", "ndgc"], "no metric 'ndgc'"),
    (["coverage", "degrade", GONE, GONE, "--figure", "f.pdf"], "--figure must end in .svg"),
    (["coverage", "degrade", GONE, GONE, "--drops", "half"], "--drops takes numbers"),
    (["coverage", "degrade", GONE, GONE, "--value", "x"], "--value takes numbers"),
    (["coverage", "risk", GONE, GONE, "--today", GONE, "--metric", "ndgc"], "no metric 'ndgc'"),
    (["coverage", "risk", GONE, GONE, "--today", GONE, "--value", "x"], "--value takes numbers"),
    (["coverage", "risk", GONE, GONE, "--today", GONE, "--html", f"{NO}.html"], "--html: nothing can be"),
    # logs and places
    (["log", "join", GONE, GONE, "--out", "rows.csv"], "--out must end in .parquet"),
    (["log", "join", GONE, GONE, "--out", f"{NO}.parquet"], "--out: nothing can be written"),
    (["log", "join", GONE, GONE, "--out", "r.parquet", "--apart", f"{NO}.parquet"], "--apart: nothing"),
    (["log", "join", GONE, GONE, "--out", "r.parquet", "--grade", "click"], "--grade click=1"),
    (["log", "import", GONE, "--form", "ubi", "--out", NO], "--out: nothing can be written"),
    (["log", "import", GONE, "--form", "judgements", "--out", f"{NO}.parquet"], "--out: nothing can be"),
    (["log", "split", GONE, "past.parquet", f"{NO}.parquet"], "nothing can be written"),
    (["log", "explore", GONE, "--out", f"{NO}.html"], "--out: nothing can be written"),
    (["log", "explore", GONE, "--zone", "Berlin"], "--zone must be a time zone"),
    (["log", "features", GONE, "--out", f"{NO}.parquet"], "--out: nothing can be written"),
    (["log", "features", GONE, "--out", "d.parquet", "--save", "f.yaml"], "--save must end in .json"),
    (["log", "simulate-places", GONE, NO], "OUT: nothing can be written"),
    (["log", "simulate-shop", NO], "OUT: nothing can be written"),
    (["rerank", "fit", GONE, "--out", "o", "--ranker", "rigde"], "no ranker 'rigde'; did you mean 'ridge'"),
    (["rerank", "fit", GONE, "--out", "o", "--features", "shoes"], "no features 'shoes'"),
    (["rerank", "fit", GONE, "--out", "other"], "exists and is not a bundle"),
    (["rerank", "fit", GONE, "--out", NO], "--out: nothing can be written"),
    (["rerank", "fit", GONE, "--out", "o"], f"{GONE}: no such file"),
    (["rerank", "evaluate", "nomodel", GONE, "--metrics", "ndgc"], "no metric 'ndgc'"),
    (["rerank", "evaluate", "nomodel", GONE, "--page", f"{NO}.html"], f"{GONE}: no such file"),
    (["log", "propensity", GONE, "--method", "swap"], "'swap' is not one of"),
    (["log", "propensity", GONE, "--out", f"{NO}.json"], "--out: nothing can be written"),
    (["would-have", "--model", "nomodel", "--log", GONE, "--margin", "-1"], "margin"),
    (["rerank", "search", "nomodel", "x"], "name the engine with --engine"),
    (["rerank", "search", "nomodel", "x", "--hits", GONE, "--near", "here"], "--near must be"),
    (["rerank", "search", "nomodel", "x", "--hits", GONE, "--context", "device"], "NAME=VALUE"),
    (["places", "index", GONE, f"{NO}.db"], "OUT: nothing can be written"),
    (["places", "search", GONE, "x", "--near", "here"], "--near must be"),
    (["places", "study", "--out", NO], "--out: nothing can be written"),
    (["places", "study", "--places", GONE, "--zone", "Berlin"], "--zone must be a time zone"),
    (["places", "study", GONE], f"{GONE}: no such file"),
    # serving
    (["serve", "--model", GONE, "--budget-ms", 0], "budget_ms must be above 0"),
    (["serve", "--model", GONE, "--arm", "new"], "an arm must be NAME=SHARE:WHAT"),
    (["serve", "--model", GONE, "--explore", 0.1, "--explore-reach", 0], "greater than or equal to 1"),
    (["serve", "export", "--data", GONE, "--out", NO], "--out: nothing can be written"),
    (["serve", "export", "--data", GONE, "--out", "o"], "there are no events"),
    (["serve", "report", "--data", GONE, "--html", f"{NO}.html"], "--html: nothing can be written"),
    (["serve", "forget", "ann", "--data", GONE], "there are no events"),
    (["serve", "prune", "--data", GONE, "--keep-days", 2], "keep_days must be 8 or more"),
    # studies
    (["reproduce", "live", "--out", NO], "--out: nothing can be written"),
    (["reproduce", "live", "--places", GONE, "--out", "o"], f"{GONE}: no such file"),
    (["reproduce", "table1", GONE, "--methods", "lgo"], "no transform 'lgo'"),
    (["reproduce", "table1", GONE, "--preset", "x"], "no preset 'x'"),
    (["reproduce", "table1", GONE, "--set", "hiden=3"], "no setting of the neural rankers 'hiden'"),
    (["reproduce", "table1", GONE, "--set", "loss=x"], "no loss 'x'"),
    (["reproduce", "table1", GONE, "--device", "gpu"], "no device 'gpu'"),
    (["reproduce", "table1", GONE, "--folds", "all"], "--folds is how many"),
    (["reproduce", "table1", GONE, "--alpha", "3"], "alpha must be"),
    (["reproduce", "table1", GONE, "--out", NO], "--out: nothing can be written"),
    (["reproduce", "coverage-drop", GONE, "--parts", "x"], "no part of the study 'x'"),
    (["reproduce", "coverage-drop", GONE, "--rankers", "rigde"], "no ranker 'rigde'"),
    (["reproduce", "coverage-drop", GONE, "--drops", "half"], "--drops takes numbers"),
    (["reproduce", "coverage-drop", GONE, "--out", NO], "--out: nothing can be written"),
    (["demo", "--out", NO], "--out: nothing can be written"),
    (["demo", "--places", GONE], f"{GONE}: no such file"),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("checks")
    (home / "file").write_text("")
    (home / "other" / "model").mkdir(parents=True)
    (home / "other" / "model" / "notes.txt").write_text("mine")
    (home / "rows.txt").write_text("1 qid:1 1:2\n0 qid:1 1:1\n")
    return home


@pytest.mark.parametrize(
    ("words", "said"), CASES, ids=lambda each: " ".join(map(str, each)) if isinstance(each, list) else ""
)
def test_a_bad_option_is_told_before_anything_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[object], said: str
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.rglob("*"))
    assert said in refuse(*words)
    left = {path.name for path in folder.rglob("*")} - set(before)
    assert left <= {"table1", "coverage-drop", "cells"}


def test_every_command_is_among_the_cases() -> None:
    import typer.main

    def walk(command: object, path: tuple[str, ...]) -> set[tuple[str, ...]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            return {path}
        return set().union(*(walk(each, (*path, name)) for name, each in inner.items()))

    there = walk(typer.main.get_command(app), ())
    tried = {tuple(map(str, words[: len(path)])) for words, _ in CASES for path in there} & there
    nothing_to_check = {("inspect",), ("cache", "list"), ("cache", "path"), ("coverage", "runbook")}
    assert there - tried == nothing_to_check


@pytest.mark.parametrize(
    ("module", "words", "said"),
    [
        ("mlflow", ["fit", GONE, "--out", "o", "--mlflow"], "placings[mlflow]"),
        ("mlflow", ["tune", GONE, "--out", "o", "--mlflow"], "placings[mlflow]"),
        ("optuna", ["tune", GONE], "placings[tune]"),
        ("optuna", ["compare", "rows.txt", "--rankers", "ridge", "--tune", 2], "placings[tune]"),
        (
            "tensorboard",
            ["fit", GONE, "--out", "o", "--ranker", "neural", "--tensorboard", "e"],
            "placings[tensorboard]",
        ),
        ("matplotlib", ["coverage", "degrade", GONE, GONE, "--figure", "f.svg"], "placings[report]"),
        ("jinja2", ["coverage", "show", GONE, "--html", "p.html"], "placings[report]"),
        ("jinja2", ["log", "explore", GONE], "placings[report]"),
    ],
)  # fmt: skip
def test_a_library_that_is_missing_is_told_before_anything_is_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, words: list[object], said: str
) -> None:
    monkeypatch.chdir(folder)
    real = importlib.util.find_spec
    with mock.patch(
        "importlib.util.find_spec", lambda name, *rest: None if name == module else real(name, *rest)
    ):
        assert said in refuse(*words)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rows") / "train.txt"
    write(make_ranking(15, n_features=4, random_state=0).data, file)
    return file


def test_test_data_without_a_feature_are_refused_before_training(rows: Path, tmp_path: Path) -> None:
    write(make_ranking(5, n_features=3, random_state=0).data, tmp_path / "narrow.parquet")
    with mock.patch.object(LinearRanker, "_fit", side_effect=AssertionError("trained")):
        said = refuse(
            "fit", rows, "--ranker", "ridge", "--test", tmp_path / "narrow.parquet", "--out", tmp_path / "o"
        )
    assert "the data lack" in said
    assert not (tmp_path / "o").exists()


def test_slices_that_the_data_lack_are_refused_before_training(rows: Path) -> None:
    with mock.patch.object(LinearRanker, "_fit", side_effect=AssertionError("trained")):
        assert "region" in refuse("compare", rows, "--rankers", "ridge", "--by", "region")


def test_a_model_that_cannot_be_saved_is_kept_elsewhere(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import placings as pg
    from placings.rankers import bundles

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real = bundles.write_bundle

    def fill_disk(path: Path, *rest: object) -> str:
        if path.parent.name == "run":
            raise OSError(28, "No space left on device", str(path))
        return real(path, *rest)

    monkeypatch.setattr(bundles, "write_bundle", fill_disk)
    words = ["fit", rows, "--ranker", "ridge", "--out", tmp_path / "run"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert isinstance(result.exception, OSError)
    kept = next(tmp_path.glob("placings-model-*")) / "model"
    assert f"it is kept in {kept}" in result.stderr
    assert isinstance(pg.load(kept), LinearRanker)
    assert '"state": "failed"' in (tmp_path / "run" / "run.json").read_text()


def test_a_model_is_there_though_judging_it_failed(rows: Path, tmp_path: Path) -> None:
    import placings as pg

    with mock.patch("placings.evaluation.scoring.evaluate", side_effect=MemoryError):
        result = CliRunner().invoke(
            app, ["fit", str(rows), "--ranker", "ridge", "--valid-share", "0.3", "--out", str(tmp_path)]
        )
    assert isinstance(result.exception, MemoryError)
    assert isinstance(pg.load(tmp_path / "model"), LinearRanker)
