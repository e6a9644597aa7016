"""CatBoost's binary models, checked before CatBoost sees them: it follows what they say without looking.

A `.cbm` file is the letters CBM1, a length, and a FlatBuffers table. CatBoost verifies that the table's parts
lie within the file, but not that trees use splits and leaves that exist. See docs/bundles.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from placings.core import AnyArray, Ints, check_limit, parse_json
from placings.rankers.bad_models import BadModel

MAGIC, FORMAT = b"CBM1", b"FlabuffersModel_v1"
DEEPEST = 16  # levels of a symmetric tree, as CatBoost has it
BORDERS_A_BIN = 254  # a feature with more borders has several bins
BIN = np.dtype([("feature", "<u2"), ("mask", "u1"), ("split", "u1")])
STEP = np.dtype([("left", "<u2"), ("right", "<u2")])

# places of the fields in their tables, as CatBoost's schema numbers them
CORE = {"format": 0, "trees": 1, "info": 2, "parts": 3}
TREES = {
    "dimension": 0, "splits": 1, "sizes": 2, "starts": 3, "cat": 4, "float": 5, "one_hot": 6, "ctr": 7,
    "leaves": 8, "weights": 9, "steps": 10, "leaf_of_node": 11, "text": 12, "estimated": 13, "scale": 14,
    "bias": 15, "multi_bias": 16, "bins": 17, "embedding": 18,
}  # fmt: skip
FEATURE = {"index": 1, "flat": 2, "borders": 3, "name": 4}
KEY, VALUE = 0, 1


def check_model(content: bytes) -> int:
    """The number of features of a model with one score a row; BadModel if CatBoost could stumble over it.

    Only models of numbers are taken, as a ranker makes them: no categories, no texts, no embeddings.
    """
    check_limit("model", len(content))
    if content[:4] != MAGIC or len(content) < 12:
        raise BadModel("it does not begin with the letters CBM1")
    size = struct.unpack_from("<I", content, 4)[0]
    if size != len(content) - 8:
        raise BadModel("its length is not what it says")
    try:
        core = _Table.find(memoryview(content)[8:], 0)
        if core.text(CORE["format"]) != FORMAT or core.vector(CORE["parts"], 4):
            raise BadModel("it is of another format, or has parts that no ranker makes")
        for each in core.tables(CORE["info"]):
            each.text(KEY)
            if (told := each.text(VALUE)).lstrip()[:1] in (b"{", b"["):
                parse_json(told)
        trees = core.table(CORE["trees"])
        for kind in ("cat", "one_hot", "ctr", "text", "estimated", "embedding"):
            if trees.vector(TREES[kind], 4):
                raise BadModel("it uses features that are not numbers")
        return _check_trees(trees)
    except BadModel:
        raise
    except (struct.error, ValueError, IndexError) as error:
        raise BadModel(str(error)) from error


def _check_trees(trees: _Table) -> int:
    if trees.number(TREES["dimension"], "<i", 0) != 1:
        raise BadModel("it gives several scores a row; a ranker needs one")
    features = trees.tables(TREES["float"])
    borders = []
    for place, each in enumerate(features):
        if any(each.number(FEATURE[name], "<i", -1) != place for name in ("index", "flat")):
            raise BadModel("its features are not numbered one after the other")
        each.text(FEATURE["name"])
        borders.append(len(each.array(FEATURE["borders"], "<f4")))
    counts = np.array(borders, dtype=np.int64)
    splits, sizes, starts = (
        trees.array(TREES[name], "<i4").astype(np.int64) for name in ("splits", "sizes", "starts")
    )
    if (sizes < 0).any() or not np.array_equal(starts, np.cumsum(sizes) - sizes):
        raise BadModel("its trees do not begin where they should")
    if sizes.sum() != len(splits) or len(sizes) != len(starts):
        raise BadModel("its trees have another number of splits than they say")
    if ((splits < 0) | (splits >= max(1, int(counts.sum())))).any():
        raise BadModel("a tree uses a split that does not exist")
    if not np.array_equal(trees.array(TREES["bins"], BIN), _number_bins(counts, splits)):
        raise BadModel("its bins are not those of its splits")
    steps = trees.array(TREES["steps"], STEP)
    leaves, weights = (trees.array(TREES[name], "<f8") for name in ("leaves", "weights"))
    leaf_of_node = trees.array(TREES["leaf_of_node"], "<u4").astype(np.int64)
    bias, scale = trees.array(TREES["multi_bias"], "<f8"), trees.number(TREES["scale"], "<d", 1.0)
    known = [*bias.tolist(), scale, trees.number(TREES["bias"], "<d", 0.0)]
    if len(bias) > 1 or not np.isfinite(known).all() or not np.isfinite(leaves).all():
        raise BadModel("its leaves, scale and bias must be finite numbers")
    count = _count_leaves(sizes) if not len(steps) else _check_steps(starts, sizes, steps, leaf_of_node)
    if len(leaves) != count or len(weights) not in (0, count):
        raise BadModel(f"its trees have {count} leaves, but it tells of {len(leaves)}")
    return len(features)


def _count_leaves(sizes: Ints) -> int:
    """Of symmetric trees, which split all nodes of a level alike."""
    if (sizes > DEEPEST).any():
        raise BadModel(f"a tree is deeper than {DEEPEST} levels")
    return int((1 << sizes).sum())


def _check_steps(starts: Ints, sizes: Ints, steps: AnyArray, leaf_of_node: Ints) -> int:
    """Of other trees, whose nodes say how far ahead their children are; 0 is a leaf."""
    nodes = int(sizes.sum())
    if (sizes < 1).any() or len(steps) != nodes or len(leaf_of_node) != nodes:
        raise BadModel("its trees have another number of nodes than they say")
    ends = np.repeat(starts + sizes, sizes)
    ahead = np.maximum(steps["left"], steps["right"]).astype(np.int64)
    if (np.arange(nodes) + ahead >= ends).any():
        raise BadModel("a tree leads out of itself")
    final = (steps["left"] == 0) | (steps["right"] == 0)
    if not np.array_equal(np.sort(leaf_of_node[final]), np.arange(int(final.sum()))):
        raise BadModel("its leaves are not those that its trees lead to")
    return int(final.sum())


def _number_bins(borders: Ints, splits: Ints) -> AnyArray:
    """What each split compares: the feature's bin, and its border in it."""
    made = np.zeros(len(splits), dtype=BIN)
    if not borders.sum():  # trees without a split
        return made
    first = np.concatenate([[0], np.cumsum(-(-borders // BORDERS_A_BIN))])
    if first[-1] > 1 << 16:
        raise BadModel("it has too many features with splits")
    owner = np.repeat(np.arange(len(borders)), borders)
    own = np.arange(int(borders.sum())) - np.repeat(np.cumsum(borders) - borders, borders)
    made["feature"] = (first[owner] + own // BORDERS_A_BIN)[splits]
    made["split"] = (own % BORDERS_A_BIN + 1)[splits]
    return made


@dataclass(frozen=True)
class _Table:
    """A table of a FlatBuffers file: where it begins, and where each field is (0: not there)."""

    content: memoryview
    place: int
    fields: tuple[int, ...]

    @classmethod
    def find(cls, content: memoryview, at: int) -> _Table:
        """The table that the number at a place leads to."""
        place = _follow(content, at)
        head = place - struct.unpack_from("<i", content, place)[0]
        if head < 0:
            raise BadModel("it leads out of itself")
        size, length = struct.unpack_from("<HH", content, head)
        if size < 4 or size % 2 or place + length > len(content):
            raise BadModel("it leads out of itself")
        fields = struct.unpack_from(f"<{size // 2 - 2}H", content, head + 4)
        if any(field and not 4 <= field < length for field in fields):
            raise BadModel("it leads out of itself")
        return cls(content, place, fields)

    def field(self, number: int) -> int:
        """Where a field is; 0 if it is not told."""
        offset = self.fields[number] if number < len(self.fields) else 0
        return self.place + offset if offset else 0

    def number(self, number: int, kind: str, default: Any) -> Any:
        at = self.field(number)
        return struct.unpack_from(kind, self.content, at)[0] if at else default

    def vector(self, number: int, size: int) -> memoryview:
        """The bytes of a field's values, each of this size; empty if it is not told."""
        at = self.field(number)
        if not at:
            return self.content[:0]
        start = _follow(self.content, at)
        count = struct.unpack_from("<I", self.content, start)[0]
        if count > (len(self.content) - start - 4) // size:
            raise BadModel("it leads out of itself")
        return self.content[start + 4 : start + 4 + count * size]

    def array(self, number: int, kind: Any) -> AnyArray:
        return np.frombuffer(self.vector(number, np.dtype(kind).itemsize), dtype=kind)

    def text(self, number: int) -> bytes:
        return bytes(self.vector(number, 1))

    def table(self, number: int) -> _Table:
        at = self.field(number)
        if not at:
            raise BadModel("it has no trees")
        return _Table.find(self.content, at)

    def tables(self, number: int) -> list[_Table]:
        count = len(self.vector(number, 4)) // 4
        start = _follow(self.content, self.field(number)) + 4 if count else 0
        return [_Table.find(self.content, start + 4 * place) for place in range(count)]


def _follow(content: memoryview, at: int) -> int:
    """Where the number at a place leads to: so many bytes on."""
    place = at + int(struct.unpack_from("<I", content, at)[0])
    if place + 4 > len(content):
        raise BadModel("it leads out of itself")
    return place
