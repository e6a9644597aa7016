"""Each test has a time limit that ends what it started, and the run says what it took of its budget."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
HANGING = """
import subprocess, sys, time
import pytest

@pytest.mark.timeout(1)
def test_that_hangs(tmp_path):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open({told!r}, "w").write(str(child.pid))
    time.sleep(600)

def test_after_it(request):
    assert request.node.get_closest_marker("timeout").args == (120,)

@pytest.mark.slow
def test_of_the_slow_ones(request):
    assert request.node.get_closest_marker("timeout").args == (900,)
"""


@pytest.mark.slow
def test_a_test_that_hangs_fails_alone_and_its_children_end(tmp_path: Path) -> None:
    pytest.importorskip("pytest_timeout")
    told = tmp_path / "told"
    file = tmp_path / "test_hanging.py"
    file.write_text(HANGING.format(told=str(told)))
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull]
    command += ["-o", "markers=slow: long", f"--rootdir={tmp_path}", str(file)]
    start = time.monotonic()
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    result = subprocess.run(
        command, env={**plain, "PLACINGS_BUDGET": "300"}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert "1 failed, 2 passed" in result.stdout, result.stdout + result.stderr
    assert "Timeout (>1" in result.stdout
    assert " s: within the budget of 5 min 0 s" in result.stdout
    assert time.monotonic() - start < 100  # not the child's 600
    state = Path(f"/proc/{told.read_text()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
