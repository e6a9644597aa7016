"""TREC run and qrels files: what a system retrieved, and what assessors said of it."""

from __future__ import annotations

import io
import itertools
import math
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placings.core import (
    BadFile,
    BadInput,
    EmptyFile,
    PlacingsWarning,
    as_scores,
    iterate_blocks,
    option,
    write_atomically,
)
from placings.data.ranking import RankingData

LARGEST = float(np.finfo(np.float32).max)
MARK = b"\xef\xbb\xbf"  # the byte order mark that some exports put first
OTHER_SPACES = re.compile("[\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
WHITESPACE = " \t\n\r\x0b\x0c"
MOST_DIGITS = 18  # of a rank
Listing = list[tuple[int, str, float]]  # rank, document, score


def read_trec(
    run: str | PathLike[str], qrels: str | PathLike[str], *, unretrieved: str = "drop"
) -> RankingData:
    """Ranking data from a run (`qid Q0 docid rank score tag`) and qrels (`qid 0 docid rel`).

    Both may be plain, .gz or .zst. Ids stay strings. The one feature is `score`; rows of a query stand by
    the run's rank column, and `position` counts them from 1. An unjudged item has label 0, and so has a
    negative judgement. trec_eval orders by score instead: a warning counts the queries where that differs.

    `unretrieved="drop"` leaves out relevant items that the run does not list: ideal DCG, recall and average
    precision then know only what is listed, and come out higher than trec_eval's. `"append"` adds them
    below the list, with the query's lowest score − 1 each: ideal DCG and the number of relevant items are
    then right, and metrics with a cutoff within the list equal trec_eval's. Average precision without a
    cutoff counts them at their places just below the list, where trec_eval counts 0 for each.

    Queries judged but not in the run are left out (as trec_eval does without `-c`), queries in the run but
    not judged keep labels of 0; a warning counts both.
    """
    if unretrieved not in ("drop", "append"):
        raise BadInput(f"unretrieved must be 'drop' or 'append'. Got {unretrieved!r}.")
    judged, negative = read_qrels(Path(qrels))
    listed = _read_run(Path(run))
    notes = _compare_queries(listed, judged)
    if negative:
        notes.append(f"{negative:,} negative judgements count as 0.")
    disordered = sum(_order_rows(rows) for rows in listed.values())
    if disordered:
        notes.append(
            f"In {disordered:,} of {len(listed):,} queries the ranks do not follow the scores; positions are "
            "by rank, trec_eval would order by score."
        )
    absent = _find_unretrieved(listed, judged)
    count = sum(map(len, absent.values()))
    if count and unretrieved == "drop":
        notes.append(
            f"{count:,} relevant items of {len(absent):,} queries were not retrieved and are left out: ideal "
            "DCG and recall see only what is listed. Pass "
            f"{option('unretrieved', value='append')} to add them below the lists."
        )
    if notes:
        warnings.warn(f"{run}: {' '.join(notes)}", PlacingsWarning, stacklevel=2)
    return _build(listed, judged, absent if unretrieved == "append" else {})


def write_run(
    data: RankingData, scores: ArrayLike, path: str | PathLike[str], *, tag: str = "placings"
) -> None:
    """Write a TREC run: each query's items by falling score (ties in row order), ranks from 1.

    The file appears whole or not at all, gzipped if its name ends in .gz. Ids and tag must not hold
    spaces. trec_eval reads only the scores, and orders equal ones by document id.
    """
    values = as_scores(scores)
    if len(values) != data.n_rows:
        raise BadInput(f"scores must have one value for each of the {data.n_rows} rows. Got {len(values)}.")
    if not np.isfinite(values).all():
        raise BadInput("a run's scores must be finite. Got ±inf; replace them by a number of the same order.")
    if data.items is None:
        raise BadInput("a run names its items, and these are not known. Give them: data.replace(items=…).")
    items = [_as_word(item, "item") for item in data.items.tolist()]
    qids = [_as_word(qid, "qid") for qid in data.qids.tolist()]
    tag, path = _as_word(tag, "tag"), Path(path)
    with write_atomically(path) as temporary, _open_text(temporary, path.suffix) as file:
        for qid, start, stop in zip(qids, data.offsets[:-1].tolist(), data.offsets[1:].tolist(), strict=True):
            order = np.argsort(-values[start:stop], kind="stable") + start
            for rank, row in enumerate(order.tolist(), 1):
                file.write(f"{qid} Q0 {items[row]} {rank} {float(values[row])!r} {tag}\n")


def read_qrels(path: Path) -> tuple[dict[str, dict[str, float]], int]:
    judged: dict[str, dict[str, float]] = defaultdict(dict)
    negative = 0
    for line, words in _read_lines(path, "qid 0 docid rel", (4,)):
        qid, _, document, text = words
        grade = _as_number(path, line, text, "the judgement")
        negative += grade < 0
        grade = max(grade, 0.0)
        if judged[qid].setdefault(document, grade) != grade:
            raise BadFile(
                path,
                f"query {qid!r} judges {document!r} {judged[qid][document]:g} and then {grade:g}. Keep one.",
                line=line,
            )
    return dict(judged), negative


def _read_run(path: Path) -> dict[str, Listing]:
    listed: dict[str, Listing] = defaultdict(list)
    seen: set[tuple[str, str]] = set()
    for line, words in _read_lines(path, "qid Q0 docid rank score tag", (5, 6)):
        qid, _, document, place, text = words[:5]
        plain = place.isdigit() and place.isascii() and len(place) <= MOST_DIGITS
        if not plain and not _is_signed(place):
            raise BadFile(path, f"the rank is {place[:40]!r}, not a whole number. Mend the line.", line=line)
        rank = int(place)
        score = _as_number(path, line, text, "the score")
        if (qid, document) in seen:
            raise BadFile(path, f"query {qid!r} lists {document!r} twice. Keep one of the lines.", line=line)
        seen.add((qid, document))
        listed[qid].append((rank, document, score))
    return dict(listed)


def _read_lines(path: Path, layout: str, counts: tuple[int, ...]) -> Iterator[tuple[int, list[str]]]:
    line = 0
    found = False
    for block in iterate_blocks(path, 1 << 22):
        for words in _split_lines(path, block.removeprefix(MARK) if line == 0 else block, line):
            line += 1
            if not words:
                continue
            if len(words) not in counts:
                shown = " ".join(words)[:80]
                raise BadFile(path, f"found {len(words)} words, {shown!r}; a line is '{layout}'.", line=line)
            found = True
            yield line, words
    if not found:
        raise EmptyFile(path, f"has no lines. Each line is '{layout}'.")


def _split_lines(path: Path, block: bytes, before: int) -> Iterator[list[str]]:
    """The words of each line; spaces are those of ASCII, as for trec_eval: others are part of an id."""
    try:
        text = block.decode()
    except UnicodeDecodeError:
        text = None
    if text is not None and OTHER_SPACES.search(text) is None:
        yield from (line.split() for line in text.split("\n")[:-1])  # a block ends in a newline
        return
    for line, raw in enumerate(block.split(b"\n")[:-1], before + 1):
        try:
            yield [word.decode() for word in raw.split()]
        except UnicodeDecodeError:
            raise BadFile(path, f"{raw[:40]!r} is not UTF-8. Convert the file first.", line=line) from None


def _as_number(path: Path, line: int, text: str, what: str) -> float:
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan  # as only Python reads them
    except ValueError:
        value = math.nan
    if not abs(value) <= LARGEST:
        raise BadFile(path, f"{what} is {text[:40]!r}, not a finite float32. Mend the line.", line=line)
    return value


def _is_signed(word: str) -> bool:
    digits = word[1:]
    return word[0] in "+-" and word.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS


def _order_rows(rows: Listing) -> bool:
    """Sort one query's rows by rank, stably; True if their scores then rise somewhere."""
    rows.sort(key=lambda row: row[0])
    return any(below[2] > above[2] for above, below in itertools.pairwise(rows))


def _compare_queries(listed: dict[str, Listing], judged: dict[str, dict[str, float]]) -> list[str]:
    notes = []
    absent, unjudged = judged.keys() - listed.keys(), listed.keys() - judged.keys()
    if len(unjudged) == len(listed):
        raise BadInput(
            f"no query of the run is judged. The run begins with query {next(iter(listed))!r}, the qrels "
            f"with {next(iter(judged))!r}: are they of the same task, and in the right order (run, qrels)?"
        )
    if absent:
        notes.append(
            f"{len(absent):,} of {len(judged):,} judged queries are not in the run and are left out."
        )
    if unjudged:
        notes.append(f"{len(unjudged):,} of {len(listed):,} queries have no judgements: their labels are 0.")
    return notes


def _find_unretrieved(
    listed: dict[str, Listing], judged: dict[str, dict[str, float]]
) -> dict[str, list[str]]:
    absent = {}
    for qid, rows in listed.items():
        shown = {document for _, document, _ in rows}
        lacking = [d for d, grade in judged.get(qid, {}).items() if grade > 0 and d not in shown]
        if lacking:
            absent[qid] = lacking
    return absent


def _build(
    listed: dict[str, Listing], judged: dict[str, dict[str, float]], added: dict[str, list[str]]
) -> RankingData:
    qid: list[str] = []
    items: list[str] = []
    scores: list[float] = []
    labels: list[float] = []
    position: list[int] = []
    for query, rows in listed.items():
        documents = [document for _, document, _ in rows] + added.get(query, [])
        lowest = min(score for _, _, score in rows) - 1.0
        grades = judged.get(query, {})
        qid += [query] * len(documents)
        items += documents
        scores += [score for _, _, score in rows] + [lowest] * len(added.get(query, []))
        labels += [grades.get(document, 0.0) for document in documents]
        position += range(1, len(documents) + 1)
    return RankingData.from_arrays(
        np.array(scores, dtype=np.float32)[:, None],
        labels,
        np.array(qid, dtype=object),
        feature_names=["score"],
        items=np.array(items, dtype=object),
        position=position,
    )


def _as_word(value: Any, what: str) -> str:
    word = str(value)
    if not word or any(space in word for space in WHITESPACE):
        raise BadInput(f"a run separates its columns by spaces, so {what} must hold none. Got {word!r}.")
    return word


def _open_text(path: Path, suffix: str) -> io.TextIOWrapper:
    if suffix.lower() != ".gz":
        return open(path, "w", encoding="utf-8", newline="\n")
    import gzip

    return io.TextIOWrapper(gzip.GzipFile(path, "wb", mtime=0), encoding="utf-8", newline="\n")
