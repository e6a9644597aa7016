"""Lambda losses against slow, obvious sums over pairs."""

from __future__ import annotations

from math import exp, log, log2

import pytest
import torch

from placings.core.errors import BadInput
from placings.losses import lambdarank_loss, ndcg_loss1, ndcg_loss2, ndcg_loss2pp
from placings.metrics import ndcg


def discount(rank, k=None):
    return 0.0 if k is not None and rank > k else 1 / log2(1 + rank)


def sum_over_pairs(loss, s, y, k=None):
    """One list: scores s, labels y."""
    n = len(s)
    order = sorted(range(n), key=lambda i: (-s[i], i))
    rank = {item: place + 1 for place, item in enumerate(order)}
    best = sorted((2**label - 1 for label in y), reverse=True)
    ideal = sum(gain * discount(place + 1, k) for place, gain in enumerate(best))
    gain = [(2**label - 1) / ideal for label in y]
    total = 0.0
    for i in range(n):
        for j in range(n):
            cost = log(1 + exp(-(s[i] - s[j])))
            apart = abs(rank[i] - rank[j])
            if i == j:
                continue
            if loss is ndcg_loss1:
                total += gain[i] * (discount(rank[i], k) or 1 / (rank[i] - 1)) * cost
            if y[i] <= y[j]:
                continue
            swap = abs(gain[i] - gain[j]) * abs(discount(rank[i], k) - discount(rank[j], k))
            near = abs(gain[i] - gain[j]) * (discount(apart) - discount(apart + 1))
            if k is not None and max(rank[i], rank[j]) > k:
                near /= 1 - discount(max(rank[i], rank[j]))
            total += {lambdarank_loss: swap, ndcg_loss2: near, ndcg_loss2pp: swap + 10 * near}.get(
                loss, 0
            ) * cost
    return total


LOSSES = [lambdarank_loss, ndcg_loss1, ndcg_loss2, ndcg_loss2pp]
SCORES = [0.3, -1.2, 2.1, 0.3, -0.4, 1.5]  # the first and the fourth are tied
LABELS = [2, 0, 4, 1, 3, 0]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
@pytest.mark.parametrize("k", [None, 1, 3, 20])
def test_a_lambda_loss_is_its_sum_over_pairs(loss, k):
    scores = torch.tensor([[*SCORES, 7.0]], dtype=torch.float64)
    mask = torch.tensor([[True] * 6 + [False]])
    value = loss(scores, torch.tensor([[*LABELS, 4]]), mask, k=k).item()
    assert value == pytest.approx(sum_over_pairs(loss, SCORES, LABELS, k))


def test_a_pair_weighs_in_lambdarank_what_its_swap_changes_in_ndcg():
    labels = [3, 0]
    here, there = ndcg([1.0, 2.0], labels)[0], ndcg([2.0, 1.0], labels)[0]
    value = lambdarank_loss(torch.tensor([[1.0, 2.0]], dtype=torch.float64), torch.tensor([labels])).item()
    assert value == pytest.approx((there - here) * log(1 + exp(1.0)))


@pytest.mark.parametrize("k", [None, 1, 2, 4])
def test_ndcg_loss1_bounds_the_missing_ndcg(k):
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 6, generator=rng, dtype=torch.float64)
    labels = torch.randint(0, 5, (50, 6), generator=rng)
    missing = 1 - ndcg(scores.flatten().numpy(), labels.flatten().numpy(), list(range(0, 301, 6)), k=k)
    assert ((ndcg_loss1(scores, labels, k=k) / log(2)).numpy() >= missing).all()


def test_ranks_carry_no_gradient():
    scores = torch.tensor([SCORES], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([LABELS])
    lambdarank_loss(scores, labels).sum().backward()
    step = 1e-6  # too small to change a rank but of the tied pair, which is left out
    for item in (1, 2, 4, 5):
        moved = scores.detach().clone()
        moved[0, item] += step
        numeric = (lambdarank_loss(moved, labels) - lambdarank_loss(scores.detach(), labels)).item() / step
        assert scores.grad[0, item].item() == pytest.approx(numeric, abs=1e-5)


def test_linear_gain_is_the_label_itself():
    value = lambdarank_loss(torch.tensor([[1.0, 1.0]]), torch.tensor([[1, 3]]), gain="linear").item()
    ideal = 3 + 1 / log2(3)
    assert value == pytest.approx((3 - 1) / ideal * (1 - 1 / log2(3)) * log(2))


def test_a_cutoff_and_mu_are_checked():
    pair = torch.zeros(1, 2), torch.tensor([[1, 0]])
    with pytest.raises(BadInput, match="k must be a whole number of 1 or more"):
        lambdarank_loss(*pair, k=0)
    with pytest.raises(BadInput, match="mu must be a finite number above 0"):
        ndcg_loss2pp(*pair, mu=float("nan"))
