"""Names of higher rooms that a lower one knows as text alone, found when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from placings.core.errors import UnknownName


def find_late(what: str, name: str, homes: Mapping[str, str]) -> Any:
    """What a registry of strings has under a name: `{"places": "placings.places:place_features"}`.

    The registry is a table of ours; nothing that a user's file says is ever imported.

    >>> find_late("way to count", "threads", {"threads": "placings.core:count_threads"}).__name__
    'count_threads'
    """
    if name not in homes:
        raise UnknownName(what, name, homes)
    module, _, attribute = homes[name].partition(":")
    return getattr(import_module(module), attribute)
