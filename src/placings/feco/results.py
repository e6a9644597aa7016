"""`Coverage`: what `coverage` gives back, to compute with, to read at a terminal, to hand on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from placings.arrays import Floats
from placings.errors import UnknownName
from placings.evaluation.rendering import Cell, Grid, Shown, render_grid
from placings.feco.rules import Rule, describe_rule

if TYPE_CHECKING:
    import pandas as pd

BAR = 20  # letters of a full bar
EIGHTHS = " ▏▎▍▌▋▊▉"
LEVELS = "▁▂▃▄▅▆▇█"
LONGEST_LINE = 30  # windows of a sparkline
SHOWN = 40


@dataclass(frozen=True, eq=False, repr=False)
class Coverage(Shown):
    """The share of events in which each feature is covered, by segment and window.

    `to_pandas()` is the coverage frame. `features` were counted, by the `rules` and `thresholds` (what
    "mean" and "median" came to); `left_out` says why other columns were not, and `notes` what else there
    is to know. `coverage["price"]` is one feature's share over all segments and windows.
    """

    frame: pd.DataFrame
    features: tuple[str, ...]
    left_out: Mapping[str, str]
    rules: Mapping[str, Rule]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    by: tuple[str, ...] = ()
    unit: str = "row"
    window: str | None = None
    zone: str = "UTC"
    level: float = 0.95
    engine: str = "duckdb"
    notes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()  # features that are no column of the table

    def to_pandas(self) -> pd.DataFrame:
        """The coverage frame (a copy): feature, segments, window, coverage, low, high, events, covered."""
        return self.frame.copy()

    @property
    def percent(self) -> pd.DataFrame:
        """The frame with coverage, low and high in percent: FeCo as the paper prints it."""
        shares = ["coverage", "low", "high"]
        return self.frame.assign(**{name: 100.0 * self.frame[name] for name in shares})

    def __getitem__(self, feature: str) -> float:
        if feature not in self.features:
            raise UnknownName("feature", str(feature), self.features)
        return _pool(self.frame[self.frame["feature"] == feature])

    def __len__(self) -> int:
        return len(self.features)

    def table(self, format: str = "text", *, top: int | None = SHOWN) -> str:
        """One line a feature and segment, with a bar, and a sparkline over windows ("·" without events).

        `top` cuts the table after so many lines (None: all); `format` is "text", "markdown", "latex" or
        "html".
        """
        keys = ["feature", *self.by]
        timed = "window" in self.frame
        rows = []
        groups = self.frame.groupby(keys, sort=False, dropna=False)
        count = groups.ngroups
        for number, (names, part) in enumerate(groups):
            if top is not None and number >= top:
                break
            share = _pool(part)
            cells = [*map(str, names), draw_bar(share), _percent(share)]
            if timed:
                cells += [draw_line(part["coverage"].to_numpy(dtype=np.float64))]
                cells += [_percent(float(part["coverage"].iloc[-1]))]
            else:
                cells += [f"{_percent(float(part['low'].iloc[0]))} – {_percent(float(part['high'].iloc[0]))}"]
            cells += [f"{int(part['events'].sum()):,}"]
            rows.append(tuple(map(Cell, cells)))
        middle = (f"over {self.window} windows", "last") if timed else (f"{100 * self.level:g} % interval",)
        header = (*keys, "", "coverage", *middle, "events")
        more = (f"And {count - len(rows):,} lines more.",) if count > len(rows) else ()
        grid = Grid(header, tuple(rows), (*more, *self._describe(), *self.notes), left=len(keys) + 1)
        return render_grid(grid, format)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; windows are ISO text in UTC."""
        frame = self.frame
        if "window" in frame:
            frame = frame.assign(window=frame["window"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
        return {
            "features": list(self.features), "left_out": dict(self.left_out), "rules": dict(self.rules),
            "thresholds": dict(self.thresholds), "by": list(self.by), "unit": self.unit,
            "window": self.window, "zone": self.zone, "level": self.level, "engine": self.engine,
            "absent": list(self.absent), "notes": list(self.notes),
            "rows": [{str(k): _plain(v) for k, v in row.items()} for row in frame.to_dict("records")],
        }  # fmt: skip

    def _describe(self) -> Sequence[str]:
        """The rules and the unit in words; the rule of most features is said once."""
        words = {name: describe_rule(self.rules[name], self.thresholds.get(name)) for name in self.features}
        counts: dict[str, int] = {}
        for word in words.values():
            counts[word] = counts.get(word, 0) + 1
        usual = max(counts, key=lambda word: counts[word]) if counts else ""
        others = [f"{name} {word}" for name, word in words.items() if word != usual]
        text = f"Covered: {usual}" + (f"; {_list(others)}" if others else "") + f". Unit: {self.unit}."
        left = [f"{name} ({why})" for name, why in self.left_out.items()]
        counted = f"{len(self.features)} features" if len(self.features) != 1 else "1 feature"
        return [
            text,
            f"{counted}: {_list(list(self.features))}." + (f" Left out: {_list(left)}." if left else ""),
        ]


def draw_bar(share: float, width: int = BAR) -> str:
    """A bar of eighths of a letter; a share that is not 0 is never drawn as nothing.

    >>> draw_bar(0.53, 10)
    '█████▎'
    """
    if math.isnan(share):
        return "?"
    eighths = round(share * width * 8)
    if share > 0 and not eighths:
        eighths = 1
    if share < 1 and eighths == width * 8:
        eighths -= 1
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def draw_line(shares: Floats, width: int = LONGEST_LINE) -> str:
    """A sparkline from 0 to 1 of the last `width` windows; "·" where there were no events.

    >>> draw_line(np.array([0.0, 0.5, np.nan, 1.0]))
    '▁▅·█'
    """
    return "".join("·" if np.isnan(share) else LEVELS[min(int(share * 8), 7)] for share in shares[-width:])


def _pool(part: pd.DataFrame) -> float:
    events = float(part["events"].sum())
    return float(part["covered"].sum()) / events if events else math.nan


def _percent(share: float) -> str:
    """One digit after the point; what is not all is never printed as 100, nor what is not none as 0."""
    if math.isnan(share):
        return "-"
    if 0.0 < share < 0.0005:
        return "<0.1 %"
    return f"{min(100 * share, 99.9) if share < 1.0 else 100.0:.1f} %"


def _list(names: Sequence[str], shown: int = 8) -> str:
    return ", ".join(names[:shown]) + (f" and {len(names) - shown} more" if len(names) > shown else "")


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
