"""svmlight/LETOR text, `label qid:7 1:0.5 3:12 #docid = GX008`: read at memory speed, written back.

The file is cut into blocks of whole lines; threads parse blocks (compiled, GIL released) while the next
one is read, and rows gather in slabs (`slabs.py`) until the matrix is put together.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np

from placings.core import (
    SUFFIXES,
    AnyArray,
    BadFile,
    BadInput,
    Bools,
    EmptyFile,
    Floats,
    Floats32,
    Ints,
    Joined,
    PlacingsWarning,
    check_limit,
    find_limit,
    iterate_blocks,
    map_in_order,
    option,
    plain_name,
    say_limit,
    show_progress,
    write_atomically,
)
from placings.data.checks import Matrix, name_features, order_by_query
from placings.data.ids import number_ids
from placings.data.ranking import PER_ROW, RankingData

LARGEST_BLOCK = 2**31 - 1
HARD_AT_ONCE = 1 << 16
LONGEST_SHOWN = 40
MOST_DIGITS = 19  # of a size: 10^18 fits into int64
LABEL_HELP = "A line begins with a number of 0 or more, then qid:N and feature:value pairs."


class BadLine(Exception):
    """The first line of a block (from 0) that cannot be read, and why."""

    def __init__(self, line: int, problem: str) -> None:
        super().__init__(line, problem)
        self.line = line
        self.problem = problem


@dataclass(frozen=True)
class Block:
    """Rows of one block: features as CSR with raw feature ids, and the rest per row."""

    values: Floats32
    ids: AnyArray  # [values] int32
    row_ends: Ints  # [rows]
    labels: Floats
    qids: AnyArray  # [rows] int64, or str objects
    with_qid: AnyArray  # [rows] bool
    items: AnyArray | None  # [rows] str objects, "" where a row has none
    row_lines: Ints  # [rows] line in the block, from 0
    lowest: int  # feature id; above `highest` when no feature is written
    highest: int
    lines: int

    @property
    def rows(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Rules:
    """What one file's blocks have in common: words for missing, whether inf is missing, the highest id."""

    words: AnyArray
    word_ends: Ints
    forgive_infinite: bool
    most: int

    @classmethod
    def of(cls, missing: tuple[str, ...], forgive_infinite: bool) -> Rules:
        from placings.data.svmlight_kernels import MAX_FEATURE_ID

        words = [word.encode("utf-8", "replace") for word in missing]
        ends = np.cumsum([len(word) for word in words], dtype=np.int64)
        text = np.frombuffer(b"".join(words), dtype=np.uint8)
        return cls(text, ends, forgive_infinite, min(find_limit("feature"), MAX_FEATURE_ID))


def parse_lines(text: bytes, rules: Rules) -> Block | BadLine:
    """Parse whole lines; a bad line is returned, not raised, so that blocks can be told in file order."""
    from placings.data import svmlight_kernels as kernels

    if len(text) > LARGEST_BLOCK:  # places in it are kept as int32
        return BadLine(0, f"a line of {len(text):,} bytes cannot be read. Cut it, or write parquet.")
    rows, room = text.count(b"\n"), text.count(b":")
    values, ids = np.empty(room, np.float32), np.empty(room, np.int32)
    row_ends, labels = np.empty(rows, np.int64), np.empty(rows, np.float64)
    qids, spans = np.zeros(rows, np.int64), np.empty((rows, 6), np.int32)
    hard, info = np.empty((rows + room, 4), np.int32), np.zeros(kernels.INFO_SIZE, np.int64)
    kernels.parse_block(
        np.frombuffer(text, dtype=np.uint8), kernels.POWERS, rules.words, rules.word_ends, rules.most,
        values, ids, row_ends, labels, qids, spans, hard, info,
    )  # fmt: skip
    rows, written = int(info[kernels.ROWS]), int(info[kernels.VALUES])
    try:
        _settle(text, hard[: info[kernels.HARD]], values, ids, labels, spans, rules)
        if info[kernels.ERROR] != kernels.FINE:
            return _explain(
                text, int(info[kernels.ERROR]), int(info[kernels.ERROR_AT]), int(info[kernels.LINES]), rules
            )
        values, ids, row_ends, spans = values[:written], ids[:written], row_ends[:rows], spans[:rows]
        if info[kernels.UNORDERED]:
            values, ids = _sort_ids(values, ids, row_ends, spans)
        found = _cut_qids(text, qids[:rows], spans, kernels.QID_TEXT)
        items = _cut_items(text, spans)
    except BadLine as bad:
        return bad
    return Block(
        values,
        ids,
        row_ends,
        labels[:rows],
        found,
        spans[:, 1] != kernels.QID_NONE,
        items,
        spans[:, 0].astype(np.int64),
        int(info[kernels.MIN_ID]),
        int(info[kernels.MAX_ID]),
        int(info[kernels.LINES]),
    )


