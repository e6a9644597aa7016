"""A bar while a network learns: steps done, steps a second, time left."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def show_steps(steps: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if wanted, on a terminal, in the first process alone; tell what it yields each step.

    A run that goes on from a checkpoint starts where it stopped, and its speed counts from there.
    """
    if not wanted or not sys.stderr.isatty() or int(os.environ.get("RANK", "0")) != 0:
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text("" if task.speed is None else f"{task.speed:,.0f} steps/s")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Speed(),
        TimeLeft(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("training", total=steps, start=False)

        def advance(step: int) -> None:
            if not bar.tasks[0].started:
                bar.update(task, completed=step - 1)
                bar.start_task(task)
            bar.update(task, completed=step)

        yield advance
