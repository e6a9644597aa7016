"""The shop log as searches and actions: nothing lost, purchases behind carts, what is broken counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from placings.core.errors import BadInput
from placings.logs.joins import join_logs
from placings.simulate.shop_actions import ShopActions, make_shop_actions
from placings.simulate.shop_log import ShopLog, make_shop_log


@pytest.fixture(scope="module")
def log() -> ShopLog:
    return make_shop_log(14, searches=150, random_state=3)


@pytest.fixture(scope="module")
def shop(log: ShopLog) -> ShopActions:
    return make_shop_actions(log)


@pytest.fixture(scope="module")
def actions(shop: ShopActions) -> pd.DataFrame:
    return shop.actions.to_pandas()


def test_every_row_of_the_log_is_in_its_list_at_its_position(log: ShopLog, shop: ShopActions) -> None:
    rows = shop.to_rows(unsuccessful="negatives")
    flat = log.to_pandas()
    assert len(rows) == len(flat)
    assert rows["item_id"].tolist() == flat["item"].tolist()
    assert rows["position"].tolist() == flat["position"].tolist()
    assert rows["query"].tolist() == flat["query"].tolist()
    for name in log.features:
        np.testing.assert_array_equal(rows[name].to_numpy(), flat[name].to_numpy())
    assert rows["search_id"].nunique() == shop.searches.num_rows == flat["search_id"].nunique()


def test_every_click_is_an_action_and_no_other(log: ShopLog, actions: pd.DataFrame) -> None:
    flat = log.to_pandas()
    clicked = flat[flat["click"]]
    expected = {
        (f"q{search:07d}", item) for search, item in zip(clicked["search_id"], clicked["item"], strict=True)
    }
    told = actions[actions["action"] == "click"]
    assert set(zip(told["search_id"], told["item_id"], strict=True)) == expected
    assert len(told) == len(expected)


def test_a_purchase_follows_a_cart_and_a_cart_a_click_within_the_hour(
    shop: ShopActions, actions: pd.DataFrame
) -> None:
    when = actions.pivot(index=["search_id", "item_id"], columns="action", values="time")
    assert when["click"].notna().all()
    carted, bought = when.dropna(subset=["cart"]), when.dropna(subset=["purchase"])
    assert 0 < len(bought) < len(carted) < len(when)
    assert (carted["cart"] > carted["click"]).all()
    assert (bought["purchase"] > bought["cart"]).all()
    begun = shop.searches.to_pandas().set_index("search_id")["time"]
    latest = when.max(axis=1) - begun[when.index.get_level_values("search_id")].to_numpy()
    assert latest.max() < pd.Timedelta("1h")
    assert actions["time"].is_monotonic_increasing


def test_what_is_rated_well_is_bought_more() -> None:
    shop = make_shop_actions(make_shop_log(20, searches=500, random_state=0))
    rows = shop.to_rows()
    rows = rows[(rows["label"] > 0) & rows["rating"].notna()]
    bought = (rows["label"] == 3.0).groupby(rows["rating"] > 3.0).mean()
    assert bought[True] > bought[False] + 0.05


def test_grades_are_click_1_cart_2_purchase_3_and_the_highest_counts(shop: ShopActions) -> None:
    rows = shop.to_rows()
    told = shop.actions["action"].value_counts().to_pylist()
    counts = {each["values"]: each["counts"] for each in told}
    graded = rows["label"].value_counts()
    assert graded[3.0] == counts["purchase"]
    assert graded[2.0] == counts["cart"] - counts["purchase"]
    assert graded[1.0] == counts["click"] - counts["cart"]
    assert (rows.groupby("search_id")["label"].max() > 0).all()


def test_rows_are_those_of_the_join_of_the_files(log: ShopLog, tmp_path: Path) -> None:
    broken = make_shop_actions(log, broken=0.1)
    own = broken.to_rows(unsuccessful="negatives")
    with join_logs(*broken.write(tmp_path), unsuccessful="negatives") as joined:
        pd.testing.assert_frame_equal(own, joined.rows)
        counts = joined.report.outcomes
    outcomes = own.drop_duplicates("search_id")["outcome"].value_counts()
    assert {name: int(count) for name, count in outcomes.items()} == {n: c for n, c in counts.items() if c}


def test_sessions_are_of_one_region_and_platform_and_some_hold_several_searches(shop: ShopActions) -> None:
    sessions = shop.searches.to_pandas().groupby("session_id")
    assert (sessions[["region", "platform"]].nunique() == 1).all().all()
    assert 1.0 < sessions.size().mean() < 2.0
    assert (sessions["time"].diff().dropna() <= pd.Timedelta("10min")).all()


def test_broken_events_are_as_many_as_said_and_the_searches_stay(log: ShopLog, shop: ShopActions) -> None:
    broken = make_shop_actions(log, broken=0.1)
    assert broken.searches.equals(shop.searches)
    assert sum(broken.broken.values()) == round(0.1 * shop.actions.num_rows)
    frame = broken.actions.to_pandas()
    known = set(shop.searches["search_id"].to_pylist())
    assert (~frame["search_id"].isin(known)).sum() == broken.broken["orphaned"]
    assert (frame["item_id"] == "item 99999").sum() == broken.broken["not shown"]
    assert frame.duplicated().sum() == broken.broken["doubled"]
    begun = broken.searches.to_pandas().set_index("search_id")["time"]
    waited = frame["time"] - frame["search_id"].map(begun)
    assert (waited > pd.Timedelta("1d")).sum() == broken.broken["late"]
    assert (waited < pd.Timedelta(0)).sum() == broken.broken["early"]
    assert shop.broken == dict.fromkeys(broken.broken, 0)
    with pytest.raises(BadInput, match=r"broken must lie between 0 and 0.5. Got 0.9"):
        make_shop_actions(log, broken=0.9)


def test_the_same_log_gives_the_same_actions(log: ShopLog, shop: ShopActions, tmp_path: Path) -> None:
    again = make_shop_actions(log)
    assert again.actions.equals(shop.actions)
    assert again.searches.equals(shop.searches)
    files = shop.write(tmp_path / "shop")
    assert [file.name for file in files] == ["searches.parquet", "actions.parquet"]
    assert pq.read_table(files[0]).equals(shop.searches)
