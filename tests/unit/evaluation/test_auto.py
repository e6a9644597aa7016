"""`AutoRanker`: what time may decide and what not, what is kept, and what may enter the blend."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import placings as pg
from placings.core import BadInput
from placings.data import RankingData
from placings.evaluation import auto, inner_trials
from placings.evaluation.auto import AutoRanker, Ledger, guess_seconds
from placings.evaluation.inner_trials import CS, OutOfTime, Tried, cut_step, deal_folds, score_path
from placings.evaluation.portfolio import Candidate, Step
from placings.rankers import LinearRanker, make_scorer, score_ridges

TREES_TOO: dict[str, Any] = {"kinds": ["linear", "lightgbm"], "folds": 3, "random_state": 0}
QUICK: dict[str, Any] = {"kinds": ["linear"], "folds": 3, "random_state": 0}


@pytest.fixture(scope="module")
def data() -> RankingData:
    return pg.make_ranking(40, n_features=5, mean_size=8, random_state=0).data


@pytest.fixture(scope="module")
def test() -> RankingData:
    return pg.make_ranking(30, n_features=5, mean_size=8, random_state=1).data


def count_steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    taken: list[Step] = []
    real = auto.take_step

    def take(step: Step, *args: Any) -> Tried:
        taken.append(step)
        return real(step, *args)

    monkeypatch.setattr(auto, "take_step", take)
    return taken


# -- time ------------------------------------------------------------------------------------------


def test_steps_repeat_what_a_budget_got_to(
    data: RankingData, test: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that jumps by a second a look: a budget of ten seconds ends early, whatever the machine."""
    clock = iter(range(10**6))
    monkeypatch.setattr(auto.time, "perf_counter", lambda: float(next(clock)))
    first = AutoRanker(budget="10s", **QUICK).fit(data)
    monkeypatch.undo()
    assert 1 < first.steps_ < 15
    again = AutoRanker(steps=first.steps_, **QUICK).fit(data)
    assert again.steps_ == first.steps_
    assert again.shares_ == first.shares_
    np.testing.assert_array_equal(again.predict(test), first.predict(test))


