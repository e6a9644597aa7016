"""Table 1 again, on tiny data in the layout of the real ones: what it trains, keeps, chooses and says."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placings as pg
from placings.core.errors import BadInput, MissingExtra, PlacingsWarning, UnknownName
from placings.data.collections import name_mslr_features
from placings.data.ranking import RankingData
from placings.evaluation.comparison import compare
from placings.rankers import LinearRanker
from placings.studies import table1, table1_entrants
from placings.studies.table1 import find_source, reproduce_table1
from placings.studies.table1_result import METRICS, PAPER, Table1
from placings.training.plans import Diverged

SMALL: dict[str, Any] = {"hidden": [4], "batch": 8, "check_every": 10}
QUICK: dict[str, Any] = {
    "steps": 20, "seeds": 2, "settings": SMALL, "bootstrap": 100, "permutations": 200, "linear": False,
}  # fmt: skip
AS_LETOR = pytest.mark.filterwarnings(
    "ignore::placings.core.errors.Mismatch"
)  # the sizes are not the published


def make_data(queries: int, seed: int, width: int = 6) -> RankingData:
    return pg.make_ranking(queries, n_features=width, mean_size=8, random_state=seed).data


@pytest.fixture(scope="module")
def web30k(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MSLR-WEB30K's folder with two tiny folds."""
    folder = tmp_path_factory.mktemp("data") / "MSLR-WEB30K"
    for number in (1, 2):
        (folder / f"Fold{number}").mkdir(parents=True)
        for place, (name, queries) in enumerate({"train": 20, "vali": 10, "test": 15}.items()):
            part = make_data(queries, 10 * number + place, 136).replace(feature_names=name_mslr_features())
            pg.write(part, folder / f"Fold{number}" / f"{name}.txt")
    return folder


@pytest.fixture(scope="module")
def small() -> list[tuple[RankingData, RankingData, RankingData]]:
    """Two folds of six features."""
    return [(make_data(20, n), make_data(10, n + 1), make_data(15, n + 2)) for n in (0, 10)]


@pytest.fixture(scope="module")
def whole(web30k: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Table1, Path]:
    """A study of three methods on WEB30K's layout, and its folder."""
    out = tmp_path_factory.mktemp("study")
    with pytest.warns(match="as published"):
        table = reproduce_table1(web30k, methods=("raw", "log1p", "mixture"), lr=0.1, out=out, **QUICK)
    return table, out


def find_comparisons(table: Table1) -> Any:
    return json.loads(table.to_json())["blocks"]


# -- what it says ----------------------------------------------------------------------------------


def test_web30k_is_judged_on_its_first_fold_beside_the_papers_numbers(whole: tuple[Table1, Path]) -> None:
    table, _ = whole
    text = table.report()
    assert table.settings["folds"] == [1]
    assert "Fold1 alone, as in the paper." in text
    for value, marks in (row for rows in PAPER["WEB30K"].values() for row in rows[:1]):
        shown = f"{value:.2f}{marks}" in text
        assert shown == (value in (45.43, 49.12, 50.55))  # Raw, Log1p and Mixture were asked for
    assert "65.81" not in text  # Istella's


def test_both_rules_of_empty_queries_stand_there_with_their_counts(whole: tuple[Table1, Path]) -> None:
    table, _ = whole
    rules = table.blocks["feedforward"]
    counts = {rule: found.counts for rule, found in rules.items()}
    assert counts["zero"]["scored"] == 15
    assert counts["drop"]["scored"] == 15 - counts["drop"]["nothing_relevant"]
    assert 'empty="zero"' in table.report()
    assert 'empty="drop"' in table.report()


def test_the_marks_are_those_of_compare_on_the_kept_scores(whole: tuple[Table1, Path], web30k: Path) -> None:
    table, out = whole
    test = pg.read(web30k / "Fold1" / "test.txt")
    entries: dict[str, list[list[Any]]] = {}
    for method in ("Raw", "Log1p", "Mixture"):
        files = sorted((out / "cells").glob(f"feedforward_{method}-fold1-*.npy"))
        assert len(files) == 2
        entries[method] = [[np.load(file) for file in files]]
    again = compare(
        entries, [test], METRICS, baseline=["Raw", "Log1p"], empty="zero", bootstrap=100, permutations=200
    )
    assert again.to_dict() == table.blocks["feedforward"]["zero"].to_dict()


