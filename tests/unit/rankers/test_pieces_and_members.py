"""A network with pieces beside its transform, and with members that share their matrices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from sklearn.base import clone

import placings as pg
from placings.core.errors import BadInput, UnknownName
from placings.data.ranking import RankingData
from placings.rankers import export, neural
from placings.rankers.live_scoring import make_scorer
from placings.rankers.members import MemberLinear, SharedLinear
from placings.rankers.networks import Stack
from placings.rankers.presets import BEFORE, NetworkSettings, recall, settle
from placings.training.optimizers import make_optimizer
from placings.training.plans import TrainingPlan

FEW: dict[str, Any] = {
    "hidden": [8, 4], "steps": 20, "batch": 8, "check_every": 10, "lr": 0.01, "random_state": 0, "members": 3,
    "device": "cpu",
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "pieces": {"pieces": 4},
    "pieces of one": {"pieces": 4, "members": 1, "transform": "cdf"},
    "shared": {"ensemble": "shared"},
    "all": {"pieces": 3, "ensemble": "shared", "skip": True, "skip_decay": 0.0, "input_noise": 0.1},
    "piecewise": {"transform": "piecewise"},
    "query": {"transform": "query_minmax", "pieces": 2},
}


def make_data(seed: int = 0) -> RankingData:
    """Lists of ten; the label is largest where the first feature is near 0; one in twenty is missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    X[:, 3] = np.round(np.exp(X[:, 3]))
    y = np.clip(np.round(3.0 - 2.0 * np.abs(X[:, 0])), 0, 3)
    X[rng.random(X.shape) < 0.05] = np.nan
    return RankingData.from_arrays(X, y, np.repeat(np.arange(30), 10), feature_names=["a", "b", "c", "d"])


@pytest.fixture(scope="module")
def data() -> RankingData:
    return make_data()


@pytest.fixture(scope="module", params=KINDS)
def fitted(request: pytest.FixtureRequest, data: RankingData) -> pg.NeuralRanker:
    return pg.NeuralRanker(**{**FEW, **KINDS[request.param]}).fit(data)


def test_it_is_saved_explained_scored_live_and_cloned(
    fitted: pg.NeuralRanker, data: RankingData, tmp_path: Path
) -> None:
    scores = fitted.predict(data)
    fitted.save(tmp_path / "model")
    back = pg.load(tmp_path / "model")
    assert isinstance(back, pg.NeuralRanker)
    np.testing.assert_array_equal(back.predict(data), scores)
    assert back.settings_ == fitted.settings_
    parts = back.contributions(data)
    assert parts.shape == (300, 5)  # one for each feature, and the bias
    np.testing.assert_allclose(parts.sum(axis=1), scores, atol=1e-5)
    scorer = make_scorer(back)
    for start in (0, 10):
        rows = np.array(data.X[start : start + 10])
        np.testing.assert_allclose(scorer(rows), scores[start : start + 10], atol=1e-6 * np.abs(scores).max())
    np.testing.assert_array_equal(clone(fitted).fit(data).predict(data), scores)


def test_it_is_exported(fitted: pg.NeuralRanker, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    with mock.patch.object(export, "MODERN", (99, 0)):  # the older exporter, in a tenth of the time
        assert fitted.export_onnx(tmp_path / "ranker.onnx").difference < 1e-5


@pytest.mark.parametrize("network", ["groupwise", "attention"])
def test_networks_over_lists_take_pieces_which_stay_with_their_feature(
    network: str, data: RankingData, tmp_path: Path
) -> None:
    few = {**FEW, "network": network, "members": 1, "width": 8, "pieces": 3}
    context = ["c"] if network == "groupwise" else None
    X = np.array(data.X)
    X[:, 2] = np.repeat(np.arange(30), 10)
    ranker = pg.NeuralRanker(**few, context=context).fit(data.replace(X=X))
    if network == "groupwise":  # the mixture of c, and its three pieces
        assert ranker.network_.shared.tolist() == [2, 4 + 6, 4 + 7, 4 + 8]
    ranker.save(tmp_path / "model")
    np.testing.assert_array_equal(pg.load(tmp_path / "model").predict(data), ranker.predict(data))
    assert settle("default", {"network": network}).pieces == 0


def test_pieces_are_not_kept_for_all_rows(data: RankingData) -> None:
    ranker = pg.NeuralRanker(**FEW, pieces=8).fit(data)
    prepared = ranker.network_.prepare(torch.tensor(np.array(data.X)))
    assert prepared.shape == (300, 4 * 4 + 4)  # four bases of four features, and the features
    assert ranker.pieces_ is not None
    assert ranker.network_.layers.layers[0].num_features == 4 + len(ranker.pieces_.owner_)
    assert ranker.mixture_weights().shape == (4, 4)


def test_a_bag_has_no_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "WIDEST_DENSE", 3)
    wide = RankingData.from_arrays(csr_array(np.eye(12, 6)), np.arange(12) % 2, np.repeat([1, 2, 3], 4))
    with pytest.raises(BadInput, match="pieces=2 is for dense features"):
        pg.NeuralRanker(**FEW, pieces=2).fit(wide)
    shared = pg.NeuralRanker(**FEW, ensemble="shared").fit(wide)
    assert shared.bag_
    assert np.isfinite(shared.predict(wide)).all()


