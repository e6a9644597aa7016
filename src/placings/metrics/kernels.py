"""The compiled loops: one ranking pass, pair counting and the cascade of ERR, each with a numpy twin.

Both ways give the same rows and the same bits; `tests/contract/test_metrics.py` holds them to it.
"""

from __future__ import annotations

import functools
import itertools
from typing import TypeVar

import numpy as np

from placings.core import HAVE_NUMBA, Floats, Ints, compiled, count_threads, map_in_order

INSERTION_LIMIT = 48  # up to this many ranks a sorted buffer is kept; beyond it the whole list is sorted
ROWS_THAT_PAY = 150_000  # below this, starting threads costs more than it saves
CHUNKS_A_THREAD = 4

Numbers = TypeVar("Numbers", Floats, Ints)


def top_rows(keys: Floats, offsets: Ints, k: int | None = None) -> tuple[Ints, Ints]:
    """The first `min(k, n)` rows of each query, highest key first, ties in row order.

    Returns flat row numbers and their borders. A second key costs a second pass: order the rows by
    it first, since the pass is stable.

    >>> rows, borders = top_rows(np.array([0.1, 0.9, 0.5, 2.0, 2.0]), np.array([0, 3, 5]), 2)
    >>> rows.tolist(), borders.tolist()
    ([1, 2, 3, 4], [0, 2, 4])
    """
    return _top_rows_compiled(keys, offsets, k) if HAVE_NUMBA else top_rows_numpy(keys, offsets, k)


def count_inversions(values: Floats, offsets: Ints) -> Ints:
    """Pairs of each query whose later value is strictly higher, in O(n log n).

    >>> count_inversions(np.array([3.0, 1.0, 2.0, 2.0]), np.array([0, 4])).tolist()
    [2]
    """
    if not HAVE_NUMBA:
        return count_inversions_numpy(values, offsets)
    counts = np.zeros(len(offsets) - 1, dtype=np.int64)
    values, offsets = _frozen(values), _frozen(offsets)
    _run_in_chunks(functools.partial(_count_inversions, values, offsets, counts), offsets)
    return counts


def cascade(stops: Floats, offsets: Ints) -> Floats:
    """`Σ_r 1/r · stop_r · Π_{i<r} (1 − stop_i)` for each query, `stops` being in rank order."""
    if not HAVE_NUMBA:
        return cascade_numpy(stops, offsets)
    totals = np.zeros(len(offsets) - 1, dtype=np.float64)
    _cascade(_frozen(stops), _frozen(offsets), totals)
    return totals


def top_rows_numpy(keys: Floats, offsets: Ints, k: int | None = None) -> tuple[Ints, Ints]:
    """`top_rows` without numba."""
    sizes = np.diff(offsets)
    borders = _borders(sizes, k)
    queries = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    order = np.lexsort((-keys, queries)).astype(np.int64, copy=False)
    if borders[-1] == len(order):
        return order, borders
    depth = np.arange(len(order), dtype=np.int64) - np.repeat(offsets[:-1], sizes)
    return order[depth < np.repeat(np.diff(borders), sizes)], borders


def count_inversions_numpy(values: Floats, offsets: Ints) -> Ints:
    """`count_inversions` without numba: merge levels from the bottom up, all queries at once."""
    sizes = np.diff(offsets)
    rows = len(values)
    counts = np.zeros(len(sizes), dtype=np.int64)
    if rows == 0:
        return counts
    queries = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    first = np.repeat(offsets[:-1], sizes)
    depth = np.arange(rows, dtype=np.int64) - first
    grades = np.unique(values, return_inverse=True)[1].astype(np.int64)
    width = 1
    while width < sizes.max():
        block = first + depth // (2 * width) * (2 * width)  # the row where its block starts: unique
        right = depth // width % 2 == 1
        left = np.sort(block[~right] * rows + grades[~right])
        lower = np.searchsorted(left, block[right] * rows + grades[right])
        lower -= np.searchsorted(left, block[right] * rows)
        counts += np.bincount(queries[right], weights=lower, minlength=len(sizes)).astype(np.int64)
        width *= 2
    return counts


def cascade_numpy(stops: Floats, offsets: Ints) -> Floats:
    """`cascade` without numba: one step for each rank, all queries that reach it at once."""
    sizes = np.diff(offsets)
    totals = np.zeros(len(sizes), dtype=np.float64)
    going = np.ones(len(sizes), dtype=np.float64)
    for depth in range(int(sizes.max(initial=0))):
        here = np.flatnonzero(sizes > depth)
        stop = stops[offsets[here] + depth]
        totals[here] += going[here] * stop / (depth + 1.0)
        going[here] *= 1.0 - stop
    return totals


def _top_rows_compiled(keys: Floats, offsets: Ints, k: int | None) -> tuple[Ints, Ints]:
    borders = _borders(np.diff(offsets), k)
    rows = np.empty(borders[-1], dtype=np.int64)
    keys, offsets = _frozen(keys), _frozen(offsets)
    _run_in_chunks(functools.partial(_rank, keys, offsets, _frozen(borders), rows), offsets)
    return rows, borders


def _borders(sizes: Ints, k: int | None) -> Ints:
    """Borders of the first `min(k, n)` rows of each query."""
    borders = np.zeros(len(sizes) + 1, dtype=np.int64)
    largest = int(sizes.max(initial=0))
    np.cumsum(sizes if k is None else np.minimum(sizes, min(k, largest)), out=borders[1:])
    return borders


