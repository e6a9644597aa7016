"""Mutated svmlight text, read by placings and by a slow plain parser: where both accept, all is equal."""

from __future__ import annotations

import gzip
import random
import re
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

from placings.core import BadFile, find_limit
from placings.data import svmlight

NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
WORDS = [
    b"nan", b"NaN", b"inf", b"-inf", b"1e400", b"1e-400", b"0x10", b"1_0", b"NULL", b"", b"1e", b".", b"-",
    b"+1",
    b"-0", b"5.", b".5", b"00012.50", b"3.4028236e38", b"3.4028235e38", b"1.17549435e-38", b"1e-45", b"7e-46",
    b"16777217", b"0.1", b"9" * 40, b"0." + b"0" * 50 + b"1", b"1" * 400, b"1e99999999999999999999",
    b"\xd9\xa1",
    b"\x0c1", b"1\x00", b"2.5e+3", b"1E5", b"0.81551913839412345", b"1.00000005960464477539062500000000001",
]  # fmt: skip
QIDS = [
    b"1", b"2", b"007", b"7", b"-0", b"0", b"-5", b"+5", b"0x10", b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808", b"-9223372036854775809", b"18446744073709551614", b"18446744073709551615",
    b"1e300",
    b"a", b"\xc3\xa9", b"\xe9", b"\xe8", b"a\x00", b"", b"1.0", b"q:1", b"99999999999999999999999999",
]  # fmt: skip
IDS = [b"0", b"1", b"2", b"3", b"007", b"64", b"65", b"70", b"-1", b"1048576", b"1048577", b"1000000000",
       b"2147483646", b"2147483647", b"99999999999", b"x", b"", b"1" * 50]  # fmt: skip
COMMENTS = [
    b"#docid = GX1",
    b"#A",
    b"# B inc = 1",
    b"#",
    b"##x",
    b"#docid=",
    b"#docid = \xff",
    b"#\xe9",
    b"#a=b",
]
PIECES = [b"\n", b"\r\n", b"\r", b" ", b"\t", b"#", b":", b"qid:", b"\x00", b"\x0b", b"\xef\xbb\xbf",
    b"\xff", b"1:1",
    b"-",
          b"e", b".", b"\x85", b"\xe2\x80\xa8", b"9" * 30]  # fmt: skip


def make(source: random.Random, folder: Path) -> Path:
    tame = source.random() < 0.6
    lines = [_make_line(source, tame) for _ in range(source.choice([1, 2, 5, 20, 60]))]
    content = bytearray(source.choice([b"\n", b"\n", b"\r\n"]).join(lines))
    for _ in range(source.choice([0, 0, 0, 1] if tame else [0, 0, 1, 2, 5])):
        at = source.randrange(len(content) + 1)
        cut = at + source.choice([0, 0, 1, 3])
        content[at:cut] = source.choice([*PIECES, *WORDS, *QIDS, source.randbytes(2)])
    content += source.choice([b"", b"\n", b"\n\n"])
    if source.random() < 0.1:
        content[:0] = b"\xef\xbb\xbf"
    path = folder / source.choice(["rows.txt", "rows.txt", "rows.dat.gz"])
    path.write_bytes(
        gzip.compress(content) if path.suffix == ".gz" and source.random() < 0.9 else bytes(content)
    )
    return path


def _make_line(source: random.Random, tame: bool) -> bytes:
    if source.random() < 0.05:
        return source.choice([b"", b"# comment", b"  "])
    label = str(source.choice([0, 1, 2, 0.5])).encode() if tame else source.choice([b"1", b"0", *WORDS])
    qid = source.choice(QIDS[:2] if tame else QIDS)
    count = source.choice([0, 1, 3, 70])
    ids = sorted(source.sample(range(0 if source.random() < 0.1 else 1, 80), count))
    pairs = [
        (str(each).encode() if tame else source.choice([str(each).encode()] * 20 + IDS))
        + b":"
        + (repr(source.gauss(0, 10)).encode() if tame or source.random() < 0.9 else source.choice(WORDS))
        for each in ids
    ]
    parts = [label, b"qid:" + qid, *pairs]
    if source.random() < (0.02 if tame else 0.1):
        source.shuffle(parts)
    if source.random() < 0.3:
        parts.append(source.choice(COMMENTS[:3] if tame else COMMENTS))
    return source.choice([b" ", b" ", b"\t", b"  "]).join(parts)


