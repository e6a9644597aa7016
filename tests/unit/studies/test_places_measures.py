"""Numbers of the places study against numbers worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.core.statistics import bootstrap_means
from placings.data.ranking import RankingData
from placings.logs import carry_clicks
from placings.rerank.reranker import gather_lists, list_members
from placings.studies.places_measures import (
    collect_lengths,
    compare_two,
    describe_models,
    find_ranks,
    find_sessions,
    invert_ranks,
    judge_slices,
    loses,
    tell_bands,
)
from placings.studies.places_models import (
    GRIDS,
    StudySettings,
    describe_fit,
    join_columns,
    make_tree,
    thin_curve,
    weigh_bands,
)
from placings.studies.places_why import find_seen

pd = pytest.importorskip("pandas")


def make_cells() -> dict[str, dict[str, Any]]:
    """Four searches; the second has no click, the fourth's list lacks the target."""
    return {
        "engine": {"clicks": [1, 0, 2, 1], "true": [1, 4, 2, 0], "seconds": 0.0},
        "better": {"clicks": [1, 0, 1, 1], "true": [1, 1, 1, 0], "seconds": 2.0},
        "worse": {"clicks": [2, 0, 2, 2], "true": [2, 4, 2, 0], "seconds": 1.0},
    }


def test_an_unclicked_search_is_not_judged_on_clicks_and_a_missing_target_counts_zero() -> None:
    table = {row["name"]: row for row in describe_models(make_cells(), "engine", draws=200, seed=0)}
    assert table["engine"]["mrr"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert table["engine"]["mrr_true"] == pytest.approx((1 + 1 / 4 + 1 / 2 + 0) / 4)
    assert table["better"]["difference"] == pytest.approx((0 + 1 / 2 + 0) / 3)
    assert table["better"]["difference_true"] == pytest.approx((0 + 3 / 4 + 1 / 2 + 0) / 4)
    assert np.isnan(table["engine"]["p"])
    assert table["better"]["low"] <= table["better"]["mrr"] <= table["better"]["high"]


def test_without_truth_there_is_no_number_of_it() -> None:
    cells = {name: {**cell, "true": None} for name, cell in make_cells().items()}
    table = describe_models(cells, "engine", draws=0, seed=0)
    assert {row["mrr_true"] for row in table} == {None}


def test_ranks_are_those_of_the_first_relevant_row() -> None:
    scores = np.array([3.0, 2.0, 1.0, 1.0, 2.0])
    assert find_ranks(scores, np.array([0.0, 1.0, 1.0, 0.0, 0.0]), np.array([0, 3, 5])) == [2, 0]
    np.testing.assert_array_equal(invert_ranks([2, 0], absent=np.nan), [0.5, np.nan])


@pytest.mark.parametrize(
    ("difference", "low", "high", "expected"),
    [
        (-0.02, -0.05, 0.01, True),
        (-0.004, -0.006, -0.001, True),
        (-0.009, -0.03, 0.01, False),
        (0.1, 0.0, 0.2, False),
    ],
)
def test_a_slice_loses_by_its_whole_interval_or_by_more_than_a_hundredth(
    difference: float, low: float, high: float, expected: bool
) -> None:
    assert loses({"difference": difference, "low": low, "high": high}) is expected


def test_slices_are_judged_on_the_target_the_worst_first_and_small_ones_left_out() -> None:
    engine = {"clicks": [1, 1, 1, 1, 2], "true": [1, 1, 1, 1, 2]}
    model = {"clicks": [2, 2, 1, 1, 1], "true": [2, 2, 1, 1, 1]}
    context = {"location": np.array(["a", "a", "b", "b", "c"], dtype=object)}
    table = judge_slices(engine, model, context, least=2, draws=100, seed=0)
    assert [(row["value"], row["searches"], row["loses"]) for row in table] == [
        ("a", 2, True),
        ("b", 2, False),
    ]
    assert table[0]["difference"] == pytest.approx(-0.5)
    assert table[0]["measure"] == "true"
    assert table[0]["difference_clicks"] == pytest.approx(-0.5)
    own = judge_slices({**engine, "true": None}, {**model, "true": None}, context, least=2, draws=100, seed=0)
    assert own[0]["measure"] == "clicks"
    assert "difference_clicks" not in own[0]


def test_a_slice_with_too_few_clicks_gets_no_verdict_on_them() -> None:
    engine, model = {"clicks": [1, 0], "true": [1, 1]}, {"clicks": [2, 0], "true": [1, 1]}
    table = judge_slices(engine, model, {"kind": np.array(["x", "x"])}, least=2, draws=50, seed=0)
    assert table[0]["loses"] is False
    assert table[0]["loses_clicks"] is None


def test_bands_come_by_length_and_lengths_by_rank() -> None:
    cells = make_cells()
    bands = np.array(["[11, 20]", "[3, 10]", "[3, 10]", "[11, 20]"], dtype=object)
    table = tell_bands(cells, "engine", "better", "worse", bands, draws=50, seed=0)
    assert [row["band"] for row in table] == ["[3, 10]", "[11, 20]"]
    assert table[0]["searches"] == 1  # of two, one has a click
    assert table[0]["difference"] == pytest.approx(0.5)
    assert table[0]["searches_true"] == 2
    assert table[1]["ngrams"] == pytest.approx(0.5)
    found = collect_lengths(cells, ("engine",), np.array([12, 5, 6, 15]))
    assert found == {"engine": {"1": [12, 15], "2": [6]}}


def test_nothing_in_common_gives_no_difference() -> None:
    nothing = np.array([np.nan])
    assert compare_two(nothing, nothing, draws=10, seed=0)["difference"] is None


def test_a_later_click_of_the_session_is_carried_back_to_lists_that_held_it() -> None:
    clicked = pd.DataFrame(
        {"search_id": ["s3"] * 2, "session_id": ["u"] * 2, "item_id": ["a", "b"], "label": [0.0, 1.0],
         "time": pd.to_datetime(["2026-01-01 10:03"] * 2), "position": [1, 2]}
    )  # fmt: skip
    rest = pd.DataFrame(
        {
            "search_id": ["s1", "s1", "s2", "s2", "s4", "s4", "s5", "s5"],
            "session_id": ["u"] * 6 + ["v"] * 2,
            "item_id": ["b", "c", "c", "d", "b", "c", "b", "c"],
            "time": pd.to_datetime([f"2026-01-01 10:0{n}" for n in (1, 1, 2, 2, 4, 4, 1, 1)]),
            "label": np.zeros(8), "position": [1, 2] * 4,
        }
    )  # fmt: skip
    found = carry_clicks(clicked, rest)
    # s2 lacks it, s4 comes after the click, s5 is another session
    assert found["search_id"].tolist() == ["s1", "s1"]
    assert found["label"].tolist() == [1.0, 0.0]
    assert not rest["label"].any()
    assert gather_lists(pd.concat([clicked, rest]))["search_id"].tolist() == ["s1", "s1", "s3", "s3"]
    assert not len(carry_clicks(clicked, rest.drop(columns="session_id")))
    with pytest.raises(BadInput, match="learns from clicks"):
        gather_lists(rest)


def test_a_click_on_a_list_of_one_item_is_carried_back_like_any_other() -> None:
    made = {
        "search_id": ["s1", "s1", "s2", "t1", "t1"], "session_id": ["u", "u", "u", "v", "v"],
        "item_id": ["b", "c", "c", "a", "b"], "label": [0.0, 0.0, 1.0, 1.0, 0.0],
        "time": pd.to_datetime([f"2026-01-01 10:0{n}" for n in (1, 1, 2, 3, 3)]),
        "position": [1, 2, 1, 1, 2],
    }  # fmt: skip
    found = gather_lists(pd.DataFrame(made))
    assert found["search_id"].tolist() == ["s1", "s1", "t1", "t1"]
    assert found["label"].tolist() == [0.0, 1.0, 1.0, 0.0]
    deep = pd.DataFrame({**made, "position": [1, 2, 41, 1, 2]})  # clicked far down: carried all the same
    assert gather_lists(deep)["search_id"].tolist() == ["s1", "s1", "t1", "t1"]
    assert gather_lists(pd.DataFrame(made).assign(position=[1, 41, 1, 1, 2]))["search_id"].tolist() == [
        "t1", "t1",
    ]  # fmt: skip


def test_whether_a_clicked_item_was_clicked_in_training() -> None:
    train = pd.DataFrame({"item_id": ["a", "b"], "label": [1.0, 0.0]})
    test = pd.DataFrame(
        {"search_id": ["x", "x", "y", "y"], "item_id": list("abab"), "label": [1.0, 0.0, 0.0, 1.0]}
    )
    assert find_seen(train, test).tolist() == [True, False]


def test_columns_of_two_sets_stand_side_by_side_once() -> None:
    from scipy.sparse import csr_array

    labels, qid = [1, 0], [1, 1]
    dense = RankingData.from_arrays([[1.0, 2.0], [3.0, 4.0]], labels, qid, feature_names=["a", "b"])
    other = RankingData.from_arrays([[2.0, 5.0], [4.0, 6.0]], labels, qid, feature_names=["b", "c"])
    joined = join_columns(dense, other)
    assert joined.feature_names == ("a", "b", "c")
    np.testing.assert_array_equal(joined.X, [[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]])
    sparse = join_columns(dense.replace(X=csr_array(dense.X)), other)
    np.testing.assert_array_equal(sparse.X.toarray(), joined.X)


def test_rare_bands_weigh_more_up_to_a_bound_and_the_mean_is_one() -> None:
    bands = np.array(["a"] * 9 + ["b"], dtype=object)
    weights = weigh_bands(np.ones(10, dtype=np.int64), bands)
    assert weights[9] / weights[0] == pytest.approx(3.0)  # √(0.9 / 0.1)
    assert weights.mean() == pytest.approx(1.0)
    rare = weigh_bands(np.ones(1000, dtype=np.int64), np.array(["a"] * 999 + ["b"], dtype=object))
    assert rare[-1] / rare[0] == pytest.approx(4.0)


def test_a_curve_is_thinned_to_two_hundred_stretches() -> None:
    loss = list(np.arange(1000.0))
    curve = thin_curve(loss, loss)
    assert len(curve["step"]) == 200
    assert curve["step"][-1] == 1000
    assert curve["loss"][0] == pytest.approx(np.mean(loss[:5]))
    assert thin_curve([], []) == {"step": [], "loss": [], "gradient": []}
    assert describe_fit(object()) == {}


@pytest.mark.parametrize("name", sorted(GRIDS))
def test_every_value_of_a_grid_is_one_that_the_library_takes(name: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)).astype(np.float32)
    data = RankingData.from_arrays(X, np.tile([1, 0, 0, 0, 0, 0], 10), np.repeat(np.arange(10), 6))
    settings = StudySettings(rounds=3, slow_rounds=3)
    for values in GRIDS[name]:
        ranker = make_tree(name, settings, values).fit(data)
        assert ranker.rounds_ == (6 if "rounds" in values else 3)


