"""The guard: the engine's order stays where the model is worse or where too little is known."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.metrics import mrr
from placings.rerank.guard import WEIGHTS, Guard, blend_scores, fit_guard, measure_gains
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


def test_a_kind_has_the_share_of_all_unless_it_objects() -> None:
    """In "noisy" three quarters happen to gain more; the whole, which is safe there, stays all the same."""
    model, engine, labels, offsets, context = make_searches({"usual": (400, 0.9), "noisy": (60, 1.0)})
    model[: 20 * ITEMS] = np.tile([1.0, 1.05, 0.0, 0.0, 0.0], 20)  # only the whole model has these right
    model[-4 * ITEMS :] = np.tile(
        [0.0, 1.0, 0.0, 1.05, 0.0], 4
    )  # with a little of the engine these are right
    noisy = context["length"] == "noisy"
    gains = measure_gains(model, engine, labels, offsets, WEIGHTS)[noisy].mean(axis=0)
    assert gains[-2] > gains[-1] > 0.4
    guard = fit_guard(model, engine, labels, offsets, context)
    assert guard.find_weights(context, len(noisy)).tolist() == [1.0] * len(noisy)


def test_a_kind_never_has_more_than_the_share_of_all() -> None:
    model, engine, labels, offsets, context = make_searches({"good": (300, 0.95), "poor": (300, 0.4)})
    guard = fit_guard(model, engine, labels, offsets, context)
    assert guard.overall.weight > 0.0
    assert all(each.weight <= guard.overall.weight for each in guard.verdicts)


def test_a_thin_kind_inherits_what_all_searches_say() -> None:
    model, engine, labels, offsets, context = make_searches({"short": (400, 0.9), "rare": (3, 0.0)})
    guard = fit_guard(model, engine, labels, offsets, context, least=30)
    assert [each.value for each in guard.verdicts] == ["short"]
    assert (
        guard.find_weights({"length": np.array(["rare", "never seen"])}, 2).tolist()
        == [guard.overall.weight] * 2
    )


def test_little_evidence_leans_on_the_whole_and_much_evidence_stands_by_itself() -> None:
    shrunk = {}
    for count in (40, 2000):
        model, engine, labels, offsets, context = make_searches({"a": (3000, 0.8), "b": (count, 0.3)}, seed=1)
        guard = fit_guard(model, engine, labels, offsets, context, weights=(1.0,), spread=0.02)
        verdict = next(each for each in guard.verdicts if each.value == "b")
        shrunk[count] = abs(verdict.shrunk - verdict.difference) / abs(
            guard.overall.difference - verdict.difference
        )
    assert 0.0 <= shrunk[2000] < shrunk[40] < 1.0


def test_a_model_that_is_worse_everywhere_is_never_used() -> None:
    model, engine, labels, offsets, context = make_searches({"a": (200, 0.1), "b": (200, 0.2)})
    guard = fit_guard(model, engine, labels, offsets, context, weights=(1.0,))
    assert guard.left_to_engine(context, 400) == 1.0
    np.testing.assert_array_equal(guard.blend(model, engine, offsets, context), engine)


def test_the_smallest_share_of_a_searchs_kinds_counts_and_crossed_kinds_have_their_own() -> None:
    model, engine, labels, offsets, context = make_searches({"good": (300, 0.95), "bad": (100, 0.0)})
    kind = context["length"]
    crossed = {"one": np.array(["x", "y"] * 200, dtype=object), "length": kind}
    guard = fit_guard(model, engine, labels, offsets, crossed, crosses=[("one", "length")])
    found = guard.find_weights({"one": np.array(["x", "x"]), "length": np.array(["good", "bad"])}, 2)
    assert found[0] > 0.0
    assert found[1] == 0.0
    assert {each.by for each in guard.verdicts} == {"one", "length", "one × length"}


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


@pytest.mark.parametrize(
    "change", [{"guard": 2}, {"overall": {}}, {"tolerance": "x"}, {"verdicts": [{"weight": 3}]}]
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
    with pytest.raises(BadInput, match="crosses must name"):
        fit_guard(model, engine, labels, offsets, context, crosses=[("nothing", "length")])
    with pytest.raises(BadInput, match="level must be"):
        fit_guard(model, engine, labels, offsets, context, level=1.0)
    with pytest.raises(BadInput, match="one value for each row"):
        fit_guard(model, engine[1:], labels, offsets, context)
    with pytest.raises(BadInput, match="a value for each of 40 searches"):
        fit_guard(model, engine, labels, offsets, {"length": context["length"][1:]})
