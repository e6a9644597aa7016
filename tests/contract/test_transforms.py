"""Every transform through the same demands: the formula, numpy and torch agree; nothing odd breaks them."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors
from scipy.sparse import csr_array
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from placings.core.errors import BadInput
from placings.data.ranking import RankingData
from placings.transforms import TRANSFORMS, Transform, make_transform

Array = np.ndarray[Any, Any]
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}
pytestmark = pytest.mark.filterwarnings("ignore::placings.core.errors.OneQuery")  # query_minmax without qid

NAMES = list(TRANSFORMS)
ALIKE = [name for name in NAMES if name != "piecewise"]  # one column a feature
SINGLE = [name for name in NAMES if name != "query_minmax"]  # a value alone decides, not its query
NAN = np.nan


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make(name: str, **settings: Any) -> Transform:
    return make_transform(name, **({"random_state": 0} if name == "mixture" else {}), **settings)


def draw(seed: int = 0, rows: int = 60) -> Array:
    """Plain, heavy-tailed to 1e8, tiny, huge, constant, few values, close together and far from 0."""
    rng = np.random.default_rng(seed)
    columns = [
        rng.normal(size=rows),
        np.exp(rng.uniform(-18, 18.42, rows)),  # 1e-8 to 1e8
        rng.normal(size=rows) * 1e-30,
        rng.normal(size=rows) * 1e30,
        np.full(rows, 0.1),
        rng.integers(0, 3, rows),
        1e8 + 8 * rng.integers(0, 5, rows),
    ]
    return np.column_stack(columns).astype(np.float32)


# -- slow, obvious references, float64 -------------------------------------------------------------------


def gauss(train: Array, x: Array) -> Array:
    std = train.std(axis=0)
    return np.where(np.ptp(train, axis=0) > 0, (x - train.mean(axis=0)) / np.where(std > 0, std, 1.0), 0.0)


def cdf(train: Array, x: Array) -> Array:
    return np.array([[np.mean(train[:, k] < value) for k, value in enumerate(row)] for row in x]).reshape(
        x.shape
    )


def quantile_normal(train: Array, x: Array) -> Array:
    equal = np.array([[np.mean(train[:, k] == value) for k, value in enumerate(row)] for row in x])
    half = 0.5 / len(train)
    return norm.ppf(np.clip(cdf(train, x) + equal.reshape(x.shape) / 2, half, 1 - half))


def log1p(train: Array, x: Array) -> Array:
    return np.sign(x) * np.log1p(np.abs(x))


def minmax(train: Array, x: Array) -> Array:
    span = np.ptp(train, axis=0)
    return np.where(span > 0, (x - train.min(axis=0)) / np.where(span > 0, span, 1.0), 0.0)


def clip(train: Array, x: Array) -> Array:
    ends = [np.quantile(train, share, axis=0, method="inverted_cdf") for share in (0.01, 0.99)]
    return np.clip(x, *ends)


def piecewise(train: Array, x: Array) -> Array:
    columns = []
    for k in range(x.shape[1]):
        edges = np.unique(np.quantile(train[:, k], np.arange(9) / 8, method="inverted_cdf"))
        edges = edges if len(edges) > 1 else edges.repeat(2)
        for low, high in pairwise(edges):
            away = x[:, k] - low
            columns.append(np.clip(away / (high - low), 0, 1) if high > low else 0.0 * away)
    return np.column_stack(columns)


REFERENCES: dict[str, Callable[[Array, Array], Array]] = {
    "raw": lambda train, x: x,
    "gauss": gauss,
    "cdf": cdf,
    "log1p": log1p,
    "quantile_normal": quantile_normal,
    "minmax": minmax,
    "query_minmax": lambda train, x: minmax(x, x),  # without a qid all rows are one query
    "clip": clip,
    "mixture": lambda train, x: (x + gauss(train, x) + cdf(train, x) + log1p(train, x)) / 4,
    "per_feature": gauss,
    "piecewise": piecewise,
}


def test_the_demands_cover_every_transform() -> None:
    assert set(REFERENCES) == set(TRANSFORMS)


@pytest.mark.parametrize("name", NAMES)
def test_formula_numpy_and_torch_agree(name: str) -> None:
    train, unseen = draw(0), draw(1)
    transform = make(name).fit(train)
    for X in (train, unseen, unseen * np.float32(3), np.zeros_like(train[:2]), train[:1]):
        expected = REFERENCES[name](train.astype(np.float64), X.astype(np.float64))
        made = transform.transform(X)
        assert made.dtype == np.float32
        np.testing.assert_allclose(made, expected, **TOLERANCE)
        for export in (False, True):
            ran = transform.module(export=export)(torch.tensor(X)).detach().numpy()
            np.testing.assert_allclose(ran, expected, **TOLERANCE)
            np.testing.assert_allclose(ran, made, **TOLERANCE)


@pytest.mark.parametrize("name", ALIKE)
def test_missing_values_are_filled_before_the_function_and_flagged(name: str) -> None:
    X = draw()
    X[::7, 1] = X[3, 5] = NAN
    transform = make(name, missing={"f2": 5.0}, indicator=True).fit(X)
    assert transform.indicator_.tolist() == [1, 5]
    filled = X.copy()
    filled[np.isnan(X[:, 1]), 1] = 5.0
    filled[3, 5] = np.nanmedian(X[:, 5])
    made = transform.transform(X)
    np.testing.assert_array_equal(made[:, :7], transform.transform(filled)[:, :7])
    np.testing.assert_array_equal(made[:, 7:], np.isnan(X[:, [1, 5]]))
    np.testing.assert_allclose(transform.module()(torch.tensor(X)).detach().numpy(), made, **TOLERANCE)
    assert transform.get_feature_names_out().tolist() == [
        *(f"f{n}" for n in range(1, 8)),
        "f2__missing",
        "f6__missing",
    ]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "X",
    [
        [[3.0, -1.0]],
        [[7.0, 7.0]] * 5,
        [[NAN, 1.0], [NAN, 2.0]],
        [[NAN, NAN], [NAN, NAN]],
        [[1e30, -1e30], [-1e30, 1e30]],
        [[3e38, 1.0], [-3e38, 2.0]],
        [[1e-30, 0.0], [-1e-30, 1e-38]],
        [[1e-45, 1e-44], [0.0, 0.0]],
        [[1e8, 1e-8], [1e-8, 1e8], [0.0, 0.0]],
    ],
    ids=[
        "one row",
        "all equal",
        "one column missing",
        "all missing",
        "1e30",
        "ends",
        "1e-30",
        "subnormal",
        "mixed",
    ],
)
def test_nothing_odd_gives_nan_or_infinity_and_torch_does_the_same(name: str, X: Any) -> None:
    given = np.array(X, dtype=np.float32)
    transform = make(name).fit(given)
    made = transform.transform(given)
    assert np.isfinite(made).all()
    np.testing.assert_allclose(transform.module()(torch.tensor(given)).detach().numpy(), made, **TOLERANCE)
    far = np.array([[3e38, -3e38]], dtype=np.float32)
    assert np.isfinite(transform.transform(far)).all()
    infinite = torch.tensor([[torch.inf, -torch.inf]])
    assert transform.module()(infinite).isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_no_rows_transform_to_no_rows_but_cannot_be_fitted(name: str) -> None:
    empty = np.zeros((0, 7), dtype=np.float32)
    transform = make(name).fit(draw())
    width = len(transform.get_feature_names_out())
    assert width == 7 or name not in ALIKE
    assert transform.transform(empty).shape == (0, width)
    assert transform.module()(torch.tensor(empty)).shape == (0, width)
    before = transform.transform(draw())
    np.testing.assert_array_equal(transform.partial_fit(empty).transform(draw()), before)
    with pytest.raises(ValueError, match="0 sample"):
        make(name).fit(empty)
    with pytest.raises(BadInput, match="at least one row"):
        make(name).fit(RankingData.from_arrays(empty, []))


@pytest.mark.parametrize("name", NAMES)
def test_infinity_is_refused_in_fit_and_in_transform(name: str) -> None:
    for bad in (np.inf, -np.inf, 1e39):
        with pytest.raises(BadInput, match="must be finite as float32"):
            make(name).fit([[1.0], [bad]])
        with pytest.raises(BadInput, match="must be finite as float32"):
            make(name).fit([[1.0], [2.0]]).transform([[bad]])


@pytest.mark.parametrize("name", NAMES)
def test_chunks_merged_machines_and_shuffled_rows_give_what_all_rows_give(name: str) -> None:
    X = draw(rows=90)
    X[::5, 0] = NAN
    settings = {"missing": "mean"}
    whole = make(name, **settings).fit(X).transform(X)
    rng = np.random.default_rng(0)
    chunked = make(name, **settings)
    for chunk in np.array_split(X, 7):
        chunked.partial_fit(chunk)
    shuffled = make(name, **settings).fit(rng.permutation(X))
    one, two = make(name, **settings).fit(X[50:]), make(name, **settings).fit(X[:50])
    before = one.transform(X)
    merged = one.merge(two)
    for other in (chunked, shuffled, merged):
        np.testing.assert_allclose(other.transform(X), whole, **TOLERANCE)
    np.testing.assert_array_equal(one.transform(X), before)


@pytest.mark.parametrize("name", SINGLE)
def test_a_row_is_transformed_alone_as_it_is_among_others(name: str) -> None:
    X = draw()
    transform = make(name).fit(X)
    alone = np.concatenate([transform.transform(row[None]) for row in X])
    np.testing.assert_allclose(alone, transform.transform(X), **TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
def test_a_state_goes_through_json_and_safetensors_and_comes_back_the_same(name: str) -> None:
    X, unseen = draw(), draw(1)
    X[4, 0] = unseen[2, 1] = NAN
    transform = make(name, indicator="all").fit(X)
    facts, arrays = transform.state()
    facts, arrays = json.loads(json.dumps(facts)), load_tensors(save_tensors(arrays))
    back = type(transform).from_state(facts, arrays)
    assert type(Transform.from_state(facts, arrays)) is type(transform)
    np.testing.assert_array_equal(back.transform(unseen), transform.transform(unseen))
    np.testing.assert_array_equal(
        back.module()(torch.tensor(unseen)).detach(), transform.module()(torch.tensor(unseen)).detach()
    )
    assert back.get_feature_names_out().tolist() == transform.get_feature_names_out().tolist()
    with pytest.raises(BadInput, match=r"state\(statistics=True\)"):
        back.partial_fit(X)
    full = Transform.from_state(*transform.state(statistics=True))
    np.testing.assert_array_equal(full.merge(full).transform(X), transform.merge(transform).transform(X))


@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_state_is_refused(name: str) -> None:
    facts, arrays = make(name).fit(draw()).state(statistics=True)
    for lost in arrays:
        with pytest.raises(BadInput):
            Transform.from_state(facts, {key: values for key, values in arrays.items() if key != lost})
        with pytest.raises(BadInput):
            Transform.from_state(facts, arrays | {lost: np.zeros(arrays[lost].shape, dtype=np.float16)})
    for wrong in (
        {"format": 2},
        {"transform": "os.system"},
        {"settings": {"no": 1}},
        {"features": ["a"] * 7},
    ):
        with pytest.raises(BadInput):
            Transform.from_state(facts | wrong, arrays)
    other = "raw" if name != "raw" else "log1p"
    with pytest.raises(BadInput, match="not of a"):
        TRANSFORMS[other].from_state(facts, arrays)


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_never_changed(name: str) -> None:
    X = draw()
    X[0, 0] = NAN
    kept = X.copy()
    transform = make(name)
    settings = json.dumps(repr(transform.get_params()))
    transform.fit(X).partial_fit(X).transform(X)
    transform.module()(torch.from_numpy(X))
    np.testing.assert_array_equal(X, kept)
    assert json.dumps(repr(transform.get_params())) == settings


@pytest.mark.parametrize("name", ALIKE)
def test_ranking_data_and_tables_are_taken_and_columns_follow_their_names(name: str) -> None:
    X = draw()[:, :3]
    data = RankingData.from_arrays(X, np.zeros(60), np.arange(60) // 6, feature_names=["a", "b", "c"])
    transform = make(name).fit(data)
    assert transform.get_feature_names_out().tolist() == ["a", "b", "c"]
    made = transform.transform(data)
    turned = data.select(["c", "a", "b"])
    np.testing.assert_allclose(transform.transform(turned), made, **TOLERANCE)
    changed = transform.transform_data(data)
    assert changed.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(changed.X, made)
    np.testing.assert_array_equal(changed.offsets, data.offsets)
    with pytest.raises(BadInput, match="the data lack 1: 'b'"):
        transform.transform(data.select(["a", "c"]))
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(60) + 5)
    table = make(name).set_output(transform="pandas").fit(frame).transform(frame)
    assert table.columns.tolist() == ["a", "b", "c"]
    assert table.index.tolist() == frame.index.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_csr_rows_are_transformed_as_dense_rows_are(name: str) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((40, 5)) < 0.3) * rng.exponential(100, (40, 5))
    X[3, 2] = NAN
    settings: dict[str, Any] = {"missing": "zero", "indicator": True}
    dense = make(name, **settings).fit(X).transform(X)
    fitted = make(name, **settings).fit(csr_array(X))
    sparse = fitted.transform(csr_array(X))
    stays_sparse = hasattr(sparse, "tocsr")
    assert stays_sparse or name not in ("raw", "log1p", "minmax", "clip")
    assert not (stays_sparse and fitted.transform(np.zeros((1, 5))).any())  # only where 0 stays 0
    sparse = sparse.toarray() if stays_sparse else sparse
    np.testing.assert_allclose(sparse, dense, **TOLERANCE)


@pytest.mark.parametrize("name", NAMES)
def test_scikit_learn_finds_nothing_wrong(name: str) -> None:
    expected = {"check_methods_subset_invariance": "rows of a query are scaled together"}
    found = check_estimator(
        make(name),
        expected_failed_checks=expected if name == "query_minmax" else {},
        on_skip=None,
        on_fail=None,
    )
    assert [(check["check_name"], check["exception"]) for check in found if check["status"] == "failed"] == []
    copy = clone(make(name).fit(draw()))
    assert not hasattr(copy, "fill_")


@pytest.mark.parametrize("name", NAMES)
def test_a_model_cast_to_bfloat16_keeps_its_statistics_and_gets_no_gradient_from_them(name: str) -> None:
    X = torch.tensor(draw())
    module = make(name).fit(X.numpy()).module()
    expected = module(X).detach()
    cast = module.to(torch.bfloat16)
    np.testing.assert_allclose(cast(X).detach().float(), expected, rtol=0.02, atol=1e-6)  # p alone is rounded
    if name != "mixture":
        np.testing.assert_array_equal(cast(X), expected)
        assert not list(module.parameters())
        assert not module.state_dict()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        np.testing.assert_allclose(cast.float()(X).detach(), expected, **TOLERANCE)
    assert cast(X.to(torch.bfloat16)).dtype == torch.float32
