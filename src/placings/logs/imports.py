"""Logs and judgements of other makers: OpenSearch UBI, a table of judgements, TREC qrels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadFile, BadInput, need_library, write_atomically
from placings.logs.click_log import ClickLog
from placings.logs.judgement_files import (
    Judgements,
    as_column,
    combine_grades,
    read_judgements,
    reads_as_number,
)
from placings.logs.log_files import Form, write_log_tables
from placings.logs.tally import Tally
from placings.logs.ubi import IMPRESSIONS, UbiReader

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class ImportedLog:
    """Searches and actions in our schema, ready for `join_logs`, and a report of what was not used."""

    searches: pa.Table
    actions: pa.Table
    report: Tally

    def write(self, folder: str | PathLike[str], form: Form = "parquet") -> list[Path]:
        """Write `searches` and `actions` into a folder, as parquet, jsonl or jsonl.gz; gives the paths."""
        return write_log_tables({"searches": self.searches, "actions": self.actions}, folder, form)


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
        import pyarrow.parquet as pq

        table = pa.Table.from_pandas(self.rows, preserve_index=False)
        with write_atomically(Path(path)) as temporary:
            pq.write_table(table, temporary)


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
    from placings.core import check_file

    check_file(path)
    texts = {}
    for line, text in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if text.strip():
            query, tab, words = text.partition("\t")
            if not tab:
                raise BadFile(path, f"{text[:60]!r} has no tab; a line is 'qid<TAB>text'.", line=line)
            texts[query.strip()] = words.strip()
    return texts
