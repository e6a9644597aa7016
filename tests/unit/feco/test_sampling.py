"""Sampling: which events, how many, the same ones again; and what a plan's error is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from placings.core.errors import BadInput, UnknownName
from placings.data.backends import open_source
from placings.feco.sampling import SamplingPlan, default_plans, plan_errors, sample_events
from placings.feco.score import coverage

pd = pytest.importorskip("pandas")
pytest.importorskip("ibis")


def make_log(events: int = 2880, days: int = 2, rows: int = 2) -> Any:
    """Searches evenly over the days, a quarter from "us"; x lives in the morning, y in a tenth."""
    event = np.repeat(np.arange(events), rows)
    second = event * days * 86_400 // events
    return pd.DataFrame(
        {
            "search": [f"s{number}" for number in event],
            "ts": pd.Timestamp("2024-05-01") + pd.to_timedelta(second, unit="s"),
            "region": np.where(event % 4 == 0, "us", "eu"),
            "x": (second % 86_400 < 43_200).astype(float),
            "y": (np.random.default_rng(0).random(events) < 0.1).astype(float)[event],
        }
    )


LOG = make_log()


def draw(plan: SamplingPlan, log: Any = LOG, **options: Any) -> Any:
    source = open_source(log)
    rows = sample_events(source.table, plan, time="ts", event="search", **options)
    assert list(rows.columns) == list(log.columns)
    return source.ask(rows)


def find_clock(frame: Any) -> Any:
    return frame["ts"].dt.hour * 3600 + frame["ts"].dt.minute * 60 + frame["ts"].dt.second


def test_a_systematic_sample_takes_so_many_events_of_so_many_windows_a_day() -> None:
    plan = SamplingPlan(windows=8, window_minutes=10, per_window=3)
    frame = draw(plan)
    assert frame.groupby("search").size().eq(2).all()  # whole lists
    clock = find_clock(frame)
    window = np.searchsorted(plan.starts(), clock, side="right") - 1
    assert ((clock - np.array(plan.starts())[window]) < 600).all()
    counts = frame.groupby([frame["ts"].dt.date, window])["search"].nunique()
    assert counts.tolist() == [3] * 16


def test_windows_are_spread_evenly_and_the_seed_moves_their_start() -> None:
    starts = SamplingPlan(windows=8, seed=1).starts()
    assert set(np.diff(starts)) == {10_800}
    assert 0 <= starts[0] <= 10_800 - 600
    assert len({SamplingPlan(seed=seed).starts()[0] for seed in range(20)}) > 15


def test_fewer_events_than_asked_for_are_all_taken() -> None:
    plan = SamplingPlan(windows=8, window_minutes=10, per_window=1000)
    clock = find_clock(LOG)
    inside = sum(((clock >= start) & (clock < start + 600)).sum() for start in plan.starts())
    assert len(draw(plan)) == inside


def test_a_sample_depends_on_ids_and_seed_alone() -> None:
    plan = SamplingPlan(4, 60, 5)
    first = set(draw(plan)["search"])
    shuffled = LOG.sample(frac=1.0, random_state=0)
    assert set(draw(plan, shuffled)["search"]) == first
    assert set(draw(SamplingPlan(4, 60, 5, seed=1))["search"]) != first
    gone = LOG[~LOG["search"].isin(list(first)[:1])]  # one leaves: one other takes its place, the rest stay
    assert len(first & set(draw(plan, gone)["search"])) == len(first) - 1


def test_numbers_and_text_are_drawn_alike() -> None:
    plain = LOG.assign(search=LOG["search"].str[1:])
    numbers = plain.assign(search=plain["search"].astype(int))
    plan = SamplingPlan(1, 10, 40, "random")
    assert set(draw(plan, plain)["search"]) == {str(number) for number in draw(plan, numbers)["search"]}


def test_a_random_sample_takes_events_of_the_whole_day() -> None:
    frame = draw(SamplingPlan(8, 10, 25, "random"))
    assert frame.groupby(frame["ts"].dt.date)["search"].nunique().tolist() == [200, 200]
    again = draw(SamplingPlan(8, 10, 25, "random", seed=1))
    assert len(set(frame["search"]) & set(again["search"])) < 100  # of 400; 56 by chance
    hours = frame.groupby(frame["ts"].dt.hour)["search"].nunique()
    assert len(hours) == 24
    assert hours.max() < 50


def test_a_stratified_sample_keeps_the_shares_of_its_strata() -> None:
    frame = draw(SamplingPlan(8, 10, 25, "stratified", strata="region"))
    by_day = frame.groupby([frame["ts"].dt.date, "region"])["search"].nunique()
    assert by_day.tolist() == [150, 50, 150, 50]
    hours = draw(SamplingPlan(8, 10, 30, "stratified")).groupby(lambda row: 0)["ts"]
    assert hours.apply(lambda ts: ts.dt.hour.value_counts().eq(40).all()).all()  # 10 events × 2 rows × 2 days


def test_days_of_a_zone_are_sampled_by_its_clock() -> None:
    plan = SamplingPlan(2, 60, 5)
    tokyo = LOG.assign(ts=LOG["ts"].dt.tz_localize("Asia/Tokyo"))
    expected = draw(plan, LOG)
    assert set(draw(plan, tokyo, zone="Asia/Tokyo")["search"]) == set(expected["search"])


def test_coverage_of_a_sample_counts_the_sample() -> None:
    plan = SamplingPlan(8, 10, 3)
    frame = draw(plan)
    found = coverage(LOG, event="search", time="ts", sample=plan)
    assert found.to_pandas()["events"].tolist() == [24, 24] * 2
    assert found["y"] == pytest.approx(frame.groupby("search")["y"].max().mean())
    with pytest.raises(BadInput, match="Pass time= and event="):
        coverage(LOG, sample=plan)


@pytest.mark.parametrize(("options", "message"), [
    ({"windows": 0}, "windows must be a whole number of at least 1"),
    ({"per_window": 1.5}, "per_window must be a whole number"),
    ({"window_minutes": True}, "window_minutes must be"),
    ({"windows": 7}, "windows must divide a day"),
    ({"windows": 144, "window_minutes": 11}, "fit into it side by side"),
    ({"seed": "a"}, "seed must be a whole number"),
    ({"strata": "region"}, "strata belong to how='stratified'"),
])  # fmt: skip
def test_a_plan_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        SamplingPlan(**options)
    with pytest.raises(UnknownName, match="no way of sampling 'sistematic'; did you mean 'systematic'"):
        SamplingPlan(how="sistematic")


def test_ids_that_engines_write_differently_are_refused() -> None:
    with pytest.raises(BadInput, match="must be whole numbers or text to be sampled.*Got float64"):
        draw(SamplingPlan(), LOG.assign(search=LOG["search"].str[1:].astype(float)))
    with pytest.raises(UnknownName, match="column for strata"):
        draw(SamplingPlan(how="stratified", strata="regions"))


# -- how large must a sample be? --------------------------------------------------------------------------


def test_the_error_of_a_plan_is_its_distance_from_the_whole_day() -> None:
    plan = SamplingPlan(4, 60, 5, seed=7)
    found = plan_errors(LOG, time="ts", event="search", plans=plan, draws=3, day="2024-05-02")
    frame = found.to_pandas()
    assert (found.day, found.events) == ("2024-05-02", 1440)
    full = coverage(LOG, event="search", time="ts", since="2024-05-02")
    second = LOG[LOG["ts"] >= "2024-05-02"]
    shares = np.array(
        [[draw(SamplingPlan(4, 60, 5, seed=7 + n), second)[f].mean() for f in "xy"] for n in range(3)]
    )
    assert frame["full"].tolist() == [full["x"], full["y"]]
    assert frame["sampled"].tolist() == pytest.approx(shares.mean(axis=0).tolist())
    away = np.abs(shares - [full["x"], full["y"]])
    assert frame["error"].tolist() == pytest.approx(away.mean(axis=0).tolist())
    assert frame["worst"].tolist() == pytest.approx(away.max(axis=0).tolist())
    assert frame["events"].tolist() == [20.0, 20.0]


def test_larger_plans_err_less_and_exhausted_ones_are_left_out() -> None:
    found = plan_errors(LOG, "y", time="ts", event="search", draws=4)
    assert len(found.plans) == 3  # ten minutes hold ten events: 100 a window is all there is
    assert found.frame["error"].iloc[-1] < found.frame["error"].iloc[0]
    whole = plan_errors(LOG, "y", time="ts", event="search", plans=[SamplingPlan(1, 1440, 1440)], draws=1)
    assert whole.frame["error"].tolist() == [0.0]
    assert len(default_plans()) == 15


def test_plans_are_told_in_text_and_json() -> None:
    plans = [
        SamplingPlan(4, 60, 5),
        SamplingPlan(1, 10, 50, "random"),
        SamplingPlan(1, 10, 50, "stratified", strata="region"),
    ]
    found = plan_errors(LOG, time="ts", event="search", plans=plans, draws=2)
    text = found.table()
    for words in ("4 × 60 min × 5", "random 50", "stratified 50", "worst feature", "Of 2 days"):
        assert words in text
    assert json.loads(found.to_json())["rows"][0]["feature"] == "x"


def test_a_day_without_events_cannot_be_planned_for() -> None:
    with pytest.raises(BadInput, match="Got '2024-06-01'; there are 2024-05-01 to 2024-05-02"):
        plan_errors(LOG, time="ts", event="search", day="2024-06-01")
    with pytest.raises(BadInput, match="no event with an id and a time"):
        plan_errors(LOG[:0], time="ts", event="search")
    with pytest.raises(BadInput, match="draws must be"):
        plan_errors(LOG, time="ts", event="search", draws=0)
    with pytest.raises(BadInput, match="plans must be SamplingPlan values"):
        plan_errors(LOG, time="ts", event="search", plans=[8])
    with pytest.raises(BadInput, match="a sample is of events"):
        plan_errors(LOG, time="ts", event="search", within="rows")
