"""OpenSearchEngine: places, or items of any kind, in an OpenSearch or Elasticsearch index."""

from __future__ import annotations

import json
import math
import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, urlsplit

from placings.core import BadInput
from placings.places.engines.requests import (
    TRANSIENT,
    Patience,
    Server,
    ServerFailed,
    check_place,
    check_request,
    clean_value,
)
from placings.places.place import Place
from placings.rerank import BadHit, Focus, Hit, HitReader

FAULTS = (AttributeError, KeyError, OverflowError, TypeError, ValueError)  # of a hit of another shape
LOGIN = "PLACINGS_OPENSEARCH_LOGIN"  # user:password
KEY = "PLACINGS_OPENSEARCH_KEY"  # an Elasticsearch API key
TEXTS = ("id", "name", "type", "locality", "street", "neighbourhood", "borough", "country", "zone")
PREFIXES = {"min_chars": 1, "max_chars": 6}
WHOLE = {"whole": {"type": "keyword", "normalizer": "folded", "ignore_above": 256}}
FOLDED = {"type": "text", "analyzer": "folded"}
WORDS = {**FOLDED, "copy_to": "everything"}
MAPPING: dict[str, Any] = {
    "settings": {
        "analysis": {
            "analyzer": {
                "folded": {"type": "custom", "tokenizer": "standard", "filter": ["lowercase", "asciifolding"]}
            },
            "normalizer": {"folded": {"type": "custom", "filter": ["lowercase", "asciifolding"]}},
        }
    },
    "mappings": {
        "dynamic": False,
        "properties": {
            **{name: {**WORDS, "index_prefixes": PREFIXES, "fields": WHOLE} for name in ("name", "names")},
            **dict.fromkeys(("locality", "street", "neighbourhood", "borough"), WORDS),
            **{name: {"type": "keyword"} for name in ("id", "type", "country", "zone")},
            "everything": {**FOLDED, "index_prefixes": PREFIXES},  # so that words of two fields meet in one
            "location": {"type": "geo_point"},
            "weight": {"type": "double"},
            "fields": {"type": "object", "enabled": False},
        },
    },
}


@dataclass(frozen=True)
class Boosts:
    """What counts how much in OpenSearch's score.

    score = text · (1 + popularity · ln(1 + weight) + distance · decay), where the exponential decay is ½ at
    `scale_km` from the focus, and text adds up `whole` for an equal name, `begins` for words of which the
    last may be only begun, and `fuzzy` for words within the edits that `fuzziness` allows.
    """

    whole: float = 6.0
    begins: float = 2.0
    fuzzy: float = 1.0
    popularity: float = 0.2
    distance: float = 2.0
    scale_km: float = 20.0
    fuzziness: str = "AUTO"


