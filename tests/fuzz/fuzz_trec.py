"""TREC runs with their judgements, and files of scores, against plain parsers: all values agree."""

from __future__ import annotations

import csv
import io
import random
import re
import warnings
from pathlib import Path

import numpy as np

from placings.core import BadFile, BadInput
from placings.data import RankingData, read_trec
from placings.evaluation import read_scores

IDS = [
    "1", "007", "7", "q", "é", "a\u00a0b", "a\u3000b", "x\x1cy", "18446744073709551614",
    "18446744073709551615", "0x10",
    "16", "1e300", "2e300", "-0", "0", "1.0", "+7", "d\x00", "true",
]  # fmt: skip
NUMBERS = [
    "0",
    "1",
    "2.5",
    "-3",
    "1e400",
    "nan",
    "inf",
    "1_0",
    "\u0661",
    "x",
    "1e-50",
    "3.5e38",
    "9" * 30,
    ".5",
    "5.",
    "0x1",
]
PLAIN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
SPACES = " \t\r\x0b\x0c"


def make(source: random.Random, folder: Path) -> Path:
    path = folder / "case"
    path.mkdir()
    tame = source.random() < 0.6
    ids = source.sample(IDS, 5)
    number = lambda: source.choice(NUMBERS[:3] if tame or source.random() < 0.9 else NUMBERS)  # noqa: E731
    pairs = sorted({(source.choice(ids[:3]), source.choice(ids)) for _ in range(12)})
    source.shuffle(pairs)
    gap = source.choice([" ", "\t", "  "])
    run = [gap.join([q, "Q0", d, str(place), number(), "tag"]) for place, (q, d) in enumerate(pairs, 1)]
    qrels = [gap.join([q, "0", d, number()]) for q, d in pairs if source.random() < 0.8]
    (path / "qrels").write_bytes(_spoil(source, qrels, tame))
    (path / "run").write_bytes(_spoil(source, run, tame))
    quoted = io.StringIO()
    rows = csv.writer(quoted, lineterminator="\n")
    rows.writerows([["qid", "item", "score"], *([q, d, number()] for q, d in pairs)])
    (path / "scores.csv").write_bytes(_spoil(source, quoted.getvalue().split("\n"), tame))
    (path / "scores.txt").write_bytes(_spoil(source, [number() for _ in pairs], tame))
    (path / "pairs.txt").write_text("\n".join(f"{q}\x02{d}" for q, d in pairs), encoding="utf-8", newline="")
    return path


def _spoil(source: random.Random, lines: list[str], tame: bool) -> bytes:
    content = bytearray(source.choice(["\n", "\n", "\r\n"]).join(lines).encode())
    for _ in range(0 if tame else source.choice([0, 1, 2])):
        at = source.randrange(len(content) + 1)
        content[at : at + source.choice([0, 1])] = source.choice(
            [b"\xff", b"\n", b" ", b"\t", b"\x00", b"\r", source.randbytes(1)]
        )
    start = b"\xef\xbb\xbf" if source.random() < 0.1 else b""
    return start + bytes(content) + source.choice([b"", b"\n", b"\n\n"])


def number_of(word: str) -> float | None:
    if PLAIN.fullmatch(word) is None or abs(float(word)) > float(np.finfo(np.float32).max):
        return None
    return float(word)


def lines_of(path: Path) -> list[list[str]]:
    text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
    lines = [[word for word in re.split(f"[{SPACES}]", line) if word] for line in text.split("\n")]
    return [line for line in lines if line]