class Refused(Exception):
    """The plain parser takes no such line."""


def parse_number(token: bytes) -> float:
    """A decimal number as a fraction, rounded once; nan and inf are words."""
    if token.lower() in (b"nan", b"+nan", b"-nan"):
        return float("nan")
    if NUMBER.fullmatch(token) is None:
        raise Refused(token)
    exponent = int(re.split(rb"[eE]", token)[1]) if re.search(rb"[eE]", token) else 0
    if abs(exponent) > 2000 or len(token) > 4000:
        return float(token)
    try:
        return float(Fraction(token.decode()))
    except OverflowError:
        raise Refused(token) from None


def parse_item(comment: bytes) -> str:
    text = comment.lstrip(b" \t\r#")
    named = re.match(rb"docid[ \t\r]*=[ \t\r]*([^ \t\r]*)", text)
    if named is not None:
        return named[1].decode()
    word = text.rstrip(b" \t\r")
    return word.decode() if re.fullmatch(rb"[^ \t\r=]+", word) else ""


def parse_slowly(content: bytes) -> list[tuple[float, bytes, dict[int, float], str]]:
    """Rows as label, qid as written, features by id, item."""
    rows = []
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        text, mark, comment = line.partition(b"#")
        tokens = [token for token in re.split(rb"[ \t\r]", text) if token]
        if not tokens:
            continue
        label = parse_number(tokens[0])
        if not abs(label) < float("inf") or label < 0:
            raise Refused(tokens[0])
        qids, features = [], {}
        for token in tokens[1:]:
            if token.startswith(b"qid:"):
                token[4:].decode()
                qids.append(token[4:])
                continue
            number, colon, value = token.partition(b":")
            if not colon or not re.fullmatch(rb"[0-9]+", number) or len(number) > 4000:
                raise Refused(token)
            if int(number) in features or int(number) > find_limit("feature"):
                raise Refused(token)
            features[int(number)] = parse_number(value)
        if len(qids) != 1 or not qids[0]:
            raise Refused(line)
        rows.append((label, qids[0], features, parse_item(mark + comment) if mark else ""))
    if not rows:
        raise Refused("no rows")
    return rows


def is_whole(word: bytes) -> bool:
    return re.fullmatch(rb"0|-?[1-9][0-9]*", word) is not None and -(2**63) <= int(word) < 2**63


def check(path: Path) -> None:
    content = path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    try:
        rows = parse_slowly(content)
    except (Refused, UnicodeDecodeError) as error:
        rows = None
        why = error
    svmlight.BLOCK = 64 if len(content) % 3 == 0 else 1 << 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            data = svmlight.read_svmlight(path)
            refusal = None
        except BadFile as error:
            refusal = error
    if refusal is not None:
        over = any(_overflows(value) for row in rows or () for value in row[2].values())
        assert rows is None or over, f"refused what is right: {refusal}"
        assert len(str(refusal)) < 600, "a long message"
        raise refusal
    assert rows is not None, f"accepted what is wrong: {why}"
    compare(data, rows)


def _overflows(value: float) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.isinf(np.float32(value)))


def compare(data: svmlight.RankingData, rows: list[tuple[float, bytes, dict[int, float], str]]) -> None:
    order = list(dict.fromkeys(row[1] for row in rows))
    whole = all(map(is_whole, order))
    assert data.qids.tolist() == [int(qid) if whole else qid.decode() for qid in order]
    grouped = [row for qid in order for row in rows if row[1] == qid]
    assert data.sizes.tolist() == [sum(row[1] == qid for row in rows) for qid in order]
    assert data.y.tolist() == [row[0] for row in grouped]
    used = [each for row in rows for each in row[2]]
    first = 0 if 0 in used else 1
    assert data.n_features == max(used, default=first - 1) + 1 - first
    items = [row[3] for row in grouped]
    assert (data.items is None) == (not any(items))
    assert data.items is None or data.items.tolist() == items
    for place, (_, _, features, _) in enumerate(grouped):
        row = data.X[[place]]
        found = np.asarray(row.toarray() if data.is_sparse else row)[0]
        expected = np.zeros(data.n_features, np.float32)
        for each, value in features.items():
            expected[each - first] = value
        np.testing.assert_array_equal(found, expected)
