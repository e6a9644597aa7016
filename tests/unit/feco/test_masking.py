"""Masks: what goes dark, how much of it, always the same for the same seed; coverage that is left."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from placings.core.errors import BadInput, UnknownName
from placings.core.statistics import wilson_interval
from placings.data.ranking import RankingData
from placings.feco.masking import (
    check_drops,
    check_value,
    choose_candidates,
    count_units,
    darken,
    draw_order,
    find_covered,
    score_each,
    split_units,
    summarise_coverage,
)

NAN = float("nan")


@pytest.fixture
def data() -> RankingData:
    X = [[1, 5], [0, 6], [0, 7], [0, NAN], [2, 0], [3, 0]]
    region = ["n", "n", "s", "s", "n", "n"]
    return RankingData.from_arrays(X, [0, 1, 0, 1, 0, 1], [1, 1, 2, 2, 3, 3], segments={"region": region})


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("non_zero", [False, True, True, True, False]),
        ("positive", [False, False, True, True, False]),
        ("non_null", [True, True, True, True, False]),
        ("mean", [False, False, False, True, False]),  # (0 − 4 + 1 + 7) / 4 = 1
        ("median", [False, False, True, True, False]),  # (0 + 1) / 2
        (1.0, [False, False, False, True, False]),
    ],
)
def test_a_rule_says_what_is_covered_and_nan_never_is(rule: str | float, expected: list[bool]) -> None:
    assert find_covered(np.array([0.0, -4.0, 1.0, 7.0, NAN]), rule).tolist() == expected


def test_a_column_without_a_value_is_covered_nowhere() -> None:
    for rule in ("mean", "median", "non_zero", "positive", "non_null"):
        assert not find_covered(np.array([NAN, NAN]), rule).any()


@pytest.mark.parametrize("rule", ["dark", True, NAN])
def test_a_rule_that_is_none_is_refused(rule: object) -> None:
    with pytest.raises(BadInput, match="rule"):
        find_covered(np.array([1.0]), rule)  # type: ignore[arg-type]


def test_an_event_has_a_feature_if_any_of_its_rows_has(data: RankingData) -> None:
    X = np.asarray(data.X)
    assert count_units(data, "event").cover(X[:, 0]).tolist() == [True, False, True]
    assert count_units(data, "row").cover(X[:, 0]).tolist() == [True, False, False, False, True, True]


def test_masking_an_event_takes_the_feature_from_all_its_rows(data: RankingData) -> None:
    units = count_units(data, "event")
    dark = darken(data, {"f2": units.spread(np.array([1]))})
    assert np.array_equal(np.asarray(dark.X)[:, 1], [5, 6, 0, 0, 0, 0])
    assert np.array_equal(np.asarray(data.X)[:, 1], [5, 6, 7, NAN, 0, 0], equal_nan=True)  # as it was


@pytest.mark.parametrize("value", [0.0, NAN, 4.0])
def test_sparse_data_go_dark_as_dense_data_do(data: RankingData, value: float) -> None:
    sparse = data.replace(X=csr_array(np.asarray(data.X)))
    rows = {"f1": np.array([True, True, False, False, True, False]), "f2": np.arange(6) > 3}
    expected = np.asarray(darken(data, rows, value).X)
    assert np.array_equal(darken(sparse, rows, value).X.toarray(), expected, equal_nan=True)


def test_a_share_of_the_covered_goes_dark_and_smaller_masks_lie_in_larger_ones() -> None:
    covered = np.arange(200) % 2 == 0
    for draw in range(5):
        order = draw_order(covered, 0, "f", draw)
        sizes = [len(order.first(share)) for share in (0.05, 0.25, 0.5, 1.0)]
        assert sizes == [5, 25, 50, 100]
        assert set(order.first(0.05)) <= set(order.first(0.25)) <= set(np.flatnonzero(covered))


def test_a_share_of_a_few_units_is_right_on_average() -> None:
    covered = np.ones(14, dtype=bool)
    sizes = [len(draw_order(covered, 3, "f", draw).first(0.05)) for draw in range(100)]
    assert set(sizes) == {0, 1}
    assert np.mean(sizes) == pytest.approx(0.05 * 14, abs=0.03)


def test_masks_depend_on_seed_feature_draw_and_part_and_on_nothing_else() -> None:
    covered = np.ones(50, dtype=bool)
    first = draw_order(covered, 0, "a", 0)
    assert np.array_equal(first.units, draw_order(covered, 0, "a", 0).units)
    for other in ((1, "a", 0, 0), (0, "b", 0, 0), (0, "a", 1, 0), (0, "a", 0, 1)):
        assert not np.array_equal(first.units, draw_order(covered, *other).units)


def test_of_all_draws_units_whether_they_are_covered_or_not() -> None:
    covered = np.array([True, False, False])
    assert choose_candidates(covered, "covered").tolist() == [True, False, False]
    assert choose_candidates(covered, "all").tolist() == [True, True, True]
    with pytest.raises(UnknownName, match="share's whole"):
        choose_candidates(covered, "some")


def test_a_value_that_counts_as_covered_is_refused() -> None:
    assert check_value(0, "non_zero") == 0.0
    assert np.isnan(check_value(NAN, "non_null"))
    with pytest.raises(BadInput, match="counts as covered by the rule 'non_null'"):
        check_value(0, "non_null")
    with pytest.raises(BadInput, match="counts as covered"):
        check_value(3.0, "non_zero")
    with pytest.raises(BadInput, match="finite"):
        check_value("0", "non_zero")


@pytest.mark.parametrize("drops", [(), (0.0,), (1.5,), (0.1, 0.1), ("x",), None, (5, 25)])
def test_drops_that_are_no_shares_are_refused(drops: object) -> None:
    with pytest.raises(BadInput, match="drops must be"):
        check_drops(drops)


def test_two_passes_score_every_mask_as_scoring_anew_does() -> None:
    from placings.rankers.lgbm import LightGBMRanker
    from placings.rankers.linear import LinearRanker
    from placings.simulate.rankings import make_ranking

    data = make_ranking(20, n_features=4, mean_size=15, random_state=0).data
    rng = np.random.default_rng(0)
    masks = [rng.random(data.n_rows) < 0.4 for _ in range(3)]
    for ranker in (LightGBMRanker(rounds=10).fit(data), LinearRanker("ridge").fit(data)):
        for value in (0.0, NAN):
            name = data.feature_names[0]
            fast = list(score_each(ranker.predict, data, name, masks, value, reach="row"))
            slow = list(score_each(ranker.predict, data, name, masks, value, reach="data"))
            np.testing.assert_allclose(fast, slow, rtol=1e-12, atol=1e-12)


# -- the coverage frame -------------------------------------------------------------------------------


def test_the_coverage_frame_counts_events_by_segment(data: RankingData) -> None:
    frame = summarise_coverage(data, by="region")
    header = ["feature", "region", "coverage", "low", "high", "events", "covered"]
    assert list(frame.columns) == header
    assert frame[["feature", "region", "coverage", "events", "covered"]].to_numpy().tolist() == [
        ["f1", "n", 1.0, 2, 2],
        ["f1", "s", 0.0, 1, 0],
        ["f2", "n", 0.5, 2, 1],
        ["f2", "s", 1.0, 1, 1],
    ]
    rows = summarise_coverage(data, ["f2"], unit="row")
    assert rows["coverage"].tolist() == [0.5]  # 5, 6 and 7 of six rows
    low, high = wilson_interval(1.5, 3)  # three events, whatever their rows
    assert rows[["low", "high"]].to_numpy().tolist() == [[float(low), float(high)]]


def test_a_segment_that_differs_within_an_event_is_an_error_for_events_only(data: RankingData) -> None:
    mixed = data.replace(segments={"kind": np.array(["a", "b", "a", "a", "a", "a"])})
    with pytest.raises(BadInput, match="same in all rows of a query"):
        split_units(count_units(mixed, "event"), ["kind"])
    parts = split_units(count_units(mixed, "row"), ["kind"])
    assert [(part.key, int(part.chosen.sum())) for part in parts] == [(("a",), 5), (("b",), 1)]
    with pytest.raises(UnknownName, match="segment"):
        split_units(count_units(data), ["area"])


def test_wilson_brackets_the_share_and_knows_nothing_of_no_units() -> None:
    low, high = wilson_interval(20, 20)
    assert low == pytest.approx(20 / (20 + 1.959964**2))  # Wilson at share 1: n / (n + z²)
    assert high == 1.0
    assert np.isnan(wilson_interval(0, 0)).all()
