"""Classes of the user's own: what they override is honoured by a ranker, or refused before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput, PlacingsWarning
from placings.data.ranking import RankingData
from placings.rankers.neural import NeuralRanker
from placings.simulate.rankings import make_ranking
from placings.transforms import TRANSFORMS, Gauss, Mixture, PerFeature, make_transform
from placings.transforms.layers import Layer, Prepared
from placings.transforms.transformer import refuse_half

DATA = make_ranking(12, n_features=3, mean_size=8, random_state=0).data


class Root(Gauss):
    """Another function in numpy, and Gauss's in torch."""

    def transform(self, X: Any, qid: Any = None) -> Any:
        return np.sign(X := as_rows(X)) * np.sqrt(np.abs(X))


class InsideRoot(Gauss):
    def _compute(self, X: Any, offsets: Any) -> Any:
        return np.sign(X) * np.sqrt(np.abs(X))


class WholeRoot(Root):
    """The same function in both."""

    def module(self, *, export: bool = False) -> Prepared:
        class Layers(Layer):
            def forward(self, x: Any, offsets: Any = None) -> Any:
                return x.sign() * x.abs().sqrt()

        return Prepared(Layers(), self.fill_, self.indicator_)


class WrongRoot(Root):
    """A module of its own, which is not the function."""

    def module(self, *, export: bool = False) -> Prepared:
        return super().module(export=export)


def as_rows(X: Any) -> Any:
    return np.asarray(X.X if isinstance(X, RankingData) else X, dtype=np.float32)


@pytest.mark.parametrize(("kind", "own"), [(Root, "transform"), (InsideRoot, "_compute")])
def test_a_transform_that_a_ranker_would_pass_over_is_refused_before_training(kind: type, own: str) -> None:
    with pytest.raises(
        BadInput, match=f"{kind.__name__} has a `{own}` of its own but the `module` of Scaling"
    ):
        NeuralRanker(transform=kind(), steps=10**9, hidden=[4]).fit(DATA)


def test_a_transform_in_both_forms_is_what_the_ranker_learns_from_and_it_is_said_that_it_is_not_saved(
    tmp_path: Path,
) -> None:
    quick: dict[str, Any] = {"steps": 30, "hidden": [4], "members": 1, "random_state": 0}
    with pytest.warns(PlacingsWarning, match="WholeRoot is not one of placings' transforms, .* not saved"):
        ranker = NeuralRanker(transform=WholeRoot(), **quick).fit(DATA)
    rooted = WholeRoot().fit(DATA).transform_data(DATA)
    np.testing.assert_array_equal(rooted.X, WholeRoot().fit(DATA).transform(DATA))  # not Gauss's
    alike = NeuralRanker(transform="raw", **quick).fit(rooted)
    gauss = NeuralRanker(transform="gauss", **quick).fit(DATA)
    own, same, other = (each.predict(rows) for each, rows in ((ranker, DATA), (alike, rooted), (gauss, DATA)))
    # the same rows go into the same network; float32 roots of torch and numpy may differ in the last bit, and
    # the loss does not see a constant that is added to all scores
    np.testing.assert_allclose(own - own.mean(), same - same.mean(), rtol=1e-3, atol=1e-4)
    assert np.abs(own - own.mean() - other + other.mean()).max() > 0.01
    with pytest.raises(BadInput, match="only the transforms of placings have a state. Got WholeRoot"):
        ranker.save(tmp_path / "model")


@pytest.mark.filterwarnings("ignore::placings.core.errors.PlacingsWarning")
def test_a_module_that_is_another_function_is_refused_before_training() -> None:
    with pytest.raises(BadInput, match=r"WrongRoot.transform and .module must be one function"):
        NeuralRanker(transform=WrongRoot(), steps=10**9, hidden=[4]).fit(DATA)


def test_a_mixture_is_made_of_placings_own_transforms() -> None:
    for whole in (Mixture([Root(), "cdf"]), PerFeature([(Root(), [DATA.feature_names[0]])])):
        with pytest.raises(BadInput, match="what Root overrides would be passed over"):
            whole.fit(DATA)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_every_transform_of_placings_is_whole(name: str) -> None:
    refuse_half(make_transform(name))


def test_a_ranker_with_scores_of_its_own_is_not_exported_or_saved_as_the_plain_one(tmp_path: Path) -> None:
    class Turned(NeuralRanker):
        def predict(self, X: Any, qid: Any = None) -> Any:
            return -super().predict(X, qid)

    Turned.__name__ = "NeuralRanker"  # a bundle names classes
    ranker = Turned(steps=2, hidden=[4]).fit(DATA)
    with pytest.raises(BadInput, match="scores in a way of its own"):
        ranker.export_onnx(tmp_path / "ranker.onnx")
    with pytest.raises(BadInput, match="Got a class of another module"):
        ranker.save(tmp_path / "model")
