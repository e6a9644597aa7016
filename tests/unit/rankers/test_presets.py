"""Presets say what their sources say; every preset and network goes through the same demands."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import placings as pg
from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.rankers.presets import NETWORKS, OF_LARGE, PRESETS, THESIS, NetworkSettings, settle

TINY = {"steps": 3, "batch": 8, "list_size": 20, "check_every": 2, "random_state": 0}
SMALL: dict[str, dict[str, Any]] = {
    **{name: {"preset": name} for name in PRESETS},
    "linear": {"hidden": ()},
    "groupwise": {"network": "groupwise", "hidden": [8], "context": ["c"]},
    "groupwise linear": {"group_size": 3, "hidden": ()},
    "attention": {"network": "attention", "hidden": [8], "width": 8, "heads": 2},
    "attention linear": {"network": "attention", "hidden": (), "width": 8, "heads": 2},
    "attention after": {"network": "attention", "hidden": [8], "norm_after": True, "blocks": 1},
    "skip": {"hidden": [8], "skip": True, "members": 2},
    "pieces": {"hidden": [8], "pieces": 3, "members": 2},
    "shared": {"hidden": [8, 4], "ensemble": "shared", "members": 2},
    "noise": {"hidden": [8], "input_noise": 0.5},
    "raw": {"hidden": [8], "transform": "raw"},
    "query_minmax": {"hidden": [8], "transform": "query_minmax"},
}


def make_data(seed: int = 0) -> RankingData:
    """Lists of 1 to 12 rows; the first feature counts, the second is noise, the third the query's."""
    rng = np.random.default_rng(seed)
    sizes = [1, 12, 2, 5, 7, 3, 9, 4]
    X = rng.normal(size=(sum(sizes), 3)).astype(np.float32)
    X[:, 2] = np.repeat(rng.normal(size=len(sizes)), sizes)
    X[3, 1] = np.nan
    y = np.clip(np.floor(X[:, 0] + 1.5), 0, 3)
    qid = np.repeat([f"q{n}" for n in range(len(sizes))], sizes)
    return RankingData.from_arrays(X, y, qid, feature_names=["a", "b", "c"])


@pytest.fixture(scope="module")
def data() -> RankingData:
    return make_data()


@pytest.fixture(scope="module", params=SMALL)
def fitted(request: pytest.FixtureRequest, data: RankingData) -> pg.NeuralRanker:
    return pg.NeuralRanker(**{**TINY, **SMALL[request.param]}).fit(data)


def test_the_default_network_grows_with_the_queries_and_needs_less_dropout_from_many() -> None:
    small, large, many = (settle("default", {}, queries) for queries in (999, 2999, 3000))
    assert [(each.hidden, each.members, each.dropout) for each in (small, large, many)] == [
        ((64,), 16, 0.3), ((128, 64), 8, 0.3), ((128, 64), 8, 0.1),
    ]  # fmt: skip
    assert replace(many, dropout=0.3) == large
    assert settle("default", {"dropout": 0.5}, 3000).dropout == 0.5
    assert settle("zhuang2020", {}, 3000) == settle("zhuang2020", {})


def test_the_demands_cover_every_network() -> None:
    used = {settle(s.get("preset", "default"), s).network for s in SMALL.values()}
    assert used == set(NETWORKS)


def test_a_saved_ranker_loads_to_equal_scores(
    fitted: pg.NeuralRanker, data: RankingData, tmp_path: Path
) -> None:
    fitted.save(tmp_path / "model")
    back = pg.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict(data), fitted.predict(data))
    plain = {k: tuple(v) if isinstance(v, list | tuple) else v for k, v in fitted.get_params().items()}
    assert {k: tuple(v) if isinstance(v, list) else v for k, v in back.get_params().items()} == plain


def test_the_same_seed_gives_the_same_bits_and_another_does_not(
    fitted: pg.NeuralRanker, data: RankingData
) -> None:
    scores = fitted.predict(data)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(clone(fitted).fit(data).predict(data), scores)
    assert (clone(fitted).set_params(random_state=1).fit(data).predict(data) != scores).any()


def test_rows_may_come_in_any_order(fitted: pg.NeuralRanker, data: RankingData) -> None:
    expected = fitted.predict(data)
    order = np.random.default_rng(5).permutation(data.n_rows)
    X, qid = np.asarray(data.X), np.asarray(data.qid)
    np.testing.assert_allclose(fitted.predict(X[order], qid=qid[order]), expected[order], atol=1e-5)
    np.testing.assert_allclose(fitted.predict(X, qid=qid), expected, atol=1e-6)
    turned = RankingData.from_arrays(X[order], data.y[order], qid[order], feature_names=data.feature_names)
    again = {
        (q, *np.nan_to_num(row, nan=9.0)): score
        for q, row, score in zip(turned.qid, turned.X.tolist(), fitted.predict(turned), strict=True)
    }
    given = [again[(q, *np.nan_to_num(row, nan=9.0))] for q, row in zip(qid, X.tolist(), strict=True)]
    np.testing.assert_allclose(given, expected, atol=1e-5)


def test_one_row_and_no_row_are_scored(fitted: pg.NeuralRanker, data: RankingData) -> None:
    whole = fitted.predict(data)
    np.testing.assert_allclose(
        fitted.predict(data.X[:1]), whole[:1], atol=1e-5
    )  # the first query has one row
    none = data[0:0]
    assert none.n_rows == 0
    assert fitted.predict(none).shape == (0,)