class OpenSearchEngine:
    """Places in an index of an OpenSearch or Elasticsearch server.

    `url` is the server's address, `index` the index's name. User and password are `login` ("user:password")
    or the environment's PLACINGS_OPENSEARCH_LOGIN; an Elasticsearch API key is `key` or the environment's
    PLACINGS_OPENSEARCH_KEY. Neither is shown. The text is only ever a value in the query, never its syntax.
    `index_places` makes an index of places. Any other index, a shop's say, is searched in the fields that
    `fields` names with their boosts ("title^3", "brand"); its hits have the fields of their documents,
    objects taken apart ("price.amount"), and `layers` are values of a field `type`. Of a long text the first
    512 characters are sent (the limit `text`). A hit that is off the globe, comes twice or has no finite
    score is left out, with a warning.
    """

    def __init__(
        self,
        url: str,
        index: str = "places",
        *,
        login: str | None = None,
        key: str | None = None,
        boosts: Boosts | None = None,
        fields: Sequence[str] | None = None,
        patience: Patience | None = None,
    ) -> None:
        if isinstance(fields, str) or (fields is not None and not all(map(str.strip, fields))):
            raise BadInput(f'fields must be names such as ["title^3", "brand"]. Got {fields!r}.')
        if not index or index != index.lower() or index[0] in "-_+." or set(index) & set(' "*\\<|,>/?#:%'):
            raise BadInput(
                "an index's name must be lower case, without spaces or any of \"*\\<|,>/?#:%, and not begin "
                f"with -, _, + or a dot. Got {index!r}."
            )
        self.index = index
        self.boosts = boosts or Boosts()
        self.fields = None if fields is None else tuple(fields)
        login, key = login or os.environ.get(LOGIN), key or os.environ.get(KEY)
        headers = _choose_headers(login, key)
        secrets = [key or "", login or "", *((login or "").split(":", 1)[1:])]
        self._server = Server(url, name="OpenSearch", headers=headers, secrets=secrets, patience=patience)
        self._reader = HitReader(f"OpenSearch at {self._server.address}", quote=self._server.quote)

    def __repr__(self) -> str:
        return f"OpenSearchEngine({self._server.address!r}, {self.index!r})"

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """At most `k` hits by falling score; an empty text, or `layers=[]`, finds nothing, asks nothing."""
        text = check_request(text, focus, k, layers)
        if not text.strip() or (layers is not None and not layers):
            return []
        if self.fields is None:
            body = build_query(text, focus, k, layers, self.boosts)
        else:
            body = build_field_query(text, self.fields, k, layers)
        answer = self._server.ask("POST", f"{self.index}/_search", body=body)
        if answer.get("timed_out"):
            raise self._server.complain("only a part, because it ran out of time")
        found = answer.get("hits")
        listed = found.get("hits") if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise self._server.complain("JSON that has no hits.hits")
        read = self._read_hit if self.fields is None else self._read_document
        try:
            return self._reader.read(listed[:k], read)
        except BadHit as error:
            problem = str(error)
        raise self._server.complain(problem)

    def index_places(
        self,
        places: Iterable[Place],
        *,
        replace: bool = False,
        batch: int = 1000,
        progress: Callable[[int], object] | None = None,
    ) -> int:
        """Send places in bulk, `batch` at a time, and give their number; the index is made if need be.

        A place whose id is there already is written over, so that a load that broke off can be run again.
        `replace=True` deletes the index first. `progress` hears how many were sent. Places that the server
        turns away for want of room are sent again; any other refusal is an error with the server's reason.
        """
        if batch < 1:
            raise BadInput(f"batch must be 1 or more. Got {batch!r}.")
        within = self._server.patience.load_deadline
        if replace:
            self._server.ask("DELETE", self.index, accept=(404,), seconds=within)
        made = self._server.ask("PUT", self.index, body=MAPPING, accept=(400,), seconds=within)
        if "error" in made and "resource_already_exists" not in json.dumps(made["error"]):
            told = self._server.quote(json.dumps(made["error"]))
            raise self._server.complain(f"a refusal to make the index: {told}")
        sent, waiting = 0, iter(places)
        while chunk := list(islice(waiting, batch)):
            self._send_bulk([(place.id, build_document(place)) for place in chunk])
            sent += len(chunk)
            if progress is not None:
                progress(sent)
        self._server.ask("POST", f"{self.index}/_refresh", seconds=within)
        return sent

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _send_bulk(self, documents: list[tuple[str, dict[str, Any]]]) -> None:
        patience = self._server.patience
        for attempt in range(patience.retries + 1):
            lines = [
                json.dumps(clean_value(part), ensure_ascii=False)
                for identity, document in documents
                for part in ({"index": {"_index": self.index, "_id": identity}}, document)
            ]
            content = ("\n".join(lines) + "\n").encode()
            answer = self._server.ask("POST", "_bulk", lines=content, seconds=patience.load_deadline)
            items = answer.get("items")
            if not isinstance(items, list) or len(items) != len(documents):
                raise self._server.complain("a bulk answer that does not list what was sent")
            documents = self._find_refused(documents, items)
            if not documents:
                return
            if attempt < patience.retries:
                self._server.wait(attempt)
        raise ServerFailed(
            f"OpenSearch at {self._server.address} had no room for {len(documents)} places, tried "
            f"{patience.retries + 1} times. Send less at once: batch=200."
        )

    def _find_refused(
        self, documents: list[tuple[str, dict[str, Any]]], items: list[Any]
    ) -> list[tuple[str, dict[str, Any]]]:
        """What is worth sending again; what is not raises."""
        again = []
        for pair, item in zip(documents, items, strict=True):
            told = item.get("index") if isinstance(item, dict) else None
            if not isinstance(told, dict) or not isinstance(told.get("status"), int):
                raise self._server.complain("a bulk answer without a status for each place")
            if told["status"] in TRANSIENT:
                again.append(pair)
            elif told["status"] >= 300:
                raise ServerFailed(
                    f"OpenSearch at {self._server.address} refused the place {pair[0]!r} with status "
                    f"{told['status']}: {self._server.quote(json.dumps(told.get('error')))}."
                )
        return again

    @staticmethod
    def _read_document(hit: Any, rank: int) -> Hit:
        try:
            return Hit(str(hit["_id"]), flatten(hit["_source"]), float(hit["_score"]), rank)
        except FAULTS as error:
            raise BadHit(
                f"without _id, _score or _source ({type(error).__name__} {str(error)[:200]})"
            ) from None

    @staticmethod
    def _read_hit(hit: Any, rank: int) -> Hit:
        try:
            told, score = hit["_source"], hit["_score"]
            location = told["location"]
            known = {name: str(told.get(name) or "") for name in TEXTS}
            known["id"] = str(told.get("id") or hit["_id"])
            names = told.get("names") or ()
            place = Place(
                **known,
                lat=float(location["lat"]),
                lon=float(location["lon"]),
                weight=float(told.get("weight") or 0.0),
                names=(names,) if isinstance(names, str) else tuple(map(str, names)),
                fields=dict(told.get("fields") or {}),
            )
            return place.to_hit(float(score), rank)
        except FAULTS as error:
            problem = f"{type(error).__name__} {str(error)[:200]}"
            raise BadHit(f"that is not a place with id, score and location: {problem}") from None


