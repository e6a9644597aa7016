"""Copies of the models that answer: a worker can start again whatever happens to the folders they came from.

Each is a folder named after its digest, below `models` in the service's data. What was tried is served.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from placings.core import BadBundle, check_limit, hold_part, read_bundle, swap_folder

FOLDER = "models"
PARTS = ("model", "reranker")  # the two bundles of a saved re-ranker
LETTERS = re.compile(r"[^0-9a-zA-Z]+")


def keep_model(path: str, home: Path, digest: str | None = None) -> tuple[str, str]:
    """Copy a saved re-ranker; returns the copy's folder and its digest. Links in it are refused."""
    source = Path(path)
    if not (source / PARTS[1]).is_dir():
        raise BadBundle(source, "holds no re-ranker: a folder with the folders model and reranker.")
    _check_size(source)
    kept = home / FOLDER
    kept.mkdir(mode=0o700, exist_ok=True)
    with hold_part(kept / "new", folder=True) as part:
        for name in PARTS:
            if (source / name).is_dir():
                shutil.copytree(source / name, part / name)
        part.chmod(0o700)
        for each in part.rglob("*"):  # clicks of people are in it
            each.chmod(0o700 if each.is_dir() else 0o600)
        found = read_bundle(part / PARTS[1], digest=digest).digest
        place = kept / name_copy(found)
        if not place.exists():
            swap_folder(part, place)
    return str(place), found


def name_copy(digest: str) -> str:
    """The folder's name for a digest."""
    return LETTERS.sub("-", digest)


def drop_models(home: Path, digests: Collection[str]) -> None:
    """Remove the copies of all other models."""
    wanted = {name_copy(digest) for digest in digests}
    for found in (home / FOLDER).glob("[!.]*"):
        if found.name not in wanted:
            shutil.rmtree(found, ignore_errors=True)


def list_models(home: Path) -> list[Path]:
    """The copies of models in a service's data."""
    return sorted(found for found in (home / FOLDER).glob("[!.]*") if (found / PARTS[1]).is_dir())


def _check_size(source: Path) -> None:
    size = 0
    for found in source.rglob("*"):
        if found.is_symlink():
            raise BadBundle(found, "is a link. A model that is served must be of plain files.")
        size += found.stat().st_size if found.is_file() else 0
    check_limit("model", size, str(source))
