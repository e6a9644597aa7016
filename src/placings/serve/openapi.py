"""The service's description for machines: paths, parameters, bodies and answers, with examples."""

from __future__ import annotations

from typing import Any

from placings.serve.feedback import MOST_PLACES, TEXTS
from placings.serve.settings import MOST_EVENTS, MOST_ITEMS, MOST_LETTERS, MOST_RESULTS

TEXT = {"type": "string"}
COUNT = {"type": "integer", "minimum": 0}
OR_NULL = {"type": ["string", "null"]}
ERROR = {"type": "object", "required": ["error"], "properties": {"error": TEXT}}
GEOCODING = {
    "type": "object",
    "required": ["version", "attribution", "query", "timestamp"],
    "properties": {"errors": {"type": "array", "items": TEXT}, "timestamp": {"type": "integer"}},
}
COLLECTION = {
    "type": "object",
    "required": ["geocoding", "type", "features"],
    "properties": {
        "geocoding": GEOCODING,
        "type": {"const": "FeatureCollection"},
        "features": {"type": "array", "maxItems": MOST_RESULTS, "items": {"type": "object"}},
        "bbox": {"type": "array", "items": {"type": "number"}, "minItems": 4, "maxItems": 4},
    },
}
ABOUT = {
    "search_id": TEXT,
    "arm": TEXT,
    "model": OR_NULL,
    "fallback": {**OR_NULL, "description": "Why it is the engine's order: budget, busy, error or dark."},
    "missing": {"type": "object", "additionalProperties": COUNT},
}
RERANKED = {
    "type": "object",
    "required": [*ABOUT, "order", "items", "scores"],
    "properties": {
        **ABOUT,
        "order": {"type": "array", "items": COUNT, "description": "Rows of `items`, best first."},
        "items": {"type": "array", "items": {"type": ["string", "integer"]}},
        "scores": {
            "type": ["array", "null"],
            "items": {"type": "number"},
            "description": "One an item that the model looked at, in the order of the request.",
        },
    },
}
RECEIPT = {
    "type": "object",
    "required": ["new", "known", "untrusted", "doubts"],
    "properties": {
        "new": COUNT,
        "known": COUNT,
        "untrusted": COUNT,
        "doubts": {"type": "object", "additionalProperties": COUNT},
    },
}
SIDE = {
    "type": "object",
    "required": ["item_id", "rank", "engine_rank", "score"],
    "properties": {
        "item_id": TEXT,
        "rank": COUNT,
        "engine_rank": COUNT,
        "score": {"type": ["number", "null"]},
    },
}
EXPLAINED = {
    "type": "object",
    "required": ["a", "b", "holds", "items", "whole", "model", "split_by", "terms"],
    "properties": {
        "a": SIDE,
        "b": SIDE,
        "holds": {"type": "boolean"},
        "whole": {"type": "boolean", "description": "Whether no item of the engine's list is missing."},
        "items": COUNT,
        "model": OR_NULL,
        "split_by": OR_NULL,
        "terms": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["feature", "part", "a", "b"],
                "properties": {"feature": TEXT, "part": {"type": ["number", "null"]}},
            },
        },
    },
}
EXAMPLE_REQUEST = {
    "context": {"query": "lamp", "platform": "web"},
    "items": [{"item_id": "a", "price": 9.5, "rating": 4.0}, {"item_id": "b", "price": 12.0, "rating": 4.8}],
}
EXAMPLE_ID = "Zm9vYmFyYmF6cXV4.18c2d3e4f50.AAECAwQFBgc.EBESExQVFhcYGRobHB0eHw"
EXAMPLE_EVENT = {
    "event_id": "e-1",
    "search_id": EXAMPLE_ID,
    "item_id": "b",
    "action": "click",
    "position": 1,
    "visible": 4,
}
EXAMPLE_UBI = {
    "action_name": "click_through",
    "query_id": EXAMPLE_ID,
    "timestamp": "2026-03-01T08:30:00Z",
    "event_attributes": {"object": {"object_id": "b"}, "position": {"ordinal": 1}},
}
EXAMPLE_RERANKED = {
    "search_id": EXAMPLE_ID, "arm": "model", "model": "sha256:…", "fallback": None, "missing": {"weight": 2},
    "order": [1, 0], "items": ["b", "a"], "scores": [0.1, 0.7],
}  # fmt: skip
EXAMPLE_RECEIPT = {"new": 1, "known": 0, "untrusted": 0, "doubts": {}}
OTHERS = {
    "400": "The request cannot be used; one sentence says which field and why.",
    "421": "The service does not answer for that host.",
    "503": "Too busy, or the engine does not answer; Retry-After says when to try again.",
}
OF_BODIES = {"408": "The body did not arrive in time.", "413": "The body is too large."}
GARBLED = {"502": "The engine answered with something that no hits can be read from."}


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
            "/v1/explain": {"get": _describe_explain(), "post": _describe_explain_items()},
            "/v1/reverse": {"get": _describe_other("What is at a point, if the engine is Pelias.")},
            "/v1/place": {"get": _describe_other("Places by their ids, if the engine is Pelias.")},
            "/v1/search/structured": {"get": _describe_other("A search by fields, if the engine is Pelias.")},
            "/attribution": {"get": _describe_text("Where the data come from.")},
            "/status": {"get": _describe_text("Whether the service is there, as Pelias says it.")},
            "/healthz": {"get": _describe_plain("Whether the process lives.")},
            "/readyz": {"get": _describe_plain("Whether it takes requests.")},
        },
    }


