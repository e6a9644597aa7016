"""Simulated people and their typing: where they are, what they mean, what their fingers make of it."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import numpy as np
import pytest
from towns import TOWNS, make_towns

from placings.core.errors import BadInput
from placings.places.place import Place
from placings.simulate.people import (
    SHARES,
    Behaviour,
    Chooser,
    Moment,
    Person,
    Wish,
    World,
    choose_pauses,
    compose,
    list_other_names,
    measure_apart,
    mistype,
    name_part_of_day,
    share_groups,
    shorten_locality,
    shorten_name,
    to_utc,
)


@pytest.fixture(scope="module")
def world() -> World:
    return World(make_towns())


def make_person(**given: object) -> Person:
    plain = {
        "id": "p", "home": (49.0, 8.4), "work": (49.0, 8.4), "zone": "Europe/Berlin", "platform": "ios",
        "hides": False, "habit": np.full(5, 0.2), "burst": 4.0, "slips": 0.0, "umlauts": "kept",
        "capitals": "kept",
    }  # fmt: skip
    return Person(**{**plain, **given})  # type: ignore[arg-type]


# -- who and where ------------------------------------------------------------------------------------


def test_people_live_where_many_do_and_a_few_live_elsewhere(world: World) -> None:
    people = [world.draw_person(number, 0)[0] for number in range(300)]
    near = Counter(
        min(TOWNS, key=lambda town: measure_apart(person.home, TOWNS[town][:2])) for person in people
    )
    assert near["Altstadt"] > near["Neudorf"] > near["Köhlerbach"] > 0


def test_about_three_in_ten_hide_their_position_and_more_on_the_web(world: World) -> None:
    people = [world.draw_person(number, 1)[0] for number in range(1500)]
    hidden = {
        web: np.mean([person.hides for person in people if (person.platform == "web") == web])
        for web in (True, False)
    }
    assert np.mean([person.hides for person in people]) == pytest.approx(0.3, abs=0.04)
    assert hidden[True] > 1.5 * hidden[False]


def test_a_person_is_the_same_whoever_comes_before(world: World) -> None:
    one, rng = world.draw_person(5, 0)
    world.draw_person(4, 0)
    other, again = world.draw_person(5, 0)
    assert vars(one) | {"habit": None} == vars(other) | {"habit": None}
    assert one.habit.tolist() == other.habit.tolist()
    assert rng.random() == again.random()
    assert world.draw_person(5, 1)[0].home != one.home


def test_sessions_follow_the_week_and_the_day_and_stay_within_the_weeks() -> None:
    world = World(make_towns(), Behaviour(sessions=400.0, weeks=2, start="2024-05-06"))
    hours, days = Counter(), Counter()  # type: ignore[var-annotated]
    for number in range(12):
        person, rng = world.draw_person(number, 0)
        moments = world.draw_moments(rng, person)
        assert [moment.utc for moment in moments] == sorted(moment.utc for moment in moments)
        for moment in moments:
            assert datetime(2024, 5, 6) <= moment.local < datetime(2024, 5, 20)
            hours[moment.local.hour] += 1
            days[moment.local.weekday()] += 1
    assert hours[17] > 3 * hours[3]
    assert days[4] > days[6]


def test_utc_follows_the_zone_or_the_longitude() -> None:
    noon = datetime(2024, 1, 15, 12)
    assert to_utc(noon, "Europe/Berlin", 8.4).hour == 11
    assert to_utc(noon, "", -74.0).hour == 17  # 74 / 15 rounds to 5
    assert to_utc(noon, "Nowhere/Atall", -74.0).hour == 17


# -- what they mean -----------------------------------------------------------------------------------


def draw_targets(
    world: World, hour: int, day: int = 6, target: str | None = "destination", n: int = 400
) -> list[Place]:
    chooser = Chooser(world, make_person(habit=world.shares))
    rng = np.random.default_rng(0)
    local = datetime(2024, 5, day, hour)
    moment = Moment(local, local)
    return [world.places[chooser.draw_target(rng, moment, (49.0, 8.4), target, [[0]] * 8)] for _ in range(n)]


def test_stops_are_meant_most_and_addresses_though_they_weigh_nothing(world: World) -> None:
    calm = World(world.places, Behaviour(repeats=0.0, events=0.0))
    kinds = Counter(place.type for place in draw_targets(calm, 12, n=2000))
    stops = kinds["stop"] + kinds["station"]
    assert stops > kinds["address"] > kinds["street"] > 0
    assert 0.4 < stops / 2000 < 0.7


def test_near_places_are_meant_more_and_an_origin_is_nearer_still(world: World) -> None:
    calm = World(world.places, Behaviour(repeats=0.0, events=0.0, far=0.0, reach_km=2.0))
    here = (49.0, 8.4)
    away = {
        target: np.median([measure_apart(place, here) for place in draw_targets(calm, 12, target=target)])
        for target in ("origin", "destination")
    }
    every = np.median([measure_apart(place, here) for place in world.places])
    assert away["origin"] <= away["destination"] < every
    far = World(world.places, Behaviour(repeats=0.0, events=0.0, far=1.0, reach_km=2.0))
    assert np.mean([measure_apart(place, here) for place in draw_targets(far, 12)]) > 2 * np.mean(
        [measure_apart(place, here) for place in draw_targets(calm, 12)]
    )


def test_who_travels_far_goes_where_many_go() -> None:
    places = [Place("large", "Large", 50.0, 8.0, type="locality", weight=1e6)]
    places += [Place(f"small {n}", f"Small {n}", 50.0, 8.0, type="locality", weight=99.0) for n in range(500)]
    world = World(places)
    rng = np.random.default_rng(0)
    far = np.mean([world.draw_far(rng, 3) == 0 for _ in range(2000)])
    assert far == pytest.approx(1e6 / (1e6 + 500 * 100), abs=0.02)  # in proportion to size
    person, rng = world.draw_person(1, 0)
    chooser = Chooser(world, person)
    near = np.mean([chooser.draw(rng, (50.0, 8.0), 3) == 0 for _ in range(2000)])
    assert near == pytest.approx(1e6**0.7 / (1e6**0.7 + 500 * 100**0.7), abs=0.04)


def test_what_a_map_lacks_is_asked_for_by_its_town() -> None:
    stops, towns = np.array([1.0, 0.0, 0.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(share_groups(stops), stops)  # no town: all to what is there
    np.testing.assert_allclose(share_groups(towns), [0.6, 0.0, 0.0, 0.4, 0.0])
    np.testing.assert_allclose(share_groups(np.ones(5)), SHARES)


def test_the_hour_and_the_weekend_change_what_is_meant(world: World) -> None:
    calm = World(world.places, Behaviour(repeats=0.0, events=0.0))

    def share(kinds: set[str], **when: int) -> float:
        return sum(place.type in kinds for place in draw_targets(calm, n=2000, **when)) / 2000

    assert share({"stop", "station"}, hour=8) > share({"stop", "station"}, hour=23) + 0.05
    assert (
        share({"locality", "museum"}, hour=12, day=11) > share({"locality", "museum"}, hour=12, day=6) + 0.05
    )


def test_people_come_back_to_what_they_meant_before(world: World) -> None:
    never = World(world.places, Behaviour(repeats=0.0, events=0.0))
    often = World(world.places, Behaviour(repeats=0.9, events=0.0))
    different = [len({place.id for place in draw_targets(each, 12, n=100)}) for each in (never, often)]
    assert different[1] < different[0] / 2


def test_an_event_makes_a_place_popular_for_its_week() -> None:
    world = World(make_towns(), Behaviour(repeats=0.0, events=0.5))
    meant = Counter(place.id for place in draw_targets(world, 12, n=300))
    assert meant["town0"] > 100  # draw_targets says that place 0 is each week's


def test_a_part_of_the_day_begins_at_its_hour() -> None:
    assert [name_part_of_day(hour) for hour in (0, 6, 10, 16, 20)] == [
        "night", "morning", "midday", "evening", "night",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"hidden": 1.2}, "hidden must lie between 0 and 1"),
        ({"weeks": 0}, "at least 1"),
        ({"start": "yesterday"}, "start must be a date"),
        ({"reach_km": 0.0}, "reach_km must be above 0"),
    ],
)
def test_behaviour_that_makes_no_sense_is_refused(given: dict[str, object], problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        Behaviour(**given)  # type: ignore[arg-type]


def test_a_world_needs_places_with_a_position() -> None:
    with pytest.raises(BadInput, match="at least one place"):
        World([])
    with pytest.raises(BadInput, match="latitude"):
        World([Place("a", "A", float("nan"), 8.0)])


# -- how they type ------------------------------------------------------------------------------------

STOP = Place("s", "Mühlburger Tor (Grashofstraße), Karlsruhe", 49.0, 8.4, "stop", "Karlsruhe")
HOUSE = Place("h", "Kaiserstraße 12", 49.0, 8.4, "address", "Karlsruhe", fields={"postcode": "76133"})


def compose_many(place: Place, n: int = 300, **given: bool) -> list[Wish]:
    rng = np.random.default_rng(0)
    return [compose(place, make_person(), rng, **given) for _ in range(n)]


def test_a_name_is_said_without_its_locality_and_brackets() -> None:
    assert shorten_name(STOP) == "Mühlburger Tor"
    assert shorten_name(Place("x", "(Enz)", 49.0, 8.0)) == "(Enz)"
    assert [shorten_locality(name) for name in ("Frankfurt a.M.", "Malsch b Wiesloch", "Bad Schönborn")] == [
        "Frankfurt", "Malsch", "Bad Schönborn",
    ]  # fmt: skip


def test_detail_comes_behind_before_or_behind_a_comma() -> None:
    texts = {wish.text for wish in compose_many(STOP, detail=True)}
    assert {"Mühlburger Tor Karlsruhe", "Karlsruhe Mühlburger Tor", "Mühlburger Tor, Karlsruhe"} <= texts
    homes = {wish.text for wish in compose_many(HOUSE, detail=True)}
    assert {"Kaiserstraße 12 Karlsruhe", "Kaiserstraße 12 76133 Karlsruhe", "Kaiserstr 12 Karlsruhe"} <= homes
    assert not any(text.startswith("Karlsruhe") for text in homes)


def test_a_city_is_told_apart_by_its_region_or_country_and_a_sight_by_its_street() -> None:
    city = Place("c", "Springfield", 39.8, -89.6, "locality", country="United States",
                 fields={"region": "Illinois IL"})  # fmt: skip
    texts = {wish.text for wish in compose_many(city, detail=True)}
    assert {"Springfield, IL", "Springfield Illinois", "Springfield United States"} <= texts
    sight = Place("m", "Museum", 49.0, 8.4, "museum", "Karlsruhe", "Gartenweg")
    assert {"Museum Gartenweg", "Museum Karlsruhe"} <= {
        wish.text for wish in compose_many(sight, detail=True)
    }


def test_a_place_without_detail_stays_as_it_is() -> None:
    bare = Place("b", "Zoo", 49.0, 8.4, "stop")
    assert {(wish.text, wish.detailed) for wish in compose_many(bare, detail=True)} == {("Zoo", None)}


def test_kinds_of_a_growing_text_are_told_apart() -> None:
    wish = next(wish for wish in compose_many(STOP, detail=True) if wish.text == "Mühlburger Tor, Karlsruhe")
    kinds = [wish.name_kind(length, False) for length in (4, 13, 14, 15, 16, 17, 25)]
    assert kinds == ["prefix", "prefix", "full", "full", "full", "detail", "detail"]
    first = next(wish for wish in compose_many(STOP, detail=True) if wish.text == "Karlsruhe Mühlburger Tor")
    assert [first.name_kind(length, False) for length in (5, 10, 11, 24)] == [
        "prefix", "prefix", "detail", "detail",
    ]  # fmt: skip


def test_other_names_are_those_one_can_type() -> None:
    place = Place("k", "Köln", 50.9, 7.0, "locality", names=("Cologne", "Кёльн", "köln", "Kö", "Cologne"))
    assert list_other_names(place) == ["Cologne"]
    assert {wish.text for wish in compose_many(place, alternate=True)} == {"Cologne"}


def test_spelling_is_a_habit() -> None:
    rng = np.random.default_rng(0)
    place = Place("x", "Fließ Öd", 49.0, 8.0, "stop")
    spelled = [
        compose(place, make_person(umlauts=umlauts, capitals=capitals), rng).text
        for umlauts, capitals in (("ae", "none"), ("plain", "first"), ("kept", "kept"))
    ]
    assert spelled == ["fliess oed", "Fliess od", "Fließ Öd"]


def test_slips_are_as_frequent_as_asked_for_and_known_by_their_place() -> None:
    rng = np.random.default_rng(0)
    text = "hauptbahnhof karlsruhe"
    drawn = [mistype(text, 0.05, rng) for _ in range(3000)]
    assert np.mean([len(errors) for _, errors in drawn]) == pytest.approx(0.05 * 21, rel=0.1)
    for typed, errors in drawn:
        right = len(text) if not errors else errors[0]
        assert typed[:right] == text[:right]
        assert (typed == text) == (not errors)
        if errors:
            assert errors[0] >= 1  # the first character is right
            assert typed[: right + 1] != text[: right + 1]
    assert len({len(typed) for typed, _ in drawn if typed != text}) >= 3  # dropped, doubled, exchanged


def test_pauses_begin_at_three_characters_grow_and_end_with_the_text() -> None:
    rng = np.random.default_rng(0)
    for length in (1, 2, 3, 4, 12, 40, 200):
        for _ in range(50):
            pauses = choose_pauses(length, 4.0, rng)
            assert pauses == sorted(set(pauses))
            assert pauses[-1] == length
            assert min(pauses) >= min(3, length)
            assert len(pauses) <= 8
