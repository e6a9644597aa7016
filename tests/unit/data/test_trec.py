"""TREC runs and qrels, with small files whose answer is plain."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from placings.core.errors import BadFile, BadInput, EmptyFile, PlacingsWarning, TruncatedFile
from placings.data.ranking import RankingData
from placings.data.trec import read_trec, write_run

RUN = """\
301 Q0 A 1 9.5 tag
301 Q0 B 2 7.0 tag
302 Q0 C 1 3.0 tag
301 Q0 D 3 6.0 tag
"""
QRELS = """\
301 0 B 2
301 0 D 0
302 0 C 1
"""


def write_both(folder: Path, run: str = RUN, qrels: str = QRELS) -> tuple[Path, Path]:
    (folder / "run.txt").write_text(run)
    (folder / "qrels.txt").write_text(qrels)
    return folder / "run.txt", folder / "qrels.txt"


def test_a_run_and_its_judgements_become_ranking_data(tmp_path: Path) -> None:
    data = read_trec(*write_both(tmp_path))
    assert data.qids.tolist() == ["301", "302"]
    assert data.items.tolist() == ["A", "B", "D", "C"]
    assert data.y.tolist() == [0, 2, 0, 1]  # A is not judged
    assert data.feature_names == ("score",)
    assert data.X[:, 0].tolist() == [9.5, 7.0, 6.0, 3.0]
    assert data.position.tolist() == [1, 2, 3, 1]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files_are_read(tmp_path: Path, suffix: str) -> None:
    paths = []
    for path in write_both(tmp_path):
        text = path.read_bytes()
        packed = gzip.compress(text) if suffix == ".gz" else pa.compress(text, codec="zstd", asbytes=True)
        paths.append(tmp_path / (path.name + suffix))
        paths[-1].write_bytes(packed)
    assert read_trec(*paths).n_rows == 4


def test_ranks_may_start_at_zero_and_stand_in_any_order(tmp_path: Path) -> None:
    run = "1 Q0 B 1 2.0 t\n1 Q0 A 0 3.0 t\n1 Q0 C 7 1.0 t\n"
    data = read_trec(*write_both(tmp_path, run, "1 0 A 1\n"))
    assert data.items.tolist() == ["A", "B", "C"]
    assert data.position.tolist() == [1, 2, 3]


def test_ranks_that_contradict_scores_are_said(tmp_path: Path) -> None:
    run = "1 Q0 A 1 2.0 t\n1 Q0 B 2 3.0 t\n"
    with pytest.warns(PlacingsWarning, match="In 1 of 1 queries the ranks do not follow the scores"):
        data = read_trec(*write_both(tmp_path, run, "1 0 A 1\n"))
    assert data.items.tolist() == ["A", "B"]


def test_relevant_items_not_retrieved_are_dropped_and_counted(tmp_path: Path) -> None:
    paths = write_both(tmp_path, qrels=QRELS + "301 0 X 1\n301 0 Y 3\n301 0 Z 0\n")
    with pytest.warns(PlacingsWarning, match="2 relevant items of 1 queries were not retrieved"):
        assert read_trec(*paths).n_rows == 4


def test_relevant_items_not_retrieved_can_be_appended_below(tmp_path: Path) -> None:
    paths = write_both(tmp_path, qrels=QRELS + "301 0 X 1\n301 0 Y 3\n301 0 Z 0\n")
    query = read_trec(*paths, unretrieved="append").query("301")
    assert query.items.tolist() == ["A", "B", "D", "X", "Y"]
    assert query.X[:, 0].tolist() == [9.5, 7.0, 6.0, 5.0, 5.0]  # the lowest is 6
    assert query.y.tolist() == [0, 2, 0, 1, 3]
    assert query.position.tolist() == [1, 2, 3, 4, 5]


def test_queries_on_one_side_only_are_counted(tmp_path: Path) -> None:
    paths = write_both(tmp_path, RUN + "400 Q0 A 1 1 t\n", QRELS + "500 0 A 1\n")
    with pytest.warns(PlacingsWarning) as caught:
        data = read_trec(*paths)
    assert "1 of 3 judged queries are not in the run and are left out." in str(caught[0].message)
    assert "1 of 3 queries have no judgements: their labels are 0." in str(caught[0].message)
    assert data.qids.tolist() == ["301", "302", "400"]
    assert data.query("400").y.tolist() == [0]


def test_negative_judgements_count_as_zero_and_are_said(tmp_path: Path) -> None:
    with pytest.warns(PlacingsWarning, match="1 negative judgements count as 0"):
        data = read_trec(*write_both(tmp_path, qrels=QRELS.replace("D 0", "D -2")))
    assert data.y.tolist() == [0, 2, 0, 1]


@pytest.mark.parametrize(
    ("run", "qrels", "message"),
    [
        ("1 Q0 A 1 2.0 t\n1 Q0 A\n", "1 0 A 1\n", r"run.txt:2: found 3 words, '1 Q0 A'; a line is 'qid Q0"),
        ("\n1 Q0 A x 2.0 t\n", "1 0 A 1\n", r"run.txt:2: the rank is 'x'"),
        ("1 Q0 A 1 nan t\n", "1 0 A 1\n", r"run.txt:1: the score is 'nan'"),
        ("1 Q0 A 1 1e39 t\n", "1 0 A 1\n", r"run.txt:1: the score is '1e39', not a finite float32"),
        ("1 Q0 A 1 2 t\n1 Q0 A 2 1 t\n", "1 0 A 1\n", r"run.txt:2: query '1' lists 'A' twice"),
        ("1 Q0 A 1 2 t\n", "1 0 A one\n", r"qrels.txt:1: the judgement is 'one'"),
        ("1 Q0 A 1 2 t\n", "1 0 A 1\n1 0 A 2\n", r"qrels.txt:2: query '1' judges 'A' 1 and then 2"),
        ("1 Q0 A 1 2 t\n", "1 A 1\n", r"qrels.txt:1: found 3 words"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, run: str, qrels: str, message: str) -> None:
    with pytest.raises(BadFile, match=message):
        read_trec(*write_both(tmp_path, run, qrels))


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    run, qrels = write_both(tmp_path)
    run.write_bytes(RUN.encode() + b"301 Q0 caf\xe9 4 1.0 t\n")
    with pytest.raises(BadFile, match=r"run.txt:5: .* not UTF-8"):
        read_trec(run, qrels)


def test_empty_truncated_and_absent_files_are_errors(tmp_path: Path) -> None:
    run, qrels = write_both(tmp_path, run="\n\n")
    with pytest.raises(EmptyFile, match="no lines"):
        read_trec(run, qrels)
    (tmp_path / "run.gz").write_bytes(gzip.compress(RUN.encode() * 50)[:-20])
    with pytest.raises(TruncatedFile):
        read_trec(tmp_path / "run.gz", qrels)
    with pytest.raises(BadFile, match="no such file"):
        read_trec(tmp_path / "nothing", qrels)


def test_a_run_of_another_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no query of the run is judged. The run begins with query '301'"):
        read_trec(*write_both(tmp_path, qrels="7 0 A 1\n"))


def test_unretrieved_must_be_known(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'drop' or 'append'"):
        read_trec(*write_both(tmp_path), unretrieved="keep")


def make_data() -> RankingData:
    return RankingData.from_arrays(np.zeros((4, 1)), [1, 0, 2, 0], [1, 1, 1, 2], items=["a", "b", "c", "a"])


def test_a_run_is_written_by_falling_score_and_ties_in_row_order(tmp_path: Path) -> None:
    write_run(make_data(), [0.5, 2.0, 0.5, 1.0], tmp_path / "run", tag="mine")
    assert (tmp_path / "run").read_text() == (
        "1 Q0 b 1 2.0 mine\n1 Q0 a 2 0.5 mine\n1 Q0 c 3 0.5 mine\n2 Q0 a 1 1.0 mine\n"
    )


@pytest.mark.parametrize("name", ["run.txt", "run.gz"])
def test_a_written_run_reads_back(tmp_path: Path, name: str) -> None:
    write_run(make_data(), [0.1, 0.3, 0.2, 1.0], tmp_path / name)
    (tmp_path / "qrels").write_text("1 0 a 1\n1 0 c 2\n2 0 a 0\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = read_trec(tmp_path / name, tmp_path / "qrels")
    assert data.items.tolist() == ["b", "c", "a", "a"]
    assert data.X[:, 0].tolist() == np.float32([0.3, 0.2, 0.1, 1.0]).tolist()


@pytest.mark.parametrize(
    ("data", "scores", "tag", "message"),
    [
        (make_data(), [1.0], "t", "one value for each of the 4 rows"),
        (make_data(), [1, 2, 3, np.inf], "t", "must be finite"),
        (make_data(), [1, 2, 3, 4], "my tag", "tag must hold none"),
        (make_data().replace(items=None), [1, 2, 3, 4], "t", "names its items"),
        (make_data().replace(items=np.array(["a b", "c", "d", "e"], object)), [1, 2, 3, 4], "t", "'a b'"),
    ],
)
def test_what_cannot_stand_in_a_run_is_refused_and_leaves_no_file(
    tmp_path: Path, data: RankingData, scores: list[float], tag: str, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        write_run(data, scores, tmp_path / "run", tag=tag)
    assert list(tmp_path.iterdir()) == []


def test_spaces_that_trec_eval_does_not_know_are_part_of_an_id(tmp_path: Path) -> None:
    # cut there, the line would have six words: document d, rank 1, score 2
    run, qrels = write_both(tmp_path, "q Q0 d\u00a01 2 0.5\n", "q 0 d\u00a01 1\n")
    data = read_trec(run, qrels)
    assert data.items is not None
    assert data.items.tolist() == ["d\u00a01"]
    assert data.X.tolist() == [[0.5]]
    assert data.y.tolist() == [1.0]
    write_run(data, [1.0], tmp_path / "again")
    again = read_trec(tmp_path / "again", qrels)
    assert again.items is not None
    assert again.items.tolist() == ["d\u00a01"]


def test_a_byte_order_mark_is_no_part_of_the_first_id(tmp_path: Path) -> None:
    assert read_trec(*write_both(tmp_path, "\ufeff" + RUN, "\ufeff" + QRELS)).qids.tolist() == ["301", "302"]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        ("q Q0 d 1_0 0.5 t", "the rank is '1_0'"),
        ("q Q0 d \u0661 0.5 t", "the rank is"),
        (f"q Q0 d {'9' * 5000} 0.5 t", "the rank is '9{40}'"),
        ("q Q0 d 1 1_0 t", "the score is '1_0'"),
        ("q Q0 d 1 \u0661 t", "the score is"),
        (f"q Q0 d 1 {'x' * 5000} t", "the score is 'x{40}'"),
    ],
)
def test_numbers_that_only_python_reads_are_refused(tmp_path: Path, run: str, message: str) -> None:
    with pytest.raises(BadFile, match=f"run.txt:1: {message}") as caught:
        read_trec(*write_both(tmp_path, run + "\n", "q 0 d 1\n"))
    assert len(str(caught.value)) < 400


def test_ids_of_a_run_stay_as_written(tmp_path: Path) -> None:
    run = "007 Q0 d 1 1 t\n7 Q0 d 1 1 t\n18446744073709551615 Q0 d 1 1 t\n18446744073709551614 Q0 d 1 1 t\n"
    with pytest.warns(PlacingsWarning, match="have no judgements"):
        data = read_trec(*write_both(tmp_path, run, "7 0 d 1\n"))
    assert data.qids.tolist() == ["007", "7", "18446744073709551615", "18446744073709551614"]
    assert data.y.tolist() == [0, 1, 0, 0]
