"""Packed rows: laid out per list and back, in groups that cost little padding."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from placings.training.batches import BatchSampler
from placings.training.packing import Packed, PackedGroup, group_lists, pack_lists

SIZES = np.array([2, 2, 3, 5, 9, 30])


def pack(*groups: PackedGroup) -> Packed:
    packed = pack_lists(np.concatenate([[0], np.cumsum(SIZES)]))
    return replace(packed, groups=groups or packed.groups, keys=torch.arange(6, dtype=torch.int32))


@pytest.mark.parametrize(
    "groups",
    [
        (PackedGroup(0, 6, 30),),
        (PackedGroup(0, 3, 3), PackedGroup(3, 6, 30)),
        (PackedGroup(0, 2, 4), PackedGroup(2, 4, 8), PackedGroup(4, 6, 40)),
    ],
)
def test_laying_out_and_gathering_are_each_others_reverse(groups: tuple[PackedGroup, ...]) -> None:
    packed = pack(*groups)
    values = torch.arange(51.0)[:, None] * torch.tensor([1.0, -1.0])  # [rows, 2]
    laid = [packed.lay_out(values, group) for group in groups]
    for group, part in zip(groups, laid, strict=True):
        assert part.shape == (group.stop - group.start, group.width, 2)
        mask = packed.mask(group)
        assert mask.sum(dim=1).tolist() == SIZES[group.start : group.stop].tolist()
        for line, place in zip(part, range(group.start, group.stop), strict=True):
            start, size = int(packed.starts[place]), SIZES[place]
            assert line[:size, 0].tolist() == list(range(start, start + size))
        assert part.isfinite().all()  # padding repeats rows: a loss must mask it, and nothing overflows
    assert packed.gather(laid).tolist() == values.tolist()


def test_gradients_come_back_to_the_rows_that_were_laid_out() -> None:
    packed = pack(PackedGroup(0, 3, 3), PackedGroup(3, 6, 30))
    values = torch.zeros(51, requires_grad=True)
    weights = torch.arange(51.0)
    for group in packed.groups:
        laid, asked = packed.lay_out(values, group), packed.lay_out(weights, group)
        (laid * asked).masked_fill(~packed.mask(group), 0.0).sum().backward()
    assert values.grad is not None
    assert values.grad.tolist() == weights.tolist()


def test_groups_cover_every_list_once_and_are_as_wide_as_their_longest() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        sizes = np.sort(rng.geometric(rng.uniform(0.01, 0.9), size=rng.integers(1, 200)))
        groups = group_lists(sizes)
        assert [g.start for g in groups] == [0, *(g.stop for g in groups[:-1])]
        assert groups[-1].stop == len(sizes)
        assert all(g.width == sizes[g.start : g.stop].max() for g in groups)
        assert len(groups) <= 4


def test_groups_are_cut_only_where_that_saves_padding() -> None:
    assert len(group_lists(np.full(64, 20))) == 1
    tail = np.sort(np.concatenate([np.full(60, 10), [1000] * 4]))
    groups = group_lists(tail)
    assert len(groups) == 4
    squares = sum((g.stop - g.start) * g.width**2 for g in groups)
    assert squares < 0.3 * 64 * 1000**2
    assert group_lists(np.array([], dtype=np.int64)) == ()
    assert len(group_lists(tail, most=1)) == 1


def test_a_rows_key_follows_from_its_list_and_its_place_in_it() -> None:
    deck = BatchSampler(np.concatenate([[0], np.cumsum(SIZES)]), 6, None, 1)
    whole = deck.draw(0)
    keys = whole.pack(torch.device("cpu")).row_keys.tolist()
    assert len(set(keys)) == 51
    found = dict(zip(whole.rows.tolist(), keys, strict=True))
    for part in range(2):  # another batch around it, other places: the same keys
        some = deck.draw(0, part=part, parts=2)
        for row, key in zip(
            some.rows.tolist(), some.pack(torch.device("cpu")).row_keys.tolist(), strict=True
        ):
            assert found[row] == key
    later = deck.draw(1).pack(torch.device("cpu")).row_keys.tolist()
    assert not set(keys) & set(later)


def test_lists_are_packed_as_they_stand_for_scoring() -> None:
    packed = pack_lists(np.array([0, 3, 3, 7, 8]))
    assert packed.sizes.tolist() == [3, 0, 4, 1]
    assert packed.groups == (PackedGroup(0, 4, 4),)
    (laid,) = (packed.lay_out(torch.arange(8), group) for group in packed.groups)
    kept = [line[mask].tolist() for line, mask in zip(laid, packed.mask(packed.groups[0]), strict=True)]
    assert kept == [list(range(a, b)) for a, b in pairwise([0, 3, 3, 7, 8])]
