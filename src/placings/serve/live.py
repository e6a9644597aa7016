"""A service at work: pools with a deadline, a circuit breaker, arms, impressions and feedback. No HTTP here.

A request passes two stages, each with a time limit: the engine finds, the model orders. If the model is late
or fails, the engine's order is shown, with the reason; if the engine does, there is nothing to show and
`EngineDown` says so. What is more than the queue holds is turned away at once.

An engine on another server is waited for in a pool of its own. One that works in this process (`in_process`)
is asked in the model's thread, in one go with the model: two threads of one interpreter would only take
turns, and turns cost more than a search does. If that thread is held by a model that does not end, the pool
is there.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic, time
from typing import Any

from placings.core import BadInput, PlacingsError, escape_line
from placings.logs import OPT_OUT, OWN, PAST
from placings.places import GarbledAnswer
from placings.rerank import Engine, Hit, Request, Reranker, read_time
from placings.serve.arms import ENGINE, MODEL, Arm
from placings.serve.circuit import Circuit
from placings.serve.click_counts import ClickCounts
from placings.serve.event_store import EventStore, Receipt, ShownList
from placings.serve.explaining import explain_pair, restore_request
from placings.serve.feedback import Judge, as_iso, list_events, make_events, read_deed
from placings.serve.live_features import compute_features
from placings.serve.monitor import Monitor
from placings.serve.pelias import Query
from placings.serve.rates import Rates
from placings.serve.search_ids import Signer
from placings.serve.service import (
    Answer,
    ModelFailed,
    Reply,
    answer,
    check_request,
    describe,
    draw,
    list_hits,
    round_position,
)
from placings.serve.settings import ServeSettings

LOG = logging.getLogger("placings.serve")
FIRST_BYTES = 200  # of an answer that cannot be read, in the log
UNREADABLE = (
    GarbledAnswer,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
)  # what reading nonsense raises
EXPLAIN_SECONDS = 5.0
BURST = 10.0  # seconds of feedback's rate that may come at once
WARM_TEXTS = ("a", "st", "new")
LOOK = 0.005  # seconds between looks at a search that takes longer than the model's budget


class EngineDown(PlacingsError, RuntimeError):
    """The engine did not answer in time, or not at all; `wait` says when to try again."""

    def __init__(self, text: str, wait: float = 1.0) -> None:
        super().__init__(text)
        self.wait = wait


class EngineTalksNonsense(EngineDown):
    """The engine answered with something that no hits can be read from; what it was is in the log."""


class Overloaded(PlacingsError, RuntimeError):
    """More requests are waiting than the queue holds."""


class TooOften(PlacingsError, RuntimeError):
    """Somebody sends more feedback than one may; `wait` says when to try again."""

    def __init__(self, text: str, wait: float) -> None:
        super().__init__(text)
        self.wait = wait


class Unknown(PlacingsError, LookupError):
    """A search that nothing is known of."""


class Late(Exception):
    """The time for a request was over before its turn came."""


@dataclass
class OneGo:
    """A search that is found and ordered in one go: what its thread has so far, for the loop to look at.

    `begun` and `found` are when its turn came and when the engine had answered; `error` is the engine's,
    `model_error` the model's.
    """

    start: float
    begun: float | None = None
    found: float | None = None
    ended: float | None = None
    hits: list[Hit] = field(default_factory=list)
    request: Request | None = None
    answers: dict[str, Answer] = field(default_factory=dict)
    error: Exception | None = None
    model_error: Exception | None = None


@dataclass(frozen=True)
class Caller:
    """Who asks: ids of the caller's own choosing; `key` is what arms are dealt by.

    With `no_history` the person's own clicks are neither used nor kept.
    """

    user: str | None = None
    session: str | None = None
    address: str = ""
    agent: str = ""
    no_history: bool = False

    @property
    def key(self) -> str:
        """The person for an arm: the user, else the session, else the address."""
        return self.user or self.session or f"{self.address} {self.agent}"

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
        self.ready = False
        self.judge = Judge(signer)
        rate = settings.feedback_rate / settings.workers
        self._rates = Rates(rate, rate * BURST)
        self._finders = ThreadPoolExecutor(settings.engine_threads, "placings-engine")
        self._orderers = ThreadPoolExecutor(1, "placings-model")
        self._explainers = ThreadPoolExecutor(1, "placings-explain")
        self._finding = self._waiting = 0
        self._explaining = False
        self._running: dict[int, float] = {}  # calls in a pool's thread and when each began
        self._numbers = count()
        self._ordering_since: float | None = None  # when the call in the model's thread began
        self._in_process = bool(getattr(engine, "in_process", False))
        self._expect()

    def replace_models(self, models: LiveModels) -> LiveModels:
        """Answer with these from now on; returns those before. What is under way ends as it began."""
        before, self.models = self.models, models
        self._expect()
        return before

    def _expect(self) -> None:
        """Tell the monitor what training had, as the bundle says it."""
        chosen = self.models.rerankers.get(MODEL)
        ranker = getattr(chosen, "ranker_", None)
        if chosen is None or ranker is None:
            self.monitor.forget_coverage()
            return
        names, rules = chosen.features_.names, getattr(ranker, "coverage_rules_", {})
        shares = [
            float("nan") if name in rules else float(share)
            for name, share in zip(names, ranker.coverage_.tolist(), strict=True)
        ]  # a rule of its own is not counted here
        self.monitor.expect(names, shares)

    async def warm(self) -> None:
        """Search and order once before people do: what is loaded late is loaded now."""
        loop = asyncio.get_running_loop()
        requests = []
        for text in WARM_TEXTS if self.engine is not None else ():
            work = partial(self.engine.search, text, (49.0, 8.4), self.settings.depth, None)  # type: ignore[union-attr]
            try:
                found = await asyncio.wait_for(
                    loop.run_in_executor(self._finders, work),
                    max(5.0, self.settings.engine_timeout_ms / 1000),
                )
                requests.append(Request.of_hits(text, found, focus=(49.0, 8.4)))
            except Exception as error:
                LOG.warning("the engine does not answer yet: %s", escape_line(error)[:FIRST_BYTES])
                break
        for request in requests:
            if len(request.items) > 1:
                await loop.run_in_executor(self._orderers, self._warm_models, request)
        self.ready = True

    def _warm_models(self, request: Request) -> None:
        for name, reranker in self.models.rerankers.items():
            try:
                answer(reranker, request)
            except Exception as error:
                LOG.warning("model %s fails on the engine's hits: %s", name, _say_where(error))

    def find_stuck(self) -> float:
        """How many seconds the oldest call to the engine or a model has taken so far."""
        begun = list(self._running.values())
        return monotonic() - min(begun) if begun else 0.0

    # -- the two ways to ask -----------------------------------------------------------------------

    async def search(self, query: Query, person: Caller) -> Served:
        """Ask the engine, order what it finds, note what is shown."""
        if self.engine is None:
            raise BadInput("this service has no engine. Send the hits to /v1/rerank.")
        with self._queued():
            rounded = round_position(_make_context(query), exact=self.settings.exact_positions).context
            focus = None if query.focus is None else (rounded["focus_lat"], rounded["focus_lon"])
            done = await self._find_and_order(query, focus, person) if self._can_go_on() else None
            if done is None:
                hits = await self._find(query, focus)
                asked = Request.of_hits(query.text, hits, focus=focus, **_known(person))
                reply, request = await self._order(asked, person)
            else:
                hits, reply, request = done
        return self._show(request, reply, person, list_hits(hits, reply.order)[: query.size], query.size)

    async def rerank(self, request: Request, person: Caller) -> Served:
        """Order the hits that the caller brings, and note what is shown."""
        check_request(request)
        with self._queued():
            told = (
                Request({**request.context, OPT_OUT: True}, request.items) if person.no_history else request
            )
            rounded = round_position(told, exact=self.settings.exact_positions)
            reply, asked = await self._order(rounded, person, brought=True)
        return self._show(asked, reply, person, [], len(request.items))

    def _show(self, request: Request, reply: Reply, person: Caller, hits: list[Hit], size: int) -> Served:
        shown = Reply(_cut(reply, size), reply.arm, reply.answer, reply.reason)
        items = [str(request.items[row].get("item_id")) for row in shown.order]
        search_id = self.signer.sign(items)
        self.monitor.count_shown(shown.arm, shown.reason)
        # the loop's next turn begins once the reply is on its way: nobody waits for the impression
        asyncio.get_running_loop().call_soon(self._note, search_id, request, shown, person, time())
        return Served(search_id, request, shown, hits)

    def _note(self, search_id: str, request: Request, shown: Reply, person: Caller, at: float) -> None:
        """Hand an impression to the store; one that cannot be described is counted as dropped."""
        try:
            body = describe(
                request, shown, search_id, arms=self.settings.arms, user=person.user, session=person.session
            )
        except Exception as error:  # the reply is out: nobody else would hear of it
            LOG.error("an impression is dropped: %s", _say_where(error))
            self.monitor.count_dropped()
            return
        self.store.note(ShownList(search_id, body, at, person.user))

    # -- stages ------------------------------------------------------------------------------------

    def _queued(self) -> _Queued:
        if self._waiting >= self.settings.most_waiting:
            self.monitor.count_shed()
            raise Overloaded(
                f"{self._waiting} requests are waiting; at most {self.settings.most_waiting} may."
            )
        return _Queued(self)

    def _check_engine(self) -> None:
        """Refuse what the engine cannot be asked now."""
        if not self.circuit.allows():
            self.monitor.count_engine("left alone")
            raise EngineDown("the engine has failed and is left alone for a while.", self.circuit.wait or 1.0)
        if self._finding >= self.settings.engine_threads + self.settings.most_waiting:
            self.monitor.count_engine("busy")
            raise EngineDown("all connections to the engine are busy.")

    async def _find(self, query: Query, focus: Any) -> list[Hit]:
        assert self.engine is not None
        self._check_engine()
        k = max(query.size, self.settings.depth)
        start = monotonic()
        until = start + self.settings.engine_timeout_ms / 1000
        work = partial(
            self._ask_engine, partial(self.engine.search, query.text, focus, k, query.layers), until
        )
        self._finding += 1
        task = asyncio.get_running_loop().run_in_executor(self._finders, work)
        task.add_done_callback(self._end_finding)
        try:
            hits = await asyncio.wait_for(asyncio.shield(task), self.settings.engine_timeout_ms / 1000)
            hits = _keep_hits(hits)
        except Exception as error:
            raise self._judge_engine(error, query.text) from None
        finally:
            self.monitor.time_stage("engine", monotonic() - start)
            self.monitor.show_circuit(self.circuit.state)
        self.circuit.succeed()
        self.monitor.show_circuit("closed")
        return hits[:k]

    def _judge_engine(self, error: Exception, text: str) -> Exception:
        """What an engine's error means for who asked, and for the circuit."""
        if isinstance(error, BadInput):
            self.circuit.succeed()  # it answers; the question was wrong
            return error
        if isinstance(error, TimeoutError | Late):
            late = EngineDown(f"the engine took longer than {self.settings.engine_timeout_ms:g} ms.")
            return self._blame_engine("late", late)
        said = escape_line(str(error).replace(text, "…"))[:FIRST_BYTES]
        if isinstance(error, UNREADABLE):
            LOG.error("the engine answered with nonsense: %s: %s", type(error).__name__, said)
            nonsense = EngineTalksNonsense("the engine answered with something that cannot be read.")
            return self._blame_engine("nonsense", nonsense)
        LOG.warning("engine failed: %s: %s", type(error).__name__, said)
        return self._blame_engine("down", EngineDown("the engine does not answer."))

    def _can_go_on(self) -> bool:
        """Whether a search may be found and ordered in one go: no call holds the model's thread for long."""
        return self._in_process and not self._is_held()

    def _is_held(self) -> bool:
        since = self._ordering_since
        return since is not None and monotonic() - since > self.settings.budget_ms / 1000

    async def _find_and_order(
        self, query: Query, focus: Any, person: Caller
    ) -> tuple[list[Hit], Reply, Request] | None:
        """What the engine finds and what is shown of it, in one go; None if the thread's turn never came."""
        self._check_engine()
        arm = self.settings.arms.choose(person.key)
        dark = self.settings.fall_back_when_dark and self.monitor.is_dark()
        go = OneGo(monotonic())
        task = self._orderers.submit(self._run_in_one_go, go, query, focus, person, arm, not dark)
        future = asyncio.wrap_future(task)
        try:
            came, late = await self._wait_for(go, task, future)
        finally:
            if not future.done():
                future.add_done_callback(_look_away)
        if not came:
            return None
        self.monitor.time_stage("engine", (go.found or monotonic()) - go.start)
        if go.error is not None or go.found is None or go.request is None:
            error = self._judge_engine(go.error or TimeoutError(), query.text)
            self.monitor.show_circuit(self.circuit.state)
            raise error
        self.circuit.succeed()
        self.monitor.show_circuit("closed")
        reason = self._find_reason(go, arm, late=late, dark=dark)
        reply = self._draw_reply(arm, go.request, {} if reason else go.answers, reason, person)
        return go.hits, reply, go.request

    async def _wait_for(
        self, go: OneGo, task: Future[None], future: asyncio.Future[None]
    ) -> tuple[bool, bool]:
        """Wait as long as it is worth it: whether the thread's turn came, and whether the model is late."""
        budget, patience = self.settings.budget_ms / 1000, self.settings.engine_timeout_ms / 1000
        done, _ = await asyncio.wait((future,), timeout=min(budget, patience))
        while not done:
            now = monotonic()
            if go.begun is None and task.cancel():
                return False, False
            if go.found is not None and now >= self._find_until(go):
                return True, True
            if go.found is None and now >= go.start + patience:
                return True, False
            done, _ = await asyncio.wait((future,), timeout=LOOK)
        late = go.found is not None and (go.ended or monotonic()) > self._find_until(go)
        return True, late  # late all the same: it held the interpreter, so nobody could look at the time

    def _find_until(self, go: OneGo) -> float:
        """When the model must have answered: what was waited for its thread counts."""
        assert go.begun is not None
        assert go.found is not None
        return go.found + self.settings.budget_ms / 1000 - (go.begun - go.start)

    def _find_reason(self, go: OneGo, arm: Arm, *, late: bool, dark: bool) -> str:
        """Why the engine's order is shown in place of the model's, counted; empty if the model's is."""
        assert go.request is not None
        if not _list_models(arm) or len(go.request.items) < 2:
            return ""
        reason = ""
        if dark:
            reason = "dark"
        elif late or isinstance(go.model_error, Late):
            reason = "budget"
        elif go.model_error is not None:
            LOG.warning("model failed: %s", _say_where(go.model_error))
            reason = "error"
        if not dark and go.found is not None:
            self.monitor.time_stage("model", (go.ended or monotonic()) - go.found)
        if reason:
            self.monitor.count_fallback(reason)
        else:
            self.monitor.count_missing(go.answers, len(go.request.items))
        if reason in ("", "dark"):
            self._watch_features(go.request)
        return reason

    def _run_in_one_go(
        self, go: OneGo, query: Query, focus: Any, person: Caller, arm: Arm, asks_models: bool
    ) -> None:
        """Find, then order; runs in the model's thread and raises nothing."""
        assert self.engine is not None
        go.begun = self._ordering_since = monotonic()
        try:
            with self._running_call():
                k = max(query.size, self.settings.depth)
                found = _keep_hits(self.engine.search(query.text, focus, k, query.layers))
                go.hits = found[:k]
                asked = Request.of_hits(query.text, go.hits, focus=focus, **_known(person))
                go.request = self._add_clicks(_add_time(asked), arm, person)
        except Exception as error:
            go.error = error
            return
        finally:
            go.found = monotonic() if go.error is None else None
            self._ordering_since = None
        names = _list_models(arm)
        if len(go.hits) < 2:
            go.answers = _leave_order(names, go.request)
        elif asks_models and names:
            try:
                go.answers = self._answer_all(names, go.request, self._find_until(go))
            except Exception as error:
                go.model_error = error
        go.ended = monotonic()

    def _blame_engine(self, reason: str, error: EngineDown) -> EngineDown:
        self.circuit.fail()
        self.monitor.count_engine(reason)
        error.wait = self.circuit.wait or 1.0
        return error

    def _ask_engine(self, search: Callable[[], list[Hit]], until: float) -> list[Hit]:
        if monotonic() >= until:  # it waited for a thread until nobody waits for it
            raise Late
        with self._running_call():
            return search()

    def _running_call(self) -> _Running:
        return _Running(self._running, next(self._numbers))

    def _end_finding(self, task: asyncio.Future[Any]) -> None:
        self._finding -= 1
        if not task.cancelled():
            task.exception()  # a late failure was told as a timeout

    async def _order(
        self, request: Request, person: Caller, *, brought: bool = False
    ) -> tuple[Reply, Request]:
        """What to show of a request; `brought` are items of the caller's, whose faults are the caller's."""
        arm = self.settings.arms.choose(person.key)
        asked = self._add_clicks(_add_time(request), arm, person)
        answers, reason = await self._ask_models(arm, asked, brought)
        return self._draw_reply(arm, asked, answers, reason, person), asked

    def _draw_reply(
        self, arm: Arm, request: Request, answers: Mapping[str, Answer], reason: str, person: Caller
    ) -> Reply:
        items = [str(item.get("item_id")) for item in request.items]
        drawn, chosen, fallback = draw(self.settings.arms, arm, answers, items, person.stretch)
        return Reply(drawn, arm.name, chosen, (reason or fallback) if fallback else "")

    def _add_clicks(self, request: Request, arm: Arm, person: Caller) -> Request:
        """The items with the clicks that the arm's model is to see, without those of the session itself."""
        name = next((each for each in arm.shows if each in self.models.clicks), None)
        if name is None:
            return request
        counts, ids = self.models.clicks[name], [str(item.get("item_id")) for item in request.items]
        items: list[Mapping[str, Any]] = list(request.items)
        if counts.is_of_items:  # what an item says itself goes before what is known of it
            session = person.session
            items = [
                {PAST: float(counts.look_up(each, session)), **item}
                for each, item in zip(ids, items, strict=True)
            ]
        own = counts.look_up_own(
            person.user,
            ids,
            read_time(request.context.get("time")),
            session=person.session,
            no_history=request.context.get(OPT_OUT),
        )
        if own is not None:
            items = [{OWN: count, **item} for count, item in zip(own.tolist(), items, strict=True)]
        return Request(request.context, items)

    async def _ask_models(self, arm: Arm, request: Request, brought: bool) -> tuple[dict[str, Answer], str]:
        """The answers of an arm's models, or why there are none."""
        names = _list_models(arm)
        if not names or len(request.items) < 2:
            return _leave_order(names, request), ""
        if self.settings.fall_back_when_dark and self.monitor.is_dark():
            self._watch_features(request)
            return self._fall_back("dark")
        if self._is_held():
            return self._fall_back("busy")
        budget = self.settings.budget_ms / 1000
        start = monotonic()
        task = self._orderers.submit(self._answer_all, names, request, start + budget)
        try:
            answers = await asyncio.wait_for(asyncio.wrap_future(task), budget)
        except (TimeoutError, Late):  # one that has not begun is cancelled with its waiter
            return self._fall_back("budget")
        except Exception as error:
            if brought and isinstance(error, BadInput):
                raise
            LOG.warning("model failed: %s", _say_where(error))
            return self._fall_back("error")
        finally:
            self.monitor.time_stage("model", monotonic() - start)
        if monotonic() - start > budget:  # it held the interpreter, so nobody could look at the time
            return self._fall_back("budget")
        self.monitor.count_missing(answers, len(request.items))
        self._watch_features(request)
        return answers, ""

    def _fall_back(self, reason: str) -> tuple[dict[str, Answer], str]:
        self.monitor.count_fallback(reason)
        return {}, reason

    def _answer_all(self, names: Sequence[str], request: Request, until: float) -> dict[str, Answer]:
        """Ask one model after the other; the time is looked at before each."""
        self._ordering_since = monotonic()
        try:
            with self._running_call():
                models, answers = self.models, {}
                for name in names:
                    if monotonic() >= until:
                        raise Late
                    if name in models.clicks:
                        models.clicks[name].follow()
                    answers[name] = answer(models.rerankers[name], request)
                return answers
        finally:
            self._ordering_since = None

    def _watch_features(self, request: Request) -> None:
        """About once a second, after the answer, look at the features of a list."""
        if self.monitor.wants_sample():
            self._orderers.submit(self._sample_features, request)

    def _sample_features(self, request: Request) -> None:
        reranker = self.models.rerankers.get(MODEL)
        if reranker is None:
            return
        try:
            head = Request(request.context, list(request.items[: reranker.pool]))
            self.monitor.take_sample(compute_features(reranker, head))
        except Exception as error:  # this is only a look
            LOG.warning("features could not be looked at: %s", _say_where(error))

    # -- feedback ----------------------------------------------------------------------------------

    async def take_feedback(self, told: Any, person: Caller) -> tuple[Receipt, dict[str, int]]:
        """Write events; done when they are on the disk. What looks forged is kept apart, and counted."""
        listed = list_events(told)
        deeds = [read_deed(place, each) for place, each in enumerate(listed)]
        names = [f"address {person.address}", *([f"user {person.user}"] if person.user else [])]
        wait = max(self._rates.take(name, len(deeds)) for name in names)
        if wait:
            self.monitor.count_limited()
            raise TooOften(
                f"more than {self.settings.feedback_rate:g} events a second come from one address or user.",
                wait,
            )
        events, doubts = make_events(deeds, self.judge, person.user, now=time())
        receipt = await asyncio.wrap_future(self.store.add(events))
        self.monitor.count_events(receipt.new, receipt.known, doubts)
        return receipt, doubts

    # -- why ---------------------------------------------------------------------------------------

    async def explain(self, above: str, below: str, *, search_id: str | None = None,
                      request: Request | None = None) -> dict[str, Any]:  # fmt: skip
        """Why one item stands above another, in a list that was shown or that the caller brings."""
        if self._explaining:
            raise Overloaded("another explanation is under way.")
        if request is not None:
            check_request(request)
        self._explaining = True
        task = asyncio.get_running_loop().run_in_executor(
            self._explainers, self._explain, above, below, search_id, request
        )
        task.add_done_callback(self._end_explaining)
        try:
            return await asyncio.wait_for(asyncio.shield(task), EXPLAIN_SECONDS)
        except TimeoutError:
            raise Overloaded(f"the explanation took longer than {EXPLAIN_SECONDS:g} seconds.") from None
        except PlacingsError:
            raise
        except Exception as error:
            raise ModelFailed(f"no explanation: {_say_where(error)}") from None

    def _end_explaining(self, task: asyncio.Future[Any]) -> None:
        self._explaining = False
        if not task.cancelled():
            task.exception()

    def _explain(
        self, above: str, below: str, search_id: str | None, request: Request | None
    ) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if request is None:
            shown = self._find_shown(search_id)
            request = restore_request(shown)
            told = {
                "served_by": shown.get("model"),
                "fallback": shown.get("fallback"),
                "arm": shown.get("arm"),
            }
        name = MODEL if MODEL in self.models.rerankers else next(iter(self.models.rerankers))
        return {**explain_pair(self.models.rerankers[name], request, above, below), **told}

    def _find_shown(self, search_id: str | None) -> dict[str, Any]:
        """The impression of an id; its time, which the id tells, says where to look."""
        opened = self.signer.open(search_id)
        if opened is not None:
            for known, body in self.store.read_shown(opened.time - 1.0, opened.time + 5.0):
                if known == search_id:
                    return body
        raise Unknown("nothing is known of that search: its id is not ours, too old, or not written yet.")

    async def close(self, grace: float) -> None:
        """Take no more, finish what is under way, write what is waiting."""
        self.ready = False
        until = monotonic() + grace
        while self._waiting and monotonic() < until:
            await asyncio.sleep(0.01)
        for pool in (self._finders, self._orderers, self._explainers):
            pool.shutdown(wait=False, cancel_futures=True)
        await asyncio.sleep(0)  # impressions of the last replies are noted now
        await asyncio.get_running_loop().run_in_executor(None, self.store.close)


