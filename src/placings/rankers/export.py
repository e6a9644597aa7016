"""A neural ranker as one ONNX file: raw features in, scores out, the transforms inside."""

from __future__ import annotations

import copy
import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from placings.core import BadInput, Floats, Floats32, MissingExtra, PlacingsError, setting
from placings.rankers.linear import LinearRanker
from placings.rankers.networks import Attention, ListLayout, make_entrance
from placings.rankers.neural import NeuralRanker
from placings.rankers.onnx_files import (
    ALONE,
    INPUT,
    OUTPUT,
    ROWS,
    TOGETHER,
    Exported,
    compare_scores,
    export_ranker,
    make_probes,
    run_file,
)
from placings.training import Packed, PackedGroup, RowNorm, pack_lists, score_rows
from placings.transforms import Beside, Logarithm, Prepared, Transform, VectorForm

__all__ = ["ALONE", "TOGETHER", "Exported", "compare_scores", "export_ranker", "make_probes", "run_file"]

MODERN = (2, 9)  # the PyTorch whose exporter goes by torch.export unless told otherwise
OPSET_TRACED = 17  # what an older one writes
OPSET = 18  # ONNX Runtime 1.14 and later
LARGEST_FILE = (1 << 31) - (1 << 20)  # bytes; protobuf ends at 2 GiB
ZERO = torch.zeros(1, dtype=torch.int64)


def make_network(ranker: NeuralRanker, opset: int | None) -> Any:
    """A neural ranker as an ONNX model."""
    need_onnx()
    scorer = Scorer(ranker)
    refuse_size(scorer)
    return trace_scorer(scorer, opset)


def make_linear(ranker: LinearRanker, opset: int | None) -> Any:
    """A linear ranker behind a transform as an ONNX model."""
    need_onnx()
    scorer = LinearScorer(ranker)
    refuse_size(scorer)
    return trace_scorer(scorer, opset)


def score_network(ranker: NeuralRanker, rows: Floats32) -> Floats:
    """The scores of raw rows that are one list, whatever they hold."""
    return score_rows(ranker.network_, rows)


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


class LinearScorer(nn.Module):
    """Raw rows `[rows, features]` → scores `[rows]`: a transform in float32, then a sum in float64."""

    coef: Tensor

    def __init__(self, ranker: LinearRanker) -> None:
        super().__init__()
        assert ranker.transform_ is not None
        self.prepared = make_exported(ranker.transform_)
        self.register_buffer("coef", torch.tensor(ranker.coef_))
        self.intercept = float(ranker.intercept_)
        self.features = ranker.n_features_in_

    def forward(self, features: Tensor) -> Tensor:
        scores: Tensor = (self.prepared(features).double() @ self.coef + self.intercept).float()
        return scores


def make_exported(transform: Transform) -> Prepared:
    """A transform's module of operations that ONNX has."""
    inner = transform.module(export=True)
    for layer in inner.modules():
        if isinstance(layer, Logarithm | VectorForm):
            layer.composed = True
    return inner


class Whole(nn.Module):
    """A transform's module in its ONNX form, with what was learned, all of it in `prepare`."""

    def __init__(self, ranker: NeuralRanker, trained: nn.Module) -> None:
        super().__init__()
        self.inner = make_entrance(make_exported(ranker.transform_), ranker.pieces_)
        self.inner.load_state_dict(trained.state_dict())

    def prepare(self, x: Tensor, offsets: Tensor | None = None) -> Tensor:
        """Transformed rows; one list if lists matter."""
        out: Tensor = self.inner(x, offsets)
        return out

    def finish(self, prepared: Tensor) -> Tensor:
        """Nothing is left to do."""
        return prepared


def refuse_network(network: Any) -> None:
    """Refuse networks that cannot be written so that they score the same."""
    if not isinstance(network.transform, Prepared | Beside):
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


def trace_scorer(scorer: Any, opset: int | None) -> Any:
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


def export_graph(scorer: nn.Module, rows: Tensor, opset: int) -> Any:
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


def export_trace(scorer: nn.Module, rows: Tensor, opset: int) -> Any:
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


# -- the ranker in float64 -----------------------------------------------------------------------------


def score_exactly(ranker: NeuralRanker, rows: Floats32) -> Floats:
    """The ranker's scores as float64 gives them, all rows as one list."""
    wide = copy.deepcopy(ranker.network_).cpu().eval().double()
    packed = pack_lists(np.array([0, len(rows)])) if wide.needs_lists else None
    with torch.no_grad():
        prepared = wide.prepare(torch.tensor(rows).double()).double()  # of a step function it is float32
        return np.asarray(wide(prepared, packed).numpy(), dtype=np.float64)
