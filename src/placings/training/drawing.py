"""The compiled loops of a batch: rows chosen from lists, units dropped; all keyed, none from a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from placings.core import HAVE_NUMBA, AnyArray, Floats, Ints, compiled

BLOCK = 256  # rows whose sums are taken together; a fixed number, so that no bit depends on the threads
MANY = 1 << 18  # numbers worth more than one thread


@compiled
def scramble_bits(bits: int) -> int:
    """`randomness.scramble` of one number, in unsigned arithmetic; a Python int where nothing is compiled."""
    bits = ((bits ^ (bits >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    bits = ((bits ^ (bits >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return bits ^ (bits >> 16)


@compiled
def key_lists(queries: Ints, seed: int, step: int) -> Ints:
    """A key for each list of a step, 32 bits; nothing else in the step's randomness depends on the query."""
    out = np.empty(len(queries), dtype=np.int64)
    start = scramble_bits(scramble_bits((seed + 0x9E3779B9) & 0xFFFFFFFF) ^ (step & 0xFFFFFFFF))
    for place in range(len(queries)):
        out[place] = scramble_bits(start ^ scramble_bits((int(queries[place]) + 1) & 0xFFFFFFFF))
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
        state = int(keys[which])
        for row in range(start, stop):
            state = scramble_bits((state + 0x9E3779B9) & 0xFFFFFFFF)
            if state * (stop - row) < wanted * 4294967296.0:
                rows[place] = row
                place += 1
                wanted -= 1
                if wanted == 0:
                    break


@compiled
def _hash_unit(row: Any, unit: Any) -> Any:
    """What `randomness.keep_units` compares, as uint32 in the order of int32; all stays 32 bits wide."""
    mixed = np.uint32((row ^ unit) * np.uint32(0x7FEB352D))
    high = np.uint32(np.int32(mixed) >> np.int32(15))  # as of a signed number
    return np.uint32((mixed ^ high) * np.uint32(0x846CA68B)) ^ np.uint32(0x80000000)


@compiled
def _fill_kept(rows: AnyArray, units: AnyArray, threshold: Any, bits: Any, out: AnyArray) -> None:
    for row in range(len(rows)):
        for unit in range(len(units)):
            out[row, unit] = bits if _hash_unit(rows[row], units[unit]) >= threshold else 0


@compiled
def _widen(bits: Any, shift: Any) -> Any:
    """The float32 of these bits: bfloat16's (16 to shift) or its own (0)."""
    return np.uint32(np.uint32(bits) << shift).view(np.float32)


@compiled
def _narrow(value: Any, shift: Any, half: Any) -> Any:
    """The reverse of `_widen`, rounded to the nearest, to the even one of two; `half` of the last digit."""
    bits = np.float32(value).view(np.uint32)
    odd = (bits >> shift) & np.uint32(half > 0)
    return np.uint32(bits + half + odd) >> shift


@compiled
def _drop_rows(
    x: AnyArray, bias: AnyArray, rows: AnyArray, units: AnyArray, threshold: Any, kept: Any,
    shift: Any, half: Any, sums: Floats, squares: Floats,
) -> None:  # fmt: skip
    zero = np.float32(0.0)
    for row in range(len(rows)):
        line = row // BLOCK
        for unit in range(len(units)):
            value = _widen(x[row, unit], shift) + bias[unit]
            stays = (_hash_unit(rows[row], units[unit]) >= threshold) & (not value <= zero)  # NaN stays
            bits = _narrow(value * kept if stays else zero, shift, half)
            x[row, unit] = bits
            wide = np.float64(_widen(bits, shift))
            sums[line, unit] += wide
            squares[line, unit] += wide * wide


@compiled
def _pull_rows(
    grad: AnyArray, x: AnyArray, kept: Any, level: AnyArray, slope: AnyArray,
    shift: Any, half: Any, sums: Floats,
) -> None:  # fmt: skip
    zero = np.float32(0.0)
    for row in range(len(x)):
        line = row // BLOCK
        for unit in range(x.shape[1]):
            value = _widen(x[row, unit], shift)
            pull = (_widen(grad[row, unit], shift) + (level[unit] + slope[unit] * value)) * kept
            bits = _narrow(pull if value > zero else zero, shift, half)
            grad[row, unit] = bits
            sums[line, unit] += _widen(bits, shift)


