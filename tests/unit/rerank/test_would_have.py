"""What a candidate would have earned on a log of another order: arithmetic, support, verdicts, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import placings as pg
from placings.core import BadInput, UnknownName
from placings.features import FeatureSet
from placings.features.number import Number
from placings.logs import PAST
from placings.rankers.linear import LinearRanker
from placings.rerank.logged_lists import read_lists
from placings.serve.arms import Exploration, explore

pd = pytest.importorskip("pandas")
HALF_LOOKS = [1.0, 0.5]


def make_log(lists: int = 60, items: int = 2, clicked: int = 2, every: int = 2, **more: Any) -> Any:
    """Lists of a, b, …; the item at place `clicked` is clicked in every second list."""
    rows = {
        "search_id": np.repeat([f"s{number}" for number in range(lists)], items),
        "item_id": np.tile(list("abcdefghij")[:items], lists),
        "position": np.tile(np.arange(1, items + 1), lists),
        "label": [
            float(place == clicked and number % every == 0)
            for number in range(lists) for place in range(1, items + 1)
        ],
    }  # fmt: skip
    return pd.DataFrame({**rows, **more})


def reverse(log: Any) -> list[float]:
    return log["position"].astype(float).tolist()


# -- position-based ----------------------------------------------------------------------------------------


def test_a_click_moves_by_the_ratio_of_looks() -> None:
    found = pg.would_have(reverse(make_log()), make_log(), propensity=HALF_LOOKS)
    assert found.estimator == "position-based"
    assert found.overall.shown == 0.5  # 30 clicks in 60 lists
    assert found.overall.candidate == pytest.approx(0.5 * 1.0 / 0.5)
    assert found.passed
    assert (found.support.effective, found.support.of, found.support.largest) == (30.0, 30, 2.0)
    assert found.support.changed == 1.0


def test_dcg_counts_a_click_by_its_new_place() -> None:
    found = pg.would_have(reverse(make_log()), make_log(), metric="dcg@10", propensity=HALF_LOOKS)
    assert found.overall.shown == pytest.approx(0.5 / math.log2(3))
    assert found.overall.candidate == pytest.approx(1.0)


def test_what_falls_below_the_cutoff_is_not_clicked() -> None:
    log = make_log(clicked=1)
    found = pg.would_have(reverse(log), log, metric="clicks@1", propensity=HALF_LOOKS)
    assert (found.overall.shown, found.overall.candidate) == (0.5, 0.0)
    assert found.overall.verdict == "worse"
    assert not found.passed
    assert found.sentence.startswith("Shown worse: clicks@1 would have been 0.0000 where 0.5000 was seen")


def test_the_order_that_was_shown_passes_with_a_difference_of_exactly_0() -> None:
    log = make_log()
    found = pg.would_have([-value for value in reverse(log)], log, propensity=HALF_LOOKS)
    assert found.overall.difference == found.overall.low == found.overall.high == 0.0
    assert found.passed
    assert found.support.changed == 0.0
    assert found.find_power(0.0) == found.find_power(-0.005) == 1.0
    assert found.find_power(-0.01) == 0.0


def test_equal_scores_keep_the_order_that_was_shown() -> None:
    log = make_log()
    assert pg.would_have(np.zeros(len(log)), log, propensity=HALF_LOOKS).support.changed == 0.0


def test_a_curve_comes_as_numbers_a_state_or_a_column() -> None:
    log = make_log()
    expected = pg.would_have(reverse(log), log, propensity=HALF_LOOKS).overall
    state = {"ranks": [1, 2], "values": HALF_LOOKS, "low": None, "high": None, "rests_on": "randomisation"}
    by_state = pg.would_have(reverse(log), log, propensity=state)
    assert by_state.overall == expected
    assert "from randomisation" in by_state.rests_on
    with_column = log.assign(propensity=np.where(log["position"] == 1, 1.0, 0.5))
    assert pg.would_have(reverse(log), with_column).overall == expected
    named = log.assign(looks=np.where(log["position"] == 1, 1.0, 0.5))
    assert pg.would_have(reverse(log), named, propensity="looks").overall == expected


def test_the_doubt_of_a_curve_widens_the_interval_and_never_the_estimate() -> None:
    log = make_log()
    sure = pg.would_have(reverse(log), log, propensity=HALF_LOOKS)
    state = {"ranks": [1, 2], "values": HALF_LOOKS, "low": [1.0, 0.4], "high": [1.0, 0.8]}
    found = pg.would_have(reverse(log), log, propensity=state)
    assert found.overall.difference == sure.overall.difference
    # with p_2 = 0.8 a click at 2 becomes 1/0.8 at 1: the difference is 0.5 · 0.25, not 0.5 · 1
    assert found.overall.doubt == pytest.approx(0.5 - 0.125)
    usual = sure.overall.difference - sure.overall.least
    assert found.overall.least == pytest.approx(0.5 - math.hypot(usual, 0.375))
    # and with p_2 = 0.4 it becomes 1/0.4: 0.5 · 1.5
    above = sure.overall.high - sure.overall.difference
    assert found.overall.high == pytest.approx(0.5 + math.hypot(above, 0.25))


def test_trust_takes_mistaken_clicks_out_before_it_moves_them() -> None:
    log = make_log()
    state = {"ranks": [1, 2], "values": [1.0, 0.5], "trust": {"beta": [0.2, 0.1]}}
    found = pg.would_have(reverse(log), log, propensity=state)
    up = [(click - 0.1) / 0.5 * 1.0 + 0.2 for click in (1.0, 0.0)]  # b goes up, clicked or not
    down = (0.0 - 0.2) / 1.0 * 0.5 + 0.1  # a, never clicked, goes down
    assert found.overall.candidate == pytest.approx(np.mean(up) + down)


def test_clicks_below_the_curve_have_its_last_value_and_are_told() -> None:
    log = make_log(items=3, clicked=3)
    found = pg.would_have(reverse(log), log, propensity=HALF_LOOKS)
    assert found.overall.candidate == pytest.approx(0.5 * 1.0 / 0.5)
    assert any("30 clicks lie below rank 2" in note for note in found.notes)


# -- exploration -------------------------------------------------------------------------------------------


def make_swaps(lists: int = 3000, rate: float = 0.5, seed: int = 0) -> Any:
    """Three items; in half of the sessions one of two pairs is swapped; c is clicked wherever it is."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(lists):
        order, swapped = ["a", "b", "c"], 0
        if rng.random() < rate:
            upper = int(rng.integers(2))
            order[upper], order[upper + 1] = order[upper + 1], order[upper]
            swapped = upper + 1
        for place, item in enumerate(order, 1):
            inside = swapped and place in (swapped, swapped + 1)
            q = rate / 2 if inside else 1.0 - (2 if place == 2 else 1) * rate / 2
            clicked = float(rng.random() < (0.4 if item == "c" else 0.1) / place)
            rows.append((f"s{number}", item, place, clicked, q, swapped))
    return pd.DataFrame(
        rows, columns=["search_id", "item_id", "position", "label", "shown_probability", "swapped"]
    )


