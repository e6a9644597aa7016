"""HTTP: which path leads to what, and how errors are told. All the rest is in `live` and `service`."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from placings.core import BadInput, PlacingsError, escape_line, find_limit, say_limit
from placings.logs import OPT_OUT, says_no
from placings.rerank import Request
from placings.serve.event_store import DiskFull, StoreFailed
from placings.serve.live import (
    Caller,
    EngineDown,
    EngineTalksNonsense,
    LiveService,
    Overloaded,
    Served,
    TooOften,
    Unknown,
)
from placings.serve.logs import RequestLines
from placings.serve.openapi import describe_api
from placings.serve.pelias import KeptFeatures, read_query, write_errors, write_places
from placings.serve.pelias_proxy import PATHS, PLAIN, PREFIX, PeliasProxy, ProxyFailed

LOG = logging.getLogger("placings.serve")
LONGEST_ID = 200
MOST_BODY = 1 << 20
BODY_SECONDS = 10.0  # for the whole of a body
BEARER = "Bearer "
METHODS = "GET, POST, OPTIONS"
ALLOWED_HEADERS = "Content-Type, X-Placings-User, X-Placings-Session, X-Placings-No-History"
SAFE = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'",
}
ABOUT_DATA = "The data are named by whoever runs this service.\n"
Handler = Callable[[HttpRequest], Awaitable[Response]]


class Refused(Exception):
    """A request that is answered with a status and one sentence."""

    def __init__(self, status: int, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.status, self.text, self.wait = status, text, wait


def make_app(live: LiveService, token: str | None = None) -> Starlette:
    """The service's application; `token` is what operators show for explanations."""
    pages = Pages(live, token)
    direct: dict[tuple[str, str], Handler] = {}

    def route(path: str, handler: Handler, *methods: str, plain: bool = False) -> Route:
        guarded = _guarded(live, handler, path, pages.lines, plain=plain)
        direct.update({(method, path): guarded for method in methods})
        return Route(path, guarded, methods=[*methods, "OPTIONS"])

    app = DirectApp(
        routes=[
            route("/v1/rerank", pages.rerank, "POST", plain=True),
            route("/v1/feedback", pages.feedback, "POST", plain=True),
            route("/v1/explain", pages.explain, "GET", "POST", plain=True),
            route("/v1/search", pages.search, "GET"),
            route("/v1/autocomplete", pages.search, "GET"),
            *(route(path, pages.hand_on, "GET") for path in PATHS),
            route("/openapi.json", pages.openapi, "GET", plain=True),
            Route("/healthz", pages.healthz, methods=["GET"]),
            Route("/readyz", pages.readyz, methods=["GET"]),
        ],
        exception_handlers={404: _say_unknown, 405: _say_method},
    )
    app.state.pages = pages
    app.direct = direct
    return app


class DirectApp(Starlette):
    """Starlette, but that a path which is known as it stands needs no search for its route.

    The handlers of these paths answer their own errors, so nothing is lost with the layers around them.
    """

    direct: Mapping[tuple[str, str], Handler] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handler = self.direct.get((scope["method"], scope["path"])) if scope["type"] == "http" else None
        if handler is None:
            await super().__call__(scope, receive, send)
            return
        scope["app"] = self
        response = await handler(HttpRequest(scope, receive, send))
        await response(scope, receive, send)