def read_slowly(
    path: Path,
) -> tuple[dict[str, list[tuple[int, str, float]]], dict[str, dict[str, float]]] | None:
    """The run's rows by query and the grades by query; None if a line is wrong."""
    try:
        run, qrels = lines_of(path / "run"), lines_of(path / "qrels")
    except UnicodeDecodeError:
        return None
    grades: dict[str, dict[str, float]] = {}
    for line in qrels:
        if len(line) != 4 or (grade := number_of(line[3])) is None:
            return None
        grade = max(grade, 0.0)
        if grades.setdefault(line[0], {}).setdefault(line[2], grade) != grade:
            return None
    listed: dict[str, list[tuple[int, str, float]]] = {}
    for line in run:
        if len(line) not in (5, 6) or (score := number_of(line[4])) is None:
            return None
        if not re.fullmatch("[+-]?[0-9]{1,18}", line[3], re.ASCII):
            return None
        if any(document == line[2] for _, document, _ in listed.get(line[0], [])):
            return None
        listed.setdefault(line[0], []).append((int(line[3]), line[2], score))
    return (listed, grades) if listed and grades and set(listed) & set(grades) else None


def check(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refused = [
            error for part in (check_trec, check_lines, check_table) if (error := part(path)) is not None
        ]
    for error in refused:
        assert len(str(error)) < 900, f"a long message: {error}"
    if refused:
        raise refused[0]


def check_trec(path: Path) -> Exception | None:
    expected = read_slowly(path)
    try:
        data = read_trec(path / "run", path / "qrels")
    except (BadFile, BadInput) as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert expected is None, f"refused what is right: {refusal}"
        return refusal
    assert expected is not None, "accepted what is wrong"
    listed, grades = expected
    assert data.qids.tolist() == list(listed)
    rows = [(q, d, s) for q in listed for _, d, s in sorted(listed[q], key=lambda row: row[0])]
    assert data.items is not None
    assert data.qid.tolist() == [q for q, _, _ in rows]
    assert data.items.tolist() == [d for _, d, _ in rows]
    assert data.y.tolist() == [grades.get(q, {}).get(d, 0.0) for q, d, _ in rows]
    np.testing.assert_array_equal(data.X[:, 0], np.array([s for _, _, s in rows], dtype=np.float32))
    return None


def check_lines(path: Path) -> Exception | None:
    text = (path / "scores.txt").read_bytes().removeprefix(b"\xef\xbb\xbf")
    words = [line.strip(b" \t\r\x0b\x0c") for line in text.split(b"\n")]
    while words and not words[-1]:
        words.pop()
    named = (b"nan", b"inf")
    right = all(PLAIN.fullmatch(word.decode("latin-1")) or word in named for word in words)
    try:
        scores = read_scores(path / "scores.txt").scores
    except BadFile as error:
        refusal = error
    else:
        refusal = None
    if refusal is not None:
        assert not right, f"refused what is right: {refusal}"
        return refusal
    assert right, "accepted what is wrong"
    np.testing.assert_array_equal(scores, [float(word) for word in words])
    return None


def check_table(path: Path) -> Exception | None:
    """Scores in a table reach the rows of the same ids as written, or the file is refused."""
    raw = (path / "pairs.txt").read_bytes().decode()
    pairs = [tuple(line.split("\x02")) for line in raw.split("\n")]
    texts = [np.array([pair[place] for pair in pairs], dtype=object) for place in (0, 1)]
    data = RankingData.from_arrays(np.zeros((len(pairs), 1)), np.zeros(len(pairs)), texts[0], items=texts[1])
    try:
        scores = read_scores(path / "scores.csv").match(data)
    except (BadFile, BadInput) as error:
        return error
    text = (path / "scores.csv").read_bytes().removeprefix(b"\xef\xbb\xbf").decode()
    if text.split("\n")[0].strip() != "qid,item,score":
        return None  # without these columns scores go by place
    rows = {(row[0], row[1]): row[2] for row in csv.reader(io.StringIO(text, newline="")) if len(row) == 3}
    items = data.items.tolist() if data.items is not None else []
    for place, (qid, item) in enumerate(zip(data.qid.tolist(), items, strict=True)):
        written = rows.get((qid, item))
        assert written is not None, f"a score for {qid!r} {item!r}, which the file does not have as written"
        if PLAIN.fullmatch(written.strip()):
            assert scores[place] == float(written)
    return None
