"""Propensities from a log: the arithmetic, what is found again, what is refused, what is said first."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import placings as pg
from placings.core import BadInput, Guess, UnknownName
from placings.features import numeric_features
from placings.logs import ClickLog, PropensityCurve, check_clicks, estimate_propensity
from placings.serve.arms import Exploration, explore
from placings.simulate import Cascade, PositionBased, TrustBias

ITEMS = 5
LOOKS = 1.0 / np.arange(1, ITEMS + 1)


def make_rows(lists: list[list[str]], clicks: list[set[int]], **columns: Any) -> pd.DataFrame:
    """Lists from their top, the positions clicked in each, and columns with one value for each list."""
    frames = [
        {
            "search_id": f"s{number}", "item_id": item, "position": place,
            "label": float(place in clicked), **{name: values[number] for name, values in columns.items()},
        }
        for number, (shown, clicked) in enumerate(zip(lists, clicks, strict=True))
        for place, item in enumerate(shown, 1)
    ]  # fmt: skip
    return pd.DataFrame(frames)


def draw_rows(design: str, model: Any, searches: int = 6000, seed: int = 0) -> pd.DataFrame:
    """A log of 40 queries of five items each; half of the people see them as `design` says."""
    rng = np.random.default_rng(seed)
    relevance = np.random.default_rng(99).beta(0.8, 1.0, (40, ITEMS))
    query = rng.integers(0, 40, searches)
    arm = rng.integers(0, 2, searches)
    order = np.argsort(-(relevance + 0.4 * np.random.default_rng(98).normal(size=relevance.shape)), axis=1)[
        query
    ]
    columns: dict[str, Any] = {}
    if design == "swaps":
        order, columns = swap(order, rng)
    elif design == "served":
        order, columns = swap_by_service(order, Exploration(0.5, 10))
    elif design == "served far":
        order, columns = swap_by_service(order, Exploration(0.5, 10, reach=9))
    elif design == "shuffled":
        order = np.take_along_axis(order, np.argsort(rng.random(order.shape), axis=1), axis=1)
    elif design == "rankers":
        other = np.argsort(np.random.default_rng(97).random((40, ITEMS)), axis=1)[query]
        order = np.where((arm == 1)[:, None], other, order)
        columns = {"arm": np.repeat(np.array(["old", "new"])[arm], ITEMS)}
    shown = relevance[query[:, None], order]
    clicked = model.click_lists(shown.ravel(), np.arange(searches + 1) * ITEMS, rng)
    return pd.DataFrame(
        {
            "search_id": np.repeat(np.arange(searches), ITEMS),
            "session_id": np.repeat(np.arange(searches) // 2, ITEMS),
            "query": np.repeat([f"q{number}" for number in query], ITEMS),
            "item_id": (query[:, None] * ITEMS + order).ravel(),
            "position": np.tile(np.arange(1, ITEMS + 1), searches),
            "label": clicked.astype(float),
            "worth": np.log(shown.ravel() / (1.0 - shown.ravel())),
            **columns,
        }
    )


def swap(order: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any]]:
    """In half of the sessions each list has one of its four pairs swapped."""
    each = 0.5 / (ITEMS - 1)
    upper = np.where(
        (rng.random(len(order)) < 0.5)[np.arange(len(order)) // 2], rng.integers(1, ITEMS, len(order)), 0
    )
    shown, rows = order.copy(), np.flatnonzero(upper)
    above, below = upper[rows] - 1, upper[rows]
    shown[rows, above], shown[rows, below] = order[rows, below], order[rows, above]
    chance = np.tile([1 - each, 1 - 2 * each, 1 - 2 * each, 1 - 2 * each, 1 - each], (len(order), 1))
    chance[rows, above] = chance[rows, below] = each
    return shown, {"shown_probability": chance.ravel(), "swapped": np.repeat(upper, ITEMS)}


def swap_by_service(order: np.ndarray, exploration: Exploration) -> tuple[np.ndarray, dict[str, Any]]:
    """The lists as `placings serve --explore` shows and logs them; a session has two searches."""
    shown, chances, swapped = [], [], []
    for number, row in enumerate(order):
        drawn = explore(range(ITEMS), [str(item) for item in row], exploration, f"session {number // 2}")
        shown.append([row[place] for place in drawn.order])
        chances += drawn.propensity
        swapped += [(drawn.swapped, drawn.swapped_with, drawn.swap_reach)] * ITEMS
    told = dict(zip(("swapped", "swapped_with", "swap_reach"), np.array(swapped).T, strict=True))
    return np.array(shown), {"shown_probability": chances, **told}


PEOPLE = PositionBased(eta=1.0, certainty=0.9, noise=0.01)


# -- the arithmetic ----------------------------------------------------------------------------------------


def test_of_shuffled_lists_the_curve_is_clicks_by_rank_and_half_a_click_more() -> None:
    lists = [["a", "b"]] * 60
    clicks = [{1}] * 40 + [{2}] * 20
    curve = estimate_propensity(make_rows(lists, clicks), "randomised", depth=2)
    assert curve.values == pytest.approx([1.0, (20 + 0.5) / (40 + 0.5)])
    assert curve.clicks == 60
    assert curve.rests_on == "randomisation"


def test_swapped_clicks_weigh_one_over_their_probability() -> None:
    """Of 40 lists half are swapped: a click weighs 2. Half a click more on each side is a weight of 1."""
    lists = [["a", "b"]] * 20 + [["b", "a"]] * 20
    clicks: list[set[int]] = [{1}] * 8 + [{2}] * 3 + [set()] * 9 + [{1}] * 6 + [{2}] * 4 + [set()] * 10
    rows = make_rows(lists, clicks, swapped=[0] * 20 + [1] * 20, shown_probability=[0.5] * 40)
    curve = estimate_propensity(rows, "swaps")
    above, below = 2 * (8 + 6) + 1, 2 * (3 + 4) + 1
    assert curve.values[1] == pytest.approx(below / above)


def test_the_curve_of_swaps_makes_most_likely_where_clicked_items_stood() -> None:
    """By a slow reference: clicks q·p / Σ q·p, and half the logarithm of the information's determinant."""
    from scipy.optimize import minimize

    rows = draw_rows("served far", PEOPLE, searches=150, seed=3)
    curve = estimate_propensity(rows, "swaps")
    each = 0.5 / 10  # ten pairs of five
    base = rows["position"].to_numpy().copy()
    for here, there in (("swapped", "swapped_with"), ("swapped_with", "swapped")):
        at = (rows["position"] == rows[here]).to_numpy()
        base[at] = rows[there].to_numpy()[at]
    chance = np.where(np.arange(1, 6) == base[:, None], 1.0 - 4 * each, each)[rows["label"] > 0]
    stood = rows["position"].to_numpy()[rows["label"] > 0] - 1

    def lose(logs: np.ndarray) -> float:
        likely = chance * np.exp(np.concatenate([[0.0], logs]))
        likely /= likely.sum(axis=1, keepdims=True)
        information = np.diag(likely.sum(axis=0)) - likely.T @ likely
        seen = np.log(likely[np.arange(len(stood)), stood]).sum()
        return -float(seen + 0.5 * np.linalg.slogdet(information[1:, 1:])[1])

    best = minimize(lose, np.zeros(4), method="BFGS", options={"gtol": 1e-6}).x
    assert curve.ranks.tolist() == [1, 2, 3, 4, 5]
    np.testing.assert_allclose(np.log(curve.values[1:]), best, atol=1e-4)


