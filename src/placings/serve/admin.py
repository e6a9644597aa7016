"""What operators ask, on a port of its own: metrics, reloads, one step back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from placings.core import PlacingsError, escape_line
from placings.serve.app import Refused, read_body, reply_json

if TYPE_CHECKING:
    from placings.serve.supervisor import Supervisor

BEARER = "Bearer "


def make_admin(supervisor: Supervisor) -> Starlette:
    """The operators' application."""

    async def metrics(http: HttpRequest) -> Response:
        import prometheus_client
        from prometheus_client import multiprocess

        registry = prometheus_client.CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return Response(prometheus_client.generate_latest(registry), media_type="text/plain; version=0.0.4")

    async def reload(http: HttpRequest) -> Response:
        told = await read_body(http)
        if not isinstance(told, Mapping) or not isinstance(told.get("model"), str):
            raise Refused(400, 'the body must be an object with "model", a folder.')
        digest = told.get("digest")
        if digest is not None and not isinstance(digest, str):
            raise Refused(400, "digest must be a text.")
        name = told.get("name", "model")
        return reply_json({"models": await supervisor.reload({str(name): (told["model"], digest)})})

    async def back(http: HttpRequest) -> Response:
        return reply_json({"models": await supervisor.go_back()})

    async def healthz(http: HttpRequest) -> Response:
        alive = sum(child.process.returncode is None for child in supervisor.children)
        return reply_json({"workers": alive, "of": supervisor.settings.workers}, 200 if alive else 503)

    def guarded(handler: Any) -> Any:
        async def handle(http: HttpRequest) -> Response:
            given = http.headers.get("authorization", "")
            if not supervisor.allows(given.removeprefix(BEARER) if given.startswith(BEARER) else None):
                return reply_json({"error": "a token is needed: Authorization: Bearer …"}, 401)
            try:
                response: Response = await handler(http)
            except Refused as refused:
                return reply_json({"error": refused.text}, refused.status)
            except (PlacingsError, TimeoutError) as error:
                return reply_json({"error": escape_line(error)[:500]}, 409)
            return response

        return handle

    return Starlette(
        routes=[
            Route("/metrics", metrics, methods=["GET"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/v1/reload", guarded(reload), methods=["POST"]),
            Route("/v1/back", guarded(back), methods=["POST"]),
        ]
    )
