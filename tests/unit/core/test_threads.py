"""The thread pool: results in order, errors passed on, memory bounded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from placings.core.threads import count_threads, map_in_order


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    def wait(place: int) -> int:
        time.sleep(0.002 * (place % 3))
        return place * place

    assert list(map_in_order(wait, range(30), threads=threads)) == [place * place for place in range(30)]


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_is_raised_at_its_place(threads: int) -> None:
    def fail(place: int) -> int:
        if place == 5:
            raise ZeroDivisionError("five")
        return place

    results = map_in_order(fail, range(10), threads=threads)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError, match="five"):
        next(results)


def test_only_a_few_items_are_taken_ahead() -> None:
    taken = 0

    def items() -> Iterator[int]:
        nonlocal taken
        for place in range(100):
            taken += 1
            yield place

    results = map_in_order(lambda place: place, items(), threads=2)
    next(results)
    assert taken <= 4
    results.close()  # type: ignore[attr-defined]
    assert threading.active_count() < 20


def test_the_number_of_threads_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACINGS_THREADS", "3")
    assert count_threads() == 3
    monkeypatch.setenv("PLACINGS_THREADS", "none")
    assert count_threads() >= 1
