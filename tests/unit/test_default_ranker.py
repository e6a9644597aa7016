"""The contest of the default ranker: cells are kept, sets have equal weight, final scores stay hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placings as pg
from placings.core.errors import UnknownName
from placings.rankers.presets import NetworkSettings, settle

pytest.importorskip("lightgbm")
pytest.importorskip("optuna")
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
TWO = ("--methods", "ridge,lightgbm", "--folds", "1", "--minutes", "0.02", "--processes", "0")


@pytest.fixture
def contest(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import default_ranker

    monkeypatch.setattr(default_ranker, "read_fold", make_small)
    return default_ranker


def make_small(name: str, fold: int) -> tuple[pg.RankingData, pg.RankingData]:
    """Two small sets instead of the families, one for each name."""
    data = pg.make_ranking(60, n_features=6, mean_size=10, random_state=len(name) + fold).data
    return data[:40], data[40:]


def fill_cells(contest: Any, out: Path, scores: dict[tuple[str, str], list[float]]) -> None:
    """Cells of given values, without training anything."""
    for (name, method), values in scores.items():
        task = contest.Task(name, 0, method, 2.0)
        cell = {
            "values": {metric: contest.pack_values(np.array(values)) for metric in contest.METRICS},
            "members": {
                member: dict.fromkeys(contest.METRICS, mean) for member, mean in (("one", 0.25), ("two", 0.5))
            },
            "seconds": 1.0, "cpu_seconds": 1.0, "load": [0.0, 0.0],
        }  # fmt: skip
        contest.keep_cell(out / name, task.name, task.made_of, lambda cell=cell: cell)


def test_a_run_keeps_its_cells_and_a_second_one_makes_none(
    contest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = ("--sets", "dev14,final01", *TWO, "--out", str(tmp_path))
    assert contest.main(["run", *wanted]) == 0
    said = capsys.readouterr().out
    assert "4 cells, 0 of them there, 4 to do" in said
    assert len(list(tmp_path.glob("*/*.json"))) == 4
    assert max(path.stat().st_size for path in tmp_path.glob("*/*.json")) < 20_000
    for line in said.splitlines()[1:]:  # how good it is may be printed of families for development only
        assert ("ndcg" in line) == ("dev14" in line)
        assert (": done, " in line) == ("final01" in line)

    monkeypatch.setattr(contest, "make_cell", lambda task: pytest.fail("a kept cell was made again"))
    assert contest.main(["run", *wanted]) == 0
    assert "4 cells, 4 of them there, 0 to do" in capsys.readouterr().out


def test_a_cell_holds_what_the_ranker_scores_on_the_test_queries(contest: Any, tmp_path: Path) -> None:
    task = contest.Task("dev14", 0, "ridge", 2.0)
    cell = contest.run_task(task, tmp_path)
    ranker, _ = contest.fit_ridge(task, make_small("dev14", 0)[0])
    test = make_small("dev14", 0)[1]
    expected = pg.ndcg(ranker.predict(test), test.y, test.offsets, k=5)
    np.testing.assert_allclose(contest.unpack_values(cell["values"]["ndcg@5"]), expected, atol=1e-5)
    assert cell["chosen"]["settings"]["transform"] in contest.TRANSFORMS


def test_a_failed_cell_is_said_and_not_kept(
    contest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("no luck")

    monkeypatch.setitem(contest.FITS, "ridge", fail)
    assert contest.main(["run", "--sets", "dev14", *TWO, "--out", str(tmp_path)]) == 1
    assert "dev14 fold0 ridge: failed, ValueError: no luck" in capsys.readouterr().out
    assert [path.name.split("-")[0] for path in tmp_path.glob("*/*.json")] == ["dev14_fold0_lightgbm_0_02m"]


def test_without_their_data_real_sets_are_skipped(
    contest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "DATA", tmp_path / "nowhere")
    assert contest.main(["run", "--sets", "real", *TWO, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("skipped: ")
    assert "0 cells" in said


def test_minutes_belong_to_the_name_of_a_cell_with_a_budget_only(contest: Any) -> None:
    def name(method: str, minutes: float) -> Any:
        return contest.Task("dev01", 0, method, minutes).made_of

    assert name("auto", 1.0) != name("auto", 10.0)
    assert name("ridge", 1.0) == name("ridge", 10.0)


def test_a_method_with_a_new_revision_has_new_cells(contest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    task = contest.Task("dev01", 0, "auto", 1.0)
    before = task.made_of
    monkeypatch.setitem(contest.REVISIONS, "auto", 99)
    assert task.made_of != before


def test_the_old_network_has_the_settings_of_its_day(contest: Any) -> None:
    given = {**pg.NeuralRanker().get_params(deep=False), **contest.OLD}
    assert settle("default", given) == NetworkSettings()  # nothing of what the preset has become
    assert settle("default", {**given, **contest.OLD_LARGE}, 5000).dropout == 0.3


def test_every_set_has_the_same_weight_however_many_queries_it_has(contest: Any) -> None:
    found = contest.weigh_sets({"small": np.full(10, 0.3), "large": np.full(1000, -0.1)})
    assert found.mean == pytest.approx(0.1)  # (0.3 − 0.1) / 2
    assert (found.low, found.high) == pytest.approx((0.1, 0.1))  # queries of a set are alike here
    assert (found.sets, found.ahead) == (2, 1)


def test_a_difference_is_significant_over_all_sets_only_if_it_is_there(contest: Any) -> None:
    rng = np.random.default_rng(0)
    noise = {f"set{number}": rng.normal(0.0, 0.1, 200) for number in range(8)}
    assert contest.weigh_sets(noise).p > 0.05
    there = contest.weigh_sets({name: values + 0.05 for name, values in noise.items()})
    assert there.p < 0.001
    assert there.p_sets == pytest.approx(2 / 2**8)  # Wilcoxon's smallest of eight sets
    assert there.low < 0.05 < there.high
    assert contest.weigh_sets({}) is None


def test_the_table_says_where_auto_is_behind_and_what_is_missing(
    contest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    good, bad = rng.uniform(0.6, 0.8, 300), rng.uniform(0.2, 0.4, 300)
    fill_cells(
        contest, tmp_path,
        {("dev01", "auto"): [*bad, np.nan], ("dev01", "lightgbm"): [*good, np.nan],
         ("mslr", "auto"): list(good), ("mslr", "lightgbm"): list(bad)},
    )  # fmt: skip
    wanted = [
        "--sets",
        "dev01,mslr",
        "--methods",
        "auto,lightgbm,ridge",
        "--folds",
        "1",
        "--out",
        str(tmp_path),
    ]
    assert contest.main(["table", *wanted, "--format", "markdown"]) == 0
    said = capsys.readouterr().out
    assert "ndcg@10; 2 of 6 cells are missing" in said  # ridge, on both
    assert "1 queries without anything relevant were left out" in said
    assert "auto is significantly behind lightgbm on dev01" in said
    assert "lightgbm on mslr" not in said
    assert "minus its best member in hindsight" in said
    own = format(bad.mean() - 0.5, "+.4f").replace("-", "−")
    assert f"| dev01 | {bad.mean():.4f} | {own} | two |" in said


def test_networks_are_judged_apart_where_effects_add_up_and_where_they_interact(
    contest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    families = contest.FAMILIES
    additive = next(name for name, each in families.items() if each.truth == "additive")
    interacting = next(name for name, each in families.items() if each.truth == "interacting")
    ridge = np.random.default_rng(0).uniform(0.3, 0.7, 200)
    fill_cells(
        contest, tmp_path,
        {(additive, "ridge"): list(ridge), (additive, "neural"): list(ridge - 0.001),
         (interacting, "ridge"): list(ridge), (interacting, "neural"): list(ridge + 0.004)},
    )  # fmt: skip
    wanted = ["--sets", f"{additive},{interacting}", "--methods", "ridge,neural", "--folds", "1"]
    assert contest.main(["table", *wanted, "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "not behind by 0.003: shown" in said  # −0.001 of every query
    assert "ahead by 0.005: no" in said  # +0.004 of every query


def test_the_curve_compares_budgets_and_names_what_is_missing(
    contest: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_cells(contest, tmp_path, {("dev01", "auto"): [0.5, 0.7, 0.6]})
    assert (
        contest.main(
            ["curve", "--sets", "dev01", "--minutes", "2,10", "--folds", "1", "--out", str(tmp_path)]
        )
        == 0
    )
    said = capsys.readouterr().out
    assert "dev01, 2 min" in said
    assert "0.6000" in said
    assert "1 cells are missing" in said


def test_a_larger_budget_goes_on_from_the_steps_that_a_smaller_one_kept(
    contest: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []

    class Quick(pg.AutoRanker):
        """As many steps as the seconds of the budget."""

        def _fit(self, *parts: Any) -> None:
            self.set_params(steps=round(self.budget), kinds=["linear"], folds=2)
            super()._fit(*parts)
            taken.append(len(list(Path(self.keep).glob("step-*"))))

    monkeypatch.setattr(contest.pg, "AutoRanker", Quick)
    keep = tmp_path / "kept"
    for seconds in (2, 4):
        wanted = ["--sets", "dev01", "--methods", "auto", "--folds", "1", "--minutes", str(seconds / 60)]
        wanted += ["--processes", "0", "--out", str(tmp_path), "--keep", str(keep)]
        assert contest.main(["run", *wanted]) == 0
    assert taken == [2, 4]
    assert [path.name for path in keep.iterdir()] == ["dev01-0"]


def test_a_run_has_one_budget(contest: Any) -> None:
    with pytest.raises(SystemExit, match="one budget"):
        contest.main(["run", "--minutes", "1,10"])


def test_folds_of_a_real_set_are_apart_and_cover_it(contest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # read_fold as it is
    data = pg.make_ranking(20, n_features=2, mean_size=5, random_state=0).data
    monkeypatch.setitem(contest.REAL, "mslr", lambda: data)
    tested: list[int] = []
    for fold in range(3):
        train, test = contest.read_fold("mslr", fold)
        assert not set(train.qids.tolist()) & set(test.qids.tolist())
        assert train.n_queries + test.n_queries == 20
        tested += test.qids.tolist()
    assert sorted(tested) == sorted(data.qids.tolist())


def test_a_large_set_is_its_family_with_many_queries(contest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # read_fold as it is
    monkeypatch.setattr(contest, "LARGE_QUERIES", 50)
    train, test = contest.read_fold("final13-large", 0)
    assert (train.n_queries, test.n_queries) == (50, 1000)
    assert train.feature_names == contest.make_family("final13").train.feature_names
    assert contest.is_final("final13-large")
    assert not contest.is_final("dev02-large")
    assert not contest.is_final("mslr")
    assert {contest.find_family(name).part for name in contest.list_sets("final-large")} == {"final"}


def test_groups_and_names_of_sets_are_understood_and_others_refused(contest: Any) -> None:
    assert contest.list_sets("wikitables,real") == ["wikitables", "mslr", "ohsumed", "mq2008"]
    assert len(contest.list_sets("dev,final")) == 28
    with pytest.raises(UnknownName, match="no set 'web30k'"):
        contest.list_sets("web30k")
    with pytest.raises(UnknownName, match="no method 'best'"):
        contest.main(["table", "--methods", "best"])
