"""Incidents: what belongs together is one, what does not is two."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from placings.feco.alerts import Alert, State, group_alerts, name_segment, name_some, say_time

WINDOWS = [datetime(2024, 1, 1) + timedelta(days=day) for day in range(30)]


def raise_alert(
    feature: str,
    segment: Mapping[str, object],
    day: int,
    state: State = "severe",
    *,
    onset: int | None = None,
    drop: float = 0.3,
    importance: float = 1.0,
) -> Alert:
    score = drop * importance
    return Alert(
        feature=feature,
        segment=segment,
        window=WINDOWS[day],
        state=state,
        coverage=0.8 - drop,
        baseline=0.8,
        drop=drop,
        low=drop - 0.05,
        high=drop + 0.05,
        mix=0.0,
        p=1e-6,
        q=1e-5,
        events=1000,
        usual_events=1000.0,
        importance=importance,
        score=score,
        severity="high" if score >= 0.1 else "low",
        onset=WINDOWS[day if onset is None else onset],
        whole=not segment,
    )


NORTH, SOUTH, ALL = {"region": "north"}, {"region": "south"}, {}


def test_features_of_one_segment_that_fall_on_one_day_are_one_incident() -> None:
    alerts = [
        raise_alert("clicks", NORTH, 10),
        raise_alert("carts", NORTH, 11),
        raise_alert("clicks", NORTH, 11),
    ]
    (incident,) = group_alerts(alerts, WINDOWS)
    assert set(incident.features) == {"clicks", "carts"}
    assert (incident.onset, incident.flagged, incident.last) == (WINDOWS[10], WINDOWS[10], WINDOWS[11])
    assert not incident.ongoing


def test_a_silent_log_is_another_incident_than_the_drop_before_it() -> None:
    alerts = [raise_alert("clicks", NORTH, day) for day in (10, 11)]
    alerts += [raise_alert(name, NORTH, 12, "no data") for name in ("clicks", "price", "rating")]
    drop, silence = group_alerts(alerts, WINDOWS)
    assert (drop.state, drop.features, drop.last) == ("severe", ("clicks",), WINDOWS[11])
    assert (silence.state, set(silence.features)) == ("no data", {"clicks", "price", "rating"})


def test_features_that_fall_days_apart_are_two() -> None:
    alerts = [raise_alert("clicks", NORTH, 10), raise_alert("price", NORTH, 13)]
    assert len(group_alerts(alerts, WINDOWS)) == 2


def test_one_feature_that_spreads_from_region_to_region_is_one() -> None:
    alerts = [raise_alert("clicks", NORTH, day) for day in range(10, 16)]
    alerts += [raise_alert("clicks", SOUTH, day) for day in range(14, 16)]
    (incident,) = group_alerts(alerts, WINDOWS)
    assert [dict(segment) for segment in incident.segments] == [NORTH, SOUTH]


def test_two_outages_in_two_regions_on_one_day_stay_two_although_the_whole_shows_both() -> None:
    alerts = [raise_alert("clicks", NORTH, 10), raise_alert("price", SOUTH, 10)]
    alerts += [raise_alert("clicks", ALL, 10, drop=0.1), raise_alert("price", ALL, 10, drop=0.1)]
    found = group_alerts(alerts, WINDOWS)
    assert {(incident.features, name_segment(incident.segments[0])) for incident in found} == {
        (("clicks",), "region=north"),
        (("price",), "region=south"),
    }
    assert [len(incident.alerts) for incident in found] == [2, 2]


def test_features_that_fall_everywhere_but_in_no_segment_alone_are_one() -> None:
    found = group_alerts([raise_alert("clicks", ALL, 10), raise_alert("price", ALL, 10)], WINDOWS)
    assert len(found) == 1
    assert name_segment(found[0].segments[0]) == "all"


def test_short_silence_is_one_incident_and_a_long_one_two() -> None:
    short = [raise_alert("clicks", NORTH, day) for day in (10, 13)]  # two silent windows
    assert len(group_alerts(short, WINDOWS)) == 1
    assert len(group_alerts(short, WINDOWS, quiet=1)) == 2
    assert len(group_alerts([raise_alert("clicks", NORTH, day) for day in (10, 14)], WINDOWS)) == 2


def test_a_mild_drop_that_was_confirmed_later_belongs_by_its_onset() -> None:
    alerts = [raise_alert("clicks", NORTH, 10), raise_alert("ctr", NORTH, 12, "mild", onset=10, drop=0.06)]
    (incident,) = group_alerts(alerts, WINDOWS)
    assert incident.state == "severe"


def test_a_shift_in_the_mix_makes_no_incident() -> None:
    assert group_alerts([raise_alert("clicks", ALL, 10, "mix shift")], WINDOWS) == ()


def test_the_worst_and_most_important_come_first() -> None:
    alerts = [
        raise_alert("minor", NORTH, 10, drop=0.3, importance=0.1),
        raise_alert("major", SOUTH, 20, drop=0.3),
        raise_alert("mild", {"region": "west"}, 5, "mild", onset=4, drop=0.3),
        raise_alert("gone", {"region": "east"}, 15, "no data"),
    ]
    found = group_alerts(alerts, WINDOWS)
    assert [incident.features[0] for incident in found] == ["major", "minor", "gone", "mild"]
    assert [incident.number for incident in found] == [1, 2, 3, 4]
    assert [incident.severity for incident in found] == ["high", "low", "high", "high"]


def test_an_incident_goes_on_if_the_last_window_is_hit() -> None:
    (incident,) = group_alerts([raise_alert("clicks", NORTH, 29)], WINDOWS)
    assert incident.ongoing
    assert incident.to_dict()["ongoing"] is True


def test_a_headline_says_what_where_when_and_how_much() -> None:
    names = ["a", "b", "c", "d", "e"]
    alerts = [raise_alert(name, NORTH, 10, drop=0.5 if name == "c" else 0.3) for name in names]
    (incident,) = group_alerts(alerts, WINDOWS)
    expected = "severe drop of c, a, b, d and 1 more in region=north since 2024-01-11: c 80 % → 30 %"
    assert incident.headline == expected
    assert incident.runbook == "placings coverage runbook severe-drop"
    assert incident.drop == 0.5


def test_words() -> None:
    assert name_segment({"region": "north", "platform": None}) == "region=north, platform=missing"
    assert name_some(["a", "b"]) == "a, b"
    assert say_time(datetime(2024, 1, 2)) == "2024-01-02"
    assert say_time(datetime(2024, 1, 2, 15)) == "2024-01-02 15:00"
