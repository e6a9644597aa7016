"""Kept cells: parts of a long job, each in a file named after what made it, so that a stopped job goes on.

A cell is JSON, an array of scores, or both beside each other. Its name ends in a digest of everything that
could change it (data, settings, seed, versions): where one of these differs, another name is looked for.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from placings.core.arrays import AnyArray, Floats
from placings.core.errors import PlacingsWarning
from placings.core.streams import write_atomically, write_text
from placings.core.tables import plain_value, write_json
from placings.core.texts import parse_json

MAPPED = 4096  # bytes; smaller arrays are read whole, and an empty one cannot be mapped


def digest_facts(facts: Any) -> str:
    """Sixteen digits that stand for plain values, whatever the order of a mapping's keys.

    >>> digest_facts({"seed": 0, "data": "ab"}) == digest_facts({"data": "ab", "seed": 0})
    True
    """
    return hashlib.sha256(json.dumps(plain_value(facts), sort_keys=True).encode()).hexdigest()[:16]


def name_cell(name: str, made_of: Any, *, about: str = "", longest: int = 40) -> str:
    """A cell's file name without its suffix: for people its name and what it is about, then the digest.

    >>> name_cell("LightGBM (λ)", {"seed": 0}, about="fold1")[:-16]
    'LightGBM_-fold1-'
    """
    short = re.sub(r"[^A-Za-z0-9]+", "_", name)[:longest]
    return "-".join(part for part in (short, about, digest_facts(made_of)) if part)


def keep_cell(
    folder: Path | None,
    name: str,
    made_of: Mapping[str, Any],
    make: Callable[[], dict[str, Any]],
    stands: Callable[[Mapping[str, Any]], bool] = lambda cell: True,
) -> dict[str, Any]:
    """What `make` gives, or what was kept of it in `folder` under the same name and `made_of`.

    A damaged file is made anew, with a warning, and so is one of which `stands` says that it does not hold
    any more. Without a folder nothing is kept. What comes back has been through JSON in every case, so that
    a fresh cell and a kept one are the same: NaN is None, a tuple a list.
    """
    if folder is None:
        return dict(json.loads(write_json(make())))
    path = folder / f"{name_cell(name, made_of, longest=80)}.json"
    facts = read_facts(path)
    if facts is not None and stands(facts):
        return facts
    made = make()
    folder.mkdir(parents=True, exist_ok=True)
    return write_facts(path, made)


def read_facts(path: Path | None) -> dict[str, Any] | None:
    """The JSON object that was kept, None if there is none; a damaged one is None too, with a warning."""
    if path is None or not path.is_file():
        return None
    try:
        facts = parse_json(path.read_bytes())
    except (OSError, ValueError):
        facts = None
    if isinstance(facts, dict):
        return facts
    _say_damaged(path)
    return None


def write_facts(path: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Write a JSON object, whole or not at all; returns it as it will be read."""
    text = write_json(dict(facts))
    write_text(path, text + "\n")
    return dict(json.loads(text))


def read_array(path: Path | None, rows: int, checksum: str | None = None) -> Floats | None:
    """The float64 vector of `rows` that was kept, mapped from the disk: a job need not hold all its cells.

    None if there is none. With a `checksum` it is known to belong there: a missing one is damaged, and
    damaged ones, also those with another length or checksum, are None with a warning.
    """
    if path is None or (checksum is None and not path.is_file()):
        return None
    try:
        mapped = path.stat().st_size >= MAPPED
        found = np.asarray(np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False))
        right = found.dtype == np.float64 and found.shape == (rows,)
        if right and (checksum is None or digest_array(found) == checksum):
            return found
    except (OSError, ValueError, EOFError):
        pass
    _say_damaged(path)
    return None


def write_array(path: Path, values: AnyArray) -> None:
    """Write a vector as float64 `.npy`, whole or not at all."""
    with write_atomically(path) as part, open(part, "wb") as file:
        np.save(file, np.asarray(values, dtype=np.float64), allow_pickle=False)


def digest_array(values: AnyArray) -> str:
    """A checksum of a vector's float64 bytes."""
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.float64).tobytes()).hexdigest()


def _say_damaged(path: Path) -> None:
    warnings.warn(f"{path} is damaged; it is made anew.", PlacingsWarning, stacklevel=3)
