"""A bar while a network learns: steps done, steps a second, time left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placings.core import show_progress


@contextmanager
def show_steps(steps: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if wanted, on a terminal, in the first process alone; tell what it yields each step.

    A run that goes on from a checkpoint starts where it stopped, and its speed counts from there.
    """
    first = int(os.environ.get("RANK", "0")) == 0
    with show_progress("training", steps, wanted=wanted and first, rate="steps", keep=True) as bar:
        begun = False

        def tell(step: int) -> None:
            nonlocal begun
            if not begun:
                bar.begin(step - 1)
                begun = True
            bar.reach(step)

        yield tell
