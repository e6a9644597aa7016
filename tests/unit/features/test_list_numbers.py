"""Numbers that compare a row with its list, against the obvious loop."""

from __future__ import annotations

import numpy as np
import pytest

from placings.features.columns import RowLists


@pytest.fixture
def made() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 5, 200).astype(float)  # many ties
    values[rng.random(200) < 0.2] = np.nan
    return rng.integers(0, 40, 200), values  # lists scattered over the table


def test_every_number_is_that_of_the_obvious_loop(made: tuple[np.ndarray, np.ndarray]) -> None:
    codes, values = made
    lists = RowLists(codes)
    largest, smallest, total, rank = (
        getattr(lists, n)(values) for n in ("largest", "smallest", "total", "rank")
    )
    for row in range(len(codes)):
        own = values[codes == codes[row]]
        known = own[~np.isnan(own)]
        if len(known):
            assert (largest[row], smallest[row]) == (known.max(), known.min())
        else:
            assert np.isnan(largest[row])
            assert np.isnan(smallest[row])
        assert total[row] == known.sum()
        expected = np.nan if np.isnan(values[row]) else 1 + (known > values[row]).sum()
        np.testing.assert_equal(rank[row], expected)


def test_lists_are_cut_further_by_parts() -> None:
    lists = RowLists(np.array([0, 0, 0, 1]))
    parts = lists.within(np.array([2, 0, 2, 2]))
    np.testing.assert_array_equal(parts.count(np.ones(4, dtype=bool)), [2, 1, 2, 1])


def test_no_rows_give_no_numbers() -> None:
    lists = RowLists(np.array([], dtype=np.int64))
    for name in ("largest", "smallest", "total", "rank"):
        assert len(getattr(lists, name)(np.array([]))) == 0
    assert len(lists.within(np.array([], dtype=np.int64)).codes) == 0
