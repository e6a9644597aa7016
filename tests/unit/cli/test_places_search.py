"""`placings places index` and `search` at the terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from placings.cli.places import index_places, search_places
from placings.core.errors import BadFile

app = typer.Typer()
app.command("index")(index_places)
app.command("search")(search_places)
runner = CliRunner()

ROWS = [
    {"id": "ka", "name": "Karlsruhe", "type": "locality", "lat": 49.01, "lon": 8.4, "weight": 300000},
    {"id": "s", "name": "Markt, Karlsruhe", "locality": "Karlsruhe", "type": "stop", "lat": 49.0, "lon": 8.4},
]


@pytest.fixture
def index(tmp_path: Path) -> Path:
    source = tmp_path / "places.jsonl"
    source.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    result = runner.invoke(app, ["index", str(source), str(tmp_path / "places.db")], catch_exceptions=False)
    assert result.exit_code == 0
    assert "2 places in" in result.stdout
    return tmp_path / "places.db"


def test_hits_are_printed_best_first_with_distances(index: Path) -> None:
    result = runner.invoke(app, ["search", str(index), "karls", "--near", "49.01,8.40"])
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["place", "type", "score", "km"]
    assert lines[1][:3] == ["1", "Karlsruhe", "locality"]
    assert lines[1][-1] == "0.0"
    assert lines[2][:4] == ["2", "Markt,", "Karlsruhe", "stop"]


def test_json_gives_all_fields(index: Path) -> None:
    result = runner.invoke(app, ["search", str(index), "markt", "--layers", "stop", "-k", "1", "--json"])
    (hit,) = json.loads(result.stdout)
    assert (hit["rank"], hit["place"]["id"], hit["place"]["locality"]) == (1, "s", "Karlsruhe")


def test_nothing_found_and_bad_positions_are_said(index: Path) -> None:
    assert runner.invoke(app, ["search", str(index), "qqq"]).stdout.strip() == "nothing found"
    bad = runner.invoke(app, ["search", str(index), "markt", "--near", "here"])
    assert bad.exit_code == 2
    with pytest.raises(BadFile, match="no such file"):
        runner.invoke(app, ["search", "missing.db", "markt"], catch_exceptions=False)


def test_the_re_ranker_is_told_target_platform_and_time(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datetime import UTC, datetime, timedelta, timezone

    from placings.rerank.reranker import RerankedEngine

    asked: dict[str, object] = {}
    search = RerankedEngine.search

    def listen(self: RerankedEngine, *given: object, **known: object) -> object:
        asked.update(known)
        return search(self, *given, **known)  # type: ignore[arg-type]

    monkeypatch.setattr(RerankedEngine, "search", listen)
    model = str(Path(__file__).parents[2] / "fixtures" / "v1" / "reranker")
    told = ["--target", "origin", "--platform", "ios", "--time", "2026-03-01T08:30+01:00"]
    result = runner.invoke(
        app, ["search", str(index), "karls", "--model", model, *told], catch_exceptions=False
    )
    assert result.exit_code == 0
    moment = datetime(2026, 3, 1, 8, 30, tzinfo=timezone(timedelta(hours=1)))
    assert asked == {"target": "origin", "platform": "ios", "time": moment}
    assert moment.astimezone(UTC).hour == 7
    idle = runner.invoke(app, ["search", str(index), "karls", *told])
    assert idle.exit_code == 2
    assert "Add --model" in idle.output
    bad = runner.invoke(app, ["search", str(index), "karls", "--model", model, "--time", "noon"])
    assert bad.exit_code == 2
