"""`placings evaluate` and `placings compare` on files: what they print, keep and refuse."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

import placings as pg
from placings.cli.evaluation import compare_files, evaluate_files
from placings.core.errors import PlacingsWarning
from placings.evaluation import compare_trained
from placings.evaluation.scoring import evaluate
from placings.rankers.linear import LinearRanker

app = typer.Typer()
app.command("evaluate")(evaluate_files)
app.command("compare")(compare_files)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """test.parquet, test.txt, two bundles, and scores in several forms."""
    path = tmp_path_factory.mktemp("files")
    data = pg.make_ranking(60, n_features=6, mean_size=10, random_state=0, items=True).data
    train, test = data.split(0.5, 0.5, random_state=0)
    kind = np.repeat(np.where(np.arange(len(test)) % 2 == 0, "even", "odd"), test.sizes)
    pg.write(test.replace(segments={"kind": kind.astype(object)}), path / "test.parquet")
    pg.write(test, path / "test.txt")
    LinearRanker("ridge").fit(train).save(path / "ridge")
    LinearRanker("hinge").fit(train).save(path / "svm")
    scores = LinearRanker("ridge").fit(train).predict(test)
    np.savetxt(path / "plain.txt", scores, fmt="%.17g")
    order = np.random.default_rng(0).permutation(test.n_rows)
    with open(path / "mixed.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["qid", "item", "score"])
        writer.writerows([test.qid[i], test.items[i], repr(float(scores[i]))] for i in order)
    return path


def test_a_model_is_judged_and_the_rule_printed(folder: Path) -> None:
    result = run("evaluate", folder / "test.parquet", "--model", folder / "ridge", "--by", "kind")
    assert result.exit_code == 0, result.output
    assert "of 30 queries" in result.stdout
    assert "kind: even" in result.stdout
    assert "ndcg@10" in result.stdout


def test_scores_and_model_and_python_agree(folder: Path) -> None:
    data = pg.read(folder / "test.parquet")
    expected = evaluate(np.loadtxt(folder / "plain.txt"), data, "mrr")
    for flag, name in [("--model", "ridge"), ("--scores", "plain.txt"), ("--scores", "mixed.csv")]:
        result = run("evaluate", folder / "test.parquet", flag, folder / name, "--metrics", "mrr", "--json")
        assert result.exit_code == 0, result.output
        facts = json.loads(result.stdout)
        assert facts["metrics"]["mrr"]["mean"] == pytest.approx(expected["mrr"], rel=1e-12)
        assert facts["metrics"]["mrr"]["low"] == pytest.approx(expected.interval("mrr")[0], rel=1e-12)


def test_rules_and_settings_reach_the_numbers(folder: Path) -> None:
    result = run(
        "evaluate", folder / "test.txt", "--scores", folder / "plain.txt", "--empty", "zero",
        "--min-items", 3, "--bootstrap", 0, "--json",
    )  # fmt: skip
    facts = json.loads(result.stdout)
    assert facts["settings"]["empty"] == "zero"
    assert facts["settings"]["min_items"] == 3
    assert facts["metrics"]["mrr"]["low"] is None
    assert 'empty="zero"' in facts["rule"]


def test_a_folder_keeps_the_run_the_tables_and_each_query(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("evaluate", folder / "test.parquet", "--model", folder / "ridge", "--out", out)
    assert run(*arguments).exit_code == 0
    assert {file.name for file in out.iterdir()} == {
        "run.json", "evaluation.json", "evaluation.md", "per_query.csv", "first_relevant.svg",
    }  # fmt: skip
    facts = json.loads((out / "run.json").read_text())
    assert facts["state"] == "finished"
    assert (
        facts["metrics"]["mrr"] == json.loads((out / "evaluation.json").read_text())["metrics"]["mrr"]["mean"]
    )
    rows = list(csv.DictReader((out / "per_query.csv").read_text().splitlines()))
    assert len(rows) == 30
    assert set(rows[0]) == {"qid", "ndcg@1", "ndcg@5", "ndcg@10", "mrr"}
    assert run(*arguments).exit_code == 0  # the same again is fine
    other = run(*arguments, "--metrics", "mrr")
    assert other.exit_code == 1
    assert "holds another run" in str(other.exception)


def test_models_and_scores_are_compared_with_marks(folder: Path, tmp_path: Path) -> None:
    np.savetxt(tmp_path / "poor.txt", np.arange(pg.read(folder / "test.txt").n_rows))
    result = run(
        "compare", folder / "test.parquet", "--model", f"svm={folder / 'svm'}", "--model",
        f"ridge={folder / 'ridge'}", "--scores", f"poor={tmp_path / 'poor.txt'}", "--baseline", "poor",
        "--second", "svm", "--by", "kind", "--out", tmp_path / "run",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "significantly better than poor" in result.stdout
    assert "slice" in result.stdout
    kept = {file.name for file in (tmp_path / "run").iterdir()}
    assert {f"comparison.{suffix}" for suffix in ("json", "txt", "md", "tex", "html")} <= kept
    assert {"run.json", "per_query.csv", "first_relevant.svg"} <= kept
    names = next(csv.reader((tmp_path / "run" / "per_query.csv").read_text().splitlines()))
    assert names[:3] == ["qid", "fold", "svm ndcg@1"]


def test_the_same_name_again_is_another_seed(folder: Path) -> None:
    plain = run(
        "compare", folder / "test.txt", "--scores", f"a={folder / 'plain.txt'}", "--scores",
        f"a={folder / 'plain.txt'}", "--json",
    )  # fmt: skip
    assert json.loads(plain.stdout)["settings"]["seeds"] == {"a": 2}


def test_a_ranker_over_a_transform_stands_in_the_table(folder: Path) -> None:
    data = folder / "test.parquet"
    result = run(
        "compare", data, "--rankers", "ridge,ridge:log1p", "--folds", 3, "--baseline", "ridge", "--json"
    )
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    expected = compare_trained(
        pg.read(data),
        {"ridge": pg.LinearRanker("ridge"), "over": pg.LinearRanker("ridge", transform="log1p")},
        folds=3, baseline="ridge",
    ).comparison  # fmt: skip
    over, plain = (facts["methods"][name]["ndcg@10"]["mean"] for name in ("ridge:log1p", "ridge"))
    assert over == pytest.approx(expected["over"]["ndcg@10"], rel=1e-12)
    assert over != plain


@pytest.mark.parametrize(
    ("ranker", "said"), [("ridge:logg", "no transform 'logg'"), ("lightgbm:gauss", "no setting of lightgbm")]
)
def test_a_transform_that_cannot_be_is_refused_before_anything_is_read(ranker: str, said: str) -> None:
    result = run("compare", "nowhere.txt", "--rankers", f"ridge,{ranker}")
    assert result.exit_code != 0
    assert said in f"{result.output} {result.exception}"


@pytest.mark.parametrize(
    ("format", "start"), [("latex", "% \\use"), ("markdown", "| method"), ("html", "<!doctype html>")]
)
def test_formats(folder: Path, format: str, start: str) -> None:
    result = run("compare", folder / "test.txt", "--scores", f"a={folder / 'plain.txt'}", "--format", format)
    assert result.stdout.startswith(start)


def test_rankers_are_trained_on_folds_and_the_run_is_taken_up_again(folder: Path, tmp_path: Path) -> None:
    arguments = (
        "compare", folder / "test.parquet", "--rankers", "ridge,ranksvm", "--folds", 3, "--baseline", "ridge",
        "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    first = run(*arguments)
    assert first.exit_code == 0, first.output
    facts = json.loads(first.stdout)
    assert facts["settings"]["folds"] == 3
    assert facts["counts"]["queries"] == 30
    assert len(list((tmp_path / "run" / "cells").glob("*.npy"))) == 6
    assert json.loads((tmp_path / "run" / "parameters.json").read_text()) == {
        "ridge": [{}] * 3,
        "ranksvm": [{}] * 3,
    }
    assert run(*arguments).stdout == first.stdout


def test_a_configuration_file_stands_in_for_flags(folder: Path, tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(f"scores:\n  a: {folder / 'plain.txt'}\nmetrics: [mrr]\nbootstrap: 0\n")
    facts = json.loads(run("compare", folder / "test.txt", "--config", config, "--json").stdout)
    assert list(facts["methods"]["a"]) == ["mrr"]
    config.write_text("metrix: mrr\n")
    result = run("compare", folder / "test.txt", "--config", config)
    assert "did you mean 'metrics'" in str(result.exception)


def test_plain_scores_for_rows_that_were_moved_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("qid,label,x\n1,0,1\n2,0,2\n1,1,3\n")
    (tmp_path / "rows.txt").write_text("0 qid:1 1:1\n0 qid:2 1:2\n1 qid:1 1:3\n")
    (tmp_path / "s.txt").write_text("1\n2\n3\n")
    table = run(
        "evaluate", tmp_path / "rows.csv", "--qid", "qid", "--label", "label", "--scores", tmp_path / "s.txt"
    )
    assert "do not stand together" in str(table.exception)
    with pytest.warns(PlacingsWarning, match="comes back"):
        text = run("evaluate", tmp_path / "rows.txt", "--scores", tmp_path / "s.txt")
    assert "do not stand together" in str(text.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "test.txt"),
        ("evaluate", "test.txt", "--model", "ridge", "--scores", "plain.txt"),
        ("compare", "test.txt"),
        ("compare", "test.txt", "--model", "ridge"),
        ("compare", "test.txt", "--rankers", "ridge", "--scores", "a=plain.txt"),
        ("compare", "test.txt", "--rankers", "ridge", "--split", "test"),
        ("compare", "test.txt", "--scores", "a=plain.txt", "--format", "pdf"),
    ],
)
def test_bad_usage_is_exit_code_2(folder: Path, arguments: tuple[str, ...], monkeypatch) -> None:
    monkeypatch.chdir(folder)
    assert run(*arguments).exit_code == 2


@pytest.fixture(scope="module")
def log(folder: Path) -> Path:
    """log.parquet: the test data in sessions of three queries, whose numbers are whole."""
    data = pg.read(folder / "test.parquet")
    ids = np.repeat(np.arange(len(data)) // 3, data.sizes)
    pg.write(data.replace(segments={**data.segments, "session_id": ids}), folder / "log.parquet")
    return folder / "log.parquet"


def test_the_table_says_that_sessions_were_resampled(folder: Path, log: Path) -> None:
    said = run("evaluate", log, "--model", folder / "ridge").output
    assert "resample 10 sessions, 30 queries" in said
    assert "sessions" not in run("evaluate", log, "--model", folder / "ridge", "--cluster", "query").output
    facts = json.loads(
        run("compare", log, "--model", f"a={folder / 'ridge'}", "--cluster", "kind", "--json").output
    )
    assert facts["settings"]["clusters"] == 2
    assert "Known: auto, kind, query" in str(
        run("evaluate", log, "--model", folder / "ridge", "--cluster", "sesion").exception
    )


def test_compare_takes_every_one_of_its_options(folder: Path, log: Path, tmp_path: Path) -> None:
    shared = [
        "--baseline", "a", "--second", "b", "--test", "t", "--alpha", "0.1", "--permutations", "50",
        "--metrics", "ndcg@5", "--by", "kind", "--empty", "zero", "--min-items", "2", "--bootstrap", "20",
        "--cluster", "session_id", "--seed", "1", "--qid", "qid", "--label", "label", "--overwrite",
        "--format", "markdown", "--json",
    ]  # fmt: skip
    given = run(
        "compare", log, "--model", f"a={folder / 'ridge'}", "--model", f"b={folder / 'svm'}",
        "--out", tmp_path / "given", *shared,
    )  # fmt: skip
    assert given.exit_code == 0, given.exception
    settings = json.loads(given.output)["settings"]
    assert (settings["permutations"], settings["alpha"], settings["test"]) == (50, 0.1, "t")
    trained = run(
        "compare", log, "--rankers", "ridge,ranksvm", "--folds", "3", "--seeds", "1", "--tune", "0",
        "--split-by", "query", "--baseline", "ridge", "--second", "ranksvm", "--out", tmp_path / "trained",
        *shared[4:],
    )  # fmt: skip
    assert trained.exit_code == 0, trained.exception
    assert json.loads(trained.output)["settings"]["permutations"] == 50


def test_a_number_of_permutations_below_one_is_refused_before_anything_is_read(folder: Path) -> None:
    assert run("compare", "nowhere.txt", "--rankers", "ridge", "--permutations", "0").exit_code == 2
    (folder / "run.yaml").write_text("rankers: ridge\npermutations: 0\n")
    said = run("compare", "nowhere.txt", "--config", folder / "run.yaml").exception
    assert "permutations must be a whole number of 1 or more" in str(said)