def _describe_items() -> dict[str, Any]:
    item = {
        "type": "object",
        "required": ["item_id"],
        "properties": {"item_id": {"oneOf": [{"type": "string", "minLength": 1}, {"type": "integer"}]}},
    }
    context = {
        "type": "object",
        "properties": {
            "query": {"type": ["string", "null"], "maxLength": MOST_LETTERS},
            "time": {"type": ["string", "null"], "description": "ISO 8601; now if it is not said."},
            "focus_lat": {"type": ["number", "null"], "minimum": -90, "maximum": 90},
            "focus_lon": {"type": ["number", "null"], "minimum": -180, "maximum": 180},
        },
    }
    return {"context": context, "items": {"type": "array", "maxItems": MOST_ITEMS, "items": item}}


def _describe_rerank() -> dict[str, Any]:
    body = {
        "type": "object",
        "required": ["items"],
        "additionalProperties": False,
        "properties": _describe_items(),
    }
    return {
        "summary": "Order the hits that you bring.",
        "parameters": _list_people(),
        "requestBody": _describe_body({"application/json": body}, EXAMPLE_REQUEST),
        "responses": {
            "200": _answer("The new order: rows of `items`, best first.", RERANKED, EXAMPLE_RERANKED),
            **_list_answers(ERROR, OTHERS | OF_BODIES),
        },
    }


def _describe_search(summary: str) -> dict[str, Any]:
    return {
        "summary": summary,
        "parameters": [
            _parameter("text", {"type": "string", "minLength": 1, "maxLength": MOST_LETTERS}, "karls", True),
            _parameter("size", {"type": "integer", "minimum": 1, "maximum": MOST_RESULTS}, 10),
            _parameter("focus.point.lat", {"type": "number", "minimum": -90, "maximum": 90}, 49.01),
            _parameter("focus.point.lon", {"type": "number", "minimum": -180, "maximum": 180}, 8.4),
            _parameter("layers", TEXT, "locality,street"),
            _parameter("lang", TEXT, "de"),
            *_list_people(),
        ],
        "responses": {
            "200": _answer("GeoJSON, as Pelias gives it; `geocoding.placings` is ours.", COLLECTION),
            **_list_answers(COLLECTION, OTHERS | GARBLED),
        },
    }


