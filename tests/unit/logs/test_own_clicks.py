"""A person's own past clicks: faded, before the session, and kept as they were counted."""

from __future__ import annotations

import doctest
import json
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from placings.core import BadInput
from placings.logs import OwnClicks, add_own_clicks, carry_clicks, hash_user, name_people, says_no

pd = pytest.importorskip("pandas")

BEGIN = pd.Timestamp("2024-05-01")


def make_log(rows: int = 600, seed: int = 0, **columns: Any) -> Any:
    """Rows of ten people over 120 days, each in a session of one day, about a fifth clicked."""
    rng = np.random.default_rng(seed)
    person, minute = rng.integers(0, 10, rows), rng.integers(0, 120 * 24 * 60, rows)
    log = pd.DataFrame(
        {
            "user_id": [f"u{each}" for each in person], "item_id": rng.choice(["a", "b", "c", "ü"], rows),
            "time": BEGIN + pd.to_timedelta(minute, unit="min"), "label": (rng.random(rows) < 0.2) * 1.0,
            "session_id": [f"{who}.{when // (24 * 60)}" for who, when in zip(person, minute, strict=True)],
        }
    )  # fmt: skip
    return log.assign(**columns)


def count_slowly(rows: Any, clicked: Any, half_life: float) -> list[float]:
    """Sums over all clicks, as the formula says; nothing of the recursion."""
    begins = clicked.groupby("session_id")["time"].min()
    wins = clicked[clicked["label"] > 0]
    found = []
    for row in rows.itertuples():
        begin = min(row.time, begins.get(row.session_id, row.time))
        own = wins[
            (wins["user_id"] == row.user_id) & (wins["item_id"] == row.item_id) & (wins["time"] < begin)
        ]
        found.append(sum(2.0 ** -((row.time - when) / pd.Timedelta(days=half_life)) for when in own["time"]))
    return found


def test_own_clicks_equal_the_slow_sum_over_clicks_before_the_session() -> None:
    log = make_log()
    found = add_own_clicks(log, log, half_life=30.0)["own_clicks"].to_numpy()
    slow = np.array(count_slowly(log, log, 30.0))
    np.testing.assert_allclose(found[slow >= 0.02], slow[slow >= 0.02], rtol=1e-12)
    assert (found[slow < 0.005] == 0.0).all()
    assert found.max() > 2.0


def test_a_click_counts_half_after_its_half_life_and_nothing_once_it_has_faded() -> None:
    days = [0, 10, 20, 60, 70]
    log = pd.DataFrame(
        {
            "user_id": "ann", "item_id": "a", "label": [1.0, 0, 0, 0, 0],
            "time": [BEGIN + pd.Timedelta(days=each) for each in days],
        }
    )  # fmt: skip
    found = add_own_clicks(log, log, half_life=10.0)["own_clicks"]
    assert found.tolist() == [0.0, 0.5, 0.25, 2.0**-6, 0.0]  # 2^-7 is below 0.01


def test_clicks_of_others_and_of_the_session_itself_never_count() -> None:
    log = pd.DataFrame(
        {
            "user_id": ["ann", "ann", "ann", "bob"], "item_id": "a", "label": 1.0,
            "session_id": ["s", "s", "t", "v"],
            "time": [BEGIN + pd.Timedelta(days=day) for day in (0, 1, 1, 2)],
        }
    )  # fmt: skip
    # session t begins when s was still going on, after its first click: that one counts, faded by a day
    assert add_own_clicks(log, log, half_life=1.0)["own_clicks"].tolist() == [0.0, 0.0, 0.5, 0.0]
    assert add_own_clicks(log.drop(columns="session_id"), log, half_life=1.0)["own_clicks"].tolist() == [
        0.0, 0.5, 0.5, 0.0,
    ]  # fmt: skip


def test_a_session_that_began_with_a_search_of_the_other_table_counts_from_there() -> None:
    log = pd.DataFrame(
        {
            "user_id": "ann", "item_id": ["a", "b", "a"], "label": [0.0, 1.0, 1.0],
            "session_id": ["s", "t", "s"],
            "time": [BEGIN, BEGIN + pd.Timedelta(hours=1), BEGIN + pd.Timedelta(hours=2)],
        }
    )  # fmt: skip
    late = log.iloc[2:].assign(item_id="b")  # of session s, which began before the click of session t
    assert add_own_clicks(late, log)["own_clicks"].tolist() == [0.0]
    assert add_own_clicks(late.assign(session_id="w"), log)["own_clicks"].iloc[0] > 0.9


