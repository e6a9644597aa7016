"""The sums over features against the same sums on a float64 copy of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array

from placings.data.ranking import RankingData
from placings.rankers import design as design_module
from placings.rankers.design import Design, keep_used, measure_design


def make_data(queries=25, rows=12, *, sparse=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(queries * rows, 8)) * (rng.random((queries * rows, 8)) < 0.6)
    X = X.astype(np.float32)
    y = rng.integers(0, 4, len(X))
    return RankingData.from_arrays(csr_array(X) if sparse else X, y, np.arange(len(X)) // rows)


def test_blocks_of_any_size_and_order_give_the_same_sums(monkeypatch):
    data = make_data(queries=9, rows=7)
    X = data.X.copy()
    X[::5, 1] = np.nan
    weight = np.random.default_rng(0).random(data.n_rows)
    w = np.arange(8.0)
    design = measure_design(X, scale=True, missing="mean")
    filled = np.where(np.isnan(X), design.fill, X.astype(np.float64)) * design.inverse
    for each in (design, Design(np.asfortranarray(X), design.fill, design.inverse)):
        np.testing.assert_allclose(each.scores(w), filled @ w)
        np.testing.assert_allclose(each.gather(weight), weight @ filled)
        np.testing.assert_allclose(each.squares(weight), weight @ filled**2)
    for offsets in (data.offsets, np.array([0, data.n_rows])):
        means = np.array([
            np.average(filled[a:b], axis=0, weights=weight[a:b])
            for a, b in pairwise(offsets)
        ])  # fmt: skip
        away = filled - np.repeat(means, np.diff(offsets), axis=0)
        monkeypatch.setattr(design_module, "SCATTER_ROWS", 20)
        matrix, along = design.scatter(offsets, weight, data.y)
        np.testing.assert_allclose(matrix, (away * weight[:, None]).T @ away, atol=1e-12)
        np.testing.assert_allclose(along, (away * weight[:, None]).T @ data.y, atol=1e-12)


def test_without_numba_the_sums_are_the_same(monkeypatch):
    for data in (make_data(), make_data(sparse=True)):
        design = measure_design(data.X, scale=True, missing="median")
        w, slope = np.arange(8.0), np.random.default_rng(0).normal(size=data.n_rows)
        compiled = design.scores(w), design.gather(slope)
        monkeypatch.setattr(design_module, "HAVE_NUMBA", False)
        np.testing.assert_allclose(design.scores(w), compiled[0], atol=1e-12)
        np.testing.assert_allclose(design.gather(slope), compiled[1], atol=1e-12)
        monkeypatch.undo()


@pytest.mark.parametrize("missing", ["median", "mean"])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_row_of_weight_two_is_a_row_given_twice(missing, sparse):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(41, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    weight = rng.integers(0, 3, len(X)).astype(float)
    twice = np.repeat(X, weight.astype(int), axis=0)
    given = [csr_array(each) if sparse else each for each in (X, twice)]
    one = measure_design(given[0], scale=True, missing=missing, weight=weight)
    two = measure_design(given[1], scale=True, missing=missing)
    np.testing.assert_allclose(one.fill, two.fill, rtol=1e-12)
    np.testing.assert_allclose(one.inverse, two.inverse, rtol=1e-12)


def test_columns_are_dropped_only_where_most_are_unused():
    X = csr_array(np.array([[0.0, 1.0, 0.0, 0.0, 2.0], [0.0, 3.0, 0.0, 0.0, 0.0]], dtype=np.float32))
    kept, places = keep_used(X)
    assert kept.toarray().tolist() == [[1.0, 2.0], [3.0, 0.0]]
    assert places.tolist() == [1, 4]
    full = csr_array(np.ones((2, 3), dtype=np.float32))
    assert keep_used(full)[0] is full
