"""The progress bar: on a terminal alone; counts, words, speed, and what was done before."""

from __future__ import annotations

import io

import pytest

from placings.core.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal as stderr; called in the test, for pytest puts its own stderr back before each one."""
    made = Terminal()
    monkeypatch.setattr("sys.stderr", made)
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return made


def test_a_terminal_sees_the_title_the_count_and_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_terminal(monkeypatch)
    with show_progress("[counting]", 3, keep=True) as bar:
        for value in (0.25, 0.5, 0.75):
            bar.advance(note=f"best {value}")
    said = stream.getvalue()
    assert "[counting]" in said  # brackets are no markup
    assert "3/3" in said
    assert "best 0.75" in said


def test_steps_may_change_the_title_without_being_done(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_terminal(monkeypatch)
    with show_progress("first", 2, keep=True) as bar:
        bar.advance()
        bar.advance(0, title="second")
    assert "second" in stream.getvalue()
    assert "1/2" in stream.getvalue()


def test_the_total_may_be_learnt_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_terminal(monkeypatch)
    with show_progress("indexing", keep=True) as bar:
        bar.reach(5, 20)
        bar.reach(20, 20)
    assert "20/20" in stream.getvalue()


def test_a_named_unit_has_a_speed_and_bytes_have_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_terminal(monkeypatch)
    with show_progress("training", 40, rate="steps", keep=True) as bar:
        for step in range(1, 41):
            bar.reach(step)
    assert "steps/s" in stream.getvalue()
    with show_progress("reading", 2_000_000, rate="bytes", keep=True) as bar:
        bar.reach(2_000_000)
    assert "2.0/2.0 MB" in stream.getvalue()


def test_what_was_done_before_is_full_but_counts_for_no_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_terminal(monkeypatch)
    clock = [0.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: clock[0])
    with show_progress("training", 1000, rate="steps", keep=True) as bar:
        bar.begin(990)
        for step in range(991, 1001):  # 10 steps in 10 s, after 990 in no time
            clock[0] += 1.0
            bar.reach(step)
        speed = bar._bar.tasks[0].speed
    assert "1000/1000" in stream.getvalue()
    assert speed == pytest.approx(1.0, rel=0.2)  # the first of ten samples starts the clock: 9 or 10 of them


@pytest.mark.parametrize("wanted", [True, False])
def test_a_file_and_an_unwanted_bar_see_nothing(monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    made = io.StringIO() if wanted else Terminal()
    monkeypatch.setattr("sys.stderr", made)
    with show_progress("training", 3, wanted=wanted, rate="steps") as bar:
        bar.begin(1)
        bar.advance(note="best")
        bar.reach(3, 3)
    assert made.getvalue() == ""


def test_an_unkept_bar_is_wiped_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = open_terminal(monkeypatch)
    with show_progress("indexing", 1) as bar:
        bar.advance()
    assert stream.getvalue().endswith("\x1b[2K")  # the last thing said: erase this line
