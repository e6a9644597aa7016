"""Bundles of every ranker, and a re-ranker, damaged on the way: bytes changed, files cut, swapped or lost.

What is accepted all the same must score as the bundle that was saved.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
from bundle_cases import BUNDLES, find_original, score, score_original
from mutations import change_bytes


def make(source: random.Random, folder: Path) -> Path:
    path = folder / (original := source.choice(BUNDLES)).name
    shutil.copytree(original, path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    file, other = source.choice(files), source.choice(files)
    what = source.random()
    if what < 0.7:
        file.write_bytes(change_bytes(source, file.read_bytes()))
    elif what < 0.8:
        file.unlink()
    elif what < 0.9:
        one, two = file.read_bytes(), other.read_bytes()
        file.write_bytes(two)
        other.write_bytes(one)
    else:
        (file.parent / "more.txt").write_text("more")
    return path


def check(path: Path) -> None:
    found = score(path)
    # the same files in the same process, so the same numbers
    assert np.array_equal(found, score_original(find_original(path)))