def test_scores_do_not_depend_on_the_other_queries(fitted: pg.NeuralRanker, data: RankingData) -> None:
    some = data[[1, 4, 6]]
    whole = fitted.predict(data)
    rows = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in (1, 4, 6)])
    np.testing.assert_allclose(fitted.predict(some), whole[rows], atol=1e-5)


def test_huge_and_missing_values_are_scored(fitted: pg.NeuralRanker, data: RankingData) -> None:
    X = np.array(data.X)
    X[1, 0], X[2, 0], X[3] = 1e30, -1e30, np.nan
    assert np.isfinite(fitted.predict(data.replace(X=X))).all()


# -- what presets say ------------------------------------------------------------------------------


def test_the_thesis_presets_are_its_table() -> None:
    table = {
        "thesis-fc-512-256-32": {},
        "thesis-fc-512-256-32-tanh": {"activation": "tanh"},
        "thesis-fc-512-256-32-approx-mrr": {"loss": "approx_mrr"},
        "thesis-fc-512-256-32-groupwise": {"network": "groupwise", "group_size": 5},
        "thesis-fc-64-32-16": {"hidden": (64, 32, 16)},
        "thesis-fc-64-32-16-dropout-80": {"hidden": (64, 32, 16), "dropout": 0.8},
        "thesis-fc-32": {"hidden": (32,), "dropout": 0.8},
        "thesis-linear-sigmoid": {"hidden": (), "output_activation": "sigmoid"},
        "thesis-linear-relu": {"hidden": (), "output_activation": "relu"},
    }
    assert {name for name in PRESETS if name.startswith("thesis-")} == set(table)
    for name, differs in table.items():
        assert PRESETS[name] == replace(THESIS, **differs)
    stated = {
        "network": "feedforward", "hidden": (512, 256, 32), "activation": "relu", "dropout": 0.5,
        "loss": "logistic", "optimizer": "adagrad", "momentum": 0.99, "batch": 32, "list_size": 15,
        "norm_after": True, "group_size": 1, "optimizer_momentum": 0.0,
    }  # fmt: skip
    assert {name: asdict(THESIS)[name] for name in stated} == stated


def test_the_momentum_of_the_thesis_is_batch_norms(data: RankingData) -> None:
    ranker = pg.NeuralRanker(preset="thesis-fc-64-32-16", **TINY).fit(data)  # type: ignore[arg-type]
    norms = [m for m in ranker.network_.modules() if type(m).__name__ == "RowNorm"]
    assert [norm.num_features for norm in norms] == [3, 64, 32, 16]  # the input, then behind each layer
    assert all(norm.momentum == pytest.approx(0.01) for norm in norms)


def test_a_group_size_makes_a_network_groupwise() -> None:
    assert settle("default", {"group_size": 3}).network == "groupwise"
    assert settle("default", {"group_size": 1}).network == "feedforward"
    assert settle("default", {"network": "groupwise"}).group_size == 5
    assert settle("default", {"network": "groupwise", "group_size": 2}).group_size == 2
    assert settle("thesis-fc-512-256-32-groupwise", {}).group_size == 5
    assert settle("thesis-fc-512-256-32-groupwise", {"network": "groupwise", "group_size": 3}).group_size == 3


def test_attention_brings_noise_unless_told_otherwise() -> None:
    assert settle("default", {}).input_noise == 0.0
    assert settle("default", {"network": "attention"}).input_noise > 0.0
    assert settle("default", {"network": "attention", "input_noise": 0.0}).input_noise == 0.0


def test_every_setting_is_an_argument_of_the_ranker() -> None:
    assert set(asdict(NetworkSettings())) <= set(pg.NeuralRanker().get_params())


def test_counts_must_be_counts() -> None:
    for name in ("heads", "blocks", "width", "embedding", "group_size"):
        with pytest.raises(BadInput, match=f"{name} must be a whole number of 1 or more. Got 0"):
            settle("default", {name: 0})


# -- the default, by size --------------------------------------------------------------------------


def test_the_default_is_larger_where_there_are_a_thousand_queries() -> None:
    few, many = settle("default", {}, 999), settle("default", {}, 1000)
    assert few == PRESETS["default"] == settle("default", {})
    assert many == replace(few, **OF_LARGE)
    assert many.steps > few.steps
    assert settle("default", {"members": 3, "hidden": [5]}, 1000) == replace(many, members=3, hidden=(5,))


@pytest.mark.parametrize("preset", [name for name in PRESETS if name != "default"])
def test_presets_of_papers_do_not_depend_on_the_size_and_have_one_network(preset: str) -> None:
    assert settle(preset, {}, 10**6) == settle(preset, {}, 1) == PRESETS[preset]
    assert PRESETS[preset].members == 1
    assert PRESETS[preset].holdout == 0.0


@pytest.mark.parametrize("queries", [10, 5000])
@pytest.mark.parametrize("network", ["groupwise", "attention"])
def test_networks_over_lists_have_no_members_unless_asked_which_is_refused(
    network: str, queries: int
) -> None:
    chosen = settle("default", {"network": network}, queries)
    assert chosen.members == 1
    assert chosen.hidden == (128, 64)
    with pytest.raises(BadInput, match="only a feed-forward network has members"):
        settle("default", {"network": network, "members": 4}, queries)


def test_settings_survive_being_written_down() -> None:
    for name in PRESETS:
        plain = json.loads(json.dumps(asdict(settle(name, {"steps": 7}, 2000))))
        assert settle(name, plain) == settle(name, {"steps": 7}, 2000)
