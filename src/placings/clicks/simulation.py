"""A generated shop log: searches, items shown, features and clicks, with outages whose truth is known.

The recipe is in docs/shop_log.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.random import Generator, SeedSequence

from placings.arrays import AnyArray, Bools, Floats, Floats32, Ints
from placings.clicks.outages import Outage, PlantedOutage, choose_dark, draw_outage, measure_loss
from placings.clicks.shop import (
    CATEGORIES,
    FEATURES,
    GROUPS,
    HOURS,
    PLATFORMS,
    POOL,
    REGIONS,
    Calendar,
    Catalogue,
    ShopFeature,
    draw_calendar,
    draw_catalogue,
)
from placings.data.checks import check_seed
from placings.data.streams import write_atomically
from placings.data.tables import need_library
from placings.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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
    import pyarrow.parquet as pq

    if by not in ("time", "arrival"):
        raise BadInput(f'by must be "time" or "arrival". Got {by!r}.')
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    day = pc.cast(log.table[by], pa.date32())
    written = []
    for each in sorted(pc.unique(day).to_pylist()):
        path = folder / f"{each.isoformat()}.parquet"
        with write_atomically(path) as temporary:
            pq.write_table(log.table.filter(pc.equal(day, pa.scalar(each, pa.date32()))), temporary)
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
class Rows:
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
    """So many draws of places, each as likely as its weight says."""
    ends = np.cumsum(weight)
    found = np.searchsorted(ends, rng.random(number) * ends[-1], side="right")
    places: Ints = np.minimum(found, len(weight) - 1).astype(np.int64)
    return places


def _draw_rows(rng: Generator, shop: Catalogue, searched: Searches, shown: int) -> Rows:
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
    return Rows(found // len(shop.item_category), found % len(shop.item_category))


# -- features ----------------------------------------------------------------------------------------


def _fill_features(
    seed: int, shop: Catalogue, calendar: Calendar, searched: Searches, rows: Rows
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
    rng: Generator, shop: Catalogue, rows: Rows, values: dict[str, Floats32], covered: dict[str, Bools]
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
    rows: Rows,
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
    rows: Rows,
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
