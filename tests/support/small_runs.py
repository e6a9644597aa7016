"""What the tests of the training room train: small lists, small networks, short plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from placings.data.ranking import RankingData
from placings.losses import Loss, find_loss
from placings.rankers.assembly import build_network
from placings.rankers.networks import Network
from placings.rankers.presets import settle
from placings.training.loop import set_up_job
from placings.training.plans import TrainingPlan
from placings.training.steps import Job
from placings.transforms import Mixture, Transform, make_transform


def make_data(queries: int = 24, *, longest: int = 14, seed: int = 0, weighted: bool = False) -> RankingData:
    """Lists of 1 row and more; grades follow the first of four features, whose scales differ wildly."""
    rng = np.random.default_rng(seed)
    sizes = np.concatenate([[1, longest], rng.integers(2, longest + 1, queries - 2)])
    z = rng.normal(size=(sizes.sum(), 4))
    X = z * [1.0, 100.0, 0.01, 1.0] + [0.0, 1000.0, 0.0, 5.0]
    X[:, 3] = np.exp(3 * z[:, 3])
    y = np.clip(np.round(z[:, 0] + 0.5 * z[:, 3] + 0.7), 0, 4)
    data = RankingData.from_arrays(X, y, np.repeat(np.arange(queries), sizes))
    return data.replace(weight=rng.uniform(0.1, 3.0, data.n_rows)) if weighted else data


def make_plan(**changes: Any) -> TrainingPlan:
    plan: dict[str, Any] = {
        "steps": 12, "batch": 8, "list_size": None, "optimizer": "adagrad", "lr": 0.1, "mixture_lr": None,
        "weight_decay": 0.0, "check_every": 4, "patience": 100, "seed": 3,
    }  # fmt: skip
    return TrainingPlan(**{**plan, **changes})


def make_network(
    data: RankingData, transform: str | Transform = "gauss", *, seed: int = 0, **settings: Any
) -> Network:
    """A network that has not learned anything yet; a hidden layer of 8, no dropout unless told otherwise."""
    if transform == "mixture":
        transform = Mixture(start="random", normalise=True, random_state=0)
    fitted = (make_transform(transform) if isinstance(transform, str) else transform).fit(data)
    chosen = {"members": 1, "hidden": (8,), "dropout": 0.0, **settings}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return build_network(settle("default", chosen), fitted)


def make_job(
    model: torch.nn.Module,
    data: RankingData,
    plan: TrainingPlan,
    loss: Loss | str = "softmax",
    *,
    resident: bool | None = None,
) -> Job:
    return set_up_job(model, find_loss(loss), data, plan, torch.device("cpu"), resident)


def copy_state(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def assert_same_state(one: dict[str, np.ndarray], other: dict[str, np.ndarray], *, atol: float = 0.0) -> None:
    """Bit by bit unless `atol` is given, which is relative for what is larger than 1."""
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, rtol=atol, atol=atol, err_msg=name)
