"""Ids: what they may be, and how they are numbered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placings.core.errors import BadInput
from placings.data.ids import as_ids, number_ids
from placings.data.ranking import RankingData
from placings.data.reading import read


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


BEYOND = 2**63  # the first whole number that int64 does not hold
PAIRS = [
    (f"{2 * BEYOND - 2}", f"{2 * BEYOND - 1}"),  # as float64 both are 2^64
    ("1e300", "2e300"),
    ("007", "7"),
    ("0x10", "16"),
    ("+7", "7"),
    ("-0", "0"),
    ("1.0", "1"),
    ("true", "1"),
    ("9007199254740993", "9007199254740992.0"),
]


def rank(values: object) -> RankingData:
    return RankingData.from_arrays([[1.0], [2.0]], [0, 1], values)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.txt"])
def test_ids_that_differ_as_written_stay_two_queries(
    pair: tuple[str, str], name: str, tmp_path: Path
) -> None:
    mark = "\t" if name.endswith("tsv") else ","
    table = "\n".join(
        mark.join(row) for row in (("qid", "label", "x"), (pair[0], "0", "1"), (pair[1], "1", "2"))
    )
    text = f"0 qid:{pair[0]} 1:1\n1 qid:{pair[1]} 1:2\n"
    (tmp_path / name).write_text(text if name.endswith("txt") else table + "\n")
    options = {} if name.endswith("txt") else {"qid": "qid", "label": "label"}
    assert read(tmp_path / name, **options).qids.tolist() == list(pair)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_texts_from_pandas_and_lists_stay_as_written(pair: tuple[str, str]) -> None:
    frame = pd.DataFrame({"qid": list(pair), "label": [0, 1], "x": [1.0, 2.0]})
    assert RankingData.from_pandas(frame, qid="qid", label="label").qids.tolist() == list(pair)
    assert rank(list(pair)).qids.tolist() == list(pair)


@pytest.mark.parametrize(
    "values",
    [
        np.array([2 * BEYOND - 2, 2 * BEYOND - 1], dtype=np.uint64),
        [2 * BEYOND - 2, 2 * BEYOND - 1],
        [2 * BEYOND - 2, -1],  # numpy makes floats of these
        [10**40, 10**40 + 1],
        np.array([10**40, np.int64(3)], dtype=object),
    ],
    ids=str,
)
def test_whole_numbers_beyond_int64_are_text_and_stay_apart(values: object) -> None:
    assert rank(values).qids.tolist() == [str(int(value)) for value in values]  # type: ignore[attr-defined]


def test_the_largest_and_smallest_int64_are_numbers(tmp_path: Path) -> None:
    ids = [BEYOND - 1, -BEYOND]
    assert rank(ids).qids.tolist() == ids
    (tmp_path / "rows.txt").write_text("".join(f"0 qid:{each} 1:1\n" for each in ids))
    assert read(tmp_path / "rows.txt").qids.tolist() == ids
    codes, _ = number_ids(np.array([BEYOND - 1, -BEYOND, BEYOND - 1]))
    assert codes.tolist() == [0, 1, 0]


@pytest.mark.parametrize("values", [[1e300, 2e300], [2.0**53, 1.0], np.array([2**24, 1], dtype=np.float32)])
def test_floats_that_no_longer_tell_ids_apart_are_refused(values: object) -> None:
    # 2^53 + 1 is 2^53 as float64, 2^24 + 1 is 2^24 as float32
    with pytest.raises(BadInput, match="Read it as int64 or text"):
        rank(values)


def test_smaller_whole_floats_are_numbers_as_before(tmp_path: Path) -> None:
    assert rank([2.0**53 - 1, 1.0]).qids.tolist() == [2**53 - 1, 1]
    (tmp_path / "rows.csv").write_text("qid,label,x\n1.0,0,1\n2.0,1,2\n")
    assert read(tmp_path / "rows.csv", qid="qid", label="label").qids.tolist() == [1, 2]


@pytest.mark.parametrize("bad", [["\ud800"], [b"\xff"], np.array([b"\xff"]), [float("nan"), "a"]], ids=str)
def test_what_is_no_text_is_refused_in_our_words(bad: object) -> None:
    with pytest.raises(BadInput, match="qid must"):
        as_ids(bad, "qid")


def test_a_last_nul_tells_two_ids_apart() -> None:
    assert as_ids(["a\0", "a"], "qid").tolist() == ["a\0", "a"]


def test_a_column_with_the_name_of_an_id_keeps_its_type_where_it_is_none(tmp_path: Path) -> None:
    # `group` is a usual name of a query's id; here it is a feature
    (tmp_path / "rows.csv").write_text("qid,label,x,group\n7,0,1,1.5\n8,1,2,2.5\n")
    data = read(tmp_path / "rows.csv", qid="qid", label="label", features=["x", "group"])
    assert data.X.tolist() == [[1.0, 1.5], [2.0, 2.5]]
    assert data.qids.tolist() == [7, 8]
