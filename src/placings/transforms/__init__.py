"""Transforms: what may be done to a feature before a ranker sees it; fitted in numpy, run in torch."""

from placings.transforms.basic import Gauss, Log1p, MinMax, QueryMinMax, Raw
from placings.transforms.curves import Curves, trace_curves
from placings.transforms.mixture import Mixture
from placings.transforms.names import TRANSFORMS, make_transform
from placings.transforms.per_feature import PerFeature
from placings.transforms.quantiles import Cdf, Clip, QuantileNormal
from placings.transforms.transformer import Transform

__all__ = [
    "Raw",
    "Gauss",
    "Cdf",
    "Log1p",
    "QuantileNormal",
    "MinMax",
    "QueryMinMax",
    "Clip",
    "Mixture",
    "PerFeature",
    "Transform",
    "TRANSFORMS",
    "make_transform",
    "Curves",
    "trace_curves",
]
