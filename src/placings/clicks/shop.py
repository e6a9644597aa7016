"""The generated shop: its regions, categories, queries, items, and how each feature comes to have a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.random import Generator

from placings.arrays import Floats, Ints

Kind = Literal["count", "score", "signed", "level"]

REGIONS = {"north": 0.30, "south": 0.24, "west": 0.20, "east": 0.15, "islands": 0.11}  # share of searches
NEW_REGION = "islands"  # opens a sixth of the way into the log
CATEGORIES = {"shoes": 0.26, "phones": 0.20, "toys": 0.17, "kitchen": 0.15, "books": 0.12, "garden": 0.10}
PLATFORMS = ("web", "app")
WEEK = np.array([1.0, 0.97, 0.95, 1.0, 1.1, 1.3, 1.2])  # traffic from Monday to Sunday
HOURS = np.array([3, 2, 1, 1, 1, 2, 4, 7, 9, 10, 11, 12, 12, 11, 10, 10, 11, 13, 16, 18, 18, 15, 10, 6.0])
QUERIES = 2_000
ITEMS = 4_000
OLDEST = 400  # days: items were launched evenly from so long before the log to its end
POOL = 60  # items that a query chooses from, most often the first ones
ZIPF = 1.05  # how often the r-th query is searched: 1 / (r + 2)^ZIPF


@dataclass(frozen=True)
class ShopFeature:
    """How a feature comes to have a value: it has one where a latent number lies above 0.

    The latent number of a row is normal with variance 1 about `level` + `age` · (1 − e^(−days/25)) with the
    days since the item's launch, + `launch` · e^(−days/12) with the days since its region's opening,
    + `head` for queries that are searched often, + `weekend` on Saturdays and Sundays, + `sale` on the sale
    day, and + what the item, the search, the region, the day, and the region's day add. An uncovered value is
    0, or missing if `null`.
    """

    name: str
    group: str
    kind: Kind
    level: float
    age: float = 0.0
    launch: float = 0.0
    head: float = 0.0
    weekend: float = 0.0
    sale: float = 0.0
    null: bool = False


FEATURES = (
    ShopFeature("text_match", "match", "score", 2.8),
    ShopFeature("title_match", "match", "score", 1.6, head=0.3),
    ShopFeature("embedding_similarity", "match", "signed", 3.0),
    ShopFeature("price", "offer", "level", 4.5),
    ShopFeature("discount", "offer", "score", -1.1, sale=1.4),
    ShopFeature("price_change", "offer", "signed", -0.3, sale=0.8),
    ShopFeature("rating", "reviews", "level", -0.9, age=2.3, null=True),
    ShopFeature("review_count", "reviews", "count", -0.7, age=2.3),
    ShopFeature("clicks_30d", "engagement", "count", -1.3, age=2.8, launch=-1.8, head=0.2, sale=-0.12),
    ShopFeature("cart_adds_30d", "engagement", "count", -1.7, age=2.5, launch=-1.8, head=0.2, sale=-0.12),
    ShopFeature("purchases_30d", "engagement", "count", -2.0, age=2.4, launch=-1.8, head=0.2, sale=-0.12),
    ShopFeature("query_item_ctr", "engagement", "score", -2.3, age=1.6, launch=-1.0, head=0.9, sale=-0.1),
    ShopFeature("delivery_days", "logistics", "level", 1.9, weekend=-0.15, null=True),
    ShopFeature("store_stock", "logistics", "count", 0.5, weekend=-0.25, sale=-0.1),
    ShopFeature("image_quality", "content", "score", 1.3, null=True),
    ShopFeature("sponsored_bid", "content", "score", -1.6, sale=0.2),
)
GROUPS = tuple(dict.fromkeys(feature.group for feature in FEATURES))


@dataclass(frozen=True, eq=False)
class Catalogue:
    """What the shop sells and what people search for; drawn once a log."""

    query_category: Ints  # [queries]
    query_share: Floats  # [queries], sums to 1
    query_head: Floats  # [queries], from 0 (tail) to 1 (head)
    query_start: Ints  # [queries]: where in its category a query's pool begins
    item_category: Ints  # [items], sorted
    item_launch: Floats  # [items]: days since the log's first midnight, negative before it
    item_appeal: Floats  # [items]
    category_start: Ints  # [categories + 1]: where each category's items begin
    item_effect: Floats  # [features, items]
    region_effect: Floats  # [features, regions]
    category_effect: Floats  # [features, categories]


def draw_catalogue(rng: Generator, days: int) -> Catalogue:
    """Queries from head to tail and items with launch dates, each of one category."""
    kinds = len(CATEGORIES)
    share = np.power(np.arange(1, QUERIES + 1) + 2.0, -ZIPF, dtype=np.float64)
    share /= share.sum()
    counts = np.maximum(np.rint(np.array(list(CATEGORIES.values())) * ITEMS).astype(np.int64), 1)
    item_category = np.repeat(np.arange(kinds), counts)
    items = len(item_category)
    launch = np.floor(rng.uniform(-OLDEST, days, items))
    query_category = rng.choice(kinds, QUERIES, p=np.array(list(CATEGORIES.values())))
    region_effect = rng.normal(0.0, 0.12, (len(FEATURES), len(REGIONS)))
    stock = [feature.name for feature in FEATURES].index("store_stock")
    region_effect[stock] += np.linspace(0.5, -0.5, len(REGIONS))  # stores stand where people live
    return Catalogue(
        query_category=query_category,
        query_share=share,
        query_head=np.clip(1.0 - np.log(np.arange(1, QUERIES + 1)) / np.log(QUERIES), 0.0, 1.0),
        query_start=rng.integers(0, counts[query_category]),
        item_category=item_category,
        item_launch=launch,
        item_appeal=rng.normal(0.0, 1.0, items),
        category_start=np.concatenate([[0], np.cumsum(counts)]),
        item_effect=rng.normal(0.0, 0.6, (len(FEATURES), items)),
        region_effect=region_effect,
        category_effect=rng.normal(0.0, 0.15, (len(FEATURES), kinds)),
    )


@dataclass(frozen=True, eq=False)
class Calendar:
    """What happens on which day: traffic, mixes, the sale, and how far each day's coverage wanders."""

    traffic: Floats  # [days]: expected searches, relative
    weekend: Floats  # [days]: 0 or 1
    sale: Floats  # [days]: 0 or 1
    region_share: Floats  # [days, regions]
    category_weight: Floats  # [days, categories]: how much likelier a category's queries are
    app_share: Floats  # [days]
    day_effect: Floats  # [features, days]
    region_day_effect: Floats  # [features, regions, days]
    region_opening: Floats  # [regions]: days since the log's first midnight; far in the past but for one
    events: tuple[tuple[str, int, int, str], ...]  # (what, first day, last day, where)


