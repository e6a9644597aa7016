"""Settings under the names of other libraries are answered: in Python, by set_params and at the terminal."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

import placings as pg
from placings.cli.main import app, explain_option
from placings.core.errors import UnknownName
from placings.rankers import RANKERS, find_class, find_setting, make_ranker

ANSWERS = [
    ("lightgbm", "n_estimators", "LightGBM's n_estimators is called 'rounds' here"),
    ("lightgbm", "num_leaves", "is called 'leaves' here"),
    ("lightgbm", "max_depth", r"params=\{'max_depth': …\}, at the terminal --set 'params=\{max_depth: …\}'"),
    ("lightgbm", "eta", "is called 'learning_rate' here"),
    ("xgboost", "n_estimators", "is called 'rounds' here"),
    ("xgboost", "num_leaves", "bounded by their depth: max_depth=6"),
    ("xgboost", "colsample_bytree", "is called 'colsample' here"),
    ("xgboost", "tree_method", r"params=\{'tree_method': …\}"),
    ("catboost", "iterations", "is called 'rounds' here"),
    ("catboost", "num_leaves", "bounded by their depth: depth=6"),
    ("catboost", "max_depth", "is called 'depth' here"),
    ("ranksvm", "alpha", "alpha is 1 over C"),
    ("ranksvm", "c", "is called 'C' here"),
    ("ranksvm", "n_jobs", "PLACINGS_THREADS"),
    ("ranksvm", "learning_rate", "nothing is stepped by a rate"),
    ("ranksvm", "n_estimators", "has no trees"),
    ("neural", "learning_rate", "is called 'lr' here"),
    ("neural", "epochs", "is called 'steps' here"),
    ("neural", "n_jobs", "PLACINGS_THREADS"),
    ("neural", "num_leaves", "has no leaves"),
    ("mean", "estimators", "is called 'members' here"),
    ("original", "eval_set", r"fit\(train, valid=…\)"),
]


@pytest.mark.parametrize(("name", "setting", "said"), ANSWERS)
def test_a_familiar_name_is_answered_in_every_way_it_can_be_given(name: str, setting: str, said: str) -> None:
    kind: Any = find_class(RANKERS[name].class_name)
    for way in (
        lambda: make_ranker(name, **{setting: 1}),
        lambda: kind(**{setting: 1}),
        lambda: kind().set_params(**{setting: 1}),
    ):
        with pytest.raises(UnknownName, match=said):
            way()


def test_it_is_a_type_error_too_as_for_any_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="no setting of LightGBMRanker 'leafs'; did you mean 'leaves'"):
        pg.LightGBMRanker(leafs=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", RANKERS)
def test_no_note_or_passed_name_is_a_setting_of_the_class_itself(name: str) -> None:
    kind = find_class(RANKERS[name].class_name)
    own = set(kind._get_param_names())
    assert not own & {*kind.facts.notes, *kind.facts.passed}


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_what_is_said_to_be_handed_on_is_known_to_the_library(name: str) -> None:
    kind: Any = find_class(RANKERS[name].class_name)
    values = {"max_bin": 15, "max_delta_step": 1.0, "max_depth": 3, "max_leaves": 7, "base_score": 0.25}
    data = pg.make_ranking(10, n_features=3, mean_size=8, random_state=0).data
    for setting in set(values) & set(kind.facts.passed):
        kind(rounds=2, params={setting: values[setting]}).fit(data)


def test_a_class_of_one_s_own_with_any_keywords_is_left_alone() -> None:
    class Mine(pg.LinearRanker):
        def __init__(self, **given: Any) -> None:
            super().__init__()
            self.given = given

    assert Mine(n_estimators=3).given == {"n_estimators": 3}


def test_an_option_that_is_a_setting_is_answered_with_set() -> None:
    result = CliRunner().invoke(app, ["fit", "train.txt", "--n-estimators", "9"], standalone_mode=False)
    assert explain_option(result.exception) == ". Settings of a ranker are given with --set: --set rounds=…"
    other = CliRunner().invoke(app, ["fit", "train.txt", "--colour", "9"], standalone_mode=False)
    assert explain_option(other.exception) == ""
    without = CliRunner().invoke(app, ["inspect", "train.txt", "--n-estimators", "9"], standalone_mode=False)
    assert explain_option(without.exception) == ""
    assert find_setting("learning-rate") is None
