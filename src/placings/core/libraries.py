"""Libraries that not every installation has."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from placings.core.errors import MissingExtra


def need_library(module: str, what: str, extra: str = "frames", name: str | None = None) -> Any:
    """The module, or an error that says what needs it and which extra installs it.

    `name` is what people call the library, where that is not the module's name.

    >>> need_library("json", "reading a log").loads("[1]")
    [1]
    """
    loaded = sys.modules.get(module)
    if loaded is not None and sys.modules.get(module.partition(".")[0]) is not None:
        return loaded
    try:
        import_module(module.partition(".")[0])
        return import_module(module)
    except ImportError as error:
        raise MissingExtra(what, name or module, extra) from error
