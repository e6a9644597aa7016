"""What the terminal says of columns that leak, and that it names flags where Python names keywords."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
import typer

from placings.cli.flags import find_flags
from placings.cli.main import app, run
from placings.data.reading import read
from placings.rankers.bundles import load

Terminal: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Terminal:
    """`placings` with these words: its exit code, stdout and stderr."""

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["placings", *map(str, words)])
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            try:
                run()
                code = 0
            except SystemExit as left:
                code = int(left.code or 0)
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """40 searches of 5 rows: the click is what was shown first, and `bm25` knows a little of the label."""
    rng = np.random.default_rng(0)
    lines = ["qid,label,bm25,position,clicked"]
    for qid in range(40):
        for place in range(5):
            label = int(rng.random() < 0.4)
            lines.append(f"{qid},{label},{label + rng.normal():.4f},{place + 1},{int(place == 0)}")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "log.csv"


QUICK = ("--ranker", "ridge", "--qid", "qid", "--label", "label")


def test_a_fit_leaves_out_what_leaks_and_says_so(terminal: Terminal, log: Path, tmp_path: Path) -> None:
    code, _, said = terminal("fit", log, "--out", tmp_path / "run", *QUICK)
    assert code == 0
    assert load(tmp_path / "run/model").feature_names_ == ("bm25",)
    assert "'clicked' (what people did) is no feature" in said
    assert "name it with --features." in said
    assert "keep=" not in said
    assert (
        "guessed position='position'. Name columns with --qid, --label, --item, --position, --time or" in said
    )


def test_features_that_are_named_are_read_and_the_model_remembers_them(
    terminal: Terminal, log: Path, tmp_path: Path
) -> None:
    named = ("--features", "bm25,position")
    code, _, said = terminal("fit", log, "--out", tmp_path / "run", *QUICK, *named)
    assert (code, said) == (0, "")
    ranker = load(tmp_path / "run/model")
    assert ranker.feature_names_ == ("bm25", "position")
    out = tmp_path / "scores.csv"
    code, _, said = terminal(
        "predict", tmp_path / "run/model", log, "--out", out, "--qid", "qid", "--label", "label"
    )
    assert code == 0  # the model names position, so it is read as a feature
    assert "'clicked' (what people did) is no feature" in said
    data = read(log, qid="qid", label="label", features=["bm25", "position"])
    scores = [float(line.split(",")[2]) for line in out.read_text().splitlines()[1:]]
    np.testing.assert_allclose(scores, ranker.predict(data), rtol=1e-9)  # written with 17 digits at most

    model = tmp_path / "run/model"
    whole = ("--qid", "qid", "--label", "label", "--metrics", "mrr", "--bootstrap", "0")
    assert terminal("evaluate", log, "--model", model, *whole)[0] == 0
    assert terminal("evaluate", log, "--model", model, *whole, *named)[::2] == (0, "")
    assert terminal("compare", log, "--model", f"a={model}", "--model", f"b={model}", *whole)[0] == 0
    code, _, said = terminal("evaluate", log, "--model", model, *whole, "--features", "bm25")
    assert (code, "the data lack 1: 'position'" in said) == (1, True)


def test_inspect_and_tune_take_features_too(terminal: Terminal, log: Path) -> None:
    parts = ("--qid", "qid", "--label", "label")
    facts = json.loads(terminal("inspect", log, *parts, "--features", "clicked,bm25", "--json")[1])
    assert [each["name"] for each in facts["features"]] == ["clicked", "bm25"]
    facts = json.loads(terminal("inspect", log, *parts, "--features", "1", "--json")[1])  # the first so many
    assert [each["name"] for each in facts["features"]] == ["bm25"]
    code, _, said = terminal("tune", log, *QUICK, "--features", "bm25", "--trials", "1", "--method", "random")
    assert (code, "clicked" in said) == (0, False)
    code, _, said = terminal("compare", log, "--rankers", "ridge,ranksvm", "--folds", "3", *parts,
                             "--features", "bm25", "--bootstrap", "0")  # fmt: skip
    assert (code, "clicked" in said) == (0, False)


def test_a_column_that_is_not_there_is_an_error_at_the_terminal(terminal: Terminal, log: Path) -> None:
    code, _, said = terminal("inspect", log, "--qid", "qid", "--label", "label", "--features", "bm52")
    assert code == 1
    assert "did you mean 'bm25'" in said


@pytest.mark.parametrize(
    ("name", "text", "words", "wanted"),
    [
        ("a.txt", "1 qid:1 1:NULL\n", (), "Pass --missing NULL to read it as missing."),
        ("a.txt", "1 1:2\n", (), "into a.txt.query, or pass --groups with the numbers."),
        ("a.txt", "1 qid:1 1:2\n", ("--qid", "q"), "a.txt is not read with --qid"),
        ("a.csv", "q,label,a\n1,1,1\n", (), "Pass --qid with one of its columns: 'q', 'label', 'a'."),
        ("a.csv", "qid,label,a\n1,x,1\n", (), "name another column with --label."),
        ("a.csv", "qid,label,a\n1,1,u\n", ("--features", "a"), "or leave it out of --features."),
        ("a.csv", "qid,label,a\n1,1\n", (), "or pass delimiter= (from Python)."),
        ("a.run", "1 Q0 d 1 0.5 x\n", (), "Pass qrels= (from Python) with the file of judgements."),
    ],
)  # fmt: skip
def test_the_terminal_names_flags_and_never_a_keyword_that_is_one(
    terminal: Terminal, tmp_path: Path, name: str, text: str, words: tuple[str, ...], wanted: str
) -> None:
    (tmp_path / name).write_text(text)
    code, _, said = terminal("inspect", tmp_path / name, *words)
    assert code == 1
    assert wanted in said
    assert not any(f"{keyword}=" in said for keyword in ("missing", "qid", "label", "features"))


def test_flags_are_known_by_the_keywords_of_the_library() -> None:
    command = typer.main.get_command(app)
    flags = find_flags(command, ["coverage", "show", "logs.parquet", "--time", "ts"])
    assert {"time": "--time", "event": "--event"}.items() <= flags.items()
    assert find_flags(command, ["fit"])["random_state"] == "--seed"
    assert find_flags(command, ["fit"])["feature_names"] == "--names"
    assert "groups" not in find_flags(command, ["export"])
