"""Cdf, quantile_normal and clip: strictly below, exactly up to the bound, then within the stated error."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from placings.core.errors import BadInput
from placings.transforms import Cdf, Clip, Mixture, QuantileNormal

Array = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float32).eps)  # a share is a quotient, rounded to float32
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)


def column(values: Any) -> Array:
    return np.array(values, dtype=np.float32).reshape(-1, 1)


@settings(max_examples=60)
@given(
    st.lists(NUMBERS | st.sampled_from([0.0, -0.0, 1.0]), min_size=1, max_size=40),
    st.lists(NUMBERS, max_size=10),
)
def test_cdf_is_the_share_of_training_values_strictly_below(train: list[float], unseen: list[float]) -> None:
    cdf = Cdf().fit(column(train))
    x = column([*train, *unseen])
    expected = np.array([sum(value < each for value in train) / len(train) for each in x[:, 0]])
    np.testing.assert_allclose(cdf.transform(x)[:, 0], expected, rtol=2 * EPS)
    plain, unrolled = (cdf.module(export=export)(torch.tensor(x)) for export in (False, True))
    np.testing.assert_allclose(plain[:, 0], expected, rtol=2 * EPS)
    torch.testing.assert_close(plain, unrolled, rtol=2 * EPS, atol=0.0)


@settings(max_examples=40)
@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=150),
    st.integers(2, 20),
    st.integers(1, 40),
)
def test_beyond_its_knots_cdf_stays_within_the_stated_error(train: list[int], knots: int, chunk: int) -> None:
    cdf = Cdf(max_knots=knots)
    for start in range(0, len(train), chunk):
        cdf.partial_fit(column(train[start : start + chunk]))
    x = column(np.arange(-51, 52))
    exact = np.array([sum(value < each for value in train) / len(train) for each in x[:, 0]])
    made = cdf.transform(x)[:, 0]
    assert np.abs(made - exact).max() <= cdf.error_[0] + 1e-6
    assert cdf.error_[0] <= 1 / knots
    assert len(cdf.knots_[0]) <= knots + 1
    assert (np.diff(made) >= 0).all()
    assert made[x[:, 0] <= min(train)].max() == 0.0
    assert made[x[:, 0] > max(train)].min() == 1.0
    if len(set(train)) <= knots:
        np.testing.assert_allclose(made, exact, rtol=2 * EPS)


def test_whole_and_chunks_and_machines_agree_within_their_errors_on_many_values() -> None:
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(size=(20_000, 2)) * 4).astype(np.float32)
    whole = Cdf(max_knots=500).fit(X)
    chunked = Cdf(max_knots=500)
    for chunk in np.array_split(X, 9):
        chunked.partial_fit(chunk)
    merged = Cdf(max_knots=500).fit(X[:3000])
    for part in (X[3000:9000], X[9000:]):
        merged = merged.merge(Cdf(max_knots=500).fit(part))
    exact = np.argsort(np.argsort(X, axis=0), axis=0) / len(X)
    for cdf in (whole, chunked, merged):
        assert np.abs(cdf.transform(X) - exact).max() <= cdf.error_.max() + 1e-6 <= 1 / 500 + 1e-6
        ran = cdf.module()(torch.tensor(X)), cdf.module(export=True)(torch.tensor(X))
        np.testing.assert_allclose(ran[0], cdf.transform(X), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(*ran, rtol=2 * EPS, atol=0.0)


def test_quantile_normal_by_hand() -> None:
    made = QuantileNormal().fit(column([1, 2, 2, 4]))
    x = column([0, 1, 1.5, 2, 3, 4, 9])
    p = [0.125, 0.125, 0.25, 0.5, 0.75, 0.875, 0.875]  # 0 → at least ½/4; ties share their middle rank
    np.testing.assert_allclose(made.transform(x)[:, 0], norm.ppf(p), rtol=1e-6, atol=1e-6)
    for export in (False, True):
        np.testing.assert_allclose(
            made.module(export=export)(torch.tensor(x))[:, 0], norm.ppf(p), rtol=1e-6, atol=1e-6
        )


def test_quantile_normal_of_many_values_is_standard_normal() -> None:
    X = np.exp(np.random.default_rng(0).normal(size=(5000, 1)) * 9)
    made = QuantileNormal().fit_transform(X)
    assert made.mean() == pytest.approx(0.0, abs=1e-3)
    assert made.std() == pytest.approx(1.0, abs=2e-3)


def test_an_empty_feature_has_a_share_of_zero() -> None:
    nothing = np.array([[math.nan]])
    assert Cdf().fit(nothing).transform([[5.0], [-5.0]]).tolist() == [[0.0], [0.0]]


def test_clip_cuts_at_the_features_own_quantiles_or_at_given_numbers() -> None:
    X = np.column_stack([np.arange(1, 101), np.arange(1, 101) * 10.0])
    clip = Clip(0.05, 0.9).fit(X)
    assert (clip.low_.tolist(), clip.high_.tolist()) == ([5.0, 50.0], [90.0, 900.0])
    assert clip.transform([[1.0, 1e6]]).tolist() == [[5.0, 900.0]]
    assert Clip(-1.0, 1.0, bounds="value").fit(X).transform([[5.0, -5.0]]).tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize(
    ("transform", "says"),
    [
        (Clip(0.9, 0.1), "lower must not be above upper"),
        (Clip(0.0, 2.0), "Pass bounds='value'"),
        (Clip(bounds="percent"), "one of quantile, value"),
        (Cdf(max_knots=1), "2 or more"),
        (Cdf(max_knots=10.5), "2 or more"),  # type: ignore[arg-type]
    ],
)
def test_settings_that_make_no_sense_are_refused(transform: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        transform.fit([[1.0], [2.0]])


def test_the_form_for_export_traces_for_any_number_of_rows_without_searchsorted() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
    module = Mixture(("cdf", "quantile_normal")).fit(X).module(export=True).eval()
    rows = torch.export.Dim("rows", min=2)
    traced = torch.export.export(module, (torch.tensor(X),), dynamic_shapes=({0: rows},), strict=False)
    assert "searchsorted" not in str(traced.graph)
    assert "bucketize" not in str(traced.graph)
    with torch.no_grad():
        some = torch.tensor(X[:7])
        torch.testing.assert_close(traced.module()(some), module(some), rtol=4 * EPS, atol=4 * EPS)
