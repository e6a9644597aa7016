"""A service at work: pools with a deadline, a circuit breaker, arms, impressions and feedback. No HTTP here.

A request passes two stages, each in a pool of its own with a time limit: the engine finds, the model orders.
If the model is late or fails, the engine's order is shown, with the reason; if the engine does, there is
nothing to show and `EngineDown` says so. What is more than the queue holds is turned away at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic, time
from typing import Any

from placings.core import BadInput, PlacingsError, escape_line
from placings.rerank import Engine, Hit, Request, Reranker
from placings.serve.arms import ENGINE, Arm
from placings.serve.circuit import Circuit
from placings.serve.click_counts import ClickCounts
from placings.serve.event_store import Event, EventStore, Receipt, Shown
from placings.serve.monitor import Monitor
from placings.serve.pelias import Query
from placings.serve.search_ids import Signer, digest_items
from placings.serve.service import (
    Answer,
    Reply,
    answer,
    check_request,
    describe,
    draw,
    list_hits,
    round_position,
)
from placings.serve.settings import MOST_EVENTS, ServeSettings

LOG = logging.getLogger("placings.serve")
PAST = "past_clicks"


class EngineDown(PlacingsError, RuntimeError):
    """The engine did not answer in time, or not at all; `wait` says when to try again."""

    def __init__(self, text: str, wait: float = 1.0) -> None:
        super().__init__(text)
        self.wait = wait


class EngineTalksNonsense(EngineDown):
    """The engine answered with something that no hits can be read from."""


class Overloaded(PlacingsError, RuntimeError):
    """More requests are waiting than the queue holds."""


@dataclass(frozen=True)
class Person:
    """Who asks: ids of the caller's own choosing; `key` is what arms are dealt by."""

    user: str | None = None
    session: str | None = None
    address: str = ""

    @property
    def key(self) -> str:
        """The person for an arm: the user, else the session, else the address."""
        return self.user or self.session or self.address

    @property
    def stretch(self) -> str:
        """What a list must not flicker within: the session, else the person."""
        return self.session or self.key


@dataclass(frozen=True)
class Served:
    """A list that was served: its id, the request, the reply, and the hits in the order shown."""

    search_id: str
    request: Request
    reply: Reply
    hits: list[Hit] = field(default_factory=list)


@dataclass
class LiveModels:
    """The re-rankers that answer, by the names that arms know them by; replaced all at once."""

    rerankers: Mapping[str, Reranker]
    clicks: Mapping[str, ClickCounts] = field(default_factory=dict)


