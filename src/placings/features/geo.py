"""Where a place lies, where the user is, and how far that is along the great circle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from placings.core import Floats, great_circle_km
from placings.features.columns import Rows
from placings.features.spec import Feature, FeatureKind, check_measures

DISTANCES: dict[str, FeatureKind] = {
    "has_focus": "context",
    "distance_km": "query-item",
    "log_distance": "query-item",
    "distance_gap": "query-item",
    "distance_rank": "query-item",
}


@dataclass(frozen=True)
class Coordinates(Feature):
    """Latitude and longitude as they are; both NaN where one is missing or off the globe."""

    family: ClassVar[str] = "coordinates"

    lat: str = "lat"
    lon: str = "lon"

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.lat, self.lon)

    def names(self) -> list[str]:
        return [self.lat, self.lon]

    def kinds(self) -> list[FeatureKind]:
        return ["context" if self.lat.startswith("focus") else "item"] * 2

    def compute(self, rows: Rows) -> list[Floats]:
        return list(read_points(rows, self.lat, self.lon))


@dataclass(frozen=True)
class Distance(Feature):
    """How far the item is from the user; NaN, never 0, where either place is unknown.

    `distance_km` is the great circle; `log_distance` is log(1 + km); `distance_gap` is its difference to the
    nearest item of the list; `distance_rank` is 1 for the nearest; `has_focus` is 1 where the user's place is
    known, else 0.
    """

    family: ClassVar[str] = "distance"

    measures: tuple[str, ...] = tuple(DISTANCES)
    lat: str = "lat"
    lon: str = "lon"
    focus_lat: str = "focus_lat"
    focus_lon: str = "focus_lon"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_measures(self.measures, DISTANCES)

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.lat, self.lon, self.focus_lat, self.focus_lon)

    def names(self) -> list[str]:
        return list(self.measures)

    def kinds(self) -> list[FeatureKind]:
        return [DISTANCES[measure] for measure in self.measures]

    def compute(self, rows: Rows) -> list[Floats]:
        focus = read_points(rows, self.focus_lat, self.focus_lon)
        km = measure_distance(rows, (self.lat, self.lon), (self.focus_lat, self.focus_lon))
        log: Floats = np.log1p(km)
        made: dict[str, Floats] = {
            "has_focus": (~np.isnan(focus[0])).astype(np.float64),
            "distance_km": km,
            "log_distance": log,
            "distance_gap": log - rows.lists.smallest(log),
            "distance_rank": rows.lists.rank(-km),
        }
        return [made[measure] for measure in self.measures]


def read_points(rows: Rows, lat: str, lon: str) -> tuple[Floats, Floats]:
    """Two columns as points: both NaN where one is missing or lies off the globe."""
    north, east = rows.floats(lat), rows.floats(lon)
    there = (np.abs(north) <= 90.0) & (np.abs(east) <= 360.0)
    return np.where(there, north, np.nan), np.where(there, east, np.nan)


def measure_distance(rows: Rows, item: tuple[str, str], focus: tuple[str, str]) -> Floats:
    """Kilometres between the user and each item, computed once for a table."""

    def measure() -> Floats:
        return great_circle_km(*read_points(rows, *focus), *read_points(rows, *item))

    return rows.remember(("distance", item, focus), measure)
