"""Whatever fails at the terminal ends in one line and exit code 1, and no name can steer the terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from terminal import call_placings

import placings as pg
from placings.cli import caching
from placings.cli.main import describe_failure

CALL = [sys.executable, "-c", "from placings.cli.main import run; run()"]


@pytest.fixture
def train(tmp_path: Path) -> Path:
    numbers = np.random.default_rng(0)
    data = pg.RankingData.from_arrays(
        numbers.normal(size=(40, 2)), numbers.integers(0, 2, 40).astype(float), np.repeat(np.arange(8), 5)
    )
    pg.write(data, tmp_path / "train.txt")
    return tmp_path / "train.txt"


def fail_with(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def find_folder() -> Path:
        raise error

    import placings.data

    monkeypatch.setattr(placings.data, "find_folder", find_folder)
    assert caching.show_path


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "error: there is not enough memory. Ask for less, or give it more.\n"),
        (MemoryError("Unable to allocate 9 GiB"), "error: there is not enough memory (Unable to "),
        (RecursionError("maximum depth"), "error: something in the input is nested too deeply. "),
        (UnicodeEncodeError("utf-8", "caf\udce9", 3, 4, "surrogates"), r"error: 'caf\udce9' is not UTF-8 "),
        (UnicodeDecodeError("utf-8", b"\xe9", 0, 1, "start"), r"error: b'\xe9' is not UTF-8 text. "),
        (OSError(36, "File name too long", "x" * 9), "error: xxxxxxxxx: file name too long. Name another "),
        (RuntimeError("first\n  second\x1b[2J"), r"error: RuntimeError: first second\x1b[2J. This is a bug"),
        (KeyError("x"), "error: KeyError: 'x'. This is a bug in placings: run again with PLACINGS_TRA"),
        (pg.core.BadInput("two\nlines \x9b31m"), r"error: two lines \x9b31m"),
    ],
)  # fmt: skip
def test_every_failure_is_one_line_and_exit_1(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, error)
    done = call_placings("cache", "path")
    assert done.returncode == 1
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_the_traceback_is_shown_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, KeyError("x"))
    done = call_placings("cache", "path", PLACINGS_TRACEBACK="1")
    assert done.returncode == 1
    assert "Traceback (most recent call last)" in done.stderr
    assert "in find_folder" in done.stderr
    assert "Traceback" not in call_placings("cache", "path", PLACINGS_TRACEBACK="0").stderr


def test_a_bug_says_no_more_than_a_few_words_of_a_library() -> None:
    told = describe_failure(RuntimeError("x" * 10_000))
    assert len(told) < 500
    assert told.endswith("report what it prints.")


def test_a_closed_stdout_is_no_failure_and_no_file_takes_its_place(train: Path, tmp_path: Path) -> None:
    """Descriptor 1 is free then; the first file that is opened would get what libraries print."""
    words = [*CALL, "predict", "model", "train.txt", "--out", "scores.csv"]
    pg.make_ranker("ridge").fit(pg.read(train)).save(tmp_path / "model")
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "scores.csv").read_text().count("\n") == 41  # a header and 40 rows


def test_bytes_that_are_not_utf8_are_told_in_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [*(os.fsencode(word) for word in CALL), b"inspect", b"caf\xe9.txt"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 1
    assert done.stderr == b"error: caf\\udce9.txt: no such file.\n"
    usage = call_placings("inspect", "x.txt", "--qid", "\udcff")
    assert usage.returncode == 2
    assert r"--qid must be UTF-8 text. Got '\udcff'." in usage.stderr


# -- values --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("seed", "-1", "seed must be a whole number from 0 to 4,294,967,295. Got -1."),
        ("seed", "99999999999999999999", "seed must be a whole number from 0 to 4,294,967,295. Got 99999"),
        ("valid-share", ".nan", "valid_share must be a number from 0.0 to 0.9. Got nan."),
        ("valid-share", "0.95", "valid_share must be a number from 0.0 to 0.9. Got 0.95."),
    ],
)  # fmt: skip
def test_a_configuration_is_checked_as_the_flags_are(
    option: str, value: str, said: str, train: Path, tmp_path: Path
) -> None:
    (tmp_path / "run.yaml").write_text(f"{option}: {value}\n")
    words = ("fit", train, "--ranker", "ridge", "--out", tmp_path / "run")
    file = call_placings(*words, "--config", tmp_path / "run.yaml")
    assert file.returncode == 1
    assert file.stderr.startswith(f"error: {tmp_path / 'run.yaml'}: {said}")
    assert file.stderr.count("\n") == 1
    flag = call_placings(*words, f"--{option}", value.replace(".nan", "nan"), COLUMNS="400")
    assert flag.returncode == 2
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seed: abc", "seed must be a whole number from 0 to 4,294,967,295. Got 'abc'."),
        ("seed: [1]", "seed must be a whole number from 0 to 4,294,967,295. Got [1]."),
        ("seed: 1.5", "seed must be a whole number"),
        ("out: {a: 1}", "out must be text. Got {'a': 1}; put text that looks otherwise in quotes."),
        ("label: yes", "label must be text. Got True; put"),
        ("mlflow: 3", "mlflow must be true or false. Got 3."),
        ("set: 3", "set must hold settings as `name: value`. Got 3."),
        ("metrics: {a: 1}", "metrics must be text."),
        ('qid: "a\\0b"', "qid must be text without a zero byte."),
        ("metrics: [ndcg@5, [1]]", "metrics must be text. Got [1]"),
        ("ranker: &x ridge\nqid: *x", "aliases (*name) are not allowed"),
        ("set: {C: 1e999999999999}", "C"),
    ],
)
def test_wrong_types_in_a_configuration_are_told(text: str, said: str, train: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(text)
    done = call_placings(
        "fit", train, "--ranker", "ridge", "--config", tmp_path / "run.yaml", "--out", tmp_path / "o"
    )
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_configuration_in_latin_1_is_told(train: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_bytes("ranker: ridge\nqid: größe\n".encode("latin-1"))
    done = call_placings("fit", train, "--config", tmp_path / "run.yaml", "--out", tmp_path / "o")
    assert (
        done.stderr
        == f"error: {tmp_path / 'run.yaml'}:2: is not UTF-8 text (byte 0xf6). Save it again as UTF-8.\n"
    )


def test_a_number_may_be_written_as_text_and_an_empty_entry_is_none(train: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text('seed: "7"\nvalid-share: 0\nqid:\nranker: ridge\n')
    done = call_placings("fit", train, "--config", tmp_path / "run.yaml", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["config"]["seed"] == 7


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("places", "search", "x.db", "ulm", "-k", "9223372036854775808"), "PLACINGS_LIMIT_K"),
        (("tune", "x.txt", "--workers", "1000000000"), "PLACINGS_LIMIT_JOBS"),
        (("evaluate", "x.txt", "--bootstrap", "1000000001"), "PLACINGS_LIMIT_DRAWS"),
        (("log", "simulate-shop", "out", "--days", "2147483648"), "PLACINGS_LIMIT_COUNT"),
        (("coverage", "degrade", "m", "x", "--seed", "-1"), "--seed must be a whole number from 0 to"),
        (("inspect", "x.txt", "--fold", "9223372036854775808"), "--fold must be a whole number from -9,223"),
    ],
)
def test_numbers_that_no_library_takes_are_refused_at_once(words: tuple[str, ...], said: str) -> None:
    done = call_placings(*words, COLUMNS="300")
    assert done.returncode == 2
    assert said in done.stderr


# -- names ---------------------------------------------------------------------------------------------------

EVIL = "a\x1b[2J\x9b\u202eb"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = "".join(f"q{row % 4},{row % 2},{row % 5},{row % 3}\n" for row in range(20))
    (tmp_path / "rows.csv").write_text(f"qid,label,{EVIL},price\n{rows}")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize(
    "words",
    [
        ("inspect", "rows.csv"),
        ("inspect", "rows.csv", "--json"),
        ("inspect", f"{EVIL}.txt"),
        ("coverage", "show", "rows.csv"),
        ("coverage", "show", "rows.csv", "--json"),
        ("coverage", "show", "rows.csv", "--by", "nope"),
        ("coverage", "runbook", EVIL),
        ("fit", "rows.csv", "--ranker", EVIL, "--out", "run"),
        ("log", EVIL),
    ],
)
def test_no_name_steers_the_terminal(words: tuple[str, ...], table: Path) -> None:
    done = call_placings(*words, cwd=table.parent)
    printed = done.stdout + done.stderr
    assert not {"\x1b", "\x9b", "\u202e"} & set(printed)
    assert "2J" in printed
    if "--json" in words:
        assert json.dumps(EVIL, ensure_ascii=False) in json.dumps(json.loads(done.stdout), ensure_ascii=False)


def test_predicted_ids_are_exact_in_a_pipe_and_shown_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from placings.cli.printing import print_rows

    print_rows("qid,score\n\x1b[2J,1\n")
    assert capsys.readouterr().out == "qid,score\n\x1b[2J,1\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    print_rows("qid,score\n\x1b[2J,1\n")
    assert capsys.readouterr().out == "qid,score\n\\x1b[2J,1\n"


# -- runs ----------------------------------------------------------------------------------------------------


def test_a_failed_fit_leaves_no_folder_that_it_made(
    train: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placings.rankers import LinearRanker

    def fit(self: object, *_: object, **__: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(LinearRanker, "fit", fit)
    words = ("fit", train, "--ranker", "ridge", "--out")
    assert call_placings(*words, tmp_path / "new" / "run").returncode == 1
    assert not (tmp_path / "new").exists()
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").write_text("mine")
    assert call_placings(*words, tmp_path / "there").returncode == 1
    assert (tmp_path / "there" / "notes.txt").read_text() == "mine"
    assert json.loads((tmp_path / "there" / "run.json").read_text())["state"] == "failed"


def test_a_heading_of_per_query_csv_is_no_formula(train: Path, tmp_path: Path) -> None:
    (tmp_path / "scores.txt").write_text("1\n2\n" * 20)
    words = ("--scores", f"@cmd={tmp_path / 'scores.txt'}", "--scores", f"b={tmp_path / 'scores.txt'}")
    done = call_placings(
        "compare", train, *words, "--metrics", "mrr", "--bootstrap", "20", "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    head = (tmp_path / "run" / "per_query.csv").read_text().splitlines()[0]
    assert head == '"qid","fold","\'@cmd mrr","b mrr"'
