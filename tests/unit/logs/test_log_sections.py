"""Sections against lists that can be counted by hand."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from placings.logs.facts import weigh_sections


def make_lists(*lists: str) -> pd.DataFrame:
    """A letter an item, its type; a capital one is clicked."""
    rows = [
        {
            "search_id": number, "position": position, "type": letter.lower(),
            "label": float(letter.isupper()), "item_id": f"{number}{position}",
        }
        for number, letters in enumerate(lists)
        for position, letter in enumerate(letters, 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_shares_lift_and_both_ranks_of_each_type() -> None:
    table, _ = weigh_sections(make_lists("sspP", "Ssps", "ppS"))
    rows = {row.group: row for row in table.itertuples()}
    stops, points = rows["s"], rows["p"]
    assert (stops.shown, stops.clicked, points.shown, points.clicked) == (6, 2, 5, 1)
    assert (stops.shown_share, stops.clicked_share) == (6 / 11, 2 / 3)
    assert stops.lift == pytest.approx((2 / 3) / (6 / 11))
    assert stops.mrr == (1 / 1 + 1 / 3) / 2  # positions 1 and 3
    assert stops.mrr_within == (1 / 1 + 1 / 1) / 2  # the first of its section both times
    assert (points.mrr, points.mrr_within) == (1 / 4, 1 / 2)


def test_the_top_item_of_a_section_is_judged_by_where_the_section_stands() -> None:
    table, _ = weigh_sections(make_lists("sspP", "Ssps", "ppS"))
    rows = {row.group: row for row in table.itertuples()}
    assert rows["s"].first == 2 / 3  # heads two of its three lists
    assert (rows["s"].top_first, rows["s"].top_later) == (1 / 2, 1.0)
    assert (rows["p"].top_first, rows["p"].top_later) == (0.0, 0.0)


def test_lists_are_grouped_where_no_type_comes_back() -> None:
    assert weigh_sections(make_lists("ssp", "sps", "ss"))[1] == 1 / 2  # the last shows one type only
    assert math.isnan(weigh_sections(make_lists("ss", "p"))[1])


def test_rows_may_stand_in_any_order() -> None:
    lists = make_lists("sspP", "Ssps", "ppS")
    mixed = weigh_sections(lists.sample(frac=1.0, random_state=0))
    ordered = weigh_sections(lists)
    assert mixed[1] == pytest.approx(ordered[1], rel=1e-12)
    pd.testing.assert_frame_equal(mixed[0], ordered[0])
