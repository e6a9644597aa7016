"""A generated shop log: searches, items shown, features and clicks, with outages whose truth is known.

The recipe is in docs/shop_log.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.random import Generator, SeedSequence

from placings.core import (
    AnyArray,
    BadInput,
    Bools,
    Floats,
    Floats32,
    Ints,
    UnknownName,
    need_library,
    write_atomically,
)
from placings.data import check_seed, write_sealed

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ShopKind = Literal["count", "score", "signed", "level"]

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
    kind: ShopKind
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
        """The last dark day of a log of this many days."""
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


LATE = 0.03  # of the searches arrive late
DAY = 86_400_000_000  # microseconds

_SHOP, _CALENDAR, _SEARCHES, _ROWS, _OUTAGE, _FEATURES = range(6)  # each draws from a stream of its own


@dataclass(frozen=True, eq=False)
class ShopLog:
    """A generated log and what is true of it.

    `table` has one row for each item shown, in the order of time and position: `search_id`, `time`, `query`,
    `region`, `category`, `platform`, `item`, `first_seen`, `position`, the features, `click`, `arrival`.
    Times are UTC without a zone. `truth` is the planted outage or None; `events` are the ordinary ones:
    (what, first day, last day, where), days counted from 0. `seed` makes the same log again.
    """

    table: pa.Table = field(repr=False)
    start: date
    days: int
    truth: PlantedOutage | None
    events: tuple[tuple[str, int, int, str], ...]
    seed: int
    features: tuple[str, ...] = tuple(feature.name for feature in FEATURES)

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas frame."""
        need_library("pandas", "a log as a pandas frame")
        frame: pd.DataFrame = self.table.to_pandas()
        return frame


