"""A simulated log of place searches: people, what they mean and type, a real engine's lists, and clicks.

The recipe is in docs/place_simulation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.random import Generator, SeedSequence

from placings.core import BadInput, Ints
from placings.data import check_seed
from placings.logs import Form, join_logs, nest_results, write_log_tables
from placings.places import Place
from placings.rerank import Engine, Focus, Hit
from placings.simulate.click_models import ClickModel, find_click_model
from placings.simulate.people import (
    SHORTEST,
    Behaviour,
    Chooser,
    Moment,
    Person,
    Wish,
    World,
    choose_pauses,
    compose,
    draw_one,
    measure_apart,
    mistype,
    shift,
    shorten_name,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

TWIN_KM = 0.2  # a place of the same name within 200 m may be taken for the one meant,
TWIN = 0.8  # and is so relevant
ABROAD_KM = 1000.0  # from so far away a place is called by another name,
ABROAD = 5.0  # the one in one's own language, so many times as often
TARGETS = (("origin", 0.30), ("destination", 0.85), (None, 1.0))  # running sums of the shares
NOTICED = 0.4  # of the slips, at each pause after them
SERVED_NONE = 300  # people without a click between them: the engine knows other places
GIVES_UP = 0.4  # of those who found nothing with their whole text, each time
ITEM_FIELDS = ("name", "locality", "street", "neighbourhood", "borough", "type", "zone")


@dataclass(frozen=True, eq=False)
class PlaceLog:
    """A simulated log. `searches`, `actions` and `truth` are Arrow tables, in the order of time.

    `searches` has one row a search, the list shown nested in `results`, and `user_id`, who searched. `truth`
    tells for each search the place really meant, `target_id`, and what the text was, `kind`. `settings` made
    it; the same settings, places and engine make it again.
    """

    searches: pa.Table = field(repr=False)
    actions: pa.Table = field(repr=False)
    truth: pa.Table = field(repr=False)
    settings: dict[str, Any]

    def write(self, folder: str | PathLike[str], form: Form = "parquet") -> list[Path]:
        """Write `searches`, `actions` and `truth` into a folder, as parquet, jsonl or jsonl.gz."""
        tables = {"searches": self.searches, "actions": self.actions, "truth": self.truth}
        return write_log_tables(tables, folder, form)

    def to_rows(self, *, unsuccessful: Literal["report", "negatives"] = "report") -> pd.DataFrame:
        """The rows table that `join_logs` makes, with `kind` and `is_target` (1.0 for the place meant).

        Needs the extra `logs`.
        """
        with join_logs(self.searches, self.actions, truth=self.truth, unsuccessful=unsuccessful) as joined:
            return joined.rows

    def describe(self) -> str:
        """How many of what, in a few words."""
        kinds = self.truth["kind"].value_counts().to_pylist()
        shares = sorted(((each["counts"], each["values"]) for each in kinds), reverse=True)
        told = ", ".join(f"{kind} {count / self.truth.num_rows:.0%}" for count, kind in shares)
        sessions, people = (len(self.searches[name].unique()) for name in ("session_id", "user_id"))
        return (
            f"SIMULATED: {self.searches.num_rows:,} searches in {sessions:,} sessions of {people:,} people, "
            f"{self.actions.num_rows:,} clicks; {told}"
        )


class Visitor(Protocol):
    """Hears who begins a session and what they click, for an engine that wants to know, such as a service."""

    def begin(self, person: str, session: str) -> None:
        """The searches that follow are this person's, in this session."""

    def click(self, item: str) -> None:
        """An item of the list that was found last was clicked."""


