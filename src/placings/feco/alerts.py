"""Which features lost coverage, where and when: alerts that a clean log does not raise.

How they decide, and what to do about each, is in docs/coverage_alerts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from placings.core import BadInput, Bools, Floats, Ints, control_discoveries, need_library
from placings.feco.baselines import Baseline, CoverageGrid, estimate_baseline, make_grid, parse_time
from placings.feco.runbook import COMMAND

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco.score import Coverage

STATES = ("not judged", "ok", "mild", "severe", "no data", "mix shift", "overall drop")
NOT_JUDGED, OK, MILD, SEVERE, NO_DATA, MIX_SHIFT, OVERALL_DROP = range(7)
MIN_DOF = 5
MOST = 0.75  # of a fall: if the mix makes so much of it, it is a shift in the mix


@dataclass(frozen=True)
class AlertSettings:
    """When a drop is an alert. Shares: 0.03 is 3 points of coverage.

    A window is *suspicious* if it has `min_events` events, the drop's interval (`level`) lies wholly beyond
    `min_drop`, and its q-value is at most `fdr`. It is severe at once if that interval reaches
    `severe_drop` and q is at most `severe_fdr`; it is mild if `mild_windows` of the last `of_windows` judged
    windows are suspicious. No data: fewer than `no_data_share` of the events that the weekday usually has,
    where it usually has `min_events`. The baseline is that of the last `weeks` same weekdays, of which there
    must be `min_weeks`. Alerts join into one incident across `quiet` silent windows.
    """

    min_events: int = 50
    min_drop: float = 0.03
    severe_drop: float = 0.20
    level: float = 0.95
    fdr: float = 0.05
    severe_fdr: float = 0.01
    mild_windows: int = 3
    of_windows: int = 4
    weeks: int = 4
    min_weeks: int = 2
    no_data_share: float = 0.05
    quiet: int = 2

    def __post_init__(self) -> None:
        for name in ("min_events", "mild_windows", "of_windows", "weeks", "min_weeks", "quiet"):
            value, least = getattr(self, name), 0 if name == "quiet" else 1
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
                raise BadInput(f"{name} must be a whole number of {least} or more. Got {value!r}.")
        for name in ("min_drop", "severe_drop", "level", "fdr", "severe_fdr", "no_data_share"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
                raise BadInput(f"{name} must be a share from 0 to below 1. Got {value!r}.")
        if self.severe_drop < self.min_drop:
            raise BadInput(
                f"severe_drop must not be below min_drop. Got {self.severe_drop} and {self.min_drop}."
            )
        if self.mild_windows > self.of_windows or self.min_weeks > self.weeks:
            raise BadInput("mild_windows must be at most of_windows, and min_weeks at most weeks.")


# -- judging ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Verdicts:
    """All judgements `[groups, features, windows]`."""

    state: Ints
    baseline: Floats
    drop: Floats
    low: Floats
    high: Floats
    mix: Floats
    p: Floats
    q: Floats
    usual: Floats
    suspicious: Bools


def judge_windows(grid: CoverageGrid, rules: AlertSettings) -> Verdicts:
    """Window by window: what is flagged in one is left out of the baselines of all later ones."""
    shape = grid.events.shape
    numbers = {name: np.full(shape, np.nan) for name in ("baseline", "drop", "low", "high", "mix", "p", "q")}
    found = Verdicts(
        state=np.full(shape, NOT_JUDGED, dtype=np.int64),
        usual=np.zeros(shape),
        suspicious=np.zeros(shape, dtype=np.bool_),
        **numbers,
    )
    recent: list[tuple[Bools, Bools]] = []  # (judged, suspicious) of earlier windows
    for place in range(shape[-1]):
        base = estimate_baseline(
            grid, place, found.suspicious, weeks=rules.weeks, min_events=rules.min_events
        )
        known = (base.same >= rules.min_weeks) & (base.dof >= MIN_DOF)
        events = grid.events[..., place]
        expected = known & (base.usual >= rules.min_events)
        absent = expected & (events < rules.no_data_share * base.usual)
        judged = known & (events >= rules.min_events) & ~absent
        measured = _measure_drop(grid, place, base, judged, rules)
        for name, values in measured.items():
            if name in numbers:
                getattr(found, name)[..., place] = values
        suspicious = judged & (measured["low"] > rules.min_drop) & (measured["q"] <= rules.fdr)
        found.suspicious[..., place] = suspicious
        found.usual[..., place] = base.usual
        found.baseline[..., place] = np.where(known, base.level, np.nan)
        recent.append((judged, suspicious))
        state = np.where(judged, OK, NOT_JUDGED)
        fell = judged & measured["fell"] & ~suspicious
        state[fell] = OVERALL_DROP
        state[fell & measured["mostly_mix"]] = MIX_SHIFT
        state[suspicious & (_count_recent(recent, rules.of_windows) >= rules.mild_windows)] = MILD
        state[suspicious & (measured["high"] >= rules.severe_drop) & (measured["q"] <= rules.severe_fdr)] = (
            SEVERE
        )
        state[absent] = NO_DATA
        found.state[..., place] = state
    return found


def _measure_drop(
    grid: CoverageGrid, place: int, base: Baseline, judged: Bools, rules: AlertSettings
) -> dict[str, Any]:
    """Drop, interval, p and q of one window `[groups, features]`.

    `fell` says where the whole change, the mix included, would be suspicious; `mostly_mix` where the mix
    makes most of it.
    """
    from scipy.special import stdtr, stdtrit

    coverage, events = grid.coverage[..., place], grid.events[..., place]
    change = base.level - coverage  # [groups, features]
    cells = grid.cells
    missed = np.nan_to_num(change[:cells]) * events[:cells]  # covered events that a cell lacks
    with np.errstate(invalid="ignore", divide="ignore"):
        within = np.einsum("gc,cf->gf", grid.members, missed) / events
        floor = 1.0 / (events + 2.0)
        level = np.clip(base.level, floor, 1.0 - floor)
        expected = base.design * level * (1.0 - level) / events
        drop = np.where(judged, within, np.nan)
        usual = np.sqrt(expected + base.spread + base.error)  # the error of a drop if nothing was lost
        error = np.sqrt(np.maximum(grid.variance[..., place], expected) + base.spread + base.error)
        dof = np.maximum(base.dof, 1.0)
        reach = stdtrit(dof, (1.0 + rules.level) / 2.0) * error
        p = stdtr(dof, -drop / usual)
        p_change = np.where(judged, stdtr(dof, -change / usual), np.nan)
    p_change[:cells] = np.nan  # a cell has no mix
    q_change = control_discoveries(p_change)
    return {
        "drop": drop,
        "low": drop - reach,
        "high": drop + reach,
        "mix": np.where(judged, change - within, np.nan),
        "p": p,
        "q": control_discoveries(p),
        "fell": (change - reach > rules.min_drop) & (q_change <= rules.fdr),
        "mostly_mix": change - within >= MOST * change,
    }


def _count_recent(recent: Sequence[tuple[Bools, Bools]], of_windows: int) -> Ints:
    """How many of the last judged windows of each series were suspicious, at most `of_windows` looked at."""
    seen = np.zeros(recent[-1][0].shape, dtype=np.int64)
    count = np.zeros_like(seen)
    for judged, suspicious in reversed(recent):
        open_ = judged & (seen < of_windows)
        seen += open_
        count += open_ & suspicious
        if (seen >= of_windows).all():
            break
    return count


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


BANDS: tuple[tuple[float, Severity], ...] = (
    (0.10, "high"),
    (0.03, "medium"),
)  # severity by drop × relative importance
SHOWN = 5  # of each kind of remark
SHIFTED = "coverage fell because the mix of segments shifted, hardly within them:"
OVERALL = "coverage fell as a whole, and not by the mix of segments alone; no loss within them is sure:"


@dataclass(frozen=True, eq=False)
class Alerts:
    """What was found: `incidents` to act on, the `alerts` they consist of, and every judgement beside them.

    `alerts` hold the states mild, severe, no data, mix shift and overall drop; the last two, where only
    coverage as a whole has surely fallen, are told but make no incident. `judged` and `not_judged` count
    features × segments × windows.
    """

    alerts: tuple[Alert, ...]
    incidents: tuple[Incident, ...]
    settings: AlertSettings
    windows: tuple[datetime, ...]
    judged: int
    not_judged: int
    columns: Mapping[str, Any] = field(repr=False)

    @property
    def mix_shifts(self) -> tuple[Alert, ...]:
        """The alerts of coverage that fell, for the most part, because the mix of segments shifted."""
        return tuple(alert for alert in self.alerts if alert.state == "mix shift")

    @property
    def overall_drops(self) -> tuple[Alert, ...]:
        """The alerts of coverage that surely fell as a whole: not by the mix alone, nor surely within."""
        return tuple(alert for alert in self.alerts if alert.state == "overall drop")

    @property
    def remarks(self) -> tuple[str, ...]:
        """What makes no incident but should be known, one line each: mix shifts, overall drops."""
        lines = []
        for text, told in ((SHIFTED, self.mix_shifts), (OVERALL, self.overall_drops)):
            if not told:
                continue
            lines.append(text)
            for alert in told[:SHOWN]:
                where = name_segment(alert.segment)
                lines.append(f"   {alert.feature} in {where} on {say_time(alert.window)} {alert.parts}")
            if len(told) > SHOWN:
                lines.append(f"   and {len(told) - SHOWN} more")
        return tuple(lines)

    def to_pandas(self) -> pd.DataFrame:
        """One row for each feature, segment and window, with its state (`ok` and `not judged` too).

        A segment column that a group leaves open is "(all)".
        """
        pandas = need_library("pandas", "alerts as a pandas frame")
        frame: pd.DataFrame = pandas.DataFrame(dict(self.columns))
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Incidents, alerts and settings as plain values for JSON."""
        return {
            "settings": asdict(self.settings),
            "windows": [window.isoformat() for window in self.windows],
            "judged": self.judged,
            "not_judged": self.not_judged,
            "incidents": [incident.to_dict() for incident in self.incidents],
            "alerts": [alert.to_dict() for alert in self.alerts],
        }

    def table(self) -> str:
        """The incidents as text, worst first, then the remarks, then what was looked at."""
        lines = []
        for incident in self.incidents:
            days = f"{say_time(incident.flagged)} to {say_time(incident.last)}"
            still = ", still on" if incident.ongoing else ""
            lines += [f"{incident.number}. {incident.headline}"]
            lines += [
                f"   severity {incident.severity}; alerts {days}{still}; what to do: {incident.runbook}"
            ]
        if not lines:
            lines = ["no incidents"]
        lines += self.remarks
        lines.append(
            f"{self.judged:,} judged and {self.not_judged:,} not (too little history or too few events)"
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def find_alerts(
    frame: pd.DataFrame | Coverage,
    *,
    importances: Mapping[str, float] | None = None,
    settings: AlertSettings | None = None,
    watermark: Any = None,
    since: Any = None,
    step: Any = None,
) -> Alerts:
    """Judge every window of a coverage frame against its same-weekday baseline.

    `frame` is a Coverage with windows, or its frame: feature, the segments, window, coverage, events and, if
    known, low and high. Raw windows, not a moving average. `watermark` is the
    time up to which the log is complete: a window that ends after it is never judged nor used. `since` tells
    only the windows from then on; earlier ones still make the baseline. `importances` of the features set
    the severity; without them all count alike, and a feature that they do not name counts nothing.

    Each window is compared with `estimate_baseline`. With d the drop, v the larger of the window's sampling
    variance and the one expected at the baseline, τ² the spread from day to day and e² the baseline's own
    error, `t = d / √(v + τ² + e²)` gives the interval and a one-sided p-value; q is its Benjamini–Hochberg
    value over all features × segments of the window. Everything together, and with several segment columns
    each value of each, is judged too: there `drop = Σ share · (baseline − coverage)` over the segments is the
    loss within them, and the rest of the change is the mix.

    >>> import pandas as pd
    >>> days = pd.date_range("2024-01-01", periods=30)
    >>> share = [0.8 + 0.01 * (day % 3) for day in range(29)] + [0.3]
    >>> frame = pd.DataFrame({"feature": "rating", "window": days, "coverage": share, "events": 1000})
    >>> print(find_alerts(frame).incidents[0].headline)
    severe drop of rating in all since 2024-01-30: rating 81 % → 30 %

    Benjamini and Hochberg, Controlling the false discovery rate, 1995.
    """
    rules = settings or AlertSettings()
    grid = make_grid(frame, watermark=watermark, step=step)
    weight = _weigh(grid.features, importances)
    verdicts = judge_windows(grid, rules)
    begin = 0
    if since is not None:
        begin = int(np.searchsorted(grid.windows, np.datetime64(parse_time(since, "since"), "s")))
    windows = tuple(grid.windows.astype(datetime).tolist())
    alerts = _list_alerts(grid, verdicts, weight, windows, begin)
    told = verdicts.state[..., begin:]
    return Alerts(
        alerts=alerts,
        incidents=group_alerts(alerts, windows, quiet=rules.quiet),
        settings=rules,
        windows=windows[begin:],
        judged=int((told != NOT_JUDGED).sum()),
        not_judged=int((told == NOT_JUDGED).sum()),
        columns=_make_columns(grid, verdicts, begin),
    )


# -- telling ------------------------------------------------------------------------------------------


def _weigh(features: Sequence[str], importances: Mapping[str, float] | None) -> Floats:
    """Importance relative to the most important feature, from 0 to 1."""
    if importances is None:
        return np.ones(len(features))
    found = np.array([float(importances.get(name, 0.0)) for name in features])
    most = max((float(value) for value in importances.values()), default=0.0)
    if not np.isfinite(found).all() or not most > 0.0:
        raise BadInput("importances must be finite numbers, one at least above 0. Got none such.")
    return np.clip(found / most, 0.0, 1.0)


def _list_alerts(
    grid: CoverageGrid, found: Verdicts, weight: Floats, windows: Sequence[datetime], begin: int
) -> tuple[Alert, ...]:
    coverage = grid.coverage
    alerts = []
    raised = found.state[..., begin:] >= MILD
    for window, group, feature in np.argwhere(np.moveaxis(raised, -1, 0)).tolist():
        at = (group, feature, window + begin)
        state = STATES[found.state[at]]
        lost = found.baseline[at] if state == "no data" else found.drop[at]
        if state in ("mix shift", "overall drop"):
            lost += found.mix[at]
        score = float(max(lost, 0.0) * weight[feature])
        alerts.append(
            Alert(
                feature=grid.features[feature],
                segment=grid.groups[group],
                window=windows[at[2]],
                state=state,  # type: ignore[arg-type]
                coverage=float(coverage[at]),
                baseline=float(found.baseline[at]),
                drop=float(found.drop[at]),
                low=float(found.low[at]),
                high=float(found.high[at]),
                mix=float(found.mix[at]),
                p=float(found.p[at]),
                q=float(found.q[at]),
                events=int(grid.events[at]),
                usual_events=float(found.usual[at]),
                importance=float(weight[feature]),
                score=score,
                severity=_find_band(score),
                onset=windows[_find_onset(found, at)],
                whole=group >= grid.cells,
            )
        )
    return tuple(alerts)


def _find_band(score: float) -> Severity:
    return next((name for least, name in BANDS if score >= least), "low")


def _find_onset(found: Verdicts, at: tuple[int, int, int]) -> int:
    """The first window of the run of alerts; if that is mild, the first of the windows that made it so."""
    group, feature, place = at
    state, suspicious = found.state[group, feature], found.suspicious[group, feature]
    if state[place] not in (MILD, SEVERE):
        return place
    first = place
    while first and state[first - 1] in (MILD, SEVERE):
        first -= 1
    if state[first] == SEVERE:
        return first
    gap = 0
    for before in range(first - 1, -1, -1):
        gap = 0 if suspicious[before] else gap + 1
        if gap > 1 or state[before] == NO_DATA:
            break
        first = before if suspicious[before] else first
    return first


def _make_columns(grid: CoverageGrid, found: Verdicts, begin: int) -> dict[str, Any]:
    """The columns of the frame of all judgements, sorted by feature, group and window."""
    groups, features, windows = grid.events[..., begin:].shape

    def flatten(values: Any) -> Any:
        return np.moveaxis(values[..., begin:], 1, 0).ravel()

    columns: dict[str, Any] = {"feature": np.repeat(np.array(grid.features, dtype=object), groups * windows)}
    for name in grid.by:
        values = np.empty(groups, dtype=object)
        values[:] = [group.get(name, "(all)") for group in grid.groups]
        columns[name] = np.tile(np.repeat(values, windows), features)
    columns["window"] = np.tile(grid.windows[begin:].astype("datetime64[ns]"), features * groups)
    columns["state"] = np.array(STATES, dtype=object)[flatten(found.state)]
    columns["coverage"] = flatten(grid.coverage)
    for name in ("baseline", "drop", "low", "high", "mix", "p", "q"):
        columns[name] = flatten(getattr(found, name))
    columns["events"] = flatten(grid.events).astype(np.int64)
    return columns
