"""The log explorer: each panel is there if its columns are, says what it lacks, and invents nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadInput
from placings.logs.facts import count_click_ranks, gather_searches
from placings.report.log_figures import draw_click_ranks, draw_histograms, draw_intervals
from placings.report.log_page import write_log_page

PANELS = [
    "ranks", "lengths", "outcomes", "location", "distances", "sections", "weeks", "hours", "segments", "how",
]  # fmt: skip
ODD = "<b>$x$</b>"


def make_rows(searches: int = 240, *, seed: int = 0) -> pd.DataFrame:
    """Lists of six grouped by type, stops first; those who share their location click higher up."""
    rng = np.random.default_rng(seed)
    types = np.array(["stop", "stop", "poi", "poi", "address", "address"])
    frames = []
    for number in range(searches):
        located = number % 4 > 0
        clicked = 1 + int(rng.random() < 0.1) if located else int(rng.integers(1, 7))
        items = [int(kind * 5 + rng.integers(0, 5)) for kind in range(6)]
        frames.append(
            pd.DataFrame(
                {
                    "search_id": f"s{number}", "session_id": f"u{number // 2}",
                    "time": pd.Timestamp("2024-03-04") + pd.Timedelta(hours=2 * number),
                    "query": "q" * int(rng.integers(3, 12)),
                    "focus_lat": 49.0 if located else np.nan, "focus_lon": 8.4 if located else np.nan,
                    "platform": ["ios", ODD][number % 2], "item_id": [f"i{item}" for item in items],
                    "name": [f"{ODD} {item}" for item in items], "type": types,
                    "lat": 49.0 + rng.exponential(0.05, 6), "lon": 8.4, "position": np.arange(1, 7),
                    "label": (np.arange(1, 7) == clicked).astype(float),
                }
            )
        )  # fmt: skip
    return pd.concat(frames, ignore_index=True)


ROWS = make_rows()
FAILED = pd.DataFrame({"search_id": [f"f{n}" for n in range(40)], "query": ["a long query that fails"] * 40})


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("log") / "log.html"
    rows = ROWS.assign(is_target=0.0)
    return write_log_page(
        path, rows, unsuccessful=FAILED, title=f"Log {ODD}", zone="Europe/Berlin"
    ).read_text()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A shop's log: no places, no times, nothing but what is needed and a query."""
    path = tmp_path_factory.mktemp("shop") / "log.html"
    kept = ROWS[["search_id", "item_id", "position", "label", "query"]]
    return write_log_page(path, kept).read_text()


def find_section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">.*?</section>', page, re.S)
    assert found is not None
    return found[0]


def test_every_panel_is_there_and_in_the_contents(page: str) -> None:
    assert re.findall(r'<section id="([a-z-]+)">', page) == PANELS
    assert re.findall(r'<a href="#([a-z-]+)"', page) == PANELS
    assert 'class="lack"' not in page
    for name in PANELS[:-2]:
        assert "<svg" in find_section(page, name), name


def test_every_heading_and_table_over_simulated_data_says_so(page: str, shop: str) -> None:
    for heading in re.findall(r"<h[12]>.*?</h[12]>", page, re.S):
        assert "SIMULATED" in heading
    assert page.count("<p>SIMULATED data.</p>") == page.count("<table>")
    assert "SIMULATED" not in shop


def test_a_shop_log_says_what_each_panel_lacks(shop: str) -> None:
    lacks = {
        "outcomes": "The log holds no search without a click",
        "location": "The log has no columns focus_lat and focus_lon.",
        "distances": "No clicked item has a position (lat, lon)",
        "sections": "The items of this log have no type.",
        "weeks": "No click has a time.",
        "hours": "No search has a time.",
        "segments": "The log has no column platform, target, surface or kind.",
    }
    for name, words in lacks.items():
        assert words in find_section(shop, name)
        assert "<svg" not in find_section(shop, name)
    for name in ("ranks", "lengths"):
        assert "<svg" in find_section(shop, name)
    assert "not told apart by type" in find_section(shop, "ranks")


def test_what_stands_out_comes_first(page: str) -> None:
    told = re.findall(r"<p>(.*?)</p>", page[page.index('class="verdict"') : page.index('class="tiles"')])
    assert told[0].startswith("Failed searches have longer queries: 23.0 characters on average against ")
    assert told[1].startswith("MRR with a location is 0.9")
    assert told[2].startswith("stop makes 33% of what is shown and ")


def test_the_decays_are_written_out_with_how_far_they_stay_off(page: str) -> None:
    part = find_section(page, "distances")
    for word in ("linear", "exponential", "Gaussian", "clicked places", "origin the user", "decay 0.5"):
        assert f">{word}</text>" in part, word
    assert len(re.findall(r">scale [\d.]+ km</text>", part)) == 3
    assert len(re.findall(r">off by 0\.\d{3}</text>", part)) == 3


def test_failed_searches_are_counted_from_the_table_apart(page: str) -> None:
    part = find_section(page, "outcomes")
    assert "<th scope='row'>failed</th><td>40</td><td>23.00</td>" in part


