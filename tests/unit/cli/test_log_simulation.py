"""`placings log simulate-places` and `simulate-shop`: what they write and say."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from placings.cli.log_simulation import simulate_places, simulate_shop
from placings.places.engines.sqlite import build_index
from placings.places.place import Place

app = typer.Typer()
app.command("places")(simulate_places)
app.command("shop")(simulate_shop)

NAMES = ("Marktplatz", "Hauptbahnhof", "Rathaus", "Tannenweg", "Schloßplatz", "Lindenstraße", "Gartenweg")


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An index of two towns' stops, and the file it was made of."""
    folder = tmp_path_factory.mktemp("places")
    towns = {"Altstadt": (49.0, 8.4), "Neudorf": (49.1, 8.5)}
    made = [
        Place(f"{town}{number}", name, lat + 0.003 * number, lon, "stop", town, weight=float(number))
        for town, (lat, lon) in towns.items()
        for number, name in enumerate(NAMES)
    ]
    build_index(made, folder / "towns.db")
    fields = ("id", "name", "lat", "lon", "type", "locality", "weight")
    lines = [json.dumps({field: getattr(place, field) for field in fields}) for place in made]
    (folder / "towns.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "towns.db", folder / "towns.jsonl"


def test_places_are_simulated_into_three_files(places: tuple[Path, Path], tmp_path: Path) -> None:
    index, source = places
    said = run("places", index, tmp_path / "log", "--searches", 40, "--places", source, "--k", 5)
    assert said.startswith("SIMULATED: ")
    assert str(tmp_path / "log" / "truth.parquet") in said
    searches = pq.read_table(tmp_path / "log" / "searches.parquet")
    assert 40 <= searches.num_rows < 120
    assert max(len(each) for each in searches["results"].to_pylist()) <= 5
    again = run("places", index, tmp_path / "again", "--searches", 40, "--places", source, "--k", 5)
    assert again.splitlines()[0] == said.splitlines()[0]
    assert pq.read_table(tmp_path / "again" / "searches.parquet").equals(searches)


def test_clicked_searches_are_counted_on_request(places: tuple[Path, Path], tmp_path: Path) -> None:
    index, source = places
    run("places", index, tmp_path, "--searches", 20, "--clicked", "--places", source, "--form", "jsonl",
        "--clicks", "cascade", "--seed", 3)  # fmt: skip
    assert len((tmp_path / "actions.jsonl").read_text().splitlines()) >= 20


def test_a_shop_is_simulated_and_its_broken_actions_are_told(tmp_path: Path) -> None:
    said = run("shop", tmp_path, "--days", 4, "--searches", 60, "--broken", 0.05, "--form", "jsonl.gz")
    assert said.startswith("SIMULATED: ")
    assert "made wrong: " in said
    assert {path.name for path in tmp_path.iterdir()} == {"searches.jsonl.gz", "actions.jsonl.gz"}
    assert "made wrong" not in run("shop", tmp_path, "--days", 4, "--searches", 60)
