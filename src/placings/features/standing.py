"""Where an item stands among those of its list that match the query as well as it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from placings.core import Floats
from placings.features.columns import Rows
from placings.features.fields import match_cores
from placings.features.geo import measure_distance
from placings.features.similarity import measure_similarity
from placings.features.spec import Feature, FeatureKind, check_measures

STANDINGS = ("tier", "best_tier", "tier_size", "tier_weight_rank", "tier_distance_rank")


@dataclass(frozen=True)
class Standing(Feature):
    """The tier of the match, and the item's rank by weight and by distance among the list's equals.

    tier: 3 where the query is the name, or is it but for the locality's words; 2 where it begins the name;
    1 where it begins the name at a later word, or all its words begin words of the name; else 0.
    best_tier: 1 in the list's highest tier. tier_size: how many of the list share the tier.
    tier_weight_rank, tier_distance_rank: 1 for the heaviest or the nearest of them; NaN where weight or
    distance is missing. Without query or name all are NaN.
    """

    family: ClassVar[str] = "standing"

    measures: tuple[str, ...] = STANDINGS
    query: str = "query"
    name: str = "name"
    locality: str = "locality"
    weight: str = "weight"
    lat: str = "lat"
    lon: str = "lon"
    focus_lat: str = "focus_lat"
    focus_lon: str = "focus_lon"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_measures(self.measures, STANDINGS)

    @property
    def columns(self) -> tuple[str, ...]:
        place = (self.lat, self.lon, self.focus_lat, self.focus_lon)
        return (
            *self.needed,
            self.locality,
            *((self.weight,) if "tier_weight_rank" in self.measures else ()),
            *(place if "tier_distance_rank" in self.measures else ()),
        )

    @property
    def needed(self) -> tuple[str, ...]:
        return (self.query, self.name)

    def names(self) -> list[str]:
        return list(self.measures)

    def kinds(self) -> list[FeatureKind]:
        return ["query-item"] * len(self.measures)

    def compute(self, rows: Rows) -> list[Floats]:
        whole = match_cores(rows, self.query, self.name, self.locality)
        begins = measure_similarity(rows, self.query, self.name, "prefix")
        inside = measure_similarity(rows, self.query, self.name, "words_begun")
        exact = measure_similarity(rows, self.query, self.name, "exact")
        tier = np.where(
            (whole == 1.0) | (exact == 1.0),
            3.0,
            np.where(begins == 1.0, 2.0, np.where(inside == 1.0, 1.0, 0.0)),
        )
        tier[np.isnan(begins)] = np.nan
        equals = rows.lists.within(np.where(np.isnan(tier), 4.0, tier).astype(np.int64))
        known = ~np.isnan(tier)

        def measure(name: str) -> Floats:
            if name == "tier":
                return tier
            if name == "best_tier":
                best: Floats = (tier == rows.lists.largest(tier)).astype(np.float64)
                return best
            if name == "tier_size":
                return equals.count(known)
            if name == "tier_weight_rank":
                return equals.rank(rows.floats(self.weight))
            return equals.rank(
                -measure_distance(rows, (self.lat, self.lon), (self.focus_lat, self.focus_lon))
            )

        return [np.where(known, measure(name), np.nan) for name in self.measures]
