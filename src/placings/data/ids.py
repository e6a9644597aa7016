"""Ids of queries and items: whole numbers or strings, numbered by first appearance.

Two ids that differ as written never become one: a column is int64 only if every id of it is exactly the
number that an int64 prints as; otherwise all of it is text, as written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import AnyArray, BadInput, Ints

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 2**63 - 1


def as_ids(values: Any, name: str) -> AnyArray:
    """`values` as int64, or as an object array of str; missing ids and fractions are refused.

    Whole numbers beyond int64 make the column text. Strings stay text: "007" is not "7". Floats must be
    whole and so small that each tells one number from the next (below 2^53 for float64).

    >>> as_ids([3, 1, 3], "qid")
    array([3, 1, 3])
    >>> as_ids(["a", "b"], "qid")
    array(['a', 'b'], dtype=object)
    >>> as_ids([2**64, 1], "qid")
    array(['18446744073709551616', '1'], dtype=object)
    """
    given = np.asarray(values)
    if given.dtype.kind in "fUS" and not isinstance(values, np.ndarray) and given.ndim == 1:
        given = _as_listed(values, given)
    if given.ndim != 1:
        raise BadInput(f"{name} must be one-dimensional, one id a row. Got shape {given.shape}.")
    kind = given.dtype.kind
    if kind in "iub":
        if kind == "u" and given.size and given.max() > LARGEST:
            return _as_objects(str(value) for value in given.tolist())
        return given.astype(np.int64)
    if kind == "f":
        return _from_floats(given, name)
    return _from_objects(given.astype(object), name)


def settle_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of ids as text, as int64 if all are written as whole numbers are, else as it is.

    "7" is such a number; "007", "+7", "0x10", "1e3" and what is beyond int64 are not. If every id ends in
    ".0", as pandas writes whole numbers beside missing ones, the numbers before it count.
    """
    import pyarrow.compute as pc

    whole = as_whole(column)
    if whole is None and column.null_count < len(column) and pc.all(pc.ends_with(column, ".0")).as_py():
        whole = as_whole(pc.utf8_slice_codeunits(column, 0, -2))
    return column if whole is None else whole


def as_whole(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Text as int64 if every one is what an int64 prints as, spaces around it aside; else None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count == len(column):
        return None
    written = pc.ascii_trim_whitespace(column)
    try:
        numbers = written.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    same = pc.all(pc.equal(numbers.cast(written.type), written)).as_py()
    return numbers if same else None


def number_ids(ids: AnyArray) -> tuple[Ints, AnyArray]:
    """Number ids by first appearance: codes `[rows]` and the distinct ids `[codes]`.

    >>> number_ids(np.array([7, 3, 7]))
    (array([0, 1, 0]), array([7, 3]))
    """
    if ids.dtype == object:
        return _number_strings(ids)
    changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1  # a difference could overflow
    starts = np.concatenate([np.zeros(min(1, len(ids)), dtype=np.int64), changes])
    runs = ids[starts]  # logs and LETOR files come in runs: sort these, not the rows
    distinct, first, codes = np.unique(runs, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    lengths = np.diff(np.append(starts, len(ids)))
    return np.repeat(place[codes], lengths).astype(np.int64), distinct[order]


def _number_strings(ids: AnyArray) -> tuple[Ints, AnyArray]:
    import pyarrow as pa

    encoded = pa.array(ids, type=pa.large_string()).dictionary_encode()
    distinct = np.empty(len(encoded.dictionary), dtype=object)
    distinct[:] = encoded.dictionary.to_pylist()
    return encoded.indices.to_numpy().astype(np.int64), distinct


def _as_listed(values: Any, given: AnyArray) -> AnyArray:
    """What numpy rounded or cut short, as it was listed: [2**64, -1] as floats, "a\\0" as "a"."""
    listed = np.asarray(values, dtype=object)
    whole = all(isinstance(value, int | np.integer) for value in listed.tolist())
    return listed if whole or given.dtype.kind in "US" else given


def _from_floats(given: AnyArray, name: str) -> AnyArray:
    whole = np.isfinite(given) & (given == np.floor(given))
    if not whole.all():
        row = int(np.flatnonzero(~whole)[0])
        raise BadInput(f"{name} must be whole numbers or strings. Got {given[row]} at row {row}.")
    digits = np.finfo(given.dtype).nmant + 1
    vague = np.abs(given) >= 2.0 ** min(digits, 62)
    if vague.any():
        row = int(np.flatnonzero(vague)[0])
        raise BadInput(
            f"{name} must be whole numbers or strings. Got the float {given[row]} at row {row}: from "
            f"2^{digits} on {given.dtype} rounds, so that different ids become one. Read it as int64 or text."
        )
    return given.astype(np.int64)


def _from_objects(given: AnyArray, name: str) -> AnyArray:
    listed = given.tolist()
    kinds = set(map(type, listed))
    if kinds == {str}:
        _refuse_surrogates(listed, name)
        return given.copy()
    if kinds and all(issubclass(kind, int | np.integer | np.bool_) for kind in kinds):
        return _whole(listed)
    for row, value in enumerate(listed):
        if value is None or value != value:
            raise BadInput(f"{name} must not be missing. Got {value!r} at row {row}.")
    odd = sorted(kind.__name__ for kind in kinds if not issubclass(kind, str | int | bytes | np.integer))
    if odd:
        raise BadInput(f"{name} must be whole numbers or strings. Got {', '.join(odd)}.")
    texts = [_decode(value, row, name) for row, value in enumerate(listed)]
    _refuse_surrogates(texts, name)
    return _as_objects(texts)


def _decode(value: Any, row: int, name: str) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise BadInput(f"{name} must be text in UTF-8. Got {value[:40]!r} at row {row}.") from None


def _refuse_surrogates(texts: list[str], name: str) -> None:
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        row = next(row for row, text in enumerate(texts) if not _is_unicode(text))
        raise BadInput(f"{name} must be Unicode text. Got {texts[row][:40]!r} at row {row}.") from None


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _whole(listed: list[Any]) -> AnyArray:
    try:
        return np.array(listed, dtype=np.int64)
    except OverflowError:
        return _as_objects(str(int(value)) for value in listed)


def _as_objects(texts: Any) -> AnyArray:
    listed = list(texts)
    objects = np.empty(len(listed), dtype=object)
    objects[:] = listed
    return objects
