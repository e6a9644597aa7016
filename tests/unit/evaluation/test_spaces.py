"""Spaces: ranges, options, presets, and that every value of them can be fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.data.ranking import RankingData
from placings.evaluation.spaces import (
    POSITIVE_WEIGHT,
    THROUGH,
    Choice,
    Float,
    Int,
    apply_values,
    as_dimension,
    count_grid,
    find_space,
    own_values,
    widen_space,
)
from placings.evaluation.trials import weigh_positives
from placings.rankers.catalogue import CLASSES, RANKERS, find_class, make_ranker
from placings.rankers.estimator import Ranker

PRESETS = [(kind, preset) for kind in CLASSES for preset in find_class(kind).facts.spaces]


def make_start(kind: str, preset: str) -> Ranker:
    """A ranker of this class: by the preset's own name if there is one ("ridge"), else by its first."""
    names = [name for name, line in RANKERS.items() if line.class_name == kind]
    return make_ranker(preset if preset in names else names[0])


@pytest.fixture(scope="module")
def tiny() -> RankingData:
    """Six queries of five rows with labels 0 and 1, which every objective takes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return RankingData.from_arrays(X, (X[:, 0] > 0).astype(float), np.repeat(np.arange(6), 5))


@pytest.mark.parametrize(("kind", "preset"), PRESETS)
def test_every_name_of_a_space_is_a_parameter_of_its_ranker(kind: str, preset: str) -> None:
    ranker = make_start(kind, preset)
    assert type(ranker).__name__ == kind
    known = set(ranker.get_params())
    for name in find_class(kind).facts.spaces[preset]:
        assert name in known or name == POSITIVE_WEIGHT or (name.startswith(THROUGH) and "params" in known)


@pytest.mark.parametrize(("kind", "preset"), PRESETS)
def test_every_value_of_a_space_can_be_fitted(kind: str, preset: str, tiny: RankingData) -> None:
    start = make_start(kind, preset)
    least = {"rounds": 2, "n_jobs": 1, "steps": 2}
    few: dict[str, Any] = {name: value for name, value in least.items() if name in start.get_params()}
    for name, dimension in find_class(kind).facts.spaces[preset].items():
        ends = () if isinstance(dimension, Choice) else (dimension.low, dimension.high)
        for value in dict.fromkeys((*dimension.steps, *ends)):
            if name == "rounds":
                assert isinstance(value, int)  # fitted with few: a thousand rounds take their time
                continue
            ranker = apply_values(start, {**few, name: value})
            weighted = weigh_positives(tiny, float(value)) if name == POSITIVE_WEIGHT else tiny  # type: ignore[arg-type]
            assert np.isfinite(ranker.fit(weighted).predict(tiny)).all()


@pytest.mark.parametrize("name", sorted(RANKERS))
def test_every_named_ranker_has_a_space(name: str) -> None:
    space = find_space(make_ranker(name))
    assert space or name in ("original", "mean", "auto")  # nothing to learn; tuned by its members; by itself


def test_a_linear_rankers_loss_decides_what_else_is_tuned() -> None:
    assert list(find_space(make_ranker("ridge"))) == ["C"]
    assert list(find_space(make_ranker("logistic"))) == ["C", "pairs"]
    assert list(find_space(make_ranker("ranksvm"))) == ["C", "pairs"]
    assert "loss" in find_space(make_ranker("ranksvm"), "losses")


def test_the_thesis_grids_are_modest() -> None:
    assert count_grid(find_space(make_ranker("xgboost"), "thesis")) == 3 * 2 * 2 * 3
    assert count_grid(find_space(make_ranker("lightgbm"), "thesis")) == 2 * 2 * 2 * 2 * 3


@pytest.mark.filterwarnings("ignore")  # XGBoost itself says that it makes no use of it
def test_scale_pos_weight_changes_no_ranking_objective(tiny: RankingData) -> None:
    """Why the thesis' positive weight is a row weight for LightGBM, and not there for XGBoost."""
    import lightgbm
    import xgboost

    for objective in ("rank:ndcg", "rank:pairwise", "rank:map"):
        trees = [
            xgboost.XGBRanker(objective=objective, n_estimators=5, n_jobs=1, scale_pos_weight=weight)
            for weight in (1, 25)
        ]
        scores = [tree.fit(tiny.X, tiny.y, qid=tiny.query_index).predict(tiny.X) for tree in trees]
        np.testing.assert_array_equal(*scores)
    for objective in ("lambdarank", "rank_xendcg"):
        settings = {"n_estimators": 5, "n_jobs": 1, "verbose": -1, "min_child_samples": 2, "random_state": 0}
        models = [
            lightgbm.LGBMRanker(objective=objective, scale_pos_weight=weight, **settings)
            for weight in (1, 25)
        ]
        scores = [model.fit(tiny.X, tiny.y, group=tiny.sizes).predict(tiny.X) for model in models]
        np.testing.assert_array_equal(*scores)


