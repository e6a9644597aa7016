"""Scores that another program wrote, brought into the row order of the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import AnyArray, BadFile, Floats, Ints, check_file, iterate_blocks, plain_name
from placings.data import (
    GUESSES,
    CsvTable,
    RankingData,
    as_id_array,
    as_ids,
    check_parquet,
    find_delimiter,
    find_format,
    find_roles,
    number_ids,
    read_csv_table,
)

SCORE_NAMES = ("score", "scores", "prediction", "predictions", "predicted", "y_pred")


@dataclass(frozen=True)
class ScoreFile:
    """What a file of scores holds, in its own order; ids where it has them, as text."""

    path: Path
    scores: Floats
    qid: AnyArray | None = None
    item: AnyArray | None = None

    def match(self, data: RankingData, *, together: bool = True) -> Floats:
        """The scores in the order of the data's rows.

        With a qid and an item column (and items in the data) rows are matched by both; with qid alone by
        query, in the order within it; without ids by place, which is refused when the rows of a query did
        not stand together in the data's file (`together=False`), since they were moved when it was read.
        """
        if len(self.scores) != data.n_rows:
            raise BadFile(
                self.path, f"has {len(self.scores):,} scores, but the data have {data.n_rows:,} rows."
            )
        if self.qid is None:
            if not together:
                raise BadFile(
                    self.path,
                    "has scores without ids, but the rows of a query do not stand together in the data, so "
                    "they were moved. Write a table with columns qid, item and score.",
                )
            return self.scores
        if self.item is not None and data.items is None:
            raise BadFile(
                self.path,
                "names items, but the data have no item ids to find them by. If its rows stand in the order "
                "of the data within each query, leave that column out.",
            )
        queries = _number_together(as_text(data.qid), self.qid)
        keys = queries
        if self.item is not None and data.items is not None:
            items = _number_together(as_text(data.items), self.item)
            width = int(max(part.max(initial=0) for part in items)) + 1
            keys = (queries[0] * width + items[0], queries[1] * width + items[1])
        theirs = np.argsort(keys[1], kind="stable")
        ours = np.argsort(keys[0], kind="stable")
        if (keys[0][ours] != keys[1][theirs]).any():
            place = int(np.flatnonzero(keys[0][ours] != keys[1][theirs])[0])
            row = int(ours[place])
            item = "" if data.items is None else f", item {data.items.tolist()[row]!r}"
            raise BadFile(
                self.path, f"its ids are not those of the data, at query {data.qid.tolist()[row]!r}{item}."
            )
        scores = np.empty(data.n_rows)
        scores[ours] = self.scores[theirs]
        return scores


def read_scores(path: str | Path) -> ScoreFile:
    """Read one number a line, or a CSV, TSV or parquet table with a score column and perhaps qid and item.

    The score column is called `score` (or `prediction`, …), or is the only one with numbers.
    """
    path = Path(path)
    check_file(path)
    name = plain_name(path).lower()
    table = name.endswith((".csv", ".tsv", ".parquet", ".pq"))
    if not table:
        return ScoreFile(path, _read_lines(path))
    read = _read_table(path)
    names = list(read.table.column_names)
    if len(set(names)) < len(names):
        raise BadFile(path, f"has two columns of one name. It has {', '.join(map(repr, names))}.")
    lowered = {column.lower(): column for column in reversed(names)}
    chosen = next((lowered[word] for word in SCORE_NAMES if word in lowered), None)
    qid = next((lowered[word] for word in GUESSES["qid"] if word in lowered), None)
    item = next((lowered[word] for word in GUESSES["item"] if word in lowered), None)
    if chosen is None:
        numeric = [each for each in names if each not in (qid, item) and _is_number(read.table, each)]
        if len(numeric) != 1:
            raise BadFile(path, f"must have a column called score. It has {', '.join(map(repr, names))}.")
        chosen = numeric[0]
    try:
        scores = np.asarray(read.table.column(chosen).to_numpy(), dtype=np.float64)
    except (TypeError, ValueError, NotImplementedError):
        raise BadFile(path, f"its column {chosen!r} must hold numbers only.") from None
    named = {"qid": qid, "item": item}
    ids = {p: None if name is None else _read_ids(read, p, name, path) for p, name in named.items()}
    return ScoreFile(path, scores, **ids)


def _is_number(table: Any, name: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def stands_together(path: str | Path, options: Mapping[str, Any]) -> bool:
    """Whether the rows of each query stand together in a table; text files say it themselves when read."""
    path = Path(path)
    if path.is_dir() or find_format(path) not in ("csv", "parquet"):
        return True
    read = _read_table(path, [str(options[part]) for part in ("qid", "item") if options.get(part)])
    named = {part: options.get(part) for part in ("qid", "label")}
    roles, _ = find_roles(read.table.schema, named, None, None, str(path))
    codes, _ = number_ids(_read_ids(read, "qid", roles.qid, path))
    return bool((np.diff(codes) >= 0).all())


def as_text(ids: AnyArray) -> AnyArray:
    """Ids as text, so that 7 in one file is "7" in another."""
    texts = np.empty(len(ids), dtype=object)
    texts[:] = [str(each) for each in ids.tolist()]
    return texts


def _read_ids(read: CsvTable, part: str, name: str, path: Path) -> AnyArray:
    """A table's column of ids as text; missing ones, fractions and rounded ones are refused."""
    column = read.with_ids([name]).column(name)
    return as_text(as_ids(as_id_array(column, part, name, str(path)), f"{path}: {part}"))


def _number_together(ours: AnyArray, theirs: AnyArray) -> tuple[Ints, Ints]:
    codes, _ = number_ids(np.concatenate([ours, theirs]))
    return codes[: len(ours)], codes[len(ours) :]


def _read_lines(path: Path) -> Floats:
    scores: list[float] = []
    blank = 0  # lines since the last score: only the file's end may be blank
    for place, block in enumerate(iterate_blocks(path, 1 << 20)):
        lines = (block.removeprefix(b"\xef\xbb\xbf") if place == 0 else block).split(b"\n")[:-1]
        for line in lines:
            score = _as_score(line)
            if score is None and not line.strip():
                blank += 1
                continue
            if score is None or blank:
                number = len(scores) + 1
                shown = (b"" if blank else line)[:40].decode("utf-8", "replace")
                raise BadFile(path, f"{shown!r} is not a number.", line=number)
            scores.append(score)
    return np.array(scores, dtype=np.float64)


def _as_score(line: bytes) -> float | None:
    if b"_" in line or not line.isascii():  # digits that only Python takes
        return None
    try:
        return float(line)
    except ValueError:
        return None


def _read_table(path: Path, ids: Sequence[str] = ()) -> CsvTable:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if find_format(path) == "parquet":
            check_parquet(path)
            return CsvTable(parquet.read_table(path, page_checksum_verification=True), {})
        return read_csv_table(path, find_delimiter(path), ids=ids)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise BadFile(path, f"cannot be read: {' '.join(str(error).split())}.") from error