def build_query(
    text: str,
    focus: Focus | None = None,
    k: int = 40,
    layers: Sequence[str] | None = None,
    boosts: Boosts | None = None,
) -> dict[str, Any]:
    """The body of `_search`: a bool of equal name, words begun and fuzzy words, under a function_score.

    >>> body = build_query("haupt", layers=["station"])
    >>> body["size"], body["query"]["function_score"]["query"]["bool"]["filter"]
    (40, [{'terms': {'type': ['station']}}])
    """
    boosts = boosts or Boosts()
    text = text.strip()
    fields = ["name^3", "names^2", "locality", "street", "neighbourhood", "borough", "everything"]
    across = {"query": text, "fields": fields, "operator": "and"}
    matching: dict[str, Any] = {
        "minimum_should_match": 1,
        "should": [
            {"term": {"name.whole": {"value": text, "boost": boosts.whole}}},
            {"term": {"names.whole": {"value": text, "boost": 0.8 * boosts.whole}}},
            {"multi_match": {**across, "type": "bool_prefix", "boost": boosts.begins}},
            {
                "multi_match": {
                    **across,
                    "type": "best_fields",
                    "fuzziness": boosts.fuzziness,
                    "prefix_length": 1,
                    "boost": boosts.fuzzy,
                }
            },
        ],
    }
    if layers is not None:
        matching["filter"] = [{"terms": {"type": list(layers)}}]
    popularity = {"field": "weight", "modifier": "ln1p", "missing": 0}
    functions: list[dict[str, Any]] = [
        {"weight": 1.0},
        {"field_value_factor": popularity, "weight": boosts.popularity},
    ]
    if focus is not None:
        origin = {"lat": float(focus[0]), "lon": math.remainder(float(focus[1]), 360.0)}
        decay = {"origin": origin, "scale": f"{boosts.scale_km:g}km", "decay": 0.5}
        functions.append({"exp": {"location": decay}, "weight": boosts.distance})
    scored = {
        "query": {"bool": matching},
        "functions": functions,
        "score_mode": "sum",
        "boost_mode": "multiply",
    }
    return {"size": k, "query": {"function_score": scored}}


def build_field_query(
    text: str, fields: Sequence[str], k: int = 40, layers: Sequence[str] | None = None
) -> dict[str, Any]:
    """The body of `_search` for an index of any mapping: all words in these fields, the last one begun.

    >>> build_field_query("red la", ["title^3"])["query"]["bool"]["must"][0]["multi_match"]["type"]
    'bool_prefix'
    """
    words = {"query": text.strip(), "fields": list(fields), "type": "bool_prefix", "operator": "and"}
    matching: dict[str, Any] = {"must": [{"multi_match": words}]}
    if layers is not None:
        matching["filter"] = [{"terms": {"type": list(layers)}}]
    return {"size": k, "query": {"bool": matching}}


def flatten(document: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """A document's fields with objects taken apart, as the join of logs does it.

    >>> flatten({"title": "Lamp", "price": {"amount": 9.5}})
    {'title': 'Lamp', 'price.amount': 9.5}
    """
    found: dict[str, Any] = {}
    for name, value in document.items():
        if isinstance(value, Mapping):
            found |= flatten(value, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = value
    return found


def build_document(place: Place) -> dict[str, Any]:
    """A place as the index holds it: its own fields, with `location` for latitude and longitude.

    >>> build_document(Place("1", "Ulm", 48.4, 10.0, weight=120.0))["location"]
    {'lat': 48.4, 'lon': 10.0}
    """
    check_place(place)
    told = asdict(place)
    location = {"lat": told.pop("lat"), "lon": told.pop("lon")}
    return {**told, "names": list(place.names), "location": location}


def _choose_headers(login: str | None, key: str | None) -> Mapping[str, str]:
    if key:
        return {"Authorization": f"ApiKey {key}"}
    if login:
        if ":" not in login:
            raise BadInput(f"a login must be user:password (it is read from {LOGIN}). Got no colon in it.")
        return {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
    return {}


def open_opensearch(address: str, **settings: Any) -> OpenSearchEngine:
    """The engine behind `opensearch+http://host:9200/index`, or `…/index?fields=title^3,brand`."""
    parts = urlsplit(address)
    above, _, index = parts.path.rstrip("/").rpartition("/")
    if not index:
        raise BadInput(
            "the address must end in the index's name, as in opensearch+http://host:9200/places. Got "
            f"{parts.hostname!r} only."
        )
    asked = parse_qs(parts.query)
    if set(asked) - {"fields"}:
        raise BadInput(f"an index's address takes ?fields=… and nothing else. Got {', '.join(asked)}.")
    if "fields" in asked:
        settings = {"fields": [name for each in asked["fields"] for name in each.split(",")], **settings}
    return OpenSearchEngine(parts._replace(path=above, query="").geturl(), index, **settings)
