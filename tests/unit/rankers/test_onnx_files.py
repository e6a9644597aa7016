"""Linear rankers and trees as ONNX files: the scores of `predict`, on both sides of every threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnx
import onnxruntime
import pytest

import placings as pg
from placings.core.errors import BadInput, MissingExtra, PlacingsError
from placings.rankers import onnx_files
from placings.rankers.onnx_files import ALONE
from placings.rankers.tree_tables import read_trees


def make_data() -> pg.RankingData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5)).astype(np.float32)
    X[:, 1] = rng.integers(0, 5, 600)  # many ties with thresholds
    X[:, 2] = np.exp(4 * X[:, 2])
    y = np.clip(np.round(X[:, 0] + X[:, 1] / 2), 0, 4)
    X[rng.random(X.shape) < 0.1] = np.nan
    return pg.RankingData.from_arrays(X, y, np.repeat(np.arange(30), 20))


DATA = make_data()
ODD = np.array(
    [np.nan, 0.0, -0.0, 1.0, 1e-42, 1e-35, -1e-35, 1e-30, 1e6, -1e6, 3e38, -3e38], dtype=np.float32
)
RANKERS: list[Any] = [
    pg.LinearRanker(),
    pg.LinearRanker("ridge", missing="mean"),
    pg.LightGBMRanker(rounds=30, min_data_in_leaf=2, random_state=0),
    pg.XGBoostRanker(rounds=30, random_state=0),
    pg.XGBoostRanker(rounds=10, params={"booster": "dart", "rate_drop": 0.3}, random_state=0),
    pg.CatBoostRanker(rounds=30, random_state=0),
    pg.CatBoostRanker(loss="QueryRMSE", rounds=10, params={"nan_mode": "Max"}, random_state=0),
]


def run(path: Path, rows: Any) -> Any:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["scores"], {"features": np.ascontiguousarray(rows, dtype=np.float32)})[0]


@pytest.mark.parametrize("ranker", RANKERS, ids=str)
def test_the_file_scores_as_the_ranker_does(ranker: Any, tmp_path: Path) -> None:
    fitted = ranker.fit(DATA)
    made = fitted.export_onnx(tmp_path / "ranker.onnx", digest="d" * 64)
    assert made.difference < 1e-5
    assert made.lists == ALONE
    odd = np.repeat(np.asarray(DATA.X[:1]), 5 * len(ODD), axis=0)
    odd[np.arange(len(odd)), np.repeat(np.arange(5), len(ODD))] = np.tile(ODD, 5)
    for rows in (DATA.X, DATA.X[:1], odd):
        ours = fitted.predict(rows, np.zeros(len(rows)))
        told = np.abs(ours) < 1e30
        np.testing.assert_allclose(run(made.path, rows)[told], ours[told], rtol=1e-5, atol=1e-5)  # float32
    assert run(made.path, DATA.X[:0]).shape == (0,)
    model = onnx.load(made.path)
    facts = {each.key: each.value for each in model.metadata_props}
    assert json.loads(facts["features"]) == list(DATA.feature_names)
    assert facts["digest"] == "d" * 64
    assert {each.domain for each in model.opset_import} <= {"", "ai.onnx.ml"}


@pytest.mark.parametrize("ranker", RANKERS[2:], ids=str)
def test_a_table_of_trees_holds_every_threshold(ranker: Any, tmp_path: Path) -> None:
    fitted = ranker.fit(DATA)
    trees = read_trees(fitted)
    rows = trees.probe(np.asarray(DATA.X[3:4]))
    rows = rows[~np.isinf(rows).any(axis=1)]
    assert len(rows) > 100
    np.testing.assert_allclose(
        trees.score(rows), fitted.predict(rows, np.zeros(len(rows))), rtol=1e-5, atol=1e-5
    )
    assert np.unique(trees.score(rows)).size > 1


def test_the_same_ranker_gives_the_same_bytes(tmp_path: Path) -> None:
    ranker = RANKERS[2].fit(DATA)
    made = [ranker.export_onnx(tmp_path / f"{n}.onnx").sha256 for n in range(2)]
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("ranker", "said"),
    [
        (pg.XGBoostRanker(rounds=3, params={"booster": "gblinear"}), "gblinear' has no trees"),
        (pg.CatBoostRanker(rounds=3, params={"grow_policy": "Lossguide"}), "trees that are not symmetric"),
        (pg.LightGBMRanker(rounds=3, params={"zero_as_missing": True}), "zeros that count as missing"),
        (pg.LightGBMRanker(rounds=3, params={"linear_tree": True}), "linear leaves"),
        (pg.MeanRanker(members={"ridge": {}, "ranksvm": {}}), "Export its members"),
        (pg.OriginalOrder(), "only keeps the order"),
    ],
    ids=str,
)
def test_what_a_file_cannot_hold_is_refused_with_the_reason(ranker: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=said):
        ranker.fit(DATA).export_onnx(tmp_path / "ranker.onnx")
    assert list(tmp_path.iterdir()) == []


def test_scores_of_one_s_own_and_strange_opsets_are_refused(tmp_path: Path) -> None:
    class Turned(pg.LinearRanker):
        def _score_lists(self, X: Any, offsets: Any) -> Any:
            return -super()._score_lists(X, offsets)

    with pytest.raises(BadInput, match="scores in a way of its own"):
        Turned().fit(DATA).export_onnx(tmp_path / "ranker.onnx")
    with pytest.raises(BadInput, match="opset must be from 13"):
        RANKERS[0].fit(DATA).export_onnx(tmp_path / "ranker.onnx", opset=3)
    assert RANKERS[0].export_onnx(tmp_path / "ranker.onnx", opset=15).opset == 15


def test_a_file_that_scores_otherwise_never_takes_its_place(tmp_path: Path) -> None:
    ranker = RANKERS[2].fit(DATA)
    wrong = mock.patch.object(
        onnx_files, "run_file", lambda path, calls: [np.full(len(c), 9.0) for c in calls]
    )
    with wrong, pytest.raises(PlacingsError, match="Nothing was written"):
        ranker.export_onnx(tmp_path / "ranker.onnx")
    assert list(tmp_path.iterdir()) == []


def test_without_onnx_the_command_that_installs_it_is_named(tmp_path: Path) -> None:
    ranker = RANKERS[0].fit(DATA)
    lacking = mock.patch.object(onnx_files, "find_spec", lambda name: None if name == "onnx" else True)
    with lacking, pytest.raises(MissingExtra, match=r"placings\[onnx\]"):
        ranker.export_onnx(tmp_path / "ranker.onnx")
