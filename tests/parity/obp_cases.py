"""Logs on which off-policy estimators are compared with Open Bandit Pipeline: one generated, and its own
data.

A case holds for each decision the action, its position (from 0), the reward and the logged probability, and
for each action and position the target policy's probability and the reward that a model predicts. Only numpy
is needed for the generated one; the others are read from the shared data, which stay where they are.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

ROUNDS, ACTIONS, PLACES = 600, 8, 3
CLIPS = (2.0, 5.0)
DATA = (
    Path(os.environ.get("PLACINGS_DATA", Path(__file__).parents[2].parent / "shared" / "data"))
    / "logs"
    / "obd"
)


def make_case() -> dict[str, Any]:
    """A seeded log: three places, eight actions, a policy that is far from the target."""
    rng = np.random.default_rng(16)
    position = np.tile(np.arange(PLACES), ROUNDS // PLACES)
    logging = rng.dirichlet(np.ones(ACTIONS), size=PLACES).T  # [actions, places]
    action = np.array([rng.choice(ACTIONS, p=logging[:, place]) for place in position])
    appeal = rng.beta(1.0, 3.0, ACTIONS)
    reward = (rng.random(ROUNDS) < appeal[action] / (1.0 + position)).astype(float)
    return {
        "position": position, "action": action, "reward": reward,
        "logged": logging[action, position], "target": rng.dirichlet(np.ones(ACTIONS), size=PLACES).T,
        "predicted": rng.beta(1.0, 4.0, (ACTIONS, PLACES)),
    }  # fmt: skip


def read_case(log: str, other: str) -> dict[str, Any]:
    """Zozo's log of one policy; the target is how often the other policy showed each item at each place.

    The predicted reward is the item's click rate in the other log, drawn towards 1/200 by 200 views.
    """
    import pandas as pd

    names = ["item_id", "position", "click", "propensity_score"]
    shown, wanted = (pd.read_csv(DATA / each / "all.csv.gz", usecols=names) for each in (log, other))
    items, places = 80, 3
    counts = np.zeros((items, places))
    np.add.at(counts, (wanted["item_id"].to_numpy(), wanted["position"].to_numpy() - 1), 1.0)
    clicks = np.bincount(wanted["item_id"], weights=wanted["click"], minlength=items)
    views = np.bincount(wanted["item_id"], minlength=items)
    rate = (clicks + 1.0) / (views + 200.0)
    return {
        "position": shown["position"].to_numpy() - 1, "action": shown["item_id"].to_numpy(),
        "reward": shown["click"].to_numpy(dtype=float), "logged": shown["propensity_score"].to_numpy(),
        "target": counts / counts.sum(axis=0), "predicted": np.repeat(rate[:, None], places, axis=1),
    }  # fmt: skip
