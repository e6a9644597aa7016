"""NeuralRanker: presets, the network as Keras builds it, the mixture, bundles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator
from torch import nn

import placings as pg
from placings.core.errors import BadFile, BadInput, OneQuery
from placings.data.ranking import RankingData
from placings.rankers.linear import LinearRanker
from placings.rankers.presets import OF_LARGE, PRESETS
from placings.training.layers import RowDropout
from placings.transforms import Log1p, Mixture


@pytest.fixture(scope="module")
def data() -> RankingData:
    """The label follows the logarithm of a heavy-tailed feature; the other is noise."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=600)
    X = np.column_stack([np.exp(4 * z), rng.normal(size=600)])
    return RankingData.from_arrays(X, np.clip(np.round(z + 1), 0, 3), np.repeat(np.arange(40), 15))


def test_the_papers_preset_is_the_papers_network(data: RankingData) -> None:
    ranker = pg.NeuralRanker(preset="zhuang2020", steps=1, batch=4, random_state=0).fit(data)
    layers = list(ranker.network_.layers.layers)
    widths = [layer.out_features for layer in layers if isinstance(layer, nn.Linear)]
    assert widths == [1024, 512, 256, 1]
    norms = [layer for layer in layers if isinstance(layer, nn.BatchNorm1d)]
    assert len(norms) == 4  # in front of every layer, the input's included
    assert all(norm.momentum == pytest.approx(0.6) and norm.eps == 1e-3 for norm in norms)
    assert [layer.dropout for layer in layers if isinstance(layer, RowDropout)] == [0.5] * 3
    assert isinstance(ranker.transform_, Mixture)
    assert tuple(ranker.transform_.basis) == ("raw", "gauss", "cdf", "log1p")
    settings = PRESETS["zhuang2020"]
    assert (settings.loss, settings.draws, settings.batch, settings.list_size) == (
        "approx_ndcg@5",
        8,
        128,
        200,
    )
    assert (settings.optimizer, settings.lr, settings.steps) == ("adagrad", 0.5, 100_000)


def test_weights_start_as_keras_starts_them(data: RankingData) -> None:
    ranker = pg.NeuralRanker(
        hidden=[300], members=1, steps=1, lr=1e-30, mixture_lr=1e-30, random_state=0
    ).fit(data)
    linear = next(layer for layer in ranker.network_.modules() if isinstance(layer, nn.Linear))
    bound = np.sqrt(6 / (2 + 300))  # Glorot: fan in + fan out
    weights = linear.weight.detach().numpy()
    assert np.abs(weights).max() <= bound
    assert np.abs(weights).max() > 0.95 * bound
    assert np.abs(linear.bias.detach().numpy()).max() < 1e-20


def test_the_mixture_learns_from_the_data_and_its_weights_are_shares(data: RankingData) -> None:
    ranker = pg.NeuralRanker(
        hidden=[], members=1, steps=300, lr=0.05, weight_decay=0.0, batch_norm=False, holdout=0.0
    ).fit(data)
    shares = ranker.mixture_weights()
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-6)
    assert np.abs(shares[0] - 1 / shares.shape[1]).max() > 0.1  # it left its uniform start
    assert np.nanmean(pg.ndcg(ranker.predict(data), data.y, data.offsets, k=10)) > 0.95
    with pytest.raises(BadInput, match="only a ranker fitted with transform='mixture'"):
        pg.NeuralRanker(transform="cdf", steps=1).fit(data).mixture_weights()


def test_a_transform_may_be_given_as_an_object_and_survives_saving(data: RankingData, tmp_path: Path) -> None:
    given = Log1p(missing="zero")
    ranker = pg.NeuralRanker(transform=given, hidden=[4], steps=5, random_state=0).fit(data)
    assert not hasattr(given, "fill_") or ranker.transform_ is not given
    ranker.save(tmp_path / "model")
    back = pg.load(tmp_path / "model")
    assert isinstance(back, pg.NeuralRanker)
    assert isinstance(back.transform, Log1p)
    assert back.transform.missing == "zero"
    np.testing.assert_array_equal(back.predict(data), ranker.predict(data))
    assert clone(back).fit(data).predict(data).shape == (data.n_rows,)


