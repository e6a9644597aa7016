"""The bar of a run: on a terminal alone, with speed and time left, and once among processes."""

from __future__ import annotations

import io

import pytest

from placings.training.progress import show_steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def show(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, first: int = 1, rank: str | None = None
) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    with show_steps(40, True) as advance:
        for step in range(first, 41):
            advance(step)
    return stream.getvalue()


def test_a_terminal_sees_how_many_steps_are_done_how_fast_and_how_long_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = show(monkeypatch, Terminal())
    assert "training" in said
    assert "40/40" in said
    assert "steps/s" in said
    assert "0:00:00" in said


def test_a_run_that_goes_on_starts_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    said = show(monkeypatch, Terminal(), first=31)
    assert "40/40" in said
    assert " 9/40" not in said  # ten steps were taken, but the bar is full


@pytest.mark.parametrize("rank", ["0", "1"])
def test_of_several_processes_the_first_alone_draws(monkeypatch: pytest.MonkeyPatch, rank: str) -> None:
    assert bool(show(monkeypatch, Terminal(), rank=rank)) == (rank == "0")


def test_a_file_and_a_quiet_run_see_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert show(monkeypatch, io.StringIO()) == ""
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with show_steps(3, False) as advance:
        advance(1)
    assert stream.getvalue() == ""
