"""Made families: fixed seeds, alike parts, truths that are what they are called. No scores of final ones."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.simulate.families import (
    FAMILIES,
    LEVELS,
    SHARES,
    Family,
    FamilyDraw,
    FeatureEffect,
    make_family,
)

PARTS = {
    part: [family for family in FAMILIES.values() if family.part == part]
    for part in ("development", "final", "fresh")
}


@cache
def draw(name: str) -> FamilyDraw:
    return make_family(name, test_queries=200)


def list_names(**settings: Any) -> list[str]:
    return [
        name for name, each in FAMILIES.items() if all(getattr(each, s) == v for s, v in settings.items())
    ]


# -- the plans ---------------------------------------------------------------------------------------------


def test_the_seeds_are_those_of_the_first_commit() -> None:
    first = {
        "dev01": 783177701,
        "dev02": 181279901,
        "dev14": 1967242540,
        "final01": 372488538,
        "final14": 60074985,
        "fresh01": 1077451751,
        "fresh14": 1059302969,
    }
    assert {name: FAMILIES[name].seed for name in first} == first
    assert len({family.seed for family in FAMILIES.values()}) == len(FAMILIES) == 42


def test_the_plans_are_those_of_the_first_commit() -> None:
    family = FAMILIES["dev02"]
    assert family == Family(
        "dev02", "development", 181279901, queries=200, mean_size=60, features=136, useless=0.9, shape="log",
        interaction="several", interacting_share=family.interacting_share, labels="mslr", noise=0.6,
        missing=0.0, copies="correlated", drift=None,
    )  # fmt: skip


@pytest.mark.parametrize("setting", [name for name in LEVELS if name != "size"])
def test_the_parts_have_each_level_of_a_setting_equally_often(setting: str) -> None:
    counts = [Counter(getattr(family, setting) for family in part) for part in PARTS.values()]
    assert counts == [Counter(LEVELS[setting])] * 3


def test_the_parts_have_the_same_sizes() -> None:
    counts = [Counter((family.queries, family.mean_size) for family in part) for part in PARTS.values()]
    assert counts == [Counter(LEVELS["size"])] * 3


def test_each_part_has_seven_additive_and_seven_interacting_truths() -> None:
    for part in PARTS.values():
        assert Counter(family.truth for family in part) == {"additive": 7, "interacting": 7}


# -- the data ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_the_shape_and_the_labels_that_its_plan_says(name: str) -> None:
    family, drawn = FAMILIES[name], draw(name)
    assert (drawn.train.n_queries, drawn.test.n_queries) == (family.queries, 200)
    assert drawn.train.n_features == drawn.test.n_features == family.features
    assert drawn.train.feature_names == drawn.test.feature_names
    assert drawn.additive == (family.truth == "additive")
    assert not np.isinf(drawn.train.X).any()
    for data in (drawn.train, drawn.test):
        assert abs(data.n_rows / data.n_queries / family.mean_size - 1.0) < 0.4
    highest = {"binary": 1, "three": 2, "mslr": 4, "click": 1, "per_query": 4}[family.labels]
    for data in (drawn.train, drawn.test):
        assert set(np.unique(data.y)) == set(range(highest + 1))


@pytest.mark.parametrize("labels", SHARES)
def test_labels_that_are_cut_globally_have_their_shares_in_training(labels: str) -> None:
    for name in list_names(labels=labels):
        train = draw(name).train
        shares = np.bincount(train.y.astype(int), minlength=len(SHARES[labels])) / train.n_rows
        np.testing.assert_allclose(shares, SHARES[labels], atol=1.5 / train.n_rows)


def test_a_list_of_clicks_has_one_positive() -> None:
    for name in list_names(labels="click"):
        test = draw(name).test
        assert (np.add.reduceat(test.y, test.offsets[:-1]) == 1.0).all()


def test_labels_by_place_give_every_list_a_best_row_and_a_tenth_grade_3_or_more() -> None:
    for name in list_names(labels="per_query"):
        test = draw(name).test
        assert (np.maximum.reduceat(test.y, test.offsets[:-1]) == 4.0).all()
        high = np.add.reduceat((test.y >= 3.0).astype(float), test.offsets[:-1])
        assert (high == np.maximum(np.rint(0.1 * test.sizes), 1.0)).all()


def test_the_same_state_gives_the_same_bits_and_another_gives_others() -> None:
    first, again, other = (make_family("dev05", test_queries=20, random_state=state) for state in (1, 1, 2))
    np.testing.assert_array_equal(first.train.X, again.train.X)
    np.testing.assert_array_equal(first.test.y, again.test.y)
    assert not np.array_equal(first.train.y, other.train.y)


def test_the_weights_are_the_familys_whatever_the_state() -> None:
    spreads = []
    for state in (0, 1):
        effects = make_family("dev13", random_state=state).effects
        spreads.append([float(effect.std()) for effect in effects.values()])
    np.testing.assert_allclose(spreads[0], spreads[1], rtol=0.1)  # 1,000 queries of 30 rows: about 1 %


def test_fewer_test_queries_are_the_first_of_the_test_and_leave_training_alone() -> None:
    few, many = make_family("dev05", test_queries=5), make_family("dev05", test_queries=50)
    np.testing.assert_array_equal(few.train.X, many.train.X)
    np.testing.assert_array_equal(few.test.X, many.test[:5].X)
    np.testing.assert_array_equal(few.signal, many.signal[: few.test.n_rows])


def test_missing_values_are_where_the_plan_says() -> None:
    for name, family in FAMILIES.items():
        share = np.isnan(draw(name).train.X).mean(axis=0)
        if not family.missing:
            assert not share.any()
            continue
        some = share[share > 0.0]
        assert 1 <= len(some) <= 0.75 * family.features
        assert abs(some.mean() - family.missing) < 0.05


# -- the truth ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list_names(interaction=None))
def test_an_additive_truth_is_a_sum_of_effects_of_single_features(name: str) -> None:
    drawn = draw(name)
    np.testing.assert_allclose(np.sum(list(drawn.effects.values()), axis=0), drawn.signal, atol=1e-9)
    assert len(drawn.effects) == FAMILIES[name].useful


@pytest.mark.parametrize("name", list_names(part="development", interaction=None, drift=None))
def test_an_effect_is_a_function_of_what_its_feature_shows(name: str) -> None:
    drawn = draw(name)
    for feature, effect in drawn.effects.items():
        shown = drawn.test.X[:, drawn.test.feature_names.index(feature)]
        known = ~np.isnan(shown)
        values, place = np.unique(shown[known], return_inverse=True)
        highest, lowest = np.full(len(values), -np.inf), np.full(len(values), np.inf)
        np.maximum.at(highest, place, effect[known])
        np.minimum.at(lowest, place, effect[known])
        # float32 rounds the feature, so close values may fall together: all but a few have one effect
        assert np.mean(highest - lowest > 1e-3) < 0.01, feature


@pytest.mark.parametrize("name", [name for name, each in FAMILIES.items() if each.interaction])
def test_an_interacting_truth_is_more_than_its_single_effects(name: str) -> None:
    family, drawn = FAMILIES[name], draw(name)
    rest = drawn.signal - np.sum(list(drawn.effects.values()), axis=0)
    assert abs(rest.var() / family.interacting_share - 1.0) < 0.4  # a test of 200 queries, not all rows drawn


def test_humps_and_steps_have_their_shape() -> None:
    at = np.array([-2.0, 0.0, 0.5, 2.0])
    hump = FeatureEffect(1.0, "hump", 0.0).act(at)
    assert hump[1] == 1.0
    assert hump[0] == hump[3] < hump[2]
    np.testing.assert_array_equal(FeatureEffect(1.0, "step", 0.2).act(at), [0.0, 0.0, 1.0, 2.0])
    np.testing.assert_array_equal(FeatureEffect(1.0, "straight", 0.2).act(at), at)


# -- copies and drift --------------------------------------------------------------------------------------


def test_duplicated_features_are_duplicated_and_correlated_ones_are_not() -> None:
    for name, family in FAMILIES.items():
        data = draw(name).train
        for place, feature in enumerate(data.feature_names):
            if family.copies and feature.endswith(f"_{family.copies}"):
                original = data.X[:, data.feature_names.index(feature.removesuffix(f"_{family.copies}"))]
                assert np.array_equal(data.X[:, place], original, equal_nan=True) == (
                    family.copies == "duplicated"
                )
    for copies in ("duplicated", "correlated"):
        assert any(
            feature.endswith(copies)
            for n in list_names(copies=copies)
            for feature in draw(n).train.feature_names
        )


def compare_medians(drawn: FamilyDraw, place: int) -> float:
    """The share of the test's known values above the training median."""
    shown = drawn.test.X[:, place]
    return float(np.mean(shown[~np.isnan(shown)] > np.nanmedian(drawn.train.X[:, place])))


