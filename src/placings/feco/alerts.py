"""Which features lost coverage, where and when: alerts that a clean log does not raise.

How they decide, and what to do about each, is in docs/coverage_alerts.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from placings.arrays import Bools, Floats, Ints
from placings.data.tables import need_library
from placings.errors import BadInput
from placings.feco.baselines import Baseline, Grid, estimate_baseline, make_grid, parse_time
from placings.feco.incidents import Alert, Incident, Severity, group_alerts, name_segment, say_time

if TYPE_CHECKING:
    import pandas as pd

STATES = ("not judged", "ok", "mild", "severe", "no data", "mix shift")
NOT_JUDGED, OK, MILD, SEVERE, NO_DATA, MIX_SHIFT = range(6)
BANDS = ((0.10, "high"), (0.03, "medium"))  # severity by drop × relative importance
MIN_DOF = 5


@dataclass(frozen=True)
class AlertSettings:
    """When a drop is an alert. Shares: 0.03 is 3 points of coverage.

    A window is *suspicious* if it has `min_events` events, the drop's interval (`level`) lies wholly beyond
    `min_drop`, and its q-value is at most `fdr`. It is severe at once if that interval reaches
    `severe_drop`; it is mild if `mild_windows` of the last `of_windows` judged windows are suspicious. No
    data: fewer than `no_data_share` of the events that the weekday usually has, where it usually has
    `min_events`. The baseline is that of the last `weeks` same weekdays, of which there must be
    `min_weeks`. Alerts join into one incident across `quiet` silent windows.
    """

    min_events: int = 50
    min_drop: float = 0.03
    severe_drop: float = 0.20
    level: float = 0.95
    fdr: float = 0.01
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
        for name in ("min_drop", "severe_drop", "level", "fdr", "no_data_share"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value < 1.0:
                raise BadInput(f"{name} must be a share from 0 to below 1. Got {value!r}.")
        if self.severe_drop < self.min_drop:
            raise BadInput(
                f"severe_drop must not be below min_drop. Got {self.severe_drop} and {self.min_drop}."
            )
        if self.mild_windows > self.of_windows or self.min_weeks > self.weeks:
            raise BadInput("mild_windows must be at most of_windows, and min_weeks at most weeks.")


@dataclass(frozen=True, eq=False)
class Alerts:
    """What was found: `incidents` to act on, the `alerts` they consist of, and every judgement beside them.

    `alerts` hold the states mild, severe, no data and mix shift; a shift in the mix is told but makes no
    incident. `judged` and `not_judged` count features × segments × windows.
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
        """The alerts of coverage that fell because the mix of segments shifted."""
        return tuple(alert for alert in self.alerts if alert.state == "mix shift")

    def to_pandas(self) -> pd.DataFrame:
        """One row for each feature, segment and window, with its state (`ok` and `not judged` too).

        A segment column that a group leaves open is "(all)".
        """
        pd = need_library("pandas", "alerts as a pandas frame")
        frame: pd.DataFrame = pd.DataFrame(dict(self.columns))
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
        """The incidents as text, worst first, then the shifts in the mix, then what was looked at."""
        lines = []
        for incident in self.incidents:
            days = f"{say_time(incident.flagged)} to {say_time(incident.last)}"
            still = ", still on" if incident.ongoing else ""
            lines += [f"{incident.number}. {incident.headline}"]
            lines += [f"   severity {incident.severity}; alerts {days}{still}; {incident.runbook}"]
        if not lines:
            lines = ["no incidents"]
        shifts = self.mix_shifts
        if shifts:
            lines.append("coverage fell because the mix of segments shifted, not within a segment:")
            for alert in shifts[:5]:
                lines.append(
                    f"   {alert.feature} in {name_segment(alert.segment)} on {say_time(alert.window)}: "
                    f"{100 * alert.mix:.1f} points by mix, {100 * alert.drop:.1f} within"
                )
            if len(shifts) > 5:
                lines.append(f"   and {len(shifts) - 5} more")
        lines.append(
            f"{self.judged:,} judged and {self.not_judged:,} not (too little history or too few events)"
        )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()


