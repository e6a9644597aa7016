"""The weights of a blend: who gets one, and what chance may not decide."""

from __future__ import annotations

import numpy as np
import pytest

from placings.core import Floats
from placings.metrics import ndcg
from placings.rankers.blending import choose_weights


def make_lists(lists: int, seed: int = 0) -> tuple[Floats, Floats, np.ndarray]:
    """Hidden truths of ten rows a list, their labels (above 1), and where lists begin."""
    truth = np.random.default_rng(seed).normal(size=10 * lists)
    return truth, (truth > 1.0).astype(np.float64), np.arange(0, 10 * lists + 1, 10)


def blur(truth: Floats, noise: float, seed: int) -> Floats:
    return truth + noise * np.random.default_rng(seed).normal(size=len(truth))


@pytest.mark.parametrize("lists", [30, 2000])
def test_members_with_errors_of_their_own_share_the_weight_and_a_useless_one_has_none(lists: int) -> None:
    truth, labels, offsets = make_lists(lists)
    scores = np.stack([blur(truth, 1.0, 1), blur(truth, 1.0, 2), blur(truth, 30.0, 3)])
    weights = choose_weights(scores, lambda blend: ndcg(blend, labels, offsets, k=5), seed=0)
    assert weights.sum() == pytest.approx(1.0)
    assert weights[:2].min() > 0.2
    assert weights[2] < 0.05


def test_a_blend_of_two_is_better_than_each_where_it_was_not_chosen() -> None:
    truth, labels, offsets = make_lists(200)
    scores = np.stack([blur(truth, 1.0, 1), blur(truth, 1.2, 2)])
    weights = choose_weights(scores, lambda blend: ndcg(blend, labels, offsets, k=5), seed=0)
    later, wanted, borders = make_lists(2000, seed=9)
    fresh = np.stack([blur(later, 1.0, 11), blur(later, 1.2, 12)])
    alone = [np.nanmean(ndcg(row, wanted, borders, k=5)) for row in fresh]
    assert np.nanmean(ndcg(weights @ fresh, wanted, borders, k=5)) > max(alone) + 0.02


def test_few_lists_draw_weights_to_equal_ones() -> None:
    """Two members with errors of one size: what 12 lists prefer is mostly chance."""
    far = []
    for seed in range(20):
        truth, labels, offsets = make_lists(12, seed)
        scores = np.stack([blur(truth, 1.0, 100 + seed), blur(truth, 1.0, 200 + seed)])
        weights = choose_weights(scores, lambda blend, y=labels, o=offsets: ndcg(blend, y, o, k=5), seed=0)
        far.append(abs(weights[0] - 0.5))
    assert np.median(far) < 0.25


def test_lists_without_a_value_say_nothing() -> None:
    truth, labels, offsets = make_lists(50)
    scores = np.stack([blur(truth, 1.0, 1), blur(truth, 3.0, 2)])

    def judge(blend: Floats) -> Floats:
        return ndcg(blend, labels, offsets, k=5)

    def judge_some(blend: Floats) -> Floats:
        return np.concatenate([judge(blend), np.full(50, np.nan)])

    few, many = choose_weights(scores, judge, seed=0), choose_weights(scores, judge_some, seed=0)
    assert np.isfinite(many).all()
    assert (few > 0.5).tolist() == (many > 0.5).tolist() == [True, False]


def test_one_member_has_all_the_weight() -> None:
    assert choose_weights(np.zeros((1, 4)), lambda blend: blend, seed=0).tolist() == [1.0]


def test_members_that_no_list_tells_apart_weigh_the_same() -> None:
    weights = choose_weights(np.zeros((3, 4)), lambda blend: np.full(2, np.nan), seed=0)
    assert weights.sum() == pytest.approx(1.0)
    assert np.isfinite(weights).all()
