"""Limits: how far below the reference they lie, what a file of them may say, and where they come from."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import placings as pg
from placings.core.errors import BadFile, BadInput, PlacingsWarning, UnknownName
from placings.feco.limits import (
    Limit,
    Limits,
    adopt_rules,
    make_limits,
    parse_limits,
    read_limits,
    smooth_median,
    take_limits,
)
from placings.feco.rules import find_rules

DAYS = pd.date_range("2024-03-04", periods=28)


def daily(shares: object, events: int = 1000, **columns: object) -> pd.DataFrame:
    """A coverage frame of one feature, a window a day."""
    share = np.broadcast_to(np.asarray(shares, dtype=float), len(DAYS))
    facts = {"coverage": share, "events": events, "covered": share * events}
    return pd.DataFrame({"feature": "rating", **columns, "window": DAYS, **facts})


# -- how far ------------------------------------------------------------------------------------------


def test_without_windows_the_limit_lies_a_margin_below_the_interval() -> None:
    entry = make_limits({"price": [1.0] * 90 + [0.0] * 10}, margin=0.05).entries[0]
    z = 1.959964
    middle, half = 0.9 + z**2 / 200, z * math.sqrt(0.9 * 0.1 / 100 + z**2 / 40_000)
    low = (middle - half) / (1 + z**2 / 100)  # Wilson's
    assert entry.low == pytest.approx(low, abs=1e-6)
    assert entry.limit == pytest.approx(low - 0.05, abs=1e-6)
    assert (entry.reference, entry.events, entry.spread) == (0.9, 100, None)


def test_a_rare_feature_has_a_limit_above_zero() -> None:
    entry = make_limits({"x": [1.0] * 400 + [0.0] * 9600}).entries[0]
    assert entry.low is not None
    assert entry.limit == pytest.approx(entry.low - 0.10 * 0.04 / 0.4)  # not 10 points
    assert entry.limit > 0.02


def test_with_windows_the_limit_lies_three_spreads_and_a_margin_below_the_middle_one() -> None:
    shares = np.tile([0.80, 0.82], 14)  # the median is 0.81; of seven around, the nearer of the two
    entry = make_limits(daily(shares)).entries[0]
    around = np.abs(shares - smooth_median(shares))
    assert sorted(set(around.round(9).tolist())) == [0.0, 0.02]
    spread = 1.4826 * float(np.median(around))
    assert entry.reference == pytest.approx(0.81)
    assert entry.spread == pytest.approx(spread)
    assert entry.limit == pytest.approx(0.81 - 3 * spread - 0.10)
    assert entry.windows == 28


def test_ten_broken_days_in_the_reference_do_not_move_the_limit_much() -> None:
    rng = np.random.default_rng(0)
    healthy = 0.85 + rng.normal(0, 0.01, 28)
    broken = healthy.copy()
    broken[12:22] = 0.2
    one, other = (make_limits(daily(shares)).entries[0].limit for shares in (healthy, broken))
    assert one == pytest.approx(0.85 - 0.03 - 0.10, abs=0.03)
    assert abs(one - other) < 0.03


def test_growth_is_taken_along_and_a_decline_is_not() -> None:
    slope = np.linspace(0.4, 0.8, 28)
    grown, fallen = (make_limits(daily(shares)).entries[0] for shares in (slope, slope[::-1]))
    assert grown.reference == pytest.approx(np.median(slope[14:]))
    assert fallen.reference == pytest.approx(np.median(slope))
    assert grown.spread is not None
    assert grown.spread < 0.02  # the way up is no scatter


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999, 1.0])
def test_a_limit_is_never_above_the_reference_nor_below_zero(share: float) -> None:
    for frame in (daily(share), daily(share).drop(columns="window").head(1)):
        entry = make_limits(frame, margin=0.0, spreads=0.0).entries[0]
        assert entry.reference is not None
        assert 0.0 <= entry.limit <= entry.reference


def test_segments_have_limits_of_their_own_and_all_together_one_too() -> None:
    frame = pd.concat([daily(0.9, 3000, region="north"), daily(0.5, 1000, region="south")])
    limits = make_limits(frame, time="ts")
    assert limits.by == ("region",)
    found = {tuple(entry.segment.values()): entry.reference for entry in limits.entries}
    assert found == {(): pytest.approx(0.8), ("north",): 0.9, ("south",): 0.5}  # (3 · 0.9 + 0.5) / 4
    assert limits.counting == {"time": "ts", "window": "1d", "by": ["region"]}


def test_a_segment_with_too_few_events_gets_no_limit_and_that_is_said() -> None:
    frame = pd.concat([daily(0.9, 1000, region="north"), daily(0.5, 1, region="south")])
    limits = make_limits(frame)
    assert [entry.key[1] for entry in limits.entries] == [(), ("north",)]
    assert "Too few events for a limit: rating in region=south." in limits.notes
    with pytest.raises(BadInput, match="fewer than 50 events for every feature"):
        make_limits({"price": [1.0]})


def test_unfinished_windows_make_no_limit() -> None:
    shares = np.r_[np.full(27, 0.9), 0.1]
    entry = make_limits(daily(shares), watermark="2024-03-31T12:00", margin=0.0, spreads=0.0).entries[0]
    assert entry.windows == 27
    with pytest.raises(BadInput, match="no window of the reference ended by the watermark"):
        make_limits(daily(shares), watermark="2024-01-01")


def test_a_rule_that_data_decide_becomes_a_number_once_and_for_all() -> None:
    limits = make_limits({"x": list(range(100))}, rule="median")
    assert limits.rules == {"x": 49.5}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 1.0}, "margin must be"),
        ({"spreads": -1}, "spreads must be"),
        ({"min_events": 0}, "min_events"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        make_limits(daily(0.9), **options)  # type: ignore[arg-type]


# -- the file -----------------------------------------------------------------------------------------


@pytest.fixture
def limits() -> Limits:
    frame = pd.concat([daily(0.9, 3000, region="north"), daily(0.5, 1000, region="yes")])
    found = make_limits(
        frame, importances={"rating": 2.5}, event="search_id", within="rows", made={"from": "a log"}
    )
    return found


def test_a_file_reads_back_as_it_was_written(limits: Limits, tmp_path: Path) -> None:
    path = limits.write(tmp_path / "limits.yaml")
    again = read_limits(path)
    assert again.counting == {"event": "search_id", "within": "rows", "by": ["region"]}
    assert [entry.key for entry in again.entries] == [entry.key for entry in limits.entries]
    for one, other in zip(again.entries, limits.entries, strict=True):
        assert one.limit == pytest.approx(other.limit, rel=1e-4)
        assert (one.importance, one.min_events, one.rule) == (2.5, 50, "non_zero")
    assert again.write(tmp_path / "again.yaml").read_text() == path.read_text()
    assert path.read_text().startswith("# How far each feature's coverage may fall")


def test_a_file_of_limits_is_a_file_of_rules_too(tmp_path: Path) -> None:
    log = {"x": [0.0, 1.0, 2.0, 3.0] * 25}
    path = make_limits(log, rule={"x": 1.5}).write(tmp_path / "limits.yaml")
    assert pg.coverage(log, rule=str(path))["x"] == 0.5


def test_a_person_may_write_one_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text("min_events: 10\nfeatures:\n  price: 0.9\n  rating: {limit: 0.5, rule: positive}\n")
    price, rating = read_limits(path).entries
    assert (price.limit, price.min_events, price.rule) == (0.9, 10, "non_zero")
    assert (rating.limit, rating.rule, rating.reference) == (0.5, "positive", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("feature:\n  price: 0.9", "no entry of limits.yaml 'feature'; did you mean 'features'"),
        ("features:\n  price: {limt: 0.9}", "no entry of feature 'price' 'limt'; did you mean 'limit'"),
        ("features:\n  price: {limit: 90}", "the limit of 'price' must be a share from 0 to 1. Got 90"),
        ("features:\n  price: {limit: high}", "must be a share from 0 to 1. Got 'high'"),
        ("features:\n  price: {limit: true}", "must be a share from 0 to 1. Got True"),
        ("features:\n  price: {reference: 0.9}", "feature 'price' has no limit"),
        ("features:\n  price: yes please", "feature 'price' must have a limit"),
        ("features:\n  yes: 0.9", "write it in quotes"),
        ("features:\n  price: {limit: 0.9, rule: nonzero}", "did you mean 'non_zero'"),
        ("features:\n  price: {limit: 0.9, min_events: 2.5}", "min_events of 'price' must be a whole number"),
        ("features: {}", "must name at least one feature"),
        ("features: [price]", "features must hold entries"),
        ("version: 2\nfeatures: {price: 0.9}", "version must be 1. Got 2"),
        ("counting: {evnt: id}\nfeatures: {price: 0.9}", "did you mean 'event'"),
        ("features:\n  price: {segments: [{limit: 0.9}]}", "a segment of 'price' must be"),
        ("features:\n  price: {segments: [{segment: {city: x}, limit: 0.9}]}", "must name the columns of by"),
        ("features: {price: 0.9", "is not YAML"),
        ("- price", "must hold limits"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_told_with_the_files_name(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text(text)
    with pytest.raises(BadFile) as caught:
        read_limits(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="placings coverage init"):
        read_limits(tmp_path / "limits.yaml")


def test_two_limits_for_one_place_are_refused() -> None:
    with pytest.raises(BadInput, match="two limits for 'price'"):
        Limits((Limit("price", 0.5), Limit("price", 0.6)))


def test_a_limit_above_its_own_reference_is_warned_of() -> None:
    with pytest.warns(PlacingsWarning, match="the reference itself would fail: price in all"):
        parse_limits({"features": {"price": {"limit": 0.9, "reference": 0.8}}}, "limits.yaml")


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text(f"features: !!python/object/apply:os.mkdir ['{tmp_path}/made']\n")
    with pytest.raises(BadFile):
        read_limits(path)
    assert not (tmp_path / "made").exists()


# -- saved rankers ------------------------------------------------------------------------------------


def test_a_saved_rankers_limits_lie_below_its_coverage_in_training(tmp_path: Path) -> None:
    data = pg.make_ranking(40, n_features=3, mean_size=10, random_state=0).data
    X = data.X.copy()
    X[::2, 1] = 0.0
    ranker = pg.LinearRanker("ridge").fit(data.replace(X=X))
    ranker.save(tmp_path / "model")
    limits = take_limits(tmp_path / "model")
    assert limits.features == data.feature_names
    assert limits.entries[1].reference == pytest.approx(0.5, abs=0.01)
    assert limits.entries[1].events == 40  # queries, not rows: rows of a query are not independent
    assert limits.counting == {"within": "rows"}
    for one, other in zip(limits.entries, take_limits(ranker).entries, strict=True):
        assert one.limit == pytest.approx(other.limit, abs=1e-5)
    closer = take_limits(tmp_path / "model", margin=0.0).entries[1]
    assert closer.limit - limits.entries[1].limit == pytest.approx(0.10)


def test_what_knows_no_limits_is_refused() -> None:
    with pytest.raises(BadInput, match="limits must be a YAML file, a saved ranker's folder"):
        take_limits(3)
    with pytest.raises(BadInput, match="margin is for a ranker's coverage"):
        take_limits({"features": {"price": 0.5}}, margin=0.1)


def test_the_table_shows_every_limit_and_the_dict_is_plain(limits: Limits) -> None:
    assert limits.table().count("rating") == 3
    assert yaml.safe_load(yaml.safe_dump(limits.to_dict()))["features"]["rating"]["importance"] == 2.5


def test_an_unknown_column_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'price'"):
        make_limits({"price": [1.0] * 60}, ["prise"])


def test_a_ranker_keeps_the_rules_of_its_features_and_its_bundle_does(tmp_path: Path) -> None:
    X = np.array([[1.0, -1.0], [0.0, -2.0], [3.0, 0.0], [5.0, np.nan]] * 10, dtype=np.float32)
    data = pg.RankingData.from_arrays(
        X, [1.0, 0.0, 2.0, 0.0] * 10, np.repeat(range(10), 4), feature_names=("clicks", "change")
    )
    ranker = pg.LinearRanker(loss="ridge").fit(data)
    assert ranker.coverage_.tolist() == [0.75, 0.5]  # not zero, and there
    adopt_rules(ranker, data, {"clicks": "median", "change": "positive"})
    assert ranker.coverage_.tolist() == [0.5, 0.0]  # above (1 + 3) / 2; never above 0
    assert ranker.coverage_rules_ == {"clicks": 2.0, "change": "positive"}
    ranker.save(tmp_path / "model")
    assert find_rules(tmp_path / "model", ["clicks", "change"]) == {"clicks": 2.0, "change": "positive"}
    assert pg.load(tmp_path / "model").coverage_rules_ == ranker.coverage_rules_
    for held in (take_limits(tmp_path / "model"), take_limits(ranker)):
        assert {entry.feature: (entry.rule, entry.reference) for entry in held.entries} == {
            "clicks": (2.0, 0.5),
            "change": ("positive", 0.0),
        }
    with pytest.raises(UnknownName, match="no feature of the ranker 'click'"):
        adopt_rules(ranker, data, {"click": "positive"})
