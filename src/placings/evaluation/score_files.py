"""Scores that another program wrote, brought into the row order of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from placings.core import AnyArray, BadFile, Floats, Ints, check_file, iterate_blocks, plain_name
from placings.data import GUESSES, RankingData, find_format, find_roles, number_ids

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
    names = list(read.column_names)
    columns = {column: read.column(column).to_numpy() for column in names}
    lowered = {column.lower(): column for column in reversed(names)}
    chosen = next((lowered[word] for word in SCORE_NAMES if word in lowered), None)
    qid = next((lowered[word] for word in GUESSES["qid"] if word in lowered), None)
    item = next((lowered[word] for word in GUESSES["item"] if word in lowered), None)
    if chosen is None:
        numeric = [each for each in names if each not in (qid, item) and columns[each].dtype.kind in "fiu"]
        if len(numeric) != 1:
            raise BadFile(path, f"must have a column called score. It has {', '.join(map(repr, names))}.")
        chosen = numeric[0]
    try:
        scores = np.asarray(columns[chosen], dtype=np.float64)
    except (TypeError, ValueError):
        raise BadFile(path, f"its column {chosen!r} must hold numbers only.") from None
    ids = [None if column is None else as_text(columns[column]) for column in (qid, item)]
    return ScoreFile(path, scores, *ids)


def stands_together(path: str | Path, options: Mapping[str, Any]) -> bool:
    """Whether the rows of each query stand together in a table; text files say it themselves when read."""
    path = Path(path)
    if path.is_dir() or find_format(path) not in ("csv", "parquet"):
        return True
    table = _read_table(path)
    named = {part: options.get(part) for part in ("qid", "label")}
    roles, _ = find_roles(table.schema, named, None, None, str(path))
    codes, _ = number_ids(as_text(table.column(roles.qid).to_numpy()))
    return bool((np.diff(codes) >= 0).all())


def as_text(ids: AnyArray) -> AnyArray:
    """Ids as text, so that 7 in one file is "7" in another."""
    texts = np.empty(len(ids), dtype=object)
    texts[:] = [str(int(each)) if isinstance(each, float) else str(each) for each in ids.tolist()]
    return texts


def _number_together(ours: AnyArray, theirs: AnyArray) -> tuple[Ints, Ints]:
    codes, _ = number_ids(np.concatenate([ours, theirs]))
    return codes[: len(ours)], codes[len(ours) :]


def _read_lines(path: Path) -> Floats:
    text = b"".join(iterate_blocks(path, 1 << 20)).decode("utf-8", "replace").lstrip("\ufeff")
    lines = text.splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    try:
        return np.array(lines, dtype=np.float64) if lines else np.empty(0)
    except ValueError:
        for number, line in enumerate(lines, 1):
            try:
                float(line)
            except ValueError:
                raise BadFile(path, f"{line[:40]!r} is not a number.", line=number) from None
        raise


def _read_table(path: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    from placings.data import check_seal, find_delimiter, read_csv_table

    try:
        if find_format(path) == "parquet":
            check_seal(path)
            return parquet.read_table(path, page_checksum_verification=True)
        return read_csv_table(path, find_delimiter(path))
    except pa.ArrowException as error:
        raise BadFile(path, f"cannot be read: {' '.join(str(error).split())}.") from error
