"""One small thread pool for loops that release the GIL.

numba's own parallel backend is left alone: its workqueue aborts the process when two threads
enter it at once, which is what a server does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

from placings.core.limits import check_limit

Item = TypeVar("Item")
Result = TypeVar("Result")


def count_threads() -> int:
    """`PLACINGS_THREADS` if set, otherwise the cores this process may use."""
    chosen = os.environ.get("PLACINGS_THREADS", "")
    if chosen.isdecimal() and int(chosen) > 0:
        check_limit("jobs", int(chosen), "PLACINGS_THREADS")
        return int(chosen)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int | None = None
) -> Iterator[Result]:
    """`map` on threads: results in order, only a few items ahead, so memory stays bounded."""
    workers = threads or count_threads()
    if workers == 1:
        yield from map(function, items)
        return
    source = iter(items)
    with ThreadPoolExecutor(workers) as pool:
        waiting: list[Future[Result]] = []
        try:
            for item in islice(source, workers + 1):
                waiting.append(pool.submit(function, item))
            while waiting:
                yield waiting.pop(0).result()
                for item in islice(source, 1):
                    waiting.append(pool.submit(function, item))
        finally:
            for future in waiting:
                future.cancel()
