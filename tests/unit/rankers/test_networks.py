"""The stack of layers: where batch norm stands, what the output passes, what is drawn from where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from placings.core.errors import UnknownName
from placings.rankers.assembly import build_network
from placings.rankers.networks import FeedForward, Stack
from placings.rankers.presets import settle
from placings.training.layers import RowDropout, RowNorm
from placings.transforms import Raw


def make_stack(hidden: tuple[int, ...] = (8, 4), outputs: int | None = 1, **settings: Any) -> Stack:
    chosen = {
        "activation": "relu", "dropout": 0.5, "batch_norm": True, "momentum": 0.9, "eps": 1e-5, **settings
    }  # fmt: skip
    return Stack(6, hidden, outputs, **chosen)


def spell(stack: Stack) -> str:
    """N: batch norm, L: linear, A: activation, D: dropout."""
    letters = {RowNorm: "N", nn.Linear: "L", RowDropout: "D"}
    return "".join(letters.get(type(layer), "A") for layer in stack.layers)


@pytest.mark.parametrize(
    ("settings", "layers"),
    [
        ({}, "NLAD NLAD NL"),
        ({"norm_input": False}, "LAD NLAD NL"),
        ({"batch_norm": False}, "LAD LAD L"),
        ({"norm_after": True}, "N LNAD LNAD L"),
        ({"norm_after": True, "norm_input": False}, "LNAD LNAD L"),
        ({"output_activation": "sigmoid"}, "NLAD NLAD NLA"),
        ({"outputs": None}, "NLAD NLAD"),
        ({"outputs": None, "hidden": ()}, ""),
        ({"hidden": ()}, "NL"),
        ({"hidden": (), "norm_after": True}, "NL"),
        ({"hidden": (), "norm_input": False}, "L"),
    ],
)
def test_batch_norm_stands_where_the_settings_say(settings: dict[str, Any], layers: str) -> None:
    assert spell(make_stack(**settings)) == layers.replace(" ", "")


def test_a_stack_says_how_wide_its_output_is() -> None:
    assert make_stack().width == 1
    assert make_stack(outputs=None).width == 4
    assert make_stack(outputs=None, hidden=()).width == 6
    assert make_stack(outputs=None)(torch.zeros(3, 6)).shape == (3, 4)


def test_units_of_different_layers_are_dropped_apart() -> None:
    drops = [layer for layer in make_stack((8, 8)).layers if isinstance(layer, RowDropout)]
    assert drops[0].units.tolist() != drops[1].units.tolist()


@pytest.mark.parametrize(
    ("name", "low", "high"), [("sigmoid", 0.0, 1.0), ("relu", 0.0, np.inf), ("tanh", -1.0, 1.0)]
)
def test_the_output_activation_bounds_scores(name: str, low: float, high: float) -> None:
    X = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    torch.manual_seed(0)
    settings = settle("default", {"hidden": (), "members": 1, "output_activation": name})
    network = build_network(settings, Raw().fit(X)).eval()
    with torch.no_grad():
        scores = network(network.prepare(torch.tensor(X)))
        linear = FeedForward(network.transform, network.noise, make_linear(network))(torch.tensor(X))
    assert low <= float(scores.min())
    assert float(scores.max()) <= high
    function = {"sigmoid": torch.sigmoid, "relu": torch.relu, "tanh": torch.tanh}[name]
    np.testing.assert_allclose(scores, function(linear), atol=1e-6)


def make_linear(network: Any) -> Stack:
    """The same layers without the function behind them."""
    bare = Stack(3, (), 1, activation="relu", dropout=0.0, batch_norm=True, momentum=0.9, eps=1e-5).eval()
    bare.load_state_dict(network.layers.state_dict())
    return bare


def test_an_unknown_activation_is_told() -> None:
    with pytest.raises(UnknownName, match="no activation 'linear'; .*Known: relu, sigmoid, tanh"):
        make_stack(activation="linear")
    with pytest.raises(UnknownName, match="no activation 'rely'; did you mean 'relu'"):
        make_stack(output_activation="rely")
