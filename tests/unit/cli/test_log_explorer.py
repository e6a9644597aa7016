"""`placings log explore`: a file in, a page out, errors that say what to do."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from placings.cli.log_explorer import explore_log
from placings.core.errors import BadFile, UnknownName
from placings.report.log_page import write_log_page

app = typer.Typer()
app.command()(explore_log)


def write_rows(path: Path) -> Path:
    rows = {
        "search_id": ["a", "a", "b", "b"],
        "item_id": [1, 2, 1, 2],
        "position": [1, 2, 1, 2],
        "label": [1, 0, 0, 1.0],
    }
    pd.DataFrame({**rows, "query": "haupt", "category": "shoes", "unused": 1}).to_parquet(path)
    return path


def test_a_page_is_written_and_named(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.parquet")
    pd.DataFrame({"search_id": ["c"], "query": ["nothing"]}).to_parquet(tmp_path / "failed.parquet")
    page = tmp_path / "page.html"
    more = ["--unsuccessful", str(tmp_path / "failed.parquet"), "--title", "My log", "--simulated"]
    more += ["--type", "category"]
    result = CliRunner().invoke(app, [str(rows), "--out", str(page), *more])
    assert result.exit_code == 0, result.output
    assert result.stdout == f"open {page}\n"
    text = page.read_text()
    assert "<h1>My log <span" in text
    assert "<b>0.7500</b><span>MRR of the clicks</span>" in text  # (1 + 1/2) / 2
    assert "<b>1</b><span>failed searches</span>" in text
    assert "shoes: 2 clicks" in text
    with pytest.raises(UnknownName, match="no column 'categories'; did you mean 'category'"):
        write_log_page(page, pd.read_parquet(rows), types="categories")


def test_what_is_no_table_of_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_text("search_id,item_id\n")
    for name, kind, words in (
        ("rows.parquet", BadFile, "is not a parquet file"),
        ("row.parquet", BadFile, "no such file. Beside it: rows.parquet"),
    ):
        with pytest.raises(kind, match=words):
            explore_log(tmp_path / name, tmp_path / "page.html")
    pd.DataFrame({"search_id": ["a"]}).to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(BadFile, match="lacks item_id, label. placings log join"):
        explore_log(tmp_path / "rows.parquet", tmp_path / "page.html")
