"""Any ranker as one ONNX file: who writes it, what it says of itself, and how it is checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

import placings
from placings.core import (
    BadInput,
    Floats,
    Floats32,
    MissingExtra,
    PlacingsError,
    need_library,
    write_atomically,
)
from placings.rankers.catalogue import CLASSES
from placings.rankers.estimator import Ranker

INPUT, OUTPUT, ROWS = "features", "scores", "rows"
OPSET, LEAST_OPSET = 18, 13  # of files that are not PyTorch's; ONNX Runtime 1.14 and later read 18
TOLERANCE = 1e-5  # relative and absolute, between the file's scores and the ranker's
HUGE = 1e30  # a score beyond it is about to overflow, and the order of additions decides when
ALONE = "each row is scored by itself: a call may hold the rows of several queries"
TOGETHER = "all rows of a call are one list: each query needs a call of its own"
OUT_OF_REACH = {
    "MeanRanker": "it is a mean of other rankers. Export its members, and average their scores",
    "AutoRanker": "it is a blend of other rankers. Export its models_, and add their scores times weights_",
    "OriginalOrder": "it only keeps the order that it is given",
}


@dataclass(frozen=True)
class Exported:
    """What was written: the file, its size and SHA-256, and how far its scores were from the ranker's."""

    path: Path
    bytes: int
    sha256: str
    opset: int
    difference: float  # the largest |theirs − ours| / (1 + |ours|) of the rows compared
    lists: str  # whether the rows of several queries may share a call, in words


@dataclass(frozen=True)
class Draft:
    """A model that is still to be checked: what it must score, exactly, and odd rows to try it on."""

    model: Any  # onnx.ModelProto
    score: Callable[[Floats32], Floats]  # the ranker's scores of raw rows, one list
    score_exactly: Callable[[Floats32], Floats]  # the same in float64
    probes: tuple[Floats32, ...] = ()
    infinite: bool = True  # whether infinite values can be scored


def export_ranker(
    ranker: Ranker, path: str | Path, *, opset: int | None = None, digest: str | None = None
) -> Exported:
    """Write a fitted ranker as one self-contained ONNX file, transforms and missing values included.

    Input `features`: float32 `[rows, features]`, raw, NaN where missing, columns in the order that the file's
    metadata names them. Output `scores`: float32 `[rows]`. Any number of rows. `opset` is 18 if not given (17
    for networks with PyTorch before 2.9); `digest`, of the ranker's bundle, is kept in the metadata.

    Neural and linear rankers and the trees of LightGBM, XGBoost and CatBoost can be written; what cannot is
    refused with the reason: groupwise networks, wide sparse input, transforms that are Python code, trees
    that split by categories, `MeanRanker`. Where rows are seen together (query_minmax, the attention network)
    all rows of a call are one list.

    The file takes its place only after ONNX Runtime has scored training rows, missing, tiny and huge values
    (for trees also both sides of thresholds) with it and agrees with the ranker to 1e-5 (relative to scores
    beyond 1), or, where float32 cannot hold the ranker's own scores so exactly, to as much as it can.
    """
    check_is_fitted(ranker)
    kind = _find_kind(ranker)
    path = Path(path)
    if path.is_dir():
        raise BadInput(f"{path} is a folder. Name the file to write, such as {path / 'ranker.onnx'}.")
    draft = DRAFTS[kind](ranker, opset)
    lists = TOGETHER if ranker.looks_at_list else ALONE
    with write_atomically(path) as temporary:
        describe_model(draft.model, ranker, digest, lists)
        content: bytes = draft.model.SerializeToString()
        temporary.write_bytes(content)
        difference = check_export(temporary, ranker, draft)
    fingerprint = hashlib.sha256(content).hexdigest()
    found = next(each.version for each in draft.model.opset_import if not each.domain)
    return Exported(path, len(content), fingerprint, found, difference, lists)


