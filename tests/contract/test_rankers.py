"""Every ranker through the same demands, on one small, obvious data set."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from placings.core.errors import BadBundle, BadInput, OneQuery, PlacingsError, PlacingsWarning
from placings.data.ranking import RankingData
from placings.metrics import ndcg
from placings.rankers.bundles import load
from placings.rankers.catalogue import CLASSES, RANKERS, find_class, find_familiar, make_ranker
from placings.rankers.click_weights import weigh_clicks
from placings.rankers.estimator import Ranker

# A row at another place, or in another layout, may meet another kernel of BLAS: float32 in the networks.
ROUNDING = {"rtol": 1e-6, "atol": 1e-6}


def learns(ranker: Ranker) -> bool:
    """OriginalOrder keeps rows as they come: nothing to fit, and an array's places count through."""
    return type(ranker).facts.learns


def make_quick(name: str) -> Ranker:
    """A ranker with the settings under which its class says that it is fitted in a moment."""
    return make_ranker(name, **find_class(RANKERS[name].class_name).facts.quick)


def make_data(queries: int = 30, seed: int = 0) -> RankingData:
    """Ten rows a query; the label grows with the first feature, the second is noise, the third constant."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=queries * 10), rng.normal(size=queries * 10), np.ones(queries * 10)])
    y = np.clip(np.floor(X[:, 0] + 1.5), 0, 3)
    return RankingData.from_arrays(
        X, y, np.repeat(np.arange(queries), 10), feature_names=["signal", "noise", "constant"]
    )


@pytest.fixture(scope="module")
def train() -> RankingData:
    return make_data(30, 0)


@pytest.fixture(scope="module")
def test() -> RankingData:
    return make_data(20, 1)


@pytest.fixture(scope="module", params=RANKERS)
def fitted(request: pytest.FixtureRequest, train: RankingData) -> Ranker:
    return make_quick(request.param).fit(train)


def test_a_line_of_the_catalogue_leads_to_its_class() -> None:
    for name, line in RANKERS.items():
        found = find_class(line.class_name)
        assert (found.__name__, found.__module__) == (line.class_name, line.module), name
        assert set(line.settings) | set(found.facts.quick) <= set(found._get_param_names()), name


def test_a_ranker_learns_the_obvious(fitted: Ranker, test: RankingData) -> None:
    if learns(fitted):
        assert np.nanmean(ndcg(fitted.predict(test), test.y, test.offsets, k=10)) > 0.95


def test_a_ranker_takes_arrays_and_ranking_data_alike(
    fitted: Ranker, train: RankingData, test: RankingData
) -> None:
    arrays = clone(fitted).fit(np.asarray(train.X), train.y, qid=train.qid)
    if learns(fitted):
        np.testing.assert_allclose(arrays.predict(np.asarray(test.X)), fitted.predict(test), atol=1e-9)
    assert fitted.predict(test).dtype == np.float64
    assert fitted.predict(test).shape == (test.n_rows,)


def test_scores_come_in_the_order_of_the_rows(fitted: Ranker, test: RankingData) -> None:
    if not learns(fitted):
        return
    shuffled = np.random.default_rng(0).permutation(test.n_rows)
    X = np.asarray(test.X)
    np.testing.assert_allclose(fitted.predict(X[shuffled]), fitted.predict(X)[shuffled], **ROUNDING)


def test_the_order_of_queries_and_their_names_change_nothing(
    fitted: Ranker, train: RankingData, test: RankingData
) -> None:
    if not learns(fitted):
        return
    renamed = RankingData.from_arrays(
        np.asarray(train.X), train.y, [f"query {q}" for q in train.qid], feature_names=train.feature_names
    )
    np.testing.assert_allclose(clone(fitted).fit(renamed).predict(test), fitted.predict(test), atol=1e-9)


def test_the_same_seed_gives_the_same_bits(fitted: Ranker, train: RankingData, test: RankingData) -> None:
    np.testing.assert_array_equal(clone(fitted).fit(train).predict(test), fitted.predict(test))


def test_fitting_never_changes_its_input(fitted: Ranker, train: RankingData) -> None:
    X, y, qid = np.array(train.X), np.array(train.y), np.array(train.qid)
    clone(fitted).fit(X, y, qid=qid)
    np.testing.assert_array_equal(X, np.asarray(train.X))
    np.testing.assert_array_equal(y, train.y)


def test_settings_survive_a_clone(fitted: Ranker) -> None:
    assert clone(fitted).get_params() == fitted.get_params()


def test_features_are_matched_by_name(fitted: Ranker, test: RankingData) -> None:
    if not learns(fitted):
        return
    turned = test.select(["constant", "noise", "signal"])
    np.testing.assert_allclose(fitted.predict(turned), fitted.predict(test), **ROUNDING)
    with pytest.raises(BadInput, match="the data lack 1: 'noise'"):
        fitted.predict(test.select(["signal", "constant"]))


def test_a_missing_value_still_gets_a_score(fitted: Ranker, test: RankingData) -> None:
    X = np.array(test.X)
    X[::3, 0] = np.nan
    assert np.isfinite(fitted.predict(X)).all()


def test_missing_values_in_training_are_no_trouble(fitted: Ranker, train: RankingData) -> None:
    X = np.array(train.X)
    X[::4, 0] = np.nan
    X[:, 1] = np.nan
    ranker = clone(fitted).fit(X, train.y, qid=train.qid)
    assert np.isfinite(ranker.predict(X)).all()


def test_huge_values_are_scored_and_infinite_ones_refused(fitted: Ranker, test: RankingData) -> None:
    X = np.array(test.X)
    X[0, 0], X[1, 0] = 1e30, -1e30
    assert np.isfinite(fitted.predict(X)).all()
    X[0, 0] = np.inf
    with pytest.raises(ValueError, match="(?i)inf"):
        fitted.predict(X)


def test_one_query_one_row_equal_labels_and_constant_features_are_no_trouble(fitted: Ranker) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    for y, qid in (
        (np.arange(12) % 3, None),
        (np.arange(12) % 3, np.arange(12)),
        (np.ones(12), np.repeat([1, 2], 6)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", PlacingsWarning
            )  # a ranker may say that there is nothing to learn
            if type(fitted).__name__ == "CatBoostRanker" and len(set(y)) == 1:
                with pytest.raises(BadInput, match="(?i)targets are equal"):  # CatBoost's own word
                    clone(fitted).fit(X, y, qid=qid)
                continue
            ranker = clone(fitted).fit(X, y, qid=qid)
        assert np.isfinite(ranker.predict(X)).all()


def test_an_empty_query_list_can_be_scored_but_not_learned_from(fitted: Ranker, test: RankingData) -> None:
    assert fitted.predict(test[[]]).shape == (0,)
    with pytest.raises(ValueError, match="at least one row|minimum of 1|0 sample"):
        clone(fitted).fit(test[[]])


def test_fractional_labels_are_grades(fitted: Ranker, train: RankingData, test: RankingData) -> None:
    ranker = clone(fitted).fit(train.replace(y=train.y / 3.0))
    assert np.isfinite(ranker.predict(test)).all()
    if learns(fitted):
        assert np.nanmean(ndcg(ranker.predict(test), test.y, test.offsets, k=10)) > 0.9


def test_sparse_and_dense_rows_are_the_same_rows(
    fitted: Ranker, train: RankingData, test: RankingData
) -> None:
    rng = np.random.default_rng(0)
    holes = np.where(rng.random(train.X.shape) < 0.5, 0, np.asarray(train.X))
    dense = clone(fitted).fit(holes, train.y, qid=train.qid)
    sparse = clone(fitted).fit(csr_array(holes), train.y, qid=train.qid)
    X = np.where(rng.random(test.X.shape) < 0.5, 0, np.asarray(test.X))
    np.testing.assert_allclose(dense.predict(csr_array(X)), dense.predict(X), rtol=1e-6, atol=1e-6)
    if fitted.__class__.__name__ != "LinearRanker":  # which scales sparse columns without centring them
        np.testing.assert_allclose(sparse.predict(csr_array(X)), dense.predict(X), rtol=1e-6, atol=1e-6)
    assert np.isfinite(sparse.predict(csr_array(X))).all()


def test_a_weight_of_zero_takes_queries_out(fitted: Ranker, train: RankingData, test: RankingData) -> None:
    if not learns(fitted):
        return
    lies = train.replace(y=np.where(train.query_index < 15, train.y, 3 - train.y))
    weight = np.where(train.query_index < 15, 1.0, 0.0)
    scores = clone(fitted).fit(lies, sample_weight=weight).predict(test)
    assert np.nanmean(ndcg(scores, test.y, test.offsets, k=10)) > 0.9


# -- weights of items --------------------------------------------------------------------------------


def make_biased_clicks() -> RankingData:
    """Lists of four, where a plain row is looked at by all and a good one, further down, by one in five.

    Of 100 people who look, 40 click the plain row and 90 the good one; but only 20 look at the good one. So
    the plain row has more clicks: in 41 lists alone, in 9 with the good one, which has 13 to itself. The
    first row is clicked always, the last never: lists have several clicks, of several weights.
    """
    rows = np.eye(4)  # first, plain, good, last
    clicks = [[1, 1, 0, 0]] * 41 + [[1, 0, 1, 0]] * 13 + [[1, 1, 1, 0]] * 9 + [[1, 0, 0, 0]] * 60
    order = np.random.default_rng(0).permutation(len(clicks))
    return RankingData.from_arrays(
        np.tile(rows, (len(clicks), 1)), np.concatenate([clicks[place] for place in order]),
        np.repeat(np.arange(len(clicks)), 4), feature_names=["first", "plain", "good", "last"],
        propensity=np.tile([1.0, 1.0, 0.2, 0.2], len(clicks)),
    )  # fmt: skip


def test_a_ranker_learns_what_people_want_from_clicks_and_propensities_or_says_that_it_cannot(
    fitted: Ranker,
) -> None:
    if not learns(fitted):
        return
    data = make_biased_clicks()
    shown = np.eye(4)
    naive = clone(fitted).fit(data.replace(propensity=None)).predict(shown, qid=np.zeros(4))
    assert naive[1] > naive[2] > naive[3]  # more clicks on the plain row
    if type(fitted).__name__ == "CatBoostRanker":
        with pytest.raises(BadInput, match="CatBoost's YetiRank takes one weight for each query.*QueryRMSE"):
            clone(fitted).fit(data)
        fitted = clone(fitted).set_params(loss="QueryRMSE")
    ranker = clone(fitted).fit(data)
    honest = ranker.predict(shown, qid=np.zeros(4))
    assert honest[2] > honest[1] > honest[3]
    if (
        type(fitted).__name__ == "NeuralRanker"
    ):  # the ridges beside it weigh labels; weights by hand are of rows
        fitted = clone(fitted).set_params(ridge=False)
        ranker = clone(fitted).fit(data)
        honest = ranker.predict(shown, qid=np.zeros(4))
    assert ranker.training_["propensity"]["clicks"] == 123 + 50 + 22
    weights = weigh_clicks(data.y, data.propensity).weights
    plain = data.replace(propensity=None)
    if type(fitted).__name__ == "AutoRanker":
        return  # its ridges weigh labels; by hand these would be judged by, too
    if ranker.training_["propensity"]["weighs"] == "labels":  # a squared error is that of the label
        by_hand = clone(fitted).fit(plain.replace(y=data.y * weights))
    else:
        by_hand = clone(fitted).fit(plain, sample_weight=weights)
    np.testing.assert_array_equal(by_hand.predict(shown, qid=np.zeros(4)), honest)


def test_propensities_that_are_all_equal_change_nothing(
    fitted: Ranker, train: RankingData, test: RankingData
) -> None:
    even = clone(fitted).fit(train.replace(propensity=np.full(train.n_rows, 0.25)))
    np.testing.assert_allclose(even.predict(test), fitted.predict(test), atol=1e-9)


def test_predicting_before_fitting_is_refused(fitted: Ranker, test: RankingData) -> None:
    from sklearn.exceptions import NotFittedError

    if not learns(fitted):
        assert clone(fitted).predict(test).shape == (test.n_rows,)
        return
    with pytest.raises(NotFittedError):
        clone(fitted).predict(test)


def test_labels_cannot_be_given_twice_or_not_at_all(fitted: Ranker, train: RankingData) -> None:
    with pytest.raises(BadInput, match="y and qid come from the RankingData"):
        clone(fitted).fit(train, train.y)
    with pytest.raises(ValueError, match="y"):
        clone(fitted).fit(np.asarray(train.X))
    with pytest.raises(BadInput, match="labels must be finite and 0 or more"):
        clone(fitted).fit(np.asarray(train.X), -train.y - 1, qid=train.qid)


def test_validation_data_may_be_ranking_data_or_arrays(
    fitted: Ranker, train: RankingData, test: RankingData
) -> None:
    one = clone(fitted).fit(train, valid=test)
    two = clone(fitted).fit(
        np.asarray(train.X), train.y, qid=train.qid, valid=(np.asarray(test.X), test.y, test.qid)
    )
    if learns(fitted):
        np.testing.assert_allclose(two.predict(np.asarray(test.X)), one.predict(test), atol=1e-9)
    with pytest.raises(BadInput, match="valid must be a RankingData or"):
        clone(fitted).fit(train, valid=(1,))


# -- without qid -------------------------------------------------------------------------------------


def test_rows_without_qid_are_one_query_and_a_warning_names_qid(fitted: Ranker, train: RankingData) -> None:
    X, name = np.asarray(train.X), type(fitted).__name__
    with pytest.warns(OneQuery, match=f"{name}.fit got no qid, so all 300 rows count as one query") as said:
        ranker = clone(fitted).fit(X, train.y)
    assert [each.filename for each in said] == [__file__]  # said once, of the caller's line
    assert ranker.training_["queries"] == 1
    with pytest.warns(OneQuery, match=f"{name}.score got no qid"):
        ranker.score(X, train.y)


def test_validation_rows_without_qid_are_told_too(fitted: Ranker, train: RankingData) -> None:
    X = np.asarray(train.X)
    with pytest.warns(OneQuery, match=r"fit\(valid=…\) got no qid") as said:
        clone(fitted).fit(train, valid=(X, train.y))
    assert len(said) == 1


def test_one_query_that_is_named_is_not_warned_of(fitted: Ranker, train: RankingData) -> None:
    X, y = np.asarray(train.X)[:20], train.y[:20]
    assert clone(fitted).fit(X, y, qid=[7] * 20, valid=(X, y, ["a"] * 20)).training_["queries"] == 1


def test_more_rows_without_qid_than_a_list_has_are_refused_before_any_work(fitted: Ranker) -> None:
    X, y = np.zeros((10_001, 3), dtype=np.float32), np.arange(10_001) % 2
    with pytest.raises(BadInput, match="fit needs qid above 10,000 rows.* Got 10,001 rows"):
        clone(fitted).fit(X, y)
    few = X[:20], y[:20]
    with pytest.raises(BadInput, match="needs qid above 10,000 rows"):
        clone(fitted).fit(*few, qid=[1] * 20, valid=(X, y))
    with pytest.raises(BadInput, match="score needs qid above 10,000 rows"):
        fitted.score(X, y)


def test_a_pipeline_without_qid_warns_and_with_it_does_not(train: RankingData) -> None:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X = np.asarray(train.X)
    with pytest.warns(OneQuery, match="LinearRanker.fit got no qid"):
        make_pipeline(StandardScaler(), make_ranker("ridge")).fit(X, train.y)
    make_pipeline(StandardScaler(), make_ranker("ridge")).fit(X, train.y, linearranker__qid=train.qid)


LISTWISE: dict[str, dict[str, Any]] = {
    "attention": {"network": "attention", "width": 8, "heads": 2},
    "groupwise": {"group_size": 2},
    "query_minmax": {"transform": "query_minmax"},
}


@pytest.mark.parametrize("name", LISTWISE)
def test_a_ranker_that_looks_at_lists_wants_qid_to_predict(name: str, train: RankingData) -> None:
    settings = {"hidden": [4], "steps": 2, "random_state": 0, **LISTWISE[name]}
    for ranker in (make_ranker("neural", **settings), make_ranker("mean", members={"neural": settings})):
        ranker.fit(train)
        X = np.asarray(train.X)
        with pytest.warns(OneQuery, match="predict got no qid, so all 300 rows count as one query"):
            ranker.predict(X)
        with pytest.raises(BadInput, match="predict needs qid above 10,000 rows"):
            ranker.predict(np.zeros((10_001, 3)))
        np.testing.assert_array_equal(ranker.predict(X, train.qid), ranker.predict(train))
        ranker.predict(X[:10], [0] * 10)
        ranker.predict(X[:1])  # one row is one list


def test_a_scorer_tells_a_ranker_that_looks_at_lists_which_rows_are_one(train: RankingData) -> None:
    from placings.evaluation.scoring import evaluate
    from placings.evaluation.selection import scorer

    ranker = make_ranker("neural", transform="query_minmax", hidden=[4], steps=20, random_state=0).fit(train)
    found = scorer("ndcg@10")(ranker, np.asarray(train.X), train.y, qid=train.qid)
    assert found == pytest.approx(evaluate(ranker, train, "ndcg@10", bootstrap=0)["ndcg@10"], rel=1e-12)


# -- bundles ----------------------------------------------------------------------------------------


def test_saving_and_loading_changes_nothing(fitted: Ranker, test: RankingData, tmp_path: Path) -> None:
    digest = fitted.save(tmp_path / "model", metrics={"ndcg@10": 0.5})
    back = load(tmp_path / "model", digest=digest)
    assert type(back) is type(fitted)
    assert back.get_params() == fitted.get_params()
    assert back.feature_names_ == fitted.feature_names_
    np.testing.assert_allclose(back.coverage_, fitted.coverage_, atol=1e-6)
    np.testing.assert_array_equal(back.predict(test), fitted.predict(test))
    assert back.save(tmp_path / "again")
    np.testing.assert_array_equal(load(tmp_path / "again").predict(test), fitted.predict(test))


def test_weights_that_score_differently_are_refused(
    fitted: Ranker, train: RankingData, tmp_path: Path
) -> None:
    """A bundle whose checksums are right but whose weights are another model's."""
    if not learns(fitted):
        return  # has no weights
    from placings.core.bundle import read_bundle, write_bundle

    fitted.save(tmp_path / "model")
    other = clone(fitted).fit(train.replace(y=3 - train.y))
    bundle = read_bundle(tmp_path / "model")
    facts = {key: value for key, value in bundle.manifest.items() if key not in ("kind", "version", "files")}
    write_bundle(tmp_path / "forged", facts, {**bundle.files, **other._give_weights()})
    with pytest.raises(BadBundle, match="scores the stored sample differently"):
        load(tmp_path / "forged")
    write_bundle(tmp_path / "forged", {**facts, "ranker": "os.system"}, bundle.files)
    with pytest.raises(BadBundle, match="holds a ranker 'os.system'"):
        load(tmp_path / "forged")
    write_bundle(tmp_path / "forged", {**facts, "settings": {"evil": 1}}, bundle.files)
    with pytest.raises(BadBundle, match="has settings that"):
        load(tmp_path / "forged")


