"""Ctrl-C and SIGTERM while a network learns: the step is finished first, so that nothing is half done."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

HELD = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """Training was stopped from outside; the state after `step` steps is in `path`."""

    def __init__(self, step: int, path: Path) -> None:
        super().__init__(
            f"stopped; the state after step {step:,} is in {path}. Fit again with the same data and settings "
            "to go on from there."
        )
        self.step = step
        self.path = path


class Interruption:
    """Whether someone asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.number: int | None = None
        self.before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Whether to stop after this step."""
        return self.number is not None

    def hold(self) -> None:
        """Let signals that would end the program only be noted; those with a handler of their own stay."""
        usual = (signal.default_int_handler, signal.SIG_DFL)
        for number in HELD:
            if signal.getsignal(number) in usual:
                self.before[number] = signal.signal(number, self._note)

    def release(self) -> None:
        """Signals do again what they did before."""
        while self.before:
            number, handler = self.before.popitem()
            signal.signal(number, handler)

    def leave(self) -> None:
        """End as the signal would have: by `KeyboardInterrupt`, or as the system ends a program."""
        number = self.number
        self.release()
        if number is not None:
            signal.raise_signal(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked:  # a second time: at once
            self.release()
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def hold_signals(wanted: bool) -> Iterator[Interruption]:
    """What happens to Ctrl-C and SIGTERM meanwhile; outside the main thread nothing can be held."""
    found = Interruption()
    if wanted and threading.current_thread() is threading.main_thread():
        found.hold()
    try:
        yield found
    finally:
        found.release()