def simulate_log(
    places: Sequence[Place],
    engine: Engine,
    searches: int = 5000,
    *,
    clicks: str | ClickModel = "position",
    k: int = 40,
    count: Literal["searches", "clicked"] = "searches",
    behaviour: Behaviour | None = None,
    random_state: int | None = 0,
    progress: Callable[[int, int], object] | None = None,
    visitor: Visitor | None = None,
) -> PlaceLog:
    """Let people search until there are at least `searches` searches; every list is the engine's own answer.

    `places` are what may be meant; `engine` must know them. Person after person is drawn and acts on their
    own, so a longer log holds the same people as a shorter one. A person ends a session with one click, or
    gives up. As each pause in typing is a search, about a third of the searches have a click;
    `count="clicked"` goes on until so many have one. `progress` hears how many there are and how many are
    wanted, `visitor` who searches and what they click.

    An engine that never finds what is meant makes a log without clicks, but for noise.
    """
    _check_counts(searches=searches, k=k)
    if count not in ("searches", "clicked"):
        raise BadInput(f'count must be "searches" or "clicked". Got {count!r}.')
    model = find_click_model(clicks)
    seed = check_seed(random_state)
    world = World(places, behaviour or Behaviour())
    events = world.draw_events(seed)
    log = _Collector()
    counted: Sequence[object] = log.searches if count == "searches" else log.clicks
    number = 0
    while len(counted) < searches:
        if number > SERVED_NONE and not counted:
            raise BadInput(
                f"{number} people searched and none of them clicked. Does the engine know these places?"
            )
        number += 1
        person, rng = world.draw_person(number, seed)
        chooser = Chooser(world, person)
        for place, moment in enumerate(world.draw_moments(rng, person), 1):
            session = _Session(world, person, engine, model, k, log, f"{person.id}-{place}", visitor)
            session.run(rng, moment, _Meant.draw(world, chooser, rng, moment, events))
        if progress is not None:
            progress(min(len(counted), searches), searches)
    settings = {
        "searches": int(searches), "count": count, "k": int(k), "seed": seed, "places": len(places),
        "people": number, "clicks": {"model": type(model).__name__, **vars(model)}, "reach_km": world.reach,
        "behaviour": asdict(world.behaviour), "engine": type(engine).__name__,
    }  # fmt: skip
    return log.make_log(settings)


@dataclass(frozen=True, eq=False)
class _Plan:
    """A session before anyone searches: who means what, where and when, and what the rest is drawn from."""

    person: Person
    name: str
    moment: Moment
    wish: _Meant
    state: Mapping[str, Any]  # of the generator


