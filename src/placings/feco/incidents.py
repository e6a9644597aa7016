"""Alerts, and the incidents that they make up: features and segments that go dark together are one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from placings.feco.judgements import MOST
from placings.feco.runbook import COMMAND

State = Literal["ok", "mild", "severe", "no data", "mix shift", "overall drop", "not judged"]
Severity = Literal["low", "medium", "high"]

RUNBOOK: dict[str, str] = {  # the entry of each state
    "severe": "severe-drop",
    "mild": "mild-drop",
    "no data": "no-data",
    "mix shift": "mix-shift",
    "overall drop": "overall-drop",
}
NOTABLE_MIX = 0.01  # a point of coverage
GRAVE = ("mild", "no data", "severe")  # from the least to the worst


@dataclass(frozen=True)
class Alert:
    """One feature of one segment in one window that is not as it should be.

    `drop` is baseline minus coverage as a share (0.2 is 20 points), `low` and `high` its interval. In a group
    of several segments `drop` is the loss within them, and `mix` what the shift between them adds; in a
    segment itself `mix` is 0. `onset` is the first suspicious window of the run that led here. `score` is
    drop × the feature's importance relative to the most important one, and `severity` its band.
    """

    feature: str
    segment: Mapping[str, Any]
    window: datetime
    state: State
    coverage: float
    baseline: float
    drop: float
    low: float
    high: float
    mix: float
    p: float
    q: float
    events: int
    usual_events: float
    importance: float
    score: float
    severity: Severity
    onset: datetime
    whole: bool = field(repr=False, default=False)  # of several segments, not one

    @property
    def runbook(self) -> str:
        """The command that prints what to do."""
        return f"{COMMAND} {RUNBOOK[self.state]}"

    @property
    def parts(self) -> str:
        """How many points coverage fell as a whole, and how many of them by the mix and within segments."""
        fall, mix, within = (100 * part for part in (self.mix + self.drop, self.mix, self.drop))
        by_mix = f"{mix:.1f} by a shift in the mix" if mix >= 0 else f"the mix made up for {-mix:.1f}"
        inside = (
            f"{within:.1f} within segments" if within >= 0 else f"within segments it rose by {-within:.1f}"
        )
        if self.state == "mix shift":
            return f"fell by {fall:.1f} points: {by_mix}, {inside}"
        both = mix > (1.0 - MOST) * fall
        return f"fell by {fall:.1f} points{', by both' if both else ''}: {inside}, {by_mix}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is not known is None."""
        numbers = ("coverage", "baseline", "drop", "low", "high", "mix", "p", "q")
        return {
            "feature": self.feature,
            "segment": {name: _plain(value) for name, value in self.segment.items()},
            "window": self.window.isoformat(),
            "state": self.state,
            **{name: _known(getattr(self, name)) for name in numbers},
            "events": self.events,
            "usual_events": _known(self.usual_events),
            "importance": _known(self.importance),
            "severity": self.severity,
            "onset": self.onset.isoformat(),
            "runbook": self.runbook,
        }


@dataclass(frozen=True)
class Incident:
    """Alerts that belong together: the same feature in several segments, or features that fell together.

    `segments` are the narrowest ones hit, `onset` is their first suspicious window; `flagged` is the first
    window that raised an alert, `last` the last. `ongoing` says that the last finished window is still hit.
    """

    number: int
    state: State
    severity: Severity
    score: float
    features: tuple[str, ...]
    segments: tuple[Mapping[str, Any], ...]
    onset: datetime
    flagged: datetime
    last: datetime
    ongoing: bool
    drop: float
    alerts: tuple[Alert, ...] = field(repr=False)

    @property
    def runbook(self) -> str:
        """The command that prints what to do."""
        return f"{COMMAND} {RUNBOOK[self.state]}"

    @property
    def headline(self) -> str:
        """One line that says what, where, since when and how much."""
        what = name_some(self.features)
        where = name_some([name_segment(segment) for segment in self.segments])
        since = say_time(self.onset)
        if self.state == "no data":
            return f"no data for {what} in {where} since {since}"
        worst = max(
            (alert for alert in self.alerts if alert.state == self.state), key=lambda alert: alert.drop
        )
        seen = f"{100 * worst.baseline:.0f} % → {100 * worst.coverage:.0f} %"
        lost = f"{worst.feature} {seen}"
        if abs(worst.mix) >= NOTABLE_MIX:  # what is seen is not what was lost
            lost = f"{worst.feature} lost {100 * worst.drop:.0f} points within segments; "
            lost += f"together with a shift in their mix {seen}"
        return f"{self.state} drop of {what} in {where} since {since}: {lost}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "number": self.number,
            "headline": self.headline,
            "state": self.state,
            "severity": self.severity,
            "features": list(self.features),
            "segments": [{name: _plain(value) for name, value in each.items()} for each in self.segments],
            "onset": self.onset.isoformat(),
            "flagged": self.flagged.isoformat(),
            "last": self.last.isoformat(),
            "ongoing": self.ongoing,
            "drop": _known(self.drop),
            "alerts": len(self.alerts),
            "runbook": self.runbook,
        }


def name_segment(segment: Mapping[str, Any]) -> str:
    """A segment in words: `region=north, platform=app`, or `all`."""
    named = [f"{name}={'missing' if value is None else value}" for name, value in segment.items()]
    return ", ".join(named) or "all"


