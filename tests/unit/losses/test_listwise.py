"""Listwise losses against slow, obvious ones."""

from __future__ import annotations

import time
from itertools import permutations
from math import exp, log

import numpy as np
import pytest
import torch

from placings.core.errors import BadInput, UnknownName
from placings.losses import (
    approx_mrr_loss,
    approx_ndcg_loss,
    listmle_loss,
    listnet_loss,
    neural_ndcg_loss,
    soft_ranks,
    softmax_loss,
    stochastic,
)
from placings.losses.lists import as_lists, discount_ranks, normalize_gains
from placings.metrics import mrr, ndcg

DOUBLE = torch.float64


def make_lists(seed=0, queries=6, items=9, dtype=DOUBLE):
    rng = torch.Generator().manual_seed(seed)
    scores = torch.randn(queries, items, generator=rng, dtype=dtype)
    labels = torch.multinomial(torch.tensor([5.0, 3, 2, 1, 1]), queries * items, True, generator=rng)
    sizes = torch.randint(1, items + 1, (queries, 1), generator=rng)
    return scores, labels.view(queries, items), torch.arange(items) < sizes


def rank_every_item(scores, labels, mask, *, k=None, temperature=0.1, tau=1.0):
    """ApproxNDCG with the whole [item, item] matrix of each query, as autograd sees it."""
    gains = normalize_gains(as_lists(scores, labels, mask, None), k, "exp2")
    above = torch.sigmoid((scores.unsqueeze(-2) - scores.unsqueeze(-1)) / temperature) * mask.unsqueeze(-2)
    ranks = above.sum(-1) + 0.5
    values = gains * discount_ranks(ranks)
    if k is not None:
        values = values * torch.sigmoid((k + 0.5 - ranks) / tau)
    return -(values * mask).sum(-1)


# -- softmax and ListNet ---------------------------------------------------------------------------------


def test_softmax_is_the_cross_entropy_of_the_labels():
    value = softmax_loss(
        torch.tensor([[1.0, 2.0, 9.0]]), torch.tensor([[2, 1, 4]]), torch.tensor([[True, True, False]])
    )
    assert value.item() == pytest.approx(2 * log(1 + exp(1.0)) + log(1 + exp(-1.0)), rel=1e-6)


def test_normalized_softmax_divides_by_the_sum_of_labels():
    scores, labels, mask = make_lists()
    total = (labels * mask).sum(-1).clamp(min=1)
    assert torch.allclose(
        softmax_loss(scores, labels, mask, normalize=True) * total, softmax_loss(scores, labels, mask)
    )


def test_listnet_is_least_when_the_scores_are_the_labels():
    labels = torch.tensor([[2, 0, 1]])
    best = listnet_loss(labels.to(DOUBLE), labels).item()
    p = np.exp([2.0, 0.0, 1.0]) / np.exp([2.0, 0.0, 1.0]).sum()
    assert best == pytest.approx(-(p * np.log(p)).sum())
    assert listnet_loss(torch.tensor([[1.9, 0.2, 1.0]], dtype=DOUBLE), labels).item() > best


# -- ListMLE ---------------------------------------------------------------------------------------------


def test_listmle_is_the_likelihood_of_one_of_all_orders():
    scores = torch.tensor([0.3, -1.2, 2.1], dtype=DOUBLE)
    likelihoods = []
    for order in permutations(range(3)):
        labels = torch.tensor([[3 - order.index(item) for item in range(3)]])
        likelihoods.append(listmle_loss(scores[None], labels).neg().exp().item())
    assert sum(likelihoods) == pytest.approx(1.0)
    assert likelihoods[0] == pytest.approx(
        exp(0.3) / (exp(0.3) + exp(-1.2) + exp(2.1)) * exp(-1.2) / (exp(-1.2) + exp(2.1))
    )


def test_listmle_ties_stand_in_item_order_or_are_shuffled():
    scores, labels = torch.tensor([[2.0, 0.0, 1.0]], dtype=DOUBLE), torch.tensor([[1, 1, 0]])
    stable = listmle_loss(scores, labels).item()
    assert stable == listmle_loss(scores, torch.tensor([[2, 1, 0]])).item()
    other = listmle_loss(scores, torch.tensor([[1, 2, 0]])).item()
    rng = torch.Generator().manual_seed(0)
    drawn = [listmle_loss(scores, labels, generator=rng).item() for _ in range(40)]
    assert {round(value, 9) for value in drawn} == {round(stable, 9), round(other, 9)}
    assert 8 <= sum(value == pytest.approx(stable) for value in drawn) <= 32


def test_listmle_shuffles_only_ties():
    scores, mask = torch.randn(1, 6, dtype=DOUBLE), torch.tensor([[True] * 5 + [False]])
    labels = torch.tensor([[4, 2, 0, 3, 1, 9]])
    shuffled = listmle_loss(scores, labels, mask, generator=torch.Generator().manual_seed(3))
    assert torch.equal(shuffled, listmle_loss(scores, labels, mask))


