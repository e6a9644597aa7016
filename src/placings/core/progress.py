"""The progress of every long job, on stderr: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from placings.core.escaping import escape_line

BYTES = "bytes"
FIRST, NEXT = 10.0, 30.0  # seconds until the first line where no bar can be drawn, and between two later ones

_quiet = False


def set_quiet(quiet: bool) -> None:
    """From now on no job of this process tells its progress, or each does again."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """Whether progress and notes are unwanted."""
    return _quiet


class ProgressBar:
    """What a job tells while it works; nothing happens where no bar is drawn."""

    def __init__(self, bar: Any = None) -> None:
        self._bar = bar

    def begin(self, done: float = 0) -> None:
        """The work begins only now, with `done` done before: speed and time left count from here."""
        if self._bar is not None:
            self._bar.reset(self._bar.task_ids[0], completed=done)

    def advance(self, steps: float = 1, *, title: str | None = None, note: str | None = None) -> None:
        """`steps` more are done; `title` and `note` replace the words before and behind the bar."""
        if self._bar is not None:
            words = {} if note is None else {"note": escape_line(note)}
            named = None if title is None else escape_line(title)
            self._bar.update(self._bar.task_ids[0], advance=steps, description=named, **words)

    def reach(self, done: float, total: float | None = None) -> None:
        """`done` of all are done; of `total`, where that is only known now."""
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=done, total=total)


class ProgressLines(ProgressBar):
    """The same in plain lines, few of them, for logs: `training: 1,200 of 15,000 steps (8%), 40 s, …`."""

    def __init__(self, title: str, total: float | None = None, rate: str | None = None) -> None:
        super().__init__()
        self._title, self._total, self._rate = title, total, rate
        self._done = self._start = 0.0
        self._note = ""
        self._begun = time.monotonic()
        self._due = self._begun + FIRST

    def begin(self, done: float = 0) -> None:
        self._done = self._start = done
        self._begun = time.monotonic()
        self._due = self._begun + FIRST

    def advance(self, steps: float = 1, *, title: str | None = None, note: str | None = None) -> None:
        self._done += steps
        self._title = self._title if title is None else title
        self._note = self._note if note is None else note
        self._tell()

    def reach(self, done: float, total: float | None = None) -> None:
        self._done = done
        self._total = self._total if total is None else total
        self._tell()

    def end(self) -> None:
        """The last line, if there was one before."""
        if self._due > self._begun + FIRST:
            self._write(f"{self._count()} done in {say_seconds(time.monotonic() - self._begun)}")

    def _tell(self) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + NEXT
        took, made = now - self._begun, self._done - self._start
        parts = [self._count(), say_seconds(took)]
        if self._total and made > 0 and self._done < self._total:
            parts.append(f"about {say_seconds(took * (self._total - self._done) / made)} left")
        self._write(", ".join([*parts, self._note] if self._note else parts))

    def _count(self) -> str:
        if self._rate == BYTES:
            done, total = self._done / 1e6, None if self._total is None else self._total / 1e6
            unit, shown = " MB", "{:,.1f}"
        else:
            done, total = self._done, self._total
            unit, shown = "" if self._rate is None else f" {self._rate}", "{:,.0f}"
        if not total:
            return shown.format(done) + unit
        return f"{shown.format(done)} of {shown.format(total)}{unit} ({done / total:.0%})"

    def _write(self, text: str) -> None:
        title = f"{self._title}: " if self._title else ""
        print(escape_line(title + text), file=sys.stderr, flush=True)


def say_seconds(seconds: float) -> str:
    """A length of time in words.

    >>> say_seconds(48.2), say_seconds(194), say_seconds(7260)
    ('48 s', '3 min 14 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class Voice:
    """Lines that a job says as it goes: each on a terminal, elsewhere after ten seconds one in thirty.

    `every` says each line everywhere. Nothing is said where `set_quiet` was called.
    """

    def __init__(self, *, every: bool = False) -> None:
        self._every = every
        self._due = time.monotonic() + FIRST

    def __call__(self, text: str) -> None:
        if _quiet or sys.stderr is None:
            return
        now = time.monotonic()
        if not self._every and now < self._due and not sys.stderr.isatty():
            return
        self._due = now + NEXT
        print(escape_line(text), file=sys.stderr, flush=True)


def choose_voice(progress: bool | Callable[[str], object]) -> Callable[[str], object]:
    """What says a job's lines: the caller's own function, stderr, or nothing."""
    if callable(progress):
        return progress
    return Voice(every=True) if progress else lambda line: None


@contextmanager
def show_work(title: str) -> Iterator[None]:
    """Say what is done for long, where no steps can be counted: at once on a terminal, elsewhere after ten
    seconds, and then every thirty seconds with how long it has taken."""
    if _quiet or sys.stderr is None:
        yield
        return
    if sys.stderr.isatty():
        print(escape_line(title), file=sys.stderr, flush=True)
        yield
        return
    import threading

    begun, ended = time.monotonic(), threading.Event()

    def tell() -> None:
        pause = FIRST
        while not ended.wait(pause):
            print(
                escape_line(f"{title}: {say_seconds(time.monotonic() - begun)} so far"),
                file=sys.stderr,
                flush=True,
            )
            pause = NEXT

    teller = threading.Thread(target=tell, name="placings-progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


@contextmanager
def show_progress(
    title: str,
    total: float | None = None,
    *,
    wanted: bool = True,
    rate: str | None = None,
    keep: bool = False,
) -> Iterator[ProgressBar]:
    """A bar on stderr, if wanted and on a terminal: its title, how many of `total` are done, the time left.

    Where stderr is no terminal (a file, a pipe, cron), one plain line is written after ten seconds, then one
    every thirty seconds, and one at the end; a job of less than ten seconds writes none. `set_quiet` turns
    both off.

    `rate` names what is counted and shows how many there are a second: "steps" gives "120 steps/s", "bytes"
    gives sizes and a transfer speed. `keep` leaves the finished bar on the screen. Unless a `total` is given,
    here or to `reach`, the bar only says that something is going on.
    """
    if not wanted or _quiet or sys.stderr is None:
        yield ProgressBar()
        return
    if not sys.stderr.isatty():
        lines = ProgressLines(title, total, rate)
        yield lines
        lines.end()
        return
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class Speed(progress.ProgressColumn):
        def render(self, task: progress.Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f} {rate}/s")

    counts: list[progress.ProgressColumn] = [progress.MofNCompleteColumn()]
    if rate == BYTES:
        counts = [progress.DownloadColumn(), progress.TransferSpeedColumn()]
    elif rate is not None:
        counts.append(Speed())
    columns = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        *counts,
        progress.TextColumn("{task.fields[note]}", markup=False),
        progress.TimeRemainingColumn(elapsed_when_finished=True),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=not keep) as bar:
        bar.add_task(escape_line(title), total=total, note="")
        yield ProgressBar(bar)