def test_far_swaps_tell_the_last_rank_more_surely_than_neighbours() -> None:
    near, far = (
        estimate_propensity(draw_rows(design, PEOPLE), "swaps", depth=ITEMS)
        for design in ("served", "served far")
    )
    assert far.high[-1] / far.low[-1] < (near.high[-1] / near.low[-1]) ** 0.7
    assert "two neighbours were swapped" in near.says
    assert "two items, at most 4 places apart, were swapped" in far.says


def test_neighbours_with_and_without_their_reach_written_down_give_the_same_curve() -> None:
    rows = draw_rows("served", PEOPLE, searches=600)
    told, untold = (
        estimate_propensity(each, "swaps")
        for each in (rows, rows.drop(columns=["swapped_with", "swap_reach"]))
    )
    np.testing.assert_array_equal(told.values, untold.values)
    np.testing.assert_array_equal(told.low, untold.low)


def test_a_pair_that_is_further_apart_than_its_reach_is_refused() -> None:
    rows = draw_rows("served far", PEOPLE, searches=100).assign(swap_reach=1)
    with pytest.raises(BadInput, match="swapped_with must be from 1 to swap_reach places below swapped"):
        estimate_propensity(rows, "swaps")


def test_of_two_rankers_a_click_weighs_the_other_ranks_share_of_the_showings() -> None:
    """An item 4 times at rank 1 (2 clicks) and twice at rank 2 (1 click): 2 · 2/6 against 1 · 4/6."""
    lists = [["a", "x"]] * 4 + [["y", "a"]] * 2
    clicks: list[set[int]] = [{1}, {1}, set(), set(), {2}, set()]
    rows = make_rows(lists, clicks, query=["q"] * 6, arm=["one"] * 4 + ["two"] * 2)
    above, below = 2 * 2 / 6 + 0.5 * 2 / 6, 1 * 4 / 6 + 0.5 * 4 / 6  # and half a click of each weight
    for method in ("adjacent", "all-pairs"):
        assert estimate_propensity(rows, method).values[1] == pytest.approx(below / above)


