"""A circuit breaker: an engine that fails again and again is left alone for a while, then tried once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic


class Circuit:
    """Closed while all is well; open after `failures` in a row; after `pause` seconds one call may try.

    >>> now = [0.0]
    >>> circuit = Circuit(failures=2, pause=5.0, clock=lambda: now[0])
    >>> circuit.fail(); circuit.fail(); circuit.allows()
    False
    >>> now[0] = 6.0
    >>> circuit.allows(), circuit.allows()  # one probe, and no second one beside it
    (True, False)
    >>> circuit.succeed(); circuit.state
    'closed'
    """

    def __init__(self, failures: int = 5, pause: float = 5.0, clock: Callable[[], float] = monotonic) -> None:
        self.failures, self.pause, self._clock = failures, pause, clock
        self._failed = 0
        self._opened: float | None = None
        self._probing: float | None = None
        self._lock = threading.Lock()

    @property
    def state(self) -> str:
        """closed, open or half-open."""
        if self._opened is None:
            return "closed"
        return "half-open" if self._clock() - self._opened >= self.pause else "open"

    def allows(self) -> bool:
        """Whether a call may be made now; in the half-open state it is the probe."""
        with self._lock:
            if self._opened is None:
                return True
            now = self._clock()
            if now - self._opened < self.pause:
                return False
            if self._probing is not None and now - self._probing < self.pause:
                return False
            self._probing = now
            return True

    def succeed(self) -> None:
        """A call went well."""
        with self._lock:
            self._failed, self._opened, self._probing = 0, None, None

    def fail(self) -> None:
        """A call failed or took too long."""
        with self._lock:
            self._failed += 1
            if self._failed >= self.failures or self._probing is not None:
                self._opened, self._probing = self._clock(), None

    @property
    def wait(self) -> float:
        """Seconds until the next probe."""
        return 0.0 if self._opened is None else max(0.0, self.pause - (self._clock() - self._opened))
