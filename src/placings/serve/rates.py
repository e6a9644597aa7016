"""How often somebody may do something: token buckets by name, in memory that does not grow."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from time import monotonic

MOST_NAMES = 20_000


class Rates:
    """`rate` a second for each name, and `burst` at once.

    A name whose bucket is full again is forgotten, which changes nothing for it; of more than `most_names`
    those not heard of for longest are, too.

    >>> now = [0.0]
    >>> rates = Rates(rate=2.0, burst=3.0, clock=lambda: now[0])
    >>> [rates.take("ann") for _ in range(4)]  # seconds to wait; 0 if it may go on
    [0.0, 0.0, 0.0, 0.5]
    >>> now[0] = 0.5
    >>> rates.take("ann"), rates.take("bob")
    (0.0, 0.0)
    """

    def __init__(
        self,
        rate: float,
        burst: float,
        *,
        most_names: int = MOST_NAMES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.rate, self.burst, self.most_names, self._clock = rate, burst, most_names, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, name: str, count: float = 1.0) -> float:
        """Take `count` from a name's bucket: 0 if they are there, else the seconds until they are.

        More than the burst at once empties a full bucket: a large batch is let through, then waited for.
        """
        now = self._clock()
        left, since = self._buckets.pop(name, (self.burst, now))
        left = min(self.burst, left + (now - since) * self.rate)
        wanted = min(count, self.burst)
        if left < wanted:
            self._keep(name, left, now)
            return (wanted - left) / self.rate
        self._keep(name, left - wanted, now)
        return 0.0

    def _keep(self, name: str, left: float, now: float) -> None:
        buckets = self._buckets
        buckets[name] = (left, now)
        full = now - self.burst / self.rate  # who was not heard of since then may take a whole burst again
        while len(buckets) > self.most_names or next(iter(buckets.values()))[1] < full:
            buckets.popitem(last=False)
