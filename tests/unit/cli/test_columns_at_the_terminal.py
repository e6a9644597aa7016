"""Columns named at the terminal, several files as one set, and a run's folder in place of its model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from terminal import call_placings

import placings as pg


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two parts of a table with columns of other names, and the same rows as svmlight text."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = []
    for search in range(24):
        for place in range(1, 6):
            x, y = rng.normal(size=2).round(3)
            grade = int(x > 0.3)
            lines.append(
                f"{search},p{place},{grade},2026-01-0{1 + search % 9}T10:00:00,{place},{x},"
                f'"{1000 + place:,}",{y}\n'
            )
    head = "search,product,grade,at,slot,bm25,stock,noise\n"
    Path("part-1.csv").write_text(head + "".join(lines[:60]))
    Path("part-2.csv").write_text(head + "".join(lines[60:]))
    return tmp_path


NAMED = [
    "--qid", "search", "--label", "grade", "--item", "product", "--time", "at", "--position", "slot",
    "--ignore", "noise", "--thousands", ",",
]  # fmt: skip
FIT = ["--ranker", "ridge", "--valid-share", "0.25", "--metrics", "mrr", "--out", "run"]


def test_parts_become_one_run_whose_folder_is_as_good_as_its_model(folder: Path) -> None:
    made = call_placings("fit", "part-*.csv", *NAMED, *FIT, "--json")
    assert made.returncode == 0, made.stderr
    assert "guessed" not in made.stderr
    ranker = pg.load("run")
    assert ranker.feature_names_ == ("bm25", "stock")
    assert ranker.training_["queries"] == 18
    config = json.loads(Path("run/run.json").read_text())["config"]
    assert config["path"] == "part-1.csv part-2.csv"
    for place in ("run", "run/model"):
        scored = call_placings("predict", place, "part-1.csv", "part-2.csv", *NAMED)
        assert scored.returncode == 0, scored.stderr
        assert len(scored.stdout.splitlines()) == 121
        assert scored.stdout.splitlines()[0] == '"qid","item","score","rank"'
        judged = call_placings("evaluate", "part-*.csv", *NAMED, "--model", place, "--json")
        assert json.loads(judged.stdout)["counts"]["queries"] == 24
    compared = call_placings(
        "compare", "part-1.csv", "part-2.csv", *NAMED, "--model", "a=run", "--metrics", "mrr", "--json"
    )
    assert compared.returncode == 0, compared.stderr
    shown = call_placings("inspect", "part-1.csv", "part-2.csv", *NAMED, "--json")
    assert json.loads(shown.stdout)["queries"] == 24


def test_names_of_features_come_from_a_file(folder: Path) -> None:
    assert call_placings("fit", "part-1.csv", "part-2.csv", *NAMED, *FIT).returncode == 0
    Path("new.txt").write_text("0 qid:1 1:0.5 2:1003\n0 qid:1 1:-0.5 2:1001\n")
    Path("names.txt").write_text("1 bm25\n2 stock\n")
    without = call_placings("predict", "run", "new.txt")
    assert without.returncode == 1
    assert "the data lack 2" in without.stderr
    scored = call_placings("predict", "run", "new.txt", "--names", "names.txt")
    assert scored.returncode == 0, scored.stderr
    assert len(scored.stdout.splitlines()) == 3


def test_sizes_of_queries_come_from_a_file(folder: Path) -> None:
    Path("rows.txt").write_text("1 1:3\n0 1:1\n0 1:4\n1 1:6\n")
    Path("sizes.txt").write_text("2\n2\n")
    made = call_placings("fit", "rows.txt", "--groups", "sizes.txt", "--ranker", "ridge", "--out", "sized")
    assert made.returncode == 0, made.stderr
    assert pg.load("sized").training_["queries"] == 2


def test_a_query_in_two_files_is_answered_with_the_flag(folder: Path) -> None:
    Path("a.txt").write_text("1 qid:1 1:3\n0 qid:1 1:1\n")
    Path("b.txt").write_text("0 qid:1 1:2\n")
    refused = call_placings("inspect", "a.txt", "b.txt")
    assert refused.returncode == 1
    assert "--repeated-qid join" in refused.stderr
    assert call_placings("inspect", "a.txt", "b.txt", "--repeated-qid", "join").returncode == 0


def test_a_configuration_names_columns_too(folder: Path) -> None:
    Path("run.yaml").write_text(
        "qid: search\nlabel: grade\nitem: product\nignore: [noise, at, slot]\n"
        "thousands: ','\nranker: ridge\nout: configured\n"
    )
    made = call_placings("fit", "part-1.csv", "--config", "run.yaml")
    assert made.returncode == 0, made.stderr
    assert pg.load("configured").feature_names_ == ("bm25", "stock")


def test_a_folder_without_a_model_is_still_no_bundle(folder: Path) -> None:
    Path("empty").mkdir()
    refused = call_placings("predict", "empty", "part-1.csv")
    assert refused.returncode == 1
    assert "is not a bundle" in refused.stderr
