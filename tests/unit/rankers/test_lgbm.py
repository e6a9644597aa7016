"""LightGBMRanker: LightGBM's own numbers, its limits met, its model files taken and given."""

from __future__ import annotations

import doctest
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from placings.core.errors import BadFile, BadInput, MissingExtra, PlacingsWarning, UnknownName
from placings.data.ranking import RankingData
from placings.metrics import ndcg
from placings.rankers.bundles import load
from placings.rankers.catalogue import make_ranker
from placings.rankers.lgbm import BadModel, LightGBMRanker, check_model
from placings.simulate.rankings import make_ranking

lightgbm = pytest.importorskip("lightgbm")

DATA = make_ranking(30, n_features=6, mean_size=20, missing=0.1, random_state=0).data
TRAIN, VALID = DATA.split(0.7, 0.3, random_state=0)
NATIVE = {"objective": "lambdarank", "learning_rate": 0.1, "verbosity": -1, "deterministic": True, "seed": 3}


def make(**settings: Any) -> LightGBMRanker:
    own = {"rounds": 12, "learning_rate": 0.1, "leaves": 31, "min_data_in_leaf": 20, "feature_fraction": 1.0}
    return LightGBMRanker(**own | {"random_state": 3, "n_jobs": 1} | settings)


def train_directly(data: RankingData = TRAIN, **params: Any) -> Any:
    dataset = lightgbm.Dataset(data.X, data.y, group=data.sizes, weight=data.weight, position=data.position)
    return lightgbm.train({**NATIVE, "force_row_wise": True, **params}, dataset, 12)


WEIGHTS = "a pair weighs what its better row does; the same row twice makes more pairs"


