"""Progress where no bar can be drawn: few plain lines on stderr, none for short work, none when quiet."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from placings.core import Voice, choose_voice, is_quiet, progress, set_quiet, show_progress, show_work


class Clock:
    """A clock that goes on by as much as a test says."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


class Stderr:
    """What was written so far."""

    def __init__(self, captured: pytest.CaptureFixture[str]) -> None:
        self._captured, self._text = captured, ""

    def getvalue(self) -> str:
        self._text += self._captured.readouterr().err
        return self._text


@pytest.fixture
def stderr(capsys: pytest.CaptureFixture[str]) -> Iterator[Stderr]:
    yield Stderr(capsys)
    set_quiet(False)


def work(clock: Clock, seconds: float, steps: int = 100, **options: object) -> None:
    with show_progress("training", steps, rate="steps", **options) as bar:  # type: ignore[arg-type]
        for _ in range(steps):
            clock.now += seconds / steps
            bar.advance(note="loss 0.5")


def test_short_work_writes_nothing(clock: Clock, stderr: Stderr) -> None:
    work(clock, 9.0)
    assert stderr.getvalue() == ""


def test_long_work_writes_after_ten_seconds_then_every_thirty_and_at_the_end(
    clock: Clock, stderr: Stderr
) -> None:
    work(clock, 100.0)
    assert stderr.getvalue().splitlines() == [
        "training: 10 of 100 steps (10%), 10 s, about 1 min 30 s left, loss 0.5",
        "training: 40 of 100 steps (40%), 40 s, about 1 min 0 s left, loss 0.5",
        "training: 70 of 100 steps (70%), 1 min 10 s, about 30 s left, loss 0.5",
        "training: 100 of 100 steps (100%), 1 min 40 s, loss 0.5",
        "training: 100 of 100 steps (100%) done in 1 min 40 s",
    ]


def test_speed_counts_from_where_a_run_goes_on(clock: Clock, stderr: Stderr) -> None:
    with show_progress("training", 100) as bar:
        bar.begin(80)
        clock.now += 20.0
        bar.reach(90)
    assert stderr.getvalue().splitlines()[0] == "training: 90 of 100 (90%), 20 s, about 20 s left"


def test_bytes_are_told_in_megabytes_and_an_unknown_end_without_a_share(clock: Clock, stderr: Stderr) -> None:
    with show_progress("reading", rate="bytes") as bar:
        clock.now += 12.0
        bar.reach(2_500_000)
        clock.now += 31.0
        bar.reach(5_000_000, 10_000_000)
    assert stderr.getvalue().splitlines() == [
        "reading: 2.5 MB, 12 s",
        "reading: 5.0 of 10.0 MB (50%), 43 s, about 43 s left",
        "reading: 5.0 of 10.0 MB (50%) done in 43 s",
    ]


def test_what_is_not_wanted_or_quiet_writes_nothing(clock: Clock, stderr: Stderr) -> None:
    work(clock, 100.0, wanted=False)
    set_quiet(True)
    assert is_quiet()
    work(clock, 100.0)
    Voice(every=True)("cell")
    with show_work("training"):
        pass
    assert stderr.getvalue() == ""


def test_a_title_cannot_steer_the_terminal(clock: Clock, stderr: Stderr) -> None:
    with show_progress("a\x1b[2J", 2) as bar:
        clock.now += 11.0
        bar.advance()
    assert "\x1b" not in stderr.getvalue()


def test_lines_of_a_study_are_few_in_a_log_and_all_if_asked(clock: Clock, stderr: Stderr) -> None:
    few, every = Voice(), choose_voice(True)
    for cell in range(12):
        clock.now += 5.0
        few(f"few {cell}")
        every(f"every {cell}")
    choose_voice(False)("nothing")
    heard: list[str] = []
    choose_voice(heard.append)("own")
    said = stderr.getvalue().splitlines()
    assert [line for line in said if line.startswith("few")] == ["few 1", "few 7"]  # after 10 s and 40 s
    assert sum(line.startswith("every") for line in said) == 12
    assert heard == ["own"]


def test_work_without_steps_says_how_long_it_has_taken(
    monkeypatch: pytest.MonkeyPatch, stderr: Stderr
) -> None:
    monkeypatch.setattr(progress, "FIRST", 0.01)
    with show_work("training mean on 400 searches"):
        for _ in range(200):
            if stderr.getvalue():
                break
            time.sleep(0.01)
    assert stderr.getvalue().startswith("training mean on 400 searches: 0 s so far\n")