def test_an_older_bundle_is_the_network_it_was() -> None:
    old = {"members": 2, "hidden": [4]}
    found = recall("default", old)
    assert {name: getattr(found, name) for name in BEFORE} == BEFORE
    assert {name: getattr(NetworkSettings(), name) for name in BEFORE} == BEFORE


def test_pieces_of_other_features_are_refused(data: RankingData) -> None:
    ranker = pg.NeuralRanker(**FEW, pieces=2).fit(data)
    files = ranker._give_weights()
    facts = json.loads(files[neural.FACTS])
    facts["pieces"]["features"] = ["a", "b", "d", "c"]
    with pytest.raises(BadInput, match="of other features than the ranker"):
        ranker._take_weights({**files, neural.FACTS: json.dumps(facts).encode()})
    del facts["pieces"]
    with pytest.raises(BadInput, match="must have shape"):
        ranker._take_weights({**files, neural.FACTS: json.dumps(facts).encode()})


# -- members that share --------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [True, False])
def test_a_shared_layer_is_one_matrix_scaled_by_each_member(first: bool) -> None:
    layer = SharedLinear(3, 5, 2, first=first)
    with torch.no_grad():
        for vector in (layer.inward, layer.outward, layer.bias):
            vector.normal_()
    x = torch.randn(7, 5 if first else 15)
    each = []
    for m in range(3):
        rows = x if first else x[:, 5 * m : 5 * m + 5]
        scaled = (rows * layer.inward[5 * m : 5 * m + 5]) @ layer.weight
        each.append(scaled * layer.outward[2 * m : 2 * m + 2] + layer.bias[2 * m : 2 * m + 2])
    torch.testing.assert_close(layer(x), torch.cat(each, dim=1), atol=1e-5, rtol=1e-5)


def make_stack(**settings: Any) -> Stack:
    chosen: dict[str, Any] = {"activation": "relu", "dropout": 0.0, "batch_norm": True, "momentum": 0.9}
    return Stack(6, (8, 4), 1, **{**chosen, "eps": 1e-5, "members": 3, "ensemble": "shared", **settings})


def test_only_the_last_layer_is_each_members_own_and_they_start_apart() -> None:
    stack = make_stack().eval()
    kinds = [type(layer) for layer in stack.layers if isinstance(layer, SharedLinear | MemberLinear)]
    assert kinds == [SharedLinear, SharedLinear, MemberLinear]
    first, second, _ = (layer for layer in stack.layers if isinstance(layer, SharedLinear | MemberLinear))
    assert set(first.inward.tolist()) == {-1.0, 1.0}
    assert set(second.inward.tolist()) == set(first.outward.tolist()) == {1.0}
    with torch.no_grad():
        scores = stack.train()(torch.randn(40, 6))
    assert float(scores.std(dim=1).mean()) > 1e-2


def test_what_scales_a_member_does_not_decay() -> None:
    stack = make_stack()
    plan = TrainingPlan(
        steps=1, batch=1, list_size=None, optimizer="adamw", lr=0.1, mixture_lr=None, weight_decay=1.0,
        check_every=1, patience=1, seed=0,
    )  # fmt: skip
    groups = make_optimizer(stack, plan).param_groups
    decayed = {id(p) for group in groups for p in group["params"] if group["weight_decay"]}
    names = {name for name, parameter in stack.named_parameters() if id(parameter) in decayed}
    assert names == {"layers.1.weight", "layers.5.weight", "layers.9.weight"}


def test_one_member_shares_with_nobody() -> None:
    assert not any(isinstance(layer, SharedLinear) for layer in make_stack(members=1).modules())


def test_an_unknown_ensemble_is_told_the_known() -> None:
    with pytest.raises(UnknownName, match="separate, shared"):
        settle("default", {"ensemble": "mean"})
