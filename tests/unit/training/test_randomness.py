"""Keyed random numbers: right in distribution, independent, and the same wherever they are drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from placings.training.drawing import fill_kept, key_lists, scramble_bits
from placings.training.layers import RowDropout
from placings.training.randomness import (
    draw_gumbel,
    draw_units,
    find_threshold,
    keep_units,
    make_uniform,
    name_rows,
    number_units,
    scramble,
)
from placings.training.steps import key_step

INTS = [0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678, 0xDEADBEEF]


def as_int32(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.asarray(values, dtype=np.uint32).view(np.int32))


def hash_slowly(bits: int) -> int:
    """Wellons' lowbias32 in Python's whole numbers."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        bits = ((bits ^ (bits >> shift)) * factor) % 2**32
    return bits ^ (bits >> 16)


def max_correlation(columns: np.ndarray) -> float:
    """The largest between two columns, in standard deviations of what chance gives."""
    found = np.corrcoef(columns.T)
    return float(np.abs(found[~np.eye(len(found), dtype=bool)]).max() * np.sqrt(len(columns)))


# -- the hash --------------------------------------------------------------------------------------


def test_the_hash_is_the_same_in_torch_in_numba_and_by_hand() -> None:
    values = [*INTS, *np.random.default_rng(0).integers(0, 2**32, 500).tolist()]
    expected = [hash_slowly(value) for value in values]
    assert [int(scramble_bits(value)) for value in values] == expected
    assert [bits % 2**32 for bits in scramble(as_int32(np.array(values))).tolist()] == expected


def test_the_hash_sends_no_two_numbers_to_one_and_every_bit_moves_half_of_the_output() -> None:
    numbers = torch.arange(1 << 16, dtype=torch.int32)
    plain = scramble(numbers)
    assert len(torch.unique(plain)) == 1 << 16
    for bit in range(32):
        flip = torch.tensor(1 << bit if bit < 31 else -(1 << 31), dtype=torch.int32)
        changed = (scramble(numbers ^ flip) ^ plain).numpy().view(np.uint32)
        moved = np.unpackbits(changed.view(np.uint8)).mean()
        assert abs(moved - 0.5) < 0.01


def test_keys_differ_by_seed_step_and_query() -> None:
    keys = np.concatenate(
        [key_lists(np.arange(500), seed, step) for seed in range(4) for step in range(50)]
    )  # 100,000 of 2^32: about one pair falls together by chance
    assert len(np.unique(keys)) >= 100_000 - 6
    assert keys.min() >= 0
    assert keys.max() < 2**32
    columns = key_lists(np.arange(20_000), 0, 0), key_lists(np.arange(20_000), 0, 1)
    assert max_correlation(np.column_stack(columns).astype(float)) < 5
    steps = {key_step(0, step) % 2**32 for step in range(1000)}
    assert len(steps) == 1000
    assert key_step(0, 5) != key_step(1, 5)
    assert key_step(0, 5) == key_step(0, 5)
    assert all(-(2**31) <= key_step(0, step) < 2**31 for step in range(50))


# -- uniform and Gumbel ------------------------------------------------------------------------------


def test_uniform_numbers_are_never_0_or_1_and_gumbel_noise_never_infinite() -> None:
    u = make_uniform(torch.tensor([-1, 0, 1, 2**31 - 1, -(2**31), 511, -512], dtype=torch.int32))
    assert (u > 0.0).all()
    assert (u < 1.0).all()  # of bits that are all ones too
    assert (-torch.log(-torch.log(u))).isfinite().all()
    assert u[0] == 1.0 - 2.0**-24


def test_gumbel_noise_is_standard_gumbel() -> None:
    noise = draw_gumbel(scramble(torch.arange(500, dtype=torch.int32)), 8, 100).numpy()
    assert noise.shape == (8, 500, 100)
    assert noise.dtype == np.float32
    assert abs(noise.mean() - np.euler_gamma) < 0.01  # 5 standard errors of 400,000 numbers
    assert abs(noise.var() - np.pi**2 / 6) < 0.03
    assert stats.kstest(noise.ravel().astype(float), "gumbel_r").statistic < 0.004


def test_gumbel_noise_does_not_depend_on_how_wide_it_is_laid_out_or_what_stands_beside() -> None:
    keys = scramble(torch.arange(20, dtype=torch.int32))
    wide = draw_gumbel(keys, 8, 300)
    few = 4 * np.finfo(np.float32).eps  # the hash is the same, the last bits of its logarithm need not be
    np.testing.assert_allclose(draw_gumbel(keys, 8, 17), wide[:, :, :17], rtol=few, atol=few)
    np.testing.assert_allclose(draw_gumbel(keys[4:9], 8, 300), wide[:, 4:9], rtol=few, atol=few)
    np.testing.assert_allclose(draw_gumbel(keys, 3, 300), wide[:3], rtol=few, atol=few)


