"""Coverage from day to day: a moving average, the days that are missing, and what moved most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.core import BadInput, Floats, need_library, option, wilson_interval
from placings.feco.alerts import name_some, say_time
from placings.feco.baselines import as_frame, as_stamps, find_segment_columns, make_grid, parse_time

if TYPE_CHECKING:
    import pandas as pd

    from placings.feco.score import Coverage


@dataclass(frozen=True, eq=False)
class Trend:
    """Coverage with its moving average.

    `frame` has a row for every feature, segment and window between the first and the last, also where the
    log has none (`events` 0, `coverage` NaN). `average` is the moving average, `averaged` how many windows
    with events it rests on, `finished` is false where the window ends after the watermark. `missing` are
    the windows in which nothing at all was logged; `unfinished` those that have not ended.
    """

    frame: pd.DataFrame = field(repr=False)
    by: tuple[str, ...]
    length: int
    missing: tuple[datetime, ...]
    unfinished: tuple[datetime, ...]

    def to_pandas(self) -> pd.DataFrame:
        """The frame, a copy."""
        return self.frame.copy()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know: missing and unfinished windows, in words."""
        said = []
        if self.missing:
            days = name_some([say_time(window) for window in self.missing])
            said.append(f"no events in {len(self.missing)} windows: {days}")
        if self.unfinished:
            days = name_some([say_time(window) for window in self.unfinished])
            said.append(f"not finished by the watermark, so in no average: {days}")
        return tuple(said)