def _find_kind(ranker: Ranker) -> str:
    """The class of placings that a ranker is of; one that scores in a way of its own is refused."""
    kind = next(
        (each.__name__ for each in type(ranker).__mro__ if CLASSES.get(each.__name__) == each.__module__), ""
    )
    if kind in OUT_OF_REACH:
        raise BadInput(f"{kind} is not exported to ONNX: {OUT_OF_REACH[kind]}.")
    if kind not in DRAFTS:
        raise BadInput(
            f"a {type(ranker).__name__} is not exported to ONNX: only the rankers of placings are "
            f"({', '.join(DRAFTS)})."
        )
    ours = next(each for each in type(ranker).__mro__ if CLASSES.get(each.__name__) == each.__module__)
    for name in ("predict", "_score", "_score_lists"):
        if getattr(type(ranker), name) is not getattr(ours, name):
            raise BadInput(
                f"{type(ranker).__name__} scores in a way of its own ({name}), and an ONNX file would hold "
                f"the model alone. Export a plain {kind}."
            )
    return kind


def need_onnx() -> None:
    """Refuse to begin where a library is lacking, with the command that installs it."""
    for library in ("onnx", "onnxruntime"):
        if find_spec(library) is None:
            raise MissingExtra("exporting to ONNX", library, "onnx")


# -- who writes it -----------------------------------------------------------------------------------


def _draft_network(ranker: Any, opset: int | None) -> Draft:
    need_library("torch", "a neural ranker", "neural", "PyTorch")
    from placings.rankers.export import make_network, score_exactly, score_network

    model = make_network(ranker, opset)
    return Draft(model, lambda rows: score_network(ranker, rows), lambda rows: score_exactly(ranker, rows))


def _draft_linear(ranker: Any, opset: int | None) -> Draft:
    need_onnx()
    if ranker.transform_ is not None:
        need_library("torch", "exporting a transform", "neural", "PyTorch")
        from placings.rankers.export import make_linear

        model = make_linear(ranker, opset)
    else:
        from placings.rankers.onnx_graphs import make_linear_graph

        model = make_linear_graph(ranker, choose_opset(opset))

    def score(rows: Floats32) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(ranker._score(np.ascontiguousarray(rows)), dtype=np.float64)

    return Draft(model, score, score, infinite=ranker.transform_ is None)


def _draft_trees(ranker: Any, opset: int | None) -> Draft:
    need_onnx()
    from placings.rankers.onnx_graphs import make_tree_graph
    from placings.rankers.tree_tables import read_trees

    trees = read_trees(ranker)
    model = make_tree_graph(trees, ranker.n_features_in_, choose_opset(opset))
    sample = ranker._sample
    given = np.asarray(sample if isinstance(sample, np.ndarray) else sample.toarray(), dtype=np.float32)

    def score(rows: Floats32) -> Floats:
        return np.asarray(ranker._score(np.ascontiguousarray(rows)), dtype=np.float64)

    return Draft(model, score, trees.score, (trees.probe(given[:1]),), infinite=False)


DRAFTS: dict[str, Callable[[Any, int | None], Draft]] = {
    "NeuralRanker": _draft_network,
    "LinearRanker": _draft_linear,
    "LightGBMRanker": _draft_trees,
    "XGBoostRanker": _draft_trees,
    "CatBoostRanker": _draft_trees,
}


def choose_opset(opset: int | None) -> int:
    """The operator set to write, 18 if nobody says."""
    from onnx import defs

    if opset is None:
        return OPSET
    if not LEAST_OPSET <= opset <= defs.onnx_opset_version():
        raise BadInput(
            f"opset must be from {LEAST_OPSET} to {defs.onnx_opset_version()}. Got {opset}. Leave it out."
        )
    return opset


