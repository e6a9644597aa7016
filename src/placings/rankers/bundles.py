"""Rankers as bundles: what a saved ranker says of itself, and how it comes back."""

from __future__ import annotations

import io
import json
import math
import platform
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import placings
from placings.core import (
    AnyArray,
    BadBundle,
    BadInput,
    Bundle,
    Floats,
    MissingExtra,
    PlacingsError,
    find_bundle,
    find_late,
    name_function,
    parse_json,
    read_bundle,
    read_settled,
    write_bundle,
)
from placings.data import Matrix, name_features
from placings.rankers.catalogue import CLASSES, find_class
from placings.rankers.estimator import SAMPLE_ROWS, Ranker

FEATURES, SAMPLE = "features.json", "sample.npz"
MOST_SAMPLE_ROWS = 64 * SAMPLE_ROWS
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

    The folder of a run of `placings fit` stands for the ranker in its `model`. `digest`, as `save` returned
    it, pins it: any other one is refused. See `Ranker.save`, `Reranker.save`.
    """
    path = find_bundle(path)
    kind = read_settled(path, lambda place: "re-ranker" if (place / "reranker").is_dir() else "ranker")
    return find_late("bundle", kind)(path, digest=digest)


def load_ranker(path: str | Path, *, digest: str | None = None) -> Ranker:
    """The ranker that a bundle holds, ready to predict; a damaged or foreign bundle is refused by name.

    `digest`, as `save` returned it, pins the bundle: any other one is refused. The stored sample is
    scored again, so a library that reads its own file differently today is noticed too.
    """
    bundle = read_bundle(find_bundle(path), digest=digest)
    name = bundle.manifest.get("ranker")
    if not isinstance(name, str) or name not in CLASSES:
        raise BadBundle(bundle.path, f"holds a ranker {name!r}, which this placings does not know.")
    kind = find_class(name)
    try:
        ranker, expected = _restore(kind, bundle)
    except BadBundle:
        raise
    except PlacingsError as error:
        if isinstance(error, MissingExtra):
            raise
        raise BadBundle(bundle.path, str(error)) from error
    except Exception as error:  # whatever a library says of its own file
        said = " ".join(f"{type(error).__name__} {error}".split())
        raise BadBundle(bundle.path, f"its {name} cannot be restored: {said}.") from error
    _check_sample(ranker, bundle, expected)
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


def _restore(kind: type[Ranker], bundle: Bundle) -> tuple[Ranker, Floats]:
    settings = bundle.manifest["settings"]
    known = kind._get_param_names()
    if not isinstance(settings, dict) or not set(settings) <= set(known):
        raise BadBundle(bundle.path, f"has settings that a {kind.__name__} does not take.")
    ranker = kind(**settings)
    _take_contract(ranker, bundle)
    ranker._sample, expected = read_sample(bundle.files[SAMPLE], ranker.n_features_in_)
    ranker.training_ = dict(bundle.manifest["training"])
    own = {FEATURES, SAMPLE}
    ranker._take_weights({name: content for name, content in bundle.files.items() if name not in own})
    return ranker, expected


def _take_contract(ranker: Ranker, bundle: Bundle) -> None:
    """The features that a ranker was trained on: as many as the file describes, not as many as one says."""
    contract = parse_json(bundle.files[FEATURES])
    count, told = bundle.manifest["features"], contract["names"]
    if isinstance(count, bool) or not isinstance(count, int) or len(contract["coverage"]) != count:
        raise BadBundle(
            bundle.path / FEATURES, f"must describe {count!r} features. Got {len(contract['coverage'])}."
        )
    names = name_features(count) if told is None else tuple(told)
    if len(names) != count or not all(isinstance(name, str) for name in names):
        raise BadBundle(bundle.path / FEATURES, f"must name {count} features.")
    ranker.n_features_in_ = count
    ranker.feature_names_ = names
    coverage = [np.nan if share is None else share for share in contract["coverage"]]
    ranker.coverage_ = np.array(coverage, dtype=np.float32)
    ranker.coverage_rules_ = dict(contract.get("rules", {}))


def _check_sample(ranker: Ranker, bundle: Bundle, expected: Floats) -> None:
    try:
        given = np.asarray(ranker._score(ranker._sample), dtype=np.float64)
    except PlacingsError as error:
        raise BadBundle(bundle.path, str(error)) from error
    except Exception as error:
        said = " ".join(str(error).split())
        raise BadBundle(bundle.path, f"its ranker cannot score its own sample: {said}.") from error
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
            if callable(value) and name in ("loss", "metric"):
                raise BadInput(
                    f"{name} is a function of yours, and a bundle holds names, never code. Register it, "
                    f"pg.register_{name}({name_function(value)!r}, …), and save again."
                ) from None
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


def read_sample(content: bytes, width: int) -> tuple[Matrix, Floats]:
    """The rows and scores of a sample file; BadInput if it is not what `save` writes."""
    from scipy.sparse import csr_array

    parts = read_arrays(content, SAMPLE)
    scores = _take(parts, "scores", "f8", (None,))
    rows = len(scores)
    if rows > MOST_SAMPLE_ROWS:
        raise BadInput(f"{SAMPLE} must hold at most {MOST_SAMPLE_ROWS:,} rows. Got {rows:,}.")
    if "X" in parts:
        return _take(parts, "X", "f4", (rows, width)), scores
    borders, data = _take(parts, "indptr", "i", (rows + 1,)), _take(parts, "data", "f4", (None,))
    places = _take(parts, "indices", "i", (len(data),))
    whole = _take(parts, "shape", "i", (2,)).tolist() == [rows, width]
    whole = whole and borders[0] == 0 and borders[-1] == len(data) and bool((np.diff(borders) >= 0).all())
    if not whole or ((places < 0) | (places >= width)).any():
        raise BadInput(f"{SAMPLE} must hold {rows} sparse rows of {width} features.")
    return csr_array((data, places, borders), shape=(rows, width)), scores


def _take(parts: Mapping[str, AnyArray], name: str, kind: str, shape: tuple[int | None, ...]) -> AnyArray:
    """One array of a sample, of this kind and shape (None: any length)."""
    found = parts.get(name)
    if found is None:
        raise BadInput(f"{SAMPLE} lacks {name!r}.")
    fits = len(found.shape) == len(shape) and all(
        want in (None, size) for want, size in zip(shape, found.shape, strict=True)
    )
    if not fits or not found.dtype.str[1:].startswith(kind):
        raise BadInput(f"{name!r} in {SAMPLE} is {found.dtype} of shape {found.shape}, which does not fit.")
    return found


def read_arrays(content: bytes, name: str) -> dict[str, AnyArray]:
    """The arrays of an uncompressed `.npz` file, none larger than the bytes that are there; else BadInput."""
    found: dict[str, AnyArray] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            for each in packed.infolist():
                if each.compress_type != zipfile.ZIP_STORED or each.file_size > len(content):
                    raise ValueError("it is compressed")
                if each.filename in found:
                    raise ValueError(f"{each.filename} stands twice in it")
                found[each.filename.removesuffix(".npy")] = _read_array(packed.read(each))
    except (ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise BadInput(f"{name} must be what numpy.savez writes: {' '.join(str(error).split())}.") from error
    return found


def _read_array(content: bytes) -> AnyArray:
    source = io.BytesIO(content)
    if np.lib.format.read_magic(source) != (1, 0):
        raise ValueError("an array is of another version of the format")
    shape, fortran, kind = np.lib.format.read_array_header_1_0(source)
    body = content[source.tell() :]
    if kind.hasobject or math.prod(shape) * kind.itemsize != len(body) or any(size < 0 for size in shape):
        raise ValueError("an array is not as long as it says")
    return np.frombuffer(body, dtype=kind).reshape(shape, order="F" if fortran else "C").copy()
