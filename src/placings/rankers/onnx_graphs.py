"""ONNX models made by hand, of plain operations: a linear ranker, and trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from placings.rankers.linear import LinearRanker
from placings.rankers.onnx_files import INPUT, OUTPUT, ROWS
from placings.rankers.tree_tables import TreeTable

ML = "ai.onnx.ml"
ML_OPSET = 3  # the first with thresholds and leaves in float64


def make_linear_graph(ranker: LinearRanker, opset: int) -> Any:
    """`score = coef · x + b` in float64, missing values filled."""
    from onnx import TensorProto, helper, numpy_helper

    arrays = {"fill": ranker.fill_, "coef": ranker.coef_[:, None], "intercept": np.array(ranker.intercept_)}
    constants = [numpy_helper.from_array(np.asarray(each, np.float64), name) for name, each in arrays.items()]
    constants.append(numpy_helper.from_array(np.array([-1], dtype=np.int64), "flat"))
    nodes = [
        helper.make_node("Cast", [INPUT], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("IsNaN", ["wide"], ["missing"]),
        helper.make_node("Where", ["missing", "fill", "wide"], ["filled"]),
        helper.make_node("MatMul", ["filled", "coef"], ["sums"]),
        helper.make_node("Add", ["sums", "intercept"], ["exact"]),
        helper.make_node("Cast", ["exact"], ["rounded"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["rounded", "flat"], [OUTPUT]),
    ]
    return _make_model(nodes, constants, ranker.n_features_in_, opset)


def make_tree_graph(trees: TreeTable, features: int, opset: int) -> Any:
    """`TreeEnsembleRegressor`, thresholds and leaves in float64, the leaves of a row added up."""
    from onnx import TensorProto, helper, numpy_helper

    leaf = trees.leaf
    places = np.arange(len(leaf)) - trees.roots[trees.tree]  # within each tree
    starts = trees.roots[trees.tree]
    modes = np.where(leaf, "LEAF", trees.mode).tolist()
    attributes = {
        "nodes_treeids": trees.tree.tolist(),
        "nodes_nodeids": places.tolist(),
        "nodes_featureids": trees.feature.tolist(),
        "nodes_modes": modes,
        "nodes_truenodeids": np.where(leaf, 0, trees.yes - starts).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, trees.no - starts).tolist(),
        "nodes_missing_value_tracks_true": (trees.missing_yes & ~leaf).astype(int).tolist(),
        "nodes_values_as_tensor": numpy_helper.from_array(trees.threshold, "thresholds"),
        "target_treeids": trees.tree[leaf].tolist(),
        "target_nodeids": places[leaf].tolist(),
        "target_ids": [0] * int(leaf.sum()),
        "target_weights_as_tensor": numpy_helper.from_array(trees.worth[leaf], "leaves"),
        "base_values_as_tensor": numpy_helper.from_array(np.array([trees.base]), "base"),
        "n_targets": 1,
        "aggregate_function": "SUM",
        "post_transform": "NONE",
    }
    flat = numpy_helper.from_array(np.array([-1], dtype=np.int64), "flat")
    nodes = [
        helper.make_node("Cast", [INPUT], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("TreeEnsembleRegressor", ["wide"], ["sums"], domain=ML, **attributes),
        helper.make_node("Reshape", ["sums", "flat"], [OUTPUT]),
    ]
    return _make_model(nodes, [flat], features, opset)


def _make_model(nodes: list[Any], constants: list[Any], features: int, opset: int) -> Any:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        nodes,
        "ranker",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [ROWS, features])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [ROWS])],
        constants,
    )
    domains = [helper.make_opsetid("", opset)]
    if any(node.domain == ML for node in nodes):
        domains.append(helper.make_opsetid(ML, ML_OPSET))
    return helper.make_model(graph, opset_imports=domains)
