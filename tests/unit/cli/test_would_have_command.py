"""`placings would-have`: 0 for a candidate that is shown non-inferior, 3 and a sentence for another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from placings.cli.main import app
from placings.core import BadFile, BadInput, UnknownName
from placings.features import FeatureSet
from placings.features.number import Number
from placings.logs import ClickLog
from placings.rankers.linear import LinearRanker
from placings.rerank import Reranker

pd = pytest.importorskip("pandas")


def ask(*words: object) -> Any:
    return CliRunner().invoke(app, ["would-have", *map(str, words)], catch_exceptions=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log whose second item is clicked, candidates that put it first and last, and a curve."""
    home = tmp_path_factory.mktemp("gate")
    lists = 90
    rows = pd.DataFrame({
        "search_id": np.repeat([f"s{number}" for number in range(lists)], 3),
        "item_id": np.tile(["a", "b", "c"], lists), "position": np.tile([1, 2, 3], lists),
        "price": np.tile([1.0, 3.0, 2.0], lists), "platform": np.repeat(["web", "app"] * (lists // 2), 3),
        "label": [float(place == 2 and number % 3 == 0) for number in range(lists) for place in (1, 2, 3)],
    })  # fmt: skip
    ClickLog(rows).write(home / "rows.parquet")
    features = FeatureSet([Number("price")]).fit(rows)
    for name, sign in (("dear", 1.0), ("cheap", -1.0)):
        data = features.to_ranking(rows.assign(label=4.0 + sign * rows["price"]))
        Reranker(features, LinearRanker("ridge").fit(data), None).save(home / name)
    (home / "curve.json").write_text(json.dumps({"ranks": [1, 2, 3], "values": [1.0, 0.5, 0.25]}))
    (home / "list.json").write_text("[1.0, 0.5, 0.25]")
    return home


def test_a_better_candidate_passes_with_0_and_support_comes_first(home: Path) -> None:
    done = ask("--model", home / "dear", "--log", home / "rows.parquet", "--propensity", home / "curve.json")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("90 searches of 90 people or sessions")
    assert lines[1].startswith("Effective sample size: 30 of 30 clicks")
    assert lines[-1].startswith("Shown non-inferior: clicks@10 would have been 0.6667 where 0.3333 was seen")
    assert "probability to pass, by true difference" in done.stdout


def test_a_worse_candidate_ends_with_3_and_a_sentence(home: Path) -> None:
    words = ("--model", home / "cheap", "--log", home / "rows.parquet", "--propensity", home / "list.json")
    done = ask(*words)
    assert done.exit_code == 3
    # b goes from 2 to 3: 30 clicks · 0.25/0.5 in 90 lists
    assert done.stdout.splitlines()[-1].startswith(
        "Shown worse: clicks@10 would have been 0.1667 where 0.3333"
    )
    told = ask(*words, "--json")
    assert told.exit_code == 3
    facts = json.loads(told.stdout)
    assert facts["passed"] is False
    assert facts["overall"]["candidate"] == pytest.approx(30 * 0.5 / 90)
    assert facts["sentence"] in told.stderr


def test_a_margin_a_metric_and_kinds_are_taken(home: Path) -> None:
    words = ("--model", home / "cheap", "--log", home / "rows.parquet", "--propensity", home / "curve.json")
    assert ask(*words, "--margin", 0.3).exit_code == 0
    facts = json.loads(ask(*words, "--metric", "dcg@10", "--by", "platform", "--json").stdout)
    assert facts["metric"] == "dcg@10"
    assert [each["kind"] for each in facts["kinds"]] == ["app", "web"]
    assert json.loads(ask(*words, "--by", "none", "--json").stdout)["kinds"] == []


def test_the_power_curve_is_drawn(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    words = ("--model", home / "dear", "--log", home / "rows.parquet", "--propensity", home / "curve.json")
    for name in ("power.png", "power.svg"):
        assert ask(*words, "--plot", tmp_path / name).exit_code == 0
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(BadInput, match="--plot must end in .png or .svg"):
        ask(*words, "--plot", tmp_path / "power.txt")


def test_bad_usage_is_2_and_what_cannot_be_judged_is_told(home: Path, tmp_path: Path) -> None:
    assert ask("--model", home / "dear").exit_code == 2
    assert ask("--model", home / "dear", "--log", home / "rows.parquet", "--margin", "x").exit_code == 2
    assert ask("--model", home / "dear", "--log", home / "rows.parquet", "--margin", -1).exit_code == 2
    words = ("--model", home / "dear", "--log", home / "rows.parquet")
    with pytest.raises(BadInput, match="this log shows one order"):
        ask(*words)
    with pytest.raises(UnknownName, match="estimator"):
        ask(*words, "--estimator", "magic", "--propensity", home / "curve.json")
    (tmp_path / "curve.json").write_text("{")
    with pytest.raises(BadFile, match="is not JSON"):
        ask(*words, "--propensity", tmp_path / "curve.json")
    with pytest.raises(BadFile, match="no such file"):
        ask("--model", home / "dear", "--log", tmp_path / "nothing.parquet")