def test_batch_norm_sees_real_rows_only(data: RankingData) -> None:
    ranker = pg.NeuralRanker(
        transform="log1p", hidden=[4], members=1, steps=200, batch=40, lr=1e-30, holdout=0.0, random_state=0
    ).fit(data)
    norm = next(layer for layer in ranker.network_.modules() if isinstance(layer, nn.BatchNorm1d))
    rows = ranker.transform_.transform(data.X)
    np.testing.assert_allclose(norm.running_mean.numpy(), rows.mean(axis=0), rtol=1e-3, atol=1e-3)


def test_early_stopping_keeps_the_best_check(data: RankingData) -> None:
    train, valid = data.split(0.5, 0.5, random_state=0)
    ranker = pg.NeuralRanker(hidden=[8], steps=200, check_every=10, patience=2, random_state=0).fit(
        train, valid=valid
    )
    best = max(value for _, value in ranker.history_.checks)
    found = np.nanmean(pg.ndcg(ranker.predict(valid), valid.y, valid.offsets, k=10))
    assert found == pytest.approx(best, abs=1e-6)
    assert len(ranker.history_.loss) - ranker.history_.best_step <= 30


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"preset": "zhuang"}, "no preset 'zhuang'; did you mean 'zhuang2020'"),
        ({"transform": "cfd"}, "no transform 'cfd'"),
        ({"loss": "sofmax"}, "no loss 'sofmax'; did you mean 'softmax'"),
        ({"activation": "rely"}, "no activation 'rely'; did you mean 'relu'"),
        ({"steps": 0}, "steps must be a whole number of 1 or more. Got 0"),
        ({"dropout": 1.0}, "dropout must be from 0"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"hidden": [8, 0]}, "a hidden layer must be 1 or more wide"),
        ({"hidden": 8}, "hidden must list the widths of the hidden layers. Got 8"),
        ({"hidden": [8.5]}, "hidden must list the widths of the hidden layers"),
        ({"network": "atention"}, "no network 'atention'; did you mean 'attention'"),
        (
            {"output_activation": "sigmoi", "members": 1},
            "no activation 'sigmoi'; did you mean 'sigmoid'.*linear",
        ),
        (
            {"network": "attention", "members": 2},
            "only a feed-forward network has members. Got 2 of attention",
        ),
        ({"members": 0}, "members must be a whole number of 1 or more. Got 0"),
        ({"holdout": 1.0}, "holdout must be from 0 up to, but not, 1. Got 1.0"),
        ({"precision": "float16"}, "no precision 'float16'; did you mean 'bfloat16'"),
        ({"schedule": "linear"}, "no schedule 'linear'"),
        ({"optimizer": "adam"}, "no optimizer 'adam'; did you mean 'adamw'"),
    ],
)
def test_a_setting_that_cannot_be_is_told(
    data: RankingData, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        pg.NeuralRanker(**{"steps": 1, **settings}).fit(data)  # type: ignore[arg-type]


def test_threads_of_torch_are_left_as_they_were(data: RankingData) -> None:
    before = torch.get_num_threads()
    pg.NeuralRanker(steps=2, hidden=[2]).fit(data)
    assert torch.get_num_threads() == before


def test_contributions_add_up_to_the_scores_and_explain_uses_them(data: RankingData) -> None:
    ranker = pg.NeuralRanker(hidden=[8], steps=200, lr=0.01, random_state=0).fit(data)
    parts = ranker.contributions(data)
    np.testing.assert_allclose(parts.sum(axis=1), ranker.predict(data), atol=1e-5)
    assert np.abs(parts[:, 0]).mean() > 3 * np.abs(parts[:, 1]).mean()  # the second feature is noise
    scores = ranker.predict(data.query(0))
    found = pg.explain(ranker, data, 0, int(scores.argmax()), int(scores.argmin()))
    assert found.holds
    assert found.terms[0].feature == "f1"


def test_contributions_know_the_list_that_query_minmax_scales(data: RankingData) -> None:
    ranker = pg.NeuralRanker(transform="query_minmax", hidden=[8], steps=50, random_state=0).fit(data)
    np.testing.assert_allclose(ranker.contributions(data).sum(axis=1), ranker.predict(data), atol=1e-5)
    scores = ranker.predict(data.query(0))
    found = pg.explain(ranker, data, 0, int(scores.argmax()), int(scores.argmin()))
    assert found.holds
    assert sum(term.contribution for term in found.terms) == pytest.approx(found.difference, abs=1e-5)


def test_rows_without_queries_are_one_list_however_many(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranker = pg.NeuralRanker(transform="query_minmax", hidden=[4], steps=5, random_state=0).fit(data)
    with pytest.warns(OneQuery):
        expected = ranker.predict(data.X)
    monkeypatch.setattr("placings.training.loop.ROWS_AT_ONCE", 7)
    with pytest.warns(OneQuery):
        np.testing.assert_allclose(ranker.predict(data.X), expected, rtol=1e-6, atol=1e-6)


def test_contributions_of_a_linear_network_are_its_terms(data: RankingData) -> None:
    ranker = pg.NeuralRanker(
        transform="log1p", hidden=[], members=1, batch_norm=False, steps=50, lr=0.05
    ).fit(data)
    weight = ranker.network_.layers.layers[-1].weight.detach().numpy()[0]
    rows = ranker.transform_.transform(data.X)
    empty = ranker.transform_.transform(np.full((1, 2), np.nan, dtype=np.float32))
    np.testing.assert_allclose(
        ranker.contributions(data)[:, :-1], (rows - empty) * weight, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("settings", [{"group_size": 2}, {"network": "attention", "width": 4, "heads": 1}])
def test_contributions_of_a_network_that_sees_lists_are_refused(
    data: RankingData, settings: dict[str, object]
) -> None:
    ranker = pg.NeuralRanker(hidden=[4], steps=2, random_state=0, **settings).fit(data)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="depends on the other rows of its list.*'permutation'"):
        ranker.contributions(data)
    assert pg.rank_importance(ranker, "permutation", data, repeats=1).names


def test_a_policy_by_name_reaches_the_transform(data: RankingData) -> None:
    named = data.replace(feature_names=("price", "age"))
    ranker = pg.NeuralRanker(transform=Log1p(missing={"age": -1.0}), hidden=[2], steps=1).fit(named)
    assert ranker.transform_.fill_[1] == -1.0


# -- what is set aside, how large, how exact ---------------------------------------------------------

SMALL = {"hidden": [8], "members": 2, "steps": 30, "check_every": 5, "random_state": 3}


def test_without_validation_a_share_of_the_queries_is_set_aside(data: RankingData) -> None:
    ranker = pg.NeuralRanker(**SMALL).fit(data)  # type: ignore[arg-type]
    train, valid = data.split(0.8, 0.2, random_state=3)
    given = pg.NeuralRanker(**SMALL).fit(train, valid=valid)  # type: ignore[arg-type]
    assert ranker.history_ == given.history_
    assert ranker.history_.checks
    assert (
        ranker.shares_ == given.shares_
    )  # and not the same scores: ridges learn from what was set aside too
    for each, rows in ((ranker, data), (given, train)):
        each.set_params(ridge=False).fit(rows, valid=valid if each is given else None)
    np.testing.assert_array_equal(ranker.predict(data), given.predict(data))


def test_nothing_is_set_aside_where_validation_is_given_or_unwanted(data: RankingData) -> None:
    train, valid = data.split(0.8, 0.2, random_state=0)
    one = pg.NeuralRanker(**SMALL).fit(train, valid=valid)  # type: ignore[arg-type]
    other = pg.NeuralRanker(**SMALL, holdout=0.0).fit(train, valid=valid)  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.predict(data), other.predict(data))
    whole = pg.NeuralRanker(**SMALL, holdout=0.0).fit(data)  # type: ignore[arg-type]
    assert whole.history_.checks == []
    assert whole.history_.best_step == 30
    assert pg.NeuralRanker(preset="zhuang2020", hidden=[4], steps=2).fit(data).history_.checks == []


def test_few_queries_are_all_trained_on(data: RankingData) -> None:
    assert pg.NeuralRanker(**SMALL).fit(data[:19]).history_.checks == []  # type: ignore[arg-type]
    assert pg.NeuralRanker(**SMALL).fit(data[:20]).history_.checks  # type: ignore[arg-type]


def test_a_bundle_keeps_the_settings_that_the_size_of_its_data_chose(
    data: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placings.rankers.presets.LARGE", len(data))
    large = pg.NeuralRanker(steps=3, random_state=0).fit(data)
    small = pg.NeuralRanker(steps=3, random_state=0).fit(data[:-1])
    assert large.settings_ == replace(PRESETS["default"], **{**OF_LARGE, "steps": 3})
    assert small.settings_ == replace(PRESETS["default"], steps=3)
    assert large.settings_.hidden != small.settings_.hidden
    monkeypatch.undo()
    for ranker in (large, small):
        ranker.save(tmp_path / "model")
        back = pg.load(tmp_path / "model")
        assert isinstance(back, pg.NeuralRanker)
        assert back.settings_ == ranker.settings_
        np.testing.assert_array_equal(back.predict(data), ranker.predict(data))


@pytest.mark.slow
def test_the_default_learns_in_bfloat16_what_it_learns_in_float32() -> None:
    made = pg.make_ranking(60, n_features=10, mean_size=20, random_state=0).data
    train, test = made.split(0.6, 0.4, random_state=0)
    found = {}
    for precision in ("float32", "bfloat16"):
        ranker = pg.NeuralRanker(precision=precision, members=4, steps=200, lr=0.01, random_state=0)
        found[precision] = pg.evaluate(ranker.fit(train), test, ["ndcg@10"])["ndcg@10"]
        assert np.isfinite(ranker.history_.loss).all()
    assert found["bfloat16"] == pytest.approx(found["float32"], abs=0.03)
    assert found["bfloat16"] != found["float32"]
    shuffled = np.random.default_rng(0).random(test.n_rows)
    assert min(found.values()) > pg.evaluate(shuffled, test, ["ndcg@10"])["ndcg@10"] + 0.1


def test_a_fit_with_a_checkpoint_goes_on_and_another_fit_is_told(data: RankingData, tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole = pg.NeuralRanker(**SMALL).fit(data)  # type: ignore[arg-type]
    kept = pg.NeuralRanker(**SMALL, checkpoint=str(path), checkpoint_every=10)  # type: ignore[arg-type]
    for _ in range(2):
        kept.fit(data)
        assert kept.history_ == whole.history_
        np.testing.assert_array_equal(kept.predict(data), whole.predict(data))
    with pytest.raises(BadFile, match="belongs to another run: seed was 3, is 4"):
        clone(kept).set_params(random_state=4).fit(data)
    with pytest.raises(BadFile, match="belongs to another run: its network differ"):
        clone(kept).set_params(dropout=0.1).fit(data)
    for history in ("history.json", "history.csv"):
        kept.history_.write(tmp_path / history)
        assert (tmp_path / history).stat().st_size > 500


# -- scikit-learn ------------------------------------------------------------------------------------


class Called(Log1p):
    """Scikit-learn takes whatever is called `transform` for a method, and calls it."""

    def __call__(self, X: Any) -> Any:
        return np.zeros(len(X))


UNFIT = {
    "check_sample_weight_equivalence_on_dense_data": "a weight is that of an item's terms",
    "check_sample_weight_equivalence_on_sparse_data": "a weight is that of an item's terms",
    "check_n_features_in_after_fitting": "asks the setting `transform` to refuse rows",
    "check_fit2d_predict1d": "asks the setting `transform` to refuse rows",
    "check_array_api_input": "skipped unless SCIPY_ARRAY_API is set",
}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::placings.core.errors.PlacingsWarning"
)  # its data know no queries, and `Called`
@pytest.mark.parametrize(
    "check",
    [
        check
        for _, check in estimator_checks_generator(LinearRanker(), mark=None)
        if check.func.__name__ not in UNFIT
    ],
    ids=lambda check: check.func.__name__,
)
def test_what_scikit_learn_asks_of_an_estimator(check: Callable[[Any], None]) -> None:
    check(pg.NeuralRanker(hidden=[4], members=2, steps=3, random_state=0, device="cpu", transform=Called()))


def test_rows_of_another_width_or_shape_are_refused(data: RankingData) -> None:
    ranker = pg.NeuralRanker(hidden=[2], members=1, steps=1).fit(np.asarray(data.X), data.y, qid=data.qid)
    with pytest.raises(ValueError, match="X has 1 features, but NeuralRanker is expecting 2"):
        ranker.predict(np.asarray(data.X)[:, :1])
    with pytest.raises(ValueError, match="2D"):
        ranker.predict(np.asarray(data.X)[0])
