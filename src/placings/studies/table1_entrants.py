"""Who takes part in Table 1: neural rankers over each transform, in each network, lines and boosted trees."""

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
PENALTIES = (0.01, 1.0, 100.0)  # C of a ridge
BEST_FOR_LINES = "quantile_normal"  # of the mixture's transforms the one that suits a line; by itself no row


@dataclass(frozen=True)
class Entrant:
    """One row of the table: an unfitted ranker, and the learning rates to choose from (one: it is given).

    A line has no learning rate: its C is chosen in the same way.
    """

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
    def linear(self) -> bool:
        """Whether it is a line, which is the same with every seed."""
        return self.rate == "C"

    @property
    def rate_name(self) -> str:
        """What its rate is called in lines, facts and names of files."""
        return "C" if self.linear else "lr"

    @property
    def key(self) -> str:
        """What it is called beside those of other networks."""
        return f"{self.block if self.neural else 'lines' if self.linear else 'trees'}: {self.name}"


def list_line_transforms(methods: Sequence[str]) -> list[str]:
    """The methods' transforms that a line can have; in place of the mixture the one of its own that suits it.

    >>> list_line_transforms(["raw", "log1p", "mixture"])
    ['raw', 'log1p', 'quantile_normal']
    """
    return list(dict.fromkeys(BEST_FOR_LINES if name == "mixture" else name for name in methods))


def list_entrants(
    methods: Sequence[str],
    *,
    preset: str,
    networks: Sequence[str],
    linear: bool,
    trees: Sequence[str],
    lr: float | None,
    metric: str,
    settings: Mapping[str, Any],
) -> list[Entrant]:
    """Every method in every network, then lines over the same transforms and trees beside the first one."""
    from placings.rankers import LinearRanker, NeuralRanker, need_torch, settle
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
        if chosen.ridge and "ridge" not in settings:  # transforms are compared, not the ridges beside them
            given["ridge"] = False
        rates = RATES["adam" if chosen.optimizer.startswith("adam") else chosen.optimizer]
        for method in methods:
            if method not in TRANSFORMS:
                raise UnknownName("transform", method, TRANSFORMS)
            ranker = NeuralRanker(preset=preset, transform=method, metric=metric, **given)
            tried = rates if lr is None else (float(lr),)
            found.append(Entrant(LABELS.get(method, method), network, ranker, "lr", tried))
    if linear:
        found += [
            Entrant(f"ridge over {name}", networks[0], LinearRanker("ridge", transform=name), "C", PENALTIES)
            for name in list_line_transforms(methods)
        ]
    return found + _list_trees(trees, networks[0], metric)


def _list_trees(names: Sequence[str], block: str, metric: str) -> list[Entrant]:
    found = []
    for name in names:
        if name not in TREES:
            raise UnknownName("tree ranker", name, TREES)
        if find_spec(name) is None:  # said now, not after hours of training
            raise MissingExtra(f"--trees with {TREES[name]}", TREES[name], "trees")
        tree = make_ranker(name, metric=metric)
        found.append(Entrant(TREES[name], block, tree, "learning_rate", TREE_RATES))
    return found