class Pages:
    """What each path answers."""

    def __init__(self, live: LiveService, token: str | None) -> None:
        self._live, self._token = live, token
        self.lines = RequestLines() if live.settings.access_log else None
        self._features = KeptFeatures()
        settings = live.settings
        self._proxy = (
            PeliasProxy(settings.engine, settings.engine_timeout_ms / 1000)
            if settings.engine.startswith(PREFIX)
            else None
        )

    async def close(self) -> None:
        """Close the connections to a server behind us, and write the last lines of the log."""
        if self._proxy is not None:
            await self._proxy.close()
        if self.lines is not None:
            await self.lines.close()

    async def rerank(self, http: HttpRequest) -> Response:
        """Order the items of a body."""
        told = await read_body(http)
        served = await self._live.rerank(_read_request(told), find_person(http, told.get("context")))
        http.state.search_id = served.search_id
        return reply_json(_write_reranked(served))

    async def search(self, http: HttpRequest) -> Response:
        """Search, as a Pelias client asks it."""
        query = read_query(http.query_params)
        served = await self._live.search(query, find_person(http))
        http.state.search_id = served.search_id
        return reply_json(write_places(query, served.hits, _write_about(served), self._features))

    async def feedback(self, http: HttpRequest) -> Response:
        """Take events."""
        check_origin(http, self._live.settings.origins)
        told = await read_body(http)
        receipt, doubts = await self._live.take_feedback(told, find_person(http, told))
        found = {"new": receipt.new, "known": receipt.known, "untrusted": sum(doubts.values())}
        return reply_json({**found, "doubts": doubts}, 202)

    async def explain(self, http: HttpRequest) -> Response:
        """Why one item stands above another."""
        check_operator(http, self._live, self._token)
        told: Any = await read_body(http) if http.method == "POST" else dict(http.query_params)
        if not isinstance(told, Mapping):
            raise Refused(400, 'the body must be an object with "a", "b", "context" and "items".')
        above, below = (_read_item(told, name) for name in ("a", "b"))
        if http.method == "POST":
            request = _read_request({key: told[key] for key in ("context", "items") if key in told})
            return reply_json(await self._live.explain(above, below, request=request))
        search_id = told.get("search_id", "")
        http.state.search_id = search_id if self._live.signer.open(search_id) else None
        return reply_json(await self._live.explain(above, below, search_id=search_id))

    async def hand_on(self, http: HttpRequest) -> Response:
        """Pelias' other paths, as the Pelias server behind us answers them."""
        path = http.url.path
        if self._proxy is not None:
            status, body, kind = await self._proxy.ask(path, http.query_params.multi_items())
            return Response(body, status, SAFE, kind)
        if path in PLAIN:
            return Response("status: ok" if path == "/status" else ABOUT_DATA, 200, SAFE, "text/plain")
        raise Refused(404, f"{path} needs a Pelias server as the engine; this service has another.")

    async def healthz(self, http: HttpRequest) -> Response:
        """Whether the process lives."""
        return reply_json({"status": "alive"})

    async def readyz(self, http: HttpRequest) -> Response:
        """Whether it takes requests."""
        if self._live.store.failure is not None:
            return reply_json({"status": "not ready", "reason": "events cannot be written"}, 503)
        return reply_json({"status": "ready"}) if self._live.ready else reply_json({"status": "leaving"}, 503)

    async def openapi(self, http: HttpRequest) -> Response:
        """What can be asked."""
        return reply_json(describe_api())


def _guarded(
    live: LiveService, handler: Handler, path: str, lines: RequestLines | None, *, plain: bool
) -> Handler:
    """A handler whose errors are a status and one sentence: in Pelias' shape, or plain."""

    async def handle(http: HttpRequest) -> Response:
        start = monotonic()
        try:
            check_host(http, live.settings.allowed_hosts)
            if http.method == "OPTIONS":
                return allow_preflight(http, live.settings.origins)
            response = await handler(http)
        except ClientDisconnect:
            response = Response(status_code=499)
        except Exception as error:
            refused = explain_error(error)
            said = escape_line(refused.text)[:500]
            body = {"error": said} if plain else write_errors(http.query_params.get("text", ""), said)
            response = reply_json(body, refused.status)
            if refused.wait is not None:
                response.headers["Retry-After"] = str(max(1, round(refused.wait)))
            if refused.status in (408, 413):
                response.headers["Connection"] = "close"  # what is left of the body is not read
        live.monitor.count_request(path, response.status_code)
        if lines is not None:
            search_id = getattr(http.state, "search_id", None)
            lines.note(path, response.status_code, monotonic() - start, search_id)
        return allow_origin(http, response, live.settings.origins)

    return handle


def explain_error(error: Exception) -> Refused:
    """The status and the sentence of an error; what is ours alone to know goes to the log."""
    match error:
        case Refused():
            return error
        case ProxyFailed():
            return Refused(error.status, str(error), 1.0 if error.status == 503 else None)
        case BadInput():
            return Refused(400, str(error))
        case Unknown():
            return Refused(404, str(error))
        case TooOften():
            return Refused(429, str(error), error.wait)
        case Overloaded():
            return Refused(503, str(error), 1.0)
        case EngineTalksNonsense():
            return Refused(502, str(error))
        case EngineDown():
            return Refused(503, str(error), error.wait)
        case DiskFull():
            LOG.error("%s", escape_line(error))
            return Refused(503, "there is no space left for events. Try again later.", 30.0)
        case StoreFailed():
            LOG.error("%s", escape_line(error))
            return Refused(503, "events cannot be written now. Try again later.", 5.0)
        case PlacingsError():
            LOG.error("%s", escape_line(error)[:300])
            return Refused(503, "the service cannot answer this now.", 5.0)
    LOG.error("a request failed: %s", type(error).__name__, exc_info=error)
    return Refused(500, "the service has a fault; its log says which.")


