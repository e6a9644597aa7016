"""A neural ranker as one ONNX file: raw features in, scores out, the transforms inside."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

import placings
from placings.core import BadInput, Floats, Floats32, MissingExtra, PlacingsError, setting, write_atomically
from placings.rankers.estimator import Ranker
from placings.rankers.networks import Attention, ListLayout
from placings.rankers.neural import NeuralRanker
from placings.training import Packed, PackedGroup, RowNorm, pack_lists, score_rows
from placings.transforms import Logarithm, Prepared, VectorForm

INPUT, OUTPUT, ROWS = "features", "scores", "rows"
MODERN = (2, 9)  # the PyTorch whose exporter goes by torch.export unless told otherwise
OPSET_TRACED = 17  # what an older one writes
OPSET = 18  # ONNX Runtime 1.14 and later
LARGEST_FILE = (1 << 31) - (1 << 20)  # bytes; protobuf ends at 2 GiB
TOLERANCE = 1e-5  # relative and absolute, between the file's scores and the ranker's
HUGE = 1e30  # a score beyond it is about to overflow, and the order of additions decides when
ZERO = torch.zeros(1, dtype=torch.int64)
ALONE = "each row is scored by itself: a call may hold the rows of several queries"
TOGETHER = "all rows of a call are one list: each query needs a call of its own"


@dataclass(frozen=True)
class Exported:
    """What was written: the file, its size and SHA-256, and how far its scores were from the ranker's."""

    path: Path
    bytes: int
    sha256: str
    opset: int
    difference: float  # the largest |theirs − ours| / (1 + |ours|) of the rows compared
    lists: str  # whether the rows of several queries may share a call, in words


def export_ranker(
    ranker: Ranker, path: str | Path, *, opset: int | None = None, digest: str | None = None
) -> Exported:
    """Write a fitted NeuralRanker as one self-contained ONNX file, transforms and missing values included.

    Input `features`: float32 `[rows, features]`, raw, NaN where missing, columns in the order that the file's
    metadata names them. Output `scores`: float32 `[rows]`. Any number of rows. `opset` is 18 if not given (17
    with PyTorch before 2.9);
    `digest`, of the ranker's bundle, is kept in the metadata.

    The file takes its place only after ONNX Runtime has scored training rows, missing, tiny, huge and
    infinite values with it and agrees with the ranker to 1e-5 (relative to scores beyond 1), or, where
    float32 cannot hold the ranker's own scores so exactly, to as much as it can.

    Where rows are seen together (query_minmax, the attention network) all rows of a call are one list.
    Groupwise networks and wide sparse input are refused, as are rankers that are not neural.
    """
    check_is_fitted(ranker)
    if not isinstance(ranker, NeuralRanker):
        raise BadInput(f"only a NeuralRanker is exported to ONNX. Got a {type(ranker).__name__}.")
    for name in ("predict", "_score", "_score_lists"):
        if getattr(type(ranker), name) is not getattr(NeuralRanker, name):
            raise BadInput(
                f"{type(ranker).__name__} scores in a way of its own ({name}), and an ONNX file would hold "
                "the network alone. Export a plain NeuralRanker."
            )
    path = Path(path)
    if path.is_dir():
        raise BadInput(f"{path} is a folder. Name the file to write, such as {path / 'ranker.onnx'}.")
    need_onnx()
    scorer = Scorer(ranker)
    refuse_size(scorer)
    with write_atomically(path) as temporary:
        model = trace_scorer(scorer, opset)
        describe_model(model, ranker, digest, scorer.lists)
        content: bytes = model.SerializeToString()
        temporary.write_bytes(content)
        difference = check_export(temporary, ranker)
    fingerprint = hashlib.sha256(content).hexdigest()
    return Exported(path, len(content), fingerprint, model.opset_import[0].version, difference, scorer.lists)


def need_onnx() -> None:
    """Refuse to begin where a library is lacking, with the command that installs it."""
    for library in ("onnx", "onnxruntime", *(["onnxscript"] if find_release() >= MODERN else [])):
        if find_spec(library) is None:
            raise MissingExtra("exporting to ONNX", library, "onnx")


# -- the ranker as a function of raw rows ------------------------------------------------------------


