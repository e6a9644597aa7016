"""LightGBM's text format, checked before LightGBM reads it: on a torn file it ends the whole process."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from placings.arrays import AnyArray

Fields = dict[str, str]
NUMBER = re.compile(r"-?([0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?|inf|nan)")


class BadModel(Exception):
    """What is wrong with a model's text."""


def check_model(text: bytes) -> int:
    """The number of features of a model with one score a row; BadModel if LightGBM could stumble over it.

    Checked: the header, that each tree is where the header says, that its arrays have the lengths its
    leaves ask for, that children form one tree, and that features exist.
    """
    if not text.startswith(b"tree\n"):
        raise BadModel("it does not begin with the line 'tree'")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        raise BadModel("it is not UTF-8") from error
    head, gap, rest = text.partition(b"\n\n")
    fields = _read_fields(head)
    for name in ("num_class", "num_tree_per_iteration"):
        if _read_numbers(fields, name, int, 1)[0] != 1:
            raise BadModel(f"it gives several scores a row ({name} is {fields[name]})")
    width = int(_read_numbers(fields, "max_feature_idx", int, 1)[0]) + 1
    if width < 1 or len(fields.get("feature_names", "").split(" ")) != width:
        raise BadModel(f"it does not name its {width} features")
    if len(fields.get("feature_infos", "").split(" ")) != width:
        raise BadModel(f"it does not describe its {width} features")
    sizes = _read_numbers(fields, "tree_sizes", int)
    if not gap or not len(sizes) or (sizes <= 0).any() or sizes.sum() > len(rest):
        raise BadModel("it ends before its trees do")
    body = rest.lstrip(b"\n")
    ends = np.concatenate([[0], np.cumsum(sizes)])
    if not body[ends[-1] :].lstrip(b"\n").startswith(b"end of trees"):
        raise BadModel("its trees do not end where its header says")
    for number, (start, stop) in enumerate(pairwise(ends.tolist())):
        block = body[start:stop]
        if not block.startswith(b"Tree=%d\n" % number):
            raise BadModel(f"tree {number} is not where its header says")
        try:
            if not all(b"=" in line for line in block.rstrip(b"\n").split(b"\n")):
                raise BadModel("it has a line that is not name=value")
            _check_tree(_read_fields(block), width)
        except BadModel as error:
            raise BadModel(f"tree {number}: {error}") from error
    _check_parameters(body[ends[-1] :])
    return width


def _check_parameters(tail: bytes) -> None:
    """The parameters that are told after the trees: `[name: value]`, one a line."""
    _, begin, rest = tail.partition(b"\nparameters:")
    told, end, _ = rest.partition(b"\nend of parameters")
    if bool(begin) != bool(end) or (b"parameters" in tail and not begin):
        raise BadModel("its parameters have no beginning or no end")
    for line in told.split(b"\n"):
        if line.strip() and not re.fullmatch(rb"\[\w+: .*\]", line):
            raise BadModel(f"among its parameters is a line {line.decode()[:40]!r}")


def _check_tree(fields: Fields, width: int) -> None:
    for name in fields:
        _read_numbers(fields, name, float)
    leaves = int(_read_numbers(fields, "num_leaves", int, 1)[0])
    categories = int(_read_numbers(fields, "num_cat", int, 1)[0])
    if leaves < 1 or categories < 0:
        raise BadModel("its number of leaves is wrong")
    _read_numbers(fields, "leaf_value", float, leaves)
    if leaves == 1:
        return
    nodes = leaves - 1
    features = _read_numbers(fields, "split_feature", int, nodes)
    threshold = _read_numbers(fields, "threshold", float, nodes)
    decision = _read_numbers(fields, "decision_type", int, nodes)
    children = np.stack([_read_numbers(fields, name, int, nodes) for name in ("left_child", "right_child")])
    if not _are_within(features, width):
        raise BadModel("a split uses a feature that does not exist")
    wanted = np.concatenate([np.arange(-leaves, 0), np.arange(1, nodes)])  # every leaf and node but the root
    inner = children >= 0
    if (
        not np.array_equal(np.sort(children, axis=None), wanted)
        or (children <= np.arange(nodes))[inner].any()
    ):
        raise BadModel("its nodes form no tree")
    told = dict.fromkeys(("split_gain", "internal_value", "internal_weight", "internal_count"), nodes)
    told |= dict.fromkeys(("leaf_weight", "leaf_count"), leaves)
    for name in told.keys() & fields.keys():  # older versions leave some out
        _read_numbers(fields, name, float, told[name])
    of_category = (decision & 1) == 1
    if categories or of_category.any():
        _check_categories(fields, categories, threshold[of_category])
    if fields.get("is_linear", "0") != "0":
        counts = _read_numbers(fields, "num_features", int, leaves)
        used = _read_numbers(fields, "leaf_features", int, int(counts.sum()))
        _read_numbers(fields, "leaf_coeff", float, int(counts.sum()))
        _read_numbers(fields, "leaf_const", float, leaves)
        if (counts < 0).any() or not _are_within(used, width):
            raise BadModel("a leaf uses a feature that does not exist")


def _check_categories(fields: Fields, categories: int, places: AnyArray) -> None:
    borders = _read_numbers(fields, "cat_boundaries", int, categories + 1)
    words = _read_numbers(fields, "cat_threshold", int)
    falling = (np.diff(borders) < 0).any() or borders[0] < 0 or borders[-1] > len(words)
    if falling or not _are_within(places, categories):
        raise BadModel("a split uses categories that do not exist")


def _are_within(places: AnyArray, count: int) -> bool:
    return bool(((places >= 0) & (places < count)).all())


def _read_fields(block: bytes) -> Fields:
    lines = block.decode().split("\n")
    return {name: value for name, equals, value in (line.partition("=") for line in lines) if equals}


def _read_numbers(
    fields: Fields, name: str, kind: type[int] | type[float], count: int | None = None
) -> AnyArray:
    try:
        words = [word for word in fields[name].split(" ") if word]
        if not all(map(NUMBER.fullmatch, words)):  # Python reads more as numbers than LightGBM does
            raise ValueError(name)
        numbers: AnyArray = np.array([kind(word) for word in words], dtype=kind)
    except (KeyError, ValueError, OverflowError) as error:
        raise BadModel(f"{name} is not there or not numbers") from error
    if count is not None and len(numbers) != count:
        raise BadModel(f"{name} must have {count} numbers, and has {len(numbers)}")
    return numbers