# -- ApproxNDCG ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 1, 3])
@pytest.mark.parametrize("budget", [1, 40, soft_ranks.CACHE])
@pytest.mark.parametrize("rows", [None, 9])
def test_ranks_of_rows_with_gain_are_enough(monkeypatch, k, budget, rows):
    """Equal in value and gradient to the full matrix, in one piece or in many, with draws or without."""
    monkeypatch.setattr(soft_ranks, "CACHE", budget)
    scores, labels, mask = make_lists()
    labels[2] = 0
    for given in (scores, torch.stack([scores, -scores, 2 * scores])):
        ours, full = given.clone().requires_grad_(), given.clone().requires_grad_()
        weights = torch.arange(1.0, 7.0, dtype=DOUBLE)
        value = approx_ndcg_loss(ours, labels, mask, k=k, weights=weights, rows=rows)
        expected = rank_every_item(full, labels, mask, k=k) * weights
        assert torch.allclose(value, expected, rtol=1e-12, atol=1e-14)
        value.sum().backward()
        expected.sum().backward()
        assert torch.allclose(ours.grad, full.grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("k", [None, 2, 5])
def test_far_apart_scores_make_it_the_metric(k):
    scores, labels, mask = make_lists(3)
    spread = scores.argsort(-1).argsort(-1) * 10.0
    value = approx_ndcg_loss(spread.to(DOUBLE), labels, mask, k=k, cutoff_temperature=0.01)
    for query in range(len(scores)):
        real = mask[query]
        metric = ndcg(spread[query][real].numpy(), labels[query][real].numpy(), k=k, empty="zero")[0]
        assert -value[query].item() == pytest.approx(metric, abs=1e-9)


def test_a_cutoff_is_a_sigmoid_of_the_rank():
    """Ranks 1 and 2, k = 1: σ(±½ / τ); the ideal DCG@1 is that of the better item alone."""
    value = approx_ndcg_loss(
        torch.tensor([[900.0, 0.0]], dtype=DOUBLE), torch.tensor([[1, 2]]), k=1, cutoff_temperature=0.5
    ).item()
    first, second = 1 / (1 + exp(-0.5 / 0.5)), 1 / (1 + exp(0.5 / 0.5))
    assert value == pytest.approx(-(1 / 3 * first + second / np.log2(3)))


def test_too_few_rows_make_a_query_nan_and_no_other():
    scores, labels = torch.zeros(2, 3), torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert approx_ndcg_loss(scores, labels, rows=1).isnan().tolist() == [True, False]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # torch's own
def test_a_bound_on_rows_leaves_no_shape_to_the_values():
    """So the loss is one graph, which is what CUDA graphs and compilers ask for."""
    scores, labels, mask = make_lists()
    compiled = torch.compile(
        lambda given: approx_ndcg_loss(given, labels, mask, k=3, rows=9), fullgraph=True, backend="eager"
    )
    ours, plain = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    compiled(ours).sum().backward()
    approx_ndcg_loss(plain, labels, mask, k=3).sum().backward()
    torch.testing.assert_close(ours.grad, plain.grad, rtol=1e-9, atol=1e-12)


def test_rows_with_gain_are_faster_than_all_pairs():
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(32, 120, generator=rng)
    labels = torch.multinomial(torch.tensor([0.85, 0.1, 0.03, 0.02]), 32 * 120, True, generator=rng).view(
        32, 120
    )
    mask = torch.ones(32, 120, dtype=torch.bool)
    noise = torch.zeros(8, 32, 120)

    def clock(loss):
        seconds = []
        for _ in range(3):
            given = scores.clone().requires_grad_()
            start = time.perf_counter()
            stochastic(loss, 8)(given, labels, mask, noise=noise).sum().backward()
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    assert clock(approx_ndcg_loss) < clock(rank_every_item)  # about 50 times, on a quiet machine


def test_half_precision_is_computed_in_float32():
    scores, labels, mask = make_lists(dtype=torch.float32)
    half = scores.to(torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = approx_ndcg_loss(half, labels, mask)
    assert value.dtype == torch.float32
    assert torch.equal(value, approx_ndcg_loss(half.float(), labels, mask))


# -- ApproxMRR and NeuralNDCG ----------------------------------------------------------------------------


@pytest.mark.parametrize(("reciprocal", "expected"), [("all", (4 / 2 + 1 / 4) / 5), ("first", 1 / 2)])
def test_approx_mrr_is_of_all_relevant_items_or_of_the_first(reciprocal, expected):
    scores, labels = torch.tensor([[40.0, 30, 20, 10]], dtype=DOUBLE), torch.tensor([[0, 4, 0, 1]])
    assert -approx_mrr_loss(scores, labels, reciprocal=reciprocal).item() == pytest.approx(expected)
    assert mrr([40, 30, 20, 10], [0, 4, 0, 1])[0] == 1 / 2


def test_approx_mrr_stops_at_a_cutoff():
    scores, labels = torch.tensor([[40.0, 30, 20, 10]], dtype=DOUBLE), torch.tensor([[0, 0, 0, 1]])
    assert approx_mrr_loss(scores, labels, k=3).item() == pytest.approx(-1 / 4 / (1 + exp(0.5)))
    with pytest.raises(UnknownName, match="no reciprocal 'best'"):
        approx_mrr_loss(scores, labels, reciprocal="best")


@pytest.mark.parametrize("k", [None, 2, 5])
def test_neural_ndcg_of_a_cold_sort_is_the_metric(k):
    scores, labels, mask = make_lists(3)
    value = neural_ndcg_loss(scores, labels, mask, k=k, temperature=1e-6)
    for query in range(len(scores)):
        real = mask[query]
        metric = ndcg(scores[query][real].numpy(), labels[query][real].numpy(), k=k, empty="zero")[0]
        assert -value[query].item() == pytest.approx(metric, abs=1e-9)


# -- what is refused -------------------------------------------------------------------------------------


def test_settings_are_checked():
    pair = torch.zeros(1, 2), torch.tensor([[1, 0]])
    with pytest.raises(BadInput, match="temperature must be a finite number above 0. Got 0"):
        approx_ndcg_loss(*pair, temperature=0)
    with pytest.raises(BadInput, match="k must be a whole number of 1 or more, or None.* Got 2.5"):
        approx_ndcg_loss(*pair, k=2.5)
    with pytest.raises(UnknownName, match="no gain 'cubic'"):
        approx_ndcg_loss(*pair, gain="cubic")
    with pytest.raises(BadInput, match="rows must be 0 or more"):
        approx_ndcg_loss(*pair, rows=-1)


# -- weights of items ------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [None, 3])
def test_an_items_weight_multiplies_its_gain_in_approx_ndcg(k):
    scores, labels, mask = make_lists()
    weights = torch.rand(labels.shape, generator=torch.Generator().manual_seed(1), dtype=DOUBLE) * 4
    ours, full = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    value = approx_ndcg_loss(ours, labels, mask, k=k, weights=weights)
    gains = normalize_gains(as_lists(full, labels, mask, None), k, "exp2")
    above = torch.sigmoid((full.unsqueeze(-2) - full.unsqueeze(-1)) / 0.1) * mask.unsqueeze(-2)
    terms = weights * gains * discount_ranks(above.sum(-1) + 0.5)
    if k is not None:
        terms = terms * torch.sigmoid(k + 0.5 - (above.sum(-1) + 0.5))
    expected = -(terms * mask).sum(-1)
    torch.testing.assert_close(value, expected, rtol=1e-10, atol=1e-12)
    value.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad, full.grad, rtol=1e-8, atol=1e-10)


def test_an_items_weight_multiplies_its_reciprocal_rank():
    scores, labels = torch.tensor([[100.0, 50.0, 0.0]]), torch.tensor([[0, 1, 1]])
    weights = torch.tensor([[7.0, 2.0, 3.0]])
    value = approx_mrr_loss(scores, labels, weights=weights)  # ranks 2 and 3, a share of ½ each
    assert value.item() == pytest.approx(-(2.0 / 2 + 3.0 / 3) / 2)
    first = approx_mrr_loss(scores, labels, weights=weights, reciprocal="first")
    assert first.item() == pytest.approx(-2.0 / 2)


def test_an_items_weight_multiplies_its_gain_in_neural_ndcg():
    scores, labels = torch.tensor([[100.0, 0.0]]), torch.tensor([[1, 1]])
    value = neural_ndcg_loss(scores, labels, weights=torch.tensor([[2.0, 3.0]]), temperature=0.1)
    ideal = 1 + 1 / np.log2(3)
    assert value.item() == pytest.approx(-(2 + 3 / np.log2(3)) / ideal, rel=1e-6)


@pytest.mark.parametrize("loss", [approx_ndcg_loss, approx_mrr_loss, neural_ndcg_loss])
def test_a_list_may_be_weighed_as_a_whole_and_one_click_is_the_same_either_way(loss):
    scores, labels = torch.tensor([[0.3, 1.0, -0.5]]), torch.tensor([[0, 2, 1]])
    weights = torch.tensor([[9.0, 2.0, 5.0]])
    whole = loss(scores, labels, weights=weights, weigh="list")
    assert whole.item() == pytest.approx((2 * 2 + 5 * 1) / 3 * loss(scores, labels).item(), rel=1e-6)
    click = torch.tensor([[0, 1, 0]])
    terms, one = loss(scores, click, weights=weights), loss(scores, click, weights=weights, weigh="list")
    assert terms.item() == pytest.approx(one.item(), rel=1e-6)
    with pytest.raises(UnknownName, match="no weighing of items 'row'"):
        loss(scores, labels, weigh="row")
