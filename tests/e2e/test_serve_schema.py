"""5,000 requests made up from our own description: no fault of ours, and every answer as described."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from served_process import ServedProcess, save_model, serve, write_hits

schemathesis = pytest.importorskip("schemathesis")

pytestmark = pytest.mark.slow
IN_ALL = 5000
MODES = ("positive", "negative")  # as described, and not


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProcess]:
    home = tmp_path_factory.mktemp("schema")
    save_model(home / "model")
    words = ("--engine", write_hits(home), "--feedback-rate", "100000", "--budget-ms", "5000")
    with serve(home, home / "model", *words, PLACINGS_ADMIN_TOKEN="") as found:
        yield found


def test_requests_of_all_kinds_are_answered_as_described(served: ServedProcess) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi.checks import (
        content_type_conformance,
        response_schema_conformance,
        status_code_conformance,
        unsupported_method,
    )

    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    operations = [each.ok() for each in schema.get_all_operations()]
    described = served.get("/openapi.json").json()["paths"]
    wanted = {
        f"{method.upper()} {path}"
        for path, methods in described.items()
        for method, told in methods.items()
        if "parameters" in told or "requestBody" in told
    }
    each = round(1.5 * IN_ALL / (2 * len(wanted)))  # some kinds have fewer requests than that
    assert wanted <= {operation.label for operation in operations}
    statuses: Counter[int] = Counter()
    checks = [
        not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
        unsupported_method,
    ]  # fmt: skip
    session = __import__("requests").Session()
    for operation in operations:
        for mode in MODES:
            statuses.update(
                _try(
                    operation,
                    GenerationMode(mode),
                    each if operation.label in wanted else 50,
                    checks,
                    session,
                )
            )
    session.close()
    assert sum(statuses.values()) >= IN_ALL
    assert not [status for status in statuses if status >= 500], statuses
    assert statuses[200] > 500
    assert statuses[202] > 0
    assert statuses[400] > 500
    print(f"{sum(statuses.values()):,} requests: {dict(sorted(statuses.items()))}")
    assert not [line for line in served.list_lines() if line["level"] == "error"]
    metrics = served.client.get(served.admin + "/metrics").text
    assert not re.findall(r'placings_requests_total\{[^}]*status="500"', metrics)


def _try(operation: Any, mode: Any, count: int, checks: list[Any], session: Any) -> Counter[int]:
    """Send so many made-up requests of a path; returns the statuses."""
    statuses: Counter[int] = Counter()

    @settings(max_examples=count, database=None, deadline=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        response = case.call(session=session, timeout=30)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=checks)

    try:
        send()
    except Exception as error:
        if type(error).__name__ in ("Unsatisfiable", "SkipTest", "InvalidArgument"):
            return statuses  # a path without parameters cannot be asked wrongly
        raise
    return statuses


def test_the_description_is_complete(served: ServedProcess) -> None:
    """Every path that answers is described, with an example where something must be sent."""
    described = served.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        for method, told in methods.items():
            found = served.client.request(method, served.url + path)
            assert found.status_code != 405, path
            assert str(found.status_code) in told["responses"], path
            content = told.get("requestBody", {}).get("content", {}).get("application/json")
            assert content is None or "example" in content or "examples" in content
            assert all("example" in each for each in told.get("parameters", ()))
