"""RankingData: grouping, immutability, taking parts, joining parts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix

from placings.core.errors import BadInput, OneQuery, UnknownName
from placings.data.concatenation import concat
from placings.data.ranking import RankingData


@pytest.fixture
def mixed() -> RankingData:
    """Three queries whose rows came mixed: b has rows 0 and 2, a has 1 and 4, c has 3."""
    return RankingData.from_arrays(
        [[0, 10], [1, 11], [2, 12], [3, 13], [4, 14]],
        [0, 1, 2, 0, 1],
        ["b", "a", "b", "c", "a"],
        items=["i0", "i1", "i2", "i3", "i4"],
        position=[1, 1, 2, 1, 2],
        segments={"device": ["x", "y", "x", "z", "y"]},
    )


def test_rows_in_any_order_are_grouped_stably_by_first_appearance(mixed: RankingData) -> None:
    assert mixed.qids.tolist() == ["b", "a", "c"]
    assert mixed.offsets.tolist() == [0, 2, 4, 5]
    assert mixed.X[:, 0].tolist() == [0, 2, 1, 4, 3]
    assert mixed.y.tolist() == [0, 2, 1, 1, 0]
    assert mixed.items is not None
    assert mixed.items.tolist() == ["i0", "i2", "i1", "i4", "i3"]
    assert mixed.segments["device"].tolist() == ["x", "x", "y", "y", "z"]
    assert mixed.qid.tolist() == ["b", "b", "a", "a", "c"]
    assert mixed.query_index.tolist() == [0, 0, 1, 1, 2]


def test_integer_qids_stay_integers_and_floats_must_be_whole() -> None:
    assert RankingData.from_arrays([[1], [2]], [0, 1], [7, 3]).qids.tolist() == [7, 3]
    assert RankingData.from_arrays([[1], [2]], [0, 1], [7.0, 3.0]).qids.dtype == np.int64
    with pytest.raises(BadInput, match=r"qid must be whole numbers or strings. Got 0.5 at row 1"):
        RankingData.from_arrays([[1], [2]], [0, 1], [7.0, 0.5])
    with pytest.raises(BadInput, match="qid must not be missing. Got None at row 1"):
        RankingData.from_arrays([[1], [2]], [0, 1], ["a", None])


def test_without_qid_all_rows_are_one_query_and_a_warning_says_so() -> None:
    with pytest.warns(OneQuery, match="got no qid, so all 2 rows count as one query. Pass qid="):
        assert RankingData.from_arrays([[1], [2]], [0, 1]).offsets.tolist() == [0, 2]
    assert len(RankingData.from_arrays([[1]], [1])) == 1  # of one row there is nothing to say


def test_more_than_10_000_rows_need_a_qid() -> None:
    X, y = np.zeros((10_001, 1)), np.zeros(10_001)
    with pytest.raises(BadInput, match="needs qid above 10,000 rows.* Got 10,001 rows. Pass qid="):
        RankingData.from_arrays(X, y)
    assert len(RankingData.from_arrays(X, y, np.zeros(10_001))) == 1  # told on purpose


def test_nothing_can_be_changed_in_place(mixed: RankingData) -> None:
    for values in (mixed.X, mixed.y, mixed.offsets, mixed.qids, mixed.items, mixed.segments["device"]):
        assert isinstance(values, np.ndarray)
        with pytest.raises(ValueError, match="read-only"):
            values[0] = values[1]
    with pytest.raises(AttributeError):
        mixed.y = np.zeros(5)  # type: ignore[misc]
    with pytest.raises(TypeError):
        mixed.segments["new"] = np.zeros(5)  # type: ignore[index]


def test_sparse_rows_cannot_be_changed_in_place_either() -> None:
    data = RankingData.from_arrays(csr_array(np.eye(3)), [0, 1, 1], [1, 2, 1])
    with pytest.raises(ValueError, match="read-only"):
        data.X.data[:] = 9  # type: ignore[union-attr]


def test_replaced_parts_are_checked_as_when_built(mixed: RankingData) -> None:
    assert mixed.replace(y=[1, 0, 0, 0, 0]).y.dtype == np.float64
    with pytest.raises(BadInput, match="labels must be finite and 0 or more. Got -3.0 at row 1"):
        mixed.replace(y=[1, -3, 0, 0, 0])
    with pytest.raises(BadInput, match="y must have one label for each of the 5 rows"):
        mixed.replace(y=[1])


def test_building_never_changes_its_input() -> None:
    X, y, qid = np.ones((3, 2), dtype=np.float32), np.array([1.0, 0.0, 1.0]), np.array([2, 1, 2])
    RankingData.from_arrays(X, y, qid)
    X[0, 0], y[0], qid[0] = 5, 0, 1
    assert X.flags.writeable
    assert y.flags.writeable


def test_queries_are_taken_by_number_slice_list_and_mask(mixed: RankingData) -> None:
    assert mixed[1].qids.tolist() == ["a"]
    assert mixed[-1].qids.tolist() == ["c"]
    assert mixed[1:].X[:, 0].tolist() == [1, 4, 3]
    assert mixed[::-1].qids.tolist() == ["c", "a", "b"]
    assert mixed[[2, 0]].X[:, 0].tolist() == [3, 0, 2]
    assert mixed[np.array([True, False, True])].qids.tolist() == ["b", "c"]
    assert len(mixed[[]]) == 0
    assert [query.n_rows for query in mixed] == [2, 2, 1]
    assert mixed.query("a").items.tolist() == ["i1", "i4"]  # type: ignore[union-attr]
    with pytest.raises(IndexError, match="out of range; there are 3 queries"):
        mixed[3]
    with pytest.raises(BadInput, match="no query 'd'; the 3 queries begin with 'b', 'a', 'c'"):
        mixed.query("d")
    with pytest.raises(BadInput, match="a mask must have one value for each of the 3 queries"):
        mixed[np.array([True])]


def test_a_slice_shares_memory_with_the_whole(mixed: RankingData) -> None:
    assert np.shares_memory(np.asarray(mixed[1:].X), np.asarray(mixed.X))


def test_features_are_selected_by_name_or_place(mixed: RankingData) -> None:
    assert mixed.select(["f2"]).X[:, 0].tolist() == [10, 12, 11, 14, 13]
    assert mixed.select([1, 0]).feature_names == ("f2", "f1")
    with pytest.raises(UnknownName, match=r"no feature 'f3'; Known: f1, f2"):
        mixed.select(["f3"])


def test_sparse_rows_stay_sparse_through_grouping_and_slicing() -> None:
    dense = np.array([[0, 1, 0], [2, 0, 0], [0, 0, 3]], dtype=np.float32)
    for sparse in (csr_array(dense), csr_matrix(dense)):
        data = RankingData.from_arrays(sparse, [0, 1, 2], [1, 2, 1])
        assert data.is_sparse
        assert data.X.dtype == np.float32
        assert data.X.toarray().tolist() == dense[[0, 2, 1]].tolist()  # type: ignore[union-attr]
        assert data[1].X.toarray().tolist() == [[2, 0, 0]]  # type: ignore[union-attr]
        assert data.select(["f3"]).X.toarray().ravel().tolist() == [0, 3, 0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [1, 2]}, "X must be two-dimensional"),
        ({"X": [["a"], ["b"]]}, "X must be numbers"),
        ({"X": [[1], [np.inf]]}, "Got inf at row 1, column 0"),
        ({"X": [[1], [1e39]]}, "X must be finite as float32"),
        ({"y": [0, -1]}, r"labels must be finite and 0 or more. Got -1.0 at row 1"),
        ({"y": [0, np.nan]}, "labels must be finite"),
        ({"y": [0]}, "Got 2, 1 and 2 rows"),
        ({"feature_names": ["a", "b"]}, "Got 2 names"),
        ({"weight": [1, -1]}, "weight must be finite and 0 or more. Got -1.0 at row 1"),
        ({"propensity": [0.5, 0.0]}, "propensity must be above 0 and at most 1"),
        ({"position": [0, 1]}, "position must count from 1. Got 0 at row 0"),
        ({"position": [1.5, 1]}, "position must be whole numbers"),
        ({"segments": {"s": ["x"]}}, "segment 's' must have one value for each of the 2 rows"),
        ({"items": ["x"]}, "items must have one value for each of the 2 rows"),
    ],
)
def test_bad_arguments_are_told_with_what_was_given(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {"X": [[1], [2]], "y": [0, 1], "qid": [1, 1]}
    with pytest.raises(BadInput, match=message):
        RankingData.from_arrays(**{**arguments, **change})  # type: ignore[arg-type]


def test_a_repeated_feature_name_is_refused() -> None:
    with pytest.raises(BadInput, match="Got 'a' twice"):
        RankingData.from_arrays([[1, 2]], [0], feature_names=["a", "a"])


def test_missing_is_nan_and_fractions_are_grades() -> None:
    data = RankingData.from_arrays([[np.nan]], [0.25])
    assert np.isnan(data.X[0, 0])
    assert data.y.tolist() == [0.25]


def test_the_summary_names_rows_queries_labels_and_empty_queries(mixed: RankingData) -> None:
    text = repr(mixed)
    assert "rows              5" in text
    assert "0: 40.0%, 1: 40.0%, 2: 20.0%" in text
    assert "1 of 3 queries" in text
    assert "segment 'device'" in text
    html = mixed.replace(segments={"<b>": mixed.segments["device"]})._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_no_rows_can_be_held_and_shown() -> None:
    data = RankingData.from_arrays(np.zeros((0, 2)), [], np.array([], dtype=np.int64))
    assert len(data) == 0
    assert "rows      0" in repr(data)


def test_concat_puts_queries_after_each_other_and_matches_features_by_name(mixed: RankingData) -> None:
    joined = concat([mixed[0], mixed[1:].select(["f2", "f1"])])
    assert joined.qids.tolist() == mixed.qids.tolist()
    np.testing.assert_array_equal(np.asarray(joined.X), np.asarray(mixed.X))
    assert joined.items is not None
    assert joined.segments["device"].tolist() == mixed.segments["device"].tolist()


def test_concat_refuses_the_same_qid_in_two_parts_unless_told_to_join(mixed: RankingData) -> None:
    with pytest.raises(BadInput, match="qid 'b' stands in more than one part"):
        concat([mixed, mixed[0]])
    joined = concat([mixed, mixed[0]], repeated_qid="join")
    assert joined.sizes.tolist() == [4, 2, 1]


def test_concat_refuses_parts_that_differ(mixed: RankingData) -> None:
    with pytest.raises(BadInput, match="differ in 1: 'f2'"):
        concat([mixed[0], mixed[1].select(["f1"])])
    with pytest.raises(BadInput, match="items is known in some parts only"):
        concat([mixed[0], mixed[1].replace(items=None)])
    with pytest.raises(BadInput, match="at least one"):
        concat([])


def test_concat_mixes_sparse_and_dense_as_sparse() -> None:
    dense = RankingData.from_arrays([[0, 1]], [1], [1])
    sparse = RankingData.from_arrays(csr_array([[2.0, 0.0]]), [0], ["x"])
    joined = concat([dense, sparse])
    assert joined.is_sparse
    assert joined.qids.tolist() == ["1", "x"]
    assert joined.X.toarray().tolist() == [[0, 1], [2, 0]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("part", "values", "message"),
    [
        ("position", np.array([2**63, 1], dtype=np.uint64), "position must be below 2"),
        ("position", [1e300, 1.0], "position must be below 2"),
        ("weight", ["a", "b"], "weight must be numbers"),
        ("propensity", [[0.5], [0.5]], "propensity must be one-dimensional"),
    ],
)
def test_columns_that_overflow_or_are_text_are_refused(part: str, values: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        RankingData.from_arrays([[1.0], [2.0]], [0, 1], [1, 1], **{part: values})


def test_labels_of_text_are_refused() -> None:
    with pytest.raises(BadInput, match="labels must be numbers"):
        RankingData.from_arrays([[1.0], [2.0]], ["a", "b"], [1, 1])


def test_the_first_of_many_names_that_stands_twice_is_named() -> None:
    names = [*map(str, range(20_000)), "19999"]
    with pytest.raises(BadInput, match="Got '19999' twice"):  # counting each name anew would take minutes
        RankingData.from_arrays(np.zeros((1, 20_001)), [0], [1], feature_names=names)
