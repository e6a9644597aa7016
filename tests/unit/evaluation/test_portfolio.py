"""The schedule of `AutoRanker`: what comes first, who falls out, and that only results decide."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import pytest

from placings.core import BadInput, UnknownName
from placings.evaluation import portfolio
from placings.evaluation.portfolio import Candidate, Step, find_kinds, list_core, list_others, plan_steps

ALL = tuple(portfolio.KINDS)


@dataclass
class Told:
    """Results by kind, as told; candidates behind by more than an error of 0.001 are surely so."""

    by_kind: dict[str, float]
    done: list[Step] = field(default_factory=list)

    def mean(self, candidate: Candidate, folds: int) -> float:
        bonus = 0.001 if candidate.name.endswith("quantile_normal") else 0.0
        folded = [step for step in self.done if step.sample is None and not step.whole]
        mine = {step.fold for step in folded if step.candidate == candidate}
        if folds > portfolio.LOOK and not set(range(folds)) <= mine:
            return float("-inf")
        return self.by_kind.get(candidate.kind, 0.5) + bonus

    def lag(self, candidate: Candidate, leader: Candidate, folds: int) -> tuple[float, float]:
        return self.mean(leader, folds) - self.mean(candidate, folds), 0.001

    def length(self, candidate: Candidate) -> float:
        return 10.0


def walk(by_kind: dict[str, float], *, queries: int = 100, steps: int = 400, seed: int = 0) -> list[Step]:
    told = Told(by_kind)
    for step in islice(plan_steps(ALL, told, queries=queries, folds=5, seed=seed), steps):
        told.done.append(step)
    return told.done


def test_every_transform_and_every_kind_come_first_on_one_fold() -> None:
    core = list_core(ALL)
    steps = walk({})
    assert [step.candidate for step in steps[: len(core)]] == core
    assert {(step.deal, step.fold, step.sample) for step in steps[: len(core)]} == {(0, 0, None)}
    assert {each.kind for each in core} == set(ALL)


def test_a_kind_that_is_surely_far_behind_gets_no_more_folds() -> None:
    steps = walk({"neural": 0.4})[len(list_core(ALL)) :]
    assert "neural" not in {step.candidate.kind for step in steps}
    assert {"linear", "lightgbm", "catboost", "xgboost"} <= {step.candidate.kind for step in steps}


def test_the_survivors_get_all_folds_and_then_folds_that_are_dealt_anew() -> None:
    steps = walk({"lightgbm": 0.52})
    folds = {(step.deal, step.fold) for step in steps if step.candidate.name == "LightGBM"}
    assert {(0, fold) for fold in range(5)} <= folds
    assert {(1, fold) for fold in range(5)} <= folds


def test_the_best_of_each_kind_is_fitted_on_everything_once_behind_three_folds() -> None:
    steps = walk({"neural": 0.51, "lightgbm": 0.52})
    whole = [step for step in steps if step.whole]
    names = [step.candidate.name for step in whole]
    assert names[:2] == ["LightGBM", "neural"]  # the best first
    assert {"CatBoost", "XGBoost"} <= set(names)
    assert len(set(names)) == len(names)
    assert {step.candidate.kind: step.whole for step in whole} == {
        "lightgbm": 22, "catboost": 22, "xgboost": 22, "neural": 17,
    }  # fmt: skip
    before = steps[: steps.index(whole[0])]
    assert {step.fold for step in before if step.candidate.name == "LightGBM"} == {0, 1, 2}


@pytest.mark.parametrize("queries", [100, 5000])
def test_where_only_lines_are_left_the_two_best_others_get_a_second_chance(queries: int) -> None:
    told = {"linear": 0.6, "lightgbm": 0.1, "xgboost": 0.1, "catboost": 0.41, "neural": 0.42}
    steps = walk(told, queries=queries, steps=1000)[len(list_core(ALL)) :]
    first = [step for step in steps if step.candidate.kind != "linear"]
    folds = list(range(1 if queries == 100 else 0, 5))
    assert [(step.candidate.name, step.fold) for step in first[: 2 * len(folds)]] == [
        (name, fold) for name in ("neural", "CatBoost") for fold in folds
    ]
    whole = first[2 * len(folds) : 2 * len(folds) + 2]
    assert [(step.candidate.name, step.whole) for step in whole] == [("neural", 17), ("CatBoost", 22)]
    assert {step.candidate.kind for step in first} == {"neural", "catboost"}
    assert ("neural", 1) in {(step.candidate.name, step.deal) for step in steps}


def test_lines_alone_have_no_second_chance_to_give() -> None:
    told = Told({})
    for step in islice(plan_steps(["linear"], told, queries=100, folds=5, seed=0), 200):
        told.done.append(step)
    taken = [(step.candidate.name, step.deal, step.fold) for step in told.done]
    assert len(set(taken)) == len(taken)


def test_another_candidate_gets_more_folds_only_if_it_beats_its_kinds_best() -> None:
    steps = walk({})  # all level: none beats anybody
    others = {each.name for each in list_others(ALL)}
    assert {step.fold for step in steps if step.candidate.name in others} == {0}


def test_large_data_are_looked_at_in_a_sample_first_and_then_whole() -> None:
    steps = walk({}, queries=5000)
    core = list_core(ALL)
    assert {step.sample for step in steps[: len(core)]} == {portfolio.LARGE}
    assert (steps[len(core)].fold, steps[len(core)].sample) == (0, None)
    network = next(s.candidate for s in steps if s.candidate.name == "neural")
    assert network.settings["patience"] == 5  # it stops sooner than by its own default


def test_of_many_queries_one_fold_decides_and_the_best_at_first_look_go_first() -> None:
    steps = walk({"lightgbm": 0.51, "neural": 0.515, "catboost": 0.505}, queries=5000)
    core, others = list_core(ALL, 5000), list_others(ALL, 5000)
    folded = [step for step in steps[len(core) :] if step.sample is None]
    kept = 6  # the best of each of five kinds, and the next best of all
    assert [step.candidate.name for step in folded[:3]] == ["neural", "LightGBM", "CatBoost"]
    assert {step.fold for step in folded[:kept]} == {0}
    looks = [step.candidate for step in steps if step.sample is not None][len(core) :]
    assert looks[: len(others)] == others
    assert [step.candidate.name for step in folded[kept : kept + 2]] == ["neural", "LightGBM"]
    assert all(step.whole for step in folded[kept : kept + 4])  # before any second fold


def test_a_sample_of_many_queries_takes_out_only_what_is_farther_behind() -> None:
    near, far = (
        {s.candidate.kind for s in walk({"xgboost": x}, queries=5000) if not s.sample} for x in (0.46, 0.44)
    )
    assert "xgboost" in near
    assert "xgboost" not in far


def test_trees_may_take_more_rounds_on_many_queries() -> None:
    few, many = (
        {each.name: each.settings.get("rounds") for each in [*list_core(ALL, n), *list_others(ALL, n)]}
        for n in (3000, 3001)
    )
    assert (few["LightGBM"], many["LightGBM"]) == (600, 1500)
    assert many == {name: rounds and round(2.5 * rounds) for name, rounds in few.items()}
    assert few["ridge over cdf"] is None


def test_the_same_seed_has_the_same_schedule_and_another_seed_draws_other_settings() -> None:
    assert walk({}, seed=3) == walk({}, seed=3)
    drawn = [
        [s.candidate.settings for s in walk({}, seed=seed) if " 1." in s.candidate.name] for seed in (3, 4)
    ]
    assert drawn[0] != drawn[1]


def test_a_candidate_that_failed_is_never_kept() -> None:
    steps = walk({"catboost": float("-inf")})[len(list_core(ALL)) :]
    assert "catboost" not in {step.candidate.kind for step in steps}


def test_a_kind_without_its_library_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portfolio, "find_spec", lambda name: None if name == "catboost" else object())
    there, absent = find_kinds(None)
    assert "catboost" not in there
    assert absent == ["catboost"]
    with pytest.raises(BadInput, match="none of catboost is installed"):
        find_kinds(["catboost"])


def test_kinds_that_are_not_known_are_refused_with_those_that_are() -> None:
    with pytest.raises(UnknownName, match="did you mean 'lightgbm'"):
        find_kinds(["lightgmb"])
    with pytest.raises(BadInput, match="kinds must list at least one of linear, lightgbm"):
        find_kinds("linear")
