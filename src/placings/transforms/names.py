"""`"cdf"` → a transform: the registry, and how a name, a class or an object becomes a transform."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from placings.core import BadInput, UnknownName, say_unregistered
from placings.transforms.basic import Gauss, Log1p, MinMax, QueryMinMax, Raw
from placings.transforms.mixture import Mixture
from placings.transforms.own import OWN_TRANSFORMS, is_transformer
from placings.transforms.per_feature import PerFeature
from placings.transforms.pieces import Piecewise
from placings.transforms.quantiles import Cdf, Clip, QuantileNormal
from placings.transforms.sklearn_form import SklearnTransform
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
    "piecewise": Piecewise,
}


def make_transform(transform: Any, **settings: Any) -> Transform:
    """An unfitted transform of its own: by name with settings, or as a fresh copy of the one given.

    A scikit-learn transformer becomes a `SklearnTransform` around a copy of it.

    >>> make_transform("cdf", max_knots=100)
    Cdf(max_knots=100)
    >>> make_transform("log1")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    placings.core.errors.UnknownName: no transform 'log1'; did you mean 'log1p'? Known: ...
    """
    if isinstance(transform, Transform):
        copy: Transform = clone(transform)
        return copy.set_params(**settings) if settings else copy
    if not isinstance(transform, str) and is_transformer(transform):
        return SklearnTransform(clone(transform, safe=False), **settings)
    if not isinstance(transform, str):
        raise BadInput(
            "a transform must be a name such as 'cdf', a Transform, or a scikit-learn transformer. Got "
            f"{transform!r}."
        )
    if transform in OWN_TRANSFORMS:
        return build_own(transform, settings)
    if transform not in TRANSFORMS:
        known = [*TRANSFORMS, *OWN_TRANSFORMS]
        raise UnknownName(
            "transform", transform, known, meaning=say_unregistered("transform", transform, known)
        )
    kind = TRANSFORMS[transform]
    unknown = sorted(set(settings) - set(kind._get_param_names()))
    if unknown:
        raise UnknownName(f"setting of {transform}", unknown[0], kind._get_param_names())
    return kind(**settings)


def build_own(name: str, settings: dict[str, Any]) -> Transform:
    """An unfitted transform that the user registered."""
    given = dict(settings)
    params = given.pop("params", None)
    registered = OWN_TRANSFORMS[name]
    made = registered.make(**params) if isinstance(params, dict) else registered.make()
    if isinstance(made, Transform):
        return made.set_params(**given) if given else made
    known = ("missing", "indicator")
    for key in given:
        if key not in known:
            raise UnknownName(f"setting of {name}", key, known)
    return SklearnTransform(made, name=None if isinstance(params, dict) else name, **given)