def fill_kept(rows: AnyArray, units: AnyArray, dropout: float, bits: int, out: AnyArray) -> None:
    """`randomness.keep_units` on a CPU: `bits` where a unit stays, 0 where it goes, written into `out`.

    `rows` and `units` are int32, `out` an unsigned view of the factors.
    """
    names, threshold, word = rows.view(np.uint32), np.uint32(round(dropout * 2**32)), np.uint32(bits)
    _share_rows(lambda part: _fill_kept(names[part], units.view(np.uint32), threshold, word, out[part]), out)


def drop_rows(
    x: AnyArray, bias: AnyArray, rows: AnyArray, units: AnyArray, dropout: float
) -> tuple[Floats, Floats]:
    """`max(x + bias, 0)`, dropped out by the keys of rows and units, in place; its mean and variance.

    `x` holds the bits of float32 (uint32) or bfloat16 (uint16) `[rows, units]`, `bias` is float32, `rows` and
    `units` are int32. Mean and variance are over rows, from float64 sums of blocks of them: the same bits on
    any number of threads. NaN stays NaN.
    """
    names, threshold = rows.view(np.uint32), np.uint32(round(dropout * 2**32))
    kept, (shift, half) = np.float32(1.0 / (1.0 - dropout)), _describe(x)
    sums, squares = _make_sums(x), _make_sums(x)

    def work(part: slice) -> None:
        lines = slice(part.start // BLOCK, None)
        _drop_rows(
            x[part], bias, names[part], units.view(np.uint32), threshold, kept, shift, half,
            sums[lines], squares[lines],
        )  # fmt: skip

    _share_rows(work, x)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told by the loss
        mean = sums.sum(0) / len(rows)
        return mean, np.maximum(squares.sum(0) / len(rows) - mean**2, 0.0)


def pull_rows(grad: AnyArray, x: AnyArray, dropout: float, level: AnyArray, slope: AnyArray) -> Floats:
    """The gradient by what `drop_rows` got, in place of that by what it made of it, `x`, and its moments.

    `(grad + level + slope · x) / (1 − dropout)` where x > 0, else 0; bits `[rows, units]`, float32 `[units]`.
    Returns the gradient by the bias: its sum over rows.
    """
    kept, (shift, half) = np.float32(1.0 / (1.0 - dropout)), _describe(x)
    sums = _make_sums(x)

    def work(part: slice) -> None:
        lines = slice(part.start // BLOCK, None)
        _pull_rows(grad[part], x[part], kept, level, slope, shift, half, sums[lines])

    _share_rows(work, x)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(sums.sum(0))


def _make_sums(x: AnyArray) -> Floats:
    """Zeros for each block of rows, `[blocks, units]`."""
    return np.zeros((-(-len(x) // BLOCK), x.shape[1]))


def _describe(bits: AnyArray) -> tuple[Any, Any]:
    """How far these are to be shifted to be float32's, and half of their last digit, less one."""
    short = bits.dtype == np.uint16
    return np.uint32(16 if short else 0), np.uint32(0x7FFF if short else 0)


def _share_rows(work: Callable[[slice], None], x: AnyArray) -> None:
    """Blocks of rows, some to each thread if there are many numbers."""
    from placings.core import count_threads, map_in_order

    threads = count_threads() if x.size >= MANY else 1
    step = -(-len(x) // (threads * BLOCK)) * BLOCK
    parts = [slice(start, min(start + step, len(x))) for start in range(0, len(x), step or 1)]

    def run(part: slice) -> None:
        with np.errstate(over="ignore"):  # hashes wrap round, compiled or not
            work(part)

    for _ in map_in_order(run, parts, threads=threads):
        pass


CAN_FILL = HAVE_NUMBA
