"""How much later than its budget a reply comes if the model misbehaves; `pytest -s` prints it."""

from __future__ import annotations

import asyncio
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_service import ITEMS, FakeModel, serve_here, spin

from placings.rerank import Request
from placings.serve.live import Caller

pytestmark = pytest.mark.slow
BUDGET = 50.0  # milliseconds
KINDS: dict[str, Callable[[], object]] = {
    "spins in Python": lambda: spin(0.3),
    "blocks in C, the interpreter's lock released": lambda: time.sleep(0.3),
    "blocks in C, the interpreter's lock held": lambda: ctypes.PyDLL(None).usleep(300_000),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_over_its_budget_is_not_waited_for_once_the_loop_can_turn(tmp_path: Path, kind: str) -> None:
    with serve_here(tmp_path, FakeModel(KINDS[kind]), budget_ms=BUDGET) as live:

        async def go() -> list[float]:
            took = []
            for _ in range(20):
                start = time.perf_counter()
                served = await live.rerank(Request({"query": "x"}, ITEMS), Caller())
                took.append(1000 * (time.perf_counter() - start) - BUDGET)
                assert served.reply.reason == "budget"
                while live.find_stuck():
                    await asyncio.sleep(0.01)
            return took

        over = asyncio.run(go())
    print(f"\n{kind}: {statistics.median(over):.0f} ms over {BUDGET:g} ms, at most {max(over):.0f}")
