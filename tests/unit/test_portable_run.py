"""`make test-portable`: what it turns off is computed, and what stayed on makes it fail."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

import portable


def speak(text: str) -> Any:
    return lambda *args, **more: subprocess.CompletedProcess(args, 0, stdout=text, stderr="")


@pytest.mark.skipif(not portable.IS_X86, reason="the rest of the libraries have one way on this CPU")
def test_a_library_that_still_uses_vectors_fails_the_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(portable, "find_numpy_features", lambda: ["AVX2", "FMA3"])
    spoken = "MKL_VERBOSE SGEMM(N,N,64) 1us CNR:AVX2 Dyn:1\nonednn_verbose,v1,info,cpu,isa:Intel SSE4.1\n"
    monkeypatch.setattr(subprocess, "run", speak(spoken))
    assert portable.check() == 1
    told = capsys.readouterr().err
    assert "numpy must run on baseline. Got AVX2, FMA3." in told
    assert "MKL must run on COMPATIBLE. Got AVX2." in told
    assert "oneDNN" not in told


def test_every_pass_turns_vectors_off_and_has_its_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portable, "find_numpy_features", lambda: ["AVX2", "FMA3"])
    one, two = portable.make_settings(1), portable.make_settings(2)
    assert {name for name in one if one[name] != two[name]} == {
        "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "PLACINGS_THREADS"
    }  # fmt: skip
    assert one["NPY_DISABLE_CPU_FEATURES"] == "AVX2 FMA3"
    assert one["NUMBA_CPU_NAME"] == "generic"
    assert set(portable.ON_TWO_THREADS) <= set(portable.SUITES)


def test_every_suite_that_is_named_exists() -> None:
    for suite in portable.SUITES:
        path, _, name = suite.partition("::")
        assert (portable.ROOT / path).exists(), suite
        assert not name or f"def {name}(" in (portable.ROOT / path).read_text(encoding="utf-8"), suite
