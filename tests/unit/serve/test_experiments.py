"""Experiments: people are counted by hand on small stores, and the report says what was shown, or not."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from terminal import call_placings

from placings.core import BadFile, BadInput, UnknownName
from placings.rerank.requests import Request
from placings.serve.arms import Arm, Arms, Exploration
from placings.serve.event_store import Event, EventStore, ShownList
from placings.serve.experiments import judge_experiment, judge_people
from placings.serve.people import CountingRules, People, Swaps, read_people
from placings.serve.service import Answer, Reply, describe, draw

AB = "old=0.5:engine new=0.5:model"
START = 1_750_000_000.0  # seconds
DAY = 86_400.0
LATER = START + 30 * DAY


class Log:
    """A store that is filled list by list."""

    def __init__(self, folder: Path, arms: str = AB) -> None:
        self.store, self.arms = EventStore(folder), arms
        self.lists = self.clicks = 0

    def show(self, user: str | None, at: float, arm: str = "old", **told: Any) -> str:
        """Show five items `a` to `e` at a second after the start; returns the search's id."""
        self.lists += 1
        search = f"search {self.lists}"
        teams: Sequence[str] = told.pop("teams", ())
        results = [
            {"item_id": item, "position": place + 1, **({"team": teams[place]} if teams else {})}
            for place, item in enumerate("abcde")
        ]
        body = {
            "experiment": "spring", "arms": self.arms, "arm": arm, "fallback": None, "session_id": None,
            "query": f"text {self.lists} only", "swapped": 0, "swap_probability": 0.0,
            "results": results, **told,
        }  # fmt: skip
        self.store.note(ShownList(search, body, START + at, user))
        return search

    def click(
        self, search: str, item: str, at: float, *, action: str = "click", trusted: bool = True
    ) -> None:
        """Act on an item at a second after the start."""
        self.clicks += 1
        body = {"item_id": item, "action": action}
        self.store.add([Event(f"event {self.clicks}", search, body, START + at, None, trusted)])

    def read(self, *, now: float = LATER, **rules: Any) -> People:
        """The people so far."""
        assert self.store.sync()
        return read_people(self.store.folder, rules=CountingRules(**rules), now=now)


@pytest.fixture
def log(tmp_path: Path) -> Any:
    made = Log(tmp_path / "data")
    yield made
    made.store.close()


def get(people: People, metric: str) -> list[float]:
    return [round(float(value), 6) for value in people.values[metric]]


# -- one person --------------------------------------------------------------------------------------


def test_keystrokes_of_one_wish_are_one_search(log: Log) -> None:
    for at, text in enumerate(("Kar", "karl", "karls", "karl")):
        last = log.show("ann", at, query=text, session_id="s")
    log.click(last, "b", 8)
    log.show("ann", 9, query="ulm", session_id="s")
    log.show("ann", 60, query="ulm", session_id="s")  # half a minute and more is another search
    people = log.read()
    assert people.searches.tolist() == [3]
    assert get(people, "CTR") == [round(1 / 3, 6)]
    assert get(people, "click MRR") == [round((1 / 2) / 3, 6)]
    assert get(people, "failed sessions") == [0.0]


def test_the_best_click_of_a_search_is_its_rank(log: Log) -> None:
    first = log.show("ann", 0, query="kar")
    log.click(first, "d", 3)
    second = log.show("ann", 5, query="karl")
    log.click(second, "e", 8)
    log.click(second, "b", 9)
    people = log.read()
    assert get(people, "CTR") == [1.0]
    assert get(people, "click MRR") == [0.5]


def test_sessions_without_a_click_have_failed(log: Log) -> None:
    for session, clicks in (("s1", True), ("s2", False), ("s1", False), ("s3", False)):
        search = log.show("ann", 100.0 * log.lists, session_id=session)
        if clicks:
            log.click(search, "a", 100.0 * log.lists)
    assert get(log.read(), "failed sessions") == [
        round(2 / 3, 6)
    ]  # s2 and s3; s1 is one session, in two parts


def test_half_an_hour_ends_a_session_without_a_name(log: Log) -> None:
    for at in (0, 1_000, 2_000, 2_000 + 1_801):
        search = log.show("ann", at)
    log.click(search, "a", 4_000)
    people = log.read()
    assert people.sessions.tolist() == [2]
    assert get(people, "failed sessions") == [0.5]


