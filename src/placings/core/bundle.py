"""A bundle: a folder of plain files with a manifest that vouches for every byte of them.

    model/
      manifest.json   what it is, what made it, and the size and SHA-256 of every other file
      features.json   the contract: names in order, coverage in training, what happens to missing values
      sample.npz      a few rows and the scores they must get
      …               the weights, in their library's own format

Nothing here is pickled or executed, and nothing is handed on before its checksum was compared. The
digest (SHA-256 of the manifest) pins the whole: whoever knows it needs to trust no one else. This module
knows files, not rankers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from placings.core.errors import BadBundle, BadFile, BadInput
from placings.core.leftovers import find_old, hold_part, swap_folder
from placings.core.limits import find_limit, say_limit
from placings.core.texts import parse_json

KIND = "placings-bundle"
VERSION = 1
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 4 << 20
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
MOST_TRIES = 200  # readings of a folder that is replaced all the while

Result = TypeVar("Result")


@dataclass(frozen=True)
class Bundle:
    """A bundle that was read and checked: its manifest, its files' bytes, its digest."""

    path: Path
    manifest: Mapping[str, Any]
    files: Mapping[str, bytes]
    digest: str


def write_bundle(path: str | Path, facts: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """Write a bundle whole or not at all and return its digest; an older bundle there is replaced.

    A folder that holds anything else than a bundle is left alone.
    """
    path = Path(path)
    refuse_other(path)
    for name in files:
        if not NAME.fullmatch(name) or name == MANIFEST:
            raise BadInput(f"a bundle's file must have a plain name. Got {name!r}.")
    manifest: dict[str, Any] = {"kind": KIND, "version": VERSION, **facts}
    manifest["files"] = {name: _vouch(content) for name, content in sorted(files.items())}
    text = _as_json({**manifest, "seal": _seal(manifest)})
    if len(text) > LARGEST_MANIFEST:
        raise BadInput(
            f"the manifest must stay under {LARGEST_MANIFEST >> 20} MiB. Got {len(text) >> 20} MiB."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_part(path, folder=True) as part:
        for name, content in {**files, MANIFEST: text}.items():
            with open(part / name, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        swap_folder(part, path)
    return hashlib.sha256(text).hexdigest()


def refuse_other(path: Path) -> None:
    """Refuse a place where something else than a bundle is."""
    if path.exists() and not (path / MANIFEST).is_file() and (not path.is_dir() or any(path.iterdir())):
        raise BadInput(f"{path} exists and is not a bundle. Name a new folder, or remove it first.")


def read_bundle(path: str | Path, *, digest: str | None = None) -> Bundle:
    """Read and check a bundle; whatever is not as the manifest says is refused by name.

    With `digest` (what `write_bundle` returned) the manifest itself must be the one that was written. While
    another process replaces the bundle, the old one or the new one is read, never a mixture.
    """
    path = Path(path)
    return read_settled(path, lambda place: _read_once(place, path, digest))


def find_bundle(path: str | Path) -> Path:
    """The bundle at a path: the path itself, or `model` in the folder of a run that `placings fit` wrote."""
    path = Path(path)
    bare = not (path / MANIFEST).exists() and not (path / "reranker").exists()
    return path / "model" if bare and (path / "model" / MANIFEST).is_file() else path


def read_settled(path: Path, read: Callable[[Path], Result]) -> Result:
    """What `read` makes of a folder that others may replace meanwhile; it is given the folder's place.

    A failure counts only if the folder is still the one that was there at the start. Where nothing stands
    because a writer was killed between two steps, the place is that of the folder it was about to replace.
    """
    for _ in range(MOST_TRIES):
        before = _identify(path)
        place = path if before is not None else find_old(path) or path
        try:
            return read(place)
        except (BadFile, OSError):
            if before == _identify(path) and place.exists() == (place != path or before is not None):
                raise
    raise BadBundle(path, "was replaced again and again while it was read. Try again later.")


def _identify(path: Path) -> tuple[int, int, int] | None:
    """What tells a folder from the one that replaces it; None if nothing is there."""
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_dev, facts.st_ino, facts.st_mtime_ns


def _read_once(path: Path, name: Path, digest: str | None) -> Bundle:
    text = _read_manifest(path)
    found = hashlib.sha256(text).hexdigest()
    if digest is not None and found != digest.lower():
        raise BadBundle(name, f"has digest {found}, not {digest}. It is not the bundle that was pinned.")
    manifest = _parse_manifest(path, text)
    listed = manifest["files"]
    there = {child.name for child in path.iterdir()} - {MANIFEST}
    if strange := sorted(there - set(listed)):
        raise BadBundle(path / strange[0], "is not part of the bundle. Remove it, or fetch the bundle again.")
    files = {}
    for each, facts in listed.items():
        files[each] = _read_file(path / each, facts)
    return Bundle(name, manifest, files, found)


def _read_manifest(path: Path) -> bytes:
    file = path / MANIFEST
    if not path.is_dir() or not file.is_file() or file.is_symlink():
        raise BadBundle(path, f"is not a bundle: a folder with a {MANIFEST} was expected.")
    if file.stat().st_size > LARGEST_MANIFEST:
        raise BadBundle(file, "is larger than any manifest.")
    return file.read_bytes()


def _parse_manifest(path: Path, text: bytes) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        manifest = parse_json(text)
    except ValueError as error:
        raise BadBundle(file, f"is damaged ({error}). Fetch the bundle again.") from None
    if not isinstance(manifest, dict) or manifest.get("kind") != KIND:
        raise BadBundle(file, "belongs to something else than placings.")
    version = manifest.get("version")
    if isinstance(version, int) and version > VERSION:
        raise BadBundle(
            file, f"has format version {version}; this placings reads up to {VERSION}. Upgrade placings."
        )
    if version != VERSION:
        raise BadBundle(file, f"has an unknown format version {version!r}.")
    seal = manifest.pop("seal", None)
    if seal != _seal(manifest):
        raise BadBundle(file, "was changed after it was written. Fetch the bundle again.")
    files = manifest.get("files")
    if not isinstance(files, dict) or not all(_is_listed(name, facts) for name, facts in files.items()):
        raise BadBundle(file, "lists files that no bundle has.")
    total = sum(facts["bytes"] for facts in files.values())
    if total > find_limit("model"):
        raise BadBundle(file, say_limit("model", total))
    return manifest


def _is_listed(name: str, facts: Any) -> bool:
    if not NAME.fullmatch(name) or name == MANIFEST or not isinstance(facts, dict):
        return False
    size = facts.get("bytes")
    return type(size) is int and size >= 0 and isinstance(facts.get("sha256"), str)


def _read_file(file: Path, facts: Mapping[str, Any]) -> bytes:
    if not file.is_file() or file.is_symlink():
        raise BadBundle(file, "is missing. Fetch the bundle again.")
    size = file.stat().st_size
    if size != facts["bytes"]:
        raise BadBundle(file, f"has {size:,} bytes, not {facts['bytes']:,}. Fetch the bundle again.")
    content = file.read_bytes()
    if _vouch(content) != facts:
        raise BadBundle(file, "does not match its checksum: it is damaged or was changed.")
    return content


def _vouch(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def _as_json(value: Any) -> bytes:
    try:
        return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise BadInput(f"a manifest holds plain values only: {error}.") from None


def _seal(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(_as_json(dict(manifest))).hexdigest()
