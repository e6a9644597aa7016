"""A model in front of an engine: features, a ranker and a guard, saved and loaded as one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadBundle, BadInput, Floats, Ints, read_bundle, write_bundle
from placings.features import FeatureSet
from placings.logs import PAST, look_up_clicks
from placings.places import Engine, Focus, Hit, Place
from placings.rankers import Ranker, load
from placings.rerank.guard import Guard

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1
FEATURES, GUARD, CLICKS = "place_features.json", "guard.json", "clicks.json"
OWN_FIELDS = tuple(each.name for each in fields(Place) if each.name not in ("id", "names", "fields"))


def describe_hit(hit: Hit) -> dict[str, Any]:
    """A hit as the log writes it and as features read it: every field of the place, and what else it has.

    What a source says beyond a place's own fields (`Place.fields`) stands beside them under its own name; a
    place's own fields, its id, the rank and the score go before it.
    """
    place = hit.place
    own = {name: getattr(place, name) for name in OWN_FIELDS}
    return {**place.fields, **own, "item_id": place.id, "position": hit.rank, "score": hit.score}


@dataclass(frozen=True, eq=False)
class Reranker:
    """Puts what an engine found into the order that was learned.

    `rerank` gives the hits back, best first, each with the rank and score that the engine gave it; `guard`,
    where there is one, leaves kinds of searches in the engine's order in which the model had not shown itself
    at least as good. `clicks` says how often each place was clicked in the log that it learned from: features
    use it where rows or requests do not tell themselves.
    """

    features: FeatureSet
    ranker: Ranker
    guard: Guard | None = None
    clicks: Mapping[str, int] = field(default_factory=dict)

    def score(self, rows: pd.DataFrame) -> Floats:
        """Scores of a rows table, in its order; rows of a search must stand together."""
        if self.clicks and PAST not in rows:
            rows = rows.assign(**{PAST: look_up_clicks(rows["item_id"].astype(str).tolist(), self.clicks)})
        data = self.features.to_ranking(rows)
        scores = np.asarray(self.ranker.predict(data), dtype=np.float64)
        if self.guard is None:
            return scores
        return self.guard.apply(scores, rows, data.offsets)

    def rerank(
        self,
        text: str,
        hits: Sequence[Hit],
        *,
        focus: Focus | None = None,
        time: datetime | None = None,
        target: str | None = None,
        platform: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> list[Hit]:
        """The hits in their new order.

        `time` is that of the search, now if none is given. `context` is what else is known of the search,
        under the names that the log has for it.
        """
        if len(hits) < 2:
            return list(hits)
        known: dict[str, Any] = {
            **(context or {}), "query": text, "time": _as_utc(time), "target": target, "platform": platform,
            "focus_lat": np.nan if focus is None else focus[0],
            "focus_lon": np.nan if focus is None else focus[1],
        }  # fmt: skip
        return [hits[row] for row in self.order(known, [describe_hit(hit) for hit in hits])]

    def order(self, context: Mapping[str, Any], items: Sequence[Mapping[str, Any]]) -> Ints:
        """The rows of one live list, best first: the way of every request, `[items]`.

        `context` holds what is known of the search and `items` the fields of each item in the engine's order,
        both under the names that the log has for them. An item that does not say its `past_clicks` has those
        of the log that was learned from; items without `position` count from 1.
        """
        if not items:
            return np.zeros(0, dtype=np.int64)
        if isinstance(context.get("time"), datetime):
            context = {**context, "time": _as_utc(context["time"])}
        rows = [{"position": place, **item} for place, item in enumerate(items, 1)]
        if self.clicks:
            rows = [{PAST: float(self.clicks.get(str(row.get("item_id")), 0)), **row} for row in rows]
        matrix = self.features.transform_request(context, rows)
        scores = np.asarray(self.ranker.predict(matrix, np.zeros(len(rows), dtype=np.int64)))  # one list
        if self.guard is not None:
            names = dict.fromkeys(name for row in rows for name in row)
            shared = {name: [value] * len(rows) for name, value in context.items()}
            columns = {name: [row.get(name, context.get(name)) for row in rows] for name in names}
            scores = self.guard.apply(scores, {**shared, **columns}, np.array([0, len(rows)]))
        return np.argsort(-scores, kind="stable")

    def wrap(self, engine: Engine) -> RerankedEngine:
        """The engine with this in front of it: an engine again."""
        return RerankedEngine(engine, self)

    def save(self, path: str | Path, *, metrics: Mapping[str, float] | None = None) -> str:
        """Two bundles in a folder: `model`, and `reranker`, which pins it; its digest pins the whole."""
        path = Path(path)
        digest = self.ranker.save(path / "model", metrics=metrics)
        files = {FEATURES: _as_json(self.features.to_state())}
        if self.guard is not None:
            files[GUARD] = _as_json(self.guard.to_state())
        if self.clicks:
            files[CLICKS] = _as_json(dict(self.clicks))
        return write_bundle(path / "reranker", {"reranker": VERSION, "model": digest}, files)


@dataclass(frozen=True, eq=False)
class RerankedEngine:
    """An engine whose first `depth` hits are put into a learned order."""

    engine: Engine
    reranker: Reranker
    depth: int = 40

    def search(
        self,
        text: str,
        focus: Focus | None = None,
        k: int = 40,
        layers: Sequence[str] | None = None,
        *,
        time: datetime | None = None,
        target: str | None = None,
        platform: str | None = None,
        context: Mapping[str, Any] | None = None,
    ) -> list[Hit]:
        """At most `k` hits, best first; their scores and ranks are those of the engine below.

        `time`, `target`, `platform` and `context` are what the re-ranker is told of the search, see `rerank`.
        """
        found = self.engine.search(text, focus, max(k, self.depth), layers)
        head, tail = found[: self.depth], found[self.depth :]
        known: dict[str, Any] = {"time": time, "target": target, "platform": platform, "context": context}
        return [*self.reranker.rerank(text, head, focus=focus, **known), *tail][:k]


def load_reranker(path: str | Path, *, digest: str | None = None) -> Reranker:
    """What `Reranker.save` wrote; anything else, or anything changed since, is refused by name.

    `digest`, as `save` returned it, pins the re-ranker: any other one is refused.
    """
    path = Path(path)
    bundle = read_bundle(path / "reranker", digest=digest)
    if bundle.manifest.get("reranker") != VERSION:
        raise BadBundle(bundle.path, f"holds no re-ranker of version {VERSION}.")
    if FEATURES not in bundle.files:
        raise BadBundle(bundle.path, f"has no {FEATURES}.")
    ranker = load(path / "model", digest=str(bundle.manifest.get("model")))
    features = FeatureSet.from_state(json.loads(bundle.files[FEATURES]))
    guard = Guard.from_state(json.loads(bundle.files[GUARD])) if GUARD in bundle.files else None
    clicks = json.loads(bundle.files[CLICKS]) if CLICKS in bundle.files else {}
    if not isinstance(clicks, dict) or not all(isinstance(count, int) for count in clicks.values()):
        raise BadBundle(bundle.path, f"{CLICKS} must map items to whole numbers.")
    return Reranker(features, ranker, guard, clicks)


def _as_utc(time: datetime | None) -> datetime:
    if time is None:
        time = datetime.now(UTC)
    if not isinstance(time, datetime):
        raise BadInput(f"time must be a datetime. Got {time!r}.")
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _as_json(state: Mapping[str, Any]) -> bytes:
    return json.dumps(state, ensure_ascii=False).encode()