def describe_model(model: Any, ranker: Ranker, digest: str | None, lists: str) -> None:
    """Take out the exporter's notes, which name folders of this machine; put in what a user must know."""
    from onnx.helper import find_min_ir_version_for

    graph = model.graph
    for part in (model, graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        for note in ("metadata_props", "doc_string"):
            if note in part.DESCRIPTOR.fields_by_name:
                part.ClearField(note)
    del graph.value_info[:]
    graph.name = "ranker"
    model.producer_name, model.producer_version = "placings", placings.__version__
    model.doc_string = f"A ranker of {ranker.n_features_in_} raw features; higher scores are better. {lists}."
    model.ir_version = find_min_ir_version_for(list(model.opset_import))
    facts = {
        "placings": placings.__version__,
        "features": json.dumps(list(ranker.feature_names_), ensure_ascii=False),
        "missing": f"{ranker._missing_policy()}; NaN is missing",
        "lists": lists,
        "training": json.dumps(ranker.training_),
    }
    if digest is not None:
        facts["digest"] = digest
    for key, value in sorted(facts.items()):
        model.metadata_props.add(key=key, value=value)


# -- the file as others will read it -----------------------------------------------------------------


def check_export(path: Path, ranker: Ranker, draft: Draft) -> float:
    """Score rows with ONNX Runtime and compare; the largest difference, or an error that names it."""
    import onnx

    onnx.checker.check_model(str(path), full_check=True)
    calls = [*make_probes(ranker), *draft.probes]
    if not draft.infinite:
        calls = [rows[~np.isinf(rows).any(axis=1)] for rows in calls]
    theirs = np.concatenate(run_file(path, calls))
    ours = np.concatenate([draft.score(rows) for rows in calls])
    return compare_scores(ours, theirs, lambda: np.concatenate([draft.score_exactly(rows) for rows in calls]))


def run_file(path: Path, calls: Sequence[Floats32]) -> list[Floats]:
    """The file's scores of raw rows, a call each, by ONNX Runtime on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [np.asarray(session.run([OUTPUT], {INPUT: rows})[0], dtype=np.float64) for rows in calls]


def make_probes(ranker: Ranker) -> list[Floats32]:
    """Rows to compare on, a call each: the ranker's sample, with gaps, shifted, turned; then odd values."""
    sample = ranker._sample
    given = np.asarray(sample if isinstance(sample, np.ndarray) else sample.toarray(), dtype=np.float32)
    gaps = given.copy()
    gaps[np.indices(given.shape).sum(axis=0) % 3 == 0] = np.nan
    odd = np.array([np.nan, 0.0, 1.0, 1e-30, -1e-6, 1e6, -3e38, 3e38, np.inf, -np.inf], dtype=np.float32)
    with np.errstate(over="ignore"):
        shifted, turned = given * np.float32(1.01), given * np.float32(-7.0)
    return [given, given[:1], gaps, shifted, turned, np.repeat(odd[:, None], given.shape[1], axis=1)]


def compare_scores(ours: Floats, theirs: Floats, score_exactly: Callable[[], Floats]) -> float:
    """The largest |theirs − ours| / (1 + |ours|); beyond 1e-5 it must be one that rounding explains.

    Rounding is how far float32 moves `ours` from what `score_exactly` gives in float64. Scores that are not
    finite, or beyond 1e30, are left out.
    """
    told = np.flatnonzero(np.isfinite(ours) & (np.abs(ours) < HUGE))
    if not len(told):
        raise BadInput("the ranker gives no finite score on its own training rows. Train it anew.")
    kept, found = ours[told], theirs[told]
    size = 1.0 + np.abs(kept)
    apart = np.nan_to_num(np.abs(found - kept) / size, nan=np.inf)
    worst = int(apart.argmax())
    if apart[worst] > TOLERANCE:
        rounding = np.nanmax(np.abs(score_exactly()[told] - kept) / size, initial=0.0)
        if apart[worst] > TOLERANCE + 4.0 * rounding:
            raise PlacingsError(
                f"ONNX Runtime gives {found[worst]:.9g} where the ranker gives {kept[worst]:.9g} (row "
                f"{told[worst] + 1} of the {len(ours)} compared), a difference of "
                f"{abs(found[worst] - kept[worst]):.3g}; {TOLERANCE:g} is allowed. Nothing was written. "
                "Please report it with your versions of torch, onnx and onnxruntime."
            )
    return float(apart[worst])