def draw_calendar(rng: Generator, days: int, weekday: int) -> Calendar:
    """The weekly cycle from `weekday` (Monday is 0) on, a sale day, two shifts of the mix, and noise."""
    day = np.arange(days)
    week = (day + weekday) % 7
    sale_day = int(rng.integers(int(0.3 * days), max(int(0.9 * days), 1) + 1)) % days
    sale = (day == sale_day).astype(np.float64)
    traffic = WEEK[week] * np.exp(rng.normal(0.0, 0.04, days)) * np.where(sale > 0, 2.5, 1.0)

    opening = np.full(len(REGIONS), -1e4)
    new = list(REGIONS).index(NEW_REGION)
    opening[new] = days // 6
    shares = np.tile(np.array(list(REGIONS.values())), (days, 1))
    grown = np.clip((day - opening[new] + 5) / 15.0, 0.0, 1.0)  # from a third of its traffic to all of it
    shares[:, new] *= np.where(day >= opening[new], grown, 0.0)
    moved = int(rng.integers(0, len(REGIONS)))
    first, last = _draw_span(rng, days, 10)
    shares[first : last + 1, moved] *= 1.7
    shares *= np.exp(rng.normal(0.0, 0.03, shares.shape))

    weights = np.exp(rng.normal(0.0, 0.05, (days, len(CATEGORIES))))
    pushed = int(rng.integers(0, len(CATEGORIES)))
    begin, end = _draw_span(rng, days, 7)
    weights[begin : end + 1, pushed] *= 1.6
    weights[sale_day, int(rng.integers(0, len(CATEGORIES)))] *= 1.8
    drift = 0.45 + 0.10 * day / max(days - 1, 1)
    return Calendar(
        traffic=traffic / np.exp(np.log(traffic).mean()),
        weekend=(week >= 5).astype(np.float64),
        sale=sale,
        region_share=shares / shares.sum(axis=1, keepdims=True),
        category_weight=weights,
        app_share=np.clip(drift + np.where(week >= 5, 0.05, 0.0), 0.0, 1.0),
        day_effect=_wander(rng, (len(FEATURES), days), 0.05, 0.6),
        region_day_effect=_wander(rng, (len(FEATURES), len(REGIONS), days), 0.04, 0.3),
        region_opening=opening,
        events=(
            ("sale", sale_day, sale_day, "everywhere"),
            ("region mix", first, last, list(REGIONS)[moved]),
            ("category mix", begin, end, list(CATEGORIES)[pushed]),
            ("opening", int(opening[new]), days - 1, NEW_REGION),
        ),
    )


def _draw_span(rng: Generator, days: int, length: int) -> tuple[int, int]:
    """The first and last day of something that takes `length` days, somewhere in the log."""
    first = int(rng.integers(0, max(days - length, 0) + 1))
    return first, min(first + length, days) - 1


def _wander(rng: Generator, shape: tuple[int, ...], spread: float, memory: float) -> Floats:
    """Noise whose days resemble their neighbours: `e_t = memory · e_(t−1) + …`, with `spread`."""
    noise = rng.normal(0.0, spread, shape)
    fresh = np.sqrt(1.0 - memory**2)
    for day in range(1, shape[-1]):
        noise[..., day] = memory * noise[..., day - 1] + fresh * noise[..., day]
    return noise
