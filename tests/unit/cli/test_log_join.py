"""`placings log join` at the terminal: what it says when nothing could be joined."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from placings.cli.log import app
from placings.core.errors import BadInput

pytest.importorskip("ibis")

SEARCH = {"search_id": "s", "time": "2024-05-01T08:00:00Z", "query": "x", "results": [{"item_id": "a"}]}
CLICK = {"search_id": "s", "item_id": "a", "time": "2024-05-01T08:00:03Z", "action": "click"}


def join(folder: Path, search: dict[str, Any], actions: list[dict[str, Any]], *more: str) -> Any:
    for name, lines in (("s", [search]), ("a", actions)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["join", str(folder / "s.jsonl"), str(folder / "a.jsonl"), "--out", str(folder / "rows.parquet")]
    return CliRunner().invoke(app, [*words, *more])


@pytest.mark.parametrize(
    ("search", "change", "cause"),
    [
        ({}, {"action": "klick"}, "1 of 1 actions have no grade: 'klick' (1); the grades are click=1, "
         "cart=2, purchase=3. Give them one: --grade klick=1."),
        ({}, {"search_id": "t"}, "1 of 1 actions were left out: no such search. Are both files of the same"),
        ({}, {"time": "2024-05-01T10:00:03Z"}, "longer after its search than the window. Are the times of"),
        ({}, {"time": "2024-05-01T06:00:03Z"}, "longer before its search than the slack. Are the times of"),
        ({}, {"item_id": "b"}, "the item was not in the list. Are item ids written alike"),
        ({"time": None}, {}, "No search could be used, most of them left out: time is null."),
    ],
)  # fmt: skip
def test_no_row_is_an_error_that_says_what_became_of_the_events(
    search: dict[str, Any], change: dict[str, Any], cause: str, tmp_path: Path
) -> None:
    result = join(tmp_path, {**SEARCH, **search}, [{**CLICK, **change}])
    assert isinstance(result.exception, BadInput)  # exit 1, as every error of ours
    assert "rows.parquet is not written" in str(result.exception)
    assert cause in str(result.exception)
    assert "the counts add up" in result.stdout  # the report comes all the same
    assert not (tmp_path / "rows.parquet").exists()


def test_kept_without_a_single_label_is_said(tmp_path: Path) -> None:
    result = join(tmp_path, SEARCH, [{**CLICK, "search_id": "t"}], "--unsuccessful", "negatives")
    assert result.exit_code == 0
    assert "1 rows in 1 groups" in result.stdout
    assert "note: every label is 0. 1 of 1 actions were left out: no such search." in result.stderr


def test_actions_without_a_grade_are_named_and_counted(tmp_path: Path) -> None:
    views = [{**CLICK, "action": "view", "time": f"2024-05-01T08:00:0{n}Z"} for n in range(3)]
    none = {**CLICK, "action": None}
    result = join(tmp_path, SEARCH, [CLICK, *views, none])
    assert result.exit_code == 0
    line = "actions without a grade: 'view' (3), 'null' (1); the grades are click=1, cart=2, purchase=3"
    assert line in result.stdout
    result = join(tmp_path, SEARCH, [CLICK, *views, none], "--json")
    assert json.loads(result.stdout)["unknown_actions"] == {"view": 3, "null": 1}


def test_lists_that_are_all_empty_are_told_as_such(tmp_path: Path) -> None:
    result = join(tmp_path, {**SEARCH, "results": []}, [CLICK])
    assert "s.jsonl: every list in 'results' is empty" in str(result.exception)
