"""Statistics: float64, from chunks as from all rows, dense as CSR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from placings.core.errors import BadInput
from placings.transforms.statistics import measure_statistics

Array = np.ndarray[Any, Any]
NO_KNOTS = np.zeros(3, dtype=np.int64)


def draw(rows: int = 200) -> Array:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=rows), np.exp(rng.uniform(-18, 18, rows)), np.full(rows, 0.1)])
    X[::9, 0] = np.nan
    return X.astype(np.float32)


def test_moments_and_ends_are_numpys_over_present_values() -> None:
    X = draw()
    found = measure_statistics(X, NO_KNOTS)
    exact = X.astype(np.float64)
    assert found.present.tolist() == [177, 200, 200]
    np.testing.assert_allclose(found.average, np.nanmean(exact, axis=0), rtol=1e-13)
    np.testing.assert_allclose(found.std[:2], np.nanstd(exact, axis=0)[:2], rtol=1e-13)
    np.testing.assert_array_equal(found.low, np.nanmin(exact, axis=0))
    np.testing.assert_array_equal(found.high, np.nanmax(exact, axis=0))


def test_a_constant_is_exactly_constant_however_it_is_added_up() -> None:
    found = measure_statistics(np.full((7, 3), 0.1, dtype=np.float32), NO_KNOTS)
    both = found.merge(found).merge(found)
    assert both.std.tolist() == [0.0] * 3
    assert both.average.tolist() == [float(np.float32(0.1))] * 3


def test_a_hundred_million_and_its_inverse_survive_in_one_column() -> None:
    X = np.array([[1e8], [1e-8], [1e-8], [0.0]], dtype=np.float32)
    found = measure_statistics(X, np.array([10]))
    big, small = float(np.float32(1e8)), float(np.float32(1e-8))
    assert found.average[0] == pytest.approx((big + 2 * small) / 4, rel=1e-15)
    assert found.sketches[0].values.tolist() == [0.0, small, big]
    assert found.median[0] == small


def test_chunks_add_up_to_all_rows_whatever_their_order_and_size() -> None:
    X = draw()
    whole = measure_statistics(X, NO_KNOTS + 50)
    rng = np.random.default_rng(1)
    for _ in range(5):
        cuts = np.sort(rng.integers(0, 200, 6))
        chunks = np.split(X, cuts)
        found = measure_statistics(X[:0], NO_KNOTS + 50)
        for place in rng.permutation(len(chunks)):
            found = found.merge(measure_statistics(chunks[place], NO_KNOTS + 50))
        assert found.rows == 200
        np.testing.assert_allclose(found.average, whole.average, rtol=1e-12)
        np.testing.assert_allclose(found.std, whole.std, rtol=1e-12)
        np.testing.assert_array_equal(found.present, whole.present)


def test_the_median_of_rows_given_at_once_is_exact_beyond_the_sketch() -> None:
    X = np.random.default_rng(0).normal(size=(5001, 1)).astype(np.float32)
    bounds = np.array([10])
    assert measure_statistics(X, bounds).median[0] == np.median(X)
    halves = measure_statistics(X[:2000], bounds).merge(measure_statistics(X[2000:], bounds))
    assert abs(np.mean(halves.median[0] > X) - 0.5) <= 0.1  # the sketch's own bound, 1/10


def test_csr_rows_have_the_statistics_of_dense_rows() -> None:
    X = draw()
    X[np.random.default_rng(2).random(X.shape) < 0.6] = 0.0
    dense, sparse = measure_statistics(X, NO_KNOTS), measure_statistics(csr_array(X), NO_KNOTS)
    for name in ("present", "low", "high"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(dense, name))
    np.testing.assert_allclose(sparse.mean, dense.mean, rtol=1e-12)
    np.testing.assert_allclose(sparse.squares, dense.squares, rtol=1e-12)


def test_what_does_not_belong_together_is_not_added_up() -> None:
    X = draw()
    dense = measure_statistics(X, NO_KNOTS)
    with pytest.raises(BadInput, match="some dense and some CSR|some rows came dense"):
        dense.merge(measure_statistics(csr_array(X), NO_KNOTS))
    with pytest.raises(BadInput, match="Got 3 and 2 features"):
        dense.merge(measure_statistics(X[:, :2], NO_KNOTS[:2]))
    with pytest.raises(BadInput, match="same transform"):
        dense.merge(measure_statistics(X, NO_KNOTS + 5))