def test_item_position_weighs_by_the_probability_that_was_written_down() -> None:
    log = make_swaps()
    scores = log["item_id"].map({"a": 3.0, "b": 1.0, "c": 2.0}).to_numpy()  # a c b: one swap
    found = pg.would_have(scores, log)
    assert found.estimator == "item-position"
    rows = log.assign(wanted=log["item_id"].map({"a": 1, "c": 2, "b": 3}))
    stays = rows[rows["position"] == rows["wanted"]]
    by_hand = (stays["label"] / stays["shown_probability"]).sum() / log["search_id"].nunique()
    assert found.overall.candidate == pytest.approx(by_hand)
    truth = 0.1 / 1 + 0.4 / 2 + 0.1 / 3
    assert found.overall.candidate == pytest.approx(truth, abs=4 * found.overall.error)
    assert (found.support.without, found.support.guessed) == (0.0, False)
    assert "randomisation" in found.rests_on


def make_far_swaps(lists: int = 4000) -> Any:
    """As a service logs them: any two of the first three of four items; c is clicked wherever it is."""
    rng, rows = np.random.default_rng(0), []
    for number in range(lists):
        drawn = explore(range(4), list("abcd"), Exploration(0.5, 3, reach=2), "x", str(number))
        for place, (row, chance) in enumerate(zip(drawn.order, drawn.propensity, strict=True), 1):
            clicked = float(rng.random() < (0.4 if row == 2 else 0.1) / place)
            told = (drawn.swapped, drawn.swapped_with, drawn.swap_reach)
            rows.append((f"s{number}", "abcd"[row], place, clicked, chance, *told))
    names = ["search_id", "item_id", "position", "label", "shown_probability", "swapped", "swapped_with"]
    return pd.DataFrame(rows, columns=[*names, "swap_reach"])


