"""What all tests share: a cache folder of their own, and Hypothesis without a clock."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# one thread for each library here: the test runner already uses every core, and OpenMP threads that wait
# for a busy core spin. Tests about threads ask for them by name.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("PLACINGS_THREADS", "1")

settings.register_profile("placings", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("placings")


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["PLACINGS_CACHE"] = str(tmp_path_factory.mktemp("cache"))
