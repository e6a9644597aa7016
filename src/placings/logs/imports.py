"""Logs and judgements of other makers: OpenSearch UBI, Metarank, one flat table, judgements, TREC qrels."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import (
    BadFile,
    BadInput,
    UnknownName,
    iterate_blocks,
    need_library,
    option,
    write_atomically,
)
from placings.data import write_sealed
from placings.logs.click_log import ClickLog
from placings.logs.column_names import Columns
from placings.logs.flat_tables import read_flat
from placings.logs.log_files import Form, write_log_tables
from placings.logs.metarank import MetarankReader
from placings.logs.tally import Tally
from placings.logs.ubi import ACTIONS, IMPRESSIONS, UbiReader

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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


@dataclass(frozen=True)
class ImportedLog:
    """Searches and actions in our schema, ready for `join_logs`, and a report of what was not used."""

    searches: pa.Table
    actions: pa.Table
    report: Tally
    items: pa.Table | None = None  # what was known of items over time: the join's snapshots

    def write(self, folder: str | PathLike[str], form: Form = "parquet") -> list[Path]:
        """Write `searches`, `actions` and, where there are such, `items` into a folder; gives the paths."""
        tables = {"searches": self.searches, "actions": self.actions}
        if self.items is not None:
            tables["items"] = self.items
        return write_log_tables(tables, folder, form)


@dataclass(frozen=True)
class ImportedRows:
    """A rows table with labels, one row for each item judged, and a report of what was not used."""

    rows: pd.DataFrame
    report: Tally

    def to_log(self) -> ClickLog:
        """The rows as a click log; without a position where nobody ranked the items."""
        return ClickLog(self.rows, count_positions=False)

    def write(self, path: str | PathLike[str]) -> None:
        """Write the rows as parquet; the file appears whole or not at all."""
        import pyarrow as pa

        table = pa.Table.from_pandas(self.rows, preserve_index=False)
        with write_atomically(Path(path)) as temporary:
            write_sealed(table, temporary)


def import_ubi(
    *paths: str | PathLike[str],
    actions: Mapping[str, str] | None = None,
    impressions: Sequence[str] = IMPRESSIONS,
    attributes: Mapping[str, str] | None = None,
) -> ImportedLog:
    """Searches and actions from OpenSearch's `ubi_queries` and `ubi_events`, exported as NDJSON.

    Give the files in any order, plain, .gz or .zst; records tell themselves apart (`action_name` makes an
    event). A line is a document, a dump's `{"_source": …}`, an answer with `hits`, or one of a bulk file.

    - The list shown is `query_response_hit_ids`; records of one query_id are pages of one list. A query
      without any has its list from `impressions` by their ordinals (from 0 or from 1), which are no actions.
    - `actions` renames action names, by default the usual ones (`click_through` → click, `add_to_cart` →
      cart); any other name stays, and the join's grades decide what it is worth.
    - The item is `event_attributes.object.object_id`, or `internal_id` where only that is in the list.
    - The session is the query's own, else its events', else its client, else the query itself. The
      `application` is the surface. `attributes` maps names in `query_attributes` to focus_lat, focus_lon,
      target, platform or surface.

    Scores are null: UBI does not log them. What cannot be used is counted in `report`, by reason, with the
    first file and line. Actions on unknown queries or items are kept: the join counts them as orphans.
    """
    if not paths:
        raise BadInput("no file is named. Give the exports of ubi_queries and ubi_events.")
    reader = UbiReader(actions, impressions, attributes)
    for path in paths:
        reader.read(Path(path))
    searches, done = reader.make_tables()
    if searches.num_rows == 0:
        raise BadFile(
            ", ".join(map(str, paths)), f"no query can be used. Are these UBI's exports?\n{reader.tally}"
        )
    return ImportedLog(searches, done, reader.tally)


def import_metarank(
    *paths: str | PathLike[str], actions: Mapping[str, str] | None = None, strict: bool = False
) -> ImportedLog:
    """Searches, actions and items over time from Metarank's events, one JSON object a line, plain or packed.

    - A `ranking` event is a search: its `items` in their order, `relevancy` as the score, fields of an item
      beside it; the field `query` is the text, other fields are columns of the search.
    - An `interaction` event is an action; `actions` renames its `type` as in `import_ubi`. One of no ranking
      is counted and left out.
    - An `item` event says what holds from its time on, for the fields that it names: `items` has all that
      was known after each. Join it as `snapshots`, so that no search sees a later value.
    - A `user` event likewise; what was known when the list was shown is in the search's columns "user.…".

    Timestamps are ISO text or numbers, seconds and milliseconds told by their size. A field whose name a
    column of ours has is "item.…", "ranking.…". An event that cannot be used is counted in `report`, by
    reason, with the first file and line. A line that is not JSON is an error, but for a last line that ends
    early, which is counted; with `strict` it is an error too.
    """
    if not paths:
        raise BadInput("no file is named. Give Metarank's events as JSON lines.")
    reader = MetarankReader({**ACTIONS, **(actions or {})}, strict)
    for path in paths:
        reader.read(Path(path))
    searches, done, items = reader.make_tables()
    if searches.num_rows == 0:
        raise BadFile(
            ", ".join(map(str, paths)),
            f"no ranking can be used. Are these Metarank's events?\n{reader.tally}",
        )
    return ImportedLog(searches, done, reader.tally, items)


def import_flat(
    path: str | PathLike[str],
    *,
    columns: Columns | None = None,
    time_unit: str | None = None,
    strict: bool = False,
) -> ImportedRows:
    """Rows from one table with a row for each item shown and a column `clicked` (parquet, CSV, JSONL).

    `search_id`, `item_id` and `clicked` (true and false, or counts; or `label`) are needed; `columns` says
    what the table calls them: {"search_id": "sid"}. Without `position` the rows of a search stand in the
    order of the file. Other columns travel along. Rows without an id, and an item's second row in a search,
    are counted in `report` and left out; the higher label of the two stays.
    """
    tally = Tally()
    rows = read_flat(path, columns, time_unit, strict, tally)
    return ImportedRows(rows, tally)


def import_judgements(
    path: str | PathLike[str],
    *,
    columns: Mapping[str, str] | None = None,
    grades: Mapping[str, float] | None = None,
    repeated: str = "mean",
) -> ImportedRows:
    """Rows from a table of judgements with a header: query, item and grade; comma, semicolon or tab.

    Columns are known by their names (query, qid, keyword; docid, doc_id, item; rating, grade, judgement, …)
    or named: `columns={"query": "Suchwort", "item": "Artikel", "grade": "Note"}`; also qid, position, score.
    `search_id` is the query's id, else its text. `grades` maps words to numbers ({"Exact": 3, …}); a negative
    grade counts as 0. A pair that is judged several times gets the `repeated="mean"`, "max" or "last" of its
    grades; "refuse" makes different ones an error. Other columns travel along, numbers as numbers.

    `position` and `score` are there only if the file has them: the order of a judgement file is no ranking.
    Lines that cannot be used are counted in `report`. Rows are sorted by search_id, then position, then line.
    """
    tally = Tally({"lines": 0})
    judged = read_judgements(Path(path), columns, grades, tally)
    return ImportedRows(_make_rows(judged, combine_grades(judged, repeated, tally), tally), tally)


def import_qrels(
    qrels: str | PathLike[str],
    *,
    run: str | PathLike[str] | None = None,
    queries: str | PathLike[str] | Mapping[str, str] | None = None,
) -> ImportedRows:
    """Rows from TREC qrels (`qid 0 docid rel`); with a `run` the rows are its lists, with position and score.

    `queries` gives the texts: a mapping, or a file of `qid<TAB>text` lines; queries without one have an empty
    text. Without a run the rows are the judged items and have neither position nor score. With one, items not
    judged have label 0 and judged items not listed are left out; `read_trec` warns of what differs. A broken
    line is an error with its number.
    """
    texts = (
        queries if isinstance(queries, Mapping) else {} if queries is None else _read_queries(Path(queries))
    )
    tally = Tally()
    judged = _read_listed(run, qrels, tally) if run is not None else _read_judged(Path(qrels), tally)
    if queries is not None:
        for query in judged.texts:
            judged.texts[query] = str(texts.get(query, ""))
        without = sum(not text for text in judged.texts.values())
        if without:
            tally.count("queries without a text", without)
    one = {pair: many[0] for pair, many in judged.grades.items()}
    return ImportedRows(_make_rows(judged, one, tally, texts=queries is not None), tally)


def _make_rows(
    judged: Judgements, grades: Mapping[tuple[str, str], float], tally: Tally, *, texts: bool = True
) -> pd.DataFrame:
    pandas = need_library("pandas", "an import of judgements")
    pairs = list(grades)
    others = {name: as_column([judged.others[pair][name] for pair in pairs]) for name in judged.extras}
    known: dict[str, Any] = {
        "search_id": [query for query, _ in pairs],
        "session_id": [query for query, _ in pairs],
        "query": [judged.texts[query] for query, _ in pairs],
        "item_id": [item for _, item in pairs],
        **{name: others.pop(name) for name in ("position", "score") if name in others},
        **others,
        "label": list(grades.values()),
    }
    if not texts or not any(judged.texts.values()):
        del known["query"]
    for name in ("position", "score"):
        if name in known and not all(isinstance(value, float) for value in known[name]):
            wrong = next(value for value in known[name] if value and not reads_as_number(value))
            raise BadInput(f"the column {name} must hold numbers. Got {wrong!r}.")
        if name in known and any(math.isinf(value) for value in known[name]):
            raise BadInput(f"the column {name} must hold finite numbers. Got an infinite one. Mend the line.")
    rows = pandas.DataFrame(known)
    place = known.get("position", [0.0] * len(pairs))
    order = sorted(range(len(pairs)), key=lambda row: (pairs[row][0], _last_if_missing(place[row])))
    tally.count("queries", len(judged.texts))
    tally.count("rows", len(rows))
    frame: pd.DataFrame = rows.iloc[order].reset_index(drop=True)
    return frame


def _last_if_missing(place: float) -> float:
    return math.inf if math.isnan(place) else place


def _read_judged(qrels: Path, tally: Tally) -> Judgements:
    from placings.data import read_qrels

    by_query, negative = read_qrels(qrels)
    if negative:
        tally.count("negative judgements, kept as 0", negative)
    grades = {(query, item): [grade] for query, items in by_query.items() for item, grade in items.items()}
    return Judgements(texts=dict.fromkeys(by_query, ""), grades=grades)


def _read_listed(run: str | PathLike[str], qrels: str | PathLike[str], tally: Tally) -> Judgements:
    from placings.data import read_trec

    data = read_trec(run, qrels)
    queries = [str(qid) for qid, size in zip(data.qids, data.sizes, strict=True) for _ in range(size)]
    items, places = data.items, data.position
    if items is None or places is None:
        raise AssertionError("read_trec names items and positions")
    pairs = list(zip(queries, map(str, items.tolist()), strict=True))
    scores = np.asarray(data.X)[:, 0].tolist()
    told = [
        {"position": str(place), "score": repr(score)}
        for place, score in zip(places.tolist(), scores, strict=True)
    ]
    return Judgements(
        texts=dict.fromkeys(queries, ""),
        grades={pair: [label] for pair, label in zip(pairs, data.y.tolist(), strict=True)},
        others=dict(zip(pairs, told, strict=True)),
        extras=("position", "score"),
    )


def _read_queries(path: Path) -> dict[str, str]:
    texts = {}
    for line, text in enumerate(_read_texts(path), 1):
        if text.strip():
            query, tab, words = text.partition("\t")
            if not tab:
                raise BadFile(
                    path, f"{text.rstrip()[:60]!r} has no tab; a line is 'qid<TAB>text'.", line=line
                )
            texts[query.strip()] = words.strip()
    return texts
