"""JSONL logs as Arrow tables: one object a line, plain or compressed; a bad line is named by its number.

Arrow parses blocks of lines with the kinds of the known columns given, so that a query such as "2024-01-01"
stays text. Where Arrow gives up, the block is read again line by line to say which line it was. Before Arrow
sees a block, `json_scan` has found its keys and refused what is nested too deep.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    option,
    parse_json,
    say_limit,
)
from placings.data import match_paths
from placings.logs.epochs import is_epoch
from placings.logs.json_scan import Scan, scan_block

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".jsonl", ".ndjson", ".json")
BLOCK = 8 << 20
CELL = 4  # bytes that a cell of the table takes at least
FREE_CELLS = 4_000_000  # of a block's table; the limit on how sparse it may be counts from here


@dataclass(frozen=True)
class JsonNames:
    """What a file calls the time and the list shown."""

    time: str = "time"
    results: str = "results"

    @classmethod
    def of(cls, columns: Mapping[str, str]) -> JsonNames:
        """The names that a map from ours to theirs gives them."""
        return cls(columns.get("time", "time"), columns.get("results", "results"))


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
    paths: Sequence[str],
    kinds: Mapping[str, str],
    item_kinds: Mapping[str, str],
    *,
    names: JsonNames | None = None,
    cut: list[str] | None = None,
) -> pa.Table:
    """The files as one table; the types of columns not in `kinds` (in `results`: `item_kinds`) are inferred.

    A kind is id, text, number or time. Times are ISO text and become microseconds in UTC; text without an
    offset is UTC. Times that are numbers, or digits alone, stay numbers: `settle_times` tells their unit.
    Ids may be whole numbers, and `results` a list of ids. A last line that ends early is an error; where
    `cut` is a list, it is passed over, and its place put there.
    """
    import pyarrow as pa

    wanted = _Wanted(kinds, item_kinds, names or JsonNames())
    blocks = [table for path in _find(paths) for table in _read_file(path, wanted, cut)]
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


@dataclass(frozen=True)
class _Wanted:
    """What is known of the columns before the file is read."""

    kinds: Mapping[str, str]
    item_kinds: Mapping[str, str]
    names: JsonNames


def _read_file(path: Path, wanted: _Wanted, cut: list[str] | None) -> Iterator[pa.Table]:
    import pyarrow as pa
    import pyarrow.json as arrow_json

    line, ids, empty = 1, _Ids(), True
    packed, cells = find_compression(path) is not None, 0
    whole = _pass_over_cut(path, iterate_blocks(path, BLOCK), cut)
    for block, scan in map_in_order(lambda each: (each, scan_block(each)), whole):
        size = block.count(b"\n")
        if block.strip():
            _check_block(path, block, scan, line)
            cells += len(scan.keys) * block.count(b"{")
            if packed:
                check_unpacked(path, size=CELL * cells)
            schema = _make_schema(block, scan, wanted, ids)
            try:
                table = arrow_json.read_json(
                    pa.BufferReader(block),
                    read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                    parse_options=arrow_json.ParseOptions(explicit_schema=schema),
                )
            except pa.ArrowException as error:
                _name_line(path, block, line, wanted, error)
            empty = False
            yield _parse_times(path, table, block, line, wanted.names.time)
        line += size
    if empty:
        rest = " but a line that is cut" if cut else ""
        raise EmptyFile(path, f"is empty{rest}. A log has one object per line.")


def _pass_over_cut(path: Path, blocks: Iterable[bytes], cut: list[str] | None) -> Iterator[bytes]:
    """The blocks without a last line that ends early, as a collector that was killed leaves one."""
    held: bytes | None = None
    lines = 0
    for block in blocks:
        if held is not None:
            lines += held.count(b"\n")
            yield held
        held = block
    if held is None:
        return
    start = held.rstrip().rfind(b"\n") + 1
    if not is_cut(held[start:]):
        yield held
        return
    line = lines + held.count(b"\n", 0, start) + 1
    if cut is None:
        raise BadFile(
            path,
            "is cut: the last line ends before its object does. Fetch the file again, or leave out "
            f"{option('strict')} to count the line and pass it over.",
            line=line,
        )
    cut.append(f"{path}:{line}")
    if start:
        yield held[:start]


def is_cut(line: bytes) -> bool:
    """Whether a line begins an object and ends before the object does.

    >>> is_cut(b'{"query": "a}'), is_cut(b'{"query": "a"}'), is_cut(b'{"query": nonsense}')
    (True, False, False)
    """
    text = line.strip()
    if not text.startswith(b"{"):
        return False
    bare = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", text, flags=re.S)  # what is left is outside of strings
    if b'"' in bare:
        return True
    opened, closed = bare.count(b"{") + bare.count(b"["), bare.count(b"}") + bare.count(b"]")
    return opened > closed


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


def _make_schema(block: bytes, scan: Scan, wanted: _Wanted, ids: _Ids) -> pa.Schema:
    """The known columns that the block names."""
    import pyarrow as pa

    kinds, item_kinds, listed = wanted.kinds, wanted.item_kinds, wanted.names.results

    def name_type(path: tuple[str, ...], kind: str) -> Any:
        if kind == "id":
            return pa.int64() if ids.is_whole(path, scan.keys[path]) else pa.string()
        if kind == "time" and ids.is_whole(path, scan.keys[path]):
            return pa.float64()
        return pa.float64() if kind == "number" else pa.string()  # times are parsed afterwards

    def choose(kinds: Mapping[str, str], before: tuple[str, ...] = ()) -> list[pa.Field]:
        there = [(name, (*before, name)) for name in kinds if (*before, name) in scan.keys]
        return [pa.field(name, name_type(path, kinds[name])) for name, path in there]

    if (listed,) not in scan.keys:
        return pa.schema(choose(kinds))
    outer = {name: kind for name, kind in kinds.items() if name not in item_kinds or kind == "id"}
    inner = pa.struct(choose(item_kinds, (listed,)))
    first = b"" if any(path[0] == listed and len(path) > 1 for path in scan.keys) else _find_id(block, listed)
    if first:
        whole = ids.is_whole((listed, ""), ord(first))
        inner = pa.int64() if whole else pa.string()
    return pa.schema([*choose(outer), pa.field(listed, pa.list_(inner))])


def _find_id(block: bytes, listed: str) -> bytes:
    """The first byte of the first id in a list of ids; nothing where the lists hold none."""
    name = re.escape(json.dumps(listed, ensure_ascii=False).encode())
    found = re.search(name + rb'\s*:\s*\[(?:\s*null\s*,)*\s*(["\d-])', block)
    return found[1] if found else b""


def _parse_times(path: Path, table: pa.Table, block: bytes, first: int, name: str) -> pa.Table:
    import pyarrow as pa

    if name not in table.column_names or not pa.types.is_string(table[name].type):
        return table  # numbers are told apart when all of them are there
    texts = table[name].to_pylist()
    epoch = is_epoch(next((text for text in texts if text is not None), ""))
    times: list[Any] = []
    for row, text in enumerate(texts):
        try:
            if epoch and text is not None and not is_epoch(text):
                raise ValueError("ISO text among numbers")
            read = float if epoch else as_utc
            times.append(None if text is None else read(text))
        except ValueError as error:
            like = (
                "a number, as in the lines before"
                if epoch
                else 'ISO text in UTC such as "2024-05-01T08:00:00Z"'
            )
            raise BadFile(
                path,
                f"{name!r} must be {like}. Got {text!r}. "
                "Mend it, or write null: searches and actions without a time are counted and left out.",
                line=_find_line(block, first, row),
            ) from error
    column = pa.array(times, pa.float64() if epoch else pa.timestamp("us"))
    return table.set_column(table.column_names.index(name), name, column)


def _find_line(block: bytes, first: int, row: int) -> int:
    """The number of the line that holds a block's row; blank lines hold none."""
    places = [number for number, text in enumerate(block.split(b"\n"), first) if text.strip()]
    return places[min(row, len(places) - 1)]  # two objects may stand on one line