def test_the_files_hold_the_tables_and_figure_2(whole: tuple[Table1, Path]) -> None:
    table, out = whole
    assert {path.name for path in out.iterdir()} == {
        "cells", "table1.json", "table1.md", "table1.tex", "table1.txt", "figure2.svg", "figure2_effects.svg",
    }  # fmt: skip
    assert "PageRank" in (out / "figure2.svg").read_text()
    assert "figure2.svg" in (out / "table1.md").read_text()
    assert (out / "table1.tex").read_text().count(r"\begin{tabular}") == 3
    facts = json.loads((out / "table1.json").read_text())
    assert facts["paper"] == "WEB30K"
    assert len(facts["cells"]) == 6
    assert np.array(facts["mixture"]["shares"]).shape == (136, 4)
    assert [claim["holds"] is None for claim in facts["claims"]] == [False] * 3
    assert f"of {len(table.cells) // 3} fits" in table.report()


def test_the_published_table_is_bold_where_the_mixture_is_and_raw_has_no_mark() -> None:
    for rows in PAPER.values():
        for place in range(3):
            assert max(row[place][0] for row in rows.values()) == rows["Mixture"][place][0]
            assert rows["Raw"][place][1] == ""


def test_other_data_get_five_query_folds_and_the_papers_table_apart(tmp_path: Path) -> None:
    pg.write(make_data(15, 0), tmp_path / "rows.txt")
    table = reproduce_table1(
        tmp_path / "rows.txt", methods=["cdf"], steps=2, seeds=1, lr=0.1, settings=SMALL, bootstrap=0,
        linear=False,
    )  # fmt: skip
    text = table.report("markdown")
    assert table.settings["folds"] == [1, 2, 3, 4, 5]
    assert "5 query folds" in text
    assert "65.81" in text
    assert "45.43" in text
    assert table.claims == ()
    assert table.blocks["feedforward"]["drop"].counts["queries"] == 15


# -- learning rates --------------------------------------------------------------------------------


def test_the_learning_rate_is_the_best_on_validation_data_and_its_trial_is_a_cell(small: Any) -> None:
    lines: list[str] = []
    table = reproduce_table1(small, methods=["log1p"], progress=lines.append, **QUICK)
    (found,) = table.rates.values()
    assert set(found["tried"]) == {"0.5", "0.1", "0.02"}
    assert found["tried"][f"{found['chosen']:g}"] == max(found["tried"].values())
    assert {cell["lr"] for cell in table.cells} == {found["chosen"]}
    assert len(lines) == 3 - 1 + 2 * 2  # two other rates; two folds of two seeds
    assert lines[-1].startswith("6 of 6: feedforward: Log1p, fold 2, seed 1")
    assert "then kept for all folds and seeds" in table.report()


def test_the_default_preset_has_rates_of_its_own(small: Any) -> None:
    table = reproduce_table1(small[:1], methods=["cdf"], preset="default", **{**QUICK, "seeds": 1})
    assert set(table.rates["feedforward: CDF"]["tried"]) == {"0.003", "0.001", "0.0003"}


