"""Transforms inside a transform: what a mixture or a choice by feature may be made of, and its arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from placings.core import AnyArray, BadInput
from placings.transforms.transformer import Transform

COMPOSED = ("Mixture", "PerFeature", "Piecewise")  # the last gives several columns a feature


def make_part(part: str | Transform, whole: str) -> Transform:
    """A fresh single transform to be used inside another one, which fills missing values for all."""
    from placings.transforms.names import TRANSFORMS, make_transform

    made = make_transform(part)
    if type(made) not in TRANSFORMS.values():
        raise BadInput(
            f"{whole} is made of the transforms of placings: it computes them by itself, so what "
            f"{type(made).__name__} overrides would be passed over. Use it alone, or transform the data "
            "first."
        )
    if type(made).__name__ in COMPOSED:
        raise BadInput(f"{whole} is made of single transforms, such as 'cdf'. Got {part!r}.")
    if made.indicator is not False or not isinstance(made.missing, str) or made.missing != "median":
        raise BadInput(
            f"missing and indicator are settings of {whole} itself, not of its parts. Got {part!r}."
        )
    return made


def name_part(part: Transform) -> str:
    """What the registry calls it."""
    from placings.transforms.names import TRANSFORMS

    return next(name for name, kind in TRANSFORMS.items() if type(part) is kind)


def give_parts(parts: Sequence[Transform]) -> dict[str, AnyArray]:
    """The arrays of all parts, each name behind the part's number."""
    return {
        f"{n}.{name}": values for n, part in enumerate(parts) for name, values in part._give_arrays().items()
    }


def take_parts(parts: Sequence[Transform], names: Sequence[Sequence[str]], arrays: Mapping[str, Any]) -> None:
    """The reverse of `give_parts`, into parts that were just made for these features."""
    for number, (part, features) in enumerate(zip(parts, names, strict=True)):
        own = {key.removeprefix(f"{number}."): v for key, v in arrays.items() if key.startswith(f"{number}.")}
        part.n_features_in_, part.feature_names_ = len(features), tuple(features)
        part._check_settings()
        part._take_arrays(own)