@pytest.mark.filterwarnings("ignore::placings.core.errors.OneQuery")  # the checks know no queries
@parametrize_with_checks(
    [LightGBMRanker(rounds=5, min_data_in_leaf=1, n_jobs=1)],
    expected_failed_checks=lambda ranker: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
        "check_array_api_input": "scikit-learn skips it unless SCIPY_ARRAY_API is set",
    },
)
def test_what_scikit_learn_asks_of_an_estimator(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_scores_are_those_of_lightgbm_used_directly(objective: str) -> None:
    ours = make(objective=objective).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(ours, train_directly(objective=objective).predict(VALID.X))


def test_early_stopping_keeps_the_trees_that_lightgbms_own_would() -> None:
    dataset = lightgbm.Dataset(TRAIN.X, TRAIN.y, group=TRAIN.sizes)
    valid = lightgbm.Dataset(VALID.X, VALID.y, group=VALID.sizes, reference=dataset)
    native = lightgbm.train(
        {**NATIVE, "force_row_wise": True, "metric": "ndcg", "eval_at": [10]}, dataset, 100,
        valid_sets=[valid],
        callbacks=[lightgbm.early_stopping(5, verbose=False)],
    )  # fmt: skip
    ours = make(rounds=100, early_stopping=5).fit(TRAIN, valid=VALID)
    assert ours.rounds_ == native.best_iteration < 95
    np.testing.assert_array_equal(ours.predict(VALID), native.predict(VALID.X))
    assert ours.history_[ours.rounds_ - 1] == max(ours.history_)
    assert len(ours.history_) == ours.rounds_ + 5
    best = np.nanmean(ndcg(ours.predict(VALID), VALID.y, VALID.offsets, k=10))
    assert max(ours.history_) == pytest.approx(best, abs=1e-12)


def test_without_valid_or_patience_all_rounds_are_used() -> None:
    assert make().fit(TRAIN).rounds_ == 12
    assert make().fit(TRAIN).history_ == ()
    watched = make(early_stopping=None).fit(TRAIN, valid=VALID)
    assert (watched.rounds_, len(watched.history_)) == (12, 12)


def test_early_stopping_watches_any_metric_in_its_own_direction() -> None:
    ranker = make(metric="arp", early_stopping=3, rounds=60).fit(TRAIN, valid=VALID)
    assert ranker.history_[ranker.rounds_ - 1] == min(ranker.history_)


def test_a_valid_set_with_nothing_relevant_is_refused() -> None:
    with pytest.raises(BadInput, match="no query for which ndcg@10 is defined"):
        make().fit(TRAIN, valid=VALID.replace(y=np.zeros(VALID.n_rows)))


def test_fractions_and_large_grades_get_their_exact_gain() -> None:
    codes = {0.0: 0, 0.5: 1, 2.0: 2, 31.0: 3, 40.0: 4}
    values = np.array(list(codes))
    graded = TRAIN.replace(y=values[TRAIN.y.astype(int)])
    native = train_directly(TRAIN, label_gain=(2.0**values - 1).tolist())  # TRAIN.y are codes 0 to 4
    np.testing.assert_array_equal(make().fit(graded).predict(VALID), native.predict(VALID.X))


def test_coding_labels_changes_nothing_where_lightgbm_needs_no_code() -> None:
    native = train_directly(TRAIN)
    gains = make(params={"label_gain": [0, 1, 3, 7, 15]}).fit(TRAIN)
    np.testing.assert_array_equal(gains.predict(VALID), native.predict(VALID.X))


def test_labels_whose_gain_is_no_number_are_refused() -> None:
    with pytest.raises(BadInput, match="label 2000 is too large"):
        make().fit(TRAIN.replace(y=TRAIN.y * 500))


def test_rank_xendcg_refuses_fractions_and_takes_large_grades() -> None:
    with pytest.raises(BadInput, match="cut fractional labels"):
        make(objective="rank_xendcg").fit(TRAIN.replace(y=TRAIN.y / 2))
    assert np.isfinite(make(objective="rank_xendcg").fit(TRAIN.replace(y=TRAIN.y * 10)).predict(VALID)).all()


def test_a_query_of_more_than_10000_rows_is_named_with_a_way_out() -> None:
    X = np.random.default_rng(0).normal(size=(10_003, 2)).astype(np.float32)
    data = RankingData.from_arrays(X, np.arange(10_003) % 2, ["small"] * 2 + ["paris"] * 10_001)
    with pytest.raises(BadInput, match="Query 'paris' has 10,001.*rank_xendcg"):
        make().fit(data)
    assert make(objective="rank_xendcg", rounds=2).fit(data).rounds_ == 2


def test_positions_reach_the_bias_correction_unless_it_is_off() -> None:
    places = np.concatenate([np.arange(1, size + 1) for size in TRAIN.sizes])
    shown = TRAIN.replace(position=places)
    np.testing.assert_array_equal(make().fit(shown).predict(VALID), train_directly(shown).predict(VALID.X))
    plain = make().fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(make(debias=False).fit(shown).predict(VALID), plain)
    assert (make().fit(shown).predict(VALID) != plain).any()


def test_a_weight_of_a_query_is_lightgbms_own() -> None:
    per_query = np.random.default_rng(1).uniform(0.5, 2.0, TRAIN.n_queries)
    weighted = TRAIN.replace(weight=np.repeat(per_query, TRAIN.sizes))
    native = train_directly(weighted)
    np.testing.assert_array_equal(make().fit(weighted).predict(VALID), native.predict(VALID.X))


def test_weights_of_classes_scale_rows_as_lightgbm_has_it() -> None:
    weighted = TRAIN.replace(weight=np.where(TRAIN.y > 0, 10.0, 1.0))
    native = train_directly(weighted)
    np.testing.assert_array_equal(make().fit(weighted).predict(VALID), native.predict(VALID.X))


def test_one_relevant_row_a_query_needs_weights_of_queries_only() -> None:
    rng = np.random.default_rng(1)
    first = np.zeros(TRAIN.n_rows)
    first[TRAIN.offsets[:-1] + rng.integers(0, TRAIN.sizes)] = 1.0
    per_query = rng.uniform(0.5, 2.0, TRAIN.n_queries)
    items = TRAIN.replace(y=first, weight=np.where(first > 0, np.repeat(per_query, TRAIN.sizes), 1.0))
    native = train_directly(items.replace(weight=np.repeat(per_query, TRAIN.sizes)))
    np.testing.assert_array_equal(make().fit(items).predict(VALID), native.predict(VALID.X))


@pytest.mark.parametrize("params", [{}, {"lambdarank_norm": False, "sigmoid": 2.0}])
@pytest.mark.parametrize("level", [None, 5])
def test_our_gradients_grow_the_trees_of_lightgbms_own(level: int | None, params: dict[str, Any]) -> None:
    """Weights that differ by nothing to speak of: ours are taken, and LightGBM's scores come out."""
    almost = TRAIN.replace(weight=1.0 + 1e-9 * np.arange(TRAIN.n_rows))
    settings = {
        "rounds": 2,
        "lambdarank_truncation_level": level,
        "params": params,
    }  # before two splits are tied
    ours, native = make(**settings).fit(almost), make(**settings).fit(TRAIN)
    assert "objective=lambdarank" not in ours._give_weights()["model.txt"].decode()
    # LightGBM looks its sigmoid up in a table of 2^20 steps, and gradients are float32: 1e-4 of a score
    np.testing.assert_allclose(ours.predict(VALID), native.predict(VALID), rtol=1e-4, atol=1e-4)


def test_coded_labels_keep_their_gains_under_our_gradients() -> None:
    almost = TRAIN.replace(y=TRAIN.y / 2.0, weight=1.0 + 1e-9 * np.arange(TRAIN.n_rows))
    native = make(rounds=2, leaves=4).fit(almost.replace(weight=None)).predict(VALID)
    np.testing.assert_allclose(
        make(rounds=2, leaves=4).fit(almost).predict(VALID), native, rtol=1e-4, atol=1e-4
    )


def test_the_weight_of_a_row_that_is_never_the_better_one_says_nothing() -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2.0, TRAIN.n_rows)
    lowest = np.repeat(np.minimum.reduceat(TRAIN.y, TRAIN.offsets[:-1]), TRAIN.sizes) == TRAIN.y
    one, two = (TRAIN.replace(weight=np.where(lowest, each, weight)) for each in (1.0, 50.0))
    np.testing.assert_array_equal(make().fit(one).predict(VALID), make().fit(two).predict(VALID))


