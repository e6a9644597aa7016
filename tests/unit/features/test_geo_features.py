"""Coordinates and distances."""

from __future__ import annotations

import math

import numpy as np

from placings.features.geo import EARTH_KM, Coordinates, Distance, great_circle_km
from placings.features.spec import FeatureSet


def test_distances_on_the_great_circle() -> None:
    # one ulp each of sine, product, root and arc sine: how these round depends on the CPU
    rounding = {"rtol": 8 * np.finfo(np.float64).eps}
    quarter = math.pi / 2 * EARTH_KM  # of the equator
    np.testing.assert_allclose(great_circle_km(0.0, 0.0, 0.0, 90.0), quarter, **rounding)
    np.testing.assert_allclose(great_circle_km(90.0, 0.0, -90.0, 123.0), math.pi * EARTH_KM)  # pole to pole
    assert great_circle_km(49.0, 8.4, 49.0, 8.4) == 0.0
    np.testing.assert_allclose(great_circle_km(0.0, 179.5, 0.0, -179.5), great_circle_km(0.0, 0.0, 0.0, 1.0))


def test_a_metre_is_still_told_apart() -> None:
    metre = 0.001 / EARTH_KM * 180 / math.pi
    np.testing.assert_allclose(great_circle_km(49.0, 8.4, 49.0 + metre, 8.4), 0.001, rtol=1e-6)


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
