"""Names of what users bring along: losses, metrics and transforms of their own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from placings.core.errors import NEAR, BadInput

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")


def name_function(function: object) -> str:
    """What a function is called; a lambda is `own`, an object goes by its class.

    >>> name_function(len), name_function(lambda x: x)
    ('len', 'own')
    """
    name = getattr(function, "__name__", None) or type(getattr(function, "func", function)).__name__
    return str(name).lower() if PLAIN.fullmatch(str(name)) else "own"


def check_own_name(kind: str, name: object, taken: Iterable[str]) -> None:
    """Refuse a name that a file or a message could not hold, or that means something else already."""
    if not isinstance(name, str) or not PLAIN.fullmatch(name) or name != name.lower():
        raise BadInput(
            f"the name of a {kind} must be small letters, digits, '_', '-' and '.', as in 'my_{kind}'. "
            f"Got {name!r}. Name it with pg.register_{kind}('my_{kind}', …)."
        )
    if name in set(taken):
        raise BadInput(
            f"{name!r} is a {kind} that placings has, or that was registered before. Give yours another "
            f"name: pg.register_{kind}('my_{name}', …)."
        )


def find_own_name(function: object, known: Mapping[str, Callable[..., Any]]) -> str | None:
    """The name under which a function is known."""
    return next((name for name, each in known.items() if each is function or each == function), None)


def say_unregistered(kind: str, name: str, known: Iterable[str]) -> str | None:
    """What to do about a name that nobody registered; None where it looks like a slip in a known one.

    >>> say_unregistered("loss", "sofmax", ["softmax"])
    >>> say_unregistered("loss", "own_softmax", ["softmax"])
    "did you mean 'softmax'? If it is one of your own, call pg.register_loss('own_softmax', …) first."
    """
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in known], n=1, cutoff=NEAR)
    if near and near[0] not in name.lower():
        return None
    guess = f"did you mean {near[0]!r}? If" if near else "if"
    return f"{guess} it is one of your own, call pg.register_{kind}({name!r}, …) first."