def test_gumbel_noise_of_draws_lists_and_places_is_independent() -> None:
    noise = draw_gumbel(scramble(torch.arange(4000, dtype=torch.int32)), 4, 12).numpy()
    assert max_correlation(noise.transpose(1, 0, 2).reshape(4000, 48)) < 5  # places and draws over lists
    keys = torch.from_numpy(key_lists(np.arange(40), 0, 7).astype(np.uint32).view(np.int32))
    lists = draw_gumbel(keys, 1, 4000).numpy()[0].T
    assert max_correlation(lists) < 5  # lists of a step over places


def test_a_mixtures_numbers_are_uniform_and_follow_from_the_step() -> None:
    first, again, other = (
        draw_units(torch.tensor([key_step(0, step)], dtype=torch.int32), (200, 4)).numpy()
        for step in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert abs(np.corrcoef(first.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(800)
    assert max_correlation(first) < 5
    assert stats.kstest(first.ravel(), "uniform").pvalue > 1e-4


# -- dropout's masks ---------------------------------------------------------------------------------


def make_names(rows: int, units: int, *, layer: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    keys = torch.from_numpy(key_lists(np.arange(rows) // 50, 0, 3).astype(np.uint32).view(np.int32))
    ranks = torch.arange(rows, dtype=torch.int32) % 50
    return name_rows(keys, ranks), number_units(layer, units)


@pytest.mark.parametrize("dropout", [0.1, 0.25, 0.5, 0.8, 0.999])
@pytest.mark.parametrize("threads", [1, 3])
def test_masks_of_numba_and_of_torch_are_equal(
    dropout: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACINGS_THREADS", str(threads))
    rows, units = make_names(700, 33)
    out = np.empty((700, 33), dtype=np.uint32)
    fill_kept(rows.numpy(), units.numpy(), dropout, 7, out)
    kept = keep_units(rows, units, dropout).numpy()
    np.testing.assert_array_equal(out, np.where(kept, 7, 0))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_layer_draws_the_same_with_and_without_numba(
    kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, _ = make_names(300, 40)
    layer = RowDropout(0.3, 40, 2)
    like = torch.zeros(1, dtype=kind)
    fast = layer.draw(rows, like)
    monkeypatch.setattr("placings.training.drawing.CAN_FILL", False)
    slow = layer.draw(rows, like)
    assert fast.dtype == slow.dtype == kind
    assert fast.tolist() == slow.tolist()
    assert set(fast.unique().tolist()) == {0.0, float(torch.tensor(1.0 / 0.7, dtype=kind))}


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.8])
def test_the_right_share_of_units_is_dropped(dropout: float) -> None:
    kept = keep_units(*make_names(4000, 128), dropout).numpy()
    sigma = np.sqrt(dropout * (1 - dropout))
    assert abs(kept.mean() - (1 - dropout)) < 5 * sigma / np.sqrt(kept.size)
    assert np.abs(kept.mean(axis=0) - (1 - dropout)).max() < 5 * sigma / np.sqrt(4000)  # of each unit
    assert np.abs(kept.mean(axis=1) - (1 - dropout)).max() < 5.5 * sigma / np.sqrt(128)  # of each row
    spread = kept.sum(axis=1).var() / (128 * sigma**2)  # of a binomial's: no rows that lose more than others
    assert abs(spread - 1.0) < 0.12


@pytest.mark.parametrize("dropout", [0.2, 0.5])
def test_units_rows_and_layers_are_dropped_independently(dropout: float) -> None:
    kept = keep_units(*make_names(8000, 64), dropout).numpy().astype(float)
    assert max_correlation(kept) < 5.5  # 2,016 pairs of units over rows
    assert max_correlation(keep_units(*make_names(60, 8000), dropout).numpy().T.astype(float)) < 5.5
    deeper = keep_units(*make_names(8000, 64, layer=1), dropout).numpy().astype(float)
    assert abs(np.corrcoef(kept.ravel(), deeper.ravel())[0, 1]) * np.sqrt(kept.size) < 5


def test_thresholds_are_shares_of_all_int32() -> None:
    assert find_threshold(0.0) == -(2**31)
    assert find_threshold(0.5) == 0
    assert find_threshold(0.25) == -(2**30)
    rows, units = make_names(100, 10)
    assert keep_units(rows, units, 0.0).all()
