"""Pairwise losses, with their arithmetic, and against all n² pairs."""

from __future__ import annotations

from math import exp, log, sqrt

import pytest
import torch

from placings.core.errors import BadInput, UnknownName
from placings.losses import fidelity_loss, hinge_loss, logistic_loss, soft_zero_one_loss

PAIR_LOSSES = {
    logistic_loss: lambda d: log(1 + exp(-d)),
    hinge_loss: lambda d: max(0.0, 1 - d),
    soft_zero_one_loss: lambda d: 1 / (1 + exp(d)),
    fidelity_loss: lambda d: 1 - sqrt(1 / (1 + exp(-d))),
}
every_loss = pytest.mark.parametrize("loss", PAIR_LOSSES, ids=lambda loss: loss.__name__)


def make_lists(seed=0):
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(5, 7, generator=rng, dtype=torch.float64)
    labels = torch.randint(0, 4, (5, 7), generator=rng)
    mask = torch.arange(7) < torch.tensor([7, 4, 1, 6, 5])[:, None]
    return scores, labels, mask


def count_all_pairs(loss, scores, labels, mask, weights):
    """Slow and obvious: the sum and the number of pairs of each query."""
    sums, counts = [], []
    for s, y, m, w in zip(*(each.tolist() for each in (scores, labels, mask, weights)), strict=True):
        pairs = [
            w[i] * PAIR_LOSSES[loss](s[i] - s[j])
            for i in range(len(s))
            for j in range(len(s))
            if m[i] and m[j] and y[i] > y[j]
        ]
        sums.append(sum(pairs))
        counts.append(len(pairs))
    return sums, counts


@every_loss
def test_a_loss_is_that_of_all_pairs(loss):
    scores, labels, mask = make_lists()
    weights = torch.rand(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    sums, counts = count_all_pairs(loss, scores, labels, mask, weights)
    assert loss(scores, labels, mask, weights=weights, reduce="sum").tolist() == pytest.approx(sums)
    means = [total / max(count, 1) for total, count in zip(sums, counts, strict=True)]
    assert loss(scores, labels, mask, weights=weights).tolist() == pytest.approx(means)


@every_loss
def test_a_bound_on_the_rows_changes_nothing_until_it_is_too_small(loss):
    scores, labels, mask = make_lists()
    most = int(((labels > 0) & mask).sum(-1).max())
    torch.testing.assert_close(loss(scores, labels, mask, rows=most + 2), loss(scores, labels, mask))
    cut = loss(scores, labels, mask, rows=most - 1)
    assert torch.equal(cut.isnan(), ((labels > 0) & mask).sum(-1) > most - 1)


def test_the_margin_of_a_hinge_is_a_keyword():
    value = hinge_loss(torch.tensor([[2.0, 1.0]]), torch.tensor([[1, 0]]), margin=3.0)
    assert value.tolist() == [3.0 - (2.0 - 1.0)]
    with pytest.raises(BadInput, match="margin must be a finite number above 0. Got -1"):
        hinge_loss(torch.tensor([[2.0, 1.0]]), torch.tensor([[1, 0]]), margin=-1)


def test_an_unknown_reduction_is_named():
    with pytest.raises(UnknownName, match="no reduction 'median'"):
        logistic_loss(torch.zeros(1, 2), torch.zeros(1, 2), reduce="median")


def test_a_pair_far_in_the_wrong_order_has_a_fidelity_gradient_of_zero():
    """The root of σ(−1e4) = 0 would have an infinite one."""
    scores = torch.tensor([[-1e4, 1e4]], requires_grad=True)
    value = fidelity_loss(scores, torch.tensor([[1, 0]]))
    value.sum().backward()
    assert value.tolist() == [1.0]
    assert scores.grad.tolist() == [[0.0, 0.0]]