@pytest.mark.parametrize("estimator", ["auto", "ips", "snips", "doubly-robust"])
def test_far_swaps_support_a_candidate_that_moves_items_far(estimator: str) -> None:
    log = make_far_swaps()
    scores = log["item_id"].map({"a": 2.0, "b": 3.0, "c": 4.0, "d": 1.0}).to_numpy()  # c b a d
    found = pg.would_have(scores, log, estimator=estimator)
    assert found.estimator == ("item-position" if estimator == "auto" else estimator)
    truth = 0.4 / 1 + 0.1 / 2 + 0.1 / 3 + 0.1 / 4
    assert found.overall.candidate == pytest.approx(truth, abs=4 * found.overall.error)
    assert found.support.without < (1e-12 if estimator == "auto" else 0.05)  # of lists it is guessed


def test_lists_of_far_swaps_have_the_probability_with_which_they_are_seen() -> None:
    log = make_far_swaps()
    lists = read_lists(np.zeros(len(log)), log)
    assert lists.list_probability is not None
    orders = log.groupby("search_id", sort=False)["item_id"].agg("".join).to_numpy()
    names = lists.rows["search_id"].to_numpy()[lists.offsets[:-1]]
    shown = dict(zip(log["search_id"].drop_duplicates(), orders, strict=True))
    told = {shown[name]: chance for name, chance in zip(names, lists.list_probability, strict=True)}
    assert set(told) == {"abcd", "bacd", "cbad", "acbd"}
    assert sum(told.values()) == pytest.approx(1.0)
    for order, chance in told.items():
        assert (orders == order).mean() == pytest.approx(chance, abs=4.5 * 0.5 / np.sqrt(len(orders)))


def test_items_that_could_not_have_stood_there_are_counted_and_count_as_unclicked() -> None:
    log = make_swaps()
    scores = log["item_id"].map({"a": 1.0, "b": 2.0, "c": 3.0}).to_numpy()  # c b a: two places each
    found = pg.would_have(scores, log)
    assert found.support.without == pytest.approx(2 / 3)  # b stays at 2
    assert found.overall.candidate < 0.4  # c at 1 would have had 0.4 alone
    assert any("66.7% of the items" in line and "too low" in line for line in found.say_support())
    # a lower bound cannot show that something is worse
    assert (found.overall.verdict, found.overall.high) == ("undecided", math.inf)
    assert ", …]" in found.sentence
    by_looks = pg.would_have(scores, log, propensity=[1.0, 1 / 2, 1 / 3])
    assert by_looks.estimator == "position-based"  # a design without support is not preferred to a model
    assert by_looks.overall.candidate == pytest.approx(0.4 + 0.1 / 2 + 0.1 / 3, abs=0.08)


