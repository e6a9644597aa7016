"""The files that a path, a glob, a folder or a list of them means, and of which kind they are."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import glob
from os import PathLike
from pathlib import Path
from typing import Any

from placings.core import BadFile, BadInput

PARQUET = (".parquet", ".pq", ".parq")
TEXT = (".csv", ".tsv", ".tab")
PACKED = (".gz", ".zst", ".bz2")


def as_paths(table: Any) -> list[str] | None:
    if isinstance(table, str | PathLike):
        return [os.fspath(table)]
    if isinstance(table, Sequence) and table and all(isinstance(item, str | PathLike) for item in table):
        return [os.fspath(item) for item in table]
    return None


def is_url(path: str) -> bool:
    """Whether a path is one of another file system, such as s3://logs/a.parquet, and no local file."""
    return "://" in path and not Path(path).exists()


def match_paths(path: str) -> list[str]:
    """The file of that name, or, where there is none, those that match it as a glob: `p[1].csv` is a name."""
    return [path] if Path(path).exists() else sorted(glob(path, recursive=True))  # noqa: PTH207


def list_files(path: Any) -> list[Path]:
    """The files (or the folder) that a path, a glob or a list of these means, each once; as given if none is.

    >>> list_files(["a.txt", "b.txt"])
    [PosixPath('a.txt'), PosixPath('b.txt')]
    """
    given = [path] if isinstance(path, str | PathLike) else list(path)
    if not given:
        raise BadInput("there must be at least one file to read. Got none.")
    found = [each for one in given for each in (match_paths(os.fspath(one)) or [os.fspath(one)])]
    return [Path(each) for each in dict.fromkeys(found)]


def quote_globs(files: Sequence[str]) -> list[str]:
    """Local paths as DuckDB must be given them: it takes every path for a glob, and ~ for a home.

    >>> quote_globs(["/logs/p[1].parquet", "s3://logs/a*.parquet"])
    ['/logs/p[[]1].parquet', 's3://logs/a*.parquet']
    """
    return [
        file if is_url(file) else re.sub(r"[\[*?]", r"[\g<0>]", os.path.abspath(file))  # noqa: PTH100
        for file in files
    ]


def find_files(paths: Sequence[str]) -> tuple[list[str], str, bool]:
    """The files that are meant, "parquet" or "csv", and whether a folder was named."""
    files: list[str] = []
    folder = False
    for path in paths:
        if Path(path).is_dir():
            folder = True
            found = sorted(str(file) for file in Path(path).rglob("*") if file.name.lower().endswith(PARQUET))
            found = [file for file in found if not Path(file).name.startswith((".", "_"))]
            if not found:
                raise BadFile(path, "is a folder without .parquet files. Name the file to read.")
            files += found
        elif is_url(path):
            files.append(path)
        else:
            found = match_paths(path)
            if not found:
                raise BadFile(path, "there is no such file, and no file matches it.")
            files += found
    kinds = {_find_kind(file) for file in files}
    if len(kinds) > 1:
        raise BadInput(f"files of one table must be of one kind. Got {' and '.join(sorted(kinds))}.")
    return files, kinds.pop(), folder


def is_csv(file: str) -> bool:
    """Whether a file's name says CSV or TSV, compressed or not."""
    name = file.lower()
    for ending in PACKED:
        name = name.removesuffix(ending)
    return name.endswith(TEXT)


def _find_kind(file: str) -> str:
    name = file.lower()
    for ending in PACKED:
        name = name.removesuffix(ending)
    if name.endswith(PARQUET):
        return "parquet"
    if is_csv(file):
        return "csv"
    raise BadFile(
        file, f"must end in {', '.join((*PARQUET[:1], *TEXT))} (or these, compressed) to be read here."
    )


def as_urls(files: Sequence[str]) -> list[str]:
    """Local paths as URLs: a cluster's default file system is another one."""
    return [file if is_url(file) else Path(file).resolve().as_uri() for file in files]


def guess_delimiter(file: str) -> str:
    """What separates the fields of a CSV file, by its name."""
    name = file.lower()
    for ending in PACKED:
        name = name.removesuffix(ending)
    return "\t" if name.endswith((".tsv", ".tab")) else ","
