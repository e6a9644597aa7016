"""LinearRanker against solutions on explicit pairs, and its promises about data, weights and files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from placings.core.errors import BadInput, PlacingsWarning
from placings.data.ranking import RankingData
from placings.rankers.linear import LOSSES, LinearRanker

PAIRWISE = LOSSES[:3]


def make_data(queries=25, features=8, seed=0, *, rows=12, sparse=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(queries * rows, features)) * (rng.random((queries * rows, features)) < 0.6)
    X = X.astype(np.float32)
    y = np.digitize(X @ rng.normal(size=features) + rng.normal(size=len(X)), [-1.0, 0.5, 1.5])
    qid = np.repeat(np.arange(queries), rows)
    return RankingData.from_arrays(csr_array(X) if sparse else X, y, qid)


def list_differences(data):
    """x_i − x_j of every pair with y_i > y_j, and the query of each."""
    found, queries = [], []
    for number, query in enumerate(data):
        i, j = np.nonzero(query.y[:, None] > query.y[None, :])
        found.append(query.X[i].astype(np.float64) - query.X[j])
        queries += [number] * len(i)
    return np.concatenate(found), np.array(queries)


def measure_objective(w, data, loss, C, pairs="sum"):
    differences, queries = list_differences(data)
    d = differences @ w
    values = {
        "hinge": np.maximum(0.0, 1.0 - d),
        "squared_hinge": np.maximum(0.0, 1.0 - d) ** 2,
        "logistic": np.logaddexp(0.0, -d),
    }[loss]
    each = np.bincount(queries, weights=values, minlength=len(data))
    if pairs == "mean":
        each = each / np.maximum(1, np.bincount(queries, minlength=len(data)))
    return 0.5 * w @ w + C / len(data) * each.sum()


def fit_plain(data, loss, C, **settings):
    settings = {"tol": 1e-8, "max_iter": 1000, "scale": False} | settings
    return LinearRanker(loss, C, **settings).fit(data)


# -- the right solution ---------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.03, 3.0])
@pytest.mark.parametrize("loss", PAIRWISE)
def test_it_finds_what_explicit_pairs_give(loss, C):
    data = make_data()
    differences, _ = list_differences(data)
    signs = np.where(np.arange(len(differences)) % 2, 1.0, -1.0)  # classifiers want two classes
    if loss == "logistic":
        peer = LogisticRegression(C=C / len(data), fit_intercept=False, tol=1e-10, max_iter=10_000)
    else:
        peer = LinearSVC(
            C=C / len(data), loss=loss, dual=True, fit_intercept=False, tol=1e-8, max_iter=2_000_000,
            random_state=0,
        )  # fmt: skip
    expected = peer.fit(differences * signs[:, None], signs).coef_[0]
    ranker = fit_plain(data, loss, C)
    best = measure_objective(expected, data, loss, C)
    assert ranker.objective_ == pytest.approx(best, rel=1e-6)
    assert ranker.objective_ == pytest.approx(measure_objective(ranker.coef_, data, loss, C), rel=1e-9)
    np.testing.assert_allclose(ranker.coef_, expected, rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("pairs", ["sum", "mean"])
def test_the_hinge_agrees_with_a_quadratic_programme(pairs):
    from scipy.optimize import minimize

    data, C = make_data(queries=3, features=3, rows=6, seed=4), 5.0
    differences, queries = list_differences(data)
    count, features = differences.shape
    price = np.full(count, C / len(data))
    if pairs == "mean":
        price /= np.bincount(queries)[queries]
    # variables (w, slack): ½‖w‖² + price · slack with slack ≥ 0 and slack ≥ 1 − w·x
    solved = minimize(
        lambda v: 0.5 * v[:features] @ v[:features] + price @ v[features:],
        np.concatenate([np.zeros(features), np.ones(count)]),
        jac=lambda v: np.concatenate([v[:features], price]),
        bounds=[(None, None)] * features + [(0.0, None)] * count,
        constraints={
            "type": "ineq",
            "fun": lambda v: differences @ v[:features] + v[features:] - 1.0,
            "jac": lambda v: np.hstack([differences, np.eye(count)]),
        },
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert solved.success
    ranker = fit_plain(data, "hinge", C, pairs=pairs)
    assert ranker.objective_ == pytest.approx(solved.fun, rel=1e-6)
    np.testing.assert_allclose(ranker.coef_, solved.x[:features], atol=1e-3)


@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("loss", PAIRWISE)
def test_the_gap_bounds_what_is_left_to_gain(loss, C):
    data = make_data(seed=1)
    best = fit_plain(data, loss, C, tol=1e-8)
    quick = fit_plain(data, loss, C, tol=1e-2)
    assert quick.objective_ - best.objective_ <= quick.gap_ <= 1e-2 * quick.objective_
    assert quick.n_iter_ <= best.n_iter_


@pytest.mark.parametrize("center", ["all", "query"])
@pytest.mark.parametrize("sparse", [False, True])
def test_ridge_is_ridge(center, sparse):
    data, C = make_data(), 2.0
    weight = np.random.default_rng(3).random(data.n_rows)
    X, y = data.X.astype(np.float64), data.y
    if center == "query":
        index, mass = data.query_index, np.bincount(data.query_index, weights=weight)
        X = X - np.stack([np.bincount(index, weights=weight * x) / mass for x in X.T], axis=1)[index]
        y = y - (np.bincount(index, weights=weight * y) / mass)[index]
    peer = Ridge(alpha=len(data) / (2 * C), fit_intercept=center == "all").fit(X, y, sample_weight=weight)
    given = data.replace(weight=weight, X=csr_array(data.X) if sparse else data.X)
    ranker = LinearRanker("ridge", C, center=center, scale=False, tol=1e-10).fit(given)
    np.testing.assert_allclose(ranker.coef_, peer.coef_, rtol=1e-6, atol=1e-8)
    if center == "all":
        assert ranker.intercept_ == pytest.approx(peer.intercept_, rel=1e-6)


def test_scaling_is_the_same_as_dividing_the_columns():
    data = make_data()
    deviation = data.X.astype(np.float64).std(axis=0)
    divided = data.replace(X=(data.X / deviation).astype(np.float32))
    ranker, peer = fit_plain(data, "hinge", 1.0, scale=True), fit_plain(divided, "hinge", 1.0)
    np.testing.assert_allclose(ranker.coef_ * deviation, peer.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(ranker.scale_, deviation, rtol=1e-6)


# -- what must not matter -------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_the_order_of_rows_and_queries_changes_nothing(loss):
    data = make_data()
    order = np.random.default_rng(0).permutation(data.n_rows)
    ranker = fit_plain(data, loss, 1.0)
    shuffled = LinearRanker(loss, 1.0, scale=False, tol=1e-8, max_iter=1000)
    shuffled.fit(data.X[order], data.y[order], qid=data.qid[order])
    np.testing.assert_allclose(ranker.coef_, shuffled.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [False, True])
def test_sparse_data_give_what_dense_ones_give(loss, scale):
    sparse = make_data(sparse=True)
    dense = sparse.replace(X=sparse.X.toarray())
    if scale:  # sparse columns are divided by their largest absolute value
        dense = dense.replace(X=(dense.X / np.abs(dense.X).max(axis=0)).astype(np.float32))
    ranker, peer = fit_plain(sparse, loss, 1.0, scale=scale), fit_plain(dense, loss, 1.0)
    np.testing.assert_allclose(ranker.predict(sparse), peer.predict(dense), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_columns_that_no_row_uses_weigh_nothing(loss):
    narrow = make_data(sparse=True)
    stored = narrow.X.tocoo()
    places = stored.col * 1000 + 7
    wide = csr_array((stored.data, (stored.row, places)), shape=(narrow.n_rows, 2**20))
    ranker, peer = (LinearRanker(loss, tol=1e-8).fit(X, narrow.y, qid=narrow.qid) for X in (wide, narrow.X))
    assert ranker.coef_.shape == (2**20,)
    assert np.flatnonzero(ranker.coef_).tolist() == [7 + 1000 * k for k in range(8)]
    np.testing.assert_allclose(ranker.coef_[7:8000:1000], peer.coef_, rtol=1e-6)
    np.testing.assert_allclose(ranker.predict(wide), peer.predict(narrow), rtol=1e-6)


def test_more_columns_than_rows_are_fitted_in_few_steps():
    rng = np.random.default_rng(0)
    X = csr_array(rng.normal(size=(200, 3000)) * (rng.random((200, 3000)) < 0.02))
    ranker = LinearRanker(C=100.0).fit(X, rng.integers(0, 4, 200), qid=np.arange(200) // 20)
    assert ranker.gap_ <= 1e-4 * ranker.objective_  # separable: every margin counts
    assert ranker.n_iter_ < 60


@pytest.mark.parametrize("loss", LOSSES)
def test_a_query_of_weight_two_is_two_queries(loss):
    data = make_data(queries=6)
    weight = np.where(data.query_index < 2, 2.0, 1.0)
    twice = RankingData.from_arrays(
        np.concatenate([data.X, data[:2].X]),
        np.concatenate([data.y, data[:2].y]),
        np.concatenate([data.qid, data[:2].qid + 100]),
    )
    ranker = fit_plain(data.replace(weight=weight), loss, 1.0)
    peer = fit_plain(twice, loss, len(twice) / len(data))  # C/Q is the same
    np.testing.assert_allclose(ranker.coef_, peer.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", PAIRWISE)
def test_a_pair_weighs_what_its_better_row_weighs(loss):
    data = make_data(queries=6)
    weight = (data.y != 2.0).astype(float)  # pairs won by a row of grade 2 count nothing
    expected = fit_plain(data.replace(weight=weight), loss, 1.0)
    pairs, _ = list_differences(data)
    labels = np.concatenate([q.y[np.nonzero(q.y[:, None] > q.y[None, :])[0]] for q in data])
    d = pairs[labels != 2.0] @ expected.coef_
    value = {
        "hinge": np.maximum(0, 1 - d), "squared_hinge": np.maximum(0, 1 - d) ** 2,
        "logistic": np.logaddexp(0, -d),
    }[loss]  # fmt: skip
    total = 0.5 * expected.coef_ @ expected.coef_ + value.sum() / len(data)
    assert expected.objective_ == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("loss", PAIRWISE)
def test_clicks_over_their_propensity_are_propensity_svm_rank(loss):
    data = make_data(queries=6)
    data = data.replace(y=(data.y > 1).astype(float))
    propensity = np.random.default_rng(4).uniform(0.05, 1.0, data.n_rows)
    ranker = fit_plain(data.replace(propensity=propensity), loss, 1.0)
    full = np.minimum(1.0 / propensity, 10.0)
    full /= full[data.y > 0].mean()
    pairs, _ = list_differences(data)
    better = np.concatenate(
        [
            start + np.nonzero(q.y[:, None] > q.y[None, :])[0]
            for start, q in zip(data.offsets, data, strict=False)
        ]
    )

    def measure(w):
        d = pairs @ w
        value = {
            "hinge": np.maximum(0, 1 - d), "squared_hinge": np.maximum(0, 1 - d) ** 2,
            "logistic": np.logaddexp(0, -d),
        }[loss]  # fmt: skip
        return 0.5 * w @ w + full[better] @ value / len(data)

    found = measure(ranker.coef_)
    assert ranker.objective_ == pytest.approx(found, rel=1e-9)
    rng = np.random.default_rng(0)
    assert all(measure(ranker.coef_ + 0.01 * rng.normal(size=len(ranker.coef_))) > found for _ in range(20))


@pytest.mark.parametrize("loss", PAIRWISE)
def test_queries_of_one_level_teach_nothing(loss):
    data = make_data(queries=6)
    dull = RankingData.from_arrays(
        np.concatenate([data.X, data.X[:5] * 100]),
        np.concatenate([data.y, np.ones(5)]),
        np.concatenate([data.qid, [7, 7, 8, 8, 9]]),
    )
    ranker, peer = fit_plain(data, loss, 6.0), fit_plain(dull, loss, 9.0)  # C/Q is the same
    np.testing.assert_allclose(ranker.coef_, peer.coef_, rtol=1e-6)


@pytest.mark.parametrize("loss", PAIRWISE)
def test_without_a_single_pair_it_warns_and_scores_zero(loss):
    with pytest.warns(PlacingsWarning, match="not one pair"):
        ranker = LinearRanker(loss).fit(np.eye(3), [1, 1, 1], qid=[1] * 3)
    assert ranker.predict(np.eye(3)).tolist() == [0.0, 0.0, 0.0]


def test_too_few_steps_are_said():
    with pytest.warns(PlacingsWarning, match="Raise max_iter"):
        LinearRanker(max_iter=1, tol=1e-8).fit(make_data())


# -- wild data ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("missing", "value"), [("median", 2.0), ("mean", 4.0), ("zero", 0.0)])
def test_a_missing_value_scores_as_what_fills_it(missing, value):
    X = np.array([[1.0, 0.0], [2.0, 1.0], [9.0, 0.0], [np.nan, 1.0]])
    ranker = LinearRanker(missing=missing).fit(X, [0, 1, 2, 1], qid=[1] * 4)
    assert ranker.fill_[0] == value
    gap, filled = ranker.predict([[np.nan, 1.0], [value, 1.0]])
    assert gap == pytest.approx(filled, rel=1e-12)  # two rows of a product
    assert ranker.predict(csr_array([[np.nan, 1.0]]))[0] == pytest.approx(filled)


def test_a_missing_value_in_sparse_rows_counts_as_zero():
    sparse = make_data(sparse=True)
    broken = sparse.X.copy()
    broken.data = broken.data.copy()
    broken.data[::7] = np.nan
    zeros = broken.copy()
    zeros.data = np.nan_to_num(broken.data)
    ranker, peer = (LinearRanker().fit(sparse.replace(X=X)) for X in (broken, zeros))
    np.testing.assert_allclose(ranker.coef_, peer.coef_)
    np.testing.assert_allclose(ranker.predict(broken), peer.predict(zeros))


@pytest.mark.parametrize("loss", LOSSES)
def test_wild_columns_leave_scores_finite(loss):
    data = make_data(queries=10)
    X = data.X.copy()
    X[0, 0], X[5, 1], X[:, 2], X[:, 3], X[3:, 4] = 1e30, -1e30, 7.0, np.nan, np.nan
    X[:, 5] *= 1e-30
    ranker = LinearRanker(loss).fit(data.replace(X=X))
    assert np.isfinite(ranker.predict(X)).all()
    assert ranker.coef_[2] == ranker.coef_[3] == 0.0
    assert abs(ranker.coef_[5]) > 1.0  # a small scale is a scale too
    assert np.isfinite(ranker.predict(np.full((1, 8), -3e38))).all()


# -- the estimator --------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "ridge"])
@pytest.mark.parametrize("sparse", [False, True])
def test_contributions_add_up_to_the_score(loss, sparse):
    data = make_data(sparse=sparse)
    ranker = LinearRanker(loss).fit(data)
    parts = ranker.contributions(data)
    assert parts.shape == (data.n_rows, data.n_features + 1)
    np.testing.assert_allclose(np.asarray(parts.sum(axis=1)), ranker.predict(data), atol=1e-12)
    assert isinstance(parts, np.ndarray) != sparse


def test_weights_come_back_as_they_were():
    data = make_data()
    ranker = LinearRanker("ridge").fit(data)
    files = ranker._give_weights()
    twin = LinearRanker("ridge")
    for name in ("n_features_in_", "feature_names_", "training_", "coverage_"):
        setattr(twin, name, getattr(ranker, name))
    twin._take_weights(files)
    assert (twin.predict(data) == ranker.predict(data)).all()
    assert (twin.contributions(data) == ranker.contributions(data)).all()


def spoil(files):
    coef = files["coef.npy"]
    header = coef[:-64]
    yield files | {"coef.npy": coef[:-1]}
    yield files | {"coef.npy": header + b"\xff" * 64}  # NaN
    yield files | {"coef.npy": files["intercept.npy"]}
    yield files | {"coef.npy": b"\x80\x04K\x01."}  # a pickle
    yield files | {"coef.npy": coef.replace(b"<f8", b"|O8")}
    yield files | {"coef.npy": coef.replace(b"<f8", b">f8")}
    yield files | {"more.npy": coef}
    yield {name: content for name, content in files.items() if name != "fill.npy"}
    yield {}


def test_weights_that_do_not_fit_are_refused():
    data = make_data()
    files = LinearRanker().fit(data)._give_weights()
    twin = LinearRanker()
    twin.n_features_in_ = data.n_features
    refused = 0
    for bad in spoil(files):
        with pytest.raises(BadInput):
            twin._take_weights(bad)
        refused += 1
    assert refused == 9


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"loss": "hing"}, "loss must be one of 'hinge'"),
        ({"C": 0.0}, "C must be a number above 0. Got 0.0"),
        ({"C": True}, "C must be a number above 0. Got True"),
        ({"tol": -1}, "tol must be a number above 0"),
        ({"pairs": "all"}, "pairs must be one of 'sum', 'mean'. Got 'all'"),
        ({"center": None}, "center must be one of 'query', 'all'. Got None"),
        ({"missing": "nan"}, "missing must be one of 'median'"),
        ({"max_iter": 1.5}, "max_iter must be a whole number of 1 or more. Got 1.5"),
    ],
)
def test_a_bad_setting_is_named(setting, message):
    with pytest.raises(BadInput, match=message):
        LinearRanker(**setting).fit(make_data(queries=2))


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    data = make_data(queries=4)
    LinearRanker(verbose=True).fit(data)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    LinearRanker(verbose=True).fit(data)
    shown = capsys.readouterr()
    assert "objective" in shown.err
    assert shown.out == ""


EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": "a row given twice makes pairs with twice as many rows, "
    "a weight of 2 counts its pairs as the better row only",
    "check_sample_weight_equivalence_on_sparse_data": "the same",
}


@pytest.mark.filterwarnings("ignore::placings.core.errors.PlacingsWarning")
@parametrize_with_checks(
    [LinearRanker(loss) for loss in LOSSES],
    expected_failed_checks=lambda ranker: {} if ranker.loss == "ridge" else EXPECTED,
)
def test_it_passes_scikit_learns_checks(estimator, check):
    check(estimator)
