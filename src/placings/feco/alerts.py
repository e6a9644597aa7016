"""Which features lost coverage, where and when: alerts that a clean log does not raise.

How they decide, and what to do about each, is in docs/coverage_alerts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import Floats
from placings.data.tables import need_library
from placings.errors import BadInput
from placings.feco.baselines import Grid, make_grid, parse_time
from placings.feco.incidents import Alert, Incident, Severity, group_alerts, name_segment, say_time
from placings.feco.judgements import (
    MILD,
    NO_DATA,
    NOT_JUDGED,
    SEVERE,
    STATES,
    AlertSettings,
    Verdicts,
    judge_windows,
)

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco.results import Coverage

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
    grid: Grid, found: Verdicts, weight: Floats, windows: Sequence[datetime], begin: int
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


def _make_columns(grid: Grid, found: Verdicts, begin: int) -> dict[str, Any]:
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
