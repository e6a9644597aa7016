"""Ridges beside a trained network: what they learn, how they are chosen, and that they are part of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import placings as pg
from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.rankers import ridges as module
from placings.rankers.click_weights import weigh_clicks
from placings.rankers.live_scoring import _agrees, _find_scorer
from placings.rankers.presets import settle
from placings.rankers.ridges import CURVES, LINE, NETWORK, RidgeFitter, RidgeSums, draw_rows, find_targets

FEW: dict[str, Any] = {
    "hidden": [8], "members": 2, "steps": 30, "check_every": 10, "random_state": 0, "device": "cpu",
}  # fmt: skip


def make_data(lists: int = 60, *, hump: bool = False, seed: int = 0) -> RankingData:
    """The label is a rounded sum of four features' effects, in lists of 12 rows; some values are missing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12 * lists, 4)).astype(np.float32)
    effect = -2.0 * np.abs(X[:, 0]) + X[:, 1] if hump else X @ [1.0, -0.5, 0.25, 0.0]
    y = np.clip(np.round(effect + 2.0), 0, 3)
    X[rng.random(X.shape) < 0.02] = np.nan
    return RankingData.from_arrays(X, y, np.repeat(np.arange(lists), 12))


def mean_ndcg(ranker: Any, data: RankingData) -> float:
    return float(np.nanmean(pg.ndcg(ranker.predict(data), data.y, data.offsets, k=10)))


@pytest.fixture(scope="module")
def data() -> RankingData:
    return make_data(hump=True)


@pytest.fixture(scope="module")
def fitted(data: RankingData) -> pg.NeuralRanker:
    return pg.NeuralRanker(**FEW).fit(data)


def split(data: RankingData) -> tuple[RankingData, RankingData]:
    return data.split(0.8, 0.2, random_state=0)


# -- the sums ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighed", [False, True])
def test_the_sums_solve_to_the_weights_of_a_linear_ranker(weighed: bool) -> None:
    X = np.nan_to_num(make_data(20).X)
    X[:, 3] = 7.0  # a constant column gets no weight
    data = make_data(20).replace(X=X)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, data.n_rows) if weighed else None
    data = data.replace(weight=weight)
    sums = RidgeSums.start(np.full(4, 0.1))
    y, heavy = find_targets(data, labels_weighed=False)
    for first, last in ((0, 7), (7, 20)):  # queries
        a, b = data.offsets[first], data.offsets[last]
        sums.add(data.X[a:b], data.offsets[first : last + 1] - a, y[a:b], heavy[a:b])
    for C in (0.01, 10.0):
        expected = pg.LinearRanker("ridge", C=C).fit(data).coef_
        np.testing.assert_allclose(sums.solve(4, C), expected, rtol=1e-6, atol=1e-9)
        fewer = pg.LinearRanker("ridge", C=C).fit(data.replace(X=data.X[:, :2], feature_names=("a", "b")))
        np.testing.assert_allclose(sums.solve(2, C), fewer.coef_, rtol=1e-6, atol=1e-9)


def test_two_sums_together_are_those_of_all_rows() -> None:
    data = make_data(10).replace(X=np.nan_to_num(make_data(10).X))
    y, weight = find_targets(data, labels_weighed=False)
    parts = []
    for first, last in ((0, 4), (4, 10), (0, 10)):
        a, b = data.offsets[first], data.offsets[last]
        parts.append(RidgeSums.start(np.zeros(4)))
        parts[-1].add(data.X[a:b], data.offsets[first : last + 1] - a, y[a:b], weight[a:b])
    np.testing.assert_allclose(parts[0].merge(parts[1]).solve(4, 1.0), parts[2].solve(4, 1.0), rtol=1e-9)


def test_a_click_over_its_propensity_is_a_larger_label_to_a_ridge() -> None:
    data = make_data(4)
    y = (data.y > 1).astype(float)
    propensity = np.tile(1.0 / np.arange(1, 13), 4)
    own = np.linspace(1.0, 2.0, data.n_rows)
    clicks = weigh_clicks(y, propensity).weights
    rows = data.replace(y=y, propensity=propensity, weight=own * clicks)  # as a network's rows are weighed
    target, weight = find_targets(rows, labels_weighed=False)
    np.testing.assert_allclose(target, y * clicks)
    np.testing.assert_allclose(weight, own)
    target, weight = find_targets(rows.replace(y=y * clicks, weight=own), labels_weighed=True)
    np.testing.assert_allclose(target, y * clicks)
    np.testing.assert_allclose(weight, own)


def test_of_many_rows_whole_queries_are_drawn_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(30)
    assert draw_rows(data, 0) is data
    monkeypatch.setattr(module, "MOST_ROWS", 100)
    some = draw_rows(data, 0)
    assert some.n_rows == 96  # eight lists of 12 rows
    assert set(some.sizes) == {12}
    assert some.qids.tolist() == draw_rows(data, 0).qids.tolist() != draw_rows(data, 1).qids.tolist()


# -- what the network becomes ------------------------------------------------------------------------------


