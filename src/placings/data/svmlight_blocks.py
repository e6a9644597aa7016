"""One block of svmlight lines, parsed: a pure function that threads can run side by side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placings.arrays import AnyArray, Floats, Floats32, Ints
from placings.errors import option

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
    """What one file's blocks have in common: words for missing, and whether inf is missing."""

    words: AnyArray
    word_ends: Ints
    forgive_infinite: bool

    @classmethod
    def of(cls, missing: tuple[str, ...], forgive_infinite: bool) -> Rules:
        words = [word.encode() for word in missing]
        ends = np.cumsum([len(word) for word in words], dtype=np.int64)
        return cls(np.frombuffer(b"".join(words), dtype=np.uint8), ends, forgive_infinite)


def parse_lines(text: bytes, rules: Rules) -> Block | BadLine:
    """Parse whole lines; a bad line is returned, not raised, so that blocks can be told in file order."""
    from placings.data import svmlight_kernels as kernels

    rows, room = text.count(b"\n"), text.count(b":")
    values, ids = np.empty(room, np.float32), np.empty(room, np.int32)
    row_ends, labels = np.empty(rows, np.int64), np.empty(rows, np.float64)
    qids, spans = np.zeros(rows, np.int64), np.empty((rows, 6), np.int32)
    hard, info = np.empty((rows + room, 4), np.int32), np.zeros(kernels.INFO_SIZE, np.int64)
    kernels.parse_block(
        np.frombuffer(text, dtype=np.uint8), kernels.POWERS, rules.words, rules.word_ends,
        values, ids, row_ends, labels, qids, spans, hard, info,
    )  # fmt: skip
    rows, written = int(info[kernels.ROWS]), int(info[kernels.VALUES])
    try:
        _settle(text, hard[: info[kernels.HARD]], values, ids, labels, spans, rules)
        if info[kernels.ERROR] != kernels.FINE:
            return _explain(
                text, int(info[kernels.ERROR]), int(info[kernels.ERROR_AT]), int(info[kernels.LINES])
            )
        values, ids, row_ends, spans = values[:written], ids[:written], row_ends[:rows], spans[:rows]
        if info[kernels.UNORDERED]:
            values, ids = _sort_ids(values, ids, row_ends, spans)
    except BadLine as bad:
        return bad
    return Block(
        values,
        ids,
        row_ends,
        labels[:rows],
        _find_qids(text, qids[:rows], spans, kernels.QID_TEXT),
        spans[:, 1] != kernels.QID_NONE,
        _find_items(text, spans),
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
    """Read in Python what the kernel left: rare numbers, nan, inf, and what is no number at all."""
    for place, start, stop, row in hard.tolist():
        token = text[start:stop].decode("utf-8", "replace")
        line = int(spans[row, 0])
        number = _as_number(token)
        if place < 0:
            if number is None or not np.isfinite(number):
                raise BadLine(line, f"the label is {token!r}. {LABEL_HELP}")
            labels[row] = number
            continue
        if number is None:
            advice = "Pass" if token.isalpha() else "Correct it, or pass"
            raise BadLine(
                line,
                f"feature {ids[place]} is {token!r}. {advice} {option('missing', value=token)} to read it as "
                "missing.",
            )
        with np.errstate(over="ignore"):
            value = np.float32(number)
        if np.isinf(value) and not rules.forgive_infinite:
            raise BadLine(
                line,
                f"feature {ids[place]} is {token!r}, not finite as float32. Pass "
                f"{option('non_finite', value='missing')} to read such values as missing.",
            )
        values[place] = np.nan if np.isinf(value) else value


def _as_number(token: str) -> float | None:
    """float(), without the underscores and the odd digits that only Python takes."""
    if not token.isascii() or "_" in token:
        return None
    try:
        return float(token)
    except ValueError:
        return None


def _explain(text: bytes, error: int, at: int, line: int) -> BadLine:
    from placings.data import svmlight_kernels as kernels

    token = text[at : at + 40].split(b"\n")[0].split(b" ")[0].decode("utf-8", "replace")
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


def _find_qids(text: bytes, qids: Ints, spans: AnyArray, as_text: int) -> AnyArray:
    if not (spans[:, 1] == as_text).any():
        return qids
    texts = np.empty(len(qids), dtype=object)
    texts[:] = [text[a:b].decode("utf-8", "replace") for a, b in spans[:, 2:4].tolist()]
    return texts


def _find_items(text: bytes, spans: AnyArray) -> AnyArray | None:
    if not (spans[:, 5] > spans[:, 4]).any():
        return None
    texts = np.empty(len(spans), dtype=object)
    texts[:] = [text[a:b].decode("utf-8", "replace") for a, b in spans[:, 4:6].tolist()]
    return texts