def test_a_positive_weight_changes_lightgbm_and_weighs_all_pairs_of_xgboost_alike(tiny: RankingData) -> None:
    heavy = weigh_positives(tiny, 10.0)
    ranker = make_ranker("lightgbm", rounds=5, min_data_in_leaf=2, n_jobs=1, random_state=0)
    plain = ranker.fit(tiny).predict(tiny)
    assert not np.array_equal(plain, ranker.fit(heavy).predict(tiny))
    other = make_ranker("xgboost", rounds=2, n_jobs=1)  # a pair weighs what its better row does
    np.testing.assert_allclose(other.fit(heavy).predict(tiny), other.fit(tiny).predict(tiny), atol=1e-6)


def test_weighing_positives_multiplies_the_weights_that_are_there() -> None:
    data = RankingData.from_arrays([[0.0]] * 3, [0, 1, 2], [1, 1, 1], weight=[2.0, 3.0, 1.0])
    assert weigh_positives(data, 10.0).weight.tolist() == [2.0, 30.0, 10.0]  # type: ignore[union-attr]
    with pytest.raises(BadInput, match="above 0"):
        weigh_positives(data, 0.0)


def test_steps_are_the_grid_or_both_ends_and_the_middle() -> None:
    assert Float(0.0, 1.0).steps == (0.0, 0.5, 1.0)
    assert Float(1e-4, 1.0, log=True).steps == (1e-4, 1e-2, 1.0)
    assert Int(1, 2).steps == (1, 2)  # the middle, 1.5, rounds to one of them
    assert Int(1, 100, grid=(7,)).steps == (7,)


def test_lists_and_mappings_stand_for_options_and_ranges() -> None:
    assert as_dimension("C", [1, 2]) == Choice((1, 2))
    assert as_dimension("C", {"low": 1, "high": 9}) == Int(1, 9)
    assert as_dimension("C", {"low": 0.1, "high": 9, "log": True}) == Float(0.1, 9, True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"low": 1}, "low, high, log and grid"),
        ({"low": 1, "high": 2, "step": 1}, "low, high, log and grid"),
        ("hinge", "a list of options"),
        ({"low": 3, "high": 1}, "from a low to a high"),
        ({"low": 0, "high": 1, "log": True}, "above 0"),
        ([], "at least one option"),
        ([[1]], "text, numbers"),
    ],
)
def test_a_dimension_that_is_none_is_refused(given: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        as_dimension("C", given)


def test_an_unknown_name_in_a_space_or_preset_is_named() -> None:
    with pytest.raises(UnknownName, match="no parameter of LinearRanker 'c'"):
        find_space(make_ranker("ridge"), {"c": [1.0]})
    with pytest.raises(UnknownName, match="no space of LinearRanker 'thesis'"):
        find_space(make_ranker("ridge"), "thesis")


def test_a_ranker_without_a_space_needs_one() -> None:
    class Other(Ranker):
        pass

    with pytest.raises(BadInput, match="Other has no space of its own"):
        find_space(Other())
    assert dict(find_space(Other(), {})) == {}


def test_the_rankers_own_values_widen_the_space() -> None:
    space = {"C": Float(1.0, 10.0), "loss": Choice(("hinge",))}
    ranker = make_ranker("logistic", C=50.0)
    own = own_values(ranker, space)
    assert own == {"C": 50.0, "loss": "logistic"}
    assert widen_space(space, own) == {"C": Float(1.0, 50.0), "loss": Choice(("hinge", "logistic"))}


def test_what_a_range_cannot_hold_is_left_as_the_ranker_has_it() -> None:
    ranker = make_ranker("lightgbm", leaves=31, reg_lambda=0.0, lambdarank_truncation_level=None)
    own = own_values(ranker, find_space(ranker))
    assert "reg_lambda" not in own
    assert "lambdarank_truncation_level" not in own
    assert own["leaves"] == 31


def test_values_reach_the_ranker_and_its_library_and_change_no_input() -> None:
    ranker = make_ranker("lightgbm", params={"max_bin": 15})
    made = apply_values(ranker, {"leaves": 5, "params.max_depth": 3, POSITIVE_WEIGHT: 2.0})
    assert made.get_params()["leaves"] == 5
    assert made.get_params()["params"] == {"max_bin": 15, "max_depth": 3}
    assert ranker.get_params()["params"] == {"max_bin": 15}
