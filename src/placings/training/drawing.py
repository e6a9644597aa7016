"""The compiled loops of a batch: rows chosen from lists, masks of dropout; all keyed, none from a stream."""

from __future__ import annotations

import numpy as np

from placings.arrays import AnyArray, Ints
from placings.compilation import HAVE_NUMBA, compiled



@compiled
def scramble_bits(bits: int) -> int:
    """`randomness.scramble` of one number, in unsigned arithmetic."""
    bits = ((bits ^ (bits >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return bits ^ (bits >> 16)


@compiled
def key_lists(queries: Ints, seed: int, step: int) -> Ints:
    """A key for each list of a step, 32 bits; nothing else in the step's randomness depends on the query."""
    out = np.empty(len(queries), dtype=np.int64)
    start = scramble_bits(scramble_bits((seed + 0x9E3779B9) & 0xFFFFFFFF) ^ (step & 0xFFFFFFFF))
    for place in range(len(queries)):
        out[place] = scramble_bits(start ^ scramble_bits((queries[place] + 1) & 0xFFFFFFFF))
    return out


@compiled
def choose_rows(offsets: Ints, queries: Ints, sizes: Ints, keys: Ints, rows: Ints) -> None:
    """Fill `rows`: all of a list, or a random choice of `sizes[i]` of them in their order (one pass)."""
    place = 0
    for which in range(len(queries)):
        start, stop = offsets[queries[which]], offsets[queries[which] + 1]
        wanted = sizes[which]
        if wanted == stop - start:
            for row in range(start, stop):
                rows[place] = row
                place += 1
            continue
        state = keys[which]
        for row in range(start, stop):
            state = scramble_bits((state + 0x9E3779B9) & 0xFFFFFFFF)
            if state * (stop - row) < wanted * 4294967296.0:
                rows[place] = row
                place += 1
                wanted -= 1
                if wanted == 0:
                    break


@compiled
def _fill_kept(rows: AnyArray, units: AnyArray, threshold: int, bits: int, out: AnyArray) -> None:
    for row in range(len(rows)):
        name = rows[row]
        for unit in range(len(units)):
            mixed = ((name ^ units[unit]) * 0x7FEB352D) & 0xFFFFFFFF
            high = mixed >> 15  # as of a signed number
            if mixed >= 0x80000000:
                high |= 0xFFFE0000
            mixed = ((mixed ^ high) * 0x846CA68B) & 0xFFFFFFFF
            out[row, unit] = bits if (mixed ^ 0x80000000) >= threshold else 0


def fill_kept(rows: AnyArray, units: AnyArray, dropout: float, bits: int, out: AnyArray) -> None:
    """`randomness.keep_units` on a CPU: `bits` where a unit stays, 0 where it goes, written into `out`.

    `rows` and `units` are int32, `out` an unsigned view of the factors.
    """
    from placings.threads import count_threads, map_in_order

    threads = count_threads()
    step = max(1, -(-len(rows) // threads))

    def work(start: int) -> None:
        _fill_kept(rows[start : start + step], units, round(dropout * 2**32), bits, out[start : start + step])

    for _ in map_in_order(work, range(0, len(rows), step), threads=threads if len(rows) > 256 else 1):
        pass


CAN_FILL = HAVE_NUMBA
