"""The quick way of one list: each part against the layer, the library or the formula that it stands for."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from placings.core import BadInput
from placings.core.compilation import HAVE_NUMBA
from placings.data import RankingData
from placings.features import FeatureSet, Number
from placings.rankers import make_ranker
from placings.rankers.estimator import Ranker
from placings.rankers.linear import LinearRanker
from placings.rankers.live_scoring import make_scorer
from placings.rerank import Request, Reranker

torch = pytest.importorskip("torch")
needs_numba = pytest.mark.skipif(not HAVE_NUMBA, reason="trees and knots are walked by compiled loops")
WIDTH = 6


def draw_rows(rows: int, seed: int = 0, missing: float = 0.0) -> Any:
    source = np.random.default_rng(seed)
    drawn = (source.normal(size=(rows, WIDTH)) * [1, 10, 1e3, 1e-3, 1, 1]).astype(np.float32)
    drawn[:, 4] = drawn[:, 4].round()  # values that come again
    drawn[source.random(drawn.shape) < missing] = np.nan
    return drawn


def draw_data(missing: float = 0.2) -> RankingData:
    X = draw_rows(200, 1, missing)
    y = (np.nan_to_num(X[:, 0]) > 0.3).astype(float)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(20), 10))


# -- layers ------------------------------------------------------------------------------------------------


def list_layers() -> dict[str, Any]:
    from placings.transforms import make_transform
    from placings.transforms.layers import Clamp, Identity, Logarithm, Scale, Steps
    from placings.transforms.mixing import Standard

    knots = [np.sort(draw_rows(9, 3)[:, place]) for place in range(WIDTH)]
    steps = [np.linspace(0, 1, 10) for _ in range(WIDTH)]
    both = [np.linspace(0, 1, 19) for _ in range(WIDTH)]
    ones = np.ones(WIDTH, dtype=np.float32)
    mixture = make_transform("mixture").fit(draw_rows(50, 2))
    return {
        "identity": Identity(), "logarithm": Logarithm(), "clamp": Clamp(-ones, ones),
        "scale": Scale(np.linspace(-1, 1e3, WIDTH), np.array([0.0, 1e-9, 1.0, 2.0, 1e9, 3.0])),
        "steps": Steps(knots, steps, unrolled=False),
        "steps on knots": Steps(knots, both, unrolled=False, on_knots=True),
        "standard": Standard(Logarithm(), np.full(WIDTH, 0.5), np.array([1.0, 0.0, 2.0, 1e-3, 1.0, 1.0])),
        "mixture": mixture.module().function,
    }  # fmt: skip


@needs_numba
@pytest.mark.parametrize("name", list_layers())
def test_a_layer_read_anew_gives_its_bits(name: str) -> None:
    from placings.rankers.live_network import _read_layer

    layer = list_layers()[name]
    rows = torch.from_numpy(np.vstack([draw_rows(30), draw_rows(9, 3)]))  # the last of them on the knots
    with torch.no_grad():
        assert torch.equal(_read_layer(layer)(rows.clone()), layer.mix(layer.expand(rows)))


def test_missing_values_are_filled_and_flagged() -> None:
    from placings.rankers.live_network import _read_prepared
    from placings.transforms.layers import Identity, Prepared

    layer = Prepared(Identity(), np.arange(WIDTH, dtype=np.float32), np.array([1, 4]))
    rows = torch.from_numpy(draw_rows(20, missing=0.3))
    rows[0, 0] = torch.inf
    assert torch.equal(_read_prepared(layer)(rows), layer(rows))


@needs_numba
@pytest.mark.parametrize(
    "settings",
    [
        {"members": 3}, {"members": 3, "hidden": []}, {"hidden": []}, {"activation": "tanh"},
        {"activation": "sigmoid", "batch_norm": False}, {"norm_after": True}, {"norm_input": False},
        {"output_activation": "sigmoid"}, {"transform": "cdf"}, {"transform": "raw"}, {"dropout": 0.5},
        {"transform": "piecewise"}, {"pieces": 4}, {"ensemble": "shared", "members": 3, "pieces": 2},
    ],
)  # fmt: skip
def test_a_network_read_anew_gives_its_scores(settings: dict[str, Any]) -> None:
    few = {"hidden": [8, 4], "steps": 3, "batch": 4, "check_every": 3, "device": "cpu", "random_state": 0}
    ranker = make_ranker("neural", **{**few, **settings}).fit(draw_data())
    rows, scorer = draw_rows(12, 5, 0.2), make_scorer(ranker)
    expected = ranker._score_lists(rows, np.array([0, 12]))
    assert "read_network" in scorer.__qualname__
    # sums of float32 in another order: some 2⁻²⁴ of each part, and a list's scores have no more than 10 or so
    assert np.abs(scorer(rows) - expected).max() <= 1e-6 * np.abs(expected).max()


@needs_numba
def test_rows_are_left_as_they_were_given() -> None:
    few = {"hidden": [], "steps": 3, "batch": 4, "check_every": 3, "device": "cpu", "random_state": 0}
    for transform in ("raw", "mixture"):
        scorer = make_scorer(make_ranker("neural", **few, transform=transform).fit(draw_data()))
        rows = draw_rows(12, 5)
        before = rows.copy()
        scorer(rows)
        assert np.array_equal(rows, before)


def test_networks_that_look_at_lists_are_asked_themselves() -> None:
    few = {"hidden": [4], "steps": 2, "batch": 4, "check_every": 2, "device": "cpu", "random_state": 0}
    ranker = make_ranker("neural", **few, network="groupwise").fit(draw_data())
    rows = draw_rows(12, 5)
    assert np.array_equal(make_scorer(ranker)(rows), ranker.predict(rows, np.zeros(12)))


# -- trees -------------------------------------------------------------------------------------------------


@needs_numba
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("leaves", [2, 31])
def test_trees_walked_together_give_lightgbms_bits(missing: float, leaves: int) -> None:
    pytest.importorskip("lightgbm")
    ranker = make_ranker("lightgbm", rounds=20, min_data_in_leaf=2, leaves=leaves, random_state=0)
    ranker.fit(draw_data(missing))
    rows, scorer = draw_rows(50, 7, 0.4), make_scorer(ranker)
    rows[0, :] = [np.inf, -np.inf, 0.0, -0.0, 1e-36, 1e38]
    assert "Forest" in scorer.__qualname__
    assert np.array_equal(scorer(rows), ranker.booster_.predict(rows, raw_score=True))


TREE = """tree
version=v4
{head}

