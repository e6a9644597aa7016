"""PeliasEngine: a Pelias server's `/v1/search` and `/v1/autocomplete` as an engine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from placings.core import UnknownName
from placings.places.engines.requests import Patience, Server, check_request
from placings.places.place import Place
from placings.rerank import BadHit, Focus, Hit, HitReader

KEY = "PLACINGS_PELIAS_KEY"
ENDPOINTS = ("auto", "autocomplete", "search")
SCORES = ("rank", "confidence")
TAKEN = {"gid", "id", "name", "layer", "locality", "street", "neighbourhood", "borough"}


class PeliasEngine:
    """Places from a Pelias server, in its order.

    `url` is the server's address, without `/v1`. The key, where the server wants one, is `key` or the
    environment's PLACINGS_PELIAS_KEY; it is sent as `api_key` and never shown. `endpoint="auto"` asks
    `/v1/autocomplete` for texts of at most `short` characters, since `/v1/search` wants whole words, and
    `/v1/search` for longer ones; `"search"` and `"autocomplete"` ask always the same.

    Pelias does not tell the score that it orders by. `score="rank"` gives 1/rank; `score="confidence"` its
    confidence, 0 where it gives none (as autocomplete often does), which need not fall along the list.
    Either way `confidence`, `distance` and whatever else Pelias says are in `place.fields`. A place's `id` is
    its gid, its `type` the layer, its `weight` the popularity or population where there is one, else 0.
    Pelias itself gives 40 places at most. An empty text, or no layer at all (`layers=[]`),
    finds nothing and asks nothing. Of a long text the first 512 characters are sent (the limit `text`). A
    place that is off the globe or comes twice is left out, with a warning.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        endpoint: str = "auto",
        short: int = 10,
        score: str = "rank",
        patience: Patience | None = None,
    ) -> None:
        if endpoint not in ENDPOINTS:
            raise UnknownName("Pelias endpoint", endpoint, ENDPOINTS)
        if score not in SCORES:
            raise UnknownName("Pelias score", score, SCORES)
        key = os.environ.get(KEY) if key is None else key
        self.endpoint, self.short, self.score = endpoint, short, score
        self._server = Server(url, name="Pelias", params={"api_key": key} if key else None, patience=patience)
        self._reader = HitReader(f"Pelias at {self._server.address}", quote=self._server.quote)

    def __repr__(self) -> str:
        return f"PeliasEngine({self._server.address!r})"

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """At most `k` hits in the server's order; `layers` are Pelias' own: venue, address, locality, …"""
        text = check_request(text, focus, k, layers)
        if not text.strip() or (layers is not None and not layers):
            return []
        answer = self._server.get(self._choose_path(text), self._choose_params(text, focus, k, layers))
        features = answer.get("features")
        if answer.get("type") != "FeatureCollection" or not isinstance(features, list):
            raise self._server.complain("JSON that is not a GeoJSON FeatureCollection")
        try:
            return self._reader.read(features[:k], self._read_hit)
        except BadHit as error:
            problem = str(error)
        raise self._server.complain(problem)

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _choose_path(self, text: str) -> str:
        short = len(text.strip()) <= self.short
        endpoint = ("autocomplete" if short else "search") if self.endpoint == "auto" else self.endpoint
        return f"v1/{endpoint}"

    def _choose_params(
        self, text: str, focus: Focus | None, k: int, layers: Sequence[str] | None
    ) -> dict[str, str]:
        params = {"text": text.strip(), "size": str(k)}
        if focus is not None:
            params |= {"focus.point.lat": repr(float(focus[0])), "focus.point.lon": repr(float(focus[1]))}
        if layers is not None:
            params["layers"] = ",".join(layers)
        return params

    def _choose_score(self, place: Place, rank: int) -> float:
        if self.score == "rank":
            return 1.0 / rank
        confidence = place.fields.get("confidence")
        return float(confidence) if isinstance(confidence, int | float) else 0.0

    def _read_hit(self, feature: Any, rank: int) -> Hit:
        place = self._read_place(feature)
        return place.to_hit(self._choose_score(place, rank), rank)

    def _read_place(self, feature: Any) -> Place:
        try:
            told = feature["properties"]
            lon, lat = (float(number) for number in feature["geometry"]["coordinates"][:2])
            identity = str(told["gid"] if "gid" in told else told["id"])
            name = str(told["name"])
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise BadHit(f"without gid, name or point ({type(error).__name__} {str(error)[:200]})") from None
        weight = next(
            (told[name] for name in ("popularity", "population") if isinstance(told.get(name), int | float)),
            0,
        )
        return Place(
            id=identity,
            name=name,
            lat=lat,
            lon=lon,
            type=str(told.get("layer") or ""),
            locality=str(told.get("locality") or ""),
            street=str(told.get("street") or ""),
            neighbourhood=str(told.get("neighbourhood") or ""),
            borough=str(told.get("borough") or ""),
            country=str(told.get("country_code") or told.get("country_a") or ""),
            weight=max(float(weight), 0.0),
            fields={key: value for key, value in told.items() if key not in TAKEN},
        )


def open_pelias(address: str, **settings: Any) -> PeliasEngine:
    """The engine behind `pelias+http://host:4000`."""
    return PeliasEngine(address, **settings)