def test_a_label_carried_back_into_a_session_is_not_told_by_own_clicks() -> None:
    log = pd.DataFrame(
        {
            "search_id": ["1", "1", "2", "2", "3", "3"], "session_id": "s", "user_id": "ann",
            "item_id": ["a", "b"] * 3, "label": [0.0, 1.0, 0.0, 0.0, 0.0, 1.0], "position": [1, 2] * 3,
            "time": [BEGIN + pd.Timedelta(minutes=minute) for minute in (0, 0, 1, 1, 2, 2)],
        }
    )  # fmt: skip
    carried = carry_clicks(log, log.iloc[2:4])
    assert carried["label"].tolist() == [0.0, 1.0]
    leaky = add_own_clicks(carried.drop(columns="session_id"), log)["own_clicks"]
    assert leaky.tolist() == [0.0, pytest.approx(1.0, abs=1e-4)]  # the label, word for word
    assert add_own_clicks(carried, log)["own_clicks"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("flag", [True, 1, "true"])
def test_who_opts_out_once_has_no_history_at_all(flag: Any) -> None:
    log = make_log()
    out = log.assign(no_history=pd.Series([None] * len(log), dtype=object))
    theirs = out["user_id"] == "u3"
    assert add_own_clicks(out, out)["own_clicks"].equals(add_own_clicks(log, log)["own_clicks"])
    out.at[out.index[theirs][-1], "no_history"] = flag
    found = add_own_clicks(out, out)["own_clicks"]
    assert found[theirs].eq(0.0).all()
    assert found[~theirs].equals(add_own_clicks(log, log)["own_clicks"][~theirs])
    served = out.assign(own_clicks=7.0)
    assert (
        add_own_clicks(served, served, keep=True)["own_clicks"].tolist()
        == np.where(theirs, 0.0, 7.0).tolist()
    )
    kept = OwnClicks.learn(out)
    assert not kept.knows("u3")
    assert kept.knows("u4")
    assert hash_user("u3") not in json.dumps(kept.to_state())


def test_rows_without_a_person_an_item_or_a_time_have_none_and_give_none() -> None:
    log = pd.DataFrame(
        {
            "user_id": [None, "ann", "ann", "ann"], "item_id": ["a", None, "a", "a"], "label": 1.0,
            "time": [BEGIN, BEGIN, None, BEGIN + pd.Timedelta(days=1)],
        }
    )  # fmt: skip
    assert add_own_clicks(log, log)["own_clicks"].tolist() == [0.0] * 4
    assert add_own_clicks(log.iloc[:0], log)["own_clicks"].tolist() == []
    assert add_own_clicks(log, log.iloc[:0])["own_clicks"].tolist() == [0.0] * 4
    assert OwnClicks.learn(log.iloc[:0]).people == {}
    assert OwnClicks.learn(log.iloc[:0]).until is None
    assert list(OwnClicks.learn(log).people) == [hash_user("ann")]


@pytest.mark.parametrize("name", ["user_id", "item_id", "time", "label"])
def test_a_table_without_a_column_is_refused_by_its_name(name: str) -> None:
    log = make_log(20)
    with pytest.raises(BadInput, match=f"need a column {name}. Got "):
        add_own_clicks(log, log.drop(columns=name))


@pytest.mark.parametrize("half_life", [0, -1.0, float("nan"), float("inf"), True, "month", None])
def test_a_half_life_that_is_none_is_refused(half_life: Any) -> None:
    with pytest.raises(BadInput, match="half_life must be a number of days above 0. Got"):
        add_own_clicks(make_log(5), make_log(5), half_life=half_life)
    with pytest.raises(BadInput, match="half_life"):
        OwnClicks(half_life)


def test_the_given_table_stays_as_it_was() -> None:
    log = make_log()
    before = log.copy()
    add_own_clicks(log, log)
    OwnClicks.learn(log).add_to(log)
    pd.testing.assert_frame_equal(log, before)


# -- kept for the next request ----------------------------------------------------------------------------


def make_next_day(log: Any) -> Any:
    """One search of each person, of all items, at odd moments of the days after the log."""
    people = sorted(log["user_id"].unique())
    return pd.DataFrame(
        [
            {"user_id": person, "item_id": item, "session_id": f"new {person}",
             "time": BEGIN + pd.Timedelta(days=121 + number, microseconds=12345 * number)}
            for number, person in enumerate([*people, "stranger"]) for item in ("a", "b", "c", "ü", "never")
        ]
    )  # fmt: skip


def test_what_is_kept_gives_the_next_rows_the_counts_of_the_log_to_the_bit() -> None:
    log = make_log()
    new = make_next_day(log)
    counted = add_own_clicks(new, log, half_life=17.0)["own_clicks"].to_numpy()
    kept = OwnClicks.learn(log, half_life=17.0)
    assert kept.add_to(new)["own_clicks"].to_numpy().tobytes() == counted.tobytes()
    assert counted.max() > 1.0
    live = [
        kept.look_up(person, each["item_id"].tolist(), each["time"].iloc[0].to_pydatetime())
        for person, each in new.groupby("user_id", sort=False)
    ]
    assert np.concatenate(live).tobytes() == counted.tobytes()
    again = OwnClicks.from_state(json.loads(json.dumps(kept.to_state())))
    assert again.add_to(new)["own_clicks"].to_numpy().tobytes() == counted.tobytes()
    assert again.until == kept.until == log["time"].max().value // 1000


def test_clicks_that_come_in_later_are_counted_as_if_the_log_had_held_them() -> None:
    log = make_log().sort_values("time")
    early, late = log[: len(log) // 2], log[len(log) // 2 :]
    new = make_next_day(log)
    whole = add_own_clicks(new, log)["own_clicks"].to_numpy()
    kept = OwnClicks.learn(early)
    for person, each in new.groupby("user_id", sort=False):
        wins = late[(late["user_id"] == person) & (late["label"] > 0)]
        since = [
            (row.item_id, row.time.value // 1000) for row in wins.sample(frac=1, random_state=1).itertuples()
        ]
        found = kept.look_up(
            person, each["item_id"].tolist(), each["time"].iloc[0].to_pydatetime(), since=since
        )
        assert found.tobytes() == whole[new["user_id"] == person].tobytes()


def test_a_search_before_the_last_click_fades_nothing() -> None:
    kept = OwnClicks(30.0, {hash_user("ann"): {"a": (2.5, 1_000_000)}})
    assert kept.look_up("ann", ["a"], datetime(1970, 1, 1)).tolist() == [2.5]


def test_nobody_a_stranger_and_who_opts_out_have_nothing() -> None:
    kept = OwnClicks(30.0, {hash_user("7"): {"a": (2.0, 0)}})
    now = datetime(1970, 1, 1)
    assert kept.look_up(7, ["a"], now).tolist() == kept.look_up(7.0, ["a"], now).tolist() == [2.0]
    for user in (None, float("nan"), "8"):
        assert kept.look_up(user, ["a"], now).tolist() == [0.0]
    assert kept.look_up(7, ["a"], now, no_history=True).tolist() == [0.0]
    assert kept.look_up(7, ["a"], None).tolist() == [0.0]
    rows = pd.DataFrame({"user_id": [7, 7, 8], "item_id": "a", "time": [now] * 3, "no_history": [0, 1, 0]})
    assert kept.add_to(rows)["own_clicks"].tolist() == [2.0, 0.0, 0.0]
    assert kept.add_to(rows.drop(columns="user_id"))["own_clicks"].tolist() == [0.0] * 3
    assert kept.name_people(rows).tolist() == ["seen before", "never seen", "never seen"]


def test_a_log_that_a_service_wrote_goes_on_from_what_was_served() -> None:
    day = pd.Timedelta(days=1)
    log = pd.DataFrame(
        {
            "user_id": "ann", "item_id": ["a", "a", "b", "c"], "label": [1.0, 0.0, 1.0, 0.0],
            "time": [BEGIN, BEGIN + day, BEGIN + day, BEGIN + day], "own_clicks": [3.0, 4.0, None, 0.5],
        }
    )  # fmt: skip
    kept = OwnClicks.learn(log, half_life=1.0, keep=True)
    at = (BEGIN + day).to_pydatetime()
    # a: 3 and the click of the first day, halved; b: its click; c: never clicked here, but before
    assert kept.look_up("ann", ["a", "b", "c"], at).tolist() == [2.0, 1.0, 0.5]
    assert OwnClicks.learn(log, half_life=1.0).look_up("ann", ["a", "b", "c"], at).tolist() == [0.5, 1.0, 0.0]


def test_what_has_faded_is_not_kept() -> None:
    log = pd.DataFrame(
        {
            "user_id": ["ann", "bob"], "item_id": "a", "label": [1.0, 1.0],
            "time": [BEGIN, BEGIN + pd.Timedelta(days=70)],
        }
    )  # fmt: skip
    assert list(OwnClicks.learn(log, half_life=10.0).people) == [hash_user("bob")]


def test_a_person_can_be_taken_out() -> None:
    kept = OwnClicks.learn(make_log())
    without = kept.without("u3")
    assert kept.knows("u3")
    assert not without.knows("u3")
    assert len(without.people) == len(kept.people) - 1


@pytest.mark.parametrize(
    "state",
    [
        None, [], {}, {"format": 2}, {"format": 1, "people": [], "until": None},
        {"format": 1, "people": {}, "until": "now"},
        {"format": 1, "people": {"ann": {}}, "until": None, "half_life": 30.0},
        {"format": 1, "people": {"0" * 64: {"a": [-1.0, 0]}}, "until": None, "half_life": 30.0},
        {"format": 1, "people": {"0" * 64: {"a": 1.0}}, "until": None, "half_life": 30.0},
        {"format": 1, "people": {"0" * 64: {"a": [1.0, 2.5]}}, "until": None, "half_life": 30.0},
        {"format": 1, "people": {}, "until": None, "half_life": 0},
    ],
)  # fmt: skip
def test_a_state_that_is_none_is_refused(state: Any) -> None:
    with pytest.raises(BadInput, match="must"):
        OwnClicks.from_state(state)


# -- people -----------------------------------------------------------------------------------------------


def test_people_are_seen_before_if_they_clicked_anything_before_the_session() -> None:
    log = make_log()
    found = name_people(log, log)
    wins = log[log["label"] > 0]
    begins = log.groupby("session_id")["time"].transform("min")
    slow = [
        "seen before" if ((wins["user_id"] == row.user_id) & (wins["time"] < begin)).any() else "never seen"
        for row, begin in zip(log.itertuples(), begins, strict=True)
    ]
    assert found.tolist() == slow
    assert set(slow) == {"seen before", "never seen"}
    assert set(name_people(log.assign(user_id=None), log)) == {"unknown"}
    assert set(name_people(log, log.assign(label=0.0))) == {"never seen"}


def test_hashes_are_those_of_sha256sum_and_numbers_are_hashed_as_texts() -> None:
    assert hash_user("ann") == "49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1"
    assert hash_user(7) == hash_user("7")


def test_flags_that_opt_out() -> None:
    assert [says_no(value) for value in (True, 1, "yes", " TRUE ", np.True_, 1.0)] == [True] * 6
    assert [says_no(value) for value in (False, 0, "", "No", "false", "0", None, np.nan, pd.NA)] == [
        False
    ] * 9


def test_many_clicks_on_one_item_are_counted_up_one_by_one() -> None:
    times = [BEGIN + timedelta(hours=hour) for hour in range(500)]
    log = pd.DataFrame({"user_id": "bot", "item_id": "a", "label": 1.0, "time": times})
    found = add_own_clicks(log, log, half_life=1.0)["own_clicks"].to_numpy()
    q = 2.0 ** (-1.0 / 24.0)
    assert found[-1] == pytest.approx(q * (1 - q**499) / (1 - q))  # a geometric sum: q + q² + … + q⁴⁹⁹


def test_the_examples_run() -> None:
    assert doctest.testmod(import_module("placings.logs.own_clicks")).failed == 0