def test_neighbours_are_chained_by_the_product_of_their_ratios() -> None:
    lists = [["a", "x", "b"]] * 10 + [["x", "a", "b"]] * 10 + [["y", "b", "z"]] * 10
    clicks: list[set[int]] = (
        [{1}] * 6 + [{3}] * 2 + [set()] * 2 + [{2}] * 3 + [set()] * 7 + [{2}] * 5 + [set()] * 5
    )
    rows = make_rows(lists, clicks, query=["q"] * 30, arm=["one"] * 10 + ["two"] * 20)
    curve = estimate_propensity(rows, "adjacent")
    # a: 10 showings at each of 1 and 2, x too; b: 20 at rank 3, 10 at rank 2
    second = (3 * 0.5 + 0.25) / (6 * 0.5 + 0.25)
    third = (2 * 10 / 30 + 0.5 * 10 / 30) / (5 * 20 / 30 + 0.5 * 20 / 30)
    assert curve.values == pytest.approx([1.0, second, second * third])


def test_a_session_that_clicks_twice_is_one_draw() -> None:
    """The same clicks, made by half as many people, are known less well."""
    lists = [["a", "b"]] * 60
    clicks: list[set[int]] = [{1}] * 40 + [{2}] * 20
    alone = estimate_propensity(make_rows(lists, clicks), "randomised", depth=2)
    pairs = make_rows(lists, clicks, session_id=[number // 2 for number in range(60)])
    together = estimate_propensity(pairs, "randomised", depth=2)
    assert np.log(together.high[1] / together.low[1]) > 1.2 * np.log(alone.high[1] / alone.low[1])


# -- recovery ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("design", "method", "most"),
    [
        ("swaps", "swaps", 0.2), ("served", "swaps", 0.2), ("served far", "swaps", 0.1),
        ("shuffled", "randomised", 0.1), ("rankers", "adjacent", 0.25), ("rankers", "all-pairs", 0.15),
        ("fixed", "em", 0.1),
    ],
)  # fmt: skip
def test_the_curve_is_found_again_and_lies_in_its_interval(design: str, method: str, most: float) -> None:
    rows = draw_rows(design, PEOPLE)
    curve = estimate_propensity(rows, method, depth=ITEMS, features=["worth"] if method == "em" else None)
    assert curve.ranks.tolist() == [1, 2, 3, 4, 5]
    assert np.abs(curve.values / LOOKS - 1.0).max() < most
    if method != "em":  # its noise and certainty are no part of σ(x·w)
        assert (curve.low <= LOOKS).all()
        assert (curve.high >= LOOKS).all()
        assert curve.misfit is not None
        assert not curve.misfit.flagged


def test_a_curve_by_features_is_too_steep_where_they_miss_what_the_engine_knows() -> None:
    rows = draw_rows("fixed", PEOPLE)
    rows["vague"] = rows["worth"] + 3.0 * np.random.default_rng(3).normal(size=len(rows))
    known = estimate_propensity(rows, "two-tower", features=["worth"])
    vague = estimate_propensity(rows, "two-tower", features=["vague"])
    assert vague.values[-1] < 0.8 * known.values[-1]
    assert "identified by features only (vague)" in str(vague).splitlines()[0]
    assert vague.rests_on == "features only"
    assert vague.misfit is None


def test_trust_is_found_as_a_line_that_ordering_can_use() -> None:
    model = TrustBias(eta=1.0, certainty=0.9, noise=0.01, trust=0.4)
    rows = draw_rows("swaps", model, searches=16_000)
    curve = estimate_propensity(rows, "trust")
    assert curve.trust is not None
    assert curve.rests_on == "randomisation"
    wrong = model.mistake(ITEMS)
    slope = LOOKS * (model.certainty - wrong)
    floor = LOOKS * wrong
    alpha, beta = slope / slope[0], floor - slope / slope[0] * floor[0]
    assert curve.trust.alpha[:3] == pytest.approx(alpha[:3], rel=0.15)
    assert curve.trust.beta[:3] == pytest.approx(beta[:3], abs=0.05)
    assert (curve.low <= alpha + 0.02).all()
    assert (alpha - 0.02 <= curve.high).all()
    assert "beta_k" in str(curve)


# -- the check of the model --------------------------------------------------------------------------------


@pytest.mark.parametrize(("design", "method"), [("swaps", "swaps"), ("shuffled", "randomised")])
@pytest.mark.parametrize(
    ("model", "cause"),
    [(TrustBias(trust=0.85), "trust"), (Cascade(patience=0.9, again=0.2), "read from the top")],
)
def test_clicks_of_other_kinds_of_people_are_flagged(
    design: str, method: str, model: Any, cause: str
) -> None:
    curve = estimate_propensity(draw_rows(design, model, searches=12_000), method, depth=ITEMS)
    assert curve.misfit is not None
    assert curve.misfit.flagged
    assert cause in curve.misfit.sentence
    assert curve.misfit.sentence in str(curve)


def test_a_log_is_checked_with_its_curve_alone() -> None:
    rows = draw_rows("swaps", PEOPLE, searches=3000)
    curve = estimate_propensity(rows)
    found = check_clicks(rows, curve)
    assert curve.misfit is not None
    assert found.to_dict() == curve.misfit.to_dict()
    assert {each.by for each in found.splits} == {"the item itself", "the neighbour it was swapped with"}


def test_too_few_clicks_contradict_nothing() -> None:
    curve = estimate_propensity(draw_rows("swaps", PEOPLE, searches=60), "swaps")
    assert curve.misfit is not None
    assert not curve.misfit.flagged
    assert np.isnan(curve.misfit.p)
    assert "too few people" in curve.misfit.sentence


def test_a_curve_by_features_cannot_be_checked() -> None:
    rows = draw_rows("fixed", PEOPLE, searches=300)
    with pytest.raises(BadInput, match="rest on the same item at two ranks. Got a curve by method 'em'"):
        check_clicks(rows, estimate_propensity(rows, "em", features=["worth"]))


# -- what is chosen, and what is refused -------------------------------------------------------------------


def test_auto_takes_what_the_log_carries() -> None:
    swaps, rankers = draw_rows("swaps", PEOPLE, 800), draw_rows("rankers", PEOPLE, 800)
    assert pg.estimate_propensity(swaps).method == "swaps"
    assert pg.estimate_propensity(rankers).method == "all-pairs"
    shuffled = draw_rows("shuffled", PEOPLE, 800).assign(shown_probability=1 / ITEMS)
    curve = pg.estimate_propensity(shuffled)
    assert (curve.method, curve.ranks[-1]) == ("randomised", ITEMS)
    assert "as shown_probability says" in str(curve)


def test_a_log_of_one_fixed_order_is_refused_with_what_to_log() -> None:
    rows = draw_rows("fixed", PEOPLE, searches=300)
    for method in ("auto", "adjacent", "all-pairs", "trust"):
        with pytest.raises(BadInput, match="stood at one rank only.*two neighbours swapped.*--explore 0.05"):
            estimate_propensity(rows, method)
    with pytest.raises(BadInput, match="has no column shown_probability and no swapped.*--explore 0.05"):
        estimate_propensity(rows, "swaps")


def test_ranks_that_moved_for_unknown_reasons_are_taken_on_your_word_alone() -> None:
    rows = draw_rows("rankers", PEOPLE, searches=800).drop(columns="arm")
    with pytest.raises(BadInput, match="nothing in the log says why items stood at different ranks"):
        estimate_propensity(rows)
    first = str(estimate_propensity(rows, "all-pairs")).splitlines()[0]
    assert "by your word" in first
    assert "the same query and item stood at different ranks" in first


def test_ranks_that_nothing_ties_to_rank_1_are_refused_by_name() -> None:
    lists = [["a", "b", "c", "d"]] * 30 + [["b", "a", "d", "c"]] * 30
    clicks: list[set[int]] = (
        [{1, 3}] * 10 + [{2, 4}] * 10 + [set()] * 10 + [{1, 3}] * 8 + [{2, 4}] * 8 + [set()] * 14
    )
    rows = make_rows(lists, clicks, query=["q"] * 60, arm=["one"] * 30 + ["two"] * 30)
    curve = estimate_propensity(rows, "adjacent")
    assert curve.ranks.tolist() == [1, 2]
    assert curve.refused == (3, 4)
    assert "Refused: ranks 3–4." in str(curve)


def test_lists_that_could_not_be_swapped_take_no_part() -> None:
    """Fallbacks and interleaved lists have no probability, or 1: their clicks would not be comparable."""
    rows = draw_rows("swaps", PEOPLE, searches=2000)
    more = draw_rows("fixed", PEOPLE, searches=1000)
    more = more.assign(
        search_id=more["search_id"] + 10_000, session_id=more["session_id"] + 10_000, swapped=0
    )
    with_others = pd.concat([rows, more.assign(shown_probability=np.nan)], ignore_index=True)
    assert estimate_propensity(with_others).values == pytest.approx(estimate_propensity(rows).values)
    certain = pd.concat([rows, more.assign(shown_probability=1.0)], ignore_index=True)
    assert estimate_propensity(certain).values == pytest.approx(estimate_propensity(rows).values)


def test_unclicked_lists_may_be_missing_where_swaps_carry_the_curve() -> None:
    rows = draw_rows("swaps", PEOPLE, searches=2000)
    clicked = rows[rows.groupby("search_id")["label"].transform("max") > 0]
    assert estimate_propensity(clicked, "swaps").values == pytest.approx(
        estimate_propensity(rows, "swaps").values
    )
    rankers = draw_rows("rankers", PEOPLE, searches=800)
    only = rankers[rankers.groupby("search_id")["label"].transform("max") > 0]
    assert "Every search of the log has a click" in str(estimate_propensity(only))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"method": "swap"}, "no method 'swap'; did you mean 'swaps'"),
        ({"method": "randomised"}, "'randomised' needs depth=10: how many items"),
        ({"method": "randomised", "depth": 9}, "all of the ranks 1 to 9. Got lists of 5 items at most"),
        ({"depth": 1}, "depth must be a whole number of 2 or more. Got 1"),
        ({"level": 1.5}, "level must be a number between 0 and 1"),
        ({"by": "query"}, "by must be a list of column names. Got 'query'"),
        ({"method": "adjacent", "by": ["text"]}, "'adjacent' needs by=: the columns that say what"),
        ({"method": "em", "features": ["price"]}, "no column 'price'"),
        ({"method": "em", "features": np.ones((500, 1))}, "as a matrix need a ClickLog"),
        ({"method": "em", "features": ["one"]}, "the features must differ between rows"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_refused(options: dict[str, Any], problem: str) -> None:
    rows = draw_rows("swaps", PEOPLE, searches=100).assign(one=1.0)
    with pytest.raises(BadInput, match=problem):
        estimate_propensity(rows, **options)


def test_logs_without_clicks_rows_or_probabilities_are_refused() -> None:
    rows = draw_rows("swaps", PEOPLE, searches=100)
    with pytest.raises(BadInput, match="must have clicks"):
        estimate_propensity(rows.assign(label=0.0))
    with pytest.raises(BadInput, match="must have rows with a search"):
        estimate_propensity(rows.assign(position=np.nan))
    with pytest.raises(BadInput, match="shown_probability must be above 0 and at most 1. Got 0.0"):
        estimate_propensity(rows.assign(shown_probability=0.0))
    with pytest.raises(BadInput, match="no rank is tied to rank 1: no swap has a click"):
        estimate_propensity(rows.assign(label=rows["label"].where(rows["swapped"] == 0, 0.0)), "swaps")
    with pytest.raises(BadInput, match="no numeric column that could tell relevance from rank"):
        estimate_propensity(rows.drop(columns="worth"), "em")


def test_the_features_of_a_position_model_may_be_a_matrix_a_set_or_all_numeric_columns() -> None:
    rows = draw_rows("fixed", PEOPLE, searches=1000)
    named = estimate_propensity(rows, "em", features=["worth"])
    log = ClickLog(rows)
    matrix = estimate_propensity(log, "em", features=log.rows[["worth"]].to_numpy())
    assert matrix.values == pytest.approx(named.values)
    fitted = numeric_features(["worth"]).fit(rows)
    assert estimate_propensity(rows, "em", features=fitted).values == pytest.approx(named.values, rel=1e-3)
    assert "(worth)" in str(estimate_propensity(rows, "em"))  # not position, label or ids
    with pytest.raises(BadInput, match="one line for each of the 5,000 rows of the log"):
        estimate_propensity(log, "em", features=np.ones((3, 1)))


def test_the_order_of_rows_does_not_matter_and_inputs_do_not_change() -> None:
    rows = draw_rows("swaps", PEOPLE, searches=500)
    before = rows.copy(deep=True)
    found = estimate_propensity(rows)
    pd.testing.assert_frame_equal(rows, before)
    mixed = rows.sample(frac=1.0, random_state=1)
    assert estimate_propensity(mixed).values == pytest.approx(found.values)


# -- the curve ---------------------------------------------------------------------------------------------


def make_curve(**changes: Any) -> PropensityCurve:
    state = {
        "ranks": [1, 2, 4], "values": [1.0, 0.5, 0.125], "low": [1.0, 0.4, 0.1], "high": [1.0, 0.6, 0.2],
        "method": "swaps", "rests_on": "randomisation", "says": "first", "searches": 9, "clicks": 5,
    }  # fmt: skip
    return PropensityCurve.from_state({**state, **changes})


def test_ranks_between_are_on_the_line_of_the_logarithms_and_those_beyond_have_the_last_value() -> None:
    curve = make_curve()
    assert curve.at([1, 2, 3, 4, 40]).tolist() == pytest.approx(
        [1.0, 0.5, (0.5 * 0.125) ** 0.5, 0.125, 0.125]
    )
    assert curve.at([[np.nan]]).tolist() == [[0.125]]
    assert curve.count_beyond([1, 4, 5, np.nan]) == 2
    assert make_curve(values=[1.0, 1.5, 0.2]).at([2]).tolist() == [1.0]  # noise; nothing is above 1
    with pytest.raises(BadInput, match="positions must be 1 or more. Got 0"):
        curve.at([0])


def test_a_log_gets_the_propensity_of_where_people_saw_the_item() -> None:
    rows = make_rows([["a", "b"]], [{1}])
    added = make_curve().add_to(rows)
    assert added.rows["propensity"].tolist() == [1.0, 0.5]
    assert "propensity" not in rows
    served = rows.assign(shown_position=[2, 1])  # position is the engine's there
    assert make_curve().add_to(ClickLog(served)).rows["propensity"].tolist() == [0.5, 1.0]
    with pytest.warns(Guess, match="1 of 2 rows are beyond rank 4"):
        deep = make_curve().add_to(rows.assign(position=[1, 9]))
    assert deep.rows["propensity"].tolist() == [1.0, 0.125]


def test_a_curve_is_the_same_after_json() -> None:
    for curve in (
        estimate_propensity(draw_rows("swaps", PEOPLE, searches=1000)),
        estimate_propensity(draw_rows("swaps", PEOPLE, searches=4000), "trust"),
    ):
        again = PropensityCurve.from_state(json.loads(curve.to_json()))
        assert str(again) == str(curve)
        assert again.to_json() == curve.to_json()
        assert again.at([1, 2, 3]).tolist() == curve.at([1, 2, 3]).tolist()


@pytest.mark.parametrize(
    "changes",
    [
        {"ranks": [2, 3, 4]},
        {"ranks": [1, 2, 10**12]},
        {"ranks": [1, 2]},
        {"values": [1.0, 0.0, 0.1]},
        {"clicks": "many"},
        {"trust": {}},
    ],
)
def test_a_state_that_is_no_curve_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match="saved curve"):
        make_curve(**changes)


def test_unknown_methods_list_what_there_is() -> None:
    with pytest.raises(
        UnknownName, match="adjacent, all-pairs, auto, em, randomised, swaps, trust, two-tower"
    ):
        estimate_propensity(make_rows([["a"]], [{1}]), "magic")
