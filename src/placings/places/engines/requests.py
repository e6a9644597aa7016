"""Asking a search server over HTTP: a deadline, retries with backoff, and errors that name no secret."""

from __future__ import annotations

import json
import math
import random
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from placings.core import BadInput, OverLimit, PlacingsError, escape_line, need_library, parse_json
from placings.places.engines.deadlines import Deadline
from placings.places.engines.secrets import QUOTED, Secrets, list_login, name_host, strip_address
from placings.places.place import Place
from placings.rerank import check_request, clean_text

if TYPE_CHECKING:
    from placings.places.engines.transport import ServerAnswer

__all__ = [
    "Patience",
    "Server",
    "ServerFailed",
    "check_place",
    "check_request",
    "clean_value",
    "read_retry_after",
]

TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
HINTS = {401: "Is the key right?", 403: "Is the key right?", 404: "Is the address or the index right?"}


class ServerFailed(PlacingsError, RuntimeError):
    """A search server could not be reached, refused, or answered with something it should not."""


class GarbledAnswer(ServerFailed):
    """A search server answered, with something that no hits can be read from."""


@dataclass(frozen=True)
class Patience:
    """How long to wait for a server, and how often to ask again.

    A search has `deadline` seconds in all: for connecting, for every byte, for asking again and the waits
    between. A request of a load (a bulk of places) has `load_deadline`. Within that, `timeout` seconds hold
    for connecting and for each wait for bytes. A request is asked again up to `retries` times after a
    connection error or the statuses 408, 429, 500, 502, 503, 504; the n-th wait is `backoff`·2ⁿ⁻¹ seconds,
    shortened by up to a half at random, or what Retry-After says. No single wait is longer than
    `longest_wait`, nor goes beyond the deadline: a server that asks for more is given up.
    """

    timeout: float = 5.0
    retries: int = 3
    backoff: float = 0.2
    longest_wait: float = 30.0
    deadline: float = 5.0
    load_deadline: float = 60.0

    def __post_init__(self) -> None:
        for name in ("timeout", "deadline", "load_deadline"):
            if not getattr(self, name) > 0:
                raise BadInput(f"{name} must be above 0 seconds. Got {getattr(self, name)!r}.")
        if self.retries < 0 or self.backoff < 0 or self.longest_wait < 0:
            raise BadInput(
                "retries, backoff and longest_wait must be 0 or more. "
                f"Got {self.retries!r}, {self.backoff!r}, {self.longest_wait!r}."
            )


