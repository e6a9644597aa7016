"""A bar while a network learns: steps done, steps a second, time left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placings.core import show_progress
from placings.training.clocks import TrainingClock

SURE = 8  # steps after which a speed is believed


@contextmanager
def show_steps(
    steps: int, wanted: bool, clock: TrainingClock | None = None
) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if wanted, on a terminal, in the first process alone; tell what it yields each step.

    A run that goes on from a checkpoint starts where it stopped, and its speed counts from there. Where the
    budget of a `clock` will end the run before all steps are taken, the bar ends there.
    """
    first = int(os.environ.get("RANK", "0")) == 0
    with show_progress("training", steps, wanted=wanted and first, rate="steps", keep=True) as bar:
        begun: tuple[int, float] | None = None

        def tell(step: int) -> None:
            nonlocal begun
            if begun is None:
                bar.begin(step - 1)
                begun = step - 1, 0.0 if clock is None else clock.spent
            bar.reach(step, None if clock is None else expect_end(step, steps, clock, begun))

        yield tell


def expect_end(step: int, steps: int, clock: TrainingClock, begun: tuple[int, float]) -> int:
    """The step that a run will end at, all `steps` or where its time is up, at the speed since `begun`.

    `begun` is the step, and the clock's seconds, that the speed counts from.
    """
    made, took = step - begun[0], clock.spent - begun[1]
    if not clock.budget or made < SURE or took <= 0.0:
        return steps
    return max(step, min(steps, step + int(clock.left * made / took)))
