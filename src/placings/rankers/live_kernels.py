"""Compiled loops for one list: step functions of many features at once."""

from __future__ import annotations

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
