"""RankingData written as svmlight/LETOR text; Arrow turns the numbers into text at C++ speed."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import numpy as np

from placings.arrays import AnyArray
from placings.data.ranking import PER_ROW, RankingData
from placings.data.streams import write_atomically
from placings.errors import BadInput, PlacingsWarning

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