def _settle(
    text: bytes,
    hard: AnyArray,
    values: Floats32,
    ids: AnyArray,
    labels: Floats,
    spans: AnyArray,
    rules: Rules,
) -> None:
    """Read in Python what the kernel left: rare numbers, nan, inf, and what is not a number at all."""
    for first in range(0, len(hard), HARD_AT_ONCE):
        for place, start, stop, row in hard[first : first + HARD_AT_ONCE].tolist():
            line = int(spans[row, 0])
            if place < 0:
                labels[row] = _settle_label(text[start:stop], line)
            else:
                values[place] = _settle_value(text[start:stop], int(ids[place]), line, rules)


def _settle_label(token: bytes, line: int) -> float:
    number = _as_number(token)
    if number is None or not np.isfinite(number):
        raise BadLine(line, f"the label is {_show(token)!r}. {LABEL_HELP}")
    return number


def _settle_value(token: bytes, feature: int, line: int, rules: Rules) -> np.float32:
    number = _as_number(token)
    word = _show(token)
    if number is None:
        advice = "Pass" if word.isalpha() else "Correct it, or pass"
        raise BadLine(
            line,
            f"feature {feature} is {word!r}. {advice} {option('missing', value=word)} to read it as missing.",
        )
    with np.errstate(over="ignore"):
        value = np.float32(number)
    if np.isinf(value) and not rules.forgive_infinite:
        raise BadLine(
            line,
            f"feature {feature} is {word!r}, not finite as float32. Pass "
            f"{option('non_finite', value='missing')} to read such values as missing.",
        )
    return np.float32(np.nan) if np.isinf(value) else value


def _as_number(token: bytes) -> float | None:
    """float(), without the underscores, the spaces and the odd digits that only Python takes."""
    if not token.isascii() or b"_" in token or token != token.strip():
        return None
    try:
        return float(token)
    except ValueError:
        return None


def _show(token: bytes) -> str:
    """A token in a message: one may be as long as the file."""
    return token[:LONGEST_SHOWN].decode("utf-8", "replace") + ("…" if len(token) > LONGEST_SHOWN else "")


def _explain(text: bytes, error: int, at: int, line: int, rules: Rules) -> BadLine:
    from placings.data import svmlight_kernels as kernels

    token = text[at : at + LONGEST_SHOWN].split(b"\n")[0].split(b" ")[0].decode("utf-8", "replace")
    number = token.split(":")[0]
    if error == kernels.BIG_ID and rules.most < kernels.MAX_FEATURE_ID and len(number) < LONGEST_SHOWN:
        return BadLine(line, say_limit("feature", int(number)))
    problems = {
        kernels.BAD_PAIR: f"expected feature:value, such as 7:0.25, but found {token!r}.",
        kernels.BIG_ID: f"the feature id in {token!r} is above {kernels.MAX_FEATURE_ID:,}. Hash it.",
        kernels.TWO_QIDS: f"a second qid, {token!r}, stands in one line. Give each row one.",
        kernels.NO_QID_VALUE: "qid: stands without a value.",
    }
    return BadLine(line, problems[error])


