"""Arrays that come from a file, checked before they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from placings.core import AnyArray, BadInput


def need_array(
    arrays: Mapping[str, AnyArray],
    name: str,
    kind: Any,
    shape: tuple[int | None, ...],
    *,
    finite: bool = True,
) -> AnyArray:
    """One array of a state, of this kind and shape (None: any length), copied; anything else is refused."""
    given = arrays.get(name)
    wanted = f"{name!r}, {np.dtype(kind)} of shape {shape}"
    if given is None:
        raise BadInput(f"a transform's state lacks {wanted}.")
    fits = len(shape) == given.ndim and all(w in (None, g) for w, g in zip(shape, given.shape, strict=True))
    if given.dtype != np.dtype(kind) or not fits:
        raise BadInput(f"a transform's state needs {wanted}. Got {given.dtype} of shape {given.shape}.")
    if finite and given.dtype.kind == "f" and not np.isfinite(given).all():
        raise BadInput(f"{name!r} in a transform's state must be finite.")
    return given.copy()
