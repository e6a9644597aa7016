"""Claims stand beside their limits: the simple baseline, the number of comparisons, how queries were cut."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import placings as pg

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def transforms() -> ModuleType:
    spec = importlib.util.spec_from_file_location("benchmark_transforms", ROOT / "benchmarks/transforms.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["docs/benchmarks.md", "docs/mixture_study.md"])
def test_every_ridge_of_the_benchmark_stands_beside_the_network(page: str, transforms: ModuleType) -> None:
    rows = [line.replace("`", "").replace("*", "") for line in read(page).split("\n") if line.startswith("|")]
    for name in transforms.RIDGES:
        assert any(row.startswith(f"| ridge over {name.removeprefix('ridge-')} ") for row in rows), name


def test_the_page_shows_as_many_comparisons_as_it_corrects_for(transforms: ModuleType) -> None:
    """Four transforms against raw, the mixture against three transforms and two libraries: 4 + 5 = 9."""
    compared = transforms.pick_pairs(["raw", "gauss", "cdf", "log1p", "mixture", "lightgbm", "catboost"])
    assert len(compared) == len(set(compared)) == 9
    table = read("docs/mixture_study.md").partition("Holm's over the nine")[2].strip().split("\n\n")[1]
    shown = re.findall(r"^\| (\w+) − (\w+) \|", table, re.M)
    assert sorted((a.lower(), b.lower()) for a, b in shown) == sorted(compared)


def test_methods_may_be_shown_without_what_they_are_compared_with(transforms: ModuleType) -> None:
    assert transforms.pick_pairs(["gauss", "ridge-cdf"]) == []
    assert transforms.pick_pairs(["mixture", "ridge-cdf"]) == [("mixture", "ridge-cdf")]


def test_the_ridge_of_the_benchmark_learns_and_never_sees_test_labels(transforms: ModuleType) -> None:
    data = pg.make_ranking(60, n_features=10, mean_size=12, noise=0.1, random_state=0).data
    train, valid, test = data.split(0.6, 0.2, 0.2, random_state=0)
    scores = transforms.score_ridge("quantile_normal", train, valid, test)
    blind = transforms.score_ridge("quantile_normal", train, valid, test.replace(y=np.zeros(test.n_rows)))
    assert np.array_equal(scores, blind)  # one computation repeated in one process
    chance = np.random.default_rng(0).random(test.n_rows)
    ndcg = pg.metric("ndcg@5")
    learned, random = (np.nanmean(ndcg(each, test.y, test.offsets)) for each in (scores, chance))
    assert learned > random + 0.1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_gains_on_real_beginnings_stand_beside_their_limits(page: Path) -> None:
    """They were cut, not typed, and an engine with two numbers changed has most of the gain."""
    text = page.read_text(encoding="utf-8")
    if "+0.0423" in text and "beginnings" in text:  # another page may have that number by chance
        assert re.search(r"60 % of (the|their) letters", text)
        assert "+0.0067" in text


def test_networks_of_short_training_are_said_to_be_so() -> None:
    text = read("docs/places_study.md")
    assert "15,000" in text
    row = next((line for line in text.split("\n") if line.startswith("| groupwise")), "")
    assert "+0.0000" not in row or "the engine's order" in row
