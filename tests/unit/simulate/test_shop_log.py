"""The generated shop log: what it holds, what is ordinary in it, and what an outage changes."""

from __future__ import annotations

import doctest
from datetime import date
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.simulate.shop_log import FEATURES, REGIONS, Outage, ShopLog, make_shop_log, write_shop_log

NAMES = [feature.name for feature in FEATURES]


@pytest.fixture(scope="module")
def log() -> ShopLog:
    return make_shop_log(60, searches=300, random_state=7)


@pytest.fixture(scope="module")
def rows(log: ShopLog) -> pd.DataFrame:
    frame = log.to_pandas()
    return frame.assign(day=(frame["time"] - pd.Timestamp(log.start)).dt.days)


def covered(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows[name].fillna(0.0) != 0.0


def test_a_row_is_an_item_shown_and_its_columns_are_these(log: ShopLog) -> None:
    before = [
        "search_id",
        "time",
        "query",
        "region",
        "category",
        "platform",
        "item",
        "first_seen",
        "position",
    ]
    assert log.table.column_names == [*before, *NAMES, "click", "arrival"]
    assert log.features == tuple(NAMES)


def test_positions_of_a_search_count_from_1_and_no_item_is_shown_twice(rows: pd.DataFrame) -> None:
    lists = rows.groupby("search_id")
    assert (lists["position"].max() == lists.size()).all()
    assert (lists["position"].nunique() == lists.size()).all()
    assert (lists["item"].nunique() == lists.size()).all()
    assert (lists[["query", "region", "platform", "category"]].nunique() == 1).all().all()


def test_the_same_seed_gives_the_same_log_and_another_seed_another(log: ShopLog) -> None:
    again = make_shop_log(60, searches=300, random_state=7)
    assert again.table.equals(log.table)
    assert again.events == log.events
    other = make_shop_log(2, searches=20, random_state=1).table
    assert not other.equals(make_shop_log(2, searches=20, random_state=2).table)


def test_a_log_without_a_seed_says_the_seed_that_makes_it_again() -> None:
    first = make_shop_log(3, searches=20)
    assert make_shop_log(3, searches=20, random_state=first.seed).table.equals(first.table)


def test_few_queries_make_most_searches(rows: pd.DataFrame) -> None:
    counts = rows.groupby("query")["search_id"].nunique().sort_values(ascending=False)
    share = counts.cumsum() / counts.sum()
    assert share.iloc[len(counts) // 10] > 0.5  # a tenth of the queries, half of the searches
    assert (counts == 1).sum() > 50  # and a long tail


def test_no_item_is_shown_before_its_launch_and_some_are_launched_during_the_log(
    log: ShopLog, rows: pd.DataFrame
) -> None:
    assert (rows["time"] >= rows["first_seen"]).all()
    assert (rows["first_seen"] > pd.Timestamp(log.start)).mean() > 0.02
    assert (rows["first_seen"] < pd.Timestamp(log.start)).mean() > 0.5


def test_engagement_grows_with_age_and_the_price_does_not(rows: pd.DataFrame) -> None:
    age = (rows["time"] - rows["first_seen"]).dt.days
    for name in ("clicks_30d", "purchases_30d", "review_count"):
        by_age = [covered(rows[(age >= low) & (age < high)], name).mean() for low, high in AGES]
        assert by_age[0] + 0.1 < by_age[1] < by_age[2]
    assert covered(rows[age < 10], "price").mean() > 0.99


AGES = ((0, 10), (20, 40), (100, 500))


def test_the_new_region_opens_late_and_its_engagement_grows(log: ShopLog, rows: pd.DataFrame) -> None:
    opening = {what: first for what, first, _, _ in log.events}["opening"]
    there = rows[rows["region"] == "islands"]
    assert opening == 10
    assert there["day"].min() == 10
    young, grown = there[there["day"] < 17], there[there["day"] > 45]
    assert covered(young, "clicks_30d").mean() + 0.2 < covered(grown, "clicks_30d").mean()


def test_some_features_are_sparse_some_dense_and_some_signed(rows: pd.DataFrame) -> None:
    share = {name: covered(rows, name).mean() for name in NAMES}
    assert share["price"] > 0.99
    assert share["text_match"] > 0.95
    assert share["sponsored_bid"] < 0.2
    assert share["discount"] < 0.35
    assert (rows["embedding_similarity"] < 0).mean() > 0.2
    assert (rows["price_change"] < 0).any()
    assert (rows["price_change"] > 0).any()
    assert rows["rating"].isna().any()  # some engines log null, some log 0
    assert not rows["review_count"].isna().any()


def test_features_of_a_group_lack_their_values_in_the_same_rows(rows: pd.DataFrame) -> None:
    together = np.corrcoef(covered(rows, "clicks_30d"), covered(rows, "cart_adds_30d"))[0, 1]
    apart = np.corrcoef(covered(rows, "image_quality"), covered(rows, "cart_adds_30d"))[0, 1]
    assert together > 0.25 > 0.05 > apart


def test_there_are_a_weekly_cycle_and_a_sale_day(log: ShopLog, rows: pd.DataFrame) -> None:
    sale = {what: first for what, first, _, _ in log.events}["sale"]
    daily = rows.groupby("day")["search_id"].nunique()
    usual = daily.drop(sale)
    assert daily[sale] > 1.6 * usual.median()
    assert usual[usual.index % 7 == 5].mean() > 1.15 * usual[usual.index % 7 == 2].mean()  # from a Monday
    stock = covered(rows, "store_stock").groupby(rows["day"] % 7).mean()
    assert stock[[5, 6]].mean() + 0.03 < stock[[0, 1, 2, 3, 4]].mean()


def test_the_mix_of_regions_and_categories_shifts_when_the_log_says_so() -> None:
    frame = make_shop_log(60, searches=800, random_state=3)
    rows = frame.to_pandas()
    day = (rows["time"] - pd.Timestamp(frame.start)).dt.days
    for what, column in (("region mix", "region"), ("category mix", "category")):
        _, first, last, where = next(event for event in frame.events if event[0] == what)
        inside = (day >= first) & (day <= last)
        hit = rows[column] == where
        assert hit[inside].mean() > 1.15 * hit[~inside].mean()


def test_some_searches_arrive_late_a_few_by_days(rows: pd.DataFrame) -> None:
    late = (rows["arrival"] - rows["time"]) / pd.Timedelta("1d")
    assert (late > 0).all()
    assert 0.01 < (late > 1 / 24).mean() < 0.06
    assert 0.001 < (late > 2).mean() < 0.02


def test_higher_positions_are_clicked_more(rows: pd.DataFrame) -> None:
    rate = rows.groupby("position")["click"].mean()
    assert rate[1] > 1.5 * rate[3] > 0
    assert rows["click"].mean() < 0.5


def test_an_outage_darkens_its_rows_and_changes_nothing_else(log: ShopLog, rows: pd.DataFrame) -> None:
    outage = Outage("north", ("rating", "store_stock"), day=30, days=4, share=0.6)
    broken = make_shop_log(60, searches=300, outage=outage, random_state=7)
    frame = broken.to_pandas()
    inside = (rows["region"] == "north") & rows["day"].between(30, 33)
    others = [name for name in log.table.column_names if name not in outage.features]
    assert broken.table.select(others).equals(log.table.select(others))
    assert frame[~inside].equals(log.to_pandas()[~inside])
    dark = inside & (frame["store_stock"] == 0.0) & (rows["store_stock"] != 0.0)
    searches = rows[inside].groupby("day")["search_id"].nunique()
    gone = frame[inside & (frame["rating"] == 0.0)].groupby(rows["day"])["search_id"].nunique()
    assert gone.tolist() == np.ceil(0.6 * searches).tolist()
    assert broken.truth is not None
    lost = covered(rows[inside], "store_stock").mean() - covered(frame[inside], "store_stock").mean()
    assert broken.truth.lost["store_stock"] == pytest.approx(lost)
    assert dark.sum() == pytest.approx(lost * inside.sum())
    first = inside & (rows["day"] == 30)
    lost = covered(rows[first], "rating").mean() - covered(frame[first], "rating").mean()
    assert broken.truth.lost_first_day["rating"] == pytest.approx(lost)


@pytest.mark.parametrize("seed", range(6))
def test_a_drawn_outage_costs_every_one_of_its_features_20_points(seed: int) -> None:
    made = make_shop_log(60, searches=200, outage=True, random_state=seed)
    assert made.truth is not None
    assert min(made.truth.lost.values()) >= 0.20
    assert made.truth.outage.day >= 30
    groups = {feature.group for feature in FEATURES if feature.name in made.truth.outage.features}
    assert len(groups) == 1


def test_an_outage_may_write_null_and_last_to_the_end() -> None:
    outage = Outage("south", ("price",), day=5, value="null")
    rows = make_shop_log(9, searches=100, outage=outage, random_state=0).to_pandas()
    dark = (rows["region"] == "south") & (rows["time"] >= "2024-01-06")
    assert rows.loc[dark, "price"].isna().all()
    assert dark.any()
    assert not rows.loc[~dark, "price"].isna().any()


def test_a_clean_log_has_no_truth_to_tell(log: ShopLog) -> None:
    assert log.truth is None


def test_daily_files_hold_the_log_by_time_or_by_arrival(log: ShopLog, tmp_path: Path) -> None:
    files = write_shop_log(log, tmp_path / "time")
    assert [file.name for file in files][:2] == ["2024-01-01.parquet", "2024-01-02.parquet"]
    assert len(files) == 60
    assert sum(pq.read_metadata(file).num_rows for file in files) == log.table.num_rows
    second = pq.read_table(files[1])
    assert {stamp.date() for stamp in second["time"].to_pylist()} == {date(2024, 1, 2)}
    arrived = write_shop_log(log, tmp_path / "arrival", by="arrival")
    assert sum(pq.read_metadata(file).num_rows for file in arrived) == log.table.num_rows
    stamps = pq.read_table(arrived[20])["time"].to_pylist()
    assert min(stamps).date() < date(2024, 1, 21)  # late ones are of earlier days


def test_another_first_day_moves_the_week_with_it() -> None:
    made = make_shop_log(3, searches=20, start=date(2025, 6, 7), random_state=0)
    assert made.to_pandas()["time"].min().date() == date(2025, 6, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"days": 0}, "days must be a whole number of at least 1. Got 0"),
        ({"searches": 2.5}, "searches must be a whole number"),
        ({"start": "yesterday"}, "start must be a date"),
        ({"random_state": -1}, "random_state must be None or"),
        ({"outage": "north"}, "outage must be None, True or an Outage. Got 'north'"),
        ({"days": 5, "outage": Outage("north", ("price",), day=5)}, "must begin within the log's 5 days"),
        ({"days": 1, "outage": True}, "no room for an outage"),
    ],
)
def test_bad_arguments_are_told(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_shop_log(**{"days": 3, "searches": 5, "random_state": 0, **arguments})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"region": "nort"}, "did you mean 'north'"),
        ({"features": ("prise",)}, "did you mean 'price'"),
        ({"features": "price"}, "must be a tuple"),
        ({"share": 0.0}, "share must be above 0"),
        ({"day": -1}, "day must be 0 or more"),
        ({"value": "nan"}, 'must be "zero" or "null"'),
    ],
)
def test_a_bad_outage_is_refused(arguments: dict[str, object], message: str) -> None:
    good = {"region": "north", "features": ("price",), "day": 1}
    with pytest.raises(BadInput, match=message):
        Outage(**{**good, **arguments})  # type: ignore[arg-type]


def test_unknown_names_are_of_their_own_kind() -> None:
    with pytest.raises(UnknownName):
        Outage("nowhere", ("price",), day=1)
    assert "north" in REGIONS


@pytest.mark.parametrize("name", ["shop_log", "shop_actions"])
def test_the_examples_in_the_docstrings_are_true(name: str) -> None:
    assert doctest.testmod(import_module(f"placings.simulate.{name}")).failed == 0
