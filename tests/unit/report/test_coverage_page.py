"""The coverage page: each part is there if its data are, nothing comes from elsewhere, names are escaped."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import placings as pg
from placings.feco.alerts import find_alerts
from placings.feco.gate import check_coverage
from placings.feco.risk import estimate_risk
from placings.feco.score import Coverage
from placings.feco.segments import compare_ages, trace_launch
from placings.report.coverage_page import draw_path, write_coverage_page

DAYS, EVENTS = 22, 150
ODD = "<b>$rating$</b>"


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Two features and two regions; the odd one goes dark in the north on the last day."""
    rng = np.random.default_rng(1)
    number = np.arange(DAYS * EVENTS)
    time = pd.Timestamp("2024-03-01") + pd.to_timedelta(number * 86_400 // EVENTS, unit="s")
    made = pd.DataFrame(
        {
            "ts": time,
            "region": np.where(number % 2, "north", "south"),
            "first_seen": time.normalize() - pd.to_timedelta(number % 60, unit="D"),
            "clicks": (rng.random(len(number)) < 0.3 + (number % 60) / 100).astype(float),
            ODD: (rng.random(len(number)) < 0.9).astype(float),
        }
    )
    late = (made["ts"] >= "2024-03-22") & (made["region"] == "north")
    made.loc[late, ODD] = 0.0
    return made


@pytest.fixture(scope="module")
def found(log: pd.DataFrame) -> Coverage:
    return pg.coverage(log, ["clicks", ODD], by="region", time="ts")


def headings(page: str) -> list[str]:
    return re.findall(r'<h2 id="([a-z-]+)">', page)


def test_a_plain_count_has_features_and_how_they_were_counted(log: pd.DataFrame, tmp_path: Path) -> None:
    plain = pg.coverage(log, ["clicks", ODD])
    page = write_coverage_page(tmp_path / "page.html", plain).read_text()
    assert headings(page) == ["features", "how"]
    assert "Covered: present and not 0. Unit: row." in page
    assert page.count('class="bar"') == 2


def test_windows_bring_trends_and_movers_segments_a_heat_map(found: Coverage, tmp_path: Path) -> None:
    page = write_coverage_page(tmp_path / "page.html", found).read_text()
    assert headings(page) == ["features", "movers", "trends", "segments", "how"]
    assert "moving average over 7d" in page
    heat = re.search(r'<table id="heat">.*?</table>', page, re.S)
    assert heat is not None
    assert heat[0].count('class="heat"') == 4
    assert re.search(r"−1\d points", heat[0])  # one dark day of seven


def test_every_part_that_is_given_is_drawn(log: pd.DataFrame, found: Coverage, tmp_path: Path) -> None:
    data = pg.make_ranking(40, n_features=2, mean_size=8, random_state=0).data
    data = data.replace(feature_names=["clicks", ODD])
    ranker = pg.LinearRanker("ridge").fit(data)
    today = pd.DataFrame({"feature": ["clicks", ODD], "coverage": [0.2, 1.0], "events": 1000})
    shared = {"time": "ts"}
    page = write_coverage_page(
        tmp_path / "page.html",
        found,
        alerts=find_alerts(found),
        ages=compare_ages(log, ["clicks"], first_seen="first_seen", **shared),
        launches=trace_launch(log, ["clicks"], launched="first_seen", **shared),
        risk=estimate_risk(ranker, data, today, draws=2, bootstrap=50),
        verdict=check_coverage(found, {"features": {"clicks": 0.2}}),
        importances={"clicks": 1.0, ODD: 2.0},
    ).read_text()
    parts = ["gate", "incidents", "features", "movers", "trends", "segments", "cold-start", "risk"]
    parts += ["runbook", "how"]
    assert headings(page) == parts
    links = re.findall(r'<a href="#([a-z-]+)"', page)
    assert links[: len(parts)] == parts
    assert set(links) - set(parts) == {"severe-drop"}
    assert "since 2024-03-22" in page
    assert '<h3 id="severe-drop">A severe drop</h3>' in page  # the page has the text that it links to
    assert "<b>Which features fell together?</b>" in page
    assert "docs/" not in page
    order = re.findall(r'<tr><td class="text">(.*?)</td><td class="text"><span class="bar">', page)
    assert order == ["&lt;b&gt;$rating$&lt;/b&gt;", "clicks"]  # the important one first


def test_names_are_text_and_nothing_is_fetched(found: Coverage, tmp_path: Path) -> None:
    page = write_coverage_page(tmp_path / "page.html", found, title="a <script>", alerts=find_alerts(found))
    text = page.read_text()
    assert "<b>$rating$</b>" not in text
    assert "<script" not in text
    assert not re.search(r"""(src|href|url\(|@import)[\s="'(]*(https?:)?//""", text)


def test_unfinished_windows_are_said_and_in_no_average(found: Coverage, tmp_path: Path) -> None:
    page = write_coverage_page(tmp_path / "page.html", found, watermark="2024-03-22T12:00").read_text()
    assert "not finished by the watermark, so in no average: 2024-03-22" in page
    assert "The windows from 2024-03-15 to 2024-03-21 against the 7 before." in page


def test_an_empty_log_makes_a_page_too(log: pd.DataFrame, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="no event to count"):
        empty = pg.coverage(log.head(0), ["clicks"], time="ts")
    page = write_coverage_page(tmp_path / "page.html", empty).read_text()
    assert "no data" in page


def test_the_same_log_gives_the_same_page(found: Coverage, tmp_path: Path) -> None:
    one, other = (write_coverage_page(tmp_path / name, found).read_text() for name in ("a.html", "b.html"))
    assert one == other


def test_a_line_has_gaps_where_there_were_no_events() -> None:
    assert draw_path(np.array([0.0, 0.5, np.nan, 1.0]), 30, 12).count("M") == 2


# -- seen at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "word"), [(0.2, "PASS"), (0.99, "FAIL")])
def test_a_checked_page_says_pass_or_fail_on_top(
    found: Coverage, tmp_path: Path, limit: float, word: str
) -> None:
    verdict = check_coverage(found, {"features": {"clicks": limit}})
    page = write_coverage_page(tmp_path / "gate.html", found, verdict=verdict).read_text()
    said = re.search(r'<div id="said" class="gate (pass|fail)" role="status"><b>(PASS|FAIL)</b>', page)
    assert said is not None
    assert said[2] == word
    assert said[1] == word.lower()
    assert page.index("<h1>") < said.start() < page.index("<h2")
    assert ("clicks in all on" in page[said.start() : page.index("<h2")]) == (word == "FAIL")
    assert 'id="said"' not in write_coverage_page(tmp_path / "plain.html", found).read_text()


@pytest.fixture(scope="module")
def wide() -> Coverage:
    """40 features in 60 regions; the last but one goes dark in the smallest region, on the last day."""
    features = [f"feature_{number}_with_a_long_name_as_of_a_feature_store" for number in range(40)]
    days = pd.date_range("2024-03-01", periods=2)
    keys = pd.MultiIndex.from_product([features, range(60), days], names=["feature", "region", "window"])
    frame = keys.to_frame(index=False)
    frame["events"] = 5000 - 50 * frame["region"]
    frame["covered"] = np.rint(0.8 * frame["events"])
    dark = (frame["feature"] == features[-2]) & (frame["region"] == 59) & (frame["window"] == days[-1])
    frame.loc[dark, "covered"] = 0
    frame["region"] = "region " + frame["region"].astype(str)
    frame["coverage"] = frame["covered"] / frame["events"]
    frame = frame.assign(low=frame["coverage"], high=frame["coverage"])
    frame = frame[["feature", "region", "window", "coverage", "low", "high", "events", "covered"]]
    rules: dict[str, str | float] = dict.fromkeys(features, "non_zero")
    return Coverage(frame, tuple(features), {}, rules, by=("region",), window="1d")


def test_the_dark_segment_of_many_is_the_first_that_is_seen(wide: Coverage, tmp_path: Path) -> None:
    page = write_coverage_page(tmp_path / "page.html", wide).read_text()
    heat = re.search(r'<div class="scroll"><table id="heat">.*?</table>', page, re.S)  # a box that scrolls
    assert heat is not None
    columns = re.findall(r"<th>(region=.*?)</th>", heat[0])
    assert columns[:2] == ["region=region 59", "region=region 0"]  # the dark one, then by size
    rows = re.findall(r'<th class="text" scope="row">(.*?)</th>', heat[0])
    assert len(rows) == 40
    assert rows[:2] == [wide.features[-2], wide.features[0]]
    assert "36 more segments are not drawn." in page
    first = re.search(r'scope="row">.*?</th><td class="heat".*?>(.*?)<small>(.*?)</small>', heat[0], re.S)
    assert first is not None
    assert (first[1], first[2]) == ("40.0 %", "−80 points")  # of two days one is dark


def test_a_feature_that_is_dark_everywhere_comes_first_in_the_heat_map(tmp_path: Path) -> None:
    log = {"region": ["n", "s"] * 50, "price": [1.0] * 100, "clicks": [0.0] * 100}
    counted = pg.coverage(log, ["price", "clicks"], by="region")
    page = write_coverage_page(tmp_path / "page.html", counted).read_text()
    assert re.findall(r'<th class="text" scope="row">(.*?)</th>', page) == ["clicks", "price"]


def test_what_an_incident_names_has_a_trend_however_many_features_there_are(
    found: Coverage, tmp_path: Path
) -> None:
    frame = found.to_pandas()
    more = [frame[frame["feature"] == "clicks"].assign(feature=f"more_{n}") for n in range(30)]
    many = pd.concat([*more, frame], ignore_index=True)
    names = tuple(dict.fromkeys(many["feature"]))
    rules: dict[str, str | float] = dict.fromkeys(names, "non_zero")
    counted = Coverage(many, names, {}, rules, by=("region",), window="1d")
    page = write_coverage_page(tmp_path / "page.html", counted, alerts=find_alerts(counted)).read_text()
    drawn = page[page.index('id="trends"') : page.index('id="segments"')]
    assert "rating" in drawn
    assert "more_0" in drawn
    assert "more_29" not in drawn
