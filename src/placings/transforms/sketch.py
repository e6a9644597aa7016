"""`Sketch`: one feature's values, sorted and counted; exact while few, then within an error it knows itself.

Greenwald and Khanna's idea (SIGMOD 2001) in a form that merges by addition. A knot carries two weights: `up`
counts values as if those between two knots stood on the upper one, `down` as if they stood on the lower one.
So the true number of values below any x lies between the two sums, and dropping knots only widens that gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from placings.core import HAVE_NUMBA, BadInput, Floats, Floats32, Ints, compiled

CROWDED = 4  # × bound: from here on a growing sketch drops knots
FULL = 16  # × bound: above this it drops them even at the price of a wider gap


@dataclass(frozen=True, eq=False)
class Sketch:
    """Sorted distinct `values` `[knots]` float32, and the counts `up` and `down` `[knots]`, equal when exact.

    For x between two neighbours, `values[i] < x ≤ values[i + 1]`, the number of values below x is at least
    `sum(up[:i + 1])` and at most `sum(down[:i + 1])`. The smallest and the largest value are always kept.

    >>> sketch = count_values(np.array([3, 1, 1, 2], dtype=np.float32))
    >>> sketch.values.tolist(), sketch.up.tolist(), sketch.shares().tolist()
    ([1.0, 2.0, 3.0], [2, 1, 1], [0.0, 0.5, 0.75, 1.0])
    """

    values: Floats32
    up: Ints
    down: Ints

    def __len__(self) -> int:
        return len(self.values)

    @property
    def count(self) -> int:
        """How many values were counted."""
        return int(self.up.sum())

    def bounds(self) -> tuple[Ints, Ints]:
        """The fewest and the most values below x, for x at or before each knot and beyond the last
        `[knots + 1]`."""
        low = np.concatenate([[0], np.cumsum(self.up)])
        high = np.concatenate([[0], np.cumsum(self.down)])
        return low, high

    @property
    def gap(self) -> int:
        """The largest doubt, in values, about how many lie below some x; 0 when exact."""
        low, high = self.bounds()
        return int((high - low).max())

    @property
    def error(self) -> float:
        """How far a share can be off: half of the gap, over the count."""
        return self.gap / 2 / self.count if self.count else 0.0

    def shares(self) -> Floats:
        """The share of values strictly below x, for x at or before each knot and beyond the last
        `[knots + 1]`; of no values it is 0."""
        low, high = self.bounds()
        return (low + high) / 2 / max(1, self.count)

    def value_at(self, share: float) -> float:
        """The smallest value with at least this share of all at or below it; NaN without values."""
        if not len(self):
            return float("nan")
        reached = self.shares()[1:] >= share - 1e-12
        return float(self.values[int(np.argmax(reached))])

    def median(self) -> float:
        """The middle value; of an even count the mean of the middle two; NaN without values."""
        if not len(self):
            return float("nan")
        low, high = self.bounds()
        through = (low[1:] + high[1:]) / 2  # values at or below each knot
        count = self.count
        first, second = (int(np.argmax(through > rank)) for rank in ((count - 1) // 2, count // 2))
        return (float(self.values[first]) + float(self.values[second])) / 2

    def merge(self, other: Sketch, bound: int) -> Sketch:
        """Both together; the doubts add up and nothing else is lost, until there are too many knots."""
        values = np.concatenate([self.values, other.values])
        if not len(values):
            return self
        order = np.argsort(values, kind="stable")
        values = values[order]
        starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
        up = np.add.reduceat(np.concatenate([self.up, other.up])[order], starts)
        down = np.add.reduceat(np.concatenate([self.down, other.down])[order], starts)
        return Sketch(values[starts], up, down).shrink(bound)

    def shrink(self, bound: int) -> Sketch:
        """The same with fewer knots when there are more than 4 × `bound`.

        The gap stays at or below count / (2 × `bound`), however long a stream of exact chunks is. Only if
        more than 16 × `bound` knots would be left (many sketches merged, each with a gap of its own) it
        grows, by count / (8 × `bound`), and at most 8 × `bound` + 1 knots are left.
        """
        if len(self) <= CROWDED * bound:
            return self
        fewer = self.drop_knots(self.count // (2 * bound))
        if len(fewer) <= FULL * bound:
            return fewer
        return fewer.drop_knots(fewer.gap + fewer.count // (FULL // 2 * bound))

    def finish(self, bound: int) -> Sketch:
        """At most `bound` + 1 knots: unchanged when there are no more than `bound`, else with count / `bound`
        added to the gap, that is at most 1/(2 × `bound`) to the error."""
        if len(self) <= bound:
            return self
        return self.drop_knots(self.gap + self.count // bound)

    def drop_knots(self, gap: int) -> Sketch:
        """Keep as few knots as leave no gap above this (or above the gap that is there already)."""
        low, high = self.bounds()
        through, below = low[1:], high[:-1]  # at least so many at or below a knot; at most so many below it
        kept = choose_knots(through, below, gap)
        up = np.diff(through[kept], prepend=0)
        down = np.diff(below[kept], append=high[-1])
        return Sketch(self.values[kept], up, down)


def choose_knots(through: Ints, below: Ints, gap: int) -> Ints:
    """The places of the knots that stay: from each on as far as the gap allows, and one knot at least."""
    if HAVE_NUMBA:
        kept = np.zeros(len(through), dtype=np.int64)
        return kept[: _walk(through, below, gap, kept)]
    places, last = [0], len(through) - 1
    while places[-1] < last:
        farthest = int(below.searchsorted(through.item(places[-1]) + gap, side="right")) - 1
        places.append(max(farthest, places[-1] + 1))
    return np.array(places, dtype=np.int64)


@compiled
def _walk(through: Ints, below: Ints, gap: int, kept: Ints) -> int:
    last = len(through) - 1
    count, place = 1, 0
    while place < last:
        limit = through[place] + gap
        place += 1
        while place < last and below[place + 1] <= limit:
            place += 1
        kept[count] = place
        count += 1
    return count


def count_values(values: Floats32) -> Sketch:
    """The exact sketch of present (not NaN) values, in any order."""
    return count_sorted(np.sort(values))


def count_sorted(ordered: Floats32) -> Sketch:
    """The exact sketch of sorted values."""
    if not len(ordered):
        return Sketch(ordered, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    counts = np.diff(ends, prepend=-1).astype(np.int64)
    return Sketch(ordered[ends] + np.float32(0.0), counts, counts)  # −0 becomes 0


def join_sketches(sketches: list[Sketch]) -> dict[str, Floats32 | Ints]:
    """Several features' sketches as flat arrays, one after the other, and where each begins."""
    empty = np.zeros(0, dtype=np.int64)
    return {
        "knots": np.concatenate([np.zeros(0, dtype=np.float32), *(each.values for each in sketches)]),
        "up": np.concatenate([empty, *(each.up for each in sketches)]),
        "down": np.concatenate([empty, *(each.down for each in sketches)]),
        "knot_offsets": np.cumsum([0, *(len(each) for each in sketches)], dtype=np.int64),
    }


def split_sketches(knots: Floats32, up: Ints, down: Ints, offsets: Ints) -> list[Sketch]:
    """The reverse of `join_sketches`; what could not have come from it is refused."""
    if (up < 0).any() or (down < 0).any():
        raise BadInput("the counts of a sketch must be 0 or more.")
    found = []
    for start, stop in pairwise(offsets):
        each = Sketch(knots[start:stop], up[start:stop], down[start:stop])
        low, high = each.bounds()
        if (low > high).any() or low[-1] != high[-1] or not (np.diff(each.values) > 0).all():
            raise BadInput("the knots of a sketch must rise, and its counts must add up to one number.")
        found.append(each)
    return found
