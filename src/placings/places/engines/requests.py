"""Asking a search server over HTTP: timeouts, retries with backoff, and errors that name no secret."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from placings.core import BadInput, PlacingsError, need_library
from placings.places.place import Place
from placings.rerank import Focus

TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class ServerFailed(PlacingsError, RuntimeError):
    """A search server could not be reached, refused, or answered with something it should not."""


class GarbledAnswer(ServerFailed):
    """A search server answered, with something that no hits can be read from."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how often to ask again.

    `timeout` seconds hold for connecting and for each wait for bytes. A request is asked again up to
    `retries` times after a connection error or the statuses 408, 429, 500, 502, 503, 504; the n-th wait is
    `backoff`·2ⁿ⁻¹ seconds, shortened by up to a half at random, or what Retry-After says. No single wait is
    longer than `longest_wait`: a server that asks for more is given up.
    """

    timeout: float = 5.0
    retries: int = 3
    backoff: float = 0.2
    longest_wait: float = 30.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise BadInput(f"timeout must be above 0 seconds. Got {self.timeout!r}.")
        if self.retries < 0 or self.backoff < 0 or self.longest_wait < 0:
            raise BadInput(
                "retries, backoff and longest_wait must be 0 or more. "
                f"Got {self.retries!r}, {self.backoff!r}, {self.longest_wait!r}."
            )


class Server:
    """One HTTP server that answers in JSON. Its requests must be safe to repeat.

    `url` may hold a path, never a query; user and password in it are used and not shown. `params` are sent
    with every request. Errors show the address and the path, never parameters or headers: keys are there.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        patience: Patience | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        httpx = need_library("httpx", f"the {name} engine", "places")
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            parsed = httpx.URL("")
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise BadInput(
                f"a {name} address must be http:// or https:// with a host and no query. "
                f"Got {_hide_secrets(url)!r}."
            )
        self.name = name
        self.patience = patience or Patience()
        self.address = str(parsed.copy_with(userinfo=b"")).rstrip("/")
        self._sleep = sleep
        self._client = httpx.Client(
            base_url=str(parsed).rstrip("/") + "/",
            params=dict(params or {}),
            headers={"Accept": "application/json", **(headers or {})},
            timeout=self.patience.timeout,
        )

    def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        """The JSON object at a path below the address."""
        return self.ask("GET", path, params=params)

    def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        lines: bytes | None = None,
        accept: tuple[int, ...] = (),
    ) -> dict[str, Any]:
        """Send one request and give the JSON object that answers it.

        `body` is sent as JSON, `lines` as newline-delimited JSON. A status of 400 or more is an error with
        the server's own words, unless `accept` holds it.
        """
        import json

        content = lines if body is None else json.dumps(body).encode()
        kind = "application/x-ndjson" if body is None else "application/json"
        headers = {} if content is None else {"Content-Type": kind}
        response = self._send_patiently(method, path, params, content, headers)
        status = response.status_code
        if status not in accept and not 200 <= status < 300:
            raise ServerFailed(f"{self._say(method, path)} answered {status}{_find_reason(response)}")
        try:
            answer = response.json()
        except ValueError:
            start = response.text[:80]
            raise GarbledAnswer(
                f"{self._say(method, path)} answered {status} with something that is not JSON, "
                f"beginning {start!r}. Is the address that of {self.name}?"
            ) from None
        if not isinstance(answer, dict):
            raise self.complain(f"a JSON {type(answer).__name__}, where an object was due")
        return answer

    def complain(self, what: str) -> GarbledAnswer:
        """The error for an answer that is JSON but not of the documented shape."""
        return GarbledAnswer(f"{self.name} at {self.address} answered with {what}. Is the address right?")

    def wait(self, attempt: int) -> None:
        """Wait as before the request number `attempt` + 2, counting from 1."""
        self._sleep(self._choose_wait(attempt, None))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send_patiently(
        self, method: str, path: str, params: Any, content: bytes | None, headers: Mapping[str, str]
    ) -> Any:
        import httpx

        for attempt in range(self.patience.retries + 1):
            last = attempt == self.patience.retries
            try:
                response = self._client.request(
                    method, path.lstrip("/"), params=params, content=content, headers=dict(headers)
                )
            except httpx.TransportError as error:
                if last:
                    problem = str(error) or type(error).__name__
                    raise ServerFailed(
                        f"{self._say(method, path)} could not be asked ({attempt + 1} tries): {problem}. "
                        "Is the server running, and may this machine reach it?"
                    ) from None
                self._sleep(self._choose_wait(attempt, None))
                continue
            if response.status_code not in TRANSIENT or last:
                return response
            self._sleep(self._choose_wait(attempt, response))
        raise AssertionError("unreachable")  # pragma: no cover

    def _choose_wait(self, attempt: int, response: Any) -> float:
        asked = None if response is None else read_retry_after(response.headers.get("Retry-After"))
        if asked is not None:
            if asked > self.patience.longest_wait:
                raise ServerFailed(
                    f"{self.name} at {self.address} answered {response.status_code} and asks to wait "
                    f"{asked:.0f} seconds; at most {self.patience.longest_wait:g} are allowed. Ask less "
                    "often, or pass a Patience with a larger longest_wait."
                )
            return asked
        wait = min(self.patience.backoff * 2.0**attempt, self.patience.longest_wait)
        return wait * random.uniform(0.5, 1.0)  # so that many clients do not come back at once

    def _say(self, method: str, path: str) -> str:
        return f"{self.name}: {method} {self.address}/{path.lstrip('/')}"


