"""The log explorer and the places page in a real browser: they stand alone, fit the screen, draw all."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placings.report.places_page import PANELS, write_places_page

pytestmark = pytest.mark.slow
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
UNIT = Path(__file__).parents[1] / "unit" / "report"


def borrow(name: str) -> Any:
    """A unit test's module, for the data it makes."""
    spec = importlib.util.spec_from_file_location(name, UNIT / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if not CHROMIUM.exists():
        pytest.skip("needs Chromium (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield started
        started.close()


def look(browser: Any, path: Path) -> Any:
    """The page, having asked for nothing but itself and complained of nothing."""
    page = browser.new_page()
    asked: list[str] = []
    troubles: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: troubles.append(message.text))
    page.goto(path.as_uri())
    assert asked == [path.as_uri()]
    assert troubles == []
    return page


def check_fit(page: Any, width: int) -> None:
    """On a screen of this width nothing hangs out to the side, and every figure can be seen."""
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    boxes = page.evaluate(
        "[...document.querySelectorAll('figure > svg')].map(one => [one.parentElement, one].map("
        "each => [each.getBoundingClientRect().width, each.getBoundingClientRect().height]))"
    )
    for (outer, _), (inner, height) in boxes:
        assert outer <= width
        assert inner > 250
        assert height > 60


def test_the_log_explorer_stands_alone_on_a_screen_and_on_a_phone(browser: Any, tmp_path: Path) -> None:
    borrow("test_log_page").make_rows().assign(is_target=0.0).to_parquet(tmp_path / "rows.parquet")
    script = "import typer; from placings.cli.log_explorer import explore_log; typer.run(explore_log)"
    command = [sys.executable, "-c", script, "rows.parquet", "--out", "page.html", "--zone", "Europe/Berlin"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "open page.html\n", "")
    page = look(browser, tmp_path / "page.html")
    assert page.locator("section").count() == 10
    assert page.locator("figure > svg").count() == 10  # all but failed searches, of which there are none
    for heading in page.locator("h2").all_inner_texts():
        assert "SIMULATED" in heading
    check_fit(page, 1200)
    check_fit(page, 420)
    page.locator("nav a", has_text="How far people click").click()
    assert page.evaluate("document.querySelector('#distances').getBoundingClientRect().top") < 20
    assert "exponential" in page.locator("#distances figure").nth(1).inner_text()
    page.close()


def test_the_places_page_shows_its_verdict_without_scrolling(browser: Any, tmp_path: Path) -> None:
    result = borrow("test_places_page").make_result()
    path = write_places_page(tmp_path / "page.html", result)
    page = look(browser, path)
    assert page.locator("section").count() == len(PANELS) + 1
    assert page.locator("#verdict p").first.inner_text().startswith("The default re-ranker orders better")
    for heading in page.locator("h2").all_inner_texts():
        assert "SIMULATED" in heading
    for width in (1200, 420):
        check_fit(page, width)
        box = page.locator("#verdict").bounding_box()
        assert box["y"] + box["height"] < 900
    page.close()
