"""CSV with quotes, line breaks, other encodings and packed bytes, against Python's csv module."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from placings.data import read_csv_table
from placings.data.tables import read_checked_csv
from placings.logs import ClickLog

PIECES = [
    "a", "b", "1", "2.5", "é", "x y", '"', '"', '""', ",", "\n", "\r\n", '"a"', '"a,b"', '"a\nb"', '"a""b"',
    "", "NULL", "nan", "-1e999", "\t", "'", "#", "\\", "\x00", "\u2028", ";",
]  # fmt: skip
HEAD = "search_id,item_id,position,label,query\n"


def make(source: random.Random, folder: Path) -> Path:
    rows = source.random() < 0.3
    if rows:
        text = HEAD + "".join(
            f"s{row // 3},p{row},{row % 3 + 1},{source.choice([0, 1])},{_make_cell(source)}\n"
            for row in range(source.randrange(1, 9))
        )
    else:
        width = source.randrange(1, 5)
        lines = [",".join(f"c{place}" for place in range(width))]
        lines += [",".join(_make_cell(source) for _ in range(width)) for _ in range(source.randrange(1, 9))]
        text = source.choice(["\n", "\n", "\r\n"]).join(lines) + source.choice(["", "\n"])
    content = text.encode(source.choice(["utf-8"] * 6 + ["latin-1", "utf-16"]), "replace")
    if source.random() < 0.3:
        place = source.randrange(len(content) + 1)
        content = content[:place] + source.choice([b'"', b"\n", b",", b"\xff", b""]) + content[place + 1 :]
    name = "rows.csv" if rows else "table.csv"
    if source.random() < 0.15:
        content, name = gzip.compress(content), name + ".gz"
        content = content[: len(content) - source.choice([0, 0, 5])]
    path = folder / name
    path.write_bytes(content)
    return path


def _make_cell(source: random.Random) -> str:
    if source.random() < 0.5:
        return source.choice(["a", "b c", "7", '"x"', '"x, y"', '"x ""y"""', '"x\ny"', ""])
    return "".join(source.choice(PIECES) for _ in range(source.randrange(3)))


def check(path: Path) -> None:
    if path.name.startswith("rows"):
        with ClickLog.read(path) as log:
            rows = log.rows
        header, *wanted = _read_slowly(path)
        named = [name or f"column{place}" for place, name in enumerate(header)]  # as DuckDB does
        assert list(rows.columns) == named, f"{list(rows.columns)} for {named}"
        found = sorted(rows["item_id"].fillna("").astype(str))
        told = sorted(row[1] for row in wanted)
        assert found == told, f"{found} for {told}"
        if "query" not in rows:  # its name was changed
            return
        texts = dict(zip(rows["item_id"], rows["query"].fillna("").astype(str), strict=True))
        for row in wanted:
            assert texts[row[1]] == row[4], f"{texts[row[1]]!r} for {row[4]!r}"
        return
    wanted = _read_slowly(path)
    names = wanted[0] if wanted else []
    read = read_csv_table(path, ",", ids=names)
    assert read.table.column_names == names, f"{read.table.column_names} for {names}"
    for place, name in enumerate(names):
        if names.count(name) == 1:
            found, told = read.written[name].to_pylist(), [row[place] for row in wanted[1:]]
            assert found == told, f"{found} for {told}"
    kinds = {name: pa.string() for name in names}
    table = read_checked_csv(path, ",", pyarrow.csv.ConvertOptions(column_types=kinds))
    rows = [list(row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    assert rows == wanted[1:], f"{rows} for {wanted[1:]}"


def _read_slowly(path: Path) -> list[list[str]]:
    """Python's reading of the file; nothing where it has none."""
    content = path.read_bytes()
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
        return [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except (csv.Error, UnicodeDecodeError, EOFError):
        return []
