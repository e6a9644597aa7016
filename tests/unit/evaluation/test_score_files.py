"""Scores from elsewhere: read, and brought to the rows they belong to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from placings.core.errors import BadFile, PlacingsError
from placings.data.ranking import RankingData
from placings.data.reading import read
from placings.evaluation.score_files import read_scores, stands_together


@pytest.fixture
def data() -> RankingData:
    return RankingData.from_arrays([[1.0]] * 4, [0, 1, 0, 1], [7, 8, 7, 8], items=["a", "a", "b", "c"])


def keep(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_ids_find_their_rows_in_any_order(data: RankingData, tmp_path: Path) -> None:
    file = keep(tmp_path, "s.csv", "item,qid,score\nc,8,4\nb,7,2\na,8,3\na,7,1\n")
    assert read_scores(file).match(data, together=False).tolist() == [1, 2, 3, 4]  # 7a 7b 8a 8c


def test_qid_alone_finds_the_query_and_keeps_the_order_within(data: RankingData, tmp_path: Path) -> None:
    file = keep(tmp_path, "s.tsv", "qid\tprediction\n8\t3\n7\t1\n8\t4\n7\t2\n")
    assert read_scores(file).match(data, together=False).tolist() == [1, 2, 3, 4]


def test_plain_numbers_are_taken_by_place_unless_rows_were_moved(data: RankingData, tmp_path: Path) -> None:
    found = read_scores(keep(tmp_path, "s.txt", "1\n-2.5e3\n3\n4\n\n"))
    assert found.match(data).tolist() == [1, -2500, 3, 4]
    with pytest.raises(BadFile, match="do not stand together"):
        found.match(data, together=False)


def test_parquet_with_one_column_of_numbers(data: RankingData, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    pa.parquet.write_table(pa.table({"model_7": np.arange(4.0)}), str(tmp_path / "s.parquet"))
    assert read_scores(tmp_path / "s.parquet").match(data).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.txt", "1\n2\nx\n4\n", "s.txt:3: 'x' is not a number"),
        ("s.txt", "1\n2\n", "has 2 scores, but the data have 4 rows"),
        ("s.csv", "a,b\n1,2\n", "must have a column called score. It has 'a', 'b'"),
        ("s.csv", "score\nx\ny\n", "must hold numbers only"),
        ("s.csv", "qid,score\n7,1\n7,1\n8,1\n9,1\n", "its ids are not those of the data, at query 8"),
        (
            "s.csv",
            "qid,item,score\n7,a,1\n7,x,1\n8,a,1\n8,c,1\n",
            "ids are not those of the data, at query 7",
        ),
    ],
)
def test_what_does_not_fit_is_named(
    data: RankingData, tmp_path: Path, name: str, text: str, message: str
) -> None:
    with pytest.raises(BadFile, match=message):
        read_scores(keep(tmp_path, name, text)).match(data)


def test_a_table_whose_queries_come_back_is_noticed(tmp_path: Path) -> None:
    mixed = keep(tmp_path, "mixed.csv", "qid,label,x\n1,0,1\n2,0,2\n1,1,3\n")
    plain = keep(tmp_path, "plain.csv", "qid,label,x\n1,0,1\n1,0,2\n2,1,3\n")
    named = {"qid": "qid", "label": "label"}
    assert not stands_together(mixed, named)
    assert stands_together(plain, named)
    assert read(mixed, **named).X[:, 0].tolist() == [1, 3, 2]


def test_items_that_the_data_do_not_know_are_refused(data: RankingData, tmp_path: Path) -> None:
    file = keep(tmp_path, "s.csv", "qid,item,score\n7,a,1\n7,b,2\n8,a,3\n8,c,4\n")
    with pytest.raises(BadFile, match="the data have no item ids"):
        read_scores(file).match(data.replace(items=None))


def test_score_ids_stay_as_written(tmp_path: Path) -> None:
    large = str(2**64 - 1)
    ids = ["007", "7", large, str(2**64 - 2)]
    data = RankingData.from_arrays([[1.0]] * 4, [0, 1, 0, 1], ids)
    rows = "".join(f"{each},{place}\n" for place, each in reversed(list(enumerate(ids))))
    assert read_scores(keep(tmp_path, "s.csv", "qid,score\n" + rows)).match(data).tolist() == [0, 1, 2, 3]
    merged = rows.replace("007,", "7,")
    with pytest.raises(BadFile, match="its ids are not those of the data, at query '007'"):
        read_scores(keep(tmp_path, "s.csv", "qid,score\n" + merged)).match(data)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.txt", b"1\n1_0\n", "s.txt:2: '1_0' is not a number"),
        ("s.txt", "1\n\u0661\n".encode(), "s.txt:2: '\u0661' is not a number"),
        ("s.txt", b"1\x0c2\n", "s.txt:1: '1.x0c2' is not a number"),  # one line, not two
        ("s.txt", b"1\n\n2\n", "s.txt:2: '' is not a number"),
        ("s.csv", b"qid,qid,score\n7,7,1\n", "two columns of one name"),
        ("s.csv", b"qid,score\n\xff,1\n", "cannot be read"),
    ],
)
def test_hostile_scores_are_refused_in_one_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PlacingsError, match=message) as caught:
        read_scores(tmp_path / name)
    assert "\n" not in str(caught.value)
