"""Ids: what they may be, and how they are numbered."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placings.core.errors import BadInput
from placings.data.ids import as_ids, number_ids


@given(st.lists(st.integers(-3, 3)) | st.lists(st.text(max_size=2)))
def test_codes_number_ids_by_first_appearance_and_lead_back_to_them(values: list[object]) -> None:
    codes, distinct = number_ids(as_ids(np.array(values, dtype=object), "qid"))
    assert [distinct.tolist()[code] for code in codes] == values
    assert distinct.tolist() == list(dict.fromkeys(values))


def test_numbers_beyond_int64_become_text() -> None:
    assert as_ids(np.array([2**63], dtype=np.uint64), "qid").tolist() == [str(2**63)]
    assert as_ids([2**70, 1], "qid").tolist() == [str(2**70), "1"]


def test_text_bytes_and_numbers_mixed_become_text() -> None:
    assert as_ids(np.array([1, "a", b"b"], dtype=object), "qid").tolist() == ["1", "a", "b"]
    assert as_ids(np.array([b"x"]), "qid").tolist() == ["x"]


@pytest.mark.parametrize("bad", [[[1, 2]], [1.5], [float("nan")], [None], [(1,), 2]])
def test_what_is_no_id_is_refused(bad: list[object]) -> None:
    given_values = np.empty(len(bad), dtype=object) if isinstance(bad[0], tuple) else None
    if given_values is not None:
        given_values[:] = bad
    with pytest.raises(BadInput, match="qid must"):
        as_ids(bad if given_values is None else given_values, "qid")
