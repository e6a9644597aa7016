"""Compiled loops for one list: step functions of many features at once."""

from __future__ import annotations

import numpy as np

from placings.core import Floats32, Ints, compiled


@compiled
def look_up_steps(
    x: Floats32, knots: Floats32, counts: Ints, table: Floats32, on_knots: bool, out: Floats32
) -> None:
    """`Steps` of rows `[rows, features]` into `out`: how many knots lie below x says which number it gets."""
    rows, features = x.shape
    for feature in range(features):
        most = counts[feature]
        for row in range(rows):
            value = x[row, feature]
            low, high = 0, most
            while low < high:
                middle = (low + high) // 2
                if knots[feature, middle] < value:
                    low = middle + 1
                else:
                    high = middle
            place = low
            if on_knots:
                place = 2 * low + (1 if low < most and knots[feature, low] == value else 0)
            out[row, feature] = table[feature, place]


SCALE, STEPS, LOGARITHM = 0, 1, 2  # kinds of a mixture's bases
LARGEST = np.finfo(np.float32).max


@compiled
def mix_bases(
    x: Floats32,
    fill: Floats32,
    marks: Ints,
    scales: Floats32,
    ends: Floats32,
    weights: Floats32,
    knots: Floats32,
    knot_starts: Ints,
    tables: Floats32,
    table_starts: Ints,
    out: Floats32,
) -> None:
    """Rows `[rows, features]` through a mixture of scales, steps and logarithms into `out`.

    What is missing is `fill` `[features]`, and ±inf the largest float32. `marks` are, for each base, its
    kind, whether it has the knots of the base before it, and whether its table has numbers on knots; `scales`
    `[bases, 4, features]` and `ends` are those of a scale. The result of a base less `weights[0]`, times
    `weights[1]`, times its share `weights[2]` is added up. A value that was just computed, as a search's own
    are, is not computed again.
    """
    kinds, again, on_knots = marks
    centers, inverses, shares = weights
    rows, features = x.shape
    for feature in range(features):
        before = np.float32(np.nan)
        mixed = np.float32(0.0)
        for row in range(rows):
            value = x[row, feature]
            value = fill[feature] if value != value else min(max(value, -LARGEST), LARGEST)
            if value != before:
                before = value
                mixed = np.float32(0.0)
                below = 0
                for base in range(len(kinds)):
                    if kinds[base] == SCALE:
                        found = value * scales[base, 0, feature] - scales[base, 1, feature]
                        found = (found - scales[base, 2, feature]) / scales[base, 3, feature]
                        found = np.float32(min(max(found, ends[base, 0]), ends[base, 1]))
                    elif kinds[base] == LOGARITHM:
                        found = np.float32(np.copysign(np.log1p(abs(value)), value))
                    else:
                        start, high = knot_starts[base, feature], knot_starts[base, feature + 1]
                        if not again[base]:
                            below = start
                            while below < high:
                                middle = (below + high) // 2
                                if knots[middle] < value:
                                    below = middle + 1
                                else:
                                    high = middle
                        end = knot_starts[base, feature + 1]
                        place = below - start
                        if on_knots[base]:
                            place = 2 * place + (1 if below < end and knots[below] == value else 0)
                        found = tables[table_starts[base, feature] + place]
                    found = (found - centers[base, feature]) * inverses[base, feature]
                    mixed += found * shares[base, feature]
            out[row, feature] = mixed
