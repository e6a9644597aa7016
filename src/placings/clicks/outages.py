"""Outages planted in a generated log: one region loses a group of features for some days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from placings.arrays import Bools, Floats, Ints
from placings.clicks.shop import FEATURES, GROUPS, REGIONS
from placings.errors import BadInput, UnknownName

LEAST = 0.21  # the smallest loss of coverage that is drawn for the feature that loses least
HISTORY = 21  # days that a region must have been open before an outage is drawn for it


@dataclass(frozen=True)
class Outage:
    """From `day` on (0 is the log's first), for `days` days, `share` of a region's searches lose `features`.

    A search goes dark as a whole, in all the features at once: its values become 0, or missing with
    `value="null"`. `days=None` means to the end of the log. Where the lost coverage is at least 20 points
    depends on the feature: a feature that 15 % of the rows have cannot lose more.

    >>> Outage("north", ("rating", "review_count"), day=40, days=5, share=0.5).last_day(60)
    44
    """

    region: str
    features: tuple[str, ...]
    day: int
    days: int | None = None
    share: float = 1.0
    value: Literal["zero", "null"] = "zero"

    def __post_init__(self) -> None:
        names = [feature.name for feature in FEATURES]
        if self.region not in REGIONS:
            raise UnknownName("region", self.region, REGIONS)
        given: object = self.features
        if not isinstance(given, tuple) or not given:
            raise BadInput(f"features must be a tuple of feature names. Got {self.features!r}.")
        for name in self.features:
            if name not in names:
                raise UnknownName("feature", name, names)
        if self.day < 0 or (self.days is not None and self.days < 1):
            raise BadInput(f"day must be 0 or more, and days at least 1. Got {self.day} and {self.days}.")
        if not 0.0 < self.share <= 1.0:
            raise BadInput(f"share must be above 0 and at most 1. Got {self.share!r}.")
        if self.value not in ("zero", "null"):
            raise BadInput(f'value must be "zero" or "null". Got {self.value!r}.')

    def last_day(self, days: int) -> int:
        """The last dark day of a log of so many days."""
        return days - 1 if self.days is None else min(self.day + self.days, days) - 1


@dataclass(frozen=True)
class PlantedOutage:
    """What an outage did: how many points of coverage each feature lost in the region, by rows.

    `lost` is the loss over all dark days, `lost_first_day` that of the first: coverage (not zero, not
    missing) before the outage was planted minus after it, as shares.
    """

    outage: Outage
    lost: dict[str, float]
    lost_first_day: dict[str, float]


def draw_outage(rng: Generator, covered: Floats, opening: Floats, days: int) -> Outage:
    """An outage whose every feature loses at least 21 points of coverage, drawn at random.

    `covered` is the clean log's coverage `[features, regions]`, `opening` each region's first day. Drawn are
    the first day (from the middle of the log on), a region that has been open for three weeks by then, a
    group of features, of which those that at least 30 % of the region's rows have go dark, 3 to 10 days,
    and the share of searches, from the least that costs 21 points to all.
    """
    if days < 2:
        raise BadInput(f"a log of {days} days has no room for an outage. Make it longer.")
    day = int(rng.integers((days + 1) // 2, max(days - 2, (days + 1) // 2 + 1)))
    mature = [place for place in range(len(REGIONS)) if opening[place] + min(HISTORY, day // 2) <= day]
    place = int(rng.choice(mature))
    groups = {
        group: [
            column
            for column, feature in enumerate(FEATURES)
            if feature.group == group and covered[column, place] >= 0.30
        ]
        for group in GROUPS
    }
    group = str(rng.choice([name for name, columns in groups.items() if columns]))
    least = LEAST / min(covered[column, place] for column in groups[group])
    return Outage(
        region=list(REGIONS)[place],
        features=tuple(FEATURES[column].name for column in groups[group]),
        day=day,
        days=int(rng.integers(3, 11)),
        share=float(rng.uniform(min(least, 1.0), 1.0)),
        value="zero" if rng.random() < 0.5 else "null",
    )


def choose_dark(rng: Generator, outage: Outage, region: Ints, day: Ints, days: int) -> Bools:
    """Which searches go dark `[searches]`: on each day the stated share of the region's, rounded up."""
    dark = np.zeros(len(region), dtype=np.bool_)
    code = list(REGIONS).index(outage.region)
    for each in range(outage.day, outage.last_day(days) + 1):
        there = np.flatnonzero((region == code) & (day == each))
        number = int(np.ceil(outage.share * len(there)))
        dark[rng.permutation(there)[:number]] = True
    return dark


def measure_loss(
    before: dict[str, Bools], dark: Bools, shown: Bools, names: Sequence[str]
) -> dict[str, float]:
    """The points of coverage lost by each feature over the rows that are `shown`, all of them `[rows]`."""
    rows = max(int(shown.sum()), 1)
    return {name: float((before[name] & dark & shown).sum() / rows) for name in names}
