"""The guard: the engine's order stays where a model was not shown to lose less than the margin."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.metrics import mrr
from placings.rerank.gain_bounds import bound_gain
from placings.rerank.guard import Guard, blend_scores, fit_guard, judge_gains, weigh_gains
from placings.rerank.search_kinds import describe_searches, name_band

ITEMS = 5


def make_searches(
    kinds: dict[str, tuple[int, float]], seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """So many searches of each kind; the model puts the clicked item first with the given chance.

    The engine has it second, so its reciprocal rank is ½; the model's is 1 or 1/3.
    """
    rng = np.random.default_rng(seed)
    names = [name for name, (count, _) in kinds.items() for _ in range(count)]
    labels, model = np.zeros((len(names), ITEMS)), np.zeros((len(names), ITEMS))
    labels[:, 1] = 1.0
    for place, name in enumerate(names):
        right = rng.random() < kinds[name][1]
        model[place] = [2.0, 3.0, 1.0, 0.5, 0.0] if right else [2.0, 1.0, 3.0, 0.5, 0.0]
    engine = np.tile(-np.arange(1.0, ITEMS + 1), len(names))
    offsets = np.arange(0, ITEMS * len(names) + 1, ITEMS)
    return model.ravel(), engine, labels.ravel(), offsets, {"length": np.array(names, dtype=object)}


def test_a_kind_in_which_the_model_is_worse_keeps_the_engines_order() -> None:
    model, engine, labels, offsets, context = make_searches({"short": (400, 0.9), "long": (100, 0.0)})
    guard = fit_guard(model, engine, labels, offsets, context)
    guarded = guard.blend(model, engine, offsets, context)
    before, after = mrr(engine, labels, offsets), mrr(guarded, labels, offsets)
    long = context["length"] == "long"
    assert after[long].mean() == pytest.approx(0.5)  # where the engine has it: rank 2
    assert after[~long].mean() > before[~long].mean() + 0.3
    assert guard.left_to_engine(context, len(long)) == pytest.approx(0.2)  # 100 of 500
    assert mrr(model, labels, offsets)[long].mean() == pytest.approx(1 / 3)  # what it would have cost


def test_a_kind_that_was_seen_seldom_or_never_keeps_the_engines_order() -> None:
    """Three searches that all gain decide nothing: other kinds do not vouch for them."""
    model, engine, labels, offsets, context = make_searches({"short": (400, 0.9), "rare": (3, 1.0)})
    guard = fit_guard(model, engine, labels, offsets, context)
    asked = {"length": np.array(["short", "rare", "never seen"])}
    assert guard.find_weights(asked, 3).tolist() == [1.0, 0.0, 0.0]
    assert guard.overall.low > 0.3  # of which nothing follows


def test_what_a_kind_says_does_not_hang_on_other_kinds() -> None:
    few = make_searches({"b": (60, 0.6)}, seed=1)
    alone = fit_guard(*few)
    for other in (0.0, 1.0):
        more = make_searches({"a": (500, other)}, seed=2)
        joined = [np.concatenate([one, two]) for one, two in zip(few[:3], more[:3], strict=True)]
        offsets = np.concatenate([few[3], few[3][-1] + more[3][1:]])
        context = {"length": np.concatenate([few[4]["length"], more[4]["length"]])}
        both = fit_guard(joined[0], joined[1], joined[2], offsets, context)
        assert both.verdicts[1] == alone.verdicts[0]


def test_a_kind_that_truly_loses_is_re_ordered_in_fewer_than_one_of_twenty_logs() -> None:
    """Whole lists, beside a kind that gains: chances 0.215 lose 0.5·0.215 − 0.785/6 = −0.0233 a search."""
    for count in (10, 40, 80):
        passed = 0
        for seed in range(100):
            given = make_searches({"bad": (count, 0.215), "good": (300, 0.8)}, seed=1000 * count + seed)
            guard = fit_guard(*given)
            passed += int(guard.find_weights({"length": ["bad"]}, 1)[0] > 0.0)
            assert guard.find_weights({"length": ["good"]}, 1)[0] == 1.0
        assert passed <= 9  # of 100 at 5 %, ten or more have a probability of 0.03


@pytest.mark.parametrize("n", [30, 200, 1000])
def test_a_kind_that_loses_the_default_margin_is_kept_with_the_engine_in_nearly_all_trials(n: int) -> None:
    """The mean is −0.02. The guard says that 5 % pass at most; 21 or more of 200 at 5 % are one in 800."""
    assert Guard.tolerance == 0.02
    rng, passed, kinds = np.random.default_rng(n), 0, {"length": ["this"] * n + ["other"] * 300}
    for _ in range(200):
        bad = rng.choice([0.0, 0.5, -0.5], p=[0.9, 0.03, 0.07], size=n)
        good = rng.choice([0.0, 0.5], p=[0.8, 0.2], size=300)
        guard = judge_gains(np.append(bad, good)[:, None], kinds)
        passed += int(guard.find_weights({"length": ["this"]}, 1)[0] > 0.0)
        assert guard.find_weights({"length": ["other"]}, 1)[0] == 1.0
    assert passed <= 20


def test_of_20_000_searches_by_people_with_eight_each_a_gain_of_a_hundredth_is_mostly_had() -> None:
    """Kinds of half to a twentieth; two of three searches of a person fare as their first did.

    With the old margin of 0.005 the small kinds stayed with the engine.
    """
    rng = np.random.default_rng(0)
    sizes = {"half": 10_000, "fifth": 4_000, "some": 3_000, "tenth": 2_000, "few": 1_000}
    kinds = np.repeat(list(sizes), list(sizes.values()))
    had = {0.005: 0.0, 0.02: 0.0}
    for _ in range(20):
        people = np.repeat(np.arange(20_000), rng.geometric(1 / 8, size=20_000))[:20_000]
        own, first = rng.choice([0.0, 0.5, -0.5], p=[0.9, 0.06, 0.04], size=(2, 20_000))  # +0.01 in the mean
        gains = np.where(rng.random(20_000) < 2 / 3, first[people], own)
        for margin in had:
            guard = judge_gains(gains[:, None], {"length": kinds}, clusters=people, tolerance=margin)
            had[margin] += float(guard.find_weights({"length": kinds}, 20_000).mean()) / 20
    assert had[0.02] > 0.9 > 0.8 > had[0.005]


def test_a_kind_that_is_undecided_is_told_how_many_people_would_decide_it() -> None:
    gains = np.tile([0.5, -0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 5)  # +0.05 in the mean
    few = judge_gains(gains[:, None], {"length": ["a"] * 50})
    need = few.people_needed(few.verdicts[0])
    assert few.verdicts[0].weight == 0.0
    assert need is not None
    assert need > 50
    assert f"about length a {need:,} (seen: 50)" in few.table()
    more = np.resize(gains, 10 * (need // 10 + 1))
    decided = judge_gains(more[:, None], {"length": ["a"] * len(more)})
    assert decided.verdicts[0].weight == 1.0
    assert decided.people_needed(decided.verdicts[0]) is None
    assert "would decide" not in decided.table()
    worse = judge_gains(-gains[:, None], {"length": ["a"] * 50})
    assert worse.people_needed(worse.verdicts[0]) is None  # more people would not help
    alone = judge_gains(gains[:, None], {"length": ["a"] * 50}, clusters=["p"] * 50)
    assert alone.people_needed(alone.verdicts[0]) is None


def test_a_guard_keeps_the_margin_that_it_was_fitted_with() -> None:
    given = make_searches({"a": (200, 0.9)})
    before = fit_guard(*given, tolerance=0.005)
    again = Guard.from_state(json.loads(json.dumps(before.to_state())))
    assert again.tolerance == 0.005
    assert "shown to lose less than 0.005" in again.table()
    assert "shown to lose less than 0.02" in fit_guard(*given).table()


def test_searches_of_one_person_count_together() -> None:
    """Twelve searches of each of four people say what four say."""
    model, engine, labels, offsets, context = make_searches({"a": (48, 1.0)})
    assert fit_guard(model, engine, labels, offsets, context).verdicts[0].weight == 1.0
    people = np.repeat(["w", "x", "y", "z"], 12)
    guard = fit_guard(model, engine, labels, offsets, context, clusters=people)
    assert (guard.verdicts[0].clusters, guard.verdicts[0].weight) == (4, 0.0)
    assert "48                   4" in guard.table()


def test_the_gain_forgone_is_that_of_undecided_kinds_over_all_searches() -> None:
    """Four searches that gain ½ decide nothing: 4 · ½ / 104. "bad" was shown to lose and forgoes nothing."""
    model, engine, labels, offsets, context = make_searches({"few": (4, 1.0), "bad": (100, 0.0)})
    guard = fit_guard(model, engine, labels, offsets, context)
    assert [each.weight for each in guard.verdicts] == [0.0, 0.0]
    assert guard.forgone == pytest.approx(4 * 0.5 / 104)
    assert "Left to the engine: 2 of 2 kinds, 100% of the searches" in guard.table()
    assert "+0.0192 MRR a search" in guard.table()


def test_of_several_shares_the_largest_that_passes_counts_and_each_is_tested_more_strictly() -> None:
    gains = np.stack(
        [np.full(200, 0.1), np.tile([0.5, -0.5], 100)], axis=1
    )  # a half gains, the whole does not
    guard = judge_gains(gains, {"length": ["a"] * 200}, shares=(0.5, 1.0))
    assert guard.verdicts[0].weight == 0.5
    assert guard.verdicts[0].low == bound_gain(gains[:, 0], level=0.975).low
    whole = judge_gains(gains[:, 1:], {"length": ["a"] * 200}, shares=(1.0,))
    assert whole.verdicts[0].weight == 0.0


def test_a_kind_is_divided_only_where_the_parts_are_large_and_gains_have_no_say() -> None:
    """Of "short" 95 % are in parts of 50 or more, of "long" 60 of 90."""
    short = ["x"] * 150 + ["y"] * 50 + ["z"] * 10  # 200 of 210
    long = ["x"] * 60 + ["y"] * 30
    context = {"length": np.array(["short"] * 210 + ["long"] * 90), "match": np.array(short + long)}
    rng = np.random.default_rng(0)
    for _ in range(3):
        guard = judge_gains(rng.uniform(-1, 1, size=(300, 1)), context, least=50)
        assert {(each.by, each.value): each.searches for each in guard.verdicts} == {
            ("length", "long"): 90,
            ("length × match", "short × x"): 150,
            ("length × match", "short × y"): 50,
            ("length × match", "short × z"): 10,
        }
    whole = judge_gains(np.zeros((300, 1)), context)
    assert len(whole.verdicts) == 5  # every combination that was seen
    assert sum(each.searches for each in whole.verdicts) == 300  # each search is of one kind


def test_without_a_dimension_there_is_one_kind() -> None:
    model, engine, labels, offsets, _ = make_searches({"a": (200, 0.9)})
    guard = fit_guard(model, engine, labels, offsets, {})
    assert guard.find_weights({}, 2).tolist() == [1.0, 1.0]
    assert guard.find_weights({"length": ["a", "b"]}, 2).tolist() == [1.0, 1.0]
    assert Guard.from_state(guard.to_state()).find_weights({}, 1).tolist() == [1.0]


def test_a_log_without_a_column_is_of_searches_that_do_not_tell_it() -> None:
    model, engine, labels, offsets, _ = make_searches({"a": (300, 0.9)})
    context = {"location": np.array(["hidden"] * 200 + ["shared"] * 100)}
    model[200 * ITEMS :] = engine[200 * ITEMS :]  # of "shared", too few to be sure that nothing is lost
    guard = fit_guard(model, engine, labels, offsets, context)
    assert guard.find_weights(context, 300).tolist() == [1.0] * 200 + [0.0] * 100
    assert guard.find_weights({}, 1).tolist() == [1.0]
    rows = {"query": ["haupt"] * 2, "position": [1, 2]}
    live = guard.apply_live(np.array([0.0, 1.0]), {"query": "haupt"}, [{"position": 1}, {"position": 2}])
    np.testing.assert_array_equal(live, guard.apply([0.0, 1.0], rows, [0, 2]))
    assert live.argmax() == 1


def test_with_propensities_a_click_counts_what_it_took_to_be_made() -> None:
    """Half of the clicks are on rank 1 and half on rank 2, which is looked at half as often as rank 1.

    A model that turns both round gains ½ and loses ½: nothing by raw clicks; (−½ · 1 + ½ · 2) / 3 by theirs.
    """
    lists = 300
    labels = np.tile([1.0, 0.0, 0.0, 1.0], lists)
    engine = np.tile([-1.0, -2.0], 2 * lists)
    offsets = np.arange(0, 4 * lists + 1, 2)
    seen = np.tile([1.0, 0.5], 2 * lists)
    raw = fit_guard(-engine, engine, labels, offsets, {})
    debiased = fit_guard(-engine, engine, labels, offsets, {}, propensity=seen)
    assert raw.overall.difference == pytest.approx(0.0)
    assert raw.verdicts[0].weight == 0.0
    assert debiased.overall.difference == pytest.approx(1 / 6)
    assert debiased.verdicts[0].weight == 1.0
    assert "raw clicks, which lean to the engine" in raw.table()
    assert "count 1/propensity" in debiased.table()
    assert "raw clicks" not in debiased.table()
    assert Guard.from_state(debiased.to_state()).table() == debiased.table()


def test_a_tiny_propensity_counts_twenty_at_most() -> None:
    labels, engine = np.array([0.0, 1.0, 1.0, 0.0]), np.array([-1.0, -2.0, -1.0, -2.0])
    gains, counts = weigh_gains(
        -engine, engine, labels, np.array([0, 2, 4]), (1.0,), np.array([1.0, 1e-9, 1.0, 1.0])
    )
    assert counts.tolist() == [20.0, 1.0]
    assert gains.ravel().tolist() == [0.5, -0.5]


def test_a_model_that_is_worse_everywhere_is_never_used() -> None:
    model, engine, labels, offsets, context = make_searches({"a": (200, 0.1), "b": (200, 0.2)})
    guard = fit_guard(model, engine, labels, offsets, context, weights=(1.0,))
    assert guard.left_to_engine(context, 400) == 1.0
    np.testing.assert_array_equal(guard.blend(model, engine, offsets, context), engine)


def test_a_blend_of_one_side_is_that_side_and_between_them_is_between() -> None:
    model, engine = np.array([3.0, 1.0, 2.0]), np.array([-1.0, -2.0, -3.0])
    offsets = np.array([0, 3])
    np.testing.assert_array_equal(blend_scores(model, engine, offsets, np.array([0.0])), engine)
    np.testing.assert_array_equal(blend_scores(model, engine, offsets, np.array([1.0])), model)
    half = blend_scores(model, engine, offsets, np.array([0.5]))
    assert half.argmax() == 0  # first for both


def test_lists_of_equal_or_infinite_scores_and_of_one_row_blend_without_harm() -> None:
    offsets = np.array([0, 2, 3, 5])
    model = np.array([1.0, 1.0, 4.0, np.inf, -np.inf])
    engine = np.array([-1.0, -2.0, -1.0, -1.0, -2.0])
    mixed = blend_scores(model, engine, offsets, np.full(3, 0.5))
    assert np.isfinite(mixed).all()
    assert mixed[0] > mixed[1]  # the model says nothing, so the engine decides
    assert mixed[3] > mixed[4]


def test_searches_without_a_click_or_with_one_row_say_nothing() -> None:
    model, engine, labels, offsets, context = make_searches({"a": (100, 0.9)})
    more = np.concatenate([labels, np.zeros(ITEMS)])
    guard = fit_guard(
        np.append(model, np.arange(5.0)), np.append(engine, -np.arange(5.0)), more,
        np.append(offsets, offsets[-1] + ITEMS), {"length": np.append(context["length"], "a")},
    )  # fmt: skip
    assert guard.overall.searches == 100
    with pytest.raises(BadInput, match="nothing to go by"):
        fit_guard(np.ones(2), np.ones(2), np.zeros(2), np.array([0, 2]), {})


def test_a_guard_goes_through_json_and_back() -> None:
    model, engine, labels, offsets, context = make_searches({"short": (100, 0.9), "long": (60, 0.1)})
    guard = fit_guard(model, engine, labels, offsets, context)
    again = Guard.from_state(json.loads(json.dumps(guard.to_state())))
    np.testing.assert_array_equal(
        guard.blend(model, engine, offsets, context), again.blend(model, engine, offsets, context)
    )
    assert again.to_state() == guard.to_state()
    assert "length long" in guard.table()


def test_a_guard_of_version_one_gives_the_shares_it_gave() -> None:
    """Its kinds overlap: the smallest share counts, and what was not seen has the share of all."""
    facts = {"searches": 60, "difference": 0.1, "shrunk": 0.1, "low": 0.05}
    state = {
        "guard": 1, "tolerance": 0.005, "overall": {"by": "all", "value": "", "weight": 0.75, **facts},
        "verdicts": [
            {"by": "length", "value": "short", "weight": 1.0, **facts},
            {"by": "location", "value": "hidden", "weight": 0.25, **facts},
            {"by": "length × location", "value": "long × shared", "weight": 0.0, **facts},
        ],
    }  # fmt: skip
    guard = Guard.from_state(state)
    context = {
        "length": ["short", "short", "long", "long", "other"],
        "location": ["hidden", "shared", "shared", "hidden", "shared"],
    }
    assert guard.find_weights(context, 5).tolist() == [0.25, 1.0, 0.0, 0.25, 0.75]
    assert guard.find_weights({"length": ["short"]}, 1).tolist() == [1.0]  # no location: left out, as then
    assert [guard._find_weight({name: context[name][place] for name in context}) for place in range(5)] == [
        0.25, 1.0, 0.0, 0.25, 0.75,
    ]  # fmt: skip
    assert guard.to_state() == state
    assert "Fitted by version 0.1" in guard.table()


@pytest.mark.parametrize(
    "change",
    [
        {"guard": 3},
        {"guard": True},
        {"overall": {}},
        {"tolerance": "x"},
        {"verdicts": [{"weight": 3}]},
        {"judged_by": "hearsay"},
        {"forgone": float("nan")},
    ],
)
def test_a_state_that_is_no_guard_is_refused(change: dict[str, Any]) -> None:
    model, engine, labels, offsets, context = make_searches({"short": (100, 0.9)})
    state = {**fit_guard(model, engine, labels, offsets, context).to_state(), **change}
    with pytest.raises(BadInput, match="guard's state"):
        Guard.from_state(state)


def test_apply_reads_the_engines_order_and_the_kind_from_the_rows() -> None:
    rows = {
        "query": ["haupt"] * 2 + ["hauptbahnhof karlsruhe vorplatz"] * 2,
        "position": [1, 2, 1, 2],
        "focus_lat": [49.0, 49.0, None, None],
        "focus_lon": [8.4, 8.4, None, None],
        "name": ["Hauptbahnhof", "Hauptstraße", "Zoo", "Markt"],
    }
    offsets = np.array([0, 2, 4])
    context = describe_searches(rows, offsets)
    assert context["length"].tolist() == ["[3, 10]", "[31, 40]"]
    assert context["location"].tolist() == ["shared", "hidden"]
    model, engine, labels, borders, kinds = make_searches({"[3, 10]": (200, 0.95), "[31, 40]": (200, 0.0)})
    guard = fit_guard(model, engine, labels, borders, kinds, weights=(1.0,))
    scores = np.array([0.0, 1.0, 0.0, 1.0])
    found = guard.apply(scores, rows, offsets)
    assert np.argsort(-found[:2]).tolist() == [1, 0]  # short: the model's
    assert np.argsort(-found[2:]).tolist() == [0, 1]  # long: the engine's
    with pytest.raises(BadInput, match="position, or score"):
        guard.apply(scores, {"query": rows["query"]}, offsets)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Hauptbahnhof", "full name"),
        ("HAUPTB", "prefix"),
        ("karl haupt", "words"),
        ("huaptb", "other"),
        ("", "other"),
    ],
)
def test_a_query_is_a_name_the_start_of_one_its_words_or_neither(query: str, expected: str) -> None:
    rows = {"query": [query] * 2, "name": ["Hauptbahnhof", "Zoo"], "locality": ["Karlsruhe", None]}
    assert describe_searches(rows, [0, 2])["match"].tolist() == [expected]


def test_missing_context_is_a_kind_of_its_own_and_a_missing_column_none() -> None:
    found = describe_searches({"target": [None, "origin"]}, [0, 1, 2])
    assert {name: values.tolist() for name, values in found.items()} == {"target": ["unknown", "origin"]}
    assert [name_band(n) for n in (0, 3, 11, 21, 31, 99)] == [
        "[0, 2]", "[3, 10]", "[11, 20]", "[21, 30]", "[31, 40]", "[41, …]",
    ]  # fmt: skip
    with pytest.raises(BadInput, match="without rows"):
        describe_searches({"query": ["a"]}, [0, 1, 1])


def test_bad_arguments_are_named() -> None:
    model, engine, labels, offsets, context = make_searches({"a": (40, 0.9)})
    with pytest.raises(BadInput, match="weights must be shares"):
        fit_guard(model, engine, labels, offsets, context, weights=(0.0, 1.0))
    with pytest.raises(BadInput, match="propensity must be above 0 and at most 1"):
        fit_guard(model, engine, labels, offsets, context, propensity=np.zeros(len(model)))
    with pytest.raises(BadInput, match="'clusters' must have a value for each of 40 searches"):
        fit_guard(model, engine, labels, offsets, context, clusters=["a"])
    with pytest.raises(BadInput, match="tolerance must be a number from 0 to below 1"):
        fit_guard(model, engine, labels, offsets, context, tolerance=-0.1)
    with pytest.raises(BadInput, match="least must be 0 or more"):
        fit_guard(model, engine, labels, offsets, context, least=-1)
    with pytest.raises(BadInput, match="level must be"):
        fit_guard(model, engine, labels, offsets, context, level=1.0)
    with pytest.raises(BadInput, match="one value for each row"):
        fit_guard(model, engine[1:], labels, offsets, context)
    with pytest.raises(BadInput, match="a value for each of 40 searches"):
        fit_guard(model, engine, labels, offsets, {"length": context["length"][1:]})