def test_everybody_counts_the_same_however_much_they_search(log: Log) -> None:
    for at in range(20):
        log.click(log.show("busy", at * 100.0), "a", at * 100.0 + 5)
    log.show("idle", 0)
    assert sorted(get(log.read(), "CTR")) == [0.0, 1.0]


def test_a_session_without_a_user_is_a_person_and_a_list_without_both_is_left_out(log: Log) -> None:
    log.show(None, 0, session_id="s")
    log.show(None, 50, session_id="s")
    log.show(None, 60)
    people = log.read()
    assert people.searches.tolist() == [2]
    assert people.counts["lists without a user or a session"] == 1


# -- what does not count -----------------------------------------------------------------------------


def test_only_trusted_clicks_on_what_was_shown_count(log: Log) -> None:
    search = log.show("ann", 0)
    log.click(search, "a", 5, trusted=False)
    log.click(search, "z", 5)
    log.click(search, "a", 5, action="hover")
    log.click("search 99", "a", 5)
    people = log.read()
    assert get(people, "CTR") == [0.0]
    assert people.counts["untrusted events"] == 1
    assert people.counts["clicks on items that were not shown"] == 1
    assert people.counts["searches clicked whose list is not there"] == 1


def test_a_person_who_counts_never_changes(log: Log) -> None:
    search = log.show("ann", 0)
    log.click(search, "c", 30)
    before = log.read(now=START + 26 * 3_600)
    log.click(search, "a", DAY + 2 * 3_600)
    log.show("ann", DAY + 1)
    after = log.read()
    assert before.searches.tolist() == after.searches.tolist() == [1]
    assert get(before, "click MRR") == get(after, "click MRR") == [round(1 / 3, 6)]
    assert after.counts["lists after a person's window"] == 1
    assert after.counts["clicks after a person's window"] == 1


def test_people_wait_until_their_window_is_over(log: Log) -> None:
    log.show("ann", 0)
    log.show("bob", 3_600)
    people = log.read(now=START + 25.5 * 3_600)
    assert len(people.arm) == 1
    assert people.counts["people whose window is not over"] == 1
    assert len(log.read(now=START + 1, hours=0.0).arm) == 2


def test_bots_are_counted_apart(log: Log) -> None:
    for at in range(12):
        log.show("crawler", at * 40.0)
    log.click(log.show("clicker", 0, arm="new"), "a", 0.049)
    log.click(log.show("person", 0, arm="new"), "a", 0.051)
    people = log.read(most_lists=11)
    assert people.bots == {"old": 1, "new": 1}
    assert people.arm.tolist() == ["new"]
    assert people.dealt[AB] == {"old": 1, "new": 2}
    assert people.kept[AB] == {"new": 1}
    assert log.read(quickest_ms=0.0).bots.total() == 0


def test_a_fallback_counts_for_the_arm_that_was_dealt(log: Log) -> None:
    log.click(log.show("ann", 0, arm="new", fallback="budget"), "a", 5)
    log.show("ann", 100, arm="new")
    people = log.read()
    assert people.fallbacks == {"new": 1}
    assert people.arm.tolist() == ["new"]
    assert get(people, "CTR") == [0.5]


def test_who_moves_stays_with_their_first_arm(log: Log) -> None:
    log.show("ann", 0, arm="old")
    log.click(log.show("ann", 100, arm="new"), "a", 110)
    people = log.read()
    assert people.arm.tolist() == ["old"]
    assert get(people, "CTR") == [0.0]
    assert people.counts["people who saw more than one arm"] == 1


def test_another_experiment_is_another_report(log: Log) -> None:
    log.show("ann", 0)
    log.show("bob", 10, experiment="summer")
    log.store.sync()
    assert read_people(log.store.folder, now=LATER).experiment == "summer"
    people = read_people(log.store.folder, experiment="spring", now=LATER)
    assert len(people.arm) == 1
    assert people.counts["lists of other experiments"] == 1
    with pytest.raises(BadInput, match="no list of experiment 'winter'"):
        read_people(log.store.folder, experiment="winter")