def measure_trend(
    frame: pd.DataFrame | Coverage,
    *,
    average: str = "7d",
    watermark: Any = None,
    since: Any = None,
    until: Any = None,
    step: Any = None,
) -> Trend:
    """The moving average of coverage over the last `average` of time, by events.

    `average_t = Σ covered / Σ events` over the windows that end with t. Days without events add nothing to
    either sum; at the beginning the average rests on fewer windows, and `averaged` says on how many. A window
    that ends after the `watermark` has no average and is in no other. `since` and `until` (not included)
    cut what is shown, not what is averaged.

    >>> import pandas as pd
    >>> days = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-04"])
    >>> log = pd.DataFrame({"feature": "rating", "window": days, "coverage": [0.5, 0.8, 0.9], "events": 100})
    >>> trend = measure_trend(log, average="2d")
    >>> trend.frame["average"].round(2).tolist(), trend.frame["averaged"].tolist()
    ([0.5, 0.65, 0.8, 0.9], [1, 2, 1, 1])
    >>> trend.notes
    ('no events in 1 windows: 2024-01-03',)

    Section 3.2 of Gope and others, Measuring feature quality for improved ranking performance, 2023.
    """
    pandas = need_library("pandas", "a trend")
    given, _ = as_frame(frame)
    grid = make_grid(given, step=step)
    length = _count_windows(average, grid.step)
    ends = grid.windows + grid.step
    done = np.ones(len(ends), dtype=np.bool_)
    if watermark is not None:
        done = ends <= np.datetime64(parse_time(watermark, "watermark"), "s")
    cells = slice(0, grid.cells)
    events = np.where(done, grid.events[cells], 0.0)
    covered = np.where(done, grid.covered[cells], 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        smooth = _sum_back(covered, length) / _sum_back(events, length)
    columns: dict[str, Any] = {}
    shape = grid.events[cells].shape  # [segments, features, windows]

    def flatten(values: Any) -> Any:
        return np.moveaxis(np.broadcast_to(values, shape), 1, 0).ravel()

    columns["feature"] = np.repeat(np.array(grid.features, dtype=object), shape[0] * shape[2])
    for name in grid.by:
        values = np.empty(shape[0], dtype=object)
        values[:] = [group[name] for group in grid.groups[: grid.cells]]
        columns[name] = np.tile(np.repeat(values, shape[2]), shape[1])
    columns["window"] = flatten(grid.windows.astype("datetime64[ns]"))
    columns["coverage"] = flatten(grid.coverage[cells])
    columns["events"] = flatten(grid.events[cells]).astype(np.int64)
    columns["average"] = flatten(np.where(done, smooth, np.nan))
    columns["averaged"] = flatten(_sum_back((events > 0).astype(np.float64), length)).astype(np.int64)
    columns["finished"] = flatten(done)
    made: pd.DataFrame = pandas.DataFrame(columns)
    extra = [name for name in ("low", "high", "covered") if name in given.columns]
    if extra:
        keys = ["feature", *grid.by, "window"]
        known = given.assign(window=as_stamps(given["window"]).to_numpy())
        made = made.merge(known[[*keys, *extra]], on=keys, how="left")
    shown = np.ones(len(grid.windows), dtype=np.bool_)
    if since is not None:
        shown &= grid.windows >= np.datetime64(parse_time(since, "since"), "s")
    if until is not None:
        shown &= grid.windows < np.datetime64(parse_time(until, "until"), "s")
    made = made[np.tile(shown, shape[0] * shape[1])].reset_index(drop=True)
    nothing = (grid.events[cells].sum(axis=(0, 1)) == 0) & done
    return Trend(
        frame=made,
        by=grid.by,
        length=length,
        missing=tuple(grid.windows[nothing & shown].astype(datetime).tolist()),
        unfinished=tuple(grid.windows[~done & shown].astype(datetime).tolist()),
    )


def _count_windows(average: str, step: np.timedelta64) -> int:
    pandas = need_library("pandas", "a trend")
    try:
        length = pandas.Timedelta(average).to_timedelta64()
    except ValueError as error:
        raise BadInput(f"average must be a length of time such as '7d'. Got {average!r}.") from error
    windows = length / step
    if not windows >= 1 or windows != int(windows):
        raise BadInput(
            f"average must be one or more whole windows of {pandas.Timedelta(step)}. Got {average!r}."
        )
    return int(windows)


def _sum_back(values: Floats, length: int) -> Floats:
    """The sum of each window and the `length` − 1 before it, along the last axis."""
    total = np.cumsum(values, axis=-1)
    summed: Floats = total.copy()
    summed[..., length:] -= total[..., :-length]
    return np.maximum(summed, 0.0)


@dataclass(frozen=True)
class Mover:
    """A feature in a segment (none: everywhere): coverage before and after, the change and its interval."""

    feature: str
    segment: Mapping[str, Any]
    before: float
    after: float
    change: float
    low: float
    high: float
    events: int

    @property
    def is_sure(self) -> bool:
        """Whether the interval of the change lies on one side of 0."""
        return self.low > 0.0 or self.high < 0.0


def rank_movers(frame: pd.DataFrame, *, windows: int = 7, min_events: int = 50) -> tuple[Mover, ...]:
    """The change of coverage from the `windows` before the last `windows` to those, the largest first.

    `frame` is a coverage frame with windows, of finished windows only. Events of either side are added up;
    the interval of the difference is Newcombe's, of two Wilson intervals, over events. A feature and
    segment with fewer than `min_events` on a side is left out. With fewer than two windows there are none;
    with fewer than 2 · `windows` the halves are compared.

    >>> import pandas as pd
    >>> days = pd.date_range("2024-01-01", periods=4)
    >>> frame = pd.DataFrame({"feature": "rating", "window": days, "coverage": [0.9, 0.9, 0.5, 0.5],
    ...                       "events": 100, "covered": [90, 90, 50, 50]})
    >>> found = rank_movers(frame)[0]
    >>> round(found.change, 2), round(found.low, 2), round(found.high, 2)
    (-0.4, -0.48, -0.32)

    R. G. Newcombe, Interval estimation for the difference between independent proportions, 1998.
    """
    if "window" not in frame:
        raise BadInput(f"the coverage frame has no windows. Name the time with {option('time')}.")
    by = list(find_segment_columns(frame))
    starts = np.sort(frame["window"].unique())
    span = min(windows, len(starts) // 2)
    if span < 1:
        return ()
    recent, earlier = starts[-span:], starts[-2 * span : -span]
    groups = [[], *([by] if by else [])]
    found = []
    for names in groups:
        keys = ["feature", *names]
        sums = []
        for part in (earlier, recent):
            grouped = frame[frame["window"].isin(part)].groupby(keys, sort=False, dropna=False)
            sums.append(grouped[["events", "covered"]].sum())
        joined = sums[0].join(sums[1], lsuffix="_before", rsuffix="_after", how="inner")
        for key, row in joined.iterrows():
            values = key if isinstance(key, tuple) else (key,)
            n, m = float(row["events_before"]), float(row["events_after"])
            if min(n, m) < min_events:
                continue
            found.append(_compare(values, names, row["covered_before"] / n, n, row["covered_after"] / m, m))
    return tuple(sorted(found, key=lambda mover: -abs(mover.change)))


def _compare(
    values: tuple[Any, ...], names: list[str], before: float, n: float, after: float, m: float
) -> Mover:
    before, after = float(before), float(after)
    low_1, high_1 = (float(end) for end in wilson_interval(before * n, n))
    low_2, high_2 = (float(end) for end in wilson_interval(after * m, m))
    change = after - before
    low = change - np.hypot(after - low_2, high_1 - before)
    high = change + np.hypot(high_2 - after, before - low_1)
    segment = dict(zip(names, values[1:], strict=True))
    return Mover(str(values[0]), segment, before, after, change, float(low), float(high), int(m))
