"""CatBoostRanker: CatBoost's own numbers, query ids and weights as it wants them, no files left behind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from placings.core.errors import BadInput, MissingExtra
from placings.data.ranking import RankingData
from placings.metrics import ndcg
from placings.rankers.cat import CatBoostRanker, list_pairs
from placings.rankers.click_weights import weigh_clicks
from placings.simulate.rankings import make_ranking

catboost = pytest.importorskip("catboost")

DATA = make_ranking(30, n_features=6, mean_size=20, missing=0.1, random_state=0).data
TRAIN, VALID = DATA.split(0.7, 0.3, random_state=0)
NATIVE = {
    "loss_function": "YetiRank", "iterations": 12, "learning_rate": 0.1, "depth": 3, "l2_leaf_reg": 3.0,
    "random_seed": 3, "logging_level": "Silent", "allow_writing_files": False, "thread_count": 1,
}  # fmt: skip


def make(**settings: Any) -> CatBoostRanker:
    own = {"rounds": 12, "learning_rate": 0.1, "depth": 3, "random_state": 3, "n_jobs": 1}
    return CatBoostRanker(**own | settings)


def train_directly(weight: Any = None, **params: Any) -> Any:
    pool = catboost.Pool(TRAIN.X, TRAIN.y, group_id=TRAIN.query_index, group_weight=weight)
    return catboost.CatBoost(NATIVE | params).fit(pool)


WEIGHTS = "a pair weighs what its better row does; the same row twice makes more pairs"


@pytest.mark.filterwarnings("ignore::placings.core.errors.OneQuery")  # the checks know no queries
@parametrize_with_checks(
    [CatBoostRanker(rounds=5, depth=3, n_jobs=1)],
    expected_failed_checks=lambda ranker: {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
        "check_array_api_input": "scikit-learn skips it unless SCIPY_ARRAY_API is set",
    },
)
def test_what_scikit_learn_asks_of_an_estimator(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("loss", ["YetiRank", "YetiRankPairwise", "QueryRMSE", "PairLogit", "QuerySoftMax"])
def test_scores_are_those_of_catboost_used_directly(loss: str) -> None:
    ours = make(loss=loss).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(ours, train_directly(loss_function=loss).predict(VALID.X))


def test_early_stopping_keeps_the_best_rounds_trees() -> None:
    pools = [catboost.Pool(data.X, data.y, group_id=data.query_index) for data in (TRAIN, VALID)]
    native = catboost.CatBoost(NATIVE | {"iterations": 200, "eval_metric": "NDCG:top=10;type=Exp"})
    native.fit(pools[0], eval_set=pools[1], early_stopping_rounds=5)
    ours = make(rounds=200, early_stopping=5).fit(TRAIN, valid=VALID)
    assert ours.rounds_ == native.tree_count_ < 195
    np.testing.assert_array_equal(ours.predict(VALID), native.predict(VALID.X))
    assert ours.history_[ours.rounds_ - 1] == max(ours.history_)
    values = ndcg(ours.predict(VALID), VALID.y, VALID.offsets, k=10, empty="one")
    assert max(ours.history_) == pytest.approx(values.mean(), abs=1e-9)  # CatBoost's rule for empty queries


def test_without_valid_or_patience_all_rounds_are_used() -> None:
    assert make().fit(TRAIN).rounds_ == 12
    assert make().fit(TRAIN).history_ == ()
    watched = make(early_stopping=None).fit(TRAIN, valid=VALID)
    assert (watched.rounds_, len(watched.history_)) == (12, 12)


@pytest.mark.parametrize("name", ["ndcg", "map@5", "mrr", "p@3", "recall@10"])
def test_metrics_that_catboost_computes_can_be_watched(name: str) -> None:
    assert len(make(metric=name).fit(TRAIN, valid=VALID).history_) > 0


def test_other_metrics_are_refused_with_those_that_work() -> None:
    with pytest.raises(BadInput, match="CatBoost can watch map, mrr, ndcg, p, recall. Got 'arp'"):
        make(metric="arp").fit(TRAIN, valid=VALID)
    with pytest.raises(BadInput, match="no query for which ndcg@10 is defined"):
        make().fit(TRAIN, valid=VALID.replace(y=np.zeros(VALID.n_rows)))


def test_weights_are_per_query() -> None:
    per_query = np.random.default_rng(1).uniform(0.5, 2.0, TRAIN.n_queries)
    weight = np.repeat(per_query, TRAIN.sizes)
    ours = make().fit(TRAIN.replace(weight=weight)).predict(VALID)
    np.testing.assert_array_equal(ours, train_directly(weight).predict(VALID.X))
    assert (ours != make().fit(TRAIN).predict(VALID)).any()
    with pytest.raises(
        BadInput, match="CatBoost's YetiRank takes one weight for each query, but rows of query"
    ):
        make().fit(TRAIN.replace(weight=np.arange(1.0, TRAIN.n_rows + 1)))


def test_one_relevant_row_a_query_needs_weights_of_queries_only() -> None:
    rng = np.random.default_rng(1)
    first = np.zeros(TRAIN.n_rows)
    first[TRAIN.offsets[:-1] + rng.integers(0, TRAIN.sizes)] = 1.0
    per_query = np.repeat(rng.uniform(0.5, 2.0, TRAIN.n_queries), TRAIN.sizes)
    items = TRAIN.replace(y=first, weight=np.where(first > 0, per_query, 1.0))
    queries = TRAIN.replace(y=first, weight=per_query)
    np.testing.assert_array_equal(make().fit(items).predict(VALID), make().fit(queries).predict(VALID))


@pytest.mark.parametrize("loss", ["QueryRMSE", "PairLogit"])
def test_weights_of_items_that_differ_by_nothing_change_nothing(loss: str) -> None:
    almost = TRAIN.replace(weight=1.0 + 1e-9 * np.arange(TRAIN.n_rows))
    plain = make(loss=loss).fit(TRAIN).predict(VALID)
    np.testing.assert_allclose(make(loss=loss).fit(almost).predict(VALID), plain, rtol=1e-4, atol=1e-4)


def test_a_propensity_multiplies_the_labels_of_a_softmax_which_takes_no_weights_of_items() -> None:
    propensity = np.random.default_rng(1).uniform(0.2, 1.0, TRAIN.n_rows)
    weights = weigh_clicks(TRAIN.y, propensity).weights
    found = make(loss="QuerySoftMax").fit(TRAIN.replace(propensity=propensity))
    by_hand = make(loss="QuerySoftMax").fit(TRAIN.replace(y=TRAIN.y * weights))
    np.testing.assert_array_equal(found.predict(VALID), by_hand.predict(VALID))
    with pytest.raises(BadInput, match="CatBoost's QuerySoftMax takes one weight for each query"):
        make(loss="QuerySoftMax").fit(TRAIN.replace(weight=weights))


def test_pairs_are_listed_with_the_weight_of_their_better_row() -> None:
    data = RankingData.from_arrays(
        np.zeros((5, 1)), [1, 0, 2, 0, 1], [1, 1, 1, 2, 2], weight=[3.0, 9.0, 4.0, 9.0, 5.0]
    )
    found = list_pairs(data)
    listed = zip(found["pairs"].tolist(), found["pairs_weight"].tolist(), strict=True)
    assert sorted((i, j, w) for (i, j), w in listed) == [(0, 1, 3.0), (2, 0, 4.0), (2, 1, 4.0), (4, 3, 5.0)]


def test_too_many_pairs_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placings.rankers.cat.MOST_PAIRS", 10)
    with pytest.raises(BadInput, match="every pair and its weight, 10 at most. These have"):
        make(loss="PairLogit").fit(TRAIN.replace(weight=np.arange(1.0, TRAIN.n_rows + 1)))


def test_sparse_and_dense_give_equal_scores_and_nan_stays_missing() -> None:
    X = np.where(np.random.default_rng(0).random(TRAIN.X.shape) < 0.4, 0, TRAIN.X).astype(np.float32)
    dense, sparse = TRAIN.replace(X=X), TRAIN.replace(X=csr_array(X))
    ours, theirs = make().fit(dense), make().fit(sparse)
    np.testing.assert_array_equal(ours.predict(dense), theirs.predict(sparse))
    np.testing.assert_array_equal(ours.predict(sparse), ours.predict(dense))
    np.testing.assert_allclose(ours.contributions(sparse), ours.contributions(dense), atol=1e-12)


def test_threads_and_repetition_change_nothing() -> None:
    first = make(rsm=0.7).fit(TRAIN).predict(VALID)
    np.testing.assert_array_equal(make(rsm=0.7, n_jobs=2).fit(TRAIN).predict(VALID), first)
    assert (make(rsm=0.7, random_state=4).fit(TRAIN).predict(VALID) != first).any()


@pytest.mark.parametrize("name", ["depth", "max_depth"])
def test_params_win_under_any_of_catboosts_names(name: str) -> None:
    ours = make(params={name: 2, "n_estimators": 7}).fit(TRAIN)
    assert ours.rounds_ == 7
    np.testing.assert_array_equal(ours.predict(VALID), train_directly(depth=2, iterations=7).predict(VALID.X))


def test_what_catboost_refuses_is_said_in_its_words() -> None:
    with pytest.raises(BadInput, match="CatBoost refused: Unknown option {dept}"):
        make(params={"dept": 3}).fit(TRAIN)
    with pytest.raises(BadInput, match="CatBoost refused: .*constant"):
        make().fit(RankingData.from_arrays(np.ones((4, 2)), [0, 1, 0, 1], [1] * 4))


def test_nothing_is_printed_and_nothing_written(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    make(verbose=True).fit(TRAIN, valid=VALID).contributions(VALID)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_a_bar_is_drawn_on_a_terminal_only_when_verbose(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    make(verbose=True).fit(TRAIN, valid=VALID)
    out, err = capsys.readouterr()
    assert out == ""
    assert "CatBoost" in err
    assert "12/12" in err


def test_clone_has_the_settings_and_nothing_learnt() -> None:
    ranker = make(params={"border_count": 63}).fit(TRAIN)
    copy = clone(ranker)
    assert copy.get_params() == ranker.get_params()
    assert not hasattr(copy, "booster_")
    np.testing.assert_array_equal(copy.fit(TRAIN).predict(VALID), ranker.predict(VALID))


def test_importances_are_named_and_sorted() -> None:
    ranker = make().fit(TRAIN)
    gain, split = ranker.feature_importances("gain"), ranker.feature_importances("split")
    assert sum(gain.values()) == pytest.approx(100.0)
    assert list(gain.values()) == sorted(gain.values(), reverse=True)
    own = train_directly().get_feature_importance(type="PredictionValuesChange")
    assert gain == pytest.approx(dict(zip(TRAIN.feature_names, own, strict=True)))
    assert 12 <= sum(split.values()) <= 12 * 3  # one a level of a symmetric tree
    assert set(split) == set(TRAIN.feature_names)


def test_splits_of_trees_that_are_not_symmetric_are_counted_by_node() -> None:
    ranker = make(params={"grow_policy": "Lossguide", "max_leaves": 5}).fit(TRAIN)
    assert sum(ranker.feature_importances("split").values()) == 12 * 4


def test_contributions_add_up_to_the_score() -> None:
    ranker = make().fit(TRAIN)
    parts = ranker.contributions(VALID)
    assert parts.shape == (VALID.n_rows, 7)
    np.testing.assert_allclose(parts.sum(1), ranker.predict(VALID), atol=1e-12)


def test_weights_come_back_as_they_were() -> None:
    ranker = make(early_stopping=3).fit(TRAIN, valid=VALID)
    copy = make()
    copy.feature_names_, copy.n_features_in_ = ranker.feature_names_, 6
    files = ranker._give_weights()
    copy._take_weights(files)
    np.testing.assert_array_equal(copy._score(VALID.X), ranker.predict(VALID))
    for wrong in (b"hello", files["model.cbm"][: len(files["model.cbm"]) // 2]):
        with pytest.raises(BadInput, match="this is not a CatBoost model"):
            copy._take_weights({"model.cbm": wrong})
    copy.feature_names_ = ("one",)
    with pytest.raises(BadInput, match="has 6 features, but the ranker 1"):
        copy._take_weights(files)


def test_a_missing_library_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(MissingExtra, match=r"CatBoostRanker needs catboost.*placings\[trees\]"):
        make().fit(TRAIN)


def test_cross_validation_passes_qid_on() -> None:
    qid = DATA.query_index
    with sklearn.config_context(enable_metadata_routing=True):
        values = cross_val_score(make(), DATA.X, DATA.y, cv=GroupKFold(3), params={"qid": qid, "groups": qid})
    assert np.isfinite(values).all()
