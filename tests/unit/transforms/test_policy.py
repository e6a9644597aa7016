"""Missing values: a policy for each feature, and columns that say where a value was missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from placings.core.errors import BadInput, UnknownName
from placings.transforms import Gauss, Raw
from placings.transforms.policy import resolve_missing

NAN = np.nan
X = np.array([[1.0, 10.0], [NAN, 20.0], [3.0, NAN], [8.0, 60.0]])


@pytest.mark.parametrize(
    ("missing", "fill"),
    [
        ("median", [3.0, 20.0]),
        ("mean", [4.0, 30.0]),
        ("zero", [0.0, 0.0]),
        (-1.0, [-1.0, -1.0]),
        (7, [7.0, 7.0]),
        ({"f1": "mean"}, [4.0, 20.0]),
        ({"f1": 5, "f2": "zero"}, [5.0, 0.0]),
        (["mean", 9.0], [4.0, 9.0]),
        (np.array([2.0, 3.0]), [2.0, 3.0]),
    ],
)
def test_each_policy_fills_what_it_says(missing: Any, fill: list[float]) -> None:
    transform = Raw(missing=missing).fit(X)
    assert transform.fill_.tolist() == fill
    assert transform.transform([[NAN, NAN]]).tolist() == [fill]


@pytest.mark.parametrize(
    ("missing", "kind", "says"),
    [
        ("medain", UnknownName, "did you mean 'median'"),
        ({"f3": 0.0}, UnknownName, "no feature 'f3'"),
        ([1.0], BadInput, "each of the 2 features. Got 1"),
        (NAN, BadInput, "finite number"),
        (np.inf, BadInput, "finite number"),
        ([None, 1.0], BadInput, "finite number"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(missing: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        Raw(missing=missing).fit(X)


def test_a_feature_without_a_single_value_is_filled_with_zero() -> None:
    for policy in ("median", "mean"):
        assert Raw(missing=policy).fit([[NAN], [NAN]]).transform([[NAN], [2.0]]).tolist() == [[0.0], [2.0]]


def test_the_median_of_many_values_is_exact() -> None:
    values = np.random.default_rng(0).normal(size=(4000, 1)).astype(np.float32)
    assert Gauss().fit(values).fill_[0] == np.float32(np.median(values.astype(np.float64)))


def test_in_csr_rows_the_median_is_zero() -> None:
    rows = csr_array(np.array([[5.0, 0.0], [6.0, 0.0], [7.0, NAN]]))
    made = Raw().fit(rows).transform(rows)
    assert made.toarray().tolist() == [[5.0, 0.0], [6.0, 0.0], [7.0, 0.0]]


@pytest.mark.parametrize(
    ("indicator", "names"),
    [
        (False, []),
        (True, ["f1__missing"]),
        ("all", ["f1__missing", "f2__missing"]),
        (["f2"], ["f2__missing"]),
    ],
)
def test_indicators_stand_where_they_are_asked_for(indicator: Any, names: list[str]) -> None:
    transform = Raw(indicator=indicator).fit(np.array([[NAN, 1.0], [2.0, 3.0]]))
    assert transform.get_feature_names_out().tolist() == ["f1", "f2", *names]
    assert transform.transform([[NAN, NAN]])[0, 2:].tolist() == [1.0] * len(names)


def test_an_indicator_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadInput, match="indicator must be"):
        Raw(indicator="some").fit(X)
    with pytest.raises(UnknownName, match="no feature 'f9'"):
        Raw(indicator=["f9"]).fit(X)


def test_policies_are_listed_by_feature() -> None:
    assert resolve_missing({"b": 1}, ["a", "b"]) == ["median", 1.0]
