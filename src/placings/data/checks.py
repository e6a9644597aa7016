"""What a column must be before it becomes part of RankingData."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from placings.core import AnyArray, BadInput, Floats, Floats32, Ints, OneQuery, as_labels, as_vector

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Matrix: TypeAlias = "Floats32 | csr_array[np.float32, tuple[int, int]]"
MOST_WITHOUT_QID = 10_000  # rows; a list that long is rather qid forgotten


def as_matrix(X: Any) -> Matrix:
    """`X` as float32 `[rows, features]`: dense, or CSR if it came sparse; shares memory where it can.

    NaN is missing. ±inf is refused: no ranker and no transform has an answer for it.
    """
    if hasattr(X, "tocsr"):
        from scipy.sparse import csr_array

        sparse = csr_array(X, dtype=np.float32)
        if not sparse.has_sorted_indices:
            sparse = sparse.sorted_indices()
        _refuse_infinite(sparse.data)
        return sparse
    try:
        with np.errstate(over="ignore"):
            dense = np.asarray(X, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise BadInput(f"X must be numbers, [rows, features]. Got {type(X).__name__}: {error}.") from error
    if dense.ndim != 2:
        raise BadInput(f"X must be two-dimensional, [rows, features]. Got shape {dense.shape}.")
    for start in range(0, len(dense), 65_536):  # in pieces: a mask of a large array is a large array
        _refuse_infinite(dense[start : start + 65_536], start)
    return dense


def check_labels(labels: ArrayLike) -> Floats:
    """Labels as float64, finite and 0 or more."""
    return as_labels(labels)


def check_position(position: ArrayLike | None) -> AnyArray | None:
    """Positions as shown, whole numbers from 1."""
    if position is None:
        return None
    places = np.array(position)
    if places.dtype.kind not in "iu":
        whole = places.dtype.kind == "f" and bool(np.isfinite(places).all() and (places % 1 == 0).all())
        if not whole:
            raise BadInput(f"position must be whole numbers from 1. Got {places.dtype} values.")
    if places.size and places.max() >= 2**53:  # a float rounds there, an unsigned number may not fit
        row = int(np.argmax(places))
        raise BadInput(f"position must be below 2^53. Got {places[row]} at row {row}.")
    places = places.astype(np.int64)
    if places.size and places.min() < 1:
        row = int(np.argmin(places))
        raise BadInput(f"position must count from 1. Got {int(places[row])} at row {row}.")
    return places


def check_weight(weight: ArrayLike | None, name: str) -> AnyArray | None:
    """Weights or propensities: finite, 0 or more; a propensity is a probability above 0."""
    if weight is None:
        return None
    values = np.array(as_vector(weight, name))
    if name == "propensity":
        wrong, rule = ~((values > 0) & (values <= 1)), "above 0 and at most 1"
    else:
        wrong, rule = ~((values >= 0) & np.isfinite(values)), "finite and 0 or more"
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadInput(f"{name} must be {rule}. Got {values[row]} at row {row}.")
    return values


def check_length(values: AnyArray, rows: int, name: str) -> None:
    """Refuse a per-row column that is not one value a row."""
    if len(values) != rows:
        raise BadInput(f"{name} must have one value for each of the {rows} rows. Got {len(values)}.")


def say_one_query(
    rows: int,
    what: str,
    *,
    name: str = "qid",
    how: str = "Pass qid= with the query id of each row",
    stacklevel: int = 3,
) -> None:
    """Say that rows without `qid` count as one query; refuse them above 10,000. One row is one query anyway.

    `what` names the call, `name` what is lacking, `how` how to give it; `stacklevel` leads to the caller.
    """
    if rows > MOST_WITHOUT_QID:
        raise BadInput(
            f"{what} needs {name} above {MOST_WITHOUT_QID:,} rows: without it all rows are one query. Got "
            f"{rows:,} rows. {how}, or the same id for all if they are one query."
        )
    if rows > 1:
        text = f"{what} got no {name}, so all {rows:,} rows count as one query. {how}."
        warnings.warn(text, OneQuery, stacklevel=stacklevel)


def name_features(count: int) -> tuple[str, ...]:
    """f1, f2, …: as LETOR and svmlight count them."""
    return tuple(f"f{number}" for number in range(1, count + 1))


def order_by_query(codes: Ints, queries: int) -> tuple[Ints | None, Ints]:
    """The stable order that brings rows of one query together (None: they are), and the offsets."""
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=queries))]).astype(np.int64)
    if len(codes) == 0 or bool((np.diff(codes) >= 0).all()):
        return None, offsets
    return np.argsort(codes, kind="stable"), offsets


def read_only(values: AnyArray) -> AnyArray:
    """A view that cannot be written through."""
    view = values.view()
    view.flags.writeable = False
    return view


def read_only_rows(rows: csr_array[np.float32, tuple[int, int]]) -> Matrix:
    """The same CSR rows, shared, over arrays that cannot be written through."""
    from scipy.sparse import csr_array

    parts = tuple(read_only(part) for part in (rows.data, rows.indices, rows.indptr))
    frozen: Matrix = csr_array(parts, shape=rows.shape, copy=False)
    return frozen


def stack_rows(parts: Sequence[Matrix]) -> Matrix:
    """Feature matrices one below the other; sparse if any is."""
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([np.asarray(part) for part in parts])
    from scipy.sparse import csr_array, vstack

    stacked: Matrix = vstack([csr_array(part) for part in parts], format="csr", dtype=np.float32)
    return stacked


def _refuse_infinite(values: Floats32, first_row: int = 0) -> None:
    if not np.isinf(values).any():
        return
    where = np.argwhere(np.isinf(values))[0]
    place = f" at row {first_row + where[0]}, column {where[1]}" if values.ndim == 2 else ""
    raise BadInput(
        f"X must be finite as float32, or NaN for missing. Got {values[tuple(where)]}{place}. "
        "Clip the column, or set such values to NaN."
    )


def check_seed(random_state: Any, *, drawn: bool = True) -> int:
    """The seed, a whole number of 0 or more; with `drawn` one is drawn now where there is none (None)."""
    if random_state is None and drawn:
        return int(np.random.default_rng().integers(2**63))
    if isinstance(random_state, bool) or not isinstance(random_state, int | np.integer) or random_state < 0:
        allowed = "None or a whole number" if drawn else "a whole number"
        raise BadInput(f"random_state must be {allowed} of 0 or more. Got {random_state!r}.")
    return int(random_state)