def test_memory_does_not_grow_with_lists(log: Log) -> None:
    for number in range(3_000):
        log.show(f"user {number % 30}", number * 20.0, note="x" * 2_000)  # 6 MB of lists
    assert log.store.sync(60)
    tracemalloc.start()
    people = log.read()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert people.searches.sum() == 3_000
    assert peak < 1_000_000


# -- verdicts ----------------------------------------------------------------------------------------


def make_people(counts: dict[str, int], clicks: dict[str, float], arms: str = AB, seed: int = 0) -> People:
    """People as a pass over a store gives them, who click with these rates."""
    rng = np.random.default_rng(seed)
    names = np.repeat(np.array(list(counts), dtype=object), list(counts.values()))
    rng.shuffle(names)
    rate = np.array([clicks[name] for name in names])
    clicked = rng.binomial(4, rate) / 4
    known = {arm.name: arm for arm in map(Arm.parse, arms.split())}
    dealt = {arms: Counter(counts)}
    ones = np.ones(len(names), dtype=np.int64)
    values = {"CTR": clicked, "click MRR": clicked / 2, "failed sessions": (clicked == 0) * 1.0}
    return People(
        "spring", known, dealt, dealt, Counter(), Counter(), Counter(), Counter(), Swaps(), names,
        START + np.arange(len(names)), 4 * ones, ones, values, np.full(len(names), np.nan),
    )  # fmt: skip


def judge(people: People) -> Any:
    return judge_people(people, CountingRules())


def test_a_difference_is_said_first_with_its_direction() -> None:
    said = judge(make_people({"old": 5_000, "new": 5_000}, {"old": 0.3, "new": 0.35})).say()
    assert said[0].startswith("Shown: new differs from old: CTR higher by 0.0")
    assert "failed sessions lower by" in said[0]
    assert "WORSE" not in said[0]
    worse = judge(make_people({"old": 5_000, "new": 5_000}, {"old": 0.35, "new": 0.3})).say()
    assert worse[0].count("WORSE") == 3


def test_no_difference_is_said_as_such() -> None:
    said = judge(make_people({"old": 5_000, "new": 5_000}, {"old": 0.3, "new": 0.3})).say()
    assert said[0].startswith(
        "Nothing is shown: new does not differ from old so far; in CTR it is between −0.0"
    )
    few = judge(
        make_people({"old": 100, "new": 40}, {"old": 0.3, "new": 0.9}, "old=0.7:engine new=0.3:model")
    )
    assert few.say() == ["Nothing is shown yet: new must have 50 people who count, or more."]


def test_a_mismatch_of_shares_is_said_before_all() -> None:
    found = judge(make_people({"old": 5_400, "new": 4_600}, {"old": 0.3, "new": 0.4}))
    assert found.ratio.alarm
    assert found.say()[0].startswith("DO NOT TRUST THE NUMBERS BELOW")
    assert "old 5,400, due 5,000; new 4,600, due 5,000" in found.report().splitlines()[0]


def test_bots_of_one_arm_alone_are_a_mismatch() -> None:
    people = make_people({"old": 5_000, "new": 5_000}, {"old": 0.3, "new": 0.3})
    people.kept = {AB: Counter({"old": 5_000, "new": 4_000})}
    found = judge(people)
    assert found.ratio.alarm
    assert found.ratio.worst == "people without bots"


def test_people_are_held_to_the_shares_under_which_they_came() -> None:
    people = make_people({"old": 10_000, "new": 6_000}, {"old": 0.3, "new": 0.3})
    people.dealt = {
        AB: Counter({"old": 5_000, "new": 5_000}),
        "old=0.8:engine new=0.2:model": Counter({"old": 4_800, "new": 1_200}),
    }
    people.kept = people.dealt
    assert not judge(people).ratio.alarm
    people.dealt = people.kept = {AB: Counter({"old": 9_800, "new": 6_200})}
    assert judge(people).ratio.alarm


def test_all_differences_hold_together() -> None:
    arms = "old=0.25:engine a=0.25:model b=0.25:m2 mix=0.25:engine+model"
    names = ("old", "a", "b", "mix")
    people = make_people(dict.fromkeys(names, 500), dict.fromkeys(names, 0.3), arms)
    found = judge(people)
    assert found.level == pytest.approx(1 - 0.05 / 7)  # 2 arms × 3 metrics, and a preference
    assert set(found.differences) == {"a", "b"}


