from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from placings.core import leftovers, streams
from placings.core.errors import BadFile
from placings.core.streams import iterate_blocks, write_atomically, write_text


def list_names(folder: Path) -> list[str]:
    return sorted(child.name for child in folder.iterdir())


def pack(path: Path, content: bytes) -> Path:
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(content))
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as file:
            file.write(content)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_a_line_over_the_limit_is_refused_before_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PLACINGS_LIMIT_LINE", "1000")
    content = b"short\n" * 3 + b"x" * 100_000 + b"\n"
    path = tmp_path / name
    if path.suffix == ".txt":
        path.write_bytes(content)
    else:
        pack(path, content)
    seen = []
    with pytest.raises(BadFile, match="a line of more than 1,000 bytes is over the limit of 1,000"):
        seen.extend(iterate_blocks(path, 100))
    assert sum(map(len, seen)) <= 1_100


@pytest.mark.parametrize("name", ["a.txt.gz", "a.txt.zst"])
def test_a_packed_file_that_grows_too_much_is_refused_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(streams, "FREELY_UNPACKED", 10_000)
    monkeypatch.setenv("PLACINGS_LIMIT_UNPACKED", "10")
    path = pack(tmp_path / name, b"0123456789\n" * 100_000)
    allowed = 10_000 + 10 * path.stat().st_size
    seen: list[bytes] = []
    with pytest.raises(BadFile, match="becomes more than 10 times as large is over the limit of 10"):
        seen.extend(iterate_blocks(path, 1000))
    assert sum(map(len, seen)) <= allowed < 1_100_000


@pytest.mark.parametrize("end", [b"\n", b"\r"])
def test_a_packed_file_with_too_many_rows_for_its_size_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(streams, "FREE_ROWS", 1000)
    path = pack(tmp_path / "a.txt.gz", (b"0" + end) * 100_000 + b"\n")
    assert path.stat().st_size * 8 + 1000 < 100_000
    with pytest.raises(BadFile, match="PLACINGS_LIMIT_ROWS"):
        list(iterate_blocks(path, 1000))


def test_an_honest_packed_file_passes(tmp_path: Path) -> None:
    content = b"0123456789\n" * 1000
    assert b"".join(iterate_blocks(pack(tmp_path / "a.gz", content), 1000)) == content


def test_a_link_is_written_through_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "a.txt", tmp_path / "a.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list_names(tmp_path / "real") == ["a.txt"]


def test_a_pipe_gets_the_bytes_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "hello\n")
    reader.join(10)
    assert got == ["hello\n"]
    assert pipe.is_fifo()


def test_a_device_gets_the_bytes() -> None:
    write_text(Path("/dev/null"), "hello")
    assert Path("/dev/null").is_char_device()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="is a folder. Name a file to write"):
        write_text(tmp_path, "x")


def test_a_file_keeps_its_permissions_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "secret.txt"
    path.write_text("old")
    path.chmod(0o600)
    write_text(path, "new")
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_process_mask_is_never_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(mask: int) -> int:
        raise AssertionError("another thread's new file would be open to all")

    monkeypatch.setattr(os, "umask", refuse)
    write_text(tmp_path / "a.txt", "x")


def test_bytes_and_name_are_on_the_disk_before_it_is_said_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr(streams, "sync_file", lambda path: done.append(f"bytes of {path.suffix}"))
    monkeypatch.setattr(streams, "sync_folder", lambda path: done.append(f"names: {list_names(path)}"))
    write_text(tmp_path / "a.txt", "x")
    assert done == ["bytes of .part", "names: ['a.txt']"]


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with write_atomically(tmp_path / "a.txt") as part:
            part.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list_names(tmp_path) == []


def test_the_ends_of_names_under_way_are_known_to_the_sweeper(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "a.txt") as part:
        assert part.name.endswith(leftovers.PART)
        part.write_text("x")
