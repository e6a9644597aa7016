"""What `NeuralRanker(preset=…)` stands for: networks and training recipes by name."""

from __future__ import annotations

import operator
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from placings.core import BadInput, UnknownName, parse_duration

NETWORKS = ("feedforward", "groupwise", "attention")
ENSEMBLES = ("separate", "shared")
# what a network brings along where neither the user nor a preset made for it says otherwise
_APART = {
    "hidden": (128, 64), "dropout": 0.2, "batch": 32, "members": 1, "skip": False, "ridge": False,
    "pieces": 0, "ensemble": "separate", "lr": 1e-3, "weight_decay": 1.0,
}  # fmt: skip
OF_NETWORK: dict[str, dict[str, Any]] = {
    "groupwise": {**_APART, "group_size": 5},
    "attention": {**_APART, "input_noise": 0.1},
}
LARGE = 1000  # queries from which the default preset has a larger network, and longer to train it
OF_LARGE: dict[str, Any] = {
    "hidden": (128, 64), "members": 8, "dropout": 0.3, "batch": 32, "steps": 20_000, "check_every": 200,
}  # fmt: skip
MANY = 3000  # queries from which it needs less dropout
OF_MANY: dict[str, Any] = {**OF_LARGE, "dropout": 0.1}


@dataclass(frozen=True)
class NetworkSettings:
    """All that a preset settles; an argument of the ranker that is not None takes its place."""

    network: str = "feedforward"
    hidden: tuple[int, ...] = (32,)
    activation: str = "relu"
    dropout: float = 0.5
    batch_norm: bool = True
    norm_input: bool = True
    norm_after: bool = False  # batch norm behind a linear layer, not in front of it
    momentum: float = 0.9  # of batch norm, Keras's: the share of the old
    eps: float = 1e-5
    output_activation: str = "linear"
    input_noise: float = 0.0  # the standard deviation of noise on transformed features, in training
    group_size: int = 1
    members: int = 16  # networks side by side whose mean is the score
    heads: int = 2  # of attention, which is kept small: few queries do not bear more
    blocks: int = 1
    width: int = 32
    embedding: int = 32  # the width of the bag that wide sparse rows enter by
    loss: str = "softmax"
    draws: int = 0
    optimizer: str = "adamw"
    lr: float = 1e-3
    mixture_lr: float | None = 1e-2
    optimizer_momentum: float = 0.0
    weight_decay: float = 1.0
    schedule: str = "constant"
    warmup: int = 0
    average: float = 0.0
    clip: float = 0.0
    steps: int = 4000
    batch: int = 8
    list_size: int | None = 400
    check_every: int = 25
    patience: int = 12
    holdout: float = 0.2  # the share of training queries to watch where no `valid` is given
    skip: bool = False  # a linear function of the inputs beside the hidden layers
    skip_decay: float | None = None  # its weight decay; None: that of the other weights
    ridge: bool = False  # ridges that become part of the trained network, as held-out queries choose
    pieces: int = 0  # of each feature's range, as inputs beside its transform; 0: none
    ensemble: str = "separate"  # how members have their weights: "separate", or one matrix "shared"
    budget: float = 0.0  # seconds that training may take; 0: as long as it takes


# Settings that came after bundles were written, and what a network without them is. A preset may choose
# otherwise; a bundle that says nothing of them is older, and is what it was.
BEFORE: dict[str, Any] = {
    "skip": False, "ridge": False, "pieces": 0, "ensemble": "separate", "budget": 0.0,
}  # fmt: skip


# Table 6.3 of the thesis on place search (TF-Ranking). Its defaults: pairwise logistic loss, ReLU, pointwise,
# dropout 50 %, AdaGrad, 32 lists of 15. The momentum of 0.99 is the batch norm's (section 5.4.3: the share of
# earlier batches in its moving averages), not an optimizer's; eps is TensorFlow's. Batch norm stands behind
# the input and behind each hidden linear layer, ahead of the activation; none before the output. The thesis
# names neither learning rate nor steps: 0.05 and 15,000 are those of the TF-Ranking tutorial that its code
# follows. It has no validation data and stops by steps alone.
THESIS = NetworkSettings(
    members=1, holdout=0.0, hidden=(512, 256, 32), dropout=0.5, norm_after=True, momentum=0.99, eps=1e-3,
    loss="logistic", optimizer="adagrad", lr=0.05, mixture_lr=None, weight_decay=0.0, steps=15_000, batch=32,
    list_size=15, check_every=500, patience=15_000,
)  # fmt: skip

PRESETS = {
    # docs/neural.md tells of the study that its numbers rest on.
    "default": NetworkSettings(
        hidden=(64,), dropout=0.3, skip=True, ridge=True, ensemble="shared", lr=2e-3, weight_decay=5.0,
        budget=900.0,
    ),
    # The paper as Keras ran it: SIGIR'20, section 5.2; lr is WEB30K's (0.1 for Istella).
    "zhuang2020": NetworkSettings(
        members=1, holdout=0.0, hidden=(1024, 512, 256), dropout=0.5, momentum=0.4, eps=1e-3,
        loss="approx_ndcg@5", draws=8, optimizer="adagrad", lr=0.5, mixture_lr=None, weight_decay=0.0,
        steps=100_000, batch=128, list_size=200, check_every=1000, patience=100_000,
    ),
    "thesis-fc-512-256-32": THESIS,
    "thesis-fc-512-256-32-tanh": replace(THESIS, activation="tanh"),
    "thesis-fc-512-256-32-approx-mrr": replace(THESIS, loss="approx_mrr"),
    "thesis-fc-512-256-32-groupwise": replace(THESIS, network="groupwise", group_size=5),
    "thesis-fc-64-32-16": replace(THESIS, hidden=(64, 32, 16)),
    "thesis-fc-64-32-16-dropout-80": replace(THESIS, hidden=(64, 32, 16), dropout=0.8),
    "thesis-fc-32": replace(THESIS, hidden=(32,), dropout=0.8),  # the table gives this one 80 % dropout
    "thesis-linear-sigmoid": replace(THESIS, hidden=(), output_activation="sigmoid"),
    "thesis-linear-relu": replace(THESIS, hidden=(), output_activation="relu"),
}  # fmt: skip

