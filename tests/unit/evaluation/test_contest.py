"""`compare_trained`: the same folds for all, cells kept and taken up again, equal budgets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from placings.core.errors import BadInput, PlacingsWarning, UnknownName
from placings.data.ranking import RankingData
from placings.data.reading import write
from placings.evaluation.contest import compare_trained, read_folds
from placings.rankers.estimator import Ranker
from placings.simulate.rankings import make_ranking

FITTED: list[tuple[int, int, int]] = []


class Jittered(Ranker):
    """Scores by a column with noise from its seed; keeps count of its fits."""

    def __init__(self, column: int = 0, noise: float = 0.1, random_state: int | None = None) -> None:
        self.column = column
        self.noise = noise
        self.random_state = random_state

    def _fit(self, train: RankingData, valid: RankingData | None) -> None:
        assert valid is not None
        FITTED.append((self.column, len(train), int(self.random_state or 0)))

    def _score(self, X: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(self.random_state)
        return np.asarray(X)[:, self.column] + self.noise * rng.normal(size=len(X))


@pytest.fixture
def data() -> RankingData:
    FITTED.clear()
    return make_ranking(30, n_features=4, mean_size=8, random_state=0).data


def test_every_ranker_is_fitted_on_every_fold_and_seed(data: RankingData) -> None:
    rankers = {"a": Jittered(0), "b": Jittered(1)}
    contest = compare_trained(data, rankers, folds=3, seeds=2, baseline="a", random_state=5)
    assert len(FITTED) == 2 * 3 * 2
    assert {seed for _, _, seed in FITTED} == {5, 6}
    assert {size for _, size, _ in FITTED} == {10}  # one third trains, one validates, one tests
    result = contest.comparison
    assert result.settings["seeds"] == {"a": 2, "b": 2}
    assert result.settings["folds"] == 3
    assert result.counts["queries"] == 30
    assert rankers["a"].random_state is None
    assert contest.seconds["a"] > 0


def test_a_stopped_run_goes_on_and_a_finished_one_trains_nothing(data: RankingData, tmp_path: Path) -> None:
    rankers = {"a": Jittered(0), "b": Jittered(1)}
    first = compare_trained(data, rankers, folds=3, seeds=2, out=tmp_path).comparison.to_json()
    FITTED.clear()
    assert compare_trained(data, rankers, folds=3, seeds=2, out=tmp_path).comparison.to_json() == first
    assert FITTED == []
    (kept,) = (tmp_path / "cells").glob("b-fold2-seed1-*.npy")
    kept.unlink()
    assert compare_trained(data, rankers, folds=3, seeds=2, out=tmp_path).comparison.to_json() == first
    assert [(column, seed) for column, _, seed in FITTED] == [(1, 1)]


def test_a_damaged_cell_is_said_and_made_anew(data: RankingData, tmp_path: Path) -> None:
    first = compare_trained(data, {"a": Jittered()}, folds=3, out=tmp_path).comparison.to_json()
    (kept,) = (tmp_path / "cells").glob("a-fold1-*.npy")
    kept.write_bytes(kept.read_bytes()[:-5])
    with pytest.warns(PlacingsWarning, match="is damaged; it is made anew"):
        again = compare_trained(data, {"a": Jittered()}, folds=3, out=tmp_path)
    assert again.comparison.to_json() == first


def test_other_settings_or_data_are_other_cells(data: RankingData, tmp_path: Path) -> None:
    compare_trained(data, {"a": Jittered()}, folds=3, out=tmp_path)
    FITTED.clear()
    compare_trained(data, {"a": Jittered(noise=0.2)}, folds=3, out=tmp_path)
    compare_trained(data.replace(y=data.y[::-1].copy()), {"a": Jittered()}, folds=3, out=tmp_path)
    assert len(FITTED) == 6


def test_tuning_is_asked_once_a_fold_with_the_same_budget_and_used(data: RankingData, tmp_path: Path) -> None:
    asked = []

    def tuner(ranker, train, *, valid, trials, metric, empty, random_state):
        asked.append((type(ranker).__name__, len(train), len(valid), trials, metric, empty, random_state))
        return SimpleNamespace(best_params={"column": 3})

    options = {"folds": 3, "seeds": 2, "tune": 7, "tuner": tuner, "out": tmp_path, "tuning_metric": "mrr"}
    contest = compare_trained(data, {"a": Jittered(), "b": Jittered(1)}, **options)
    assert asked == [("Jittered", 10, 10, 7, "mrr", "drop", 0)] * 6
    assert {column for column, _, _ in FITTED} == {3}
    assert contest.parameters["a"] == [{"column": 3}] * 3
    compare_trained(data, {"a": Jittered(), "b": Jittered(1)}, **options)
    assert len(asked) == 6  # kept


def test_a_file_is_dealt_into_query_folds(data: RankingData, tmp_path: Path) -> None:
    write(data, tmp_path / "rows.parquet")
    folds = read_folds(tmp_path / "rows.parquet", 3, 0, {})
    tested = [qid for _, _, test in folds for qid in test.qids.tolist()]
    assert sorted(tested) == sorted(data.qids.tolist())


@pytest.mark.filterwarnings("ignore::placings.core.errors.Mismatch")
def test_a_collections_own_folds_are_used(tmp_path: Path) -> None:
    folder = tmp_path / "MQ2008"
    folder.mkdir()
    for part in range(1, 6):
        rows = make_ranking(2, n_features=46, mean_size=4, random_state=part).data
        write(rows.replace(qids=rows.qids + 100 * part), folder / f"S{part}.txt")
    folds = read_folds(folder, None, 0, {})
    assert len(folds) == 5
    assert sorted(map(int, folds[0][2].qids.tolist())) == [501, 502]  # fold 1 tests on S5
    assert sorted(map(int, folds[0][1].qids.tolist())) == [401, 402]
    assert len(read_folds(folder, 2, 0, {})) == 2


def test_short_names_make_rankers_and_wrong_ones_are_named(data: RankingData) -> None:
    contest = compare_trained(data, ["ridge"], folds=3, seeds=3)
    assert contest.comparison.settings["seeds"] == {"ridge": 1}  # nothing random in it: once is enough
    with pytest.raises(UnknownName, match="did you mean 'ridge'"):
        compare_trained(data, ["rigde"], folds=3)
    with pytest.raises(BadInput, match="at least one"):
        compare_trained(data, [], folds=3)
    with pytest.raises(BadInput, match="train, valid, test"):
        compare_trained([], ["ridge"])


def with_sessions(data: RankingData) -> RankingData:
    """In sessions of three queries, dealt out so that neighbours are of other sessions."""
    ids = np.array([f"s{place % 10}" for place in range(len(data))], dtype=object)
    return data.replace(segments={"session_id": np.repeat(ids, data.sizes)})


def list_sessions(data: RankingData) -> set[str]:
    return set(data.segments["session_id"].tolist())


def test_no_session_stands_on_both_sides_of_a_fold(data: RankingData) -> None:
    log = with_sessions(data)
    for train, valid, test in read_folds(log, 5, 0, {}):
        assert valid is not None
        for one, other in ((train, valid), (train, test), (valid, test)):
            assert list_sessions(one).isdisjoint(list_sessions(other))
    old = [[part.qids.tolist() for part in fold if part] for fold in read_folds(data, 5, 0, {})]
    again = [[part.qids.tolist() for part in fold if part] for fold in read_folds(log, 5, 0, {}, "query")]
    assert again == old


def test_a_comparison_says_whether_sessions_were_kept_whole(data: RankingData) -> None:
    rankers = {"a": Jittered(0)}
    log = with_sessions(data)
    whole = compare_trained(log, rankers, folds=3).comparison
    assert whole.notes[-1] == "Folds: whole sessions; none is in training and test at once."
    cut = compare_trained(log, rankers, folds=3, group="query").comparison
    assert "sessions are in training and test at once" in cut.notes[-1]
    assert not any("Folds" in note for note in compare_trained(data, rankers, folds=3).comparison.notes)
