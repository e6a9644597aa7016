"""The figure of where the first relevant item stands."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.report.figures import draw_rank_distribution


def test_it_is_svg_that_names_each_method_and_what_lies_below() -> None:
    text = draw_rank_distribution({"old & <b>": [1, 2, np.nan, 50], "new $x$": [1, 1, 1, 3]}, deepest=10)
    drawn = " ".join("".join(each.itertext()) for each in ElementTree.fromstring(text).iter())
    assert "old & <b> (3 queries, 33.3% below 10)" in drawn
    assert "new $x$ (4 queries, 0.0% below 10)" in drawn


def test_the_same_ranks_give_the_same_bytes_and_nothing_relevant_is_drawn_too() -> None:
    ranks = {"one": [1.0, 3.0, np.nan]}
    assert draw_rank_distribution(ranks) == draw_rank_distribution(ranks)
    assert "(0 queries" in draw_rank_distribution({"none": [np.nan]})
    with pytest.raises(BadInput, match="no method to draw"):
        draw_rank_distribution({})