Tree=0
num_leaves=3
num_cat={categories}
split_feature=0 1
threshold=inf 0.5
decision_type=8 {decision}
left_child=1 -1
right_child=-2 -3
leaf_value=1 2 4
is_linear=0

Tree=1
num_leaves=1
num_cat=0
leaf_value=0.25
is_linear=0


end of trees
"""


@needs_numba
def test_a_missing_value_may_go_right_of_an_infinite_threshold() -> None:
    from placings.rankers.live_trees import read_forest

    forest = read_forest(TREE.format(head="", categories=0, decision=10))
    assert forest is not None
    rows = np.array([[np.nan, 0], [1, 0], [1, 1], [np.inf, np.nan]], dtype=np.float32)
    assert forest.score(rows).tolist() == [2.25, 1.25, 4.25, 1.25]


@pytest.mark.parametrize(
    "odd", [{"categories": 1}, {"decision": 1}, {"decision": 6}, {"head": "average_output"}]
)
def test_trees_that_do_more_are_left_to_the_library(odd: dict[str, Any]) -> None:
    from placings.rankers.live_trees import read_forest

    assert read_forest(TREE.format(**{"head": "", "categories": 0, "decision": 2, **odd})) is None


# -- rankers -----------------------------------------------------------------------------------------------


def test_a_linear_score_is_the_sum_with_what_fills_gaps() -> None:
    ranker = LinearRanker("ridge").fit(draw_data())
    rows = draw_rows(10, 5, 0.3)
    filled = np.where(np.isnan(rows), ranker.fill_, rows)
    assert make_scorer(ranker)(rows) == pytest.approx(filled @ ranker.coef_ + ranker.intercept_)


class Halved(Ranker):
    """A ranker of somebody's own, whose `predict` says more than `_score`."""

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        pass

    def _score(self, X: Any) -> Any:
        return np.nan_to_num(X[:, 0])

    def predict(self, X: Any, qid: Any = None) -> Any:
        return super().predict(X, qid) / 2


