"""Numbers of a log, each against what can be counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from placings.core.errors import BadInput
from placings.core.great_circle import EARTH_KM
from placings.logs import facts as facts


def make_log() -> pd.DataFrame:
    """Four searches of three items: clicks on 1, on 3 (and 2), on 2, and none."""
    shown = [  # search, session, query, focus, clicked positions, time
        ("a", "u", "hau", (0.0, 0.0), {1}, "2024-03-03 23:30"),  # a Sunday
        ("b", "u", "haupt", (0.0, 0.0), {2, 3}, "2024-03-04 08:00"),
        ("c", "v", "markt", None, {2}, "2024-03-12 08:59"),
        ("d", "w", "nowhere at all", None, set(), "2024-03-12 09:00"),
    ]
    rows = []
    for search, session, query, focus, clicked, time in shown:
        for position, item in enumerate("xyz", 1):
            rows.append(
                {
                    "search_id": search, "session_id": session, "query": query, "time": pd.Timestamp(time),
                    "focus_lat": focus[0] if focus else math.nan,
                    "focus_lon": focus[1] if focus else math.nan,
                    "item_id": item, "name": f"place {item}", "type": "stop" if item == "x" else "poi",
                    "lat": 0.0, "lon": float(position), "position": position,
                    "label": float(position in clicked), "platform": "web",
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


LOG = make_log()
SEARCHES = facts.gather_searches(LOG)


def test_a_search_has_the_position_of_its_first_click() -> None:
    assert SEARCHES["search_id"].tolist() == ["a", "b", "c", "d"]
    assert SEARCHES["rank"].tolist()[:3] == [1.0, 2.0, 2.0]
    assert math.isnan(SEARCHES["rank"][3])
    assert SEARCHES["clicks"].tolist() == [1, 2, 1, 0]
    assert SEARCHES["length"].tolist() == [3.0, 5.0, 5.0, 14.0]
    assert SEARCHES["located"].tolist() == [1.0, 1.0, 0.0, 0.0]


def test_rows_may_stand_in_any_order() -> None:
    mixed = facts.gather_searches(LOG.sample(frac=1.0, random_state=1))
    pd.testing.assert_frame_equal(
        mixed.sort_values("search_id").reset_index(drop=True), SEARCHES, check_dtype=False
    )


def test_rows_that_cannot_be_counted_are_left_out_and_told() -> None:
    broken = LOG.astype({"position": float})
    broken.loc[0, "position"] = math.nan
    broken.loc[1, "position"] = 0
    broken.loc[3, "label"] = math.nan
    kept, notes = facts.clean_rows(broken)
    assert len(kept) == len(LOG) - 2
    assert notes == (
        "2 of 12 rows lack a search, an item or a position and are left out.",
        "1 rows have no label and count as not clicked.",
    )
    assert len(LOG) == 12  # the input is as it was
    with pytest.raises(BadInput, match="Got none named label"):
        facts.clean_rows(LOG.drop(columns="label"))
    with pytest.raises(BadInput, match="Got list"):
        facts.clean_rows([1])


def test_arrow_and_dicts_and_times_with_a_zone_are_read_too() -> None:
    import pyarrow as pa

    zoned = LOG.assign(time=LOG["time"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"))
    for given in (
        pa.Table.from_pandas(zoned),
        zoned.to_dict("list"),
        LOG.assign(time=LOG["time"].astype(str)),
    ):
        kept, notes = facts.clean_rows(given)
        assert notes == ()
        assert kept["time"].tolist() == LOG["time"].tolist()


def test_the_interval_of_a_mean_is_students() -> None:
    found = facts.estimate_mean(np.array([1.0, 2.0, 3.0, math.nan]))
    reach = 4.302653 * 1.0 / math.sqrt(3)  # t with 2 degrees of freedom · sd / √n
    assert (found.mean, found.count) == (2.0, 3)
    assert (found.low, found.high) == pytest.approx((2 - reach, 2 + reach), abs=1e-5)


def test_what_belongs_to_one_session_counts_as_one() -> None:
    values, sessions = np.array([1.0, 1.0, 0.0, 0.0]), ["u", "u", "v", "v"]
    found = facts.estimate_mean(values, sessions)
    # sums of differences +1 and −1: s² = 2/1 · (1 + 1) / 4² = 1/4; t with 1 degree of freedom is 12.706
    assert found.high == pytest.approx(0.5 + 12.7062 * 0.5, abs=1e-3)
    alone = facts.estimate_mean(values, ["a", "b", "c", "d"])
    assert alone.high == pytest.approx(facts.estimate_mean(values).high)
    assert math.isnan(facts.estimate_mean(values, ["u"] * 4).low)
    assert facts.estimate_mean(np.array([])).count == 0


def test_clicks_are_counted_by_rank_and_type() -> None:
    counts = facts.count_click_ranks(LOG, "type", deepest=2)
    table = {(row.group, row.rank): (row.clicks, row.share) for row in counts.itertuples()}
    assert table == {
        ("poi", 1): (0, 0.0), ("poi", 2): (2, 2 / 3), ("poi", 3): (1, 1 / 3),  # 3: below rank 2
        ("stop", 1): (1, 1.0), ("stop", 2): (0, 0.0), ("stop", 3): (0, 0.0),
    }  # fmt: skip
    assert facts.count_click_ranks(LOG)["clicks"].sum() == 4
    assert len(facts.count_click_ranks(LOG.assign(label=0.0))) == 0


def test_each_position_has_its_click_rate() -> None:
    found = facts.measure_positions(LOG)
    assert found["shown"].tolist() == [4, 4, 4]
    assert found["rate"].tolist() == [1 / 4, 2 / 4, 1 / 4]


def test_lengths_are_averaged_at_each_clicked_rank() -> None:
    found = facts.measure_lengths(SEARCHES)
    assert found[["rank", "searches", "mean"]].to_numpy().tolist() == [[1, 1, 3.0], [2, 2, 5.0]]
    pooled = facts.measure_lengths(SEARCHES, deepest=1)
    assert pooled["rank"].tolist() == [1, 2]  # 2 holds all below


def test_a_degree_at_the_equator_is_111_kilometres() -> None:
    away = facts.measure_distances(LOG)
    assert away[:3] == pytest.approx(np.array([1, 2, 3]) * math.pi / 180 * EARTH_KM)
    assert np.isnan(away[6:]).all()  # no position of the user
    assert np.isnan(facts.measure_distances(LOG.drop(columns="lat"))).all()


def test_failed_searches_come_from_rows_and_from_apart_once_each() -> None:
    apart = pd.DataFrame({"search_id": ["d", "e", "e", "f"], "query": ["x", "12345678", "12345678", None]})
    groups = facts.split_lengths(SEARCHES, apart)
    assert groups["successful"]["length"].tolist() == [3.0, 5.0, 5.0]
    assert groups["failed"]["length"].tolist() == [14.0, 8.0]


def test_an_abandoned_prefix_is_no_failure() -> None:
    apart = pd.DataFrame(
        {"search_id": ["e", "f"], "query": ["hau", "rath"], "outcome": ["abandoned", "failed"]}
    )
    assert facts.split_lengths(SEARCHES.head(3), apart)["failed"]["search_id"].tolist() == ["f"]
    told = SEARCHES.assign(outcome=["successful", "successful", "successful", "abandoned"])
    assert len(facts.split_lengths(told)["failed"]) == 0


def test_groups_have_their_mrr_over_searches_with_a_click() -> None:
    found = facts.compare_groups(
        SEARCHES.assign(where=np.where(SEARCHES["located"] > 0, "yes", "no")), "where"
    )
    table = {row.group: (row.searches, row.clicked, row.mrr, row.length) for row in found.itertuples()}
    assert table == {"yes": (2, 1.0, (1 + 1 / 2) / 2, 4.0), "no": (2, 0.5, 1 / 2, (5 + 14) / 2)}


def test_weeks_begin_on_monday_in_the_zone_asked_for() -> None:
    found = facts.count_weeks(LOG, top=1)
    assert found["name"].tolist() == ["place y"] * 3  # clicked twice
    assert [f"{week:%m-%d}" for week in found["week"]] == ["02-26", "03-04", "03-11"]
    assert found["clicks"].tolist() == [0, 1, 1]
    assert found["share"].tolist() == [0.0, 1 / 2, 1.0]
    later = facts.count_weeks(LOG, top=1, zone="Europe/Berlin")  # half past midnight on Monday
    assert [f"{week:%m-%d}" for week in later["week"]] == ["03-04", "03-11"]
    assert len(facts.count_weeks(LOG.drop(columns="time"))) == 0


def test_items_with_equal_clicks_come_by_their_id() -> None:
    assert list(dict.fromkeys(facts.count_weeks(LOG, top=3)["item_id"])) == ["y", "x", "z"]


def test_hours_and_weekdays_are_those_of_the_zone() -> None:
    counts = facts.count_hours(SEARCHES)
    assert counts.sum() == 4
    assert (counts[6, 23], counts[0, 8], counts[1, 8], counts[1, 9]) == (1, 1, 1, 1)
    assert facts.count_hours(SEARCHES, zone="Europe/Berlin")[0, 0] == 1
    with pytest.raises(BadInput, match="Got 'Mars/Olympus'"):
        facts.count_hours(SEARCHES, zone="Mars/Olympus")


def test_small_groups_are_pooled_and_nothing_is_a_group() -> None:
    given = pd.Series(["a"] * 4 + ["b"] * 3 + ["c", "d", "", None])
    groups = facts.name_groups(given, 2)
    assert facts.order_groups(groups) == ["a", "b", facts.OTHER]
    assert facts.order_groups(facts.name_groups(given, 9)) == ["a", "b", facts.NONE, "c", "d"]