def list_scaled(drawn: FamilyDraw) -> list[float]:
    """How many times larger a feature is in the test, for those whose mean a thousand rows know well."""
    steady = ("term_ratio", "bm25", "log_probability", "language_model", "match_margin", "stream_length")
    return [
        float(np.nanmean(np.abs(drawn.test.X[:, place])) / np.nanmean(np.abs(drawn.train.X[:, place])))
        for place, feature in enumerate(drawn.test.feature_names)
        if feature.startswith(steady)
    ]


def test_a_drift_of_scales_multiplies_some_features_in_the_test() -> None:
    for name in list_names(drift="scales"):
        ratios = np.array(list_scaled(draw(name)))
        assert (ratios > 1.35).any() or len(ratios) < 6, name  # of a few steady features none may drift
        assert (abs(ratios - 1.0) < 0.2).any(), name
    for name in list_names(drift=None):
        assert all(abs(ratio - 1.0) < 0.3 for ratio in list_scaled(draw(name))), name


def test_a_drift_of_the_mix_lifts_some_useful_features_in_the_test() -> None:
    for name in list_names(drift="mix"):
        drawn = draw(name)
        above = [compare_medians(drawn, drawn.test.feature_names.index(each)) for each in drawn.effects]
        assert max(above) > 0.6  # 0.2 → 0.8 of the lists take the larger of two values
        assert min(above) < 0.55


