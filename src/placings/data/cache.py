"""What was read once is kept as plain arrays in the user's cache folder and mapped on the next read.

An entry is a folder of `.npy` and Arrow files beside `entry.json`; nothing in it is ever executed
(`allow_pickle=False`). Its key covers the files' paths, sizes, times and sampled bytes, the reader's
options and the format's version, so a changed file is simply another entry. Entries appear in one step,
whole and on the disk, and the least recently used go when the bound is passed. Every load compares all
bytes with their checksums: a damaged entry is thrown away, said, and read anew. The checksums find what a
disk or a killed program did, not what someone did on purpose who may write into the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import warnings
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import (
    AnyArray,
    BadInput,
    PlacingsWarning,
    hold_part,
    map_in_order,
    parse_json,
    swap_folder,
    sweep_leftovers,
    sync_file,
)
from placings.data.ranking import PER_ROW, RankingData

# 2: columns such as `clicked` and `position` are no features; 3: the warning `Joined`;
# 4: checksums, and ids as written
FORMAT = 5
PIECE = 4 << 20  # bytes of a file that one thread checks at a time
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

    A damaged entry is thrown away with a warning: it will be read anew.
    """
    folder = find_folder() / key
    if not (folder / "entry.json").exists():
        return None
    try:
        meta = _read_meta(folder)
        if meta["sums"] != _sum_files(folder):
            raise ValueError("its bytes have changed")
        data = load_arrays(folder, meta)
        said = [[str(kind), str(text)] for kind, text in meta["warnings"]]
        with suppress(OSError):  # a folder that may only be read
            os.utime(folder / "entry.json")
    except Exception as error:  # whatever is wrong with it, the source is still there
        if not (folder / "entry.json").exists():  # another process has just dropped it
            return None
        shutil.rmtree(folder, ignore_errors=True)
        warnings.warn(
            f"{folder}: a damaged copy was thrown away ({' '.join(str(error).split())[:80]}); the file "
            "itself is read anew.",
            PlacingsWarning,
            stacklevel=4,
        )
        return None
    return data, said


def remember(key: str, source: Path, data: RankingData, said: list[list[str]]) -> bool:
    """Keep data under a key; False if it is too large for the bound or cannot be written."""
    folder = find_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with hold_part(folder / key, folder=True) as part:
            meta = {"source": str(source.resolve()), "warnings": said, **save_arrays(part, data)}
            meta["sizes"] = {file.name: file.stat().st_size for file in part.iterdir()}
            if sum(meta["sizes"].values()) > find_limit():
                return False
            for name in meta["sizes"]:
                sync_file(part / name)
            meta["sums"] = _sum_files(part)
            (part / "entry.json").write_text(json.dumps({**meta, "seal": _seal(meta)}))
            sync_file(part / "entry.json")
            swap_folder(part, folder / key)
        prune_entries(find_limit(), keep=key)
    except BadInput:
        raise
    except (OSError, TypeError, ValueError):  # the disk is full, or a column has no plain form
        return False
    return True


def list_entries() -> list[CacheEntry]:
    """All entries, the last used first."""
    entries = []
    for file in find_folder().glob("*/entry.json"):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            meta = parse_json(file.read_bytes())
            size, shape = sum(map(_as_count, meta["sizes"].values())), map(_as_count, meta["shape"])
            used = file.stat().st_mtime
            entries.append(CacheEntry(file.parent.name, str(meta["source"]), size, used, *shape))
    return sorted(entries, key=lambda entry: -entry.used)


def prune_entries(limit: int, *, keep: str = "") -> list[CacheEntry]:
    """Drop the least recently used entries until the rest fits `limit`; leftovers of killed runs go too."""
    _sweep(find_folder())
    entries = sorted(list_entries(), key=lambda entry: (entry.key != keep, -entry.used))
    dropped, total = [], 0
    for entry in entries:
        total += entry.bytes
        if total > limit and entry.key != keep:
            drop_entries([entry])
            dropped.append(entry)
    return dropped


