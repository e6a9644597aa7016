"""`placings places study` at the terminal: on a rows file, and on a log that it simulates itself."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from placings.cli import places_study
from placings.core.errors import BadFile, BadInput
from placings.studies import places_models as places_settings
from placings.studies.places_models import StudySettings

pd = pytest.importorskip("pandas")
for library in ("lightgbm", "xgboost", "catboost", "torch", "rapidfuzz", "matplotlib", "jinja2"):
    pytest.importorskip(library)

TINY = StudySettings(
    tree_hashed=16, hashed=64, rounds=3, slow_rounds=2, trials=1, steps=2, group_steps=2, neural_steps=5,
    variants=("relu",), counted_rounds=2, counted=200, bootstrap=20, least=5, depths=(3,),
    list_size=5,
)  # fmt: skip


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setattr(places_settings, "choose_settings", lambda searches, **given: TINY)
    app = typer.Typer()
    app.command()(places_study.run_places_study)
    return app


def write_places(path: Path) -> None:
    rng = np.random.default_rng(0)
    stems, ends = ("Markt", "Haupt", "Rhein", "Wald", "Schul"), ("platz", "straße", "weg", "bahnhof")
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for number in range(200):
            name = f"{stems[number % 5]}{ends[number // 5 % 4]} {number // 20 + 1}"
            place = {"id": f"p{number}", "name": name, "locality": "Karlsruhe",
                     "type": ("stop", "poi")[number % 2], "lat": 49.0 + rng.random() / 10,
                     "lon": 8.4 + rng.random() / 10,
                     "weight": float(rng.lognormal(3)), "source": "made"}  # fmt: skip
            file.write(json.dumps(place) + "\n")


@pytest.mark.slow
def test_a_simulated_log_goes_through_the_whole_study_and_is_read_again(
    command: typer.Typer, tmp_path: Path
) -> None:
    write_places(tmp_path / "places.jsonl.gz")
    out = tmp_path / "out"
    made = str(tmp_path / "places.jsonl.gz")
    asked = ["--places", made, "--out", str(out), "--searches", "700", "--k", "20"]
    first = CliRunner().invoke(command, asked)
    assert first.exit_code == 0, first.output
    assert "SIMULATED · Models" in first.output
    for name in ("study.json", "study.md", "places.html", "reranker"):
        assert (out / name).exists(), name
    assert "SIMULATED" in (out / "places.html").read_text()
    again = CliRunner().invoke(command, [*asked, "--json"])
    stored: dict[str, Any] = json.loads((out / "study.json").read_text())
    assert json.loads(again.stdout)["models"] == stored["models"]
    frame = pd.read_parquet(next(out.glob("rows-*.parquet")))
    assert frame["search_id"].nunique() >= 600
    assert not frame.groupby("search_id")["label"].max().all()  # unclicked ones are there too


def test_a_table_without_searches_is_refused(command: typer.Typer, tmp_path: Path) -> None:
    pd.DataFrame({"x": [1]}).to_parquet(tmp_path / "rows.parquet")
    result = CliRunner().invoke(command, [str(tmp_path / "rows.parquet"), "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, BadFile)
    assert "lacks search_id" in str(result.exception)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["rows.parquet", "--searches", "500"], "about a log to simulate"),
        (["rows.parquet", "--zone", "Europe/Berlin"], "about a log to simulate"),
        (["--zone", "Europe/Berlin"], "Add --places"),
        (["--places", "places.jsonl.gz", "--zone", "Europe/Karlsruhe"], "--zone must be a time zone's name"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    command: typer.Typer, tmp_path: Path, asked: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"x": [1]}).to_parquet("rows.parquet")
    write_places(tmp_path / "places.jsonl.gz")
    result = CliRunner().invoke(command, asked)
    assert isinstance(result.exception, BadInput)
    assert said in str(result.exception)


def test_places_get_the_time_zone_that_was_asked_for(tmp_path: Path) -> None:
    write_places(tmp_path / "places.jsonl.gz")
    made = [
        places_study._simulate(
            tmp_path / "places.jsonl.gz",
            zone,
            tmp_path / "out",
            300,
            places_study.StudyClicks.position,
            20,
            0,
            False,
        )
        for zone in ("", "Asia/Tokyo")
    ]
    assert [log.rows["zone"].dropna().unique().tolist() for log in made] == [[], ["Asia/Tokyo"]]
