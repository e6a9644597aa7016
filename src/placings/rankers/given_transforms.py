"""Transforms that a ranker was given as objects: whether they can be saved, and under which name."""

from __future__ import annotations

import warnings
from typing import Any

from placings.core import PlacingsWarning
from placings.transforms import SklearnTransform, Transform, is_foreign


def say_unsaved(transform: Transform, stacklevel: int) -> None:
    """Warn of a transform that is in no registry, so that a bundle could not bring it back."""
    if is_foreign(transform):
        kind = transform.transformer if isinstance(transform, SklearnTransform) else transform
        warnings.warn(
            f"{type(kind).__name__} is not one of placings' transforms, so this ranker can be used but "
            "not saved. To save one, register it with pg.register_transform, or transform the data first and "
            "train with transform='raw'.",
            PlacingsWarning,
            stacklevel=stacklevel + 1,
        )


def name_transform(ranker: Any) -> Any:
    """What a bundle calls a transform that was given as an object; one of scikit-learn must be fitted."""
    fitted = getattr(ranker, "transform_", None)
    if isinstance(fitted, SklearnTransform):
        return fitted.state()[0]["transform"]
    chosen = getattr(ranker, "transform", None) if fitted is None else fitted
    return type(chosen).__name__.lower() if isinstance(chosen, Transform) else chosen