def _name_line(path: Path, block: bytes, first: int, wanted: _Wanted, error: Exception) -> NoReturn:
    """Read the lines one by one, to say which one Arrow could not read, and why."""
    seen: dict[str, type] = {}
    listed = wanted.names.results
    for number, text in enumerate(block.split(b"\n"), first):
        if not text.strip():
            continue
        found = _parse_line(path, text, number)
        if not isinstance(found, dict):
            raise BadFile(
                path, f"must be an object in braces. Got {type(found).__name__}.", line=number
            ) from error
        _check_values(path, number, "", {n: v for n, v in found.items() if n != listed}, wanted.kinds, seen)
        results = found.get(listed)
        if results is not None:
            _check_list(path, number, results, wanted, seen, error)
    raise BadFile(path, f"cannot be read from line {first} on: {error}.") from error


def _check_list(
    path: Path, line: int, results: Any, wanted: _Wanted, seen: dict[str, type], error: Exception
) -> None:
    """Refuse a list that holds neither objects nor ids, or both, or ids of two kinds."""
    listed = wanted.names.results
    objects = isinstance(results, list) and all(isinstance(each, dict) for each in results)
    plain = isinstance(results, list) and all(isinstance(each, str | int | None) for each in results)
    if not objects and not plain:
        raise BadFile(
            path,
            f'{listed!r} must be a list of objects such as {{"item_id": …, "position": 1}}, or of ids. '
            f"Got {json.dumps(results)[:60]}.",
            line=line,
        ) from error
    for each in results:
        if isinstance(each, dict):
            _check_values(path, line, f"{listed}.", each, wanted.item_kinds, seen)
        else:
            _check_values(path, line, "", {f"each of {listed}": each}, {f"each of {listed}": "id"}, seen)
    kind = dict if objects else list
    if results and seen.setdefault(f"the lists of {listed}", kind) is not kind:
        raise BadFile(
            path,
            f"{listed!r} must hold objects in every line, or ids in every line. "
            f"Got {json.dumps(results)[:60]}, unlike the lines before.",
            line=line,
        ) from error


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
        if value is None:
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
    wanted = {"text": str, "number": float}.get(kind or "")
    if kind == "time" and seen.setdefault(name, family) is str:  # or numbers in all lines
        wanted = str
    if wanted is not None:
        told = 'ISO text such as "2024-05-01T08:00:00Z"' if kind == "time" else words[wanted]
        return "" if family is wanted else told
    first = seen.setdefault(name, family)
    return "" if family is first else f"{words[first]}, as in the lines before"


def _find_family(value: Any) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)
