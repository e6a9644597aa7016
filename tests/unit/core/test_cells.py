"""Kept cells: found again under what made them, made anew when that changes or the file is damaged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from placings.core.cells import digest_array, keep_cell, name_cell, read_array, read_facts, write_array
from placings.core.errors import PlacingsWarning


def test_a_name_is_the_one_that_version_1_gave() -> None:
    made_of = [1, {"numpy": "2"}, "LightGBMRanker", {"rounds": 10, "lr": 0.1}, ["ab", None], 0, "best"]
    key = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    assert name_cell("2 layers_Raw (x)", made_of, about="fold1-seed0") == f"2_layers_Raw_x_-fold1-seed0-{key}"
    assert name_cell("a" * 60, made_of) == f"{'a' * 40}-{key}"


def test_a_key_knows_values_not_their_types_or_order() -> None:
    one = name_cell("x", {"sizes": (1, 2), "path": Path("a"), "value": np.float64(0.5)})
    assert one == name_cell("x", {"value": 0.5, "path": "a", "sizes": [1, 2]})
    assert one != name_cell("x", {"value": 0.5, "path": "a", "sizes": [2, 1]})


def test_a_damaged_cell_is_made_anew_and_said(tmp_path: Path) -> None:
    made = keep_cell(tmp_path, "a b", {"k": 1}, lambda: {"value": float("nan")})
    assert made == {"value": None}
    [path] = tmp_path.iterdir()
    assert keep_cell(tmp_path, "a b", {"k": 1}, lambda: {"value": 2}) == {"value": None}  # kept
    assert keep_cell(tmp_path, "a b", {"k": 2}, lambda: {"value": 2}) == {"value": 2}  # another key
    path.write_text("{")
    with pytest.warns(PlacingsWarning, match="is damaged"):
        assert keep_cell(tmp_path, "a b", {"k": 1}, lambda: {"value": 3}) == {"value": 3}


def test_a_cell_that_does_not_stand_any_more_is_made_anew(tmp_path: Path) -> None:
    keep_cell(tmp_path, "a", {}, lambda: {"value": 1})
    again = keep_cell(tmp_path, "a", {}, lambda: {"value": 2}, lambda cell: cell["value"] > 1)
    assert again == {"value": 2}
    assert read_facts(next(tmp_path.iterdir())) == {"value": 2}


def test_without_a_folder_nothing_is_kept_and_the_answer_is_the_same(tmp_path: Path) -> None:
    facts = {"value": np.nan, "pair": (1, 2)}
    assert keep_cell(None, "a", {}, lambda: facts) == keep_cell(tmp_path, "a", {}, lambda: facts)
    assert keep_cell(None, "a", {}, lambda: facts) == {"value": None, "pair": [1, 2]}


@pytest.mark.parametrize("rows", [0, 3, 2000])  # empty, read whole, mapped
def test_an_array_is_read_as_it_was_written(tmp_path: Path, rows: int) -> None:
    values = np.arange(rows) / 7
    write_array(tmp_path / "a.npy", values)
    found = read_array(tmp_path / "a.npy", rows, digest_array(values))
    assert found is not None
    assert (found == values).all()  # a copy
    assert read_array(tmp_path / "b.npy", rows) is None  # never written


@pytest.mark.parametrize(("rows", "checksum"), [(4, None), (3, "0")])
def test_an_array_of_another_length_or_checksum_is_damaged(
    tmp_path: Path, rows: int, checksum: str | None
) -> None:
    write_array(tmp_path / "a.npy", np.arange(3.0))
    with pytest.warns(PlacingsWarning, match="a.npy is damaged; it is made anew"):
        assert read_array(tmp_path / "a.npy", rows, checksum) is None


def test_an_array_that_should_be_there_and_a_cut_one_are_damaged(tmp_path: Path) -> None:
    with pytest.warns(PlacingsWarning, match="damaged"):
        assert read_array(tmp_path / "a.npy", 3, "0") is None
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY")
    with pytest.warns(PlacingsWarning, match="damaged"):
        assert read_array(tmp_path / "a.npy", 3) is None
