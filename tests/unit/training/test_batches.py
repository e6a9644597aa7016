"""Batches: packed rows of whole lists, the same for the same seed and step."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from placings.training.batches import BatchSampler

OFFSETS = np.array([0, 3, 4, 9, 9, 11, 31, 35, 41, 43])  # sizes 3, 1, 5, 0, 2, 20, 4, 6, 2
USABLE = [0, 2, 4, 5, 6, 7, 8]


def test_a_batch_holds_whole_lists_of_two_rows_or_more_shortest_first() -> None:
    batch = BatchSampler(OFFSETS, 100, None, 0).draw(0)
    assert sorted(batch.queries.tolist()) == USABLE
    assert (np.diff(batch.sizes) >= 0).all()
    assert batch.sizes.tolist() == np.diff(OFFSETS)[batch.queries].tolist()
    expected = np.concatenate([np.arange(OFFSETS[q], OFFSETS[q + 1]) for q in batch.queries])
    assert batch.rows.tolist() == expected.tolist()
    for place, start in enumerate(batch.starts):
        assert batch.rows[start] == OFFSETS[batch.queries[place]]
    assert batch.owner.tolist() == np.repeat(np.arange(7), batch.sizes).tolist()


@pytest.mark.parametrize("lists", [1, 2, 3, 5, 7])
def test_every_list_comes_once_an_epoch(lists: int) -> None:
    deck = BatchSampler(OFFSETS, lists, None, 3)
    seen = np.concatenate([deck.draw(step).queries for step in range(7)])  # 7 · lists places: whole epochs
    assert np.bincount(seen, minlength=9)[USABLE].tolist() == [lists] * 7
    one = BatchSampler(np.arange(0, 61, 5), 4, None, 3)  # 12 lists, 4 a step
    for epoch in range(5):
        seen = np.concatenate([one.draw(3 * epoch + step).queries for step in range(3)])
        assert sorted(seen.tolist()) == list(range(12))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    def order(seed: int, epoch: int) -> tuple[int, ...]:
        deck = BatchSampler(np.arange(0, 121, 4), 1, None, seed)
        return tuple(int(deck.draw(30 * epoch + step).queries[0]) for step in range(30))

    assert len({order(seed, epoch) for seed in range(5) for epoch in range(5)}) == 25


def test_a_batch_follows_from_seed_and_step_alone() -> None:
    deck = BatchSampler(OFFSETS, 3, 4, 5)
    forward = [deck.draw(step) for step in range(20)]
    again = {step: BatchSampler(OFFSETS, 3, 4, 5).draw(step) for step in reversed(range(20))}
    for step, batch in enumerate(forward):
        assert batch.rows.tolist() == again[step].rows.tolist()
        assert batch.keys.tolist() == again[step].keys.tolist()
    other = [BatchSampler(OFFSETS, 3, 4, 6).draw(step).rows.tolist() for step in range(20)]
    assert [batch.rows.tolist() for batch in forward] != other


def test_a_long_list_gives_a_random_choice_of_its_rows_in_their_order() -> None:
    deck = BatchSampler(np.array([0, 40]), 1, 10, 0)
    drawn = [deck.draw(step).rows for step in range(4000)]
    assert all(len(rows) == 10 and (np.diff(rows) > 0).all() for rows in drawn)
    held = np.zeros((4000, 40))
    for line, rows in zip(held, drawn, strict=True):
        line[rows] = 1.0
    share = held.mean(axis=0)
    assert np.abs(share - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 4000)  # each row as often as any other
    both = (held.T @ held / 4000)[~np.eye(40, dtype=bool)]
    chance = 10 * 9 / (40 * 39)  # of two rows together
    assert np.abs(both - chance).max() < 6 * np.sqrt(chance / 4000)


def test_a_list_just_long_enough_is_whole() -> None:
    deck = BatchSampler(np.array([0, 10, 21]), 2, 10, 0)
    batch = deck.draw(0)
    assert batch.sizes.tolist() == [10, 10]
    whole = batch.rows[batch.owner == batch.queries.tolist().index(0)]
    assert whole.tolist() == list(range(10))


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_the_parts_of_a_batch_are_a_partition_of_it(parts: int) -> None:
    deck = BatchSampler(OFFSETS, 6, 4, 7)
    for step in range(12):
        whole = deck.draw(step)
        lists = {
            (int(q), int(k)): whole.rows[whole.owner == n].tolist()
            for n, (q, k) in enumerate(zip(whole.queries, whole.keys, strict=True))
        }
        found = []
        for part in range(parts):
            some = deck.draw(step, part=part, parts=parts)
            assert (np.diff(some.sizes) >= 0).all()
            for place, (q, k) in enumerate(zip(some.queries, some.keys, strict=True)):
                assert some.rows[some.owner == place].tolist() == lists[int(q), int(k)]
                found.append(int(q))
        assert sorted(found) == sorted(whole.queries.tolist())


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize(("lists", "longest"), [(4, None), (5, 7), (1, None), (30, None), (64, 9)])
def test_the_bound_of_a_deck_is_reached_and_never_passed(
    lists: int, longest: int | None, groups: int
) -> None:
    sizes = np.random.default_rng(lists).geometric(0.1, size=30)
    deck = BatchSampler(np.concatenate([[0], np.cumsum(sizes)]), lists, longest, 1)
    steps = 4100 if lists == 4 else 60  # beyond one block of the bound, once
    most, bound = deck.bound(steps, groups)
    drawn = [deck.find_sizes(deck.find_queries(step)) for step in range(steps)]
    assert most == max(int(each.sum()) for each in drawn)
    assert [group.start for group in bound] == [0, *(group.stop for group in bound[:-1])]
    assert bound[-1].stop == deck.size
    assert len(bound) == min(groups, deck.size)
    for start, stop, width in bound:
        assert width == max(int(each[start:stop].max()) for each in drawn)


def test_a_packed_batch_is_the_same_as_tensors() -> None:
    batch = BatchSampler(OFFSETS, 5, None, 2).draw(4)
    packed = batch.pack(torch.device("cpu"))
    assert packed.owner.tolist() == batch.owner.tolist()
    assert packed.starts.tolist() == batch.starts.tolist()
    assert packed.sizes.tolist() == batch.sizes.tolist()
    assert packed.keys.dtype == torch.int32
    assert [key % 2**32 for key in packed.keys.tolist()] == batch.keys.tolist()
    assert packed.groups == batch.groups
    assert packed.live is None


def test_without_numba_the_same_batches_are_drawn() -> None:
    def draw() -> list[list[int]]:
        deck = BatchSampler(OFFSETS, 3, 4, 5)
        return [[*deck.draw(step).rows.tolist(), *deck.draw(step).keys.tolist()] for step in range(30)]

    script = (
        "import json, warnings; warnings.simplefilter('error', RuntimeWarning); import numpy as np\n"
        "from placings.training.batches import BatchSampler\n"
        f"deck = BatchSampler(np.array({OFFSETS.tolist()}), 3, 4, 5)\n"
        "draw = lambda b: [*b.rows.tolist(), *b.keys.tolist()]\n"
        "print(json.dumps([draw(deck.draw(step)) for step in range(30)]))"
    )
    environment = {**os.environ, "PLACINGS_NUMBA": "0"}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == draw()
