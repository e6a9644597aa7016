"""How far two points of the Earth are apart along the great circle, on one globe for all of the package."""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt

import numpy as np
from numpy.typing import ArrayLike

from placings.core.arrays import Floats

EARTH_KM = 6371.0088  # the mean radius of the IUGG


def great_circle_km(lat: ArrayLike, lon: ArrayLike, other_lat: ArrayLike, other_lon: ArrayLike) -> Floats:
    """Kilometres along the great circle between points in degrees; NaN where a coordinate is.

    Haversine: `2 R asin √(sin²(Δlat/2) + cos lat₁ · cos lat₂ · sin²(Δlon/2))`, in float64.

    >>> round(float(great_circle_km(49.0, 8.4, 48.78, 9.18)), 1)  # Karlsruhe to Stuttgart
    62.1
    """
    lats = np.asarray(lat, dtype=np.float64), np.asarray(other_lat, dtype=np.float64)
    lons = np.asarray(lon, dtype=np.float64), np.asarray(other_lon, dtype=np.float64)
    first, second = np.radians(lats[0]), np.radians(lats[1])
    across = np.sin((second - first) / 2.0) ** 2
    along = np.sin(np.radians(lons[1] - lons[0]) / 2.0) ** 2
    half_chord = np.sqrt(np.clip(across + np.cos(first) * np.cos(second) * along, 0.0, 1.0))
    return arc_km(half_chord)


def arc_km(half_chord: ArrayLike) -> Floats:
    """Kilometres along the surface between points that are `2 · half_chord` apart on a globe of radius 1.

    >>> round(float(arc_km(1.0)))  # to the other side
    20015
    """
    distance: Floats = 2.0 * EARTH_KM * np.arcsin(half_chord)
    return distance


def measure_km(lat: float, lon: float, other_lat: float, other_lon: float) -> float:
    """`great_circle_km` of one pair, without numpy: an engine asks it of each candidate.

    >>> round(measure_km(49.01, 8.4, 52.52, 13.41))  # Karlsruhe to Berlin
    526
    """
    up = sin(radians(other_lat - lat) / 2) ** 2
    across = sin(radians(other_lon - lon) / 2) ** 2
    return 2 * EARTH_KM * asin(sqrt(min(1.0, up + cos(radians(lat)) * cos(radians(other_lat)) * across)))