def test_a_network_that_learned_nothing_is_as_good_as_the_line() -> None:
    data, test = make_data(60), make_data(200, seed=1)
    still = {**FEW, "steps": 1, "lr": 1e-9, "mixture_lr": 1e-9}
    alone, ranker = pg.NeuralRanker(**still, ridge=False).fit(data), pg.NeuralRanker(**still).fit(data)
    line = pg.LinearRanker("ridge", transform="quantile_normal").fit(data)
    assert mean_ndcg(ranker, test) > mean_ndcg(line, test) - 0.01
    assert mean_ndcg(ranker, test) > mean_ndcg(alone, test) + 0.03
    assert ranker.shares_[NETWORK] < 0.1


def test_effects_that_no_line_over_a_transform_has_come_from_the_pieces(data: RankingData) -> None:
    test = make_data(200, hump=True, seed=1)
    alone, ranker = pg.NeuralRanker(**FEW, ridge=False).fit(data), pg.NeuralRanker(**FEW).fit(data)
    bent = pg.LinearRanker("ridge", transform="piecewise").fit(data)
    assert ranker.shares_[CURVES] > 0.5
    assert mean_ndcg(ranker, test) > mean_ndcg(alone, test) + 0.05
    assert mean_ndcg(ranker, test) > mean_ndcg(bent, test) - 0.01


def test_the_score_is_the_shares_of_the_network_and_of_lines_over_what_it_sees(data: RankingData) -> None:
    alone, ranker = pg.NeuralRanker(**FEW, ridge=False).fit(data), pg.NeuralRanker(**FEW).fit(data)
    assert set(ranker.shares_) == {NETWORK, LINE, CURVES}
    assert sum(ranker.shares_.values()) == pytest.approx(1.0)
    assert set(ranker.ridge_C_) == {LINE, CURVES}
    assert alone.shares_ == {NETWORK: 1.0}
    assert alone.ridge_C_ == {}
    rest = ranker.predict(data) - ranker.shares_[NETWORK] * alone.predict(data)
    fitter = RidgeFitter(alone.network_, data, data, seed=0, refit=False)
    fitter.pieces, fitter.bend = ranker.pieces_, ranker.pieces_.module().function
    columns = np.concatenate([block for *_, block in fitter._see(data)])
    columns = np.column_stack([columns, np.ones(len(columns))]).astype(np.float64)
    left = rest - columns @ np.linalg.lstsq(columns, rest, rcond=None)[0]
    assert np.abs(rest).max() > 0.1
    assert np.abs(left).max() < 1e-4 * np.abs(rest).max()  # sums of float32


def test_a_share_of_one_leaves_the_network_as_it_was(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "choose_weights", lambda scores, judge, *, seed: np.eye(len(scores))[0])
    alone, ranker = pg.NeuralRanker(**FEW, ridge=False).fit(data), pg.NeuralRanker(**FEW).fit(data)
    np.testing.assert_array_equal(ranker.predict(data), alone.predict(data))
    assert ranker.network_.curves is None
    assert ranker.pieces_ is None


def test_ridges_learn_from_what_was_set_aside_but_never_from_a_validation_set(data: RankingData) -> None:
    train, valid = split(data)
    own, given = pg.NeuralRanker(**FEW).fit(data), pg.NeuralRanker(**FEW).fit(train, valid=valid)
    assert own.shares_ == given.shares_
    assert not np.allclose(own.predict(data), given.predict(data), rtol=1e-4)
    network = pg.NeuralRanker(**FEW, ridge=False).fit(train, valid=valid).network_
    fitter = RidgeFitter(network, train, valid, seed=0, refit=False)
    found = fitter.add(lambda scores: pg.ndcg(scores, valid.y, valid.offsets, k=10))
    assert found is not None
    assert found.shares == given.shares_
    from placings.training import score_rows

    np.testing.assert_array_equal(score_rows(network, data.X, data.offsets), given.predict(data))


def test_a_metric_of_which_less_is_better_chooses_the_same_way() -> None:
    data, test = make_data(60), make_data(100, seed=1)
    still = {**FEW, "steps": 1, "lr": 1e-9, "mixture_lr": 1e-9, "metric": "arp"}
    assert mean_ndcg(pg.NeuralRanker(**still).fit(data), test) > 0.9


def test_held_out_lists_without_anything_relevant_choose_nothing(data: RankingData) -> None:
    train, valid = split(data)
    ranker = pg.NeuralRanker(**FEW).fit(train, valid=valid.replace(y=np.zeros(valid.n_rows)))
    assert ranker.shares_ == {NETWORK: 1.0}


@pytest.mark.parametrize("settings", [{"transform": "raw"}, {"transform": "query_minmax"}, {"members": 1},
                                      {"batch_norm": False}, {"pieces": 3}])  # fmt: skip