def test_a_step_that_runs_out_of_time_counts_as_never_begun(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = auto.take_step

    def take(step: Step, *args: Any) -> Tried:
        if step.candidate.name == "ridge over cdf":
            raise OutOfTime
        return real(step, *args)

    monkeypatch.setattr(auto, "take_step", take)
    ranker = AutoRanker(budget="1h", **QUICK).fit(data)
    assert ranker.steps_ == 2
    assert "had no room for step 3" in ranker.report()


def test_a_network_is_broken_off_when_the_time_is_up(data: RankingData) -> None:
    pytest.importorskip("torch")
    step = Step(Candidate("neural", "neural", "neural", {"steps": 3000, "check_every": 5}), 0, 0)
    with pytest.raises(OutOfTime):
        inner_trials.take_step(step, data, deal_folds(data, 3, 0), 0, "ndcg@10", left=0.01)


def test_a_whole_fold_is_expected_to_take_longer_than_a_sample() -> None:
    candidate = Candidate("LightGBM", "lightgbm", "lightgbm")
    ledger = Ledger()
    ledger.add(
        Tried(Step(candidate, 0, 0, 1000), np.arange(3), np.zeros((1, 3)), np.zeros((1, 3)), 2.0, None)
    )
    assert guess_seconds(Step(candidate, 0, 0), ledger, 5000) == 10.0  # 2 s · 5,000 / 1,000
    assert guess_seconds(Step(candidate, 0, 1, 1000), ledger, 5000) == 2.0
    other = Candidate("LightGBM, small trees", "lightgbm", "lightgbm")
    assert guess_seconds(Step(other, 0, 0, 1000), ledger, 5000) == 2.0  # by its kind


def test_ctrl_c_takes_the_best_so_far(data: RankingData, monkeypatch: pytest.MonkeyPatch) -> None:
    real = auto.take_step

    def take(step: Step, *args: Any) -> Tried:
        if step.candidate.name == "ridge over log1p":
            raise KeyboardInterrupt
        return real(step, *args)

    monkeypatch.setattr(auto, "take_step", take)
    ranker = AutoRanker(**QUICK).fit(data)
    assert ranker.interrupted_
    assert ranker.steps_ == 3
    assert "it was stopped by hand" in ranker.report()
    assert np.isfinite(ranker.predict(data)).all()


def test_ctrl_c_before_the_first_step_is_done_ends_it(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: Any) -> Tried:
        raise KeyboardInterrupt

    monkeypatch.setattr(auto, "take_step", stop)
    with pytest.raises(KeyboardInterrupt):
        AutoRanker(**QUICK).fit(data)


def test_looks_at_a_sample_are_enough_for_a_ranker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget may end before anything was fitted on a whole fold."""
    monkeypatch.setattr("placings.evaluation.portfolio.LARGE", 20)
    data = pg.make_ranking(40, n_features=5, mean_size=8, random_state=0).data
    ranker = AutoRanker(kinds=["lightgbm"], folds=3, steps=1, random_state=0).fit(data)
    assert "on a sample of 20 queries" in ranker.report()
    assert "had time to learn from more than 20 queries" in ranker.report()
    assert "had time" not in AutoRanker(kinds=["lightgbm"], folds=3, steps=2).fit(data).report()
    assert ranker.shares_ == {"LightGBM": 1.0}


def test_of_many_queries_one_fold_is_followed_by_fits_on_everything_and_all_is_saved(
    data: RankingData, test: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("placings.evaluation.portfolio.LARGE", 15)
    monkeypatch.setattr("placings.evaluation.portfolio.MANY", 30)
    taken = count_steps(monkeypatch)
    ranker = AutoRanker(steps=16, **TREES_TOO).fit(data)
    looks = [step for step in taken if step.sample is not None]
    whole = next(place for place, step in enumerate(taken) if step.whole)
    before = [step for step in taken[:whole] if step.sample is None]
    assert {step.fold for step in before} == {0}
    assert taken[whole].candidate.kind == "lightgbm"
    assert max(step.candidate.settings.get("rounds", 0) for step in looks) == 2000
    ranker.save(tmp_path / "model")
    np.testing.assert_array_equal(pg.load(tmp_path / "model").predict(test), ranker.predict(test))


def test_a_kind_that_is_one_fold_short_when_time_ends_stays_in_the_blend(data: RankingData) -> None:
    ranker = AutoRanker(kinds=["linear", "lightgbm"], folds=3, steps=10, random_state=0).fit(data)
    folds = {each["name"]: each["folds"] for each in ranker.told_["tried"]}
    assert max(folds.values()) == 2  # seven first looks, then the second fold of three candidates
    assert set(ranker.shares_) <= set(folds)
    assert any(name.startswith("LightGBM") for name in auto.pick_field(ranker_ledger(data, 9)))


def ranker_ledger(data: RankingData, steps: int) -> Ledger:
    """The ledger of a search that was cut after so many steps."""
    plan = AutoRanker(kinds=["linear", "lightgbm"], folds=3, steps=steps, random_state=0)
    search = auto.CandidateSearch(data, plan._make_plan(data, ["linear", "lightgbm"]), Ledger())
    plan._walk(search, 0.0)
    return search.ledger


# -- fits on everything ----------------------------------------------------------------------------


def test_the_best_of_each_kind_is_fitted_on_everything_as_long_as_its_folds_took(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = count_steps(monkeypatch)
    ranker = AutoRanker(steps=22, **TREES_TOO).fit(data)
    (step,) = [step for step in taken if step.whole]
    name, before = step.candidate.name, taken[: taken.index(step)]
    assert {each.fold for each in before if each.candidate.name == name} == {0, 1, 2}
    models = [m for m, o in zip(ranker.models_, ranker.owners_, strict=True) if o == name]
    assert len(models) == 4  # three folds and everything
    rounds = [model.rounds_ for model in models]
    assert rounds[3] == step.whole == max(1, round(2.2 * float(np.mean(rounds[:3]))))
    assert "and on everything" in ranker.report()


def test_a_fit_on_everything_has_half_of_its_candidates_say(data: RankingData) -> None:
    candidate = Candidate("LightGBM", "lightgbm", "lightgbm", {"rounds": 5})
    parts = deal_folds(data, 3, 0)
    folds = [inner_trials.take_step(Step(candidate, 0, fold), data, parts, 0, "ndcg@10") for fold in (0, 1)]
    whole = inner_trials.take_step(Step(candidate, 0, 0, whole=7), data, parts, 0, "ndcg@10")
    assert isinstance(whole.model, pg.LightGBMRanker)
    assert (whole.model.rounds_, whole.held.tolist(), whole.length) == (7, [], 7)
    scales = [inner_trials.scale_scores(each, 0, data)[1] for each in folds]
    models, weights = auto.finish(folds, whole, data)
    assert models == [folds[0].model, folds[1].model, whole.model]
    mean = (scales[0] + scales[1]) / 2
    np.testing.assert_allclose(weights, [0.25 / scales[0], 0.25 / scales[1], 0.5 / mean])
    np.testing.assert_allclose(auto.finish(folds, None, data)[1], [0.5 / scales[0], 0.5 / scales[1]])


def test_a_network_on_everything_takes_its_steps_and_holds_nothing_out(data: RankingData) -> None:
    pytest.importorskip("torch")
    candidate = Candidate("neural", "neural", "neural", {"members": 1, "hidden": (4,), "check_every": 5})
    done = inner_trials.take_step(Step(candidate, 0, 0, whole=12), data, [], 0, "ndcg@10", left=600.0)
    assert isinstance(done.model, pg.NeuralRanker)
    assert (len(done.model.history_.loss), done.model.history_.checks) == (12, [])
    assert (done.model.holdout, done.model.budget) == (0.0, "none")


def test_without_its_fit_on_everything_a_candidate_stays(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = auto.take_step

    def take(step: Step, *args: Any) -> Tried:
        if step.whole:
            raise ValueError("no room")
        return real(step, *args)

    monkeypatch.setattr(auto, "take_step", take)
    ranker = AutoRanker(steps=22, **TREES_TOO).fit(data)
    assert any(name.startswith("LightGBM") for name in ranker.shares_)
    assert "on everything" in ranker.report()
    assert "failed: ValueError: no room" in ranker.report()


def test_a_kept_fit_on_everything_is_taken_from_its_folder(
    data: RankingData, test: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = AutoRanker(steps=22, keep=tmp_path, **TREES_TOO).fit(data)
    taken = count_steps(monkeypatch)
    again = AutoRanker(steps=22, keep=tmp_path, **TREES_TOO).fit(data)
    assert taken == []
    assert len(again.models_) == len(first.models_)
    np.testing.assert_allclose(again.predict(test), first.predict(test), atol=1e-9)


# -- kept steps ------------------------------------------------------------------------------------


def test_a_stopped_search_goes_on_where_it_was_and_ends_alike(
    data: RankingData, test: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"kinds": ["linear", "lightgbm"], "folds": 3, "random_state": 0}
    whole = AutoRanker(steps=12, **settings).fit(data)
    AutoRanker(steps=8, keep=tmp_path / "kept", **settings).fit(data)
    taken = count_steps(monkeypatch)
    gone_on = AutoRanker(steps=12, keep=tmp_path / "kept", **settings).fit(data)
    assert len(taken) == 4
    assert gone_on.shares_ == whole.shares_
    np.testing.assert_allclose(gone_on.predict(test), whole.predict(test), atol=1e-9)


def test_other_data_find_no_kept_step(
    data: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AutoRanker(steps=3, keep=tmp_path, **QUICK).fit(data)
    taken = count_steps(monkeypatch)
    AutoRanker(steps=3, keep=tmp_path, **QUICK).fit(data.replace(y=np.roll(data.y, 1)))
    assert len(taken) == 3


def test_half_a_kept_step_is_none(data: RankingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    AutoRanker(steps=2, keep=tmp_path, **QUICK).fit(data)
    next(iter(sorted(tmp_path.glob("step-*")))).joinpath("facts.json").unlink()
    taken = count_steps(monkeypatch)
    AutoRanker(steps=2, keep=tmp_path, **QUICK).fit(data)
    assert len(taken) == 1


# -- folds -----------------------------------------------------------------------------------------


def test_lists_that_stop_a_training_never_judge_it(data: RankingData) -> None:
    parts = deal_folds(data, 4, 0)
    assert sorted(np.concatenate(parts).tolist()) == list(range(40))
    for fold in range(4):
        step = Step(Candidate("LightGBM", "lightgbm", "lightgbm"), 0, fold)
        train, watched, held = cut_step(step, data, parts, 0)
        assert watched is not None
        seen = [set(train.qids.tolist()), set(watched.qids.tolist()), set(data[held].qids.tolist())]
        assert sum(map(len, seen)) == len(set.union(*seen)) == 40


def test_sessions_are_never_cut_by_a_fold(data: RankingData) -> None:
    names = np.array([f"s{place % 13}" for place in range(40)], dtype=object)
    parts = deal_folds(data.replace(segments={"session_id": np.repeat(names, data.sizes)}), 3, 0)
    sessions = [set(names[part].tolist()) for part in parts]
    assert sum(map(len, sessions)) == 13


def test_validation_data_join_the_folds(data: RankingData) -> None:
    ranker = AutoRanker(steps=2, **QUICK).fit(data[:30], valid=data[30:])
    joined = AutoRanker(steps=2, **QUICK).fit(data)
    np.testing.assert_allclose(ranker.predict(data), joined.predict(data), atol=1e-9)


# -- the end ---------------------------------------------------------------------------------------


def test_the_blend_is_the_weighted_sum_of_its_members(data: RankingData, test: RankingData) -> None:
    ranker = AutoRanker(kinds=["linear", "lightgbm"], folds=3, steps=12, random_state=0).fit(data)
    assert sum(ranker.shares_.values()) == pytest.approx(1.0)
    together = sum(member.predict(test) for member in ranker.members_.values())
    np.testing.assert_allclose(together, ranker.predict(test), atol=1e-9)


def test_a_candidate_that_fails_is_told_and_the_search_goes_on(
    data: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = auto.take_step

    def take(step: Step, *args: Any) -> Tried:
        if step.candidate.name == "ridge over piecewise":
            raise ValueError("no such thing\nas this")
        return real(step, *args)

    monkeypatch.setattr(auto, "take_step", take)
    ranker = AutoRanker(steps=7, **QUICK).fit(data)
    assert "failed: ValueError: no such thing as this" in ranker.report()
    assert "ridge over piecewise" not in ranker.shares_


def test_too_few_queries_get_a_ridge(data: RankingData) -> None:
    ranker = AutoRanker(**QUICK).fit(data[:4])
    assert ranker.steps_ == 0
    assert list(ranker.shares_) == ["ridge over quantile_normal"]
    assert "4 queries are too few" in ranker.report()


def test_a_saved_ranker_is_the_same_and_knows_its_steps(
    data: RankingData, test: RankingData, tmp_path: Path
) -> None:
    ranker = AutoRanker(kinds=["linear", "lightgbm"], folds=3, steps=12, random_state=0).fit(data)
    ranker.save(tmp_path / "model")
    loaded = pg.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(test), ranker.predict(test))
    assert (loaded.steps_, loaded.shares_, loaded.report()) == (12, ranker.shares_, ranker.report())
    assert loaded.keep is None


def test_a_bundle_may_only_hold_rankers_that_are_tried(data: RankingData) -> None:
    ranker = AutoRanker(steps=2, **QUICK).fit(data)
    files = ranker._give_weights()
    told = json.loads(files["members.json"])
    told["models"][0]["class"] = "AutoRanker"
    with pytest.raises(BadInput, match="which no AutoRanker holds"):
        ranker._take_weights({**files, "members.json": json.dumps(told).encode()})


def test_live_scores_are_those_of_the_batch(data: RankingData, test: RankingData) -> None:
    ranker = AutoRanker(kinds=["linear", "lightgbm"], folds=3, steps=12, random_state=0).fit(data)
    one = test[0]
    np.testing.assert_allclose(make_scorer(ranker)(np.asarray(one.X)), ranker.predict(one), atol=1e-6)


def test_clicks_may_be_judged_over_propensities(data: RankingData) -> None:
    clicks = data.replace(
        y=(data.y > 2).astype(float), propensity=np.where(np.arange(data.n_rows) % 2, 0.4, 1.0)
    )
    ranker = AutoRanker(steps=4, metric="dcg@10:ips", **QUICK).fit(clicks)
    assert "dcg@10:ips" in ranker.report()
    with pytest.raises(BadInput, match="propensity"):
        AutoRanker(steps=4, metric="dcg@10:ips", **QUICK).fit(data)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": "soon"}, "budget must be a length of time"),
        ({"steps": 0}, "steps"),
        ({"folds": 1}, "folds"),
        ({"kinds": []}, "kinds must list at least one"),
        ({"metric": "ndgc@10"}, "ndcg"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_fitted(
    data: RankingData, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        AutoRanker(**{**QUICK, **settings}).fit(data)


# -- linear candidates -----------------------------------------------------------------------------


def test_ridges_of_many_penalties_are_those_fitted_one_by_one(data: RankingData) -> None:
    train, held = data[:30], data[30:]
    weighed = train.replace(weight=np.where(np.arange(train.n_rows) % 3, 1.0, 2.0))
    for rows in (train, weighed):
        for C, scores in zip(CS, score_ridges(rows, held, CS), strict=True):
            single = LinearRanker("ridge", C=C).fit(rows).predict(held)
            np.testing.assert_allclose(scores - scores.mean(), single - single.mean(), atol=1e-7)


def test_a_linear_path_goes_through_its_transform(data: RankingData) -> None:
    candidate = Candidate("ridge over cdf", "linear", "ridge", {"transform": "cdf"})
    path = score_path(candidate, data[:30], data[30:])
    single = LinearRanker("ridge", C=CS[3], transform="cdf").fit(data[:30]).predict(data[30:])
    np.testing.assert_allclose(path[3] - path[3].mean(), single - single.mean(), atol=1e-6)