def test_a_log_that_does_not_say_how_it_was_drawn_guesses_the_support_from_the_weights() -> None:
    log = make_swaps().drop(columns="swapped")
    good = pg.would_have(log["item_id"].map({"a": 3.0, "b": 1.0, "c": 2.0}).to_numpy(), log)
    bad = pg.would_have(log["item_id"].map({"a": 1.0, "b": 2.0, "c": 3.0}).to_numpy(), log)
    assert good.support.guessed
    assert good.support.without < 0.1 < 0.5 < bad.support.without


@pytest.mark.parametrize("estimator", ["ips", "snips", "clipped", "doubly-robust"])
def test_whole_lists_of_swaps_have_a_probability(estimator: str) -> None:
    log = make_swaps()
    scores = log["item_id"].map({"a": 3.0, "b": 1.0, "c": 2.0}).to_numpy()
    found = pg.would_have(scores, log, estimator=estimator)
    truth = 0.1 / 1 + 0.4 / 2 + 0.1 / 3
    assert found.overall.candidate == pytest.approx(truth, abs=5 * found.overall.error)
    assert found.support.unit == "lists"
    assert found.support.largest == pytest.approx(1 / 0.25)  # each of two pairs with 0.5 / 2


def test_estimates_that_fill_in_what_has_no_support_are_refused_where_it_is_much() -> None:
    log = make_swaps()
    scores = log["item_id"].map({"a": 1.0, "b": 2.0, "c": 3.0}).to_numpy()
    for estimator in ("snips", "doubly-robust"):
        with pytest.raises(BadInput, match="more than 5 % are such. Use ips"):
            pg.would_have(scores, log, estimator=estimator)
    assert pg.would_have(scores, log, estimator="ips").overall.candidate == 0.0


def test_clipping_lowers_the_estimate_and_takes_its_upper_end() -> None:
    log = make_swaps()
    scores = log["item_id"].map({"a": 3.0, "b": 1.0, "c": 2.0}).to_numpy()
    free, clipped = (pg.would_have(scores, log, clip=clip) for clip in (None, 2.0))
    assert clipped.support.largest == 2.0 < free.support.largest
    assert clipped.overall.candidate < free.overall.candidate
    assert (clipped.overall.high, clipped.overall.verdict) == (math.inf, "undecided")


def test_a_curve_that_clicks_contradict_says_so() -> None:
    log = make_log()
    state = {"ranks": [1, 2], "values": HALF_LOOKS, "misfit": {"flagged": True, "sentence": "Clicks differ."}}
    assert any("CONTRADICT" in note and "Clicks differ." in note
               for note in pg.would_have(reverse(log), log, propensity=state).notes)  # fmt: skip
    state["misfit"]["flagged"] = False  # type: ignore[index]
    assert not any("CONTRADICT" in note for note in pg.would_have(reverse(log), log, propensity=state).notes)


def test_lists_whose_probability_is_not_known_are_left_out_and_counted() -> None:
    log = make_swaps(300)
    log.loc[log["search_id"].isin(["s0", "s1"]), "shown_probability"] = np.nan
    found = pg.would_have(np.zeros(len(log)), log)
    assert found.support.unknown == 2
    assert found.overall.searches == 298


# -- people and kinds --------------------------------------------------------------------------------------


def test_searches_of_a_user_count_as_one_and_those_of_nobody_alone() -> None:
    log = make_log(80)
    users = np.repeat([f"u{number // 2}" for number in range(80)], 2)
    sessions = np.repeat(["t"] * 80, 2)
    found = pg.would_have(reverse(log), log.assign(user_id=users, session_id=sessions), propensity=HALF_LOOKS)
    assert found.overall.clusters == 40
    alone = log.assign(user_id=np.where(log["search_id"] == "s0", None, users))
    assert pg.would_have(reverse(log), alone, propensity=HALF_LOOKS).overall.clusters == 41