@pytest.mark.parametrize("objective", ["lambdarank", "rank_xendcg"])
def test_weights_of_items_are_repeated_to_the_bit_and_stop_early(objective: str) -> None:
    weight = np.random.default_rng(1).uniform(0.5, 2.0, TRAIN.n_rows)
    data = TRAIN.replace(weight=weight)
    first = make(objective=objective, rounds=12, early_stopping=5).fit(data, valid=VALID)
    again = make(objective=objective, rounds=12, early_stopping=5, n_jobs=2).fit(data, valid=VALID)
    np.testing.assert_array_equal(first.predict(VALID), again.predict(VALID))
    assert len(first.history_) >= first.rounds_
    plain = make(objective=objective, rounds=12, early_stopping=5).fit(TRAIN, valid=VALID)
    found, expected = (
        np.nanmean(ndcg(each.predict(VALID), VALID.y, VALID.offsets, k=10)) for each in (first, plain)
    )
    assert found == pytest.approx(expected, abs=0.06)  # 9 queries; weights from ½ to 2 that mean nothing


def test_a_propensity_takes_the_place_of_lightgbms_own_correction() -> None:
    places = np.concatenate([np.arange(1, size + 1) for size in TRAIN.sizes])
    clicks = TRAIN.replace(y=(TRAIN.y > 1).astype(float), position=places)
    known = clicks.replace(propensity=1.0 / places)
    without = known.replace(position=None)
    np.testing.assert_array_equal(make().fit(known).predict(VALID), make().fit(without).predict(VALID))
    weight = np.random.default_rng(1).uniform(0.5, 2.0, TRAIN.n_rows)
    with pytest.warns(PlacingsWarning, match="so positions are not used"):
        make().fit(clicks.replace(weight=weight))


def test_sparse_and_dense_give_equal_scores_and_nan_stays_missing() -> None:
    X = np.where(np.random.default_rng(0).random(TRAIN.X.shape) < 0.4, 0, TRAIN.X).astype(np.float32)
    dense = TRAIN.replace(X=X)
    sparse = TRAIN.replace(X=csr_array(X))
    ours, theirs = make().fit(dense), make().fit(sparse)
    np.testing.assert_array_equal(ours.predict(dense), theirs.predict(sparse))
    np.testing.assert_array_equal(ours.predict(sparse), ours.predict(dense))
    np.testing.assert_array_equal(ours.contributions(sparse), ours.contributions(dense))


