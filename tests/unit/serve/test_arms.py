"""Arms: shares, moves, turns and swaps are what they are said to be, counted over many keys."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import Counter, defaultdict

import pytest

from placings.core import BadInput
from placings.serve.arms import Arm, Arms, Exploration, draw_share, explore, interleave
from placings.serve.service import Answer, draw
from placings.serve.settings import ServeSettings

THREE = (Arm("control", 0.5, ("engine",)), Arm("new", 0.3, ("model",)), Arm("mix", 0.2, ("engine", "model")))
NAMES = ("engine", "model")
FAR = 4.5  # standard errors: a test that is right fails once in 150,000


def is_near(count: int, total: int, share: float) -> bool:
    """Whether a count is what a share makes of a total, up to chance."""
    return abs(count - share * total) <= FAR * math.sqrt(total * share * (1 - share)) + 1e-9


# -- dealing -----------------------------------------------------------------------------------------


def test_arms_have_their_shares_of_100_000_people() -> None:
    arms = Arms(THREE)
    counts = Counter(arms.choose(f"user-{number}").name for number in range(100_000))
    chi_square = sum((counts[arm.name] - 1e5 * arm.share) ** 2 / (1e5 * arm.share) for arm in THREE)
    assert chi_square < 18.4  # the 0.9999 quantile with 2 degrees of freedom


def test_a_person_has_the_same_arm_in_every_process() -> None:
    people = [f"user-{number}" for number in range(40)] + ["", "ä", "a\x1fb", "\ud800"]
    script = (
        "import json; from placings.serve.arms import Arm, Arms\n"
        f"arms = Arms(({', '.join(map(repr, THREE))},))\n"
        f"print(json.dumps([arms.choose(each).name for each in {people!r}]))"
    )
    there = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert json.loads(there) == [Arms(THREE).choose(person).name for person in people]


def test_an_upgrade_deals_nobody_anew() -> None:
    arms = Arms((Arm("old", 0.5, ("engine",)), Arm("new", 0.5, ("model",))), experiment="spring")
    dealt = [arms.choose(person).name for person in ("ann", "bob", "cem", "dua", "eva", "fay")]
    assert dealt == ["new", "new", "new", "old", "old", "old"]  # frozen; as the first version dealt them


def test_two_experiments_deal_independently() -> None:
    halves = (Arm("old", 0.5, ("engine",)), Arm("new", 0.5, ("model",)))
    first, second = Arms(halves, experiment="spring"), Arms(halves, experiment="summer")
    both = Counter(
        (first.choose(person).name, second.choose(person).name) for person in map(str, range(20_000))
    )
    assert all(is_near(both[one, other], 20_000, 0.25) for one in ("old", "new") for other in ("old", "new"))


def test_a_changed_share_of_two_arms_moves_only_the_change() -> None:
    before = Arms((Arm("old", 0.9, ("engine",)), Arm("new", 0.1, ("model",))))
    after = Arms((Arm("old", 0.7, ("engine",)), Arm("new", 0.3, ("model",))))
    moves = Counter(
        (before.choose(person).name, after.choose(person).name) for person in map(str, range(20_000))
    )
    assert moves["new", "old"] == 0
    assert is_near(moves["old", "new"], 20_000, 0.2)


def test_a_changed_share_of_three_arms_moves_few() -> None:
    before = Arms(THREE)
    after = Arms((Arm("control", 0.4, ("engine",)), Arm("new", 0.4, ("model",)), THREE[2]))
    moved = sum(before.choose(person).name != after.choose(person).name for person in map(str, range(20_000)))
    least = (0.1 + 0.1) / 2  # half the sum of the absolute changes
    assert 20_000 * least * 0.9 < moved < 20_000 * 2 * least / (1 + least)


def test_the_order_of_arms_moves_nobody() -> None:
    people = list(map(str, range(500)))
    turned = Arms(THREE[::-1])
    assert [turned.choose(person) for person in people] == [Arms(THREE).choose(person) for person in people]


def test_an_arm_without_a_share_gets_nobody() -> None:
    arms = Arms((Arm("none", 0.0, ("engine",)), Arm("all", 1.0, ("model",))))
    assert {arms.choose(str(number)).name for number in range(500)} == {"all"}


def test_a_draw_is_below_1_and_words_do_not_run_together() -> None:
    assert all(0.0 <= draw_share(str(number)) < 1.0 for number in range(1_000))
    assert draw_share("a", "b\x1fc") != draw_share("a\x1fb", "c")


# -- interleaving ------------------------------------------------------------------------------------


def test_each_team_is_first_with_one_half() -> None:
    firsts = [interleave(range(6), range(6), NAMES, "x", str(key)).teams for key in range(5_000)]
    for place in (0, 2, 4):  # each round has a draw of its own
        assert is_near(sum(teams[place] == "model" for teams in firsts), 5_000, 0.5)
    assert is_near(sum(teams[0] == teams[2] for teams in firsts), 5_000, 0.5)


@pytest.mark.parametrize("clicked", [0, 1, 4, 6])
def test_of_two_equal_orders_none_is_preferred(clicked: int) -> None:
    order = [3, 0, 6, 2, 5, 1, 4]
    won = 0
    for key in range(4_000):
        drawn = interleave(order, order, NAMES, "x", str(key))
        assert list(drawn.order) == order
        won += drawn.teams[clicked] == "model"
    assert is_near(won, 4_000, 0.5)


def test_a_team_has_its_orders_best_in_turn() -> None:
    one, other = [0, 1, 2, 3, 4, 5, 6], [6, 0, 5, 3, 1, 2, 4]
    for key in range(200):
        drawn = interleave(one, other, NAMES, "x", str(key))
        assert sorted(drawn.order) == one
        for start in range(0, 6, 2):  # each round has one of each
            assert set(drawn.teams[start : start + 2]) == set(NAMES)
        for place, (row, team) in enumerate(zip(drawn.order, drawn.teams, strict=True)):
            left = [each for each in (one if team == "engine" else other) if each not in drawn.order[:place]]
            assert row == left[0]


def test_turns_do_not_depend_on_the_list() -> None:
    long = interleave(range(8), range(8), NAMES, "x", "session")
    short = interleave([2, 1, 0], [0, 1, 2], NAMES, "x", "session")
    assert short.teams == long.teams[:3]


def test_orders_of_other_rows_are_refused() -> None:
    for one, other in (([0, 0], [0, 0]), ([0, 1], [0, 2]), ([0, 1], [0])):
        with pytest.raises(BadInput, match="must hold the same rows"):
            interleave(one, other, NAMES, "x")


# -- exploration -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "depth", "reach"),
    [(6, 4, 1), (3, 10, 1), (2, 2, 1), (6, 5, 2), (6, 4, 9), (3, 10, 9), (2, 2, 9)],
)
def test_items_stand_where_their_propensity_says(items: int, depth: int, reach: int) -> None:
    total, rate = 20_000, 0.4
    names = [f"item {row}" for row in range(items)]
    order = list(range(items))[::-1]
    seen: Counter[tuple[int, int]] = Counter()
    stated: dict[tuple[int, int], set[float]] = defaultdict(set)
    swaps = 0
    for key in range(total):
        drawn = explore(order, names, Exploration(rate, depth, reach), "x", str(key))
        swaps += drawn.swapped > 0
        assert drawn.swap_reach == min(reach, items - 1, depth - 1)
        assert (0 < drawn.swapped_with - drawn.swapped <= reach) == (drawn.swapped > 0)
        assert drawn.swap_probability == rate
        for place, (row, chance) in enumerate(zip(drawn.order, drawn.propensity, strict=True)):
            seen[row, place] += 1
            stated[row, place].add(chance)
    assert is_near(swaps, total, rate)
    for at, chances in stated.items():
        assert len(chances) == 1  # one probability for an item at a place, whatever else happened
        assert is_near(seen[at], total, next(iter(chances)))
    for row in range(items):
        assert sum(
            next(iter(chances)) for (each, _), chances in stated.items() if each == row
        ) == pytest.approx(1)


def test_each_pair_within_reach_is_swapped_as_often_as_any_other() -> None:
    total, rate = 20_000, 0.5
    seen = Counter(
        (drawn.swapped, drawn.swapped_with)
        for drawn in (
            explore(range(5), list("abcde"), Exploration(rate, 4, 2), "x", str(key)) for key in range(total)
        )
    )
    pairs = [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
    assert set(seen) == {(0, 0), *pairs}
    assert all(is_near(seen[pair], total, rate / len(pairs)) for pair in pairs)


def test_an_upgrade_swaps_the_same_neighbours() -> None:
    people = ("ann", "bob", "cem", "dua", "eva", "fay")
    swapped = [explore(range(5), list("abcde"), Exploration(0.5, 4), "spring", who).swapped for who in people]
    assert swapped == [1, 0, 0, 3, 0, 0]  # frozen; as the version without a reach drew them


def test_a_reach_below_1_is_refused() -> None:
    with pytest.raises(BadInput, match="reach of exploration must be 1 or more"):
        Exploration(0.1, 10, 0)


def test_below_the_depth_nothing_moves() -> None:
    for key in range(300):
        drawn = explore(range(6), list("abcdef"), Exploration(0.5, 3), "x", str(key))
        assert drawn.order[3:] == (3, 4, 5)
        assert drawn.propensity[3:] == (1.0, 1.0, 1.0)


def test_two_items_stay_swapped_while_the_list_changes() -> None:
    kept = 0
    for key in range(500):
        before = explore(range(5), list("abcde"), Exploration(0.5, 10), "x", str(key))
        after = explore(range(4), list("bcde"), Exploration(0.5, 10), "x", str(key))  # "a" no longer matches
        assert (before.swapped > 0) == (after.swapped > 0)
        if before.swapped > 1:  # a pair without "a"
            assert after.swapped == before.swapped - 1
            kept += 1
    assert kept > 100


def test_a_pair_is_the_same_whoever_is_above() -> None:
    for key in range(200):
        one = explore([0, 1, 2], list("abc"), Exploration(0.5, 10), "x", str(key))
        other = explore([2, 1, 0], list("abc"), Exploration(0.5, 10), "x", str(key))
        assert one.order == other.order[::-1]


def test_no_exploration_is_certain() -> None:
    for exploration, count in ((Exploration(0.0), 3), (Exploration(0.5), 1), (Exploration(0.5), 0)):
        drawn = explore(range(count), list("abc"), exploration, "x")
        assert drawn.order == tuple(range(count))
        assert drawn.propensity == (1.0,) * count
        assert drawn.swap_probability == 0.0


def test_a_fallback_is_neither_mixed_nor_swapped() -> None:
    for arm in (THREE[1], THREE[2]):
        arms = Arms(THREE, Exploration(0.5))
        for key in range(50):
            drawn, chosen, reason = draw(arms, arm, {}, list("abcd"), str(key))
            assert (drawn.order, drawn.teams, drawn.swapped) == ((0, 1, 2, 3), (), 0)
            assert (chosen, reason) == (None, "fallback")


def test_a_list_is_the_same_on_the_next_keystroke_and_another_session_may_differ() -> None:
    arms = Arms(THREE, Exploration(0.5))
    answers = {"model": Answer((2, 0, 3, 1), (0.4, 0.3, 0.2, 0.1), "m")}
    for arm in THREE:
        lists = [draw(arms, arm, answers, list("abcd"), str(key))[0] for key in range(40)]
        assert lists == [draw(arms, arm, answers, list("abcd"), str(key))[0] for key in range(40)]
        assert len({each.order for each in lists}) > 1


# -- what is told ------------------------------------------------------------------------------------


def test_arms_are_written_down_as_they_are_read() -> None:
    told = str(Arms((Arm("a", 1 / 3, ("engine",)), Arm("b", 2 / 3, ("engine", "m2")))))
    assert told == "a=0.3333333333333333:engine b=0.6666666666666666:engine+m2"
    assert tuple(map(Arm.parse, told.split())) == (
        Arm("a", 1 / 3, ("engine",)),
        Arm("b", 2 / 3, ("engine", "m2")),
    )


def test_settings_keep_their_arms() -> None:
    settings = ServeSettings("m", arms=Arms(THREE, Exploration(0.1, 5, 3), "spring"))
    assert ServeSettings.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize("told", ["new", "new=0.5", "new=x:model", "=0.5:model", "new=0.5:", "new=nan:model"])
def test_an_arm_that_cannot_be_read_is_refused(told: str) -> None:
    with pytest.raises(BadInput, match=r"an arm must be NAME=SHARE:WHAT"):
        Arm.parse(told)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (("a b=1:model",), "letters, digits"), (("a=1.5:model",), "from 0 to 1"),
        (("a=1:model+model",), "different"), (("a=1:x+y+z",), "two different"),
        (("a=0.5:engine", "a=0.5:model"), "different names"), (("a=0.5:engine",), "make 1"),
    ],
)  # fmt: skip
def test_arms_that_make_no_sense_are_refused(told: tuple[str, ...], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Arms(tuple(map(Arm.parse, told)))


def test_an_experiment_has_a_plain_name() -> None:
    with pytest.raises(BadInput, match="the experiment must have letters"):
        Arms(experiment="spring 2026")
