"""XGBoost's model files, checked before XGBoost sees them: it follows what they say without looking.

A model comes as JSON or as UBJSON, binary JSON. Either is read here into plain values, and every number that
XGBoost uses as a place or as a length is compared with what is there. See docs/bundles.md.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from placings.core import AnyArray, Ints, check_limit, find_limit, parse_json, say_limit
from placings.rankers.bad_models import BadModel

ROOT = 2**31 - 1  # the parent of a root, and the feature of a node that was deleted
MOST_CATEGORIES = 2**24  # as XGBoost has it
OF_NODES = ("right_children", "parents", "split_indices", "split_conditions", "default_left", "base_weights")
MAYBE_OF_NODES = ("loss_changes", "sum_hessian", "split_type")  # some are missing in older files

Fields = Mapping[str, Any]


def read_model(content: bytes) -> dict[str, Any]:
    """The values of a model file, JSON or UBJSON; BadModel if it is neither."""
    if not content.startswith(b"{"):
        raise BadModel("it begins with no '{'")
    check_limit("model", len(content))
    try:
        value = parse_json(content, unique=True) if _is_text(content) else _Reader(content).read()
    except BadModel:
        raise
    except ValueError as error:
        raise BadModel(str(error)) from None
    if not isinstance(value, dict):
        raise BadModel("it is no object")
    return value


def check_model(model: Fields) -> int:
    """The number of features of a model with one score a row; BadModel if XGBoost could stumble over it."""
    try:
        learner = _need(model, "learner", dict)
        shape = _need(learner, "learner_model_param", dict)
        width = _count(shape, "num_feature")
        if width < 1:
            raise BadModel("it has no features")
        if _count(shape, "num_class", "0") > 1 or _count(shape, "num_target", "1") > 1:
            raise BadModel("it gives several scores a row; a ranker needs one")
        _check_score(shape)
        for name in ("feature_names", "feature_types"):
            told = learner.get(name, [])
            if not isinstance(told, list) or not all(isinstance(each, str) for each in told):
                raise BadModel(f"{name} must be texts")
            if len(told) not in (0, width):
                raise BadModel(f"{name} must be {width} texts. Got {len(told)}")
        _check_booster(_need(learner, "gradient_booster", dict), width)
    except (KeyError, TypeError, OverflowError, AttributeError) as error:
        raise BadModel(f"it lacks something, or holds something else there: {error}") from error
    return width


def _check_score(shape: Fields) -> None:
    """The score of a row in no leaf: one finite number, as text, in brackets since version 3."""
    score = str(shape.get("base_score", "0.5"))
    try:
        known = np.isfinite(float(score.removeprefix("[").removesuffix("]")))
    except ValueError:
        known = False
    if not known:
        raise BadModel(f"base_score must be one finite number. Got {score[:40]!r}")


def _check_booster(booster: Fields, width: int) -> None:
    name = booster.get("name")
    if name == "gblinear":
        weights = _floats(_need(booster, "model", dict), "weights")
        if len(weights) != width + 1 or not np.isfinite(weights).all():
            raise BadModel(f"weights must be {width + 1} finite numbers. Got {len(weights)}")
        return
    if name not in ("gbtree", "dart"):
        raise BadModel(f"its booster {str(name)[:40]!r} is none of gbtree, dart and gblinear")
    model = _need(booster if name == "gbtree" else _need(booster, "gbtree", dict), "model", dict)
    trees = _need(model, "trees", list)
    facts = _need(model, "gbtree_model_param", dict)
    if _count(facts, "num_trees") != len(trees):
        raise BadModel(f"num_trees is {facts['num_trees']}, but there are {len(trees)} trees")
    if _count(facts, "num_parallel_tree", "1") not in range(1, max(1, len(trees)) + 1):
        raise BadModel(f"num_parallel_tree is {facts['num_parallel_tree']} of {len(trees)} trees")
    groups = _ints(model, "tree_info")
    if len(groups) != len(trees) or groups.any():
        raise BadModel("tree_info must be a 0 for each tree")
    if "iteration_indptr" in model:
        borders = _ints(model, "iteration_indptr")
        if not len(borders) or borders[0] != 0 or borders[-1] != len(trees) or (np.diff(borders) < 0).any():
            raise BadModel("iteration_indptr must rise from 0 to the number of trees")
    if name == "dart" and len(_floats(booster, "weight_drop")) != len(trees):
        raise BadModel("weight_drop must be a number for each tree")
    _check_encoding(model.get("cats", {}), width)
    _check_ids(trees)
    for number, tree in enumerate(trees):
        try:
            _check_tree(tree, width)
        except BadModel as error:
            raise BadModel(f"tree {number}: {error}") from None


def _check_ids(trees: list[Any]) -> None:
    """An id is the place where XGBoost puts a tree: if two have the same, another place stays empty."""
    ids = [_need(tree, "id", int) for tree in trees]
    if sorted(ids) != list(range(len(trees))):
        raise BadModel("the ids of trees must be the numbers from 0 on, each once")


def _check_tree(tree: Fields, width: int) -> None:
    left = _ints(tree, "left_children")
    nodes = len(left)
    facts = _need(tree, "tree_param", dict)
    if not nodes or _count(facts, "num_nodes") != nodes:
        raise BadModel(f"num_nodes is {facts['num_nodes']}, but there are {nodes} nodes")
    if _count(facts, "size_leaf_vector", "0") > 1:
        raise BadModel("its leaves hold several numbers")
    if not nodes == _count(facts, "num_deleted", "0") + int((~_find_deleted(tree)).sum()):
        raise BadModel("num_deleted is not the number of deleted nodes")
    if _count(facts, "num_feature", str(width)) != width:
        raise BadModel(f"num_feature is {facts['num_feature']}, not {width}")
    for name in (*OF_NODES, *(name for name in MAYBE_OF_NODES if name in tree)):
        if len(_need(tree, name, list | np.ndarray)) != nodes:
            raise BadModel(f"{name} must have {nodes} values. Got {len(tree[name])}")
    _check_links(tree, left, width)
    _floats(tree, "base_weights")
    if not np.isfinite(_floats(tree, "split_conditions")[left == -1]).all():
        raise BadModel("a leaf's value must be a finite number")
    _check_categories(tree, nodes, left != -1)


def _find_deleted(tree: Fields) -> AnyArray:
    deleted = _ints(tree, "split_indices") == ROOT
    deleted[:1] = False
    return np.asarray(deleted)


def _check_links(tree: Fields, left: Ints, width: int) -> None:
    """Nodes that are not deleted form one tree under node 0, whose parents are told rightly."""
    right, parents, features = (_ints(tree, name) for name in ("right_children", "parents", "split_indices"))
    nodes, deleted = len(left), _find_deleted(tree)
    inner = left != -1
    places = np.flatnonzero(inner)
    children = np.concatenate([left[inner], right[inner]])
    wanted = np.flatnonzero(~deleted)[1:]
    if (right[~inner] != -1).any() or not np.array_equal(np.sort(children), wanted):
        raise BadModel("its nodes form no tree")
    if (parents[children] != np.concatenate([places, places])).any() or parents[0] not in (ROOT, -1):
        raise BadModel("parents do not say whose children its nodes are")
    if ((parents[1:] < 0) | (parents[1:] >= nodes)).any():
        raise BadModel("parents name a node that does not exist")
    if not _is_connected(left, right, inner, len(wanted)):
        raise BadModel("its nodes form no tree")
    used = features[inner]
    if ((used < 0) | (used >= width)).any():
        raise BadModel("a split uses a feature that does not exist")


def _is_connected(left: Ints, right: Ints, inner: AnyArray, others: int) -> bool:
    """Whether every node is reached from node 0: each has one parent, so then there is no ring."""
    reached, level = 0, np.zeros(1, dtype=np.int64)
    while len(level := level[inner[level]]):
        level = np.concatenate([left[level], right[level]])
        reached += len(level)
        if reached > others:
            return False
    return reached == others


def _check_categories(tree: Fields, nodes: int, inner: AnyArray) -> None:
    kinds = _ints(tree, "split_type") if "split_type" in tree else np.zeros(nodes, dtype=np.int64)
    if not np.isin(kinds, (0, 1)).all():
        raise BadModel("split_type must be 0 or 1")
    names = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
    values, owners, starts, sizes = (_ints(tree, name) if name in tree else kinds[:0] for name in names)
    if not np.array_equal(owners, np.flatnonzero((kinds == 1) & inner)):
        raise BadModel("categories_nodes must be the nodes that split by categories")
    if not len(owners) == len(starts) == len(sizes):
        raise BadModel("categories_segments and categories_sizes must have a value for each such node")
    if (sizes < 1).any() or not np.array_equal(starts, np.cumsum(sizes) - sizes):
        raise BadModel("categories_segments must follow from categories_sizes")
    if int(sizes.sum()) != len(values) or ((values < 0) | (values >= MOST_CATEGORIES)).any():
        raise BadModel("categories must be as many as categories_sizes say, each from 0 to 2^24")


def _check_encoding(told: Fields, width: int) -> None:
    """The categories of a table that it was trained on, feature by feature; none for arrays."""
    if not told or not len(told.get("enc", ())):
        return
    borders, order = _ints(told, "feature_segments"), _ints(told, "sorted_idx")
    counts = np.diff(borders)
    if len(told["enc"]) != width or len(borders) != width + 1 or borders[0] != 0 or (counts < 0).any():
        raise BadModel("cats must describe each feature")
    if borders[-1] != len(order):
        raise BadModel("sorted_idx must have a place for each category")
    for number, (each, count) in enumerate(zip(told["enc"], counts.tolist(), strict=True)):
        values = _need(each, "values", list | np.ndarray)
        own = order[borders[number] : borders[number + 1]]
        if not np.array_equal(np.sort(own), np.arange(count)):
            raise BadModel("sorted_idx must order the categories of each feature")
        if "offsets" not in each:
            if len(values) != count:
                raise BadModel("cats must have a value for each category")
            continue
        ends = _ints(each, "offsets")
        if len(ends) != (count + 1 if count or len(ends) else 0):
            raise BadModel("cats must have a text for each category")
        if len(ends) and (ends[0] != 0 or ends[-1] != len(values) or (np.diff(ends) < 0).any()):
            raise BadModel("the texts of cats do not fit their offsets")


# -- values -----------------------------------------------------------------------------------------


def _need(fields: Fields, name: str, kind: Any) -> Any:
    value = fields[name]
    if not isinstance(value, kind):
        raise BadModel(f"{name} must be another kind of value. Got {type(value).__name__}")
    return value


def _count(fields: Fields, name: str, default: str | None = None) -> int:
    """A whole number from 0 on, which XGBoost writes as text."""
    text = fields[name] if default is None else fields.get(name, default)
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadModel(f"{name} must be a whole number. Got {str(text)[:40]!r}")
    return int(text)


def _array(fields: Fields, name: str) -> AnyArray:
    try:
        return np.asarray(_need(fields, name, list | np.ndarray))
    except ValueError:  # lists among its numbers
        raise BadModel(f"{name} must be one list of numbers") from None


def _ints(fields: Fields, name: str) -> Ints:
    found = _array(fields, name)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "biu"):
        raise BadModel(f"{name} must be whole numbers")
    return found.astype(np.int64)


def _floats(fields: Fields, name: str) -> AnyArray:
    found = _array(fields, name)
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iuf"):
        raise BadModel(f"{name} must be numbers")
    return found.astype(np.float64)


# -- UBJSON -----------------------------------------------------------------------------------------

NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
PLAIN = {b"T": True, b"F": False, b"Z": None}


def _is_text(content: bytes) -> bool:
    """JSON goes on with a name in quotes or an end; UBJSON with the length of a name."""
    return content[1:64].lstrip()[:1] in (b'"', b"}", b"")


class _Reader:
    """UBJSON as XGBoost writes it: lengths are told in advance, numbers are big-endian."""

    def __init__(self, content: bytes) -> None:
        self.content, self.place, self.depth = content, 0, 0

    def read(self) -> Any:
        value = self.read_value(self.take(1))
        if self.place != len(self.content):
            raise BadModel("it goes on after its end")
        return value

    def take(self, count: int) -> bytes:
        if count < 0 or count > len(self.content) - self.place:
            raise BadModel("it ends too early")
        self.place += count
        return self.content[self.place - count : self.place]

    def read_value(self, kind: bytes) -> Any:
        if kind in NUMBERS:
            return np.frombuffer(self.take(np.dtype(NUMBERS[kind]).itemsize), NUMBERS[kind])[0].item()
        if kind in PLAIN:
            return PLAIN[kind]
        if kind == b"S":
            return self.read_text()
        if kind not in (b"{", b"["):
            raise BadModel(f"it has an unknown mark {kind!r}")
        self.depth += 1
        if self.depth > find_limit("depth"):
            raise BadModel(say_limit("depth"))
        value = self.read_object() if kind == b"{" else self.read_array()
        self.depth -= 1
        return value

    def read_text(self) -> str:
        return self.take(self.read_length()).decode()

    def read_length(self) -> int:
        if self.take(1) != b"L":
            raise BadModel("a length is of an unknown kind")
        return int(struct.unpack(">q", self.take(8))[0])

    def read_object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.content[self.place : self.place + 1] != b"}":
            name = self.read_text()
            if name in found:
                raise BadModel(f"{name[:40]!r} stands twice")
            found[name] = self.read_value(self.take(1))
        self.take(1)
        return found

    def read_array(self) -> Any:
        mark = self.content[self.place : self.place + 1]
        if mark == b"$":
            kind = NUMBERS.get(self.take(2)[1:])
            if kind is None or self.take(1) != b"#":
                raise BadModel("an array is of an unknown kind")
            count = self.read_length()
            size = np.dtype(kind).itemsize
            if count < 0 or count > len(self.content) // size:
                raise BadModel("it ends too early")
            return np.frombuffer(self.take(count * size), kind)
        if mark == b"#":
            self.take(1)
            count = self.read_length()
            if count > len(self.content) - self.place:
                raise BadModel("it ends too early")
            return [self.read_value(self.take(1)) for _ in range(count)]
        found = []
        while self.content[self.place : self.place + 1] != b"]":
            found.append(self.read_value(self.take(1)))
        self.take(1)
        return found
