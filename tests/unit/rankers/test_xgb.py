"""XGBoostRanker: XGBoost's own numbers, zeros that are not missing, model files taken and given."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from placings.core.errors import BadFile, BadInput, MissingExtra, UnknownName
from placings.data.ranking import RankingData
from placings.metrics import ndcg
from placings.rankers import xgb as xgb_data
from placings.rankers.xgb import XGBoostRanker
from placings.simulate.rankings import make_ranking

xgboost = pytest.importorskip("xgboost")

DATA = make_ranking(30, n_features=6, mean_size=20, missing=0.1, random_state=0).data
TRAIN, VALID = DATA.split(0.7, 0.3, random_state=0)
NATIVE = {"objective": "rank:ndcg", "eta": 0.1, "verbosity": 0, "seed": 3, "max_depth": 3}


def make(**settings: Any) -> XGBoostRanker:
    own = {"rounds": 12, "learning_rate": 0.1, "max_depth": 3, "random_state": 3, "n_jobs": 1}
    return XGBoostRanker(**own | settings)


def train_directly(data: RankingData = TRAIN, weight: Any = None, **params: Any) -> Any:
    matrix = xgboost.DMatrix(data.X, data.y, group=data.sizes, weight=weight)
    return xgboost.train({**NATIVE, **params}, matrix, 12)


def ask(booster: Any, data: RankingData = VALID) -> Any:
    return booster.predict(xgboost.DMatrix(data.X))


WEIGHTS = "a pair weighs what its better row does; the same row twice makes more pairs"


@pytest.mark.filterwarnings("ignore::placings.core.errors.OneQuery")  # the checks know no queries
@parametrize_with_checks(
    [XGBoostRanker(rounds=5, n_jobs=1)],
    expected_failed_checks=lambda ranker: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
        "check_array_api_input": "scikit-learn skips it unless SCIPY_ARRAY_API is set",
    },
)
def test_what_scikit_learn_asks_of_an_estimator(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("objective", ["rank:ndcg", "rank:pairwise"])
def test_scores_are_those_of_xgboost_used_directly(objective: str) -> None:
    ours = make(objective=objective).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(ours, ask(train_directly(objective=objective)))


@pytest.mark.parametrize("method", ["exact", "approx"])
def test_other_ways_to_grow_trees_pass_through(method: str) -> None:
    ours = make(params={"tree_method": method}).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(ours, ask(train_directly(tree_method=method)))


def test_early_stopping_keeps_the_trees_that_xgboosts_own_would() -> None:
    matrix = xgboost.DMatrix(TRAIN.X, TRAIN.y, group=TRAIN.sizes)
    valid = xgboost.DMatrix(VALID.X, VALID.y, group=VALID.sizes)
    native = xgboost.train(
        {**NATIVE, "eval_metric": "ndcg@10"}, matrix, 100, evals=[(valid, "valid")], early_stopping_rounds=5,
        verbose_eval=False,
    )  # fmt: skip
    ours = make(rounds=100, early_stopping=5).fit(TRAIN, valid=VALID)
    assert ours.rounds_ == native.best_iteration + 1 < 95
    np.testing.assert_array_equal(
        ours.predict(VALID), native.predict(valid, iteration_range=(0, native.best_iteration + 1))
    )
    assert ours.history_[ours.rounds_ - 1] == max(ours.history_)
    best = np.nanmean(ndcg(ours.predict(VALID), VALID.y, VALID.offsets, k=10))
    assert max(ours.history_) == pytest.approx(best, abs=1e-5)  # XGBoost hands on five digits


def test_without_valid_or_patience_all_rounds_are_used() -> None:
    assert make().fit(TRAIN).rounds_ == 12
    assert make().fit(TRAIN).history_ == ()
    watched = make(early_stopping=None).fit(TRAIN, valid=VALID)
    assert (watched.rounds_, len(watched.history_)) == (12, 12)


def test_early_stopping_watches_any_metric_in_its_own_direction() -> None:
    ranker = make(metric="arp", early_stopping=3, rounds=60).fit(TRAIN, valid=VALID)
    assert ranker.history_[ranker.rounds_ - 1] == min(ranker.history_)


def test_a_metric_of_xgboosts_own_may_be_watched() -> None:
    ranker = make(params={"eval_metric": "ndcg@10"}, early_stopping=None).fit(TRAIN, valid=VALID)
    ours = make(early_stopping=None).fit(TRAIN, valid=VALID)
    assert np.argmax(ranker.history_) == np.argmax(ours.history_)


def test_fractions_and_large_grades_get_their_exact_gain() -> None:
    values = np.array([0.0, 0.5, 2.0, 32.0, 40.0])
    graded = TRAIN.replace(y=values[TRAIN.y.astype(int)])
    gains = TRAIN.replace(y=2.0**graded.y - 1)
    native = train_directly(gains, ndcg_exp_gain=False)
    np.testing.assert_array_equal(make().fit(graded).predict(VALID), ask(native))


def test_passing_gains_changes_nothing_where_xgboost_needs_none() -> None:
    gains = TRAIN.replace(y=2.0**TRAIN.y - 1)
    ours = make(params={"ndcg_exp_gain": False}).fit(gains)
    np.testing.assert_array_equal(ours.predict(VALID), ask(train_directly()))


def test_labels_whose_gain_is_no_number_are_refused() -> None:
    with pytest.raises(BadInput, match="label 200 is too large"):
        make().fit(TRAIN.replace(y=TRAIN.y * 50))


def test_rank_map_takes_0_and_1_only() -> None:
    with pytest.raises(BadInput, match="rank:map takes labels 0 and 1. Got "):
        make(objective="rank:map").fit(TRAIN)
    binary = TRAIN.replace(y=(TRAIN.y > 0).astype(float))
    ours = make(objective="rank:map").fit(binary).predict(VALID)
    np.testing.assert_array_equal(ours, ask(train_directly(binary, objective="rank:map")))


def test_weights_are_per_query() -> None:
    per_query = np.random.default_rng(1).uniform(0.5, 2.0, TRAIN.n_queries)
    weighted = TRAIN.replace(weight=np.repeat(per_query, TRAIN.sizes))
    np.testing.assert_array_equal(
        make().fit(weighted).predict(VALID), ask(train_directly(TRAIN, weight=per_query))
    )
    map_like = TRAIN.replace(y=(TRAIN.y > 0).astype(float), weight=np.arange(1.0, TRAIN.n_rows + 1))
    for settings, what in (
        ({"objective": "rank:map"}, "the objective rank:map"),
        ({"pair_method": "mean"}, "the pair method mean"),
        ({"params": {"objective": "reg:squarederror"}}, "the objective reg:squarederror"),
        ({"params": {"lambdarank_unbiased": True}}, "lambdarank_unbiased"),
    ):
        with pytest.raises(
            BadInput, match=f"XGBoost with {what} takes one weight for each query, but rows of query"
        ):
            make(**settings).fit(map_like)


def test_one_relevant_row_a_query_needs_weights_of_queries_only() -> None:
    rng = np.random.default_rng(1)
    first = np.zeros(TRAIN.n_rows)
    first[TRAIN.offsets[:-1] + rng.integers(0, TRAIN.sizes)] = 1.0
    per_query = rng.uniform(0.5, 2.0, TRAIN.n_queries)
    items = TRAIN.replace(y=first, weight=np.where(first > 0, np.repeat(per_query, TRAIN.sizes), 1.0))
    native = train_directly(items, weight=per_query)
    np.testing.assert_array_equal(make().fit(items).predict(VALID), ask(native))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pairs": 4},
        {"objective": "rank:pairwise"},
        {"params": {"lambdarank_normalization": False}},
        {"params": {"lambdarank_score_normalization": False}},
        {"params": {"ndcg_exp_gain": False}},
    ],
    ids=str,
)
def test_our_gradients_grow_the_trees_of_xgboosts_own(settings: dict[str, Any]) -> None:
    """Weights that differ by nothing to speak of: ours are taken, and XGBoost's scores come out."""
    almost = TRAIN.replace(weight=3.0 + 1e-9 * np.arange(TRAIN.n_rows))
    settings = {"rounds": 3, **settings}  # before two splits are tied
    ours, native = make(**settings).fit(almost).predict(VALID), make(**settings).fit(TRAIN).predict(VALID)
    shift = np.median(ours - native)  # the score of a row in no leaf says nothing
    np.testing.assert_allclose(ours - shift, native, rtol=1e-4, atol=1e-4)