class Scorer(nn.Module):
    """Raw rows `[rows, features]` → scores `[rows]`, on the CPU, of operations that ONNX has."""

    def __init__(self, ranker: NeuralRanker) -> None:
        super().__init__()
        refuse_network(ranker.network_)
        self.network = copy.deepcopy(ranker.network_).cpu().float().eval()
        self.network.transform = Whole(ranker, self.network.transform)
        for parent in list(self.network.modules()):
            for name, child in list(parent.named_children()):
                if isinstance(child, RowNorm):
                    setattr(parent, name, Centred(child))
        self.packed: Packed | None = None
        self.features = ranker.n_features_in_
        self.lists = TOGETHER if ranker.looks_at_list else ALONE

        if isinstance(self.network, Attention):
            self.network.blocks = nn.ModuleList(OneListAttention(block) for block in self.network.blocks)
            # its parts stay in eval; by itself it then lays lists out by their groups, which no value decides
            self.network.training = True
            self.packed = Packed(
                ZERO, ZERO, ZERO + 1, ZERO.int(), (PackedGroup(0, 1, 1),)
            )  # nothing looks at it

    def forward(self, features: Tensor) -> Tensor:
        scores: Tensor = self.network(self.network.prepare(features), self.packed)
        return scores


class OneListAttention(nn.Module):
    """A block of attention over all rows as one list, whatever layout it is given."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, a: Tensor, layout: ListLayout, packed: Packed | None = None) -> Tensor:
        places = torch.arange(a.shape[0])
        whole = ListLayout([places[None]], [torch.ones_like(places[None], dtype=torch.bool)], places)
        seen: Tensor = self.block(a, whole, packed)
        return seen


class Centred(nn.Module):
    """A trained batch norm as `(x − mean) · scale + bias`.

    Runtimes compute `x · scale + (bias − mean · scale)`, which loses all digits that x and the mean share:
    four of seven in a time in seconds.
    """

    mean: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, norm: RowNorm) -> None:
        super().__init__()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        scale = norm.weight.double() / torch.sqrt(norm.running_var.double() + norm.eps)
        self.register_buffer("mean", norm.running_mean.clone())
        self.register_buffer("scale", scale.detach().float())
        self.register_buffer("bias", norm.bias.detach().clone())

    def forward(self, x: Tensor, packed: object = None) -> Tensor:
        return (x - self.mean) * self.scale + self.bias


class Whole(nn.Module):
    """A transform's module in its ONNX form, with what was learned, all of it in `prepare`."""

    def __init__(self, ranker: NeuralRanker, trained: nn.Module) -> None:
        super().__init__()
        self.inner = ranker.transform_.module(export=True)
        self.inner.load_state_dict(trained.state_dict())
        for layer in self.inner.modules():
            if isinstance(layer, Logarithm | VectorForm):
                layer.composed = True

    def prepare(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """Transformed rows; one list if lists matter."""
        out: Tensor = self.inner(x, offsets)
        return out

    def finish(self, prepared: Tensor) -> Tensor:
        """Nothing is left to do."""
        return prepared


def refuse_network(network: Any) -> None:
    """Refuse networks that cannot be written so that they score the same."""
    if not isinstance(network.transform, Prepared):
        raise BadInput(
            "this ranker was trained on sparse rows too wide to be made dense, and an ONNX file takes dense "
            "rows. Serve it from its bundle, or train on fewer columns."
        )
    if network.needs_lists and not isinstance(network, Attention):
        raise BadInput(
            f"a {type(network).__name__.lower()} network orders each list by a hash of its rows' bits, for "
            "which ONNX has no operation. Serve it from its bundle, or train "
            f"{setting('network', 'feedforward')} or "
            "'attention'."
        )


def refuse_size(scorer: nn.Module) -> None:
    """Refuse what would not fit into one file."""
    parts = (*scorer.parameters(), *scorer.buffers())
    size = sum(each.numel() * each.element_size() for each in parts)
    if size > LARGEST_FILE:
        raise BadInput(
            f"weights and tables take {size / 2**30:.2g} GiB, and an ONNX file ends at 2 GiB. Train narrower "
            "layers, or keep fewer knots of each feature, such as Cdf(max_knots=1000)."
        )


# -- from PyTorch to ONNX ----------------------------------------------------------------------------


def trace_scorer(scorer: Scorer, opset: int | None) -> Any:
    """The module as an ONNX model for any number of rows, by the exporter that this PyTorch prefers."""
    rows = torch.zeros(3, scorer.features)
    modern = find_release() >= MODERN
    wanted = opset or (OPSET if modern else OPSET_TRACED)
    with keep_quiet(), torch.no_grad():
        model = (export_graph if modern else export_trace)(scorer, rows, wanted)
    found = model.opset_import[0].version
    if found != wanted:
        raise BadInput(f"this PyTorch writes opset {found}, not {wanted}. Leave opset out, or pass {found}.")
    for end in (*model.graph.input, *model.graph.output):
        first = end.type.tensor_type.shape.dim[0]
        if first.HasField("dim_value"):
            raise PlacingsError(
                f"the exported {end.name} would take {first.dim_value} rows only. Please report it."
            )
        first.dim_param = ROWS
    return model


def export_graph(scorer: Scorer, rows: Tensor, opset: int) -> Any:
    """By torch.export, which became the default with PyTorch 2.9; before, it failed on batch norm."""
    program: Any = torch.onnx.export(
        scorer,
        (rows,),
        dynamo=True,
        verbose=False,
        opset_version=opset,
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_shapes={"features": {0: torch.export.Dim(ROWS, min=2)}},  # that one row will do is checked
    )
    return program.model_proto


def export_trace(scorer: Scorer, rows: Tensor, opset: int) -> Any:
    """By TorchScript, for an older PyTorch."""
    import onnx

    out = io.BytesIO()
    options: dict[str, Any] = {"dynamo": False} if find_release() >= (2, 5) else {}
    torch.onnx.export(
        scorer,
        (rows,),
        out,  # type: ignore[arg-type]
        opset_version=opset,
        input_names=[INPUT],
        output_names=[OUTPUT],
        dynamic_axes={INPUT: {0: ROWS}, OUTPUT: {0: ROWS}},
        **options,
    )
    return onnx.load_from_string(out.getvalue())


def find_release() -> tuple[int, ...]:
    """PyTorch's release, such as (2, 13)."""
    return tuple(int(number) for number in torch.__version__.split(".")[:2])


@contextmanager
def keep_quiet() -> Iterator[None]:
    """The exporters warn of their own ways and log what they lack; none of it is the user's business."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def describe_model(model: Any, ranker: NeuralRanker, digest: str | None, lists: str) -> None:
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


def check_export(path: Path, ranker: NeuralRanker) -> float:
    """Score rows with ONNX Runtime and compare; the largest difference, or an error that names it."""
    import onnx

    onnx.checker.check_model(str(path), full_check=True)
    calls = make_probes(ranker)
    theirs = np.concatenate(run_file(path, calls))
    ours = np.concatenate([score_rows(ranker.network_, rows) for rows in calls])
    return compare_scores(
        ours, theirs, lambda: np.concatenate([score_exactly(ranker, rows) for rows in calls])
    )


def run_file(path: Path, calls: Sequence[Floats32]) -> list[Floats]:
    """The file's scores of raw rows, a call each, by ONNX Runtime on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [np.asarray(session.run([OUTPUT], {INPUT: rows})[0], dtype=np.float64) for rows in calls]


def make_probes(ranker: NeuralRanker) -> list[Floats32]:
    """Rows to compare on, a call each: the ranker's sample, with gaps, shifted, turned; then odd values."""
    sample = ranker._sample
    given = np.asarray(sample if isinstance(sample, np.ndarray) else sample.toarray(), dtype=np.float32)
    gaps = given.copy()
    gaps[np.indices(given.shape).sum(axis=0) % 3 == 0] = np.nan
    odd = np.array([np.nan, 0.0, 1.0, 1e-30, -1e-6, 1e6, -3e38, 3e38, np.inf, -np.inf], dtype=np.float32)
    with np.errstate(over="ignore"):
        shifted, turned = given * np.float32(1.01), given * np.float32(-7.0)
    return [given, given[:1], gaps, shifted, turned, np.repeat(odd[:, None], given.shape[1], axis=1)]


def score_exactly(ranker: NeuralRanker, rows: Floats32) -> Floats:
    """The ranker's scores as float64 gives them, all rows as one list."""
    wide = copy.deepcopy(ranker.network_).cpu().eval().double()
    packed = pack_lists(np.array([0, len(rows)])) if wide.needs_lists else None
    with torch.no_grad():
        prepared = wide.prepare(torch.tensor(rows).double()).double()  # of a step function it is float32
        return np.asarray(wide(prepared, packed).numpy(), dtype=np.float64)


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
