"""What metrics refuse: each shared check is tried whole on one metric, and every metric reaches it."""

from __future__ import annotations

import numpy as np
import pytest

from placings.core.errors import BadInput
from placings.metrics import METRICS, metric

OFFSETS = ([0, 1], [1, 3], [0, 2, 1, 3], [0.0, 3.0], [], [[0, 3]], "03")
NAN_SCORE = r"scores must not be NaN. Got 1 NaN, the first at row 1"
BAD_LABEL = "labels must be finite and 0 or more"
SHAPES = r"scores and labels must have one value for each row. Got 2 and 3"
FLAT = r"scores must be one-dimensional, one value a row. Got shape \(1, 2\)"
CUTOFF = r"k must be a whole number of 1 or more, or None for all ranks. Got"
MIN_ITEMS = "min_items must be a whole number of 0 or more"


@pytest.mark.parametrize("offsets", OFFSETS)
def test_bad_offsets_are_refused(offsets):
    with pytest.raises(BadInput, match="offsets must"):
        metric("ndcg@3")([1.0, 2.0, 3.0], [1, 0, 1], offsets)


@pytest.mark.parametrize("k", [0, -1, 1.0, True, "3"])
def test_a_cutoff_is_a_whole_number_of_one_or_more(k):
    with pytest.raises(BadInput, match=CUTOFF):
        METRICS["ndcg"].function([1.0], [1], k=k)


@pytest.mark.parametrize("min_items", [-1, 1.5, True, None])
def test_min_items_is_a_whole_number(min_items):
    with pytest.raises(BadInput, match=MIN_ITEMS):
        metric("ndcg@3", min_items=min_items)


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_refuses_bad_rows_offsets_and_settings(name):
    for cutoff in ("", "@3"):
        asked = metric(f"{name}{cutoff}")
        for message, given in (
            (NAN_SCORE, ([1.0, np.nan], [1, 0])),
            (BAD_LABEL, ([1.0, 2.0], [1, np.nan])),
            (BAD_LABEL, ([1.0, 2.0], [1, -1])),
            (SHAPES, ([1.0, 2.0], [1, 0, 1])),
            (FLAT, ([[1.0, 2.0]], [1, 0])),
            ("offsets must", ([1.0, 2.0, 3.0], [1, 0, 1], [0, 1])),
        ):
            with pytest.raises(BadInput, match=message):
                asked(*given)
    with pytest.raises(BadInput, match=CUTOFF):
        METRICS[name].function([1.0], [1], k=0)
    with pytest.raises(BadInput, match=MIN_ITEMS):
        metric(name, min_items=-1)
