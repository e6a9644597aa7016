"""What was read once is kept as plain arrays in the user's cache folder and mapped on the next read.

An entry is a folder of `.npy` and Arrow files beside `entry.json`; nothing in it is ever executed
(`allow_pickle=False`). Its key covers the files' paths, sizes, times and sampled bytes, the reader's
options and the format's version, so a changed file is simply another entry. Entries appear by an atomic
rename, and the least recently used go when the bound is passed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import AnyArray, BadInput
from placings.data.ranking import PER_ROW, RankingData

FORMAT = 3  # 2: columns such as `clicked` and `position` are no features; 3: the warning `Joined`
SMALLEST = 2 << 20  # bytes of source; a smaller file is read anew faster than it is looked up
DEFAULT_LIMIT = 20 << 30
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclass(frozen=True)
class CacheEntry:
    """One remembered read."""

    key: str
    source: str
    bytes: int
    used: float
    rows: int
    queries: int
    features: int


def find_folder() -> Path:
    """`PLACINGS_CACHE`, or the user's cache folder."""
    chosen = os.environ.get("PLACINGS_CACHE")
    if chosen:
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_cache_path("placings")) / "data"


def find_limit() -> int:
    """`PLACINGS_CACHE_LIMIT`, or 20 GiB."""
    chosen = os.environ.get("PLACINGS_CACHE_LIMIT", "")
    return parse_size(chosen) if chosen.strip() else DEFAULT_LIMIT


def parse_size(text: str) -> int:
    """Bytes, or a number with a unit.

    >>> parse_size("1.5G") == 1.5 * 2**30
    True
    """
    short = text.strip().upper().removesuffix("B").removesuffix("I")
    number, unit = (short[:-1], short[-1]) if short and short[-1] in UNITS else (short, "")
    try:
        size = int(float(number) * UNITS[unit])
    except (ValueError, OverflowError):
        size = -1
    if size < 0:
        raise BadInput(f"a size must be bytes, or such as 500M or 20G. Got {text!r}.")
    return size


def make_key(files: Sequence[Path], options: Mapping[str, Any]) -> str:
    """A hash of what was read and how; any change in either gives another key."""
    facts = {
        "format": FORMAT,
        "options": {name: options[name] for name in sorted(options)},
        "files": [_describe_file(file) for file in files],
    }
    return hashlib.sha256(json.dumps(facts, default=_plain).encode()).hexdigest()[:40]


def load_entry(key: str) -> tuple[RankingData, list[list[str]]] | None:
    """The data under this key, mapped, with the warnings that reading it gave; None if there is none.

    A damaged entry is thrown away: it will be read anew.
    """
    folder = find_folder() / key
    try:
        meta = json.loads((folder / "entry.json").read_text())
        for name, size in meta["sizes"].items():
            if (folder / name).stat().st_size != size:
                raise ValueError(f"{name} has changed")
        data = load_arrays(folder, meta)
        os.utime(folder / "entry.json")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        shutil.rmtree(folder, ignore_errors=True)
        return None
    return data, meta["warnings"]


def remember(key: str, source: Path, data: RankingData, said: list[list[str]]) -> bool:
    """Keep data under a key; False if it is too large for the bound or the folder cannot be written."""
    folder = find_folder()
    part = folder / f".{key}.{uuid.uuid4().hex[:8]}.part"
    try:
        part.mkdir(parents=True)
        meta = {
            "source": str(source.resolve()),
            "warnings": said,
            **save_arrays(part, data),
        }
        meta["sizes"] = {file.name: file.stat().st_size for file in part.iterdir()}
        if sum(meta["sizes"].values()) > find_limit():
            return False
        (part / "entry.json").write_text(json.dumps(meta))
        if not (folder / key).exists():
            part.rename(folder / key)
        prune_entries(find_limit(), keep=key)
        return True
    except OSError:
        return False
    finally:
        shutil.rmtree(part, ignore_errors=True)


