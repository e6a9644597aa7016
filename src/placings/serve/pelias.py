"""Pelias' own way to ask and to answer: a client of Pelias needs only another host.

`read_query` takes the parameters of `/v1/search` and `/v1/autocomplete`; `write_places` and `write_errors`
give what Pelias gives, GeoJSON with a `geocoding` part beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import time
from typing import Any, TypeAlias

import orjson

from placings.core import BadInput
from placings.rerank import Focus, Hit
from placings.serve.settings import MOST_LETTERS, MOST_RESULTS

ATTRIBUTION = "/attribution"
SIZE = 10  # as Pelias, if nothing is said
FIELDS = (
    "country", "country_a", "country_code", "region", "region_a", "county", "locality", "localadmin",
    "borough", "neighbourhood", "street", "housenumber", "postalcode", "continent", "confidence",
    "match_type", "accuracy",
)  # fmt: skip
UNKNOWN_LAYER = "venue"
MOST_KEPT = 20_000  # features in memory, some 1.5 kilobytes each
KeptFeature: TypeAlias = tuple[Mapping[str, Any], Any, list[float] | None]  # fields, JSON, point


@dataclass(frozen=True)
class Query:
    """A search as a Pelias client asks it."""

    text: str
    size: int = SIZE
    focus: Focus | None = None
    layers: tuple[str, ...] | None = None
    lang: str | None = None


def read_query(told: Mapping[str, str]) -> Query:
    """The parameters of a search; the first that cannot be used is named, as Pelias names it.

    >>> read_query({"text": "karls", "size": "5", "focus.point.lat": "49", "focus.point.lon": "8.4"})
    Query(text='karls', size=5, focus=(49.0, 8.4), layers=None, lang=None)
    """
    text = told.get("text", "").strip()
    if not text:
        raise BadInput("invalid param 'text': text length, must be >0")
    if len(text) > MOST_LETTERS:
        raise BadInput(
            f"invalid param 'text': text length, must be {MOST_LETTERS} or fewer. Got {len(text):,}."
        )
    layers = (
        tuple(name.strip() for name in told["layers"].split(",") if name.strip())
        if "layers" in told
        else None
    )
    if layers is not None and (not layers or len(layers) > 50 or any(len(name) > 60 for name in layers)):
        raise BadInput("invalid param 'layers': it must name 1 to 50 layers, with commas between them")
    return Query(text, _read_size(told.get("size")), _read_focus(told), layers, _read_lang(told.get("lang")))


def _read_size(told: str | None) -> int:
    """From 1 to 40: Pelias takes what is beyond as the nearest, and what is no number as 10."""
    if told is None:
        return SIZE
    try:
        return min(max(int(told[:20]), 1), MOST_RESULTS)
    except ValueError:
        return SIZE


def _read_focus(told: Mapping[str, str]) -> Focus | None:
    names = ("focus.point.lat", "focus.point.lon")
    given = [told.get(name) for name in names]
    if given == [None, None]:
        return None
    degrees = []
    for name, value, most in zip(names, given, (90.0, 180.0), strict=True):
        if value is None:
            raise BadInput(f"missing param '{name}': focus.point needs lat and lon")
        try:
            number = float(value[:40])
        except ValueError:
            number = math.nan
        if not abs(number) <= most:
            raise BadInput(f"invalid param '{name}': it must be a number within ±{most:g}")
        degrees.append(number)
    return degrees[0], degrees[1]


def _read_lang(told: str | None) -> str | None:
    return told[:35] if told else None


class KeptFeatures:
    """Hits as the JSON of their features, the last ones kept: most lists show places that were shown before.

    A hit whose fields changed since is written anew. Once `most` / 2 hits were used, those that were used
    before them and not since are forgotten: memory fills once and then stays.
    """

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._half = max(1, most // 2)
        self._new: dict[str, KeptFeature] = {}
        self._old: dict[str, KeptFeature] = {}

    def __len__(self) -> int:
        return len(self._new.keys() | self._old.keys())

    def write(self, hit: Hit) -> tuple[Any, list[float] | None]:
        """The feature for orjson, and its point."""
        kept = self._new.get(hit.id)
        if kept is None or not _is_same(kept[0], hit.fields):
            kept = self._find_old(hit) or self._make(hit)
            if len(self._new) >= self._half:
                self._new, self._old = {}, self._new
            self._new[hit.id] = kept
        return kept[1], kept[2]

    def _find_old(self, hit: Hit) -> KeptFeature | None:
        kept = self._old.get(hit.id)
        return kept if kept is not None and _is_same(kept[0], hit.fields) else None

    def _make(self, hit: Hit) -> KeptFeature:
        feature = _write_feature(hit)
        shown = orjson.Fragment(orjson.dumps(feature, option=orjson.OPT_SERIALIZE_NUMPY))
        return hit.fields, shown, _find_point(feature)


def write_places(
    query: Query, hits: Sequence[Hit], about: Mapping[str, Any], kept: KeptFeatures | None = None
) -> dict[str, Any]:
    """The hits as a FeatureCollection; `about` is what placings says of the search, under its own name.

    With `kept` the features are JSON already, for orjson alone.
    """
    if kept is not None:
        written = [kept.write(hit) for hit in hits]
    else:
        plain = [_write_feature(hit) for hit in hits]
        written = [(feature, _find_point(feature)) for feature in plain]
    found: dict[str, Any] = {
        "geocoding": {
            "version": "0.2",
            "attribution": ATTRIBUTION,
            "query": _write_query(query),
            "engine": {"name": "placings", "author": "placings", "version": "1.0"},
            "timestamp": int(time() * 1000),
            "placings": dict(about),
        },
        "type": "FeatureCollection",
        "features": [feature for feature, _ in written],
    }
    points = [point for _, point in written if point is not None]
    if points:
        lons, lats = zip(*points, strict=True)
        found["bbox"] = [min(lons), min(lats), max(lons), max(lats)]
    return found


def write_errors(text: str, *problems: str) -> dict[str, Any]:
    """What Pelias answers to a request that it cannot use."""
    return {
        "geocoding": {
            "version": "0.2",
            "attribution": ATTRIBUTION,
            "query": {"text": text[:MOST_LETTERS]} if text else {},
            "errors": list(problems),
            "timestamp": int(time() * 1000),
        },
        "type": "FeatureCollection",
        "features": [],
    }


def _write_query(query: Query) -> dict[str, Any]:
    told: dict[str, Any] = {
        "text": query.text,
        "size": query.size,
        "private": False,
        "querySize": MOST_RESULTS,
    }
    if query.focus is not None:
        told |= {"focus.point.lat": query.focus[0], "focus.point.lon": query.focus[1]}
    if query.layers is not None:
        told["layers"] = list(query.layers)
    if query.lang:
        told["lang"] = {"name": query.lang, "iso6391": query.lang[:2], "defaulted": False}
    return told


def _write_feature(hit: Hit) -> dict[str, Any]:
    known = hit.fields
    lat, lon = known.get("lat"), known.get("lon")
    placed = _is_degree(lat) and _is_degree(lon)
    layer = str(known.get("layer") or known.get("type") or UNKNOWN_LAYER)
    source = str(known.get("source") or "placings")
    label = ", ".join(
        dict.fromkeys(str(part) for part in (hit.name, known.get("locality"), known.get("country")) if part)
    )
    properties = {
        "id": hit.id,
        "gid": hit.id if hit.id.count(":") >= 2 else f"{source}:{layer}:{hit.id}",
        "layer": layer,
        "source": source,
        "source_id": hit.id,
        "name": hit.name,
        "label": str(known.get("label") or label),
        **{name: known[name] for name in FIELDS if known.get(name) not in (None, "")},
    }
    point = {"type": "Point", "coordinates": [lon, lat]} if placed else None
    return {"type": "Feature", "geometry": point, "properties": properties}


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # an array among the fields of somebody's own engine
        return False


def _find_point(feature: Mapping[str, Any]) -> list[float] | None:
    where = feature["geometry"]
    return None if where is None else where["coordinates"]


def _is_degree(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
