"""Ctrl-C, full disks and closed pipes, as a shell sees them: one line, the right exit code, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from terminal import call_placings
from typer.testing import CliRunner

import placings as pg
from placings.cli.main import app

pytestmark = pytest.mark.slow
CALL = [sys.executable, "-c", "from placings.cli.main import run; run()"]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "PLACINGS_THREADS": "1"}
MODELS = Path(__file__).parents[1] / "fixtures" / "v1" / "models"


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rows") / "train.txt"
    pg.write(pg.make_ranking(30, n_features=6, mean_size=10, random_state=0).data, file)
    return file


# -- Ctrl-C -------------------------------------------------------------------------------------------------


def wait_for_steps(run: subprocess.Popen[str], told: Path) -> None:
    end = time.monotonic() + 120
    while not told.exists() and run.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert told.exists(), run.communicate()[1]


# both end in the same handler; each takes a process that loads torch
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_neural_fit_goes_on_where_it_stood(rows: Path, tmp_path: Path, how: signal.Signals) -> None:
    settings = ["hidden=[8]", "members=1", "steps=120", "holdout=0", "device=cpu"]
    words = ["fit", str(rows), "--ranker", "neural", *(w for s in settings for w in ("--set", s))]
    out, told = tmp_path / "run", tmp_path / "told"
    # the step before the signal is told by a file, so that the signal arrives in the middle of the training
    slow = (
        "import time, pathlib\n"
        "import placings.training.progress as progress\n"
        "from contextlib import contextmanager\n"
        "@contextmanager\n"
        "def show(steps, wanted, clock):\n"
        f"    yield lambda step: (step == 20 and pathlib.Path({str(told)!r}).touch(), time.sleep(0.02))\n"
        "progress.show_steps = show\n"
        "from placings.cli.main import run; run()"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", slow, *words, "--out", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **ONE_THREAD},
    )  # fmt: skip
    wait_for_steps(run, told)
    run.send_signal(how)
    _, said = run.communicate(timeout=120)
    assert run.returncode == 130, said
    assert "Traceback" not in said
    line = said.strip().splitlines()[-1]
    kept = out / "checkpoint.safetensors"
    assert line.startswith("stopped: the state after step ")
    assert line.endswith(f" is in {kept}; the same command goes on from there.")
    step = int(line.removeprefix("stopped: the state after step ").split()[0])
    assert 20 <= step < 120
    assert kept.exists()
    assert json.loads((out / "run.json").read_text())["state"] == "stopped"

    if how == signal.SIGTERM:
        return
    for home in (out, tmp_path / "whole"):
        result = CliRunner().invoke(app, [*words, "--out", str(home)], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert len(json.loads((home / "history.json").read_text())["loss"]) == 120
    assert not kept.exists()
    data = pg.read(rows)
    found, expected = (pg.load(home / "model").predict(data) for home in (out, tmp_path / "whole"))
    # float32 weights, the first steps taken in another process: the last digits may differ, no more
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def stop(*words: object) -> str:
    """What a command says on stderr when it is stopped."""
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 130
    return result.stderr.strip()


def test_a_tree_says_that_nothing_is_kept(rows: Path, tmp_path: Path) -> None:
    with mock.patch("placings.rankers.lgbm.LightGBMRanker._fit", side_effect=KeyboardInterrupt):
        said = stop("fit", rows, "--out", tmp_path)
    assert said == (
        "stopped: nothing is kept, because a LightGBMRanker cannot go on from half a training; "
        "the same command starts anew."
    )
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "stopped"


@pytest.mark.parametrize(
    ("place", "words", "said"),
    [
        (
            "placings.rankers.linear.LinearRanker._fit",
            ["compare", "ROWS", "--rankers", "ridge", "--out", "o"],
            "the finished cells are in o/cells; the same command goes on.",
        ),
        (
            "placings.rankers.linear.LinearRanker._fit",
            ["compare", "ROWS", "--rankers", "ridge"],
            "nothing is kept; with --out the finished cells would be.",
        ),
        (
            "placings.rankers.linear.LinearRanker._fit",
            ["tune", "ROWS", "--ranker", "ridge"],
            "nothing is kept; with --out or --storage the trials would be.",
        ),
        (
            "placings.studies.table1.reproduce_table1",
            ["reproduce", "table1", "ROWS", "--out", "o"],
            "the finished cells are in o/cells; the same command goes on.",
        ),
        (
            "placings.studies.coverage_drop.study_coverage_drop",
            ["reproduce", "coverage-drop", "--out", "o"],
            "the finished cells are in o/cells; the same command goes on.",
        ),
        (
            "placings.studies.places.study_places",
            ["places", "study", "PARQUET", "--out", "o"],
            "the finished cells are in o/cells; the same command goes on.",
        ),
        (
            "placings.feco.history.update_history",
            ["coverage", "trend", "ROWS", "--time", "t", "--store", "o"],
            "the finished days are in o; the same command goes on.",
        ),
        (
            "placings.studies.places_demo.run_demo",
            ["demo", "--out", "o"],
            "the demo keeps nothing to go on from; the same command starts anew.",
        ),
    ],
)
def test_what_is_stopped_says_what_is_kept(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, words: list[str], said: str
) -> None:
    import pandas as pd

    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"search_id": ["a"], "item_id": ["x"], "position": [1], "label": [1.0]}).to_parquet(
        tmp_path / "rows.parquet"
    )
    names = {"ROWS": str(rows), "PARQUET": "rows.parquet"}
    with mock.patch(place, side_effect=KeyboardInterrupt):
        assert stop(*(names.get(word, word) for word in words)) == f"stopped: {said}"


# -- disks and pipes ----------------------------------------------------------------------------------------


PRINTING = {
    "help": ["fit", "--help"],
    "cache": ["cache", "list", "--json"],
    "inspect": ["inspect", "ROWS"],
    "predict": ["predict", str(MODELS / "ridge"), "ROWS"],
    "evaluate": ["evaluate", "ROWS", "--model", str(MODELS / "ridge"), "--bootstrap", "0"],
}


@pytest.mark.parametrize("name", PRINTING)
def test_a_full_disk_behind_stdout_is_one_line(rows: Path, name: str) -> None:
    words = [str(rows) if word == "ROWS" else word for word in PRINTING[name]]
    with open("/dev/full", "w") as full:
        result = subprocess.run([*CALL, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert result.returncode == 1
    assert result.stderr == (
        "error: the output could not be written: no space left on device. Free some, or write elsewhere.\n"
    )


@pytest.mark.parametrize("name", ["predict", "inspect"])
def test_a_reader_that_goes_away_is_no_error_to_speak_of(rows: Path, name: str) -> None:
    words = [str(rows) if word == "ROWS" else word for word in PRINTING[name]]
    reader, writer = os.pipe()
    os.close(reader)
    try:
        result = subprocess.run(
            [*CALL, *words], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=120
        )
    finally:
        os.close(writer)
    assert result.stderr == ""
    assert result.returncode == 1


@pytest.mark.parametrize("out", ["/proc/no", "FILE", "FILE/below"])
def test_an_unwritable_place_is_one_line_and_no_traceback(rows: Path, tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("")
    place = out.replace("FILE", str(tmp_path / "file"))
    result = call_placings("fit", rows, "--out", place)
    assert result.returncode == 1
    assert result.stderr.startswith("error: --out")
    assert len(result.stderr.splitlines()) == 1


# -- the same folder again ----------------------------------------------------------------------------------


def test_another_run_in_the_folder_is_replaced_by_the_flag_that_the_error_names(
    rows: Path, tmp_path: Path
) -> None:
    words = ["fit", str(rows), "--ranker", "neural", "--out", str(tmp_path / "o")]
    small = ["--set", "hidden=[4]", "--set", "members=1", "--set", "device=cpu", "--set"]

    def call(steps: int, *more: str) -> object:
        result = CliRunner().invoke(app, [*words, *small, f"steps={steps}", *more])
        return result.exception if result.exit_code else None

    assert call(2) is None
    assert "Choose another --out, or pass --overwrite." in str(call(3))
    (tmp_path / "o" / "checkpoint.safetensors").write_bytes(b"of the other run")
    assert call(3, "--overwrite") is None
    assert len(json.loads((tmp_path / "o" / "history.json").read_text())["loss"]) == 3