def test_threads_and_repetition_change_nothing() -> None:
    settings = {"bagging_fraction": 0.7, "feature_fraction": 0.7}
    first = make(**settings).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(make(n_jobs=2, **settings).fit(TRAIN).predict(VALID), first)
    assert (make(random_state=4, **settings).fit(TRAIN).predict(VALID) != first).any()


@pytest.mark.parametrize("name", ["num_leaves", "max_leaf", "max_leaves"])
def test_params_win_under_any_of_lightgbms_names(name: str) -> None:
    ours = make(leaves=31, params={name: 3}).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(ours, train_directly(num_leaves=3).predict(VALID.X))


def test_rounds_and_patience_may_come_as_params() -> None:
    assert make(params={"n_estimators": 4}).fit(TRAIN).rounds_ == 4
    ranker = make(rounds=100, params={"early_stopping_round": 2}).fit(TRAIN, valid=VALID)
    assert len(ranker.history_) == ranker.rounds_ + 2


def test_a_metric_of_lightgbms_own_may_be_watched() -> None:
    ranker = make(params={"metric": "map", "eval_at": [5]}).fit(TRAIN, valid=VALID)
    assert len(ranker.history_) > 0


def test_a_leaf_needs_a_twentieth_of_few_rows_and_50_of_many() -> None:
    assert TRAIN.n_rows // 20 == 21
    ours = make(min_data_in_leaf=None).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(ours, train_directly(min_data_in_leaf=21).predict(VALID.X))
    few = RankingData.from_arrays(np.arange(8.0)[:, None], [0, 0, 0, 0, 1, 1, 1, 1], [1] * 8)
    assert np.ptp(LightGBMRanker(rounds=2, n_jobs=1).fit(few).predict(few)) > 0
    many = LightGBMRanker()._collect(lightgbm, 100_000)[0]
    assert many["min_data_in_leaf"] == 50


def test_unknown_names_are_refused_with_a_guess() -> None:
    with pytest.raises(UnknownName, match="no LightGBM parameter 'num_leafs'; did you mean 'num_leaf'"):
        make(params={"num_leafs": 3}).fit(TRAIN)
    with pytest.raises(UnknownName, match="no objective .* 'lambdamart'"):
        make(objective="lambdamart").fit(TRAIN)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rounds": 0}, "rounds must be a whole number of 1 or more. Got 0."),
        ({"early_stopping": 0}, "early_stopping must be a number of rounds"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"params": {"bagging_fraction": 7}}, "LightGBM refused"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], message: str, capfd: Any) -> None:
    with pytest.raises(BadInput, match=message):
        make(**settings).fit(TRAIN)


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    ranker = make(verbose=True).fit(TRAIN, valid=VALID)
    ranker.contributions(VALID)
    constant = RankingData.from_arrays(np.ones((8, 2)), [0, 1] * 4, [1] * 8)
    assert len(set(make().fit(constant).predict(constant))) == 1
    assert capfd.readouterr() == ("", "")


