"""What operators ask, on a port of its own: metrics, reloads, one step back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from placings.core import PlacingsError, escape_line
from placings.serve.app import BEARER, Handler, Refused, check_host, read_body, reply_json
from placings.serve.monitor import write_all

if TYPE_CHECKING:
    from placings.serve.supervisor import Supervisor

HOSTS = ("127.0.0.1", "localhost", "::1", "[::1]")


def make_admin(supervisor: Supervisor) -> Starlette:
    """The operators' application. Metrics and health need no token; they hold no texts and no ids."""
    pages = AdminPages(supervisor)

    def route(path: str, handler: Handler, method: str, *, token: bool = False) -> Route:
        return Route(path, _guarded(supervisor, handler, token), methods=[method])

    return Starlette(
        routes=[
            route("/metrics", pages.metrics, "GET"),
            route("/healthz", pages.healthz, "GET"),
            route("/v1/reload", pages.reload, "POST", token=True),
            route("/v1/back", pages.back, "POST", token=True),
        ]
    )


class AdminPages:
    """What each path answers."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    async def metrics(self, http: HttpRequest) -> Response:
        """The numbers of all workers."""
        return Response(write_all(), media_type="text/plain; version=0.0.4")

    async def healthz(self, http: HttpRequest) -> Response:
        """How many workers live."""
        alive = sum(child.process.returncode is None for child in self._supervisor.children)
        return reply_json({"workers": alive, "of": self._supervisor.settings.workers}, 200 if alive else 503)

    async def reload(self, http: HttpRequest) -> Response:
        """Change a model, on all workers or on none."""
        told = await read_body(http)
        if not isinstance(told, Mapping) or not isinstance(told.get("model"), str):
            raise Refused(400, 'the body must be an object with "model", a folder.')
        digest, name = told.get("digest"), told.get("name", "model")
        if digest is not None and not isinstance(digest, str):
            raise Refused(400, "digest must be a text.")
        if not isinstance(name, str):
            raise Refused(400, "name must be a text.")
        force = told.get("force", False)
        if not isinstance(force, bool):
            raise Refused(400, "force must be true or false.")
        models = await self._supervisor.reload({name: (told["model"], digest)}, force=force)
        return reply_json({"models": models})

    async def back(self, http: HttpRequest) -> Response:
        """The models before the last change."""
        return reply_json({"models": await self._supervisor.go_back()})


def _guarded(supervisor: Supervisor, handler: Handler, token: bool) -> Handler:
    async def handle(http: HttpRequest) -> Response:
        try:
            check_host(http, (*HOSTS, *supervisor.settings.hosts))
            given = http.headers.get("authorization", "")
            known = given.removeprefix(BEARER) if given.startswith(BEARER) else None
            if token and not supervisor.allows(known):
                raise Refused(401, "a token is needed: Authorization: Bearer …")
            return await handler(http)
        except Refused as refused:
            return reply_json({"error": refused.text}, refused.status)
        except (PlacingsError, TimeoutError, OSError) as error:
            return reply_json({"error": escape_line(error)[:500]}, 409)

    return handle
