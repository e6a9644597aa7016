"""The demo on three made-up towns: all its parts, the same again, and a page that stands alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("pandas")
pytest.importorskip("lightgbm")
pytest.importorskip("torch")
pytest.importorskip("jinja2")

from placings.studies.places_lines import TRANSFORMS

TOWNS = {"Altstadt": (49.0, 8.4, 300_000), "Neudorf": (49.1, 8.5, 20_000), "Karlsbach": (48.9, 8.2, 2_000)}
STOPS = (
    "Marktplatz",
    "Hauptbahnhof",
    "Rathaus",
    "Tannenweg",
    "Zoo",
    "Schloßplatz",
    "Karlstor",
    "Hafen",
    "Haltestelle",
)


def write_places(path: Path) -> Path:
    """Stops of like names in each town, as the shared files have them."""
    lines = []
    for number, (town, (lat, lon, weight)) in enumerate(TOWNS.items()):
        lines.append(
            {
                "id": f"t{number}",
                "name": town,
                "locality": town,
                "type": "locality",
                "lat": lat,
                "lon": lon,
                "weight": weight,
                "parent": None,
            }
        )
        for place in range(20):
            name = f"{STOPS[place % len(STOPS)]}{'' if place < len(STOPS) else f' {place}'}, {town}"
            at = {"lat": lat + 0.004 * place, "lon": lon - 0.003 * place}
            line = {"id": f"s{number}.{place}", "name": name, "locality": town, "type": "stop", **at}
            lines.append({**line, "weight": 1.0 + place, "parent": None})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def run_demo(places: Path, out: Path) -> str:
    from placings.cli.main import app

    result = CliRunner().invoke(
        app, ["demo", "--places", str(places), "--searches", "400", "--seed", "3", "--out", str(out)]
    )
    assert result.exit_code == 0, result.output
    return result.stdout


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Few rounds and steps: how well the rankers learn is for make test-slow."""
    from placings.rerank import reranker
    from placings.studies import places_demo

    members = reranker.list_members
    few = {"rounds": 5, "slow_rounds": 3, "trials": 1, "steps": 3, "neural_steps": 6, "bootstrap": 50}
    patch.setattr(places_demo, "SETTINGS", replace(places_demo.SETTINGS, **few))
    patch.setattr(
        reranker,
        "list_members",
        lambda random_state=0, **options: members(random_state, **{**options, "rounds": 5, "steps": 6}),
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, Path]:
    folder = tmp_path_factory.mktemp("demo")
    places = write_places(folder / "places.jsonl")
    out = folder / "out"
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        return out, run_demo(places, out), places


def test_the_demo_goes_from_places_to_a_model_and_what_to_run_next(done: tuple[Path, str, Path]) -> None:
    out, said, _ = done
    steps = ("The engine: 63 places", "The log", "Searches and clicks joined", "Who ranks better?",
             "A number goes dark.", "In short", "What to look at")  # fmt: skip
    for number, title in enumerate(steps, 1):
        assert f"{number}. {title}" in said
    for name in ("engine", "linear", "LightGBM", "neural", "default re-ranker"):
        assert f"\n{name} " in said
    told = json.loads((out / "demo.json").read_text())["linear"]
    assert told.removeprefix("ridge over ") in TRANSFORMS
    assert f"linear: a {told}, of 6 transforms the best" in said
    assert "SIMULATED" in said
    ending = said.partition("6. In short")[2]
    for told in ("the engine: MRR", "Who wins most:", "Who loses:", "Cost:", "open "):
        assert told in ending
    assert "Training is shortened: 2 networks" in said
    assert max(map(len, said.replace(str(out), "out").splitlines())) <= 130
    assert f"open {out / 'index.html'}" in said


def test_the_darkened_platform_has_no_coverage_in_the_last_days(done: tuple[Path, str, Path]) -> None:
    found: dict[str, Any] = json.loads((done[0] / "demo.json").read_text())["coverage"]
    days = sorted({row["window"] for row in found["daily"]})
    for row in found["daily"]:
        dark = row["platform"] == "android" and row["window"] in days[-7:]
        if row["events"]:  # on some days nobody searches on a platform
            assert row["coverage"] == (0.0 if dark else 1.0), row
    assert [row["drop"] for row in found["cost"]] == [0.25, 0.5, 1.0]


def test_the_number_whose_loss_costs_most_on_validation_searches_is_taken(
    done: tuple[Path, str, Path],
) -> None:
    import pandas as pd

    found: dict[str, Any] = json.loads((done[0] / "demo.json").read_text())["coverage"]
    lost = [row["lost"] for row in found["tried"]]
    assert lost == sorted(lost, reverse=True)
    assert found["feature"] == found["tried"][0]["source"]
    assert {row["source"] for row in found["tried"]} == {"past_clicks", "score", "weight", "coordinates"}
    events = pd.read_parquet(done[0] / "events.parquet")
    column = {"coordinates": "lat"}.get(found["feature"], found["feature"])
    dark = events[events[column].isna()]
    assert set(dark["platform"]) == {"android"}
    assert dark["time"].min() >= events["time"].max().normalize() - pd.Timedelta(days=6)


def test_the_saved_re_ranker_answers_from_the_terminal(done: tuple[Path, str, Path]) -> None:
    from placings.cli.main import app

    out = done[0]
    given = ["places", "search", str(out / "places.db"), "ha", "--near", "49.0,8.4", "-k", "40", "--json"]
    plain = CliRunner().invoke(app, given)
    ranked = CliRunner().invoke(app, [*given, "--model", str(out / "reranker")])
    assert plain.exit_code == ranked.exit_code == 0, ranked.output
    listed = [[hit["place"]["id"] for hit in json.loads(each.stdout)] for each in (plain, ranked)]
    assert sorted(listed[0]) == sorted(listed[1])
    assert len(listed[0]) > 3


@pytest.mark.slow
def test_the_same_seed_says_the_same(done: tuple[Path, str, Path], tmp_path: Path) -> None:
    def strip(text: str, folder: Path) -> list[str]:
        lines = text.replace(str(folder), "").splitlines()
        models = ("linear ", "LightGBM ", "neural ", "default re-ranker ")
        return [
            line.rsplit(" ", 1)[0].rstrip() if line.startswith(models) else line.split(" s)")[0]
            for line in lines
            if "places.db (" not in line
        ]

    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        again = run_demo(done[2], tmp_path / "again")
    assert strip(again, tmp_path / "again") == strip(done[1], done[0])


def test_the_pages_load_nothing_from_elsewhere(done: tuple[Path, str, Path]) -> None:
    for name in ("index.html", "log.html"):
        page = (done[0] / name).read_text()
        assert "SIMULATED" in page
        assert "<script" not in page
        assert "src=" not in page
        assert "<link" not in page
