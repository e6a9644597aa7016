"""Three strangers type what the README shows into a fresh clone: a shop, a researcher, somebody on call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_documented_commands import find_commands

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SHOP, RESEARCHER, ON_CALL = "From a shop's click log to a live re-rank", "A researcher's table", "On call"
TIMEOUT = 600


def find_section(title: str) -> str:
    """What stands below a heading of the README, up to the next."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.S | re.M)
    assert found is not None, title
    return found[1]


def list_typed(title: str) -> list[str]:
    return [command.text for command in find_commands(find_section(title), "README.md")]


def read_block(title: str) -> str:
    found = re.search(r"^```python\n(.*?)^```$", find_section(title), re.S | re.M)
    assert found is not None, title
    return found[1]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository's files as they would be cloned now, with the environment that `make` makes."""
    folder = tmp_path_factory.mktemp("clone")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("needs the repository's git folder")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file() and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to(sys.prefix)
    return folder


def type_in(command: str, folder: Path, programs: Path | None = None) -> str:
    """What a shell prints for a line, in a clone whose own source is first."""
    path = [str(programs)] if programs is not None else []
    path += [str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        **os.environ, "PATH": os.pathsep.join(path), "PYTHONPATH": str(folder / "src"),
        "PLACINGS_CACHE": str(folder / "cache"), "COLUMNS": "160", "SHORTENED_SEARCHES": "4000",
    }  # fmt: skip
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True,
        timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


def test_each_way_is_as_short_as_promised() -> None:
    """Ten lines for the shop, ten statements or so for the researcher, three lines on call."""
    assert 5 <= len(list_typed(SHOP)) <= 10
    assert len(list_typed(ON_CALL)) == 3
    lines = [line for line in read_block(RESEARCHER).splitlines() if line.strip()]
    assert len(lines) <= 13  # three of them are a dict's


@pytest.mark.slow
def test_a_shop_goes_from_two_logs_to_a_live_re_rank(clone: Path) -> None:
    said = {command: type_in(command, clone) for command in list_typed(SHOP)}
    evaluated = next(text for command, text in said.items() if "rerank evaluate" in command)
    assert "engine" in evaluated
    assert "re-ranker" in evaluated
    assert "platform: app" in evaluated
    answer = list(said.values())[-1]
    assert all(re.search(rf"\b{item}\b", answer) for item in ("a", "b"))


@pytest.mark.slow
def test_a_researcher_has_a_table_with_tests_and_a_model_that_loads(clone: Path) -> None:
    (clone / "table.py").write_text(read_block(RESEARCHER), encoding="utf-8")
    said = type_in(".venv/bin/python table.py", clone)
    for told in ("RankSVM", "LightGBM", "neural", "Holm", "tabular"):
        assert told in said, told


@pytest.mark.slow
def test_somebody_on_call_learns_what_went_dark_where_since_when_and_what_to_do(clone: Path) -> None:
    """`make demo` runs its own recipe, with little training behind it; the log has its full length."""
    programs = clone / "programs"
    programs.mkdir()
    script = Path(__file__).with_name("shortened_placings.py")
    (programs / "placings").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    (programs / "placings").chmod(0o755)
    demo = type_in(f"make -o .venv/.installed BIN={programs} demo", clone)
    assert "ALERT, high: severe drop of" in demo
    alerts, runbook, _ = (type_in(command, clone) for command in list_typed(ON_CALL))
    assert re.search(r"severe drop of [\w, ]+ in platform=android since 2024-", alerts)
    assert "placings coverage runbook severe-drop" in alerts
    assert len(runbook.splitlines()) > 3
    assert "platform" in (clone / "coverage.html").read_text(encoding="utf-8")
