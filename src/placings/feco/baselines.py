"""Coverage on a regular grid of windows, and what a window should look like: its same-weekday baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput, Bools, Floats, Ints, as_utc, need_library, option
from placings.feco.score import Coverage

if TYPE_CHECKING:
    import pandas as pd

DAY = np.timedelta64(86_400, "s")
WEEK = 7 * DAY
SUMMER = np.timedelta64(7_200, "s")  # a day's start may be so far off where the clocks change
LOOK_BACK = 2  # a baseline of n same weekdays looks for them among the last 2 n


@dataclass(frozen=True, eq=False)
class CoverageGrid:
    """Coverage of groups × features × windows, without gaps between the windows.

    The first `cells` groups are the frame's own segments, the others are made of them: one for each value of
    each segment column (where there are two or more columns), and everything together. `members` says which
    cells are in a group. A window without events has `events` 0.
    """

    features: tuple[str, ...]
    by: tuple[str, ...]
    groups: tuple[Mapping[str, Any], ...]  # the segment columns that are fixed in it; {} is everything
    members: Bools  # [groups, cells]
    cells: int
    windows: Any  # [windows] datetime64[s]
    step: np.timedelta64
    events: Floats  # [groups, features, windows]
    covered: Floats
    variance: Floats  # of the coverage, from sampling events alone

    @property
    def coverage(self) -> Floats:
        """Covered events over events, NaN without events."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.events > 0, self.covered / self.events, np.nan)


def find_segment_columns(frame: pd.DataFrame) -> tuple[str, ...]:
    """The segment columns of a coverage frame: those between `feature` and `window` (or `coverage`)."""
    names = [str(name) for name in frame.columns]
    for name in ("feature", "coverage", "events"):
        if name not in names:
            raise BadInput(
                f"a coverage frame must have the columns feature, coverage and events. Got {names}. "
                "Make one with placings.coverage(…).to_pandas()."
            )
    end = names.index("window") if "window" in names else names.index("coverage")
    return tuple(names[names.index("feature") + 1 : end])


def as_frame(given: pd.DataFrame | Coverage) -> tuple[pd.DataFrame, float]:
    """The coverage frame of either, with rows numbered from 0, and the level of its intervals."""
    pandas = need_library("pandas", "a coverage frame")
    if isinstance(given, Coverage):
        return given.to_pandas().reset_index(drop=True), given.level
    if not isinstance(given, pandas.DataFrame):
        raise BadInput(f"a coverage frame is a pandas table or a Coverage. Got {type(given).__name__}.")
    return given.reset_index(drop=True), 0.95