class Server:
    """One HTTP server that answers in JSON. Its requests must be safe to repeat.

    `url` may hold a path, never a query; user and password in it are used and not shown. `params` are sent
    with every request. Values of `params` and `headers` are taken for secrets: no message shows them, and
    `secrets` names others. A redirect is not followed. A body larger than the limit is not read.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
        patience: Patience | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        httpx = need_library("httpx", f"the {name} engine", "places")
        from placings.places.engines.transport import Connections

        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, UnicodeError):
            parsed = httpx.URL("")
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise BadInput(
                f"a {name} address must be http:// or https:// with a host and no query. "
                f"Got {strip_address(url)!r}."
            )
        self.name = name
        self.patience = patience or Patience()
        self.address = str(parsed.copy_with(userinfo=b"")).rstrip("/")
        self._sleep = sleep
        self._params = dict(params or {})
        self._headers = {"Accept": "application/json", **(headers or {})}
        if parsed.userinfo:
            login = f"{parsed.username}:{parsed.password}"
            self._headers["Authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        for value in (*self._params.values(), *self._headers.values()):
            if not value.isascii() or not value.isprintable():
                raise BadInput(
                    f"a key for {name} must be of plain letters, digits and signs. It is not shown."
                )
        self._connections = Connections(parsed)
        proxy = self._connections.proxy
        self._secrets = Secrets(
            [
                *self._params.values(),
                *(headers or {}).values(),
                *(value.split()[-1] for value in (headers or {}).values() if value.strip()),
                *secrets,
                *list_login(parsed.username, parsed.password),
                *([] if proxy is None or proxy.auth is None else list_login(*proxy.auth)),
            ]
        )

    def __repr__(self) -> str:
        return f"Server({self.address!r})"

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
        seconds: float | None = None,
    ) -> dict[str, Any]:
        """Send one request and give the JSON object that answers it, within `seconds` (the deadline).

        `body` is sent as JSON, `lines` as newline-delimited JSON. A status of 400 or more is an error with
        the server's own words, unless `accept` holds it.
        """
        content = lines if body is None else json.dumps(body).encode()
        kind = "application/x-ndjson" if body is None else "application/json"
        headers = {} if content is None else {"Content-Type": kind}
        deadline = Deadline(self.patience.deadline if seconds is None else seconds)
        answer = self._send_patiently(method, path, params, content, headers, deadline)
        if answer.status not in accept and not 200 <= answer.status < 300:
            raise self._fail(f"{self._say(method, path)} answered {answer.status}{self._find_reason(answer)}")
        try:
            told = parse_json(answer.body)
        except ValueError as error:
            problem = self._secrets.quote(error, 120)
            start = self._secrets.quote(answer.body[:8192].decode("utf-8", "replace"), 80)
        else:
            if isinstance(told, dict):
                return told
            raise self.complain(f"a JSON {type(told).__name__}, where an object was due")
        raise self._garbled(
            f"{self._say(method, path)} answered {answer.status} with something that is not JSON, "
            f"beginning {start!r} ({problem}). Is the address that of {self.name}?"
        )

    def complain(self, what: str) -> GarbledAnswer:
        """The error for an answer that is JSON but not of the documented shape."""
        return self._garbled(f"{self.name} at {self.address} answered with {what}. Is the address right?")

    def quote(self, words: object, most: int = QUOTED) -> str:
        """The beginning of something that the server said, without secrets."""
        return self._secrets.quote(words, most)

    def wait(self, attempt: int) -> None:
        """Wait as before the request number `attempt` + 2, counting from 1."""
        self._sleep(self._choose_wait(attempt, None, Deadline(math.inf)))

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def _send_patiently(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        content: bytes | None,
        headers: Mapping[str, str],
        deadline: Deadline,
    ) -> ServerAnswer:
        import httpx

        try:
            url = httpx.URL(
                f"{self.address}/{path.lstrip('/')}", params={**self._params, **(params or {})} or None
            )
        except httpx.InvalidURL:
            url = None
        if url is None:
            raise BadInput(
                f"{self.name} cannot be asked for that much at once: the address becomes too long."
            )
        headers = {**self._headers, **headers}
        for attempt in range(self.patience.retries + 1):
            last = attempt == self.patience.retries
            answer, problem = self._send_once(method, url, headers, content, deadline)
            if answer is not None and (answer.status not in TRANSIENT or last):
                return answer
            wait = 0.0 if last else self._choose_wait(attempt, answer, deadline)
            if last or wait >= deadline.left:
                break
            self._sleep(wait)
        if answer is not None:
            return answer
        if not deadline.left:
            problem = f"it gave no whole answer within {deadline.seconds:g} seconds"
        raise self._fail(
            f"{self._say(method, path)} could not be asked ({attempt + 1} tries): {problem}. "
            "Is the server running, and may this machine reach it?"
        )

    def _send_once(
        self, method: str, url: Any, headers: Mapping[str, str], content: bytes | None, deadline: Deadline
    ) -> tuple[ServerAnswer | None, str]:
        """The answer, or the problem that kept it away; a body that is too large or damaged is an error."""
        from placings.places.engines.transport import FAILURES, BadAnswer

        try:
            return self._connections.send(method, url, headers, content, deadline, self.patience.timeout), ""
        except (BadAnswer, OverLimit) as error:
            what = str(error)
        except FAILURES as error:
            return None, self._secrets.quote(str(error) or type(error).__name__)
        raise self._fail(
            f"{self.name} at {self.address} answered with {self._secrets.quote(what).rstrip('.')}."
        )

    def _choose_wait(self, attempt: int, answer: ServerAnswer | None, deadline: Deadline) -> float:
        asked = None if answer is None else read_retry_after(answer.headers.get("retry-after"))
        if asked is not None and answer is not None:
            most = min(self.patience.longest_wait, deadline.left)
            if asked > most:
                raise self._fail(
                    f"{self.name} at {self.address} answered {answer.status} and asks to wait "
                    f"{asked:.0f} seconds; at most {most:.0f} are allowed. Ask less "
                    "often, or pass a Patience with a larger longest_wait and deadline."
                )
            return asked
        wait = min(self.patience.backoff * 2.0**attempt, self.patience.longest_wait)
        return wait * random.uniform(0.5, 1.0)  # so that many clients do not come back at once

    def _find_reason(self, answer: ServerAnswer) -> str:
        """The server's own words, from the places where Pelias, OpenSearch and Elasticsearch put them."""
        advice = HINTS.get(answer.status, "")
        if 300 <= answer.status < 400:
            where = self._secrets.quote(
                name_host(self._secrets.hide(answer.headers.get("location", ""))), 100
            )
            return f" and points to {where}. It is not followed; give the right address instead."
        try:
            told = parse_json(answer.body)
        except ValueError:
            told = answer.body.decode("utf-8", "replace")
        words = told
        if isinstance(told, dict):
            geocoding = told.get("geocoding")
            listed = geocoding.get("errors") if isinstance(geocoding, dict) else None
            error = told.get("error")
            words = listed or (error.get("reason") or error.get("type") if isinstance(error, dict) else error)
            words = "; ".join(map(str, words)) if isinstance(words, list) else words or told
        text = escape_line(self._secrets.quote(str(words).strip())).rstrip(".")
        return f": {text}. {advice}".rstrip() if text else f". {advice}".rstrip()

    def _fail(self, text: str) -> ServerFailed:
        return ServerFailed(self._secrets.hide(text))

    def _garbled(self, text: str) -> GarbledAnswer:
        return GarbledAnswer(self._secrets.hide(text))

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
        except (TypeError, ValueError, OverflowError, OSError):
            return None
    return max(seconds, 0.0) if abs(seconds) < float("inf") else None


def check_place(place: Place) -> None:
    """Refuse a place that a server could not hold: no id, off the globe, or of negative weight."""
    numbers = (place.lat, place.lon, place.weight)
    fits = all(map(math.isfinite, numbers)) and abs(place.lat) <= 90 and abs(place.lon) <= 180
    if not fits or place.weight < 0 or not place.id:
        raise BadInput(
            "a place must have an id, a latitude within ±90, a longitude within ±180, a weight of 0 or more. "
            f"Got {place.id!r}, {place.lat!r}, {place.lon!r}, {place.weight!r}."
        )


def clean_value(value: Any) -> Any:
    """What every server can hold: texts without NUL and halves of pairs, numbers that JSON knows."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {clean_text(str(name)): clean_value(each) for name, each in value.items()}
    return [clean_value(each) for each in value] if isinstance(value, list | tuple) else value
