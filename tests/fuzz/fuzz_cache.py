"""Damaged cache entries (bits flipped, files cut or exchanged, JSON rewritten): the data stay the same."""

from __future__ import annotations

import json
import os
import random
import shutil
import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np

from placings.data import RankingData, cache, list_entries, prune_entries, read

DENSE = "2 qid:7 1:0.5 2:3 #docid = A\n0 qid:7 1:1 2:nan\n1 qid:9 1:2 2:2.5 #docid = B\n1 qid:é 2:1\n"
VALUES = [
    None,
    True,
    -1,
    0,
    1,
    3,
    10**30,
    1.5,
    float("nan"),
    "",
    "x",
    "../../x",
    [],
    {},
    [[]],
    [1],
    ["a", "b"],
    "X.npy",
]


def make(source: random.Random, folder: Path) -> Path:
    path = folder / "case"
    path.mkdir()
    (path / "rows.txt").write_text(DENSE, encoding="utf-8")
    (path / "sparse").write_text(str(source.choice([0, 1])))
    (path / "seed").write_text(str(source.randrange(10**9)))
    return path


def check(path: Path) -> None:
    """The damage is done here: an entry's key covers the path and the time of its source."""
    source = random.Random((path / "seed").read_text())
    sparse = (path / "sparse").read_text() == "1"
    folder = path / "kept"
    os.environ["PLACINGS_CACHE"] = str(folder)
    rows = path / "rows.txt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fresh = read(rows, cache=False, sparse=sparse)
        read(rows, cache="always", sparse=sparse)
        (entry,) = folder.iterdir()
        honest = damage(source, entry)
        list_entries()
        prune_entries(1 << 40)
        found = read(rows, cache="always", sparse=sparse)
        if honest:
            assert_same(fresh, found)
            assert_same(fresh, read(rows, cache="always", sparse=sparse))
        else:  # someone who may write here may say what they like, but nothing crashes on it
            use(found)


def damage(source: random.Random, entry: Path) -> bool:
    """Do something to an entry; False if its seal was made to fit again."""
    file = source.choice(sorted(entry.iterdir()))
    kind = source.choice(
        [
            "flip",
            "flip",
            "flip",
            "cut",
            "grow",
            "delete",
            "swap",
            "json",
            "json",
            "reseal",
            "reseal",
            "stray",
            "folder",
        ]
    )
    content = bytearray(file.read_bytes())
    if kind == "flip":
        for _ in range(source.choice([1, 1, 2, 8])):
            content[source.randrange(len(content))] ^= 1 << source.randrange(8)
        file.write_bytes(content)
    elif kind == "cut":
        file.write_bytes(content[: source.randrange(len(content))])
    elif kind == "grow":
        file.write_bytes(content + source.randbytes(source.choice([1, 64])))
    elif kind == "delete":
        file.unlink()
    elif kind == "swap":
        shutil.copy(source.choice(sorted(entry.iterdir())), entry / "other")
        (entry / "other").replace(file)
    elif kind == "stray":
        (entry / source.choice(["X.npy", "X_data.npy", "z.npy", "y.arrow"])).write_bytes(source.randbytes(30))
    elif kind == "folder":
        file.unlink()
        file.mkdir()
    else:
        meta = json.loads((entry / "entry.json").read_text())
        if kind == "json" or source.random() < 0.5:
            for _ in range(source.choice([1, 1, 3])):
                rewrite(source, meta)
        elif file.name != "entry.json":
            content[source.randrange(len(content))] ^= 1 << source.randrange(8)
            file.write_bytes(content)
        if kind == "reseal":
            meta.pop("seal", None)
            meta["sums"] = cache._sum_files(entry)
            meta["seal"] = cache._seal(meta)
        (entry / "entry.json").write_text(json.dumps(meta))
        return kind == "json"
    return True


def rewrite(source: random.Random, meta: dict[str, object]) -> None:
    name = source.choice([*meta, "new"])
    value = meta.get(name)
    if isinstance(value, list) and value and source.random() < 0.6:
        value[source.randrange(len(value))] = deepcopy(source.choice(VALUES))
    elif isinstance(value, dict) and value and source.random() < 0.6:
        value[source.choice([*value])] = deepcopy(source.choice(VALUES))
    elif source.random() < 0.3:
        meta.pop(name, None)
    else:
        meta[name] = deepcopy(source.choice(VALUES))


def use(data: RankingData) -> None:
    assert data.n_rows == len(data.y) == int(data.offsets[-1])
    _ = (data.X.sum(), np.sort(data.y), data.qid, repr(data), [part.n_rows for part in data])


def assert_same(one: RankingData, other: RankingData) -> None:
    assert one.feature_names == other.feature_names
    assert one.is_sparse == other.is_sparse
    for name in ("X", "y", "offsets", "qids", "items"):
        first, second = getattr(one, name), getattr(other, name)
        if name == "X" and one.is_sparse:
            first, second = first.toarray(), second.toarray()
        np.testing.assert_array_equal(first, second)
        assert first.dtype == second.dtype
