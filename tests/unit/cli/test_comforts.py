"""A terminal's comforts: completion, --quiet, python -m placings, the width of what is printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import call_placings

import placings as pg
from placings.cli.completion import TRANSFORMS, complete_metric, complete_metrics, complete_ranker
from placings.cli.printing import find_columns, print_text
from placings.core import fit_width, is_quiet
from placings.rankers import RANKERS
from placings.transforms import TRANSFORMS as REGISTERED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rows.csv").write_text("query,rel,age\n1,0,2\n1,1,3\n2,0,1\n2,2,5\n")
    data = pg.read(tmp_path / "rows.csv", qid="query", label="rel", cache=False)
    pg.LinearRanker("ridge").fit(data).save(tmp_path / "run/model")
    return tmp_path


# -- quiet -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["before", "after", "long"])
def test_quiet_has_the_result_and_no_note(place: str, folder: Path) -> None:
    words = ["inspect", "rows.csv", "--no-cache"]
    loud = call_placings(*words, cwd=folder)
    told = {"before": ["-q", *words], "after": [*words, "-q"], "long": [*words, "--quiet"]}[place]
    quiet = call_placings(*told, cwd=folder)
    assert "note: " in loud.stderr
    assert quiet.stderr == ""
    assert quiet.stdout == loud.stdout


def test_quiet_keeps_errors_and_the_next_call_is_loud_again(folder: Path) -> None:
    failed = call_placings("-q", "inspect", "nowhere.csv", cwd=folder)
    assert failed.returncode == 1
    assert failed.stderr.startswith("error: nowhere.csv: no such file.")
    assert not is_quiet()
    assert "note: " in call_placings("inspect", "rows.csv", "--no-cache", cwd=folder).stderr


# -- completion --------------------------------------------------------------------------------------------


def complete(line: str, shell: str = "bash") -> list[str]:
    words = line.split(" ")
    asked = {"_PLACINGS_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return call_placings(**asked).stdout.split()


def test_commands_options_and_names_are_completed() -> None:
    assert complete("placings ins") == ["inspect"]
    assert complete("placings coverage al") == ["alerts"]
    assert {"--quiet", "--quickest-ms"} == set(complete("placings serve report --qui"))
    assert complete("placings fit --ranker light") == ["lightgbm"]
    assert complete("placings compare --rankers ridge,light") == ["ridge,lightgbm"]
    assert complete("placings reproduce table1 --methods raw,log") == ["raw,log1p"]
    assert complete("placings explain --kind perm") == ["permutation"]


def test_metrics_are_completed_with_their_usual_cutoffs_and_behind_commas() -> None:
    assert complete_metric("nd") == ["ndcg"]
    assert complete_metric("ndcg@1") == ["ndcg@1", "ndcg@10"]
    assert complete_metrics("mrr,ndcg@5") == ["mrr,ndcg@5"]
    assert complete_metrics("mrr,m") == ["mrr,map"]  # mrr is there already
    assert complete_metric("nonsense@") == []
    assert complete_ranker("") == list(RANKERS)


def test_the_transforms_that_are_completed_are_those_that_there_are() -> None:
    assert tuple(REGISTERED) == TRANSFORMS


def test_completion_is_installed_for_a_shell_into_the_home_folder(tmp_path: Path) -> None:
    told = {"HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}  # else it asks ours
    words = [sys.executable, "-m", "placings", "--install-completion", "bash"]
    done = subprocess.run(words, env={**os.environ, **told}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert any("_PLACINGS_COMPLETE" in path.read_text() for path in tmp_path.rglob("*") if path.is_file())


# -- python -m placings --------------------------------------------------------------------------------------


def test_the_module_is_the_program_and_loads_nothing_heavy_for_its_help() -> None:
    heavy = (
        "import sys; print([name for name in ('torch', 'sklearn', 'pandas', 'numba') if name in sys.modules])"
    )
    code = (
        f"import runpy\ntry:\n runpy.run_module('placings', run_name='__main__')\nexcept SystemExit: {heavy}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, env=os.environ
    )
    assert "Usage:" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


# -- how wide ------------------------------------------------------------------------------------------------


def test_a_pipe_has_no_width_and_columns_sets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert find_columns() is None
    monkeypatch.setenv("COLUMNS", "72")
    assert find_columns() == 72
    monkeypatch.setenv("COLUMNS", "wide")
    assert find_columns() is None


def test_a_line_of_columns_hangs_and_a_sentence_is_left_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    with fit_width(40):
        print_text("  late          12  the action came after the window had ended")
        print_text("a sentence that is much longer than forty columns of a terminal")
    assert capsys.readouterr().out.splitlines() == [
        "  late          12  the action came",
        "                    after the window had",
        "                    ended",
        "a sentence that is much longer than forty columns of a terminal",
    ]
