"""A budget of time: how much of it a run has spent, and whether the next steps still fit."""

from __future__ import annotations

import time
from collections.abc import Callable

from placings.training.plans import TrainingPlan

PROBE = 4  # steps taken together while nothing is known of their speed


class TrainingClock:
    """The seconds that a run has taken, from when this is made, and what is left of its budget.

    `budget` is in seconds, 0 for no bound. A run that goes on from a checkpoint adds what it had taken.

    >>> times = iter([10.0, 14.0, 14.0])
    >>> clock = TrainingClock(60.0, now=lambda: next(times))
    >>> clock.go_on(5.0)
    >>> clock.spent, clock.left
    (9.0, 51.0)
    """

    def __init__(self, budget: float = 0.0, *, now: Callable[[], float] = time.monotonic) -> None:
        self.budget, self._now, self._before = budget, now, 0.0
        self._began = now()

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return self._before + self._now() - self._began

    @property
    def left(self) -> float:
        """Seconds of the budget that are left, below 0 if it is overdrawn; infinite without one."""
        return self.budget - self.spent if self.budget else float("inf")

    def go_on(self, seconds: float) -> None:
        """Count what the run took before it was stopped."""
        self._before += seconds


class Timekeeper:
    """Says how far the next block of steps may go, from the speed of those before.

    While nothing is known of the speed, blocks are short; the first is not counted, since much is made ready
    in it. Once there was a check, a block that would not reach the next one in time is not begun. Before
    the first check, steps are taken as long as they fit: then at least there is something to check.
    """

    def __init__(self, clock: TrainingClock, pace: float | None = None) -> None:
        self.clock = clock
        self.pace = pace  # seconds a step; of a run that goes on, what it took until then
        self.check = 0.0  # seconds of the last check
        self._blocks = 0

    def note(self, steps: int, seconds: float) -> None:
        """A block of steps is done."""
        self._blocks += 1
        if steps and self._blocks > 1:
            self.pace = seconds / steps

    def find_stop(self, step: int, stop: int, target: int, *, checked: bool) -> int:
        """Where the block from `step` ends: at `stop`, sooner, or at `step`: then time is up.

        `target` is the step of the next check.
        """
        if not self.clock.budget:
            return stop
        if self.pace is None:
            return min(stop, step + PROBE)
        left = self.clock.left - self.check
        if (target - step) * self.pace <= left:
            return stop
        return step if checked else min(stop, step + max(0, int(left / self.pace)))

    def expect_steps(self, plan: TrainingPlan) -> int:
        """How many steps fit into what is left, whole checks, at most the plan's; at least one check's."""
        if self.pace is None:
            return plan.steps
        one = plan.check_every * self.pace + self.check
        checks = max(1, int(self.clock.left / one)) if one > 0.0 else plan.steps
        return min(plan.steps, checks * plan.check_every)
