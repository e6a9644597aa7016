"""One deadline for all that a search waits for, and calls that cannot be told to stop."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Deadline:
    """A moment so many seconds from now.

    >>> Deadline(0.0).left, Deadline(math.inf).left
    (0.0, inf)
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds until then, 0 or more."""
        return max(0.0, self._end - time.monotonic())


class _Call(Generic[T]):
    def __init__(self, function: Callable[[], T], undo: Callable[[T], object] | None) -> None:
        self.function, self.undo = function, undo
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.given_up = False
        self.value: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            value = self.function()
        except BaseException as error:
            self.error = error
        else:
            with self.lock:
                self.value.append(value)
                late = self.given_up
            if late and self.undo is not None:
                self.undo(value)
        self.done.set()


def run_within(seconds: float, function: Callable[[], T], undo: Callable[[T], object] | None = None) -> T:
    """What `function` gives, or TimeoutError after so many seconds.

    It runs in a thread, which cannot be ended: after the time it runs on by itself, and what it gives then
    goes to `undo`. For what has no time-out of its own, such as looking up a host's name.

    >>> run_within(5.0, lambda: 42)
    42
    """
    call = _Call(function, undo)
    threading.Thread(target=call.run, daemon=True).start()
    call.done.wait(None if math.isinf(seconds) else seconds)
    with call.lock:
        call.given_up = not call.value and call.error is None
    if call.error is not None:
        raise call.error
    if call.given_up:
        raise TimeoutError("timed out")
    return call.value[0]
