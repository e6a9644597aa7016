"""Ids of queries and items: whole numbers or strings, numbered by first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np

from placings.core import AnyArray, BadInput, Ints


def as_ids(values: Any, name: str) -> AnyArray:
    """`values` as int64, or as an object array of str; missing ids and fractions are refused.

    >>> as_ids([3, 1, 3], "qid")
    array([3, 1, 3])
    >>> as_ids(["a", "b"], "qid")
    array(['a', 'b'], dtype=object)
    """
    given = np.asarray(values)
    if given.ndim != 1:
        raise BadInput(f"{name} must be one-dimensional, one id a row. Got shape {given.shape}.")
    kind = given.dtype.kind
    if kind in "iub":
        if kind == "u" and given.size and given.max() > np.iinfo(np.int64).max:
            return given.astype(str).astype(object)
        return given.astype(np.int64)
    if kind == "f":
        whole = np.isfinite(given) & (given == np.floor(given))
        if not whole.all():
            row = int(np.flatnonzero(~whole)[0])
            raise BadInput(f"{name} must be whole numbers or strings. Got {given[row]} at row {row}.")
        return given.astype(np.int64)
    if kind in "US":
        return given.astype(str).astype(object)
    return _from_objects(given, name)


def number_ids(ids: AnyArray) -> tuple[Ints, AnyArray]:
    """Number ids by first appearance: codes `[rows]` and the distinct ids `[codes]`.

    >>> number_ids(np.array([7, 3, 7]))
    (array([0, 1, 0]), array([7, 3]))
    """
    if ids.dtype == object:
        return _number_strings(ids)
    changes = np.flatnonzero(np.diff(ids)) + 1
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


def _from_objects(given: AnyArray, name: str) -> AnyArray:
    kinds = set(map(type, given.tolist()))
    if kinds == {str}:
        return given.copy()
    if kinds <= {int, bool}:
        return _whole(given)
    for row, value in enumerate(given):
        if value is None or value != value:
            raise BadInput(f"{name} must not be missing. Got {value!r} at row {row}.")
    if not kinds <= {str, int, bytes}:
        odd = sorted(kind.__name__ for kind in kinds - {str, int, bytes})
        raise BadInput(f"{name} must be whole numbers or strings. Got {', '.join(odd)}.")
    texts = np.empty(len(given), dtype=object)
    texts[:] = [value.decode() if isinstance(value, bytes) else str(value) for value in given.tolist()]
    return texts


def _whole(given: AnyArray) -> AnyArray:
    try:
        return given.astype(np.int64)
    except OverflowError:
        texts = np.empty(len(given), dtype=object)
        texts[:] = [str(value) for value in given.tolist()]
        return texts
