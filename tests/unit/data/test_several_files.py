"""Several files, or a glob, as one data set; columns that are passed over; numbers as CSV writes them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placings as pg
from placings.core.errors import BadFile, BadInput, Guess, UnknownName


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("1 qid:1 1:2 2:3\n0 qid:1 1:1\n")
    (tmp_path / "b.txt").write_text("1 qid:2 1:4 3:5\n0 qid:2 1:6\n")
    (tmp_path / "a.csv").write_text("qid,label,x,note,y\n1,1,1,a,7\n1,0,2,b,8\n")
    (tmp_path / "b.csv").write_text("qid,label,y,x,note\n2,1,9,3,a\n2,0,10,4,b\n")
    return tmp_path


def test_text_files_are_as_wide_as_the_widest(parts: Path) -> None:
    for given in ([parts / "a.txt", parts / "b.txt"], str(parts / "?.txt"), parts / "[ab].txt"):
        data = pg.read(given)
        assert data.X.tolist() == [[2, 3, 0], [1, 0, 0], [4, 0, 5], [6, 0, 0]]
        assert data.qids.tolist() == [1, 2]


def test_tables_are_matched_by_their_columns_and_a_guess_is_said_once(parts: Path) -> None:
    with pytest.warns(Guess) as said:
        data = pg.read([parts / "a.csv", parts / "b.csv"])
    assert len(said) == 1
    assert data.feature_names == ("x", "y")
    assert data.X.tolist() == [[1, 7], [2, 8], [3, 9], [4, 10]]
    assert data.segments["note"].tolist() == ["a", "b", "a", "b"]


@pytest.mark.filterwarnings("ignore::placings.core.errors.Guess")
def test_parquet_parts_are_one_set(parts: Path) -> None:
    whole = pg.read([parts / "a.csv", parts / "b.csv"])
    pg.write(whole[:1], parts / "part-1.parquet")
    pg.write(whole[1:], parts / "part-2.parquet")
    found = pg.read(parts / "part-*.parquet")
    np.testing.assert_array_equal(found.X, whole.X)
    np.testing.assert_array_equal(found.qid, whole.qid)


def test_a_query_in_two_files_is_an_error_or_joined_as_asked(parts: Path) -> None:
    (parts / "c.txt").write_text("0 qid:1 1:9\n")
    with pytest.raises(
        BadInput, match=r"qid 1 stands in more than one part. Pass repeated_qid='join'.*c.txt"
    ):
        pg.read([parts / "a.txt", parts / "c.txt"])
    joined = pg.read([parts / "a.txt", parts / "c.txt"], repeated_qid="join")
    assert (joined.n_queries, joined.n_rows) == (1, 3)


def test_a_file_that_is_named_twice_is_read_once(parts: Path) -> None:
    assert pg.read([parts / "a.txt", parts / "a.txt", parts / "?.txt"]).n_queries == 2


@pytest.mark.filterwarnings("ignore::placings.core.errors.Guess")
def test_what_is_no_one_set_is_refused_with_the_files(parts: Path) -> None:
    with pytest.raises(BadInput, match=r"the 2 files are no one data set: .*part 1: .*a.csv"):
        pg.read([parts / "a.txt", parts / "a.csv"])
    with pytest.raises(BadFile, match="no such file"):
        pg.read([parts / "a.txt", parts / "gone.txt"])
    with pytest.raises(BadFile, match="no such file"):
        pg.read(parts / "*.gone")
    with pytest.raises(BadInput, match="at least one file"):
        pg.read([])
    with pytest.raises(BadInput, match="one collection's folder. Got 2 paths"):
        pg.read([parts / "a.txt", parts / "b.txt"], fold=1)


@pytest.mark.filterwarnings("ignore::placings.core.errors.Guess")
def test_columns_and_features_are_passed_over_by_name(parts: Path) -> None:
    data = pg.read(parts / "a.csv", ignore=["note", "x"])
    assert (data.feature_names, dict(data.segments)) == (("y",), {})
    with pytest.raises(UnknownName, match="no column in .*a.csv to ignore 'z'"):
        pg.read(parts / "a.csv", ignore=["z"])
    text = [parts / "a.txt", parts / "b.txt"]
    assert pg.read(text, ignore=["2"]).feature_names == ("f1", "f3")
    assert pg.read(text, features=["f3", "1"]).feature_names == ("f3", "f1")
    with pytest.raises(UnknownName, match="no feature in .*a.txt named '9'"):
        pg.read(parts / "a.txt", features=["9"])


def write_prices(folder: Path, text: str) -> Path:
    file = folder / "prices.csv"
    file.write_text(text)
    return file


def test_the_usual_words_for_missing_are_read_as_missing(tmp_path: Path) -> None:
    rows = "".join(f"1,0,{word}\n" for word in ("n/a", "N/A", "#N/A", "<NA>", "None", "NULL", ""))
    data = pg.read(write_prices(tmp_path, f"qid,label,price\n1,1,3\n{rows}"), qid="qid", label="label")
    assert data.feature_names == ("price",)
    assert np.isnan(data.X[1:, 0]).all()


@pytest.mark.parametrize("dash", ["-", "--", "–", "?", "."])
def test_a_dash_among_numbers_is_missing_which_is_said(tmp_path: Path, dash: str) -> None:
    file = write_prices(tmp_path, f"qid,label,price\n1,1,3.5\n1,0,{dash}\n")
    with pytest.warns(Guess, match="in 'price' as missing"):
        data = pg.read(file, qid="qid", label="label")
    np.testing.assert_array_equal(data.X[:, 0], np.array([3.5, np.nan], dtype=np.float32))


def test_a_column_of_dashes_and_words_stays_text(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = pg.read(
            write_prices(tmp_path, "qid,label,x,kind\n1,1,1,-\n1,0,2,new\n"), qid="qid", label="label"
        )
    assert data.segments["kind"].tolist() == ["-", "new"]


@pytest.mark.parametrize(
    ("sign", "written", "number"),
    [(",", '"1,234,567.5"', 1234567.5), ("'", "1'234", 1234.0), (" ", "-1 234", -1234.0)],
)
def test_thousands_are_read_with_the_option(tmp_path: Path, sign: str, written: str, number: float) -> None:
    file = write_prices(tmp_path, f"qid,label,price\n1,1,{written}\n1,0,5\n")
    data = pg.read(file, qid="qid", label="label", thousands=sign)
    assert data.X[:, 0].tolist() == [number, 5.0]


def test_without_the_option_the_line_the_column_and_the_option_are_said(tmp_path: Path) -> None:
    file = write_prices(tmp_path, 'qid,label,note,price\n1,1,"two\nlines",5\n\n1,0,x,"1,234"\n2,1,y,7\n')
    with pytest.warns(
        Guess, match=r"segment 'price', mostly numbers but also '1,234' in line 5 \(pass thousands=','"
    ):
        pg.read(file, qid="qid", label="label")
    with pytest.raises(
        BadFile, match=r"prices.csv:5: column 'price' is '1,234', which is no number: pass thousands=','"
    ):
        pg.read(file, qid="qid", label="label", features=["price"])


def test_another_word_is_said_with_what_to_pass(tmp_path: Path) -> None:
    file = write_prices(tmp_path, "qid,label,price\n1,1,5\n1,0,6\n1,0,unknown\n")
    with pytest.raises(BadFile, match=r"prices.csv:4: column 'price' is 'unknown'.*pass missing='unknown'"):
        pg.read(file, qid="qid", label="label", features=["price"])


@pytest.mark.parametrize("sign", ["", ",,", "x", "7", "-"])
def test_a_sign_that_cannot_separate_thousands_is_refused(tmp_path: Path, sign: Any) -> None:
    file = write_prices(tmp_path, "qid,label,price\n1,1,5\n")
    with pytest.raises(BadInput, match="thousands must be one sign"):
        pg.read(file, qid="qid", label="label", thousands=sign)
