"""The terminal as a user meets it: real processes, exit codes, stdout and stderr apart."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import call_placings
from typer.testing import CliRunner

from placings.cli.main import app

PLACINGS = Path(sys.executable).parent / "placings"
ROWS = "2 qid:7 1:0.5 2:300000\n0 qid:7 1:1 2:4\n1 qid:9 1:0.25 2:1\n"


def run(*arguments: object, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PLACINGS), *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        check=False,
    )


def test_help_lists_the_commands_and_each_has_an_example() -> None:
    result = run("--help")
    assert result.returncode == 0
    for command in (
        "inspect",
        "fit",
        "predict",
        "evaluate",
        "compare",
        "tune",
        "import-model",
        "cache",
        "coverage",
        "export",
        "reproduce",
        "log",
        "places",
        "demo",
    ):
        assert command in result.stdout
        told = CliRunner().invoke(app, [command, "--help"], prog_name="placings").stdout
        group = "COMMAND [ARGS]" in told  # whose own commands have the examples
        assert group or f"placings {command} " in re.sub(r"(?m)^ *Usage: .*$", "", told), command
    assert call_placings("--version").stdout.startswith("placings 0.")


def test_inspect_prints_results_on_stdout_and_nothing_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text(ROWS)
    result = run("inspect", tmp_path / "rows.txt")
    assert result.returncode == 0
    assert result.stderr == ""
    assert "f2" in result.stdout
    facts = json.loads(call_placings("inspect", tmp_path / "rows.txt", "--json").stdout)
    assert (facts["rows"], facts["queries"]) == (3, 2)
    assert facts["features"][1]["maximum"] == 300000


def test_bad_input_is_one_line_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "rows.txt").write_text("1 qid:1 7:NULL\n")
    result = run("inspect", tmp_path / "rows.txt")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr == (
        f"error: {tmp_path}/rows.txt:1: feature 7 is 'NULL'. Pass --missing NULL to read it as missing.\n"
    )
    assert call_placings("inspect", tmp_path / "rows.txt", "--missing", "NULL").returncode == 0


def test_bad_usage_is_exit_code_2() -> None:
    assert run("inspekt").returncode == 2
    assert call_placings("inspect").returncode == 2
    assert call_placings("demo", "--searches", "x").returncode == 2


def test_a_guess_is_said_on_stderr(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("query_id,rel,bm25\n1,0,2.5\n1,1,3.5\n")
    result = call_placings("inspect", tmp_path / "rows.csv", "--json")
    assert result.stderr.startswith("note: ")
    assert "query_id" in result.stderr
    assert json.loads(result.stdout)["rows"] == 2


def test_the_cache_is_listed_bounded_and_cleared(tmp_path: Path) -> None:
    import placings as pg

    file = tmp_path / "rows.txt"
    pg.write(pg.make_ranking(20, random_state=0).data, file)
    assert file.stat().st_size > 2 << 20
    home = {"PLACINGS_CACHE": str(tmp_path / "cache")}
    assert call_placings("inspect", file, "--no-cache", **home).returncode == 0
    assert json.loads(call_placings("cache", "list", "--json", **home).stdout)["entries"] == []
    first = call_placings("inspect", file, **home)
    listed = json.loads(call_placings("cache", "list", "--json", **home).stdout)
    assert [entry["source"] for entry in listed["entries"]] == [str(file)]
    assert call_placings("inspect", file, **home).stdout == first.stdout
    assert "of at most" in call_placings("cache", **home).stdout
    assert call_placings("cache", "path", **home).stdout.strip() == home["PLACINGS_CACHE"]
    assert call_placings("cache", "clear", "--to", "1T", **home).stdout.startswith("deleted 0 entries")
    assert call_placings("cache", "clear", **home).stdout.startswith("deleted 1 entry")
    assert call_placings("cache", "clear", "--to", "much", **home).returncode == 1


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    names = ("Hafen", "Halle", "Hauptstraße", "Karlstor", "Zoo")
    lines = [
        {
            "id": f"{town}{place}", "name": f"{names[place % 5]} {place}", "locality": town, "type": "stop",
            "lat": lat + 0.004 * place, "lon": 8.4, "weight": place, "parent": None,
        }
        for town, lat in (("Altstadt", 49.0), ("Neudorf", 49.1))
        for place in range(20)
    ]  # fmt: skip
    places = folder / "places.jsonl"
    places.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    result = run("demo", "--places", places, "--searches", 300, "--seed", 3, "--out", folder / "out")
    assert result.returncode == 0, result.stderr
    return folder / "out", result.stdout


@pytest.mark.slow  # make test runs it in tests/unit/studies/test_places_demo.py
def test_the_demo_ends_with_pages_and_what_to_run_next(demo: tuple[Path, str]) -> None:
    folder, output = demo
    assert "6. In short (SIMULATED" in output
    assert f"open {folder / 'index.html'}" in output
    assert output.rstrip().endswith("placings log join --help   your own logs")


@pytest.mark.slow
def test_the_demo_page_stands_alone_in_a_real_browser(demo: tuple[Path, str]) -> None:
    chromium = Path("/usr/bin/chromium")
    if not chromium.exists():
        pytest.skip("needs Chromium (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium), args=flags)
        page = browser.new_page()
        asked, troubles = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: troubles.append(message.text))
        page.goto((demo[0] / "index.html").as_uri())
        assert page.locator("#models table").count() >= 1
        assert page.locator("#coverage table").count() == 2
        assert page.locator("svg").first.is_visible()
        browser.close()
    assert all(url.startswith("file:") for url in asked)
    assert troubles == []
