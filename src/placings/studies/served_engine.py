"""`placings serve` as a process, and people who search through it: an engine whose clicks are sent back."""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from placings.core import BadInput, PlacingsError, need_library
from placings.rerank import Focus, Hit

PROGRAM = "from placings.cli.main import run; run()"
SERVING = re.compile(r"serving on (http://\S+)")
METRICS = re.compile(r"metrics on (http://\S+)/metrics")
TOKEN = "PLACINGS_ADMIN_TOKEN"
PATIENCE = 120.0  # seconds for a start, a reload, an end
TRIES = 20  # of an event that nobody acknowledged
LONGEST_WAIT = 5.0  # seconds between two tries


class ServiceFailed(PlacingsError, RuntimeError):
    """The service did not start, did not answer, or did not take a model."""


class ServiceProcess:
    """`placings serve` on free ports of this machine, with a token for reloads; ended when a `with` is left.

    `words` are more flags. What it logs is in a file beside `data`.
    """

    def __init__(self, model: Path, engine: str, data: Path, model_root: Path, words: Sequence[str]) -> None:
        self.token = secrets.token_urlsafe(24)
        self.log = data.with_name(f"{data.name}.log")
        told = [
            "serve", "--model", str(model), "--engine", engine, "--data", str(data), "--port", "0",
            "--admin-port", "0", "--model-root", str(model_root), *words,
        ]  # fmt: skip
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *told],
                stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, TOKEN: self.token},
            )  # fmt: skip
        try:
            self.url, self.admin = self._read_addresses()
        except BaseException:
            self.end()
            raise

    def _read_addresses(self) -> tuple[str, str]:
        """What it says when it is ready; one that says nothing for too long is ended."""
        assert self.process.stdout is not None
        watch = threading.Timer(PATIENCE, self.process.kill)
        watch.start()
        try:
            said = ""
            while not (METRICS.search(said) and SERVING.search(said)):
                line = self.process.stdout.readline()
                if not line:
                    told = self.log.read_text(encoding="utf-8", errors="replace")[-500:]
                    raise ServiceFailed(f"the service did not start. It said: {told!r}.")
                said += line
        finally:
            watch.cancel()
        serving, metrics = SERVING.search(said), METRICS.search(said)
        assert serving is not None
        assert metrics is not None
        threading.Thread(target=_drain, args=(self.process.stdout,), daemon=True).start()
        return serving[1], metrics[1]

    def reload(self, model: Path, digest: str) -> None:
        """Let it serve another model, pinned by its digest."""
        httpx = need_library("httpx", "the live loop", "places")
        reply = httpx.post(
            f"{self.admin}/v1/reload",
            json={"model": str(model), "digest": digest},
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=PATIENCE,
        )
        if reply.status_code != 200:
            raise ServiceFailed(f"the service did not take {model}: {reply.text[:300]}")

    def end(self) -> int:
        """Ask it to leave, and wait; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


class ServedEngine:
    """An engine behind a service, as a client sees it: lists over HTTP, clicks sent back as feedback.

    It is the simulator's engine and its visitor. Each click has an id and is sent until it is acknowledged;
    of a share of the acknowledgements, `unheard`, the client acts as if they were lost on the way, and sends
    the click again under the same id. `acknowledged` are the ids of clicks that the service took, `lists`
    counts what was shown, `fallbacks` the lists by why they were the engine's, `models` by who ordered them.
    """

    def __init__(self, url: str, *, unheard: float = 0.0) -> None:
        httpx = need_library("httpx", "the live loop", "places")
        self._client = httpx.Client(base_url=url, timeout=30.0)
        self._errors = httpx.TransportError
        self._unheard = unheard
        self._who: dict[str, str] = {}
        self._clicks = 0
        self.search_id = ""
        self.positions: dict[str, int] = {}
        self.acknowledged: list[str] = []
        self.again = 0
        self.lists = 0
        self.fallbacks: Counter[str] = Counter()
        self.models: Counter[str] = Counter()

    def begin(self, person: str, session: str) -> None:
        """The searches that follow are this person's."""
        self._who = {"X-Placings-User": person, "X-Placings-Session": session}

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """The list that the service shows; a service that is busy is asked again."""
        asked: dict[str, str] = {"text": text, "size": str(k)}
        if focus is not None:
            asked |= {"focus.point.lat": repr(focus[0]), "focus.point.lon": repr(focus[1])}
        if layers is not None:
            asked["layers"] = ",".join(layers)
        told = self._ask("GET", "/v1/autocomplete", 200, params=asked)
        about = told["geocoding"]["placings"]
        hits = [read_feature(feature, rank) for rank, feature in enumerate(told["features"], 1)]
        self.search_id, self.positions = about["search_id"], {hit.id: hit.rank for hit in hits}
        self.lists += 1
        if about["fallback"]:
            self.fallbacks[about["fallback"]] += 1
        elif about["model"]:
            self.models[about["model"]] += 1
        return hits

    def click(self, item: str) -> None:
        """Send a click on the last list until it is acknowledged."""
        self._clicks += 1
        event_id = f"click-{self._clicks:06d}"
        event = {
            "event_id": event_id, "search_id": self.search_id, "item_id": item,
            "action": "click", "position": self.positions[item],
        }  # fmt: skip
        sent = self._ask("POST", "/v1/feedback", 202, json={"events": [event]})
        if self._unheard and self._clicks % round(1 / self._unheard) == 0:
            self.again += 1
            again = self._ask("POST", "/v1/feedback", 202, json={"events": [event]})
            if (again["new"], again["known"]) != (0, 1):
                raise ServiceFailed(f"a click that was sent twice was not known the second time: {again}.")
        if sent["new"] + sent["known"] != 1:
            raise ServiceFailed(f"one click was sent, and the service took {sent}.")
        self.acknowledged.append(event_id)

    def _ask(self, method: str, path: str, wanted: int, **told: Any) -> dict[str, Any]:
        why = ""
        for number in range(TRIES):
            try:
                reply = self._client.request(method, path, headers=self._who, **told)
            except self._errors as error:
                why = str(error)
                time.sleep(min(0.05 * 2**number, LONGEST_WAIT))
                continue
            if reply.status_code == wanted:
                return dict(reply.json())
            why = f"{reply.status_code} {reply.text[:200]}"
            if reply.status_code not in (429, 502, 503, 504):
                break
            time.sleep(min(_read_wait(reply.headers.get("retry-after")), LONGEST_WAIT))
        raise ServiceFailed(f"{path} was not answered: {why}")

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def read_feature(feature: Mapping[str, Any], rank: int) -> Hit:
    """A hit of a GeoJSON feature: what people see of it, which is its name and where it lies.

    >>> told = {"geometry": {"coordinates": [8.4, 49.0]}, "properties": {"id": "7", "name": "Karlsruhe"}}
    >>> read_feature(told, 1).fields
    {'name': 'Karlsruhe', 'lat': 49.0, 'lon': 8.4}
    """
    properties = feature["properties"]
    fields = {"name": properties["name"]}
    if feature["geometry"] is not None:
        lon, lat = feature["geometry"]["coordinates"]
        fields |= {"lat": lat, "lon": lon}
    if not isinstance(properties["id"], str):
        raise BadInput(f"a feature's id must be a text. Got {properties['id']!r}.")
    return Hit(properties["id"], fields, float("nan"), rank)


def _read_wait(told: str | None) -> float:
    try:
        return float(told or 1.0)
    except ValueError:
        return 1.0


def _drain(stream: IO[str]) -> None:
    """Read what nobody looks at, so that the writer never waits."""
    with suppress(ValueError):
        for _ in stream:
            pass
    stream.close()