class PlannedWeeks:
    """The same people week after week: who means what is drawn before anyone searches.

    So it does not depend on the lists that are shown, and two engines meet the same people with the same
    wishes, who begin to type the same. `run` lets a week happen, with any engine, as often as one likes.
    (`simulate_log` draws all that a person does in one row; its people are these, their sessions others.)
    A person has about `behaviour.sessions` sessions in all `behaviour.weeks` weeks; sessions come in the
    order of time.
    """

    def __init__(
        self,
        places: Sequence[Place],
        people: int,
        *,
        clicks: str | ClickModel = "position",
        k: int = 40,
        behaviour: Behaviour | None = None,
        random_state: int | None = 0,
    ) -> None:
        _check_counts(people=people, k=k)
        self._model, self._k = find_click_model(clicks), k
        seed = check_seed(random_state)
        self._world = world = World(places, behaviour or Behaviour())
        events = world.draw_events(seed)
        first = datetime.fromisoformat(world.behaviour.start)
        self._weeks: list[list[_Plan]] = [[] for _ in range(world.behaviour.weeks)]
        for number in range(1, people + 1):
            person, own = world.draw_person(number, seed)
            chooser = Chooser(world, person)
            for place, moment in enumerate(world.draw_moments(own, person), 1):
                rng = np.random.default_rng(SeedSequence(seed, spawn_key=(number, place)))
                wish = _Meant.draw(world, chooser, rng, moment, events)
                plan = _Plan(person, f"{person.id}-{place}", moment, wish, rng.bit_generator.state)
                self._weeks[(moment.local - first).days // 7].append(plan)
        for plans in self._weeks:
            plans.sort(key=lambda plan: (plan.moment.utc, plan.name))
        self._settings = {
            "k": int(k), "seed": seed, "places": len(places), "people": int(people),
            "clicks": {"model": type(self._model).__name__, **vars(self._model)}, "reach_km": world.reach,
            "behaviour": asdict(world.behaviour),
        }  # fmt: skip

    def __len__(self) -> int:
        return len(self._weeks)

    def run(
        self,
        week: int,
        engine: Engine,
        *,
        visitor: Visitor | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> PlaceLog:
        """Let a week happen, from 0; `progress` hears how many of its sessions are done, and of how many."""
        log = _Collector()
        plans = self._weeks[week]
        for done, plan in enumerate(plans, 1):
            rng = np.random.default_rng(0)
            rng.bit_generator.state = plan.state
            session = _Session(
                self._world, plan.person, engine, self._model, self._k, log, plan.name, visitor
            )
            session.run(rng, plan.moment, plan.wish)
            if progress is not None:
                progress(done, len(plans))
        return log.make_log({**self._settings, "week": week, "engine": type(engine).__name__}, f"w{week}s")


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise BadInput(f"{name} must be a whole number of at least 1. Got {value!r}.")


# -- a session ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Meant:
    """What a session is about: where the person is, which place they mean, and what for."""

    here: Focus
    target: str | None
    place: Place
    focus: Focus | None

    @classmethod
    def draw(
        cls, world: World, chooser: Chooser, rng: Generator, moment: Moment, events: Sequence[Sequence[int]]
    ) -> _Meant:
        here = chooser.draw_here(rng, moment)
        target = TARGETS[draw_one(rng, np.array([end for _, end in TARGETS]))][0]
        place = world.places[chooser.draw_target(rng, moment, here, target, events)]
        return cls(here, target, place, None if chooser.person.hides else shift(rng, here, 0.05))


class _Session:
    """One person, one wish: texts are sent until something is clicked or the person gives up."""

    def __init__(
        self,
        world: World,
        person: Person,
        engine: Engine,
        model: ClickModel,
        k: int,
        log: _Collector,
        name: str,
        visitor: Visitor | None = None,
    ) -> None:
        self.world, self.person, self.engine, self.model, self.k = world, person, engine, model, k
        self.log, self.name = log, name
        self.visitor = visitor
        self.sent = ""

    def run(self, rng: Generator, moment: Moment, wanted: _Meant) -> None:
        behaviour, person = self.world.behaviour, self.person
        if self.visitor is not None:
            self.visitor.begin(person.id, self.name)
        here, self.target, self.meant, self.focus = wanted.here, wanted.target, wanted.place, wanted.focus
        self.clock = moment.utc
        twins = self.world.common.get(shorten_name(self.meant).casefold(), 1)
        style = rng.random()
        pasted = style < behaviour.pasted
        finisher = style < behaviour.pasted + behaviour.finishers
        detailed = rng.random() < behaviour.details * (1.5 if twins > 1 else 1.0)
        abroad = measure_apart(here, self.meant) > ABROAD_KM
        alternate = rng.random() < behaviour.alternates * (ABROAD if abroad else 1.0)
        wish = compose(self.meant, person, rng, detail=detailed or pasted, alternate=alternate)
        if pasted:
            served = self.send(rng, wish, wish.text, len(wish.text), slipped=False, looks=True)
        else:
            served = self.type_text(rng, wish, finisher)
        while not served and rng.random() >= GIVES_UP:  # say it otherwise: with the locality, in full
            more = compose(self.meant, person, rng, detail=True)
            if more.text == wish.text and self.sent == wish.text:
                break
            wish = more
            self.wait(rng, 4.0)
            served = self.send(rng, wish, wish.text, len(wish.text), slipped=False, looks=True)

    def type_text(self, rng: Generator, wish: Wish, finisher: bool) -> bool:
        """Type the text with its pauses; at each it is sent, and perhaps looked at. True if a click came."""
        typed, errors = mistype(wish.text, self.person.slips, rng)
        burst = 2.5 * self.person.burst if finisher else self.person.burst
        for pause in choose_pauses(len(typed), burst, rng):
            last = pause >= len(typed)
            if any(pause > error for error in errors) and rng.random() < NOTICED:
                typed, errors = wish.text, []
                pause = len(typed) if last else pause
            text = typed[:pause]
            if len(text.strip()) < SHORTEST and not last:
                continue
            looks = last or (not finisher and rng.random() < (0.5 if len(text) <= 4 else 0.8))
            slipped = any(pause > error for error in errors)
            self.wait(rng, 0.25 * max(len(text) - len(self.sent), 1) + 0.5)
            if self.send(rng, wish, text, pause, slipped, looks):
                return True
        return False

    def wait(self, rng: Generator, seconds: float) -> None:
        """Time passes: that long in the mean, at most three times as long."""
        drawn = min(float(rng.gamma(4.0, 0.25)), 3.0) * seconds
        self.clock += timedelta(microseconds=int(drawn * 1e6))

    def send(self, rng: Generator, wish: Wish, text: str, length: int, slipped: bool, looks: bool) -> bool:
        """Send one text, log its list, and click on it or not."""
        text = text.strip()
        if not text or text == self.sent:
            return False
        self.sent = text
        hits = self.engine.search(text, self.focus, self.k)
        search = self.log.add(self, wish.name_kind(length, slipped), hits)
        if not looks or not hits:
            return False
        relevance = [judge_hit(hit, self.meant) for hit in hits]
        clicked = self.model.click(relevance, rng)
        if not len(clicked):
            return False
        # one place is taken for the trip: of several clicks the one that serves best, then the highest
        best = min(clicked.tolist(), key=lambda position: (-relevance[position - 1], position))
        self.wait(rng, 1.0 + 0.4 * best)
        self.log.act(search, hits[best - 1].id, self.clock)
        if self.visitor is not None:
            self.visitor.click(hits[best - 1].id)
        return True


def judge_hit(hit: Hit, meant: Place) -> float:
    """1 for the place meant, 0.8 for one of the same name within 200 m, else 0."""
    if hit.id == meant.id:
        return 1.0
    if hit.name.casefold() == meant.name.casefold() and measure_apart(Place.of_hit(hit), meant) <= TWIN_KM:
        return TWIN
    return 0.0


# -- the log -----------------------------------------------------------------------------------------


class _Collector:
    """Collects searches and clicks, and makes tables of them."""

    def __init__(self) -> None:
        self.searches: list[tuple[Any, ...]] = []
        self.lists: list[tuple[list[int], list[float]]] = []  # places shown, by number, and scores
        self.clicks: list[tuple[int, str, datetime]] = []
        self.places: list[Place] = []
        self.numbers: dict[str, int] = {}

    def add(self, session: _Session, kind: str, hits: Sequence[Hit]) -> int:
        person: Person = session.person
        lat, lon = session.focus or (None, None)
        surface = "map" if session.target is None else "planner"
        self.searches.append(
            (session.clock, session.name, person.id, session.sent, lat, lon, session.target, person.platform,
             surface, session.meant.id, kind)
        )  # fmt: skip
        shown = []
        for hit in hits:
            number = self.numbers.get(hit.id)
            if number is None:
                number = self.numbers[hit.id] = len(self.places)
                self.places.append(Place.of_hit(hit))
            shown.append(number)
        self.lists.append((shown, [hit.score for hit in hits]))
        return len(self.searches) - 1

    def act(self, search: int, item: str, time: datetime) -> None:
        self.clicks.append((search, item, time))

    def make_log(self, settings: dict[str, Any], prefix: str = "s") -> PlaceLog:
        """Tables in the order of time; searches are numbered in that order, after a prefix."""
        import pyarrow as pa

        order = sorted(range(len(self.searches)), key=lambda each: (self.searches[each][0], each))
        names = {each: f"{prefix}{number:07d}" for number, each in enumerate(order, 1)}
        ordered = [self.searches[each] for each in order]
        stamp, text, number = pa.timestamp("us"), pa.string(), pa.float64()
        searches = {"search_id": pa.array([names[each] for each in order], text)}
        types = (stamp, text, text, text, number, number, text, text, text, text, text)
        columns = ("time", "session_id", "user_id", "query", "focus_lat", "focus_lon", "target", "platform",
                   "surface", "target_id", "kind")  # fmt: skip
        for place, (column, kind) in enumerate(zip(columns, types, strict=True)):
            searches[column] = pa.array([row[place] for row in ordered], kind)
        truth = {column: searches[column] for column in ("search_id", "target_id", "kind")}
        del searches["target_id"], searches["kind"]
        searches["results"] = self._nest([self.lists[each] for each in order])
        clicks = sorted(self.clicks, key=lambda click: (click[2], names[click[0]]))
        actions = {
            "search_id": pa.array([names[search] for search, _, _ in clicks], text),
            "item_id": pa.array([item for _, item, _ in clicks], text),
            "time": pa.array([time for _, _, time in clicks], stamp),
            "action": pa.array(["click"] * len(clicks), text),
        }
        return PlaceLog(pa.table(searches), pa.table(actions), pa.table(truth), settings)

    def _nest(self, lists: Sequence[tuple[list[int], list[float]]]) -> pa.Array:
        import pyarrow as pa

        sizes = [len(shown) for shown, _ in lists]
        shown: Ints = np.array([each for places, _ in lists for each in places], dtype=np.int64)
        begins = np.repeat(np.cumsum([0, *sizes])[:-1], sizes)
        taken = pa.array(shown)
        columns = {
            "item_id": pa.array([place.id for place in self.places], pa.string()).take(taken),
            "position": pa.array(np.arange(len(shown)) - begins + 1),
            "score": pa.array([score for _, scores in lists for score in scores], pa.float64()),
        }
        for name in ITEM_FIELDS:  # what a source does not tell is missing, not an empty text
            known = pa.array([getattr(place, name) or None for place in self.places], pa.string())
            columns[name] = known.take(taken)
        for name in ("lat", "lon", "weight"):
            values = pa.array([getattr(place, name) for place in self.places], pa.float64())
            columns[name] = values.take(taken)
        return nest_results(sizes, columns)
