"""Which features and segments are dark: what fell, or lies below the others, or has no value at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

SPAN = 7  # windows of "lately"
NOTABLE = 0.03  # less is nothing, so that what differs by chance keeps its order
Line: TypeAlias = tuple[Any, ...]  # a feature and the values of its segment


def measure_darkness(frame: pd.DataFrame, by: Sequence[str]) -> dict[Line, float]:
    """How dark each feature and segment of a coverage frame is, from 0 to 1.

    It is how far the coverage of the last seven windows fell below that of the seven before (0 where that
    may be chance), or how far a segment lies below the feature as a whole; less than 3 points count 0. What
    is covered nowhere is as dark as can be. Missing values of segments are None.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"feature": ["price", "rating"], "events": 100, "covered": [90, 0]})
    >>> measure_darkness(frame, [])
    {('price',): 0.0, ('rating',): 1.0}
    """
    from placings.feco.trend import rank_movers

    by = list(by)
    changes: dict[Line, float] = {}
    if "window" in frame and len(frame):
        for mover in rank_movers(frame, windows=SPAN):
            if mover.is_sure and len(mover.segment) == len(by):
                changes[mover.feature, *(_plain(mover.segment[name]) for name in by)] = mover.change
        frame = frame[frame["window"].isin(np.sort(frame["window"].unique())[-SPAN:])]
    sums = frame.groupby(["feature", *by], sort=False, dropna=False)[["events", "covered"]].sum()
    wholes = frame.groupby("feature", sort=False)[["events", "covered"]].sum()
    found: dict[Line, float] = {}
    totals: dict[str, tuple[float, float]] = {
        str(name): (float(row["covered"]), float(row["events"])) for name, row in wholes.iterrows()
    }
    for key, row in sums.iterrows():
        values: tuple[Any, ...] = key if isinstance(key, tuple) else (key,)
        line = (str(values[0]), *(_plain(value) for value in values[1:]))
        events, covered = float(row["events"]), float(row["covered"])
        every, of = totals[str(values[0])]
        depth = 1.0
        if not events:
            depth = 0.0
        elif every > 0.0:
            depth = max(every / of - covered / events, -changes.get(line, 0.0))
        found[line] = depth if depth >= NOTABLE else 0.0
    return found


def order_features(
    frame: pd.DataFrame, by: Sequence[str], features: Sequence[str]
) -> tuple[list[str], dict[str, float]]:
    """The features, the darkest first and then the least covered, and how dark each is at its darkest."""
    dark: dict[str, float] = {}
    for (feature, *_), depth in measure_darkness(frame, by).items():
        dark[str(feature)] = max(dark.get(str(feature), 0.0), depth)
    sums = frame.groupby("feature", sort=False)[["events", "covered"]].sum()
    shares = (sums["covered"] / sums["events"].where(sums["events"] > 0)).fillna(1.0).to_dict()
    ordered = sorted(features, key=lambda name: (-dark.get(name, 0.0), shares.get(name, 1.0)))
    return ordered, dark


def _plain(value: Any) -> Any:
    return None if value is None or value != value else value
