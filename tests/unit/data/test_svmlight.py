"""svmlight text: every answer the reader gives, good lines and bad."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from placings.core.errors import BadFile, BadInput, EmptyFile, Joined, PlacingsWarning, TruncatedFile
from placings.core.limits import OverLimit
from placings.data import svmlight
from placings.data.ranking import RankingData
from placings.data.reading import read
from placings.data.svmlight import read_svmlight, write_svmlight


@pytest.fixture(autouse=True)
def _threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACINGS_THREADS", "3")  # blocks side by side, on any machine


TWO_QUERIES = "2 qid:7 1:0.5 2:3 #docid = A-1 inc = 1\n0 qid:7 1:1e-3 2:-4\n1 qid:9 2:2.5 # B\n"


def write_lines(folder: Path, text: str | bytes, name: str = "rows.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_labels_qids_features_and_item_ids_are_read(tmp_path: Path) -> None:
    data = read_svmlight(write_lines(tmp_path, TWO_QUERIES))
    assert data.y.tolist() == [2, 0, 1]
    assert data.qids.tolist() == [7, 9]
    assert data.offsets.tolist() == [0, 2, 3]
    np.testing.assert_array_equal(data.X, np.array([[0.5, 3], [1e-3, -4], [0, 2.5]], dtype=np.float32))
    assert data.items is not None
    assert data.items.tolist() == ["A-1", "", "B"]
    assert data.feature_names == ("f1", "f2")


@pytest.mark.parametrize("ending", ["\r\n", "\n\n  \n", " \t\n"])
def test_line_endings_blank_lines_and_tabs_do_not_matter(tmp_path: Path, ending: str) -> None:
    text = "# a comment line\n" + TWO_QUERIES.replace("\n", ending).replace(" qid", "\tqid")
    data = read_svmlight(write_lines(tmp_path, text))
    assert data.X.shape == (3, 2)
    assert data.items is not None
    assert data.items.tolist() == ["A-1", "", "B"]


def test_a_byte_order_mark_and_a_missing_last_newline_do_not_matter(tmp_path: Path) -> None:
    data = read_svmlight(write_lines(tmp_path, b"\xef\xbb\xbf" + TWO_QUERIES.strip().encode()))
    assert data.y.tolist() == [2, 0, 1]


def test_gzip_and_zstd_are_told_by_their_bytes_not_their_names(tmp_path: Path) -> None:
    zipped = write_lines(tmp_path, gzip.compress(TWO_QUERIES.encode()), "rows.dat")
    with pa.output_stream(str(tmp_path / "rows.zst"), compression="zstd") as out:
        out.write(TWO_QUERIES.encode())
    for path in (zipped, tmp_path / "rows.zst"):
        assert read_svmlight(path).y.tolist() == [2, 0, 1]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_truncated_file_is_refused_not_half_read(tmp_path: Path, codec: str) -> None:
    rng = np.random.default_rng(0)
    text = "".join(f"0 qid:1 1:{value}\n" for value in rng.random(200_000)).encode()
    with pa.output_stream(str(tmp_path / "whole"), compression=codec) as out:
        out.write(text)
    whole = (tmp_path / "whole").read_bytes()
    for share in (0.3, 0.9, 0.999):
        cut = write_lines(tmp_path, whole[: int(len(whole) * share)], "cut")
        with pytest.raises(TruncatedFile, match=rf"cut: the {codec} data end early or are damaged"):
            read_svmlight(cut)


def test_damaged_gzip_is_refused(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(TWO_QUERIES.encode() * 100))
    whole[40] ^= 0xFF
    with pytest.raises(TruncatedFile, match="Fetch the file again"):
        read_svmlight(write_lines(tmp_path, bytes(whole)))


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_an_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    for content in (text.encode(), gzip.compress(text.encode())):
        with pytest.raises(EmptyFile, match="holds no rows"):
            read_svmlight(write_lines(tmp_path, content))


def test_a_file_that_is_not_there_says_what_is(tmp_path: Path) -> None:
    write_lines(tmp_path, TWO_QUERIES)
    with pytest.raises(BadFile, match="no such file. Beside it: rows.txt"):
        read_svmlight(tmp_path / "row.txt")
    with pytest.raises(BadFile, match="is a folder"):
        read_svmlight(tmp_path)


GOOD = "1 qid:1 1:1\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x qid:1 1:1", "the label is 'x'"),
        ("qid:1 1:1", "the label is 'qid:1'"),
        ("inf qid:1 1:1", "the label is 'inf'"),
        ("nan qid:1 1:1", "the label is 'nan'"),
        ("1_0 qid:1 1:1", "the label is '1_0'"),
        ("-1 qid:1 1:1", "the label is -1. Labels must be 0 or more; pass negative_labels='zero'"),
        ("1 qid:1 1:NULL", "feature 1 is 'NULL'. Pass missing='NULL' to read it as missing."),
        ("1 qid:1 7:1.2.3", "feature 7 is '1.2.3'"),
        ("1 qid:1 7:", "feature 7 is ''"),
        ("1 qid:1 7:1_0", "feature 7 is '1_0'"),
        ("1 qid:1 7:١", "feature 7 is '١'"),
        ("1 qid:1 7:inf", "feature 7 is 'inf', not finite as float32. Pass non_finite='missing'"),
        ("1 qid:1 7:1.79769313486e+308", "not finite as float32"),
        ("1 qid:1 7:-4e38", "not finite as float32"),
        ("1 qid:1 x:1", "expected feature:value, such as 7:0.25, but found 'x:1'"),
        ("1 qid:1 7", "but found '7'"),
        ("1 qid:1 -3:1", "but found '-3:1'"),
        ("1,2,3", "the label is '1,2,3'"),
        ("1 qid:1 99999999999:1", "feature number 99,999,999,999 is over the limit of 1,048,576"),
        ("1 qid:1 qid:2 1:1", "a second qid"),
        ("1 qid: 1:1", "qid: stands without a value"),
        ("1 qid:1 2:1 2:3", "feature 2 is given twice"),
        ("1 1:1", "has no qid, while other lines have one"),
    ],
)
def test_a_bad_line_is_told_with_its_number(tmp_path: Path, line: str, message: str) -> None:
    path = write_lines(tmp_path, GOOD + "\n" + GOOD + line + "\n" + GOOD)
    with pytest.raises(BadFile, match=re.escape(f"{path}:4: ") + ".*" + re.escape(message)) as caught:
        read_svmlight(path)
    assert caught.value.line == 4


def test_line_numbers_hold_far_into_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight, "BLOCK", 64)
    path = write_lines(tmp_path, GOOD * 500 + "\n# note\n" + "1 qid:1 1:oops\n" + GOOD * 500 + "worse\n")
    with pytest.raises(BadFile, match="rows.txt:503: feature 1 is 'oops'"):
        read_svmlight(path)


def test_words_for_missing_become_nan(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "1 qid:1 1:NULL 2:na 3:nan\n0 qid:1 1:1 2:2 3:NaN\n")
    data = read_svmlight(path, missing=["NULL", "na"])
    assert np.isnan(data.X[0]).all()
    assert np.isnan(data.X).tolist() == [[True, True, True], [False, False, True]]


def test_infinite_values_are_missing_when_asked(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "1 qid:1 1:1.79769313486e+308 2:3\n0 qid:1 1:-inf 2:4\n")
    data = read_svmlight(path, non_finite="missing")
    assert np.isnan(data.X[:, 0]).all()
    assert data.X[:, 1].tolist() == [3, 4]


def test_fractional_labels_are_kept_and_negative_ones_follow_the_rule(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "0.125 qid:1 1:1 #a\n-1 qid:1 1:2 #b\n3 qid:2 1:3 #c\n")
    assert read_svmlight(path, negative_labels="zero").y.tolist() == [0.125, 0, 3]
    dropped = read_svmlight(path, negative_labels="drop")
    assert dropped.y.tolist() == [0.125, 3]
    assert dropped.items is not None
    assert dropped.items.tolist() == ["a", "c"]
    with pytest.raises(EmptyFile, match="no row with a label of 0 or more"):
        read_svmlight(write_lines(tmp_path, "-1 qid:1 1:2\n"), negative_labels="drop")


def test_a_qid_that_comes_back_is_joined_and_said_or_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "1 qid:5 1:1\n0 qid:6 1:2\n2 qid:5 1:3\n")
    with pytest.warns(PlacingsWarning, match="rows.txt:3: qid 5 comes back after other queries"):
        data = read_svmlight(path)
    assert data.X[:, 0].tolist() == [1, 3, 2]
    assert data.y.tolist() == [1, 2, 0]
    assert data.qids.tolist() == [5, 6]
    with pytest.raises(BadFile, match="rows.txt:3: qid 5 comes back"):
        read_svmlight(path, repeated_qid="error")


def test_qids_are_numbers_where_all_are_and_text_where_one_is_not(tmp_path: Path) -> None:
    assert read_svmlight(write_lines(tmp_path, "1 qid:-5 1:1\n")).qids.tolist() == [-5]
    mixed = read_svmlight(write_lines(tmp_path, "1 qid:5 1:1\n1 qid:a-b 1:1\n1 qid:007 1:1\n1 qid:7 1:1\n"))
    assert mixed.qids.tolist() == ["5", "a-b", "007", "7"]
    huge = read_svmlight(write_lines(tmp_path, f"1 qid:{2**80} 1:1\n"))
    assert huge.qids.tolist() == [str(2**80)]


def test_text_qids_in_a_later_block_turn_earlier_numbers_to_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svmlight, "BLOCK", 32)
    data = read_svmlight(write_lines(tmp_path, "1 qid:5 1:1\n" * 20 + "1 qid:x 1:1\n" * 3))
    assert data.qids.tolist() == ["5", "x"]
    assert data.sizes.tolist() == [20, 3]


def test_feature_ids_count_from_one_unless_a_zero_occurs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_svmlight(write_lines(tmp_path, "1 qid:1 1:5 3:7\n")).X.tolist() == [[5, 0, 7]]
    assert read_svmlight(write_lines(tmp_path, "1 qid:1 0:5 2:7\n")).X.tolist() == [[5, 0, 7]]
    monkeypatch.setattr(svmlight, "BLOCK", 16)  # the zero comes in a later block than the rest
    late = read_svmlight(write_lines(tmp_path, "1 qid:1 1:5 2:6\n" * 5 + "1 qid:1 0:1 1:2 2:3\n"))
    assert late.X.tolist() == [[0, 5, 6]] * 5 + [[1, 2, 3]]


def test_feature_ids_may_come_in_any_order(tmp_path: Path) -> None:
    assert read_svmlight(write_lines(tmp_path, "1 qid:1 3:7 1:5\n")).X.tolist() == [[5, 0, 7]]


def test_width_grows_with_later_rows_and_can_be_fixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svmlight, "BLOCK", 16)
    path = write_lines(tmp_path, "1 qid:1 1:1 2:2\n" * 5 + "1 qid:1 1:1 2:2 3:3\n" + "1 qid:1 1:9\n" * 4)
    expected = [[1, 2, 0]] * 5 + [[1, 2, 3]] + [[9, 0, 0]] * 4
    assert read_svmlight(path).X.tolist() == expected
    assert read_svmlight(path, n_features=5).X.shape == (10, 5)
    assert read_svmlight(path, feature_names=["a", "b", "c"]).feature_names == ("a", "b", "c")
    with pytest.raises(BadFile, match="has feature 3, so 3 features, more than the 2 asked for"):
        read_svmlight(path, n_features=2)
    with pytest.raises(BadInput, match="feature_names must name all 5 features. Got 1 names"):
        read_svmlight(path, n_features=5, feature_names=["a"])


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_rows_of_every_density_give_the_same_matrix_dense_and_sparse(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(svmlight, "BLOCK", block)
    rng = np.random.default_rng(0)
    density = np.repeat([0.02, 0.9, 0.1, 1.0, 0.0], 20)
    X = np.where(rng.random((100, 90)) < density[:, None], rng.normal(size=(100, 90)), 0).astype(np.float32)
    lines = []
    for row in X:
        pairs = " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row.tolist()) if v)
        lines.append(f"0 qid:1 {pairs}\n")
    path = write_lines(tmp_path, "".join(lines))
    dense = read_svmlight(path, sparse=False, n_features=90)
    sparse = read_svmlight(path, sparse=True, n_features=90)
    np.testing.assert_array_equal(np.asarray(dense.X), X)
    assert sparse.is_sparse
    np.testing.assert_array_equal(sparse.X.toarray(), X)  # type: ignore[union-attr]


def test_wide_thin_data_stay_sparse_by_themselves(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "1 qid:1 7:1 1048576:2\n0 qid:1 3:1\n")
    data = read_svmlight(path)
    assert data.is_sparse
    assert data.X.shape == (2, 1_048_576)
    assert data.X[0, 1_048_575] == 2


def test_group_sizes_come_from_side_files_or_from_the_caller(tmp_path: Path) -> None:
    text = "1 1:1\n0 1:2\n2 1:3\n"
    path = write_lines(tmp_path, gzip.compress(text.encode()), "rank.train.gz")
    with pytest.raises(BadFile, match="has no qid, and no .query or .group file lies beside it"):
        read_svmlight(path)
    assert read_svmlight(path, groups=[1, 2]).sizes.tolist() == [1, 2]
    write_lines(tmp_path, gzip.compress(b"2\n1\n"), "rank.train.query.gz")
    assert read_svmlight(path).sizes.tolist() == [2, 1]
    with pytest.raises(BadFile, match="the sizes of 2 queries add up to 9 rows, but rank.train.gz has 3"):
        read_svmlight(path, groups=[4, 5])
    other = write_lines(tmp_path, "2\nx\n", "sizes")
    with pytest.raises(BadFile, match="sizes:2: expected the number of rows of a query, found 'x'"):
        read_svmlight(path, groups=other)


@pytest.mark.parametrize("last", ["4", "6", "18446744073709551615", "9" * 5000])
def test_group_sizes_beyond_all_rows_are_refused_with_their_line(tmp_path: Path, last: str) -> None:
    # 2 · (2^63 − 1) + 6 is 4 as int64: the sizes of the four rows, and a crash
    path = write_lines(tmp_path, "1 1:1\n" * 4, "rank.train")
    write_lines(tmp_path, f"0\n9223372036854775807\n9223372036854775807\n{last}\n", "rank.train.query")
    with pytest.raises(
        BadFile, match="query:2: a query of 9223372036854775807 rows is too large: rank.train has 4"
    ):
        read_svmlight(path)
    write_lines(tmp_path, f"1\n{last}\n", "rank.train.query")
    with pytest.raises(BadFile, match="rank.train.query"):
        read_svmlight(path)


@pytest.mark.parametrize("groups", [[1.5, 2.5], [2**64 - 1, 5], [[4]], ["4"], [2**70]])
def test_groups_of_a_caller_must_be_whole_numbers(tmp_path: Path, groups: list[int]) -> None:
    path = write_lines(tmp_path, "1 1:1\n" * 4)
    with pytest.raises(BadInput, match="groups must be the number of rows of each query"):
        read_svmlight(path, groups=groups)
    with pytest.raises(BadFile, match="add up to 18,446,744,073,709,551,614 rows"):
        read_svmlight(path, groups=[2**63 - 1, 2**63 - 1])


def test_a_feature_number_over_the_limit_is_refused_before_room_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path, GOOD + "1 qid:1 1000000000:1\n")
    limit = "feature number 1,000,000,000 is over the limit of 1,048,576"
    with pytest.raises(BadFile, match=f"rows.txt:2: {limit}. If it is right, set PLACINGS_LIMIT_FEATURE"):
        read_svmlight(path)
    with pytest.raises(BadInput, match="n_features: feature number 1,000,000,000,000 is over the limit"):
        read_svmlight(write_lines(tmp_path, GOOD), n_features=10**12)
    monkeypatch.setenv("PLACINGS_LIMIT_FEATURE", "3000000000")
    with pytest.raises(BadFile, match="the feature id in '99999999999:1' is above 2,147,483,646. Hash it."):
        read_svmlight(write_lines(tmp_path, "1 qid:1 99999999999:1\n"))
    monkeypatch.setenv("PLACINGS_LIMIT_FEATURE", "2000000")
    assert read_svmlight(write_lines(tmp_path, "1 qid:1 1500000:1\n")).n_features == 1_500_000


def test_a_dense_matrix_over_the_limit_of_cells_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(tmp_path, "1 qid:1\n" * 99 + "1 qid:1 100000:1\n")  # 100 rows of 100,000
    monkeypatch.setenv("PLACINGS_LIMIT_CELLS", "9999999")
    assert read_svmlight(path).is_sparse
    with pytest.raises(
        OverLimit, match="rows.txt: a matrix of 10,000,000 cells is over the limit of 9,999,999"
    ):
        read_svmlight(path, sparse=False)


def test_short_rows_with_one_high_number_are_kept_sparse_where_they_would_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_lines(
        tmp_path, "1 qid:1\n" * 99 + "1 qid:1 64:1\n"
    )  # 813 bytes; dense 100 · 64 · 4 = 25,600
    assert not read_svmlight(path).is_sparse
    monkeypatch.setattr(svmlight, "LARGE", 20_000)
    assert read_svmlight(path).is_sparse


def test_room_is_made_for_what_a_packed_file_can_hold(tmp_path: Path) -> None:
    store = svmlight.RowStore(expected=10**12, size=1000)
    block = svmlight.parse_lines(b"1 qid:1 1:1\n", svmlight.Rules.of((), False))
    assert isinstance(block, svmlight.Block)
    store.add(block)
    assert isinstance(store.slabs[0], svmlight.DenseSlab)
    assert store.slabs[0].array.nbytes <= svmlight.SLAB


def test_a_packed_file_that_grows_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from placings.core import streams

    monkeypatch.setattr(streams, "FREELY_UNPACKED", 1000)
    path = write_lines(tmp_path, gzip.compress(b"1 qid:1\n" * 200_000), "rows.gz")  # 200 · 8 kB of a few kB
    monkeypatch.setenv("PLACINGS_LIMIT_UNPACKED", "20")
    with pytest.raises(BadFile, match="PLACINGS_LIMIT_UNPACKED"):
        read_svmlight(path)
    monkeypatch.setenv("PLACINGS_LIMIT_LINE", "100")
    with pytest.raises(BadFile, match="PLACINGS_LIMIT_LINE"):
        read_svmlight(write_lines(tmp_path, b"1 qid:1 " + b" " * 5_000_000))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1 qid:\xe9 1:1\n0 qid:\xe8 1:2\n", "rows.txt:1: the qid '\ufffd' is not UTF-8"),
        (b"1 qid:1 1:1 #A\n0 qid:1 1:2 #\xe8\n", "rows.txt:2: the item id '\ufffd' is not UTF-8"),
        (b"1 qid:1 1:\x0c1\n", "rows.txt:1: feature 1 is"),
        (b"1" * 100_000 + b"x qid:1 1:1\n", "rows.txt:1: the label is '1{40}\u2026'"),
    ],
)
def test_other_encodings_and_odd_bytes_are_refused_with_their_line(
    tmp_path: Path, text: bytes, message: str
) -> None:
    with pytest.raises(BadFile, match=message) as caught:
        read_svmlight(write_lines(tmp_path, text))
    assert len(str(caught.value)) < 400


def test_a_last_nul_in_a_qid_is_kept_beside_blocks_of_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(svmlight, "BLOCK", 16)
    path = write_lines(tmp_path, b"1 qid:7 1:1\n" * 4 + b"1 qid:a\0 1:1\n1 qid:a 1:1\n")
    assert read_svmlight(path).qids.tolist() == ["7", "a\0", "a"]


@pytest.mark.parametrize("option", ["non_finite", "negative_labels", "repeated_qid"])
def test_an_unknown_choice_is_refused(tmp_path: Path, option: str) -> None:
    with pytest.raises(BadInput, match=f"{option} must be one of 'error'|{option} must be one of 'join'"):
        read_svmlight(write_lines(tmp_path, GOOD), **{option: "maybe"})  # type: ignore[arg-type]


# -- numbers ----------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    st.floats(min_value=-3e38, max_value=3e38).map(repr),
    st.decimals(min_value=-(10**30), max_value=10**30, places=8).map(str),
    st.from_regex(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-3]?[0-9])?", fullmatch=True),
    st.from_regex(r"[+-]?\.[0-9]{1,40}([eE]-?[0-9]{1,2})?", fullmatch=True),
)


@given(st.lists(NUMBERS, min_size=1, max_size=30))
@example(["16777217", "16777217.0000000000000000000000001", "1.00000005960464477539062500000000001"])
@example(["0.1", "1e-45", "1.4e-45", "3.4028235e38", "-0.0", "00012.50", "1e+2", "5."])
@example(["0.81551913839412345", "2.2250738585072011e-308", "8.5e-46", "123456789012345678901234567890e-20"])
def test_numbers_are_what_python_and_scikit_learn_read_as_float32(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[str]
) -> None:
    with np.errstate(over="ignore"):
        expected = np.array([float(number) for number in numbers]).astype(np.float32)
    if np.isinf(expected).any():
        return
    line = "1 qid:1 " + " ".join(f"{place}:{number}" for place, number in enumerate(numbers, 1)) + "\n"
    path = write_lines(tmp_path_factory.getbasetemp(), line)
    X = np.asarray(read_svmlight(path, sparse=False).X)[0]
    np.testing.assert_array_equal(X.view(np.uint32), expected.view(np.uint32))


def test_values_equal_scikit_learns_on_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svmlight, "BLOCK", 4096)
    rng = np.random.default_rng(1)
    values = np.exp(rng.normal(0, 8, size=(300, 12)))
    lines = []
    for row, numbers in enumerate(values):
        digits = rng.integers(1, 18, size=12)
        pairs = " ".join(f"{j + 1}:{v:.{d}g}" for j, (v, d) in enumerate(zip(numbers, digits, strict=True)))
        lines.append(f"{row % 5} qid:{row // 7} {pairs}\n")
    path = write_lines(tmp_path, "".join(lines))
    X, y, qid = load_svmlight_file(str(path), query_id=True)
    data = read_svmlight(path)
    np.testing.assert_array_equal(np.asarray(data.X), X.toarray().astype(np.float32))
    np.testing.assert_array_equal(data.y, y)
    np.testing.assert_array_equal(data.qid, qid)


def test_without_numba_the_same_values_are_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path, TWO_QUERIES + "0 qid:9 1:0.81551913839412345 2:nan\n")
    script = (
        "import sys, numpy as np; from placings.data.svmlight import read_svmlight; "
        "from placings.core.compilation import HAVE_NUMBA; assert not HAVE_NUMBA; "
        "np.save(sys.argv[2], read_svmlight(sys.argv[1]).X)"
    )
    environment = {**os.environ, "PLACINGS_NUMBA": "0"}
    subprocess.run(
        [sys.executable, "-c", script, str(path), str(tmp_path / "X.npy")], check=True, env=environment
    )
    np.testing.assert_array_equal(np.load(tmp_path / "X.npy"), np.asarray(read_svmlight(path).X))


# -- writing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rows.txt", "rows.txt.gz", "rows.txt.zst"])
def test_what_is_written_reads_back_the_same(tmp_path: Path, name: str) -> None:
    rng = np.random.default_rng(0)
    X = np.exp(rng.normal(0, 20, size=(50, 4))).astype(np.float32)
    X[3, 2], X[7] = np.nan, 0
    data = RankingData.from_arrays(
        X,
        rng.choice([0, 1, 0.1, 4, 1e7, 1 / 3], 50),
        np.arange(50) // 7,
        items=[f"d{i}" if i % 3 else "" for i in range(50)],
    )
    write_svmlight(data, tmp_path / name)
    back = read_svmlight(tmp_path / name)
    np.testing.assert_array_equal(np.asarray(back.X), X)
    np.testing.assert_array_equal(back.y, data.y)
    assert back.qids.tolist() == data.qids.tolist()
    assert back.items is not None
    assert data.items is not None
    assert back.items.tolist() == data.items.tolist()
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_sparse_data_keep_their_width_and_rows_without_values(tmp_path: Path) -> None:
    from scipy.sparse import csr_array

    X = csr_array(np.array([[0, 0, 0, 0], [1, 0, 2, 0], [0, 0, 0, 0]], dtype=np.float32))
    write_svmlight(RankingData.from_arrays(X, [0, 1, 2], [1, 1, 2]), tmp_path / "rows.txt")
    back = read_svmlight(tmp_path / "rows.txt", sparse=True)
    assert back.X.toarray().tolist() == X.toarray().tolist()  # type: ignore[union-attr]


def test_what_svmlight_cannot_hold_is_said_or_refused(tmp_path: Path) -> None:
    data = RankingData.from_arrays([[1.0]], [0], ["a"], weight=[2.0], segments={"country": ["de"]})
    with pytest.warns(PlacingsWarning, match="no place for weight, segment 'country'; write parquet"):
        write_svmlight(data, tmp_path / "rows.txt")
    spaced = RankingData.from_arrays([[1.0]], [0], ["two words"])
    with pytest.raises(BadInput, match="a qid must be one word"):
        write_svmlight(spaced, tmp_path / "other.txt")
    assert not (tmp_path / "other.txt").exists()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_lines(tmp_path, "old")
    data = RankingData.from_arrays([[1.0]], [0], ["a"], items=["with space"])
    with pytest.raises(BadInput):
        write_svmlight(data, path)
    assert path.read_text() == "old"
    with pytest.raises(BadFile, match="does not exist. Make it first"):
        write_svmlight(data.replace(items=None), tmp_path / "no" / "rows.txt")


def test_encoded_ids_are_one_word_each_and_come_back(tmp_path: Path) -> None:
    from urllib.parse import unquote

    qid = ["main street", "main street", "100% #1", "ü", ""]
    data = RankingData.from_arrays(
        [[float(n)] for n in range(5)], [0] * 5, qid, items=["a b", "c", "", "d", "e"]
    )
    with pytest.warns(PlacingsWarning) as heard:
        write_svmlight(data, tmp_path / "data.txt", ids="encode")
    assert "qids are written as URLs have them, 'main%20street' for 'main street'" in str(heard[0].message)
    back = read_svmlight(tmp_path / "data.txt")
    assert [unquote(word) for word in back.qids] == [
        "main street",
        "100% #1",
        "ü",
        "%",
    ]  # nothing is a lone %
    assert back.items is not None
    assert [unquote(word) for word in back.items] == ["a b", "c", "", "d", "e"]
    assert back.X[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises(BadInput, match="a qid must be one word"):
        write_svmlight(RankingData.from_arrays([[1.0]], [0], [""]), tmp_path / "data.txt")


def test_rows_that_were_joined_are_told_by_a_warning_of_their_own_also_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACINGS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "rows.txt").write_text("0 qid:1 1:1\n0 qid:2 1:2\n1 qid:1 1:3\n")
    for _ in range(2):
        with pytest.warns(Joined, match="comes back"):
            read(tmp_path / "rows.txt", cache="always")
