"""Raw, gauss, log1p, minmax and query_minmax, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, random_array

from placings.core.errors import BadInput, MissingExtra, OneQuery
from placings.data.ranking import RankingData
from placings.transforms import Gauss, Log1p, MinMax, QueryMinMax, Raw, transformer

EPS = float(np.finfo(np.float32).eps)  # results are float32; logarithms and roots may be off by an ulp or two


def test_gauss_divides_by_the_populations_standard_deviation() -> None:
    made = Gauss().fit([[1.0], [2.0], [6.0]])  # mean 3, squares 4 + 1 + 9
    assert made.mean_.tolist() == [3.0]
    assert made.std_[0] == pytest.approx(math.sqrt(14 / 3), rel=8 * np.finfo(np.float64).eps)
    assert made.transform([[5.0]])[0, 0] == pytest.approx(2 / math.sqrt(14 / 3), rel=2 * EPS)


def test_gauss_makes_a_constant_feature_zero_for_unseen_values_too() -> None:
    made = Gauss().fit(np.full((9, 1), 0.1))
    assert made.transform([[0.1], [7.0]]).tolist() == [[0.0], [0.0]]
    assert made.module()(torch.tensor([[7.0]])).tolist() == [[0.0]]


def test_gauss_in_float32_is_right_where_values_are_close_together_and_far_from_zero() -> None:
    X = (1e8 + 8.0 * np.arange(5))[:, None].astype(np.float32)  # float32 steps by 8 up there
    X = X[[0, 0, 0, 1, 2, 4]]
    exact = X.astype(np.float64)
    ran = Gauss().fit(X).module()(torch.tensor(X)).numpy()
    np.testing.assert_allclose(ran, (exact - exact.mean()) / exact.std(), rtol=1e-6, atol=1e-6)


def test_log1p_is_symmetric() -> None:
    made = Log1p().fit_transform([[math.e - 1], [1 - math.e], [0.0], [1e8]])[:, 0]
    np.testing.assert_allclose(made, [1.0, -1.0, 0.0, math.log(100_000_001)], rtol=4 * EPS)


def test_minmax_leaves_its_range_unless_told_to_clip() -> None:
    X, far = [[2.0], [6.0]], np.array([[0.0], [4.0], [10.0]], dtype=np.float32)
    for clip, expected in ((False, [-0.5, 0.5, 2.0]), (True, [0.0, 0.5, 1.0])):
        made = MinMax(clip=clip).fit(X)
        assert made.transform(far)[:, 0].tolist() == expected
        assert made.module()(torch.tensor(far))[:, 0].tolist() == expected
    assert (made.minimum_.tolist(), made.maximum_.tolist()) == ([2.0], [6.0])


def test_query_minmax_scales_within_each_query_in_any_order_of_rows() -> None:
    X = np.array([[1.0, 5.0], [10.0, 5.0], [3.0, 5.0], [30.0, 7.0], [2.0, 9.0]], dtype=np.float32)
    qid = ["a", "b", "a", "b", "a"]
    expected = np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.5, 1.0]])
    scale = QueryMinMax().fit(X)
    np.testing.assert_array_equal(scale.transform(X, qid=qid), expected)
    np.testing.assert_array_equal(QueryMinMax().fit_transform(X, qid=qid), expected)
    data = RankingData.from_arrays(X, np.zeros(5), qid)
    order = [0, 2, 4, 1, 3]
    np.testing.assert_array_equal(scale.transform(data), expected[order])
    ran = scale.module()(torch.tensor(X[order]), torch.tensor(data.offsets))
    np.testing.assert_array_equal(ran, expected[order])


def test_query_minmax_agrees_with_torch_over_many_blocks_and_empty_queries() -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 40, 300)
    X = np.exp(rng.normal(size=(sizes.sum(), 300)) * 5).astype(np.float32)  # more than one block of rows
    X[:, 7] = 3.0
    qid = np.repeat(np.arange(300), sizes)
    scale = QueryMinMax().fit(X)
    made = scale.transform(X, qid=qid)
    offsets = torch.tensor(np.concatenate([[0], np.cumsum(sizes)]))
    np.testing.assert_allclose(scale.module()(torch.tensor(X), offsets), made, rtol=1e-6, atol=1e-6)
    assert made.min() == 0.0
    assert made.max() == 1.0
    shuffle = rng.permutation(len(X))
    np.testing.assert_array_equal(scale.transform(X[shuffle], qid=qid[shuffle]), made[shuffle])


def test_query_minmax_without_qid_says_that_all_rows_are_one_query() -> None:
    scale = QueryMinMax().fit([[1.0], [2.0]])
    with pytest.warns(OneQuery, match="QueryMinMax.transform got no qid, so all 2 rows count as one") as said:
        scale.transform([[1.0], [3.0]])
    assert [each.filename for each in said] == [__file__]
    with pytest.raises(BadInput, match="transform needs qid above 10,000 rows"):
        scale.transform(np.zeros((10_001, 1)))


def test_query_minmax_wants_one_id_a_row() -> None:
    with pytest.raises(BadInput, match="each of the 2 rows. Got 1"):
        QueryMinMax().fit([[1.0], [2.0]]).transform([[1.0], [2.0]], qid=[1])


def test_wide_csr_rows_stay_csr_where_zero_stays_zero_and_are_refused_elsewhere() -> None:
    wide = csr_array(random_array((2000, 2**17), density=1e-5, rng=np.random.default_rng(0), format="csr"))
    for transform in (Raw(), Log1p(), MinMax()):
        made = transform.fit(wide).transform(wide)
        assert made.nnz == wide.nnz
        assert made.dtype == np.float32
    with pytest.raises(BadInput, match="2000 × 131072 numbers are too many"):
        Gauss().fit(wide).transform(wide)
    shifted = csr_array(np.array([[-1.0, 0.0], [2.0, 3.0]]))
    assert isinstance(MinMax().fit(shifted).transform(shifted), np.ndarray)


def test_csr_entries_that_stand_twice_count_as_their_sum() -> None:
    twice = csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2, 2])), shape=(2, 1))
    assert Log1p().fit(twice).transform(twice).toarray()[0, 0] == pytest.approx(math.log(4.0))
    assert twice.nnz == 2


def test_without_torch_a_module_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'placings\[neural\]'"):
        Gauss().fit([[1.0], [2.0]]).module()


def test_what_differs_does_not_merge() -> None:
    one = Gauss().fit([[1.0], [2.0]])
    with pytest.raises(BadInput, match="one kind"):
        one.merge(Raw().fit([[1.0]]))
    with pytest.raises(BadInput, match="same settings"):
        one.merge(Gauss(missing="zero").fit([[1.0]]))
    with pytest.raises(BadInput, match="same features"):
        one.merge(Gauss().fit([[1.0, 2.0]]))
