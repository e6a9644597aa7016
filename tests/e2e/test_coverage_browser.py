"""The coverage commands as processes, day after day, and their page in a real browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from terminal import call_placings

from placings.simulate.shop_log import Outage, make_shop_log, write_shop_log

pytestmark = pytest.mark.slow
PLACINGS = Path(sys.executable).parent / "placings"
COUNTED = (
    "--event",
    "search_id",
    "--within",
    "rows",
    "--by",
    "region",
    "--time",
    "time",
    "--ignore",
    "position",
)


def run(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return call_placings("coverage", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shop's log of 28 days in files; ratings go dark in the north on the last three."""
    folder = tmp_path_factory.mktemp("shop")
    outage = Outage("north", ("rating", "review_count"), day=25, share=0.7)
    write_shop_log(make_shop_log(28, searches=300, outage=outage, random_state=5), folder / "logs")
    return folder


def test_a_month_of_files_limits_and_a_gate_each_morning(shop: Path) -> None:
    made = run("init", "logs/*.parquet", *COUNTED, "--until", "2024-01-22", "-o", "limits.yaml", cwd=shop)
    assert made.returncode == 0, made.stderr
    codes = []
    for day in ("2024-01-25", "2024-01-26", "2024-01-27"):
        result = run("check", f"logs/{day}.parquet", "--limits", "limits.yaml", cwd=shop)
        codes.append(result.returncode)
    assert codes == [0, 3, 3]  # day 25 is 26 January
    assert result.stdout.startswith("failed: rating, review_count (")
    assert result.stderr == ""


def test_errors_are_one_line_and_code_1_and_usage_is_2(shop: Path) -> None:
    wrong = run("check", "logs/2024-01-25.parquet", "--limits", "limit.yaml", cwd=shop)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr == (
        "error: limit.yaml: there is no such file of limits. Make one with `placings coverage init`.\n"
    )
    assert run("check", cwd=shop).returncode == 2
    assert run("show", "logs/2024-01-25.parquet", "--by", "regoin", cwd=shop).returncode == 1


def test_the_page_stands_alone_in_a_real_browser(shop: Path) -> None:
    chromium = Path("/usr/bin/chromium")
    if not chromium.exists():
        pytest.skip("needs Chromium (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    parts = ("--first-seen", "first_seen", "--launch-of", "region", "--html", "page.html")
    shown = run("show", "logs/*.parquet", *COUNTED, *parts, cwd=shop)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.endswith("open page.html\n")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium), args=flags)
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        asked, troubles = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: troubles.append(message.text))
        page.goto((shop / "page.html").as_uri())
        assert page.locator("#coverage tbody tr").count() == 16
        assert page.locator("#heat tbody tr").count() == 16
        assert "rating" in page.locator("ol.incidents li").first.inner_text()
        assert "region=north" in page.locator("ol.incidents li").first.inner_text()
        figures = page.locator("figure > svg")
        assert figures.count() == 4  # trends, old and new items, days since launch of items and of regions
        for place in range(4):
            box = figures.nth(place).bounding_box()
            assert box is not None
            assert 300 < box["width"] <= 1200
        wide = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert wide  # nothing hangs out to the side
        browser.close()
    assert all(url.startswith("file:") for url in asked)
    assert troubles == []
