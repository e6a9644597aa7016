"""The coverage study: it resumes, says the same twice, and its tables have the paper's rows."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadFile, BadInput, UnknownName
from placings.studies.coverage_drop import Study, study_coverage_drop

SMALL: dict[str, Any] = {
    "folds": 2, "draws": {"test": 2, "train+test": 1}, "drops": (0.25, 0.5), "queries": 16, "compared": 3,
    "rankers": ("lightgbm", "ridge"), "settings": {"lightgbm": {"rounds": 3}}, "ids": (1, 3),
}  # fmt: skip


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like MSLR's sample, with four features."""
    folder = tmp_path_factory.mktemp("sample")
    rng = np.random.default_rng(0)
    for part, queries in (("train", range(1, 7)), ("vali", range(7, 11))):
        lines = [
            f"{rng.integers(0, 3)} qid:{qid} " + " ".join(f"{n}:{rng.random():.3f}" for n in range(1, 5))
            for qid in queries
            for _ in range(8)
        ]
        with gzip.open(folder / f"{part}.txt.gz", "wt") as file:
            file.write("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def done(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    out = tmp_path_factory.mktemp("study") / "out"
    return study_coverage_drop(sample, out, **SMALL), out


def test_the_tables_have_a_row_for_every_feature_drop_and_place(done: tuple[Study, Path]) -> None:
    study, _ = done
    keys = {(data, ranker, unit) for data in ("mslr", "generated") for ranker in ("lightgbm", "ridge")
            for unit in ("event", "row")}  # fmt: skip
    assert set(study.tables) == keys
    table = study.tables["mslr", "lightgbm", "event"]
    assert {each.feature for each in table.losses} == {"1 f1", "3 f3"}
    assert len(table.losses) == 2 * 2 * 2 * 2  # features × drops × metrics × places
    assert {each.pairs for each in table.losses} == {10}  # all queries of both folds
    generated = study.tables["generated", "ridge", "event"]
    chosen = {each.chosen for each in generated.losses}
    assert chosen == {"top 1", "top 2", "top 3", "random of top 10", "no signal"}
    text = study.to_markdown()
    for part in ("full data", "25% in test data", "50% in train and test data", "Spearman", "per point of"):
        assert part in text


def test_files_are_written_and_hold_the_numbers(done: tuple[Study, Path]) -> None:
    study, out = done
    assert (out / "coverage_drop.md").read_text().rstrip("\n") == study.to_markdown().rstrip("\n")
    facts = json.loads((out / "coverage_drop.json").read_text())
    assert len(facts["tables"]) == len(study.tables)
    assert facts["settings"]["folds"] == 2
    assert (out / "drop_mslr_lightgbm_event.svg").read_text().startswith("<svg")
    assert "full data" in (out / "importances_mslr_lightgbm.svg").read_text()
    assert list((out / "cells").glob(".*")) == []  # nothing half-written


def test_a_second_run_trains_nothing_and_says_the_same(
    done: tuple[Study, Path], sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, out = done

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr("placings.studies.coverage_drop.degrade", refuse)
    monkeypatch.setattr("placings.studies.coverage_drop.DropCells.fit", refuse)
    assert study_coverage_drop(sample, out, **SMALL).to_markdown() == study.to_markdown()


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_where_it_was(done: tuple[Study, Path], sample: Path) -> None:
    study, out = done
    cells = sorted((out / "cells").glob("mslr_ridge_row_*"))
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    cells[0].unlink()
    assert study_coverage_drop(sample, out, **SMALL).to_markdown() == study.to_markdown()
    after = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    assert set(after) == set(before)
    assert {path for path in after if after[path] != before[path]} == {cells[0]}


def test_a_line_over_a_transform_stands_beside_the_others(sample: Path, tmp_path: Path) -> None:
    asked = {**SMALL, "rankers": ("ridge", "ridge:log1p"), "settings": None, "compared": 3}
    study = study_coverage_drop(sample, tmp_path, parts=("mslr",), **asked)
    plain, over = (study.tables["mslr", name, "event"] for name in asked["rankers"])
    means = [table.baseline["test"]["ndcg@8"] for table in (plain, over)]
    assert (means[0] != means[1]).any()
    table = study.compare_rankers(study.plans[0], "markdown")
    head, _, full, *features = table.splitlines()[:5]
    assert head == "| 50% dark | ridge | ridge:log1p |"
    for values in means:
        assert f"{np.nanmean(values):.4f} [" in full
    lost = over.loss("1 f1", 0.5, "ndcg@8", "test").lost
    assert features[0].startswith("| 1 f1 |")
    assert f"{-lost:+.4f}".replace("-", "−") in features[0]
    assert table in study.to_markdown()
    assert (tmp_path / "drop_mslr_ridge_log1p_event.svg").is_file()


def test_bad_questions_get_clear_answers(sample: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="part of the study"):
        study_coverage_drop(sample, parts=("web30k",))
    with pytest.raises(BadInput, match="numbered from 1 to 4"):
        study_coverage_drop(sample, parts=("mslr",), ids=(5,))
    with pytest.raises(BadFile, match="set PLACINGS_DATA"):
        study_coverage_drop(tmp_path, parts=("mslr",))
    with pytest.raises(BadInput, match="at least one"):
        study_coverage_drop(sample, parts=())
