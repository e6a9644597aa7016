"""JSONL logs as Arrow tables: one object a line, plain or compressed; a bad line is named by its number.

Arrow parses blocks of lines with the kinds of the known columns given, so that a query such as "2024-01-01"
stays text. Where Arrow gives up, the block is read again line by line to say which line it was. Before Arrow
sees a block, `json_scan` has found its keys and refused what is nested too deep.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from placings.core import (
    SUFFIXES,
    BadFile,
    BadInput,
    EmptyFile,
    as_utc,
    check_unpacked,
    find_compression,
    find_limit,
    iterate_blocks,
    map_in_order,
    parse_json,
    say_limit,
)
from placings.data import match_paths
from placings.logs.json_scan import Scan, scan_block

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".jsonl", ".ndjson", ".json")
BLOCK = 8 << 20
CELL = 4  # bytes that a cell of the table takes at least
FREE_CELLS = 4_000_000  # of a block's table; the limit on how sparse it may be counts from here


def is_json_lines(path: str) -> bool:
    """Whether a path's name, or that of a file which the glob matches, says JSONL.

    >>> is_json_lines("logs/searches.jsonl.gz"), is_json_lines("searches.parquet")
    (True, False)
    """
    name = path.lower()
    for ending in SUFFIXES:
        name = name.removesuffix(ending)
    if name.endswith(ENDINGS):
        return True
    if Path(path).exists() or "*" not in path:
        return False
    return any(is_json_lines(found) for found in match_paths(path) if "*" not in found)


def read_json_lines(
    paths: Sequence[str], kinds: Mapping[str, str], item_kinds: Mapping[str, str]
) -> pa.Table:
    """The files as one table; the types of columns not in `kinds` (in `results`: `item_kinds`) are inferred.

    A kind is id, text, number or time. Times are ISO text and become microseconds in UTC; text without an
    offset is UTC. Ids may be whole numbers.
    """
    import pyarrow as pa

    blocks = [table for path in _find(paths) for table in _read_file(path, kinds, item_kinds)]
    try:
        return pa.concat_tables(blocks, promote_options="permissive")
    except pa.ArrowException as error:
        raise BadFile(paths[0], f"a column holds two kinds of values: {error}. Write one kind.") from error


def _find(paths: Sequence[str]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        found = match_paths(path)
        if not found:
            raise BadFile(path, "there is no such file, and no file matches it.")
        files += [Path(each) for each in found]
    wrong = [str(file) for file in files if not is_json_lines(str(file))]
    if wrong:
        raise BadInput(f"files of one log must be of one kind. Got JSONL and {wrong[0]}.")
    return files


def _read_file(path: Path, kinds: Mapping[str, str], item_kinds: Mapping[str, str]) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.json as arrow_json

    line, ids, empty = 1, _Ids(), True
    packed, cells = find_compression(path) is not None, 0
    for block, scan in map_in_order(lambda each: (each, scan_block(each)), iterate_blocks(path, BLOCK)):
        size = block.count(b"\n")
        if block.strip():
            _check_block(path, block, scan, line)
            cells += len(scan.keys) * block.count(b"{")
            if packed:
                check_unpacked(path, size=CELL * cells)
            schema = _make_schema(scan, kinds, item_kinds, ids)
            try:
                table = arrow_json.read_json(
                    pa.BufferReader(block),
                    read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                    parse_options=arrow_json.ParseOptions(explicit_schema=schema),
                )
            except pa.ArrowException as error:
                _name_line(path, block, line, kinds, item_kinds, error)
            empty = False
            yield _parse_times(path, table, block, line)
        line += size
    if empty:
        raise EmptyFile(path, "is empty. A log has one object per line.")


def _check_block(path: Path, block: bytes, scan: Scan, first: int) -> None:
    """Refuse what Arrow must not see: too deep nesting, bytes that are not UTF-8, a table mostly empty."""
    if scan.stopped:
        lines = block.split(b"\n", scan.line + 1)[: scan.line + 1]
        for number, text in enumerate(lines, first):  # lines that are not closed look nested too
            _parse_line(path, text, number)
        raise BadFile(path, say_limit(scan.stopped), line=first + scan.line)
    if not block.isascii():
        try:
            block.decode("utf-8")
        except UnicodeDecodeError as error:
            line = first + block.count(b"\n", 0, error.start)
            byte = block[error.start]
            raise BadFile(
                path, f"is not UTF-8 text (byte 0x{byte:02x}). Convert the file first.", line=line
            ) from None
    cells = len(scan.keys) * block.count(b"{")  # an object may be a line, or an item in a line's list
    if cells > max(FREE_CELLS, find_limit("sparse") * len(block)):
        raise BadFile(path, f"from line {first} on, {say_limit('sparse', cells // len(block))}")


class _Ids:
    """Which ids are whole numbers, by the first value seen of each."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, ...], bool] = {}

    def is_whole(self, path: tuple[str, ...], value: int) -> bool:
        if path not in self.seen:
            if value == 0:  # null says nothing; text until told otherwise
                return False
            self.seen[path] = chr(value).isdigit() or value == ord("-")
        return self.seen[path]


