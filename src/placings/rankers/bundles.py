"""Rankers as bundles: what a saved ranker says of itself, and how it comes back."""

from __future__ import annotations

import io
import json
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import placings
from placings.core import (
    BadBundle,
    BadInput,
    Bundle,
    Floats,
    PlacingsError,
    find_late,
    read_bundle,
    write_bundle,
)
from placings.data import Matrix, name_features
from placings.rankers.catalogue import CLASSES, find_class
from placings.rankers.estimator import Ranker

FEATURES, SAMPLE = "features.json", "sample.npz"
TOLERANCE = 1e-5  # relative and absolute, between scores stored and scores given by the loaded ranker


def save_ranker(ranker: Ranker, path: str | Path, metrics: Mapping[str, float]) -> str:
    """Write a fitted ranker as a bundle and return the digest that pins it."""
    name = type(ranker).__name__
    if name not in CLASSES or type(ranker) is not find_class(name):
        raise BadInput(
            f"only the rankers of placings can be saved ({', '.join(CLASSES)}). Got a class of another "
            f"module, {type(ranker).__module__}.{name}."
        )
    scores = np.asarray(ranker._score(ranker._sample), dtype=np.float64)
    files = {
        **ranker._give_weights(),
        FEATURES: _write_features(ranker),
        SAMPLE: _write_sample(ranker._sample, scores),
    }
    facts = {
        "ranker": name,
        "settings": _plain_settings(ranker),
        "features": ranker.n_features_in_,
        "missing": ranker._missing_policy(),
        "training": dict(ranker.training_),
        "metrics": {key: float(value) for key, value in metrics.items() if np.isfinite(value)},
        "versions": find_versions(),
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return write_bundle(path, facts, files)


def load(path: str | Path, *, digest: str | None = None) -> Any:
    """What was saved at a path, ready to use: a ranker, or a re-ranker; anything else is refused by name.

    `digest`, as `save` returned it, pins it: any other one is refused. See `Ranker.save`, `Reranker.save`.
    """
    kind = "re-ranker" if (Path(path) / "reranker").is_dir() else "ranker"
    return find_late("bundle", kind)(path, digest=digest)


def load_ranker(path: str | Path, *, digest: str | None = None) -> Ranker:
    """The ranker that a bundle holds, ready to predict; a damaged or foreign bundle is refused by name.

    `digest`, as `save` returned it, pins the bundle: any other one is refused. The stored sample is
    scored again, so a library that reads its own file differently today is noticed too.
    """
    bundle = read_bundle(path, digest=digest)
    name = bundle.manifest.get("ranker")
    if name not in CLASSES:
        raise BadBundle(bundle.path, f"holds a ranker {name!r}, which this placings does not know.")
    kind = find_class(str(name))
    try:
        ranker = _restore(kind, bundle)
    except PlacingsError:
        raise
    except Exception as error:  # whatever a library says of its own file
        raise BadBundle(bundle.path, f"its {name} cannot be restored: {error}.") from error
    _check_sample(ranker, bundle)
    return ranker


def find_versions() -> dict[str, str]:
    """What a saved ranker was made with."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version(), "placings": placings.__version__}
    own = [library for name in CLASSES for library in find_class(name).facts.libraries]
    for library in ("numpy", "scikit-learn", *own):
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found


def _restore(kind: type[Ranker], bundle: Bundle) -> Ranker:
    settings = bundle.manifest["settings"]
    known = kind._get_param_names()
    if not isinstance(settings, dict) or not set(settings) <= set(known):
        raise BadBundle(bundle.path, f"has settings that a {kind.__name__} does not take.")
    ranker = kind(**settings)
    contract = json.loads(bundle.files[FEATURES])
    count = int(bundle.manifest["features"])
    names = name_features(count) if contract["names"] is None else tuple(contract["names"])
    if len(names) != count or not all(isinstance(name, str) for name in names):
        raise BadBundle(bundle.path / FEATURES, f"must name {count} features.")
    ranker.n_features_in_ = count
    ranker.feature_names_ = names
    coverage = [np.nan if share is None else share for share in contract["coverage"]]
    ranker.coverage_ = np.array(coverage, dtype=np.float32)
    ranker.coverage_rules_ = dict(contract.get("rules", {}))
    ranker.training_ = dict(bundle.manifest["training"])
    ranker._sample = _read_sample(bundle)[0]
    own = {FEATURES, SAMPLE}
    ranker._take_weights({name: content for name, content in bundle.files.items() if name not in own})
    return ranker


def _check_sample(ranker: Ranker, bundle: Bundle) -> None:
    _, expected = _read_sample(bundle)
    try:
        given = np.asarray(ranker._score(ranker._sample), dtype=np.float64)
    except PlacingsError:
        raise
    except Exception as error:
        raise BadBundle(bundle.path, f"its ranker cannot score its own sample: {error}.") from error
    if given.shape != expected.shape or not np.allclose(
        given, expected, TOLERANCE, TOLERANCE, equal_nan=True
    ):
        raise BadBundle(
            bundle.path,
            "the restored ranker scores the stored sample differently than when it was saved. Made with "
            f"{bundle.manifest['versions']}; install these versions, or train it anew.",
        )


def _plain_settings(ranker: Ranker) -> dict[str, Any]:
    settings = {}
    for name, value in ranker._plain_params().items():
        plain = value.item() if isinstance(value, np.generic) else value
        try:
            settings[name] = json.loads(json.dumps(plain, allow_nan=False))
        except (TypeError, ValueError):
            raise BadInput(f"{name} must be a plain value to be saved. Got {value!r}.") from None
    return settings


def _write_features(ranker: Ranker) -> bytes:
    names = ranker.feature_names_
    coverage = [round(float(c), 6) if np.isfinite(c) else None for c in ranker.coverage_]
    plain = None if names == name_features(len(names)) else names
    contract: dict[str, Any] = {
        "names": plain,
        "coverage": coverage,
        "covered": "present and not zero",
        "order": "as listed",
    }
    if ranker.coverage_rules_:
        contract["rules"] = ranker.coverage_rules_
    return json.dumps(contract, ensure_ascii=False).encode()


def _write_sample(X: Matrix, scores: Floats) -> bytes:
    out = io.BytesIO()
    if isinstance(X, np.ndarray):
        np.savez(out, X=X, scores=scores)
    else:
        np.savez(out, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, scores=scores)
    return out.getvalue()


def _read_sample(bundle: Bundle) -> tuple[Matrix, Floats]:
    from scipy.sparse import csr_array

    with np.load(io.BytesIO(bundle.files[SAMPLE]), allow_pickle=False) as stored:
        if "X" in stored:
            return stored["X"], stored["scores"]
        parts = (stored["data"], stored["indices"], stored["indptr"])
        return csr_array(parts, shape=tuple(stored["shape"].tolist())), stored["scores"]