def test_a_rate_that_diverges_is_not_chosen(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = table1.Table1Cells._fit

    def burst(self: Any, entrant: Any, parts: Any, seed: int, rate: float, checkpoint: Any) -> Any:
        if rate in bad:
            raise Diverged("the loss is nan at step 3.")
        return fit(self, entrant, parts, seed, rate, checkpoint)

    monkeypatch.setattr(table1.Table1Cells, "_fit", burst)
    bad = {0.5, 0.1}
    table = reproduce_table1(small[:1], methods=["raw"], **QUICK)
    assert table.rates["feedforward: Raw"]["chosen"] == 0.02
    assert "0.5: diverged" in table.report()
    bad = {0.5, 0.1, 0.02}
    with pytest.raises(Diverged, match="with every learning rate that was tried"):
        reproduce_table1(small[:1], methods=["raw"], **QUICK)
    with pytest.raises(Diverged, match="Raw, fold 1, seed 0, learning rate 0.5: the loss is nan"):
        reproduce_table1(small[:1], methods=["raw"], lr=0.5, **QUICK)


# -- going on --------------------------------------------------------------------------------------


class Killed(Exception):
    """The study is stopped here."""


@pytest.mark.slow
def test_a_study_that_was_killed_goes_on_to_equal_results(small: Any, tmp_path: Path) -> None:
    asked = {"methods": ("raw", "mixture"), "lr": 0.1, **QUICK}
    expected = reproduce_table1(small, out=tmp_path / "whole", **asked)
    lines: list[str] = []

    def stop_after_three(line: str) -> None:
        lines.append(line)
        if len(lines) == 3:
            raise Killed

    with pytest.raises(Killed):
        reproduce_table1(small, out=tmp_path / "stopped", progress=stop_after_three, **asked)
    assert not (tmp_path / "stopped" / "table1.json").exists()
    again: list[str] = []
    resumed = reproduce_table1(small, out=tmp_path / "stopped", progress=again.append, **asked)
    assert [line.endswith("kept") for line in again] == [True] * 3 + [False] * 5
    assert find_comparisons(resumed) == find_comparisons(expected)
    last: list[str] = []
    finished = reproduce_table1(small, out=tmp_path / "stopped", progress=last.append, **asked)
    assert all(line.endswith("kept") for line in last)
    assert len(last) == 8
    assert finished.to_json() == resumed.to_json()
    assert not list((tmp_path / "stopped" / "cells").glob("*.checkpoint"))


def test_other_settings_or_data_make_other_cells_and_the_device_does_not(small: Any, tmp_path: Path) -> None:
    def run(data: Any, **changes: Any) -> bool:
        lines: list[str] = []
        asked: dict[str, Any] = {"methods": ["cdf"], "lr": 0.1, **QUICK, "seeds": 1, **changes}
        reproduce_table1(data, out=tmp_path, progress=lines.append, **asked)
        return lines[0].endswith("kept")

    assert not run(small[:1])
    assert run(small[:1], device="cpu")
    assert not run(small[:1], steps=19)
    assert not run(small[:1], keep="last")
    assert not run(small[1:])


def test_a_damaged_cell_is_made_anew(small: Any, tmp_path: Path) -> None:
    asked = {"methods": ["cdf"], "lr": 0.1, "out": tmp_path, **QUICK, "seeds": 1}
    first = reproduce_table1(small[:1], **asked)
    (scores,) = (tmp_path / "cells").glob("*.npy")
    np.save(scores, np.zeros(3))
    with pytest.warns(PlacingsWarning, match="damaged; it is made anew"):
        second = reproduce_table1(small[:1], **asked)
    assert find_comparisons(first) == find_comparisons(second)


# -- data and entrants -----------------------------------------------------------------------------


@AS_LETOR
def test_folds_are_read_one_at_a_time_and_can_be_named(web30k: Path) -> None:
    source = find_source(web30k, [2], 0, {})
    ((number, (train, valid, test)),) = list(source)
    assert (number, len(train), len(valid), len(test)) == (2, 20, 10, 15)
    assert find_source(web30k, 2, 0, {}).numbers == (1, 2)
    assert find_source(web30k / "Fold2", None, 0, {}).numbers == (2,)
    with pytest.raises(BadInput, match="1, 2, 3, 4, 5. Got 7"):
        find_source(web30k, 7, 0, {})
    with pytest.raises(BadInput, match="train, valid, test"):
        find_source([], None, 0, {})


@AS_LETOR
def test_istella_loses_the_same_features_everywhere_and_gives_some_queries_for_validation(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "istella"
    folder.mkdir()
    for place, name in enumerate(("train", "test")):
        data = make_data(20, place, 220)
        text = "\n".join(
            f"{int(y)} qid:{q} " + " ".join(f"{n}:{v:g}" for n, v in enumerate(row, 1))
            for y, q, row in zip(data.y, data.qid, data.X, strict=True)
        )
        bad = text.split("\n")
        bad[3] = bad[3].split(f" {5 + place}:")[0] + f" {5 + place}:1.79769313486e+308"
        (folder / f"{name}.txt").write_text("\n".join(bad) + "\n")
    source = find_source(folder, None, 0, {})
    ((_, (train, valid, test)),) = list(source)
    assert train.n_features == valid.n_features == test.n_features == 218
    assert (len(train), len(valid), len(test)) == (16, 4, 20)
    assert "2 features hold illegitimate values and are left out: 5, 6." in source.notes


def test_trees_stand_beside_the_neural_rankers_with_rates_of_their_own(small: Any) -> None:
    pytest.importorskip("lightgbm")
    table = reproduce_table1(small[:1], methods=["raw"], trees=["lightgbm"], lr=0.1, **{**QUICK, "seeds": 1})
    assert list(table.blocks["feedforward"]["drop"].means) == ["Raw", "LightGBM"]
    assert set(table.rates["trees: LightGBM"]["tried"]) == {"0.1", "0.05", "0.02"}


def test_a_ridge_over_each_transform_stands_beside_the_networks(small: Any) -> None:
    lines: list[str] = []
    asked: dict[str, Any] = {**QUICK, "linear": True}
    table = reproduce_table1(small, methods=("raw", "mixture"), lr=0.1, progress=lines.append, **asked)
    ridges = ["ridge over raw", "ridge over quantile_normal"]  # a line has no mixture
    assert list(table.blocks["feedforward"]["drop"].means) == ["Raw", "Mixture", *ridges]
    found = table.rates["lines: ridge over raw"]
    assert set(found["tried"]) == {"0.01", "1", "100"}
    assert found["tried"][f"{found['chosen']:g}"] == max(found["tried"].values())
    assert len(lines) == 2 * 2 * 2 + 2 * (2 + 2)  # two seeds of networks; two other Cs, one fit a fold
    assert any("lines: ridge over raw, fold 1, seed 0, C 100" in line for line in lines)
    assert all(("C" in cell) == cell["method"].startswith("ridge") for cell in table.cells)
    alone = LinearRanker("ridge", transform="raw", C=found["chosen"]).fit(small[0][0]).predict(small[0][2])
    first = compare({"ridge": [alone]}, [small[0][2]], METRICS, bootstrap=0).means["ridge"]["ndcg@5"]
    (cell,) = [c for c in table.cells if c["method"] == "ridge over raw" and c["fold"] == 1]
    assert cell["test"]["ndcg@5"] == pytest.approx(first)


def test_a_library_that_is_not_there_is_named_before_anything_is_trained(
    small: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table1_entrants, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"placings\[trees\]"):
        reproduce_table1(small, trees=True, **QUICK)


@pytest.mark.parametrize("network", ["attention", "groupwise"])
def test_another_network_is_a_block_with_its_own_baselines(small: Any, network: str) -> None:
    asked: dict[str, Any] = {**QUICK, "steps": 4, "seeds": 1, network: True}
    table = reproduce_table1(small[:1], methods=("raw", "log1p"), lr=0.1, **asked)
    assert set(table.blocks) == {"feedforward", network}
    found = table.blocks[network]["zero"]
    assert found.settings["baselines"] == ["Raw", "Log1p"]
    assert table.report("latex").count(r"\begin{tabular}") == 4 + 2 + 1


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"methods": ["log2"]}, UnknownName, "did you mean 'log1p'"),
        ({"methods": []}, BadInput, "at least one transform"),
        ({"methods": ["raw", "raw"]}, BadInput, "each once"),
        ({"preset": "zhuang2021"}, UnknownName, "did you mean 'zhuang2020'"),
        ({"trees": ["lightgmb"]}, UnknownName, "did you mean 'lightgbm'"),
        ({"settings": {"hiden": [4]}}, UnknownName, "did you mean 'hidden'"),
        ({"keep": "first"}, UnknownName, "best, last"),
        ({"lr": 0.0}, BadInput, "lr must be above 0"),
        ({"seeds": 0}, BadInput, "seeds must be"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_trained(
    small: Any, wrong: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        reproduce_table1(small, **wrong)


SCRIPT = """
import sys
import placings as pg
from placings.studies.table1 import reproduce_table1

data = pg.make_ranking(60, n_features=6, mean_size=12, random_state=0).data
table = reproduce_table1(
    data, methods=("raw", "mixture"), seeds=1, folds=[1, 2], lr=0.1, steps=400, out=sys.argv[1],
    settings={"hidden": [16], "batch": 8, "check_every": 50, "checkpoint_every": 20}, bootstrap=50,
    linear=False, permutations=100, progress=lambda line: print(line, flush=True),
)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_in_the_middle_of_a_cell_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    def start(out: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / out)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    whole = start("whole")
    assert whole.stdout is not None
    assert len(whole.stdout.read().splitlines()) == 4
    stopped = start("stopped")
    cells = tmp_path / "stopped" / "cells"
    for _ in range(2400):  # until the second cell has a checkpoint
        if list(cells.glob("*.npy")) and list(cells.glob("*.checkpoint")):
            break
        time.sleep(0.05)
    stopped.kill()
    stopped.wait()
    assert list(cells.glob("*.checkpoint"))
    again = start("stopped")
    assert again.stdout is not None
    assert again.stdout.read().splitlines()[0].endswith("kept")
    ours, theirs = (
        sorted((file.name, file.read_bytes()) for file in (tmp_path / name / "cells").glob("*.npy"))
        for name in ("stopped", "whole")
    )
    assert ours == theirs
    assert not list(cells.glob("*.checkpoint"))
    for process in (whole, stopped, again):
        assert process.stdout is not None
        process.stdout.close()
        process.wait()
