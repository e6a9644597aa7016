"""Judgements in a table with a header: which column is which, and its lines as rows."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placings.core import BadFile, BadInput, UnknownName, iterate_blocks, option
from placings.logs.tally import Tally

PARTS: dict[str, tuple[str, ...]] = {  # small letters, in order of preference; spaces and - count as _
    "query": ("query", "query_text", "keyword", "keywords", "search_term", "search_query", "user_query", "q"),
    "qid": ("qid", "query_id", "queryid", "search_id", "topic", "topic_id"),
    "item": (
        "docid", "doc_id", "document_id", "docno", "doc", "document", "item_id", "itemid", "item",
        "product_id", "productid", "object_id", "place_id", "sku", "asin", "url", "id",
    ),
    "grade": ("rating", "grade", "judgement", "judgment", "relevance", "rel", "label"),
    "position": ("position", "doc_position", "rank"),
    "score": ("score", "engine_score"),
}  # fmt: skip
REPEATED = ("mean", "max", "last", "refuse")
TAKEN = frozenset({
    "search_id", "session_id", "time", "query", "focus_lat", "focus_lon", "target", "platform", "surface",
    "item_id", "position", "score", "label",
})  # fmt: skip


@dataclass
class Judgements:
    """What a file says: for each query its items' grades, and the columns that travel along."""

    texts: dict[str, str] = field(default_factory=dict)
    grades: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    others: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    extras: tuple[str, ...] = ()  # columns of `others`, under the names they have in the rows


def read_judgements(
    path: Path, columns: Mapping[str, str] | None, grades: Mapping[str, float] | None, tally: Tally
) -> Judgements:
    """Read a file with a header; lines that cannot be used are counted, a file of nothing else is refused."""
    lines = _read_cells(path)
    try:
        _, header = next(lines)
    except StopIteration:
        raise BadFile(
            path, "is empty. Its first line must name the columns, such as query,docid,rating."
        ) from None
    roles = find_parts(header, columns, str(path))
    read = Judgements(extras=tuple(_name_extras(header, roles, tally)))
    names = {place: name for place, name in enumerate(_name_columns(header, roles)) if name in read.extras}
    for line, cells in lines:
        tally.count("lines")
        _take_cells(read, cells, roles, names, len(header), grades, tally, f"{path}:{line}")
    if not read.grades:
        raise BadFile(path, f"holds no judgement that can be used.\n{tally}")
    return read


def find_parts(header: list[str], columns: Mapping[str, str] | None, source: str) -> dict[str, int]:
    """Which column is the query, its id, the item, the grade, the position and the score.

    >>> find_parts(["Query Text", "Doc ID", "Rating"], None, "judged.csv")
    {'query': 0, 'item': 1, 'grade': 2}
    """
    found: dict[str, int] = {}
    for part, name in (columns or {}).items():
        if part not in PARTS:
            raise UnknownName("part of a judgement", part, PARTS)
        if name not in header:
            raise UnknownName(f"column of {source}", name, header)
        found[part] = header.index(name)
    plain = [re.sub(r"[\s\-]+", "_", name.strip().lower()) for name in header]
    for part, names in PARTS.items():
        place = next((plain.index(name) for name in names if name in plain), None)
        if part not in found and place is not None and place not in found.values():
            found[part] = place
    lacking = [part for part in ("item", "grade") if part not in found]
    lacking += [] if "query" in found or "qid" in found else ["query"]
    if lacking:
        part = lacking[0]
        raise BadFile(
            source,
            f"no column is the {part}. Found {', '.join(map(repr, header))}; known names are "
            f"{', '.join(PARTS[part])}. Name it: columns={{{part!r}: …}}, or give the file a header.",
        )
    return {part: found[part] for part in PARTS if part in found}


def combine_grades(judged: Judgements, repeated: str, tally: Tally) -> dict[tuple[str, str], float]:
    """One grade for each query and item; those judged more than once are counted."""
    if repeated not in REPEATED:
        raise UnknownName("rule for repeated judgements", repeated, REPEATED)
    combined = {}
    for (query, item), many in judged.grades.items():
        if len(many) > 1:
            tally.count("pairs judged more than once")
            if len(set(many)) > 1:
                tally.count("pairs judged differently")
                if repeated == "refuse":
                    raise BadInput(
                        f"query {query!r} judges {item!r} {many[0]:g} and {many[1]:g}. Keep one, or pass "
                        f"{option('repeated', value='mean')}, 'max' or 'last'."
                    )
        combined[query, item] = many[-1] if len(set(many)) == 1 else _choose_grade(many, repeated)
    return combined


