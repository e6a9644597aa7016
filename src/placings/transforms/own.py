"""Transforms of the user's own by name: how one is made, and how what it learned becomes plain values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from placings.core import AnyArray, BadInput, check_own_name

State = dict[str, Any]  # plain values and arrays


@dataclass(frozen=True, eq=False)
class RegisteredTransform:
    """What is known of a registered transform: `make` gives an unfitted one, the others its state."""

    make: Callable[..., Any]
    get_state: Callable[[Any], State] | None = None
    set_state: Callable[[Any, State], Any] | None = None

    def give(self, fitted: Any, name: str) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """What a fitted transformer learned: plain values for JSON, and arrays."""
        if self.get_state is not None:
            state = self.get_state(fitted)
        elif hasattr(fitted, "get_state") and hasattr(fitted, "set_state"):
            state = fitted.get_state()
        elif not _needs_fit(fitted):
            state = {}
        else:
            raise BadInput(
                f"the transform {name!r} ({type(fitted).__name__}) does not say what it learned, so it can "
                "be used but not saved. Register it with get_state and set_state: "
                f"pg.register_transform({name!r}, …, get_state=…, set_state=…)."
            )
        if not isinstance(state, Mapping) or not all(isinstance(key, str) for key in state):
            raise BadInput(f"get_state of the transform {name!r} must give a dict by names. Got {state!r}.")
        arrays = {key: value for key, value in state.items() if isinstance(value, np.ndarray)}
        for key, array in arrays.items():
            if array.dtype.kind not in "biuf":
                raise BadInput(
                    f"{key!r} in the state of {name!r} must be an array of numbers. Got {array.dtype}."
                )
        plain = {key: value for key, value in state.items() if key not in arrays}
        try:
            told: dict[str, Any] = json.loads(json.dumps(plain, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise BadInput(
                f"get_state of the transform {name!r} must give plain values and arrays: {error}."
            ) from None
        return told, {key: np.ascontiguousarray(array) for key, array in arrays.items()}

    def take(self, made: Any, plain: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> None:
        """The reverse of `give`, into an unfitted transformer."""
        state = {**plain, **{key: array.copy() for key, array in arrays.items()}}
        if self.set_state is not None:
            self.set_state(made, state)
        elif hasattr(made, "set_state"):
            made.set_state(state)


OWN_TRANSFORMS: dict[str, RegisteredTransform] = {}


def register_transform(
    name: str,
    make: Callable[..., Any],
    *,
    get_state: Callable[[Any], State] | None = None,
    set_state: Callable[[Any, State], Any] | None = None,
) -> None:
    """Let `transform=name` stand for a transform of your own, so that a ranker with it can be saved.

    `make()` gives an unfitted one: a class, or a function. It is a scikit-learn transformer, or a subclass
    of `placings.transforms.Transform`, which has a state already. What a transformer learned is saved as the
    dict that `get_state(transformer)` gives, of arrays of numbers and plain values, and comes back by
    `set_state(transformer, state)`; without these it must have such methods, or nothing to learn. A bundle
    holds the name and that dict, never code. The same name may be registered again.

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> register_transform("root", lambda: FunctionTransformer(np.cbrt))
    >>> from placings.transforms import make_transform
    >>> make_transform("root").fit_transform([[8.0], [-1.0]]).tolist()
    [[2.0], [-1.0]]
    """
    from placings.transforms.names import TRANSFORMS

    check_own_name("transform", name, TRANSFORMS)
    if (get_state is None) != (set_state is None):
        raise BadInput("get_state and set_state belong together. Got one of them.")
    made = make() if callable(make) else make
    if not callable(make) or not is_transformer(made):
        raise BadInput(
            f"the transform {name!r} must be a class or a function that makes a transformer with fit and "
            f"transform. Got {made!r}."
        )
    OWN_TRANSFORMS[name] = RegisteredTransform(make, get_state, set_state)


def is_transformer(given: object) -> bool:
    """Whether something is a transformer as scikit-learn has them, and no class of one."""
    return not isinstance(given, type) and all(
        callable(getattr(given, each, None)) for each in ("fit", "transform")
    )


def find_registered(transformer: object, name: str | None = None) -> str | None:
    """The name of a registered transform: the one it was made by, or that of its class."""
    if name is not None:
        return name if name in OWN_TRANSFORMS else None
    return next((key for key, each in OWN_TRANSFORMS.items() if each.make is type(transformer)), None)


def _needs_fit(transformer: object) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(transformer).requires_fit)
