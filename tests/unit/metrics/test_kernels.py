"""The ranking pass and the pair counter, compiled and not, against the obvious."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from placings.metrics import kernels

WAYS = {"compiled": kernels.top_rows, "numpy": kernels.top_rows_numpy}
COUNTERS = {"compiled": kernels.count_inversions, "numpy": kernels.count_inversions_numpy}
CASCADES = {"compiled": kernels.cascade, "numpy": kernels.cascade_numpy}


def make_lists(seed, sizes, grades=None):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = int(offsets[-1])
    return (rng.standard_normal(rows) if grades is None else rng.integers(0, grades, rows) * 1.0), offsets


def rank_slowly(keys, offsets, k):
    """Python's own sort, which is stable."""
    return [
        row
        for start, stop in pairwise(offsets)
        for row in sorted(range(start, stop), key=lambda row: -keys[row])[:k]
    ]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("grades", [None, 1, 3])
@pytest.mark.parametrize("k", [1, 2, 10, 48, 49, 1000, 10**15, None])
def test_rows_come_highest_first_and_ties_in_row_order(way, grades, k):
    keys, offsets = make_lists(0, [0, 1, 2, 7, 8, 9, 48, 49, 50, 300, 0], grades)
    rows, borders = WAYS[way](keys, offsets, k)
    assert rows.tolist() == rank_slowly(keys, offsets, k)
    expected = np.diff(offsets) if k is None else np.minimum(np.diff(offsets), k)
    assert np.diff(borders).tolist() == expected.tolist()


@pytest.mark.parametrize("way", WAYS)
def test_infinities_and_both_zeros_have_their_place(way):
    keys = np.array([0.0, -np.inf, -0.0, np.inf, np.inf, 1e300, -0.0])
    rows, _ = WAYS[way](keys, np.array([0, 7]))
    assert rows.tolist() == [3, 4, 5, 0, 2, 6, 1]


@pytest.mark.parametrize("k", [5, 60, None])
def test_threads_change_nothing(monkeypatch, k):
    keys, offsets = make_lists(1, np.random.default_rng(1).integers(0, 200, 3000), 7)
    monkeypatch.setenv("PLACINGS_THREADS", "1")
    alone = kernels.top_rows(keys, offsets, k)
    monkeypatch.setenv("PLACINGS_THREADS", "3")
    for mine, theirs in zip(kernels.top_rows(keys, offsets, k), alone, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(
        kernels.count_inversions(keys, offsets), kernels.count_inversions_numpy(keys, offsets)
    )


@pytest.mark.parametrize("way", COUNTERS)
@pytest.mark.parametrize("grades", [None, 1, 4])
def test_inversions_are_counted_as_by_two_loops(way, grades):
    values, offsets = make_lists(2, [0, 1, 2, 3, 8, 17, 64, 101], grades)
    slow = [
        sum(values[i] < values[j] for j in range(start, stop) for i in range(start, j))
        for start, stop in pairwise(offsets)
    ]
    assert COUNTERS[way](values, offsets).tolist() == slow


def test_cascades_are_the_same_bits():
    stops, offsets = make_lists(3, [0, 1, 2, 50, 0, 7])
    stops = np.abs(np.tanh(stops))
    np.testing.assert_array_equal(kernels.cascade(stops, offsets), kernels.cascade_numpy(stops, offsets))


@pytest.mark.parametrize("way", WAYS)
def test_no_queries_and_no_rows(way):
    none = np.zeros(0)
    for offsets in (np.array([0]), np.array([0, 0, 0])):
        rows, borders = WAYS[way](none, offsets, 3)
        assert len(rows) == 0
        assert borders.tolist() == offsets.tolist()
        assert COUNTERS[way](none, offsets).tolist() == [0] * (len(offsets) - 1)
        assert CASCADES[way](none, offsets).tolist() == [0.0] * (len(offsets) - 1)


def test_one_compilation_serves_read_only_and_strided_arrays():
    keys, offsets = make_lists(4, [5, 6])
    frozen = keys.copy()
    frozen.flags.writeable = False
    strided = np.repeat(keys, 2)[::2]
    expected = kernels.top_rows(keys, offsets, 3)[0]
    known = len(getattr(kernels._rank, "signatures", ()))
    for same in (frozen, strided):
        np.testing.assert_array_equal(kernels.top_rows(same, offsets, 3)[0], expected)
    assert len(getattr(kernels._rank, "signatures", ())) == known


def test_metrics_without_numba_are_the_same_bits(tmp_path):
    """A process of its own with PLACINGS_NUMBA=0 writes every metric; this one reads them."""
    script = (
        "import sys, numpy as np\n"
        "from placings import compilation\n"
        "from placings.metrics import METRICS, measure\n"
        "assert 'numba' not in sys.modules or compilation.HAVE_NUMBA\n"
        "rng = np.random.default_rng(5)\n"
        "sizes = rng.integers(0, 120, 60); offsets = np.concatenate([[0], np.cumsum(sizes)])\n"
        "scores = rng.integers(0, 50, offsets[-1]) / 7; labels = rng.integers(0, 5, offsets[-1])\n"
        "names = [f'{name}{k}' for name in METRICS for k in ('', '@1', '@10', '@60')]\n"
        "values = {}\n"
        "for ties in ('stable', 'worst'):\n"
        "    for name, each in measure(names, scores, labels, offsets, ties=ties).items():\n"
        "        values[f'{ties} {name}'] = each\n"
        "values['average'] = measure('ndcg@7', scores, labels, offsets, ties='average')['ndcg@7']\n"
        "values['numba'] = np.array([compilation.HAVE_NUMBA])\n"
        "np.savez(sys.argv[1], **values)\n"
    )
    stored = {}
    for switch in ("0", "1"):
        path = tmp_path / f"{switch}.npz"
        environment = os.environ | {"PLACINGS_NUMBA": switch}
        subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=environment)
        stored[switch] = dict(np.load(path))
    assert not stored["0"].pop("numba")[0]
    stored["1"].pop("numba")
    for name, values in stored["0"].items():
        np.testing.assert_array_equal(values, stored["1"][name], err_msg=name)
