"""HTTP: which path leads to what, and how errors are told. All the rest is in `live` and `service`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from placings.core import BadInput, PlacingsError, escape_line, find_limit, say_limit
from placings.rerank import Request
from placings.serve.event_store import DiskFull, StoreFailed
from placings.serve.live import EngineDown, EngineTalksNonsense, LiveService, Overloaded, Person, Served
from placings.serve.openapi import describe_api
from placings.serve.pelias import read_query, write_errors, write_places

LOG = logging.getLogger("placings.serve")
LONGEST_ID = 200
SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}
Handler = Callable[[HttpRequest], Awaitable[Response]]


class Refused(Exception):
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: int, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.wait = status, text, wait


def make_app(live: LiveService) -> Starlette:
    """The service's application."""

    async def rerank(http: HttpRequest) -> Response:
        told = await read_body(http)
        if not isinstance(told, Mapping):
            raise Refused(400, 'the body must be an object with "context" and "items".')
        served = await live.rerank(Request.from_dict(told), find_person(http, told.get("context")))
        return reply_json(_write_reranked(served))

    async def search(http: HttpRequest) -> Response:
        query = read_query(http.query_params)
        served = await live.search(query, find_person(http))
        return reply_json(write_places(query, served.hits, _write_about(served)))

    async def feedback(http: HttpRequest) -> Response:
        told = await read_body(http)
        events: Any = told["events"] if isinstance(told, Mapping) and "events" in told else told
        listed: list[Any] = events if isinstance(events, list) else [events]
        receipt = await live.take_feedback(listed, find_person(http))
        return reply_json({"new": receipt.new, "known": receipt.known}, 202)

    async def healthz(http: HttpRequest) -> Response:
        return reply_json({"status": "alive"})

    async def readyz(http: HttpRequest) -> Response:
        if live.store.failure is not None:
            return reply_json({"status": "not ready", "reason": "events cannot be written"}, 503)
        return reply_json({"status": "ready"}) if live.ready else reply_json({"status": "leaving"}, 503)

    async def openapi(http: HttpRequest) -> Response:
        return reply_json(describe_api())

    async def nothing(http: HttpRequest) -> Response:
        return reply_json(write_errors("", f"there is no {escape_line(http.url.path)[:80]} here."), 404)

    routes = [
        Route("/v1/rerank", _guarded(live, rerank, plain=True), methods=["POST"]),
        Route("/v1/feedback", _guarded(live, feedback, plain=True), methods=["POST"]),
        Route("/v1/search", _guarded(live, search), methods=["GET"]),
        Route("/v1/autocomplete", _guarded(live, search), methods=["GET"]),
        Route("/healthz", healthz, methods=["GET"]),
        Route("/readyz", readyz, methods=["GET"]),
        Route("/openapi.json", openapi, methods=["GET"]),
        Route("/{path:path}", nothing, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
    ]
    return Starlette(routes=routes)


def _guarded(live: LiveService, handler: Handler, *, plain: bool = False) -> Handler:
    """A handler whose errors are a status and one sentence: in Pelias' shape, or plain."""

    async def handle(http: HttpRequest) -> Response:
        try:
            check_host(http, live.settings.allowed_hosts)
            response = await handler(http)
        except (Refused, PlacingsError) as error:
            refused = explain(error)
            said = escape_line(refused.text)[:500]
            body = {"error": said} if plain else write_errors(http.query_params.get("text", ""), said)
            response = reply_json(body, refused.status)
            if refused.wait is not None:
                response.headers["Retry-After"] = str(max(1, round(refused.wait)))
        live.monitor.count_request(http.url.path, response.status_code)
        return allow_origin(http, response, live.settings.origins)

    return handle


def explain(error: Exception) -> Refused:
    """The status and the sentence of an error; what is ours alone to know goes to the log."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, BadInput):
        return Refused(400, str(error))
    if isinstance(error, Overloaded):
        return Refused(503, str(error), 1.0)
    if isinstance(error, EngineTalksNonsense):
        return Refused(502, str(error))
    if isinstance(error, EngineDown):
        return Refused(503, str(error), error.wait)
    LOG.error("%s", escape_line(error))
    if isinstance(error, DiskFull):
        return Refused(503, "there is no space left for events. Try again later.", 30.0)
    if isinstance(error, StoreFailed):
        return Refused(503, "events cannot be written now. Try again later.", 5.0)
    return Refused(503, "the service cannot answer this now.", 5.0)


async def read_body(http: HttpRequest) -> Any:
    """The JSON of a body, bounded in size and depth; a beacon's text/plain is JSON too."""
    most = min(find_limit("body"), 1 << 20)
    parts, size = [], 0
    async for chunk in http.stream():
        size += len(chunk)
        if size > most:
            raise Refused(413, f"the body must have {most:,} bytes or fewer.")
        parts.append(chunk)
    try:
        told = orjson.loads(b"".join(parts))
    except orjson.JSONDecodeError as error:
        raise Refused(400, f"the body is not JSON: {error}") from None
    if _is_deep(told, find_limit("depth")):
        raise Refused(400, say_limit("depth"))
    return told


def find_person(http: HttpRequest, context: Any = None) -> Person:
    """Who asks, by headers, parameters or the request's own context; else by address, which is not kept."""
    found: dict[str, str | None] = {}
    for name, header in (("user", "x-placings-user"), ("session", "x-placings-session")):
        told = http.headers.get(header) or http.query_params.get(f"placings.{name}")
        if told is None and isinstance(context, Mapping) and isinstance(context.get(f"{name}_id"), str):
            told = context[f"{name}_id"]
        if told is not None and not 0 < len(told) <= LONGEST_ID:
            raise Refused(400, f"the {name} must have 1 to {LONGEST_ID} letters. Got {len(told)}.")
        found[name] = told
    address = http.client.host if http.client is not None else ""
    return Person(found["user"], found["session"], f"{address} {http.headers.get('user-agent', '')[:200]}")


def check_host(http: HttpRequest, allowed: tuple[str, ...]) -> None:
    """Refuse a request for another host than ours: a page elsewhere must not reach a service on loopback."""
    if "*" in allowed:
        return
    told = http.headers.get("host", "")
    host = told if told.endswith("]") else told.rsplit(":", 1)[0]
    if host not in allowed:
        raise Refused(421, "this service does not answer for that host. Name it with --allow-host.")


def allow_origin(http: HttpRequest, response: Response, origins: tuple[str, ...]) -> Response:
    """Let pages of the named origins read the answer."""
    origin = http.headers.get("origin")
    if origin is not None and origin in origins:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
    return response


def reply_json(body: Any, status: int = 200) -> Response:
    """A body as JSON; nothing of it is kept by anyone on the way."""
    return Response(orjson.dumps(body), status, SAFE, "application/json")


def _write_about(served: Served) -> dict[str, Any]:
    reply = served.reply
    return {
        "search_id": served.search_id,
        "arm": reply.arm,
        "model": reply.answer.model if reply.answer is not None else None,
        "fallback": reply.reason or None,
        "missing": dict(reply.answer.missing) if reply.answer is not None else {},
    }


def _write_reranked(served: Served) -> dict[str, Any]:
    reply = served.reply
    items = [served.request.items[row].get("item_id") for row in reply.order]
    scores = list(reply.answer.scores) if reply.answer is not None and not reply.reason else None
    return {**_write_about(served), "order": list(reply.order), "items": items, "scores": scores}


def _is_deep(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most + 1):
        level = [each for each in level if isinstance(each, dict | list)]
        if not level:
            return False
        level = [inner for each in level for inner in (each.values() if isinstance(each, dict) else each)]
    return True
