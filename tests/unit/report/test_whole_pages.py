"""Every HTML that is written is a whole page in the house style, and no legend hides a number."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import placings as pg
from placings.cli.main import app
from placings.core.errors import BadInput

DATA = pg.make_ranking(12, n_features=3, mean_size=6, random_state=0).data
ODD = "<script>$x$</script>"


class Outline(HTMLParser):
    """The tags of a page in their order, its title, and whether all that were opened are closed."""

    VOID = ("meta", "link", "br", "hr", "img")

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.doctype = ""

    def handle_decl(self, decl: str) -> None:
        self.doctype = decl

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass


def call(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def write_rows(folder: Path) -> Path:
    pg.write(DATA, folder / "rows.txt")
    return folder / "rows.txt"


def fit(folder: Path) -> Path:
    pg.LightGBMRanker(rounds=3, random_state=0).fit(pg.read(write_rows(folder))).save(folder / "model")
    return folder / "model"


def make_comparison(folder: Path) -> str:
    rows, names = write_rows(folder), ("engine", "ours")
    for number, name in enumerate(names):
        scores = np.random.default_rng(number).random(DATA.n_rows)
        (folder / f"{name}.txt").write_text("\n".join(map(str, scores)) + "\n")
    given = [word for name in names for word in ("--scores", f"{name}={folder / name}.txt")]
    call("compare", rows, *given, "--baseline", "engine", "--out", folder / "run")
    return (folder / "run" / "comparison.html").read_text()


def make_explanation(folder: Path) -> str:
    model = pg.load(fit(folder))
    data = pg.read(folder / "rows.txt").replace(items=None)
    found = pg.explain(model, data, data.qids[0], 0, 1)
    return pg.write_result_page(folder / "page.html", found, title=f"Why {ODD}").read_text()


def make_evaluation(folder: Path) -> str:
    model = pg.load(fit(folder))
    found = pg.evaluate(model, pg.read(folder / "rows.txt"), ["mrr"], slices=["list_size"])
    return pg.write_result_page(folder / "page.html", found).read_text()


def print_comparison(folder: Path) -> str:
    model = fit(folder)
    return call("compare", folder / "rows.txt", "--model", f"a={model}", "--format", "html")


def print_degradation(folder: Path) -> str:
    model = fit(folder)
    words = ["--features", "top:1", "--drops", "0.5", "--draws", 2, "--format", "html"]
    return call("coverage", "degrade", model, folder / "rows.txt", *words)


def make_log(folder: Path) -> str:
    from placings.report.log_page import write_log_page

    rows = pd.DataFrame({"search_id": ["a", "a"], "query": ODD, "position": [1, 2], "label": [1.0, 0.0]})
    rows["item_id"] = ["x", "y"]
    return write_log_page(folder / "page.html", rows, title=ODD).read_text()


def make_coverage(folder: Path) -> str:
    from placings.feco.score import coverage
    from placings.report.coverage_page import write_coverage_page

    log = pd.DataFrame({"search": [1, 1, 2, 2], "price": [1.0, 0.0, 0.0, 0.0]})
    return write_coverage_page(folder / "page.html", coverage(log, event="search"), title=ODD).read_text()


def make_places(folder: Path) -> str:
    from placings.report.places_page import write_places_page

    return write_places_page(folder / "page.html", {"simulated": True}, title=ODD, brief=True).read_text()


WRITERS: dict[str, Callable[[Path], str]] = {
    "compare --out": make_comparison,
    "compare --format html": print_comparison,
    "coverage degrade --format html": print_degradation,
    "an explanation": make_explanation,
    "an evaluation": make_evaluation,
    "log explore": make_log,
    "coverage show --html": make_coverage,
    "places study": make_places,
}


@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_written_is_a_whole_page(tmp_path: Path, writer: str) -> None:
    text = WRITERS[writer](tmp_path)
    page = Outline()
    page.feed(text)
    names = [tag for tag, _ in page.tags]
    assert page.doctype.lower() == "doctype html"
    assert names[:2] == ["html", "head"]
    assert page.tags[0][1]["lang"] == "en"
    assert page.open == []
    metas = [attributes for tag, attributes in page.tags if tag == "meta"]
    assert {"charset": "utf-8"} in metas
    assert any(each.get("name") == "viewport" for each in metas)
    (policy,) = (each for each in metas if each.get("http-equiv") == "Content-Security-Policy")
    assert str(policy["content"]).startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert names.index("meta") < names.index("style")  # a policy holds from where it stands
    assert names.count("title") == names.count("h1") == 1
    assert "--ink: #1f2933" in text  # the house style
    assert "script" not in names
    loading = [value for _, each in page.tags for key, value in each.items() if key in ("src", "data")]
    links = [value for _, each in page.tags for key, value in each.items() if key.endswith("href")]
    assert loading == []
    assert all(link and link.startswith("#") for link in links)
    assert "url(http" not in text
    assert "@import" not in text


def test_every_module_that_writes_a_page_is_among_the_writers() -> None:
    home = Path(pg.__file__).parent
    rendering = {
        file.name for file in home.rglob("*.py") if re.search(r"\b(render|write)_page\(", file.read_text())
    } - {"pages.py", "click_log.py"}  # the log asks the report room for its page
    rendering -= {"experiments.py", "serve_report.py"}  # a result's page, by write_result_page
    assert rendering == {"log_page.py", "coverage_page.py", "places_page.py"}


def test_a_page_needs_results_with_tables() -> None:
    from placings.report.pages import render_result_page

    with pytest.raises(BadInput, match="at least one result"):
        render_result_page()
    with pytest.raises(BadInput, match="Got dict"):
        render_result_page({})


# -- legends ------------------------------------------------------------------------------------------------


def draw_ranks() -> None:
    from placings.report.figures import draw_rank_distribution

    draw_rank_distribution({f"a rather long name {n}": [20.0] * 5 for n in range(3)})  # low at the right


def draw_types() -> None:
    from placings.report.places_figures import draw_type_counts

    draw_type_counts({"stop": {"shown": 900, "clicked": 10}, "poi": {"shown": 800, "clicked": 990}})


def draw_depth() -> None:
    from placings.report import places_figures

    places_figures.draw_depth([{"k": k, "engine": 0.5, "model": 0.6, "oracle": 0.9} for k in (10, 20, 40)])


def draw_tuning() -> None:
    from placings.evaluation.tuning import tune
    from placings.report import run_figures as tuning_figures

    tuning_figures.draw_tuning(tune("ridge", DATA, trials=4, folds=2, random_state=0))


def draw_ages() -> None:
    from placings.report import coverage_figures as trend_figures

    days = pd.date_range("2024-01-01", periods=4).tolist() * 2
    frame = pd.DataFrame(
        {"feature": "price", "age": ["old"] * 4 + ["new"] * 4, "window": days, "coverage": 0.05}
    ).assign(low=0.0, high=0.1)
    trend_figures.draw_ages(frame)


@pytest.mark.parametrize("draw", [draw_ranks, draw_types, draw_depth, draw_tuning, draw_ages])
def test_a_legend_stands_outside_of_what_is_drawn(
    draw: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    drawn: list[Any] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda self, *a, **k: (drawn.append(self), save(self, *a, **k))[1])
    draw()
    figure = drawn[0]
    figure.canvas.draw()
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()] + figure.legends
    assert len(legends) == 1
    box = legends[0].get_window_extent()
    for axes in figure.axes:
        inside = axes.get_window_extent()
        above, below = box.y0 >= inside.y1 - 1, box.y1 <= inside.y0 + 1  # to a pixel
        assert above or below or box.x0 >= inside.x1 - 1
    page = figure.bbox
    assert box.x1 <= page.x1 + 1
    assert box.y1 <= page.y1 + 1