async def read_body(http: HttpRequest) -> Any:
    """The JSON of a body, bounded in size, depth and time; a beacon's text/plain is JSON too."""
    most = min(find_limit("body"), MOST_BODY)
    declared = http.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > most:
        raise Refused(413, f"the body must have {most:,} bytes or fewer.")
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in http.stream():
                size += len(chunk)
                if size > most:
                    raise Refused(413, f"the body must have {most:,} bytes or fewer.")
                parts.append(chunk)
    except TimeoutError:
        raise Refused(408, f"the body must arrive within {BODY_SECONDS:g} seconds.") from None
    try:
        told = orjson.loads(b"".join(parts))
    except orjson.JSONDecodeError as error:
        raise Refused(400, f"the body must be JSON: {error}") from None
    if _is_deep(told, find_limit("depth")):
        raise Refused(400, f"the body: {say_limit('depth')}")
    return told


def find_person(http: HttpRequest, context: Any = None) -> Caller:
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
    agent = http.headers.get("user-agent", "")[:200]
    chosen = http.headers.get("x-placings-no-history") or http.query_params.get("placings.no_history")
    if chosen is None and isinstance(context, Mapping):
        chosen = context.get(OPT_OUT)
    return Caller(found["user"], found["session"], address, agent, says_no(chosen))


def check_host(http: HttpRequest, allowed: tuple[str, ...]) -> None:
    """Refuse a request for another host than ours: a page elsewhere must not reach a service on loopback."""
    if "*" in allowed:
        return
    told = http.headers.get("host", "").lower()
    host = told if told.endswith("]") else told.rsplit(":", 1)[0]
    if host not in allowed:
        raise Refused(421, "this service does not answer for that host. Name it with --allow-host.")


def check_origin(http: HttpRequest, origins: tuple[str, ...]) -> None:
    """Refuse feedback from a page that is neither ours nor named: any page can send a beacon anywhere."""
    origin = http.headers.get("origin")
    if origin is None or origin in origins or urlsplit(origin).netloc == http.headers.get("host"):
        return
    raise Refused(403, "pages of that origin may not send feedback. Name it with --allow-origin.")


def check_operator(http: HttpRequest, live: LiveService, token: str | None) -> None:
    """Explanations are for operators: with the token, or without one on a service for this machine alone."""
    if token is not None:
        given = http.headers.get("authorization", "")
        known = given.removeprefix(BEARER) if given.startswith(BEARER) else ""
        if not hmac.compare_digest(known.encode(), token.encode()):
            raise Refused(401, "a token is needed: Authorization: Bearer …")
        return
    forwarded = any(name in http.headers for name in ("forwarded", "x-forwarded-for", "via"))
    if forwarded or not live.settings.is_loopback or not _is_loopback(http):
        raise Refused(403, "explanations need a token here. Start the service with --token-file.")


def _is_loopback(http: HttpRequest) -> bool:
    try:
        return http.client is not None and ipaddress.ip_address(http.client.host).is_loopback
    except ValueError:
        return False


def allow_origin(http: HttpRequest, response: Response, origins: tuple[str, ...]) -> Response:
    """Let pages of the named origins read the answer."""
    origin = http.headers.get("origin")
    if origin is not None and origin in origins:
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Access-Control-Allow-Credentials"] = "true"  # a beacon is sent with them
        response.headers["Vary"] = "Origin"
    return response


def allow_preflight(http: HttpRequest, origins: tuple[str, ...]) -> Response:
    """What a browser asks before a page may send JSON or headers of ours."""
    if http.headers.get("origin") not in origins:
        return Response(status_code=403 if "origin" in http.headers else 204, headers={"Allow": METHODS})
    response = Response(status_code=204, headers={"Allow": METHODS})
    response.headers["Access-Control-Allow-Methods"] = METHODS
    response.headers["Access-Control-Allow-Headers"] = ALLOWED_HEADERS
    response.headers["Access-Control-Max-Age"] = "600"
    return allow_origin(http, response, origins)


def reply_json(body: Any, status: int = 200) -> Response:
    """A body as JSON; nothing of it is kept by anyone on the way."""
    return Response(orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY), status, SAFE, "application/json")


async def _say_unknown(http: HttpRequest, error: Exception) -> Response:
    return reply_json(write_errors("", f"there is no {escape_line(http.url.path)[:80]} here."), 404)


async def _say_method(http: HttpRequest, error: Exception) -> Response:
    response = reply_json({"error": f"{escape_line(http.url.path)[:80]} does not take {http.method}."}, 405)
    allowed = (error.headers or {}).get("Allow") if isinstance(error, HTTPException) else None
    response.headers["Allow"] = allowed or METHODS
    return response


def _read_request(told: Any) -> Request:
    if not isinstance(told, Mapping):
        raise Refused(400, 'the body must be an object with "context" and "items".')
    return Request.from_dict(told)


def _read_item(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= 500:
        raise Refused(400, f"{name} must be an item's id of 1 to 500 letters. Got {str(value)[:40]!r}.")
    return value


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