def _sort_ids(values: Floats32, ids: AnyArray, row_ends: Ints, spans: AnyArray) -> tuple[Floats32, AnyArray]:
    """Order the ids of each row; the same id twice in a row has no meaning and is refused."""
    rows = np.repeat(np.arange(len(row_ends)), np.diff(row_ends, prepend=0))
    order = np.lexsort((ids, rows))
    values, ids = values[order], ids[order]
    twice = np.flatnonzero((np.diff(ids) == 0) & (np.diff(rows) == 0))
    if len(twice):
        row, feature = rows[twice[0]], ids[twice[0]]
        raise BadLine(int(spans[row, 0]), f"feature {feature} is given twice. Keep one value of it.")
    return values, ids


def _cut_qids(text: bytes, qids: Ints, spans: AnyArray, as_text: int) -> AnyArray:
    if not (spans[:, 1] == as_text).any():
        return qids
    return _cut_words(text, spans[:, [0, 2, 3]], "qid")


def _cut_items(text: bytes, spans: AnyArray) -> AnyArray | None:
    if not (spans[:, 5] > spans[:, 4]).any():
        return None
    return _cut_words(text, spans[:, [0, 4, 5]], "item id")


def _cut_words(text: bytes, places: AnyArray, what: str) -> AnyArray:
    """The words at `places` `[rows, (line, start, stop)]`; rows of one word share it."""
    known: dict[bytes, str] = {}
    words: list[str] = []
    for line, start, stop in places.tolist():
        token = text[start:stop]
        word = known.get(token)
        if word is None:
            try:
                word = known[token] = token.decode()
            except UnicodeDecodeError:  # two ids of another encoding could look alike
                raise BadLine(
                    line, f"the {what} {_show(token)!r} is not UTF-8. Convert the file first."
                ) from None
        words.append(word)
    cut = np.empty(len(words), dtype=object)
    cut[:] = words
    return cut


SLAB = 48 << 20
MOST_UNPACKED = 32  # times a packed file's size: what room is made for before its rows are seen
LARGE = 1 << 30  # bytes of a matrix from which it is kept sparse if it is far larger than its text
FAR_LARGER = 16
SPARSE_BELOW = 0.25  # share of values written, under which CSR is the smaller and faster form
SPARSE_FROM = 65  # features; fewer stay dense whatever their density


@dataclass
class DenseSlab:
    """Rows `[room, width]`, of which `rows` are taken; column 0 is feature id `first`."""

    array: Floats32
    first: int
    rows: int = 0

    def fits(self, block: Block, first: int, width: int) -> bool:
        return (
            self.first == first and self.array.shape[1] >= width and len(self.array) - self.rows >= block.rows
        )

    def add(self, block: Block) -> None:
        from placings.data.svmlight_kernels import fill_rows

        into = self.array[self.rows : self.rows + block.rows]
        fill_rows(block.values, block.ids, block.row_ends, self.first, into)
        self.rows += block.rows


@dataclass(frozen=True)
class SparseSlab:
    """The features of one block as they were written: CSR with raw feature ids."""

    values: Floats32
    ids: AnyArray
    row_ends: Ints

    @property
    def rows(self) -> int:
        return len(self.row_ends)