def read_retry_after(text: str | None, *, now: float | None = None) -> float | None:
    """Seconds to wait by a Retry-After header, a number or a date; None where it says nothing readable.

    >>> read_retry_after("2"), read_retry_after("soon")
    (2.0, None)
    >>> read_retry_after("Thu, 01 Jan 1970 00:00:10 GMT", now=4.0)
    6.0
    """
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - (time.time() if now is None else now)
        except (TypeError, ValueError):
            return None
    return max(seconds, 0.0) if abs(seconds) < float("inf") else None


def check_request(text: str, focus: Focus | None, k: int, layers: Sequence[str] | None) -> None:
    """Refuse what no engine can be asked: a text that is none, k below 1, a focus off the globe.

    >>> check_request("haupt", (49.0, 8.4), 40, ["stop"])
    >>> check_request("haupt", (49.0, float("nan")), 40, None)
    Traceback (most recent call last):
    placings.core.errors.BadInput: focus must be (latitude, longitude) in degrees, or None. Got (49.0, nan).
    """
    if not isinstance(text, str):
        raise BadInput(f"the text to search must be a string. Got {type(text).__name__}.")
    if k < 1:
        raise BadInput(f"k must be 1 or more. Got {k!r}.")
    if isinstance(layers, str):
        raise BadInput(f"layers must be a list of types, such as [{layers!r}]. Got {layers!r}.")
    if focus is not None:
        fits = len(focus) == 2 and all(math.isfinite(number) for number in focus)
        if not fits or abs(focus[0]) > 90 or abs(focus[1]) > 360:
            raise BadInput(f"focus must be (latitude, longitude) in degrees, or None. Got {focus!r}.")


def check_place(place: Place) -> None:
    """Refuse a place that a server could not hold: no id, off the globe, or of negative weight."""
    numbers = (place.lat, place.lon, place.weight)
    fits = all(map(math.isfinite, numbers)) and abs(place.lat) <= 90 and abs(place.lon) <= 180
    if not fits or place.weight < 0 or not place.id:
        raise BadInput(
            "a place must have an id, a latitude within ±90, a longitude within ±180, a weight of 0 or more. "
            f"Got {place.id!r}, {place.lat!r}, {place.lon!r}, {place.weight!r}."
        )


def _find_reason(response: Any) -> str:
    """The server's own words, from the places where Pelias, OpenSearch and Elasticsearch put them."""
    hint = {401: "Is the key right?", 403: "Is the key right?", 404: "Is the address or the index right?"}
    advice = hint.get(response.status_code, "")
    if 300 <= response.status_code < 400:
        return f" and points to {response.headers.get('Location', 'nowhere')!r}. Give that address instead."
    try:
        answer = response.json()
    except ValueError:
        answer = response.text[:200]
    words = answer
    if isinstance(answer, dict):
        geocoding = answer.get("geocoding")
        listed = geocoding.get("errors") if isinstance(geocoding, dict) else None
        error = answer.get("error")
        words = listed or (error.get("reason") or error.get("type") if isinstance(error, dict) else error)
        words = "; ".join(map(str, words)) if isinstance(words, list) else words or answer
    text = str(words).strip().rstrip(".")[:300]
    return f": {text}. {advice}".rstrip() if text else f". {advice}".rstrip()


def _hide_secrets(url: str) -> str:
    """The address without what stands before an @ or after a ?."""
    head, sign, rest = url.partition("://")
    shown = (rest if sign else head).rsplit("@", 1)[-1].split("?", 1)[0]
    return f"{head}://{shown}" if sign else shown
