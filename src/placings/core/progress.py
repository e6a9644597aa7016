"""The progress bar of every long job: on stderr, and only on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from placings.core.escaping import escape_line

BYTES = "bytes"


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

    `rate` names what is counted and shows how many there are a second: "steps" gives "120 steps/s", "bytes"
    gives sizes and a transfer speed. `keep` leaves the finished bar on the screen. Unless a `total` is given,
    here or to `reach`, the bar only says that something is going on.
    """
    if not wanted or not sys.stderr.isatty():
        yield ProgressBar()
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