def test_more_queries_of_other_lengths_have_the_same_truth() -> None:
    own, many = draw("dev05"), make_family("dev05", queries=1000, mean_size=10, test_queries=200)
    assert (many.train.n_queries, many.test.n_queries) == (1000, 200)
    assert many.train.n_rows / 1000 == pytest.approx(10, abs=1)  # dev05 itself has 30
    assert many.train.feature_names == own.train.feature_names
    assert list(many.effects) == list(own.effects)
    again = make_family("dev05", queries=FAMILIES["dev05"].queries, test_queries=200)
    np.testing.assert_array_equal(again.train.X, own.train.X)


# -- errors ------------------------------------------------------------------------------------------------


def test_an_unknown_family_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match=r"dev99.*dev01.*final14"):
        make_family("dev99")


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "7"])
@pytest.mark.parametrize("setting", ["queries", "mean_size"])
def test_numbers_of_queries_and_rows_are_whole_and_above_0(setting: str, wrong: Any) -> None:
    with pytest.raises(BadInput, match=f"{setting} must be a whole number of 1 or more"):
        make_family("dev01", **{setting: wrong})


@pytest.mark.parametrize("wrong", [0, 1001, True])
def test_test_queries_are_from_1_to_1000(wrong: int) -> None:
    with pytest.raises(BadInput, match="test_queries must be from 1 to 1,000"):
        make_family("dev01", test_queries=wrong)
