"""Dark features first: what fell, lies below the others or has no value at all."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from placings.core import UnknownName
from placings.feco import coverage, measure_darkness, order_features

DAYS = pd.date_range("2024-01-01", periods=14)


def make_frame(**shares: tuple[float, float]) -> pd.DataFrame:
    """Coverage of each feature in the first and in the last seven days, 1,000 events a day."""
    parts = [
        pd.DataFrame({
            "feature": name, "window": DAYS, "coverage": np.repeat(each, 7), "events": 1000,
            "covered": np.repeat(np.array(each) * 1000, 7).astype(int),
        })
        for name, each in shares.items()
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def test_what_fell_or_is_nowhere_is_dark_and_a_sparse_feature_is_not() -> None:
    frame = make_frame(sparse=(0.1, 0.1), fell=(0.9, 0.6), nowhere=(0.0, 0.0), wobbles=(0.9, 0.88))
    assert measure_darkness(frame, []) == {
        ("sparse",): 0.0, ("fell",): pytest.approx(0.3), ("nowhere",): 1.0, ("wobbles",): 0.0
    }  # fmt: skip
    ordered, dark = order_features(frame, [], ["wobbles", "sparse", "fell", "nowhere"])
    assert ordered == ["nowhere", "fell", "sparse", "wobbles"]  # then the least covered
    assert dark["fell"] == pytest.approx(0.3)


def test_a_segment_below_the_others_is_dark() -> None:
    frame = pd.DataFrame({
        "feature": "rating", "region": ["north", "east", None], "events": [100, 100, 100],
        "covered": [90, 30, 90],
    })  # fmt: skip
    found = measure_darkness(frame, ["region"])
    assert found["rating", "east"] == pytest.approx(0.7 - 0.3)
    assert (found["rating", "north"], found["rating", None]) == (0.0, 0.0)


def test_the_table_begins_with_the_dark_lines() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({
        "search": np.arange(2800), "ts": np.repeat(DAYS, 200), "region": ["north", "east"] * 1400,
        "price": 1.0, "bid": (rng.random(2800) < 0.2).astype(float), "rating": 1.0, "gone": 0.0,
    })  # fmt: skip
    rows.loc[(rows["region"] == "east") & (rows["ts"] >= DAYS[10]), "rating"] = 0.0
    found = coverage(rows, event="search", time="ts", by="region", ignore=["search"])
    lines = [line.split()[:2] for line in found.table().splitlines()[2:10]]
    assert sorted(lines[:2]) == [["gone", "east"], ["gone", "north"]]
    assert lines[2] == ["rating", "east"]
    assert [name for name, _ in lines[3:5]] == ["bid", "bid"]
    assert "The darkest first" in found.table()
    assert found.table(sort="order").splitlines()[2].split()[0] == "price"
    assert found.table(top=1).splitlines()[2].split()[0] == "gone"
    with pytest.raises(UnknownName, match="no order 'drak'; did you mean 'dark'"):
        found.table(sort="drak")
