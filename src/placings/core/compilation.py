"""`compiled`: numba when it is there, plain Python when it is not (or `PLACINGS_NUMBA=0`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def _find_numba() -> Any:
    if os.environ.get("PLACINGS_NUMBA", "1") == "0":
        return None
    try:
        return import_module("numba")
    except ImportError:
        return None


NUMBA: Any = _find_numba()
HAVE_NUMBA: bool = NUMBA is not None


def compiled(function: Function) -> Function:
    """Compile a loop that takes arrays and numbers; it releases the GIL and is kept on disk.

    Import the module of a compiled loop only where it is used: numba takes half a second to load.
    Where no folder for the compiled code can be written, it is compiled anew in each process.
    """
    if NUMBA is None:
        return function
    try:
        result: Function = NUMBA.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba found no writable place for its cache
        result = NUMBA.njit(nogil=True)(function)
    return result
