"""What all tests share: a cache folder of their own, Hypothesis without a clock, a time limit, a budget."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.testing
from hypothesis import settings

# one thread for each library here: the test runner already uses every core, and OpenMP threads that wait
# for a busy core spin. Tests about threads ask for them by name.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("PLACINGS_THREADS", "1")

os.environ.pop("COLUMNS", None)  # the runner's workers say 80, which would break the lines of every table
os.unsetenv("COLUMNS")  # readline, which pytest imports, sets it behind the back of os.environ

settings.register_profile("placings", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("placings")

# making click's commands of ours costs 50 ms, and typer's runner makes them at each of a thousand calls
if hasattr(typer.testing, "_get_command"):
    typer.testing._get_command = cache(typer.testing._get_command)

LIMIT, SLOW_LIMIT = 120, 900  # seconds that a test may take, its fixtures included; many times the longest
STARTED = time.monotonic()


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["PLACINGS_CACHE"] = str(tmp_path_factory.mktemp("cache"))


# -- a time limit for each test -------------------------------------------------------------------------


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """By signal where there is one: the test fails, its fixtures are taken down, and the run goes on."""
    if not config.pluginmanager.hasplugin("timeout"):
        return
    for item in items:
        if item.get_closest_marker("timeout") is None:
            slow = item.get_closest_marker("slow") is not None
            item.add_marker(pytest.mark.timeout(SLOW_LIMIT if slow else LIMIT))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if call.excinfo is not None and "Timeout (>" in str(call.excinfo.value):
        end_children(since=call.start)
    return report


def end_children(since: float) -> None:
    """Kill what this process started after that time and what these started: servers, browsers, trainings."""
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    ticks = os.sysconf("SC_CLK_TCK")
    family, young = {os.getpid()}, []
    for folder in sorted((p for p in Path("/proc").glob("[0-9]*")), key=lambda p: int(p.name)):
        with suppress(OSError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[1]) in family:
                family.add(int(folder.name))
                if booted + int(fields[19]) / ticks >= since - 1 / ticks:
                    young.append(int(folder.name))
    for process in young:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


# -- the budget of `make test` ---------------------------------------------------------------------------


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Where a budget is set (PLACINGS_BUDGET, seconds), how much of it was used; it never fails a run."""
    budget = os.environ.get("PLACINGS_BUDGET")
    if budget and not os.environ.get("PYTEST_XDIST_WORKER"):
        terminalreporter.write_line(say_budget(time.monotonic() - STARTED, float(budget)))


def say_budget(seconds: float, budget: float) -> str:
    took, allowed = (f"{int(s // 60)} min {int(s % 60)} s" for s in (seconds, budget))
    over = "within" if seconds <= budget else "OVER"
    return f"took {took}: {over} the budget of {allowed} on 2 quiet cores"
