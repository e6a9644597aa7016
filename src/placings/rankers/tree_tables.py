"""The trees of three libraries as one table of nodes: where each sends a row, and what a leaf is worth."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placings.core import AnyArray, BadInput, Bools, Floats, Floats32, Ints

MOST_NODES = 10_000_000
PROBES = 200  # nodes whose threshold is tried from both sides
COMPARISONS = {"BRANCH_LEQ": np.less_equal, "BRANCH_LT": np.less, "BRANCH_GT": np.greater}


@dataclass(frozen=True, eq=False)
class TreeTable:
    """Nodes of all trees, one tree after the other; the score of a row is `base` + the sum of its leaves.

    At an inner node a row goes to `yes` if `mode` holds between its value and the threshold, a missing value
    (NaN) if `missing_yes`, else to `no`. `yes` and `no` are places in the table; at a leaf both are its own.
    """

    mode: str
    roots: Ints  # [trees]
    tree: Ints  # [nodes], which tree
    feature: Ints
    threshold: Floats
    missing_yes: Bools
    yes: Ints
    no: Ints
    worth: Floats  # 0 but for leaves
    base: float = 0.0

    @property
    def leaf(self) -> Bools:
        """Which nodes are leaves."""
        return np.asarray(self.yes == np.arange(len(self.yes)))

    def score(self, rows: Floats32) -> Floats:
        """Scores `[rows]` in float64, tree by tree."""
        total = np.full(len(rows), self.base)
        everyone = np.arange(len(rows))
        for root in self.roots.tolist():
            place = np.full(len(rows), root)
            while True:
                value = rows[everyone, self.feature[place]].astype(np.float64)
                with np.errstate(invalid="ignore"):
                    holds = COMPARISONS[self.mode](value, self.threshold[place])
                holds = np.where(np.isnan(value), self.missing_yes[place], holds)
                after = np.where(holds, self.yes[place], self.no[place])
                if np.array_equal(after, place):
                    break
                place = after
            total += self.worth[place]
        return total

    def probe(self, row: Floats32) -> Floats32:
        """Rows like this one `[1, features]`, a feature just below, on or above a threshold, or missing."""
        inner = np.flatnonzero(~self.leaf)
        chosen = (
            inner[np.unique(np.linspace(0, len(inner) - 1, PROBES).astype(np.int64))] if len(inner) else inner
        )
        rows = np.repeat(np.asarray(row, dtype=np.float32), 4 * len(chosen), axis=0)
        with np.errstate(over="ignore"):
            on = self.threshold[chosen].astype(np.float32)
            below, above = np.nextafter(on, np.float32(-np.inf)), np.nextafter(on, np.float32(np.inf))
        values = np.stack([below, on, above, np.full(len(on), np.nan, dtype=np.float32)], axis=1)
        rows[np.arange(len(rows)), np.repeat(self.feature[chosen], 4)] = values.ravel()
        return rows


def read_trees(ranker: Any) -> TreeTable:
    """The trees of a fitted tree ranker; what such a table cannot hold is refused with the reason."""
    readers = {
        "LightGBMRanker": _read_lightgbm,
        "XGBoostRanker": _read_xgboost,
        "CatBoostRanker": _read_catboost,
    }
    kind = next(each.__name__ for each in type(ranker).__mro__ if each.__name__ in readers)
    return readers[kind](ranker)


def _read_lightgbm(ranker: Any) -> TreeTable:
    from placings.rankers.live_trees import read_forest

    forest = read_forest(ranker.booster_.model_to_string())
    if forest is None:
        raise BadInput(
            "this LightGBM model has what an ONNX file of thresholds cannot hold: splits by categories, "
            "linear leaves, an average of trees, or zeros that count as missing. Serve it from its "
            "bundle, or train without these."
        )
    ends = np.append(forest.roots[1:], len(forest.feature))
    with np.errstate(invalid="ignore"):
        missing = forest.nan_as <= forest.threshold  # NaN is on no side, −inf on the left
    return TreeTable(
        "BRANCH_LEQ", forest.roots, np.repeat(np.arange(len(forest.roots)), ends - forest.roots),
        forest.feature, forest.threshold, missing, forest.children[::2], forest.children[1::2], forest.worth,
    )  # fmt: skip


def _read_xgboost(ranker: Any) -> TreeTable:
    from placings.rankers.xgb_files import read_model

    learner = read_model(bytes(ranker.booster_.save_raw("json")))["learner"]
    booster = learner["gradient_booster"]
    if booster["name"] == "gblinear":
        raise BadInput(
            "booster='gblinear' has no trees to write. Train a LinearRanker, which is exported, or serve it "
            "from its bundle."
        )
    drop = np.asarray(booster["weight_drop"], dtype=np.float64) if booster["name"] == "dart" else None
    model = (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]
    parts = []
    for number, tree in enumerate(model["trees"]):
        left, right, kinds = (
            np.asarray(tree.get(name, ()), dtype=np.int64)
            for name in ("left_children", "right_children", "split_type")
        )
        if (kinds == 1).any():
            raise BadInput(
                "this XGBoost model splits by categories, which an ONNX file of thresholds cannot hold. "
                "Serve it from its bundle, or encode the categories as numbers."
            )
        leaf, own = left == -1, np.arange(len(left))
        value = np.asarray(tree["split_conditions"], dtype=np.float32).astype(np.float64)
        feature = np.where(leaf, 0, np.asarray(tree["split_indices"], dtype=np.int64))
        gone = feature >= ranker.n_features_in_  # nodes that pruning took away; nothing leads there
        scale = 1.0 if drop is None else float(drop[number])
        parts.append(
            {
                "feature": np.where(gone, 0, feature), "threshold": np.where(leaf, 0.0, value),
                "missing_yes": np.asarray(tree["default_left"], dtype=np.bool_) & ~leaf,
                "yes": np.where(leaf | gone, own, left), "no": np.where(leaf | gone, own, right),
                "worth": np.where(leaf, value * scale, 0.0),
            }
        )  # fmt: skip
    return _set_base(_join("BRANCH_LT", parts), ranker)


def _read_catboost(ranker: Any) -> TreeTable:
    from placings.rankers.cat import write_model

    model = json.loads(write_model(ranker.booster_, "json"))
    if "trees" in model or model.get("ctr_data") or model["features_info"].get("categorical_features"):
        raise BadInput(
            "this CatBoost model has categories, or trees that are not symmetric (grow_policy other than "
            "SymmetricTree), which are not written as ONNX here. Serve it from its bundle, or train without "
            "these."
        )
    facts = {each["feature_index"]: each for each in model["features_info"]["float_features"]}
    scale, bias = model["scale_and_bias"]
    if sum(2 ** (len(tree.get("splits") or ()) + 1) for tree in model["oblivious_trees"]) > MOST_NODES:
        raise BadInput(
            f"these trees have more than {MOST_NODES:,} nodes. Train with less depth or fewer rounds."
        )
    parts = []
    for tree in model["oblivious_trees"]:
        splits = tree.get("splits") or []
        if any(each["split_type"] != "FloatFeature" for each in splits):
            raise BadInput("this CatBoost model splits by categories. Serve it from its bundle.")
        parts.append(_spread_levels(splits, facts, np.asarray(tree["leaf_values"], dtype=np.float64) * scale))
    table = _join("BRANCH_GT", parts)
    return TreeTable(**{**vars(table), "base": float(np.sum(bias))})


def _spread_levels(splits: Sequence[Any], facts: dict[int, Any], leaves: Floats) -> dict[str, AnyArray]:
    """A symmetric tree as nodes: all 2^l nodes of level l ask the same, bit l of a leaf's place answers."""
    depth = len(splits)
    inner, total = 2**depth - 1, 2 ** (depth + 1) - 1
    level = np.repeat(np.arange(depth), 2 ** np.arange(depth)) if depth else np.zeros(0, dtype=np.int64)
    path = np.arange(inner) - (2**level - 1)
    below = 2 ** (level + 1) - 1
    own = np.arange(inner, total)
    told = [facts[each["float_feature_index"]] for each in splits]
    feature = np.array([each["flat_feature_index"] for each in told], dtype=np.int64)
    border = np.array([np.float32(each["border"]) for each in splits], dtype=np.float64)
    upward = np.array([each.get("nan_value_treatment") == "AsTrue" for each in told], dtype=np.bool_)
    empty = np.zeros(len(own))
    return {
        "feature": np.concatenate([feature[level], np.zeros(len(own), dtype=np.int64)]),
        "threshold": np.concatenate([border[level], empty]),
        "missing_yes": np.concatenate([upward[level], np.zeros(len(own), dtype=np.bool_)]),
        "yes": np.concatenate([below + (path | (1 << level)), own]),
        "no": np.concatenate([below + path, own]),
        "worth": np.concatenate([np.zeros(inner), leaves]),
    }


def _join(mode: str, parts: Sequence[dict[str, AnyArray]]) -> TreeTable:
    """Trees one after the other; what leads to a node is moved along."""
    sizes = np.array([len(part["yes"]) for part in parts], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    joined: dict[str, Any] = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    moved = np.repeat(starts[:-1], sizes)
    joined |= {name: joined[name] + moved for name in ("yes", "no")}
    return TreeTable(mode, starts[:-1], np.repeat(np.arange(len(parts)), sizes), **joined)


def _set_base(table: TreeTable, ranker: Any) -> TreeTable:
    """The table with what the library adds to every score, as its own scores of the sample show it."""
    sample = ranker._sample
    rows = np.asarray(sample if isinstance(sample, np.ndarray) else sample.toarray(), dtype=np.float32)
    apart = np.asarray(ranker._score(rows), dtype=np.float64) - table.score(rows)
    base = float(np.float32(np.median(apart)))
    return TreeTable(**{**vars(table), "base": base})