def test_a_bar_is_drawn_on_a_terminal_only_when_verbose(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    make(verbose=False).fit(TRAIN)
    assert capsys.readouterr() == ("", "")
    make(verbose=True).fit(TRAIN, valid=VALID)
    out, err = capsys.readouterr()
    assert out == ""
    assert "LightGBM" in err
    assert "12/12" in err


def test_clone_has_the_settings_and_nothing_learnt() -> None:
    ranker = make(params={"max_bin": 63}).fit(TRAIN)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert not hasattr(copy, "booster_")
    np.testing.assert_array_equal(copy.fit(TRAIN).predict(VALID), ranker.predict(VALID))


def test_importances_are_named_sorted_and_lightgbms_own() -> None:
    ranker, native = make().fit(TRAIN), train_directly()
    for kind in ("gain", "split"):
        found = ranker.feature_importances(kind)
        assert list(found.values()) == sorted(found.values(), reverse=True)
        own = dict(zip(TRAIN.feature_names, native.feature_importance(kind), strict=True))
        assert found == pytest.approx(own, rel=1e-4)
    assert ranker.feature_importances_.sum() == pytest.approx(1.0)
    assert not hasattr(make(), "feature_importances_")
    with pytest.raises(UnknownName, match="no kind of importance 'cover'"):
        ranker.feature_importances("cover")


def test_contributions_add_up_to_the_score() -> None:
    ranker = make().fit(TRAIN)
    parts = ranker.contributions(VALID)
    assert parts.shape == (VALID.n_rows, 7)
    np.testing.assert_allclose(parts.sum(1), ranker.predict(VALID), atol=1e-12)


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


def test_names_that_lightgbm_cannot_keep_are_kept_by_the_ranker() -> None:
    names = ('price ["€"]', "a b", "c:d", "e", "f", "g")
    data = TRAIN.replace(feature_names=names)
    ranker = make().fit(data)
    assert set(ranker.feature_importances()) == set(names)
    np.testing.assert_array_equal(ranker.predict(data), make().fit(TRAIN).predict(TRAIN))


def test_a_model_file_becomes_a_ranker_with_equal_scores(tmp_path: Path) -> None:
    native = train_directly()
    native.save_model(tmp_path / "m.txt")
    ranker = LightGBMRanker.from_model(tmp_path / "m.txt")
    np.testing.assert_array_equal(ranker.predict(VALID.X), native.predict(VALID.X))
    assert ranker.feature_names_ == tuple(f"Column_{place}" for place in range(6))
    assert (ranker.n_features_in_, ranker.rounds_, ranker.training_) == (6, 12, {})
    assert np.isnan(ranker.coverage_).all()
    assert ranker._sample.shape == (16, 6)
    assert make().fit(TRAIN).booster_.feature_name() == list(TRAIN.feature_names)


def test_a_file_that_is_no_model_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.txt"
    path.write_text("hello")
    with pytest.raises(BadFile, match=r"m.txt: this is not a LightGBM text model: it does not begin"):
        LightGBMRanker.from_model(path)
    data = lightgbm.Dataset(TRAIN.X, TRAIN.y % 3)
    several = lightgbm.train({"objective": "multiclass", "num_class": 3, "verbosity": -1}, data, 2)
    several.save_model(path)
    with pytest.raises(BadFile, match="several scores a row"):
        LightGBMRanker.from_model(path)


def test_no_truncation_reaches_lightgbm_which_would_end_the_process() -> None:
    text = make(rounds=3).fit(TRAIN)._give_weights()["model.txt"]
    assert check_model(text) == 6
    end = text.index(b"end of trees")
    for length in range(0, end, 7):
        with pytest.raises(BadModel):
            check_model(text[:length])


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (b"left_child=", b"left_child=7", "form no tree"),
        (b"split_feature=", b"split_feature=9", "feature that does not exist"),
        (b"num_leaves=", b"num_leaves=1", "must have"),
        (b"leaf_value=", b"leaf_value=x", "not numbers"),
        (b"shrinkage=0.", b"shrinkage=.", "not numbers"),
        (b"[num_leaves: ", b"[num_leaves ", "among its parameters is a line"),
        (b"max_feature_idx=5", b"max_feature_idx=6", "does not name its 7 features"),
    ],
)
def test_a_tree_that_is_none_is_refused(old: bytes, new: bytes, problem: str) -> None:
    text = make(rounds=2, leaves=4).fit(TRAIN)._give_weights()["model.txt"]
    head, _, body = text.partition(b"end of trees")[0].partition(b"Tree=0")
    assert b"tree_sizes=" in head
    changed = text.replace(old, new, 1)
    size = int(head.split(b"tree_sizes=")[1].split()[0])
    if old in body:
        changed = changed.replace(b"tree_sizes=%d" % size, b"tree_sizes=%d" % (size + len(new) - len(old)), 1)
    with pytest.raises(BadModel, match=problem):
        check_model(changed)


def test_no_damage_reaches_lightgbm_which_would_end_the_process() -> None:
    text = make(rounds=2, leaves=4).fit(TRAIN)._give_weights()["model.txt"]
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        place, length = int(rng.integers(len(text))), int(rng.integers(1, 20))
        damaged = (
            text[:place] + bytes(rng.integers(0, 256, length % 3, dtype=np.uint8)) + text[place + length :]
        )
        ranker = make()
        try:
            ranker._take_weights({"model.txt": damaged})
        except BadInput:
            refused += 1
        else:
            ranker._score(np.zeros((2, ranker.booster_.num_feature()), dtype=np.float32))
    assert refused > 200


