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
from collections import Counter
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from placings.core import BadFile, check_unpacked

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"PAR1"
MARK = b"\x00placings seal\x01\x00"
ALIKE = 6  # bytes of a mark, perhaps damaged, that make it one
SEAL = struct.Struct("<16sQI4x")  # zeros at the end: no footer begins with them
END = struct.Struct("<I4s")
CHUNK = 1 << 22
CELL = 4  # bytes that a value takes at least once it is read
SMALL = 64 << 20  # bytes; only texts of smaller files are measured: larger ones are no surprise
TEXT_ROWS = 65_536
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


def check_parquet(path: str | PathLike[str]) -> None:
    """Refuse a parquet file that is damaged, or that holds more than a file of its size can mean.

    Pages may repeat one value a billion times in a few bytes, so what counts is what a table of it takes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    check_seal(path)
    path = Path(path)
    try:
        facts = pq.read_metadata(path)
        chunks = [
            facts.row_group(group).column(column)
            for group in range(facts.num_row_groups)
            for column in range(facts.num_columns)
        ]
        values = Counter(dict.fromkeys((chunk.path_in_schema for chunk in chunks), 0))
        for chunk in chunks:
            values[chunk.path_in_schema] += chunk.num_values
        size = max(CELL * values.total(), sum(chunk.total_uncompressed_size for chunk in chunks))
        check_unpacked(path, rows=max(facts.num_rows, *values.values(), 0), size=size)
        if path.stat().st_size < SMALL:
            texts = [chunk for chunk in chunks if chunk.physical_type == "BYTE_ARRAY"]
            _check_texts(path, {chunk.path_in_schema for chunk in texts if chunk.has_dictionary_page})
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return  # the reader says what is wrong


def _check_texts(path: Path, columns: set[str]) -> None:
    """Refuse texts that stand once in a dictionary and take too much where every row writes them out."""
    import pyarrow.parquet as pq

    if not columns:
        return
    total = 0
    with pq.ParquetFile(path, pre_buffer=False, read_dictionary=sorted(columns)) as opened:
        for batch in opened.iter_batches(TEXT_ROWS, columns=sorted(columns)):
            total += sum(_measure_texts(column) for column in batch.columns)
            check_unpacked(path, size=total)


def _measure_texts(values: pa.Array) -> int:
    """The bytes of all texts in a column, lists and structs included, once each stands by itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary).cast(pa.int64())
        return int(pc.sum(lengths.take(values.indices)).as_py() or 0)
    if pa.types.is_struct(values.type):
        return sum(_measure_texts(part) for part in values.flatten())
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return _measure_texts(values.flatten())
    return int(values.nbytes)


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
