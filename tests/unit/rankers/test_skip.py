"""A skip: a network that starts as a line, and learns beside it what a line cannot say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone
from torch import nn

import placings as pg
from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.rankers import neural
from placings.rankers.assembly import build_network
from placings.rankers.live_scoring import make_scorer
from placings.rankers.networks import Stack
from placings.rankers.presets import PRESETS, recall, settle
from placings.training.layers import RowNorm, Skip

FEW: dict[str, Any] = {
    "hidden": [8, 4], "steps": 30, "batch": 8, "check_every": 10, "lr": 0.01, "random_state": 0, "skip": True,
    "device": "cpu",
}  # fmt: skip


def make_data(rows: int = 400, seed: int = 0) -> RankingData:
    """The label is a rounded line of four features, of ten lists each forty rows; some values are missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4)).astype(np.float32)
    y = np.clip(np.round(X @ [1.0, -0.5, 0.25, 0.0] + 1.5), 0, 3)
    X[rng.random(X.shape) < 0.02] = np.nan
    return RankingData.from_arrays(X, y, np.repeat(np.arange(rows // 10), 10))


@pytest.fixture(scope="module")
def data() -> RankingData:
    return make_data()


@pytest.fixture(scope="module", params=[1, 3])
def fitted(request: pytest.FixtureRequest, data: RankingData) -> pg.NeuralRanker:
    return pg.NeuralRanker(**FEW, members=request.param).fit(data)


def make_stack(**settings: Any) -> Stack:
    chosen: dict[str, Any] = {"activation": "relu", "dropout": 0.0, "batch_norm": True, "momentum": 0.9}
    return Stack(4, (8, 4), 1, **{**chosen, "eps": 1e-5, "skip": True, **settings})


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("norm_input", [True, False])
def test_a_network_with_a_skip_starts_as_a_line(members: int, norm_input: bool) -> None:
    stack, x = make_stack(members=members, norm_input=norm_input).eval(), torch.randn(20, 4)
    assert stack.skip is not None
    assert not stack(x).any()  # the line is 0 everywhere
    with torch.no_grad():
        stack.skip.weight.normal_()
        mean = stack.skip.weight.mean(dim=0)
        scale = 1.0 / np.sqrt(1.0 + 1e-5) if norm_input else 1.0  # a new batch norm: mean 0, variance 1
        torch.testing.assert_close(stack(x)[:, 0], scale * x @ mean)


def test_hidden_layers_learn_though_the_last_one_starts_at_zeros(data: RankingData) -> None:
    ranker = pg.NeuralRanker(**FEW, members=1).fit(data)
    first, *_, last = (layer for layer in ranker.network_.modules() if isinstance(layer, nn.Linear))
    torch.manual_seed(0)
    fresh = build_network(settle("default", {**FEW, "members": 1}), ranker.transform_)
    start = next(layer for layer in fresh.modules() if isinstance(layer, nn.Linear))
    assert last.weight.abs().max() > 1e-3
    assert (first.weight - start.weight).abs().max() > 1e-3


def test_a_skip_finds_the_line_that_a_linear_ranker_finds(data: RankingData) -> None:
    ranker = pg.NeuralRanker(**{**FEW, "steps": 150, "transform": "gauss", "members": 1}).fit(data)
    line = pg.LinearRanker("ridge", transform="gauss").fit(data)
    test = make_data(2000, seed=1)
    ours, theirs = (pg.evaluate(each, test, ["ndcg@10"])["ndcg@10"] for each in (ranker, line))
    assert ours > theirs - 0.005
    found, wanted = ranker.network_.layers.skip.weight[0].detach().numpy(), line.coef_
    assert found @ wanted > 0.95 * np.linalg.norm(found) * np.linalg.norm(wanted)


def test_a_skip_travels_in_a_bundle_and_explains_its_scores(
    fitted: pg.NeuralRanker, data: RankingData, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    back = pg.load(tmp_path / "model")
    assert isinstance(back, pg.NeuralRanker)
    assert back.settings_ == fitted.settings_
    np.testing.assert_array_equal(back.predict(data), fitted.predict(data))
    np.testing.assert_allclose(back.contributions(data).sum(axis=1), back.predict(data), atol=1e-5)
    assert clone(back).get_params()["skip"] is True


def test_one_list_is_scored_live_as_the_ranker_scores_it(fitted: pg.NeuralRanker, data: RankingData) -> None:
    rows, scorer = np.array(data.X[:10]), make_scorer(fitted)
    assert "read_network" in scorer.__qualname__
    expected = fitted.predict(rows, np.zeros(10))
    np.testing.assert_allclose(scorer(rows), expected, atol=1e-6 * np.abs(expected).max())


def test_a_skip_is_exported(fitted: pg.NeuralRanker, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert fitted.export_onnx(tmp_path / "ranker.onnx").difference < 1e-5


def test_an_older_bundle_says_nothing_of_a_skip_and_has_none(
    data: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = pg.NeuralRanker(**{**FEW, "skip": False}).fit(data)
    files = ranker._give_weights()
    facts = json.loads(files[neural.FACTS])
    for later in ("skip", "skip_decay"):
        del facts["settings"][later]
    # a preset of a later version may have one
    monkeypatch.setitem(PRESETS, "default", settle("default", {"skip": True, "skip_decay": 0.0}))
    assert recall("default", facts["settings"]).skip is False
    ranker._take_weights({**files, neural.FACTS: json.dumps(facts).encode()})
    assert ranker.network_.layers.skip is None


@pytest.mark.parametrize("network", ["groupwise", "attention"])
def test_networks_over_lists_have_no_skip(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="only a feed-forward network has a skip"):
        settle("default", {"network": network, "skip": True})
    monkeypatch.setitem(PRESETS, "default", settle("default", {"skip": True}))
    assert settle("default", {"network": network}).skip is False


def test_nothing_stands_behind_a_skip_and_a_line_needs_none() -> None:
    with pytest.raises(BadInput, match="output_activation='sigmoid'"):
        settle("default", {"output_activation": "sigmoid", "skip": True})
    assert settle("default", {"hidden": (), "skip": True}).skip is False
    with pytest.raises(BadInput, match="skip must be True or False. Got 2"):
        settle("default", {"skip": 2})


def test_a_bag_has_no_skip_and_who_asked_for_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "WIDEST_DENSE", 3)
    wide = RankingData.from_arrays(csr_array(np.eye(12, 6)), np.arange(12) % 2, np.repeat([1, 2, 3], 4))
    with pytest.raises(BadInput, match="skip=True is for dense features"):
        pg.NeuralRanker(**FEW).fit(wide)
    monkeypatch.setitem(PRESETS, "default", settle("default", {"skip": True}))
    ranker = pg.NeuralRanker(**{**FEW, "skip": None, "steps": 2}).fit(wide)
    assert ranker.bag_
    assert ranker.settings_.skip is False


def test_a_skip_under_autocast_stays_float32() -> None:
    skip = Skip(4, 2)
    with torch.no_grad():
        skip.weight.normal_()
    x = torch.randn(30, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = skip(x)
    assert found.dtype == torch.float32
    assert torch.equal(found, skip(x))


def test_the_norm_of_the_input_stands_before_the_skip() -> None:
    stack = make_stack(members=2)
    assert isinstance(stack.layers[0], RowNorm)
    assert stack.entry == 1
    assert make_stack(norm_input=False).entry == 0
