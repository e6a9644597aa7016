"""Group sizes beside svmlight text (`.query`, `.group`): some overflow, or have signs or other digits."""

from __future__ import annotations

import random
import re
from pathlib import Path

from placings.core import BadFile
from placings.data import read_svmlight

WORDS = [
    b"9223372036854775807", b"9223372036854775808", b"18446744073709551615",
    b"-1", b"+1", b"0", b"00002", b"1e3", b"1.0",
    b"2 3", b"x", b"\xd9\xa1", b"1_0", b"9" * 5000,
    b"0" * 5000, b"0x2", b"", b"\xff", b"1\x00", b"4294967296", b"nan",
]  # fmt: skip
ENDS = [b"\n", b"\n", b"\r\n", b"\r", b"\n\n", b" \n"]


def make(source: random.Random, folder: Path) -> Path:
    rows = source.randrange(1, 40)
    sizes: list[bytes] = []
    left = rows
    while left:
        size = source.randrange(0, left + 1)
        sizes.append(str(size).encode())
        left -= size
    for _ in range(source.choice([0, 0, 1, 2])):
        sizes.insert(source.randrange(len(sizes) + 1), source.choice(WORDS))
    if source.random() < 0.2:
        sizes.pop(source.randrange(len(sizes)))
    end = source.choice(ENDS)
    content = source.choice([b"", b"", b"\xef\xbb\xbf"]) + b"".join(size + end for size in sizes)
    path = folder / "case"
    path.mkdir()
    (path / "rows.txt").write_bytes(b"".join(b"1 1:%d\n" % row for row in range(rows)))
    (path / f"rows.txt{source.choice(['.query', '.group'])}").write_bytes(content)
    return path


def check(path: Path) -> None:
    side = next(file for file in path.iterdir() if file.name != "rows.txt")
    rows = (path / "rows.txt").read_bytes().count(b"\n")
    words = [word.strip() for word in re.split(rb"[\r\n]", side.read_bytes().removeprefix(b"\xef\xbb\xbf"))]
    plain = all(re.fullmatch(rb"[0-9]+", word) and len(word.lstrip(b"0")) < 20 for word in words if word)
    sizes = [int(word.lstrip(b"0") or b"0") for word in words if word] if plain else []
    right = plain and sum(sizes) == rows
    try:
        data = read_svmlight(path / "rows.txt")
    except BadFile as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert not right, f"refused what is right: {refusal}"
        assert len(str(refusal)) < 600, "a long message"
        raise refusal
    assert right, f"accepted sizes {sizes} for {rows} rows"
    assert data.sizes.tolist() == [size for size in sizes if size]
    assert data.qids.tolist() == [place for place, size in enumerate(sizes, 1) if size]
    assert data.X[:, 0].tolist() == list(range(rows))
