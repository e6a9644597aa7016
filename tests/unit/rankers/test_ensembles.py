"""Members: networks side by side that train as if each were alone, and score as their mean."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import placings as pg
from placings.data.ranking import RankingData
from placings.losses import find_loss
from placings.rankers.assembly import build_network
from placings.rankers.networks import FeedForward, MemberLinear, Network, Stack
from placings.rankers.presets import settle
from placings.training.layers import RowDropout, RowNorm
from placings.training.loop import score_rows, train
from placings.training.packing import pack_lists
from placings.training.plans import TrainingPlan
from placings.transforms import Gauss

COUNT = 3


@pytest.fixture(scope="module")
def data() -> RankingData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 5))
    y = np.clip(np.round(X[:, 0] + X[:, 1] * X[:, 2] + 1), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(30), 8))


def make_network(data: RankingData, **settings: Any) -> Network:
    chosen = {
        "members": COUNT, "hidden": (8, 4), "dropout": 0.0, "norm_input": False, "skip": False,
        "ensemble": "separate", **settings,
    }  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return build_network(settle("default", chosen), Gauss().fit(data))


def take_member(network: Network, member: int, data: RankingData, **settings: Any) -> Network:
    """A network of its own with the weights of one member; only where the input has no norm to share."""
    alone = make_network(data, **{**settings, "members": 1})
    assert isinstance(network.layers, Stack)
    assert isinstance(alone.layers, Stack)
    with torch.no_grad():
        for ours, theirs in zip(network.layers.layers, alone.layers.layers, strict=True):
            if isinstance(ours, MemberLinear):
                width = theirs.out_features
                theirs.weight.copy_(ours.weight[member].T)
                theirs.bias.copy_(ours.bias[member * width : (member + 1) * width])
            elif isinstance(ours, RowNorm):
                width = theirs.num_features
                for name, values in theirs.state_dict().items():
                    given = ours.state_dict()[name]
                    values.copy_(given if not given.ndim else given[member * width : (member + 1) * width])
    return alone


def make_plan(**changes: Any) -> TrainingPlan:
    plan: dict[str, Any] = {
        "steps": 15, "batch": 8, "list_size": None, "optimizer": "sgd", "lr": 0.1, "mixture_lr": None,
        "weight_decay": 0.0, "check_every": 100, "patience": 1, "seed": 0,
    }  # fmt: skip
    return TrainingPlan(**{**plan, **changes})


# -- layers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_a_linear_layer_of_members_is_a_linear_layer_each(shared: bool) -> None:
    layer = MemberLinear(COUNT, 4, 2, shared=shared)
    with torch.no_grad():
        layer.bias.normal_()
    x = torch.randn(7, 4 if shared else 12)
    each = [
        x[:, slice(None) if shared else slice(4 * m, 4 * m + 4)] @ layer.weight[m]
        + layer.bias[2 * m : 2 * m + 2]
        for m in range(COUNT)
    ]
    torch.testing.assert_close(layer(x), torch.cat(each, dim=1))


def test_members_start_apart_each_within_glorots_bound() -> None:
    layer = MemberLinear(4, 30, 20, shared=True)
    bound = np.sqrt(6 / (30 + 20))
    weights = layer.weight.detach().numpy()
    assert np.abs(weights).max() <= bound
    assert (np.abs(weights).max(axis=(1, 2)) > 0.95 * bound).all()
    assert abs(np.corrcoef(weights.reshape(4, -1))[~np.eye(4, dtype=bool)]).max() < 0.2
    assert not layer.bias.any()


@pytest.mark.parametrize("settings", [{}, {"hidden": ()}, {"hidden": (6,), "batch_norm": False}])
def test_scores_are_the_members_in_training_and_their_mean_afterwards(
    data: RankingData, settings: dict[str, Any]
) -> None:
    network = make_network(data, **settings)
    rows = network.prepare(torch.tensor(np.asarray(data.X)))
    packed = pack_lists(np.array(data.offsets))
    alone = [take_member(network, m, data, **settings) for m in range(COUNT)]
    with torch.no_grad():
        scores = network.train()(rows, packed)
        each = torch.stack([one.train()(rows, packed) for one in alone], dim=1)
        assert scores.shape == (240, COUNT)
        torch.testing.assert_close(scores, each, atol=1e-5, rtol=1e-5)
        mean = network.eval()(rows)
        each = torch.stack([one.eval()(rows) for one in alone], dim=1)
    assert mean.shape == (240,)
    torch.testing.assert_close(mean, each.mean(dim=1), atol=1e-5, rtol=1e-5)
    assert float(each.std(dim=1).mean()) > 1e-3  # they do differ


def test_each_member_drops_units_of_its_own(data: RankingData) -> None:
    network = make_network(data, hidden=(16,), dropout=0.5)
    (drop,) = [layer for layer in network.modules() if isinstance(layer, RowDropout)]
    masks = drop(torch.ones(240, COUNT * 16), replace(pack_lists(np.array(data.offsets))))
    kept = (masks > 0).float().view(240, COUNT, 16)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert 0.4 < float((kept[:, one] == kept[:, other]).float().mean()) < 0.6


# -- training ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "times", "atol"),
    [
        (
            {"optimizer": "sgd", "optimizer_momentum": 0.5},
            COUNT,
            2e-5,
        ),  # the loss is the mean: a member has a third of it
        ({"optimizer": "adamw", "lr": 0.01, "weight_decay": 0.1}, 1, 2e-3),  # which has no say here
    ],
)
@pytest.mark.parametrize("draws", [0, 3])
def test_members_train_as_if_each_were_alone(
    data: RankingData, plan: dict[str, Any], times: int, atol: float, draws: int
) -> None:
    loss = find_loss("softmax", draws=draws)
    network = make_network(data)
    alone = [take_member(network, m, data) for m in range(COUNT)]
    lr = plan.get("lr", 0.1)
    history = train(network, loss, data, make_plan(**{**plan, "lr": lr * times}))
    losses, scores = [], []
    for one in alone:
        losses.append(train(one, loss, data, make_plan(**{**plan, "lr": lr})).loss)
        scores.append(score_rows(one, data.X))
    np.testing.assert_allclose(history.loss, np.mean(losses, axis=0), atol=atol)
    apart = score_rows(network, data.X) - np.mean(scores, axis=0)
    assert apart.std() < atol  # but for a shift: no loss sees the last bias, so AdamW moves it by rounding
    assert plan["optimizer"] == "adamw" or np.abs(apart).max() < atol
    assert np.std(scores, axis=0).mean() > 0.05


def test_a_members_gradient_is_its_own_affair(data: RankingData) -> None:
    found = []
    for change in (0.0, 1.0):
        network = make_network(data)
        linears = [layer for layer in network.modules() if isinstance(layer, MemberLinear)]
        with torch.no_grad():
            linears[0].weight[1] += change
        rows, packed = network.prepare(torch.tensor(np.asarray(data.X))), pack_lists(np.array(data.offsets))
        network.train()(rows, packed).square().mean(dim=1).sum().backward()
        found.append([layer.weight.grad for layer in linears])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one[[0, 2]], other[[0, 2]])
        assert (one[1] != other[1]).any()


def test_the_norm_of_the_input_is_shared(data: RankingData) -> None:
    network = make_network(data, norm_input=True)
    norms = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm1d)]
    assert [norm.num_features for norm in norms] == [5, COUNT * 8, COUNT * 4]


# -- the ranker --------------------------------------------------------------------------------------


def test_a_ranker_of_members_is_saved_explained_and_better_than_chance(
    data: RankingData, tmp_path: Path
) -> None:
    ranker = pg.NeuralRanker(members=4, hidden=[16], steps=150, lr=0.01, random_state=0).fit(data)
    assert isinstance(ranker.network_, FeedForward)
    assert ranker.network_.layers.members == 4
    assert pg.evaluate(ranker, data, ["ndcg@5"])["ndcg@5"] > 0.85
    ranker.save(tmp_path / "model")
    back = pg.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict(data), ranker.predict(data))
    assert isinstance(back, pg.NeuralRanker)
    np.testing.assert_allclose(back.contributions(data).sum(axis=1), back.predict(data), atol=1e-5)


def test_one_member_is_a_plain_network(data: RankingData) -> None:
    ranker = pg.NeuralRanker(members=1, hidden=[4], steps=2, random_state=0).fit(data)
    assert isinstance(ranker.network_.layers, Stack)
