"""The service's description for machines: paths, parameters, bodies and answers, with examples."""

from __future__ import annotations

from typing import Any

from placings.serve.settings import MOST_EVENTS, MOST_ITEMS, MOST_LETTERS, MOST_RESULTS

TEXT = {"type": "string"}
ERROR = {"type": "object", "required": ["error"], "properties": {"error": TEXT}}
EXAMPLE_REQUEST = {
    "context": {"query": "lamp", "platform": "web"},
    "items": [{"item_id": "a", "price": 9.5, "rating": 4.0}, {"item_id": "b", "price": 12.0, "rating": 4.8}],
}
EXAMPLE_EVENT = {"event_id": "e-1", "search_id": "…", "item_id": "b", "action": "click", "position": 1}


def describe_api() -> dict[str, Any]:
    """OpenAPI 3.1."""
    from placings import __version__

    return {
        "openapi": "3.1.0",
        "info": {
            "title": "placings",
            "version": __version__,
            "description": "A re-ranker in front of an engine.",
        },
        "paths": {
            "/v1/rerank": {"post": _describe_rerank()},
            "/v1/search": {"get": _describe_search("Search, in Pelias' shape.")},
            "/v1/autocomplete": {"get": _describe_search("Search while somebody types, in Pelias' shape.")},
            "/v1/feedback": {"post": _describe_feedback()},
            "/healthz": {"get": _describe_plain("Whether the process lives.")},
            "/readyz": {"get": _describe_plain("Whether it takes requests.")},
        },
    }


def _describe_rerank() -> dict[str, Any]:
    item = {
        "type": "object",
        "required": ["item_id"],
        "properties": {"item_id": {"oneOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}},
    }
    context = {
        "type": "object",
        "properties": {
            "query": {"type": "string", "maxLength": MOST_LETTERS},
            "focus_lat": {"type": ["number", "null"], "minimum": -90, "maximum": 90},
            "focus_lon": {"type": ["number", "null"], "minimum": -180, "maximum": 180},
        },
    }
    body = {
        "type": "object",
        "required": ["items"],
        "additionalProperties": False,
        "properties": {"context": context, "items": {"type": "array", "maxItems": MOST_ITEMS, "items": item}},
    }
    return {
        "summary": "Order the hits that you bring.",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": body, "example": EXAMPLE_REQUEST}},
        },
        "responses": _list_answers({"200": _answer("The new order: rows of `items`, best first.")}),
    }


def _describe_search(summary: str) -> dict[str, Any]:
    def parameter(
        name: str, schema: dict[str, Any], *, required: bool = False, example: Any = None
    ) -> dict[str, Any]:
        return {"name": name, "in": "query", "required": required, "schema": schema, "example": example}

    return {
        "summary": summary,
        "parameters": [
            parameter(
                "text",
                {"type": "string", "minLength": 1, "maxLength": MOST_LETTERS},
                required=True,
                example="karls",
            ),
            parameter("size", {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS}, example=10),
            parameter("focus.point.lat", {"type": "number", "minimum": -90, "maximum": 90}, example=49.01),
            parameter("focus.point.lon", {"type": "number", "minimum": -180, "maximum": 180}, example=8.4),
            parameter("layers", TEXT, example="locality,street"),
            parameter("lang", TEXT, example="de"),
        ],
        "responses": _list_answers({"200": _answer("GeoJSON, as Pelias gives it.")}, pelias=True),
    }


def _describe_feedback() -> dict[str, Any]:
    event = {
        "type": "object",
        "required": ["event_id", "search_id", "item_id", "action"],
        "properties": {
            "event_id": {"type": "string", "minLength": 1, "maxLength": 200},
            "search_id": {"type": "string", "minLength": 1, "maxLength": 200},
            "item_id": {"type": "string", "minLength": 1, "maxLength": 500},
            "action": {"type": "string", "minLength": 1, "maxLength": 60},
            "position": {"type": "integer", "minimum": 1, "maximum": 10_000},
        },
    }
    body = {
        "type": "object",
        "required": ["events"],
        "properties": {"events": {"type": "array", "maxItems": MOST_EVENTS, "items": event}},
    }
    return {
        "summary": "What people did with a list. Answered once it is on the disk.",
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": body, "example": {"events": [EXAMPLE_EVENT]}}},
        },
        "responses": _list_answers({"202": _answer("How many events were new, and how many were known.")}),
    }


def _describe_plain(summary: str) -> dict[str, Any]:
    return {"summary": summary, "responses": {"200": _answer("Yes."), "503": _answer("No.")}}


def _answer(told: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"description": told, "content": {"application/json": {"schema": schema or {"type": "object"}}}}


def _list_answers(good: dict[str, Any], *, pelias: bool = False) -> dict[str, Any]:
    schema = {"type": "object"} if pelias else ERROR
    others = {
        "400": "The request cannot be used; one sentence says which field and why.",
        "413": "The body is too large.",
        "421": "The service does not answer for that host.",
        "502": "The engine answered with something that no hits can be read from.",
        "503": "Too busy, or the engine does not answer; Retry-After says when to try again.",
    }
    return {**good, **{status: _answer(told, schema) for status, told in others.items()}}
