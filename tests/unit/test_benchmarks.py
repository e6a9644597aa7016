"""Benchmarks can be found and tried: each has a Make target, help, its needs, and a way out without them."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "benchmarks").glob("*.py"))
NEED_DATA = (
    "input_norm", "personal_history", "places_engine", "places_gain", "real_places", "round_trips",
    "transforms",
)  # fmt: skip


def run_script(name: str, *arguments: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / f"{name}.py", *arguments],
        capture_output=True, text=True, check=True, env=os.environ | environment,
    )  # fmt: skip
    return result.stdout


def test_every_benchmark_is_named_in_the_makefile() -> None:
    named = set(re.findall(r"(\w+)\.py", (ROOT / "Makefile").read_text()))
    assert [path.name for path in SCRIPTS if path.stem not in named] == []


def test_make_help_lists_every_bench_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.findall(r"^(bench[\w-]*):(?!.*## )", makefile, re.M) == []


def test_every_benchmark_says_what_it_needs() -> None:
    docs = {path.name: ast.get_docstring(ast.parse(path.read_text())) or "" for path in SCRIPTS}
    assert [name for name, doc in docs.items() if not re.search(r"^Needs ", doc, re.M)] == []


@pytest.mark.slow  # each is a process that loads its libraries
@pytest.mark.parametrize("name", [path.stem for path in SCRIPTS])
def test_every_benchmark_has_help(name: str) -> None:
    assert re.search(r"^Needs ", run_script(name, "--help"), re.M)


@pytest.mark.slow
@pytest.mark.parametrize("name", NEED_DATA)
def test_without_its_data_a_benchmark_says_so_and_exits_0(name: str, tmp_path: Path) -> None:
    assert run_script(name, PLACINGS_DATA=str(tmp_path)).startswith("skipped: ")


@pytest.mark.slow
def test_without_its_peer_a_benchmark_says_so_and_exits_0() -> None:
    assert run_script("tf_ranking", PEER=sys.executable).startswith("skipped: no TF-Ranking in ")
    assert run_script("tf_ranking_peer").startswith("skipped: ")


@pytest.mark.slow
def test_without_a_gpu_a_benchmark_says_so_and_exits_0() -> None:
    hidden = run_script("gpu_training", "speed", CUDA_VISIBLE_DEVICES="")
    assert hidden.startswith("skipped: no CUDA device here")
