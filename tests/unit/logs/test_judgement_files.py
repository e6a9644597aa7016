"""Imports of judgement tables and TREC qrels: which columns are known, what is counted, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from placings.core.errors import BadFile, BadInput, EmptyFile, PlacingsWarning, UnknownName
from placings.logs.imports import import_judgements, import_qrels

Writer = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Writer:
    """Write lines into a file."""

    def write_lines(name: str, *lines: str) -> Path:
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    return write_lines


def test_a_table_of_judgements_becomes_rows(write: Writer) -> None:
    path = write(
        "judged.csv", "query,docid,rating,price,note", "shoes,b,2,10,x", 'shoes,"a,1",0,,', "hats,c,3,7.5,y"
    )
    imported = import_judgements(path)
    rows = imported.rows
    assert rows.columns.tolist() == ["search_id", "session_id", "query", "item_id", "price", "note", "label"]
    assert rows["search_id"].tolist() == ["hats", "shoes", "shoes"]
    assert rows["item_id"].tolist() == ["c", "b", "a,1"]
    assert rows["label"].tolist() == [3.0, 2.0, 0.0]
    assert rows["price"].tolist()[:2] == [7.5, 10.0]
    assert rows["price"].isna().tolist() == [False, False, True]
    assert rows["note"].tolist() == ["y", "x", None]
    assert imported.report.to_dict() == {"lines": 3, "queries": 2, "rows": 3, "not_used": {}}


@pytest.mark.parametrize(
    "header",
    ["qid;keyword;item;grade", "Query ID;Query Text;Doc ID;Rating", "query_id\tquery\tdoc-id\tjudgement",
     "\ufeffqid,query,item_id,relevance"],
)  # fmt: skip
def test_headers_are_known_in_many_spellings(write: Writer, header: str) -> None:
    sign = next(each for each in ";\t," if each in header)
    rows = import_judgements(write("judged.csv", header, sign.join(["7", "red hats", "x", "1.5"]))).rows
    assert rows.to_dict("records") == [
        {"search_id": "7", "session_id": "7", "query": "red hats", "item_id": "x", "label": 1.5}
    ]


def test_columns_can_be_named_and_words_can_be_grades(write: Writer) -> None:
    path = write("judged.csv", "Suchwort,Artikel,Urteil", "hut,1,Exact", "hut,2,Irrelevant", "hut,3,?")
    columns = {"query": "Suchwort", "item": "Artikel", "grade": "Urteil"}
    imported = import_judgements(path, columns=columns, grades={"Exact": 3, "Irrelevant": 0})
    assert imported.rows["label"].tolist() == [3.0, 0.0]
    assert imported.report.refused == {"a grade that is not known": 1}
    with pytest.raises(BadFile, match="no column is the item. Found 'Suchwort', .* columns={'item': …}"):
        import_judgements(path)
    with pytest.raises(UnknownName, match="no column of .* 'Artikl'; did you mean 'Artikel'"):
        import_judgements(path, columns={**columns, "item": "Artikl"})
    with pytest.raises(UnknownName, match="no part of a judgement 'doc'"):
        import_judgements(path, columns={"doc": "Artikel"})


def test_lines_that_cannot_be_used_are_counted(write: Writer) -> None:
    path = write(
        "judged.csv", "query,docid,rating,time", "a,1,2,x", "a,2", "a,3,1,x,y", ",4,1,x", "a,,1,x", "a,5,,x",
        "", "a,6,good,x", "a,7,nan,x", "a,8,-2,x",
    )  # fmt: skip
    imported = import_judgements(path)
    assert imported.rows["item_id"].tolist() == ["1", "8"]
    assert imported.rows["label"].tolist() == [2.0, 0.0]
    assert imported.report.refused == {
        "fewer cells than the header": 1,
        "more cells than the header": 1,
        "no query": 1,
        "no item": 1,
        "no grade": 1,
        "a grade that is no number": 2,
    }
    assert imported.report.first["no grade"] == f"{path}:7"
    assert imported.report.counts["negative grades, kept as 0"] == 1
    assert "time" not in imported.rows  # the rows' own time is a time


def test_files_that_hold_no_judgement_are_refused(write: Writer, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="holds no judgement that can be used"):
        import_judgements(write("a.csv", "query,docid,rating", "a,1,x"))
    with pytest.raises(BadFile, match="no column is the item"):
        import_judgements(write("b.csv", "shoes,1,2"))
    with pytest.raises(BadFile, match="b.csv:3: the quotes cannot be followed"):
        import_judgements(write("b.csv", "query,docid,rating", 'a,"1,2', "b,1,2"))
    (tmp_path / "c.csv").write_bytes(b"query,docid,rating\nH\xfcte,1,2\n")
    with pytest.raises(BadFile, match="c.csv:2: .* is not UTF-8"):
        import_judgements(tmp_path / "c.csv")
    (tmp_path / "d.csv").touch()
    with pytest.raises(BadFile, match="is empty. Its first line must name the columns"):
        import_judgements(tmp_path / "d.csv")
    with pytest.raises(BadInput, match="the column position must hold numbers. Got 'top'"):
        import_judgements(write("e.csv", "query,docid,rating,position", "a,2,2,1", "a,1,2,top"))


@pytest.mark.parametrize(("repeated", "label"), [("mean", 4 / 3), ("max", 3.0), ("last", 0.0)])
def test_a_pair_judged_several_times_gets_one_grade(write: Writer, repeated: str, label: float) -> None:
    path = write("judged.csv", "query,docid,rating", "a,1,3", "a,2,1", "a,1,1", "a,1,0", "a,2,1")
    imported = import_judgements(path, repeated=repeated)
    assert imported.rows["label"].tolist() == [label, 1.0]
    assert imported.report.counts["pairs judged more than once"] == 2
    assert imported.report.counts["pairs judged differently"] == 1
    with pytest.raises(BadInput, match="query 'a' judges '1' 3 and 1. Keep one"):
        import_judgements(path, repeated="refuse")
    with pytest.raises(UnknownName, match="no rule for repeated judgements 'median'"):
        import_judgements(path, repeated="median")


def test_positions_and_scores_are_kept_and_order_the_rows(write: Writer) -> None:
    path = write("judged.csv", "query,docid,rating,position,score", "a,1,0,2,0.5", "a,2,1,1,0.75", "a,3,1,,")
    rows = import_judgements(path).rows
    assert rows["item_id"].tolist() == ["2", "1", "3"]
    assert rows["position"].tolist()[:2] == [1.0, 2.0]
    assert rows["score"].tolist()[:2] == [0.75, 0.5]


def test_qrels_become_rows_with_texts_and_without_a_ranking(write: Writer) -> None:
    qrels = write("qrels.txt", "2 0 d 0", "1 0 a 2", "1 0 b -1")
    imported = import_qrels(qrels, queries=write("topics.tsv", "1\tred hats"))
    assert imported.rows.to_dict("list") == {
        "search_id": ["1", "1", "2"],
        "session_id": ["1", "1", "2"],
        "query": ["red hats", "red hats", ""],
        "item_id": ["a", "b", "d"],
        "label": [2.0, 0.0, 0.0],
    }
    assert imported.report.counts["negative judgements, kept as 0"] == 1
    assert imported.report.counts["queries without a text"] == 1
    assert "query" not in import_qrels(qrels).rows


def test_qrels_with_a_run_become_its_lists(write: Writer) -> None:
    qrels = write("qrels.txt", "1 0 a 2", "1 0 z 1", "2 0 d 1")
    run = write("run.txt", "1 Q0 b 2 0.5 t", "1 Q0 a 1 0.75 t", "2 Q0 d 1 3 t")
    with pytest.warns(PlacingsWarning, match="1 relevant items of 1 queries were not retrieved"):
        rows = import_qrels(qrels, run=run, queries={"1": "hats", "2": "caps"}).rows
    assert rows.to_dict("list") == {
        "search_id": ["1", "1", "2"],
        "session_id": ["1", "1", "2"],
        "query": ["hats", "hats", "caps"],
        "item_id": ["a", "b", "d"],
        "position": [1.0, 2.0, 1.0],
        "score": [0.75, 0.5, 3.0],
        "label": [2.0, 0.0, 1.0],
    }


def test_broken_qrels_and_topics_name_the_line(write: Writer, tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="qrels.txt:2: found 3 words"):
        import_qrels(write("qrels.txt", "1 0 a 2", "1 a 2"))
    good = write("qrels.txt", "1 0 a 2")
    with pytest.raises(BadFile, match="topics.tsv:1: 'red hats' has no tab"):
        import_qrels(good, queries=write("topics.tsv", "red hats"))
    (tmp_path / "none.txt").touch()
    with pytest.raises(EmptyFile):
        import_qrels(tmp_path / "none.txt")