def name_some(names: Sequence[str], most: int = 4) -> str:
    """The first names and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def say_time(moment: datetime) -> str:
    """A date, with the time of day where it is not midnight."""
    return f"{moment:%Y-%m-%d}" if moment.time() == datetime.min.time() else f"{moment:%Y-%m-%d %H:%M}"


# -- grouping -----------------------------------------------------------------------------------------


@dataclass
class Episode:
    """The run of alerts of one feature in one segment."""

    alerts: list[Alert]
    finer: bool = False  # the same feature is hit in a narrower segment: that one speaks for it

    @property
    def onset(self) -> datetime:
        return min(alert.onset for alert in self.alerts)

    @property
    def last(self) -> datetime:
        return self.alerts[-1].window


def group_alerts(
    alerts: Sequence[Alert], windows: Sequence[datetime], *, quiet: int = 2, together: int = 1
) -> tuple[Incident, ...]:
    """Incidents, worst first, from alerts of the states mild, severe and no data.

    Alerts of one feature and segment are one run unless more than `quiet` windows without an alert lie
    between. Two runs are one incident if they are of one feature and overlap in time, or of one segment and
    begin within `together` windows of each other. A log that is silent is another matter than a feature that
    went dark: runs of "no data" are never one with runs of drops. A run in a wider group whose feature is
    also hit in a narrower one joins it, but does not tie other features to it: two outages in two regions on
    one day stay two. `windows` are all judged windows in order.

    >>> group_alerts([], [])
    ()
    """
    if not alerts:
        return ()
    place = {window: number for number, window in enumerate(windows)}
    episodes = _find_episodes([alert for alert in alerts if alert.state in GRAVE], place, quiet)
    parent = list(range(len(episodes)))

    def root(one: int) -> int:
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    for one, first in enumerate(episodes):
        for other in range(one):
            if _belong(first, episodes[other], place, together):
                parent[root(one)] = root(other)
    found: dict[int, list[Alert]] = {}
    for one, episode in enumerate(episodes):
        found.setdefault(root(one), []).extend(episode.alerts)
    described = [_describe(group, windows) for group in found.values()]
    described.sort(key=lambda incident: (-GRAVE.index(incident.state), -incident.score, incident.onset))
    return tuple(
        Incident(**{**vars(incident), "number": number}) for number, incident in enumerate(described, 1)
    )


def _find_episodes(alerts: Sequence[Alert], place: Mapping[datetime, int], quiet: int) -> list[Episode]:
    runs: dict[tuple[Any, ...], list[Episode]] = {}
    for alert in sorted(alerts, key=lambda alert: alert.window):
        run = runs.setdefault((alert.feature, _key(alert.segment), alert.state == "no data"), [])
        if run and place[alert.onset] - place[run[-1].last] <= quiet + 1:
            run[-1].alerts.append(alert)
        else:
            run.append(Episode([alert]))
    episodes = [episode for run in runs.values() for episode in run]
    by_feature: dict[str, list[Episode]] = {}
    for episode in episodes:
        by_feature.setdefault(episode.alerts[0].feature, []).append(episode)
    for episode in episodes:
        mine = episode.alerts[0]
        if mine.whole:
            episode.finer = any(
                len(other.alerts[0].segment) > len(mine.segment) and _overlap(episode, other)
                for other in by_feature[mine.feature]
            )
    return episodes


def _belong(one: Episode, other: Episode, place: Mapping[datetime, int], together: int) -> bool:
    first, second = one.alerts[0], other.alerts[0]
    if (first.state == "no data") != (second.state == "no data"):
        return False
    if first.feature == second.feature:
        return _overlap(one, other)
    if one.finer or other.finer or _key(first.segment) != _key(second.segment):
        return False
    return abs(place[one.onset] - place[other.onset]) <= together


def _overlap(one: Episode, other: Episode) -> bool:
    return one.onset <= other.last and other.onset <= one.last


def _describe(alerts: list[Alert], windows: Sequence[datetime]) -> Incident:
    alerts = sorted(alerts, key=lambda alert: (alert.window, -alert.score))
    worst = max(alerts, key=lambda alert: (GRAVE.index(alert.state), alert.score))
    depth = max(len(alert.segment) for alert in alerts)
    finest = [alert for alert in alerts if len(alert.segment) == depth]
    loudest = sorted(alerts, key=lambda alert: -alert.score)
    drops = [alert.drop for alert in alerts if alert.state == worst.state and alert.drop == alert.drop]
    last = max(alert.window for alert in alerts)
    return Incident(
        number=0,
        state=worst.state,
        severity=max((alert.severity for alert in alerts), key=["low", "medium", "high"].index),
        score=max(alert.score for alert in alerts),
        features=tuple(dict.fromkeys(alert.feature for alert in loudest)),
        segments=tuple({_key(alert.segment): alert.segment for alert in finest}.values()),
        onset=min(alert.onset for alert in finest),
        flagged=alerts[0].window,
        last=last,
        ongoing=bool(windows) and last == windows[-1],
        drop=max(drops, default=float("nan")),
        alerts=tuple(alerts),
    )


def _key(segment: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(segment.items())


def _known(value: float) -> float | None:
    return float(value) if value == value else None


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