@dataclass
class RowStore:
    """Gathers blocks and gives one matrix, dense or CSR; `expected` is a guess at the rows to come.

    `size` is what the file has in bytes: room is made for no more than a file of it can hold.
    """

    expected: int = 0
    size: int = 0
    text: int = 0  # bytes read, unpacked
    source: str = ""
    slabs: list[DenseSlab | SparseSlab] = field(default_factory=list)
    rows: int = 0
    written: int = 0
    highest: int = -1
    first: int = 1

    def add(self, block: Block) -> None:
        first = 0 if block.lowest == 0 else 1
        width = max(0, block.highest + 1 - first)
        self.rows += block.rows
        self.written += len(block.values)
        self.highest = max(self.highest, block.highest)
        self.first = min(self.first, first)
        if 2 * len(block.values) < block.rows * width:
            self.slabs.append(SparseSlab(block.values.copy(), block.ids.copy(), block.row_ends))
            return
        last = self.slabs[-1] if self.slabs else None
        if not isinstance(last, DenseSlab) or not last.fits(block, first, width):
            expected = min(self.expected, MOST_UNPACKED * self.size // max(1, 4 * width))
            room = max(block.rows, SLAB // max(1, 4 * width), 0 if self.slabs else expected)
            last = DenseSlab(np.zeros((room, width), np.float32), first)
            self.slabs.append(last)
        last.add(block)

    @property
    def width(self) -> int:
        """Features up to the highest id seen."""
        return max(0, self.highest + 1 - self.first)

    def assemble(self, width: int, sparse: bool | None) -> Matrix:
        """All rows in one matrix; every slab is let go as soon as it is copied."""
        cells = self.rows * width
        if sparse is None:
            thin = self.written < SPARSE_BELOW * cells
            bloated = 4 * cells > max(LARGE, FAR_LARGER * self.text)  # a few bytes a row, and a high id
            sparse = thin and (width >= SPARSE_FROM or bloated)
        if not sparse:
            check_limit("cells", cells, self.source)
        slabs, self.slabs = self.slabs[::-1], []
        only = slabs[0] if len(slabs) == 1 else None
        if not sparse and isinstance(only, DenseSlab) and only.array.shape[1] == width:
            return only.array[: only.rows]
        return self._assemble_sparse(slabs, width) if sparse else self._assemble_dense(slabs, width)

    def _assemble_dense(self, slabs: list[DenseSlab | SparseSlab], width: int) -> Floats32:
        from placings.data.svmlight_kernels import fill_rows

        X = np.zeros((self.rows, width), np.float32)
        row = 0
        while slabs:
            slab = slabs.pop()
            into = X[row : row + slab.rows]
            if isinstance(slab, DenseSlab):
                shift = slab.first - self.first
                into[:, shift : shift + slab.array.shape[1]] = slab.array[: slab.rows]
            else:
                fill_rows(slab.values, slab.ids, slab.row_ends, self.first, into)
            row += slab.rows
        return X

    def _assemble_sparse(self, slabs: list[DenseSlab | SparseSlab], width: int) -> Matrix:
        from scipy.sparse import csr_array

        values, columns, ends = [], [], [np.zeros(1, np.int64)]
        total = 0
        while slabs:
            slab = slabs.pop()
            if isinstance(slab, DenseSlab):
                part = csr_array(slab.array[: slab.rows])
                slab = SparseSlab(part.data, part.indices + slab.first, part.indptr[1:].astype(np.int64))
            values.append(slab.values)
            columns.append(slab.ids.astype(np.int32) - self.first)
            ends.append(slab.row_ends + total)
            total += len(slab.values)
        parts = (np.concatenate(values), np.concatenate(columns), np.concatenate(ends))
        return csr_array(parts, shape=(self.rows, width))


BLOCK = 1 << 20


def read_svmlight(
    path: str | Path,
    *,
    missing: str | Sequence[str] = (),
    n_features: int | None = None,
    feature_names: Sequence[str] | None = None,
    sparse: bool | None = None,
    non_finite: str = "error",
    negative_labels: str = "error",
    repeated_qid: str = "join",
    groups: Sequence[int] | str | Path | None = None,
    progress: bool = False,
) -> RankingData:
    """Read svmlight or LETOR text: plain, gzipped or zstd.

    - `missing`: words that stand for a missing value, such as "NULL"; `nan` always does.
    - Feature ids count from 1 (from 0 if a 0 occurs). An absent feature is 0. `n_features` fixes the
      width, so that train and test agree when one of them lacks the last feature.
    - `sparse`: None keeps CSR when under a quarter of the values is written and there are 65 features
      or more.
    - `non_finite`: what inf or a value beyond float32 is: "error", or "missing".
    - `negative_labels`: "error", "zero", or "drop" (rows without a judgement, as in MQ2007-semi).
    - `repeated_qid`: a qid that comes back after other queries is joined with a warning, or an "error".
    - `groups`: for files without qid, the rows of each query in order, or a file of them. LightGBM's
      `<file>.query` and XGBoost's `<file>.group` are found beside the file.

    Comments are kept as item ids where they hold one (`#docid = X`, or a single word).
    """
    path = Path(path)
    check_choice("non_finite", non_finite, ("error", "missing"))
    check_choice("negative_labels", negative_labels, ("error", "zero", "drop"))
    check_choice("repeated_qid", repeated_qid, ("join", "error"))
    words = (missing,) if isinstance(missing, str) else tuple(missing)
    size = path.stat().st_size if path.is_file() else None
    store = RowStore(size=size or 0, source=str(path))
    blocks: list[Block] = []
    with show_progress(f"reading {path.name}", size, wanted=progress, rate="bytes") as bar:
        places: list[int] = []  # in the file, after each block

        def advance(place: int) -> None:
            places.append(place)
            bar.reach(place)

        def count(texts: Iterable[bytes]) -> Iterator[bytes]:
            for text in texts:
                store.text += len(text)
                yield text

        texts = count(iterate_blocks(path, BLOCK, advance))
        for block in _parse_in_order(path, texts, Rules.of(words, non_finite == "missing")):
            if not blocks:
                store.expected = int(1.1 * block.rows * store.size / max(1, places[0]))
                if groups is None and block.rows and not block.with_qid.any():
                    _need_sizes_file(path)  # better now than when all of the file is read
            store.add(block)
            blocks.append(_without_features(block))
    if not store.rows:
        raise EmptyFile(path, "holds no rows. Check that the download or the export finished.")
    X = store.assemble(_fix_width(path, store, n_features, feature_names), sparse)
    y = np.concatenate([block.labels for block in blocks])
    lines = np.concatenate([block.row_lines for block in blocks])
    qid = _find_qids(path, blocks, lines, groups)
    items = _find_items(blocks)
    if (y < 0).any():
        keep = _judge_negative(path, y, lines, negative_labels)
        X, y, qid, lines = X[keep], np.maximum(y[keep], 0.0), qid[keep], lines[keep]
        items = None if items is None else items[keep]
    codes, qids = number_ids(qid)
    order, offsets = order_by_query(codes, len(qids))
    if order is not None:
        _say_repeated(path, codes, qids, lines, repeated_qid)
        X, y = X[order], y[order]
        items = None if items is None else items[order]
    names = tuple(feature_names) if feature_names is not None else name_features(X.shape[1])
    return RankingData(X, y, offsets, qids, names, items=items)


def check_choice(name: str, given: str, known: Sequence[str]) -> None:
    """Refuse a keyword's value that is not one of the known ones."""
    if given not in known:
        raise BadInput(f"{name} must be one of {', '.join(map(repr, known))}. Got {given!r}.")


def _parse_in_order(path: Path, texts: Iterable[bytes], rules: Rules) -> Iterator[Block]:
    """Blocks in file order, their lines counted from 1 in the file; the first bad line is the one told."""
    lines = 0
    for block in map_in_order(partial(parse_lines, rules=rules), _skip_mark(texts)):
        if isinstance(block, BadLine):
            raise BadFile(path, block.problem, line=lines + block.line + 1)
        block.row_lines[:] += lines + 1
        lines += block.lines
        yield block


def _skip_mark(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out the byte order mark that some exports put first."""
    for place, text in enumerate(texts):
        yield text.removeprefix(b"\xef\xbb\xbf") if place == 0 else text


def _without_features(block: Block) -> Block:
    return replace(
        block,
        values=block.values[:0].copy(),
        ids=block.ids[:0].copy(),
        row_ends=block.row_ends[:0].copy(),
        labels=block.labels.copy(),
    )


def _fix_width(path: Path, store: RowStore, wanted: int | None, names: Sequence[str] | None) -> int:
    width = store.width
    if wanted is None:
        wanted = width if names is None else len(names)
    check_limit("feature", wanted, f"{path}: n_features")
    if names is not None and len(names) != wanted:
        raise BadInput(f"feature_names must name all {wanted} features. Got {len(names)} names.")
    if wanted < width:
        raise BadFile(
            path, f"has feature {store.highest}, so {width} features, more than the {wanted} asked for."
        )
    return wanted


def _find_qids(
    path: Path, blocks: list[Block], lines: Ints, groups: Sequence[int] | str | Path | None
) -> AnyArray:
    """The qid of each row: as written, or from group sizes given or beside the file."""
    with_qid = np.concatenate([block.with_qid for block in blocks])
    if groups is None and with_qid.all():
        if any(block.qids.dtype == object for block in blocks):
            return np.concatenate([_as_words(block.qids) for block in blocks])
        return np.concatenate([block.qids for block in blocks])
    if groups is None and with_qid.any():
        row = int(np.flatnonzero(~with_qid)[0])
        raise BadFile(path, "has no qid, while other lines have one.", line=int(lines[row]))
    if groups is None:
        groups = _need_sizes_file(path)
    rows = f"{path.name} has {len(lines):,}"
    where = Path(groups) if isinstance(groups, str | Path) else None
    sizes = _as_sizes(groups, path) if where is None else _read_sizes(where, len(lines), rows)
    odd = bool(((sizes < 0) | (sizes > len(lines))).any())
    total = sum(sizes.tolist()) if odd else int(sizes.sum())  # int64 could overflow
    if odd or total != len(lines):
        raise BadFile(
            where or path, f"the sizes of {len(sizes):,} queries add up to {total:,} rows, but {rows}."
        )
    return np.repeat(np.arange(1, len(sizes) + 1), sizes)


def _as_words(qids: AnyArray) -> AnyArray:
    if qids.dtype == object:
        return qids
    words = np.empty(len(qids), dtype=object)
    words[:] = list(map(str, qids.tolist()))
    return words


def _need_sizes_file(path: Path) -> Path:
    found = find_sizes_file(path)
    if found is None:
        raise BadFile(
            path,
            "has no qid, and no .query or .group file lies beside it. Write the number of rows of each "
            f"query, in order and one a line, into {plain_name(path)}.query, or pass {option('groups')} "
            "with the numbers.",
        )
    return found


def _as_sizes(groups: Any, path: Path) -> Ints:
    """Sizes that a caller gave: whole numbers."""
    given = np.asarray(groups)
    whole = given.ndim == 1 and (given.dtype.kind in "iu" or not given.size)
    if not whole or (given.dtype.kind == "u" and given.size and given.max() > np.iinfo(np.int64).max):
        raise BadInput(
            f"groups must be the number of rows of each query of {path.name}, whole numbers. Got "
            f"{given.dtype} values of shape {given.shape}."
        )
    return given.astype(np.int64)


def find_sizes_file(path: Path) -> Path | None:
    """LightGBM's `<file>.query` or XGBoost's `<file>.group` beside the file, compressed or not."""
    names = [plain_name(path) + ending for ending in (".query", ".group")]
    candidates = [path.parent / (name + suffix) for name in names for suffix in ("", *SUFFIXES)]
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def _read_sizes(path: Path, most: int, rows: str) -> Ints:
    """One size a line, none larger than all rows (`most`; `rows` says how many they are)."""
    sizes: list[Ints] = []
    line = 0
    for place, block in enumerate(iterate_blocks(path, BLOCK)):
        found: list[int] = []
        text = block.removeprefix(b"\xef\xbb\xbf") if place == 0 else block
        for written in text.split(b"\n")[:-1]:
            line += 1
            for word in written.split(b"\r"):
                word = word.strip()
                if not word:
                    continue
                if not word.isdigit():
                    raise BadFile(
                        path, f"expected the number of rows of a query, found {_show(word)!r}.", line=line
                    )
                digits = word.lstrip(b"0")
                size = int(digits or b"0") if len(digits) < MOST_DIGITS else most + 1
                if size > most:
                    raise BadFile(path, f"a query of {_show(word)} rows is too large: {rows}.", line=line)
                found.append(size)
        sizes.append(np.array(found, dtype=np.int64))
    return np.concatenate(sizes) if sizes else np.empty(0, dtype=np.int64)


def _find_items(blocks: list[Block]) -> AnyArray | None:
    if all(block.items is None for block in blocks):
        return None
    none = [np.full(block.rows, "", dtype=object) if block.items is None else block.items for block in blocks]
    return np.concatenate(none)


def _judge_negative(path: Path, y: Floats, lines: Ints, rule: str) -> Bools:
    row = int(np.flatnonzero(y < 0)[0])
    if rule == "error":
        raise BadFile(
            path,
            f"the label is {y[row]:g}. Labels must be 0 or more; pass "
            f"{option('negative_labels', value='zero')} to count such rows as "
            "irrelevant, or 'drop' to leave them out.",
            line=int(lines[row]),
        )
    keep = y >= 0 if rule == "drop" else np.ones(len(y), dtype=np.bool_)
    if not keep.any():
        raise EmptyFile(path, "holds no row with a label of 0 or more.")
    return keep


def _say_repeated(path: Path, codes: Ints, qids: AnyArray, lines: Ints, rule: str) -> None:
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    seen, back = np.unique(codes[starts], return_counts=True)
    again = starts[np.flatnonzero(np.diff(codes[starts], prepend=-1) < 0)[0]]
    qid, line = qids.tolist()[codes[again]], int(lines[again])
    if rule == "error":
        raise BadFile(
            path,
            f"qid {qid!r} comes back after other queries. Pass {option('repeated_qid', value='join')} to "
            "join it.",
            line=line,
        )
    warnings.warn(
        f"{path}:{line}: qid {qid!r} comes back after other queries (so do {int((back > 1).sum())} of "
        f"{len(seen):,}); rows of one qid were joined. Pass {option('repeated_qid', value='error')} to "
        "refuse such files.",
        Joined,
        stacklevel=3,
    )


ROWS_AT_ONCE = 8192
CODECS = {".gz": "gzip", ".zst": "zstd"}
SAFE = "!$&'()*+,/:;=?@[]"  # what stays as it is in an encoded id, beside letters and digits of ASCII


def write_svmlight(
    data: RankingData, path: str | Path, *, missing: str = "nan", ids: Literal["refuse", "encode"] = "refuse"
) -> None:
    """Write svmlight text (gzip or zstd by suffix) that reads back to the same float32 values.

    NaN is written as the word `missing`; item ids become `#docid = X`; a dense row is written whole, a
    sparse one as stored. Columns that the format has no place for are named in a warning. An id that is not
    one word is refused; `ids="encode"` writes all ids as URLs do where there is such a one, `main%20street`,
    and warns; `urllib.parse.unquote` turns them back.
    """
    import pyarrow as pa

    if ids not in ("refuse", "encode"):
        raise BadInput(f'ids must be "refuse" or "encode". Got {ids!r}.')
    path = Path(path)
    kept = [name for name in PER_ROW if getattr(data, name) is not None]
    kept += [f"segment {name!r}" for name in data.segments]
    if kept:
        warnings.warn(
            f"svmlight text has no place for {', '.join(kept)}; write parquet to keep them.",
            PlacingsWarning,
            stacklevel=2,
        )
    if ids == "encode":
        data = _encode_ids(data)
    check_words(data.qids, "qid")
    if data.items is not None:
        check_words(data.items, "item id")
    with (
        write_atomically(path) as temporary,
        pa.output_stream(str(temporary), compression=CODECS.get(path.suffix.lower())) as out,
    ):
        for text in _iterate_lines(data, missing):
            out.write(text)


def check_words(ids: AnyArray, what: str) -> None:
    """Refuse ids that would break a line apart."""
    if ids.dtype != object:
        return
    for place, word in enumerate(ids.tolist()):
        if _is_broken(word) or (what == "qid" and not word):
            raise BadInput(
                f"{'an' if what[0] == 'i' else 'a'} {what} must be one word without '#' in svmlight text. "
                f"Got {word!r} at place {place}. Write parquet to keep such ids, or pass ids='encode'."
            )


def _is_broken(word: str) -> bool:
    return any(mark in word for mark in " \t\r\n#")


def _encode_ids(data: RankingData) -> RankingData:
    """The data with ids that are one word each; as they are where they all are. An empty qid becomes "%"."""
    changed: dict[str, Any] = {}
    for name, what in (("qids", "qids"), ("items", "item ids")):
        given = getattr(data, name)
        if given is None or given.dtype != object:
            continue
        empty = "%" if name == "qids" else ""  # no word is encoded to a lone %
        example = next(
            (word for word in given.tolist() if _is_broken(word) or not (word or empty == "")), None
        )
        if example is not None:
            words = [quote(word, safe=SAFE) or empty for word in given.tolist()]
            changed[name] = np.array(words, dtype=object)
            warnings.warn(
                f"svmlight text takes ids of one word: {what} are written as URLs have them, "
                f"{quote(example, safe=SAFE) or empty!r} for {example!r}.",
                PlacingsWarning,
                stacklevel=3,
            )
    return replace(data, **changed) if changed else data


def _iterate_lines(data: RankingData, missing: str) -> Iterator[bytes]:
    qid = data.qid
    for start in range(0, data.n_rows, ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, data.n_rows))
        pairs = _write_pairs(data, rows, missing)
        labels = _as_text(data.y[rows])
        lines = [
            f"{label} qid:{query} {features}"
            for label, query, features in zip(labels, qid[rows], pairs, strict=True)
        ]
        if data.items is not None:
            items = data.items[rows]
            lines = [f"{a} #docid = {b}" if b != "" else a for a, b in zip(lines, items, strict=True)]
        yield ("\n".join(lines) + "\n").encode()


def _write_pairs(data: RankingData, rows: slice, missing: str) -> list[str]:
    """`1:0.5 2:3` for each row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values, columns, ends = _stored(data, rows)
    numbers = pc.if_else(pa.array(np.isnan(values)), missing, pc.cast(pa.array(values), pa.string()))
    ids = pc.cast(pa.array(columns + 1), pa.string())
    pairs = pc.binary_join_element_wise(ids, numbers, ":")
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs), " ")
    return joined.to_pylist()  # type: ignore[no-any-return]


def _stored(data: RankingData, rows: slice) -> tuple[AnyArray, AnyArray, AnyArray]:
    part: Any = data.X[rows]
    if isinstance(part, np.ndarray):
        count, width = part.shape
        return part.ravel(), np.tile(np.arange(width), count), np.arange(count + 1) * width
    values, columns, ends = part.data, part.indices.astype(np.int64), part.indptr.astype(np.int64)
    last = data.n_features - 1
    if rows.start == 0 and last >= 0 and last not in columns[: ends[1]]:
        # the last feature, once and as 0, so that a reader knows the width
        values = np.insert(values, ends[1], np.float32(0))
        columns = np.insert(columns, ends[1], last)
        ends = np.concatenate([ends[:1], ends[1:] + 1])
    return values, columns, ends


def _as_text(labels: AnyArray) -> list[str]:
    return [f"{label:g}" if label == int(label) and label < 1e6 else repr(label) for label in labels.tolist()]
