"""`read` and `write`: the format is told, options reach their reader, errors say what to do."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from placings.core.errors import BadFile, BadInput, Guess, UnknownName
from placings.data.ranking import RankingData
from placings.data.reading import READERS, FileFormat, find_format, read, read_feature_names, write

ROWS = "2 qid:7 1:0.5 2:3\n0 qid:7 1:1 2:4\n"


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.txt", "2 qid:7 1:0.5\n", "svmlight"),
        ("a.dat", "# note\n\n2 1:0.5 7:1\n", "svmlight"),
        ("rank.train", "2 1:0.5\n", "svmlight"),
        ("a.txt", "2 qid:7\n", "svmlight"),
        ("a.csv", "x", "csv"),
        ("a.tsv.gz", "x", "csv"),
        ("a.dat", "qid,label,bm25\n1,2,3\n", "csv"),
        ("a.pq", "x", "parquet"),
        ("a.bin", "PAR1....", "parquet"),
    ],
)
def test_the_format_is_told_by_name_then_by_content(
    tmp_path: Path, name: str, content: str, expected: str
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    assert find_format(path) == expected


def test_a_trec_run_asks_for_its_judgements(tmp_path: Path) -> None:
    run = tmp_path / "run.txt"
    run.write_text("q1 Q0 d1 1 9.5 tag\nq1 Q0 d2 2 8.5 tag\n")
    (tmp_path / "qrels.txt").write_text("q1 0 d2 1\n")
    with pytest.raises(BadFile, match="looks like a TREC run. Pass qrels="):
        read(run)
    data = read(run, qrels=tmp_path / "qrels.txt")
    assert data.y.tolist() == [0, 1]
    with pytest.raises(BadInput, match="a TREC run needs its judgements"):
        read(run, format="trec")


def test_feature_names_beside_the_file_are_used_when_they_fit(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text(ROWS)
    (tmp_path / "feature_names.txt").write_text("1 covered  terms body\n2: BM25 title\t\n")
    assert read(path).feature_names == ("covered terms body", "BM25 title")
    assert read(path, feature_names=["a", "b"]).feature_names == ("a", "b")
    (tmp_path / "feature_names.txt").write_text("only one\n")
    assert read(path).feature_names == ("f1", "f2")
    assert read_feature_names(tmp_path / "feature_names.txt") == ("only one",)


def test_an_option_that_the_format_does_not_know_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.txt"
    path.write_text(ROWS)
    with pytest.raises(BadInput, match="rows.txt is not read with label="):
        read(path, label="rel")
    with pytest.raises(UnknownName, match="no format 'letor'"):
        read(path, format="letor")
    with pytest.raises(BadInput, match="fold and split choose from a known collection's folder"):
        read(path, split="train")


def test_a_missing_path_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="no such file"):
        read(tmp_path / "none.txt")


def test_every_format_that_is_written_reads_back(tmp_path: Path) -> None:
    X = np.array([[1, 2], [np.nan, 4], [5e7, -6]], dtype=np.float32)
    data = RankingData.from_arrays(X, [0, 1, 0.5], ["a", "a", "b"], items=["x", "y", "z"])
    for name in ("rows.txt", "rows.svm.gz", "rows.zst", "rows.parquet"):
        write(data, tmp_path / name)
        back = read(tmp_path / name)
        np.testing.assert_array_equal(np.asarray(back.X), X)
        assert back.y.tolist() == [0, 1, 0.5]
        assert back.qids.tolist() == ["a", "b"]
        assert back.items is not None
        assert back.items.tolist() == ["x", "y", "z"]


def test_writing_csv_is_refused_with_what_to_write_instead(tmp_path: Path) -> None:
    data = RankingData.from_arrays([[1.0]], [0])
    with pytest.raises(BadInput, match="placings writes parquet and svmlight. Got rows.csv"):
        write(data, tmp_path / "rows.csv")
    with pytest.raises(UnknownName, match="no format 'arff'"):
        write(data, tmp_path / "rows", format="arff")


def test_a_csv_is_guessed_and_said(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("query_id,rel,bm25\n1,0,2.5\n1,1,3.5\n")
    with pytest.warns(Guess, match="query_id.*rel"):
        data = read(path)
    assert data.feature_names == ("bm25",)
    assert read(path, qid="query_id", label="rel").y.tolist() == [0, 1]


def test_a_file_of_a_known_collection_has_its_feature_names(tmp_path: Path) -> None:
    folder = tmp_path / "MSLR-WEB10K" / "Fold1"
    folder.mkdir(parents=True)
    row = "1 qid:1 " + " ".join(f"{i}:{i}" for i in range(1, 137)) + "\n"
    for name in ("train.txt", "vali.txt", "test.txt"):
        (folder / name).write_text(row)
    assert read(folder / "train.txt").feature_names[105] == "BM25 body"


def test_a_format_is_one_line_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of files that begin with a word of their own, or end in `.toy`: found by both, and cached."""

    def read_toy(path: Path, *, scale: float = 1.0, progress: bool = False) -> RankingData:
        values = [float(word) * scale for word in path.read_text().split()[1:]]
        return RankingData.from_arrays([[value] for value in values], [0] * len(values), [1] * len(values))

    monkeypatch.setitem(READERS, "toy", FileFormat(read_toy, (".toy",), b"TOY"))
    for name in ("rows.toy", "rows.txt"):
        (tmp_path / name).write_text("TOY 1 2 3")
        assert find_format(tmp_path / name) == "toy"
        assert read(tmp_path / name, scale=2.0).X.tolist() == [[2.0], [4.0], [6.0]]
    with pytest.raises(BadInput, match="rows.toy is not read with qid="):
        read(tmp_path / "rows.toy", qid="query")


def test_names_in_another_encoding_are_refused_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text(ROWS)
    (tmp_path / "feature_names.txt").write_bytes("BM25\nlängd\n".encode("latin-1"))
    with pytest.raises(BadFile, match="feature_names.txt:2: is not UTF-8 text"):
        read(tmp_path / "rows.txt")
    (tmp_path / "feature_names.txt").write_bytes(b"\xef\xbb\xbfBM25\r\nl\xe2\x80\xa8x\r\n")
    assert read_feature_names(tmp_path / "feature_names.txt") == ("BM25", "l x")  # two lines, not three