def find_alerts(
    frame: pd.DataFrame,
    *,
    importances: Mapping[str, float] | None = None,
    settings: AlertSettings | None = None,
    watermark: Any = None,
    since: Any = None,
    step: Any = None,
) -> Alerts:
    """Judge every window of a coverage frame against its same-weekday baseline.

    `frame` has the columns feature, the segments, window, coverage, events and, if known, low and high, as
    `placings.coverage(…, time=…).to_pandas()` gives it: raw windows, not a moving average. `watermark` is the
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
    verdicts = _judge_all(grid, rules)
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


def control_discoveries(p_values: ArrayLike) -> Floats:
    """Benjamini–Hochberg q-values: flag what is at most α, and about a share α of the flags are false.

    The i-th smallest of m becomes `min over j ≥ i of min(1, m · p_j / j)`. Any shape; NaN stays NaN and is
    not counted in m.

    >>> control_discoveries([0.01, 0.04, 0.03])  # 3 · 0.01 / 1; then 3 · 0.04 / 3 for both others
    array([0.03, 0.04, 0.04])
    """
    given = np.asarray(p_values, dtype=np.float64)
    flat = given.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    order = known[np.argsort(flat[known], kind="stable")[::-1]]  # the largest first
    factors = len(order) / np.arange(len(order), 0, -1)
    adjusted = np.full(flat.shape, np.nan)
    adjusted[order] = np.minimum.accumulate(np.minimum(factors * flat[order], 1.0))
    return adjusted.reshape(given.shape)


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


def _judge_all(grid: Grid, rules: AlertSettings) -> Verdicts:
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
        state[judged & measured["shifted"] & ~suspicious] = MIX_SHIFT
        state[suspicious & (_count_recent(recent, rules.of_windows) >= rules.mild_windows)] = MILD
        state[suspicious & (measured["high"] >= rules.severe_drop)] = SEVERE
        state[absent] = NO_DATA
        found.state[..., place] = state
    return found


def _measure_drop(
    grid: Grid, place: int, base: Baseline, judged: Bools, rules: AlertSettings
) -> dict[str, Any]:
    """Drop, interval, p and q of one window `[groups, features]`, and where the mix alone explains a drop."""
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
        error = np.sqrt(np.maximum(grid.variance[..., place], expected) + base.spread + base.error)
        dof = np.maximum(base.dof, 1.0)
        reach = stdtrit(dof, (1.0 + rules.level) / 2.0) * error
        p = stdtr(dof, -drop / error)
        p_change = np.where(judged, stdtr(dof, -change / error), np.nan)
    p_change[:cells] = np.nan  # a cell has no mix
    q_change = control_discoveries(p_change)
    return {
        "drop": drop,
        "low": drop - reach,
        "high": drop + reach,
        "mix": np.where(judged, change - within, np.nan),
        "p": p,
        "q": control_discoveries(p),
        "shifted": (change - reach > rules.min_drop) & (q_change <= rules.fdr),
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
        if state == "mix shift":
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
    return next((name for least, name in BANDS if score >= least), "low")  # type: ignore[return-value]


def _find_onset(found: Verdicts, at: tuple[int, int, int]) -> int:
    """Back over windows that were suspicious, or not judged between such, to the first suspicious one."""
    group, feature, place = at
    if found.state[at] not in (MILD, SEVERE):
        return place
    first = place
    state, suspicious = found.state[group, feature], found.suspicious[group, feature]
    gap = 0
    for before in range(place - 1, -1, -1):
        if suspicious[before]:
            first, gap = before, 0
        else:
            gap += 1
            if gap > 1 or state[before] == NO_DATA:
                break
    return first


def _make_columns(grid: Grid, found: Verdicts, begin: int) -> dict[str, Any]:
    """The columns of the frame of all judgements, sorted by feature, group and window."""
    groups, features, windows = grid.events[..., begin:].shape

    def flatten(values: Any) -> Any:
        return np.moveaxis(values[..., begin:], 1, 0).ravel()

    columns: dict[str, Any] = {
        "feature": np.repeat(np.array(grid.features, dtype=object), groups * windows)
    }
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