def corrupt(folder: Path, rng: np.random.Generator, others: Path) -> None:
    """One random misfortune: a byte flipped, a file cut, emptied, swapped, doubled, renamed or lost."""
    files = sorted(folder.iterdir())
    file = files[rng.integers(len(files))]
    content = file.read_bytes()
    kind = rng.integers(7)
    if kind == 0 and content:
        place = int(rng.integers(len(content)))
        file.write_bytes(
            content[:place] + bytes([content[place] ^ (1 << int(rng.integers(8)))]) + content[place + 1 :]
        )
    elif kind == 1 and content:
        file.write_bytes(content[: rng.integers(len(content))])
    elif kind == 2:
        file.write_bytes(content + bytes(rng.integers(0, 256, 3).astype(np.uint8)))
    elif kind == 3:
        foreign = others / file.name
        if foreign.exists() and foreign.read_bytes() != content:
            file.write_bytes(foreign.read_bytes())
        else:
            file.unlink()
    elif kind == 4:
        other = files[(files.index(file) + 1) % len(files)]
        swap = other.read_bytes()
        other.write_bytes(content)
        file.write_bytes(swap)
    elif kind == 5:
        file.rename(folder / ("x" + file.name))
    else:
        file.unlink()


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost", "ranksvm", "neural"])
def test_no_corrupted_bundle_is_loaded(
    name: str, train: RankingData, test: RankingData, tmp_path: Path
) -> None:
    """80 misfortunes for each of five rankers: 400 bundles, none loaded."""
    ranker = make_quick(name).fit(train)
    ranker.save(tmp_path / "good")
    clone(ranker).fit(test).save(tmp_path / "other")
    rng = np.random.default_rng(7)
    for _ in range(80):
        shutil.rmtree(tmp_path / "bad", ignore_errors=True)
        shutil.copytree(tmp_path / "good", tmp_path / "bad")
        corrupt(tmp_path / "bad", rng, tmp_path / "other")
        with pytest.raises(BadBundle):
            load(tmp_path / "bad")
    np.testing.assert_array_equal(load(tmp_path / "good").predict(test), ranker.predict(test))