class LinearRanker2(LinearRanker):
    def _score(self, X: Any) -> Any:
        return -super()._score(X)


LinearRanker2.__name__ = "LinearRanker"


@pytest.mark.parametrize("kind", [Halved, LinearRanker2])
def test_a_ranker_of_somebodys_own_is_asked_itself(kind: Any) -> None:
    ranker, rows = kind().fit(draw_data()), draw_rows(10)
    assert make_scorer(ranker)(rows) == pytest.approx(ranker.predict(rows, np.zeros(10)))


def test_a_scorer_that_disagrees_with_its_ranker_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    ranker = LinearRanker("ridge").fit(draw_data())
    monkeypatch.setattr(ranker, "_score_lists", lambda X, offsets: np.arange(len(X)) * 1.0)
    assert make_scorer(ranker)(draw_rows(4)).tolist() == [0.0, 1.0, 2.0, 3.0]


# -- inside a re-ranker --------------------------------------------------------------------------------------


def make_reranker(ranker: Ranker) -> Reranker:
    data = draw_data()
    rows = {f"f{place}": data.X[:, place] for place in range(WIDTH)}
    features = FeatureSet([Number(name) for name in rows]).fit(rows)
    table = {**rows, "search_id": np.repeat(np.arange(20), 10), "label": data.y}
    return Reranker(features, ranker.fit(features.to_ranking(table)), None)


def ask(*rows: Any) -> Request:
    return Request({}, [{f"f{place}": float(value) for place, value in enumerate(row)} for row in rows])


def test_a_ranker_fitted_again_is_not_answered_for_by_its_old_scorer() -> None:
    reranker, request = make_reranker(LinearRanker("ridge")), ask(*draw_rows(5))
    before = reranker.rerank(request).scores
    data = draw_data()
    reranker.ranker_.fit(data.replace(y=1.0 - data.y, feature_names=reranker.ranker_.feature_names_))
    after = reranker.rerank(request).scores
    assert not np.allclose(before, after)
    assert after == pytest.approx(reranker.ranker_.predict(draw_rows(5), np.zeros(5)))


def test_a_reranker_that_was_asked_can_be_pickled() -> None:
    reranker, request = make_reranker(LinearRanker("ridge")), ask(*draw_rows(5))
    scores = reranker.rerank(request).scores
    again = pickle.loads(pickle.dumps(reranker))
    assert np.array_equal(again.rerank(request).scores, scores)


def test_sums_too_large_for_float32_are_computed_again_in_float64() -> None:
    few = {"hidden": [4], "steps": 3, "batch": 4, "check_every": 3, "device": "cpu", "random_state": 0}
    reranker = make_reranker(make_ranker("neural", **few, transform="raw"))
    rows = np.full((2, WIDTH), 3e38, dtype=np.float32)
    rows[1] = -rows[1]
    with np.errstate(all="ignore"):
        quick = reranker._find_scorer()(rows)
    assert not np.isfinite(quick).all()
    answer = reranker.rerank(ask(*rows))
    assert np.array_equal(answer.scores, reranker.ranker_.predict(rows, np.zeros(2)))
    assert np.isfinite(answer.scores).all()


def test_scores_that_are_no_numbers_are_refused() -> None:
    reranker = make_reranker(LinearRanker("ridge"))
    reranker.ranker_.coef_ = np.full(WIDTH, np.nan)
    with pytest.raises(BadInput, match="gives the score nan to row 0"):
        reranker.rerank(ask(*draw_rows(3)))
