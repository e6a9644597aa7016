"""The page of the places study: the verdict, every part, and what is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.report.places_figures import (
    draw_depth,
    draw_length_boxes,
    draw_rank_panels,
    draw_training_curves,
    write_demo_picture,
)
from placings.report.places_page import (
    PANELS,
    find_default,
    lay_records,
    list_verdict,
    say_dark,
    say_kind,
    say_winners,
    write_places_page,
)

DEFAULT = "default re-ranker"
ODD = "<i>$odd$</i>"
FEW = "The result has no "


def make_row(name: str, clicks: float, truth: float | None) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "seconds": 1.5}
    for end, mrr, engine in (("", clicks, 0.78), ("_true", truth, 0.75)):
        if mrr is not None:
            gap = mrr - engine
            row |= {f"mrr{end}": mrr, f"low{end}": mrr - 0.02, f"high{end}": mrr + 0.02}
            row |= {f"difference{end}": gap, f"difference_low{end}": gap - 0.01}
            row |= {f"difference_high{end}": gap + 0.01, f"p{end}": 0.0004}
    return row


def make_slice(name: str, value: str, gap: float) -> dict[str, Any]:
    return {
        "slice": name, "value": value, "searches": 250, "engine": 0.8, "model": 0.8 + gap, "difference": gap,
        "low": gap - 0.005, "high": gap + 0.005, "loses": gap < -0.01, "measure": "true",
    }  # fmt: skip


def make_result() -> dict[str, Any]:
    """Made up: every part that a study may hold."""
    rng = np.random.default_rng(0)
    names = ["engine", "LightGBM", ODD, "default without guard", DEFAULT]
    ranks = {name: rng.geometric(0.6, 80).tolist() for name in names}
    pair = {"searches": 100, "engine": 0.8, "model": 0.6, "difference": -0.2, "low": -0.25, "high": -0.15}
    curve = {
        "step": list(range(1, 601)),
        "loss": np.exp(-np.arange(600) / 99).tolist(),
        "gradient": [1.0] * 600,
    }
    return {
        "simulated": True, "settings": {"seed": 7, "shares": [0.64, 0.16, 0.2]}, "counts": {"searches": 5000},
        "models": [make_row(name, 0.78 + 0.01 * n, 0.75 + 0.02 * n) for n, name in enumerate(names)],
        "lines": {
            "models": [make_row("engine", 0.78, 0.75),
                       {**make_row("ridge over cdf", 0.79, 0.77), "C": 0.1, "valid": 0.8125, "lists": 3200},
                       {**make_row("LightGBM of the default", 0.8, 0.78), "valid": 0.8215, "lists": 3200}],
            "best": "ridge over cdf",
            "beyond": [{"name": "LightGBM of the default", "difference_clicks": 0.01, "low_clicks": -0.002,
                        "high_clicks": 0.022, "difference_true": 0.01, "low_true": 0.004,
                        "high_true": 0.016}],
        },
        "ranks": ranks,
        "coverage": {
            "feature": "weight", "told": "how popular", "where": "android, last 7 days",
            "alert": {"severity": "high", "headline": "severe drop of weight in platform=android",
                      "runbook": "placings coverage runbook severe-drop"},
            "daily": [{"platform": name, "window": f"2024-06-2{day}", "coverage": share, "events": 40}
                      for name in ("android", "ios") for day, share in enumerate((1.0, 0.0))],
            "tried": [{"source": "weight", "told": "how popular", "lost": 0.03, "low": 0.02, "high": 0.04}],
            "cost": [{"drop": 0.5, "mrr": 0.8, "lost": 0.0125, "low": 0.01, "high": 0.02, "p": 0.0004}],
        },
        "tuned": [{"model": "LightGBM", "default": 0.84, "default_low": 0.83, "default_high": 0.85,
                   "tuned": 0.86, "tuned_low": 0.85, "tuned_high": 0.87}],
        "variants": [make_row("FC-32", 0.8, 0.77), make_row("FC-64", 0.81, 0.79)],
        "importances": {"all": [["name:ruh", 0.5], ["type:stop", 0.3]], "plain": [["type:stop", 0.3]],
                        "columns": 2},
        "types": {"stop": {"shown": 900, "clicked": 300}, "poi": {"shown": 800, "clicked": 50}},
        "types_clicked": [{"type": "stop", **pair}],
        "curves": {"FC-32": curve, "broken": {"step": [1, 2], "loss": [1.0, None], "gradient": []}},
        "no_location": {
            name: {"mrr": 0.77, "mrr_true": 0.74, "ranks": ranks[name]} for name in ("engine", DEFAULT)
        },
        "bands": [{"band": "[3, 10]", **pair, "ngrams": 0.81},
                  {"band": "[31, 40]", **pair, "ngrams": 0.5647}],
        "lengths_by_rank": {"engine": {"1": [3, 4, 9], "2": [5], "12": [30, 31]}, DEFAULT: {"1": [3, 8]}},
        "slices": [make_slice("length", "[31, 40]", -0.002), make_slice("kind", "typo", 0.03)],
        "ngram_slices": [make_slice("length", "[31, 40]", -0.25)],
        "depth": [{"k": 10, "engine": 0.7, "model": 0.8, "oracle": 0.9}, {"k": 40, **pair, "oracle": 0.95}],
        "oracle": 0.95, "left_to_engine": 0.125,
        "unsuccessful": {"searches": 900, "table": [{"training": "zeros", "difference_true": -0.01}]},
        "why": {"models": [{"model": "n-grams", "all": pair, "bands": {"[31, 40]": pair}}], "bands": []},
    }  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    result = json.loads(json.dumps(make_result()))  # as a file would give it
    return write_places_page(tmp_path_factory.mktemp("places") / "page.html", result).read_text()


def find_section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">.*?</section>', page, re.S)
    assert found is not None
    return found[0]


def test_every_part_is_drawn_and_nothing_is_missing(page: str) -> None:
    parts = [row[0].replace("_", "-") for row in PANELS]
    assert re.findall(r'<section id="([a-z-]+)">', page) == [*parts, "how"]
    assert FEW not in page
    for name in parts:
        assert "<svg" in find_section(page, name) or name in ("why", "unsuccessful"), name


def test_lines_are_told_with_their_c_and_what_others_have_beyond_the_best(page: str) -> None:
    lines = find_section(page, "lines")
    assert "Is a line over transformed features as good as trees and a network?" in lines
    assert "All learned from the same 3,200 lists" in lines
    assert (
        "Beyond ridge over cdf, the best line on validation, on the true target: "
        "LightGBM of the default +0.0100 [+0.0040, +0.0160]." in lines
    )
    assert re.search(r"ridge over cdf</t[dh]>\s*<td[^>]*>0\.1</td>\s*<td[^>]*>0\.8125", lines)
    assert "ridge over cdf: the line that was best on validation" in find_section(page, "models")


def test_a_result_without_lines_says_so_and_names_no_line(tmp_path: Path) -> None:
    result = {key: value for key, value in make_result().items() if key != "lines"}
    page = write_places_page(tmp_path / "page.html", result).read_text()
    assert "No line was fitted." in find_section(page, "lines")
    assert "best on validation" not in page


def test_a_dark_feature_is_told_with_its_coverage_and_cost(page: str) -> None:
    told = find_section(page, "coverage")
    alert = "ALERT, high: severe drop of weight in platform=android."
    for text in (alert, "runbook severe-drop", "50%", "−0.0125", "[−0.0200, −0.0100]", "−0.0300"):
        assert text in told, text
    assert "Cost: without weight (how popular) MRR 0.8000 falls by 0.0125 [0.0100, 0.0200]." in told


def test_a_loss_whose_interval_holds_0_is_not_called_a_cost() -> None:
    row = {"drop": 1.0, "mrr": 0.8, "lost": 0.002, "low": -0.001, "high": 0.005, "p": 0.2}
    told = say_dark({"feature": "weight", "cost": [row]})
    assert told[1] == (
        "Cost: none is shown. Without weight MRR 0.8000 changes by −0.0020 [−0.0050, +0.0010]."
    )


def test_winners_and_losers_are_told_in_plain_words() -> None:
    rows = [make_slice("kind", "typo", -0.05), make_slice("location", "hidden", 0.08)]
    rows[0] |= {"loses": True, "loses_clicks": True}
    told = say_winners({"simulated": True, "models": make_result()["models"], "slices": rows})
    assert told == [
        "Who wins most: no location shared +0.0800.",
        "Who loses: typed: a name with a typo −0.0500, of 2 kinds of searches.",
        "By clicks, which favour the engine, 1 would seem to lose: typed: a name with a typo.",
    ]


def test_the_demo_page_explains_its_words_and_names_no_thesis(tmp_path: Path) -> None:
    page = write_places_page(
        tmp_path / "a.html", make_result(), brief=True, glossary="../docs/a<b>.md"
    ).read_text()
    words = find_section(page, "words")
    assert all(f"<dt>{word}</dt>" in words for word in ("MRR", "slice", "guard", "SIMULATED"))
    assert 'href="../docs/a&lt;b&gt;.md"' in words
    assert "Learning to Rank Places" not in page.partition("<nav>")[2]


def test_the_picture_of_the_demo_is_small(tmp_path: Path) -> None:
    result = make_result()
    path = write_demo_picture(tmp_path / "a.png", result, [say_kind(row) for row in result["slices"]])
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert path.stat().st_size < 150_000


def test_a_brief_page_leaves_out_what_is_missing(tmp_path: Path) -> None:
    few = {key: value for key, value in make_result().items() if key in ("simulated", "models", "slices")}
    brief = write_places_page(tmp_path / "a.html", few, brief=True).read_text()
    assert re.findall(r'<section id="([a-z-]+)">', brief) == ["models", "slices", "words", "how"]
    whole = write_places_page(tmp_path / "b.html", few).read_text()
    assert 'id="coverage"' not in whole
    assert 'id="why"' in whole


def test_every_heading_and_table_says_simulated(page: str) -> None:
    headings = re.findall(r"<h[12]>.*?</h[12]>", page, re.S)
    assert len(headings) == len(PANELS) + 2
    assert all("SIMULATED" in heading for heading in headings)
    assert page.count("<p>SIMULATED data.</p>") == page.count("<table>")


def test_the_verdict_comes_first_and_tells_gain_slices_ceiling_and_guard(page: str) -> None:
    told = re.findall(r"<p>(.*?)</p>", page[page.index('id="verdict"') : page.index('class="tiles"')])
    assert told == [
        "The default re-ranker orders better than the engine: MRR 0.8300 against 0.7500 on the true target, "
        "+0.0800 [+0.0700, +0.0900].",
        "None of 2 slices loses on the true target.",
        "The worst on the true target: length [31, 40], −0.0020 [−0.0070, +0.0030] over 250 searches.",
        "The best order of the same lists would reach 0.9500: default re-ranker goes 40% of that way.",
        "12.5% of the searches are left in the engine&#39;s order.",
    ]
    assert page.index('id="verdict"') < page.index("<section")


def test_a_slice_that_loses_is_said_and_marked(tmp_path: Path) -> None:
    result = {"models": make_result()["models"], "slices": [make_slice("kind", ODD, -0.05)]}
    told = list_verdict(result)
    assert told[-2:] == [
        f"1 of 1 slices loses on the true target: kind {ODD}.",
        f"The worst on the true target: kind {ODD}, −0.0500 [−0.0550, −0.0450] over 250 searches.",
    ]
    page = write_places_page(tmp_path / "page.html", result).read_text()
    assert 'class="verdict bad"' in page
    assert "1 of 1 slices loses on the true target" in find_section(page, "slices")
    assert "#c8553d" in find_section(page, "slices")


def test_slices_that_lose_on_clicks_only_are_in_the_headline_of_text_and_page(tmp_path: Path) -> None:
    from placings.studies.places_tables import render_study

    rows = [make_slice("kind", value, 0.01) for value in ("prefix", "full", "typo")]
    for row, loses in zip(rows, (True, False, True), strict=True):
        row |= {"measure": "true", "searches_clicks": 250, "engine_clicks": 0.9, "model_clicks": 0.88,
                "difference_clicks": -0.02, "low_clicks": -0.03, "high_clicks": -0.01,
                "loses_clicks": loses}  # fmt: skip
    result = {"simulated": True, "models": make_result()["models"], "slices": rows}
    headline = (
        "None of 3 slices loses on the true target. On clicks, which favour the engine, 2 of 3 lose: "
        "kind prefix, kind typo."
    )
    assert headline in list_verdict(result)
    assert headline in render_study(result)
    page = write_places_page(tmp_path / "page.html", result).read_text()
    assert page.count(headline) == 2  # the verdict on top, and the panel of the slices
    assert find_section(page, "slices").count("loses on clicks") == 2
    assert "slices lose on true target" in page
    assert "on clicks 2" in page
    calm = {**result, "slices": [{**row, "loses_clicks": False} for row in rows]}
    assert "None of 3 slices loses on the true target. Nor does one lose on clicks." in list_verdict(calm)
    seen = {**result, "slices": [make_slice("kind", "full", 0.01) | {"measure": "clicks"}]}
    assert "None of 1 slice loses on clicks." in list_verdict(seen)


def test_a_table_says_how_long_networks_trained_and_who_only_gave_the_engines_order(
    tmp_path: Path,
) -> None:
    from placings.studies.places_tables import render_study

    rows = [make_row("engine", 0.78, None), make_row("groupwise", 0.78, None), make_row("deep", 0.79, None)]
    rows[1] |= {"difference": 0.0, "difference_low": 0.0, "difference_high": 0.0}
    result = {"models": rows, "variants": rows[1:], "settings": {"steps": 1000, "group_steps": 300}}
    text = render_study(result)
    assert text.count("trained for 1,000 steps (groupwise: 300), where the presets have 15,000") == 2
    assert "groupwise puts every clicked item where the engine does: its order, not a gain." in text
    assert "deep puts" not in text
    full = render_study({**result, "settings": {"steps": 15_000, "group_steps": 15_000}})
    assert "steps" not in full
    demo = write_places_page(tmp_path / "demo.html", {**result, "variants": []}, brief=True)
    assert "15,000" not in demo.read_text()  # no network of the thesis, nothing to say of it
    assert "where the presets have 15,000" in write_places_page(tmp_path / "all.html", result).read_text()


def test_a_table_says_as_of_when_past_clicks_were_counted() -> None:
    from placings.studies.places_tables import render_study

    rows = [make_row("engine", 0.78, None), make_row("A", 0.79, None)]
    drawn = render_study({"models": rows, "settings": {"split": "session"}})
    assert "(--split session): past clicks are counted as of each search" in drawn
    last = render_study({"models": rows, "settings": {"split": "time"}})
    assert "past clicks stand as they did when training ended" in last


def test_a_model_that_may_be_no_better_is_not_called_better() -> None:
    rows = [make_row("engine", 0.78, None), make_row("A", 0.785, None)]
    told = list_verdict({"models": rows})
    assert told == [
        "A cannot be told apart from the engine: MRR 0.7850 against 0.7800 on clicks, "
        "+0.0050 [−0.0050, +0.0150]."
    ]
    rows.append(make_row("B", 0.787, None))  # the best is the one that is told
    assert list_verdict({"models": rows})[0].startswith("B cannot be told apart")
    rows = [rows[0], make_row("A", 0.7, None)]
    assert list_verdict({"models": rows})[0].startswith("A orders worse than the engine")


def test_a_model_ahead_of_the_default_is_told_but_not_by_a_hair() -> None:
    rows = [make_row(name, mrr, None) for name, mrr in (("engine", 0.78), (DEFAULT, 0.8), ("A", 0.8005))]
    assert len(list_verdict({"models": rows})) == 1
    rows[2] = make_row("A", 0.81, None)
    assert list_verdict({"models": rows})[1] == "The best single number is A's: MRR 0.8100."


def test_the_default_is_found_by_name_and_else_the_best() -> None:
    assert find_default(make_result()) == DEFAULT
    rows = [make_row("engine", 0.9, None), make_row("A", 0.7, None), make_row("B", 0.8, None)]
    assert find_default({"models": rows}) == "B"
    assert find_default({}) == "the model"


def test_parts_that_are_missing_are_sentences_and_a_real_log_is_not_simulated(tmp_path: Path) -> None:
    page = write_places_page(tmp_path / "page.html", {"types": {}, "slices": []}).read_text()
    assert page.count(FEW) == len(PANELS) - 1  # the demo's part is not missed
    assert "The study holds no models yet" in page
    assert "SIMULATED" not in page
    with pytest.raises(BadInput, match="Got list"):
        write_places_page(tmp_path / "page.html", [])  # type: ignore[arg-type]


def test_tables_hold_the_numbers_of_the_result(page: str) -> None:
    models = find_section(page, "models")
    assert f"<th scope='row'>{DEFAULT}</th><td><b>0.8300</b></td>" in models  # true target
    assert f"<th scope='row'>{DEFAULT}</th><td><b>0.8200</b></td>" in models  # clicks
    assert "0.5647" in find_section(page, "bands")
    assert "0.6000 (−0.2000 ▼)" in find_section(page, "why")
    assert "trees on n-grams, loses on 1 of 1." in find_section(page, "slices")
    depth = find_section(page, "depth")
    assert "<td>+0.1000</td><td>-</td><td>50%</td>" in depth  # (0.8 − 0.7) / (0.9 − 0.7)
    assert "−0.0100" in find_section(page, "unsuccessful")
    assert "<dt>shares</dt><dd>0.6400, 0.1600, 0.2000</dd>" in find_section(page, "how")


def test_names_are_text_and_nothing_is_fetched(page: str) -> None:
    assert ODD not in page
    assert "&lt;i&gt;$odd$&lt;/i&gt;" in page
    assert "<script" not in page
    assert not re.search(r"""(src|href|url\(|@import)[\s="'(]*(https?:)?//""", page)


def test_a_curve_says_its_last_finite_value_or_that_none_was_kept() -> None:
    drawn = draw_training_curves({"one": {"loss": [2.0, 0.25, float("nan")], "gradient": []}})
    assert "loss at the end: 0.25" in drawn
    assert "no gradient norm was kept" in drawn
    assert draw_training_curves({"one": {"loss": [1.0]}}) == draw_training_curves({"one": {"loss": [1.0]}})


def test_searches_without_a_click_are_in_no_distribution() -> None:
    assert draw_rank_panels({"a": [0, 1, 2]}) == draw_rank_panels({"a": [1, 2]})
    with pytest.raises(BadInput, match="Got none"):
        draw_rank_panels({"a": []})
    with pytest.raises(BadInput, match="Got none"):
        draw_length_boxes({"a": {}})


def test_a_line_that_was_not_measured_is_left_out() -> None:
    drawn = draw_depth([{"k": 10, "engine": 0.5, "model": 0.6, "oracle": None}])
    assert "re-ranked" in drawn
    assert "ceiling" not in drawn


def test_whatever_a_study_adds_becomes_a_table() -> None:
    tables = lay_records({"a": {"mrr": 0.5, "low": 0.4, "high": 0.6}, "b": {"mrr": 0.25}, "n": 3}, False)
    assert len(tables) == 2
    assert "<th scope='row'>n</th><td>3</td>" in tables[0]
    assert "<th scope='row'>a</th><td>0.5000</td><td>[0.4000, 0.6000]</td>" in tables[1]
    assert lay_records([], False) == ()