class LiveService:
    """Everything between a request and its reply in one worker."""

    def __init__(
        self,
        settings: ServeSettings,
        models: LiveModels,
        engine: Engine | None,
        store: EventStore,
        signer: Signer,
        monitor: Monitor,
    ) -> None:
        self.settings, self.models, self.engine = settings, models, engine
        self.store, self.signer, self.monitor = store, signer, monitor
        store.on_drop = monitor.count_dropped
        self.circuit = Circuit()
        self.ready = True
        self._finders = ThreadPoolExecutor(settings.engine_threads, "placings-engine")
        self._orderers = ThreadPoolExecutor(1, "placings-model")
        self._finding = self._waiting = 0
        self._ordering_since: float | None = None

    # -- the two ways to ask -----------------------------------------------------------------------

    async def search(self, query: Query, person: Person) -> Served:
        """Ask the engine, order what it finds, note what is shown."""
        if self.engine is None:
            raise BadInput("this service has no engine. Send the hits to /v1/rerank.")
        with self._queued():
            rounded = round_position(_make_context(query), exact=self.settings.exact_positions).context
            focus = None if query.focus is None else (rounded["focus_lat"], rounded["focus_lon"])
            hits = await self._find(query, focus)
            asked = Request.of_hits(query.text, hits, focus=focus, **_known(person))
            reply, request = await self._order(asked, person, query.size)
        return self._show(request, reply, person, list_hits(hits, reply.order)[: query.size], query.size)

    async def rerank(self, request: Request, person: Person) -> Served:
        """Order the hits that the caller brings, and note what is shown."""
        check_request(request)
        with self._queued():
            rounded = round_position(request, exact=self.settings.exact_positions)
            reply, asked = await self._order(rounded, person, len(request.items))
        return self._show(asked, reply, person, [], len(request.items))

    def _show(self, request: Request, reply: Reply, person: Person, hits: list[Hit], size: int) -> Served:
        shown = Reply(_cut(reply, size), reply.arm, reply.answer, reply.reason)
        items = [str(request.items[row].get("item_id")) for row in shown.order]
        search_id = self.signer.sign(items)
        body = describe(
            request, shown, search_id, arms=self.settings.arms, user=person.user, session=person.session
        )
        self.monitor.count_shown(shown.arm, shown.reason)
        self.store.note(Shown(search_id, body, time(), person.user))
        return Served(search_id, request, shown, hits)

    # -- stages ------------------------------------------------------------------------------------

    def _queued(self) -> _Queued:
        if self._waiting >= self.settings.most_waiting:
            self.monitor.count_shed()
            raise Overloaded(
                f"{self._waiting} requests are waiting; at most {self.settings.most_waiting} may."
            )
        return _Queued(self)

    async def _find(self, query: Query, focus: Any) -> list[Hit]:
        assert self.engine is not None
        if not self.circuit.allows():
            raise EngineDown("the engine has failed and is left alone for a while.", self.circuit.wait)
        if self._finding >= self.settings.engine_threads + self.settings.most_waiting:
            raise EngineDown("all connections to the engine are busy.")
        k = max(query.size, self.settings.depth)
        work = partial(self.engine.search, query.text, focus, k, query.layers)
        self._finding += 1
        start = monotonic()
        task = asyncio.get_running_loop().run_in_executor(self._finders, work)
        task.add_done_callback(self._end_finding)
        try:
            hits = await asyncio.wait_for(asyncio.shield(task), self.settings.engine_timeout_ms / 1000)
        except TimeoutError:
            self.circuit.fail()
            raise EngineDown(
                f"the engine took longer than {self.settings.engine_timeout_ms:g} ms.",
                self.circuit.wait or 1.0,
            ) from None
        except BadInput:
            self.circuit.succeed()  # it answers; the question was wrong
            raise
        except Exception as error:
            self.circuit.fail()
            LOG.warning("engine failed: %s", escape_line(error)[:300])
            raise EngineDown(
                f"the engine failed: {escape_line(error)[:200]}", self.circuit.wait or 1.0
            ) from error
        finally:
            self.monitor.time_stage("engine", monotonic() - start)
        self.circuit.succeed()
        return hits

    def _end_finding(self, task: asyncio.Future[Any]) -> None:
        self._finding -= 1
        if not task.cancelled():
            task.exception()  # a late failure was told as a timeout

    async def _order(self, request: Request, person: Person, size: int) -> tuple[Reply, Request]:
        arm = self.settings.arms.choose(person.key)
        asked = self._add_clicks(_add_time(request), arm)
        answers, reason = await self._ask_models(arm, asked)
        items = [str(item.get("item_id")) for item in asked.items]
        drawn, chosen, fallback = draw(self.settings.arms, arm, answers, items, person.stretch)
        return Reply(drawn, arm.name, chosen, (reason or fallback) if fallback else ""), asked

    def _add_clicks(self, request: Request, arm: Arm) -> Request:
        name = next((each for each in arm.shows if each in self.models.clicks), None)
        if name is None:
            return request
        counts = self.models.clicks[name]
        items = [{PAST: float(counts.look_up(str(item.get("item_id")))), **item} for item in request.items]
        return Request(request.context, items)

    async def _ask_models(self, arm: Arm, request: Request) -> tuple[dict[str, Answer], str]:
        """The answers of an arm's models, or why there are none."""
        names = [name for name in arm.shows if name != ENGINE]
        if not names or len(request.items) < 2:
            return {name: Answer(tuple(range(len(request.items))), (), None) for name in names}, ""
        budget = self.settings.budget_ms / 1000
        since = self._ordering_since
        if since is not None and monotonic() - since > budget:
            self.monitor.count_fallback("busy")
            return {}, "busy"
        start = monotonic()
        task = asyncio.get_running_loop().run_in_executor(self._orderers, self._answer_all, names, request)
        try:
            answers = await asyncio.wait_for(asyncio.shield(task), budget)
        except TimeoutError:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            self.monitor.count_fallback("budget")
            return {}, "budget"
        except Exception as error:
            LOG.warning("model failed: %s", escape_line(error)[:300])
            self.monitor.count_fallback("error")
            return {}, "error"
        finally:
            self.monitor.time_stage("model", monotonic() - start)
        self.monitor.count_missing(answers, len(request.items))
        if self.settings.fall_back_when_dark and self.monitor.is_dark():
            self.monitor.count_fallback("dark")
            return {}, "dark"
        return answers, ""

    def _answer_all(self, names: Sequence[str], request: Request) -> dict[str, Answer]:
        self._ordering_since = monotonic()
        try:
            models = self.models
            for name in names:
                if name in models.clicks:
                    models.clicks[name].follow()
            return {name: answer(models.rerankers[name], request) for name in names}
        finally:
            self._ordering_since = None

    # -- feedback ----------------------------------------------------------------------------------

    async def take_feedback(self, told: Sequence[Mapping[str, Any]], person: Person) -> Receipt:
        """Write events; done when they are on the disk. Those whose search is not ours are kept apart."""
        if len(told) > MOST_EVENTS:
            raise BadInput(f"a request may hold {MOST_EVENTS} events. Got {len(told):,}.")
        events = [self._read_event(place, each, person) for place, each in enumerate(told)]
        receipt = await asyncio.wrap_future(self.store.add(events))
        untrusted = sum(not event.trusted for event in events)
        self.monitor.count_events(receipt.new, receipt.known, untrusted)
        return receipt

    def _read_event(self, place: int, told: Any, person: Person) -> Event:
        if not isinstance(told, Mapping):
            raise BadInput(f"events[{place}] must be an object. Got {type(told).__name__}.")
        texts: dict[str, str] = {}
        for name, most in (("event_id", 200), ("search_id", 200), ("item_id", 500), ("action", 60)):
            value = told.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and name == "item_id":
                value = str(value)
            if not isinstance(value, str) or not 0 < len(value) <= most:
                raise BadInput(
                    f"events[{place}].{name} must be a text of 1 to {most} letters. Got {str(value)[:40]!r}."
                )
            texts[name] = value
        position = told.get("position")
        if position is not None and (type(position) is not int or not 1 <= position <= 10_000):
            raise BadInput(
                f"events[{place}].position must be a whole number from 1. Got {str(position)[:40]!r}."
            )
        opened = self.signer.open(texts["search_id"])
        now = time()
        body = {**texts, "time": _as_iso(now)} | ({} if position is None else {"position": position})
        shown = told.get("visible")
        if isinstance(shown, int) and not isinstance(shown, bool) and 0 < shown <= 10_000:
            body["visible"] = shown
        return Event(texts["event_id"], texts["search_id"], body, now, person.user, opened is not None)

    async def close(self, grace: float) -> None:
        """Take no more, finish what is under way, write what is waiting."""
        self.ready = False
        until = monotonic() + grace
        while self._waiting and monotonic() < until:
            await asyncio.sleep(0.01)
        for pool in (self._finders, self._orderers):
            pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.get_running_loop().run_in_executor(None, self.store.close)


class _Queued:
    """A place in the queue for the time of a `with`."""

    def __init__(self, service: LiveService) -> None:
        self._service = service

    def __enter__(self) -> None:
        self._service._waiting += 1

    def __exit__(self, *_: object) -> None:
        self._service._waiting -= 1


def is_list_of(opened_items: str, items: Sequence[str]) -> bool:
    """Whether a signed id stands for these items in this order."""
    return opened_items == digest_items(items)


def _make_context(query: Query) -> Request:
    lat, lon = query.focus or (None, None)
    return Request({"focus_lat": lat, "focus_lon": lon})


def _add_time(request: Request) -> Request:
    """The request with its time, so that the log has the one that the features saw."""
    if request.context.get("time") is not None:
        return request
    return Request({**request.context, "time": _as_iso(time())}, request.items)


def _known(person: Person) -> dict[str, Any]:
    return {} if person.session is None else {"session_id": person.session}


def _cut(reply: Reply, size: int) -> Any:
    from dataclasses import replace

    drawn = reply.drawn
    return replace(
        drawn, order=drawn.order[:size], teams=drawn.teams[:size], propensity=drawn.propensity[:size]
    )


def _as_iso(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