def _frozen(array: Numbers) -> Numbers:
    """A contiguous read-only view: whatever a caller holds, numba compiles for one kind of array."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _run_in_chunks(loop: functools.partial[None], offsets: Ints) -> None:
    """Run `loop(first_query, last_query)` over all queries, on threads where that pays."""
    queries, rows = len(offsets) - 1, int(offsets[-1])
    threads = min(count_threads(), max(1, rows // (ROWS_THAT_PAY // 2)))
    if threads == 1:
        loop(0, queries)
        return
    marks = np.linspace(0, rows, threads * CHUNKS_A_THREAD + 1)[1:-1]
    cuts = np.unique(np.concatenate([[0], np.searchsorted(offsets, marks), [queries]])).tolist()
    chunks = itertools.pairwise(cuts)
    for _ in map_in_order(lambda chunk: loop(*chunk), chunks, threads=threads):
        pass


@compiled
def _rank(keys: Floats, offsets: Ints, borders: Ints, rows: Ints, first: int, last: int) -> None:
    """Write the top rows of the queries `first … last − 1` into `rows`."""
    best = np.empty(INSERTION_LIMIT, dtype=np.float64)
    longest = 0
    for query in range(first, last):
        if borders[query + 1] - borders[query] > INSERTION_LIMIT:
            longest = max(longest, offsets[query + 1] - offsets[query])
    keys_a = np.empty(longest, dtype=np.float64)
    keys_b = np.empty(longest, dtype=np.float64)
    rows_a = np.empty(longest, dtype=np.int64)
    rows_b = np.empty(longest, dtype=np.int64)
    for query in range(first, last):
        start, stop = offsets[query], offsets[query + 1]
        base, depth = borders[query], borders[query + 1] - borders[query]
        if depth <= INSERTION_LIMIT:
            _select(keys, start, stop, rows, base, depth, best)
        else:
            size = stop - start
            for i in range(size):
                keys_a[i] = keys[start + i]
                rows_a[i] = start + i
            if _sort(keys_a, rows_a, keys_b, rows_b, size):
                rows[base : base + depth] = rows_b[:depth]
            else:
                rows[base : base + depth] = rows_a[:depth]


@compiled
def _select(keys: Floats, start: int, stop: int, rows: Ints, base: int, depth: int, best: Floats) -> None:
    """Keep the `depth` highest in a sorted buffer; a row enters only above the last of them."""
    for row in range(start, start + depth):
        key = keys[row]
        at = row - start
        while at > 0 and key > best[at - 1]:
            best[at] = best[at - 1]
            rows[base + at] = rows[base + at - 1]
            at -= 1
        best[at] = key
        rows[base + at] = row
    for row in range(start + depth, stop):
        key = keys[row]
        at = depth - 1
        if not key > best[at]:
            continue
        while at > 0 and key > best[at - 1]:
            best[at] = best[at - 1]
            rows[base + at] = rows[base + at - 1]
            at -= 1
        best[at] = key
        rows[base + at] = row


@compiled
def _sort(keys_a: Floats, rows_a: Ints, keys_b: Floats, rows_b: Ints, size: int) -> bool:
    """Sort keys and rows together, stable, highest first; True when the result lies in `b`."""
    run = 8
    for low in range(0, size, run):
        for i in range(low + 1, min(low + run, size)):
            key, row, at = keys_a[i], rows_a[i], i
            while at > low and key > keys_a[at - 1]:
                keys_a[at] = keys_a[at - 1]
                rows_a[at] = rows_a[at - 1]
                at -= 1
            keys_a[at] = key
            rows_a[at] = row
    swapped = False
    width = run
    while width < size:
        for low in range(0, size, 2 * width):
            middle, high = min(low + width, size), min(low + 2 * width, size)
            i, j, out = low, middle, low
            while i < middle and j < high:
                right = keys_a[j] > keys_a[i]  # a tie takes the left: stable
                pick = j if right else i
                keys_b[out] = keys_a[pick]
                rows_b[out] = rows_a[pick]
                j += right
                i += 1 - right
                out += 1
            while i < middle:
                keys_b[out] = keys_a[i]
                rows_b[out] = rows_a[i]
                i += 1
                out += 1
            while j < high:
                keys_b[out] = keys_a[j]
                rows_b[out] = rows_a[j]
                j += 1
                out += 1
        keys_a, keys_b = keys_b, keys_a
        rows_a, rows_b = rows_b, rows_a
        swapped = not swapped
        width *= 2
    return swapped


@compiled
def _count_inversions(values: Floats, offsets: Ints, counts: Ints, first: int, last: int) -> None:
    """Knight's merge sort by falling value: taking from the right passes all that wait on the left."""
    longest = 0
    for query in range(first, last):
        longest = max(longest, offsets[query + 1] - offsets[query])
    here = np.empty(longest, dtype=np.float64)
    there = np.empty(longest, dtype=np.float64)
    for query in range(first, last):
        start, size = offsets[query], offsets[query + 1] - offsets[query]
        here[:size] = values[start : start + size]
        total = 0
        width = 1
        while width < size:
            for low in range(0, size, 2 * width):
                middle, high = min(low + width, size), min(low + 2 * width, size)
                i, j = low, middle
                for out in range(low, high):
                    if i < middle and (j == high or here[i] >= here[j]):
                        there[out] = here[i]
                        i += 1
                    else:
                        total += middle - i
                        there[out] = here[j]
                        j += 1
            here, there = there, here
            width *= 2
        counts[query] = total


@compiled
def _cascade(stops: Floats, offsets: Ints, totals: Floats) -> None:
    for query in range(len(totals)):
        going = 1.0
        for at in range(offsets[query], offsets[query + 1]):
            totals[query] += going * stops[at] / (at - offsets[query] + 1.0)
            going *= 1.0 - stops[at]
