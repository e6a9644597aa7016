"""Which features moved most: the last windows against as many before them, in every segment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.errors import BadInput, option
from placings.feco.baselines import find_segment_columns
from placings.feco.intervals import wilson_interval

if TYPE_CHECKING:
    import pandas as pd


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
