"""Row weights: when they are weights of queries, of classes, or of items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placings.data import RankingData, find_uneven_rows
from placings.rankers.item_weights import are_classes, differ_within, find_better, name_uneven, weigh_queries


def make(weight: Any, y: Any = (0, 1, 2, 0, 1), qid: Any = ("a", "a", "a", "b", "b")) -> RankingData:
    return RankingData.from_arrays(np.arange(len(y))[:, None], y, qid, weight=weight)


def test_rows_that_weigh_otherwise_than_their_query_are_found() -> None:
    assert find_uneven_rows(make([1, 1, 1, 3, 3])).tolist() == [False] * 5
    uneven = make([1, 1, 1, 3, 4])
    assert find_uneven_rows(uneven).tolist() == [False] * 4 + [True]
    assert (differ_within(uneven), name_uneven(uneven)) == (True, "b")
    assert not differ_within(make(None))
    empty = make([1, 2, 2, 3, 4])[[]]
    assert (find_uneven_rows(empty).shape, differ_within(empty)) == ((0,), False)


def test_a_query_of_no_rows_is_no_trouble() -> None:
    data = make([1, 1, 1, 3, 4])
    holed = RankingData(
        X=data.X, y=data.y, offsets=np.array([0, 3, 3, 5]), qids=np.array(["a", "-", "b"]),
        feature_names=data.feature_names, weight=data.weight,
    )  # fmt: skip
    assert find_uneven_rows(holed).tolist() == [False] * 4 + [True]


def test_the_better_rows_are_those_above_the_lowest_label() -> None:
    assert find_better(make(None)).tolist() == [False, True, True, False, True]
    assert find_better(make(None, y=(1, 1, 1, 0, 0))).tolist() == [False] * 5


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ([1, 4, 4, 9, 2], [4.0, 2.0]),  # the lowest row of each is never the better one
        ([1, 4, 5, 9, 2], None),
        ([3, 3, 3, 7, 7], [3.0, 7.0]),
    ],
)
def test_one_weight_of_a_query_does_for_all_its_pairs_or_none_does(weight: Any, expected: Any) -> None:
    found = weigh_queries(make(weight))
    assert (None if found is None else found.tolist()) == expected


def test_a_query_without_pairs_weighs_what_its_first_row_does() -> None:
    assert weigh_queries(make([5, 6, 7, 1, 2], y=(1, 1, 1, 0, 1))).tolist() == [5.0, 2.0]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("weight", "expected"),
    [
        ([1, 10, 10, 1, 10], True),
        ([2, 20, 20, 3, 30], True),  # times a weight of the query
        ([1, 10, 10, 1, 5], False),  # another factor: of items
        ([1, 10, 11, 1, 10], False),
        ([1, 1, 1, 2, 2], True),
    ],
)
def test_weights_of_classes_have_one_factor_for_all_queries(weight: Any, expected: bool) -> None:
    assert are_classes(make(weight)) is expected
