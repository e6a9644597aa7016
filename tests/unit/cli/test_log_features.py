"""`placings log features`: the preset fits the rows, each can be written, nothing is left out unsaid."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import placings as pg
from placings.cli.log import app
from placings.core.errors import BadInput
from placings.places.presets import PRESETS, choose_preset


def make_rows(kind: str) -> pd.DataFrame:
    """Twelve searches of four items, the second of which is clicked; ids that are two words."""
    rng = np.random.default_rng(0)
    rows: dict[str, Any] = {
        "search_id": np.repeat([f"search {n}" for n in range(12)], 4),
        "session_id": np.repeat([f"u{n}" for n in range(12)], 4),
        "time": pd.Timestamp("2024-05-01"),
        "query": "haupt",
        "platform": "web",
        "item_id": [f"item {n}" for n in range(4)] * 12,
        "position": [1, 2, 3, 4] * 12,
        "score": rng.normal(size=48),
        "label": [0.0, 1.0, 0.0, 0.0] * 12,
    }
    if kind == "places":
        rows |= {"name": [f"Hauptplatz {n}" for n in range(48)], "lat": 49.0, "lon": 8.4, "weight": 1.0}
    rows |= {"price": rng.exponential(size=48), "rating": 3.5, "brand": ["Acme", "Bolt"] * 24}
    rows |= {"tags": [["a", "b"]] * 48, "note": [f"text {n % 24} {n // 24}" for n in range(48)]}
    return pd.DataFrame(rows | {"blurb": "same", "void": None})


@pytest.fixture(params=["places", "shop"])
def rows(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make_rows(request.param).to_parquet(tmp_path / f"{request.param}.parquet")
    return tmp_path / f"{request.param}.parquet"


def run(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["features", *map(str, words)])


def test_the_preset_is_that_of_the_rows_and_named(rows: Path, tmp_path: Path) -> None:
    told = run(rows, "--out", tmp_path / "data.parquet").stdout
    assert choose_preset(pd.read_parquet(rows)) == rows.stem
    assert (
        f"12 searches, 48 rows, {pg.read(tmp_path / 'data.parquet').n_features} features ({rows.stem})"
        in told
    )


def test_what_no_feature_reads_is_named_with_its_reason(tmp_path: Path) -> None:
    make_rows("places").to_parquet(tmp_path / "rows.parquet")
    told = run(tmp_path / "rows.parquet", "--out", tmp_path / "data.parquet").stdout.splitlines()
    nothing = "tags (lists or objects), note, blurb (one text everywhere), void (no data)"
    assert told[1:] == [
        f"columns not used: price, rating, brand, {nothing}",
        "--preset shop uses every number and every text of at most 50 values",
    ]
    told = run(tmp_path / "rows.parquet", "--preset", "shop", "--out", tmp_path / "data.parquet").stdout
    unused = told.splitlines()[1]
    assert unused == "columns not used: tags (lists or objects), blurb (one text everywhere), void (no data)"
    names = pg.read(tmp_path / "data.parquet").feature_names
    assert {"price", "rating", "brand=Acme", "brand=Bolt"} <= set(names)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("form", ["parquet", "txt"])
def test_every_preset_is_written_in_every_form_that_can_hold_it(
    preset: str, form: str, rows: Path, tmp_path: Path
) -> None:
    out = tmp_path / f"data.{form}"
    command = (rows, "--preset", preset, "--out", out)
    if preset == "thesis" and form == "parquet":
        result = run(*command)
        assert isinstance(result.exception, BadInput)
        assert "Write svmlight (.txt, .txt.gz) instead" in str(result.exception)
        assert not out.exists()
        return
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        assert run(*command).exit_code == 0
    told = " ".join(str(each.message) for each in heard)
    assert ("'search%200' for 'search 0'" in told) == (form != "parquet")
    data = pg.read(out)
    assert (data.n_queries, data.n_rows) == (12, 48)
    assert data.y.reshape(12, 4)[:, 1].tolist() == [1.0] * 12
    assert data.is_sparse == (preset == "thesis")
    word = "item 0" if form == "parquet" else "item%200"
    assert data.items is not None
    assert data.items[0] == word


def test_csv_is_neither_promised_nor_written(tmp_path: Path) -> None:
    shown = " ".join(run("--help").stdout.replace("│", " ").split())
    assert "CSV" not in shown
    assert "svmlight text" in shown
    result = run(tmp_path / "none.parquet", "--out", tmp_path / "data.csv")  # told before the rows are read
    assert "placings writes parquet and svmlight. Got data.csv" in str(result.exception)


def test_a_list_where_a_text_or_number_must_be_is_named(tmp_path: Path) -> None:
    make_rows("places").assign(name=[["a", "b"]] * 48).to_parquet(tmp_path / "rows.parquet")
    result = run(tmp_path / "rows.parquet", "--preset", "places", "--out", tmp_path / "data.parquet")
    assert isinstance(result.exception, BadInput)
    assert "column 'name' must be text. Got lists or objects" in str(result.exception)
    make_rows("places").assign(weight=[[1.0, 2.0]] * 48).to_parquet(tmp_path / "rows.parquet")
    result = run(tmp_path / "rows.parquet", "--preset", "places", "--out", tmp_path / "data.parquet")
    assert "column 'weight' must be numbers. Got" in str(result.exception)