class _Queued:
    """A place in the queue for the time of a `with`."""

    def __init__(self, service: LiveService) -> None:
        self._service = service

    def __enter__(self) -> None:
        self._service._waiting += 1

    def __exit__(self, *_: object) -> None:
        self._service._waiting -= 1


class _Running:
    """Notes how long a call in a pool's thread has taken, for the time of a `with`."""

    def __init__(self, running: dict[int, float], number: int) -> None:
        self._running, self._number = running, number

    def __enter__(self) -> None:
        self._running[self._number] = monotonic()

    def __exit__(self, *_: object) -> None:
        self._running.pop(self._number, None)


def _list_models(arm: Arm) -> list[str]:
    """The models that an arm needs."""
    return [name for name in arm.shows if name != ENGINE]


def _leave_order(names: Sequence[str], request: Request) -> dict[str, Answer]:
    """Answers for a list that needs no order."""
    return {name: Answer(tuple(range(len(request.items))), (), None) for name in names}


def _look_away(future: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more."""
    if not future.cancelled():
        future.exception()


def _keep_hits(found: Any) -> list[Hit]:
    """The hits, each id once; anything else, as an engine of somebody's own may give, is refused."""
    if not isinstance(found, list) or not all(isinstance(hit, Hit) for hit in found):
        raise TypeError(f"a {type(found).__name__} that is not a list of hits")
    known = {hit.id: hit for hit in reversed(found)}
    return found if len(known) == len(found) else [hit for hit in found if known[hit.id] is hit]


def _say_where(error: Exception) -> str:
    """An error without its message, which may hold what somebody typed: its kind, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"


def _make_context(query: Query) -> Request:
    lat, lon = query.focus or (None, None)
    return Request({"focus_lat": lat, "focus_lon": lon})


def _add_time(request: Request) -> Request:
    """The request with its time, so that the log has the one that the features saw."""
    if request.context.get("time") is not None:
        return request
    return Request({**request.context, "time": as_iso(time())}, request.items)


def _known(person: Caller) -> dict[str, Any]:
    known: dict[str, Any] = {} if person.session is None else {"session_id": person.session}
    return {**known, OPT_OUT: True} if person.no_history else known


def _cut(reply: Reply, size: int) -> Any:
    drawn = reply.drawn
    return replace(
        drawn, order=drawn.order[:size], teams=drawn.teams[:size], propensity=drawn.propensity[:size]
    )
