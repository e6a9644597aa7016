"""Names become transforms; features get their own; curves are traced."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

from placings.core.errors import BadInput, UnknownName
from placings.transforms import (
    Cdf,
    Gauss,
    Log1p,
    Mixture,
    PerFeature,
    QueryMinMax,
    Raw,
    Transform,
    make_transform,
    trace_curves,
)

X = np.array([[1.0, 0.0, 5.0], [3.0, 1.0, 5.0], [9.0, 100.0, 7.0]], dtype=np.float32)


def test_a_name_or_an_object_becomes_a_fresh_transform() -> None:
    given = Cdf(max_knots=50)
    made = make_transform(given, missing="zero")
    assert made is not given
    assert (made.max_knots, made.missing, given.missing) == (50, "zero", "median")
    assert isinstance(make_transform("gauss"), Gauss)


@pytest.mark.parametrize(
    ("given", "settings", "kind", "says"),
    [
        ("log1", {}, UnknownName, "did you mean 'log1p'"),
        ("cdf", {"knots": 5}, UnknownName, "did you mean 'max_knots'"),
        (5, {}, BadInput, "a transform must be a name"),
    ],
)
def test_what_is_no_transform_is_refused(
    given: Any, settings: dict[str, Any], kind: type[Exception], says: str
) -> None:
    with pytest.raises(kind, match=says):
        make_transform(given, **settings)


def test_each_feature_gets_its_own_transform_in_its_own_place() -> None:
    choices: Any = [("log1p", ["f2"]), (Cdf(max_knots=2), ["f3", "f1"])]
    chosen = PerFeature(choices, default="raw").fit(X)
    expected = np.column_stack([Cdf().fit_transform(X)[:, 0], Log1p().fit_transform(X)[:, 1], [0, 0, 2 / 3]])
    np.testing.assert_allclose(chosen.transform(X)[:, 1:], expected[:, 1:], rtol=1e-6)
    np.testing.assert_allclose(chosen.module()(torch.tensor(X)), chosen.transform(X), rtol=1e-6)
    by_name = PerFeature({"log1p": ["f2"], "cdf": ["f1", "f3"]}).fit(X)
    np.testing.assert_allclose(by_name.transform(X), expected, rtol=1e-6)
    assert clone(chosen).fit(X).transform(X).tolist() == chosen.transform(X).tolist()
    back = Transform.from_state(*chosen.state())
    np.testing.assert_array_equal(back.transform(X), chosen.transform(X))


def test_a_feature_may_be_scaled_within_queries_beside_others() -> None:
    chosen = PerFeature({"query_minmax": ["f1"]}, default="raw").fit(X)
    made = chosen.transform(X, qid=[1, 2, 1])
    assert made[:, 0].tolist() == [0.0, 0.0, 1.0]
    np.testing.assert_array_equal(made[:, 1:], X[:, 1:])


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"cdf": ["f1"], "raw": ["f1"]}, "'f1' is given to two transforms"),
        ({"cdf": ["f9"]}, "no feature 'f9'"),
        ({"cdf": "f1"}, "must list features"),
        ({"mixture": ["f1"]}, "single transforms"),
        ([(Cdf(indicator=True), ["f1"])], "settings of PerFeature itself"),
    ],
)
def test_choices_that_make_no_sense_are_refused(choices: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        PerFeature(choices).fit(X)


def test_curves_run_from_the_smallest_to_the_largest_value_and_show_every_basis() -> None:
    mixture = Mixture(("raw", "cdf"), groups={"v": ["f3"]}).fit(X)
    curves = mixture.curves(points=5)
    assert (curves.features, curves.basis) == (("f1", "f2", "f3"), ("raw", "cdf"))
    assert (curves.x[:, 0].tolist(), curves.x[:, -1].tolist()) == ([1.0, 0.0, 5.0], [9.0, 100.0, 7.0])
    np.testing.assert_allclose(curves.parts[0, 0], curves.x[0], rtol=1e-6)
    np.testing.assert_allclose(curves.y[:2], curves.parts[:2].mean(axis=1), rtol=1e-6)
    assert np.isnan(curves.y[2]).all()


def test_curves_follow_a_given_grid() -> None:
    curves = trace_curves(Gauss().fit(X), grid=np.array([1.0, 2.0, 3.0]))
    assert curves.x.shape == curves.y.shape == (3, 3)
    assert curves.parts.shape == (3, 0, 3)
    np.testing.assert_allclose(
        np.diff(curves.y, axis=1), 1 / np.repeat(X.std(axis=0)[:, None], 2, 1), rtol=1e-5
    )


def test_a_transform_without_a_curve_says_why() -> None:
    with pytest.raises(BadInput, match="whole query"):
        trace_curves(QueryMinMax().fit(X))
    with pytest.raises(BadInput, match="2 or more"):
        trace_curves(Raw().fit(X), points=1)
    with pytest.raises(BadInput, match=r"state\(statistics=True\)"):
        trace_curves(Transform.from_state(*Raw().fit(X).state()))


def test_fitting_and_transforming_never_load_torch() -> None:
    script = (
        "import sys, placings.transforms as t; t.Mixture().fit_transform([[1.0], [2.0]]); "
        "print([name for name in ('torch', 'lightgbm') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
