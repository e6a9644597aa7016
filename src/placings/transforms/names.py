"""`"cdf"` → a transform: the registry, and how a name, a class or an object becomes a transform."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from placings.core import BadInput, UnknownName
from placings.transforms.basic import Gauss, Log1p, MinMax, QueryMinMax, Raw
from placings.transforms.mixture import Mixture
from placings.transforms.per_feature import PerFeature
from placings.transforms.quantiles import Cdf, Clip, QuantileNormal
from placings.transforms.transformer import Transform

TRANSFORMS: dict[str, type[Transform]] = {
    "raw": Raw,
    "gauss": Gauss,
    "cdf": Cdf,
    "log1p": Log1p,
    "quantile_normal": QuantileNormal,
    "minmax": MinMax,
    "query_minmax": QueryMinMax,
    "clip": Clip,
    "mixture": Mixture,
    "per_feature": PerFeature,
}


def make_transform(transform: str | Transform, **settings: Any) -> Transform:
    """An unfitted transform of its own: by name with settings, or as a fresh copy of the one given.

    >>> make_transform("cdf", max_knots=100)
    Cdf(max_knots=100)
    >>> make_transform("log1")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    placings.core.errors.UnknownName: no transform 'log1'; did you mean 'log1p'? Known: ...
    """
    if isinstance(transform, Transform):
        copy: Transform = clone(transform)
        return copy.set_params(**settings) if settings else copy
    if not isinstance(transform, str):
        raise BadInput(f"a transform must be a name such as 'cdf', or a Transform. Got {transform!r}.")
    if transform not in TRANSFORMS:
        raise UnknownName("transform", transform, TRANSFORMS)
    kind = TRANSFORMS[transform]
    unknown = sorted(set(settings) - set(kind._get_param_names()))
    if unknown:
        raise UnknownName(f"setting of {transform}", unknown[0], kind._get_param_names())
    return kind(**settings)
