"""Files as blocks of whole lines, plain or compressed, and files written all or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from placings.core.errors import BadFile, TruncatedFile
from placings.core.leftovers import hold_part, sync_file, sync_folder
from placings.core.limits import find_limit, say_limit

MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
SUFFIXES = (".gz", ".zst")
FREELY_UNPACKED = 64 << 20  # bytes; the limit on what a packed file may become counts from here
FREE_ROWS = 2_000_000  # the limit on its rows counts from here


def find_compression(path: Path) -> str | None:
    """gzip, zstd or None, by the file's first bytes: a suffix may lie."""
    with open(path, "rb") as file:
        head = file.read(4)
    return next((codec for magic, codec in MAGIC.items() if head.startswith(magic)), None)


def plain_name(path: Path) -> str:
    """The file's name without a compression suffix: train.txt for train.txt.gz."""
    return path.stem if path.suffix.lower() in SUFFIXES else path.name


def check_file(path: Path) -> None:
    """Refuse a path that is not a readable file, saying what is there instead."""
    if path.is_dir():
        raise BadFile(path, "is a folder. Name a file in it, or a known collection's folder.")
    if not path.exists():
        folder = path.parent if path.parent.exists() else None
        beside = sorted(child.name for child in folder.iterdir())[:8] if folder else []
        hint = f" Beside it: {', '.join(beside)}." if beside else ""
        raise BadFile(path, f"no such file.{hint}")
    if not os.access(path, os.R_OK):
        raise BadFile(path, "may not be read. Check its permissions.")


def iterate_blocks(path: Path, size: int, on_bytes: Callable[[int], object] | None = None) -> Iterator[bytes]:
    """Blocks of about `size` bytes, each ending in a newline; `on_bytes` hears how far in the file we are."""
    check_file(path)
    codec = find_compression(path)
    lines = 0
    with open(path, "rb") as raw:
        try:
            for block in _cut_at_lines(_read_bounded(path, raw, codec), size):
                if on_bytes is not None:
                    on_bytes(raw.tell())
                if codec is not None:
                    lines += max(block.count(b"\n"), block.count(b"\r"))
                    check_unpacked(path, rows=lines)
                yield block
        except _LongLine:
            where = f"after about {lines:,} lines, " if lines else ""
            raise BadFile(path, f"{where}{say_limit('line')}") from None
        except (OSError, EOFError, zlib.error) as error:
            if codec is None:
                raise BadFile(path, f"cannot be read: {error}.") from error
            raise TruncatedFile(
                path,
                f"the {codec} data end early or are damaged, {_say_where(lines)} ({error}). "
                "Fetch the file again; nothing was kept of it.",
            ) from error


def _say_where(lines: int) -> str:
    return f"after about {lines:,} lines" if lines else "near their beginning"


def _decompress(raw: IO[bytes], codec: str | None) -> Any:
    if codec is None:
        return raw
    if codec == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=raw)
    import pyarrow as pa

    return pa.CompressedInputStream(pa.PythonFile(raw, "r"), codec)


class _LongLine(Exception):
    """A line is longer than the limit."""


def _read_bounded(path: Path, raw: IO[bytes], codec: str | None) -> Callable[[int], bytes]:
    """A function that reads on; a packed file that grows too much is refused on the way."""
    stream = _decompress(raw, codec)
    if codec is None:
        return lambda size: bytes(stream.read(size))
    total = 0

    def read_on(size: int) -> bytes:
        nonlocal total
        chunk = bytes(stream.read(size))
        total += len(chunk)
        check_unpacked(path, size=total)
        return chunk

    return read_on


def check_unpacked(path: Path, *, rows: int = 0, size: int = 0) -> None:
    """Refuse a compressed file of more rows, or more bytes unpacked, than a file of its size can mean."""
    packed = path.stat().st_size
    if rows > FREE_ROWS + find_limit("rows") * packed:
        raise BadFile(path, say_limit("rows"))
    if size > FREELY_UNPACKED + find_limit("unpacked") * packed:
        raise BadFile(path, say_limit("unpacked"))


def _cut_at_lines(read_on: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    rest: list[bytes] = []
    longest, held = find_limit("line"), 0
    while chunk := read_on(size):
        cut = chunk.rfind(b"\n") + 1
        if cut == 0:
            rest.append(chunk)
            held += len(chunk)
            if held > longest:
                raise _LongLine
            continue
        held = len(chunk) - cut
        yield b"".join([*rest, chunk[:cut]])
        rest = [chunk[cut:]] if cut < len(chunk) else []
    if rest:
        yield b"".join([*rest, b"\n"])


@contextmanager
def write_atomically(path: Path) -> Iterator[Path]:
    """A temporary path in the same folder that becomes `path` when all went well, and vanishes when not.

    A link is followed, and a file keeps its permissions. A pipe or a device gets the bytes at the end.
    """
    if path.is_dir():
        raise BadFile(path, "is a folder. Name a file to write.")
    if _is_stream(path):
        with _write_through(path) as temporary:
            yield temporary
        return
    path = path.resolve() if path.is_symlink() else path
    if not path.parent.is_dir():
        raise BadFile(path, f"the folder {path.parent} does not exist. Make it first.")
    with hold_part(path) as temporary:
        yield temporary
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        sync_file(temporary)
        temporary.replace(path)
        sync_folder(path.parent)


def _is_stream(path: Path) -> bool:
    """Whether a path, links followed, leads to something that is there and neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextmanager
def _write_through(path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="placings-") as folder:
        temporary = Path(folder) / path.name
        yield temporary
        with open(temporary, "rb") as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)


def write_text(path: Path, text: str) -> None:
    """Write a file so that others see it whole or not at all."""
    with write_atomically(path) as part:
        part.write_text(text, encoding="utf-8")