LEAST = {
    "steps": 1, "batch": 1, "check_every": 1, "patience": 1, "draws": 0, "warmup": 0, "group_size": 1,
    "heads": 1, "blocks": 1, "width": 1, "embedding": 1, "members": 1, "pieces": 0,
}  # fmt: skip


def settle(preset: str, given: dict[str, Any], queries: int = 0) -> NetworkSettings:
    """The preset's settings with what is given in their place, checked.

    A `group_size` above 1 makes a plain network groupwise. `queries` is how many there are to train on: the
    default preset depends on it.
    """
    if preset not in PRESETS:
        raise UnknownName("preset", str(preset), PRESETS)
    settings = PRESETS[preset]
    if preset == "default" and queries >= LARGE:
        settings = replace(settings, **(OF_MANY if queries >= MANY else OF_LARGE))
    chosen = {name: given[name] for name in asdict(settings) if given.get(name) is not None}
    if "budget" in chosen:
        chosen["budget"] = _as_seconds(chosen["budget"])
    if "hidden" in chosen:
        chosen["hidden"] = _as_widths(chosen["hidden"])
    network = chosen.get("network", settings.network)
    if network == "feedforward" and int(given.get("group_size") or 1) > 1:
        network = chosen["network"] = "groupwise"
    if network not in NETWORKS:
        raise UnknownName("network", str(network), NETWORKS)
    if network != settings.network:
        chosen = {**OF_NETWORK.get(network, {}), **chosen}
    if chosen.get("output_activation", "linear") != "linear":
        chosen.setdefault("skip", False)  # the preset's; one that the user asked for is refused
    if chosen.get("skip") is False:
        chosen.setdefault("ridge", False)
    return _settle_network(_check_ranges(replace(settings, **chosen)))


def recall(preset: str, kept: dict[str, Any]) -> NetworkSettings:
    """The settings that a bundle kept; what it says nothing of is as it was when the bundle was written."""
    return settle(preset, {**BEFORE, **kept})


def _check_ranges(settings: NetworkSettings) -> NetworkSettings:
    """Each number by itself: whole where it must be, and neither too small nor too large."""
    for name, least in LEAST.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise BadInput(f"{name} must be a whole number of {least} or more. Got {value!r}.")
    for name in ("dropout", "average", "holdout", "optimizer_momentum"):
        if not 0.0 <= getattr(settings, name) < 1.0:
            raise BadInput(f"{name} must be from 0 up to, but not, 1. Got {getattr(settings, name)!r}.")
    if not settings.lr > 0.0:
        raise BadInput(f"lr must be above 0. Got {settings.lr!r}.")
    for name in ("input_noise", "skip_decay"):
        value = getattr(settings, name)
        if value is not None and not 0.0 <= value < np.inf:
            raise BadInput(f"{name} must be 0 or more. Got {value!r}.")
    if settings.ensemble not in ENSEMBLES:
        raise UnknownName("ensemble", str(settings.ensemble), ENSEMBLES)
    for name in ("skip", "ridge"):
        if not isinstance(getattr(settings, name), bool | np.bool_):
            raise BadInput(f"{name} must be True or False. Got {getattr(settings, name)!r}.")
    return settings


def _settle_network(settings: NetworkSettings) -> NetworkSettings:
    """What must fit together in each network."""
    if settings.members > 1 and settings.network != "feedforward":
        raise BadInput(
            f"only a feed-forward network has members. Got {settings.members} of {settings.network}."
        )
    if settings.ridge and not settings.skip:
        raise BadInput("a ridge becomes part of a network's skip. Got ridge=True without skip=True.")
    if settings.skip:
        settings = _settle_skip(settings)
    if settings.network == "attention":
        if settings.group_size > 1:
            raise BadInput(
                f"network='attention' sees the whole list, not groups. Got group_size={settings.group_size}."
            )
        if settings.width % settings.heads:
            raise BadInput(
                f"width must be a multiple of heads. Got width={settings.width} and heads={settings.heads}."
            )
    return settings


def _settle_skip(settings: NetworkSettings) -> NetworkSettings:
    """Where a skip has its place; a network without hidden layers is a line by itself."""
    if settings.network != "feedforward":
        raise BadInput(
            f"only a feed-forward network has a skip: a score of {settings.network} is of more rows than its "
            "own. Got skip=True."
        )
    if settings.output_activation != "linear":
        raise BadInput(
            "a skip is added to the score, so nothing may stand behind it. Got skip=True and "
            f"output_activation={settings.output_activation!r}."
        )
    return settings if settings.hidden else replace(settings, skip=False, ridge=False)


def _as_seconds(budget: Any) -> float:
    """A length of time in seconds; 0 and "none" are no bound."""
    if budget == "none" or (not isinstance(budget, str | bool) and budget == 0):
        return 0.0
    return parse_duration(budget)


def _as_widths(hidden: Any) -> tuple[int, ...]:
    try:
        widths = tuple(operator.index(width) for width in hidden)
    except TypeError as error:
        raise BadInput(f"hidden must list the widths of the hidden layers. Got {hidden!r}.") from error
    if any(width < 1 for width in widths):
        raise BadInput(f"a hidden layer must be 1 or more wide. Got {hidden!r}.")
    return widths