def _make_schema(scan: Scan, kinds: Mapping[str, str], item_kinds: Mapping[str, str], ids: _Ids) -> pa.Schema:
    """The known columns that the block names."""
    import pyarrow as pa

    def name_type(path: tuple[str, ...], kind: str) -> Any:
        if kind == "id":
            return pa.int64() if ids.is_whole(path, scan.keys[path]) else pa.string()
        return pa.float64() if kind == "number" else pa.string()  # times are parsed afterwards

    def choose(kinds: Mapping[str, str], before: tuple[str, ...] = ()) -> list[pa.Field]:
        there = [(name, (*before, name)) for name in kinds if (*before, name) in scan.keys]
        return [pa.field(name, name_type(path, kinds[name])) for name, path in there]

    if ("results",) not in scan.keys:
        return pa.schema(choose(kinds))
    outer = {name: kind for name, kind in kinds.items() if name not in item_kinds}
    inner = pa.struct(choose(item_kinds, ("results",)))
    return pa.schema([*choose(outer), pa.field("results", pa.list_(inner))])


def _parse_times(path: Path, table: pa.Table, block: bytes, first: int) -> pa.Table:
    import pyarrow as pa

    if "time" not in table.column_names:
        return table
    times = []
    for row, text in enumerate(table["time"].to_pylist()):
        try:
            times.append(None if text is None else as_utc(text))
        except ValueError as error:
            raise BadFile(
                path,
                f"'time' must be ISO text in UTC such as \"2024-05-01T08:00:00Z\". Got {text!r}. "
                "Mend it, or write null: searches and actions without a time are counted and left out.",
                line=_find_line(block, first, row),
            ) from error
    column = pa.array(times, pa.timestamp("us"))
    return table.set_column(table.column_names.index("time"), "time", column)


def _find_line(block: bytes, first: int, row: int) -> int:
    """The number of the line that holds a block's row; blank lines hold none."""
    places = [number for number, text in enumerate(block.split(b"\n"), first) if text.strip()]
    return places[min(row, len(places) - 1)]  # two objects may stand on one line


def _name_line(
    path: Path,
    block: bytes,
    first: int,
    kinds: Mapping[str, str],
    item_kinds: Mapping[str, str],
    error: Exception,
) -> NoReturn:
    """Read the lines one by one, to say which one Arrow could not read, and why."""
    seen: dict[str, type] = {}
    for number, text in enumerate(block.split(b"\n"), first):
        if not text.strip():
            continue
        found = _parse_line(path, text, number)
        if not isinstance(found, dict):
            raise BadFile(
                path, f"must be an object in braces. Got {type(found).__name__}.", line=number
            ) from error
        _check_values(path, number, "", found, kinds, seen)
        results = found.get("results")
        if results is None:
            continue
        if not isinstance(results, list) or not all(isinstance(each, dict) for each in results):
            raise BadFile(
                path,
                '\'results\' must be a list of objects such as {"item_id": …, "position": 1}. '
                f"Got {json.dumps(results)[:60]}.",
                line=number,
            ) from error
        for each in results:
            _check_values(path, number, "results.", each, item_kinds, seen)
    raise BadFile(path, f"cannot be read from line {first} on: {error}.") from error


def _parse_line(path: Path, text: bytes, number: int) -> Any:
    if not text.strip():
        return None
    try:
        return parse_json(text)
    except ValueError as problem:
        if say_limit("depth") in str(problem):
            raise BadFile(path, str(problem), line=number) from None
        raise BadFile(
            path, f"is not JSON: {problem}. Write one object per line, in UTF-8.", line=number
        ) from None


def _check_values(
    path: Path,
    line: int,
    where: str,
    found: Mapping[str, Any],
    kinds: Mapping[str, str],
    seen: dict[str, type],
) -> None:
    for name, value in found.items():
        if value is None or (not where and name == "results"):
            continue
        hint = _find_fault(value, kinds.get(name), where + name, seen)
        if hint:
            raise BadFile(
                path,
                f"{where + name!r} must be {hint}. Got {json.dumps(value)[:60]}. "
                "Mend the line, or write null where there is none.",
                line=line,
            )


def _find_fault(value: Any, kind: str | None, name: str, seen: dict[str, type]) -> str:
    """What a value must be, where it is something else; "" where it is right."""
    family = _find_family(value)
    if kind == "id":
        if family is not str and (type(value) is not int or not -(2**63) <= value < 2**63):
            return "text or a whole number of 64 bits"
        words = {str: "text", float: "a whole number"}
    else:
        words = {str: "text", float: "a number", bool: "true or false", list: "a list", dict: "an object"}
    wanted = {"text": str, "time": str, "number": float}.get(kind or "")
    if wanted is not None:
        told = 'ISO text such as "2024-05-01T08:00:00Z"' if kind == "time" else words[wanted]
        return "" if family is wanted else told
    first = seen.setdefault(name, family)
    return "" if family is first else f"{words[first]}, as in the lines before"


def _find_family(value: Any) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)
