"""Cells of the coverage study: one degradation each, kept as JSON, whole or not at all, and joined."""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from placings.arrays import Floats
from placings.errors import PlacingsWarning
from placings.evaluation.importance import Importance
from placings.evaluation.rendering import write_json
from placings.evaluation.runs import as_plain, write_text
from placings.feco.effects import Degradation, Effect, join_degradations
from placings.feco.relations import Correlation, Correlations

FIELDS = ("feature", "chosen", "where", "drop", "draws", "units", "coverage_before", "coverage_after")


def keep_cell(
    folder: Path | None,
    name: str,
    key: Mapping[str, Any],
    make: Callable[[], dict[str, Any]],
    stands: Callable[[Mapping[str, Any]], bool] = lambda cell: True,
) -> dict[str, Any]:
    """What `make` gives, or what was kept of it under the same key; a damaged file is made anew, and said.

    So is one of which `stands` says that it does not hold any more.
    """
    if folder is None:
        return dict(json.loads(write_json(make())))
    digest = hashlib.sha256(json.dumps(as_plain(key), sort_keys=True).encode()).hexdigest()[:16]
    short = re.sub(r"[^A-Za-z0-9]+", "_", name)[:80]
    path = folder / f"{short}-{digest}.json"
    if path.is_file():
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            facts = None
        if not isinstance(facts, dict):
            warnings.warn(f"{path} is damaged; it is made anew.", PlacingsWarning, stacklevel=2)
        elif stands(facts):
            return facts
    text = write_json(make())
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, text + "\n")
    return dict(json.loads(text))


def pack_degradation(found: Degradation) -> dict[str, Any]:
    """A degradation with the values of each query, as plain values; NaN becomes null."""
    return {
        "baseline": {
            where: {name: values.tolist() for name, values in each.items()}
            for where, each in found.baseline.items()
        },
        "effects": [
            {field: getattr(each, field) for field in FIELDS}
            | {
                "values": {name: values.tolist() for name, values in each.values.items()},
                "spread": dict(each.spread),
                "importance": None if each.importance is None else dict(each.importance),
            }
            for each in found.effects
        ],
        "settings": dict(found.settings),
        "importance": None if found.importance is None else found.importance.to_dict(),
    }


def unpack_degradation(facts: Mapping[str, Any]) -> Degradation:
    """The reverse of `pack_degradation`."""
    effects = tuple(
        Effect(
            **{field: each[field] for field in FIELDS},
            values={name: _as_floats(values) for name, values in each["values"].items()},
            spread=each["spread"],
            importance=each["importance"],
        )
        for each in facts["effects"]
    )
    baseline = {
        where: {name: _as_floats(values) for name, values in each.items()}
        for where, each in facts["baseline"].items()
    }
    known = facts["importance"]
    importance = None
    if known is not None:
        names = tuple(each["feature"] for each in known["features"])
        values = np.array([each["value"] for each in known["features"]], dtype=np.float64)
        importance = Importance(known["kind"], known["meaning"], names, values)
    return Degradation(baseline, effects, facts["settings"], importance)


def pack_correlations(found: Correlations) -> dict[str, Any]:
    """Correlations with the points behind them, as plain values."""
    return {**found.to_dict(), "points": found.points.to_dict("list")}


def unpack_correlations(facts: Mapping[str, Any]) -> Correlations:
    """The reverse of `pack_correlations`; null is NaN."""
    from placings.data.tables import need_library

    points = need_library("pandas", "the coverage study").DataFrame(facts["points"])
    found = []
    for each in facts["correlations"]:
        fields: dict[str, Any] = {name: np.nan if value is None else value for name, value in each.items()}
        found.append(Correlation(**fields))
    return Correlations(tuple(found), points, facts["note"])


def _as_floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def join_features(parts: Sequence[Degradation]) -> Degradation:
    """Degradations of different features on the same data and `where`, as one."""
    effects = tuple(effect for part in parts for effect in part.effects)
    return replace(parts[0], effects=effects)


def join_places(parts: Sequence[Degradation]) -> Degradation:
    """Degradations with different `where` of the same features, as one table; the last importance counts."""
    baseline = {where: values for part in parts for where, values in part.baseline.items()}
    draws = {where: count for part in parts for where, count in part.settings["draws"].items()}
    effects = tuple(effect for part in parts for effect in part.effects)
    settings = {**parts[0].settings, "draws": draws, "where": list(baseline)}
    return Degradation(baseline, effects, settings, parts[-1].importance)


def join_folds(parts: Sequence[Sequence[Degradation]]) -> Degradation:
    """Folds of parts of features: features first, then folds, so that all queries are tested at once."""
    return join_degradations([join_features(fold) for fold in parts])
