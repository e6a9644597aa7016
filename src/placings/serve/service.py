"""One list from a request to what is shown, without HTTP, threads or disks: pure functions.

`answer` asks a re-ranker. `draw` decides what a person is shown: an arm's order, two interleaved, a swap of
neighbours. `describe` is the impression, as `placings log join` reads it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from placings.core import BadInput, PlacingsError
from placings.rerank import Hit, Request, Reranker, read_time
from placings.serve.arms import ENGINE, Arm, Arms, Drawn, explore, interleave
from placings.serve.settings import MOST_ITEMS, MOST_LETTERS, ROUNDED

POSITION = ("focus_lat", "focus_lon")
MOST_FIELDS = 1000  # of an item, and of the context
MOST_WHOLE = 2**63


class ModelFailed(PlacingsError, RuntimeError):
    """A model gave what no list can be ordered by."""


@dataclass(frozen=True)
class Answer:
    """What a model says of a request: rows of it, best first, their scores, its digest, what was missing."""

    order: tuple[int, ...]
    scores: tuple[float, ...]
    model: str | None
    missing: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """A list as it is shown. `reason` says why it is the engine's order where a model was due."""

    drawn: Drawn
    arm: str
    answer: Answer | None = None
    reason: str = ""

    @property
    def order(self) -> tuple[int, ...]:
        """Rows of the request, best first."""
        return self.drawn.order


def answer(reranker: Reranker, request: Request) -> Answer:
    """The re-ranker's order of a request: what is judged, saved and served is this.

    Items beyond the re-ranker's pool stay behind it, in their order. Scores that are no numbers are refused.
    """
    head = Request(request.context, list(request.items[: reranker.pool]))
    found = reranker.rerank(head)
    scores = tuple(found.scores.tolist())
    if not all(map(math.isfinite, scores)):
        raise ModelFailed("the model gave a score that is not a number.")
    tail = range(len(head.items), len(request.items))
    return Answer((*found.order.tolist(), *tail), scores, found.digest, dict(found.missing))


def draw(
    arms: Arms,
    arm: Arm,
    answers: Mapping[str, Answer],
    items: Sequence[str],
    session: str,
) -> tuple[Drawn, Answer | None, str]:
    """The list of an arm, the answer behind it, and why it is not what the arm should show ("" if it is).

    `items` are the ids of the request's items, and `session` is what turns and swaps are keyed by.
    `answers` holds those models that answered in time; an arm whose model did not shows the engine's order,
    without interleaving or swaps, so that a fallback never counts for a model.
    """
    engine = tuple(range(len(items)))
    keys = (arms.experiment, session)
    wanted = [name for name in arm.shows if name != ENGINE]
    if any(name not in answers for name in wanted):
        return Drawn(engine, (), 0, (1.0,) * len(items)), None, "fallback"
    orders = [engine if name == ENGINE else answers[name].order for name in arm.shows]
    chosen = answers[wanted[0]] if wanted else None
    if len(orders) == 2:
        return interleave(orders[0], orders[1], (arm.shows[0], arm.shows[1]), *keys), chosen, ""
    return explore(orders[0], items, arms.exploration, *keys), chosen, ""