def test_a_kind_that_loses_stops_a_candidate_that_gains_overall() -> None:
    # long searches click the first of the list, short ones the second; the candidate reverses all
    long, short = make_log(200, clicked=1, every=4), make_log(600, clicked=2)
    long["search_id"] = "long " + long["search_id"]
    log = pd.concat([long.assign(query="a very long query"), short.assign(query="short")], ignore_index=True)
    found = pg.would_have(reverse(log), log, propensity=HALF_LOOKS)
    verdicts = {each.kind: each.verdict for each in found.kinds}
    assert verdicts == {"[3, 10]": "non-inferior", "[11, 20]": "worse"}
    assert found.overall.verdict == "non-inferior"
    assert not found.passed
    assert found.sentence.startswith("Shown worse in [11, 20], although overall")


def test_kinds_are_one_partition_and_small_ones_are_left_to_the_guard() -> None:
    log = make_log(100).assign(platform=np.repeat(["web"] * 80 + ["app"] * 20, 2))
    log["target"] = "city"
    found = pg.would_have(reverse(log), log, propensity=HALF_LOOKS, by=["platform", "target"])
    assert [each.kind for each in found.kinds] == ["app × city", "web × city"]
    assert sum(each.searches for each in found.kinds) == 100
    assert found.left_to_engine == ("app × city",)  # 20 searches of nobody known
    assert found.passed
    assert "leave to the guard: app × city" in found.sentence
    assert pg.would_have(reverse(log), log, propensity=HALF_LOOKS, by=[]).kinds == ()
    with pytest.raises(BadInput, match="by must name kinds of searches"):
        pg.would_have(reverse(log), log, propensity=HALF_LOOKS, by="nothing")


def test_a_short_log_decides_nothing() -> None:
    log = make_log(29)
    found = pg.would_have(reverse(log), log, propensity=HALF_LOOKS)
    assert found.overall.verdict == "undecided"
    assert not found.passed
    assert "29 people or sessions, and 30 are needed" in found.sentence
    assert found.find_power(0.05) == 0.0
    assert found.find_power(0.05, 1000) > 0.9  # a longer one could


# -- power and words ---------------------------------------------------------------------------------------


def test_power_grows_with_the_truth_and_with_the_log_and_keeps_its_level_at_the_margin() -> None:
    log = make_log(400, clicked=1)
    found = pg.would_have(reverse(log), log, propensity=HALF_LOOKS)
    chances = [found.find_power(effect) for effect in (-0.01, 0.0, 0.01, 0.02, 0.05)]
    assert chances == sorted(chances)
    assert found.find_power(-found.margin, 1000) == pytest.approx(0.05, abs=0.002)
    assert found.find_power(-0.01, 100) < 0.05 < 0.9 < found.find_power(0.02, 100)
    needed = found.find_needed(0.02, 0.8)
    assert found.find_power(0.02, needed / 400) == pytest.approx(0.8, abs=0.01)


def test_the_table_says_support_first_then_estimates_then_power() -> None:
    log = make_log()
    told = pg.would_have(reverse(log), log, propensity=HALF_LOOKS).table()
    marks = ["60 searches of 60", "Effective sample size: 30 of 30 clicks", "verdict", "probability to pass"]
    places = [told.index(mark) for mark in marks]
    assert places == sorted(places)
    assert "<table>" in pg.would_have(reverse(log), log, propensity=HALF_LOOKS).table("html")


def test_plain_values_hold_verdict_support_and_power() -> None:
    log = make_log()
    told = pg.would_have(reverse(log), log, propensity=HALF_LOOKS).to_dict()
    assert told["passed"] is True
    assert told["support"]["effective"] == 30.0
    assert {each["effect"] for each in told["power"]} == {-0.01, 0.0, 0.01, 0.02, 0.05}
    assert told["overall"]["candidate"] == pytest.approx(1.0)


# -- a re-ranker -------------------------------------------------------------------------------------------


def make_reranker(rows: Any, pool: int = 40, until: int | None = None) -> pg.Reranker:
    """Dearest first; it looks at past clicks too, with a weight of 0."""
    features = FeatureSet([Number("price"), Number(PAST)]).fit(rows.assign(**{PAST: 0.0}))
    data = features.to_ranking(rows.assign(**{PAST: 0.0}, label=rows["price"]))
    made = pg.Reranker(features, LinearRanker("ridge").fit(data), None, pool=pool)
    made.clicks_until_ = until
    return made