def list_entries() -> list[CacheEntry]:
    """All entries, the last used first."""
    entries = []
    for file in find_folder().glob("*/entry.json"):
        try:
            meta = json.loads(file.read_text())
            size = sum(meta["sizes"].values())
            entries.append(
                CacheEntry(file.parent.name, meta["source"], size, file.stat().st_mtime, *meta["shape"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return sorted(entries, key=lambda entry: -entry.used)


def prune_entries(limit: int, *, keep: str = "") -> list[CacheEntry]:
    """Drop the least recently used entries until the rest fits `limit`; leftovers of killed runs go too."""
    for leftover in find_folder().glob(".*.part"):
        if time.time() - leftover.stat().st_mtime > 86_400:
            shutil.rmtree(leftover, ignore_errors=True)
    entries = sorted(list_entries(), key=lambda entry: (entry.key != keep, -entry.used))
    dropped, total = [], 0
    for entry in entries:
        total += entry.bytes
        if total > limit and entry.key != keep:
            drop_entries([entry])
            dropped.append(entry)
    return dropped


def drop_entries(entries: Iterable[CacheEntry]) -> None:
    """Delete entries; readers that have them mapped keep what they have."""
    for entry in entries:
        shutil.rmtree(find_folder() / entry.key, ignore_errors=True)


# -- files of one entry -----------------------------------------------------------------------------


def save_arrays(folder: Path, data: RankingData) -> dict[str, Any]:
    """Write data as plain arrays into a folder; returns what `load_arrays` needs to know of them."""
    if isinstance(data.X, np.ndarray):
        np.save(folder / "X.npy", data.X, allow_pickle=False)
    else:
        for name in ("data", "indices", "indptr"):
            np.save(folder / f"X_{name}.npy", getattr(data.X, name), allow_pickle=False)
    columns = {"y": data.y, "offsets": data.offsets, "qids": data.qids}
    columns |= {name: getattr(data, name) for name in ("items", *PER_ROW) if getattr(data, name) is not None}
    for name, values in columns.items():
        _save_column(folder, name, values)
    for place, values in enumerate(data.segments.values()):
        _save_column(folder, f"segment_{place}", values)
    return {
        "format": FORMAT,
        "shape": [data.n_rows, data.n_queries, data.n_features],
        "feature_names": list(data.feature_names),
        "columns": list(columns),
        "segments": list(data.segments),
    }


def load_arrays(folder: Path, meta: Mapping[str, Any]) -> RankingData:
    """Map what `save_arrays` wrote."""
    if meta["format"] != FORMAT:
        raise ValueError("another format")
    rows, _, features = meta["shape"]
    X: Any
    if (folder / "X.npy").exists():
        X = _map(folder / "X.npy")
    else:
        from scipy.sparse import csr_array

        parts = tuple(_map(folder / f"X_{name}.npy") for name in ("data", "indices", "indptr"))
        X = csr_array(parts, shape=(rows, features), copy=False)
    columns = {name: _load_column(folder, name) for name in meta["columns"]}
    segments = {name: _load_column(folder, f"segment_{place}") for place, name in enumerate(meta["segments"])}
    return RankingData(X, feature_names=tuple(meta["feature_names"]), segments=segments, **columns)


def _save_column(folder: Path, name: str, values: AnyArray) -> None:
    if values.dtype != object:
        np.save(folder / f"{name}.npy", values, allow_pickle=False)
        return
    import pyarrow as pa

    table = pa.table({"text": pa.array(values, type=pa.large_string())})
    with pa.ipc.new_file(str(folder / f"{name}.arrow"), table.schema) as file:
        file.write_table(table)


def _load_column(folder: Path, name: str) -> AnyArray:
    if (folder / f"{name}.npy").exists():
        return _map(folder / f"{name}.npy")
    import pyarrow as pa

    with pa.memory_map(str(folder / f"{name}.arrow")) as file:
        texts = pa.ipc.open_file(file).read_all().column("text").to_pylist()
    values = np.empty(len(texts), dtype=object)
    values[:] = texts
    return values


def _map(file: Path) -> AnyArray:
    return np.asarray(np.load(file, mmap_mode="r", allow_pickle=False))


def _describe_file(file: Path) -> list[Any]:
    facts = file.stat()
    digest = hashlib.blake2b(digest_size=16)
    with open(file, "rb") as stream:
        for place in np.linspace(0, max(0, facts.st_size - 65_536), 16).astype(np.int64).tolist():
            stream.seek(place)
            digest.update(stream.read(65_536))
    return [str(file.resolve()), facts.st_size, facts.st_mtime_ns, digest.hexdigest()]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"an option of type {type(value).__name__} cannot be part of a key")
