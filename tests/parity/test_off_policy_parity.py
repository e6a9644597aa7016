"""Off-policy estimates equal to Open Bandit Pipeline's, to 1e-12: a check of formulas, not evidence that
they help."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frozen_obp import FROZEN
from obp_cases import CLIPS, DATA, PLACES, make_case, read_case

from placings.evaluation import estimate_doubly_robust, estimate_ips, estimate_item_position, estimate_snips

CASES = {"generated": (), "random to bts": ("random", "bts"), "bts to random": ("bts", "random")}


def estimate_all(case: dict[str, Any]) -> dict[str, float]:
    told = case["reward"], case["logged"], case["target"][case["action"], case["position"]]
    model = case["predicted"][case["action"], case["position"]]
    aimed = (case["predicted"] * case["target"]).sum(axis=0)[case["position"]]
    lists = len(told[0]) // PLACES
    kept = slice(0, lists * PLACES)
    by_place = estimate_item_position(
        told[0][kept], told[2][kept], told[1][kept], np.ones(lists * PLACES),
        np.arange(0, lists * PLACES + 1, PLACES),
    )  # fmt: skip
    found = {
        "ips": estimate_ips(*told), "snips": estimate_snips(*told),
        "doubly robust": estimate_doubly_robust(*told, model, aimed), "item-position": by_place,
    }  # fmt: skip
    for clip in CLIPS:
        found[f"clipped at {clip:g}"] = estimate_ips(*told, clip=clip)
        found[f"doubly robust, clipped at {clip:g}"] = estimate_doubly_robust(*told, model, aimed, clip=clip)
    return {name: float(values.mean()) for name, values in found.items()}


@pytest.mark.parametrize("name", CASES)
def test_every_estimate_is_that_of_open_bandit_pipeline(name: str) -> None:
    if CASES[name] and not DATA.is_dir():
        pytest.skip(f"{DATA} is not there")
    found = estimate_all(read_case(*CASES[name]) if CASES[name] else make_case())
    assert found == pytest.approx(FROZEN[name], rel=1e-10, abs=1e-12)


def test_the_generated_log_tells_estimators_apart() -> None:
    frozen = FROZEN["generated"]
    assert len({round(frozen[name], 9) for name in ("ips", "snips", "doubly robust", "clipped at 2")}) == 4
