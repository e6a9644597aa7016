"""Settings of the places study: how the log is cut, how long each model trains, what is tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from placings.core import BadInput, UnknownName, keep_old_names

SPLITS = ("time", "session")
THESIS_STEPS = 15_000  # of the presets of Table 6.3
TREES = ("XGBoost", "LightGBM", "CatBoost")

# The thesis' parameters (section 4.6.1), tried one after the other from the best so far: objective, number of
# rounds, minimum child weight, maximum depth, and the weight of positive rows where the library has weights
# for rows (XGBoost and CatBoost weigh whole lists).
GRIDS: dict[str, tuple[dict[str, Any], ...]] = {
    "XGBoost": (
        {"objective": "rank:map"}, {"objective": "rank:pairwise"}, {"max_depth": 4}, {"max_depth": 9},
        {"min_child_weight": 0.1}, {"rounds": 2.0},
    ),
    "LightGBM": (
        {"objective": "rank_xendcg"}, {"leaves": 31, "params": {"max_depth": 6}}, {"leaves": 63},
        {"params": {"min_sum_hessian_in_leaf": 0.1}}, {"positive_weight": 5.0}, {"rounds": 2.0},
    ),
    "CatBoost": (
        {"loss": "QuerySoftMax"}, {"depth": 4}, {"depth": 8}, {"params": {"min_data_in_leaf": 10}},
        {"rounds": 2.0},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class StudySettings:
    """What a run was asked for; the run's folder keeps it, and every cell's name depends on it.

    `shares` are those of training, validation and test. `split="time"` holds out the last sessions,
    `"session"` sessions drawn at random.
    `pool` is how many of the engine's results are re-ranked. `hashed` and `tree_hashed` are columns for each
    text field. `list_size` is how many rows of a list the n-gram models train on: the clicked ones and others
    drawn at random (the thesis' lists have 15). `trials` bounds the tuning of each library.
    """

    shares: tuple[float, float, float] = (0.64, 0.16, 0.20)
    split: str = "time"
    seed: int = 0
    pool: int = 40
    depths: tuple[int, ...] = (10, 20, 40, 100)
    hashed: int = 2**20
    tree_hashed: int = 2**10
    list_size: int = 15
    rounds: int = 150
    tree_rate: float = 0.1
    slow_rounds: int = 100  # of XGBoost and CatBoost on n-grams
    trials: int = 6
    steps: int = 1000
    group_steps: int = 300
    neural_steps: int = 2000
    variants: tuple[str, ...] = ("64", "32", "512", "tanh", "mrr", "relu", "groupwise")
    counted_rounds: int = 80
    counted: int = 20_000  # n-grams of each text field, the most frequent ones
    bootstrap: int = 2000
    least: int = 200

    def __post_init__(self) -> None:
        if len(self.shares) != 3 or min(self.shares) <= 0.0 or abs(sum(self.shares) - 1.0) > 1e-9:
            raise BadInput(f"shares must be three numbers above 0 that add up to 1. Got {self.shares}.")
        if self.split not in SPLITS:
            raise UnknownName("split", str(self.split), SPLITS)


def choose_settings(searches: int, *, quick: bool = False, full: bool = False, **given: Any) -> StudySettings:
    """Settings whose run takes about 15 minutes for 5,000 searches on two cores, 2 with `quick`.

    From 10,000 searches on, training is longer; 20,000 stay below two hours. `full` trains the thesis'
    networks for as many steps as their presets have, 15,000, which takes hours.
    """
    if quick and full:
        raise BadInput("quick and full are opposites. Choose one of them.")
    chosen = StudySettings()
    if quick:
        chosen = replace(
            chosen, tree_hashed=2**7, rounds=60, slow_rounds=20, trials=1, steps=80, group_steps=25,
            neural_steps=400, variants=("64", "relu", "groupwise"), counted_rounds=20, bootstrap=1000,
            hashed=2**16, least=50,
        )  # fmt: skip
    elif searches >= 10_000:
        chosen = replace(chosen, rounds=300, steps=2000, neural_steps=3000)
    if full:
        chosen = replace(chosen, steps=THESIS_STEPS, group_steps=THESIS_STEPS)
    return replace(chosen, **given)


__getattr__ = keep_old_names(__name__, {"Settings": "StudySettings"})
