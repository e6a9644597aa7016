"""Errors say what is wrong, what was given and what to do."""

from __future__ import annotations

import pickle

import pytest

from placings.core.arrays import as_labels, as_offsets, as_scores, as_vector
from placings.core.errors import (
    BadFile,
    BadInput,
    MissingExtra,
    PlacingsError,
    PlacingsWarning,
    UnknownName,
    option,
    say_flags,
    setting,
)


def test_an_unknown_name_suggests_the_nearest_and_lists_the_known() -> None:
    assert str(UnknownName("loss", "sofmax", ["softmax", "hinge"])) == (
        "no loss 'sofmax'; did you mean 'softmax'? Known: hinge, softmax."
    )
    assert "and 60 more" in str(UnknownName("feature", "zzz", [f"f{i}" for i in range(100)]))


def test_a_bad_file_knows_its_path_and_line() -> None:
    error = BadFile("train.txt", "feature 7 is 'NULL'.", line=1041)
    assert str(error) == "train.txt:1041: feature 7 is 'NULL'."
    assert (error.path, error.line) == ("train.txt", 1041)


def test_a_missing_extra_names_the_command() -> None:
    error = MissingExtra("drawing a figure", "matplotlib", "report")
    assert "pip install 'placings[report]'" in str(error)
    assert isinstance(error, ImportError)


def test_all_errors_are_one_family() -> None:
    for kind in (BadInput, UnknownName, BadFile, MissingExtra):
        assert issubclass(kind, PlacingsError)


def test_arrays_are_checked_with_the_argument_named() -> None:
    with pytest.raises(BadInput, match="scores must be one-dimensional, one value a row. Got shape .2, 2."):
        as_scores([[1, 2], [3, 4]])
    with pytest.raises(BadInput, match="scores must not be NaN. Got 2 NaN, the first at row 1"):
        as_scores([1, float("nan"), float("nan")])
    with pytest.raises(BadInput, match="labels must be finite and 0 or more. Got inf at row 0"):
        as_labels([float("inf")])
    with pytest.raises(BadInput, match="weights must be numbers. Got 'abc'"):
        as_vector("abc", "weights")
    assert as_offsets(None, 3).tolist() == [0, 3]
    for bad in ([], [0.0, 3.0], [1, 3], [0, 2], [0, 2, 1, 3], [[0, 3]]):
        with pytest.raises(BadInput, match="offsets must"):
            as_offsets(bad, 3)


def test_an_option_is_a_keyword_in_python_and_a_flag_at_the_terminal() -> None:
    error = BadFile("train.txt", f"is 'NULL'. Pass {option('missing', value='NULL')} to read it.", line=7)
    assert str(error) == "train.txt:7: is 'NULL'. Pass missing='NULL' to read it."
    assert error.args == (str(error),)
    flags = {"missing": "--missing", "set": "--set"}
    assert say_flags(error, flags) == "train.txt:7: is 'NULL'. Pass --missing NULL to read it."
    several = PlacingsWarning(f"Name {option('qid', 'missing', 'time')}, use {setting('transform', 'cdf')}.")
    assert str(several) == "Name qid=, missing= or time=, use transform='cdf'."
    assert say_flags(several, flags) == "Name --missing, use --set transform=cdf."
    assert say_flags(ValueError("not ours"), flags) == "not ours"


def test_an_error_with_an_option_survives_being_sent_between_processes() -> None:
    error = pickle.loads(pickle.dumps(BadInput(f"Pass {option('groups')}.")))
    assert str(error) == "Pass groups=."
    assert say_flags(error, {}) == "Pass groups= (from Python)."
