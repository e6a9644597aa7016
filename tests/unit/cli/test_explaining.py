"""`placings explain`: what a saved model goes by, and why one item stands above another."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from terminal import call_placings

import placings as pg


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels that follow `price` alone; with item ids in rows.csv, without in plain.csv; saved runs."""
    home = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"qid": np.repeat(np.arange(40), 5), "item": [f"i{n}" for n in range(200)]})
    frame = frame.assign(price=rng.random(200), noise=rng.random(200))
    frame["label"] = (frame["price"] > 0.6).astype(int)
    frame.to_csv(home / "rows.csv", index=False)
    frame.drop(columns="item").to_csv(home / "plain.csv", index=False)
    data = pg.read(home / "plain.csv", qid="qid", label="label", cache=False)
    pg.LightGBMRanker(rounds=5, leaves=4, random_state=0, n_jobs=1).fit(data).save(home / "trees/model")
    pg.LinearRanker("ridge").fit(data).save(home / "line/model")
    return home


def call(folder: Path, *words: object) -> dict[str, object]:
    done = call_placings("explain", *words, "--json", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_runs_folder_and_its_model_are_the_same(folder: Path) -> None:
    assert call(folder, "trees", "--kind", "split") == call(folder, "trees/model", "--kind", "split")


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["trees"], "gain"),
        (["trees", "rows.csv"], "contributions"),
        (["line", "rows.csv"], "contributions"),
        (["line", "rows.csv", "--kind", "permutation"], "permutation"),
    ],
)
def test_the_feature_that_decides_comes_first(words: list[str], kind: str, folder: Path) -> None:
    found = call(folder, *words)
    assert found["kind"] == kind
    assert found["features"][0]["feature"] == "price"  # type: ignore[index]


def test_the_first_stands_above_the_next_and_the_terms_add_up(folder: Path) -> None:
    found = call(folder, "trees", "rows.csv", "--query", 3)
    assert found["holds"]
    assert (found["above"]["rank"], found["below"]["rank"]) == (1, 2)  # type: ignore[index]
    terms = sum(term["contribution"] for term in found["terms"])  # type: ignore[attr-defined]
    assert terms == pytest.approx(found["difference"], abs=1e-6)


def test_items_are_named_by_their_ids_or_by_their_rows_from_one(folder: Path) -> None:
    by_id = call(folder, "line", "rows.csv", "--query", 3, "--above", "i16", "--below", "i15")
    by_row = call(folder, "line", "plain.csv", "--query", 3, "--above", 2, "--below", 1)
    assert by_id["above"]["item"] == "i16"  # type: ignore[index]
    assert by_row["above"]["item"] == "row 2"  # type: ignore[index]
    assert by_id["difference"] == by_row["difference"]


def test_the_table_is_for_people(folder: Path) -> None:
    done = call_placings("explain", "trees", "plain.csv", "--query", 3, "-q", "--top", 1, cwd=folder)
    assert "contribution" in done.stdout
    assert "1 others" in done.stdout
    assert "its score is higher by" in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["trees", "--above", "i1"], 2, "Add --query"),
        (["trees", "--query", "3"], 2, "Name a file of rows after the model"),
        (["trees", "rows.csv", "--query", "3", "--kind", "gain"], 2, "--kind is about all queries"),
        (["trees", "--kind", "nonsense"], 1, "gain, permutation, split"),
        (["line"], 1, "what a LinearRanker goes by is measured on data"),
        (["trees", "--kind", "permutation"], 1, "--kind permutation is measured on data"),
        (["trees", "rows.csv", "--query", "77"], 1, "no query for --query '77'"),
        (["trees", "rows.csv", "--query", "3", "--above", "i1"], 1, "no item for --above 'i1'"),
        (["nowhere"], 1, "nowhere"),
    ],
)
def test_what_cannot_be_explained_is_told(words: list[str], code: int, told: str, folder: Path) -> None:
    done = call_placings("explain", *words, cwd=folder, COLUMNS="200")
    assert done.returncode == code
    assert told in done.stderr


def test_what_stands_last_needs_the_other_named(folder: Path) -> None:
    last = call(folder, "line", "rows.csv", "--query", 3)["below"]["item"]  # type: ignore[index]
    for _ in range(3):
        last = call(folder, "line", "rows.csv", "--query", 3, "--above", last)["below"]["item"]  # type: ignore[index]
    done = call_placings("explain", "line", "rows.csv", "--query", 3, "--above", last, cwd=folder)
    assert done.returncode == 1
    assert "stands last in query 3. Name the other item with --below." in done.stderr
