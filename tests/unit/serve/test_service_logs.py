"""Logs are JSON lines with the search id, and never with what somebody typed."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from small_service import ITEMS, FakeEngine, ask, serve_here, talk
from test_dark_features import make_reranker

from placings.serve.logs import JsonLines
from placings.serve.openapi import describe_api


def test_each_request_has_a_line_with_its_search_id_and_without_its_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "placings.access")
    with serve_here(tmp_path, engine=FakeEngine(), access_log=True) as live:
        found = ask(live, "GET", "/v1/search?text=geheim&placings.user=anna").json()
        ask(live, "POST", "/v1/rerank", json={"context": {"query": "geheim"}, "items": 3})
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    assert [(line["path"], line["status"]) for line in lines] == [("/v1/search", 200), ("/v1/rerank", 400)]
    assert lines[0]["search_id"] == found["geocoding"]["placings"]["search_id"]
    assert "geheim" not in str(lines)
    assert "anna" not in str(lines)


def test_controls_are_shown_and_errors_keep_their_words_to_themselves() -> None:
    try:
        raise ValueError("somebody's words")
    except ValueError as error:
        record = logging.LogRecord("placings", logging.ERROR, "", 0, "a\x1b[2J\nb", (), (type(error), error,
                                   error.__traceback__))  # fmt: skip
    line = JsonLines().format(record)
    assert "\x1b" not in line
    assert "\n" not in line
    assert "somebody" not in line
    assert json.loads(line)["error"].startswith("ValueError at ")


def test_the_description_names_every_path_and_its_examples_are_taken(tmp_path: Path) -> None:
    described = describe_api()
    with serve_here(tmp_path, make_reranker(), FakeEngine()) as live:

        async def say(client: Any) -> None:
            for path, methods in described["paths"].items():
                for method, told in methods.items():
                    params = {each["name"]: each["example"] for each in told.get("parameters", ())}
                    content = told.get("requestBody", {}).get("content", {}).get("application/json", {})
                    bodies = [each["value"] for each in content.get("examples", {}).values()]
                    bodies = bodies or [content.get("example")]
                    for body in bodies:
                        found = await client.request(method, path, params=params, json=body)
                        assert str(found.status_code) in told["responses"], (path, found.text)
                        if path in ("/v1/rerank", "/v1/search", "/v1/feedback", "/healthz", "/status"):
                            assert found.status_code < 300, (path, found.text)

        talk(live, say)
        assert ask(live, "GET", "/openapi.json").json() == described


def test_lists_of_one_item_need_no_model(tmp_path: Path) -> None:
    with serve_here(tmp_path) as live:
        told = ask(live, "POST", "/v1/rerank", json={"items": ITEMS[:1]}).json()
    assert (told["items"], told["fallback"]) == (["a"], None)
