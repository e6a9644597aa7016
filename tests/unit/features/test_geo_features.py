"""Coordinates and distances."""

from __future__ import annotations

import math

import numpy as np

from placings.core.great_circle import EARTH_KM
from placings.features.geo import Coordinates, Distance
from placings.features.spec import FeatureSet


def test_a_missing_place_is_missing_not_zero() -> None:
    rows = {
        "lat": [49.0, None, 49.0],
        "lon": [8.4, 8.4, 8.4],
        "focus_lat": [49.0, 49.0, None],
        "focus_lon": [8.4] * 3,
    }
    features = FeatureSet([Distance()]).fit(rows)
    assert features.names == ["has_focus", "distance_km", "log_distance", "distance_gap", "distance_rank"]
    found = features.transform(rows)
    np.testing.assert_array_equal(found, [[1, 0, 0, 0, 1], [1, *[np.nan] * 4], [0, *[np.nan] * 4]])


def test_distances_are_told_against_the_nearest_of_the_list() -> None:
    rows = {"lat": [0.0, 0.0, 0.0], "lon": [1.0, 2.0, 2.0], "focus_lat": [0.0] * 3, "focus_lon": [0.0] * 3}
    found = FeatureSet([Distance(("distance_gap", "distance_rank"))]).fit_transform(rows)
    degree = 2 * math.pi * EARTH_KM / 360
    gap = math.log1p(2 * degree) - math.log1p(degree)
    np.testing.assert_allclose(found, [[0, 1], [gap, 2], [gap, 2]], rtol=1e-6)


def test_points_off_the_globe_are_missing() -> None:
    rows = {"lat": [91.0, 0.0, 10.0], "lon": [0.0, 999.0, None]}
    assert np.isnan(FeatureSet([Coordinates()]).fit_transform(rows)).all()
    assert FeatureSet([Coordinates("focus_lat", "focus_lon")]).fit(rows).kinds == ["context", "context"]
