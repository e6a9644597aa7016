"""People who search week after week, and someone who hears what they click."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from towns import TownEngine, make_towns

pytest.importorskip("pyarrow")

from placings.rerank import Focus, Hit
from placings.simulate.people import Behaviour
from placings.simulate.places_log import PlaceLog, PlannedWeeks, simulate_log

PLACES = make_towns()


class Heard:
    """A visitor that writes down what it hears."""

    def __init__(self) -> None:
        self.sessions: list[tuple[str, str]] = []
        self.clicks: list[str] = []

    def begin(self, person: str, session: str) -> None:
        self.sessions.append((person, session))

    def click(self, item: str) -> None:
        self.clicks.append(item)


class Reversed(TownEngine):
    """The worst hit first."""

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        found = super().search(text, focus, k, layers)[::-1]
        return [Hit(hit.id, hit.fields, hit.score, rank) for rank, hit in enumerate(found, 1)]


def run_weeks(engine: TownEngine, people: int = 30) -> list[PlaceLog]:
    weeks = PlannedWeeks(PLACES, people, behaviour=Behaviour(weeks=3), random_state=1)
    return [weeks.run(week, engine) for week in range(len(weeks))]


def test_a_visitor_hears_each_click_and_changes_nothing() -> None:
    heard = Heard()
    told = simulate_log(PLACES, TownEngine(PLACES), 200, random_state=3, visitor=heard)
    alone = simulate_log(PLACES, TownEngine(PLACES), 200, random_state=3)
    assert told.searches.equals(alone.searches)
    assert told.actions.equals(alone.actions)
    assert sorted(heard.clicks) == sorted(alone.actions["item_id"].to_pylist())
    assert {session for _, session in heard.sessions} >= set(alone.searches["session_id"].to_pylist())


def test_the_same_people_come_back_and_each_session_is_in_one_week() -> None:
    weeks = run_weeks(TownEngine(PLACES))
    sessions = [set(log.searches["session_id"].to_pylist()) for log in weeks]
    people = [set(log.searches["user_id"].to_pylist()) for log in weeks]
    assert len(weeks) == 3
    assert not any(sessions[a] & sessions[b] for a, b in ((0, 1), (0, 2), (1, 2)))
    assert len(people[0] & people[1]) > 10
    ids = [each for log in weeks for each in log.searches["search_id"].to_pylist()]
    assert len(set(ids)) == len(ids)


def test_people_mean_the_same_places_whatever_they_are_shown() -> None:
    def list_meant(logs: list[PlaceLog]) -> dict[str, str]:
        return {
            session: target
            for log in logs
            for session, target in zip(
                log.searches["session_id"].to_pylist(), log.truth["target_id"].to_pylist(), strict=True
            )
        }

    good, bad = run_weeks(TownEngine(PLACES)), run_weeks(Reversed(PLACES))
    assert list_meant(good) == list_meant(bad)
    assert sum(log.searches.num_rows for log in good) != sum(log.searches.num_rows for log in bad)


def test_a_week_that_happens_twice_is_the_same() -> None:
    weeks = PlannedWeeks(PLACES, 10, behaviour=Behaviour(weeks=2), random_state=1)
    first, again = (weeks.run(1, TownEngine(PLACES)) for _ in range(2))
    assert first.searches.equals(again.searches)
    assert first.actions.equals(again.actions)
