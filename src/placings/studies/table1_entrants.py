"""Who takes part in Table 1: neural rankers over each transform, in each network, and boosted trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from placings.core import BadInput, MissingExtra, UnknownName
from placings.rankers import Ranker, make_ranker

METHODS = ("raw", "gauss", "cdf", "log1p", "mixture")
LABELS = {"raw": "Raw", "gauss": "Gauss", "cdf": "CDF", "log1p": "Log1p", "mixture": "Mixture"}
TREES = {"lightgbm": "LightGBM", "xgboost": "XGBoost", "catboost": "CatBoost"}
DEFAULT_TREES = ("lightgbm", "catboost")
NETWORKS = {
    "feedforward": "feed-forward network",
    "attention": "attention over the list",
    "groupwise": "groupwise scoring, groups of 5",
}
# learning rates that are tried: AdaGrad's are the paper's two and one below, Adam's lie about the default
RATES = {"adagrad": (0.5, 0.1, 0.02), "sgd": (0.5, 0.1, 0.02), "adam": (3e-3, 1e-3, 3e-4)}
TREE_RATES = (0.1, 0.05, 0.02)


@dataclass(frozen=True)
class Entrant:
    """One row of the table: an unfitted ranker, and the learning rates to choose from (one: it is given)."""

    name: str
    block: str  # the network; each has its own baselines
    ranker: Ranker
    rate: str  # the setting that holds the learning rate
    rates: tuple[float, ...]

    @property
    def neural(self) -> bool:
        """Whether it is a NeuralRanker."""
        return self.rate == "lr"

    @property
    def key(self) -> str:
        """What it is called beside those of other networks."""
        return f"{self.block if self.neural else 'trees'}: {self.name}"


def list_entrants(
    methods: Sequence[str],
    *,
    preset: str,
    networks: Sequence[str],
    trees: Sequence[str],
    lr: float | None,
    metric: str,
    settings: Mapping[str, Any],
) -> list[Entrant]:
    """Every method in every network, then the trees beside the first network."""
    from placings.rankers import NeuralRanker, need_torch, settle
    from placings.transforms import TRANSFORMS

    if methods:
        need_torch()
    known = NeuralRanker._get_param_names()
    for name in settings:
        if name not in known or name in ("transform", "preset", "lr", "random_state", "network"):
            raise UnknownName("setting of the neural rankers", name, known)
    if len(set(methods)) != len(methods) or not (methods or trees):
        raise BadInput(f"methods must name at least one transform, each once. Got {tuple(methods)}.")
    found = []
    for network in networks:
        if network not in NETWORKS:
            raise UnknownName("network", network, NETWORKS)
        given = {**settings, "network": network}
        chosen = settle(preset, given)
        rates = RATES["adam" if chosen.optimizer.startswith("adam") else chosen.optimizer]
        for method in methods:
            if method not in TRANSFORMS:
                raise UnknownName("transform", method, TRANSFORMS)
            ranker = NeuralRanker(preset=preset, transform=method, metric=metric, **given)
            tried = rates if lr is None else (float(lr),)
            found.append(Entrant(LABELS.get(method, method), network, ranker, "lr", tried))
    for name in trees:
        if name not in TREES:
            raise UnknownName("tree ranker", name, TREES)
        if find_spec(name) is None:  # said now, not after hours of training
            raise MissingExtra(f"--trees with {TREES[name]}", TREES[name], "trees")
        tree = make_ranker(name, metric=metric)
        found.append(Entrant(TREES[name], networks[0], tree, "learning_rate", TREE_RATES))
    return found