def test_the_control_is_the_engine_unless_named() -> None:
    people = make_people({"m": 100, "base": 100}, {"m": 0.3, "base": 0.3}, "m=0.5:model base=0.5:engine")
    assert judge_people(people, CountingRules()).control == "base"
    assert judge_people(people, CountingRules(), "m").control == "m"
    with pytest.raises(UnknownName, match="'engin'"):
        judge_people(people, CountingRules(), "engin")


def test_one_arm_is_no_experiment() -> None:
    found = judge(make_people({"model": 100}, {"model": 0.3}, "model=1.0:model"))
    assert found.say() == ["Nothing is compared: model is the only arm."]
    assert found.ratio is None
    assert found.draw() == ""


def test_a_preference_is_counted_by_teams_and_mixed_lists_have_no_ctr(tmp_path: Path) -> None:
    log = Log(tmp_path, "mix=1.0:engine+model")
    teams = ("engine", "model", "model", "engine", "model")
    for number in range(60):
        user = f"user {number}"
        first = log.show(user, 0, arm="mix", teams=teams)
        log.click(first, "b", 5)  # model
        second = log.show(user, 100, arm="mix", teams=teams)
        log.click(second, "a", 105)  # a tie
        log.click(second, "c", 106)
        if number < 15:  # engine, engine and model: engine wins
            third = log.show(user, 200, arm="mix", teams=teams)
            for item in "adb":
                log.click(third, item, 205)
    log.show("nobody", 0, arm="mix", teams=teams)
    log.show("late", 0, arm="mix", fallback="budget")
    assert log.store.sync()
    found = judge_experiment(tmp_path, now=LATER)
    log.store.close()
    preference = found.preferences["mix"]
    assert preference.counts[-1] == 60
    assert preference.estimates[-1] == pytest.approx((45 * (1 + 0) / 2 + 15 * (1 + 0 - 1) / 3) / 60)
    assert found.say()[0].startswith("Shown: interleaved, people prefer model to engine: +0.3750")
    told = found.to_dict()
    assert not {"CTR", "click MRR", "failed sessions"} & set(told["arms"]["mix"])
    assert told["preferences"]["mix"]["for"] == "model"
    assert "CTR of their own" in found.report()


def test_swaps_and_their_weights_are_counted_by_session(tmp_path: Path) -> None:
    log = Log(tmp_path, "model=1.0:model")
    top = [{"item_id": "a", "position": 1, "shown_probability": 0.8}, {"item_id": "b", "position": 2}]
    moved = [{"item_id": "b", "position": 1, "shown_probability": 0.2}, {"item_id": "a", "position": 2}]
    for number in range(10):  # 2 of 10 sessions have a swap, as 0.2 says; each shows its list twice
        swapped = number < 2
        for at in (0, 100):
            log.show(
                f"user {number}", at, arm="model", session_id=f"s{number}", swap_probability=0.2,
                swapped=int(swapped), results=moved if swapped else top,
            )  # fmt: skip
    swaps = log.read().swaps
    log.store.close()
    assert (swaps.lists, swaps.swapped, swaps.sessions, swaps.swapped_sessions) == (20, 4, 10, 2)
    assert swaps.expected_sessions == pytest.approx(2.0)
    assert swaps.weights / swaps.sessions == pytest.approx(0.8 / 0.8 + 0.2 / 0.2)
    assert swaps.expected_weights / swaps.sessions == 2.0  # a list that does not say: neighbours


@pytest.mark.parametrize(("reach", "due"), [(1, 2.0), (2, 3.0), (9, 3.0)])
def test_as_many_weights_are_due_at_the_top_as_items_may_stand_there(
    reach: int, due: float, tmp_path: Path
) -> None:
    arms = Arms((Arm("model", 1.0, ("model",)),), Exploration(0.5, 3, reach), "spring")
    request = Request({"query": "ulm"}, [{"item_id": item} for item in "abcd"])
    log = Log(tmp_path)
    for number in range(3_000):
        user = f"user {number}"
        drawn, answer, reason = draw(
            arms, arms.arms[0], {"model": Answer((3, 2, 1, 0), (), "m")}, list("abcd"), user
        )
        reply = Reply(drawn, "model", answer, reason)
        body = describe(request, reply, str(number), arms=arms, user=user, session=user)
        log.store.note(ShownList(str(number), json.loads(json.dumps(body)), START + number, user))
    swaps = log.read().swaps
    log.store.close()
    assert swaps.expected_weights / swaps.sessions == due
    mean = swaps.weights / swaps.sessions
    error = np.sqrt((swaps.squares / swaps.sessions - mean**2) / swaps.sessions)
    assert abs(mean - due) < 4.5 * error