def _sweep(folder: Path) -> None:
    """Remove what killed runs left, and day-old entries that nothing can be learnt of."""
    sweep_leftovers(folder / "entry", again=True)
    known = {entry.key for entry in list_entries()}
    torn = [each for each in folder.glob("*") if re.fullmatch("[0-9a-f]{40}", each.name)]
    for found in [*folder.glob(".*.part"), *(each for each in torn if each.name not in known)]:
        with suppress(OSError):
            if not found.name.endswith(".placings.part") and time.time() - found.stat().st_mtime > 86_400:
                shutil.rmtree(found, ignore_errors=True)


def drop_entries(entries: Iterable[CacheEntry]) -> None:
    """Delete entries; readers that have them mapped keep what they have."""
    for entry in entries:
        shutil.rmtree(find_folder() / entry.key, ignore_errors=True)


# -- checksums --------------------------------------------------------------------------------------


def _read_meta(folder: Path) -> dict[str, Any]:
    """What `entry.json` says, if it is as it was written."""
    meta = parse_json((folder / "entry.json").read_bytes())
    if not isinstance(meta, dict) or meta.pop("seal", None) != _seal(meta):
        raise ValueError("entry.json has changed")
    return meta


def _seal(meta: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(meta, sort_keys=True).encode()).hexdigest()


def _sum_files(folder: Path) -> dict[str, str]:
    """A checksum of each file, CRC-32 of its pieces' CRC-32, on several threads: zlib releases the GIL.

    Files are read, not mapped: where the disk fails that is an error, and not the end of the process.
    """
    files = sorted(each for each in folder.iterdir() if each.name != "entry.json")
    pieces = [(file, at) for file in files for at in range(0, max(1, file.stat().st_size), PIECE)]
    sums: dict[str, int] = {}
    for (file, _), found in zip(pieces, map_in_order(_sum_piece, pieces), strict=True):
        sums[file.name] = zlib.crc32(found.to_bytes(4, "little"), sums.get(file.name, 0))
    return {name: f"{found:08x}" for name, found in sums.items()}


def _sum_piece(piece: tuple[Path, int]) -> int:
    file, at = piece
    with open(file, "rb", buffering=0) as stream:
        stream.seek(at)
        return zlib.crc32(stream.read(PIECE))


def _as_count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"not a count: {value!r}")
    return value


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
    """Map what `save_arrays` wrote; what does not fit together is a `ValueError`."""
    if meta["format"] != FORMAT:
        raise ValueError("another format")
    rows, queries, features = map(_as_count, meta["shape"])
    if not {"y", "offsets", "qids"} <= set(meta["columns"]) <= {"y", "offsets", "qids", "items", *PER_ROW}:
        raise ValueError("other columns")
    X: Any
    if (folder / "X.npy").exists():
        X = _map(folder / "X.npy")
    else:
        from scipy.sparse import csr_array

        parts = tuple(_map(folder / f"X_{name}.npy") for name in ("data", "indices", "indptr"))
        X = csr_array(parts, shape=(rows, features), copy=False)
        X.check_format(full_check=True)  # a column beyond the last would be read from anywhere
    columns = {name: _load_column(folder, name) for name in meta["columns"]}
    segments = {name: _load_column(folder, f"segment_{place}") for place, name in enumerate(meta["segments"])}
    kinds = (X.dtype, columns["y"].dtype, columns["offsets"].dtype)
    if X.shape != (rows, features) or len(columns["qids"]) != queries or kinds != KINDS:
        raise ValueError("other shapes or types")
    names = tuple(map(str, meta["feature_names"]))
    return RankingData(X, feature_names=names, segments=segments, **columns)


KINDS = (np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64))  # of X, y and offsets


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
        column = pa.ipc.open_file(file).read_all().column("text")
        column.validate(full=True)
        texts = column.to_pylist()
    values = np.empty(len(texts), dtype=object)
    values[:] = texts
    return values


def _map(file: Path) -> AnyArray:
    found = np.load(file, mmap_mode="r", allow_pickle=False)
    if not isinstance(found, np.ndarray) or found.dtype.hasobject:
        raise ValueError(f"{file.name} holds no plain array")
    return np.asarray(found)


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
