"""Each window of each feature and segment against its baseline: ok, mild, severe, no data, …"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from placings.arrays import Bools, Floats, Ints
from placings.errors import BadInput
from placings.feco.baselines import Baseline, Grid, estimate_baseline

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


def judge_windows(grid: Grid, rules: AlertSettings) -> Verdicts:
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
    grid: Grid, place: int, base: Baseline, judged: Bools, rules: AlertSettings
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
