"""Doors: a room's `__init__.pyi` names what it offers; each name is imported when it is asked for.

Type checkers and editors read the stub itself; this reads it at run time, so a name is written once. It takes
no library: the package must also be importable where nothing can be installed beside numpy and PyTorch.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def open_door(room: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a room, from the lines of the stub beside its `__init__.py`.

    A line `from .reading import read as read` offers `read`. Nothing is kept here after the first use: the
    file that a name lives in stays the one place where it is bound.
    """
    homes = _read_stub(Path(str(sys.modules[room].__file__)).with_suffix(".pyi"))

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        home, own = homes[name]
        return getattr(import_module(home, room), own)

    names = list(homes)
    return find, lambda: sorted(names), names


def _read_stub(path: Path) -> dict[str, tuple[str, str]]:
    """Each offered name, with its module (relative to the room) and what it is called there."""
    homes = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            home = "." * node.level + (node.module or "")
            for alias in node.names:
                homes[alias.asname or alias.name] = (home, alias.name)
    return homes