def test_every_feed_forward_network_takes_ridges(data: RankingData, settings: dict[str, Any]) -> None:
    test = make_data(100, hump=True, seed=1)
    ranker = pg.NeuralRanker(**{**FEW, **settings}).fit(data)
    line = pg.LinearRanker("ridge", transform="quantile_normal").fit(data)
    assert ranker.shares_[NETWORK] < 1.0
    assert (CURVES in ranker.shares_) == ("pieces" not in settings)  # those are inputs of the layers already
    assert mean_ndcg(ranker, test) > mean_ndcg(line, test) - 0.02


def test_missing_huge_and_constant_columns_give_finite_scores(data: RankingData) -> None:
    X = data.X.copy()
    X[:, 0], X[::13, 1], X[::7, 2], X[:, 3] = np.nan, 1e30, -3e38, 5.0
    ranker = pg.NeuralRanker(**FEW).fit(data.replace(X=X))
    assert np.isfinite(ranker.predict(data.replace(X=X))).all()


# -- saved, served, explained ------------------------------------------------------------------------------


def test_a_bundle_keeps_the_ridges(fitted: pg.NeuralRanker, data: RankingData, tmp_path: Path) -> None:
    assert fitted.network_.curves is not None
    fitted.save(tmp_path / "model")
    loaded = pg.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data), fitted.predict(data))
    assert loaded.shares_ == fitted.shares_
    assert loaded.ridge_C_ == fitted.ridge_C_


def test_curves_without_pieces_are_refused(fitted: pg.NeuralRanker) -> None:
    files = fitted._give_weights()
    facts = json.loads(files["transform.json"])
    del facts["pieces"]
    other = pg.NeuralRanker(**FEW)
    other.feature_names_, other.n_features_in_ = fitted.feature_names_, 4
    with pytest.raises(BadInput, match="names curves, and no pieces that they are made of"):
        other._take_weights({**files, "transform.json": json.dumps(facts).encode()})


def test_contributions_add_up_and_a_curve_belongs_to_its_feature(
    fitted: pg.NeuralRanker, data: RankingData
) -> None:
    parts = fitted.contributions(data)
    assert parts.shape == (data.n_rows, 5)
    np.testing.assert_allclose(parts.sum(axis=1), fitted.predict(data), atol=1e-5)
    size = np.abs(parts[:, :-1]).mean(axis=0)
    assert size[0] > 3.0 * max(size[2], size[3])  # the feature with the hump


def test_a_live_list_has_the_scores_of_the_network_with_its_curves(fitted: pg.NeuralRanker) -> None:
    assert _agrees(_find_scorer(fitted), fitted, fitted._sample)


def test_an_onnx_file_scores_the_same(fitted: pg.NeuralRanker, data: RankingData, tmp_path: Path) -> None:
    made = fitted.export_onnx(tmp_path / "ranker.onnx")
    session = onnxruntime.InferenceSession(str(made.path), providers=["CPUExecutionProvider"])
    (scores,) = session.run(["scores"], {"features": np.asarray(data.X)})
    np.testing.assert_allclose(scores, fitted.predict(data), rtol=1e-4, atol=1e-4)  # sums in another order


def test_a_fitted_ranker_is_fitted_anew_from_nothing(fitted: pg.NeuralRanker, data: RankingData) -> None:
    before = fitted.predict(data)
    np.testing.assert_array_equal(pg.NeuralRanker(**FEW).fit(data).fit(data).predict(data), before)


# -- where there are none ----------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"holdout": 0.0}, {"skip": False}, {"hidden": []},
                                      {"network": "groupwise", "members": 1}, {"preset": "zhuang2020"},
                                      {"output_activation": "sigmoid"}])  # fmt: skip
def test_other_networks_and_those_that_hold_nothing_out_have_no_ridges(
    data: RankingData, settings: dict[str, Any]
) -> None:
    chosen = {**FEW, "steps": 3, **settings}
    assert pg.NeuralRanker(**chosen).fit(data).shares_ == {NETWORK: 1.0}


def test_few_queries_hold_nothing_out_and_have_no_ridges(data: RankingData) -> None:
    assert pg.NeuralRanker(**FEW).fit(data[:19]).shares_ == {NETWORK: 1.0}


def test_a_ridge_without_a_skip_is_refused() -> None:
    with pytest.raises(BadInput, match="a ridge becomes part of a network's skip"):
        settle("default", {"ridge": True, "skip": False})
    with pytest.raises(BadInput, match="ridge must be True or False. Got 'yes'"):
        settle("default", {"ridge": "yes"})


def test_a_part_of_the_budget_is_left_for_the_ridges(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    import placings.training

    budgets: list[float] = []
    run = placings.training.train

    def note(*args: Any, clock: Any, **more: Any) -> Any:
        budgets.append(clock.budget)
        return run(*args, clock=clock, **more)

    monkeypatch.setattr(placings.training, "train", note)
    for seconds in (100.0, 1e9):  # the second is more than there is: half of the budget is training's
        monkeypatch.setattr(RidgeFitter, "expect_seconds", lambda self, seconds=seconds: seconds)
        pg.NeuralRanker(**FEW, budget=1000.0).fit(data)
    assert budgets == [900.0, 500.0]