def _choose_grade(many: list[float], repeated: str) -> float:
    if repeated == "mean":
        return math.fsum(many) / len(many)
    return max(many) if repeated == "max" else many[-1]


def _read_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The file's records with the line each ends on, parted by the sign that the header has most of."""
    texts = _read_texts(path)
    try:
        header = next(texts)
    except StopIteration:
        return
    outside = re.sub(r'"[^"]*"', "", header)
    delimiter = max(",\t;|", key=outside.count)
    reader = csv.reader(_chain(header, texts), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells and any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]
    except csv.Error as error:
        raise BadFile(
            path,
            f"the quotes cannot be followed: {error}. Double a quote inside quotes.",
            line=reader.line_num,
        ) from None


def _read_texts(path: Path) -> Iterator[str]:
    line = 0
    for block in iterate_blocks(path, 1 << 22):
        for raw in block.split(b"\n")[:-1]:
            line += 1
            try:
                yield raw.decode("utf-8-sig" if line == 1 else "utf-8") + "\n"
            except UnicodeDecodeError:
                raise BadFile(
                    path, f"{raw[:40]!r} is not UTF-8. Convert the file first.", line=line
                ) from None


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _name_columns(header: list[str], roles: dict[str, int]) -> list[str]:
    taken = set(roles.values())
    return ["" if place in taken else name for place, name in enumerate(header)]


def _name_extras(header: list[str], roles: dict[str, int], tally: Tally) -> Iterator[str]:
    names = _name_columns(header, roles)
    for name in names:
        if name and name not in TAKEN and names.count(name) == 1:
            yield name
        elif name:
            tally.count(f"columns left out, {name!r}: the rows have one of that name")
    for part in ("position", "score"):
        if part in roles:
            yield part


def _take_cells(
    read: Judgements, cells: list[str], roles: dict[str, int], names: dict[int, str], width: int,
    grades: Mapping[str, float] | None, tally: Tally, where: str,
) -> None:  # fmt: skip
    if len(cells) != width:
        return tally.refuse(f"{'fewer' if len(cells) < width else 'more'} cells than the header", where)
    text = cells[roles["query"]] if "query" in roles else ""
    query = cells[roles["qid"]] if "qid" in roles else text
    item, said = cells[roles["item"]], cells[roles["grade"]]
    if not query:
        return tally.refuse("no query", where)
    if not item:
        return tally.refuse("no item", where)
    if not said:
        return tally.refuse("no grade", where)
    grade = _read_grade(said, grades)
    if grade is None:
        return tally.refuse(
            "a grade that is no number" if grades is None else "a grade that is not known", where
        )
    if grade < 0:
        tally.count("negative grades, kept as 0")
    if read.texts.setdefault(query, text) != text:
        tally.count("lines whose query id has another text before; the first is kept")
    pair = (query, item)
    read.grades.setdefault(pair, []).append(max(grade, 0.0))
    told = {name: cells[place] for place, name in names.items()}
    told |= {part: cells[roles[part]] for part in ("position", "score") if part in roles}
    read.others.setdefault(pair, told)
    return None


def _read_grade(said: str, grades: Mapping[str, float] | None) -> float | None:
    if grades is not None:
        return grades.get(said)
    try:
        grade = float(said)
    except ValueError:
        return None
    return grade if math.isfinite(grade) else None


def as_column(values: list[str]) -> list[Any]:
    """Numbers where every value that is there is one, else text; nothing is NaN or None.

    >>> as_column(["1", "", "2.5"]), as_column(["a", "", "2"])
    ([1.0, nan, 2.5], ['a', None, '2'])
    """
    if all(reads_as_number(value) for value in values if value):
        return [float(value) if value else math.nan for value in values]
    return [value or None for value in values]


def reads_as_number(value: str) -> bool:
    """Whether a text is a number."""
    try:
        float(value)
    except ValueError:
        return False
    return True