def check_request(request: Request) -> None:
    """Refuse what no service should work on: too many items, a long text, ids that are missing or twice.

    Values are texts, numbers, true, false, null, or lists of these. The message names the first field that
    cannot be used.
    """
    if len(request.items) > MOST_ITEMS:
        raise BadInput(f"items must be {MOST_ITEMS} or fewer. Got {len(request.items):,}.")
    text = request.context.get("query")
    if text is not None and not isinstance(text, str):
        raise BadInput(f"context.query must be a text. Got {type(text).__name__}.")
    if text is not None and len(text) > MOST_LETTERS:
        raise BadInput(f"context.query must have {MOST_LETTERS} letters or fewer. Got {len(text):,}.")
    _check_fields("context", request.context)
    if request.context.get("time") is not None:
        read_time(request.context["time"])
    for name, most in (("focus_lat", 90.0), ("focus_lon", 180.0)):
        degrees = request.context.get(name)
        if degrees is not None and not (_is_number(degrees) and abs(degrees) <= most):
            raise BadInput(f"context.{name} must be a number within ±{most:g}. Got {str(degrees)[:40]!r}.")
    seen: set[str] = set()
    for place, item in enumerate(request.items):
        identity = item.get("item_id")
        if not isinstance(identity, str | int) or isinstance(identity, bool) or identity == "":
            raise BadInput(
                f"items[{place}].item_id must be a text or a whole number. Got {str(identity)[:40]!r}."
            )
        if str(identity) in seen:
            raise BadInput(f"items[{place}].item_id is there twice: {str(identity)[:40]!r}.")
        seen.add(str(identity))
        _check_fields(f"items[{place}]", item)


def round_position(request: Request, *, exact: bool = False) -> Request:
    """A person's coordinates to 0.01°, before features and log alike: a street is not needed to rank.

    >>> round_position(Request({"focus_lat": 49.00937, "focus_lon": 8.40412})).context
    {'focus_lat': 49.01, 'focus_lon': 8.4}
    """
    if exact:
        return request
    rounded = {
        name: round(float(request.context[name]), ROUNDED)
        for name in POSITION
        if _is_number(request.context.get(name)) and math.isfinite(request.context[name])
    }
    return Request({**request.context, **rounded}, request.items)


def describe(
    request: Request, reply: Reply, search_id: str, *, arms: Arms, user: str | None, session: str | None
) -> dict[str, Any]:
    """The impression as a search of the log: what was known, and the items in the order shown.

    Each item keeps all its fields; `position` is where it was shown, `engine_position` where the engine had
    it. `shown_probability` is how likely it was to stand there, by the swaps of exploration. `experiment` and
    `arms` are what `placings serve report` counts by.
    """
    items = request.items
    results = [
        {**items[row], "position": place, "engine_position": row + 1}
        for place, row in enumerate(reply.order, 1)
    ]
    for name, values in (("shown_probability", reply.drawn.propensity), ("team", reply.drawn.teams)):
        if values:
            for item, value in zip(results, values, strict=False):
                item[name] = value
    return {
        **Request(request.context).to_dict()["context"],
        "search_id": search_id,
        "user_id": user,
        "session_id": session,
        "experiment": arms.experiment,
        "arms": str(arms),
        "arm": reply.arm,
        "model": reply.answer.model if reply.answer is not None and not reply.reason else None,
        "fallback": reply.reason or None,
        "swapped": reply.drawn.swapped,
        "swapped_with": reply.drawn.swapped_with,
        "swap_probability": reply.drawn.swap_probability,
        "swap_reach": reply.drawn.swap_reach,
        "results": results,
    }


def list_hits(hits: Sequence[Hit], order: Sequence[int]) -> list[Hit]:
    """Hits in the order shown."""
    return [hits[row] for row in order]


def _check_fields(where: str, fields: Mapping[str, Any]) -> None:
    if len(fields) > MOST_FIELDS:
        raise BadInput(f"{where} must have {MOST_FIELDS} fields or fewer. Got {len(fields):,}.")
    for name, value in fields.items():
        if type(value) is float or value is None:  # the many
            continue
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, str):
                if len(each) > 4 * MOST_LETTERS:
                    raise BadInput(
                        f"{where}.{str(name)[:60]} must have {4 * MOST_LETTERS} letters or fewer. "
                        f"Got {len(each):,}."
                    )
            elif isinstance(each, int) and abs(each) > MOST_WHOLE:
                raise BadInput(f"{where}.{str(name)[:60]} must be a whole number within ±2⁶³.")
            elif isinstance(each, Mapping | list):
                kind = "an object" if isinstance(each, Mapping) else "a list in a list"
                raise BadInput(
                    f"{where}.{str(name)[:60]} must be a text, a number, true, false or null. Got {kind}."
                )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
