"""Distances along the great circle: one globe, for arrays and for one pair."""

from __future__ import annotations

import math

import numpy as np
import pytest

from placings.core.great_circle import EARTH_KM, arc_km, great_circle_km, measure_km


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


def test_a_missing_coordinate_gives_no_distance() -> None:
    assert np.isnan(great_circle_km([49.0, np.nan], [8.4, 8.4], 49.0, np.nan)).all()


def test_one_pair_is_as_far_apart_as_in_an_array() -> None:
    rng = np.random.default_rng(0)
    lats, lons = rng.uniform(-90, 90, (2, 200)), rng.uniform(-180, 180, (2, 200))
    pairs = [measure_km(*each) for each in zip(lats[0], lons[0], lats[1], lons[1], strict=True)]
    # sines and arc sines of two libraries, an ulp apart each; near the antipode asin loses half the digits
    np.testing.assert_allclose(pairs, great_circle_km(lats[0], lons[0], lats[1], lons[1]), rtol=1e-7)


def test_antipodes_are_half_the_globe_apart_and_no_more() -> None:
    half = math.pi * EARTH_KM
    assert measure_km(30.0, 10.0, -30.0, -170.0) == pytest.approx(half)
    assert arc_km(1.0) == pytest.approx(half)
