"""The array types that signatures name, and the checks that scores, labels and offsets pass."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from placings.core.errors import BadInput

Floats: TypeAlias = NDArray[np.float64]
Floats32: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
AnyArray: TypeAlias = NDArray[Any]


def as_vector(values: ArrayLike, name: str) -> Floats:
    """`values` as a one-dimensional float64 array, or an error that names the argument."""
    try:
        vector = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name} must be numbers. Got {_sketch(values)}.") from error
    if vector.ndim != 1:
        raise BadInput(f"{name} must be one-dimensional, one value a row. Got shape {vector.shape}.")
    return vector


def as_scores(values: ArrayLike) -> Floats:
    """Scores: any order is defined but NaN's, so NaN is refused and ±inf is not."""
    scores = as_vector(values, "scores")
    if np.isnan(scores).any():
        row = int(np.flatnonzero(np.isnan(scores))[0])
        raise BadInput(
            f"scores must not be NaN. Got {int(np.isnan(scores).sum())} NaN, the first at row {row}. "
            "Find out why the ranker gave no score there before judging it."
        )
    return scores


def as_labels(values: ArrayLike) -> Floats:
    """Labels: finite grades of 0 or more; fractions are grades too."""
    labels = as_vector(values, "labels")
    wrong = ~(np.isfinite(labels) & (labels >= 0.0))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise BadInput(f"labels must be finite and 0 or more. Got {labels[row]} at row {row}.")
    return labels


def as_offsets(values: ArrayLike | None, rows: int) -> Ints:
    """Query borders `[0, …, rows]`; None makes all rows one query."""
    if values is None:
        return np.array([0, rows], dtype=np.int64)
    given = np.asarray(values)
    if given.ndim != 1 or given.size == 0 or (given.size and given.dtype.kind not in "iu"):
        raise BadInput(
            "offsets must be a one-dimensional array of whole numbers from 0 to the number of rows. "
            f"Got {_sketch(values)}."
        )
    offsets = given.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any():
        raise BadInput(
            f"offsets must start at 0, never fall, and end at the number of rows, {rows}. "
            f"Got {_sketch(values)}. "
            "Group sizes become offsets with np.concatenate([[0], np.cumsum(sizes)])."
        )
    return offsets


def as_same_length(first: AnyArray, second: AnyArray, names: str) -> None:
    """Refuse two per-row arrays of different lengths."""
    if len(first) != len(second):
        raise BadInput(f"{names} must have one value for each row. Got {len(first)} and {len(second)}.")


def _sketch(values: object) -> str:
    text = repr(values)
    return text if len(text) <= 80 else text[:77] + "..."
