"""`make test-portable`: the numeric suites as an older CPU would compute them, on one thread and on two.

Vector instructions decide in which order sums are added and how `exp` and `cos` are rounded. Here every
library is told to use the plainest code it has for this kind of machine, a child process proves that each
of them did, and the suites that compare numbers run. A test that asks for the bits of one CPU fails here.

    python tests/portable.py            the whole of it
    python tests/portable.py --check    only the proof, in the environment as it is
    python tests/portable.py -k geo     what follows goes to pytest
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRINTED = (  # numbers that stand as text in docstrings and pages
    "the_examples_of_a_module_run",
    "the_sessions_of_a_page_print_what_they_show",
)
TUTORIALS = (
    "tests/e2e/test_docs.py::test_a_tutorial_runs_by_its_documented_command_and_prints_what_its_page_shows"
)
SUITES = [
    *(f"tests/unit/{room}" for room in ("metrics", "losses", "transforms", "training", "rankers", "data")),
    *(f"tests/unit/{room}" for room in ("core", "features", "evaluation", "feco", "logs", "simulate")),
    *("tests/unit/places/test_preset.py", "tests/unit/rerank"),
    *("tests/contract", "tests/parity", "tests/property"),
    *(f"tests/e2e/test_docs.py::test_{name}" for name in PRINTED),
    TUTORIALS,
]
ON_TWO_THREADS = [
    *(f"tests/unit/{room}" for room in ("metrics", "losses", "transforms", "training", "rankers")),
    *("tests/contract", "tests/parity"),
]
NOTHING_CHOSEN = 5  # pytest's status where -k fits no test
IS_X86 = platform.machine() in ("x86_64", "AMD64")


def find_numpy_features() -> list[str]:
    """The groups of instructions that numpy would use here and can do without; none once it was told to."""
    try:
        from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
    except ImportError:  # numpy 1
        from numpy.core._multiarray_umath import (  # type: ignore[no-redef]
            __cpu_dispatch__,
            __cpu_features__,
        )
    return [name for name in __cpu_dispatch__ if __cpu_features__.get(name)]


def make_settings(threads: int) -> dict[str, str]:
    """What is set in the environment of the tests."""
    count = str(threads)
    settings = {
        "OMP_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "PLACINGS_THREADS": count,
        "OMP_WAIT_POLICY": "passive",  # two threads may share a core with another worker: they must not spin
        "ATEN_CPU_CAPABILITY": "default",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CACHE_DIR": str(ROOT / "out" / "numba-generic"),  # the usual one holds code for this CPU
        "NPY_DISABLE_CPU_FEATURES": " ".join(find_numpy_features()),
    }
    if IS_X86:
        settings |= {
            "ONEDNN_MAX_CPU_ISA": "SSE41",
            "OPENBLAS_CORETYPE": "Nehalem",
            "MKL_CBWR": "COMPATIBLE",
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-FMA,-FMA4",  # exp, sin, cos, pow
        }
    return settings


def run_kernels() -> None:
    """One product of matrices (MKL) and one function (oneDNN), which say what they run on."""
    import torch

    square = torch.ones(64, 64)
    torch.nn.functional.gelu(square @ square)


def find_faults() -> list[str]:
    """What here, or in a child of the same environment, still uses more than the plainest code."""
    import scipy.linalg  # noqa: F401  its OpenBLAS is another one than numpy's
    import torch
    from numba.core.registry import cpu_target
    from threadpoolctl import threadpool_info

    seen = {
        "numpy": (", ".join(find_numpy_features()) or "baseline", "baseline"),
        "numba": (cpu_target.target_context.codegen().magic_tuple()[1], "generic"),
        "torch": (torch.backends.cpu.get_cpu_capability(), "DEFAULT"),
    }
    if IS_X86:
        for pool in threadpool_info():
            if pool["internal_api"] == "openblas":
                seen[f"OpenBLAS {pool['version']}"] = (pool["architecture"], "Nehalem")
        spoken = subprocess.run(
            [sys.executable, "-c", "import portable; portable.run_kernels()"],
            env=os.environ
            | {"MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1", "PYTHONPATH": str(Path(__file__).parent)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name, mark, end, wanted in (
            ("MKL", "CNR:", " ", "COMPATIBLE"),
            ("oneDNN", "isa:", "\n", "Intel SSE4.1"),
        ):
            has = torch.backends.mkl.is_available() if name == "MKL" else torch.backends.mkldnn.is_available()
            if has:
                said = spoken.partition(mark)[2].partition(end)[0]
                seen[name] = (said or "says nothing", wanted)
    for name, (got, _) in seen.items():
        print(f"  {name:<18} {got}")
    return [
        f"{name} must run on {wanted}. Got {got}." for name, (got, wanted) in seen.items() if got != wanted
    ]


def check() -> int:
    """Print what every library runs on; 1 if one of them does not run on the plainest code."""
    faults = find_faults()
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def run_tests(threads: int, suites: list[str], options: list[str]) -> int:
    """Set up, prove, test; the exit status of what failed first."""
    settings = make_settings(threads)
    environment = os.environ | settings
    print(f"== {threads} thread{'s' if threads > 1 else ''}", flush=True)
    for name, value in settings.items():
        print(f"  {name}={value}")
    print("which makes them run on", flush=True)
    proved = subprocess.run([sys.executable, __file__, "--check"], env=environment, check=False).returncode
    if proved:
        return proved
    workers = max(1, (os.cpu_count() or 1) // threads)
    command = [sys.executable, "-m", "pytest", "-q", "--durations=10", "-n", str(workers)]
    runs = [["-m", "not slow", "--dist", "loadfile", "--no-loadscope-reorder", *suites, *options]]
    if TUTORIALS in suites:  # they are slow, and their printed numbers are what another CPU may change
        runs = [[each for each in runs[0] if each != TUTORIALS], [TUTORIALS, *options]]
    start = time.monotonic()
    statuses = [
        subprocess.run([*command, *run], env=environment, cwd=ROOT, check=False).returncode for run in runs
    ]
    status = max((each for each in statuses if each != NOTHING_CHOSEN), default=NOTHING_CHOSEN)
    print(
        f"== {threads} thread{'s' if threads > 1 else ''}: {(time.monotonic() - start) / 60:.1f} min",
        flush=True,
    )
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only print and prove what the libraries run on")
    parser.add_argument("--threads", type=int, choices=(1, 2), help="one of the two passes (default: both)")
    given, options = parser.parse_known_args()
    if given.check:
        return check()
    passes = {1: SUITES, 2: ON_TWO_THREADS}
    chosen = [given.threads] if given.threads else list(passes)
    statuses = [run_tests(threads, passes[threads], options) for threads in chosen]
    return max(statuses)


if __name__ == "__main__":
    raise SystemExit(main())
