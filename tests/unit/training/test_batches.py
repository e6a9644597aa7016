"""Batches: packed rows, laid out per list, the same for the same seed and step."""

from __future__ import annotations

import numpy as np
import torch

from placings.training.batches import draw_batch

OFFSETS = np.array([0, 3, 4, 9, 9, 11, 31])  # sizes 3, 1, 5, 0, 2, 20


def test_a_batch_holds_whole_lists_of_two_rows_or_more() -> None:
    batch = draw_batch(OFFSETS, 0, lists=4, longest=None, seed=0)
    assert sorted(batch.queries.tolist()) == [0, 2, 4, 5]
    assert batch.shape == (4, 20)
    sizes = np.diff(OFFSETS)[batch.queries]
    expected = np.concatenate([np.arange(OFFSETS[q], OFFSETS[q + 1]) for q in batch.queries])
    assert batch.rows.tolist() == expected.tolist()
    laid = batch.lay_out(torch.from_numpy(batch.rows + 1.0))
    assert (laid > 0).sum(dim=1).tolist() == sizes.tolist()
    assert laid[laid > 0].tolist() == (expected + 1.0).tolist()


def test_every_list_comes_once_an_epoch() -> None:
    seen = [draw_batch(OFFSETS, step, lists=2, longest=None, seed=3).queries.tolist() for step in range(4)]
    assert sorted(seen[0] + seen[1]) == [0, 2, 4, 5]
    assert sorted(seen[2] + seen[3]) == [0, 2, 4, 5]


def test_a_batch_follows_from_seed_and_step_alone() -> None:
    one, again, other = (draw_batch(OFFSETS, 7, lists=3, longest=4, seed=s) for s in (5, 5, 6))
    assert one.rows.tolist() == again.rows.tolist()
    assert one.rows.tolist() != other.rows.tolist()


def test_a_long_list_gives_some_of_its_rows_in_their_order() -> None:
    rows = draw_batch(np.array([0, 1000]), 0, lists=1, longest=10, seed=0).rows
    assert len(rows) == 10
    assert (np.diff(rows) > 0).all()
    assert rows.max() > 10
