"""The study of the default network's settings: a real set is left out of what is chosen for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placings as pg

pytest.importorskip("torch")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import network_default

    return network_default


def fill_cells(study: Any, out: Path, means: dict[tuple[str, str], float]) -> None:
    """Cells of given means, without training anything."""
    for (name, arm), mean in means.items():
        study.keep_cell(out, *study.describe(name, arm, 0), lambda mean=mean: {"ndcg@10": [mean]})


def test_what_is_best_on_the_set_left_out_is_not_chosen_for_it(
    study: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    means = {("mslr", "default"): 0.30, ("mslr", "no line"): 0.50, ("mq2008", "default"): 0.60,
             ("mq2008", "no line"): 0.55, ("dev01", "default"): 0.70, ("dev01", "no line"): 0.69}  # fmt: skip
    fill_cells(study, tmp_path, means)
    wanted = ["--sets", "mslr,mq2008,dev01", "--arms", "default;no line", "--out", str(tmp_path)]
    assert study.main(["table", *wanted, "--format", "markdown"]) == 0
    said = capsys.readouterr().out
    assert "| no line | 58.00 | +4.6667 " in said  # (50 + 55 + 69) / 3; (20 − 5 − 1) / 3
    assert "| mslr | default | 30.00 | 30.00 |" in said  # (60 + 70) / 2 against (55 + 69) / 2
    assert "| mq2008 | no line | 55.00 | 60.00 |" in said  # (50 + 69) / 2 against (30 + 70) / 2


def test_an_arm_without_all_cells_is_counted_and_left_out(
    study: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_cells(study, tmp_path, {("mslr", "default"): 0.3})
    assert study.main(["table", "--sets", "mslr", "--arms", "default;no line", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "1 of 2 arms lack cells" in said
    assert "no line" not in said


def test_inner_folds_judge_each_training_query_once(study: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pg.make_ranking(23, n_features=2, mean_size=5, random_state=0).data
    monkeypatch.setattr(study, "read_fold", lambda name, fold: (data, data[:0]))
    judged: list[int] = []
    for train, test in study.list_parts("mslr"):
        assert not set(train.qids.tolist()) & set(test.qids.tolist())
        assert train.n_queries + test.n_queries == 23
        judged += test.qids.tolist()
    assert sorted(judged) == sorted(data.qids.tolist())


def test_a_run_keeps_what_the_network_scores_on_what_judges_it(
    study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pg.make_ranking(30, n_features=3, mean_size=5, random_state=0).data
    monkeypatch.setattr(study, "list_parts", lambda name: iter([(data[:20], data[20:])]))
    monkeypatch.setitem(study.ARMS, "default", {"steps": 5, "members": 2})
    study.make_cell("mslr", "default", 0, "cpu", tmp_path)
    ranker = pg.NeuralRanker(
        steps=5,
        members=2,
        holdout=0.125,
        ridge=False,
        precision="float32",
        budget="none",
        device="cpu",
        random_state=0,
    ).fit(data[:20])
    expected = np.nanmean(pg.ndcg(ranker.predict(data[20:]), data[20:].y, data[20:].offsets, k=10))
    assert study.read_means(["mslr"], ["default"], 1, tmp_path) == {
        ("mslr", "default"): pytest.approx(100.0 * expected, abs=1e-6)
    }


def test_nothing_is_chosen_on_final_families(study: Any) -> None:
    with pytest.raises(SystemExit, match="final01 is a final family"):
        study.main(["run", "--sets", "final01"])
