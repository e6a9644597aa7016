"""Parquet files with a seal: a checksum over the whole file, so that a damaged one is refused.

A page's own checksum says nothing about its header or the file's footer, and DuckDB looks at none. The seal
lies between the last page and the footer, where other readers do not look:

    … pages │ MARK, length of the rest, CRC-32 of all but the seal │ footer, its length, PAR1

It finds what disks and copies do, not what a person does who can write a new one. Files without a seal, of
other programs or of version 0.1, are read as ever.
"""

from __future__ import annotations

import os
import struct
import zlib
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.core import BadFile

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PAR1"
MARK = b"\x00placings seal\x01\x00"
ALIKE = 6  # bytes of a mark, perhaps damaged, that make it one
SEAL = struct.Struct("<16sQI4x")  # zeros at the end: no footer begins with them
END = struct.Struct("<I4s")
CHUNK = 1 << 22
READ = {"page_checksum_verification": True}  # for files of others that have page checksums
WRITE = {"write_page_checksum": True}

_checked: set[tuple[Any, ...]] = set()


def write_sealed(table: pa.Table, path: Path) -> None:
    """Write an Arrow table as parquet with a seal."""
    import pyarrow.parquet as pq

    pq.write_table(table, path, **WRITE)
    seal_parquet(path)


def seal_parquet(path: Path) -> None:
    """Put a seal into a finished parquet file, whoever wrote it."""
    with open(path, "r+b") as file:
        start = _find_footer(file)
        if start is None:
            raise BadFile(path, "is no parquet file, or not written to its end.")
        file.seek(0)
        checksum = _sum(file, start)
        footer = file.read()
        file.seek(start)
        file.write(SEAL.pack(MARK, start + len(footer), zlib.crc32(footer, checksum)))
        file.write(footer)


def check_seal(path: str | PathLike[str]) -> None:
    """Refuse a parquet file whose seal is not that of its bytes; one without a seal passes.

    A file that has not changed since is not read twice in a process.
    """
    known = identify_file(path)
    if known in _checked:
        return
    with open(path, "rb") as file:
        start = _find_footer(file)
        if start is None or start < SEAL.size:
            return  # the reader says what is wrong
        file.seek(max(0, start - 3 * SEAL.size))
        near = file.read(start - file.tell())
        seal = near[-SEAL.size :]
        if (
            MARK[1:14] not in near
            and sum(one == other for one, other in zip(seal, MARK, strict=False)) < ALIKE
        ):
            return
        file.seek(0)
        checksum = _sum(file, start - SEAL.size)
        file.seek(start)
        footer = file.read()
    if seal != SEAL.pack(MARK, start - SEAL.size + len(footer), zlib.crc32(footer, checksum)):
        raise BadFile(
            path, "is damaged: its checksum is not that of its bytes. Fetch the file again, or write it anew."
        )
    _checked.add(known)


def identify_file(path: str | PathLike[str]) -> tuple[Any, ...]:
    """What tells a file from the one that replaces it under the same name."""
    facts = Path(path).stat()
    return os.fspath(path), facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def _find_footer(file: Any) -> int | None:
    """Where the footer begins, or None if the file does not end as parquet does."""
    size = file.seek(0, os.SEEK_END)
    if size < 2 * len(MAGIC) + END.size:
        return None
    file.seek(size - END.size)
    length, magic = END.unpack(file.read(END.size))
    start = int(size - END.size - length)
    return start if magic == MAGIC and start >= len(MAGIC) else None


def _sum(file: Any, size: int) -> int:
    """The CRC-32 of the next bytes."""
    checksum = 0
    while size > 0:
        chunk = file.read(min(size, CHUNK))
        if not chunk:
            break
        checksum = zlib.crc32(chunk, checksum)
        size -= len(chunk)
    return checksum
