"""The gate: what closes it, what does not, and that it fires on outage days alone."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

import placings as pg
from placings.core.errors import BadInput, UnknownName
from placings.feco.gate import Verdict, check_coverage
from placings.feco.limits import make_limits
from placings.simulate.shop_log import make_shop_log

DAY = pd.Timestamp("2024-03-04")


def rows(covered: int, events: int, feature: str = "price", **columns: Any) -> pd.DataFrame:
    share = covered / events if events else np.nan
    facts = {"coverage": [share], "events": [events], "covered": [covered]}
    return pd.DataFrame({"feature": [feature], **columns, **facts})


def hold(limit: float, **others: Any) -> dict[str, Any]:
    return {"features": {"price": {"limit": limit, **others}}}


def state_of(frame: pd.DataFrame, limits: Any, **options: Any) -> str:
    return check_coverage(frame, limits, **options).findings[0].state


# -- judging ------------------------------------------------------------------------------------------


def test_a_feature_fails_when_its_whole_interval_lies_below_the_limit() -> None:
    # 80 of 100: Wilson's interval is 0.711 to 0.867
    assert state_of(rows(80, 100), hold(0.87)) == "below"
    assert state_of(rows(80, 100), hold(0.86)) == "low"
    assert state_of(rows(80, 100), hold(0.80)) == "ok"
    assert not check_coverage(rows(80, 100), hold(0.87)).passed
    assert check_coverage(rows(80, 100), hold(0.86)).passed


def test_too_few_events_are_not_judged() -> None:
    assert state_of(rows(0, 49), hold(0.9)) == "few events"
    assert state_of(rows(0, 50), hold(0.9)) == "below"
    assert state_of(rows(0, 49), hold(0.9, min_events=10)) == "below"
    assert state_of(rows(0, 50), hold(0.9), min_events=60) == "few events"


def test_no_data_is_its_own_state_and_fails_unless_told_otherwise() -> None:
    empty = rows(0, 0)
    for option, passes in (("fail", False), ("warn", True), ("ignore", True)):
        verdict = check_coverage(empty, hold(0.9), no_data=option)
        assert verdict.findings[0].state == "no data"
        assert verdict.passed is passes
    assert "no data" in check_coverage(empty, hold(0.9)).reasons[0]
    with pytest.raises(UnknownName, match="no meaning of no data 'skip'"):
        check_coverage(empty, hold(0.9), no_data="skip")


def test_a_gate_that_could_judge_nothing_is_closed() -> None:
    verdict = check_coverage(rows(40, 40), hold(0.9))
    assert not verdict.passed
    assert verdict.reasons == ("nothing could be judged: every feature has too few events",)
    assert check_coverage(rows(40, 40), hold(0.9), no_data="warn").passed


def test_a_feature_that_a_frame_lacks_has_no_data() -> None:
    limits = {"features": {"price": 0.5, "rating": 0.5}}
    verdict = check_coverage(rows(90, 100), limits)
    assert [(each.limit.feature, each.state) for each in verdict.findings] == [
        ("rating", "no data"),
        ("price", "ok"),
    ]


def test_a_feature_that_a_table_lacks_is_absent_and_closes_the_gate() -> None:
    """Coverage 0 of all events, told once and first, whatever no data means; also where the limit is 0."""
    log = {"search": np.arange(60), "region": ["n", "s"] * 30, "prices": [1.0] * 60, "clicks": [1.0] * 60}
    limits = {
        "counting": {"event": "search", "by": ["region"]},
        "features": {"price": 0.0, "clicks": 0.5},
    }
    for option in ("fail", "warn", "ignore"):
        verdict = check_coverage(log, limits, no_data=option)
        assert not verdict.passed
        first, *others = verdict.findings
        assert (first.state, first.limit.feature, first.coverage, first.events) == (
            "absent",
            "price",
            0.0,
            60,
        )
        assert {each.limit.feature for each in others} == {"clicks"}
    assert verdict.summary.startswith("failed: price (1 absent, ")
    assert verdict.reasons == ("price: absent, no such column (60 events; limit 0.0 %)",)
    assert "'price' (is it 'prices' now?)" in " ".join(verdict.notes)
    told = json.loads(verdict.to_json())["findings"][0]
    assert (told["state"], told["coverage"]) == ("absent", 0.0)


def test_all_features_may_be_gone_as_long_as_the_table_is_the_right_one() -> None:
    log = {"search": np.arange(60), "other": [1.0] * 60}
    verdict = check_coverage(log, {"counting": {"event": "search"}, **hold(0.5)})
    assert [each.state for each in verdict.findings] == ["absent"]
    with pytest.raises(BadInput, match="'price' .is it 'prices' now.*Is it the right file"):
        check_coverage({"prices": [1.0] * 60}, hold(0.5))  # no column in common


def test_training_data_without_a_feature_are_refused_by_the_gate_not_by_an_error() -> None:
    data = pg.make_ranking(80, n_features=3, mean_size=5, random_state=0).data
    ranker = pg.LinearRanker("ridge").fit(data)
    kept = data.feature_names[1:]
    lacking = data.replace(X=np.asarray(data.X)[:, 1:], feature_names=kept)
    verdict = check_coverage(lacking, ranker)
    assert not verdict.passed
    assert [each.limit.feature for each in verdict.findings if each.state == "absent"] == [
        data.feature_names[0]
    ]
    foreign = data.replace(feature_names=("a", "b", "c"))
    with pytest.raises(UnknownName, match="no feature of LinearRanker in the data named"):
        check_coverage(foreign, ranker)


def test_hardly_any_events_of_the_usual_is_no_data_and_a_sparse_segment_is_not() -> None:
    days = pd.date_range("2024-01-01", periods=28)
    usual = pd.concat(
        [
            pd.DataFrame({"feature": "price", "region": region, "window": days, "coverage": 0.9, "events": n})
            for region, n in (("north", 2000), ("tiny", 10))
        ]
    )
    limits = make_limits(usual)
    today = usual[usual["window"] == days[0]].assign(window=pd.Timestamp("2024-01-29"))
    today.loc[today["region"] == "north", "events"] = 99  # below 5 % of 2000
    states = {name_of(each): each.state for each in check_coverage(today, limits).findings}
    assert states["north"] == "no data"
    assert states["tiny"] == "few events"
    gone = today[today["region"] == "north"].assign(events=2000)
    assert {name_of(each): each.state for each in check_coverage(gone, limits).findings}[
        "tiny"
    ] == "few events"


def name_of(finding: Any) -> str:
    return str(finding.limit.segment.get("region", "all"))


def test_unfinished_windows_are_not_judged() -> None:
    frame = pd.concat([rows(90, 100, window=DAY), rows(0, 100, window=DAY + pd.Timedelta(days=1))])
    assert not check_coverage(frame, hold(0.5)).passed
    verdict = check_coverage(frame, hold(0.5), watermark="2024-03-05T23:59")
    assert verdict.passed
    assert [str(window) for window in verdict.unfinished] == ["2024-03-05 00:00:00"]
    assert "Not finished by the watermark, so not judged: 2024-03-05." in verdict.notes
    assert not check_coverage(frame, hold(0.5), watermark="2024-03-06").passed
    nothing = check_coverage(frame, hold(0.5), watermark="2024-03-01")
    assert nothing.passed
    assert nothing.findings == ()
    assert nothing.summary == "passed: nothing was judged, no window is finished"


def test_a_day_of_23_hours_is_finished_after_23() -> None:
    times = pd.date_range("2024-03-30T23:00", "2024-03-31T21:59", periods=60)  # Berlin's short Sunday
    log = pd.DataFrame({"ts": times, "price": 0.0})
    options = {"time": "ts", "zone": "Europe/Berlin"}
    assert check_coverage(log, hold(0.5), watermark="2024-03-31T21:59", **options).findings == ()
    assert not check_coverage(log, hold(0.5), watermark="2024-03-31T22:00", **options).passed


def test_segments_are_judged_and_those_without_a_limit_are_said() -> None:
    limits = {
        "counting": {"by": ["region"]},
        "features": {
            "price": {"limit": 0.6, "segments": [{"segment": {"region": "north"}, "limit": 0.8}]},
        },
    }
    frame = pd.concat([rows(500, 1000, region="north"), rows(1000, 1000, region="south")])
    verdict = check_coverage(frame, limits)
    assert {name_of(each): each.state for each in verdict.findings} == {"north": "below", "all": "ok"}
    assert verdict.findings[1].coverage == 0.75  # 1500 of 2000
    assert "Segments without a limit: south." in verdict.notes
    with pytest.raises(BadInput, match="has limits by"):
        check_coverage(rows(1, 2), limits)


def test_the_most_important_failure_comes_first() -> None:
    limits = {
        "features": {"price": {"limit": 0.9, "importance": 1}, "rating": {"limit": 0.6, "importance": 5}}
    }
    verdict = check_coverage(pd.concat([rows(0, 100), rows(0, 100, "rating")]), limits)
    assert [each.limit.feature for each in verdict.failures] == ["rating", "price"]


def test_a_table_is_counted_as_the_limits_say_and_settings_win() -> None:
    log = {"search": np.repeat(np.arange(100), 2), "price": np.tile([1.0, 0.0], 100)}
    limits = make_limits(log, ["price"], event="search")
    assert limits.entries[0].reference == 1.0
    assert check_coverage(log, limits).passed
    assert not check_coverage(log, limits, within="rows").passed  # half of the rows


def test_json_is_plain_and_says_why() -> None:
    told = json.loads(check_coverage(rows(0, 100), hold(0.9)).to_json())
    assert told["passed"] is False
    assert told["findings"][0]["state"] == "below"
    assert told["reasons"] == ["price in all: 0.0 % (0.0 % – 3.7 %) of 100 events; limit 90.0 %"]
    assert json.loads(check_coverage(rows(0, 0), hold(0.9)).to_json())["findings"][0]["coverage"] is None


def test_the_table_shows_findings_and_the_summary() -> None:
    table = check_coverage(rows(0, 100), hold(0.9)).table()
    assert "failed: price (1 below)" in table
    assert "below" in table.splitlines()[2]


# -- rankers and training data ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def data() -> pg.RankingData:
    return pg.make_ranking(80, n_features=3, mean_size=10, random_state=0).data


def test_a_ranker_vouches_for_data_like_its_own_and_not_for_dark_ones(data: pg.RankingData) -> None:
    ranker = pg.LinearRanker("ridge").fit(data)
    frame = data.to_pandas()
    assert check_coverage(frame, ranker, event="qid").passed
    name = data.feature_names[0]
    dark = check_coverage(frame.assign(**{name: 0.0}), ranker, event="qid")
    assert [each.limit.feature for each in dark.failures] == [name]
    with pytest.raises(BadInput, match="within must be 'rows'. Got 'any'"):
        check_coverage(frame, ranker, event="qid", within="any")


def test_training_data_are_judged_as_a_whole_their_queries_the_events(data: pg.RankingData) -> None:
    name = data.feature_names[0]
    limits = {"counting": {"event": "search_id", "time": "ts"}, "features": {name: 0.9}}
    assert check_coverage(data, limits).findings[0].events == 80
    X = data.X.copy()
    X[: data.offsets[40], 0] = 0.0  # half of the queries
    assert not check_coverage(data.replace(X=X), limits).passed
    with pytest.raises(UnknownName, match="in the data named 'price'"):
        check_coverage(data, hold(0.5))


def test_training_data_without_the_segments_are_judged_all_together(data: pg.RankingData) -> None:
    name = data.feature_names[0]
    segment = [{"segment": {"region": "north"}, "limit": 0.8}]
    limits = {"counting": {"by": "region"}, "features": {name: {"limit": 0.8, "segments": segment}}}
    verdict = check_coverage(data, limits)
    assert len(verdict.findings) == 1
    assert "only everything together was judged" in verdict.notes[-1]
    north = data.replace(segments={"region": np.full(data.n_rows, "north")})
    assert len(check_coverage(north, limits).findings) == 2


# -- the gate fires on outage days alone ----------------------------------------------------------------


def walk_days(seed: int, *, outage: bool) -> tuple[set[int], set[int], dict[int, Verdict]]:
    """A generated log's dark days and the days on which the gate closed: from the fifth week on each day is
    checked in turn, against limits that are made anew each week from the four weeks before."""
    log = make_shop_log(outage=outage, random_state=seed)
    found = pg.coverage(log.table, log.features, event="search_id", within="rows", by="region", time="time")
    frame = found.to_pandas()
    days = sorted(frame["window"].unique())
    closed = {}
    for day in range(28, log.days):
        if (day - 28) % 7 == 0:
            weeks = frame["window"].between(days[day - 28], days[day - 1])
            limits = make_limits(frame[weeks])
        verdict = check_coverage(frame[frame["window"] == days[day]], limits)
        if not verdict.passed:
            closed[day] = verdict
    if log.truth is None:
        return set(), set(closed), closed
    outage_days = range(log.truth.outage.day, log.truth.outage.last_day(log.days) + 1)
    for verdict in closed.values():
        for each in verdict.failures:
            assert each.limit.feature in log.truth.outage.features
            assert each.limit.segment.get("region", log.truth.outage.region) == log.truth.outage.region
    return set(outage_days), set(closed), closed


def test_the_gate_fires_on_outage_days_alone() -> None:
    dark, closed, _ = walk_days(301, outage=True)
    assert dark
    assert closed == dark


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(302, 315))
def test_the_gate_fires_on_outage_days_alone_on_more_logs(seed: int) -> None:
    dark, closed, _ = walk_days(seed, outage=seed % 2 == 1)
    assert closed == dark
