"""Parquet, CSV and Arrow tables: types, bad values, round trips, files."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

from placings.core.errors import BadFile, BadInput, EmptyFile, Guess, TruncatedFile
from placings.data import tables
from placings.data.ranking import RankingData
from placings.data.tables import from_table, read_csv, read_parquet, to_table, write_parquet

NAMED: dict[str, Any] = {"qid": "qid", "label": "label"}


def make_table(**columns: Any) -> pa.Table:
    return pa.table({"qid": [1, 1, 2], "label": [1.0, 0.0, 2.0], **columns})


def make_data(**parts: Any) -> RankingData:
    known: dict[str, Any] = {
        "feature_names": ["price", "qid"],
        "items": ["a", "b", "c", "a"],
        "position": [1, 2, 3, 1],
        "weight": [1.0, 0.5, 2.0, 1.0],
        "propensity": [1.0, 0.5, 0.25, 1.0],
        "time": np.array(["2026-01-01", "2026-01-02", "2026-01-03", "2026-01-04"], dtype="M8[ms]"),
        "segments": {
            "price": np.array(["lo", None, "hi", "lo"], dtype=object),
            "store": np.array([4, 4, 5, 5]),
        },
    }
    X = np.array([[0.1, np.nan], [1e-30, 3.0], [7.0, -0.0], [2.5e30, 1.0]], dtype=np.float32)
    return RankingData.from_arrays(X, [0.5, 0, 3, 1 / 3], ["x", "x", "x", "y"], **{**known, **parts})


def assert_same(first: RankingData, second: RankingData) -> None:
    left, right = (data.X.toarray() if data.is_sparse else data.X for data in (first, second))  # type: ignore[union-attr]
    np.testing.assert_array_equal(left, right)
    assert left.dtype == right.dtype == np.float32
    assert first.is_sparse == second.is_sparse
    assert first.feature_names == second.feature_names
    assert list(first.segments) == list(second.segments)
    pairs = [(getattr(first, name), getattr(second, name)) for name in ("y", "offsets", "qids", "items")]
    pairs += [(getattr(first, n), getattr(second, n)) for n in ("position", "weight", "propensity", "time")]
    for one, other in [*pairs, *((first.segments[name], second.segments[name]) for name in first.segments)]:
        assert (one is None) == (other is None)
        if one is not None:
            assert one.tolist() == other.tolist()
            assert one.dtype == other.dtype


# -- types and values -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 3], pa.int64()),
        pa.array([1, None, 3], pa.uint8()),
        pa.array([1.0, None, 3.0], pa.float16()),
        pa.array([1.0, np.nan, 3.0], pa.float64()),
        pa.array([decimal.Decimal("1.0"), None, decimal.Decimal("3.0")]),
    ],
)
def test_null_and_nan_are_missing_in_every_numeric_type(column: pa.Array) -> None:
    data = from_table(make_table(a=column), **NAMED)
    np.testing.assert_array_equal(data.X, np.float32([[1], [np.nan], [3]]))


def test_booleans_and_empty_columns_are_features() -> None:
    data = from_table(make_table(a=[True, None, False], b=pa.nulls(3)), **NAMED)
    np.testing.assert_array_equal(data.X, np.float32([[1, np.nan], [np.nan, np.nan], [0, np.nan]]))


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_text_of_every_type_can_be_an_id_and_a_segment(kind: str) -> None:
    def as_text(values: list[str | None]) -> pa.Array:
        plain = pa.array(values)
        if kind == "dictionary":
            return plain.dictionary_encode()
        return plain.cast(getattr(pa, kind)())

    table = pa.table({"qid": as_text(["b", "a", "b"]), "label": [1, 0, 1], "s": as_text(["x", None, "z"])})
    data = from_table(table, **NAMED)
    assert data.qids.tolist() == ["b", "a"]
    assert data.segments["s"].tolist() == ["x", "z", None]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([7, 3], pa.int32()), [7, 3]),
        (pa.array([7.0, 3.0]), [7, 3]),
        (pa.array([decimal.Decimal(7), decimal.Decimal(3)]), [7, 3]),
        (pa.array([2**64 - 1, 3], pa.uint64()), [str(2**64 - 1), "3"]),
        (pa.array([datetime.date(2026, 1, 2), datetime.date(2026, 1, 1)]), ["2026-01-02", "2026-01-01"]),
    ],
)
def test_ids_are_whole_numbers_or_strings(ids: pa.Array, expected: list[object]) -> None:
    assert from_table(pa.table({"qid": ids, "label": [0, 1]}), **NAMED).qids.tolist() == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([0, 1, 2], pa.timestamp("ns", tz="Europe/Berlin")),
        pa.array([0, 1, 2], pa.date32()),
        pa.array(["2026-01-01T10:00:00", "2026-01-01T11:00:00", "2026-01-02T00:00:00"]),
    ],
)
def test_times_of_every_type_are_times(column: pa.Array) -> None:
    data = from_table(make_table(t=column), **NAMED, time="t")
    assert data.time is not None
    assert data.time.dtype.kind == "M"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [1.0, np.inf, 2.0]}, "feature 'a' is inf at row 1, which is not finite as float32"),
        ({"a": [1.0, 2.0, -1e300]}, r"feature 'a' is -1e\+300 at row 2"),
        ({"label": [1.0, None, 0.0]}, "label 'label' must be .* Got a missing one at row 1. Drop such rows"),
        ({"label": [1.0, np.nan, 0.0]}, "Got a missing one at row 1"),
        ({"label": [1, 0, -1]}, "Got -1 at row 2. Set such labels to 0"),
        ({"label": [np.inf, 0, 1]}, "Got inf at row 0"),
        ({"label": ["good", "bad", "good"]}, "label 'label' must be numbers. Got 'good'"),
        ({"qid": [1, None, 2]}, "qid 'qid' is missing at row 1"),
        ({"qid": [1.0, np.nan, 2.0]}, "qid 'qid' is missing at row 1"),
        ({"qid": ["a", "b", None]}, "qid 'qid' is missing at row 2"),
        ({"qid": [[1], [2], [3]]}, "column 'qid' must be numbers or text. Got a column of list"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(columns: dict[str, Any], message: str) -> None:
    table = pa.table({"qid": [1, 1, 2], "label": [1, 0, 1], **columns})
    with pytest.raises(BadInput, match=message):
        from_table(table, **NAMED)


def test_rows_are_counted_over_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH_ROWS", 2)
    with pytest.raises(BadInput, match="at row 2"):
        from_table(make_table(a=[1.0, 2.0, np.inf]), **NAMED)
    assert from_table(make_table(a=[1.0, 2.0, 3.0]), **NAMED).X[:, 0].tolist() == [1, 2, 3]


def test_a_feature_of_text_is_refused_with_its_first_bad_value() -> None:
    with pytest.raises(BadInput, match=r"feature 'a' must be numbers. Got 'n/a' at row 1"):
        from_table(make_table(a=["1.5", "n/a", "x"]), **NAMED, features=["a"])
    with pytest.raises(BadInput, match=r"feature 'a' must be numbers. Got '1' at row 1"):
        from_table(make_table(a=[None, "1", "2"]), **NAMED, features=["a"])
    with pytest.raises(BadInput, match=r"feature 'a' must be numbers. Got list"):
        from_table(make_table(a=[[1], [2], [3]]), **NAMED, features=["a"])


def test_a_weight_of_text_is_refused() -> None:
    with pytest.raises(BadInput, match=r"weight 'w' must be numbers"):
        from_table(make_table(w=["a", "b", "c"]), **NAMED, weight="w")


def test_no_rows_are_refused() -> None:
    with pytest.raises(BadInput, match=r"has no rows"):
        from_table(make_table().slice(0, 0), **NAMED)


# -- round trips ----------------------------------------------------------------------------------


@pytest.mark.parametrize("read_back", ["table", "parquet"])
@pytest.mark.parametrize(
    "data",
    [
        make_data(),
        make_data(items=None, position=None, weight=None, propensity=None, time=None, segments=None),
        make_data(items=[4, 3, 2, 1], time=[1.5, 2.5, 3.5, 4.5]),
        make_data(feature_names=["label", "item"], time=np.array([1, 2, 3, 4], "M8[D]")),
        RankingData.from_arrays(csr_array([[0.0, 2.0, 0.0], [np.nan, 0.0, 0.0]]), [0, 1], [5, 5]),
        RankingData.from_arrays(np.zeros((3, 0)), [0, 1, 2], [2**60, 1, 1]),
    ],
)
def test_ranking_data_read_back_as_they_were_without_a_guess(
    data: RankingData, read_back: str, tmp_path: Path
) -> None:
    if read_back == "table":
        assert_same(data, from_table(to_table(data)))
    else:
        write_parquet(data, tmp_path / "data.parquet")
        assert_same(data, read_parquet(tmp_path / "data.parquet"))


def test_many_batches_read_back_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = RankingData.from_arrays(
        rng.random((70_000, 3)), rng.integers(0, 3, 70_000), np.arange(70_000) // 7
    )
    write_parquet(data, tmp_path / "data.parquet")
    assert pq.ParquetFile(tmp_path / "data.parquet").metadata.num_row_groups == 2
    assert_same(data, read_parquet(tmp_path / "data.parquet"))


def test_our_columns_give_way_to_a_feature_of_their_name() -> None:
    table = to_table(make_data())
    assert table.column_names[:5] == ["qid_", "label", "item", "price", "qid"]
    assert table.schema.field("qid").type == pa.float32()
    recorded = json.loads(table.schema.metadata[b"placings"])
    assert recorded["qid"] == "qid_"
    assert recorded["segments"] == {"price": "price_", "store": "store"}


def test_a_column_added_to_our_table_is_a_feature_or_a_segment() -> None:
    table = (
        to_table(make_data())
        .append_column("new", pa.array([1, 2, 3, 4]))
        .append_column("text", pa.array(list("abcd")))
    )
    data = from_table(table.drop_columns(["price"]))
    assert data.feature_names == ("qid", "new")
    assert list(data.segments) == ["price", "store", "text"]
    assert from_table(table, label="new").y.tolist() == [1, 2, 3, 4]


def test_metadata_that_are_not_ours_are_passed_over() -> None:
    for entry in (b"not json", b'{"version": 99}', b"[]"):
        table = make_table(a=[1, 2, 3]).replace_schema_metadata({b"placings": entry})
        with pytest.warns(Guess):
            assert from_table(table).feature_names == ("a",)


def test_a_wide_sparse_matrix_does_not_become_a_table(tmp_path: Path) -> None:
    data = RankingData.from_arrays(csr_array((2, 5_001)), [0, 1], [1, 1])
    with pytest.raises(BadInput, match=r"5,001 columns .* svmlight"):
        to_table(data)
    with pytest.raises(BadInput, match=r"svmlight"):
        write_parquet(data, tmp_path / "wide.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_segment_of_odd_objects_is_refused() -> None:
    with pytest.raises(BadInput, match="segment 's' cannot become a column"):
        to_table(make_data(segments={"s": np.array([1, "a", 2.5, None], dtype=object)}))


def test_no_rows_still_make_a_table() -> None:
    assert to_table(make_data()[0:0]).num_rows == 0


def test_pandas_and_polars_go_both_ways() -> None:
    data = make_data(
        feature_names=["price", "stock"], segments={"shop": np.array(list("abca"), dtype=object)}
    )
    named = {"qid": "qid", "label": "label", "item": "item", "position": "position", "weight": "weight",
             "propensity": "propensity", "time": "time"}  # fmt: skip
    for back in (
        RankingData.from_pandas(data.to_pandas(), **named),
        RankingData.from_polars(data.to_polars(), **named),
    ):
        np.testing.assert_array_equal(back.X, data.X)
        assert back.items.tolist() == data.items.tolist()  # type: ignore[union-attr]
        assert (back.time == data.time).all()
        assert back.segments["shop"].tolist() == list("abca")


# -- files ----------------------------------------------------------------------------------------


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    pq.write_table(make_table(a=[1, 2, 3]), tmp_path / "part-1.parquet")
    pq.write_table(make_table(a=[4.5, 5.0, 6.0]).slice(2), tmp_path / "part-2.parquet")
    (tmp_path / "_SUCCESS").touch()
    data = read_parquet(tmp_path, **NAMED)
    assert data.X[:, 0].tolist() == [1, 2, 3, 6]
    assert data.sizes.tolist() == [2, 2]
    pq.write_table(make_table(b=[1, 2, 3]), tmp_path / "part-3.parquet")
    with pytest.raises(BadFile, match=r"part-3.parquet: has no column 'a', but part-1.parquet has"):
        read_parquet(tmp_path, **NAMED)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.parquet"
    write_parquet(make_data(), path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(pq.ParquetWriter, "write_batch", fail)
    with pytest.raises(OSError, match="disk full"):
        write_parquet(make_data(), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("delimiter", "name"), [(",", "d.csv"), ("\t", "d.tsv"), ("\t", "d.csv"), (";", "d.txt"), ("|", "d.csv")]
)
def test_csv_is_read_with_its_delimiter(tmp_path: Path, delimiter: str, name: str) -> None:
    rows = [["qid", "label", "a", '"b, c"'], ["1", "2", "0.5", "NULL"], ["1", "0", "NA", "7"]]
    (tmp_path / name).write_text("\n".join(delimiter.join(row) for row in rows) + "\n")
    data = read_csv(tmp_path / name, **NAMED)
    assert data.feature_names == ("a", "b, c")
    np.testing.assert_array_equal(data.X, np.float32([[0.5, np.nan], [np.nan, 7]]))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_csv_is_read(tmp_path: Path, suffix: str) -> None:
    text = b"\xef\xbb\xbfqid\tlabel\ta\n1\t0\t3\n"  # with a byte order mark
    packed = gzip.compress(text) if suffix == ".gz" else pa.compress(text, codec="zstd", asbytes=True)
    (tmp_path / f"d.tsv{suffix}").write_bytes(packed)
    assert read_csv(tmp_path / f"d.tsv{suffix}", **NAMED).X.tolist() == [[3]]


def test_what_counts_as_missing_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("qid,label,a,country\n1,0,-,NA\n1,1,2,DE\n")
    data = read_csv(tmp_path / "d.csv", missing=["-"], **NAMED)
    np.testing.assert_array_equal(data.X, np.float32([[np.nan], [2]]))
    assert data.segments["country"].tolist() == ["NA", "DE"]  # Namibia


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", EmptyFile, "is empty"),
        (b"qid,label\n", EmptyFile, "a header but no rows"),
        (b"qid,label\n1,2\n1,2,3\n", BadFile, r"record 3 .* Expected 2 columns, got 3.* Mend the row"),
        (
            gzip.compress(b"qid,label\n" + b"".join(b"%d,1\n" % n for n in range(5000)))[:-900],
            TruncatedFile,
            "end early",
        ),
    ],
)
def test_a_bad_csv_file_is_an_error_with_its_path(
    tmp_path: Path, content: bytes, error: type[Exception], message: str
) -> None:
    path = tmp_path / "d.csv"
    path.write_bytes(content)
    with pytest.raises(error, match=f"d.csv: .*{message}"):
        read_csv(path, **NAMED)


def test_a_bad_value_in_a_file_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("qid,label\n1,-1\n")
    with pytest.raises(BadInput, match=r"d.csv: label 'label' must be finite and 0 or more. Got -1 at row 0"):
        read_csv(tmp_path / "d.csv", **NAMED)


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [(b"", EmptyFile, "is empty"), (b"PAR1 and then nothing", BadFile, "Is it a parquet file")],
)
def test_a_bad_parquet_file_is_an_error_with_its_path(
    tmp_path: Path, content: bytes, error: type[Exception], message: str
) -> None:
    (tmp_path / "d.parquet").write_bytes(content)
    with pytest.raises(error, match=f"d.parquet: .*{message}"):
        read_parquet(tmp_path / "d.parquet")


def test_absent_and_empty_parquet_are_errors(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no such file"):
        read_parquet(tmp_path / "nothing.parquet")
    with pytest.raises(BadFile, match=r"without .parquet files"):
        read_parquet(tmp_path)
    pq.write_table(make_table().slice(0, 0), tmp_path / "d.parquet")
    with pytest.raises(EmptyFile, match="has no rows"):
        read_parquet(tmp_path / "d.parquet")


def test_one_word_for_missing_values_is_that_word_and_not_its_letters(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("qid,label,size,price\n1,0,N,NULL\n1,1,L,2.5\n")
    data = read_csv(tmp_path / "rows.csv", qid="qid", label="label", missing="NULL")
    assert np.isnan(data.X[0, 0])
    assert data.segments["size"].tolist() == ["N", "L"]  # letters of NULL, and no missing values


def test_whole_numbers_that_name_a_user_or_a_session_are_segments() -> None:
    import pyarrow as pa

    table = pa.table({"qid": [1, 1, 2], "label": [0, 1, 0], "x": [0.5, 1.0, 2.0], "session_id": [7, 7, 8]})
    data = from_table(table, qid="qid", label="label")
    assert data.feature_names == ("x",)
    assert data.segments["session_id"].tolist() == [7, 7, 8]
    kept = from_table(table, qid="qid", label="label", keep=["session_id"])
    assert kept.feature_names == ("x", "session_id")


def test_people_of_a_csv_file_stay_apart_as_queries_do(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("qid,label,x,user_id\n1,0,1,007\n1,1,2,7\n2,1,3,0x7\n")
    assert read_csv(path, **NAMED, segments=["user_id"]).segments["user_id"].tolist() == ["007", "7", "0x7"]


def test_a_header_that_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("qid,label,höhe\n1,0,2\n".encode("latin-1"))
    with pytest.raises(BadFile, match=r"a\.csv:1: is not UTF-8"):
        read_csv(path, **NAMED)


def test_parquet_that_repeats_one_value_too_often_is_refused(tmp_path: Path) -> None:
    rows = 3_000_000  # 2 million are free, and 8 for each byte of the file
    path = tmp_path / "a.parquet"
    same = pa.array(np.zeros(rows, dtype=np.int8))
    pq.write_table(pa.table({"qid": same, "label": same, "x": same}), path, row_group_size=rows)
    assert path.stat().st_size < (rows - 2_000_000) / 8
    with pytest.raises(BadFile, match="PLACINGS_LIMIT_ROWS"):
        read_parquet(path, **NAMED)


def test_one_long_text_in_many_rows_of_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows, text = 2_000, "x" * 50_000  # 100 MB written out: more than 64 MiB and 200 times the file
    table = pa.table({"qid": [1] * rows, "label": [0] * rows, "item": [text] * rows})
    pq.write_table(table, path, compression="zstd")
    assert rows * len(text) > (64 << 20) + 200 * path.stat().st_size
    with pytest.raises(BadFile, match="PLACINGS_LIMIT_UNPACKED"):
        read_parquet(path, **NAMED)


def test_parquet_that_is_replaced_while_it_is_read_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(pa.table({"qid": [1, 1], "label": [0, 1], "x": [1.0, 2.0]}), path)
    pq.write_table(pa.table({"qid": [2, 2, 2], "label": [0, 1, 1], "x": [7.0, 8.0, 9.0]}), other)
    read_metadata = pq.read_metadata

    def read_and_replace(file: Path) -> Any:
        facts = read_metadata(file)
        if other.exists() and facts.num_rows == 2:
            other.replace(path)
        return facts

    monkeypatch.setattr(pq, "read_metadata", read_and_replace)
    assert read_parquet(path, **NAMED).X.ravel().tolist() == [7.0, 8.0, 9.0]