def make_priced(lists: int = 60) -> Any:
    times = pd.Timestamp("2026-11-01") + pd.to_timedelta(np.repeat(np.arange(lists), 3), unit="h")
    return make_log(lists, items=3, clicked=3).assign(price=np.tile([1.0, 2.0, 3.0], lists), time=times)


def test_a_re_ranker_is_asked_and_only_its_pool_is_put_into_a_new_order() -> None:
    log = make_priced()
    looks = [1.0, 0.5, 0.25]
    whole = pg.would_have(make_reranker(log), log, propensity=looks)
    assert whole.overall.candidate == pytest.approx(0.5 * 1.0 / 0.25)  # the third goes first
    head = pg.would_have(make_reranker(log, pool=2), log, propensity=looks)
    assert head.overall.candidate == head.overall.shown == 0.5  # the third stays below the pool


def test_searches_that_the_candidate_learned_from_are_left_out() -> None:
    log = make_priced(100)
    until = int(pd.Timestamp("2026-11-02T15:00").value // 1000)  # the 40th search, at hour 39, included
    found = pg.would_have(make_reranker(log, until=until), log, propensity=[1.0, 0.5, 0.25])
    assert (found.support.left_out, found.overall.searches) == (40, 60)
    assert any("40 searches that the candidate had learned from" in line for line in found.say_support())
    everything = int(pd.Timestamp("2027-01-01").value // 1000)
    with pytest.raises(BadInput, match="learned from all 100 searches of this log. Judge it on a later one"):
        pg.would_have(make_reranker(log, until=everything), log, propensity=[1.0, 0.5, 0.25])


def test_past_clicks_are_the_candidates_own_and_those_since_and_never_of_the_search_itself() -> None:
    from placings.rerank.logged_lists import _add_past

    log = make_priced(4)  # c is clicked in the first and the third
    candidate = make_reranker(log)
    candidate.clicks_ = {"c": 7, "a": 2}
    counted = _add_past(candidate, log).groupby("item_id")[PAST].apply(list)
    assert counted["c"] == [7.0, 8.0, 8.0, 9.0]
    assert counted["a"] == [2.0, 2.0, 2.0, 2.0]
    served = _add_past(candidate, log.assign(**{PAST: np.where(log["item_id"] == "c", 5.0, np.nan)}))
    assert served.groupby("item_id")[PAST].apply(list)["c"] == [5.0] * 4


def test_a_served_log_is_read_by_where_people_saw_an_item() -> None:
    """The service showed b first; the engine had a first. Equal scores give the engine's order back."""
    log = make_log(clicked=2).assign(engine_position=lambda rows: 3 - rows["position"], price=1.0)
    candidate = make_reranker(log.assign(price=np.tile([1.0, 2.0], 60)))
    found = pg.would_have(candidate, log, propensity=HALF_LOOKS)
    assert found.overall.shown == 0.5  # the click at the shown place 2
    assert found.overall.candidate == pytest.approx(1.0)  # the engine had it first


# -- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"metric": "ndcg@10"}, "the ideal list is not observed"),
        ({"metric": "dcg@10:ips"}, "metric must be 'dcg@10' here"),
        ({"margin": -0.1}, "margin must be 0 or more"),
        ({"level": 1.5}, "level must be a number between 0 and 1"),
        ({"level": 0.4}, "level must be 0.5 or more"),
        ({"clip": 0.0}, "clip must be a number above 0"),
        ({"propensity": [1.0, 0.0]}, "one number above 0 for each rank"),
        ({"propensity": {"values": [1.0]}}, "must have ranks and values"),
        ({"propensity": {"ranks": [1, 2], "values": ["x", 1.0]}}, "must hold numbers"),
        ({"propensity": {"ranks": [1, 2], "values": HALF_LOOKS, "trust": 3}}, "must hold numbers"),
        ({"propensity": {"ranks": [2, 1], "values": HALF_LOOKS}}, "ranks rising from 1"),
        ({"propensity": ["x"]}, "must hold numbers"),
        ({"propensity": 3.0}, "one number above 0 for each rank"),
        ({"propensity": []}, "one number above 0 for each rank"),
        ({"propensity": "nothing"}, "must be a curve or a column of the log"),
        ({"estimator": "item-position"}, "needs a column shown_probability"),
        ({"estimator": "ips"}, "needs list_probability"),
    ],
)
def test_what_cannot_be_judged_is_refused_with_the_reason(settings: dict[str, Any], said: str) -> None:
    log = make_log()
    with pytest.raises(BadInput, match=said):
        pg.would_have(reverse(log), log, **{"propensity": HALF_LOOKS, **settings})


