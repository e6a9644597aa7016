"""Rankers with a loss, a metric or a transform of the user's own: trained, saved by name, loaded again."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import Tensor

import placings as pg
from placings.core.errors import BadBundle, BadInput, PlacingsWarning, UnknownName
from placings.losses.own import HELD_LOSSES, OWN_LOSSES
from placings.metrics.own import HELD_METRICS, OWN_METRICS
from placings.rankers import make_scorer
from placings.transforms.own import OWN_TRANSFORMS

DATA = pg.make_ranking(24, n_features=3, mean_size=8, random_state=0).data
QUICK: dict[str, Any] = {"hidden": [4], "members": 1, "steps": 30, "check_every": 10, "random_state": 0}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for registry in (OWN_LOSSES, HELD_LOSSES, OWN_METRICS, HELD_METRICS, OWN_TRANSFORMS):
        registry.clear()


def own_softmax(scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
    log_p = scores.masked_fill(~mask, -1e9).log_softmax(-1)
    return -(labels * log_p).masked_fill(~mask, 0.0).sum(-1)


def top_label(scores: Any, labels: Any) -> float:
    return float(labels[scores.argmax()])


def test_a_function_trains_the_network_that_the_loss_of_that_formula_does() -> None:
    own = pg.NeuralRanker(loss=own_softmax, **QUICK).fit(DATA)
    ours = pg.NeuralRanker(loss="softmax", **QUICK).fit(DATA)
    np.testing.assert_allclose(own.predict(DATA), ours.predict(DATA), rtol=1e-4, atol=1e-5)
    assert own.settings_.loss == "own_softmax"


def test_a_wrong_loss_is_refused_before_training() -> None:
    with pytest.raises(BadInput, match="must give one value for each query"):
        pg.NeuralRanker(loss=lambda s, y, mask: (s * mask).mean(), steps=10**9).fit(DATA)


def test_functions_are_saved_by_their_registered_names_or_not_at_all(tmp_path: Path) -> None:
    ranker = pg.NeuralRanker(loss=own_softmax, metric=top_label, **QUICK).fit(DATA)
    with pytest.raises(BadInput, match=r"loss is a function of yours.*pg.register_loss\('own_softmax', …\)"):
        ranker.save(tmp_path / "model")
    pg.register_loss("own_softmax", own_softmax)
    with pytest.raises(BadInput, match=r"metric is a function.*pg.register_metric\('top_label', …\)"):
        ranker.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    pg.register_metric("top_label", top_label)
    ranker.save(tmp_path / "model")
    settings = json.loads((tmp_path / "model" / "manifest.json").read_text())["settings"]
    assert (settings["loss"], settings["metric"]) == ("own_softmax", "top_label")
    np.testing.assert_array_equal(pg.load(tmp_path / "model").predict(DATA), ranker.predict(DATA))


def test_a_saved_ranker_scores_without_the_functions_and_asks_for_them_by_name_to_be_fitted(
    tmp_path: Path,
) -> None:
    pg.register_loss("own_softmax", own_softmax)
    ranker = pg.NeuralRanker(loss="own_softmax", **QUICK).fit(DATA)
    ranker.save(tmp_path / "model")
    OWN_LOSSES.clear()
    back = pg.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict(DATA), ranker.predict(DATA))
    with pytest.raises(UnknownName, match=r"pg.register_loss\('own_softmax', …\)"):
        back.fit(DATA)


@pytest.mark.parametrize("kind", ["neural", "linear"])
def test_a_scaler_of_scikit_learn_is_saved_scored_live_and_exported(kind: str, tmp_path: Path) -> None:
    quick = QUICK if kind == "neural" else {}
    ranker: Any = pg.make_ranker(kind, transform=StandardScaler(), **quick).fit(DATA)
    ranker.save(tmp_path / "model")
    back = pg.load(tmp_path / "model")
    np.testing.assert_array_equal(back.predict(DATA), ranker.predict(DATA))
    rows = np.array(DATA.X[:7])
    np.testing.assert_allclose(
        make_scorer(back)(rows), ranker.predict(rows, np.zeros(7)), rtol=1e-5, atol=1e-6
    )
    assert ranker.export_onnx(tmp_path / "ranker.onnx").difference < 1e-5


@pytest.mark.parametrize("kind", ["neural", "linear"])
def test_another_transformer_trains_and_is_saved_once_it_is_registered(kind: str, tmp_path: Path) -> None:
    quick = QUICK if kind == "neural" else {}
    with pytest.warns(PlacingsWarning, match="PolynomialFeatures is not one of placings' transforms"):
        ranker: Any = pg.make_ranker(kind, transform=PolynomialFeatures(2), **quick).fit(DATA)
    assert np.isfinite(ranker.predict(DATA)).all()
    with pytest.raises(BadInput, match="a bundle holds no code"):
        ranker.save(tmp_path / "model")
    with pytest.raises(BadInput, match="ONNX has no form"):
        ranker.export_onnx(tmp_path / "ranker.onnx")

    def put(made: Any, state: dict[str, Any]) -> None:
        made.fit(np.zeros((1, state["inputs"])))  # what it learns is only how many there are

    pg.register_transform(
        "squares",
        lambda: PolynomialFeatures(2),
        get_state=lambda p: {"inputs": p.n_features_in_},
        set_state=put,
    )
    ranker = pg.make_ranker(kind, transform="squares", **quick).fit(DATA)
    ranker.save(tmp_path / "model")
    np.testing.assert_allclose(pg.load(tmp_path / "model").predict(DATA), ranker.predict(DATA), rtol=1e-6)
    OWN_TRANSFORMS.clear()
    with pytest.raises(BadBundle, match=r"call pg.register_transform\('squares', …\) first"):
        pg.load(tmp_path / "model")


def test_another_process_that_registers_the_name_loads_the_ranker(tmp_path: Path) -> None:
    code = (
        "import sys, numpy as np, placings as pg\n"
        "from sklearn.preprocessing import FunctionTransformer\n"
        "pg.register_transform('cube', lambda: FunctionTransformer(np.cbrt))\n"
        "print(repr(pg.load(sys.argv[1]).predict([[1.0, 8.0, 27.0]]).tolist()))\n"
    )
    from sklearn.preprocessing import FunctionTransformer

    pg.register_transform("cube", lambda: FunctionTransformer(np.cbrt))
    ranker = pg.LinearRanker("ridge", transform="cube").fit(DATA)
    ranker.save(tmp_path / "model")
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model")], capture_output=True, text=True, check=True
    )
    np.testing.assert_allclose(json.loads(told.stdout), ranker.predict([[1.0, 8.0, 27.0]]), rtol=1e-6)


def test_nothing_in_a_bundle_of_own_functions_is_code(tmp_path: Path) -> None:
    pg.register_loss("own_softmax", own_softmax)
    pg.NeuralRanker(loss=own_softmax, **QUICK).fit(DATA).save(tmp_path / "model")
    content = b"".join(file.read_bytes() for file in (tmp_path / "model").iterdir())
    assert b"log_softmax" not in content
    assert b"\x80\x04" not in (tmp_path / "model" / "manifest.json").read_bytes()  # a pickle's first bytes


def test_a_linear_ranker_without_a_transform_is_no_transformer_to_scikit_learn() -> None:
    plain, with_one = pg.LinearRanker(), pg.LinearRanker(transform="cdf")
    assert not hasattr(plain, "transform")
    assert plain.get_params()["transform"] is None
    assert with_one.transform == "cdf"
    assert plain.set_params(transform="log1p").get_params()["transform"] == "log1p"


def test_a_mixture_and_unknown_names_are_refused_before_a_linear_ranker_is_fitted() -> None:
    with pytest.raises(BadInput, match="a mixture is learned by a network"):
        pg.LinearRanker(transform="mixture").fit(DATA)
    with pytest.raises(UnknownName, match="did you mean 'cdf'"):
        pg.LinearRanker(transform="cdff").fit(DATA)


def test_contributions_of_a_linear_ranker_are_of_transformed_features() -> None:
    ranker = pg.LinearRanker("ridge", transform="quantile_normal").fit(DATA)
    np.testing.assert_allclose(ranker.contributions(DATA).sum(axis=1), ranker.predict(DATA), rtol=1e-9)
    with pytest.warns(PlacingsWarning):
        wide = pg.LinearRanker(transform=PolynomialFeatures(2)).fit(DATA)
    with pytest.raises(BadInput, match="10 columns for 3 features"):
        wide.contributions(DATA)