def _describe_feedback() -> dict[str, Any]:
    ids = {"type": "array", "maxItems": MOST_ITEMS, "items": {"type": ["string", "integer"]}}
    place = {"type": "integer", "minimum": 1, "maximum": MOST_PLACES}
    event = {
        "type": "object",
        "required": [*TEXTS],
        "properties": {
            **{name: {"type": "string", "minLength": 1, "maxLength": most} for name, most in TEXTS.items()},
            "position": {**place, "type": ["integer", "null"]},
            "visible": {"oneOf": [place, ids, {"type": "null"}]},
            "items": {**ids, "type": ["array", "null"]},
        },
    }
    insight = {
        "type": "object",
        "description": "OpenSearch User Behavior Insights.",
        "required": ["action_name", "query_id", "timestamp", "event_attributes"],
    }
    any_event = {"anyOf": [event, insight]}
    batch = {
        "type": "object",
        "required": ["events"],
        "properties": {
            "events": {"type": "array", "minItems": 1, "maxItems": MOST_EVENTS, "items": any_event}
        },
    }
    many = {"type": "array", "minItems": 1, "maxItems": MOST_EVENTS, "items": any_event}
    body = {"anyOf": [batch, many, event, insight]}
    told = _describe_body({"application/json": body}, {"events": [EXAMPLE_EVENT]})
    told["content"]["application/json"].pop("example")
    told["content"]["application/json"]["examples"] = {
        "a batch": {"value": {"events": [EXAMPLE_EVENT]}},
        "one": {"value": EXAMPLE_EVENT},
        "OpenSearch UBI": {"value": EXAMPLE_UBI},
    }
    told["description"] = "The same as text/plain, as navigator.sendBeacon sends it, is taken too."
    also = {"403": "Pages of that origin may not send feedback.", "429": "Too much from one address or user."}
    return {
        "summary": "What people did with a list. Answered once it is on the disk.",
        "parameters": _list_people(),
        "requestBody": told,
        "responses": {
            "202": _answer(
                "How many events were new, known already, and kept apart from training, with the reasons.",
                RECEIPT,
                EXAMPLE_RECEIPT,
            ),
            **_list_answers(ERROR, OTHERS | OF_BODIES | also),
        },
    }


def _describe_explain() -> dict[str, Any]:
    return {
        "summary": "Why A stands above B in a list that was shown. For operators.",
        "parameters": [
            _parameter("search_id", TEXT, EXAMPLE_ID, True),
            _parameter("a", {"type": "string", "minLength": 1, "maxLength": 500}, "b", True),
            _parameter("b", {"type": "string", "minLength": 1, "maxLength": 500}, "a", True),
        ],
        "responses": _list_explained({"404": "Nothing is known of that search."}),
    }


def _describe_explain_items() -> dict[str, Any]:
    ids = {"oneOf": [{"type": "string", "minLength": 1, "maxLength": 500}, {"type": "integer"}]}
    body = {
        "type": "object",
        "required": ["a", "b", "items"],
        "properties": {"a": ids, "b": ids, **_describe_items()},
    }
    return {
        "summary": "Why A stands above B in a list that you bring. For operators.",
        "requestBody": _describe_body({"application/json": body}, {"a": "b", "b": "a", **EXAMPLE_REQUEST}),
        "responses": _list_explained(OF_BODIES),
    }


def _list_explained(more: dict[str, str]) -> dict[str, Any]:
    also = {"401": "A token is needed.", "403": "A token is needed, and this service has none."}
    return {
        "200": _answer("Each feature's part in the difference of the scores.", EXPLAINED),
        **_list_answers(ERROR, OTHERS | also | more),
    }


def _describe_other(summary: str) -> dict[str, Any]:
    more = {"404": "The engine is not Pelias."}
    answers = _list_answers({"type": "object"}, OTHERS | GARBLED | more)
    return {"summary": summary, "responses": {"200": _answer("As Pelias gives it.", COLLECTION), **answers}}


def _describe_text(summary: str) -> dict[str, Any]:
    text = {"description": "As a text.", "content": {"text/plain": {"schema": TEXT}}}
    return {"summary": summary, "responses": {"200": text, **_list_answers(COLLECTION, OTHERS | GARBLED)}}


def _describe_plain(summary: str) -> dict[str, Any]:
    schema = {"type": "object", "required": ["status"], "properties": {"status": TEXT, "reason": TEXT}}
    return {"summary": summary, "responses": {"200": _answer("Yes.", schema), "503": _answer("No.", schema)}}


def _list_people() -> list[dict[str, Any]]:
    """Who asks, as the caller names them; arms are dealt by it."""
    return [
        _parameter(f"placings.{name}", {"type": "string", "minLength": 1, "maxLength": 200}, example)
        for name, example in (("user", "u-17"), ("session", "s-4"))
    ]


def _parameter(name: str, schema: dict[str, Any], example: Any, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": schema, "example": example}


def _describe_body(schemas: dict[str, Any], example: Any) -> dict[str, Any]:
    content = {kind: {"schema": schema, "example": example} for kind, schema in schemas.items()}
    return {"required": True, "content": content}


def _answer(told: str, schema: dict[str, Any], example: Any = None) -> dict[str, Any]:
    content = {"schema": schema} if example is None else {"schema": schema, "example": example}
    return {"description": told, "content": {"application/json": content}}


def _list_answers(schema: dict[str, Any], told: dict[str, str]) -> dict[str, Any]:
    return {status: _answer(words, schema) for status, words in sorted(told.items())}