@pytest.mark.parametrize(
    "params", [{"linear_tree": True}, {"categorical_feature": [0], "min_data_per_group": 1}]
)
def test_trees_of_other_shapes_pass_through_and_load(params: dict[str, Any]) -> None:
    X = np.where(np.arange(6) == 0, np.nan_to_num(TRAIN.X[:, :1]) % 7 // 1, np.nan_to_num(TRAIN.X))
    data = TRAIN.replace(X=X.astype(np.float32))
    ranker = make(params=params | {"cat_smooth": 1}).fit(data)
    text = ranker._give_weights()["model.txt"]
    assert check_model(text) == 6
    assert (b"is_linear=1" in text) == ("linear_tree" in params)
    assert (b"cat_threshold=" in text) == ("categorical_feature" in params)


def test_a_missing_library_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(MissingExtra, match=r"LightGBMRanker needs lightgbm.*placings\[trees\]"):
        make().fit(TRAIN)


def test_cross_validation_and_grid_search_pass_qid_on() -> None:
    X, y, qid = DATA.X, DATA.y, DATA.query_index
    with sklearn.config_context(enable_metadata_routing=True):
        folds = GroupKFold(3)
        params = {"qid": qid, "groups": qid}
        values = cross_val_score(make(), X, y, cv=folds, params=params)
        search = GridSearchCV(make(), {"leaves": [3, 7]}, cv=folds).fit(X, y, qid=qid, groups=qid)
    by_hand = []
    for train, test in folds.split(X, y, qid):
        ranker = make().fit(X[train], y[train], qid=qid[train])
        by_hand.append(ranker.score(X[test], y[test], qid=qid[test]))
    assert values.tolist() == by_hand
    assert search.best_params_["leaves"] in (3, 7)
    np.testing.assert_array_equal(
        search.predict(X), make(**search.best_params_).fit(X, y, qid=qid).predict(X)
    )


def test_lightgbms_own_ranker_fails_where_ours_works(capfd: pytest.CaptureFixture[str]) -> None:
    X, y, qid = DATA.X, DATA.y, DATA.query_index
    own = lightgbm.LGBMRanker(n_estimators=2, verbosity=-1)
    how = {"cv": GroupKFold(3), "scoring": lambda ranker, X, y: 0.0, "error_score": "raise"}
    with sklearn.config_context(enable_metadata_routing=True):
        with pytest.raises(TypeError, match="qid"):
            cross_val_score(own, X, y, params={"qid": qid, "groups": qid}, **how)
        with pytest.raises(lightgbm.basic.LightGBMError, match="(?i)sum of query counts"):
            cross_val_score(
                own.set_fit_request(group=True), X, y, params={"group": DATA.sizes, "groups": qid}, **how
            )
    with pytest.raises(ValueError, match="Should set group"):
        cross_val_score(own, X, y, groups=qid, **how)


@pytest.mark.parametrize("name", ["boosting", "lgbm", "xgb", "cat", "original"])
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    found = doctest.testmod(import_module(f"placings.rankers.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_a_bundle_brings_the_ranker_back_as_it_was(name: str, tmp_path: Path) -> None:
    ranker = make_ranker(name, rounds=5, n_jobs=1, random_state=1).fit(TRAIN, valid=VALID)
    digest = ranker.save(tmp_path / "model")
    copy = load(tmp_path / "model", digest=digest)
    np.testing.assert_array_equal(copy.predict(VALID), ranker.predict(VALID))
    np.testing.assert_array_equal(copy.contributions(VALID), ranker.contributions(VALID))
    assert copy.feature_importances() == ranker.feature_importances()
    assert copy.get_params() == ranker.get_params()


def test_an_adopted_model_can_be_saved(tmp_path: Path) -> None:
    train_directly().save_model(tmp_path / "m.txt")
    ranker = LightGBMRanker.from_model(tmp_path / "m.txt")
    ranker.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(VALID.X), ranker.predict(VALID.X))


def test_the_examples_of_the_page_run() -> None:
    page = Path(__file__).parents[3] / "docs" / "trees.md"
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    found = doctest.testfile(str(page), module_relative=False, optionflags=flags, encoding="utf-8")
    assert found.attempted > 10
    assert found.failed == 0