def test_rows_without_an_outcome_have_searches_without_a_click_not_failed_ones(tmp_path: Path) -> None:
    last = ROWS["search_id"].isin(["s1", "s2", "s3"])
    rows = ROWS.assign(label=ROWS["label"].where(~last, 0.0))
    page = write_log_page(tmp_path / "log.html", rows).read_text()
    assert "<b>3</b><span>searches without a click</span>" in page
    assert "<th scope='row'>without a click</th><td>3</td>" in find_section(page, "outcomes")
    assert "no column `outcome`" in find_section(page, "outcomes")
    assert ">failed<" not in page
    outcome = np.where(rows["search_id"] == "s1", "failed", np.where(last, "abandoned", "successful"))
    page = write_log_page(tmp_path / "log.html", rows.assign(outcome=outcome)).read_text()
    assert "<b>1</b><span>failed searches</span>" in page
    assert "<b>2</b><span>abandoned prefixes</span>" in page


def test_numbers_on_the_page_are_those_of_the_log(page: str) -> None:
    searches = gather_searches(ROWS)
    mrr = float((1 / searches["rank"]).mean())
    assert f"<b>{mrr:.4f}</b><span>MRR of the clicks</span>" in page
    first = int((ROWS[ROWS["position"] == 1]["label"] > 0).sum())
    assert f"<th scope='row'>1</th><td>240</td><td>{first}</td>" in find_section(page, "ranks")


def test_names_are_text_and_nothing_is_fetched(page: str) -> None:
    assert ODD not in page
    assert "<script" not in page
    assert not re.search(r"""(src|href|url\(|@import)[\s="'(]*(https?:)?//""", page)


def test_a_log_without_rows_or_clicks_is_refused_or_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no row that can be counted"):
        write_log_page(tmp_path / "log.html", ROWS.head(0))
    assert not (tmp_path / "log.html").exists()
    few = ROWS.head(12).assign(label=0.0)
    page = write_log_page(tmp_path / "log.html", few).read_text()
    assert page.count("Nothing was clicked in this log.") == 2
    assert "only one" not in page


def test_one_of_everything_is_drawn_without_a_warning(tmp_path: Path) -> None:
    page = write_log_page(tmp_path / "log.html", ROWS.head(6)).read_text()
    assert "All clicks fall into one week." in page
    assert "All searches are without a location" in page
    assert "<b>1</b><span>searches</span>" in page


def test_the_same_numbers_give_the_same_figure() -> None:
    counts = count_click_ranks(ROWS, "type")
    assert draw_click_ranks(counts) == draw_click_ranks(counts)
    assert "stop: " in draw_click_ranks(counts)


def test_a_long_tail_is_in_the_last_bar_and_the_mean_is_of_all() -> None:
    drawn = draw_histograms({"ranks": np.array([1.0, 2.0, 60.0])}, xlabel="rank", deepest=10)
    assert "ranks: 3, mean 21.0" in drawn
    assert ">11+</text>" in drawn


def test_intervals_that_are_not_known_leave_the_dot() -> None:
    lone = draw_intervals(
        ["a $"], np.array([0.5]), np.array([np.nan]), np.array([np.nan]), xlabel="x", line=0.0
    )
    assert ">a $</text>" in lone


@pytest.mark.slow
def test_far_places_and_few_sessions_have_numbers_that_can_be(tmp_path: Path) -> None:
    """Half of the clicks are 2,250 km away; of two sessions Student's t would reach below nothing."""
    rows = make_rows(80)
    rows["lat"] = 49.0 + np.where(rows["lat"] > 49.03, 20.0, 0.0) + (rows["lat"] - 49.0)
    rows["session_id"] = np.where(rows["search_id"].str[1:].astype(int) < 60, "u1", "u2")
    rows.loc[rows["session_id"] == "u2", "query"] = "a query that is very much longer than those of the other"
    page = write_log_page(tmp_path / "far.html", rows).read_text()
    text = re.sub(r"<[^>]+>", " ", page)
    assert re.search(r"2,2\d\d km", text)
    assert not re.search(r"\de\+\d", text)
    ends = re.findall(r"\[(−?[0-9.]+), ([0-9.]+)\]", text)
    assert ends
    assert not [end for end in ends if end[0].startswith("−")]


def test_far_places_are_told_in_kilometres_not_in_powers_of_ten(tmp_path: Path) -> None:
    far = ROWS.assign(lat=ROWS["lat"] - 20.2)  # 20.2 degrees of latitude are 2,246 km
    part = find_section(write_log_page(tmp_path / "log.html", far).read_text(), "distances")
    assert re.search(r"within 2,2\d\d? km of the user", part)
    assert not re.search(r"\de[+-]?\d+ km", part)


def test_no_interval_of_lengths_goes_below_0(tmp_path: Path) -> None:
    two = ROWS[ROWS["search_id"].isin(["s0", "s4"])].copy()  # of two sessions: t is 12.7
    two["query"] = np.where(two["search_id"] == "s0", "q", "q" * 40)
    two["label"] = (two["position"] == 1).astype(float)
    page = write_log_page(tmp_path / "log.html", two).read_text()
    assert "<td>20.50</td><td>[0.00, 268.27]</td>" in page  # 20.5 + 12.706 · 19.5
    assert "[−" not in page
