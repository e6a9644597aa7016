"""LightGBM's trees as flat arrays: the rows of one list walk them together, tree by tree, level by level.

A row that walks alone waits at each node for what the last one said; rows side by side do not. The numbers
are LightGBM's own to the bit: the same comparisons, and leaves added up in the order of trees. Trees with
categories, linear leaves, an average (random forests) or zeros that count as missing are left to the library.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from placings.core import Floats, Floats32, Ints, compiled

CATEGORY, LEFT, ZERO, NAN = 1, 2, 4, 8  # bits of a decision: by category; what is missing goes left; what is
# missing: zeros, or NaN; if neither, NaN is read as 0


class Forest(NamedTuple):
    """Nodes of all trees, leaves among them, one tree's after the other's.

    A leaf leads to itself, so that a row that has arrived may go on. NaN is read as `nan_as` of the node:
    −inf goes left, NaN itself right (a threshold may be +inf), 0 is compared.
    """

    roots: Ints  # [trees]
    levels: Ints  # how many steps all rows take together; the few that must go deeper then walk alone
    feature: Ints  # [nodes]
    threshold: Floats
    nan_as: Floats
    children: Ints  # [2 · nodes]: left and right of each node
    worth: Floats  # [nodes], 0 but for leaves

    def score(self, rows: Floats32) -> Floats:
        """The sum of the leaves that each row reaches `[rows]`."""
        out = np.zeros(len(rows))
        walk_trees(np.ascontiguousarray(rows, dtype=np.float32), *self, out)
        return out


def read_forest(text: str) -> Forest | None:
    """The trees of a LightGBM text model; None if they do what is not done here."""
    head, *trees = text.split("\nTree=")
    if any(line.strip() == "average_output" for line in head.split("\n")):
        return None
    roots, levels = [], []
    parts: dict[str, list[Any]] = {
        "feature": [np.empty(0, dtype=np.int64)], "threshold": [], "nan_as": [],
        "children": [np.empty(0, dtype=np.int64)], "worth": [np.empty(0)],
    }  # fmt: skip
    start = 0
    for tree in trees:
        fields = dict(line.partition("=")[::2] for line in tree.split("\n\n")[0].split("\n")[1:])
        leaf = np.array(fields["leaf_value"].split(), dtype=np.float64)
        count = len(leaf) - 1  # of inner nodes; a tree of one leaf has none
        inner = {
            name: np.array(fields[name].split() if count else [], dtype=np.float64)
            for name in ("split_feature", "threshold", "decision_type", "left_child", "right_child")
        }
        decision = inner["decision_type"].astype(np.int64)
        if fields.get("num_cat", "0") != "0" or fields.get("is_linear", "0") != "0":
            return None
        if ((decision & (CATEGORY | ZERO)) > 0).any():
            return None
        own = np.arange(start + count, start + count + len(leaf))
        children = np.stack([inner["left_child"], inner["right_child"]], axis=1).astype(np.int64)
        children = np.where(children >= 0, children + start, start + count + ~children)
        missing = np.where(decision & LEFT, -np.inf, np.nan)
        parts["feature"] += [inner["split_feature"].astype(np.int64), np.zeros(len(leaf), dtype=np.int64)]
        parts["threshold"] += [inner["threshold"], np.zeros(len(leaf))]
        parts["nan_as"] += [np.where(decision & NAN, missing, 0.0), np.zeros(len(leaf))]
        parts["children"] += [children.ravel(), np.repeat(own, 2)]
        parts["worth"] += [np.zeros(count), leaf]
        roots.append(start)
        levels.append(count.bit_length())
        start += count + len(leaf)
    joined = {name: np.concatenate([np.empty(0), *arrays]) for name, arrays in parts.items()}
    for name in ("feature", "children"):
        joined[name] = joined[name].astype(np.int64)
    return Forest(np.array(roots, dtype=np.int64), np.array(levels, dtype=np.int64), **joined)


@compiled
def walk_trees(
    x: Floats32,
    roots: Ints,
    levels: Ints,
    feature: Ints,
    threshold: Floats,
    nan_as: Floats,
    children: Ints,
    worth: Floats,
    out: Floats,
) -> None:
    """Add to `out` `[rows]` the leaf of each tree that a row reaches, tree by tree."""
    rows = x.shape[0]
    places = np.empty(rows, dtype=np.int64)
    for tree in range(len(roots)):
        places[:] = roots[tree]
        for _ in range(levels[tree]):
            for row in range(rows):
                node = places[row]
                value = np.float64(x[row, feature[node]])
                value = nan_as[node] if value != value else value
                places[row] = children[2 * node + (0 if value <= threshold[node] else 1)]
        for row in range(rows):
            node = places[row]
            after = -1
            while node != after:
                after = node
                value = np.float64(x[row, feature[node]])
                value = nan_as[node] if value != value else value
                node = children[2 * node + (0 if value <= threshold[node] else 1)]
            out[row] += worth[node]
