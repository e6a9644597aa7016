"""A model in front of an engine: features, a ranker and a guard, saved and loaded as one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import Floats
from placings.bundle import read_bundle, write_bundle
from placings.clicks.histories import PAST, look_up_clicks
from placings.errors import BadBundle, BadInput
from placings.evaluation.guard import Guard
from placings.features.spec import FeatureSet
from placings.places.place import Engine, Focus, Hit
from placings.rankers.bundles import load
from placings.rankers.estimator import Ranker

if TYPE_CHECKING:
    import pandas as pd

VERSION = 1
FEATURES, GUARD, CLICKS = "place_features.json", "guard.json", "clicks.json"
ITEM_FIELDS = (
    "name", "locality", "street", "neighbourhood", "borough", "type", "lat", "lon", "weight", "zone",
)  # fmt: skip


def describe_hit(hit: Hit) -> dict[str, Any]:
    """A hit as the log writes it and as features read it."""
    fields = {name: getattr(hit.place, name) for name in ITEM_FIELDS}
    return {"item_id": hit.place.id, "position": hit.rank, "score": hit.score, **fields}


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
    ) -> list[Hit]:
        """The hits in their new order. `time` is that of the search, now if none is given."""
        if len(hits) < 2:
            return list(hits)
        context: dict[str, Any] = {
            "search_id": "", "query": text, "time": _as_utc(time), "target": target, "platform": platform,
            "focus_lat": np.nan if focus is None else focus[0],
            "focus_lon": np.nan if focus is None else focus[1],
        }  # fmt: skip
        items = [describe_hit(hit) for hit in hits]
        if self.clicks:
            for item in items:
                item[PAST] = float(self.clicks.get(item["item_id"], 0))
        matrix = self.features.transform_request(context, items)
        scores = np.asarray(self.ranker.predict(matrix, np.zeros(len(items), dtype=np.int64)))  # one list
        if self.guard is not None:
            columns = {name: [item[name] for item in items] for name in items[0]}
            rows = {**columns, **{name: [value] * len(items) for name, value in context.items()}}
            scores = self.guard.apply(scores, rows, np.array([0, len(items)]))
        return [hits[row] for row in np.argsort(-scores, kind="stable")]

    def wrap(self, engine: Engine) -> RerankedEngine:
        """The engine with this in front of it: an engine again."""
        return RerankedEngine(engine, self)

    def save(self, path: str | Path, *, metrics: Mapping[str, float] | None = None) -> None:
        """Two bundles in a folder: `model`, and `reranker`, which pins it."""
        path = Path(path)
        digest = self.ranker.save(path / "model", metrics=metrics)
        files = {FEATURES: _as_json(self.features.to_state())}
        if self.guard is not None:
            files[GUARD] = _as_json(self.guard.to_state())
        if self.clicks:
            files[CLICKS] = _as_json(dict(self.clicks))
        write_bundle(path / "reranker", {"reranker": VERSION, "model": digest}, files)


@dataclass(frozen=True, eq=False)
class RerankedEngine:
    """An engine whose first `depth` hits are put into a learned order."""

    engine: Engine
    reranker: Reranker
    depth: int = 40

    def search(
        self, text: str, focus: Focus | None = None, k: int = 40, layers: Sequence[str] | None = None
    ) -> list[Hit]:
        """At most `k` hits, best first; their scores and ranks are those of the engine below."""
        found = self.engine.search(text, focus, max(k, self.depth), layers)
        head, tail = found[: self.depth], found[self.depth :]
        return [*self.reranker.rerank(text, head, focus=focus), *tail][:k]


def load_reranker(path: str | Path) -> Reranker:
    """What `Reranker.save` wrote; anything else, or anything changed since, is refused by name."""
    path = Path(path)
    bundle = read_bundle(path / "reranker")
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
