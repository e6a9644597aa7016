"""Every transform in front of a linear ranker: saved, live and exported it has the scores of `predict`."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import onnxruntime
import pytest
from scipy.sparse import csr_array

import placings as pg
from placings.rankers import export, make_scorer
from placings.transforms import TRANSFORMS, PerFeature

NAMES = [name for name in TRANSFORMS if name not in ("mixture", "per_feature")]  # one is for networks
GIVEN = [*NAMES, PerFeature([("cdf", ["f1"])], default="gauss", indicator=True)]


def make_data() -> pg.RankingData:
    rng = np.random.default_rng(0)
    X = np.exp(2 * rng.normal(size=(240, 4))).astype(np.float32)
    y = np.clip(np.round(np.log(X[:, 0])), 0, 3)
    X[rng.random(X.shape) < 0.1] = np.nan
    return pg.RankingData.from_arrays(
        X, y, np.repeat(np.arange(24), 10), feature_names=("f1", "f2", "f3", "f4")
    )


DATA = make_data()


@pytest.mark.parametrize("transform", GIVEN, ids=str)
def test_it_gives_the_same_scores_saved_live_and_as_onnx(transform: Any, tmp_path: Path) -> None:
    ranker = pg.LinearRanker("ridge", transform=transform).fit(DATA)
    ours = ranker.predict(DATA)
    ranker.save(tmp_path / "model")
    back = pg.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict(DATA), ours)
    with mock.patch.object(export, "MODERN", (99, 0)):  # the older exporter, in a tenth of the time
        ranker.export_onnx(tmp_path / "ranker.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "ranker.onnx"), providers=["CPUExecutionProvider"])
    live = make_scorer(back)
    for start, stop in zip(DATA.offsets[:-1], DATA.offsets[1:], strict=True):
        rows = np.array(DATA.X[start:stop])
        np.testing.assert_allclose(live(rows), ours[start:stop], rtol=1e-9, atol=1e-9)
        (theirs,) = session.run(["scores"], {"features": rows})
        np.testing.assert_allclose(theirs, ours[start:stop], rtol=1e-5, atol=1e-5)  # float32


@pytest.mark.parametrize("transform", NAMES)
def test_sparse_rows_are_scored_as_dense_ones(transform: str) -> None:
    X = np.nan_to_num(np.asarray(DATA.X))
    X[X < 1.0] = 0.0
    dense = DATA.replace(X=X)
    ranker = pg.LinearRanker("ridge", transform=transform).fit(dense)
    sparse = dense.replace(X=csr_array(X))
    np.testing.assert_allclose(ranker.predict(sparse), ranker.predict(dense), rtol=1e-5, atol=1e-6)
