"""`tune`: what it finds, resumes, refuses, prunes and survives, on a ranker that fits in no time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import yaml

from placings.core.errors import BadInput, MissingExtra, UnknownName
from placings.data.ranking import RankingData
from placings.evaluation import storage as study_storage
from placings.evaluation.spaces import Choice, Float
from placings.evaluation.trials import Task
from placings.evaluation.tuning import AllTrialsFailed, TrialRow, Tuning, tune
from placings.metrics import ndcg
from placings.rankers.estimator import Ranker
from placings.report.run_figures import draw_tuning, find_chance, weigh_parameters

SPACE = {"slope": Float(-1.0, 1.0), "sign": Choice(("plus", "minus"))}
FITS: list[dict[str, Any]] = []


class Slope(Ranker):
    """Ranks by the first column, spoilt by the second the further `slope` is from 0.3."""

    def __init__(
        self, slope: float = 0.9, sign: str = "plus", early_stopping: int = 0,
        random_state: int | None = None, fail: str = "",
    ) -> None:  # fmt: skip
        self.slope = slope
        self.sign = sign
        self.early_stopping = early_stopping
        self.random_state = random_state
        self.fail = fail

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        FITS.append({"slope": self.slope, "rows": train.n_rows, "valid": valid, "weight": train.weight})
        if self.fail == "die":
            os._exit(9)
        if self.fail == "stop":
            raise KeyboardInterrupt
        if self.fail == "all" or (self.fail == "low" and self.slope < 0):
            raise ValueError(f"slope {self.slope:.3f} is too low\nsecond line")

    def _score(self, X: Any) -> Any:
        scores = X[:, 0] - 3.0 * abs(self.slope - 0.3) * X[:, 1]
        return scores if self.sign == "plus" else -scores


@pytest.fixture(autouse=True)
def _forget() -> None:
    FITS.clear()


@pytest.fixture(scope="module")
def data() -> RankingData:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.clip(np.round(X[:, 0] + 0.5), 0, 3)
    return RankingData.from_arrays(X, y, np.repeat(np.arange(30), 10))


def tried(found: Tuning) -> list[tuple[Any, ...]]:
    return [(row.number, row.value, dict(row.params), row.state) for row in found.trials]


def test_the_best_is_near_the_known_optimum_and_the_first_trial_is_the_rankers_own(data: RankingData) -> None:
    found = tune(Slope(), data, trials=40, space=SPACE, random_state=0)
    assert found.trials[0].params == {"slope": 0.9, "sign": "plus"}
    assert abs(float(found.best_params["slope"]) - 0.3) < 0.1  # type: ignore[arg-type]
    assert found.best_params["sign"] == "plus"
    assert found.best_value == max(row.value for row in found.trials if row.state == "complete")  # type: ignore[type-var]
    best = found.best_ranker()
    assert best.get_params()["slope"] == found.best_params["slope"]
    assert not hasattr(best, "feature_names_")


def test_a_value_is_the_mean_over_the_held_out_queries_of_all_folds(data: RankingData) -> None:
    found = tune(Slope(), data, trials=1, space=SPACE, folds=4, random_state=5, metric="ndcg@3")
    values = []
    for _, held in data.folds(4, random_state=5):
        scores = Slope()._score(held.X)
        values.append(ndcg(scores, held.y, held.offsets, k=3))
    assert found.trials[0].value == pytest.approx(np.nanmean(np.concatenate(values)), abs=1e-12)
    assert [fit["rows"] for fit in FITS] == [300 - len(v) * 10 for v in values]


def test_queries_with_nothing_relevant_count_as_asked(data: RankingData) -> None:
    half = data.replace(y=np.where(np.arange(300) < 150, 0.0, data.y))
    drop, zero = (
        tune(Slope(), data, half, trials=1, space=SPACE, empty=empty, random_state=0).best_value
        for empty in ("drop", "zero")
    )
    assert zero == pytest.approx(drop / 2)


def test_with_valid_trials_are_judged_on_it_and_early_stopping_sees_it(data: RankingData) -> None:
    train, valid = data.split(0.5, 0.5, random_state=0)
    found = tune(Slope(), train, valid, trials=3, space=SPACE, random_state=0)
    assert [fit["rows"] for fit in FITS] == [train.n_rows] * 3
    assert all(fit["valid"] is not None for fit in FITS)
    assert found.trials[0].value == pytest.approx(
        float(np.nanmean(ndcg(Slope()._score(valid.X), valid.y, valid.offsets, k=10)))
    )


def test_a_metric_that_counts_ranks_is_minimised(data: RankingData) -> None:
    found = tune(Slope(), data, trials=10, space=SPACE, metric="arp", random_state=0)
    assert found.best_value == min(row.value for row in found.trials if row.state == "complete")  # type: ignore[type-var]


@pytest.mark.parametrize("method", ["tpe", "random", "grid"])
def test_the_same_seed_gives_the_same_trials(data: RankingData, method: str) -> None:
    space = {"slope": Float(-1.0, 1.0, grid=(-1.0, -0.5, 0.0, 0.3, 1.0)), "sign": Choice(("plus", "minus"))}
    one, two = (tune(Slope(), data, trials=8, method=method, space=space, random_state=3) for _ in range(2))
    other = tune(Slope(), data, trials=8, method=method, space=space, random_state=4)
    assert tried(one) == tried(two)
    assert tried(one) != tried(other)


def test_a_grid_visits_every_combination_once(data: RankingData) -> None:
    space = {"slope": [-0.5, 0.3, 0.9], "sign": ["plus", "minus"]}
    found = tune(Slope(), data, trials=None, method="grid", space=space, prune=False, random_state=0)
    seen = {(row.params["slope"], row.params["sign"]) for row in found.trials}
    assert len(found.trials) == len(seen) == 6
    assert found.best_params == {"slope": 0.3, "sign": "plus"}
    some = tune(Slope(), data, trials=4, method="grid", space=space, prune=False, random_state=0)
    assert tried(some) == tried(found)[:4]


def test_nothing_to_tune_is_one_trial(data: RankingData) -> None:
    found = tune("original", data, trials=20, random_state=0)
    assert len(found.trials) == 1
    assert found.best_params == {}


def test_trials_below_the_median_are_pruned_after_a_fold(data: RankingData) -> None:
    found = tune(Slope(), data, trials=30, method="random", space=SPACE, random_state=0)
    pruned = [row for row in found.trials if row.state == "pruned"]
    assert pruned
    assert len(FITS) < 3 * 30
    assert all(row.number >= 5 for row in pruned)  # the first five set the median
    whole = tune(Slope(), data, trials=30, method="random", space=SPACE, random_state=0, prune=False)
    assert {row.state for row in whole.trials} == {"complete"}
    assert whole.best_params == found.best_params


def test_a_trial_that_is_fully_judged_is_never_pruned(data: RankingData) -> None:
    train, valid = data.split(0.5, 0.5, random_state=0)
    held = tune(Slope(), train, valid, trials=20, method="random", space=SPACE, random_state=0)
    assert {row.state for row in held.trials} == {"complete"}
    FITS.clear()
    found = tune(Slope(), data, trials=30, method="random", space=SPACE, folds=2, random_state=0)
    fits = [sum(fit["slope"] == row.params["slope"] for fit in FITS) for row in found.trials]
    assert {(row.state, count) for row, count in zip(found.trials, fits, strict=True)} == {
        ("complete", 2),
        ("pruned", 1),
    }


# -- resuming ----------------------------------------------------------------------------------------


def test_a_stopped_search_goes_the_way_it_would_have_gone(data: RankingData, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"space": SPACE, "random_state": 0, "storage": tmp_path / "tune.db"}
    whole = tune(Slope(), data, trials=14, space=SPACE, random_state=0)
    tune(Slope(), data, trials=5, **settings)
    FITS.clear()
    resumed = tune(Slope(), data, trials=14, **settings)
    assert tried(resumed) == tried(whole)
    assert {fit["slope"] for fit in FITS} <= {row.params["slope"] for row in whole.trials[5:]}
    FITS.clear()
    again = tune(Slope(), data, trials=14, **settings)
    assert tried(again) == tried(whole)
    assert FITS == []


@pytest.mark.slow
def test_a_killed_trial_gives_its_place_back(data: RankingData, tmp_path: Path) -> None:
    """A process is killed in the middle of its fourth trial; the next call does just what is missing."""
    np.savez(tmp_path / "data.npz", X=data.X, y=data.y, qid=data.query_index)
    script = textwrap.dedent(
        f"""
        import os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import numpy as np
        import test_tuning as t
        stored = np.load({str(tmp_path / "data.npz")!r})
        data = t.RankingData.from_arrays(stored["X"], stored["y"], stored["qid"])
        fit = t.Slope._fit
        def die(self, train, valid):
            if len(t.FITS) == 10:
                os.kill(os.getpid(), signal.SIGKILL)
            fit(self, train, valid)
        t.Slope._fit = die
        t.tune(t.Slope(), data, trials=9, space=t.SPACE, random_state=0, storage={str(tmp_path / "t.db")!r})
        """
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    found = tune(Slope(), data, trials=9, space=SPACE, random_state=0, storage=tmp_path / "t.db")
    assert len({fit["slope"] for fit in FITS}) == 6  # three of nine were done
    assert tried(found) == tried(tune(Slope(), data, trials=9, space=SPACE, random_state=0))


def test_ctrl_c_leaves_a_study_that_goes_on(data: RankingData, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"space": SPACE, "random_state": 0, "storage": tmp_path / "tune.db"}
    with (
        mock.patch.object(Slope, "_fit", side_effect=[None] * 7 + [KeyboardInterrupt]),
        pytest.raises(KeyboardInterrupt),
    ):
        tune(Slope(), data, trials=6, **settings)
    found = tune(Slope(), data, trials=6, **settings)
    assert len({fit["slope"] for fit in FITS}) == 4  # two of six were done
    assert tried(found) == tried(tune(Slope(), data, trials=6, space=SPACE, random_state=0))


def test_without_a_seed_a_resumed_study_keeps_the_one_it_drew(data: RankingData, tmp_path: Path) -> None:
    first = tune(Slope(), data, trials=2, space=SPACE, storage=tmp_path / "tune.db")
    second = tune(Slope(), data, trials=4, space=SPACE, storage=tmp_path / "tune.db")
    assert second.seed == first.seed
    assert tried(second)[:2] == tried(first)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"metric": "mrr"}, 'metric was "ndcg@10", is "mrr"'),
        ({"folds": 4}, "folds was 3, is 4"),
        ({"space": {"slope": Float(-1.0, 2.0)}}, "space was"),
        ({"random_state": 1}, "seed was 0, is 1"),
        ({"method": "random"}, "method was"),
        ({"empty": "zero"}, "empty was"),
    ],
)
def test_a_study_of_this_name_takes_no_other_trials(
    data: RankingData, tmp_path: Path, change: dict[str, Any], what: str
) -> None:
    settings: dict[str, Any] = {
        "space": SPACE,
        "random_state": 0,
        "storage": tmp_path / "t.db",
        "study": "mine",
    }
    tune(Slope(), data, trials=1, **settings)
    with pytest.raises(BadInput, match=f"study 'mine' in .*{what}.*another study name"):
        tune(Slope(), data, trials=2, **{**settings, **change})


def test_other_data_or_another_ranker_cannot_be_mixed_in(data: RankingData, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "space": SPACE,
        "random_state": 0,
        "storage": tmp_path / "t.db",
        "study": "mine",
    }
    tune(Slope(), data, trials=1, **settings)
    with pytest.raises(BadInput, match="train was"):
        tune(Slope(), data[:20], trials=2, **settings)
    with pytest.raises(BadInput, match="settings was"):
        tune(Slope(early_stopping=3), data, trials=2, **settings)
    settings.pop("study")  # without a name they are different studies in one storage
    assert len(tune(Slope(), data[:20], trials=2, **settings).trials) == 2
    assert len(tune(Slope(), data, trials=2, **settings).trials) == 2


def test_a_file_that_is_no_database_is_left_alone(data: RankingData, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("dear diary, today")
    with pytest.raises(BadInput, match="must be an SQLite file"):
        tune(Slope(), data, trials=1, space=SPACE, storage=tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "dear diary, today"


def test_of_two_that_claim_the_last_place_one_withdraws() -> None:
    with study_storage.quiet_optuna() as optuna:
        study = optuna.create_study()
        planner = study_storage.Planner("random", {"slope": Float(0.0, 1.0)}, {}, 0)
        counted = study_storage.list_counted

        def another_is_faster(which: Any) -> Any:
            seen = counted(which)
            if not which.trials:
                which.ask()
            return seen

        with mock.patch.object(study_storage, "list_counted", another_is_faster):
            assert study_storage.claim_trial(study, planner, 1) is None
        assert len(counted(study)) == 1


# -- failing -----------------------------------------------------------------------------------------


def test_a_failing_trial_is_recorded_and_skipped(data: RankingData) -> None:
    found = tune(Slope(fail="low"), data, trials=12, method="random", space=SPACE, random_state=0)
    failed = [row for row in found.trials if row.state == "failed"]
    assert failed
    assert len(found.trials) == 12
    assert all(float(row.params["slope"]) < 0 for row in failed)  # type: ignore[arg-type]
    assert failed[0].error == f"ValueError: slope {failed[0].params['slope']:.3f} is too low"
    assert failed[0].value is None


def test_if_all_fail_the_first_message_is_said(data: RankingData) -> None:
    with pytest.raises(
        AllTrialsFailed, match="none of the 3 trials of Slope .* ValueError: slope 0.900 is too low"
    ):
        tune(Slope(fail="all"), data, trials=3, space=SPACE, random_state=0)


def test_no_relevant_query_is_a_clear_error(data: RankingData) -> None:
    with pytest.raises(AllTrialsFailed, match="no held-out query has anything relevant"):
        tune(Slope(), data, data.replace(y=np.zeros(300)), trials=2, space=SPACE)


def test_no_time_is_a_clear_error(data: RankingData) -> None:
    with pytest.raises(AllTrialsFailed, match="no trial was finished in the time given"):
        tune(Slope(), data, space=SPACE, timeout=-1.0)


def test_a_library_that_is_missing_ends_the_search_at_once(data: RankingData) -> None:
    with (
        mock.patch.object(Slope, "_fit", side_effect=MissingExtra("Slope", "slopes", "hills")),
        pytest.raises(MissingExtra, match="placings\\[hills\\]"),
    ):
        tune(Slope(), data, space=SPACE)


def test_without_optuna_the_extra_is_named(data: RankingData) -> None:
    with (
        mock.patch.dict(sys.modules, {"optuna": None}),
        pytest.raises(MissingExtra, match="placings\\[tune\\]"),
    ):
        tune(Slope(), data, space=SPACE)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "annealing"}, UnknownName, "no method 'annealing'"),
        ({"trials": 0}, BadInput, "trials must be a whole number of 1 or more"),
        ({"folds": 1}, BadInput, "folds must be a whole number of 2 or more"),
        ({"workers": 0}, BadInput, "workers must be"),
        ({"metric": "ndgc"}, UnknownName, "no metric 'ndgc'"),
        ({"valid": "x"}, BadInput, "valid must be a RankingData"),
        ({"trials": None}, BadInput, "there must be a timeout"),
        ({"ranker": 3}, BadInput, "takes an unfitted ranker or the name of one"),
        ({"ranker": "lightgmb"}, UnknownName, "did you mean 'lightgbm'"),
    ],
)
def test_bad_arguments_are_named(
    data: RankingData, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    settings: dict[str, Any] = {"ranker": Slope(), "space": SPACE, **change}
    with pytest.raises(error, match=message):
        tune(train=data, **settings)


# -- workers -----------------------------------------------------------------------------------------


def test_workers_try_what_one_would_and_do_no_more_than_asked(data: RankingData, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "trials": 7,
        "method": "random",
        "space": SPACE,
        "random_state": 0,
        "prune": False,
    }
    alone = tune(Slope(), data, **settings)
    together = tune(Slope(), data, workers=2, storage=tmp_path / "tune.db", **settings)
    assert tried(together) == tried(alone)
    assert tried(tune(Slope(), data, storage=tmp_path / "tune.db", **settings)) == tried(alone)


@pytest.mark.slow
def test_a_worker_that_dies_is_a_failed_trial_and_is_replaced(data: RankingData) -> None:
    space = {"fail": ["die", ""]}
    found = tune(Slope(), data, method="grid", space=space, workers=2, random_state=0)
    ends = {row.params["fail"]: (row.state, row.error) for row in found.trials}
    assert ends[""] == ("complete", "")
    assert ends["die"] == ("failed", "the worker process ended with code 9 in this trial")


def test_workers_need_a_class_that_they_can_find(data: RankingData) -> None:
    class Local(Slope):
        pass

    with pytest.raises(BadInput, match="Move it into a module, or use workers=1"):
        tune(Local(), data, space=SPACE, workers=2)
    with pytest.raises(BadInput, match="parameters are plain values"):
        tune(Slope(early_stopping=Path("x")), data, space=SPACE, workers=2)  # type: ignore[arg-type]


# -- what comes out ----------------------------------------------------------------------------------


def test_a_tuned_positive_weight_reaches_the_rows(data: RankingData) -> None:
    found = tune(Slope(), data, method="grid", space={"positive_weight": [5.0]}, random_state=0)
    assert set(FITS[0]["weight"].tolist()) == {1.0, 5.0}
    assert found.best_params == {"positive_weight": 5.0}
    found.fit(data)
    assert set(FITS[-1]["weight"].tolist()) == {1.0, 5.0}


def test_what_is_saved_reads_back(data: RankingData, tmp_path: Path) -> None:
    found = tune(Slope(), data, trials=3, space=SPACE, random_state=0)
    folder = found.save(tmp_path / "out")
    stored = json.loads((folder / "best.json").read_text())
    assert stored == json.loads(found.to_json())
    assert stored["best_params"] == found.best_params
    assert [row["number"] for row in stored["trials"]] == [0, 1, 2]
    best = yaml.safe_load((folder / "best.yaml").read_text())
    assert (best["ranker"], best["seed"]) == ("Slope", 0)
    assert best["set"] == {"early_stopping": 0, "fail": "", **found.best_params}
    assert sorted(path.name for path in folder.iterdir()) == ["best.json", "best.yaml"]


def test_the_table_has_the_best_trial_first(data: RankingData) -> None:
    found = tune(Slope(), data, trials=4, space=SPACE, random_state=0)
    lines = repr(found).splitlines()
    assert lines[0].startswith("Tuning of Slope: 4 trials (4 complete), method tpe, seed 0, empty='drop'")
    assert lines[1].split() == ["trial", "ndcg@10", "seconds", "slope", "sign"]
    assert lines[2].split()[0] == str(found.best.number)


def test_the_ranker_is_seeded_unless_it_has_a_seed(data: RankingData) -> None:
    assert tune(Slope(), data, trials=1, space=SPACE, random_state=7).best_ranker().random_state == 7  # type: ignore[attr-defined]
    given = tune(Slope(random_state=1), data, trials=1, space=SPACE, random_state=7)
    assert given.best_ranker().random_state == 1  # type: ignore[attr-defined]


def test_the_curve_shows_trials_best_so_far_and_what_mattered(data: RankingData) -> None:
    found = tune(
        Slope(fail="low"), data, trials=60, method="random", space=SPACE, prune=False, random_state=0
    )
    drawn = draw_tuning(found)
    assert drawn.startswith("<svg")
    for word in ("best so far", "failed", "ndcg@10", "sign", "chance"):
        assert word in drawn
    shares = weigh_parameters(found)
    assert next(iter(shares)) == "sign"  # an order upside down costs the most
    assert shares["sign"] > find_chance(found)
    few = tune(Slope(), data, trials=3, space=SPACE, random_state=0)
    assert weigh_parameters(few) == {}
    assert "chance" not in draw_tuning(few)


@pytest.mark.slow
def test_parameters_without_effect_pass_the_chance_line_in_about_one_search_of_twenty() -> None:
    """60 searches over five idle parameters: 3 are expected to pass; more than 8 has odds of 1 in 350."""
    space = {f"p{number}": Float(0.0, 1.0) for number in range(5)}
    passed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = tuple(
            TrialRow(place, rng.normal(), {name: float(rng.random()) for name in space}, "complete", 0.0)
            for place in range(20)
        )
        found = Tuning(Slope(), "ndcg@10", True, "drop", "random", space, seed, "idle", rows)
        passed += max(weigh_parameters(found).values()) > find_chance(found)
    assert passed <= 8


def test_progress_says_nothing_without_a_terminal(
    data: RankingData, capsys: pytest.CaptureFixture[str]
) -> None:
    tune(Slope(), data, trials=2, space=SPACE, progress=True)
    assert capsys.readouterr() == ("", "")


def test_folds_of_a_log_keep_sessions_whole_and_a_kept_study_knows_it(tmp_path: Path) -> None:
    qid = np.repeat(np.arange(12), 4)
    X = np.random.default_rng(0).random((48, 2))
    sessions = {"session_id": np.array([f"s{q % 4}" for q in qid], dtype=object)}
    log = RankingData.from_arrays(X, (X[:, 0] > 0.5).astype(float), qid, segments=sessions)
    task = Task(Slope(), log, None, 4, "ndcg@10", "drop", 0)
    for learned, held in task._parts():
        assert set(learned.segments["session_id"]).isdisjoint(held.segments["session_id"])
        assert len(held) == 3  # one session of four
    kept = tmp_path / "study.db"
    found = tune(Slope(), log, trials=2, space=SPACE, folds=2, storage=kept, study="x", random_state=0)
    assert found.group == found.to_dict()["group"] == "session_id"
    assert "folds of whole sessions" in found.summary()
    with pytest.raises(BadInput, match="group"):  # other folds are another study
        tune(Slope(), log, trials=2, space=SPACE, folds=2, storage=kept, study="x", group="query")
    alone = tune(Slope(), log, trials=2, space=SPACE, folds=2, random_state=0, group="query")
    plain = tune(Slope(), log.replace(segments={}), trials=2, space=SPACE, folds=2, random_state=0)
    assert [row.value for row in alone.trials] == [row.value for row in plain.trials]
    assert alone.group is None