def test_unknown_names_list_what_there_is() -> None:
    log = make_log()
    with pytest.raises(UnknownName, match="clicks@10"):
        pg.would_have(reverse(log), log, metric="map@10", propensity=HALF_LOOKS)
    with pytest.raises(UnknownName, match="item-position"):
        pg.would_have(reverse(log), log, estimator="magic", propensity=HALF_LOOKS)


def test_a_log_of_one_order_is_refused_with_what_to_log() -> None:
    log = make_log()
    for rows in (log, log.assign(shown_probability=1.0, swapped=0)):
        with pytest.raises(BadInput, match="this log shows one order.*placings serve --explore 0.1"):
            pg.would_have(reverse(log), rows)
    with pytest.raises(BadInput, match="needs to know how people look"):
        pg.would_have(reverse(log), log, estimator="position-based")


def test_mrr_is_for_searches_that_want_one_item() -> None:
    log = make_log()
    found = pg.would_have(reverse(log), log, metric="mrr@10", propensity=HALF_LOOKS)
    assert (found.overall.shown, found.overall.candidate) == (0.25, 1.0)  # 1/2 in half of the lists
    log.loc[log["search_id"] == "s0", "label"] = 1.0
    with pytest.raises(BadInput, match="Got 1 lists with two clicks or more"):
        pg.would_have(reverse(log), log, metric="mrr@10", propensity=HALF_LOOKS)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda log: log.assign(shown_probability=0.0), "shown_probability must be above 0"),
        (lambda log: log.iloc[:0], "a log without rows"),
        (lambda log: log.assign(label=np.nan), "rows without label"),
        (lambda log: log.assign(propensity=np.linspace(0.1, 1.0, len(log))), "one number for each position"),
    ],
)
def test_a_log_that_does_not_say_what_happened_is_refused(change: Any, said: str) -> None:
    log = change(make_log())
    with pytest.raises(BadInput, match=said):
        pg.would_have(np.zeros(len(log)), log)


def test_scores_must_be_one_for_each_row_and_no_nan() -> None:
    log = make_log()
    with pytest.raises(BadInput, match="one for each of the log's 120 rows. Got 2"):
        pg.would_have([1.0, 2.0], log, propensity=HALF_LOOKS)
    with pytest.raises(BadInput, match="scores must not be NaN"):
        pg.would_have(np.full(120, np.nan), log, propensity=HALF_LOOKS)


def test_the_log_is_not_changed() -> None:
    log = make_swaps(50)
    before = log.copy()
    pg.would_have(np.zeros(len(log)), log)
    pd.testing.assert_frame_equal(log, before)


def test_logs_of_one_item_lists_and_without_clicks_show_nothing() -> None:
    single = make_log(items=1, clicked=9)
    found = pg.would_have(np.zeros(60), single, propensity=[1.0])
    assert found.overall.difference == 0.0
    assert any("Nothing in this log was clicked" in note for note in found.notes)
    all_clicked = make_log(every=1)
    notes = pg.would_have(reverse(all_clicked), all_clicked, propensity=HALF_LOOKS).notes
    assert any("for each clicked search" in note for note in notes)