def test_what_the_service_writes_down_is_what_the_report_reads(tmp_path: Path) -> None:
    told = "old=0.4:engine new=0.4:model mix=0.2:engine+model"
    arms = Arms(tuple(map(Arm.parse, told.split())), Exploration(0.5, 3), "spring")
    request = Request({"query": "ulm"}, [{"item_id": item} for item in "abcd"])
    answers = {"model": Answer((3, 2, 1, 0), (), "digest")}
    log, shown = Log(tmp_path), Counter[str]()
    swapped = 0
    for number in range(200):
        user = f"user {number}"
        arm = arms.choose(user)
        drawn, answer, reason = draw(arms, arm, answers, list("abcd"), user)
        reply = Reply(drawn, arm.name, answer, reason)
        body = describe(request, reply, str(number), arms=arms, user=user, session=user)
        log.store.note(ShownList(str(number), json.loads(json.dumps(body)), START + number, user))
        log.click(str(number), body["results"][1]["item_id"], number + 5)
        shown[arm.name] += 1
        swapped += drawn.swapped > 0
    people = log.read()
    log.store.close()
    assert people.dealt == {told: shown}
    assert set(people.values["click MRR"]) == {0.5}
    assert people.swaps.swapped_sessions == swapped > 0
    assert np.isfinite(people.preference).sum() == shown["mix"]  # and nobody else has teams
    assert set(people.preference[people.is_in("mix")]) == {-1.0, 1.0}


# -- the command -------------------------------------------------------------------------------------


def fill(folder: Path, people: int = 150) -> None:
    """People by two arms, the second with more clicks."""
    arms = Arms(tuple(map(Arm.parse, AB.split())), experiment="spring")
    log = Log(folder)
    rng = np.random.default_rng(3)
    for number in range(people):
        arm = arms.choose(str(number)).name
        search = log.show(str(number), number, arm=arm)
        if rng.random() < (0.9 if arm == "new" else 0.1):
            log.click(search, "a", number + 5)
    assert log.store.sync()
    log.store.close()


def test_the_command_says_what_was_shown_in_its_first_line(tmp_path: Path) -> None:
    fill(tmp_path / "data")
    result = call_placings("serve", "report", "--data", tmp_path / "data", "--html", tmp_path / "page.html")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0].startswith("Shown: new differs from old: CTR higher by")
    assert "Shares of people are as stated" in result.stdout
    page = (tmp_path / "page.html").read_text()
    assert "<svg" in page
    assert "Shown: new differs from old" in page
    assert "new − old" in page[page.index("<svg") :]


def test_the_commands_json_has_the_same_numbers(tmp_path: Path) -> None:
    fill(tmp_path)
    told = json.loads(call_placings("serve", "report", "--data", tmp_path, "--json").stdout)
    found = judge_experiment(tmp_path)
    assert told["said"] == found.say()
    assert told["differences"]["new"]["CTR"]["low"] == found.differences["new"]["CTR"].lows[-1]
    assert told["sample_ratio"]["people"] == {
        "old": told["arms"]["old"]["people"],
        "new": told["arms"]["new"]["people"],
    }
    assert told["analysis"] == "intention to treat"


def test_a_folder_without_events_is_said(tmp_path: Path) -> None:
    result = call_placings("serve", "report", "--data", tmp_path)
    assert result.returncode != 0
    assert "has no events.sqlite" in result.stderr
    EventStore(tmp_path).close()
    assert "no list has been shown yet" in call_placings("serve", "report", "--data", tmp_path).stderr
    (tmp_path / "events.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(BadFile, match="cannot be read"):
        read_people(tmp_path)


def test_the_report_reads_while_the_service_writes(log: Log) -> None:
    log.show("ann", 0)
    assert len(log.read().arm) == 1
    log.show("bob", 0)
    assert len(log.read().arm) == 2