def make_grid(given: pd.DataFrame | Coverage, *, watermark: Any = None, step: Any = None) -> CoverageGrid:
    """A coverage frame as a grid of windows from the first to the last that ended by the `watermark`.

    Without a watermark every window counts as finished, and the last one is the frame's last. With one,
    windows that end after it are left out, and windows without any row before it count as empty. `step` is
    the length of a window, by default the least distance between two. Days of a zone with summer time may
    be an hour shorter or longer.
    """
    pandas = need_library("pandas", "a coverage frame")
    frame, level = as_frame(given)
    by = find_segment_columns(frame)
    if "window" not in frame.columns:
        raise BadInput(f"the coverage frame has no windows. Name the time with {option('time')}.")
    if not len(frame):
        raise BadInput("the coverage frame has no rows. Check the file and the dates asked for.")
    stamps = as_stamps(frame["window"])
    length = find_step(stamps, given.window if step is None and isinstance(given, Coverage) else step)
    place, off = _place_windows(stamps, length)
    if off.any():
        odd = stamps[off].iloc[0]
        raise BadInput(f"windows must be {length} apart. Got {odd} after {stamps.min()}. Name the step.")
    count = int(place.max()) + 1
    if watermark is not None:
        limit = parse_time(watermark, "watermark")
        count = max(int((limit - stamps.min()) // length), 0)
    if not count:
        raise BadInput(f"no window ended by the watermark {watermark}. Wait, or give a later one.")
    windows = pandas.date_range(stamps.min(), periods=count, freq=length).to_numpy(copy=True)
    windows[place[place < count]] = stamps[place < count].to_numpy()  # an hour off in summer
    place = np.where(place < count, place, -1)
    inside = frame[place >= 0]
    features = pandas.unique(frame["feature"])
    row = pandas.Index(features).get_indexer(inside["feature"])
    cells, column = _find_cells(frame, inside, by)
    at = (column, row, place[place >= 0])
    _check_keys(inside, at, (len(cells), len(features), len(windows)))
    members, groups = _find_groups(cells, by)
    events, covered, variance = _spread(inside, at, (len(cells), len(features), len(windows)), level)
    weighted = np.einsum("gc,cfw->gfw", members, events**2 * variance)
    total = np.einsum("gc,cfw->gfw", members, events)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = np.where(total > 0, weighted / total**2, 0.0)
    return CoverageGrid(
        features=tuple(str(name) for name in features),
        by=by,
        groups=groups,
        members=members,
        cells=len(cells),
        windows=windows.astype("datetime64[s]"),
        step=length.to_timedelta64().astype("timedelta64[s]"),
        events=total,
        covered=np.einsum("gc,cfw->gfw", members, covered),
        variance=pooled,
    )


def as_stamps(stamps: Any) -> pd.Series[Any]:
    """Window starts as timestamps of UTC without a zone; those with a zone are converted."""
    pandas = need_library("pandas", "a coverage frame")
    given = pandas.Series(stamps).reset_index(drop=True)
    if given.dtype.kind != "M":  # texts and objects one by one: pandas would lend one row's zone to the next
        try:
            given = given.map(as_utc, na_action="ignore")
        except ValueError as error:
            raise BadInput(f"window must be a time in every row: {error}.") from error
    found = pandas.to_datetime(given, utc=True).dt.tz_localize(None)
    if found.isna().any():
        raise BadInput("window must be a time in every row. Got an empty one. Leave such rows out.")
    converted: pd.Series[Any] = found.astype("datetime64[ns]")
    return converted


def parse_time(value: Any, name: str) -> pd.Timestamp:
    """A time or date as a timestamp of UTC without a zone, or an error that names the argument."""
    pandas = need_library("pandas", "a coverage frame")
    try:
        stamp = pandas.Timestamp(value)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{name} must be a time such as '2024-02-01 06:00'. Got {value!r}.") from error
    if stamp is pandas.NaT:
        raise BadInput(f"{name} must be a time such as '2024-02-01 06:00'. Got {value!r}.")
    found: pd.Timestamp = stamp.tz_convert("UTC").tz_localize(None) if stamp.tzinfo else stamp
    return found


def find_step(stamps: Any, step: Any = None) -> pd.Timedelta:
    """The length of a window: as given, else the least distance between two; one day if there is one only."""
    pandas = need_library("pandas", "a coverage frame")
    if step is not None:
        try:
            length = pandas.Timedelta(step)
        except ValueError as error:
            raise BadInput(f"step must be a length of time such as '1d'. Got {step!r}.") from error
        if not length > pandas.Timedelta(0):
            raise BadInput(f"step must be a length of time above 0 such as '1d'. Got {step!r}.")
        given: pd.Timedelta = length
        return given
    starts = np.unique(np.asarray(stamps, dtype="datetime64[ns]"))
    found: pd.Timedelta = pandas.Timedelta(np.diff(starts).min() if len(starts) > 1 else DAY)
    return found.round("1D") if found > DAY - SUMMER else found


def _place_windows(stamps: pd.Series[Any], length: pd.Timedelta) -> tuple[Ints, Bools]:
    """The number of each row's window, from 0, and which rows lie on no window."""
    away = (stamps - stamps.min()).to_numpy()
    step = length.to_timedelta64()
    place = np.rint(away / step).astype(np.int64)
    slack = SUMMER if step >= DAY else np.timedelta64(0, "s")
    return place, np.abs(away - place * step) > slack


def _find_cells(
    frame: pd.DataFrame, inside: pd.DataFrame, by: Sequence[str]
) -> tuple[list[tuple[Any, ...]], Ints]:
    """The distinct segments in the order met, and which one each row belongs to; a missing value is None."""
    if not by:
        return [()], np.zeros(len(inside), dtype=np.int64)
    numbers = frame.groupby(list(by), sort=False, dropna=False, observed=True).ngroup()
    first = frame.loc[~numbers.duplicated().to_numpy(), list(by)]
    order = numbers[~numbers.duplicated().to_numpy()]
    cells: list[tuple[Any, ...]] = [()] * len(first)
    for number, values in zip(order, first.itertuples(index=False, name=None), strict=True):
        cells[int(number)] = tuple(None if value != value else value for value in values)
    return cells, numbers.to_numpy()[inside.index.to_numpy()].astype(np.int64)


def _check_keys(inside: pd.DataFrame, at: tuple[Ints, Ints, Ints], shape: tuple[int, int, int]) -> None:
    flat = np.ravel_multi_index(at, shape)
    twice = np.flatnonzero(np.bincount(flat, minlength=1) > 1)
    if len(twice):
        row = inside.iloc[int(np.flatnonzero(flat == twice[0])[0])]
        raise BadInput(
            f"feature {row['feature']!r} has two rows for the window {row['window']} of one segment. "
            "Keep one: a CoverageStore replaces what is computed again."
        )


def _find_groups(
    cells: list[tuple[Any, ...]], by: Sequence[str]
) -> tuple[Bools, tuple[Mapping[str, Any], ...]]:
    """Membership `[groups, cells]`: the cells, then each value of each column, then everything."""
    groups: list[Mapping[str, Any]] = [dict(zip(by, cell, strict=True)) for cell in cells]
    rows = [np.eye(len(cells), dtype=np.bool_)]
    if len(by) > 1:
        for place, name in enumerate(by):
            for value in dict.fromkeys(cell[place] for cell in cells):
                rows.append(np.array([[cell[place] == value for cell in cells]]))
                groups.append({name: value})
    if len(cells) > 1:
        rows.append(np.ones((1, len(cells)), dtype=np.bool_))
        groups.append({})
    return np.concatenate(rows), tuple(groups)


def _spread(
    inside: pd.DataFrame, at: tuple[Ints, Ints, Ints], shape: tuple[int, int, int], level: float
) -> tuple[Floats, Floats, Floats]:
    """Events, covered events and the variance of coverage, each `[cells, features, windows]`."""
    events, covered, variance = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    number = np.nan_to_num(inside["events"].to_numpy(np.float64))
    share = inside["coverage"].to_numpy(np.float64)
    if (number < 0).any() or (share < 0).any() or (share > 1).any():
        raise BadInput("coverage must be a share from 0 to 1 and events 0 or more. Got others.")
    there = np.where(np.isnan(share), 0.0, number)
    events[at] = there
    covered[at] = np.nan_to_num(share) * there
    smooth = (covered[at] + 2.0) / (there + 4.0)
    found = smooth * (1.0 - smooth) / (there + 4.0)
    if "low" in inside.columns and "high" in inside.columns:
        from scipy.special import ndtri

        errors = 2.0 * float(ndtri((1.0 + level) / 2.0))  # the width of an interval, in standard errors
        width = inside["high"].to_numpy(np.float64) - inside["low"].to_numpy(np.float64)
        found = np.where(width > 0, (np.nan_to_num(width) / errors) ** 2, found)
    variance[at] = found
    return events, covered, variance


# -- what a window should look like -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Baseline:
    """What is expected of one window `[groups, features]`, from earlier windows that were not flagged."""

    level: Floats  # the expected coverage; NaN without history
    error: Floats  # the variance of that expectation
    spread: Floats  # the variance from day to day beyond sampling
    design: Floats  # the sampling variance over a binomial's: above 1 where events hang together
    usual: Floats  # how many events the same weekday usually has
    same: Ints  # how many same weekdays it rests on
    dof: Floats  # degrees of freedom of the spread


def count_phases(step: np.timedelta64) -> int:
    """How many windows make a week; 1 where a week is not a whole number of them."""
    seconds, week = step.astype("timedelta64[s]").astype(int), WEEK.astype(int)
    return int(week // seconds) if week % seconds == 0 else 1


def estimate_baseline(
    grid: CoverageGrid, place: int, flagged: Bools, *, weeks: int = 4, min_events: int = 50
) -> Baseline:
    """The baseline of window `place`: the mean of the last `weeks` same weekdays that were not flagged.

    Where the last week lies above these four, the baseline is raised by as much: growth is taken along. A
    decline is not, or a slow leak would become the normal state. The spread from day to day is what the
    windows scatter about their weekdays' means and a parabola (young regions grow fast, then slowly), less
    what sampling explains: coverage varies more than a binomial. Same weekdays are looked for among the last
    2 × `weeks`, so that an outage of some weeks does not use them up. A window with few events n counts
    n / (n + min_events).
    """
    phases = count_phases(grid.step)
    weeks = max(weeks, -(-8 // phases))  # windows of a week or more: the last eight of them
    rows = max(min(LOOK_BACK * weeks, -(-place // phases)), 1)
    first = place - rows * phases
    coverage = _cut(grid.coverage, first, place, phases, np.nan)  # [groups, features, weeks back, weekday]
    events = _cut(grid.events, first, place, phases, 0.0)
    variance = _cut(grid.variance, first, place, phases, 0.0)
    usable = (events > 0) & ~_cut(flagged, first, place, phases, True) & ~np.isnan(coverage)
    chosen = usable & (np.cumsum(usable, axis=-2) <= weeks)
    weight = np.where(chosen, events / (events + min_events), 0.0)
    coverage = np.where(chosen, coverage, 0.0)
    lag = 1.0 + np.arange(rows * phases, dtype=np.float64).reshape(rows, phases)

    number = chosen.sum(axis=-2)  # [groups, features, weekday]
    total = weight.sum(axis=-2)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (weight * coverage).sum(axis=-2) / total
        away = np.where(chosen, coverage - mean[..., None, :], 0.0)
        rest = _take_out_curve(away, weight, lag, total)
        dof = np.maximum(number - 1, 0).sum(axis=-1) - 2.0
        heft = total.sum(axis=-1) / number.sum(axis=-1)  # the mean weight
        scatter = (weight * rest**2).sum(axis=(-1, -2)) / heft / np.maximum(dof, 1.0)
        sampled = (weight * variance).sum(axis=(-1, -2)) / total.sum(axis=-1)
        recent = chosen & (_count_back(chosen) <= phases)
        lately = np.where(recent, weight, 0.0).sum(axis=(-1, -2))
        lift = (np.where(recent, weight, 0.0) * away).sum(axis=(-1, -2)) / lately
        level = np.clip(mean[..., -1] + np.maximum(np.nan_to_num(lift), 0.0), 0.0, 1.0)
        error = scatter * (1.0 / total[..., -1] + 1.0 / lately)
        smooth = (coverage * events + 1.0) / (events + 2.0)
        binomial = np.where(chosen, smooth * (1.0 - smooth) / np.maximum(events, 1.0), 0.0).sum(axis=(-1, -2))
        design = np.where(chosen, variance, 0.0).sum(axis=(-1, -2)) / binomial
        usual = np.where(chosen, events, 0.0)[..., -1].sum(axis=-1) / number[..., -1]
    return Baseline(
        level=level,
        error=np.nan_to_num(error),
        spread=np.maximum(np.nan_to_num(scatter - sampled), 0.0),
        design=np.nan_to_num(design, nan=1.0),
        usual=np.nan_to_num(usual),
        same=number[..., -1],
        dof=dof,
    )


def _take_out_curve(away: Floats, weight: Floats, lag: Floats, total: Floats) -> Floats:
    """What remains of `away` after a parabola in time, fitted to it by weighted least squares."""
    taken: list[Floats] = []
    rest = away
    for power in (1, 2):
        with np.errstate(invalid="ignore", divide="ignore"):
            middle = (weight * lag**power).sum(axis=-2) / total
            time = np.where(weight > 0, lag**power - middle[..., None, :], 0.0)
            for earlier in taken:
                time = time - _project(time, earlier, weight)
            rest = rest - _project(rest, time, weight)
        taken.append(time)
    return rest


def _project(values: Floats, onto: Floats, weight: Floats) -> Floats:
    """The part of `values` along `onto`, both `[…, weeks back, weekday]`; 0 where there is nothing to fit."""
    length = (weight * onto**2).sum(axis=(-1, -2))
    along = (weight * values * onto).sum(axis=(-1, -2))
    slope = np.divide(along, length, out=np.zeros_like(along), where=length > 1e-9)
    projected: Floats = slope[..., None, None] * onto
    return projected


def _cut(values: Any, first: int, end: int, phases: int, filling: Any) -> Any:
    """Windows `first` to `end` backwards as `[…, weeks back, weekday]`; before the grid stands `filling`."""
    part = values[..., max(first, 0) : end]
    if first < 0:
        wide = np.full((*part.shape[:-1], -first), filling, dtype=part.dtype)
        part = np.concatenate([wide, part], axis=-1)
    return part[..., ::-1].reshape(*part.shape[:-1], -1, phases)


def _count_back(chosen: Bools) -> Ints:
    flat = chosen.reshape(*chosen.shape[:-2], -1)
    counted: Ints = np.cumsum(flat, axis=-1, dtype=np.int64).reshape(chosen.shape)
    return counted