def test_a_propensity_and_xgboosts_own_correction_exclude_each_other() -> None:
    known = TRAIN.replace(propensity=np.full(TRAIN.n_rows, 0.5))
    with pytest.raises(BadInput, match="both correct for position bias"):
        make(params={"lambdarank_unbiased": True}).fit(known)


def test_positions_order_the_rows_for_xgboosts_bias_correction() -> None:
    places = np.concatenate([np.arange(1, size + 1) for size in TRAIN.sizes])
    unbiased = {"lambdarank_unbiased": True, "lambdarank_num_pair_per_sample": 5}
    shown = TRAIN.replace(position=places)
    order = np.random.default_rng(0).permutation(TRAIN.n_rows)
    mixed = RankingData.from_arrays(
        TRAIN.X[order], TRAIN.y[order], TRAIN.query_index[order], position=places[order]
    )
    mixed = mixed[np.argsort(mixed.qids)].replace(feature_names=TRAIN.feature_names)
    first = make(params=unbiased).fit(shown).predict(VALID)
    np.testing.assert_array_equal(first, ask(train_directly(**unbiased)))
    np.testing.assert_array_equal(make(params=unbiased).fit(mixed).predict(VALID), first)


@pytest.mark.parametrize("cells", [32_000_000, 600])
def test_an_absent_value_is_zero_not_missing(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(xgb_data, "CELLS", cells)  # 600: parts of 100 rows
    X = np.where(np.random.default_rng(0).random(TRAIN.X.shape) < 0.4, 0, TRAIN.X).astype(np.float32)
    weight = np.repeat(np.random.default_rng(1).uniform(0.5, 2.0, TRAIN.n_queries), TRAIN.sizes)
    dense = TRAIN.replace(X=X, weight=weight)
    sparse = TRAIN.replace(X=csr_array(X), weight=weight)
    # in parts the bins are the same only while they hold every value: few of them here
    if cells == 600:
        X = np.where(np.isnan(X), X, np.clip(np.round(np.sign(X) * np.log1p(np.abs(X))), -9, 9))
        dense, sparse = dense.replace(X=X), sparse.replace(X=csr_array(X))
    ours, theirs = make().fit(dense), make().fit(sparse)
    np.testing.assert_array_equal(ours.predict(dense), theirs.predict(sparse))
    np.testing.assert_array_equal(ours.predict(sparse), ours.predict(dense))
    np.testing.assert_array_equal(ours.contributions(sparse), ours.contributions(dense))
    taken_for_missing = xgboost.DMatrix(csr_array(X))
    assert (ours.booster_.predict(taken_for_missing, validate_features=False) != ours.predict(dense)).any()


def test_threads_and_repetition_change_nothing() -> None:
    settings = {"subsample": 0.7, "colsample": 0.7}
    first = make(**settings).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(make(n_jobs=2, **settings).fit(TRAIN).predict(VALID), first)
    assert (make(random_state=4, **settings).fit(TRAIN).predict(VALID) != first).any()


@pytest.mark.parametrize("name", ["lambda", "reg_lambda"])
def test_params_win_under_any_of_xgboosts_names(name: str) -> None:
    ours = make(params={name: 50.0, "max_depth": 2}).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(ours, ask(train_directly(reg_lambda=50.0, max_depth=2)))


def test_what_depends_on_another_parameter_passes_through_with_it() -> None:
    assert make(params={"booster": "dart", "rate_drop": 0.1}).fit(TRAIN).rounds_ == 12
    assert make(params={"n_estimators": 4}).fit(TRAIN).rounds_ == 4


def test_unknown_names_are_refused_with_a_guess() -> None:
    with pytest.raises(UnknownName, match="'max_dept'; did you mean 'max_depth'"):
        make(params={"max_dept": 3}).fit(TRAIN)
    with pytest.raises(UnknownName, match="no objective .* 'ndcg'; did you mean 'rank:ndcg'"):
        make(objective="ndcg").fit(TRAIN)
    with pytest.raises(BadInput, match="XGBoost refused"):
        make(subsample=7.0).fit(TRAIN)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    ranker = make(verbose=True).fit(TRAIN, valid=VALID)
    ranker.contributions(VALID)
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_drawn_on_a_terminal_only_when_verbose(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    make(verbose=True).fit(TRAIN, valid=VALID)
    out, err = capsys.readouterr()
    assert out == ""
    assert "XGBoost" in err
    assert "12/12" in err


def test_clone_has_the_settings_and_nothing_learnt() -> None:
    ranker = make(params={"max_bin": 63}).fit(TRAIN)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert not hasattr(copy, "booster_")
    np.testing.assert_array_equal(copy.fit(TRAIN).predict(VALID), ranker.predict(VALID))


def test_importances_are_named_sorted_and_xgboosts_own() -> None:
    ranker, native = make().fit(TRAIN), train_directly()
    for kind, own in (("gain", "total_gain"), ("split", "weight")):
        found = ranker.feature_importances(kind)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        scores = native.get_score(importance_type=own)
        expected = {name: scores.get(f"f{i}", 0.0) for i, name in enumerate(TRAIN.feature_names)}
        assert found == pytest.approx(expected, rel=1e-5)
    assert ranker.feature_importances_.sum() == pytest.approx(1.0)


def test_contributions_add_up_to_the_score() -> None:
    ranker = make().fit(TRAIN)
    parts = ranker.contributions(VALID)
    assert parts.shape == (VALID.n_rows, 7)
    np.testing.assert_allclose(parts.sum(1), ranker.predict(VALID), atol=1e-5)


def test_weights_come_back_as_they_were() -> None:
    ranker = make(early_stopping=3).fit(TRAIN, valid=VALID)
    copy = make()
    copy.feature_names_, copy.n_features_in_ = ranker.feature_names_, 6
    copy._take_weights(ranker._give_weights())
    np.testing.assert_array_equal(copy._score(VALID.X), ranker.predict(VALID))
    assert copy._give_weights() == ranker._give_weights()
    copy.feature_names_ = ("one",)
    with pytest.raises(BadInput, match="has 6 features, but the ranker 1"):
        copy._take_weights(ranker._give_weights())


def test_names_that_xgboost_cannot_keep_are_kept_by_the_ranker() -> None:
    names = ("price [€]", "a<b", "c:d", "e", "f", "g")
    ranker = make().fit(TRAIN.replace(feature_names=names))
    assert set(ranker.feature_importances()) == set(names)
    assert sum(ranker.feature_importances("split").values()) > 0
    assert make().fit(TRAIN).booster_.feature_names == list(TRAIN.feature_names)


@pytest.mark.parametrize("ending", ["json", "ubj"])
def test_a_model_file_becomes_a_ranker_with_equal_scores(tmp_path: Path, ending: str) -> None:
    native = train_directly()
    native.save_model(tmp_path / f"m.{ending}")
    ranker = XGBoostRanker.from_model(tmp_path / f"m.{ending}")
    np.testing.assert_array_equal(ranker.predict(VALID.X), ask(native))
    assert ranker.feature_names_ == ("f1", "f2", "f3", "f4", "f5", "f6")
    assert (ranker.n_features_in_, ranker.rounds_, ranker.training_) == (6, 12, {})
    assert np.isnan(ranker.coverage_).all()
    named = make().fit(TRAIN)
    named.booster_.save_model(tmp_path / f"n.{ending}")
    assert XGBoostRanker.from_model(tmp_path / f"n.{ending}").feature_names_ == TRAIN.feature_names


def test_a_file_that_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    content = make().fit(TRAIN)._give_weights()["model.json"]
    for wrong in (b"hello", b'{"a": 1}', b"", content[: len(content) // 2]):
        path.write_bytes(wrong)
        with pytest.raises(BadFile, match=r"m.json: this is not an XGBoost model"):
            XGBoostRanker.from_model(path)
    labels = xgboost.DMatrix(TRAIN.X, TRAIN.y % 3)
    xgboost.train({"objective": "multi:softprob", "num_class": 3}, labels, 2).save_model(path)
    with pytest.raises(BadFile, match="several scores a row"):
        XGBoostRanker.from_model(path)


@pytest.mark.parametrize(
    ("array", "value", "problem"),
    [
        ("right_children", 0, "form no tree"),
        ("left_children", 9999, "form no tree"),
        ("split_indices", 77, "uses a feature that does not exist"),
    ],
)
def test_trees_that_would_lead_xgboost_astray_are_refused(array: str, value: int, problem: str) -> None:
    files = make(rounds=2).fit(TRAIN)._give_weights()
    model = json.loads(files["model.json"])
    model["learner"]["gradient_booster"]["model"]["trees"][1][array][0] = value
    with pytest.raises(BadInput, match=problem):
        make()._take_weights({"model.json": json.dumps(model).encode()})


def test_a_missing_library_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtra, match=r"XGBoostRanker needs xgboost.*placings\[trees\]"):
        make().fit(TRAIN)


def test_cross_validation_and_grid_search_pass_qid_on() -> None:
    X, y, qid = DATA.X, DATA.y, DATA.query_index
    with sklearn.config_context(enable_metadata_routing=True):
        folds = GroupKFold(3)
        values = cross_val_score(make(), X, y, cv=folds, params={"qid": qid, "groups": qid})
        search = GridSearchCV(make(), {"max_depth": [2, 3]}, cv=folds).fit(X, y, qid=qid, groups=qid)
    assert values.shape == (3,)
    assert np.isfinite(values).all()
    assert search.best_params_["max_depth"] in (2, 3)