def make_shop_log(
    days: int = 60,
    *,
    searches: int = 1000,
    shown: int = 8,
    outage: Outage | bool | None = None,
    start: str | date = "2024-01-01",
    random_state: int | None = None,
) -> ShopLog:
    """Make the log of a shop's search: `days` days of about `searches` searches, up to `shown` items each.

    Queries run from head to tail (Zipf), items are launched before and during the log, engagement features
    grow with an item's age and with the age of the region that opens a sixth of the way in. There are a
    weekly cycle, a sale day with 2.5 times the searches, ten days in which one region and seven in which one
    category is searched more, and 3 % of the searches arrive late, some by days. Coverage wanders from day to
    day by a point or two. `outage=True` plants an outage of at least 21 points in one region, drawn at
    random; an `Outage` plants that one. With the same `random_state` the log with and the log without an
    outage are equal but for the dark values.

    >>> log = make_shop_log(14, searches=50, random_state=0)
    >>> log.table.column_names[:6]
    ['search_id', 'time', 'query', 'region', 'category', 'platform']
    >>> broken = make_shop_log(14, searches=50, outage=Outage("north", ("price",), day=9), random_state=0)
    >>> broken.truth.lost
    {'price': 1.0}

    The demands on it come from Gope and others, Measuring feature quality for improved ranking performance,
    2023.
    """
    for name, value in (("days", days), ("searches", searches), ("shown", shown)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise BadInput(f"{name} must be a whole number of at least 1. Got {value!r}.")
    first = _check_start(start)
    seed = check_seed(random_state)
    shop = draw_catalogue(_stream(seed, _SHOP), days)
    calendar = draw_calendar(_stream(seed, _CALENDAR), days, first.weekday())
    searched = _draw_searches(_stream(seed, _SEARCHES), shop, calendar, days, searches)
    rows = _draw_rows(_stream(seed, _ROWS), shop, searched, shown)
    values, covered = _fill_features(seed, shop, calendar, searched, rows)
    position, click, order = _rank_and_click(_stream(seed, _ROWS, 1), shop, rows, values, covered)
    truth = _plant(_stream(seed, _OUTAGE), outage, calendar, searched, rows, values, covered, days)
    table = _make_table(shop, searched, rows, values, position, click, order, first)
    return ShopLog(table, first, int(days), truth, calendar.events, seed)


def write_shop_log(
    log: ShopLog, folder: str | PathLike[str], *, by: Literal["time", "arrival"] = "time"
) -> list[Path]:
    """Write one parquet file for each day into `folder`, `2024-01-01.parquet` and so on, and say which.

    `by="arrival"` files an event under the day on which it arrived, as a collector does, so that late
    events lie in later files than their time says; a few may lie after the log's last day.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if by not in ("time", "arrival"):
        raise BadInput(f'by must be "time" or "arrival". Got {by!r}.')
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    day = pc.cast(log.table[by], pa.date32())
    written = []
    for each in sorted(pc.unique(day).to_pylist()):
        path = folder / f"{each.isoformat()}.parquet"
        with write_atomically(path) as temporary:
            write_sealed(log.table.filter(pc.equal(day, pa.scalar(each, pa.date32()))), temporary)
        written.append(path)
    return written


# -- searches and what they show ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Searches:
    """One entry a search, in the order of time."""

    day: Ints
    time: Ints  # microseconds since the log's first midnight
    arrival: Ints
    query: Ints
    region: Ints
    app: Bools


@dataclass(frozen=True, eq=False)
class ShownRows:
    """One entry an item shown; the rows of a search stand together."""

    search: Ints
    item: Ints


def _draw_searches(rng: Generator, shop: Catalogue, calendar: Calendar, days: int, searches: int) -> Searches:
    counts = rng.poisson(calendar.traffic * searches)
    day = np.repeat(np.arange(days), counts)
    total = len(day)
    query = np.empty(total, dtype=np.int64)
    region = np.empty(total, dtype=np.int64)
    ends = np.cumsum(counts)
    fashion = np.zeros(len(shop.query_share))  # a query's popularity wanders too
    for each in range(days):
        fashion = 0.8 * fashion + rng.normal(0.0, 0.2, len(fashion))
        weight = shop.query_share * np.exp(fashion) * calendar.category_weight[each][shop.query_category]
        here = slice(ends[each] - counts[each], ends[each])
        query[here] = _draw(rng, weight, counts[each])
        region[here] = _draw(rng, calendar.region_share[each], counts[each])
    hour = _draw(rng, HOURS, total)
    time = day * DAY + ((hour + rng.random(total)) * DAY / 24).astype(np.int64)
    app = rng.random(total) < calendar.app_share[day] + np.where(region == 0, 0.05, 0.0)
    delay = rng.lognormal(np.log(30.0), 1.0, total)  # seconds
    late = rng.random(total) < LATE * np.where(app, 1.5, 0.5)  # phones that were offline
    delay[late] += np.minimum(rng.exponential(1.2, int(late.sum())), 6.0) * 86_400
    arrival = time + (delay * 1e6).astype(np.int64)
    order = np.argsort(time, kind="stable")
    return Searches(day[order], time[order], arrival[order], query[order], region[order], app[order])


def _draw(rng: Generator, weight: Floats, number: int) -> Ints:
    """This many draws of places, each as likely as its weight says."""
    ends = np.cumsum(weight)
    found = np.searchsorted(ends, rng.random(number) * ends[-1], side="right")
    places: Ints = np.minimum(found, len(weight) - 1).astype(np.int64)
    return places


def _draw_rows(rng: Generator, shop: Catalogue, searched: Searches, shown: int) -> ShownRows:
    """Items of each query's own pool, launched by then; an item drawn twice is shown once."""
    total = len(searched.query)
    search = np.repeat(np.arange(total), shown)
    query = searched.query[search]
    category = shop.query_category[query]
    size = np.diff(shop.category_start)[category]
    taste = 1.0 / np.sqrt(np.arange(1, POOL + 1))
    item = np.full(len(search), -1, dtype=np.int64)
    missing = np.arange(len(search))
    for _ in range(4):  # what is not launched yet is drawn anew
        place = (shop.query_start[query[missing]] + 7 * _draw(rng, taste, len(missing))) % size[missing]
        drawn = shop.category_start[category[missing]] + place
        there = shop.item_launch[drawn] <= searched.day[search[missing]]
        item[missing[there]] = drawn[there]
        missing = missing[~there]
    found = np.unique(search[item >= 0] * len(shop.item_category) + item[item >= 0])
    return ShownRows(found // len(shop.item_category), found % len(shop.item_category))


# -- features ----------------------------------------------------------------------------------------


def _fill_features(
    seed: int, shop: Catalogue, calendar: Calendar, searched: Searches, rows: ShownRows
) -> tuple[dict[str, Floats32], dict[str, Bools]]:
    """The values of each feature `[rows]` and where it has one."""
    day = searched.day[rows.search]
    region = searched.region[rows.search]
    query = searched.query[rows.search]
    age = 1.0 - np.exp(-np.maximum(day - shop.item_launch[rows.item], 0.0) / 25.0)
    young = np.exp(-np.maximum(day - calendar.region_opening[region], 0.0) / 12.0)
    head = shop.query_head[query]
    category = shop.item_category[rows.item]
    shared: dict[str, Floats32] = {}
    for place, group in enumerate(GROUPS):  # features of a group lack their values in the same rows
        rng = _stream(seed, _FEATURES, 0, place)
        of_search = 0.4 * rng.standard_normal(len(searched.query), dtype=np.float32)
        shared[group] = of_search[rows.search] + 0.6 * rng.standard_normal(len(day), dtype=np.float32)
    values, covered = {}, {}
    for place, feature in enumerate(FEATURES):
        rng = _stream(seed, _FEATURES, 1, place)
        by_day = feature.weekend * calendar.weekend + feature.sale * calendar.sale
        moves = calendar.region_day_effect[place] + calendar.day_effect[place] + by_day  # [regions, days]
        latent = feature.level + (moves + shop.region_effect[place][:, None])[region, day]
        latent += shop.item_effect[place][rows.item] + shop.category_effect[place][category]
        latent += feature.age * age + feature.launch * young + feature.head * head
        noise = shared[feature.group] + 0.69 * rng.standard_normal(len(day), dtype=np.float32)
        covered[feature.name] = latent + noise > 0.0
        made = _draw_values(rng, feature, shop.item_appeal[rows.item], age, covered[feature.name])
        values[feature.name] = made
    return values, covered


def _draw_values(
    rng: Generator, feature: ShopFeature, appeal: Floats, age: Floats, covered: Bools
) -> Floats32:
    noise = rng.standard_normal(len(appeal), dtype=np.float32)
    if feature.kind == "signed":
        made = 0.3 * appeal + 0.5 * noise
        made = np.where(made == 0.0, 0.1, made)
    elif feature.kind == "count":
        made = np.ceil(np.exp(1.0 + 2.0 * age + 0.6 * appeal + 0.8 * noise))
    elif feature.kind == "score":
        made = np.exp(0.3 * appeal + 0.5 * noise)
    else:
        made = 1.0 + 4.0 / (1.0 + np.exp(-0.8 * appeal - 0.5 * noise))
    dark = np.float32(np.nan if feature.null else 0.0)
    return np.where(covered, made, dark).astype(np.float32)


def _rank_and_click(
    rng: Generator, shop: Catalogue, rows: ShownRows, values: dict[str, Floats32], covered: dict[str, Bools]
) -> tuple[Ints, Bools, Ints]:
    """Position from 1, click, and the order of rows by search and position.

    The shop's own ranker likes what people like, less well: `appeal` and text match, and engagement where
    it has any. A click needs a look, with probability 1/position^0.8, and liking.
    """
    liking = 0.9 * shop.item_appeal[rows.item] + 0.5 * np.log1p(values["text_match"])
    score = liking + 0.5 * covered["clicks_30d"] + rng.normal(0.0, 1.0, len(liking))
    order = np.lexsort((-score, rows.search))
    search = rows.search[order]
    begins = np.flatnonzero(np.diff(search, prepend=-1))
    position = np.arange(len(search)) - np.repeat(begins, np.diff(begins, append=len(search))) + 1
    look = position**-0.8
    likes = 1.0 / (1.0 + np.exp(1.6 - liking[order]))
    return position, rng.random(len(search)) < look * likes, order


# -- outage and table --------------------------------------------------------------------------------


def _plant(
    rng: Generator,
    outage: Outage | bool | None,
    calendar: Calendar,
    searched: Searches,
    rows: ShownRows,
    values: dict[str, Floats32],
    covered: dict[str, Bools],
    days: int,
) -> PlantedOutage | None:
    """Darken `values` (ours, made in this call) and say what was lost."""
    if outage is None or outage is False:
        return None
    region, day = searched.region[rows.search], searched.day[rows.search]
    if outage is True:
        counts = np.maximum(np.bincount(region, minlength=len(REGIONS)), 1)
        shares = [np.bincount(region, each, minlength=len(REGIONS)) / counts for each in covered.values()]
        outage = draw_outage(rng, np.stack(shares), calendar.region_opening, days)
    if not isinstance(outage, Outage):
        raise BadInput(f"outage must be None, True or an Outage. Got {outage!r}.")
    if outage.day >= days:
        raise BadInput(f"the outage must begin within the log's {days} days. Got day {outage.day}.")
    dark = choose_dark(rng, outage, searched.region, searched.day, days)[rows.search]
    here = (region == list(REGIONS).index(outage.region)) & (day >= outage.day)
    here &= day <= outage.last_day(days)
    for name in outage.features:
        values[name][dark] = 0.0 if outage.value == "zero" else np.nan
    lost = measure_loss(covered, dark, here, outage.features)
    return PlantedOutage(
        outage, lost, measure_loss(covered, dark, here & (day == outage.day), outage.features)
    )


def _make_table(
    shop: Catalogue,
    searched: Searches,
    rows: ShownRows,
    values: dict[str, Floats32],
    position: Ints,
    click: Bools,
    order: Ints,
    first: date,
) -> pa.Table:
    import pyarrow as pa

    search, item = rows.search[order], rows.item[order]
    epoch = int(np.datetime64(first, "us").astype(np.int64))

    def name_places(names: list[str], places: AnyArray) -> pa.Array:
        return pa.array(names).take(pa.array(places))

    def stamp(microseconds: Ints) -> pa.Array:
        return pa.array((microseconds + epoch).view("datetime64[us]"))

    queries = [f"{list(CATEGORIES)[kind]} {place:04d}" for place, kind in enumerate(shop.query_category, 1)]
    items = [f"item {place:05d}" for place in range(1, len(shop.item_category) + 1)]
    columns: dict[str, Any] = {
        "search_id": pa.array(search + 1),
        "time": stamp(searched.time[search]),
        "query": name_places(queries, searched.query[search]),
        "region": name_places(list(REGIONS), searched.region[search]),
        "category": name_places(list(CATEGORIES), shop.item_category[item]),
        "platform": name_places(list(PLATFORMS), searched.app[search].astype(np.int64)),
        "item": name_places(items, item),
        "first_seen": stamp(shop.item_launch[item].astype(np.int64) * DAY),
        "position": pa.array(position.astype(np.int32)),
    }
    for feature in FEATURES:
        made = values[feature.name][order]
        columns[feature.name] = pa.array(made, from_pandas=True)  # NaN becomes null
    columns["click"] = pa.array(click)
    columns["arrival"] = stamp(searched.arrival[search])
    return pa.table(columns)


# -- checks ------------------------------------------------------------------------------------------


def _stream(seed: int, *place: int) -> Generator:
    return np.random.default_rng(SeedSequence(seed, spawn_key=place))


def _check_start(start: str | date) -> date:
    if isinstance(start, datetime):
        return start.date()
    if isinstance(start, date):
        return start
    try:
        return date.fromisoformat(start)
    except (TypeError, ValueError) as error:
        raise BadInput(f'start must be a date such as "2024-01-01". Got {start!r}.') from error