def test_an_unknown_kind_of_re_ranker_is_named() -> None:
    with pytest.raises(UnknownName, match="no kind of re-ranker 'forest'"):
        list_members(kinds=("forest",))
    with pytest.raises(BadInput, match="at least one of"):
        list_members(kinds=())


def test_sessions_change_intervals_and_tests_but_no_mean() -> None:
    rng = np.random.default_rng(0)
    sessions = np.repeat(np.arange(30), 4).astype(object)
    better = rng.random(30)[np.arange(120) // 4] < 0.5  # a session is better as a whole, or not at all
    cells = {
        "engine": {"clicks": np.full(120, 2).tolist(), "true": None},
        "model": {"clicks": np.where(better, 1, 3).tolist(), "true": None},
    }
    alone = describe_models(cells, "engine", draws=400, seed=0)[1]
    together = describe_models(cells, "engine", draws=400, seed=0, sessions=sessions)[1]
    assert (alone["mrr"], alone["difference"]) == (together["mrr"], together["difference"])
    width = [row["difference_high"] - row["difference_low"] for row in (alone, together)]
    assert width[1] > 1.5 * width[0]  # √4 if all four of a session are alike
    assert together["p"] > alone["p"]
    engine, model = np.full(120, 0.5), np.where(better, 1.0, 1 / 3)
    half = np.arange(120) < 60
    facts = compare_two(engine, model, half, draws=400, seed=0, sessions=sessions)
    low, high = bootstrap_means((model - engine)[:60, None], draws=400, clusters=np.arange(60) // 4)
    assert (facts["low"], facts["high"]) == pytest.approx((low[0], high[0]), rel=1e-12)


def test_the_session_of_a_search_is_that_of_its_first_row_and_may_be_unknown() -> None:
    rows = pd.DataFrame({"search_id": ["a", "a", "b"], "session_id": ["u", "u", None]})
    found = find_sessions(rows, np.array([0, 2, 3]))
    assert found is not None
    assert found.tolist() == ["u", None]
    assert find_sessions(rows[["search_id"]], np.array([0, 2, 3])) is None