def test_a_setting_that_is_no_plain_value_cannot_be_saved(train: RankingData, tmp_path: Path) -> None:
    ranker = make_ranker("lightgbm", rounds=2, params={"callback": print})
    with pytest.raises(PlacingsError):
        ranker.fit(train).save(tmp_path / "model")


@pytest.mark.parametrize(
    ("ranker", "name", "meant"),
    [("lightgbm", "n_estimators", "LightGBM's n_estimators is called 'rounds' here"),
     ("lightgbm", "num_leaves", "LightGBM's num_leaves is called 'leaves' here"),
     ("xgboost", "eta", "XGBoost's eta is called 'learning_rate' here"),
     ("neural", "learning_rate", "Keras's learning_rate is called 'lr' here"),
     ("catboost", "iterations", "CatBoost's iterations is called 'rounds' here"),
     ("ridge", "seed", "XGBoost's seed is called 'random_state' here"),
     ("mean", "estimators", "scikit-learn's estimators is called 'members' here")],
)  # fmt: skip
def test_a_setting_under_its_familiar_name_is_told_what_it_is_called_here(
    ranker: str, name: str, meant: str
) -> None:
    with pytest.raises(BadInput, match=f"no setting of {ranker} '{name}'; {meant}"):
        make_ranker(ranker, **{name: 1})


def test_every_familiar_name_leads_to_a_setting_that_there_is() -> None:
    settings = {name: set(find_class(name)._get_param_names()) for name in CLASSES}
    for name, (_, ours) in find_familiar().items():
        for each in ours:
            assert any(each in known and name not in known for known in settings.values()), (name, each)


def test_a_setting_that_is_near_nothing_is_not_guessed_at() -> None:
    with pytest.raises(BadInput) as told:
        make_ranker("lightgbm", zebra=1)
    assert "did you mean" not in str(told.value)
    with pytest.raises(BadInput, match="did you mean 'rounds'"):
        make_ranker("lightgbm", round=1)


def test_unknown_names_are_told_with_the_nearest() -> None:
    with pytest.raises(BadInput, match="no ranker 'lightgmb'; did you mean 'lightgbm'"):
        make_ranker("lightgmb")
    with pytest.raises(BadInput, match="no setting of ridge 'c'; SVM\\^rank's c is called 'C' here"):
        make_ranker("ridge", c=1)
    with pytest.raises(BadInput, match="no ranker class"):
        find_class("Popen")
